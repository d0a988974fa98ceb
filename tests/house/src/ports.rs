//! Free loopback ports for tests that run side by side.
//!
//! Owns the hand-out. Ports come from below the range the kernel uses for outgoing connections, so that no client takes
//! one between the moment it is chosen and the moment a server binds it.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 15_000;
const COUNT: u32 = 15_000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port nobody listens on, never handed out twice by this process.
pub fn free() -> u16 {
    // Two processes that test at once begin at different places.
    let start = std::process::id().wrapping_mul(7_919) % COUNT;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + (start + step) % COUNT).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}
