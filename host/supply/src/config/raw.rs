//! The file as it is written: plain types with the defaults, nothing checked yet.
//!
//! Owns the shape. It must not know which values make sense.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The whole file.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    pub(super) node: Node,
    pub(super) agent: Vec<Agent>,
    pub(super) mesh: Mesh,
    pub(super) vars: BTreeMap<String, String>,
    pub(super) secrets: Secrets,
    pub(super) environment: Environment,
    pub(super) journal: Journal,
    pub(super) limits: Limits,
    pub(super) ops: Ops,
}

/// `[node]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Node {
    pub(super) data_dir: String,
    pub(super) grace: String,
}

impl Default for Node {
    fn default() -> Self {
        Self { data_dir: String::new(), grace: "20s".into() }
    }
}

/// `[[agent]]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Agent {
    pub(super) id: String,
    pub(super) display_name: String,
    pub(super) catalog: String,
    pub(super) replicas: bool,
    pub(super) owner_policy: OwnerPolicy,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) default_executor: Option<DefaultExecutor>,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            id: "node".into(),
            display_name: String::new(),
            catalog: String::new(),
            replicas: false,
            owner_policy: OwnerPolicy::default(),
            default_executor: None,
        }
    }
}

/// `owner_policy` of an agent.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct OwnerPolicy {
    pub(super) verified: bool,
    pub(super) property: String,
}

impl Default for OwnerPolicy {
    fn default() -> Self {
        Self { verified: false, property: "username".into() }
    }
}

/// `[agent.default_executor]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct DefaultExecutor {
    pub(super) guest: String,
    pub(super) limits: PartialLimits,
    pub(super) grants: Grants,
}

impl Default for DefaultExecutor {
    fn default() -> Self {
        Self { guest: "prompt".into(), limits: PartialLimits::default(), grants: Grants::default() }
    }
}

/// Limits of which any may be absent.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PartialLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fuel: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory_mb: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_kb: Option<u64>,
}

/// Grants of the default executor.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Grants {
    pub(super) env: BTreeMap<String, String>,
}

/// `[mesh]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Mesh {
    pub(super) broker: String,
    pub(super) embedded_listen: String,
    pub(super) protocol: u64,
    pub(super) root: String,
    pub(super) max_depth: u64,
    pub(super) username: String,
    pub(super) password: String,
    pub(super) resend_window: String,
    pub(super) retain_results: String,
    pub(super) max_payload_kb: u64,
    pub(super) max_packet_mb: u64,
}

impl Default for Mesh {
    fn default() -> Self {
        Self {
            broker: "embedded".into(),
            embedded_listen: "127.0.0.1:1883".into(),
            protocol: 5,
            root: "agents".into(),
            max_depth: 4,
            username: String::new(),
            password: String::new(),
            resend_window: "10m".into(),
            retain_results: "0".into(),
            max_payload_kb: 1024,
            max_packet_mb: 16,
        }
    }
}

/// `[secrets]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Secrets {
    pub(super) store: String,
    pub(super) redact: Vec<String>,
}

impl Default for Secrets {
    fn default() -> Self {
        Self { store: "auto".into(), redact: Vec::new() }
    }
}

/// `[environment]`.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Environment {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) allow: Option<Vec<String>>,
}

/// `[journal]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Journal {
    pub(super) sync: String,
    pub(super) remember: String,
    pub(super) remember_max_mb: u64,
}

impl Default for Journal {
    fn default() -> Self {
        Self { sync: "full".into(), remember: "24h".into(), remember_max_mb: 4096 }
    }
}

/// `[limits]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Limits {
    pub(super) timeout_ms: u64,
    pub(super) fuel: u64,
    pub(super) memory_mb: u64,
    pub(super) output_kb: u64,
    pub(super) max_running: u64,
    pub(super) max_live: u64,
    pub(super) max_queued: u64,
    pub(super) max: Ceilings,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout_ms: 60_000,
            fuel: 10_000_000_000,
            memory_mb: 64,
            output_kb: 512,
            max_running: 256,
            max_live: 1000,
            max_queued: 10_000,
            max: Ceilings::default(),
        }
    }
}

/// `[limits.max]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Ceilings {
    pub(super) timeout_ms: u64,
    pub(super) fuel: u64,
    pub(super) memory_mb: u64,
    pub(super) output_kb: u64,
}

impl Default for Ceilings {
    fn default() -> Self {
        Self { timeout_ms: 3_600_000, fuel: 1_000_000_000_000, memory_mb: 256, output_kb: 700 }
    }
}

/// `[ops]`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Ops {
    pub(super) listen: String,
}

impl Default for Ops {
    fn default() -> Self {
        Self { listen: "127.0.0.1:8701".into() }
    }
}
