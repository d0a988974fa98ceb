//! The hall of the house: the words every room speaks and the rules they obey.
//!
//! Owns ids, owners, lineage, outcomes, reasons, the lifecycle table, the admission verdict, and the ports (traits) through
//! which rooms meet. It must not know a socket, a clock, a database, WebAssembly, or the shape of any protocol's bytes.
//!
//! Read in this order: [`ids`], [`lifecycle`], [`outcome`], [`admission`], then the ports: [`jobs`] (doors call the engine),
//! [`store`] (the engine calls the journal), [`courier`] (store and engine call the doors), [`executor`] (the engine calls the
//! sandbox), [`variables`] and [`clock`].

pub mod admission;
pub mod clock;
pub mod courier;
pub mod executor;
pub mod ids;
pub mod jobs;
pub mod json;
pub mod lifecycle;
pub mod lineage;
pub mod outcome;
pub mod reason;
pub mod status;
pub mod store;
pub mod variables;

/// A boxed future that any thread may drive: what every asynchronous port returns, so that ports stay object safe.
pub type BoxFuture<'a, T> = futures::future::BoxFuture<'a, T>;
