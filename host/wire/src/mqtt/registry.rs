//! Profiles and presence (protocol document section 3; G1-10, G1-11).
//!
//! Owns both payloads, in both directions. It must not know when they are published.

use job::clock::Timestamp;
use job::ids::AgentId;
use job::json::JsonText;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::shallow::{members, string};
use crate::text::{Object, list};
use crate::time::parse_rfc3339;

/// The protocol version this program speaks, as profiles name it.
pub const PROTOCOL_VERSION: &str = "1.3";

/// A capability as the registry shows it. Limits and grants never leave the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised {
    /// The dotted service name.
    pub service: String,
    /// For people.
    pub description: String,
    /// The advisory schema as the catalog has it, a JSON value.
    pub request_schema: Option<JsonText>,
}

/// What a deployment really enforces about owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerPolicy {
    /// Whether requestedBy must be there.
    pub required: bool,
    /// Whether it is checked against the publisher's identity.
    pub verified: bool,
}

/// An agent's profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The agent.
    pub agent: AgentId,
    /// Its name for people.
    pub display_name: String,
    /// The loaded capabilities.
    pub capabilities: Vec<Advertised>,
    /// What is enforced about owners.
    pub owner_policy: OwnerPolicy,
}

/// The profile's payload: retained, status online.
pub fn profile_payload(profile: &Profile, ts: Timestamp) -> Vec<u8> {
    let capabilities = list(profile.capabilities.iter().map(|capability| {
        let mut object = Object::with_capacity(128 + capability.description.len());
        object.text("service", &capability.service).text("description", &capability.description);
        if let Some(schema) = &capability.request_schema {
            object.raw("requestSchema", schema.as_str());
        }
        object.finish()
    }));
    let OwnerPolicy { required, verified } = profile.owner_policy;
    let policy = format!("{{\"required\":{required},\"verified\":{verified}}}");
    let mut object = Object::with_capacity(256 + capabilities.len());
    object.text("agentId", profile.agent.as_str()).text("displayName", &profile.display_name).text("status", "online");
    object.text("protocolVersion", PROTOCOL_VERSION).raw("capabilities", &capabilities).raw("ownerPolicy", &policy);
    object.time("ts", ts).finish().into_bytes()
}

/// The status payload of an agent that is connected. `instance` names this run of the process (G1-15).
pub fn online_payload(agent: &AgentId, instance: &str, ts: Timestamp) -> Vec<u8> {
    let mut object = Object::with_capacity(160);
    object.text("agentId", agent.as_str()).text("status", "online").text("instanceId", instance);
    object.time("ts", ts).finish().into_bytes()
}

/// The status payload registered as the last will. It is fixed at connect, so it says when that was (G1-10).
pub fn will_payload(agent: &AgentId, instance: &str, connected_at: Timestamp) -> Vec<u8> {
    let mut object = Object::with_capacity(160);
    object.text("agentId", agent.as_str()).text("status", "offline").text("instanceId", instance);
    object.time("connectedAt", connected_at).finish().into_bytes()
}

/// What a status payload says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// The agent is connected.
    Online {
        /// Which run of its process, where it says so.
        instance: Option<String>,
        /// When it said so.
        ts: Option<Timestamp>,
    },
    /// The agent is gone, politely or not (S1-18).
    Left,
    /// Nothing that can be read.
    Unreadable,
}

/// Reads a status: our JSON, the bare words, or the empty payload.
pub fn decode_status(bytes: &[u8]) -> Presence {
    let Ok(text) = std::str::from_utf8(bytes) else { return Presence::Unreadable };
    match text.trim() {
        "" | "offline" => return Presence::Left,
        "online" => return Presence::Online { instance: None, ts: None },
        _ => {}
    }
    let (mut status, mut instance, mut ts) = (None, None, None);
    let read = members(text, |name, json| match name.as_ref() {
        "status" => status = string(json),
        "instanceId" => instance = string(json),
        "ts" => ts = string(json).and_then(|text| parse_rfc3339(&text)),
        _ => {}
    });
    match (read, status.as_deref()) {
        (Ok(()), Some("online")) => Presence::Online { instance, ts },
        (Ok(()), Some("offline")) => Presence::Left,
        _ => Presence::Unreadable,
    }
}

/// A profile as a reader of the registry sees it, of whatever implementation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenProfile {
    /// Its name for people; the agent id where it gives none.
    pub display_name: String,
    /// Whether the profile itself says offline.
    pub says_offline: bool,
    /// The version it names, empty where it names none.
    pub protocol_version: String,
    /// What it offers.
    pub capabilities: Vec<Advertised>,
}

/// Reads a profile. `Ok(None)`: the agent has left. Members we do not know are let pass; a capability without a service is not.
pub fn decode_profile(agent: &AgentId, bytes: &[u8]) -> Result<Option<SeenProfile>, BadProfile> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire<'a> {
        #[serde(default)]
        display_name: Option<String>,
        #[serde(default)]
        status: Option<String>,
        #[serde(default)]
        protocol_version: Option<String>,
        #[serde(borrow, default)]
        capabilities: Vec<WireCapability<'a>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct WireCapability<'a> {
        service: String,
        #[serde(default)]
        description: Option<String>,
        #[serde(borrow, default)]
        request_schema: Option<&'a RawValue>,
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    let checked = JsonText::check(bytes).map_err(|fault| BadProfile(fault.to_string()))?;
    // Derived readers would take a list for an object whose members stand in order.
    if !checked.as_str().trim_start().starts_with('{') {
        return Err(BadProfile("it is no JSON object".into()));
    }
    let wire: Wire<'_> = serde_json::from_str(checked.as_str()).map_err(|error| BadProfile(error.to_string()))?;
    let capabilities = wire.capabilities.into_iter().map(|capability| Advertised {
        service: capability.service,
        description: capability.description.unwrap_or_default(),
        request_schema: capability.request_schema.map(|raw| JsonText::trusted(raw.get())),
    });
    Ok(Some(SeenProfile {
        display_name: wire.display_name.unwrap_or_else(|| agent.as_str().to_owned()),
        says_offline: wire.status.as_deref() == Some("offline"),
        protocol_version: wire.protocol_version.unwrap_or_default(),
        capabilities: capabilities.collect(),
    }))
}

/// A profile that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the profile cannot be read: {0}")]
pub struct BadProfile(pub String);
