//! The memory journal on its own: that its crashes are where they say, since other tests lean on them.
use std::sync::Arc;

use super::{CrashMode, MemoryJournal, STEPS_PER_CALL};
use crate::samples::{agent, done, invoke, key};
use crate::{RecordingCourier, journal_suite, outbox_suite};
use futures::FutureExt;
use job::store::{Admitted, JobStore, Outbox, StoreError};

/// The memory journal keeps every promise the real one keeps.
#[test]
fn the_memory_journal_passes_the_suite() {
    journal_suite(|| Box::new(MemoryJournal::default()));
    outbox_suite(|| Box::new(MemoryJournal::default()));
}

fn open() -> (MemoryJournal, Arc<RecordingCourier>) {
    let journal = MemoryJournal::default();
    let courier = Arc::new(RecordingCourier::default());
    journal.attach(courier.clone());
    (journal, courier)
}

/// S1-58: whatever step a crash hits, what was answered is there afterwards, and what is there was at least asked for.
#[test]
fn each_crash_step_does_what_it_says() {
    // (step, committed, told, answered)
    for (step, committed, told) in [(0, false, false), (1, true, false), (2, true, true)] {
        for mode in [CrashMode::Closed, CrashMode::Hang] {
            let (journal, courier) = open();
            journal.admit(invoke(&key("j1"), 1, 10)).now_or_never().unwrap().unwrap();
            assert_eq!(journal.steps(), STEPS_PER_CALL);
            journal.crash_at(step, mode);
            let answer = journal.finish(key("j1"), done(20)).now_or_never();
            match mode {
                CrashMode::Closed => assert_eq!(answer, Some(Err(StoreError::Closed))),
                CrashMode::Hang => assert_eq!(answer, None),
            }
            assert!(journal.crashed().now_or_never().is_some());
            assert_eq!(courier.told().len(), usize::from(told), "step {step}");
            let again = journal.reopen();
            assert_eq!(again.outbox().len(), usize::from(committed), "step {step}");
            assert_eq!(again.unfinished(agent()).now_or_never().unwrap().unwrap().len(), usize::from(!committed));
        }
    }
}

/// Held calls commit in order once resumed, and not a moment before.
#[test]
fn held_calls_commit_in_order_later() {
    let (journal, courier) = open();
    journal.hold();
    let mut admitted = journal.admit(invoke(&key("j1"), 1, 10));
    let finished = journal.finish(key("j1"), done(20));
    assert_eq!((&mut admitted).now_or_never(), None);
    assert_eq!((journal.waiting(), courier.told().len()), (2, 0));
    journal.resume();
    assert_eq!(admitted.now_or_never(), Some(Ok(Admitted::Accepted)));
    assert_eq!(finished.now_or_never(), Some(Ok(true)));
    assert_eq!(courier.outcomes(&key("j1")), [done(20)]);
}

/// A failing journal changes nothing, and works again afterwards.
#[test]
fn failures_change_nothing() {
    let (journal, _) = open();
    journal.fail_with(Some(StoreError::Full("no space".into())));
    assert!(matches!(journal.admit(invoke(&key("j1"), 1, 10)).now_or_never(), Some(Err(StoreError::Full(_)))));
    journal.fail_with(None);
    assert!(journal.unfinished(agent()).now_or_never().unwrap().unwrap().is_empty());
    assert_eq!(journal.admit(invoke(&key("j1"), 1, 10)).now_or_never(), Some(Ok(Admitted::Accepted)));
}

/// The seed decides the crash step, so a failure can be run again.
#[test]
fn seeds_repeat_and_spread() {
    let step = |seed| MemoryJournal::default().crash_somewhere(seed, 100, CrashMode::Hang);
    assert_eq!(step(7), step(7));
    let distinct: std::collections::BTreeSet<u64> = (0..100).map(step).collect();
    assert!(distinct.len() > 40, "{distinct:?}");
}
