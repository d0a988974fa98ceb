//! The journey of one job, from the request that was handed to the journal to its one outcome, read from top to bottom.
//!
//! Owns the order of steps and who may end a job: only its own journey does, so a cancel, a deadline and an answer meet here
//! before they meet the journal's compare-and-set. It must not know how a guest runs or how an outcome is delivered.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use catalog::Capability;
use futures::FutureExt;
use job::BoxFuture;
use job::clock::Timestamp;
use job::jobs::Unavailable;
use job::outcome::{Ending, Outcome, Usage};
use job::reason::Reason;
use job::store::{Admitted, Cancelled, NewJob, StoreError};
use tokio::sync::oneshot;

use crate::conclude::ended;
use crate::core::Core;
use crate::live::Live;
use crate::turnstile::{Pass, Place, Wait};

/// How often a job may begin to run before it is given up (G1-24).
pub const ATTEMPTS_MAX: u32 = 3;

/// The journal's word on a request, and who waits for it.
pub(crate) struct Admission {
    pub(crate) committed: BoxFuture<'static, Result<Admitted, StoreError>>,
    pub(crate) reply: oneshot::Sender<Result<Admitted, Unavailable>>,
}

/// A job on its way.
pub(crate) struct Journey {
    pub(crate) core: Arc<Core>,
    pub(crate) live: Arc<Live>,
    pub(crate) capability: Arc<Capability>,
    pub(crate) job: NewJob,
    /// Attempts counted in the journal so far.
    pub(crate) attempts: u32,
}

/// What the journal still has to say about a journey that runs ahead of it (G1-49).
pub(crate) enum Standing {
    Settled,
    Ahead(Admission),
}

/// How the running part ended.
pub(crate) enum Finish {
    /// With words of its own.
    With(Ending, Usage),
    /// A cancel asked it to stop.
    Cancelled(Usage),
    /// The node stops; the job stays in the journal to run again.
    Interrupted(Usage),
}

impl Journey {
    /// Travels. `early` lets the job run while its row waits for the group commit.
    pub(crate) async fn travel(mut self, admission: Option<Admission>, pass: Option<Pass>, early: bool) {
        let mut standing = match admission {
            None => Standing::Settled,
            Some(admission) => Standing::Ahead(admission),
        };
        if !early && !self.settle(&mut standing).await {
            return;
        }
        if let Standing::Settled = standing {
            self.live.release_events();
        }
        if self.core.retiring() {
            self.conclude(Finish::Interrupted(Usage::default()), standing).await;
            return self.leave().await;
        }
        let place = match pass {
            Some(Pass::Now(place)) => Ok(place),
            Some(Pass::Waits(wait)) => self.wait(wait).await,
            // Its key was taken when it came, or it is recovered: it is a job already, so the queue takes it past its limit.
            Some(Pass::Full { .. }) | None => match self.core.turnstile.enter(self.want(), true) {
                Pass::Waits(wait) => self.wait(wait).await,
                Pass::Now(place) => self.begin_attempt(place).await,
                Pass::Full { .. } => Err(Finish::Interrupted(Usage::default())),
            },
        };
        let finish = match place {
            Ok(place) => {
                let attempt = self.attempts.max(1);
                let finish = self.perform_safely(attempt, &mut standing).await;
                drop(place);
                finish
            }
            Err(finish) => Some(finish),
        };
        if let Some(finish) = finish {
            self.conclude(finish, standing).await;
        }
        self.leave().await;
    }

    pub(crate) fn want(&self) -> crate::places::Want {
        self.core.want(&self.live.key, &self.capability.entry, self.job.lineage.depth)
    }

    /// Waits for the journal's word. False: the request is no job of this journey, which ends here.
    async fn settle(&mut self, standing: &mut Standing) -> bool {
        let Standing::Ahead(admission) = std::mem::replace(standing, Standing::Settled) else { return true };
        let admitted = admission.committed.await;
        self.answer(admitted, admission.reply).await
    }

