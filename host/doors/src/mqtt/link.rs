//! A connection to a broker, as the rest of the door sees it: one small trait, so the client library can be changed.
//!
//! Owns the words for what goes in and what comes out. It must not know the library, jobs, or the journal.

use std::fmt;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use wire::mqtt::outgoing::Message;

use super::settings::{BrokerAddress, Login};

/// Names a publish, so that its acknowledgement can be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Ticket {
    /// A row or an event of the desk.
    Desk(u64),
    /// The profile.
    Profile(u64),
    /// The status.
    Status(u64),
    /// A command of the requester.
    Command(u64),
}

/// What a broker said to a publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has it.
    Taken,
    /// It has it, and nobody listens.
    NobodyListens,
    /// It refuses it, with the word of the reason.
    Refused(&'static str),
}

/// Whether a subscription brings what is retained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retained {
    /// Never (G1-35).
    Skip,
    /// Each time it is subscribed.
    Send,
}

/// Something published to us.
#[derive(Debug, Clone)]
pub(crate) struct Delivery {
    /// Where.
    pub(crate) topic: Bytes,
    /// What.
    pub(crate) payload: Bytes,
    /// Whether it was delivered before.
    pub(crate) redelivered: bool,
    /// Whether it is an old, kept message.
    pub(crate) retained: bool,
    /// Seconds until the publisher's expiry, as the broker left them (G1-52).
    pub(crate) expires_in_s: Option<u32>,
    /// What acknowledges it.
    pub(crate) receipt: Receipt,
}

/// Acknowledges one delivery on the connection it came by, and on no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// The packet id; 0 needs no acknowledgement.
    pub(crate) packet: u16,
    /// Whether it came at QoS 2, which takes another answer.
    pub(crate) exactly_once: bool,
}

/// What happens on a connection.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// The broker let us in. Always the first event.
    Open {
        /// Whether it kept our session.
        session_present: bool,
        /// Most publishes it takes unacknowledged.
        receive_max: u16,
        /// Largest packet it takes, in bytes, if it says so.
        packet_bytes_max: Option<u32>,
    },
    /// A publish arrived.
    Delivery(Delivery),
    /// A publish of ours was answered.
    Answered(Ticket, Verdict),
    /// A subscription was answered: the refused filters by place, each with its word.
    Subscribed(Vec<(usize, &'static str)>),
    /// Our DISCONNECT has left.
    Goodbye,
    /// The connection is over. Always the last event.
    Closed(Fault),
}

/// Why a connection is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing answers at the address.
    Unreachable(String),
    /// The broker refused the login.
    LoginRefused(&'static str),
    /// The broker refused the connection for another reason.
    Refused(String),
    /// The broker did not answer in time.
    TimedOut,
    /// The connection broke, or the broker cut it.
    Lost(String),
    /// The broker said that a packet of ours is too large for it.
    TooLarge,
    /// The broker ended the connection, or we did, for a reason that has nothing to do with what was sent.
    Ended(String),
    /// The broker is set up without something that an agent needs.
    Lacks(Lack),
    /// Another client took our client id over.
    TakenOver,
}

/// What a broker may be set up without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Retained messages.
    Retained,
    /// QoS 1.
    AtLeastOnce,
    /// Packets as large as our CONNECT.
    PacketSize,
}

impl Fault {
    /// Whether what we sent may be why.
    pub(crate) fn may_be_our_doing(&self) -> bool {
        matches!(self, Self::Lost(_) | Self::TooLarge)
    }

    /// A word for metrics.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::LoginRefused(_) => "login_refused",
            Self::Refused(_) => "refused",
            Self::TimedOut => "timed_out",
            Self::Lost(_) => "lost",
            Self::TooLarge => "too_large",
            Self::Ended(_) => "ended",
            Self::Lacks(_) => "lacks",
            Self::TakenOver => "taken_over",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "nothing answers there ({why})"),
            Self::LoginRefused(why) => write!(f, "it refused the login ({why})"),
            Self::Refused(why) => write!(f, "it refused the connection ({why})"),
            Self::TimedOut => f.write_str("it did not answer in time"),
            Self::Lost(why) => write!(f, "the connection broke ({why})"),
            Self::TooLarge => f.write_str("it found a packet too large and ended the connection"),
            Self::Ended(why) => write!(f, "the connection was ended ({why})"),
            Self::Lacks(Lack::Retained) => f.write_str("it does not keep retained messages"),
            Self::Lacks(Lack::AtLeastOnce) => f.write_str("it takes no messages at QoS 1"),
            Self::Lacks(Lack::PacketSize) => f.write_str("it takes no packets as large as this agent's CONNECT"),
            Self::TakenOver => f.write_str("another client took over our client id"),
        }
    }
}

/// The queue towards the broker has no place; the caller tries again after the next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// A connection. No call waits; all progress is made by polling.
pub(crate) trait Link: Send {
    /// Publishes at QoS 1.
    fn publish(&mut self, ticket: Ticket, message: Message) -> Result<(), Full>;
    /// Subscribes at QoS 1.
    fn subscribe(&mut self, filters: &[(String, Retained)]) -> Result<(), Full>;
    /// Acknowledges a delivery of this connection.
    fn acknowledge(&mut self, receipt: Receipt) -> Result<(), Full>;
    /// Says goodbye; the last will is not published then.
    fn disconnect(&mut self) -> Result<(), Full>;
    /// The next event. Nothing is lost when the caller stops polling for a while.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<LinkEvent>;
}

/// Everything about a connection that is decided before it is opened.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Where.
    pub(crate) broker: BrokerAddress,
    /// As whom.
    pub(crate) login: Option<Login>,
    /// Under which client id.
    pub(crate) client_id: String,
    /// Whether the broker keeps a session, for ever (G1-14).
    pub(crate) session: bool,
    /// What it publishes if we vanish.
    pub(crate) will: Option<Message>,
    /// Whether deliveries are acknowledged by hand.
    pub(crate) manual_acks: bool,
    /// Largest packet we take, in bytes.
    pub(crate) packet_bytes_max: u32,
    /// Most deliveries we take unacknowledged.
    pub(crate) receive_max: u16,
    /// Silence after which a ping goes out.
    pub(crate) keep_alive: Duration,
}
