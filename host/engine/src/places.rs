//! Places for jobs: who may run now, who waits, and whose turn is next (G1-43, G1-50).
//!
//! Owns the counts and the fair order, as pure data: owners take turns, and within an owner jobs keep their order except where
//! a capability is at its own limit. It must not know tasks, time or what a job does.

use std::collections::{HashMap, VecDeque};

use job::ids::{AgentId, Door, Owner};

/// Instances kept back per level of depth, so that children of deep jobs always find room (G1-50).
pub const LIVE_RESERVE_PER_DEPTH: u32 = 16;
/// Shortest wait that an overloaded requester is asked for, in milliseconds.
const RETRY_AFTER_MIN_MS: u64 = 100;
/// Longest wait that an overloaded requester is asked for, in milliseconds.
const RETRY_AFTER_MAX_MS: u64 = 30_000;

/// How many jobs may be where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceLimits {
    /// Jobs that use a processor (`limits.max_running`).
    pub max_running: u32,
    /// Instances alive (`limits.max_live`).
    pub max_live: u32,
    /// Accepted jobs that wait (`limits.max_queued`).
    pub max_queued: u32,
    /// Deepest delegation (`mesh.max_depth`).
    pub max_depth: u32,
}

/// Whose turn counts as one: owners of different doors or agents are different.
pub(crate) type Turn = (AgentId, Door, Owner);
/// A capability of an agent.
pub(crate) type Service = (AgentId, std::sync::Arc<str>);
/// Names one waiting job.
pub(crate) type Ticket = u64;

/// What a job needs of the places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Want {
    /// Whose turn it uses.
    pub(crate) turn: Turn,
    /// Its capability.
    pub(crate) service: Service,
    /// How many jobs of that capability may run at once, none for no limit of its own.
    pub(crate) max_concurrent: Option<u32>,
    /// Its depth.
    pub(crate) depth: u32,
}

/// The answer to a want.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It has a place.
    Now,
    /// It waits under this ticket.
    Waits(Ticket),
    /// The queue is full.
    Full {
        /// When another try makes sense, in milliseconds.
        retry_after_ms: u64,
    },
}

struct Waiting {
    ticket: Ticket,
    want: Want,
}

/// The places and the queue before them.
pub(crate) struct Places {
    limits: PlaceLimits,
    running: u32,
    by_service: HashMap<Service, u32>,
    lanes: HashMap<Turn, VecDeque<Waiting>>,
    /// Owners that wait, in the order of their turns.
    turns: VecDeque<Turn>,
    waiting: u32,
    next_ticket: Ticket,
}

impl Places {
    /// Empty places.
    pub(crate) fn new(limits: PlaceLimits) -> Self {
        Self {
            limits,
            running: 0,
            by_service: HashMap::new(),
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            waiting: 0,
            next_ticket: 0,
        }
    }

    /// From now on these limits hold; places that are taken stay taken.
    pub(crate) fn set_limits(&mut self, limits: PlaceLimits) {
        self.limits = limits;
    }

    /// Jobs with a place.
    pub(crate) fn running(&self) -> u32 {
        self.running
    }

