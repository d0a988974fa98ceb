//! The engine as others see it: the `Jobs` port, recovery at start, and the graceful stop.
//!
//! Owns the order in which a request meets checks, places and journal, all before anything is awaited, so that requests take
//! effect in the order of the calls. It must not know the steps of a journey.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use catalog::{Capability, Snapshot};
use futures::FutureExt;
use job::BoxFuture;
use job::admission::Request;
use job::clock::Clock;
use job::courier::{Courier, EventKind};
use job::ids::AgentId;
use job::jobs::{Jobs, Refusal, Submission, Unavailable};
use job::outcome::{Ending, Outcome, Usage};
use job::reason::Reason;
use job::status::Board;
use job::store::{Admitted, Arrival, Cancelled, Intent, JobStore, NewJob, StoreError, Unfinished};
use job::variables::Variables;
use tokio::sync::oneshot;

use crate::admit::{self, Refused};
use crate::conclude::ended;
use crate::core::{Core, Settings};
use crate::journey::{ATTEMPTS_MAX, Admission, Journey};
use crate::live::Live;
use crate::ordered::Ordered;
use crate::places::PlaceLimits;
use crate::turnstile::Pass;

/// What the engine works with.
pub struct Ports {
    /// The journal.
    pub store: Arc<dyn JobStore>,
    /// The doors.
    pub courier: Arc<dyn Courier>,
    /// The deployment's variables.
    pub variables: Arc<dyn Variables>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// Where conditions are shown.
    pub board: Board,
    /// The runtime that guests run on; journeys travel there, so that no guest holds up a door.
    pub workers: tokio::runtime::Handle,
}

/// What a graceful stop left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopReport {
    /// Jobs that had a place when the stop began.
    pub running: u32,
    /// Jobs that waited; they stay in the journal.
    pub waiting: u32,
    /// Whether every running job ended within the grace time.
    pub in_time: bool,
}

/// The engine. Clones are one engine.
#[derive(Clone)]
pub struct Engine {
    core: Arc<Core>,
}

impl Engine {
    /// An engine for these agents. Attach [`Engine::courier`] to the journal, then call [`Engine::recover`] before any door opens.
    pub fn new(settings: Settings, ports: Ports, agents: Vec<Arc<Snapshot>>) -> Self {
        Self { core: Arc::new(Core::new(settings, ports, agents)) }
    }

    /// The courier to attach to the journal: the doors' own, with each job's events before its outcome.
    pub fn courier(&self) -> Arc<dyn Courier> {
        Arc::new(Ordered { core: self.core.clone() })
    }

    /// Swaps the catalog of an agent; jobs that are accepted keep what they were accepted for (G1-36).
    pub fn publish(&self, snapshot: &Arc<Snapshot>) {
        self.core.publish(snapshot);
    }

    /// Adds an agent, and sets every unfinished job that the journal holds of it on its way again. Call it before the agent's
    /// door opens. Returns how many jobs there were.
    pub async fn add(&self, snapshot: &Arc<Snapshot>) -> Result<usize, StoreError> {
        self.core.publish(snapshot);
        self.recover_agent(&snapshot.agent).await
    }

    /// Changes how many jobs may run and wait. Jobs that run go on, even above the new number (`[limits]`, DESIGN section 4).
    pub fn set_places(&self, limits: PlaceLimits) {
        self.core.turnstile.set_limits(limits);
    }

    /// The catalog of an agent as it is now.
    pub fn snapshot(&self, agent: &AgentId) -> Option<Arc<Snapshot>> {
        self.core.snapshot(agent)
    }

    /// Jobs with a place, jobs that wait, and all that live.
    pub fn counts(&self) -> (u32, u32, usize) {
        let (running, waiting) = self.core.turnstile.counts();
        (running, waiting, self.core.table.len())
    }

    /// Sets every unfinished job of the journal on its way again (G1-24). Returns how many.
    pub async fn recover(&self) -> Result<usize, StoreError> {
        let mut found = 0;
        for agent in self.core.agents() {
            found += self.recover_agent(&agent).await?;
        }
        Ok(found)
    }

