//! `amp-node demo`: one job from invoke to result, on the embedded broker with the demo catalog, as it happens.
//!
//! Owns the story a newcomer sees and what to try next. It must not know what the demo's capabilities do.

use std::io::IsTerminal;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use job::json::JsonText;
use supply::config::Broker;
use supply::{Config, Inputs};

use crate::cli;
use crate::commands::invoke::{Ask, ask, fresh_id, show};
use crate::commands::run::{block, demo_folder, runtime};
use crate::commands::source;
use crate::exit::{Exit, Failure};
use crate::say::{self, Paint, paint};
use crate::start::Node;
use crate::{Ended, logging, shipped};

/// Longest the demo waits for its own broker.
const ONLINE_WAIT: Duration = Duration::from_secs(20);
/// Longest the demo waits for its job.
const JOB_WAIT: Duration = Duration::from_secs(60);
/// The demo's requester.
const REQUESTER: &str = "you";

/// Shows a job.
pub(crate) fn demo(args: cli::Demo) -> Ended {
    let _flush = logging::start(false, true);
    let mut kept = None;
    let folder = demo_folder(&mut kept)?;
    let data = tempfile::TempDir::with_prefix("amp-node-data-")
        .map_err(|error| Failure::failed(format!("a folder for the demo's data cannot be made: {error}")))?;
    let environment = demo_environment(data.path())?;
    let inputs = Inputs { file: None, catalog: Some(folder), no_agent: false, environment };
    let config = Config::resolve(&inputs).map_err(|error| Failure::usage(error.to_string()))?;
    let keep = args.keep || (std::io::stdout().is_terminal() && !args.json);
    runtime()?.block_on(async move {
        say::note("Starting a node with the demo catalog and a broker of its own; compiling its guests takes a moment.");
        let node = Node::start(inputs, config, false).await?;
        block(&node);
        if !node.online(ONLINE_WAIT).await {
            let what = format!("the node did not reach its broker within {} s", ONLINE_WAIT.as_secs());
            return Err(Failure::new(Exit::Unreachable, what));
        }
        let exit = show_job(&node.config, args.json).await?;
        next_steps(&node.config, keep);
        if keep && let Err(error) = tokio::signal::ctrl_c().await {
            return Err(Failure::failed(format!("signals cannot be received: {error}")));
        }
        node.stop().await;
        Ok(exit)
    })
}

/// The environment with what a demo needs where it says nothing: data that goes with the demo, and ports that are free.
fn demo_environment(data: &std::path::Path) -> Result<Vec<(String, String)>, Failure> {
    let mut environment = source::environment();
    let mut default = |name: &str, value: String| {
        if !environment.iter().any(|(known, _)| known == name) {
            environment.push((name.to_owned(), value));
        }
    };
    default("AMP_NODE__DATA_DIR", data.display().to_string());
    default("AMP_MESH__EMBEDDED_LISTEN", free(1883)?.to_string());
    default("AMP_OPS__LISTEN", free(8701)?.to_string());
    Ok(environment)
}

/// The usual port on loopback, or a free one where that is taken.
fn free(usual: u16) -> Result<SocketAddr, Failure> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, usual)).or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    bound
        .and_then(|listener| listener.local_addr())
        .map_err(|error| Failure::failed(format!("no port on 127.0.0.1 can be had: {error}")))
}

async fn show_job(config: &Config, json: bool) -> Result<Exit, Failure> {
    let broken = |what: &str| Failure::failed(format!("the demo's own invoke is broken: {what}"));
    let invoke: serde_json::Value = serde_json::from_str(shipped::FIRST_INVOKE).map_err(|error| broken(&error.to_string()))?;
    let service = invoke["service"].as_str().ok_or_else(|| broken("no service"))?.to_owned();
    let args = JsonText::trusted(invoke["args"].to_string());
    say::note(&format!(
        "\n{} amp-node invoke {service} --args '{}' --as {REQUESTER} --follow",
        paint(Paint::Dim, "$"),
        args.as_str()
    ));
    let ask_for = Ask {
        agent: None,
        service,
        args,
        requested_by: REQUESTER.into(),
        job: fresh_id()?,
        timeout: JOB_WAIT,
        follow: true,
        stop_on_duplicate: false,
    };
    let seen = ask(config, ask_for).await?;
    show(&seen, json);
    Ok(Exit::of_type(&seen.kind))
}

fn next_steps(config: &Config, keep: bool) {
    let broker = match &config.mesh.broker {
        Broker::Embedded { listen } if listen.port() != 1883 => format!("AMP_MESH__BROKER=mqtt://{listen} "),
        Broker::Embedded { .. } => String::new(),
        external @ Broker::External { .. } => format!("AMP_MESH__BROKER={external} "),
    };
    let invoke: serde_json::Value = serde_json::from_str(shipped::FIRST_INVOKE).unwrap_or_default();
    let service = invoke["service"].as_str().unwrap_or_default();
    say::note("\nOne job, one retained result: whoever subscribes to its topic now gets it at once.");
    say::note("Try next:");
    if keep {
        say::note(&format!("  in another terminal:  {broker}amp-node invoke {service} --args '{}' --follow", invoke["args"]));
        say::note("  Ctrl-C ends the demo.");
    } else {
        say::note("  amp-node demo --keep                     the same, and the node stays up");
    }
    say::note("  amp-node run my-catalog                  a folder of JSON entries of your own");
    say::note("  AMP_MESH__BROKER=mqtt://host:1883 amp-node run my-catalog     on a broker of yours");
    say::note("  amp-node check my-catalog                what is wrong with it, with file, line and mend");
}
