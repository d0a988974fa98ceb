//! The dictionary of the house: bytes into words and words into bytes, for each protocol.
//!
//! Owns the layouts on the wire. It must not know a socket, a clock, randomness, or what becomes of a message: time and fresh
//! ids are parameters. Everything here is pure and bounded by its input, so it is fuzzed.

pub mod mqtt;
mod shallow;
mod text;
pub mod time;
