//! Fetching rows from the journal while others arrive: none is missed, none is taken twice, and the bounds hold.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use job::BoxFuture;
use job::clock::Timestamp;
use job::courier::{Courier, Event, EventKind, Gate};
use job::ids::AgentId;
use job::store::{Item, Outbox, OutboxRow, Route, RowId, StoreError};
use kit::samples::{agent, done, key};
use proptest::prelude::*;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::Instant;
use wire::mqtt::topics::Root;

use crate::mqtt::desk::{Desk, Gone, Sheet};
use crate::mqtt::pager::Pager;
use crate::mqtt::post::{EVENTS_MAX, Mail, Post, PostOffice, ROWS_MAX, row_bytes};

type Page = (oneshot::Sender<Result<Vec<OutboxRow>, StoreError>>, Vec<OutboxRow>);

/// A journal whose answers come when the test says so.
#[derive(Default)]
struct SlowOutbox {
    rows: Mutex<Vec<OutboxRow>>,
    asked: Mutex<Option<Page>>,
}

impl Outbox for SlowOutbox {
    fn attach(&self, _: Arc<dyn Courier>) {}

    fn due(&self, _: AgentId, after: RowId, limit: usize) -> BoxFuture<'static, Result<Vec<OutboxRow>, StoreError>> {
        let rows = self.rows.lock().expect("a lock");
        let page = rows.iter().filter(|row| row.id > after).take(limit).cloned().collect();
        let (answer, wait) = oneshot::channel();
        *self.asked.lock().expect("a lock") = Some((answer, page));
        Box::pin(async move { wait.await.unwrap_or(Err(StoreError::Closed)) })
    }

    fn delivered(&self, _: Vec<RowId>) {}
}

/// The door's inside without a connection.
struct Bench {
    outbox: Arc<SlowOutbox>,
    office: PostOffice,
    post: Arc<Post>,
    inbox: UnboundedReceiver<Mail>,
    pager: Pager,
    desk: Desk,
    next_id: RowId,
    live: HashMap<RowId, usize>,
    sent: Vec<RowId>,
}

impl Bench {
    fn new() -> Self {
        let (post, inbox) = Post::new();
        let outbox = Arc::new(SlowOutbox::default());
        let pager = Pager::new(agent(), outbox.clone(), post.clone());
        let office = PostOffice::new(Root::parse("agents").expect("a root"));
        office.open(&agent(), &post);
        let (next_id, live, sent) = (1, HashMap::new(), Vec::new());
        Self { outbox, office, post, inbox, pager, desk: Desk::default(), next_id, live, sent }
    }

    fn commit(&mut self, job: usize) {
        let item = Item::Outcome(done(self.next_id));
        let row = OutboxRow { id: self.next_id, route: Route::Mesh(key(&format!("j{job}"))), item };
        self.next_id += 1;
        self.live.insert(row.id, job);
        self.outbox.rows.lock().expect("a lock").push(row.clone());
        self.office.deliver(row);
    }

    fn withdraw(&mut self, pick: usize) {
        let ids: BTreeSet<RowId> = self.live.keys().copied().filter(|id| !self.sent.contains(id)).collect();
        let Some(id) = ids.iter().nth(pick % ids.len().max(1)).copied() else { return };
        let job = self.live.remove(&id).expect("it lives");
        self.outbox.rows.lock().expect("a lock").retain(|row| row.id != id);
        self.office.withdraw(id, &key(&format!("j{job}")));
    }

    fn pump(&mut self) {
        while let Ok(mail) = self.inbox.try_recv() {
            match mail {
                Mail::Row(row) => self.pager.handle_row(row, &mut self.desk),
                Mail::Withdraw(id, key) => {
                    if !self.pager.handle_withdraw(id)
                        && let Some(Gone::Withdrawn(row)) = self.desk.withdraw(id, &key)
                    {
                        self.post.rows().remove(row_bytes(&row));
                    }
                }
                _ => {}
            }
        }
    }

