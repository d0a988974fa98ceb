//! The courier as the journal sees it: what a job said goes out before what it came to.
//!
//! Owns that order where a job ran ahead of its own commit and both were committed at once (G1-49). It must not know doors.

use std::sync::Arc;

use job::courier::{Courier, Event};
use job::ids::JobKey;
use job::store::{Item, OutboxRow, Route, RowId};

use crate::core::Core;

/// Stands before the doors' courier.
pub(crate) struct Ordered {
    pub(crate) core: Arc<Core>,
}

impl Courier for Ordered {
    fn deliver(&self, row: OutboxRow) {
        if let Item::Outcome(outcome) = &row.item {
            let Route::Mesh(key) = &row.route;
            if let Some(live) = self.core.table.get(key) {
                live.release_events_before(outcome.ts);
            }
        }
        self.core.voice.courier.deliver(row);
    }

    fn withdraw(&self, id: RowId, key: &JobKey) {
        self.core.voice.courier.withdraw(id, key);
    }

    fn announce(&self, event: Event) {
        self.core.voice.courier.announce(event);
    }

    fn result_bytes_max(&self, key: &JobKey) -> Option<usize> {
        self.core.voice.courier.result_bytes_max(key)
    }
}
