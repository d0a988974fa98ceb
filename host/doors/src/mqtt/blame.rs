//! What a cut connection says about what was in flight: which row or event the broker may dislike, and what becomes of it.
//!
//! Owns the limits and the sentence. A cut right after a sending makes what was in flight suspect; two in a row, and each is sent
//! alone until it is taken, or until it is clear that the broker dislikes it. A network that fails costs a few waits and parks
//! nothing. It must not know the order of the desk.

use std::time::Duration;

use tokio::time::Instant;

use super::conditions;
use super::desk::Gone;
use super::door::{Door, GOOD_CONNECTION};
use super::link::Fault;
use super::sending::REFUSED_MOST;
use super::suspects::{Look, Struck};

/// Cuts in a row, each right after it was sent alone, before a row is set aside.
pub(crate) const STRIKES_MAX: u32 = 3;
/// A cut that comes later than this after a sending has another reason than what was sent.
const CUT_PATIENCE: Duration = Duration::from_secs(1);
/// Bytes per second that even a slow way to the broker carries: a large message gets so much more patience.
const SLOW_BYTES_PER_S: f64 = 128.0 * 1024.0;
/// How long a row is set aside for the first time: longer than a good connection lives, so that the next try tells a broker that
/// dislikes the row from one that keeps restarting.
const ASIDE_FIRST: Duration = Duration::from_secs(15);
/// Cuts without an acknowledged row between them after which reconnecting slows down, though each cut had its reason.
const FRUITLESS_MAX: u32 = 8;

/// A sheet that was handed to the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// When.
    pub(crate) at: Instant,
    /// Bytes of its packet, at most.
    pub(crate) bytes: usize,
    /// Whether it is a result as the job made it, for which a short error can stand in.
    pub(crate) whole: bool,
}

impl Sent {
    /// Whether a cut now may come from this sending.
    fn may_have_cut(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) <= CUT_PATIENCE + Duration::from_secs_f64(self.bytes as f64 / SLOW_BYTES_PER_S)
    }
}

/// What becomes of a row after whose lone sending the connection was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sentence {
    /// It is sent again, alone.
    Again,
    /// It is too large; an error stands in for it.
    TooLarge,
    /// It may be too large; an error stands in for it, and where that is taken, it was too large.
    MaybeTooLarge,
    /// It waits for so long, and all others go on.
    Aside(Duration),
}

/// The sentence. `named`: the broker said that a packet was too large. `taken_max`: bytes of the largest message it ever took.
/// `lived`: how long the connection had been good before the sending; a broker that keeps restarting has none that lives long,
/// and so never turns a result into an error.
fn judge(strikes: u32, named: bool, sent: Sent, taken_max: usize, lived: Duration) -> Sentence {
    let likely = strikes >= STRIKES_MAX && lived >= GOOD_CONNECTION && sent.bytes > taken_max;
    if sent.whole && named {
        Sentence::TooLarge
    } else if sent.whole && likely {
        Sentence::MaybeTooLarge
    } else if strikes < STRIKES_MAX {
        Sentence::Again
    } else {
        Sentence::Aside(if strikes == STRIKES_MAX { ASIDE_FIRST } else { REFUSED_MOST })
    }
}

impl Door {
    /// Gives everything in flight back to the desk, and finds out what the cut says about it. True: the cut has a reason that
    /// waiting does not mend, so the next connection may come soon.
    pub(super) fn lose_flights(&mut self, fault: &Fault, open_since: Option<Instant>, now: Instant) -> bool {
        let at_us = open_since.is_some() && fault.may_be_our_doing();
        let named = *fault == Fault::TooLarge;
        let standing = self.presence.is_flying();
        let sent = std::mem::take(&mut self.sent);
        let look = |number| match sent.get(&number) {
            Some(_) if at_us && named && !standing => Look::Named,
            Some(sent) if at_us && sent.may_have_cut(now) => Look::Suspect,
            _ => Look::Innocent,
        };
        let mut gone = Vec::new();
        let struck = self.desk.connection_lost(look, !standing, &mut gone);
        let mut explained = struck.is_some() || gone.iter().any(|gone| matches!(gone, Gone::Event(_)));
        gone.into_iter().for_each(|gone| self.account(gone));
        if let Some(struck) = struck
            && let Some(sent) = sent.get(&struck.number)
        {
            let lived = open_since.map_or(Duration::ZERO, |since| sent.at - since);
            self.pass(&struck, judge(struck.strikes, named, *sent, self.taken_max, lived), sent.bytes, now);
        }
        if at_us && let Some(topic) = self.presence.struck(sent.is_empty(), now + REFUSED_MOST) {
            let topic = self.topic_of(topic).unwrap_or_default();
            tracing::error!(agent = %self.agent, topic, "the broker cuts the connection after this publish; it is set aside");
            self.show_refusal(conditions::set_aside(&self.agent, &topic, None));
            explained = true;
        }
        self.fruitless = self.fruitless.saturating_add(1);
        // A broker may say why, and cut the connection besides.
        explained |= self.refused_lately(now).is_some();
        explained && self.fruitless <= FRUITLESS_MAX
    }

