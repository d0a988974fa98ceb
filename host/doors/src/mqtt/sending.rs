//! A door's sending side: what leaves on the connection in one turn, and what the broker's answers mean.
//!
//! Owns the window, the size check, and the note to the journal that a row is delivered. It must not know when a connection
//! opens or closes.

use std::time::Duration;

use job::outcome::Outcome;
use job::reason::Reason;
use job::status::Condition;
use tokio::time::Instant;
use wire::mqtt::outgoing::{self, Message};

use super::blame::Sent;
use super::conditions;
use super::desk::{Gone, Sheet};
use super::door::Door;
use super::link::{Full, Ticket, Verdict};
use super::post::{PACKET_FRAME_BYTES, event_bytes, route_key, row_bytes};

/// Most publishes of the desk in flight; fewer where the broker says so.
pub(crate) const WINDOW_MAX: usize = 256;
/// Rows noted as delivered at once, and how long a note waits for company. A note that comes too late only means that the same
/// bytes may be sent once more.
const DELIVERED_BATCH: usize = 128;
pub(crate) const DELIVERED_WAIT: Duration = Duration::from_millis(5);
/// First and longest wait before something refused is published again; doubled each time.
const REFUSED_FIRST: Duration = Duration::from_secs(1);
pub(crate) const REFUSED_MOST: Duration = Duration::from_secs(60);

