//! `bench sandbox`: a trivial job in a fresh instance, and runaway guests, on the sandbox crate itself.
//!
//! Owns the comparison with [`crate::bare`]: the same guest, the same thread, batches in turn, so that both feel the same
//! machine. It must not know how the sandbox is made.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use house::node::root;
use job::executor::{End, Executor, Grants, Guest, GuestSource, Host, Limits, LogLevel, Ran, SandboxSettings, Work};
use job::ids::{AgentId, Door, JobId, JobKey, Owner};
use job::json::JsonText;
use job::lineage::Lineage;
use sandbox::Sandbox;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::Plan;
use crate::bare::Bare;
use crate::report::{Bar, Report};
use crate::stats::{median, percentile};

/// Jobs of one batch before the other side has its turn.
const BATCH: u64 = 500;
/// Tasks that hand in jobs at once when throughput is measured.
const TASKS: u64 = 64;
const PROMPT: &str = "Review migration V7 for lock risk and missing indexes.";
const SPINS: usize = 100;
const SPINNERS: usize = 64;
const SPIN_MS: u64 = 100;
const RATIO: f64 = 1.3;

struct Silent;

impl Host for Silent {
    fn progress(&self, _message: &str) {}
    fn log(&self, _level: LogLevel, _message: &str) {}
}

/// What the sandbox needs of a job, made once and cloned cheaply, as the engine does.
#[derive(Clone)]
struct Order {
    agent: AgentId,
    owner: Owner,
    service: Arc<str>,
    args: JsonText,
    prompt: Arc<str>,
    timeout: Duration,
}

impl Order {
    fn new(args: &str, timeout: Duration) -> Result<Self> {
        let (agent, owner) = (AgentId::parse("bench")?, Owner::from_slug("load")?);
        Ok(Self { agent, owner, service: "bench.answer".into(), args: JsonText::trusted(args), prompt: PROMPT.into(), timeout })
    }

    fn work(&self, number: u64, stop: job::BoxFuture<'static, ()>) -> Result<Work> {
        let id = JobId::parse(&format!("b{number}"))?;
        let key = JobKey { agent: self.agent.clone(), door: Door::Mesh, owner: self.owner.clone(), job: id.clone() };
        let limits = Limits {
            timeout_ms: u64::try_from(self.timeout.as_millis())?,
            fuel: 10_000_000_000_000,
            memory_bytes: 64 << 20,
            output_bytes: 512 << 10,
        };
        Ok(Work {
            key,
            service: self.service.clone(),
            args: self.args.clone(),
            prompt: self.prompt.clone(),
            lineage: Lineage::root(id),
            attempt: 1,
            limits,
            grants: Grants::default(),
            deadline: Instant::now() + self.timeout,
            stop,
        })
    }
}

/// Runs everything and reports.
pub(crate) fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    eprintln!("sandbox");
    let dir = TempDir::new()?;
    let settings = SandboxSettings { cache_dir: dir.path().join("cache"), max_live: 1000, memory_bytes_max: 1 << 30 };
    let sandbox = Sandbox::new(&settings)?;
    let runtime = sandbox::guest_runtime(2)?;
    let trivial = std::fs::read(root().join("guests/prompt/prompt.wasm"))?;
    let bare = Arc::new(Bare::new(&trivial)?);
    let ours = prepared(&runtime, &sandbox, "prompt", trivial)?;
    let stretch = Duration::from_secs(plan.seconds * u64::try_from(plan.rounds)?);
    latency(&bare, &ours, stretch, report)?;
    throughput(&runtime, &bare, &ours, plan, report)?;
    let spinner = std::fs::read(root().join("tests/house/guests/mischief.wasm"))?;
    let spinner = prepared(&runtime, &sandbox, "mischief", spinner)?;
    runaways(&runtime, &spinner, &ours, report)
}

fn prepared(runtime: &Runtime, sandbox: &Sandbox, name: &str, bytes: Vec<u8>) -> Result<Arc<dyn Guest>> {
    Ok(runtime.block_on(sandbox.prepare(GuestSource { name: name.into(), bytes: bytes.into() }))?)
}

