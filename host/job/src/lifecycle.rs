//! The lifecycle of a job as one table (protocol document section 6, G1-23, G1-27).
//!
//! Owns which step may follow which state. A terminal state accepts no step at all: that is the promise of exactly one
//! terminal result. It must not know time, storage or who asks.

use crate::outcome::Outcome;
use crate::reason::Reserved;

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// A request that is not a job yet.
    Arriving,
    /// Journaled, waiting for its turn.
    Accepted,
    /// Running; its deadline is armed.
    Started,
    /// The guest answered.
    Done,
    /// The executor failed.
    Error,
    /// The watchdog ended it.
    Timeout,
    /// It was cancelled.
    Cancelled,
    /// It was refused before any work.
    Rejected,
    /// Its id was already active.
    Duplicate,
}

/// What can happen to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// The request becomes a job.
    Accept,
    /// It begins to run.
    Start,
    /// It goes back to the journal to run again: a restart, or a graceful stop.
    Requeue,
    /// The guest answered.
    Finish,
    /// It ends with a reserved type.
    End(Reserved),
}

impl Step {
    /// The step this outcome is.
    pub fn of(outcome: &Outcome) -> Self {
        outcome.reserved().map_or(Self::Finish, Self::End)
    }
}

/// A step that its state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a job that is {from:?} does not take the step {step:?}")]
pub struct Illegal {
    /// The state the job was in.
    pub from: State,
    /// The step that was refused.
    pub step: Step,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 9] = [
        Self::Arriving,
        Self::Accepted,
        Self::Started,
        Self::Done,
        Self::Error,
        Self::Timeout,
        Self::Cancelled,
        Self::Rejected,
        Self::Duplicate,
    ];

    /// Whether the job has ended.
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Arriving | Self::Accepted | Self::Started)
    }

    /// The state after `step`, or a refusal. Live work and recovery both go through this one table.
    pub fn next(self, step: Step) -> Result<Self, Illegal> {
        use Reserved as R;
        match (self, step) {
            (Self::Arriving, Step::Accept) => Ok(Self::Accepted),
            (Self::Arriving, Step::End(R::Rejected)) => Ok(Self::Rejected),
            (Self::Arriving, Step::End(R::Duplicate)) => Ok(Self::Duplicate),
            // The cancel was here first (G1-25).
            (Self::Arriving, Step::End(R::Cancelled)) => Ok(Self::Cancelled),

            (Self::Accepted, Step::Start) => Ok(Self::Started),
            (Self::Accepted, Step::End(R::Cancelled)) => Ok(Self::Cancelled),
            // Its time passed in the queue (G1-52), it ran too often (G1-24), or its capability is gone after a restart.
            (Self::Accepted, Step::End(R::Timeout)) => Ok(Self::Timeout),
            (Self::Accepted, Step::End(R::Error)) => Ok(Self::Error),
            (Self::Accepted, Step::End(R::Rejected)) => Ok(Self::Rejected),

            (Self::Started, Step::Requeue) => Ok(Self::Accepted),
            (Self::Started, Step::Finish) => Ok(Self::Done),
            (Self::Started, Step::End(R::Error)) => Ok(Self::Error),
            (Self::Started, Step::End(R::Timeout)) => Ok(Self::Timeout),
            (Self::Started, Step::End(R::Cancelled)) => Ok(Self::Cancelled),

            (from, step) => Err(Illegal { from, step }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STEPS: [Step; 9] = [
        Step::Accept,
        Step::Start,
        Step::Requeue,
        Step::Finish,
        Step::End(Reserved::Error),
        Step::End(Reserved::Timeout),
        Step::End(Reserved::Cancelled),
        Step::End(Reserved::Rejected),
        Step::End(Reserved::Duplicate),
    ];

    /// S1-04, S1-43: no state that is terminal takes any step; every other state can still end.
    #[test]
    fn terminal_states_take_no_step() {
        for state in State::ALL {
            let legal = STEPS.iter().filter(|step| state.next(**step).is_ok()).count();
            assert_eq!(legal == 0, state.is_terminal(), "{state:?}");
        }
    }

    /// S1-44, S1-44b: what was refused or a duplicate never started.
    #[test]
    fn refusals_never_run() {
        assert!(State::Started.next(Step::End(Reserved::Rejected)).is_err());
        assert!(State::Accepted.next(Step::End(Reserved::Duplicate)).is_err());
        assert!(State::Accepted.next(Step::Finish).is_err(), "a job that never started has no answer");
    }

    proptest! {
        /// S1-04: any order of steps gives at most one terminal state.
        #[test]
        fn any_order_ends_at_most_once(picks in proptest::collection::vec(0..STEPS.len(), 0..40)) {
            let mut state = State::Arriving;
            let mut ends = 0;
            for pick in picks {
                if let Ok(next) = state.next(STEPS[pick]) {
                    ends += u32::from(next.is_terminal());
                    state = next;
                }
            }
            prop_assert!(ends <= 1);
        }
    }
}
