//! An engine for the door's tests: it keeps a real journal in memory and answers every job at once.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use job::BoxFuture;
use job::admission::{Memory, Request};
use job::clock::Timestamp;
use job::courier::{Courier, Event, EventKind, Gate};
use job::ids::JobKey;
use job::jobs::{Jobs, Refusal, Submission, Unavailable};
use job::json::JsonText;
use job::outcome::{Ending, Outcome, Usage};
use job::reason::Reason;
use job::store::{Admitted, Arrival, CancelOrder, Cancelled, Intent, JobStore, NewJob};
use kit::MemoryJournal;
use tokio::sync::watch;

const MEMORY: Memory = Memory { remember_ms: 86_400_000, resend_window_ms: 600_000 };

/// What the engine was asked.
#[derive(Debug, Clone)]
pub(super) enum Asked {
    Submit(Box<Submission>),
    Refuse,
    Cancel,
}

/// The engine.
pub(super) struct Echo {
    journal: MemoryJournal,
    courier: Mutex<Option<Arc<dyn Courier>>>,
    asked: watch::Sender<Vec<Asked>>,
    clock: AtomicI64,
    /// Progress events a job makes.
    pub(super) progress: AtomicUsize,
}

impl Echo {
    pub(super) fn new(journal: MemoryJournal) -> Arc<Self> {
        Arc::new(Self {
            journal,
            courier: Mutex::new(None),
            asked: watch::Sender::new(Vec::new()),
            clock: AtomicI64::new(1_787_688_849_000),
            progress: AtomicUsize::new(0),
        })
    }

    pub(super) fn set_courier(&self, courier: Arc<dyn Courier>) {
        *self.courier.lock().expect("a lock") = Some(courier);
    }

    /// Waits until what was asked satisfies `enough`.
    pub(super) async fn wait(&self, mut enough: impl FnMut(&[Asked]) -> bool) -> Vec<Asked> {
        let mut asked = self.asked.subscribe();
        let waited = tokio::time::timeout(super::observer::PATIENCE, asked.wait_for(|asked| enough(asked))).await;
        waited.expect("it is asked in time").expect("it lives").clone()
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.borrow().clone()
    }

    fn note(&self, asked: Asked) {
        self.asked.send_modify(|all| all.push(asked));
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.clock.fetch_add(1, Ordering::Relaxed))
    }

    fn announce(&self, key: &JobKey, kind: EventKind) {
        let courier = self.courier.lock().expect("a lock").clone().expect("a courier");
        courier.announce(Event { key: key.clone(), kind, ts: self.now(), gate: Gate::default() });
    }

    fn arrival(&self, key: JobKey, hash: [u8; 32], redelivered: bool, intent: Intent) -> Arrival {
        Arrival { key, request: Request { hash, redelivered, at: self.now() }, memory: MEMORY, intent }
    }
}

/// The answer every job gets.
pub(super) fn answer(submission: &Submission) -> Ending {
    Ending::Done { kind: "result".into(), body: submission.args.clone() }
}

#[derive(Clone)]
pub(super) struct EchoJobs(pub(super) Arc<Echo>);

impl Jobs for EchoJobs {
    fn submit(&self, submission: Submission) -> BoxFuture<'static, Result<Admitted, Unavailable>> {
        let echo = self.0.clone();
        echo.note(Asked::Submit(Box::new(submission.clone())));
        let job = NewJob {
            requested_by: submission.requested_by.clone(),
            service: submission.service.clone(),
            args: submission.args.clone(),
            lineage: submission.lineage.clone(),
            expires: submission.expires,
            starts_now: true,
        };
        let arrival = echo.arrival(submission.key.clone(), submission.hash, submission.redelivered, Intent::Run(job));
        let admitted = echo.journal.admit(arrival);
        let (done, answered) = tokio::sync::oneshot::channel();
        // As in the real engine, the work does not depend on whether the door still waits.
        tokio::spawn(async move {
            let admitted = admitted.await;
            let runs = matches!(admitted, Ok(Admitted::Accepted));
            let _door_gone = done.send(admitted.map_err(Unavailable::from));
            if runs {
                let key = &submission.key;
                echo.announce(key, EventKind::Accepted);
                echo.announce(key, EventKind::Started);
                for step in 0..echo.progress.load(Ordering::Relaxed) {
                    echo.announce(key, EventKind::Progress { message: format!("step {step}") });
                }
                let outcome = Outcome { ending: answer(&submission), usage: Usage::default(), ts: echo.now() };
                let _failing_on_purpose = echo.journal.finish(key.clone(), outcome).await;
            }
        });
        Box::pin(async move { answered.await.unwrap_or(Err(Unavailable::Stopping)) })
    }

    fn refuse(&self, refusal: Refusal) -> BoxFuture<'static, Result<Admitted, Unavailable>> {
        self.0.note(Asked::Refuse);
        let ending = Ending::Ended { reason: refusal.reason, message: refusal.message, extra: refusal.extra };
        let outcome = Outcome { ending, usage: Usage::default(), ts: self.0.now() };
        let arrival = self.0.arrival(refusal.key, refusal.hash, refusal.redelivered, Intent::Refuse(outcome));
        let admitted = self.0.journal.admit(arrival);
        Box::pin(async move { admitted.await.map_err(Unavailable::from) })
    }

    fn cancel(&self, key: JobKey) -> BoxFuture<'static, Result<Cancelled, Unavailable>> {
        self.0.note(Asked::Cancel);
        let notice_ts = self.0.now();
        let order = CancelOrder {
            key,
            notice_ts,
            outcome: Outcome::ended(Reason::Requested, "cancelled", Usage::default(), notice_ts.plus_ms(1)),
            tombstone_until: notice_ts.plus_ms(300_000),
        };
        let cancelled = self.0.journal.cancel(order);
        Box::pin(async move { cancelled.await.map_err(Unavailable::from) })
    }
}

/// An invoke payload that asks for its arguments back.
pub(super) fn invoke(owner: &str, job: &str, args: &str) -> String {
    let args = JsonText::check(args.as_bytes()).expect("JSON");
    format!(r#"{{"service":"echo","requestedBy":"{owner}","jobId":"{job}","args":{}}}"#, args.as_str())
}
