//! The sandbox of the process: one engine, one linker, one cache, and the guests that are ready.
//!
//! Owns the order of preparation: known already, else from the cache, else compiled, one at a time and off the threads that
//! serve jobs. It must not know how a job runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use job::BoxFuture;
use job::executor::{Executor, Guest, GuestSource, PrepareError, SandboxSettings};
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

use crate::cache::{Cache, CacheError, Key, hex};
use crate::convert::to_component;
use crate::places::{self, PlacesError};
use crate::pool;
use crate::prepare;
use crate::run::ReadyGuest;
use crate::state::State;

/// Guests that are compiled at the same time. A compiler keeps a processor busy for up to half a minute.
const COMPILERS: usize = 1;

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The system cannot hold as many instances.
    #[error(transparent)]
    Places(#[from] PlacesError),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// wasmtime could not be set up.
    #[error(
        "the WebAssembly engine cannot hold {max_live} instances here: {why}; lower limits.max_live, or lift the limit on address space (ulimit -v)"
    )]
    Engine {
        /// What was asked for.
        max_live: u32,
        /// What wasmtime said.
        why: String,
    },
}

/// The executor port on wasmtime. One in a process; clones share everything.
#[derive(Clone)]
pub struct Sandbox {
    shared: Arc<Shared>,
}

struct Shared {
    engine: Engine,
    linker: Linker<State>,
    cache: Cache,
    compilers: Arc<Semaphore>,
    /// Guests in use, by content: whoever drops the last reference to one frees its code.
    ready: Mutex<HashMap<[u8; 32], Weak<ReadyGuest>>>,
    memory_bytes_max: u64,
}

impl Sandbox {
    /// Sets the engine up. Refuses at once what would fail later: too many instances for this system, a cache that others may
    /// write to.
    pub fn new(settings: &SandboxSettings) -> Result<Self, SandboxError> {
        places::check(settings.max_live)?;
        let cache = Cache::open(&settings.cache_dir)?;
        let broken = |error: wasmtime::Error| SandboxError::Engine { max_live: settings.max_live, why: format!("{error:#}") };
        let engine = pool::engine(settings.max_live).map_err(broken)?;
        let linker = prepare::linker(&engine).map_err(broken)?;
        let compilers = Arc::new(Semaphore::new(COMPILERS));
        let memory_bytes_max = settings.memory_bytes_max;
        Ok(Self { shared: Arc::new(Shared { engine, linker, cache, compilers, ready: Mutex::default(), memory_bytes_max }) })
    }

    /// Instances alive now, for the gauge.
    pub fn live(&self) -> u64 {
        self.shared.engine.pooling_allocator_metrics().map_or(0, |metrics| metrics.component_instances())
    }
}

impl Executor for Sandbox {
    fn prepare(&self, source: GuestSource) -> BoxFuture<'static, Result<Arc<dyn Guest>, PrepareError>> {
        let shared = self.shared.clone();
        Box::pin(async move {
            let guest = shared.prepare(source).await?;
            Ok(guest as Arc<dyn Guest>)
        })
    }
}

impl Shared {
    async fn prepare(self: Arc<Self>, source: GuestSource) -> Result<Arc<ReadyGuest>, PrepareError> {
        if source.bytes.len() > prepare::GUEST_BYTES_MAX {
            return Err(prepare::too_large(&source.name, source.bytes.len()));
        }
        let name = source.name.clone();
        let (here, bytes) = (self.clone(), source.bytes.clone());
        // Hashing and mapping take a moment for a large guest, so even they happen on a thread of their own.
        let (content, found) = on_a_thread(&name, move || {
            let content: [u8; 32] = Sha256::digest(&bytes).into();
            let found = here.known(&content).map(Ok).or_else(|| here.cached(&content, &source.name));
            (content, found)
        })
        .await?;
        if let Some(found) = found {
            return found;
        }
        let permit =
            self.compilers.clone().acquire_owned().await.map_err(|_| prepare::no_thread(&name, "it is shutting down"))?;
        // Somebody may have compiled the same bytes while this call waited.
        if let Some(known) = self.known(&content) {
            return Ok(known);
        }
        let here = self.clone();
        let (label, bytes) = (name.clone(), source.bytes);
        on_a_thread(&name, move || here.compile(&content, &label, &bytes, permit)).await?
    }

    fn known(&self, content: &[u8; 32]) -> Option<Arc<ReadyGuest>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).get(content).and_then(Weak::upgrade)
    }

    fn cached(&self, content: &[u8; 32], name: &str) -> Option<Result<Arc<ReadyGuest>, PrepareError>> {
        let component = self.cache.load(&self.engine, &Key::new(&self.engine, content))?;
        tracing::debug!(guest = name, "compiled code mapped from the cache");
        Some(self.remember(content, name, &component))
    }

    /// Holds its permit to the end, even if the caller has gone, so that there is never a second compiler.
    fn compile(
        &self,
        content: &[u8; 32],
        name: &str,
        bytes: &[u8],
        permit: OwnedSemaphorePermit,
    ) -> Result<Arc<ReadyGuest>, PrepareError> {
        let begun = std::time::Instant::now();
        let component = to_component(bytes).map_err(|error| prepare::not_wasm(name, &error))?;
        let component = Component::new(&self.engine, &component).map_err(|error| prepare::not_compiled(name, &error))?;
        let guest = self.remember(content, name, &component)?;
        let kept = component
            .serialize()
            .map_err(|error| format!("{error:#}"))
            .and_then(|code| self.cache.save(&Key::new(&self.engine, content), &code).map_err(|error| error.to_string()));
        if let Err(why) = kept {
            tracing::warn!(guest = name, "compiled code is not cached, the next start compiles it again: {why}");
        }
        tracing::info!(guest = name, took_ms = begun.elapsed().as_millis(), "compiled");
        drop(permit);
        Ok(guest)
    }

    /// Makes a component ready, unless somebody else was faster.
    fn remember(&self, content: &[u8; 32], name: &str, component: &Component) -> Result<Arc<ReadyGuest>, PrepareError> {
        let hash = format!("sha256:{}", hex(content)).into();
        let guest = Arc::new(prepare::ready(&self.linker, component, name, hash, self.memory_bytes_max)?);
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(faster) = ready.get(content).and_then(Weak::upgrade) {
            return Ok(faster);
        }
        ready.retain(|_, guest| guest.strong_count() > 0);
        ready.insert(*content, Arc::downgrade(&guest));
        Ok(guest)
    }
}

/// Does slow work on a thread that nobody else waits for, and that does not hold up the end of the process.
async fn on_a_thread<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<T, PrepareError> {
    let (done, result) = oneshot::channel();
    std::thread::Builder::new()
        .name("prepare".into())
        .spawn(move || {
            // Nobody listens any more when the caller has gone; the cache keeps what was compiled.
            let _ = done.send(work());
        })
        .map_err(|error| prepare::no_thread(name, &error.to_string()))?;
    result.await.map_err(|_| prepare::no_thread(name, "the thread that did it has died"))
}
