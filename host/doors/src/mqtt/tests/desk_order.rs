//! The desk's order, for any order of cuts, answers and withdrawals (G1-16, S1-42c, S1-65b).

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use job::clock::Timestamp;
use job::courier::{Event, EventKind, Gate};
use job::store::{Item, OutboxRow, Route, RowId};
use kit::samples::{done, key};
use proptest::prelude::*;
use tokio::time::Instant;

use crate::mqtt::desk::{Desk, Gone, Sheet};
use crate::mqtt::suspects::Look;

/// A desk with a broker that answers when told to.
struct Bench {
    desk: Desk,
    next_id: RowId,
    in_flight: Vec<u64>,
    /// Rows put in and not withdrawn, by id: job and whether retained.
    live: HashMap<RowId, (usize, bool)>,
    withdrawn: HashSet<RowId>,
    delivered: HashSet<RowId>,
    /// What the broker has kept of each job.
    kept: HashMap<usize, RowId>,
    /// The highest row sent of each job on this connection.
    sent: HashMap<usize, RowId>,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self {
            desk: Desk::default(),
            next_id: 1,
            in_flight: Vec::new(),
            live: HashMap::new(),
            withdrawn: HashSet::new(),
            delivered: HashSet::new(),
            kept: HashMap::new(),
            sent: HashMap::new(),
            now: Instant::now(),
        }
    }

    fn push(&mut self, job: usize, retained: bool) {
        let item = if retained { Item::Outcome(done(self.next_id)) } else { Item::CancelAcknowledged(Timestamp(1)) };
        let row = OutboxRow { id: self.next_id, route: Route::Mesh(key(&format!("j{job}"))), item };
        self.live.insert(row.id, (job, retained));
        self.next_id += 1;
        self.desk.push_row(row);
    }

    fn withdraw(&mut self, pick: usize) {
        let mut ids: Vec<RowId> = self.live.keys().copied().filter(|id| !self.delivered.contains(id)).collect();
        ids.sort_unstable();
        if ids.is_empty() {
            return;
        }
        let id = ids[pick % ids.len()];
        let (job, _) = self.live.remove(&id).expect("it is there");
        self.withdrawn.insert(id);
        let _counted = self.desk.withdraw(id, &key(&format!("j{job}")));
    }

    fn send(&mut self, window: usize) -> Result<(), TestCaseError> {
        let mut gone = Vec::new();
        while let Some(number) = self.desk.poll_send(window, &mut gone) {
            let Some(Sheet::Row(row)) = self.desk.sheet(number) else { continue };
            let id = row.id;
            prop_assert!(!self.withdrawn.contains(&id), "row {id} was withdrawn and is sent");
            prop_assert!(!self.delivered.contains(&id), "row {id} was delivered and is sent");
            let (job, retained) = self.live[&id];
            for other in &self.in_flight {
                if let Some(Sheet::Row(earlier)) = self.desk.sheet(*other)
                    && self.live.get(&earlier.id) == Some(&(job, retained))
                {
                    return Err(TestCaseError::fail(format!("row {id} is sent while {} of its topic flies", earlier.id)));
                }
            }
            let before = self.sent.insert(job, id);
            prop_assert!(before.is_none_or(|before| before < id), "row {id} of its job is sent after {before:?}");
            // The broker of this test reads at once, but answers late.
            if retained {
                self.kept.insert(job, id);
            }
            self.in_flight.push(number);
        }
        Ok(())
    }

    fn answer(&mut self, pick: usize, refuse: bool) {
        if self.in_flight.is_empty() {
            return;
        }
        let number = self.in_flight.remove(pick % self.in_flight.len());
        let gone = if refuse {
            let Some(Sheet::Row(row)) = self.desk.sheet(number) else { return };
            // It leads its job's rows again, so the order starts over from it.
            let job = self.live.get(&row.id).map(|(job, _)| *job);
            let id = row.id;
            let gone = self.desk.refused(number, self.now + Duration::from_secs(1));
            if let Some(job) = job {
                let sent = self.sent.entry(job).or_default();
                *sent = (*sent).min(id - 1);
            }
            gone
        } else {
            self.desk.acknowledged(number)
        };
        if let Some(Gone::Delivered(row)) = gone {
            self.delivered.insert(row.id);
        }
    }

    /// Cuts the connection; the sheets whose number has this rest of a division by three look guilty, four for none.
    fn cut(&mut self, guilty: usize, named: bool) {
        self.in_flight.clear();
        self.sent.clear();
        let mut gone = Vec::new();
        let look = |number: u64| match (number % 3 == guilty as u64, named) {
            (false, _) => Look::Innocent,
            (true, false) => Look::Suspect,
            (true, true) => Look::Named,
        };
        if let Some(struck) = self.desk.connection_lost(look, !named, &mut gone)
            && struck.strikes >= 2
        {
            self.desk.set_aside(struck.id, &struck.key, self.now + Duration::from_secs(3));
        }
        assert!(gone.iter().all(|gone| matches!(gone, Gone::Withdrawn(row) if self.withdrawn.contains(&row.id))));
    }

    fn pass_time(&mut self) {
        self.now += Duration::from_secs(2);
        self.desk.handle_time(self.now);
    }
}

