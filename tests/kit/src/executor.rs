//! An executor that plays scripts instead of running WebAssembly.
//!
//! Owns the scripts, the record of runs, and the obedience every guest owes: stop and deadline end a run at once. It must not
//! know the engine.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use job::BoxFuture;
use job::executor::{End, Executor, Grants, Guest, GuestSource, Host, Limits, LogLevel, PrepareError, Ran, Work};
use job::ids::JobKey;
use job::json::JsonText;
use job::lineage::Lineage;
use job::outcome::Usage;
use tokio::sync::{Semaphore, watch};

/// One act of a run.
#[derive(Debug, Clone)]
pub enum Act {
    /// Reports a milestone.
    Say(String),
    /// Writes a log line.
    Log(LogLevel, String),
    /// Waits for [`ScriptedGuest::go_on`], the stop or the deadline.
    Hold,
    /// Ends the run so.
    End(End),
}

/// What a run was given.
#[derive(Debug, Clone)]
pub struct RecordedWork {
    /// Which job.
    pub key: JobKey,
    /// The capability.
    pub service: Arc<str>,
    /// The arguments.
    pub args: JsonText,
    /// The rendered prompt.
    pub prompt: Arc<str>,
    /// Its lineage.
    pub lineage: Lineage,
    /// Which run of the job.
    pub attempt: u32,
    /// What it may use.
    pub limits: Limits,
    /// What it may do.
    pub grants: Grants,
    /// When it had to be over.
    pub deadline: Instant,
}

/// A guest that plays scripts: those queued first, one a run, then the standing one for ever.
#[derive(Debug)]
pub struct ScriptedGuest {
    hash: Arc<str>,
    standing: Mutex<Vec<Act>>,
    queued: Mutex<VecDeque<Vec<Act>>>,
    turns: Semaphore,
    begun: watch::Sender<Vec<RecordedWork>>,
    ended: watch::Sender<Vec<(JobKey, End)>>,
    usage: Mutex<Usage>,
}

impl ScriptedGuest {
    /// A guest that plays `standing` at every run. A script without an end answers `{}`.
    pub fn playing(standing: Vec<Act>) -> Arc<Self> {
        Arc::new(Self {
            hash: "sha256:5c21".into(),
            standing: Mutex::new(standing),
            queued: Mutex::new(VecDeque::new()),
            turns: Semaphore::new(0),
            begun: watch::Sender::new(Vec::new()),
            ended: watch::Sender::new(Vec::new()),
            usage: Mutex::new(Usage {
                fuel: 7,
                peak_memory_bytes: 65_536,
                guest: Some("sha256:5c21".into()),
                ..Usage::default()
            }),
        })
    }

    /// A guest that answers every run with this JSON text.
    pub fn answering(body: &str) -> Arc<Self> {
        Self::playing(vec![Act::End(End::Answered { kind: None, body: body.into() })])
    }

    /// A guest that holds every run until told to go on, then answers `{}`.
    pub fn holding() -> Arc<Self> {
        Self::playing(vec![Act::Hold])
    }

    /// Queues a script for one run.
    pub fn next(&self, script: Vec<Act>) {
        self.queued.lock().unwrap().push_back(script);
    }

    /// Replaces the standing script.
    pub fn always(&self, script: Vec<Act>) {
        *self.standing.lock().unwrap() = script;
    }

    /// What a run reports as used.
    pub fn set_usage(&self, usage: Usage) {
        *self.usage.lock().unwrap() = usage;
    }

    /// Lets this many holds go on, those that wait now or later ones.
    pub fn go_on(&self, holds: usize) {
        self.turns.add_permits(holds);
    }

    /// Every run begun so far.
    pub fn runs(&self) -> Vec<RecordedWork> {
        self.begun.borrow().clone()
    }

    /// How the runs ended that were not dropped, in the order they ended.
    pub fn ends(&self) -> Vec<(JobKey, End)> {
        self.ended.borrow().clone()
    }

    /// Waits until at least this many runs have begun.
    pub async fn wait_runs(&self, count: usize) -> Vec<RecordedWork> {
        self.begun.subscribe().wait_for(|runs| runs.len() >= count).await.expect("the guest lives").clone()
    }