    async fn recover_agent(&self, agent: &AgentId) -> Result<usize, StoreError> {
        let Some(snapshot) = self.core.snapshot(agent) else { return Ok(0) };
        let unfinished = self.core.store.unfinished(agent.clone()).await?;
        let found = unfinished.len();
        for job in unfinished {
            self.resume(job, &snapshot).await?;
        }
        Ok(found)
    }

    async fn resume(&self, unfinished: Unfinished, snapshot: &Snapshot) -> Result<(), StoreError> {
        let core = &self.core;
        let floor = unfinished.stamp_floor.max(unfinished.accepted);
        let live = Live::new(unfinished.key.clone(), floor, core.voice.clone());
        match fate(&unfinished, snapshot, core.retiring()) {
            Ok(capability) => {
                core.table.insert(&live);
                let journey =
                    Journey { core: core.clone(), live, capability, job: unfinished.job, attempts: unfinished.attempts };
                core.tasks.spawn_on(journey.travel(None, None, false), &core.workers);
                Ok(())
            }
            Err(ending) => {
                let usage = Usage { attempt: unfinished.attempts, ..Usage::default() };
                let outcome = Outcome { ending, usage, ts: live.stamp() };
                core.count_end(&live.key, &outcome);
                core.store.finish(unfinished.key, outcome).await.map(|_| ())
            }
        }
    }

    /// Stops: takes no work, leaves what waits in the journal, gives running jobs `grace`, then stops them (G1-42).
    pub async fn stop(&self, grace: Duration) -> StopReport {
        let core = &self.core;
        let (running, waiting) = core.turnstile.counts();
        core.stopping.cancel();
        core.tasks.close();
        let in_time = tokio::time::timeout(grace, core.tasks.wait()).await.is_ok();
        core.halted.cancel();
        core.tasks.wait().await;
        StopReport { running, waiting, in_time }
    }

    /// Makes every job that stops, waits, or is recovered from now on end with reason shutdown (`run --retire`).
    pub fn retire(&self) {
        self.core.retire.store(true, Ordering::Release);
    }

    fn admit(&self, submission: Submission, capability: Arc<Capability>) -> BoxFuture<'static, Result<Admitted, Unavailable>> {
        let core = self.core.clone();
        let at = core.now();
        let contested = core.table.get(&submission.key).is_some();
        let want = core.want(&submission.key, &capability.entry, submission.lineage.depth);
        // A key that lives is a duplicate or a redelivery, which need no place; the journal decides which.
        let pass = if contested { None } else { Some(core.turnstile.enter(want, false)) };
        if let Some(Pass::Full { retry_after_ms }) = pass {
            return self.answer_refused(submission_refusal(&submission, at), admit::overloaded(retry_after_ms));
        }
        let starts_now = matches!(pass, Some(Pass::Now(_)));
        let fresh = starts_now && !submission.redelivered && !core.table.is_recent(&submission.key);
        let early = core.settings.sync_full && capability.entry.idempotent && fresh;

        let live = Live::new(submission.key.clone(), at.plus_ms(-1), core.voice.clone());
        live.say(EventKind::Accepted);
        if !contested {
            core.table.insert(&live);
        }
        let job = NewJob {
            requested_by: submission.requested_by,
            service: submission.service,
            args: submission.args,
            lineage: submission.lineage,
            expires: submission.expires,
            starts_now,
        };
        let request = Request { hash: submission.hash, redelivered: submission.redelivered, at };
        let memory = core.settings.memory;
        let arrival = Arrival { key: submission.key, request, memory, intent: Intent::Run(job.clone()) };
        let committed = core.store.admit(arrival);
        let (reply, answer) = oneshot::channel();
        let journey = Journey { core: core.clone(), live, capability, job, attempts: u32::from(starts_now) };
        let admission = Admission { committed, reply };
        core.tasks.spawn_on(journey.travel(Some(admission), pass, early), &core.workers);
        async move { answer.await.unwrap_or(Err(Unavailable::Stopping)) }.boxed()
    }

    fn answer_refused(
        &self,
        (key, request): (job::ids::JobKey, Request),
        refused: Refused,
    ) -> BoxFuture<'static, Result<Admitted, Unavailable>> {
        let core = self.core.clone();
        let outcome = refused.outcome(request.at);
        core.count_end(&key, &outcome);
        let arrival = Arrival { key, request, memory: core.settings.memory, intent: Intent::Refuse(outcome) };
        let committed = core.store.admit(arrival);
        async move {
            let admitted = committed.await;
            core.note_store(admitted.as_ref().err());
            Ok(admitted?)
        }
        .boxed()
    }
}