/// Bytes of the packet, at most.
fn size(message: &Message) -> usize {
    message.topic.len() + message.payload.len() + PACKET_FRAME_BYTES
}

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
        if self.send_standing(now).is_ok() {
            self.send_sheets(now);
        }
    }

    /// Sends profile and status where they are due.
    fn send_standing(&mut self, now: Instant) -> Result<(), Full> {
        let max = self.post.packet_bytes_max().unwrap_or(usize::MAX);
        while let Some((ticket, message)) = self.presence.poll_send(now, self.clock.now()) {
            let bytes = size(&message);
            if bytes > max {
                let condition = conditions::does_not_fit(&self.agent, &message.topic, bytes, max);
                tracing::error!("{}; {}", condition.what, condition.mend);
                self.presence.refused(ticket, now + REFUSED_MOST);
                self.show_refusal(condition);
                continue;
            }
            let Some(link) = &mut self.link else { break };
            link.publish(ticket, message)?;
            self.presence.sent(ticket);
        }
        Ok(())
    }

    fn send_sheets(&mut self, now: Instant) {
        // Before a suspect is tried, nothing else may be in flight: its answer would not be certain.
        if self.desk.suspects_next() && self.presence.is_flying() {
            return;
        }
        let mut gone = Vec::new();
        while let Some(number) = self.desk.poll_send(self.window, &mut gone) {
            let Some((message, whole)) = self.message_of(number) else {
                // An event that the broker would not take; nobody is owed it.
                gone.extend(self.desk.acknowledged(number));
                continue;
            };
            let bytes = size(&message);
            let Some(link) = &mut self.link else { break };
            if link.publish(Ticket::Desk(number), message).is_err() {
                self.desk.not_sent(number);
                break;
            }
            self.sent.insert(number, Sent { at: now, bytes, whole });
        }
        gone.into_iter().for_each(|gone| self.account(gone));
    }

    /// The bytes of a sheet. A result that is larger than the broker takes is replaced by an error that says so (G1-46), the
    /// same each time; an event that is, is dropped. True: it is a result as the job made it.
    fn message_of(&self, number: u64) -> Option<(Message, bool)> {
        let root = &self.settings.root;
        let max = self.post.packet_bytes_max().unwrap_or(usize::MAX);
        match self.desk.sheet(number)? {
            Sheet::Event(event) => {
                let message = outgoing::event(root, &event.key, &event.kind, event.ts);
                if size(&message) > max {
                    self.figures.oversize.increment(1);
                    return None;
                }
                Some((message, false))
            }
            Sheet::Row(row) => {
                let key = route_key(row);
                let message = outgoing::row(root, key, &row.item);
                match row.item.outcome() {
                    Some(outcome) if size(&message) > max || self.stand_in_for.is_some_and(|(id, _)| id == row.id) => {
                        self.figures.oversize.increment(1);
                        tracing::error!(job = %key, bytes = message.payload.len(), max, "the result is larger than the broker takes");
                        let payload = outgoing::outcome_payload(key, &self.stand_in(outcome, &message));
                        Some((Message { payload, ..message }, false))
                    }
                    outcome => Some((message, outcome.is_some())),
                }
            }
        }
    }

    /// The error in the place of a result that is too large. Where the broker does not say its limit, the error does not either:
    /// what was learned changes, and the same row has to give the same bytes.
    fn stand_in(&self, outcome: &Outcome, message: &Message) -> Outcome {
        match self.post.told_bytes_max().filter(|max| size(message) > *max) {
            Some(max) => outgoing::too_large(outcome, message.payload.len(), max),
            None => {
                let text =
                    format!("the result has {} bytes, and the broker takes no message of that size", message.payload.len());
                Outcome::ended(Reason::OutputLimit, text, outcome.usage.clone(), outcome.ts)
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
                if let Some(sent) = self.sent.remove(&number) {
                    self.figures.publish_seconds.record(sent.at.elapsed().as_secs_f64());
                    self.taken_max = self.taken_max.max(sent.bytes);
                }
                self.fruitless = 0;
                if let Some(gone) = self.desk.acknowledged(number) {
                    if let Gone::Delivered(row) = &gone
                        && let Some((_, bytes)) = self.stand_in_for.take_if(|(id, _)| *id == row.id)
                    {
                        // The short error passed where the result did not.
                        self.post.learn_packet_bytes_max(bytes.saturating_sub(1));
                    }
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
        let Some(topic) = self.topic_of(ticket) else { return };
        // Now the reason is known, so nothing has to be guessed.
        self.stand_in_for = None;
        match ticket {
            Ticket::Desk(number) => {
                self.sent.remove(&number);
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
        tracing::error!(agent = %self.agent, topic, why, "publish refused");
        self.show_refusal(conditions::not_published(&self.agent, &self.settings.root, &topic, why));
        self.refused_topic = Some((topic, now));
    }

    /// Where something was published, unless it is gone meanwhile.
    pub(super) fn topic_of(&self, ticket: Ticket) -> Option<String> {
        let root = &self.settings.root;
        match ticket {
            Ticket::Desk(number) => match self.desk.sheet(number)? {
                Sheet::Row(row) => {
                    let key = route_key(row);
                    Some(if row.item.is_retained() {
                        root.result(&key.owner, &key.job)
                    } else {
                        root.events(&key.owner, &key.job)
                    })
                }
                Sheet::Event(event) => Some(root.events(&event.key.owner, &event.key.job)),
            },
            Ticket::Profile(_) => Some(root.profile(&self.agent)),
            Ticket::Status(_) => Some(root.status(&self.agent)),
            Ticket::Command(_) => None,
        }
    }

    /// Puts it on the board, until nothing waits for another try.
    pub(super) fn show_refusal(&mut self, condition: Condition) {
        self.board.raise(&conditions::beside(&self.agent, "publish"), condition);
        self.refusal_shown = true;
    }

    /// Counts what has left memory.
    pub(super) fn account(&mut self, gone: Gone) {
        match gone {
            Gone::Delivered(row) => {
                self.post.rows().remove(row_bytes(&row));
                self.delivered.push(row.id);
                self.delivered_since.get_or_insert_with(Instant::now);
            }
            Gone::Withdrawn(row) => self.post.rows().remove(row_bytes(&row)),
            Gone::Event(event) => self.post.events().remove(event_bytes(&event)),
        }
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
