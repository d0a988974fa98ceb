//! The Agent Mesh Protocol 1.3 over MQTT (decisions `G1-…`).
//!
//! Owns the topic map and every payload of the protocol, in both directions. It must not know a connection, a session, or a
//! packet id. Read in this order: [`topics`], [`invoke`], [`cancel`], [`outgoing`], [`registry`], [`client`].

pub mod cancel;
pub mod client;
pub mod invoke;
pub mod outgoing;
pub mod registry;
pub mod topics;

#[cfg(test)]
mod tests;
