//! The mesh door: agents on an MQTT 5 broker, the requester's client, and the broker in this process.
//!
//! Read in this order: [`settings`], [`mesh`] (the door as the node sees it), `door` (one agent's connection), `desk` (what
//! waits to be published, a pure state machine), `suspects` and `blame` (what a cut connection says about that), `inbound` (what
//! waits to be acknowledged), `presence` (profile and status), `link` and `v5` (the client library behind one small trait), then
//! [`requester`] and [`embedded`].

mod asking;
mod backoff;
mod blame;
mod conditions;
mod desk;
mod door;
pub mod embedded;
mod inbound;
mod leaving;
mod link;
pub mod mesh;
pub mod metrics;
mod pager;
mod post;
mod presence;
pub mod requester;
mod roll;
mod sending;
pub mod settings;
mod suspects;
mod v5;

#[cfg(test)]
mod tests;
