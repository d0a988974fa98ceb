//! The state of one run: everything its store holds, and nothing of any other run.
//!
//! Owns what WASI shows a guest: its granted environment, and else nothing (DESIGN invariant 6). It must not know the engine.

use std::sync::Arc;

use job::executor::{Grants, Host, Limits};
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::bindings::amp::capability::types;
use crate::limiter::Limiter;
use crate::speech::Speech;
use crate::words::LastWords;

/// WASI handles (timers, streams) a guest may hold at once.
pub(crate) const HANDLES_MAX: usize = 1_000;
/// Random bytes a guest may ask for in one call; they are made while nobody else has the thread.
const RANDOM_BYTES_MAX: u64 = 64 << 10;

/// What the store of one run holds.
pub(crate) struct State {
    /// Memory and tables.
    pub(crate) limiter: Limiter,
    /// Who listens to the guest.
    pub(crate) host: Arc<dyn Host>,
    /// How much the guest has said.
    pub(crate) speech: Speech,
    /// The tail of its stdout, stderr and error lines.
    pub(crate) words: LastWords,
    wasi: WasiCtx,
    handles: ResourceTable,
}

impl State {
    /// The state of a run that has not begun.
    pub(crate) fn new(limits: &Limits, grants: &Grants, host: Arc<dyn Host>) -> Self {
        let words = LastWords::default();
        // Arguments, folders, stdin and network stay as they are by default: none. The three switches say so once more.
        let mut wasi = WasiCtxBuilder::new();
        wasi.stdout(words.clone())
            .stderr(words.clone())
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .max_random_size(RANDOM_BYTES_MAX);
        for (name, value) in &grants.env {
            wasi.env(name, value);
        }
        let mut handles = ResourceTable::new();
        handles.set_max_capacity(HANDLES_MAX);
        let limiter = Limiter::new(limits.memory_bytes);
        Self { limiter, host, speech: Speech::default(), words, wasi: wasi.build(), handles }
    }
}

impl types::Host for State {}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.handles }
    }
}