proptest! {
    /// S1-42c, G1-16: for any order of cuts, acknowledgements, refusals and withdrawals no row is lost, none overtakes an
    /// earlier one of its topic or job, and what the broker keeps in the end is each job's last row that was not withdrawn.
    #[test]
    fn the_last_word_of_every_job_is_what_stays(
        steps in proptest::collection::vec((0..8u8, 0..6usize, any::<bool>()), 1..120),
        window in 1..6usize,
    ) {
        let mut bench = Bench::new();
        for (step, pick, flag) in steps {
            match step {
                0 | 1 => bench.push(pick % 3, flag),
                2 => bench.withdraw(pick),
                3 | 4 => bench.answer(pick, false),
                5 => bench.answer(pick, flag),
                6 => bench.cut(pick, flag),
                _ => bench.pass_time(),
            }
            bench.send(window)?;
        }
        for _ in 0..1000 {
            bench.pass_time();
            bench.send(window)?;
            bench.answer(0, false);
        }
        prop_assert!(bench.desk.is_idle());
        for (id, (job, retained)) in &bench.live {
            prop_assert!(bench.delivered.contains(id), "row {} is lost", id);
            let last = bench.live.iter().filter(|(_, of)| **of == (*job, true)).map(|(id, _)| *id).max();
            // A withdrawn row may have been kept before; then a later one of its topic follows, as the journal promises.
            if *retained && bench.kept.get(job) >= last.as_ref() {
                prop_assert!(bench.kept.get(job) == last.as_ref() || bench.withdrawn.contains(&bench.kept[job]));
            } else {
                prop_assert!(!retained, "job {} keeps {:?}, not {:?}", job, bench.kept.get(job), last);
            }
        }
    }
}

fn progress(job: &str, step: i64, gate: &Gate) -> Event {
    let kind = EventKind::Progress { message: format!("step {step}") };
    Event { key: key(job), kind, ts: Timestamp(step), gate: gate.clone() }
}

fn steps(desk: &mut Desk, window: usize) -> Vec<i64> {
    let mut gone = Vec::new();
    let mut all = Vec::new();
    while let Some(number) = desk.poll_send(window, &mut gone) {
        if let Some(Sheet::Event(event)) = desk.sheet(number) {
            all.push(event.ts.0);
        }
    }
    all
}

/// S1-34: events of a job leave in order, and after a cut those in flight leave again before the rest, in order.
#[test]
fn events_keep_their_order_over_a_cut() {
    let mut desk = Desk::default();
    let gate = Gate::default();
    (0..10).for_each(|step| desk.push_event(progress("j", step, &gate)));
    assert_eq!(steps(&mut desk, 4), [0, 1, 2, 3]);
    desk.acknowledged(0);
    desk.connection_lost(|_| Look::Innocent, true, &mut Vec::new());
    assert_eq!(steps(&mut desk, 100), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

/// S1-67: once a job's gate is shut, its events that still wait are dropped, those in flight at a cut included.
#[test]
fn a_shut_gate_silences_what_waits() {
    let mut desk = Desk::default();
    let (shut, open) = (Gate::default(), Gate::default());
    desk.push_event(progress("a", 0, &shut));
    desk.push_event(progress("a", 1, &shut));
    desk.push_event(progress("b", 2, &open));
    assert_eq!(steps(&mut desk, 1), [0]);
    shut.close();
    desk.connection_lost(|_| Look::Innocent, true, &mut Vec::new());
    assert_eq!(steps(&mut desk, 10), [2]);
}

/// S1-65b, S1-35: a row leaves after the events that came before it, and cancel_acknowledged before the cancelled result.
#[test]
fn rows_leave_after_what_came_before_them() {
    let mut desk = Desk::default();
    desk.push_event(progress("j", 1, &Gate::default()));
    for (id, item) in [(7, Item::CancelAcknowledged(Timestamp(2))), (8, Item::Outcome(done(3)))] {
        desk.push_row(OutboxRow { id, route: Route::Mesh(key("j")), item });
    }
    let mut order = Vec::new();
    while let Some(number) = desk.poll_send(10, &mut Vec::new()) {
        order.push(match desk.sheet(number).expect("it flies") {
            Sheet::Event(_) => "event",
            Sheet::Row(row) if row.item.is_retained() => "result",
            Sheet::Row(_) => "acknowledged",
        });
    }
    assert_eq!(order, ["event", "acknowledged", "result"]);
}