    fn answer(&mut self, fails: bool) {
        if let Some((answer, page)) = self.outbox.asked.lock().expect("a lock").take() {
            let _asker_gone = answer.send(if fails { Err(StoreError::Failed("on purpose".into())) } else { Ok(page) });
        }
        let mut cx = Context::from_waker(Waker::noop());
        let _pending = self.pager.poll_page(&mut cx, &mut self.desk, Instant::now());
    }

    fn send(&mut self) {
        while let Some(number) = self.desk.poll_send(100, &mut Vec::new()) {
            let Some(Sheet::Row(row)) = self.desk.sheet(number) else { continue };
            self.sent.push(row.id);
            if let Some(Gone::Delivered(row) | Gone::Withdrawn(row)) = self.desk.acknowledged(number) {
                self.post.rows().remove(row_bytes(&row));
            }
        }
    }
}

proptest! {
    /// G1-16, S1-47: for any order of commits, withdrawals, fetches, failures and full memory, every row that is not withdrawn
    /// is sent, once, and each job's in order.
    #[test]
    fn no_row_is_missed_or_taken_twice(steps in proptest::collection::vec((0..8u8, 0..4usize), 1..150)) {
        let mut bench = Bench::new();
        for (step, pick) in steps {
            match step {
                0..=2 => bench.commit(pick),
                3 => bench.withdraw(pick),
                4 => bench.pump(),
                5 => bench.pager.turn(Instant::now()),
                6 => bench.answer(pick == 0),
                // As if memory were full at this moment.
                _ => bench.post.start_lagging(),
            }
            if pick == 1 {
                bench.send();
            }
        }
        let late = Instant::now() + std::time::Duration::from_secs(3600);
        for _ in 0..50 {
            bench.pump();
            bench.pager.turn(late);
            bench.answer(false);
            bench.send();
        }
        prop_assert!(bench.pager.is_idle() && bench.desk.is_idle());
        prop_assert_eq!(bench.post.rows().count(), 0, "the load is counted right");
        let sent: BTreeSet<RowId> = bench.sent.iter().copied().collect();
        prop_assert_eq!(sent.len(), bench.sent.len(), "sent twice: {:?}", bench.sent);
        for id in bench.live.keys() {
            prop_assert!(sent.contains(id), "row {} is missed", id);
        }
        let mut last = HashMap::new();
        for id in &bench.sent {
            if let Some(job) = bench.live.get(id) {
                prop_assert!(last.insert(job, id).is_none_or(|before| before < id), "job {} out of order", job);
            }
        }
    }
}

/// Rows past the bound stay in the journal and come later; memory never holds more.
#[test]
fn rows_past_the_bound_wait_in_the_journal() {
    let mut bench = Bench::new();
    bench.pager.turn(Instant::now());
    bench.answer(false);
    for job in 0..ROWS_MAX + 500 {
        bench.commit(job);
    }
    bench.pump();
    assert_eq!(bench.post.rows().count(), ROWS_MAX);
    assert!(bench.post.is_lagging());
    bench.pager.turn(Instant::now());
    assert!(bench.outbox.asked.lock().expect("a lock").is_none(), "there is no room for a page yet");
    bench.send();
    bench.pager.turn(Instant::now());
    bench.answer(false);
    bench.send();
    assert_eq!(bench.sent.len(), ROWS_MAX + 500);
}

/// S1-30: events are bounded, and progress goes first when there are too many.
#[test]
fn progress_is_dropped_before_milestones() {
    let bench = Bench::new();
    let announce = |kind: EventKind| {
        bench.office.announce(Event { key: key("j"), kind, ts: Timestamp(1), gate: Gate::default() });
    };
    (0..EVENTS_MAX).for_each(|_| announce(EventKind::Progress { message: "x".into() }));
    assert_eq!(bench.post.events().count(), EVENTS_MAX / 2);
    (0..EVENTS_MAX).for_each(|_| announce(EventKind::Started));
    assert_eq!(bench.post.events().count(), EVENTS_MAX);
    assert_eq!(bench.post.take_dropped_events(), EVENTS_MAX);
}
