//! `amp-node run`: the node, until it is told to stop.
//!
//! Owns signals, the start-up block and the exit of a node. It must not know how rooms are joined; see `start`.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use supply::{Config, Inputs};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli;
use crate::commands::source::inputs_of;
use crate::exit::{Exit, Failure};
use crate::start::Node;
use crate::{Ended, logging, say, shipped};

/// Longest time a retiring node tries to reach its broker.
const RETIRE_WAIT: Duration = Duration::from_secs(30);

/// Runs a node to its end.
pub(crate) fn run(args: cli::Run) -> Ended {
    let _flush = logging::start(args.json, false);
    // The folder of the built-in demo catalog lives as long as the node.
    let mut demo = None;
    let catalog = match args.catalog {
        Some(folder) => Some(folder),
        None if args.source.config.is_none() && !std::path::Path::new("amp-node.toml").is_file() => Some(demo_folder(&mut demo)?),
        None => None,
    };
    let inputs = inputs_of(&args.source, catalog)?;
    let config = Config::resolve(&inputs).map_err(|error| Failure::usage(error.to_string()))?;
    runtime()?.block_on(async move {
        let ended = serve(inputs, config, args.retire, args.json).await;
        drop(demo);
        ended
    })
}

/// Writes the demo catalog into a folder named `demo`, so that its agent is called so.
pub(crate) fn demo_folder(kept: &mut Option<tempfile::TempDir>) -> Result<PathBuf, Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("the demo catalog cannot be written: {error}"));
    let dir = tempfile::TempDir::with_prefix("amp-node-").map_err(failed)?;
    let folder = dir.path().join("demo");
    std::fs::create_dir(&folder).map_err(failed)?;
    shipped::write_demo(&folder).map_err(failed)?;
    *kept = Some(dir);
    Ok(folder)
}

/// The runtime of doors; guests have one of their own.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("door")
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("the runtime cannot be started: {error}")))
}

async fn serve(inputs: Inputs, config: Config, retire: bool, json: bool) -> Ended {
    let broken = |error: std::io::Error| Failure::failed(format!("signals cannot be received: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(broken)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(broken)?;
    let node = tokio::select! {
        node = Node::start(inputs, config, retire) => node?,
        _ = terminate.recv() => return Ok(Exit::Success),
        _ = interrupt.recv() => return Ok(Exit::Success),
    };
    if json {
        tracing::info!(version = env!("CARGO_PKG_VERSION"), broker = %node.config.mesh.broker, "started");
    } else {
        block(&node);
    }
    if retire {
        let reached = node.online(RETIRE_WAIT).await;
        if reached {
            node.quiet().await;
        }
        let closed = node.stop().await;
        let done = reached && closed.values().all(|closed| closed.delivered && closed.cleared);
        return if done {
            Ok(Exit::Success)
        } else {
            Err(Failure::new(
                Exit::Unreachable,
                "the broker could not be reached, so results wait in the journal and the registry is not cleared",
            )
            .mend("run --retire again when the broker is there"))
        };
    }
    let collision = tokio::select! {
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
        collision = node.collided() => Some(collision),
    };
    let hurried = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    tokio::select! {
        _ = node.stop() => {}
        () = hurried => {
            return Err(Failure::failed("stopped at once by a second signal; what was accepted is in the journal and goes on at the next start"));
        }
    }
    match collision {
        None => Ok(Exit::Success),
        Some(collision) => Err(Failure::new(Exit::JobError, collision.to_string())
            .mend("stop the other instance, or give this one an agent id or mesh root of its own")),
    }
}

/// The aligned block a start begins with: what runs where.
pub(crate) fn block(node: &Node) {
    let config = &node.config;
    say::note(&format!("amp-node {}", env!("CARGO_PKG_VERSION")));
    let row = |name: &str, value: String| say::note(&format!("  {name:<10} {value}"));
    row("broker", format!("{} (root {})", config.mesh.broker, config.mesh.root));
    for agent in &config.agents {
        if let Some(snapshot) = node.engine.snapshot(&agent.id) {
            let refused = match snapshot.faults.len() {
                0 => String::new(),
                faults => format!(", {faults} faults: see the log, or `amp-node check`"),
            };
            let count = snapshot.entries.len();
            row("agent", format!("{} with {count} capabilities from {}{refused}", agent.id, agent.catalog.display()));
            for service in snapshot.entries.keys().take(10) {
                row("", service.to_string());
            }
            if count > 10 {
                row("", format!("and {} more", count - 10));
            }
        }
    }
    match config.ops_listen {
        Some(listen) => row("ops", format!("http://{listen}/readyz /healthz /metrics")),
        None => row("ops", "off".into()),
    }
    row(
        "data",
        format!(
            "{} (sync {})",
            node.data_dir.display(),
            if config.journal.sync == supply::config::SyncMode::Full { "full" } else { "os" }
        ),
    );
    row("secrets", "[vars], then the environment".into());
    if node.recovered > 0 {
        row("recovered", format!("{} unfinished jobs", node.recovered));
    }
    if std::io::stderr().is_terminal() {
        row("stop", "Ctrl-C".into());
    }
}
