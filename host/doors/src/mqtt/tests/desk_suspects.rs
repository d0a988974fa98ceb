//! The desk and a broker that cuts the connection at one row or event: it is found, and all others go on.

use std::time::Duration;

use job::clock::Timestamp;
use job::courier::{Event, EventKind, Gate};
use job::store::{Item, OutboxRow, Route, RowId};
use kit::samples::{done, key};
use proptest::prelude::*;
use tokio::time::Instant;

use crate::mqtt::desk::{Desk, Gone, Sheet};
use crate::mqtt::suspects::{Look, Struck};

const STRIKES: u32 = 3;

fn row(id: RowId, job: &str) -> OutboxRow {
    OutboxRow { id, route: Route::Mesh(key(job)), item: Item::Outcome(done(id)) }
}

fn progress(step: i64) -> Event {
    Event { key: key("e"), kind: EventKind::Progress { message: "x".into() }, ts: Timestamp(step), gate: Gate::default() }
}

/// Works until the desk has nothing to send; cuts where `dislikes` says so, after the broker has taken up to `taken` sheets
/// before. Returns the cuts and what was delivered, in order.
fn work(desk: &mut Desk, window: usize, taken: usize, dislikes: impl Fn(&Sheet) -> bool) -> (u32, Vec<RowId>, Vec<i64>) {
    let (mut cuts, mut rows, mut events) = (0, Vec::new(), Vec::new());
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let mut gone = Vec::new();
        let numbers: Vec<u64> = std::iter::from_fn(|| desk.poll_send(window, &mut gone)).collect();
        if numbers.is_empty() {
            return (cuts, rows, events);
        }
        let poison = numbers.iter().position(|number| dislikes(desk.sheet(*number).expect("it flies")));
        // The broker takes what came before the one it dislikes, but some of its answers are lost in the cut.
        for number in numbers.iter().take(poison.map_or(numbers.len(), |at| at.min(taken))) {
            match desk.acknowledged(*number) {
                Some(Gone::Delivered(row)) => rows.push(row.id),
                Some(Gone::Event(event)) => events.push(event.ts.0),
                other => panic!("{other:?}"),
            }
        }
        if poison.is_some() {
            cuts += 1;
            if let Some(Struck { id, key, strikes, .. }) = desk.connection_lost(|_| Look::Suspect, true, &mut gone)
                && strikes >= STRIKES
            {
                desk.set_aside(id, &key, until);
            }
        }
        assert!(cuts < 100, "it goes on for ever");
    }
}

proptest! {
    /// G1-16: wherever the disliked row stands, every row of another job is delivered in order, the disliked one is kept, and a
    /// handful of cuts is all it takes.
    #[test]
    fn one_disliked_row_holds_up_only_its_own_job(rows in 1..40i64, bad in 0..40i64, window in 1..50usize, taken in 0..40usize) {
        let bad = bad % rows + 1;
        let mut desk = Desk::default();
        (1..=rows).for_each(|id| desk.push_row(row(id, &format!("j{id}"))));
        let dislikes = |sheet: &Sheet| matches!(sheet, Sheet::Row(row) if row.id == bad);
        let (cuts, got, _) = work(&mut desk, window, taken, dislikes);
        let all: Vec<RowId> = (1..=rows).filter(|id| *id != bad).collect();
        prop_assert_eq!(got, all);
        prop_assert!(cuts <= 2 + STRIKES, "{} cuts", cuts);
        let bad_key = key(&format!("j{bad}"));
        prop_assert!(desk.holds(bad, &bad_key));
        // Its time has come, and the broker likes it now.
        desk.handle_time(Instant::now() + Duration::from_secs(61));
        prop_assert_eq!(work(&mut desk, window, taken, |_| false).1, [bad]);
        prop_assert!(desk.is_idle());
    }
}

/// An event is owed to nobody: one cut with it alone in flight, and it is dropped.
#[test]
fn a_disliked_event_is_dropped() {
    let mut desk = Desk::default();
    (0..10).for_each(|step| desk.push_event(progress(step)));
    desk.push_row(row(1, "e"));
    let (cuts, rows, events) = work(&mut desk, 100, 0, |sheet| matches!(sheet, Sheet::Event(event) if event.ts.0 == 4));
    assert_eq!((cuts, rows, events), (3, vec![1], vec![0, 1, 2, 3, 5, 6, 7, 8, 9]));
    assert!(desk.is_idle());
}

/// A cut that has nothing to do with what was sent changes nothing, however often it comes: all leaves again at once, in order.
#[test]
fn innocent_cuts_make_no_suspects() {
    let mut desk = Desk::default();
    (1..=5).for_each(|id| desk.push_row(row(id, &format!("j{id}"))));
    for _ in 0..10 {
        let numbers: Vec<u64> = std::iter::from_fn(|| desk.poll_send(10, &mut Vec::new())).collect();
        let ids: Vec<RowId> = numbers
            .iter()
            .filter_map(|number| match desk.sheet(*number) {
                Some(Sheet::Row(row)) => Some(row.id),
                _ => None,
            })
            .collect();
        assert_eq!(ids, [1, 2, 3, 4, 5]);
        assert!(desk.connection_lost(|_| Look::Innocent, true, &mut Vec::new()).is_none());
    }
    assert_eq!(desk.parked(), 0);
}

/// S1-42c: a later row of the same job waits behind the one that was set aside.
#[test]
fn the_own_job_waits_behind_what_is_set_aside() {
    let mut desk = Desk::default();
    desk.push_row(row(1, "a"));
    desk.push_row(row(2, "a"));
    desk.push_row(row(3, "b"));
    let (_, got, _) = work(&mut desk, 10, 10, |sheet| matches!(sheet, Sheet::Row(row) if row.id == 1));
    assert_eq!(got, [3]);
    desk.handle_time(Instant::now() + Duration::from_secs(61));
    assert_eq!(work(&mut desk, 10, 10, |_| false).1, [1, 2]);
}
