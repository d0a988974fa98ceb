//! The figures of the mesh door, one table.
//!
//! Owns their names and meanings. All carry the label `agent`.
//!
//! | name | kind | meaning |
//! |---|---|---|
//! | `amp_mqtt_connected` | gauge | 1 while the agent is connected |
//! | `amp_mqtt_connects_total` | counter | connections opened |
//! | `amp_mqtt_drops_total{reason}` | counter | connections lost or refused, by kind |
//! | `amp_mqtt_received_total{kind}` | counter | deliveries: invoke, cancel, status, retained_command, other |
//! | `amp_mqtt_not_a_job_total{why}` | counter | command payloads that are no job (G1-20) |
//! | `amp_mqtt_unavailable_total` | counter | commands the engine could not take yet; they stay unacknowledged |
//! | `amp_mqtt_unacknowledged` | gauge | commands handed to the engine and not acknowledged yet |
//! | `amp_mqtt_published_total{kind}` | counter | acknowledged publishes: row, event, standing |
//! | `amp_mqtt_refused_total{kind}` | counter | publishes the broker refused |
//! | `amp_mqtt_publish_seconds` | histogram | from a publish to its acknowledgement, in seconds |
//! | `amp_mqtt_outbox_rows` | gauge | committed rows in memory that the broker does not have yet |
//! | `amp_mqtt_outbox_lagging` | gauge | 1 while rows are left in the journal because too many wait |
//! | `amp_mqtt_events_dropped_total` | counter | advisory events dropped because the door was behind |
//! | `amp_mqtt_oversize_total` | counter | messages larger than the broker takes (G1-46) |
//! | `amp_mqtt_collisions_total` | counter | sightings of a second instance with the same client id |

use job::ids::AgentId;
use metrics::{Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

/// Tells the recorder what each figure means. To be called once, after the recorder is installed.
pub fn describe() {
    describe_gauge!("amp_mqtt_connected", "1 while the agent is connected to its broker");
    describe_counter!("amp_mqtt_connects_total", "connections opened");
    describe_counter!("amp_mqtt_drops_total", "connections lost or refused, by kind");
    describe_counter!("amp_mqtt_received_total", "deliveries, by kind");
    describe_counter!("amp_mqtt_not_a_job_total", "command payloads that are no job");
    describe_counter!("amp_mqtt_unavailable_total", "commands the engine could not take yet");
    describe_gauge!("amp_mqtt_unacknowledged", "commands handed to the engine and not acknowledged yet");
    describe_counter!("amp_mqtt_published_total", "acknowledged publishes, by kind");
    describe_counter!("amp_mqtt_refused_total", "publishes the broker refused, by kind");
    describe_histogram!("amp_mqtt_publish_seconds", Unit::Seconds, "from a publish to its acknowledgement");
    describe_gauge!("amp_mqtt_outbox_rows", "committed rows in memory that the broker does not have yet");
    describe_gauge!("amp_mqtt_outbox_lagging", "1 while rows are left in the journal because too many wait");
    describe_counter!("amp_mqtt_events_dropped_total", "advisory events dropped because the door was behind");
    describe_counter!("amp_mqtt_oversize_total", "messages larger than the broker takes");
    describe_counter!("amp_mqtt_collisions_total", "sightings of a second instance with the same client id");
}

/// The handles of one agent, looked up once.
pub(crate) struct Figures {
    pub(crate) agent: String,
    pub(crate) connected: Gauge,
    pub(crate) connects: Counter,
    pub(crate) invokes: Counter,
    pub(crate) cancels: Counter,
    pub(crate) statuses: Counter,
    pub(crate) retained_commands: Counter,
    pub(crate) others: Counter,
    pub(crate) unavailable: Counter,
    pub(crate) unacknowledged: Gauge,
    pub(crate) rows: Counter,
    pub(crate) events: Counter,
    pub(crate) standing: Counter,
    pub(crate) refused_rows: Counter,
    pub(crate) refused_events: Counter,
    pub(crate) refused_standing: Counter,
    pub(crate) publish_seconds: Histogram,
    pub(crate) outbox_rows: Gauge,
    pub(crate) lagging: Gauge,
    pub(crate) dropped_events: Counter,
    pub(crate) oversize: Counter,
    pub(crate) collisions: Counter,
}

impl Figures {
    /// Looks the handles up with the recorder that is installed now.
    pub(crate) fn new(agent: &AgentId) -> Self {
        let agent = agent.as_str().to_owned();
        let a = || agent.clone();
        Self {
            connected: gauge!("amp_mqtt_connected", "agent" => a()),
            connects: counter!("amp_mqtt_connects_total", "agent" => a()),
            invokes: counter!("amp_mqtt_received_total", "agent" => a(), "kind" => "invoke"),
            cancels: counter!("amp_mqtt_received_total", "agent" => a(), "kind" => "cancel"),
            statuses: counter!("amp_mqtt_received_total", "agent" => a(), "kind" => "status"),
            retained_commands: counter!("amp_mqtt_received_total", "agent" => a(), "kind" => "retained_command"),
            others: counter!("amp_mqtt_received_total", "agent" => a(), "kind" => "other"),
            unavailable: counter!("amp_mqtt_unavailable_total", "agent" => a()),
            unacknowledged: gauge!("amp_mqtt_unacknowledged", "agent" => a()),
            rows: counter!("amp_mqtt_published_total", "agent" => a(), "kind" => "row"),
            events: counter!("amp_mqtt_published_total", "agent" => a(), "kind" => "event"),
            standing: counter!("amp_mqtt_published_total", "agent" => a(), "kind" => "standing"),
            refused_rows: counter!("amp_mqtt_refused_total", "agent" => a(), "kind" => "row"),
            refused_events: counter!("amp_mqtt_refused_total", "agent" => a(), "kind" => "event"),
            refused_standing: counter!("amp_mqtt_refused_total", "agent" => a(), "kind" => "standing"),
            publish_seconds: histogram!("amp_mqtt_publish_seconds", "agent" => a()),
            outbox_rows: gauge!("amp_mqtt_outbox_rows", "agent" => a()),
            lagging: gauge!("amp_mqtt_outbox_lagging", "agent" => a()),
            dropped_events: counter!("amp_mqtt_events_dropped_total", "agent" => a()),
            oversize: counter!("amp_mqtt_oversize_total", "agent" => a()),
            collisions: counter!("amp_mqtt_collisions_total", "agent" => a()),
            agent,
        }
    }

    /// A connection is over.
    pub(crate) fn dropped(&self, reason: &'static str) {
        counter!("amp_mqtt_drops_total", "agent" => self.agent.clone(), "reason" => reason).increment(1);
    }

    /// A command payload is no job.
    pub(crate) fn not_a_job(&self, why: &'static str) {
        counter!("amp_mqtt_not_a_job_total", "agent" => self.agent.clone(), "why" => why).increment(1);
    }
}
