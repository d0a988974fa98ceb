//! Figures, printed and not judged: `cargo test -p sandbox measured -- --ignored --nocapture --test-threads=1`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use job::executor::{End, Executor};
use wasmtime::Store;
use wasmtime::component::{Component, Linker};

use super::fairness::{ordinary_jobs_until, together};
use super::{BENCH, Listener, guest_file, guest_source, order, settings, way};
use crate::bindings::ExecutorPre;
use crate::run::job_of;
use crate::{Sandbox, pool};

fn spread(name: &str, took: &mut [Duration]) {
    took.sort();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
    let row = format!("{name}: n {}, p50 {:?}, p99 {:?}, max {:?}\n", took.len(), at(0.5), at(0.99), at(1.0));
    say(&row);
}

fn say(text: &str) {
    std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()).expect("stderr");
}

#[test]
#[ignore = "prints figures; run it alone"]
fn trivial_jobs() {
    let listener = Arc::new(Listener::default());
    for (name, guest, args) in [("prompt", &BENCH.prompt, "{}"), ("mischief", &BENCH.mischief, r#"{"do":"answer","text":"1"}"#)] {
        let mut took: Vec<Duration> = BENCH.runtime.block_on(async {
            let mut took = Vec::new();
            for _ in 0..20_000 {
                let work = order(args).work();
                let begun = Instant::now();
                let ran = guest.run(work, listener.clone()).await;
                took.push(begun.elapsed());
                drop(ran);
            }
            took
        });
        spread(name, &mut took);
    }
}

/// The same guest on wasmtime alone, with the same pool: a store, an instance, a call, a drop.
#[test]
#[ignore = "prints figures; run it alone"]
fn bare_wasmtime() {
    let engine = pool::engine(16).expect("engine");
    let component = Component::from_file(&engine, guest_file("prompt")).expect("component");
    let mut linker = Linker::<()>::new(&engine);
    linker.define_unknown_imports_as_traps(&component).expect("linked");
    let linked = ExecutorPre::new(linker.instantiate_pre(&component).expect("linked")).expect("linked");
    let mut took: Vec<Duration> = BENCH.runtime.block_on(async {
        let mut took = Vec::new();
        for _ in 0..20_000 {
            let work = order("{}").work();
            let begun = Instant::now();
            let job = job_of(&work);
            let mut store = Store::new(&engine, ());
            store.set_fuel(work.limits.fuel).expect("fuel");
            store.fuel_async_yield_interval(Some(500_000)).expect("fuel");
            let instance = linked.instantiate_async(&mut store).await.expect("instance");
            instance.call_execute(&mut store, &job).await.expect("called").expect("answered");
            drop(store);
            took.push(begun.elapsed());
        }
        took
    });
    spread("prompt on bare wasmtime", &mut took);
}

/// The largest pool a default kernel allows.
#[test]
#[ignore = "prints figures; run it alone"]
fn ten_thousand_places() {
    let home = tempfile::tempdir().expect("temporary folder");
    let mut many = settings(&home.path().join("compiled"));
    many.max_live = 10_080;
    let begun = Instant::now();
    let sandbox = Sandbox::new(&many).expect("sandbox");
    let up = begun.elapsed();
    let guest = BENCH.runtime.block_on(sandbox.prepare(guest_source("mischief"))).expect("ready");
    let begun = Instant::now();
    let tasks: Vec<_> = (0..10_000)
        .map(|_| BENCH.runtime.spawn(guest.run(way("sleep", 15_000, "").work(), Arc::new(Listener::default()))))
        .collect();
    while sandbox.live() < 10_000 {
        std::thread::yield_now();
    }
    let alive = begun.elapsed();
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let resident = status.lines().find(|line| line.starts_with("VmRSS")).expect("VmRSS");
    say(&format!("set up in {up:?}, 10,000 waiting guests in {alive:?}, {resident}\n"));
    for task in tasks {
        assert!(matches!(BENCH.runtime.block_on(task).expect("ran").end, End::Answered { .. }));
    }
}

#[test]
#[ignore = "prints figures; run it alone"]
fn runaway_guests() {
    for (word, n, guests) in [
        ("loop", 0, 1),
        ("loop", 0, 64),
        ("progress_forever", 10, 1),
        ("progress_forever", 1 << 20, 1),
        ("complain_forever", 0, 1),
        ("random_forever", 65_536, 1),
        ("random_forever", 65_536, 64),
    ] {
        let mut past = Vec::new();
        let mut ordinary = Vec::new();
        for _ in 0..if guests == 1 { 20 } else { 3 } {
            let orders = (0..guests).map(|_| way(word, n, "").timeout(300)).collect();
            let running = std::thread::spawn(move || together(orders));
            ordinary.extend(ordinary_jobs_until(|| running.is_finished()));
            past.extend(
                running.join().expect("ran").into_iter().map(|(_, took)| took.saturating_sub(Duration::from_millis(300))),
            );
        }
        spread(&format!("{guests} x {word} {n}: past the deadline"), &mut past);
        spread("  ordinary jobs beside", &mut ordinary);
    }
}

#[test]
#[ignore = "prints figures; run it alone"]
fn giving_way() {
    let mut took: Vec<Duration> = (0..20)
        .map(|_| {
            let begun = Instant::now();
            way("work", 20_000_000, "").run(&BENCH.mischief);
            begun.elapsed()
        })
        .collect();
    spread("20 million rounds of work", &mut took);
}
