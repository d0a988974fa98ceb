//! Commands on their way in: read, handed to the engine, and acknowledged once the engine says so.
//!
//! Owns what is unacknowledged. A command the engine cannot take now stays so and is tried again; one that came by an older
//! connection is never acknowledged on a newer one. It must not know what the engine does with a command.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use job::BoxFuture;
use job::clock::Clock;
use job::ids::{AgentId, JobId};
use job::jobs::{Jobs, Unavailable};
use job::store::{Admitted, Cancelled};
use tokio::time::Instant;
use wire::mqtt::cancel::decode_cancel;
use wire::mqtt::invoke::{Invoke, Meta, NotAJob, decode_invoke};
use wire::mqtt::topics::Root;

use super::backoff::Backoff;
use super::link::{Delivery, Receipt};
use super::metrics::Figures;

/// Most commands we take unacknowledged, as told to the broker. Wide, so that a cancel never waits behind invokes.
pub(crate) const RECEIVE_MAX: u16 = 1024;
/// Most commands held unacknowledged; a broker that sends more than it was told gets the rest to keep until a reconnect.
const HELD_MAX: usize = 4 * RECEIVE_MAX as usize;
/// Most bytes of commands held unacknowledged.
const HELD_BYTES_MAX: usize = 256 * 1024 * 1024;
/// First and longest wait before a command is handed to the engine again.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(30);

/// A command the engine has.
struct Asking {
    answer: Answer,
    held: Option<Held>,
}

