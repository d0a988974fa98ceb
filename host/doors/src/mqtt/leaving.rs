//! How a door closes: the outbox empties, profile and status are cleared, and only then the agent says goodbye (G1-12, U08).
//!
//! Owns the stages and their time limits. It must not know why the node stops.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::conditions;
use super::door::Door;
use super::mesh::{Closed, Collision, Connection};

/// How long a door without a connection waits for one before it gives up; what is undelivered stays in the journal.
const RECONNECT_GRACE: Duration = Duration::from_secs(2);
/// How long the broker may take to acknowledge that profile and status are cleared.
const CLEARING_MAX: Duration = Duration::from_secs(3);
/// How long the broker may take to close the connection after our DISCONNECT. Closing it ourselves at once could make the
/// kernel throw the DISCONNECT away, and the broker would publish the last will.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// A door that is closing.
pub(crate) struct Leaving {
    stage: Stage,
    /// When the stage is over, done or not.
    until: Instant,
    since: Instant,
    done: Option<oneshot::Sender<Closed>>,
    closed: Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Emptying,
    Clearing,
    Goodbye,
}

impl Leaving {
    /// Whether the broker may close the connection now.
    pub(crate) fn said_goodbye(&self) -> bool {
        self.stage == Stage::Goodbye
    }

    /// When the stage has to be looked at again.
    pub(crate) fn next_step(&self, now: Instant) -> Instant {
        let grace = self.since + RECONNECT_GRACE;
        if self.stage == Stage::Emptying && grace > now { self.until.min(grace) } else { self.until }
    }
}

impl Door {
    /// Starts to close.
    pub(super) fn close(&mut self, until: Instant, done: oneshot::Sender<Closed>) {
        let since = Instant::now();
        self.leaving = Some(Leaving { stage: Stage::Emptying, until, since, done: Some(done), closed: Closed::default() });
    }

    /// Leaves because another instance was here first. Profile and status are that one's, so they stay.
    pub(super) fn collide(&mut self, other: String) {
        self.figures.collisions.increment(1);
        let condition = conditions::collision(&self.agent, &self.settings.broker, &other);
        tracing::error!(agent = %self.agent, broker = %self.settings.broker, %other, "collision: {}", condition.what);
        let what = condition.what.clone();
        self.board.clear(&conditions::connection(&self.agent));
        self.board.raise(&conditions::beside(&self.agent, "collision"), condition);
        self.state.send_replace(Connection::Collided(Collision { agent: self.agent.clone(), other, what }));
        let now = Instant::now();
        let mut leaving =
            Leaving { stage: Stage::Goodbye, until: now + GOODBYE_MAX, since: now, done: None, closed: Closed::default() };
        self.inbound.close();
        self.goodbye(&mut leaving, now);
        self.leaving = Some(leaving);
    }

    /// Moves on with closing. True: there is nothing left to do.
    pub(super) fn has_left(&mut self, now: Instant) -> bool {
        let Some(mut leaving) = self.leaving.take() else { return false };
        let online = self.link.is_some() && self.open_since.is_some();
        let left = match leaving.stage {
            Stage::Emptying => {
                let empty = self.desk.is_idle() && self.pager.is_idle() && self.inbound.is_idle();
                let hopeless = !online && now >= leaving.since + RECONNECT_GRACE;
                leaving.closed.delivered = empty;
                if online && (empty || now >= leaving.until) {
                    self.presence.leave();
                    leaving.stage = Stage::Clearing;
                    leaving.until = now + CLEARING_MAX;
                    // What was just marked goes out in this very turn.
                    self.turn(now);
                    false
                } else {
                    hopeless || now >= leaving.until
                }
            }
            Stage::Clearing => {
                leaving.closed.cleared = self.presence.has_left();
                if leaving.closed.cleared || now >= leaving.until {
                    self.goodbye(&mut leaving, now);
                }
                !online
            }
            Stage::Goodbye => self.link.is_none() || now >= leaving.until,
        };
        if left {
            self.flush_delivered();
            self.link = None;
            if let Some(done) = leaving.done.take() {
                // The node may have stopped waiting; then nobody needs to know.
                let _nobody_waits = done.send(leaving.closed);
            }
        }
        self.leaving = Some(leaving);
        left
    }

    fn goodbye(&mut self, leaving: &mut Leaving, now: Instant) {
        leaving.stage = Stage::Goodbye;
        leaving.until = now + GOODBYE_MAX;
        if let Some(link) = &mut self.link
            && link.disconnect().is_err()
        {
            // No place for the goodbye: the broker will publish the last will, which says the same.
            self.link = None;
        }
    }
}
