//! An agent's own profile and status: published at each connection, cleared when it leaves, and watched for a second instance.
//!
//! Owns what stands retained about the agent (G1-10 to G1-12, G1-15, G1-36). It must not know the connection or jobs.

use std::sync::Arc;

use job::clock::Timestamp;
use tokio::time::Instant;
use wire::mqtt::outgoing::Message;
use wire::mqtt::registry::{self, Presence as Word, Profile};
use wire::mqtt::topics::Root;

use super::blame::STRIKES_MAX;
use super::link::Ticket;

/// One retained topic of ours.
#[derive(Debug, Default)]
struct Standing {
    /// Counts what should stand there; a ticket carries the count it was made for.
    wanted: u64,
    /// What was sent last on this connection.
    sent: u64,
    /// What the broker has acknowledged.
    acknowledged: u64,
    /// When it may be tried again after a refusal.
    again: Option<Instant>,
    /// When it may be tried again after it was set aside; new connections change nothing about that.
    aside_until: Option<Instant>,
    /// Cuts in a row right after it was sent.
    strikes: u32,
}

impl Standing {
    fn want(&mut self) {
        self.wanted += 1;
        self.again = None;
    }

    fn is_due(&self, now: Instant) -> bool {
        let rests = |until: Option<Instant>| until.is_some_and(|until| until > now);
        self.sent < self.wanted && !rests(self.again) && !rests(self.aside_until)
    }

    fn is_flying(&self) -> bool {
        self.sent == self.wanted && self.acknowledged < self.sent
    }

    fn acknowledged(&mut self, count: u64) {
        self.acknowledged = count;
        self.strikes = 0;
        self.aside_until = None;
    }

    fn next_retry(&self) -> Option<Instant> {
        self.again.max(self.aside_until).filter(|_| self.sent < self.wanted)
    }

    fn refused(&mut self, count: u64, again: Instant) {
        if count == self.wanted {
            self.sent = self.wanted - 1;
            self.again = Some(again);
        }
    }
}

/// What the own status topic has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Noticed {
    /// Nothing to do.
    Nothing,
    /// Another instance is connected under our client id, and we were here first.
    TheyCollide(String),
    /// Another instance is connected under our client id, and it was here first.
    WeCollide(String),
}

/// Profile and status of one agent.
#[derive(Debug)]
pub(crate) struct Presence {
    root: Root,
    instance: String,
    started: Timestamp,
    profile: Arc<Profile>,
    profile_topic: Standing,
    status_topic: Standing,
    leaving: bool,
    was_online: bool,
}

impl Presence {
    /// The presence of an agent that is not connected yet.
    pub(crate) fn new(root: Root, instance: String, started: Timestamp, profile: Arc<Profile>) -> Self {
        Self {
            root,
            instance,
            started,
            profile,
            profile_topic: Standing::default(),
            status_topic: Standing::default(),
            leaving: false,
            was_online: false,
        }
    }

    /// The last will, fixed at connect.
    pub(crate) fn will(&self, now: Timestamp) -> Message {
        let payload = registry::will_payload(&self.profile.agent, &self.instance, now);
        Message { topic: self.root.status(&self.profile.agent), payload, retain: true }
    }

    /// A connection is open: both topics are to be published on it.
    pub(crate) fn opened(&mut self) {
        self.profile_topic.want();
        self.status_topic.want();
    }

    /// The catalog has changed.
    pub(crate) fn advertise(&mut self, profile: Arc<Profile>) {
        self.profile = profile;
        self.profile_topic.want();
    }

    /// The agent leaves: both topics are to be cleared.
    pub(crate) fn leave(&mut self) {
        if !self.leaving {
            self.leaving = true;
            // What clears a topic is smaller than what was set aside.
            self.profile_topic.aside_until = None;
            self.status_topic.aside_until = None;
            self.profile_topic.want();
            self.status_topic.want();
        }
    }

    /// Whether both topics are cleared and the broker has said so.
    pub(crate) fn has_left(&self) -> bool {
        let settled = |topic: &Standing| topic.acknowledged == topic.wanted;
        self.leaving && settled(&self.profile_topic) && settled(&self.status_topic)
    }

