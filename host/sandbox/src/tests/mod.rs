//! The behaviour of the sandbox, shown on real guests: each way a guest can end or do harm, and what the host makes of it.
//!
//! Owns the bench the tests share: one sandbox, the committed guests, a listener, and a work order to start from.

mod cached;
mod endings;
mod fairness;
mod guests;
mod isolation;
mod measured;
mod refused;
mod speaking;

use std::fs;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use futures::FutureExt;
use job::executor::{End, Executor, Grants, Guest, GuestSource, Host, Limits, LogLevel, Ran, SandboxSettings, Work};
use job::ids::{AgentId, Door, JobId, JobKey, Owner};
use job::json::JsonText;
use job::lineage::Lineage;
use tokio::runtime::Runtime;

use crate::{Sandbox, guest_runtime};

/// A mebibyte.
const MIB: u64 = 1 << 20;
/// Instances the shared sandbox holds.
const PLACES: u32 = 256;
/// The largest memory an entry may get in these tests, in bytes.
const MEMORY_MAX: u64 = 256 * MIB;

/// The sandbox, its guests and the threads they run on, shared by all tests of the process.
struct Bench {
    sandbox: Sandbox,
    runtime: Runtime,
    mischief: Arc<dyn Guest>,
    prompt: Arc<dyn Guest>,
    review: Arc<dyn Guest>,
}

static BENCH: LazyLock<Bench> = LazyLock::new(|| {
    let runtime = guest_runtime(2).expect("runtime");
    // Beside the test binary, so that the next run finds the compiled guests.
    let cache_dir = std::env::current_exe().expect("path").with_file_name("compiled-guests");
    let sandbox = Sandbox::new(&settings(&cache_dir)).expect("sandbox");
    let ready = |name| runtime.block_on(sandbox.prepare(guest_source(name))).expect("ready");
    let (mischief, prompt, review) = (ready("mischief"), ready("prompt"), ready("review"));
    Bench { mischief, prompt, review, sandbox, runtime }
});

fn settings(cache_dir: &Path) -> SandboxSettings {
    SandboxSettings { cache_dir: cache_dir.to_owned(), max_live: PLACES, memory_bytes_max: MEMORY_MAX }
}

/// A folder in the repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The component of a guest: the committed one, or the one `guests/build --rebuilt` has just made.
fn guest_file(name: &str) -> PathBuf {
    if let Some(rebuilt) = std::env::var_os("REBUILT_GUESTS") {
        return Path::new(&rebuilt).join(format!("{name}.wasm"));
    }
    if name == "core" {
        return repository().join("tests/house/guests/core.wasm");
    }
    let line = guests::locked().into_iter().find(|line| line.name == name).expect("a guest of the lock file");
    repository().join(line.place)
}

fn guest_source(name: &str) -> GuestSource {
    source_of(name, &fs::read(guest_file(name)).expect("the guest's file"))
}

fn source_of(name: &str, bytes: &[u8]) -> GuestSource {
    GuestSource { name: format!("{name}.wasm"), bytes: bytes.into() }
}

/// What a run was given, so that a test changes only what it is about.
struct Order {
    args: String,
    prompt: String,
    limits: Limits,
    grants: Grants,
    stop: job::BoxFuture<'static, ()>,
}

fn order(args: &str) -> Order {
    let limits = Limits { timeout_ms: 60_000, fuel: 10_000_000_000, memory_bytes: 16 * MIB, output_bytes: 512 << 10 };
    Order { args: args.into(), prompt: String::new(), limits, grants: Grants::default(), stop: pending().boxed() }
}

impl Order {
    fn timeout(mut self, timeout_ms: u64) -> Self {
        self.limits.timeout_ms = timeout_ms;
        self
    }

    fn fuel(mut self, fuel: u64) -> Self {
        self.limits.fuel = fuel;
        self
    }

    fn memory(mut self, memory_bytes: u64) -> Self {
        self.limits.memory_bytes = memory_bytes;
        self
    }

    fn stop(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stop = stop.boxed();
        self
    }

    fn work(self) -> Work {
        let job = JobId::parse("rev-118").expect("id");
        let key = JobKey {
            agent: AgentId::parse("reviewer").expect("id"),
            door: Door::Mesh,
            owner: Owner::from_requested_by("mohanad").expect("owner"),
            job: job.clone(),
        };
        Work {
            key,
            service: "schema.review".into(),
            args: JsonText::check(self.args.as_bytes()).expect("JSON"),
            prompt: self.prompt.into(),
            lineage: Lineage { parent: JobId::parse("dep-1").ok(), root: JobId::parse("dep-0").expect("id"), depth: 2 },
            attempt: 3,
            limits: self.limits,
            grants: self.grants,
            deadline: Instant::now() + Duration::from_millis(self.limits.timeout_ms),
            stop: self.stop,
        }
    }

    /// Runs it on the guests' threads, as the engine does.
    fn run(self, guest: &Arc<dyn Guest>) -> Ran {
        BENCH.runtime.block_on(BENCH.runtime.spawn(guest.run(self.work(), Arc::new(Listener::default())))).expect("ran")
    }

    /// Runs it on `mischief`.
    fn end(self) -> End {
        self.run(&BENCH.mischief).end
    }
}

/// A way of `mischief`, with a number and a text.
fn way(word: &str, n: u64, text: &str) -> Order {
    order(&serde_json::json!({ "do": word, "n": n, "text": text }).to_string())
}

/// The body of an answer.
fn body(end: End) -> String {
    match end {
        End::Answered { body, .. } => body,
        other => panic!("not answered: {other:?}"),
    }
}

/// Keeps what a guest said.
#[derive(Default)]
struct Listener {
    progress: Mutex<Vec<String>>,
    log: Mutex<Vec<(LogLevel, String)>>,
}

impl Host for Listener {
    fn progress(&self, message: &str) {
        self.progress.lock().expect("lock").push(message.to_owned());
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.log.lock().expect("lock").push((level, message.to_owned()));
    }
}
