//! How a run ended: from what wasmtime and the guest left behind to one word of the executor port.
//!
//! Owns the classification (DESIGN section 6, U25): by type and by the limiter's memory, never by the words of an error, with
//! one exception that is pinned by a test. It must not know who raced whom; `run.rs` does.

use job::executor::{End, Limits};
use wasmtime::{PoolConcurrencyLimitError, Trap};
use wasmtime_wasi::I32Exit;

use crate::bindings::amp::capability::types::{Failure, Outcome};
use crate::limiter::{OverMemory, OverTable};
use crate::speech::cut;
use crate::state::State;

/// Longest message of a failure that is passed on, in bytes.
const FAILURE_BYTES_MAX: usize = 8 << 10;
/// Longest reason of a trap, in bytes; the guest's last words come on top.
const TRAP_BYTES_MAX: usize = 1 << 10;
/// Bytes a guest may hand the host in one call beyond its answer's limit, so that an answer which is somewhat too large is
/// reported with its size.
const HANDED_OVER_BYTES_SLACK: u64 = 3 << 20;
/// What wasmtime says when a guest hands over more than that. Its type is private, so its words have to do.
const HANDED_OVER_TOO_MUCH: &str = "too much data is being copied between the host and the guest";

/// What a guest may hand the host in one call, in bytes.
pub(crate) fn handed_over_bytes_max(limits: &Limits) -> usize {
    usize::try_from(limits.output_bytes.saturating_add(HANDED_OVER_BYTES_SLACK)).unwrap_or(usize::MAX)
}

/// A run that ended by itself.
pub(crate) fn of_call(called: wasmtime::Result<Result<Outcome, Failure>>, limits: &Limits, state: &State) -> End {
    match called {
        Ok(Ok(Outcome { kind, body })) => {
            let wrote_bytes = (body.len() + kind.as_ref().map_or(0, String::len)) as u64;
            if wrote_bytes > limits.output_bytes { End::OverOutput { wrote_bytes } } else { End::Answered { kind, body } }
        }
        Ok(Err(Failure { message })) => End::Failed { message: cut(&message, FAILURE_BYTES_MAX).to_owned() },
        Err(error) => of_error(&error, limits, state),
    }
}

/// A run that the deadline ended.
pub(crate) fn of_deadline(state: &State) -> End {
    over_memory(state).unwrap_or(End::PastDeadline)
}

fn of_error(error: &wasmtime::Error, limits: &Limits, state: &State) -> End {
    if error.is::<PoolConcurrencyLimitError>() {
        return End::NoPlace { message: format!("every place for an instance is taken ({})", error.root_cause()) };
    }
    if let Some(denied) = error.downcast_ref::<OverMemory>() {
        return End::OverMemory { wanted_bytes: denied.wanted_bytes };
    }
    if let Some(end) = over_memory(state) {
        return end;
    }
    if error.downcast_ref::<Trap>() == Some(&Trap::OutOfFuel) {
        return End::OutOfFuel;
    }
    let reason = error.root_cause().to_string();
    if reason.contains(HANDED_OVER_TOO_MUCH) {
        return End::OverOutput { wrote_bytes: handed_over_bytes_max(limits) as u64 };
    }
    End::Trapped { message: trap_words(error, &reason, state) }
}

/// A run that could not begin: the system or the pool had no room for an instance.
pub(crate) fn of_instantiation(error: &wasmtime::Error, limits: &Limits, state: &State) -> End {
    if is_of_the_system(error) && state.limiter.denied_bytes().is_none() {
        return End::NoPlace { message: format!("the system had no room for an instance ({})", error.root_cause()) };
    }
    of_error(error, limits, state)
}

/// A guest that was denied memory and did not cope.
fn over_memory(state: &State) -> Option<End> {
    state.limiter.denied_bytes().map(|wanted_bytes| End::OverMemory { wanted_bytes })
}

/// Whether an error came from the operating system.
pub(crate) fn is_of_the_system(error: &wasmtime::Error) -> bool {
    error.chain().any(|cause| cause.is::<std::io::Error>() || cause.is::<rustix::io::Errno>())
}

fn trap_words(error: &wasmtime::Error, reason: &str, state: &State) -> String {
    let what = if let Some(trap) = error.downcast_ref::<Trap>() {
        match trap {
            Trap::UnreachableCodeReached => "it reached an `unreachable` instruction, as a panic or an abort does".to_owned(),
            Trap::MemoryOutOfBounds => "it touched memory outside of its own, or its stack ran over".to_owned(),
            Trap::StackOverflow => "its calls nested too deep and its stack ran over".to_owned(),
            other => other.to_string(),
        }
    } else if let Some(exit) = error.downcast_ref::<I32Exit>() {
        format!("it called exit({}) instead of returning an answer", exit.0)
    } else if let Some(table) = error.downcast_ref::<OverTable>() {
        table.to_string()
    } else {
        cut(reason, TRAP_BYTES_MAX).to_owned()
    };
    match state.words.text() {
        Some(words) => format!("the guest trapped: {what}; its last words: {words}"),
        None => format!("the guest trapped: {what}"),
    }
}
