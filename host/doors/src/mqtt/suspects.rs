//! Which rows were in flight when connections were cut, and how often.
//!
//! Owns the count. It must not know the order of the desk, or what is done with a row that was alone too often.

use std::collections::HashMap;

use job::ids::JobKey;
use job::store::RowId;

/// Cuts in a row with a sheet in flight after which it is sent alone. One is no reason for suspicion: every network has some.
pub(crate) const CUTS_MAX: u32 = 2;

/// How a cut looks to one sheet that was in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// The sheet has nothing to do with it.
    Innocent,
    /// The sheet may be why.
    Suspect,
    /// The broker said that what it got is why.
    Named,
}

/// A row after whose lone sending the connection was cut.
#[derive(Debug)]
pub(crate) struct Struck {
    /// The number it was sent under.
    pub(crate) number: u64,
    /// The row.
    pub(crate) id: RowId,
    /// Its job.
    pub(crate) key: JobKey,
    /// Whether it is retained.
    pub(crate) retained: bool,
    /// How often this has come about, in a row.
    pub(crate) strikes: u32,
}

#[derive(Debug, Default)]
struct Blame {
    cuts: u32,
    strikes: u32,
}

/// The rows in memory that are blamed for a cut.
#[derive(Debug, Default)]
pub(crate) struct Suspects(HashMap<RowId, Blame>);

impl Suspects {
    /// Cuts in a row with this row in flight.
    pub(crate) fn cuts(&self, id: RowId) -> u32 {
        self.0.get(&id).map_or(0, |blame| blame.cuts)
    }

    /// The connection was cut with this row in flight.
    pub(crate) fn blame(&mut self, id: RowId, cuts: u32) {
        self.0.entry(id).or_default().cuts = cuts;
    }

    /// The connection was cut with nothing else in flight. Returns how often that has come about in a row.
    pub(crate) fn strike(&mut self, id: RowId) -> u32 {
        let blame = self.0.entry(id).or_default();
        blame.strikes = blame.strikes.saturating_add(1);
        blame.strikes
    }

    /// Another message will be sent for this row: its strikes no longer count, though it stays alone.
    pub(crate) fn forgive(&mut self, id: RowId) {
        if let Some(blame) = self.0.get_mut(&id) {
            blame.strikes = 0;
        }
    }

    /// The broker has answered for this row, or it is due no more.
    pub(crate) fn clear(&mut self, id: RowId) {
        self.0.remove(&id);
    }
}
