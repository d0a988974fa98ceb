//! The workshop of the house: turns every accepted request into exactly one outcome, whatever happens.
//!
//! Owns admission, places, deadlines, cancellation, recovery and the graceful stop. It must not know any database, protocol,
//! socket or WebAssembly: it meets them only through the ports of `job`.
//!
//! Read in this order: [`Engine`] (what doors call), `admit` (the checks), `journey` (a job from request to outcome),
//! `perform` (its running part), `conclude` (from an end to words), then `places` and `turnstile` (whose turn it is).

mod admit;
mod conclude;
mod core;
mod engine;
mod journey;
mod live;
mod ordered;
mod perform;
mod places;
mod redact;
mod turnstile;
mod views;

#[cfg(test)]
mod tests;

pub use crate::conclude::MESSAGE_BYTES_MAX;
pub use crate::core::{Settings, TOMBSTONE_MS};
pub use crate::engine::{Engine, Ports, StopReport};
pub use crate::journey::ATTEMPTS_MAX;
pub use crate::live::PROGRESS_EVENTS_MAX;
pub use crate::places::{LIVE_RESERVE_PER_DEPTH, PlaceLimits};
