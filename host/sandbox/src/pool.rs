//! The one engine of the process and its pool of instances.
//!
//! Owns the settings that were measured to be best for a fresh instance a job. It must not know a guest or a job.

use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Core instances one guest may be made of: a Rust or C guest has 3, JavaScript 4, Python 14. The pool holds this many for
/// every place, so a guest never finds a place without the parts it needs.
pub(crate) const CORE_INSTANCES_MAX: u32 = 16;
/// Tables one guest may have.
pub(crate) const TABLES_MAX: u32 = 8;
/// Linear memories one guest may have; each place of the pool holds one.
pub(crate) const MEMORIES_MAX: u32 = 1;
/// Elements a table may grow to.
pub(crate) const TABLE_ELEMENTS_MAX: usize = 20_000;
/// Linear memory of one place, in bytes: all that a 32-bit guest can address, so that compiled code needs no bounds checks.
/// It is address space, not memory; what a job may use is the limiter's to say.
const MEMORY_RESERVATION_BYTES: u64 = 4 << 30;
/// Dirty memory a place keeps for its next instance, in bytes, so that it takes no page faults: at most this …
const KEEP_RESIDENT_BYTES_MAX: usize = 2 << 20;
/// … and at most this over all places.
const KEEP_RESIDENT_BYTES_TOTAL: usize = 2 << 30;
/// Dirty table memory a place keeps, in bytes.
const KEEP_TABLE_BYTES: usize = 64 << 10;
/// Stack of a guest's own calls, in bytes.
const GUEST_STACK_BYTES: usize = 512 << 10;
/// Stack of a guest with the host calls it makes, in bytes.
const FIBER_STACK_BYTES: usize = 2 << 20;

/// Makes the engine with places for `max_live` instances.
pub(crate) fn engine(max_live: u32) -> wasmtime::Result<Engine> {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(max_live)
        .total_core_instances(max_live.saturating_mul(CORE_INSTANCES_MAX))
        .total_memories(max_live.saturating_mul(MEMORIES_MAX))
        .total_tables(max_live.saturating_mul(TABLES_MAX))
        .total_stacks(max_live)
        .max_core_instances_per_component(CORE_INSTANCES_MAX)
        .max_memories_per_component(MEMORIES_MAX)
        .max_tables_per_component(TABLES_MAX)
        .max_tables_per_module(TABLES_MAX)
        .table_elements(TABLE_ELEMENTS_MAX)
        .max_memory_size(MEMORY_RESERVATION_BYTES as usize)
        .linear_memory_keep_resident(keep_resident(max_live))
        .table_keep_resident(KEEP_TABLE_BYTES)
        .pagemap_scan(Enabled::Auto);
    let mut config = Config::new();
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .memory_reservation(MEMORY_RESERVATION_BYTES)
        .concurrency_support(false)
        .consume_fuel(true)
        .max_wasm_stack(GUEST_STACK_BYTES)
        .async_stack_size(FIBER_STACK_BYTES)
        .wasm_memory64(false)
        // The same guest and input must take the same steps on every machine (DC-04).
        .relaxed_simd_deterministic(true);
    Engine::new(&config)
}

fn keep_resident(max_live: u32) -> usize {
    KEEP_RESIDENT_BYTES_MAX.min(KEEP_RESIDENT_BYTES_TOTAL / max_live.max(1) as usize)
}
