//! Fetching rows from the journal: what it held before the door opened, and what was left there because too much waited.
//!
//! Owns the hand-over between fetched rows and rows that arrive meanwhile, so that none is missed, none is taken twice and
//! their order holds. It must not know what rows say.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use job::BoxFuture;
use job::ids::AgentId;
use job::store::{Outbox, OutboxRow, RowId, StoreError};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::desk::Desk;
use super::post::{Post, route_key, row_bytes};

/// Rows fetched at once.
const PAGE_ROWS: usize = 1000;
/// First and longest wait before a failed fetch is tried again.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(30);

type Page = BoxFuture<'static, Result<Vec<OutboxRow>, StoreError>>;

/// The pager of one agent.
pub(crate) struct Pager {
    agent: AgentId,
    outbox: Arc<dyn Outbox>,
    post: Arc<Post>,
    /// The highest id that has come into memory; all above it is still to come.
    after: RowId,
    page: Option<Page>,
    /// Whether rows above `after` are known to be in the journal only; one that arrives then would overtake them.
    behind: bool,
    /// Rows that arrived while a page was on its way: they follow it.
    fresh: VecDeque<OutboxRow>,
    /// Rows withdrawn while a page was on its way: it may still hold them.
    withdrawn: HashSet<RowId>,
    retry_at: Option<Instant>,
    backoff: Backoff,
}

impl Pager {
    /// Nothing fetched yet.
    pub(crate) fn new(agent: AgentId, outbox: Arc<dyn Outbox>, post: Arc<Post>) -> Self {
        Self {
            agent,
            outbox,
            post,
            after: RowId::MIN,
            page: None,
            behind: true,
            fresh: VecDeque::new(),
            withdrawn: HashSet::new(),
            retry_at: None,
            backoff: Backoff::new(RETRY_FIRST, RETRY_MOST),
        }
    }

    /// Whether nothing is left in the journal that is not in memory.
    pub(crate) fn is_idle(&self) -> bool {
        self.page.is_none() && !self.post.is_lagging()
    }

    /// Asks for a page if one is needed and there is room for it.
    pub(crate) fn turn(&mut self, now: Instant) {
        // A time that has passed is dropped even when nothing is asked, or the door's timer would fire for ever.
        self.retry_at = self.retry_at.filter(|at| *at > now);
        if self.page.is_none() && self.retry_at.is_none() && self.post.is_lagging() && self.post.has_room(PAGE_ROWS) {
            // First this, then the question: a row that was left before is in the answer, a later one is in the letter box.
            self.post.stop_lagging();
            self.behind = true;
            self.page = Some(self.outbox.due(self.agent.clone(), self.after, PAGE_ROWS));
        }
    }

    /// When a failed fetch is tried again.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.retry_at
    }

    /// A row arrived.
    pub(crate) fn handle_row(&mut self, row: OutboxRow, desk: &mut Desk) {
        if self.page.is_some() {
            self.fresh.push_back(row);
        } else if self.behind || row.id <= self.after {
            // It lay in the letter box when a fetch failed or was not the last one, and the next fetch brings it in its turn; or
            // a fetch has brought it already.
            self.post.rows().remove(row_bytes(&row));
        } else {
            self.take(row, desk);
        }
    }

    /// A row was withdrawn. True: it was here, and is dealt with.
    pub(crate) fn handle_withdraw(&mut self, id: RowId) -> bool {
        if self.page.is_none() {
            return false;
        }
        self.withdrawn.insert(id);
        match self.fresh.iter().position(|row| row.id == id).and_then(|at| self.fresh.remove(at)) {
            Some(row) => {
                self.post.rows().remove(row_bytes(&row));
                true
            }
            None => false,
        }
    }

    /// Takes a page that has come. Pending while none has.
    pub(crate) fn poll_page(&mut self, cx: &mut Context<'_>, desk: &mut Desk, now: Instant) -> Poll<()> {
        let Some(page) = &mut self.page else { return Poll::Pending };
        let Poll::Ready(answer) = page.as_mut().poll(cx) else { return Poll::Pending };
        self.page = None;
        match answer {
            Ok(rows) => {
                self.backoff.reset();
                let more = rows.len() >= PAGE_ROWS;
                for row in rows {
                    if !self.withdrawn.contains(&row.id) && !desk.holds(row.id, route_key(&row)) {
                        self.post.fetched(&row);
                        self.take(row, desk);
                    } else {
                        self.after = self.after.max(row.id);
                    }
                }
                if more {
                    self.leave_fresh();
                } else {
                    self.behind = false;
                    for row in std::mem::take(&mut self.fresh) {
                        if row.id > self.after {
                            self.take(row, desk);
                        } else {
                            self.post.rows().remove(row_bytes(&row));
                        }
                    }
                }
            }
            Err(why) => {
                tracing::warn!(agent = %self.agent, %why, "cannot fetch results to deliver; trying again");
                self.retry_at = Some(now + self.backoff.wait());
                self.leave_fresh();
            }
        }
        self.withdrawn.clear();
        Poll::Ready(())
    }

    fn take(&mut self, row: OutboxRow, desk: &mut Desk) {
        self.after = self.after.max(row.id);
        desk.push_row(row);
    }

    /// The rows that arrived meanwhile come after others that are still in the journal: they are fetched later, in order.
    fn leave_fresh(&mut self) {
        self.post.start_lagging();
        self.behind = true;
        for row in self.fresh.drain(..) {
            self.post.rows().remove(row_bytes(&row));
        }
    }
}
