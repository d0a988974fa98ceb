//! The larder of the house: everything a node reads from its machine before it works.
//!
//! Owns `amp-node.toml` and its overrides, where data lies, the deployment's variables, and the reading of catalog folders into
//! snapshots. It must not know any protocol, database or WebAssembly, nor the command line.
//!
//! Read in this order: [`config`], [`deployment`], [`folder`], [`load`], [`shelf`], [`larder`], [`data_dir`].

pub mod changes;
pub mod config;
pub mod data_dir;
pub mod deployment;
pub mod folder;
pub mod larder;
pub mod load;
pub mod shelf;
mod watch;

pub use config::{Config, ConfigError, Inputs, KEYS, Key};
pub use deployment::{Deployment, Environ, process_environ};
pub use larder::{Larder, News};
pub use load::{Builtin, LoadError, load_agent};
