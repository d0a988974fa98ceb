//! Joining the files of a catalog with what is live already: the rules of a reload (G1-55).
//!
//! Owns which entry of a service counts and which last good ones stay. Pure. It must not know guests, nor when files are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::entry::Entry;
use crate::fault::Fault;
use crate::read::{ENTRIES_MAX, Reading};
use crate::snapshot::Snapshot;

/// What the files say, joined with what is live.
#[derive(Debug, Default)]
pub struct Merged {
    /// The entry of each service.
    pub entries: BTreeMap<Arc<str>, Arc<Entry>>,
    /// What was refused, and why.
    pub faults: Vec<Fault>,
}

/// Joins the readings of all files with the live entries. A file that could not be read keeps all its live entries; a bad entry
/// keeps its last good version; an entry or file that is gone takes its entries along; of a service that stands twice the live
/// one stays, else the first, and the other becomes a fault that names both places.
pub fn merge(live: &Snapshot, readings: &[Arc<Reading>]) -> Merged {
    let by_file: BTreeMap<&str, &Reading> = readings.iter().map(|reading| (&*reading.file, &**reading)).collect();
    let mut merged = Merged::default();
    for (service, capability) in &live.entries {
        let Some(reading) = by_file.get(&*capability.entry.place.file) else { continue };
        if let Some(entry) = holder(&capability.entry, reading) {
            merged.entries.insert(service.clone(), entry);
        }
    }
    for reading in readings {
        merged.faults.extend(reading.faults.iter().cloned());
        for entry in &reading.entries {
            match merged.entries.get(&entry.service) {
                Some(taken) if Arc::ptr_eq(taken, entry) => {}
                Some(taken) => {
                    let what = format!("the service stands at {} already, and that one stays", taken.place);
                    merged.faults.push(refusal(entry, what, "rename one of them or take it out"));
                }
                None if merged.entries.len() >= ENTRIES_MAX => {
                    let what = format!("an agent has at most {ENTRIES_MAX} entries");
                    merged.faults.push(refusal(entry, what, "give the others to a second agent"));
                }
                None => drop(merged.entries.insert(entry.service.clone(), entry.clone())),
            }
        }
    }
    merged
}

/// What becomes of a live entry by the new reading of its own file: its new version, itself, or nothing.
fn holder(live: &Arc<Entry>, reading: &Reading) -> Option<Arc<Entry>> {
    if reading.whole {
        return Some(live.clone());
    }
    let same = || reading.entries.iter().filter(|entry| entry.service == live.service);
    if let Some(entry) = same().find(|entry| entry.hash == live.hash).or_else(|| same().next()) {
        return Some(entry.clone());
    }
    // A bad entry that does not say whose it is may be this one, so this one is not taken for deleted.
    let bad = |fault: &Fault| fault.service.as_ref().is_none_or(|service| *service == live.service);
    reading.faults.iter().any(bad).then(|| live.clone())
}

fn refusal(entry: &Entry, what: String, mend: &str) -> Fault {
    let (place, service) = (entry.place.clone(), Some(entry.service.clone()));
    Fault { place, service, field: None, what, mend: mend.to_owned() }
}

#[cfg(test)]
mod tests;
