//! What waits to be published about jobs, and in which order it may leave. A pure state machine: no clock, no connection.
//!
//! Owns the order (G1-16): of each topic, row n+1 is not sent before row n is acknowledged or withdrawn; of each job, rows are
//! sent in the order they were committed, and no row before an event that came earlier. What was in flight when a connection
//! broke is sent again, in the same order; what may be why it broke is sent alone. It must not know topics' texts, payloads, or
//! why a broker refuses something.

use std::collections::{BTreeMap, HashMap, VecDeque};

use job::courier::Event;
use job::ids::JobKey;
use job::store::{OutboxRow, RowId};
use tokio::time::Instant;

use super::post::route_key;
use super::suspects::{CUTS_MAX, Look, Struck, Suspects};

/// Something to publish.
#[derive(Debug)]
pub(crate) enum Sheet {
    /// A row.
    Row(OutboxRow),
    /// An event.
    Event(Event),
}

/// What became of something that left memory.
#[derive(Debug)]
pub(crate) enum Gone {
    /// The broker has the row; the journal may forget it.
    Delivered(OutboxRow),
    /// The row was withdrawn.
    Withdrawn(OutboxRow),
    /// The event was sent, refused, or silenced by its job's gate.
    Event(Event),
}

/// The rows of one job.
#[derive(Debug, Default)]
struct Lane {
    /// Not sent yet, in order.
    waiting: VecDeque<OutboxRow>,
    /// Sent, not acknowledged, and not withdrawn: whether a retained one and an unretained one are.
    flying: [bool; 2],
    /// Whether the lane stands in the order of turns.
    queued: bool,
    /// When it may try again after a refusal.
    parked_until: Option<Instant>,
    /// Refusals in a row.
    refusals: u32,
}

impl Lane {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.flying == [false; 2]
    }
}

#[derive(Debug)]
enum Turn {
    Lane(JobKey),
    /// With the cuts it is blamed for.
    Event(Event, u32),
}

#[derive(Debug)]
struct Flight {
    sheet: Sheet,
    withdrawn: bool,
    /// Cuts it is blamed for, where it is an event.
    cuts: u32,
    /// A suspect: nothing else is in flight beside it.
    alone: bool,
}

/// The desk.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    turns: VecDeque<Turn>,
    lanes: HashMap<JobKey, Lane>,
    /// By number of sending, so in the order they were sent.
    flights: BTreeMap<u64, Flight>,
    parked: BTreeMap<(Instant, RowId), JobKey>,
    pub(crate) suspects: Suspects,
    next_number: u64,
}

impl Desk {
    /// Takes a row. Rows of one job come in the order of their ids.
    pub(crate) fn push_row(&mut self, row: OutboxRow) {
        let key = route_key(&row).clone();
        self.lanes.entry(key.clone()).or_default().waiting.push_back(row);
        self.queue(key);
    }

    /// Takes an event.
    pub(crate) fn push_event(&mut self, event: Event) {
        self.turns.push_back(Turn::Event(event, 0));
    }

    /// Whether this row is here.
    pub(crate) fn holds(&self, id: RowId, key: &JobKey) -> bool {
        let waits = self.lanes.get(key).is_some_and(|lane| lane.waiting.iter().any(|row| row.id == id));
        waits || self.flights.values().any(|flight| matches!(&flight.sheet, Sheet::Row(row) if row.id == id))
    }

    /// A row is due no more. One that is in flight is not sent again, and holds up nothing.
    pub(crate) fn withdraw(&mut self, id: RowId, key: &JobKey) -> Option<Gone> {
        let lane = self.lanes.get_mut(key)?;
        if let Some(at) = lane.waiting.iter().position(|row| row.id == id) {
            let row = lane.waiting.remove(at)?;
            self.suspects.clear(id);
            self.tidy(key);
            return Some(Gone::Withdrawn(row));
        }
        let is_it = |flight: &&mut Flight| matches!(&flight.sheet, Sheet::Row(row) if row.id == id) && !flight.withdrawn;
        let flight = self.flights.values_mut().find(is_it)?;
        flight.withdrawn = true;
        if let Sheet::Row(row) = &flight.sheet {
            lane.flying[usize::from(row.item.is_retained())] = false;
        }
        self.queue(key.clone());
        None
    }