    /// The topic of a publish that the broker has just refused.
    pub(super) fn refused_lately(&self, now: Instant) -> Option<&str> {
        let (topic, at) = self.refused_topic.as_ref()?;
        (now.saturating_duration_since(*at) <= CUT_PATIENCE).then_some(topic.as_str())
    }

    fn pass(&mut self, struck: &Struck, sentence: Sentence, bytes: usize, now: Instant) {
        let Struck { id, key, retained, strikes, .. } = struck;
        // If it was a guess that the row is too large, it was wrong: the broker does not like the short error either.
        self.stand_in_for = None;
        match sentence {
            Sentence::Again => tracing::warn!(job = %key, strikes, "the connection was cut after this row was sent alone"),
            Sentence::TooLarge => {
                tracing::error!(job = %key, bytes, "the broker takes no message of this size; results so large become errors from now on");
                self.post.learn_packet_bytes_max(bytes.saturating_sub(1));
                self.desk.suspects.forgive(*id);
            }
            Sentence::MaybeTooLarge => {
                tracing::warn!(job = %key, bytes, "the result may be too large for the broker; sending an error in its place");
                self.stand_in_for = Some((*id, bytes));
            }
            Sentence::Aside(wait) => {
                let root = &self.settings.root;
                let topic = if *retained { root.result(&key.owner, &key.job) } else { root.events(&key.owner, &key.job) };
                tracing::error!(job = %key, topic, strikes, "the broker cuts the connection after this row; it is set aside");
                self.desk.set_aside(*id, key, now + wait);
                self.figures.refused_rows.increment(1);
                self.show_refusal(conditions::set_aside(&self.agent, &topic, Some(key)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G1-46: only a broker that says so, or one that was good for a while and cuts at the largest message there ever was, turns
    /// a result into an error; everything else is delayed at most.
    #[test]
    fn a_row_is_delayed_before_it_is_given_up() {
        let at = Instant::now();
        let whole = |bytes| Sent { at, bytes, whole: true };
        let stand_in = Sent { at, bytes: 900, whole: false };
        let (young, old) = (Duration::from_secs(1), GOOD_CONNECTION);
        let first = Sentence::Aside(ASIDE_FIRST);
        let rows = [
            (judge(1, true, whole(900), 5000, young), Sentence::TooLarge),
            (judge(1, true, stand_in, 500, young), Sentence::Again),
            (judge(2, false, whole(900), 500, old), Sentence::Again),
            (judge(3, false, whole(900), 500, young), first),
            (judge(3, false, whole(900), 500, old), Sentence::MaybeTooLarge),
            (judge(4, false, whole(900), 500, young), Sentence::Aside(REFUSED_MOST)),
            (judge(3, false, whole(500), 500, old), first),
            (judge(3, false, stand_in, 500, old), first),
        ];
        for (at, (got, wanted)) in rows.into_iter().enumerate() {
            assert_eq!(got, wanted, "row {at}");
        }
        assert!(ASIDE_FIRST > GOOD_CONNECTION);
    }

    #[test]
    fn a_large_message_gets_more_time() {
        let at = Instant::now();
        let sent = |bytes| Sent { at, bytes, whole: true };
        assert!(sent(100).may_have_cut(at + Duration::from_millis(900)));
        assert!(!sent(100).may_have_cut(at + Duration::from_millis(1100)));
        assert!(sent(1024 * 1024).may_have_cut(at + Duration::from_secs(8)));
    }
}
