//! Harm by computing: loops, traps and recursion.

use std::hint::black_box;

use amp_guest::{Failure, Job, Outcome, Reply};

use crate::Args;

/// Never returns.
pub fn endless(_: &Args, _: &Job) -> Result<Outcome, Failure> {
    let mut x = 1u64;
    loop {
        x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1));
    }
}

/// `n` rounds of work, then an answer.
pub fn work(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    let mut x = 1u64;
    for _ in 0..args.n {
        x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1));
    }
    Ok(Outcome::result(&x.to_string()))
}

/// Panics with the words of `text`.
pub fn panic(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    panic!("{}", args.text)
}

/// Traps without a word.
pub fn unreachable(_: &Args, _: &Job) -> Result<Outcome, Failure> {
    #[cfg(target_arch = "wasm32")]
    core::arch::wasm32::unreachable();
    #[cfg(not(target_arch = "wasm32"))]
    std::process::abort()
}

/// Recurses with frames in linear memory, until they leave it.
pub fn recurse(_: &Args, _: &Job) -> Result<Outcome, Failure> {
    fn deeper(n: u64) -> u64 {
        let frame = black_box([n; 512]);
        // The way out is never taken.
        if n == u64::MAX { 0 } else { black_box(deeper(n + 1)) + frame[(n % 512) as usize] }
    }
    Ok(Outcome::result(&deeper(0).to_string()))
}

/// Recurses without touching linear memory, until the host's stack for it ends.
pub fn recurse_natively(args: &Args, _: &Job) -> Result<Outcome, Failure> {
    #[inline(never)]
    fn deeper(n: u64) -> u64 {
        // The multiplication after the call keeps the compiler from turning this into a loop.
        if n == u64::MAX { 0 } else { deeper(n + 1).wrapping_mul(n | 3) ^ n }
    }
    Ok(Outcome::result(&deeper(args.n).to_string()))
}
