//! An agent's catalog at one moment: immutable, swapped whole on reload.
//!
//! Owns the lookup and what the profile shows. It must not know how a snapshot comes about.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use job::executor::Guest;
use job::ids::AgentId;
use job::json::JsonText;

use crate::entry::Entry;
use crate::fault::Fault;

/// An entry with the guest that runs it.
pub struct Capability {
    /// The entry.
    pub entry: Arc<Entry>,
    /// Its guest, ready to run.
    pub guest: Arc<dyn Guest>,
}

impl fmt::Debug for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capability").field("service", &self.entry.service).field("guest", &self.guest.hash()).finish()
    }
}

/// The capabilities of an agent.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Whose.
    pub agent: AgentId,
    /// The live capabilities by service name, in name order.
    pub entries: BTreeMap<Arc<str>, Arc<Capability>>,
    /// What was refused, and why.
    pub faults: Vec<Fault>,
}

/// What the profile shows of a capability: grants, limits, prompt and executor never leave the node (S1-79).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The service name.
    pub service: Arc<str>,
    /// For people.
    pub description: Arc<str>,
    /// The request schema, as written.
    pub request_schema: JsonText,
}

impl Snapshot {
    /// An agent that can do nothing yet.
    pub fn empty(agent: AgentId) -> Self {
        Self { agent, entries: BTreeMap::new(), faults: Vec::new() }
    }

    /// The capability of a service.
    pub fn get(&self, service: &str) -> Option<&Arc<Capability>> {
        self.entries.get(service)
    }

    /// The profile's view, in name order, so that equal catalogs give equal bytes.
    pub fn offers(&self) -> impl Iterator<Item = Offer> + '_ {
        self.entries.values().map(|capability| {
            let Entry { service, description, request_schema, .. } = &*capability.entry;
            Offer { service: service.clone(), description: description.clone(), request_schema: request_schema.clone() }
        })
    }
}
