//! Every way a run ends, with its receipt.

use job::executor::{End, Ran};

use super::{BENCH, MIB, body, order, way};

/// How a guest of the table below is to end.
enum Expected {
    Answers(&'static str),
    Traps(&'static [&'static str]),
    Is(End),
}

fn check(word: &str, ran: &Ran, expected: &Expected) {
    match (expected, &ran.end) {
        (Expected::Answers(text), End::Answered { body, .. }) => assert_eq!(body, text, "{word}"),
        (Expected::Traps(parts), End::Trapped { message }) => {
            for part in *parts {
                assert!(message.contains(part), "{word}: {message}");
            }
        }
        (Expected::Is(end), found) if end == found => {}
        (_, found) => panic!("{word} ended as {found:?}"),
    }
}

/// DC-04, DC-05, U25: each way a guest can end is told apart, and each has its receipt.
#[test]
fn each_way_to_end_has_its_own_word() {
    let failed = |message: &str| Expected::Is(End::Failed { message: message.into() });
    let rows = [
        (way("answer", 0, "[1]"), Expected::Answers("[1]")),
        (way("answer", 0, "{no json"), Expected::Answers("{no json")),
        (way("work", 1_000, ""), Expected::Answers("\"3268100529178767385\"")),
        (way("fail", 1, "no such table"), failed("no such table")),
        (way("nothing of the kind", 0, ""), failed("there is no way \"nothing of the kind\"")),
        (order(r#"{"n":1}"#), failed("the arguments do not fit: missing field `do` at line 1 column 7")),
        (
            way("panic", 0, "the ceiling fell"),
            Expected::Traps(&["unreachable", "its last words", "the ceiling fell", "compute.rs"]),
        ),
        (way("unreachable", 0, ""), Expected::Traps(&["unreachable"])),
        (way("complain", 3, "cannot open the door"), Expected::Traps(&["unreachable", "its last words: cannot open the door"])),
        (way("recurse", 0, ""), Expected::Traps(&["stack ran over"])),
        (way("recurse_natively", 0, ""), Expected::Traps(&["nested too deep"])),
        (way("wild_read", 0, ""), Expected::Traps(&["memory outside of its own"])),
        (way("exit", 0, ""), Expected::Traps(&["exit(0) instead of returning"])),
        (way("hoard_timers", 0, ""), Expected::Traps(&["table"])),
        (way("loop", 0, "").fuel(50_000_000), Expected::Is(End::OutOfFuel)),
        (way("loop", 0, "").timeout(50), Expected::Is(End::PastDeadline)),
        (way("loop", 0, "").stop(std::future::ready(())), Expected::Is(End::Stopped)),
        (way("sleep", 3_600_000, "").timeout(50), Expected::Is(End::PastDeadline)),
        (way("progress_forever", 10, "").timeout(50), Expected::Is(End::PastDeadline)),
        (way("complain_forever", 0, "").timeout(50), Expected::Is(End::PastDeadline)),
        (way("random_forever", 65_536, "").timeout(50), Expected::Is(End::PastDeadline)),
        (way("random_forever", 1 << 20, ""), Expected::Traps(&["exceeds limit 65536"])),
        (way("try_reserve", 64, ""), Expected::Answers("\"went on without\"")),
        (way("try_reserve", 4, ""), Expected::Answers("\"got it\"")),
        (way("allocate", 8, ""), Expected::Answers("8388608")),
    ];
    for (at, (order, expected)) in rows.into_iter().enumerate() {
        let (limits, word) = (order.limits, format!("row {at}: {}", order.args));
        let ran = order.run(&BENCH.mischief);
        check(&word, &ran, &expected);
        assert_eq!(ran.usage.guest, Some(BENCH.mischief.hash()), "{word}");
        let ran_at_all = ran.end != End::Stopped;
        assert_eq!(ran.usage.fuel > 0, ran_at_all, "{word}: {:?}", ran.usage);
        assert_eq!(ran.usage.peak_memory_bytes >= MIB, ran_at_all, "{word}: {:?}", ran.usage);
        assert!(ran.usage.fuel <= limits.fuel && ran.usage.peak_memory_bytes <= limits.memory_bytes, "{word}: {:?}", ran.usage);
    }
}

/// U25: a guest that was denied memory and did not cope ends with that reason, whether it then asks, spins, waits or traps.
#[test]
fn memory_beyond_the_limit_is_its_own_ending() {
    let rows = [
        way("grow_forever", 0, ""),
        way("grow_then_trap", 0, ""),
        way("grow_then_loop", 0, "").timeout(100),
        way("grow_then_loop", 0, "").fuel(200_000_000),
        way("allocate", 64, ""),
        way("allocate", 2_000, ""),
    ];
    for order in rows {
        let (word, limit) = (order.args.clone(), order.limits.memory_bytes);
        let ran = order.run(&BENCH.mischief);
        match ran.end {
            End::OverMemory { wanted_bytes } => assert!(wanted_bytes > limit, "{word} wanted {wanted_bytes}"),
            other => panic!("{word} ended as {other:?}"),
        }
        assert!(ran.usage.peak_memory_bytes <= limit, "{word}: {:?}", ran.usage);
    }
}

/// A limit below what the guest has before it runs is the same ending, and no code of the guest runs.
#[test]
fn a_limit_below_the_guests_minimum_is_over_memory() {
    let minimum = BENCH.prompt.memory_bytes_min();
    assert!(minimum > MIB, "{minimum}");
    let ran = order("{}").memory(minimum - 1).run(&BENCH.prompt);
    assert_eq!(ran.end, End::OverMemory { wanted_bytes: minimum });
    assert_eq!((ran.usage.fuel, ran.usage.peak_memory_bytes), (0, 0));
    assert!(matches!(order("{}").memory(minimum).end(), End::OverMemory { .. } | End::Failed { .. }));
}

/// The limit of the answer is exact, and an answer far beyond it is still told apart from a trap.
#[test]
fn an_answer_over_its_limit_is_reported_with_its_size() {
    let mut fits = way("huge_answer", 1_000, "");
    fits.limits.output_bytes = 1_000;
    assert_eq!(body(fits.end()).len(), 1_000);
    let mut over = way("huge_answer", 1_001, "");
    over.limits.output_bytes = 1_000;
    assert_eq!(over.end(), End::OverOutput { wrote_bytes: 1_001 });
    for (size, limit) in [(2 * MIB, 512 << 10), (5 * MIB, 512 << 10)] {
        let mut order = way("huge_answer", size, "").memory(64 * MIB);
        order.limits.output_bytes = limit;
        match order.end() {
            End::OverOutput { wrote_bytes } => assert!(wrote_bytes > limit && wrote_bytes <= size, "{wrote_bytes}"),
            other => panic!("{size} bytes ended as {other:?}"),
        }
    }
}

/// DC-04: fuel that is used up is the limit itself, and the same guest and input always burns the same.
#[test]
fn fuel_is_deterministic() {
    let used = |ran: Ran| ran.usage.fuel;
    let first = used(way("work", 20_000, "").run(&BENCH.mischief));
    for _ in 0..50 {
        assert_eq!(used(way("work", 20_000, "").run(&BENCH.mischief)), first);
    }
    // One unit less is too little, and the stop is always at the limit.
    assert!(matches!(way("work", 20_000, "").fuel(first).end(), End::Answered { .. }));
    for limit in [0, 1, 1_000, 499_999, 500_000, 500_001, first - 1] {
        let ran = way("loop", 0, "").fuel(limit).run(&BENCH.mischief);
        assert_eq!((&ran.end, ran.usage.fuel), (&End::OutOfFuel, limit));
    }
    let short = way("work", 20_000, "").fuel(first / 2).run(&BENCH.mischief);
    assert_eq!((short.end, short.usage.fuel), (End::OutOfFuel, first / 2));
}

/// A deadline that has passed before the run begins ends it without running the guest.
#[test]
fn a_run_that_begins_late_does_not_begin() {
    let ran = way("answer", 0, "1").timeout(0).run(&BENCH.mischief);
    assert_eq!((ran.end, ran.usage.fuel), (End::PastDeadline, 0));
}

/// G1-22 is the engine's to judge: the sandbox hands the kind on as the guest wrote it.
#[test]
fn the_kind_is_handed_on() {
    for kind in ["error", "review", ""] {
        match way("reserved_kind", 0, kind).end() {
            End::Answered { kind: Some(found), body } => assert_eq!((found.as_str(), body.as_str()), (kind, "null")),
            other => panic!("{other:?}"),
        }
    }
}