enum Answer {
    Admitted(BoxFuture<'static, Result<Admitted, Unavailable>>),
    Cancelled(BoxFuture<'static, Result<Cancelled, Unavailable>>),
}

/// A command that is not acknowledged yet.
struct Held {
    delivery: Delivery,
    command: Command,
    epoch: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Command {
    Invoke,
    Cancel,
}

impl Future for Asking {
    type Output = (Option<Held>, Result<(), Unavailable>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answered = match &mut self.answer {
            Answer::Admitted(future) => future.as_mut().poll(cx).map_ok(|_| ()),
            Answer::Cancelled(future) => future.as_mut().poll(cx).map_ok(|_| ()),
        };
        answered.map(|answer| (self.held.take(), answer))
    }
}

/// The commands of one agent.
pub(crate) struct Inbound {
    agent: AgentId,
    jobs: Arc<dyn Jobs>,
    clock: Arc<dyn Clock>,
    payload_bytes_max: usize,
    invoke_topic: String,
    cancel_topic: String,
    /// In the order of arrival, which is the order MQTT asks acknowledgements to have.
    asking: FuturesOrdered<Asking>,
    retry: VecDeque<Held>,
    retry_at: Option<Instant>,
    backoff: Backoff,
    held_bytes: usize,
    epoch: u64,
    draining: bool,
    closing: bool,
    overflowed: bool,
}

impl Inbound {
    /// Nothing on its way yet.
    pub(crate) fn new(agent: AgentId, root: &Root, jobs: Arc<dyn Jobs>, clock: Arc<dyn Clock>, payload_bytes_max: usize) -> Self {
        Self {
            invoke_topic: root.invoke(&agent),
            cancel_topic: root.cancel(&agent),
            agent,
            jobs,
            clock,
            payload_bytes_max,
            asking: FuturesOrdered::new(),
            retry: VecDeque::new(),
            retry_at: None,
            backoff: Backoff::new(RETRY_FIRST, RETRY_MOST),
            held_bytes: 0,
            epoch: 0,
            draining: false,
            closing: false,
            overflowed: false,
        }
    }

    /// The topics commands come by.
    pub(crate) fn topics(&self) -> [&str; 2] {
        [&self.invoke_topic, &self.cancel_topic]
    }

    /// A connection is open; what came by an older one can no longer be acknowledged, and the broker sends it again.
    pub(crate) fn opened(&mut self) {
        self.epoch += 1;
        self.overflowed = false;
        for held in self.retry.drain(..) {
            self.held_bytes -= held.delivery.payload.len();
        }
        self.retry_at = None;
    }

    /// From now on invokes are left with the broker, unacknowledged; it sends them again to the next instance.
    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }

    /// From now on every command is left with the broker.
    pub(crate) fn close(&mut self) {
        self.draining = true;
        self.closing = true;
    }

    /// Commands that are not acknowledged yet.
    pub(crate) fn held(&self) -> usize {
        self.asking.len() + self.retry.len()
    }

    /// Whether the engine has answered everything it was handed.
    pub(crate) fn is_idle(&self) -> bool {
        self.asking.is_empty()
    }

    /// Whether commands had to be left with the broker and the connection should be opened anew to get them.
    pub(crate) fn wants_reconnect(&self) -> bool {
        self.overflowed && self.held() == 0
    }

    /// Takes a delivery of a command topic. A receipt means: acknowledge it at once. `None` with `is_command` false: it is
    /// somebody else's.
    pub(crate) fn handle(&mut self, delivery: Delivery, figures: &Figures) -> Handled {
        let command = match delivery.topic.as_ref() {
            topic if topic == self.invoke_topic.as_bytes() => Command::Invoke,
            topic if topic == self.cancel_topic.as_bytes() => Command::Cancel,
            _ => return Handled::NotACommand(delivery),
        };
        if delivery.retained {
            figures.retained_commands.increment(1);
            let (topic, bytes) = (topic_text(&delivery), delivery.payload.len());
            tracing::warn!(agent = %self.agent, topic, bytes, "retained_command: a kept command is never run; clear it at the broker");
            return Handled::Acknowledge(delivery.receipt);
        }
        match command {
            Command::Invoke => figures.invokes.increment(1),
            Command::Cancel => figures.cancels.increment(1),
        }
        if self.closing || self.draining && command == Command::Invoke {
            return Handled::Kept;
        }
        if self.held() >= HELD_MAX || self.held_bytes + delivery.payload.len() > HELD_BYTES_MAX {
            self.overflowed = true;
            return Handled::Kept;
        }
        self.held_bytes += delivery.payload.len();
        let receipt = delivery.receipt;
        match self.hand_over(Held { delivery, command, epoch: self.epoch }, figures) {
            true => Handled::Kept,
            false => Handled::Acknowledge(receipt),
        }
    }

    /// Hands a command to the engine. False: it is none.
    fn hand_over(&mut self, held: Held, figures: &Figures) -> bool {
        let payload = held.delivery.payload.clone();
        let answer = match held.command {
            Command::Invoke => {
                let meta = Meta {
                    redelivered: held.delivery.redelivered,
                    expires: held.delivery.expires_in_s.map(|s| self.clock.now().plus_ms(i64::from(s) * 1000)),
                    payload_bytes_max: self.payload_bytes_max,
                };
                match decode_invoke(&self.agent, &payload, meta, fresh_id) {
                    Invoke::Submission(submission) => Answer::Admitted(self.jobs.submit(*submission)),
                    Invoke::Refusal(refusal) => Answer::Admitted(self.jobs.refuse(*refusal)),
                    Invoke::NotAJob(why) => return self.not_a_job(&held, &why, figures),
                }
            }
            Command::Cancel => match decode_cancel(&self.agent, &payload) {
                Ok(key) => Answer::Cancelled(self.jobs.cancel(key)),
                Err(why) => return self.not_a_job(&held, &why, figures),
            },
        };
        self.asking.push_back(Asking { answer, held: Some(held) });
        true
    }

    fn not_a_job(&mut self, held: &Held, why: &NotAJob, figures: &Figures) -> bool {
        self.held_bytes -= held.delivery.payload.len();
        figures.not_a_job(why.word());
        let (topic, bytes) = (topic_text(&held.delivery), held.delivery.payload.len());
        tracing::warn!(agent = %self.agent, topic, bytes, %why, "not_a_job");
        false
    }

    /// The engine answered: a receipt to acknowledge, or none where the command is to be tried again or came by an older
    /// connection. Pending while the engine owes answers, or nothing is held.
    pub(crate) fn poll_answer(&mut self, cx: &mut Context<'_>, figures: &Figures) -> Poll<Option<Receipt>> {
        let Poll::Ready(Some((Some(held), answer))) = self.asking.poll_next_unpin(cx) else { return Poll::Pending };
        let current = held.epoch == self.epoch;
        if let Err(why) = answer {
            figures.unavailable.increment(1);
            if current {
                tracing::warn!(agent = %self.agent, %why, "a command stays unacknowledged and is tried again");
                self.retry.push_back(held);
                if self.retry_at.is_none() {
                    self.retry_at = Some(Instant::now() + self.backoff.wait());
                }
                return Poll::Ready(None);
            }
        } else {
            self.backoff.reset();
        }
        self.held_bytes -= held.delivery.payload.len();
        Poll::Ready(current.then_some(held.delivery.receipt))
    }

    /// When commands are handed over again.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Hands commands over again whose time has come.
    pub(crate) fn handle_time(&mut self, now: Instant, figures: &Figures) {
        if self.retry_at.is_none_or(|at| at > now) {
            return;
        }
        self.retry_at = None;
        for held in std::mem::take(&mut self.retry) {
            // It was a command before, so it is one now.
            self.hand_over(held, figures);
        }
    }
}

/// What became of a delivery.
pub(crate) enum Handled {
    /// It is done with.
    Acknowledge(Receipt),
    /// It stays unacknowledged for now.
    Kept,
    /// It came by another topic.
    NotACommand(Delivery),
}

/// A job id for an invoke that names none (G1-39).
fn fresh_id() -> JobId {
    JobId::generated(ulid::Ulid::new().0)
}

/// A delivery's topic for the log.
pub(crate) fn topic_text(delivery: &Delivery) -> &str {
    std::str::from_utf8(&delivery.topic).unwrap_or("(not UTF-8)")
}
