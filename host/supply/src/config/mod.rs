//! The configuration of a node: `amp-node.toml`, overridden by the environment (DESIGN section 4).
//!
//! Owns the checked form. The parts beside it read, override and check. It must not know what the settings do.

mod duration;
mod keys;
mod overlay;
mod places;
mod raw;
mod renew;
mod resolve;
mod settings;
mod shown;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use catalog::Fault;
use catalog::limits::LimitSet;
use catalog::template::Text;
use job::ids::AgentId;

pub use keys::{KEYS, Key, Kind};
pub use renew::{Applies, Setting, renew};
pub use shown::{Shown, shown};

/// Longest configuration file, in bytes.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;

/// Where a configuration comes from.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// `amp-node.toml`: its path, which other paths in it are relative to, and its text.
    pub file: Option<(PathBuf, String)>,
    /// A catalog folder given on the command line: it makes an agent where the file has none, and replaces the folder of the
    /// only agent where it has one.
    pub catalog: Option<PathBuf>,
    /// Whether a configuration without any agent is fine: a client needs none.
    pub no_agent: bool,
    /// The environment. Names such as `AMP_MESH__BROKER` override keys; all others are left alone.
    pub environment: Vec<(String, String)>,
}

/// Everything that is wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// Each with its place, its key and what to do.
    pub faults: Vec<Fault>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.faults.iter().enumerate() {
            write!(f, "{}{fault}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// A configuration that has been checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[node]`.
    pub node: NodeConfig,
    /// `[[agent]]`, at least one unless [`Inputs::no_agent`], ids unique.
    pub agents: Vec<AgentConfig>,
    /// `[mesh]`.
    pub mesh: MeshConfig,
    /// `[vars]`: the first source of `${NAME}`.
    pub vars: BTreeMap<String, String>,
    /// `[secrets] redact`: further environment names whose values are secret.
    pub redact: Vec<String>,
    /// `[environment] allow`: names and patterns; none for the default rule (G1-6).
    pub allow: Option<Vec<String>>,
    /// `[journal]`.
    pub journal: JournalConfig,
    /// `[limits]`.
    pub limits: LimitsConfig,
    /// `[ops] listen`; none when it is off.
    pub ops_listen: Option<SocketAddr>,
}

/// `[node]`.
#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// Where data lies, if the file says so; see [`data_dir`](crate::data_dir) for the default.
    pub data_dir: Option<PathBuf>,
    /// How long a graceful stop waits for running jobs (G1-42).
    pub grace: Duration,
}

/// One `[[agent]]`.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Its id.
    pub id: AgentId,
    /// For people.
    pub display_name: String,
    /// Folder of `*.json` and the `.wasm` they name.
    pub catalog: PathBuf,
    /// What runs entries that name no executor; none when the file has no such table (G1-56).
    pub default_executor: Option<DefaultExecutorConfig>,
}

/// `[agent.default_executor]`.
#[derive(Debug, Clone)]
pub struct DefaultExecutorConfig {
    /// The built-in `prompt`, or a `.wasm` of the catalog folder.
    pub guest: String,
    /// Limits of entries it runs that set none of their own; `[limits]` where the table says nothing.
    pub limits: LimitSet,
    /// Environment variables it gives its guest; values may hold `${NAME}`.
    pub grants_env: Vec<(String, Text)>,
}

/// `[mesh]`.
#[derive(Debug, Clone)]
pub struct MeshConfig {
    /// Which broker.
    pub broker: Broker,
    /// The topic prefix.
    pub root: String,
    /// Hops a request may be from its beginning.
    pub max_depth: u32,
    /// Login name, may hold `${NAME}`; none to connect without.
    pub username: Option<Text>,
    /// Password, may hold `${NAME}`, resolved when it is used.
    pub password: Option<Text>,
    /// How long the same bytes without the DUP flag are a resend and no new job (G1-17).
    pub resend_window: Duration,
    /// Largest invoke, in KiB; above it the job is rejected (G1-46).
    pub max_payload_kb: u32,
    /// Largest packet the client takes at all, in MiB (G1-46).
    pub max_packet_mb: u32,
}

/// Which broker to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broker {
    /// In this process, listening on this address.
    Embedded {
        /// A loopback address.
        listen: SocketAddr,
    },
    /// Another process, `mqtt://host:port`.
    External {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
    },
}

impl fmt::Display for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded { listen } => write!(f, "embedded, mqtt://{listen}"),
            Self::External { host, port } if host.contains(':') => write!(f, "mqtt://[{host}]:{port}"),
            Self::External { host, port } => write!(f, "mqtt://{host}:{port}"),
        }
    }
}

/// `[journal]`.
#[derive(Debug, Clone)]
pub struct JournalConfig {
    /// What acknowledged work survives.
    pub sync: SyncMode,
    /// How long finished jobs are remembered (G1-17).
    pub remember: Duration,
    /// How much of them, in MiB, oldest finished first.
    pub remember_max_mb: u64,
}

/// What acknowledged work survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// Power loss.
    Full,
    /// A crash of the process.
    Os,
}

/// `[limits]`.
#[derive(Debug, Clone)]
pub struct LimitsConfig {
    /// Limits of an entry that sets none.
    pub defaults: LimitSet,
    /// `[limits.max]`: ceilings no entry passes.
    pub max: LimitSet,
    /// Jobs using CPU at once (G1-50).
    pub max_running: u32,
    /// Instances alive at once, waiting ones included (G1-50).
    pub max_live: u32,
    /// Jobs waiting for a place; past it an invoke is rejected (G1-43).
    pub max_queued: u32,
}

impl Config {
    /// Reads, overrides and checks a configuration.
    pub fn resolve(inputs: &Inputs) -> Result<Self, ConfigError> {
        resolve::resolve(inputs)
    }

    /// The configuration of a node that is given a catalog folder and no file: one agent named after the folder, its default
    /// executor `prompt`, on the embedded broker.
    pub fn for_catalog(catalog: PathBuf, environment: Vec<(String, String)>) -> Result<Self, ConfigError> {
        Self::resolve(&Inputs { file: None, catalog: Some(catalog), no_agent: false, environment })
    }
}