    async fn answer(
        &self,
        admitted: Result<Admitted, StoreError>,
        reply: oneshot::Sender<Result<Admitted, Unavailable>>,
    ) -> bool {
        let accepted = matches!(admitted, Ok(Admitted::Accepted));
        self.core.note_store(admitted.as_ref().err());
        if accepted {
            metrics::counter!("amp_engine_jobs_accepted_total").increment(1);
            self.core.table.insert(&self.live);
            self.live.release_events();
        } else {
            self.live.silence();
        }
        // The door may have gone; its message then comes again and finds the job here.
        let _ = reply.send(admitted.map_err(Unavailable::from));
        if !accepted {
            self.leave().await;
        }
        accepted
    }

    /// Waits for a place, unless a cancel, the requester's own expiry, or a stop of the node comes first.
    async fn wait(&mut self, mut wait: Wait) -> Result<Place, Finish> {
        let expiry = self.core.sleep_until(self.job.expires);
        let place = tokio::select! {
            biased;
            () = self.live.cancel.cancelled() => return Err(Finish::Cancelled(Usage::default())),
            () = self.core.stopping.cancelled() => return Err(Finish::Interrupted(Usage::default())),
            () = expiry => {
                let ending = ended(Reason::Deadline, "the request's own expiry passed while it waited for its turn");
                return Err(Finish::With(ending, Usage::default()));
            }
            place = wait.turn() => place,
        };
        self.begin_attempt(place).await
    }

    /// Counts the attempt in the journal before the guest may do anything (G1-24).
    async fn begin_attempt(&mut self, place: Place) -> Result<Place, Finish> {
        let mut backoff = Backoff::new();
        loop {
            match self.core.store.start(self.live.key.clone()).await {
                Ok(true) => {
                    self.attempts += 1;
                    return Ok(place);
                }
                // It has ended without this journey: another instance's word stands.
                Ok(false) | Err(StoreError::Closed) => return Err(Finish::Interrupted(Usage::default())),
                Err(error) => {
                    self.core.note_store(Some(&error));
                    tokio::select! {
                        () = self.core.halted.cancelled() => return Err(Finish::Interrupted(Usage::default())),
                        () = backoff.wait() => {}
                    }
                }
            }
        }
    }

    /// Runs the job and, beside it, hears the journal's word. A panic of the host is this job's error and nobody else's. None:
    /// the journal said that this is no job of this journey.
    async fn perform_safely(&self, attempt: u32, standing: &mut Standing) -> Option<Finish> {
        let performance = crate::perform::perform(self, attempt);
        let mut performance = std::pin::pin!(AssertUnwindSafe(performance).catch_unwind());
        loop {
            let ahead = match standing {
                Standing::Ahead(admission) => (&mut admission.committed).left_future(),
                Standing::Settled => std::future::pending().right_future(),
            };
            tokio::select! {
                biased;
                admitted = ahead => {
                    let Standing::Ahead(admission) = std::mem::replace(standing, Standing::Settled) else { continue };
                    if !self.answer(admitted, admission.reply).await {
                        return None;
                    }
                }
                finished = &mut performance => return Some(finished.unwrap_or_else(|_| {
                    tracing::error!(job = %self.live.key, "the host panicked while it ran this job; please report it");
                    let ending = ended(Reason::Trap, "the node failed while it ran this job");
                    Finish::With(ending, Usage { attempt, ..Usage::default() })
                })),
            }
        }
    }

    /// Commits how the job ended. The outcome is handed to the journal before its own row's commit is awaited, so that both
    /// may share one commit (G1-49).
    async fn conclude(&self, finish: Finish, standing: Standing) {
        match finish {
            Finish::With(ending, usage) => self.commit(ending, usage, standing).await,
            Finish::Cancelled(usage) => {
                if self.hear(standing).await {
                    self.commit_cancel(usage).await;
                }
            }
            Finish::Interrupted(usage) => {
                if self.hear(standing).await {
                    self.interrupt(usage).await;
                }
            }
        }
    }