    /// Jobs that wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    fn has_room(&self, want: &Want) -> bool {
        let reserve = LIVE_RESERVE_PER_DEPTH.saturating_mul(self.limits.max_depth.saturating_sub(want.depth));
        let live_max = self.limits.max_live.saturating_sub(reserve).max(1);
        let of_service = self.by_service.get(&want.service).copied().unwrap_or(0);
        self.running < self.limits.max_running.min(live_max) && want.max_concurrent.is_none_or(|max| of_service < max)
    }

    /// Whether this want would get a place at once: nobody who could run waits before it.
    pub(crate) fn would_run(&self, want: &Want) -> bool {
        self.waiting == 0 && self.has_room(want)
    }

    /// Asks for a place. `always` queues even past the limit, for jobs that are accepted already.
    pub(crate) fn enter(&mut self, want: Want, always: bool) -> Entry {
        if self.would_run(&want) {
            self.take(&want);
            return Entry::Now;
        }
        if self.waiting >= self.limits.max_queued && !always {
            // The more jobs wait for each place, the longer another try should wait.
            let per_place = u64::from(self.waiting) * 10 / u64::from(self.limits.max_running.max(1));
            return Entry::Full { retry_after_ms: per_place.clamp(RETRY_AFTER_MIN_MS, RETRY_AFTER_MAX_MS) };
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting += 1;
        let lane = self.lanes.entry(want.turn.clone()).or_default();
        if lane.is_empty() {
            self.turns.push_back(want.turn.clone());
        }
        lane.push_back(Waiting { ticket, want });
        Entry::Waits(ticket)
    }

    fn take(&mut self, want: &Want) {
        self.running += 1;
        *self.by_service.entry(want.service.clone()).or_default() += 1;
    }

    /// Gives a place back.
    pub(crate) fn leave(&mut self, want: &Want) {
        self.running = self.running.saturating_sub(1);
        if let Some(count) = self.by_service.get_mut(&want.service) {
            *count -= 1;
            if *count == 0 {
                self.by_service.remove(&want.service);
            }
        }
    }

    /// Takes a job that waits out of the queue.
    pub(crate) fn abandon(&mut self, turn: &Turn, ticket: Ticket) {
        let Some(lane) = self.lanes.get_mut(turn) else { return };
        let before = lane.len();
        lane.retain(|waiting| waiting.ticket != ticket);
        self.waiting -= u32::try_from(before - lane.len()).unwrap_or(0);
        if lane.is_empty() {
            self.lanes.remove(turn);
            self.turns.retain(|other| other != turn);
        }
    }

    /// Gives the next place to whoever's turn it is: owner by owner, each owner's oldest job that has room. The place is taken
    /// for it.
    pub(crate) fn next(&mut self) -> Option<(Ticket, Want)> {
        if self.running >= self.limits.max_running {
            return None;
        }
        // Owners that cannot use a place now keep their turn.
        for nth in 0..self.turns.len() {
            let waiting = self.lanes.get(&self.turns[nth])?;
            let Some(index) = waiting.iter().position(|waiting| self.has_room(&waiting.want)) else { continue };
            let turn = self.turns.remove(nth)?;
            let lane = self.lanes.get_mut(&turn)?;
            let chosen = lane.remove(index)?;
            if lane.is_empty() {
                self.lanes.remove(&turn);
            } else {
                self.turns.push_back(turn);
            }
            self.waiting -= 1;
            self.take(&chosen.want);
            return Some((chosen.ticket, chosen.want));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: PlaceLimits = PlaceLimits { max_running: 2, max_live: 1000, max_queued: 6, max_depth: 4 };

    fn want(owner: &str, service: &str, max_concurrent: Option<u32>) -> Want {
        let agent = AgentId::parse("a").expect("id");
        let turn = (agent.clone(), Door::Mesh, Owner::from_slug(owner).expect("slug"));
        Want { turn, service: (agent, service.into()), max_concurrent, depth: 0 }
    }

    fn owners_in_order(places: &mut Places) -> Vec<String> {
        let mut order = Vec::new();
        while let Some((_, next)) = places.next() {
            order.push(next.turn.2.as_str().to_owned());
            places.leave(&next);
        }
        order
    }

    /// G1-43: one owner's burst does not starve another.
    #[test]
    fn owners_take_turns() {
        let mut places = Places::new(LIMITS);
        let running = [want("a", "s", None), want("a", "s", None)];
        for job in &running {
            assert_eq!(places.enter(job.clone(), false), Entry::Now);
        }
        for owner in ["a", "a", "a", "a", "b", "c"] {
            assert!(matches!(places.enter(want(owner, "s", None), false), Entry::Waits(_)));
        }
        assert!(matches!(places.enter(want("d", "s", None), false), Entry::Full { retry_after_ms: 100.. }));
        assert!(places.next().is_none(), "no place is free");
        places.leave(&running[0]);
        assert_eq!(owners_in_order(&mut places), ["a", "b", "c", "a", "a", "a"]);
    }

    /// G1-50: a capability at its own limit lets others of the same owner pass.
    #[test]
    fn a_full_capability_blocks_only_itself() {
        let mut places = Places::new(LIMITS);
        let slow = want("a", "slow", Some(1));
        assert_eq!(places.enter(slow.clone(), false), Entry::Now);
        assert!(matches!(places.enter(slow.clone(), false), Entry::Waits(0)));
        assert!(matches!(places.enter(want("a", "fast", None), false), Entry::Waits(1)));
        assert_eq!(places.next().map(|(ticket, _)| ticket), Some(1));
        places.leave(&slow);
        assert_eq!(places.next().map(|(ticket, _)| ticket), Some(0));
    }

    /// G1-50: jobs near the depth limit find room that shallow ones may not use.
    #[test]
    fn deep_jobs_find_room_when_shallow_ones_do_not() {
        let mut places = Places::new(PlaceLimits { max_running: 1000, max_live: 66, max_queued: 10, max_depth: 4 });
        let shallow = want("a", "s", None);
        assert_eq!(places.enter(shallow.clone(), false), Entry::Now);
        assert_eq!(places.enter(shallow.clone(), false), Entry::Now);
        assert!(matches!(places.enter(shallow.clone(), false), Entry::Waits(_)), "66 - 16 x 4 = 2 places at depth 0");
        assert!(places.has_room(&Want { depth: 1, ..shallow }));
    }

    proptest! {
        /// G1-43, G1-50: whatever comes, waits, gives up and leaves, counts stay true and nobody waits while there is room.
        #[test]
        fn counts_stay_true(steps in proptest::collection::vec((0..4u8, 0..3usize), 1..200)) {
            let mut places = Places::new(LIMITS);
            let (mut running, mut waiting) = (Vec::new(), Vec::new());
            for (step, owner) in steps {
                let job = want(["a", "b", "c"][owner], "s", None);
                match step {
                    0 | 1 => match places.enter(job.clone(), step == 1) {
                        Entry::Now => running.push(job),
                        Entry::Waits(ticket) => waiting.push((ticket, job)),
                        Entry::Full { .. } => prop_assert!(waiting.len() >= 6),
                    },
                    2 => if let Some(job) = running.pop() { places.leave(&job) },
                    _ => if let Some((ticket, job)) = waiting.pop() { places.abandon(&job.turn, ticket) },
                }
                while let Some((ticket, job)) = places.next() {
                    waiting.retain(|(other, _)| *other != ticket);
                    running.push(job);
                }
                prop_assert_eq!(places.running() as usize, running.len());
                prop_assert_eq!(places.waiting() as usize, waiting.len());
                prop_assert!(running.len() == 2 || waiting.is_empty());
            }
        }
    }
}