    /// The number of the next sheet to send, as long as fewer than `window` are in flight. What was dropped on the way is put
    /// into `gone`.
    pub(crate) fn poll_send(&mut self, window: usize, gone: &mut Vec<Gone>) -> Option<u64> {
        while self.flights.len() < window && !self.flights.values().next().is_some_and(|flight| flight.alone) {
            let turn = self.turns.pop_front()?;
            if !self.flights.is_empty() && self.is_suspect(&turn) {
                self.turns.push_front(turn);
                return None;
            }
            let (sheet, cuts) = match turn {
                Turn::Event(event, _) if !event.gate.is_open() => {
                    gone.push(Gone::Event(event));
                    continue;
                }
                Turn::Event(event, cuts) => (Sheet::Event(event), cuts),
                Turn::Lane(key) => match self.next_of(&key) {
                    Some(row) => {
                        let cuts = self.suspects.cuts(row.id);
                        (Sheet::Row(row), cuts)
                    }
                    None => continue,
                },
            };
            let number = self.next_number;
            self.next_number += 1;
            self.flights.insert(number, Flight { sheet, withdrawn: false, cuts, alone: cuts >= CUTS_MAX });
            return Some(number);
        }
        None
    }

    /// Whether what this turn would send has to be alone in flight.
    fn is_suspect(&self, turn: &Turn) -> bool {
        match turn {
            Turn::Event(_, cuts) => *cuts >= CUTS_MAX,
            Turn::Lane(key) => {
                let head = self.lanes.get(key).and_then(|lane| lane.waiting.front());
                head.is_some_and(|row| self.suspects.cuts(row.id) >= CUTS_MAX)
            }
        }
    }

    /// Whether the next sheet to send may be why connections were cut.
    pub(crate) fn suspects_next(&self) -> bool {
        self.turns.front().is_some_and(|turn| self.is_suspect(turn))
    }

    /// The sheet in flight with this number.
    pub(crate) fn sheet(&self, number: u64) -> Option<&Sheet> {
        self.flights.get(&number).map(|flight| &flight.sheet)
    }

    /// The sheet that was taken last could not be sent; it leads the turns again.
    pub(crate) fn not_sent(&mut self, number: u64) {
        match self.flights.remove(&number).map(|flight| (flight.sheet, flight.cuts)) {
            Some((Sheet::Event(event), cuts)) => self.turns.push_front(Turn::Event(event, cuts)),
            Some((Sheet::Row(row), _)) => {
                let key = route_key(&row).clone();
                let lane = self.lanes.entry(key.clone()).or_default();
                lane.flying[usize::from(row.item.is_retained())] = false;
                lane.queued = true;
                put_back(lane, row);
                self.turns.push_front(Turn::Lane(key));
            }
            None => {}
        }
    }

    fn next_of(&mut self, key: &JobKey) -> Option<OutboxRow> {
        let lane = self.lanes.get_mut(key)?;
        lane.queued = false;
        let head = lane.waiting.front()?;
        let place = usize::from(head.item.is_retained());
        if lane.parked_until.is_some() || lane.flying[place] {
            return None;
        }
        lane.flying[place] = true;
        let row = lane.waiting.pop_front()?;
        self.queue(key.clone());
        Some(row)
    }

    /// The broker has the sheet with this number.
    pub(crate) fn acknowledged(&mut self, number: u64) -> Option<Gone> {
        let flight = self.flights.remove(&number)?;
        Some(match flight.sheet {
            Sheet::Event(event) => Gone::Event(event),
            Sheet::Row(row) => {
                let key = route_key(&row).clone();
                self.suspects.clear(row.id);
                if flight.withdrawn {
                    self.tidy(&key);
                    return Some(Gone::Withdrawn(row));
                }
                if let Some(lane) = self.lanes.get_mut(&key) {
                    lane.flying[usize::from(row.item.is_retained())] = false;
                    lane.refusals = 0;
                }
                self.queue(key.clone());
                self.tidy(&key);
                Gone::Delivered(row)
            }
        })
    }

    /// The number of refusals that the job of this sheet has had in a row; none for an event, which is not tried again.
    pub(crate) fn refusals_of(&self, number: u64) -> Option<u32> {
        match &self.flights.get(&number)?.sheet {
            Sheet::Row(row) => self.lanes.get(route_key(row)).map(|lane| lane.refusals),
            Sheet::Event(_) => None,
        }
    }

    /// The broker refuses the sheet with this number. A row waits until `again` and then leads its job's rows once more.
    pub(crate) fn refused(&mut self, number: u64, again: Instant) -> Option<Gone> {
        let flight = self.flights.remove(&number)?;
        if let Sheet::Row(row) = &flight.sheet {
            // The broker has said what is wrong, so nobody has to guess.
            self.suspects.clear(row.id);
        }
        match flight.sheet {
            Sheet::Event(event) => Some(Gone::Event(event)),
            Sheet::Row(row) if flight.withdrawn => {
                let key = route_key(&row).clone();
                self.tidy(&key);
                Some(Gone::Withdrawn(row))
            }
            Sheet::Row(row) => {
                let key = route_key(&row).clone();
                let id = row.id;
                let lane = self.lanes.entry(key.clone()).or_default();
                lane.flying[usize::from(row.item.is_retained())] = false;
                lane.refusals = lane.refusals.saturating_add(1);
                put_back(lane, row);
                self.set_aside(id, &key, again);
                None
            }
        }
    }

