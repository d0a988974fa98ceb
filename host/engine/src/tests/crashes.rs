//! A thousand seeded crashes: the journal dies at some step of some call; after the restart every accepted job has its one
//! terminal result, and nobody ever saw another one.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use job::outcome::Outcome;
use kit::{CrashMode, Told};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

const ROUNDS: u64 = 1_000;
/// Crashes in a row before the journal is left in peace; fewer than the attempts a job has.
const CRASHES_PER_ROUND: usize = 2;
/// Crash steps of the busiest round, so that crashes fall everywhere.
const STEPS: u64 = 60;

/// What every observer of one round has seen.
#[derive(Default)]
struct Seen {
    accepted: BTreeSet<JobKey>,
    outcomes: BTreeMap<JobKey, Vec<Outcome>>,
}

impl Seen {
    fn look(&mut self, courier: &RecordingCourier) {
        for told in courier.told() {
            if let Told::Deliver(row) = told
                && let Item::Outcome(outcome) = row.item
            {
                let job::store::Route::Mesh(key) = row.route;
                let known = self.outcomes.entry(key).or_default();
                if !known.contains(&outcome) {
                    known.push(outcome);
                }
            }
        }
    }
}

/// One process: submits and cancels in a seeded order until all is done or the journal dies.
async fn process(rig: &Rig, random: &mut StdRng, seen: &mut Seen, fresh: bool) {
    if rig.engine.recover().await.is_err() {
        return;
    }
    let mut steps: Vec<(usize, bool)> = (0..6).map(|job| (job, true)).chain((0..3).map(|job| (job * 2, false))).collect();
    steps.shuffle(random);
    for (job, is_submit) in steps {
        let service = if job == 5 { "once.only" } else { "schema.review" };
        let submission = request_of(service, &format!("j{job}"));
        let key = submission.key.clone();
        if is_submit {
            let again = Submission { redelivered: !fresh, ..submission };
            match rig.submit(again).await {
                Ok(Admitted::Accepted | Admitted::CancelledAhead) => {
                    seen.accepted.insert(key);
                }
                Ok(_) => {}
                Err(_) => return,
            }
        } else if rig.engine.cancel(key).await.is_err() {
            return;
        }
    }
    idle(rig).await;
}

/// Waits until no job lives; time is paused, so the wait costs none.
async fn idle(rig: &Rig) {
    while rig.engine.counts().2 > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

async fn round(seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut seen = Seen::default();
    let sync_full = random.random_bool(0.5);
    let settings = Settings { sync_full, ..settings() };
    let mut journal = MemoryJournal::default();
    for crash in 0..CRASHES_PER_ROUND {
        let mode = if random.random_bool(0.5) { CrashMode::Hang } else { CrashMode::Closed };
        journal.crash_somewhere(random.random(), STEPS, mode);
        let rig = Rig::with(ScriptedGuest::answering(r#"{"n":1}"#), settings, journal.clone(), CATALOG);
        tokio::select! {
            () = process(&rig, &mut random, &mut seen, crash == 0) => {}
            () = journal.crashed() => {}
        }
        seen.look(&rig.courier);
        journal = journal.reopen();
    }
    let rig = Rig::with(ScriptedGuest::answering(r#"{"n":1}"#), settings, journal, CATALOG);
    process(&rig, &mut random, &mut seen, false).await;
    seen.look(&rig.courier);
    // Nothing was ever marked delivered, so the outbox still holds the outcome of every job that ended.
    let ended: BTreeSet<JobKey> = rig
        .journal
        .outbox()
        .into_iter()
        .filter(|row| matches!(row.item, Item::Outcome(_)))
        .map(|row| match row.route {
            job::store::Route::Mesh(key) => key,
        })
        .collect();
    for key in &seen.accepted {
        assert!(ended.contains(key), "seed {seed}: {key} was accepted and has no outcome");
    }
    for (key, outcomes) in &seen.outcomes {
        assert_eq!(outcomes.len(), 1, "seed {seed}: {key} had more than one outcome: {outcomes:?}");
    }
}

/// S1-04, S1-43, S1-47, S1-42b, G1-24, invariants 1 and 2.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_loses_no_job_and_ends_none_twice() {
    for seed in 0..ROUNDS {
        round(seed).await;
    }
}
