//! Between the words of `job` and the cells of a row, in named functions, both ways.
//!
//! Owns the codes and the order of the cells. It must not know when a row is written.

use job::clock::Timestamp;
use job::ids::{AgentId, Door, JobId, JobKey, Owner};
use job::json::JsonText;
use job::lifecycle::State;
use job::outcome::{Ending, Outcome, Redacted, Usage};
use job::reason::Reason;
use job::store::Item;
use rusqlite::types::Null;
use rusqlite::{Row, Statement};

use crate::fault::Fault;

/// Bytes a finished job takes besides its texts: its numbers, its hash, and its places in the indexes.
const ROW_BYTES: usize = 200;

/// The code of a state a job can have in the journal.
pub(crate) fn state_code(state: State) -> Result<i64, Fault> {
    match state {
        State::Accepted => Ok(1),
        State::Started => Ok(2),
        State::Done => Ok(3),
        State::Error => Ok(4),
        State::Timeout => Ok(5),
        State::Cancelled => Ok(6),
        State::Rejected => Ok(7),
        State::Arriving | State::Duplicate => Err(Fault::Row(format!("a job in the journal is never {state:?}"))),
    }
}

/// The state with this code.
pub(crate) fn state_from(code: i64) -> Result<State, Fault> {
    let all = State::ALL.into_iter().find(|state| matches!(state_code(*state), Ok(of) if of == code));
    all.ok_or_else(|| Fault::Row(format!("{code} is no state")))
}

/// The code of an item's kind. 2 and 3 are the notices an outcome takes the place of (see the index in `schema`).
pub(crate) fn item_code(item: &Item) -> i64 {
    match item {
        Item::Outcome(_) => 1,
        Item::Duplicate(_) => 2,
        Item::Rejection(_) => 3,
        Item::CancelAcknowledged(_) => 4,
        Item::CancelRejected(_) => 5,
    }
}

/// The stamp an item shows.
pub(crate) fn item_ts(item: &Item) -> Timestamp {
    match item {
        Item::Outcome(outcome) | Item::Duplicate(outcome) | Item::Rejection(outcome) => outcome.ts,
        Item::CancelAcknowledged(ts) | Item::CancelRejected(ts) => *ts,
    }
}

/// The item with this code, at this stamp; the outcome is read only where the kind has one.
pub(crate) fn item_from(code: i64, ts: Timestamp, outcome: impl FnOnce() -> Result<Outcome, Fault>) -> Result<Item, Fault> {
    match code {
        1 => Ok(Item::Outcome(outcome()?)),
        2 => Ok(Item::Duplicate(outcome()?)),
        3 => Ok(Item::Rejection(outcome()?)),
        4 => Ok(Item::CancelAcknowledged(ts)),
        5 => Ok(Item::CancelRejected(ts)),
        _ => Err(Fault::Row(format!("{code} is no kind of an outbox row"))),
    }
}

/// Binds the four cells of a key from this parameter on: job, owner, agent, door.
pub(crate) fn bind_key(statement: &mut Statement<'_>, first: usize, key: &JobKey) -> rusqlite::Result<()> {
    statement.raw_bind_parameter(first, key.job.as_str())?;
    statement.raw_bind_parameter(first + 1, key.owner.as_str())?;
    statement.raw_bind_parameter(first + 2, key.agent.as_str())?;
    statement.raw_bind_parameter(first + 3, key.door.word())
}

/// Reads the four cells of a key from this column on, in the order [`bind_key`] binds them.
pub(crate) fn read_key(row: &Row<'_>, first: usize) -> Result<JobKey, Fault> {
    let bad = |error: &dyn std::fmt::Display| Fault::Row(error.to_string());
    let text = |column: usize| Ok::<&str, Fault>(row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?);
    let door = text(first + 3)?;
    Ok(JobKey {
        job: JobId::parse(text(first)?).map_err(|e| bad(&e))?,
        owner: Owner::from_slug(text(first + 1)?).map_err(|e| bad(&e))?,
        agent: AgentId::parse(text(first + 2)?).map_err(|e| bad(&e))?,
        door: Door::from_word(door).ok_or_else(|| bad(&format_args!("{door} is no door")))?,
    })
}

/// How many cells an outcome has, its stamp apart.
pub(crate) const OUTCOME_CELLS: usize = 9;