    /// A row that waits here does so until `again`, and all rows of its job behind it.
    pub(crate) fn set_aside(&mut self, id: RowId, key: &JobKey, again: Instant) {
        if let Some(lane) = self.lanes.get_mut(key)
            && lane.parked_until.is_none()
        {
            lane.parked_until = Some(again);
            self.parked.insert((again, id), key.clone());
        }
    }

    /// When the first parked row may try again.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.parked.keys().next().map(|(again, _)| *again)
    }

    /// Lets parked rows try again whose time has come.
    pub(crate) fn handle_time(&mut self, now: Instant) {
        while let Some(entry) = self.parked.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            if let Some(lane) = self.lanes.get_mut(&key) {
                lane.parked_until = None;
            }
            self.queue(key.clone());
            self.tidy(&key);
        }
    }

    /// Jobs whose rows are parked.
    pub(crate) fn parked(&self) -> usize {
        self.parked.len()
    }

    /// The connection is gone: everything in flight is to be sent again, before what has not been sent, in the same order.
    ///
    /// `look` tells how the cut looks to a number; `certain`, that nothing else than the desk's was in flight. A suspect event
    /// that was alone is dropped into `gone`; a suspect row that was alone is returned.
    pub(crate) fn connection_lost(&mut self, look: impl Fn(u64) -> Look, certain: bool, gone: &mut Vec<Gone>) -> Option<Struck> {
        let struck = self.blame(look, certain, gone);
        let flights = std::mem::take(&mut self.flights);
        let mut again = VecDeque::new();
        for flight in flights.values() {
            match &flight.sheet {
                Sheet::Event(event) => again.push_back(Turn::Event(event.clone(), flight.cuts)),
                Sheet::Row(row) if !flight.withdrawn => again.push_back(Turn::Lane(route_key(row).clone())),
                Sheet::Row(_) => {}
            }
        }
        for flight in flights.into_values().rev() {
            if let Sheet::Row(row) = flight.sheet {
                let key = route_key(&row).clone();
                if flight.withdrawn {
                    self.suspects.clear(row.id);
                    self.tidy(&key);
                    gone.push(Gone::Withdrawn(row));
                    continue;
                }
                let lane = self.lanes.entry(key).or_default();
                lane.flying = [false; 2];
                lane.queued = true;
                put_back(lane, row);
            }
        }
        // A lane may stand twice in the turns now; its second turn finds nothing it may send, or the next row, both in order.
        again.append(&mut self.turns);
        self.turns = again;
        struck
    }

    fn blame(&mut self, look: impl Fn(u64) -> Look, certain: bool, gone: &mut Vec<Gone>) -> Option<Struck> {
        let only = certain && self.flights.len() == 1;
        let mut struck = None;
        let mut dropped = None;
        for (number, flight) in &mut self.flights {
            let look = look(*number);
            if look == Look::Innocent || flight.withdrawn {
                continue;
            }
            let named = look == Look::Named;
            let strikes = only && (flight.alone || named);
            flight.cuts = if named { CUTS_MAX } else { flight.cuts.saturating_add(1) };
            match &flight.sheet {
                Sheet::Event(_) if strikes => dropped = Some(*number),
                Sheet::Event(_) => {}
                Sheet::Row(row) => {
                    self.suspects.blame(row.id, flight.cuts);
                    if strikes {
                        let (id, key, retained) = (row.id, route_key(row).clone(), row.item.is_retained());
                        struck = Some(Struck { number: *number, id, key, retained, strikes: self.suspects.strike(id) });
                    }
                }
            }
        }
        if let Some(Flight { sheet: Sheet::Event(event), .. }) = dropped.and_then(|number| self.flights.remove(&number)) {
            gone.push(Gone::Event(event));
        }
        struck
    }

    /// Whether there is nothing to send and nothing to wait for.
    pub(crate) fn is_idle(&self) -> bool {
        self.lanes.is_empty() && self.flights.is_empty() && self.turns.iter().all(|turn| matches!(turn, Turn::Lane(_)))
    }

    fn queue(&mut self, key: JobKey) {
        if let Some(lane) = self.lanes.get_mut(&key)
            && !lane.queued
            && !lane.waiting.is_empty()
            && lane.parked_until.is_none()
        {
            lane.queued = true;
            self.turns.push_back(Turn::Lane(key));
        }
    }

    fn tidy(&mut self, key: &JobKey) {
        if self.lanes.get(key).is_some_and(|lane| lane.is_empty() && lane.parked_until.is_none()) {
            self.lanes.remove(key);
        }
    }
}

/// Puts a row back where its id belongs.
fn put_back(lane: &mut Lane, row: OutboxRow) {
    let at = lane.waiting.iter().position(|other| other.id > row.id).unwrap_or(lane.waiting.len());
    lane.waiting.insert(at, row);
}
