//! The doors of the house: sockets, logins and back-pressure, one module a protocol.
//!
//! Owns connections and what waits to cross them. It must not know how a job runs or how it is stored: it hands requests to
//! [`job::jobs::Jobs`] and delivers what [`job::store::Outbox`] holds. No door keeps job state, so any of them may be killed.

pub mod mqtt;
pub mod ops;
