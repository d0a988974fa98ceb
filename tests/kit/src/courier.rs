//! A courier that writes down what it is told, in order, and lets a test wait for it.
//!
//! Owns the record. It must not know topics or brokers.

use std::sync::Mutex;

use job::courier::{Courier, Event, EventKind};
use job::ids::JobKey;
use job::outcome::Outcome;
use job::store::{Item, OutboxRow, RowId};
use tokio::sync::watch;

/// One thing the courier was told.
#[derive(Debug, Clone)]
pub enum Told {
    /// A row is due.
    Deliver(OutboxRow),
    /// A row is due no more.
    Withdraw(RowId, JobKey),
    /// Something happened; the gate was open then if the flag says so.
    Announce(Event, bool),
}

/// The recording courier.
#[derive(Debug)]
pub struct RecordingCourier {
    told: watch::Sender<Vec<Told>>,
    result_bytes_max: Mutex<Option<usize>>,
}

impl Default for RecordingCourier {
    fn default() -> Self {
        Self { told: watch::Sender::new(Vec::new()), result_bytes_max: Mutex::new(None) }
    }
}

impl RecordingCourier {
    /// All it was told so far.
    pub fn told(&self) -> Vec<Told> {
        self.told.borrow().clone()
    }

    /// All it was told since the last take; the record is empty afterwards.
    pub fn take(&self) -> Vec<Told> {
        let mut taken = Vec::new();
        self.told.send_modify(|told| taken = std::mem::take(told));
        taken
    }

    /// Waits until the record satisfies `enough`, and returns it. Wakes at each entry, never by time.
    pub async fn wait_until(&self, mut enough: impl FnMut(&[Told]) -> bool) -> Vec<Told> {
        let mut entries = self.told.subscribe();
        entries.wait_for(|told| enough(told)).await.expect("the courier lives").clone()
    }

    /// Waits for the job's outcome and returns it.
    pub async fn outcome_of(&self, key: &JobKey) -> Outcome {
        let told = self.wait_until(|told| told.iter().any(|entry| outcome_in(entry, key).is_some())).await;
        told.iter().find_map(|entry| outcome_in(entry, key)).cloned().expect("just seen")
    }

    /// Every outcome of this job, notices and repeats not counted.
    pub fn outcomes(&self, key: &JobKey) -> Vec<Outcome> {
        self.told.borrow().iter().filter_map(|entry| outcome_in(entry, key)).cloned().collect()
    }

    /// The due rows that were told and not withdrawn, in order.
    pub fn due(&self) -> Vec<OutboxRow> {
        let told = self.told.borrow();
        let gone: Vec<RowId> = told.iter().filter_map(|e| if let Told::Withdraw(id, _) = e { Some(*id) } else { None }).collect();
        told.iter()
            .filter_map(|e| if let Told::Deliver(row) = e { Some(row) } else { None })
            .filter(|row| !gone.contains(&row.id))
            .cloned()
            .collect()
    }

    /// The milestones of this job whose gate was open when they were announced.
    pub fn events(&self, key: &JobKey) -> Vec<EventKind> {
        let told = self.told.borrow();
        let open = told.iter().filter_map(|e| match e {
            Told::Announce(event, true) if event.key == *key => Some(event.kind.clone()),
            Told::Announce(..) | Told::Deliver(_) | Told::Withdraw(..) => None,
        });
        open.collect()
    }

    /// What it answers as the most bytes of a result.
    pub fn set_result_bytes_max(&self, bytes: Option<usize>) {
        *self.result_bytes_max.lock().unwrap() = bytes;
    }
}

fn outcome_in<'a>(entry: &'a Told, of: &JobKey) -> Option<&'a Outcome> {
    match entry {
        Told::Deliver(OutboxRow { route: job::store::Route::Mesh(key), item: Item::Outcome(outcome), .. }) if key == of => {
            Some(outcome)
        }
        Told::Deliver(_) | Told::Withdraw(..) | Told::Announce(..) => None,
    }
}

impl Courier for RecordingCourier {
    fn deliver(&self, row: OutboxRow) {
        self.told.send_modify(|told| told.push(Told::Deliver(row)));
    }

    fn withdraw(&self, id: RowId, key: &JobKey) {
        self.told.send_modify(|told| told.push(Told::Withdraw(id, key.clone())));
    }

    fn announce(&self, event: Event) {
        let open = event.gate.is_open();
        self.told.send_modify(|told| told.push(Told::Announce(event, open)));
    }

    fn result_bytes_max(&self, _: &JobKey) -> Option<usize> {
        *self.result_bytes_max.lock().unwrap()
    }
}
