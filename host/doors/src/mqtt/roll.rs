//! The registry as a requester reads it: who is there, and what they offer.
//!
//! Owns the merging of profiles and statuses (G1-11, S1-18). It must not know connections.

use std::collections::BTreeMap;

use job::ids::AgentId;
use wire::mqtt::registry::{Presence, SeenProfile, decode_profile, decode_status};
use wire::mqtt::topics::{Root, Topic};

use super::link::Delivery;
use super::requester::SeenAgent;

/// Most agents remembered.
const AGENTS_MAX: usize = 10_000;

#[derive(Debug, Default)]
struct Entry {
    profile: Option<SeenProfile>,
    online: Option<bool>,
}

/// The agents seen so far.
#[derive(Debug)]
pub(crate) struct Roll {
    root: Root,
    entries: BTreeMap<AgentId, Entry>,
}

impl Roll {
    /// Nobody seen yet.
    pub(crate) fn new(root: Root) -> Self {
        Self { root, entries: BTreeMap::new() }
    }

    /// Notes a profile or a status. False: it is neither.
    pub(crate) fn note(&mut self, delivery: &Delivery) -> bool {
        let topic = std::str::from_utf8(&delivery.topic).ok().and_then(|topic| self.root.parse_topic(topic));
        let (agent, is_profile) = match topic {
            Some(Topic::Profile(agent)) => (agent, true),
            Some(Topic::Status(agent)) => (agent, false),
            _ => return false,
        };
        if self.entries.len() >= AGENTS_MAX && !self.entries.contains_key(&agent) {
            return true;
        }
        let entry = self.entries.entry(agent.clone()).or_default();
        if is_profile {
            // A profile that cannot be read offers nothing.
            entry.profile = decode_profile(&agent, &delivery.payload).ok().flatten();
        } else {
            entry.online = Some(matches!(decode_status(&delivery.payload), Presence::Online { .. }));
        }
        true
    }

    /// The agents that have a profile.
    pub(crate) fn agents(&self) -> Vec<SeenAgent> {
        let seen = self.entries.iter().filter_map(|(agent, Entry { profile, online })| {
            let profile = profile.clone()?;
            let online = online.unwrap_or(!profile.says_offline);
            Some(SeenAgent { agent: agent.clone(), profile, online })
        });
        seen.collect()
    }
}
