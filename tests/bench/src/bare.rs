//! The baseline of the sandbox: wasmtime and nothing else, with the settings that were measured to be best.
//!
//! Owns an engine, a linked guest and one run of it: store, fuel, instance, call, drop. No WASI context, no limiter of our
//! own, no host calls, no deadline. It shares no code with the sandbox.

use anyhow::{Context, Result};
use wasmtime::component::{Component, Linker};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store, StoreLimits, StoreLimitsBuilder,
};

#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]
mod bindings {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "amp:capability/executor",
        imports: { default: async },
        exports: { default: async },
    });
}

use bindings::ExecutorPre;
use bindings::amp::capability::types::Job;

const PLACES: u32 = 1000;
const YIELD_FUEL: u64 = 1_000_000;
const MEMORY_BYTES: usize = 64 << 20;

/// A guest ready to run with bare wasmtime.
pub(crate) struct Bare {
    engine: Engine,
    linked: ExecutorPre<StoreLimits>,
}

impl Bare {
    /// Compiles and links a guest; whatever it imports traps, since a trivial job calls nothing.
    pub(crate) fn new(bytes: &[u8]) -> Result<Self> {
        let mut pool = PoolingAllocationConfig::new();
        pool.total_component_instances(PLACES)
            .total_core_instances(PLACES * 16)
            .total_memories(PLACES)
            .total_tables(PLACES * 4)
            .total_stacks(PLACES)
            .max_tables_per_module(8)
            .linear_memory_keep_resident(2 << 20)
            .table_keep_resident(64 << 10)
            .pagemap_scan(Enabled::Auto);
        let mut config = Config::new();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool)).concurrency_support(false).consume_fuel(true);
        let engine = Engine::new(&config).map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let component = Component::new(&engine, bytes).map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let mut linker = Linker::new(&engine);
        linker.define_unknown_imports_as_traps(&component).map_err(|error| anyhow::anyhow!("{error:#}"))?;
        let linked =
            linker.instantiate_pre(&component).and_then(ExecutorPre::new).map_err(|error| anyhow::anyhow!("{error:#}"))?;
        Ok(Self { engine, linked })
    }

    /// One job in one fresh instance.
    pub(crate) async fn run(&self, number: u64, prompt: &str) -> Result<String> {
        let job = Job {
            id: format!("b{number}"),
            owner: "load".into(),
            service: "bench.answer".into(),
            args: "{}".into(),
            prompt: prompt.to_owned(),
            parent: None,
            root: format!("b{number}"),
            depth: 0,
            attempt: 1,
            timeout_ms: 60_000,
        };
        self.call(&job).await.map_err(|error| anyhow::anyhow!("{error:#}"))?.context("the guest failed")
    }

    async fn call(&self, job: &Job) -> wasmtime::Result<Option<String>> {
        let mut store = Store::new(&self.engine, StoreLimitsBuilder::new().memory_size(MEMORY_BYTES).build());
        store.limiter(|limits| limits);
        store.set_fuel(10_000_000_000)?;
        store.fuel_async_yield_interval(Some(YIELD_FUEL))?;
        let instance = self.linked.instantiate_async(&mut store).await?;
        Ok(instance.call_execute(&mut store, job).await?.ok().map(|outcome| outcome.body))
    }
}
