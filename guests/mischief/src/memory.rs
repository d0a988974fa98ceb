//! Harm by memory: asking for too much, reading where there is none, and remembering.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use amp_guest::{Failure, Job, Outcome, Reply};

use crate::Args;

/// A WebAssembly page.
const PAGE: usize = 65_536;

/// Grows linear memory by some pages; -1 (all bits set) when it was denied.
fn grow(pages: usize) -> usize {
    #[cfg(target_arch = "wasm32")]
    return core::arch::wasm32::memory_grow(0, pages);
    #[cfg(not(target_arch = "wasm32"))]
    return pages.wrapping_sub(pages).wrapping_sub(1);
}

fn grow_until_denied() {
    while grow(1) != usize::MAX {}
}

/// Grows until denied, then loops without asking again.
pub fn grow_then_loop(_: &Args, _: &Job) -> Result<Outcome, Failure> {
    grow_until_denied();
    loop {
        black_box(0u32);
    }
}

/// Asks for more for ever, whatever the answer is.
pub fn grow_forever(_: &Args, _: &Job) -> Result<Outcome, Failure> {
    loop {
        black_box(grow(1));
    }
}

/// Grows until denied, then traps.
pub fn grow_then_trap(args: &Args, job: &Job) -> Result<Outcome, Failure> {
    grow_until_denied();
    crate::compute::unreachable(args, job)
}

/// Allocates `n` MiB and touches every page of it; the allocator traps when it gets none.
pub fn allocate(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    let size = args.n as usize * 1024 * 1024;
    let mut block = vec![0u8; size];
    for at in (0..size).step_by(PAGE) {
        block[at] = 1;
    }
    Ok(Outcome::result(&black_box(&block).len()))
}

/// Asks for `n` MiB the polite way, and goes on when there are none.
pub fn try_reserve(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    let mut block: Vec<u8> = Vec::new();
    let got = block.try_reserve_exact(args.n as usize * 1024 * 1024).is_ok();
    Ok(Outcome::result(if black_box(&block).capacity() > 0 && got { "got it" } else { "went on without" }))
}

/// Reads far outside of linear memory.
pub fn wild_read(_: &Args, _: &Job) -> Result<Outcome, Failure> {
    let wild = black_box(0xffff_fff0usize) as *const u8;
    // SAFETY: there is none; the sandbox is to stop this.
    let byte = unsafe { wild.read_volatile() };
    Ok(Outcome::result(&byte))
}

/// What the last job left behind, were the instance not fresh.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// What a job fills memory with, and never occurs by itself.
const MARK: u8 = 0xA7;

/// Counts its calls in a static, looks for what an earlier job left in fresh memory, and leaves its own marks there.
pub fn remember(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    let calls = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
    let first = grow(args.n as usize);
    if first == usize::MAX {
        return Err(amp_guest::fail("no memory to look at"));
    }
    let size = args.n as usize * PAGE;
    // SAFETY: these pages were just granted, belong to nobody else in this guest, and fresh pages are zeroed.
    let fresh = unsafe { std::slice::from_raw_parts_mut((first * PAGE) as *mut u8, size) };
    let left = fresh.iter().filter(|byte| **byte != 0).count();
    fresh.fill(MARK);
    Ok(Outcome::result(&[calls, black_box(left) as u64]))
}
