//! What a reload changed, a sentence each: what, old, new; or what was rejected, what is kept, and why (G1-55).
//!
//! Owns the comparison of two snapshots. Pure. It must not know files or logs.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use catalog::{Capability, Fault, Snapshot};

/// Characters of a hash that people are shown.
const HASH_CHARS: usize = 12;

/// The hashes of a capability's two parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Of the entry's text and what the deployment adds to it.
    pub entry: Arc<str>,
    /// Of its guest.
    pub guest: Arc<str>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A capability is offered from now on.
    Added {
        /// Its service.
        service: Arc<str>,
        /// What runs.
        new: Version,
    },
    /// A capability runs differently from now on.
    Changed {
        /// Its service.
        service: Arc<str>,
        /// What ran.
        old: Version,
        /// What runs.
        new: Version,
    },
    /// A capability is gone.
    Removed {
        /// Its service.
        service: Arc<str>,
        /// What ran.
        old: Version,
    },
    /// Something was refused.
    Rejected {
        /// What and why.
        fault: Fault,
        /// What stays instead.
        keeping: Keeping,
    },
    /// Something that was refused is fine again.
    Mended {
        /// What was refused before.
        fault: Fault,
    },
}

/// What stays where something was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keeping {
    /// The entry's last good version.
    Version(Version),
    /// This many last good entries of the file or folder.
    Entries(usize),
    /// Nothing: it never was good.
    Nothing,
}

impl Change {
    /// Whether something was refused.
    pub fn is_rejection(&self) -> bool {
        matches!(self, Self::Rejected { .. })
    }

    /// Whether what the agent offers or runs is another than before.
    pub fn is_swap(&self) -> bool {
        matches!(self, Self::Added { .. } | Self::Changed { .. } | Self::Removed { .. })
    }
}

/// What differs between two snapshots, by service; then what was refused newly, and what is not refused any more.
pub(crate) fn changes(old: &Snapshot, new: &Snapshot) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut touched: BTreeSet<&Arc<str>> = BTreeSet::new();
    for (service, capability) in &new.entries {
        let (before, after) = (old.entries.get(service).map(|capability| version(capability)), version(capability));
        let change = match before {
            Some(before) if before == after => continue,
            Some(old) => Change::Changed { service: service.clone(), old, new: after },
            None => Change::Added { service: service.clone(), new: after },
        };
        touched.insert(service);
        changes.push(change);
    }
    for (service, capability) in &old.entries {
        if !new.entries.contains_key(service) {
            touched.insert(service);
            changes.push(Change::Removed { service: service.clone(), old: version(capability) });
        }
    }
    for fault in new.faults.iter().filter(|fault| !old.faults.contains(fault)) {
        changes.push(Change::Rejected { fault: fault.clone(), keeping: keeping(fault, new) });
    }
    for fault in &old.faults {
        let still = |other: &Fault| other.place.file == fault.place.file && other.service == fault.service;
        if !new.faults.iter().any(still) && !fault.service.as_ref().is_some_and(|service| touched.contains(service)) {
            changes.push(Change::Mended { fault: fault.clone() });
        }
    }
    changes
}

fn version(capability: &Capability) -> Version {
    Version { entry: capability.entry.hash.clone(), guest: capability.guest.hash() }
}

/// What stays in the place of what this fault refused.
fn keeping(fault: &Fault, live: &Snapshot) -> Keeping {
    match &fault.service {
        Some(service) => match live.entries.get(service) {
            Some(capability) if capability.entry.place.file == fault.place.file => Keeping::Version(version(capability)),
            _ => Keeping::Nothing,
        },
        None => {
            // A fault of the folder names the folder, and each of its files lies beneath it.
            let file = &*fault.place.file;
            let within = |entry: &str| entry.strip_prefix(file).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            let kept = live.entries.values().filter(|capability| within(&capability.entry.place.file)).count();
            if kept == 0 { Keeping::Nothing } else { Keeping::Entries(kept) }
        }
    }
}

fn short(hash: &str) -> &str {
    let hex = hash.strip_prefix("sha256:").unwrap_or(hash);
    hex.get(..HASH_CHARS).unwrap_or(hex)
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {} guest {}", short(&self.entry), short(&self.guest))
    }
}

impl fmt::Display for Keeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "keeping {version}"),
            Self::Entries(1) => write!(f, "keeping its last good entry"),
            Self::Entries(count) => write!(f, "keeping its {count} last good entries"),
            Self::Nothing => write!(f, "left out"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { service, new } => write!(f, "{service} added, {new}"),
            Self::Changed { service, old, new } => {
                write!(f, "{service} changed")?;
                if old.entry != new.entry {
                    write!(f, ", entry {} -> {}", short(&old.entry), short(&new.entry))?;
                }
                if old.guest != new.guest {
                    write!(f, ", guest {} -> {}", short(&old.guest), short(&new.guest))?;
                }
                Ok(())
            }
            Self::Removed { service, old } => write!(f, "{service} removed, was {old}"),
            Self::Rejected { fault, keeping } => write!(f, "rejected, {keeping}: {fault}"),
            Self::Mended { fault } => write!(f, "fine again: {}", fault.place),
        }
    }
}
