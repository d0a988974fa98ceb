//! The larder of the house: everything a node reads from its machine before it works.
//!
//! Owns `amp-node.toml` and its overrides, where data lies, the deployment's variables, and the reading of catalog folders into
//! snapshots. It must not know any protocol, database or WebAssembly, nor the command line.
//!
//! Read in this order: [`config`], [`deployment`], [`folder`], [`load`], [`data_dir`].

pub mod config;
pub mod data_dir;
pub mod deployment;
pub mod folder;
pub mod load;

pub use config::{Config, ConfigError, Inputs, KEYS, Key};
pub use deployment::{Deployment, Environ, process_environ};
pub use load::{AgentRules, Builtin, Checked, LoadError, load_agent, prepare, read_agent};