    /// Hears the journal's word where it is still due.
    async fn hear(&self, standing: Standing) -> bool {
        match standing {
            Standing::Settled => true,
            Standing::Ahead(admission) => {
                let admitted = admission.committed.await;
                self.answer(admitted, admission.reply).await
            }
        }
    }

    async fn commit(&self, ending: Ending, usage: Usage, standing: Standing) {
        let outcome = Outcome { ending, usage, ts: self.live.stamp_outcome() };
        self.core.count_end(&self.live.key, &outcome);
        let mut finished = self.core.store.finish(self.live.key.clone(), outcome.clone());
        if !self.hear(standing).await {
            return;
        }
        let mut backoff = Backoff::new();
        loop {
            match finished.await {
                Ok(_) => return self.core.note_store(None),
                Err(StoreError::Closed) => return,
                Err(error) => self.core.note_store(Some(&error)),
            }
            // The disk may be full: the outcome waits here, and in the journal the job stands as unfinished (G1-51).
            tokio::select! {
                () = self.core.halted.cancelled() => return,
                () = backoff.wait() => {}
            }
            finished = self.core.store.finish(self.live.key.clone(), outcome.clone());
        }
    }

    async fn commit_cancel(&self, usage: Usage) {
        self.live.silence();
        let order = self.core.cancel_order(self.live.key.clone(), usage, self.live.stamp(), self.live.stamp());
        self.core.count_end(&self.live.key, &order.outcome);
        let mut backoff = Backoff::new();
        let mut replies = self.live.take_replies();
        loop {
            let cancelled = self.core.store.cancel(order.clone()).await;
            self.core.note_store(cancelled.as_ref().err());
            let retry = matches!(&cancelled, Err(error) if *error != StoreError::Closed);
            let rest = if cancelled == Ok(Cancelled::Won) { Ok(Cancelled::Again) } else { cancelled.clone() };
            for (nth, reply) in replies.drain(..).enumerate() {
                // A door that has gone hears of it when its message comes again.
                let _ = reply.send(if nth == 0 { cancelled.clone() } else { rest.clone() });
            }
            if !retry {
                return;
            }
            tokio::select! {
                () = self.core.halted.cancelled() => return,
                () = backoff.wait() => {}
            }
        }
    }

    /// The node stops while the job waits or runs (G1-42).
    async fn interrupt(&self, usage: Usage) {
        let began = usage.attempt > 0;
        if self.core.retiring() || (began && !self.capability.entry.idempotent) {
            let ending = ended(Reason::Shutdown, "the node was stopped before the job ended");
            return self.commit(ending, usage, Standing::Settled).await;
        }
        self.live.silence();
        if began && let Err(error) = self.core.store.release(vec![self.live.key.clone()]).await {
            tracing::warn!(job = %self.live.key, %error, "an attempt that a polite stop should not count stays counted");
        }
    }

    /// Leaves the table, and passes cancels that came too late on to the journal.
    async fn leave(&self) {
        let late = self.live.close_replies();
        self.core.table.remove(&self.live);
        for reply in late {
            let order = self.core.cancel_order(self.live.key.clone(), Usage::default(), self.live.stamp(), self.live.stamp());
            let _ = reply.send(self.core.store.cancel(order).await);
        }
    }
}

/// Waits between tries at the journal: 50 ms, doubling to 5 s.
struct Backoff(Duration);

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    const LAST: Duration = Duration::from_secs(5);

    fn new() -> Self {
        Self(Self::FIRST)
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(Self::LAST);
    }
}

/// Milliseconds from `now` to `then`, none below zero.
pub(crate) fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(then.0.saturating_sub(now.0)).unwrap_or(0))
}
