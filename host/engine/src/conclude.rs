//! From how a run ended to the words of its outcome (G1-22, G1-23, G1-46 to G1-48).
//!
//! Owns the one table from an executor's end to an ending. Pure. It must not know tasks, stores or doors.

use job::executor::{End, Limits};
use job::json::JsonText;
use job::outcome::{Ending, is_domain_kind};
use job::reason::Reason;

/// Longest message that an outcome carries, in bytes; a longer one is cut at a character.
pub const MESSAGE_BYTES_MAX: usize = 8 * 1024;

/// An ending with a reason and a sentence.
pub(crate) fn ended(reason: Reason, message: impl Into<String>) -> Ending {
    Ending::Ended { reason, message: shortened(message.into()), extra: JsonText::empty_object() }
}

/// The ending of a run. None where the run has none of its own: it was stopped, or never had a place.
pub(crate) fn ending_of(end: End, limits: &Limits, result_bytes_max: Option<usize>) -> Option<Ending> {
    Some(match end {
        End::Answered { kind, body } => answered(kind, body, result_bytes_max),
        End::Failed { message } => ended(Reason::Guest, message),
        End::Trapped { message } => ended(Reason::Trap, message),
        End::OutOfFuel => ended(Reason::Fuel, format!("the guest used up its fuel of {}", limits.fuel)),
        End::PastDeadline => past_deadline(limits),
        End::OverMemory { wanted_bytes } => ended(
            Reason::MemoryLimit,
            format!("the guest asked for {wanted_bytes} bytes of memory; its limit is {}", limits.memory_bytes),
        ),
        End::OverOutput { wrote_bytes } => ended(
            Reason::OutputLimit,
            format!("the guest's answer has {wrote_bytes} bytes; its limit is {}", limits.output_bytes),
        ),
        End::Stopped | End::NoPlace { .. } => return None,
    })
}

/// The ending of a job whose wall clock ran out.
pub(crate) fn past_deadline(limits: &Limits) -> Ending {
    ended(Reason::Deadline, format!("the job did not end within its {} ms", limits.timeout_ms))
}

fn answered(kind: Option<String>, body: String, result_bytes_max: Option<usize>) -> Ending {
    let kind = match kind {
        None => "result".into(),
        Some(kind) if is_domain_kind(&kind) => kind,
        Some(kind) => {
            let message = format!("the guest chose the result type {kind:?}, which is reserved, empty, or too long");
            return ended(Reason::BadOutput, message);
        }
    };
    // Only what certainly cannot leave: the door, which knows what goes along, refuses an answer that just misses.
    if let Some(max) = result_bytes_max.filter(|max| body.len() > *max) {
        let message = format!("the guest's answer has {} bytes; the way out takes {max}", body.len());
        return ended(Reason::OutputLimit, message);
    }
    // Anything but an object goes one level deeper, under "result".
    let checked = match body.trim_start().as_bytes().first() {
        Some(b'[') => job::json::check_text(&format!("[{body}]")),
        _ => job::json::check_text(&body),
    };
    match checked {
        Ok(()) => Ending::Done { kind: kind.into(), body: JsonText::trusted(body) },
        Err(fault) => ended(Reason::BadOutput, format!("the guest's answer is not JSON: {fault}")),
    }
}

fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_BYTES_MAX {
        let cut = (0..=MESSAGE_BYTES_MAX).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
        message.truncate(cut);
        message.push('…');
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { timeout_ms: 50, fuel: 7, memory_bytes: 64, output_bytes: 10 };

    fn reason_of(end: End) -> Option<&'static str> {
        match ending_of(end, &LIMITS, Some(10_000))? {
            Ending::Done { .. } => Some("done"),
            Ending::Ended { reason, message, .. } => {
                assert!(!message.is_empty());
                Some(reason.word())
            }
        }
    }

    fn answer(kind: Option<&str>, body: impl Into<String>) -> End {
        End::Answered { kind: kind.map(str::to_owned), body: body.into() }
    }

    /// S1-31, S1-36, S1-38, S1-43, DC-04, DC-05: every end has its reason, and reserved types are the host's alone.
    #[test]
    fn every_end_has_its_reason() {
        let rows = [
            (answer(None, "{}"), Some("done")),
            (answer(Some("review"), "[1]"), Some("done")),
            (answer(Some("timeout"), "{}"), Some("bad_output")),
            (answer(Some(""), "{}"), Some("bad_output")),
            (answer(None, "{"), Some("bad_output")),
            (answer(None, "[".repeat(99) + &"]".repeat(99)), Some("done")),
            (answer(None, "[".repeat(100) + &"]".repeat(100)), Some("bad_output")),
            (answer(None, "[1] [2]"), Some("bad_output")),
            (answer(None, format!("\"{}\"", "x".repeat(10_000))), Some("output_limit")),
            (End::Failed { message: "no".into() }, Some("guest")),
            (End::Trapped { message: "unreachable".into() }, Some("trap")),
            (End::OutOfFuel, Some("fuel")),
            (End::PastDeadline, Some("deadline")),
            (End::OverMemory { wanted_bytes: 9 }, Some("memory_limit")),
            (End::OverOutput { wrote_bytes: 9 }, Some("output_limit")),
            (End::Stopped, None),
            (End::NoPlace { message: "full".into() }, None),
        ];
        for (end, expected) in rows {
            assert_eq!(reason_of(end.clone()), expected, "{end:?}");
        }
    }

    #[test]
    fn long_messages_are_cut_at_a_character() {
        let Ending::Ended { message, .. } = ended(Reason::Guest, "é".repeat(MESSAGE_BYTES_MAX)) else { panic!("ended") };
        assert!(message.len() <= MESSAGE_BYTES_MAX + '…'.len_utf8() && message.ends_with("é…"));
    }
}