fn submission_refusal(submission: &Submission, at: job::clock::Timestamp) -> (job::ids::JobKey, Request) {
    (submission.key.clone(), Request { hash: submission.hash, redelivered: submission.redelivered, at })
}

/// Whether a job that was unfinished at the start runs again, or how it ends at once (G1-24).
fn fate(unfinished: &Unfinished, snapshot: &Snapshot, retiring: bool) -> Result<Arc<Capability>, Ending> {
    let started = unfinished.attempts > 0;
    if retiring {
        return Err(ended(Reason::Shutdown, "the node was retired before the job ended"));
    }
    let Some(capability) = snapshot.get(&unfinished.job.service) else {
        let message = format!("the capability {:?} is gone from the catalog since the job was accepted", unfinished.job.service);
        // What never began was refused; what began was interrupted.
        return Err(ended(if started { Reason::Interrupted } else { Reason::UnknownService }, message));
    };
    if started && !capability.entry.idempotent {
        return Err(ended(Reason::Interrupted, "the node stopped while the job ran, and the job may not run twice"));
    }
    if unfinished.attempts >= ATTEMPTS_MAX {
        let message = format!("the node stopped during each of {ATTEMPTS_MAX} attempts at this job");
        return Err(ended(Reason::Interrupted, message));
    }
    Ok(capability.clone())
}

impl Jobs for Engine {
    fn submit(&self, submission: Submission) -> BoxFuture<'static, Result<Admitted, Unavailable>> {
        if self.core.stopping.is_cancelled() {
            return std::future::ready(Err(Unavailable::Stopping)).boxed();
        }
        let checked = match self.core.snapshot(&submission.key.agent) {
            Some(snapshot) => admit::check(&submission, &snapshot, self.core.settings.places.max_depth),
            None => Err(admit::no_agent(&submission.key.agent)),
        };
        match checked {
            Ok(capability) => self.admit(submission, capability),
            Err(refused) => self.answer_refused(submission_refusal(&submission, self.core.now()), refused),
        }
    }

    fn refuse(&self, refusal: Refusal) -> BoxFuture<'static, Result<Admitted, Unavailable>> {
        if self.core.stopping.is_cancelled() {
            return std::future::ready(Err(Unavailable::Stopping)).boxed();
        }
        let request = Request { hash: refusal.hash, redelivered: refusal.redelivered, at: self.core.now() };
        let refused = Refused { reason: refusal.reason, message: refusal.message, extra: refusal.extra };
        self.answer_refused((refusal.key, request), refused)
    }

    fn cancel(&self, key: job::ids::JobKey) -> BoxFuture<'static, Result<Cancelled, Unavailable>> {
        let core = self.core.clone();
        if core.halted.is_cancelled() {
            return std::future::ready(Err(Unavailable::Stopping)).boxed();
        }
        let asked = core.table.get(&key).and_then(|live| live.ask_cancel());
        if asked.is_none() {
            core.table.note_cancel(&key);
        }
        let now = core.now();
        async move {
            let cancelled = match asked {
                Some(answer) => answer.await.unwrap_or(Err(StoreError::Closed)),
                None => core.store.cancel(core.cancel_order(key, Usage::default(), now, now.plus_ms(1))).await,
            };
            core.note_store(cancelled.as_ref().err());
            Ok(cancelled?)
        }
        .boxed()
    }
}
