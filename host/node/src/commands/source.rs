//! Where a command's configuration comes from, and the client that requester commands talk through.
//!
//! Owns the rule: the file that is named, else `amp-node.toml` in this folder, else defaults; the environment on top.

use std::path::{Path, PathBuf};
use std::time::Duration;

use doors::mqtt::requester::{Requester, RequesterError, RequesterSettings};
use job::ids::Owner;
use supply::{Config, Deployment, Inputs};

use crate::cli::Source;
use crate::exit::{Exit, Failure};
use crate::start;

/// The file looked for in the current folder.
const FILE: &str = "amp-node.toml";
/// How long a requester tries to reach the broker.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// The configuration of a command. `catalog` is a folder that makes an agent where there is no file.
pub(crate) fn config_of(source: &Source, catalog: Option<PathBuf>) -> Result<Config, Failure> {
    Config::resolve(&inputs_of(source, catalog)?).map_err(|error| Failure::usage(error.to_string()))
}

/// The configuration of a command that only talks to a broker, and needs no agent of its own.
pub(crate) fn client_config(source: &Source) -> Result<Config, Failure> {
    let inputs = Inputs { no_agent: true, ..inputs_of(source, None)? };
    Config::resolve(&inputs).map_err(|error| Failure::usage(error.to_string()))
}

/// What a command's configuration is made from.
pub(crate) fn inputs_of(source: &Source, catalog: Option<PathBuf>) -> Result<Inputs, Failure> {
    let found = match &source.config {
        Some(path) => Some(path.clone()),
        None if catalog.is_none() && Path::new(FILE).is_file() => Some(FILE.into()),
        None => None,
    };
    let file = match found {
        None => None,
        Some(path) => {
            let text = supply::larder::read_settings(&path).map_err(|error| {
                Failure::usage(format!("the configuration file {} cannot be read: {error}", path.display()))
                    .mend("name the right file with --config, or leave it out to run with defaults")
            })?;
            Some((path, text))
        }
    };
    Ok(Inputs { file, catalog, no_agent: false, environment: environment() })
}

/// The environment of this process. Names and values that are not UTF-8 are nobody's configuration.
pub(crate) fn environment() -> Vec<(String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect()
}

/// Connects to the configuration's broker as a requester.
pub(crate) async fn requester(config: &Config) -> Result<Requester, Failure> {
    let settings = RequesterSettings {
        broker: start::broker_address(config),
        login: start::login(config, &Deployment::new(config, supply::process_environ())).await?,
        root: start::root(config)?,
        packet_bytes_max: start::packet_bytes(config),
    };
    Requester::connect(settings, CONNECT_WAIT).await.map_err(failure_of)
}

/// The one table from what a requester met to how the command ends.
pub(crate) fn failure_of(error: RequesterError) -> Failure {
    let what = error.to_string();
    match error {
        RequesterError::Unreachable { .. } => Failure::new(Exit::Unreachable, what)
            .mend("start a node with `amp-node run` or name the broker: AMP_MESH__BROKER=mqtt://host:1883"),
        RequesterError::LoginRefused { .. } => {
            Failure::new(Exit::Unreachable, what).mend("set mesh.username and mesh.password for this broker")
        }
        RequesterError::NotAllowed { .. } => {
            Failure::new(Exit::Unreachable, what).mend("ask the broker's operator for this right, or use another owner with --as")
        }
        RequesterError::NobodyListens { .. } => {
            Failure::failed(what).mend("start the agent with `amp-node run`, or name another with --agent")
        }
        RequesterError::NoAnswer { .. } => Failure::new(Exit::NoAnswer, what)
            .mend("the job goes on; invoke it again with the same --job-id to wait for its result, or raise --timeout"),
        RequesterError::BadOwner(_) => Failure::usage(what).mend("choose a shorter name with --as"),
    }
}

/// The owner to ask as: what was named, else the user's name, else public.
pub(crate) fn owner_of(named: Option<String>) -> Result<(String, Owner), Failure> {
    let raw = named.or_else(|| std::env::var("USER").ok()).unwrap_or_default();
    let owner = Owner::from_requested_by(&raw).map_err(|error| Failure::usage(format!("--as: {error}")))?;
    Ok((raw, owner))
}

/// A runtime for a command that only waits for answers.
pub(crate) fn small_runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("the runtime cannot be started: {error}")))
}
