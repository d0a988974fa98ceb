//! Nobody starves: runaway guests end near their deadline, and ordinary jobs hardly notice them.
//!
//! The bounds here are far above what an idle machine shows (`measured.rs` prints that), because the machine that runs the
//! tests may be busy. Without giving way, each would be missed by seconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use job::executor::{End, Ran};

use super::{BENCH, Listener, MIB, Order, order, way};

/// How far past its deadline a run may end on a busy machine.
const OVERSHOOT_MAX: Duration = Duration::from_millis(500);
/// The slowest an ordinary job may be beside runaway guests on a busy machine.
const ORDINARY_MAX: Duration = Duration::from_secs(1);

/// Runs them all at once; each with how long it took.
pub(super) fn together(orders: Vec<Order>) -> Vec<(Ran, Duration)> {
    let tasks: Vec<_> = orders
        .into_iter()
        .map(|order| {
            let run = BENCH.mischief.run(order.work(), Arc::new(Listener::default()));
            BENCH.runtime.spawn(async move {
                let begun = Instant::now();
                (run.await, begun.elapsed())
            })
        })
        .collect();
    tasks.into_iter().map(|task| BENCH.runtime.block_on(task).expect("ran")).collect()
}

/// Ordinary jobs, one after the other, until the others have ended; how long each took.
pub(super) fn ordinary_jobs_until(done: impl Fn() -> bool) -> Vec<Duration> {
    let mut took = Vec::new();
    while !done() {
        let begun = Instant::now();
        let mut order = order("{}");
        order.prompt = "hello".into();
        assert!(matches!(order.run(&BENCH.prompt).end, End::Answered { .. }));
        took.push(begun.elapsed());
    }
    took
}

/// U23: 64 looping guests all end near their deadline, and meanwhile ordinary jobs run.
#[test]
fn looping_guests_starve_nobody() {
    let looping = std::thread::spawn(|| together((0..64).map(|_| way("loop", 0, "").timeout(300)).collect()));
    let mut ordinary = ordinary_jobs_until(|| looping.is_finished());
    for (ran, took) in looping.join().expect("ran") {
        assert_eq!(ran.end, End::PastDeadline);
        assert!(ran.usage.fuel > 0, "{:?}", ran.usage);
        assert!(took < Duration::from_millis(300) + OVERSHOOT_MAX, "{took:?}");
    }
    ordinary.sort();
    assert!(ordinary.len() >= 20, "only {} ordinary jobs ran", ordinary.len());
    assert!(ordinary[ordinary.len() - 1] < ORDINARY_MAX, "{:?}", ordinary.last());
}

/// The same for guests that burn their time in host calls, which cost no fuel.
#[test]
fn talking_guests_starve_nobody() {
    for (word, n) in [("progress_forever", 1 << 20), ("complain_forever", 0), ("random_forever", 65_536)] {
        let orders = (0..8).map(|_| way(word, n, "").timeout(200)).collect();
        let talking = std::thread::spawn(move || together(orders));
        let ordinary = ordinary_jobs_until(|| talking.is_finished());
        for (ran, took) in talking.join().expect("ran") {
            assert_eq!(ran.end, End::PastDeadline, "{word}");
            assert!(took < Duration::from_millis(200) + OVERSHOOT_MAX, "{word}: {took:?}");
        }
        assert!(ordinary.iter().all(|took| *took < ORDINARY_MAX), "{word}: {:?}", ordinary.iter().max());
    }
}

/// U25: 200 memory hogs at once each end for memory, and no more memory was in use than their limits allow.
#[test]
fn memory_hogs_end_for_memory() {
    let hogs = (0..200u64).map(|at| match at % 3 {
        0 => way("grow_forever", 0, ""),
        1 => way("grow_then_loop", 0, "").timeout(3_000),
        _ => way("allocate", 64, ""),
    });
    for (ran, _) in together(hogs.collect()) {
        assert!(matches!(ran.end, End::OverMemory { .. }), "{:?}", ran.end);
        assert!(ran.usage.peak_memory_bytes <= 16 * MIB, "{:?}", ran.usage);
    }
}

/// A cancel is seen soon, by a guest that loops and by one that waits.
#[test]
fn a_stop_is_seen_soon() {
    for word in ["loop", "sleep"] {
        let (stop, stopped) = tokio::sync::oneshot::channel::<Instant>();
        let (at, seen) = tokio::sync::oneshot::channel::<Instant>();
        let order = way(word, 3_600_000, "").stop(async move {
            if let Ok(instant) = stopped.await {
                // Nobody waits any more when the test has failed.
                let _ = at.send(instant);
            }
        });
        let run = BENCH.runtime.spawn(BENCH.mischief.run(order.work(), Arc::new(Listener::default())));
        stop.send(Instant::now()).expect("it runs");
        let sent = BENCH.runtime.block_on(seen).expect("seen");
        assert_eq!(BENCH.runtime.block_on(run).expect("ran").end, End::Stopped);
        assert!(sent.elapsed() < OVERSHOOT_MAX, "{word}: {:?}", sent.elapsed());
    }
}

/// DC-04: giving way changes nothing about fuel, neither beside runaway guests nor in host calls that outlast a turn.
#[test]
fn fuel_is_the_same_beside_others() {
    let orders = || vec![way("progress", 5_000, ""), way("allocate", 8, ""), way("remember", 32, ""), way("work", 500_000, "")];
    let fuel = |ran: Vec<(Ran, Duration)>| ran.into_iter().map(|(ran, _)| ran.usage.fuel).collect::<Vec<_>>();
    let alone = fuel(together(orders()));
    let others = std::thread::spawn(|| {
        let loops = (0..16).map(|_| way("loop", 0, "").timeout(500));
        together(loops.chain((0..4).map(|_| way("random_forever", 65_536, "").timeout(500))).collect())
    });
    let mut rounds = 0;
    while !others.is_finished() {
        assert_eq!(fuel(together(orders())), alone);
        rounds += 1;
    }
    others.join().expect("ran");
    assert!(rounds > 0, "the others ended before a round was run");
}
