//! A door's sending side: what leaves on the connection in one turn, and what the broker's answers mean.
//!
//! Owns the window, the size check, and the note to the journal that a row is delivered. It must not know when a connection
//! opens or closes.

use std::time::Duration;

use tokio::time::Instant;
use wire::mqtt::outgoing::{self, Message};

use super::conditions;
use super::desk::{Gone, Sheet};
use super::door::Door;
use super::link::{Ticket, Verdict};
use super::post::{PACKET_FRAME_BYTES, route_key};

/// Most publishes of the desk in flight; fewer where the broker says so.
pub(crate) const WINDOW_MAX: usize = 256;
/// Rows noted as delivered at once, and how long a note waits for company. A note that comes too late only means that the same
/// bytes may be sent once more.
const DELIVERED_BATCH: usize = 128;
pub(crate) const DELIVERED_WAIT: Duration = Duration::from_millis(5);
/// First and longest wait before something refused is published again; doubled each time.
const REFUSED_FIRST: Duration = Duration::from_secs(1);
const REFUSED_MOST: Duration = Duration::from_secs(60);

impl Door {
    /// Sends all that may be sent now, and waits for nothing.
    pub(super) fn turn(&mut self, now: Instant) {
        self.pager.turn(now);
        self.show_load();
        if self.open_since.is_none() {
            return;
        }
        let Some(link) = &mut self.link else { return };
        while let Some(receipt) = self.receipts.front() {
            if link.acknowledge(*receipt).is_err() {
                return;
            }
            self.receipts.pop_front();
        }
        while let Some((ticket, message)) = self.presence.poll_send(now, self.clock.now()) {
            if link.publish(ticket, message).is_err() {
                return;
            }
            self.presence.sent(ticket);
        }
        self.send_sheets(now);
    }

    fn send_sheets(&mut self, now: Instant) {
        let mut gone = Vec::new();
        while let Some(number) = self.desk.poll_send(self.window, &mut gone) {
            let Some(message) = self.message_of(number) else {
                // An event that the broker would not take; nobody is owed it.
                gone.extend(self.desk.acknowledged(number));
                continue;
            };
            let Some(link) = &mut self.link else { break };
            if link.publish(Ticket::Desk(number), message).is_err() {
                self.desk.not_sent(number);
                break;
            }
            self.sent_at.insert(number, now);
        }
        gone.into_iter().for_each(|gone| self.account(gone));
    }

    /// The bytes of a sheet. A result that is larger than the broker takes is replaced by an error that says so (G1-46), the
    /// same each time; an event that is, is dropped.
    fn message_of(&self, number: u64) -> Option<Message> {
        let root = &self.settings.root;
        let max = self.post.packet_bytes_max().unwrap_or(usize::MAX);
        let size = |message: &Message| message.topic.len() + message.payload.len() + PACKET_FRAME_BYTES;
        match self.desk.sheet(number)? {
            Sheet::Event(event) => {
                let message = outgoing::event(root, &event.key, &event.kind, event.ts);
                if size(&message) > max {
                    self.figures.oversize.increment(1);
                    return None;
                }
                Some(message)
            }
            Sheet::Row(row) => {
                let key = route_key(row);
                let message = outgoing::row(root, key, &row.item);
                match row.item.outcome() {
                    Some(outcome) if size(&message) > max => {
                        self.figures.oversize.increment(1);
                        tracing::error!(job = %key, bytes = message.payload.len(), max, "the result is larger than the broker takes");
                        let outcome = outgoing::too_large(outcome, message.payload.len(), max);
                        let payload = outgoing::outcome_payload(key, &outcome);
                        Some(Message { payload, ..message })
                    }
                    _ => Some(message),
                }
            }
        }
    }

    /// The broker answered a publish.
    pub(super) fn handle_answer(&mut self, ticket: Ticket, verdict: &Verdict) {
        if let Verdict::Refused(why) = verdict {
            return self.handle_refusal(ticket, why);
        }
        match ticket {
            Ticket::Desk(number) => {
                if let Some(sent) = self.sent_at.remove(&number) {
                    self.figures.publish_seconds.record(sent.elapsed().as_secs_f64());
                }
                if let Some(gone) = self.desk.acknowledged(number) {
                    match &gone {
                        Gone::Event(_) => self.figures.events.increment(1),
                        Gone::Delivered(_) | Gone::Withdrawn(_) => self.figures.rows.increment(1),
                    }
                    self.account(gone);
                }
                if self.delivered.len() >= DELIVERED_BATCH {
                    self.flush_delivered();
                }
            }
            Ticket::Profile(_) | Ticket::Status(_) => {
                self.figures.standing.increment(1);
                self.presence.acknowledged(ticket);
            }
            Ticket::Command(_) => {}
        }
        if self.refusal_shown && self.desk.parked() == 0 && self.presence.next_retry().is_none() {
            self.refusal_shown = false;
            self.board.clear(&conditions::beside(&self.agent, "publish"));
        }
    }

    fn handle_refusal(&mut self, ticket: Ticket, why: &'static str) {
        let now = Instant::now();
        let root = &self.settings.root;
        let topic = match ticket {
            Ticket::Desk(number) => match self.desk.sheet(number) {
                Some(Sheet::Row(row)) => {
                    let key = route_key(row);
                    if row.item.is_retained() { root.result(&key.owner, &key.job) } else { root.events(&key.owner, &key.job) }
                }
                Some(Sheet::Event(event)) => root.events(&event.key.owner, &event.key.job),
                None => return,
            },
            Ticket::Profile(_) => root.profile(&self.agent),
            Ticket::Status(_) => root.status(&self.agent),
            Ticket::Command(_) => return,
        };
        match ticket {
            Ticket::Desk(number) => {
                self.sent_at.remove(&number);
                let refusals = self.desk.refusals_of(number);
                match refusals {
                    Some(_) => self.figures.refused_rows.increment(1),
                    None => self.figures.refused_events.increment(1),
                }
                let wait = REFUSED_FIRST.saturating_mul(1 << refusals.unwrap_or(0).min(6)).min(REFUSED_MOST);
                if let Some(gone) = self.desk.refused(number, now + wait) {
                    self.account(gone);
                }
            }
            _ => {
                self.figures.refused_standing.increment(1);
                self.presence.refused(ticket, now + REFUSED_MOST);
            }
        }
        let condition = conditions::not_published(&self.agent, &topic, why);
        tracing::error!(agent = %self.agent, topic, why, "publish refused");
        self.board.raise(&conditions::beside(&self.agent, "publish"), condition);
        self.refusal_shown = true;
    }

    /// Tells the journal which rows the broker has.
    pub(super) fn flush_delivered(&mut self) {
        self.delivered_since = None;
        if !self.delivered.is_empty() {
            self.outbox.delivered(std::mem::take(&mut self.delivered));
        }
    }

    fn show_load(&mut self) {
        let dropped = self.post.take_dropped_events();
        if dropped > 0 {
            self.figures.dropped_events.increment(dropped as u64);
        }
        self.figures.outbox_rows.set(self.post.rows().count() as f64);
        self.figures.lagging.set(f64::from(u8::from(self.post.is_lagging())));
        self.figures.unacknowledged.set(self.inbound.held() as f64);
    }
}
