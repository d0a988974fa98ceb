//! The sentences the mesh door puts on the status board: what, where, and what to do.
//!
//! Owns the words. It must not know when they are put up.

use job::ids::{AgentId, JobKey};
use job::status::{Condition, Severity};
use wire::mqtt::topics::Root;

use super::link::{Fault, Lack};
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
pub(crate) fn not_connected(agent: &AgentId, broker: &BrokerAddress, fault: &Fault, refused: Option<&str>) -> Condition {
    let mend = match fault {
        Fault::Unreachable(_) => "start the broker there, or set mesh.broker to where it is",
        Fault::LoginRefused(_) => "set mesh.username and mesh.password to a login of the broker, or let this one in there",
        Fault::Refused(_) => "look at the broker's log; it must speak MQTT 5 and take this client id",
        Fault::TimedOut => "see whether the broker and the network between are alive",
        Fault::Lost(_) if refused.is_some() => "let this agent publish there in the broker's access rules",
        Fault::Lost(_) => "look at the broker's log",
        Fault::TooLarge => "raise the size limit of messages at the broker (Mosquitto: message_size_limit, max_packet_size)",
        Fault::Ended(_) => "wait a moment; if this stays, look at the broker's log",
        Fault::Lacks(Lack::Retained) => {
            "switch retained messages on at the broker (Mosquitto: retain_available true); results and profiles are retained"
        }
        Fault::Lacks(Lack::AtLeastOnce) => "let the broker take QoS 1 (Mosquitto: max_qos 1 or 2)",
        Fault::Lacks(Lack::PacketSize) => "raise the broker's packet limit (Mosquitto: max_packet_size) to 2048 bytes or more",
        Fault::TakenOver => "let only one process run with this agent id and mesh root",
    };
    Condition {
        severity: Severity::Down,
        what: match refused {
            Some(topic) => format!("the broker at {broker} refused what agent {agent} published to {topic}: {fault}"),
            None => format!("agent {agent} cannot work with the broker at {broker}: {fault}"),
        },
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
pub(crate) fn not_published(agent: &AgentId, root: &Root, topic: &str, why: &str) -> Condition {
    let registry = format!("{root}/registry/");
    let filter = if topic.starts_with(&registry) { format!("{registry}{agent}/#") } else { format!("{root}/jobs/#") };
    Condition {
        severity: Severity::Down,
        what: format!("the broker does not let agent {agent} publish to {topic}: {why}"),
        mend: format!(
            "let it write there in the broker's access rules (Mosquitto's acl_file: topic write {filter}); the node tries again until \
             it is taken"
        ),
    }
}

/// A profile or status is larger than the broker takes.
pub(crate) fn does_not_fit(agent: &AgentId, topic: &str, bytes: usize, max: usize) -> Condition {
    Condition {
        severity: Severity::Degraded,
        what: format!(
            "agent {agent} cannot publish to {topic}: that takes {bytes} bytes, and the broker takes packets of {max}; what stood \
             there before stays, and jobs go on"
        ),
        mend: format!("raise the broker's packet limit above {bytes} (Mosquitto: max_packet_size), or let the agent offer less"),
    }
}

/// The broker cuts the connection whenever something is published.
pub(crate) fn set_aside(agent: &AgentId, topic: &str, job: Option<&JobKey>) -> Condition {
    let of = job.map_or_else(String::new, |job| format!(" (job {job})"));
    Condition {
        severity: Severity::Degraded,
        what: format!("the broker cuts the connection each time agent {agent} publishes to {topic}{of}; that is set aside, all else goes on"),
        mend: "look in the broker's log for what it dislikes there (access rules, size limit, topic rules) and change that; the node \
               tries again every minute, and nothing is lost"
            .into(),
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
