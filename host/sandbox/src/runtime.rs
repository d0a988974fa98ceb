//! The threads guests run on.
//!
//! Owns the settings that let a new job and a passed deadline be seen soon beside guests that never rest. It must not know a
//! guest.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Tasks a thread drives between two looks at jobs that other threads handed in.
const GLOBAL_QUEUE_INTERVAL: u32 = 2;
/// Tasks a thread drives between two looks at timers and sockets.
const EVENT_INTERVAL: u32 = 8;

/// A runtime for guests, apart from the one that serves doors, so that no guest delays a door (U23). A guest that computes
/// gives way every fraction of a millisecond, so threads beyond the processors gain nothing.
pub fn guest_runtime(threads: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads.max(1))
        .thread_name("guest")
        .global_queue_interval(GLOBAL_QUEUE_INTERVAL)
        .event_interval(EVENT_INTERVAL)
        .enable_all()
        .build()
}