    /// Waits until at least this many runs have ended by themselves, by stop or by deadline.
    pub async fn wait_ends(&self, count: usize) -> Vec<(JobKey, End)> {
        self.ended.subscribe().wait_for(|ends| ends.len() >= count).await.expect("the guest lives").clone()
    }

    async fn play(self: Arc<Self>, work: Work, host: Arc<dyn Host>) -> Ran {
        let script = self.queued.lock().unwrap().pop_front().unwrap_or_else(|| self.standing.lock().unwrap().clone());
        let Work { key, service, args, prompt, lineage, attempt, limits, grants, deadline, stop } = work;
        let record = RecordedWork { key: key.clone(), service, args, prompt, lineage, attempt, limits, grants, deadline };
        self.begun.send_modify(|runs| runs.push(record));
        let end = tokio::select! {
            biased;
            () = stop => End::Stopped,
            () = tokio::time::sleep_until(deadline.into()) => End::PastDeadline,
            end = self.acts(script, host) => end,
        };
        self.ended.send_modify(|ends| ends.push((key, end.clone())));
        Ran { end, usage: self.usage.lock().unwrap().clone() }
    }

    async fn acts(&self, script: Vec<Act>, host: Arc<dyn Host>) -> End {
        for act in script {
            match act {
                Act::Say(message) => host.progress(&message),
                Act::Log(level, message) => host.log(level, &message),
                Act::Hold => self.turns.acquire().await.expect("never closed").forget(),
                Act::End(end) => return end,
            }
        }
        End::Answered { kind: None, body: "{}".into() }
    }
}

/// [`Guest`] for an `Arc` of a scripted guest, so that a run can outlive the borrow.
struct Shared(Arc<ScriptedGuest>);

impl Guest for Shared {
    fn hash(&self) -> Arc<str> {
        self.0.hash.clone()
    }

    fn run(&self, work: Work, host: Arc<dyn Host>) -> BoxFuture<'static, Ran> {
        Box::pin(self.0.clone().play(work, host))
    }
}

/// An executor whose guests are scripted, by the name of their source.
#[derive(Debug, Default)]
pub struct ScriptedExecutor {
    guests: Mutex<HashMap<String, Result<Arc<ScriptedGuest>, PrepareError>>>,
    prepared: Mutex<Vec<GuestSource>>,
}

impl ScriptedExecutor {
    /// The guest that a source of this name becomes.
    pub fn with(self, name: &str, guest: &Arc<ScriptedGuest>) -> Self {
        self.put(name, guest);
        self
    }

    /// The same, later.
    pub fn put(&self, name: &str, guest: &Arc<ScriptedGuest>) {
        self.guests.lock().unwrap().insert(name.into(), Ok(guest.clone()));
    }

    /// Refuses every source of this name.
    pub fn refuse(&self, name: &str, what: &str) {
        let error = PrepareError { what: what.into(), mend: "mend the test's guest".into() };
        self.guests.lock().unwrap().insert(name.into(), Err(error));
    }

    /// The sources it was asked to prepare, in order.
    pub fn prepared(&self) -> Vec<GuestSource> {
        self.prepared.lock().unwrap().clone()
    }

    /// The scripted guest as the port, for a test that needs no executor.
    pub fn guest(guest: &Arc<ScriptedGuest>) -> Arc<dyn Guest> {
        Arc::new(Shared(guest.clone()))
    }
}

impl Executor for ScriptedExecutor {
    fn prepare(&self, source: GuestSource) -> BoxFuture<'static, Result<Arc<dyn Guest>, PrepareError>> {
        let found = self.guests.lock().unwrap().get(&source.name).cloned();
        let unknown =
            || PrepareError { what: format!("no script for the guest {}", source.name), mend: "add one with put".into() };
        let answer = found.unwrap_or_else(|| Err(unknown())).map(|guest| ScriptedExecutor::guest(&guest));
        self.prepared.lock().unwrap().push(source);
        Box::pin(std::future::ready(answer))
    }
}

#[cfg(test)]
mod tests;