    /// The next thing to publish.
    pub(crate) fn poll_send(&self, now: Instant, wall: Timestamp) -> Option<(Ticket, Message)> {
        let agent = &self.profile.agent;
        if self.profile_topic.is_due(now) {
            let payload = if self.leaving { Vec::new() } else { registry::profile_payload(&self.profile, wall) };
            let message = Message { topic: self.root.profile(agent), payload, retain: true };
            return Some((Ticket::Profile(self.profile_topic.wanted), message));
        }
        if self.status_topic.is_due(now) {
            let payload = if self.leaving { Vec::new() } else { registry::online_payload(agent, &self.instance, wall) };
            let message = Message { topic: self.root.status(agent), payload, retain: true };
            return Some((Ticket::Status(self.status_topic.wanted), message));
        }
        None
    }

    /// What `poll_send` gave was handed to the connection.
    pub(crate) fn sent(&mut self, ticket: Ticket) {
        match ticket {
            Ticket::Profile(count) => self.profile_topic.sent = count,
            Ticket::Status(count) => self.status_topic.sent = count,
            Ticket::Desk(_) | Ticket::Command(_) => {}
        }
    }

    /// The broker has it.
    pub(crate) fn acknowledged(&mut self, ticket: Ticket) {
        match ticket {
            Ticket::Profile(count) => self.profile_topic.acknowledged(count),
            Ticket::Status(count) => {
                self.status_topic.acknowledged(count);
                self.was_online |= !self.leaving;
            }
            Ticket::Desk(_) | Ticket::Command(_) => {}
        }
    }

    /// The broker refuses it; it is tried again.
    pub(crate) fn refused(&mut self, ticket: Ticket, again: Instant) {
        match ticket {
            Ticket::Profile(count) => self.profile_topic.refused(count, again),
            Ticket::Status(count) => self.status_topic.refused(count, again),
            Ticket::Desk(_) | Ticket::Command(_) => {}
        }
    }

    /// When a refused one may be tried again.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.profile_topic.next_retry().into_iter().chain(self.status_topic.next_retry()).min()
    }

    /// Whether the broker has one of the topics and has not answered yet.
    pub(crate) fn is_flying(&self) -> bool {
        self.profile_topic.is_flying() || self.status_topic.is_flying()
    }

    /// The connection was cut right after a topic was sent, nothing else being in flight if `alone`. Sets the larger one that
    /// was in flight aside once that has come about too often in a row, and returns it.
    pub(crate) fn struck(&mut self, alone: bool, again: Instant) -> Option<Ticket> {
        let profile = self.profile_topic.is_flying();
        let topic = if profile { &mut self.profile_topic } else { &mut self.status_topic };
        if !topic.is_flying() || !(alone || topic.strikes >= STRIKES_MAX) {
            return None;
        }
        topic.strikes = topic.strikes.saturating_add(1);
        if topic.strikes < STRIKES_MAX {
            return None;
        }
        topic.aside_until = Some(again);
        Some(if profile { Ticket::Profile(topic.wanted) } else { Ticket::Status(topic.wanted) })
    }

    /// Something was published on our own status topic.
    ///
    /// Another instance's "online" is a proof only when it is younger than this process and we had been online before: a
    /// process that was killed a moment ago leaves its own behind (S1-88b). The later start leaves; instance ids are ULIDs, so
    /// the later one is the greater text.
    pub(crate) fn handle_status(&mut self, payload: &[u8]) -> Noticed {
        if self.leaving {
            return Noticed::Nothing;
        }
        match registry::decode_status(payload) {
            Word::Online { instance: Some(other), ts } if other != self.instance => {
                if !self.was_online || ts.is_none_or(|ts| ts < self.started) {
                    return Noticed::Nothing;
                }
                if other < self.instance {
                    return Noticed::WeCollide(other);
                }
                self.status_topic.want();
                Noticed::TheyCollide(other)
            }
            Word::Online { .. } | Word::Unreadable => Noticed::Nothing,
            // An old will, or a stranger's hand: we are here, so we say so (G1-15).
            Word::Left => {
                if self.status_topic.sent == self.status_topic.wanted && self.status_topic.acknowledged == self.status_topic.sent
                {
                    self.status_topic.want();
                }
                Noticed::Nothing
            }
        }
    }
}