async fn run_ours(guest: &Arc<dyn Guest>, order: &Order, number: u64) -> Result<()> {
    let ran = guest.run(order.work(number, Box::pin(std::future::pending()))?, Arc::new(Silent)).await;
    ensure!(matches!(ran.end, End::Answered { .. }), "a trivial job ended with {:?}", ran.end);
    Ok(())
}

/// One job after the other on one thread, batches in turn.
fn latency(bare: &Arc<Bare>, ours: &Arc<dyn Guest>, stretch: Duration, report: &mut Report) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let order = Order::new("{}", Duration::from_secs(60))?;
    let (mut bare_us, mut ours_us, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let end = Instant::now() + stretch;
    while Instant::now() < end {
        let (base, node) = runtime.block_on(async {
            let mut base = Vec::new();
            let mut node = Vec::new();
            for number in 0..BATCH {
                let start = Instant::now();
                bare.run(number, PROMPT).await?;
                base.push(start.elapsed().as_secs_f64() * 1e6);
            }
            for number in 0..BATCH {
                let start = Instant::now();
                run_ours(ours, &order, number).await?;
                node.push(start.elapsed().as_secs_f64() * 1e6);
            }
            anyhow::Ok((base, node))
        })?;
        ratios.push(median(&node) / median(&base));
        bare_us.extend(base);
        ours_us.extend(node);
    }
    let (base, node) = (median(&bare_us), median(&ours_us));
    report.ratio("trivial job, fresh instance, p50", node, base, "us", median(&ratios), Bar::AtMost(RATIO));
    let (base, node) = (percentile(&bare_us, 99.0), percentile(&ours_us, 99.0));
    report.ratio("trivial job, fresh instance, p99", node, base, "us", node / base, Bar::Shown);
    Ok(())
}

/// As many jobs as both cores can do, in turns.
fn throughput(runtime: &Runtime, bare: &Arc<Bare>, ours: &Arc<dyn Guest>, plan: &Plan, report: &mut Report) -> Result<()> {
    let order = Order::new("{}", Duration::from_secs(60))?;
    let (mut base, mut node) = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let bare = bare.clone();
        base.push(flood(runtime, plan.seconds, move |number| {
            let bare = bare.clone();
            async move { bare.run(number, PROMPT).await.map(drop) }
        })?);
        let (ours, order) = (ours.clone(), order.clone());
        node.push(flood(runtime, plan.seconds, move |number| {
            let (ours, order) = (ours.clone(), order.clone());
            async move { run_ours(&ours, &order, number).await }
        })?);
    }
    let ratios: Vec<f64> = node.iter().zip(&base).map(|(node, base)| node / base).collect();
    report.ratio("trivial jobs on all cores", median(&node), median(&base), "jobs/s", median(&ratios), Bar::AtLeast(1.0 / RATIO));
    Ok(())
}

fn flood<F, R>(runtime: &Runtime, seconds: u64, one: F) -> Result<f64>
where
    F: Fn(u64) -> R + Clone + Send + 'static,
    R: Future<Output = Result<()>> + Send,
{
    let start = Instant::now();
    let end = start + Duration::from_secs(seconds);
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let one = one.clone();
            runtime.spawn(async move {
                let mut done = 0_u64;
                while Instant::now() < end {
                    one(task * 1_000_000 + done).await?;
                    done += 1;
                }
                anyhow::Ok(done)
            })
        })
        .collect();
    let mut total = 0;
    for task in tasks {
        total += runtime.block_on(task)??;
    }
    #[expect(clippy::cast_precision_loss, reason = "a count of jobs")]
    let total = total as f64;
    Ok(total / start.elapsed().as_secs_f64())
}