/// Binds the cells of an outcome from this parameter on, or as many nulls: fuel, wall_ms, peak_bytes, run, guest, redacted,
/// word, message, body.
pub(crate) fn bind_outcome(statement: &mut Statement<'_>, first: usize, outcome: Option<&Outcome>) -> Result<(), Fault> {
    let Some(Outcome { ending, usage, ts: _ }) = outcome else {
        for cell in first..first + OUTCOME_CELLS {
            statement.raw_bind_parameter(cell, Null)?;
        }
        return Ok(());
    };
    // SQLite's integers are signed; the bits are kept, so that every u64 comes back as it was.
    statement.raw_bind_parameter(first, usage.fuel.cast_signed())?;
    statement.raw_bind_parameter(first + 1, usage.wall_ms.cast_signed())?;
    statement.raw_bind_parameter(first + 2, usage.peak_memory_bytes.cast_signed())?;
    statement.raw_bind_parameter(first + 3, usage.attempt)?;
    statement.raw_bind_parameter(first + 4, usage.guest.as_deref())?;
    statement.raw_bind_parameter(first + 5, redacted_text(&usage.redacted)?)?;
    match ending {
        Ending::Done { kind, body } => {
            statement.raw_bind_parameter(first + 6, &**kind)?;
            statement.raw_bind_parameter(first + 7, Null)?;
            statement.raw_bind_parameter(first + 8, body.as_str())?;
        }
        Ending::Ended { reason, message, extra } => {
            statement.raw_bind_parameter(first + 6, reason.word())?;
            statement.raw_bind_parameter(first + 7, message.as_str())?;
            statement.raw_bind_parameter(first + 8, extra.as_str())?;
        }
    }
    Ok(())
}

/// Reads an outcome from this column on, in the order [`bind_outcome`] binds it.
pub(crate) fn read_outcome(row: &Row<'_>, first: usize, ts: Timestamp) -> Result<Outcome, Fault> {
    let word: String = row.get(first + 6)?;
    let body = JsonText::trusted(row.get::<_, String>(first + 8)?);
    let ending = match row.get::<_, Option<String>>(first + 7)? {
        None => Ending::Done { kind: word.into(), body },
        Some(message) => {
            let reason = Reason::from_word(&word).ok_or_else(|| Fault::Row(format!("{word} is no reason")))?;
            Ending::Ended { reason, message, extra: body }
        }
    };
    let usage = Usage {
        fuel: row.get::<_, i64>(first)?.cast_unsigned(),
        wall_ms: row.get::<_, i64>(first + 1)?.cast_unsigned(),
        peak_memory_bytes: row.get::<_, i64>(first + 2)?.cast_unsigned(),
        attempt: row.get(first + 3)?,
        guest: row.get::<_, Option<String>>(first + 4)?.map(Into::into),
        redacted: redacted_from(row.get(first + 5)?)?,
    };
    Ok(Outcome { ending, usage, ts })
}

fn redacted_text(redacted: &[Redacted]) -> Result<Option<String>, Fault> {
    if redacted.is_empty() {
        return Ok(None);
    }
    let pairs: Vec<[&str; 2]> = redacted.iter().map(|secret| [secret.name.as_str(), secret.source.as_str()]).collect();
    serde_json::to_string(&pairs).map(Some).map_err(|error| Fault::Row(error.to_string()))
}

fn redacted_from(text: Option<String>) -> Result<Vec<Redacted>, Fault> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let pairs: Vec<[String; 2]> = serde_json::from_str(&text).map_err(|error| Fault::Row(error.to_string()))?;
    Ok(pairs.into_iter().map(|[name, source]| Redacted { name, source }).collect())
}

/// About how many bytes a finished job takes (`journal.remember_max_mb` counts them).
pub(crate) fn row_bytes(key: &JobKey, outcome: &Outcome) -> u64 {
    let said = match &outcome.ending {
        Ending::Done { kind, body } => kind.len() + body.as_str().len(),
        Ending::Ended { message, extra, .. } => message.len() + extra.as_str().len(),
    };
    // A key stands in its row and in its index.
    let key = key.agent.as_str().len() + key.owner.as_str().len() + key.job.as_str().len();
    (ROW_BYTES + 2 * key + said + outcome.usage.guest.as_deref().map_or(0, str::len)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every state a job can have comes back from its code, and no other code is one.
    #[test]
    fn states_and_codes_match() {
        for state in State::ALL {
            if let Ok(code) = state_code(state) {
                assert_eq!(state_from(code).expect("a state"), state);
            }
        }
        for code in [-1, 0, 8] {
            assert!(state_from(code).is_err(), "{code}");
        }
    }
}
