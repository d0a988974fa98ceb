//! The promise of the outbox, for any order of things (G1-16): what stands on the retained topic in the end is the outcome.
//!
//! Owns a small door and a small broker, faithful in what matters here: a topic's rows go one after the other, an
//! acknowledgement may be lost, a withdrawn row may or may not have gone out. It must not know any real door.

use std::collections::VecDeque;

use job::ids::JobKey;
use job::outcome::Outcome;
use job::store::{Admitted, Item, OutboxRow};
use proptest::prelude::{Strategy, prop_oneof};
use proptest::strategy::Just;
use proptest::test_runner::{Config, TestRunner};

use super::{Bench, Subject};
use crate::Told;
use crate::samples::{agent, cancel, cancelled, done, invoke, key, refused};

/// Orders tried; each has a journal of its own.
const ORDERS: u32 = 64;
/// Longest order.
const MOVES_MAX: usize = 40;

#[derive(Debug, Clone, Copy)]
enum Move {
    /// Another request for the job arrives, and is a duplicate while it is active.
    Duplicate,
    /// One that is refused arrives while it is active.
    Refused,
    /// The job ends by itself.
    Finish,
    /// The job is cancelled.
    Cancel,
    /// The door sends its next row, if none is on its way.
    Send,
    /// The broker has it, and says so.
    Acknowledge,
    /// The connection is cut; the row on its way got through, or not. The door connects again and asks what is due.
    Cut { got_through: bool },
    /// The process is killed and starts again.
    Kill,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => Just(Move::Duplicate),
        2 => Just(Move::Refused),
        2 => Just(Move::Finish),
        1 => Just(Move::Cancel),
        6 => Just(Move::Send),
        5 => Just(Move::Acknowledge),
        1 => Just(Move::Cut { got_through: true }),
        1 => Just(Move::Cut { got_through: false }),
        1 => Just(Move::Kill),
    ];
    proptest::collection::vec(one, 0..MOVES_MAX)
}

/// The door, its broker, and what the test knows of the job.
struct Scene {
    bench: Option<Bench>,
    key: JobKey,
    at: i64,
    waiting: VecDeque<OutboxRow>,
    under_way: Option<OutboxRow>,
    retained: Option<Item>,
    outcome: Option<Outcome>,
}

impl Scene {
    async fn open(subject: Box<dyn Subject>) -> Self {
        let (bench, key) = (Bench::over(subject), key("j1"));
        bench.store.admit(invoke(&key, 1, 10)).await.unwrap();
        let at = 20;
        Self { bench: Some(bench), key, at, waiting: VecDeque::new(), under_way: None, retained: None, outcome: None }
    }

    fn bench(&self) -> &Bench {
        self.bench.as_ref().expect("open")
    }

    /// Hears what the courier was told.
    fn hear(&mut self) {
        for told in self.bench().courier.take() {
            match told {
                // Events have a topic of their own.
                Told::Deliver(row) if row.item.is_retained() => self.waiting.push_back(row),
                Told::Withdraw(id, _) => {
                    self.waiting.retain(|row| row.id != id);
                    // One that is on its way still arrives, before anything sent later.
                    if self.under_way.as_ref().is_some_and(|row| row.id == id) {
                        self.arrive();
                    }
                }
                Told::Deliver(_) | Told::Announce(..) => {}
            }
        }
    }

    fn arrive(&mut self) -> Option<OutboxRow> {
        let row = self.under_way.take()?;
        self.retained = Some(row.item.clone());
        Some(row)
    }

    fn send(&mut self) {
        if self.under_way.is_none() {
            self.under_way = self.waiting.pop_front();
        }
    }

    fn acknowledge(&mut self) {
        if let Some(row) = self.arrive() {
            self.bench().store.delivered(vec![row.id]);
        }
    }

    async fn ask_what_is_due(&mut self) {
        self.bench().courier.take();
        let due = self.bench().store.due(agent(), 0, 1000).await.unwrap();
        self.waiting = due.into_iter().filter(|row| row.item.is_retained()).collect();
    }

    async fn make(&mut self, one: Move) {
        self.at += 10;
        let (store, key, at) = (self.bench().store.clone(), self.key.clone(), self.at);
        let active = self.outcome.is_none();
        match one {
            Move::Duplicate if active => assert_eq!(store.admit(invoke(&key, 2, at)).await, Ok(Admitted::Duplicate)),
            Move::Refused if active => assert_eq!(store.admit(refused(&key, 3, at)).await, Ok(Admitted::Refused)),
            Move::Duplicate | Move::Refused => {}
            Move::Finish => {
                if store.finish(key, done(at)).await.unwrap() {
                    assert_eq!(self.outcome.replace(done(at)), None, "a second end");
                }
            }
            Move::Cancel => {
                if store.cancel(cancel(&key, at)).await.unwrap() == job::store::Cancelled::Won {
                    assert_eq!(self.outcome.replace(cancelled(at + 1)), None, "a second end");
                }
            }
            Move::Send => self.send(),
            Move::Acknowledge => self.acknowledge(),
            Move::Cut { got_through } => {
                if got_through {
                    self.arrive();
                }
                self.under_way = None;
                self.ask_what_is_due().await;
            }
            Move::Kill => {
                drop(store);
                self.under_way = None;
                self.bench = self.bench.take().map(Bench::reopened);
                self.bench().store.start(self.key.clone()).await.unwrap();
                self.ask_what_is_due().await;
            }
        }
        self.hear();
    }

    /// Ends the job if it has not ended, and empties the outbox.
    async fn conclude(&mut self) {
        self.make(Move::Finish).await;
        while self.under_way.is_some() || !self.waiting.is_empty() {
            self.send();
            self.acknowledge();
        }
        let left = self.bench().store.due(agent(), 0, 1000).await.unwrap();
        assert!(left.iter().all(|row| !row.item.is_retained()), "what is due and the door does not know: {left:?}");
        assert_eq!(self.retained, self.outcome.clone().map(Item::Outcome));
    }
}

/// G1-16: for any order of duplicates, ends, deliveries, cuts and crashes the last retained payload is the job's outcome.
/// Tries many orders, each on a fresh journal; panics with the shortest order that breaks the promise.
pub fn outbox_suite(make: impl Fn() -> Box<dyn Subject>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases: ORDERS, failure_persistence: None, ..Config::default() });
    let ran = runner.run(&moves(), |moves| {
        runtime.block_on(async {
            let mut scene = Scene::open(make()).await;
            for one in moves {
                scene.make(one).await;
            }
            scene.conclude().await;
        });
        Ok(())
    });
    if let Err(failure) = ran {
        panic!("{failure}");
    }
}