/// How long past its deadline one spinner runs, in ms.
async fn overshoot(guest: &Arc<dyn Guest>, order: &Order, number: u64) -> Result<f64> {
    let work = order.work(number, Box::pin(std::future::pending()))?;
    let deadline = work.deadline;
    let ran: Ran = guest.run(work, Arc::new(Silent)).await;
    ensure!(ran.end == End::PastDeadline, "a spinner ended with {:?}", ran.end);
    Ok(Instant::now().saturating_duration_since(deadline).as_secs_f64() * 1e3)
}

fn runaways(runtime: &Runtime, spinner: &Arc<dyn Guest>, ordinary: &Arc<dyn Guest>, report: &mut Report) -> Result<()> {
    let spin = Order::new(r#"{"do":"loop"}"#, Duration::from_millis(SPIN_MS))?;
    let plain = Order::new("{}", Duration::from_secs(60))?;
    let alone = spawned(runtime, {
        let (spinner, spin) = (spinner.clone(), spin.clone());
        async move {
            let mut alone = Vec::new();
            for number in 0..SPINS {
                alone.push(overshoot(&spinner, &spin, number as u64).await?);
            }
            anyhow::Ok(alone)
        }
    })?;
    report.plain("runaway alone, past its deadline, p99", percentile(&alone, 99.0), "ms", Bar::AtMost(10.0));
    let cancels = spawned(runtime, cancelled(spinner.clone(), spin.clone()))?;
    report.plain("runaway alone, past its cancel, p99", percentile(&cancels, 99.0), "ms", Bar::AtMost(5.0));

    let crowd: Vec<_> = (0..SPINNERS)
        .map(|task| {
            let (spinner, spin) = (spinner.clone(), spin.clone());
            runtime.spawn(async move {
                let mut past = Vec::new();
                for number in 0..20 {
                    past.push(overshoot(&spinner, &spin, (task * 1000 + number) as u64).await?);
                }
                anyhow::Ok(past)
            })
        })
        .collect();
    let beside = ordinary_beside(runtime, ordinary, &plain)?;
    let mut past = Vec::new();
    for task in crowd {
        past.extend(runtime.block_on(task)??);
    }
    report.plain("64 runaways, past their deadline, p99", percentile(&past, 99.0), "ms", Bar::AtMost(25.0));
    report.plain("ordinary job beside 64 runaways, p99", percentile(&beside, 99.0), "ms", Bar::AtMost(50.0));
    Ok(())
}

/// Ordinary jobs handed in from a thread that is not the guests' own, as doors do; each one's time in ms.
fn ordinary_beside(runtime: &Runtime, ordinary: &Arc<dyn Guest>, plain: &Order) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    let end = Instant::now() + Duration::from_millis(SPIN_MS * 18);
    while Instant::now() < end {
        let start = Instant::now();
        let (ordinary, plain, number) = (ordinary.clone(), plain.clone(), times.len() as u64);
        runtime.block_on(runtime.spawn(async move { run_ours(&ordinary, &plain, number).await }))??;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(times)
}

/// Cancels spinners in mid-run; the time from the word to the end of the run, in ms.
async fn cancelled(spinner: Arc<dyn Guest>, spin: Order) -> Result<Vec<f64>> {
    let spin = Order { timeout: Duration::from_secs(30), ..spin };
    let mut times = Vec::new();
    for number in 0..SPINS {
        let (stop, stopped) = oneshot::channel::<()>();
        let work = spin.work(number as u64, Box::pin(async { drop(stopped.await) }))?;
        let spinner = spinner.clone();
        let running = tokio::spawn(async move { (spinner.run(work, Arc::new(Silent)).await, Instant::now()) });
        tokio::time::sleep(Duration::from_millis(20)).await;
        let said = Instant::now();
        stop.send(()).ok().context("the run was over before its cancel")?;
        let (ran, over) = running.await?;
        ensure!(ran.end == End::Stopped, "a cancelled spinner ended with {:?}", ran.end);
        times.push(over.saturating_duration_since(said).as_secs_f64() * 1e3);
    }
    Ok(times)
}

fn spawned<T: Send + 'static>(runtime: &Runtime, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    runtime.block_on(runtime.spawn(work))?
}
