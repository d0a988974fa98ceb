//! The command line: what can be said, with an example for each command.
//!
//! Owns names, flags, help. It must not know how a command does its work.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// One binary that loads capabilities as data and runs each job in a fresh sandbox, with exactly one result per job.
#[derive(Debug, Parser)]
#[command(name = "amp-node", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "Example:\n  amp-node demo          see a job from invoke to result\n  amp-node run catalogs/demo\n")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the node: load catalogs, connect to the broker, do jobs until told to stop
    #[command(
        after_help = "Examples:\n  amp-node run catalogs/reviewer\n  amp-node run --config /etc/amp-node/amp-node.toml\n  \
        AMP_MESH__BROKER=mqtt://broker.example:1883 amp-node run catalogs/reviewer"
    )]
    Run(Run),
    /// Show one job from invoke to result on the embedded broker with the demo catalog
    #[command(after_help = "Examples:\n  amp-node demo\n  amp-node demo --keep     stay up, to invoke from another terminal")]
    Demo(Demo),
    /// Ask an agent for a job and wait for its result
    #[command(after_help = "Examples:\n  amp-node invoke SERVICE --arg name=Ada\n  \
        amp-node invoke SERVICE --agent demo --args '{\"name\":\"Ada\"}' --as alice --job-id j1 --follow --json")]
    Invoke(Invoke),
    /// Cancel a job and wait for its final state
    #[command(after_help = "Example:\n  amp-node cancel j1 --as alice")]
    Cancel(Cancel),
    /// Check catalogs and configuration: every fault with file, line and mend
    #[command(after_help = "Examples:\n  amp-node check catalogs/reviewer\n  amp-node check --config amp-node.toml --json")]
    Check(Check),
    /// Print every configuration key with its value, default and unit
    #[command(after_help = "Examples:\n  amp-node config\n  amp-node config --config amp-node.toml --json")]
    Config(Config),
}

/// Where the configuration comes from.
#[derive(Debug, Args, Clone)]
pub(crate) struct Source {
    /// The configuration file [default: amp-node.toml in this folder, if there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// A catalog folder to run as one agent, without a configuration file [default: the demo catalog]
    #[arg(value_name = "CATALOG", conflicts_with = "config")]
    pub(crate) catalog: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) source: Source,
    /// End every journaled and queued job with reason shutdown, clear profile and status, and exit
    #[arg(long)]
    pub(crate) retire: bool,
    /// Write log lines as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Stay up after the job, until Ctrl-C
    #[arg(long)]
    pub(crate) keep: bool,
    /// Print the result as one JSON line on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Invoke {
    /// The capability to ask for
    #[arg(value_name = "SERVICE")]
    pub(crate) service: String,
    /// The agent to ask [default: the agent whose profile offers the service]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// One argument; the value is JSON where it parses as a number, true, false, null, array or object, else text
    #[arg(long = "arg", value_name = "NAME=VALUE", conflicts_with = "args")]
    pub(crate) arg: Vec<String>,
    /// All arguments as one JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
    /// Who asks; results go to this owner's scope [default: the user name]
    #[arg(long = "as", value_name = "OWNER")]
    pub(crate) owner: Option<String>,
    /// The job's id [default: a fresh one]
    #[arg(long, value_name = "ID")]
    pub(crate) job_id: Option<String>,
    /// How long to wait for the result, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
    /// Show milestones on stderr as they happen
    #[arg(long)]
    pub(crate) follow: bool,
    /// Stop when the job id is active already, instead of waiting for that job's result
    #[arg(long)]
    pub(crate) stop_on_duplicate: bool,
    /// Print the result as one JSON line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) source: Source,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// The job's id
    #[arg(value_name = "JOB")]
    pub(crate) job: String,
    /// Who asked for it
    #[arg(long = "as", value_name = "OWNER")]
    pub(crate) owner: String,
    /// The agent that does it [default: every agent of the mesh is asked]
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// How long to wait for the final state, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
    /// Print the final state as one JSON line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) source: Source,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Catalog folders to check [default: those of the configuration]
    #[arg(value_name = "CATALOG")]
    pub(crate) catalogs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) source: Source,
    /// Print findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
