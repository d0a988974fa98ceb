//! The turnstile: lets jobs wait for their place, and gives a place back when its guard is dropped.
//!
//! Owns the waiting tasks' wake-ups around the pure [`Places`]. It must not know what a job does with its place.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::places::{Entry, PlaceLimits, Places, Ticket, Want};

/// The turnstile. Clones are one turnstile.
#[derive(Clone)]
pub(crate) struct Turnstile(Arc<Mutex<Inner>>);

struct Inner {
    places: Places,
    waiting: HashMap<Ticket, oneshot::Sender<Place>>,
}

/// A place to run. Dropping it gives it to the next.
pub(crate) struct Place {
    turnstile: Turnstile,
    want: Want,
}

/// A wait for a place. Dropping it leaves the queue.
pub(crate) struct Wait {
    turnstile: Turnstile,
    want: Want,
    ticket: Ticket,
    granted: oneshot::Receiver<Place>,
}

/// How a want was met.
pub(crate) enum Pass {
    Now(Place),
    Waits(Wait),
    Full { retry_after_ms: u64 },
}

impl Turnstile {
    pub(crate) fn new(limits: PlaceLimits) -> Self {
        Self(Arc::new(Mutex::new(Inner { places: Places::new(limits), waiting: HashMap::new() })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a place; `always` queues past the limit.
    pub(crate) fn enter(&self, want: Want, always: bool) -> Pass {
        let mut inner = self.lock();
        match inner.places.enter(want.clone(), always) {
            Entry::Now => Pass::Now(Place { turnstile: self.clone(), want }),
            Entry::Full { retry_after_ms } => Pass::Full { retry_after_ms },
            Entry::Waits(ticket) => {
                let (grant, granted) = oneshot::channel();
                inner.waiting.insert(ticket, grant);
                let refused = self.hand_out(&mut inner);
                drop(inner);
                drop(refused);
                Pass::Waits(Wait { turnstile: self.clone(), want, ticket, granted })
            }
        }
    }

    /// Gives every free place to whoever's turn it is. A place nobody took is returned, to be dropped outside the lock.
    fn hand_out(&self, inner: &mut Inner) -> Vec<Place> {
        let mut refused = Vec::new();
        while let Some((ticket, want)) = inner.places.next() {
            let place = Place { turnstile: self.clone(), want };
            match inner.waiting.remove(&ticket) {
                Some(grant) => refused.extend(grant.send(place).err()),
                None => refused.push(place),
            }
        }
        refused
    }

    /// Changes the limits; whoever may run by the new ones gets a place.
    pub(crate) fn set_limits(&self, limits: PlaceLimits) {
        let mut inner = self.lock();
        inner.places.set_limits(limits);
        let refused = self.hand_out(&mut inner);
        drop(inner);
        drop(refused);
    }

    /// Jobs with a place, and jobs that wait.
    pub(crate) fn counts(&self) -> (u32, u32) {
        let inner = self.lock();
        (inner.places.running(), inner.places.waiting())
    }
}

impl Wait {
    /// Resolves with the place when it is this job's turn. Cancel safe.
    pub(crate) async fn turn(&mut self) -> Place {
        match (&mut self.granted).await {
            Ok(place) => place,
            // The turnstile outlives every wait, and a grant is never dropped unsent while its ticket stands.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        // A place that was granted but never picked up gives itself back when the channel closes.
        let mut inner = self.turnstile.lock();
        if inner.waiting.remove(&self.ticket).is_some() {
            inner.places.abandon(&self.want.turn, self.ticket);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inner = self.turnstile.lock();
        inner.places.leave(&self.want);
        let refused = self.turnstile.hand_out(&mut inner);
        drop(inner);
        drop(refused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use job::ids::{AgentId, Door, Owner};

    fn want(owner: &str) -> Want {
        let agent = AgentId::parse("a").expect("id");
        let turn = (agent.clone(), Door::Mesh, Owner::from_slug(owner).expect("slug"));
        Want { turn, service: (agent, "s".into()), max_concurrent: None, depth: 0 }
    }

    fn one_place() -> Turnstile {
        Turnstile::new(PlaceLimits { max_running: 1, max_live: 1000, max_queued: 10, max_depth: 4 })
    }

    fn waits(turnstile: &Turnstile, owner: &str) -> Wait {
        match turnstile.enter(want(owner), false) {
            Pass::Waits(wait) => wait,
            Pass::Now(_) | Pass::Full { .. } => panic!("it should wait"),
        }
    }

    #[tokio::test]
    async fn a_dropped_place_goes_to_the_next_and_a_dropped_wait_to_nobody() {
        let turnstile = one_place();
        let Pass::Now(first) = turnstile.enter(want("a"), false) else { panic!("room") };
        let given_up = waits(&turnstile, "b");
        let mut patient = waits(&turnstile, "c");
        drop(given_up);
        drop(first);
        let place = patient.turn().await;
        assert_eq!(turnstile.counts(), (1, 0));
        drop(place);
        assert_eq!(turnstile.counts(), (0, 0));
    }

    #[tokio::test]
    async fn a_place_granted_to_someone_who_left_is_not_lost() {
        let turnstile = one_place();
        let Pass::Now(first) = turnstile.enter(want("a"), false) else { panic!("room") };
        let granted_unread = waits(&turnstile, "b");
        drop(first);
        assert_eq!(turnstile.counts(), (1, 0), "granted already");
        drop(granted_unread);
        assert_eq!(turnstile.counts(), (0, 0));
    }
}
