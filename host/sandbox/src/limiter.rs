//! The limiter of one run: how much memory and how many table elements a guest gets, and what it asked for beyond that.
//!
//! Owns the memory limit. wasmtime shows a denied growth, a panic and a failed allocation as the same trap, so the denial is
//! remembered here and outlives whatever the guest does next (U25). It must not know how a run is classified.

use wasmtime::ResourceLimiter;

use crate::end::is_of_the_system;
use crate::pool::TABLE_ELEMENTS_MAX;

/// Denials after which a guest that keeps asking is ended. A runtime with a garbage collector asks again a few times.
const DENIALS_MAX: u32 = 1_000;
/// What a 32-bit guest can address, in bytes.
const ADDRESSABLE_BYTES: u64 = 1 << 32;

/// The guest kept asking for memory beyond its limit.
#[derive(Debug, thiserror::Error)]
#[error("asked for {wanted_bytes} bytes of memory, {DENIALS_MAX} times over")]
pub(crate) struct OverMemory {
    /// What it first asked for, in bytes.
    pub(crate) wanted_bytes: u64,
}

/// The guest grew a table beyond what a place of the pool holds.
#[derive(Debug, thiserror::Error)]
#[error("it asked for a table of {wanted} elements; the limit is {TABLE_ELEMENTS_MAX}")]
pub(crate) struct OverTable {
    /// What it asked for, in elements.
    pub(crate) wanted: usize,
}

/// Limits the linear memories and tables of one store.
#[derive(Debug)]
pub(crate) struct Limiter {
    limit_bytes: u64,
    now_bytes: u64,
    peak_bytes: u64,
    denied_bytes: Option<u64>,
    denials: u32,
}

impl Limiter {
    /// Allows this much linear memory, in bytes, over all memories of the guest.
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, now_bytes: 0, peak_bytes: 0, denied_bytes: None, denials: 0 }
    }

    /// The largest linear memory the guest had, in bytes.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// What the guest first asked for beyond its limit, in bytes.
    pub(crate) fn denied_bytes(&self) -> Option<u64> {
        self.denied_bytes
    }
}

impl Limiter {
    /// Remembers a denial; an error when the guest has had enough of them.
    fn deny(&mut self, wanted: u64) -> wasmtime::Result<()> {
        let wanted_bytes = *self.denied_bytes.get_or_insert(wanted);
        self.denials += 1;
        if self.denials >= DENIALS_MAX {
            return Err(wasmtime::Error::new(OverMemory { wanted_bytes }));
        }
        Ok(())
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            // The guest set itself this maximum, and knows what -1 means.
            return Ok(false);
        }
        let growth = desired.saturating_sub(current) as u64;
        let wanted = self.now_bytes.saturating_add(growth);
        if wanted > self.limit_bytes {
            self.deny(wanted)?;
            return Ok(false);
        }
        self.now_bytes = wanted;
        self.peak_bytes = self.peak_bytes.max(wanted);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        if is_of_the_system(&error) {
            // The guest cannot mend that, and must not be told that its limit was reached.
            return Err(error.context("the system had no memory to give"));
        }
        // What is left is a growth past all that a guest can address.
        self.deny(ADDRESSABLE_BYTES)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        if desired > TABLE_ELEMENTS_MAX {
            return Err(wasmtime::Error::new(OverTable { wanted: desired }));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 65_536;

    /// U25: a denial is remembered with what was asked for first, and asking for ever ends with a typed error.
    #[test]
    fn denials_are_remembered_and_counted() {
        let mut limiter = Limiter::new(3 * PAGE as u64);
        assert!(limiter.memory_growing(0, 2 * PAGE, None).expect("allowed"));
        assert!(limiter.memory_growing(2 * PAGE, 3 * PAGE, None).expect("allowed"));
        assert_eq!(limiter.denied_bytes(), None);
        for wanted in 4..DENIALS_MAX as usize + 3 {
            assert!(!limiter.memory_growing(3 * PAGE, wanted * PAGE, None).expect("denied"));
        }
        let error = limiter.memory_growing(3 * PAGE, 9 * PAGE, None).expect_err("ended");
        assert_eq!(error.downcast_ref::<OverMemory>().map(|e| e.wanted_bytes), Some(4 * PAGE as u64));
        assert_eq!(limiter.denied_bytes(), Some(4 * PAGE as u64));
        assert_eq!(limiter.peak_bytes(), 3 * PAGE as u64);
    }

    /// The limit holds for all memories of a guest together.
    #[test]
    fn two_memories_share_one_limit() {
        let mut limiter = Limiter::new(4 * PAGE as u64);
        assert!(limiter.memory_growing(0, 3 * PAGE, None).expect("allowed"));
        assert!(!limiter.memory_growing(0, 2 * PAGE, None).expect("denied"));
        assert!(limiter.memory_growing(0, PAGE, None).expect("allowed"));
        assert_eq!(limiter.peak_bytes(), 4 * PAGE as u64);
    }

    #[test]
    fn a_system_without_memory_is_no_denial() {
        let mut limiter = Limiter::new(4 * PAGE as u64);
        assert!(limiter.memory_growing(0, PAGE, None).expect("allowed"));
        let error = wasmtime::Error::new(std::io::Error::from(std::io::ErrorKind::OutOfMemory)).context("growing");
        let error = limiter.memory_grow_failed(error).expect_err("ended");
        assert!(format!("{error:#}").contains("no memory to give"), "{error:#}");
        assert_eq!(limiter.denied_bytes(), None);
    }

    /// A guest that wants more than it can address is over its limit; one that reaches its own maximum is not.
    #[test]
    fn only_the_deployments_limit_counts() {
        let mut limiter = Limiter::new(4 * PAGE as u64);
        assert!(!limiter.memory_growing(0, 3 * PAGE, Some(2 * PAGE)).expect("the guest's own maximum"));
        assert_eq!(limiter.denied_bytes(), None);
        limiter.memory_grow_failed(wasmtime::Error::msg("past the type")).expect("the guest sees -1");
        assert_eq!(limiter.denied_bytes(), Some(ADDRESSABLE_BYTES));
    }

    #[test]
    fn tables_have_a_typed_limit() {
        let mut limiter = Limiter::new(0);
        assert!(limiter.table_growing(0, TABLE_ELEMENTS_MAX, None).expect("allowed"));
        let error = limiter.table_growing(0, TABLE_ELEMENTS_MAX + 1, None).expect_err("ended");
        assert_eq!(error.downcast_ref::<OverTable>().map(|e| e.wanted), Some(TABLE_ELEMENTS_MAX + 1));
    }
}
