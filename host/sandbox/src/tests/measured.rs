//! Figures, printed and not judged: `cargo test -p sandbox measured -- --ignored --nocapture --test-threads=1`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fairness::{ordinary_jobs_until, together};
use super::{BENCH, Listener, order, way};

fn spread(name: &str, took: &mut [Duration]) {
    took.sort();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
    let row = format!("{name}: n {}, p50 {:?}, p99 {:?}, max {:?}\n", took.len(), at(0.5), at(0.99), at(1.0));
    std::io::Write::write_all(&mut std::io::stderr(), row.as_bytes()).expect("stderr");
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

#[test]
#[ignore = "prints figures; run it alone"]
fn runaway_guests() {
    for (word, n, guests) in
        [("loop", 0, 1), ("loop", 0, 64), ("progress_forever", 10, 1), ("progress_forever", 1 << 20, 1), ("complain_forever", 0, 1), ("random_forever", 4_096, 1), ("random_forever", 4_096, 64)]
    {
        let mut past = Vec::new();
        let mut ordinary = Vec::new();
        for _ in 0..if guests == 1 { 20 } else { 3 } {
            let orders = (0..guests).map(|_| way(word, n, "").timeout(300)).collect();
            let running = std::thread::spawn(move || together(orders));
            ordinary.extend(ordinary_jobs_until(|| running.is_finished()));
            past.extend(running.join().expect("ran").into_iter().map(|(_, took)| took.saturating_sub(Duration::from_millis(300))));
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
