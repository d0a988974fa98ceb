//! The sentences the mesh door puts on the status board: what, where, and what to do.
//!
//! Owns the words. It must not know when they are put up.

use job::ids::AgentId;
use job::status::{Condition, Severity};

use super::link::Fault;
use super::settings::BrokerAddress;

/// The name of an agent's own connection on the board.
pub(crate) fn connection(agent: &AgentId) -> String {
    format!("broker.{agent}")
}

/// The name of a fault that stands beside the connection's own.
pub(crate) fn beside(agent: &AgentId, what: &str) -> String {
    format!("broker.{agent}.{what}")
}

/// Before the first answer.
pub(crate) fn connecting(agent: &AgentId, broker: &BrokerAddress) -> Condition {
    Condition {
        severity: Severity::Down,
        what: format!("agent {agent} is not connected to {broker} yet"),
        mend: "wait a moment; if this stays, start the broker or set mesh.broker".into(),
    }
}

/// No connection.
pub(crate) fn not_connected(agent: &AgentId, broker: &BrokerAddress, fault: &Fault) -> Condition {
    let mend = match fault {
        Fault::Unreachable(_) => "start the broker there, or set mesh.broker to where it is",
        Fault::LoginRefused(_) => "set mesh.username and mesh.password to a login of the broker, or let this one in there",
        Fault::Refused(_) => "look at the broker's log; it must speak MQTT 5 and take this client id",
        Fault::TimedOut => "see whether the broker and the network between are alive",
        Fault::Lost(_) => "look at the broker's log",
        Fault::TakenOver => "let only one process run with this agent id and mesh root",
    };
    Condition {
        severity: Severity::Down,
        what: format!("agent {agent} cannot work with the broker at {broker}: {fault}"),
        mend: format!("{mend}; the node keeps trying, and nothing accepted is lost"),
    }
}

/// A subscription was refused.
pub(crate) fn not_subscribed(agent: &AgentId, filter: &str, why: &str) -> Condition {
    Condition {
        severity: Severity::Down,
        what: format!("the broker does not let agent {agent} subscribe to {filter}: {why}"),
        mend: "allow it in the broker's access rules; the node tries again at its next connection".into(),
    }
}

/// A publish was refused.
pub(crate) fn not_published(agent: &AgentId, topic: &str, why: &str) -> Condition {
    Condition {
        severity: Severity::Down,
        what: format!("the broker does not let agent {agent} publish to {topic}: {why}"),
        mend: "allow it in the broker's access rules; the node tries again until it is taken".into(),
    }
}

/// Another process has our client id, and leaves by itself.
pub(crate) fn other_collides(agent: &AgentId, broker: &BrokerAddress, other: &str) -> Condition {
    Condition {
        severity: Severity::Degraded,
        what: format!(
            "another instance ({other}) of agent {agent} shares its client id at {broker}; it started later and should leave"
        ),
        mend: "stop the other process, or give one of the two another agent id".into(),
    }
}

/// Another process has our client id, and was here first.
pub(crate) fn collision(agent: &AgentId, broker: &BrokerAddress, other: &str) -> Condition {
    Condition {
        severity: Severity::Down,
        what: format!("agent {agent} left {broker}: another instance ({other}) has its client id and started earlier"),
        mend: "stop the other process, or give one of the two another agent id, then start this node again".into(),
    }
}
