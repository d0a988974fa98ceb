//! `bench mesh`: from an invoke to its retained result on a real Mosquitto, the node beside a native responder.
//!
//! Owns the order of runs: every round measures baseline and node one after the other on brokers of their own, and the median
//! of the rounds' ratios is judged, so that what else the machine does weighs on both. It must not know the node's inside.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use house::broker::{Broker, Options, Style};
use house::catalog::Catalog;
use house::client::Client;
use house::config::Config;
use house::node::{Node, root};
use house::process::Process;
use serde_json::json;
use tempfile::TempDir;

use crate::Plan;
use crate::fsync;
use crate::load::{Load, Target, all_good};
use crate::report::{Bar, Report};
use crate::stats::{median, percentile};

const OUTSTANDING: usize = 200;
const WARM_JOBS: usize = 300;
const AGENT: &str = "bench";
const OWNER: &str = "load";
/// What the node may cost beside fsyncs, one at a time (DESIGN section 6).
const LATENCY_RATIO: f64 = 2.0;
/// How many fsyncs a job may wait for with sync = "full".
const FSYNCS: f64 = 1.3;
const THROUGHPUT_OS: f64 = 0.5;
const THROUGHPUT_FULL: f64 = 0.4;

/// What one stretch showed of one side.
#[derive(Debug, Clone, Default)]
struct Side {
    p50_ms: Vec<f64>,
    p99_ms: Vec<f64>,
    jobs_s: Vec<f64>,
}

/// A broker with somebody who answers.
pub(crate) struct World {
    // The answering process goes first, the broker last.
    _answering: Answering,
    _catalog: Option<Catalog>,
    _dir: TempDir,
    pub(crate) broker: Broker,
}

enum Answering {
    Native { _process: Process },
    Ours { _node: Node },
}

/// Runs all rounds and reports.
pub(crate) fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    let binary = node_binary(plan)?;
    let stretch = Duration::from_secs(plan.seconds);
    let [mut echo, mut native, mut os, mut full] = [const { Side::new() }; 4];
    let mut syncs = Vec::new();
    for round in 1..=plan.rounds {
        eprintln!("mesh, round {round} of {}", plan.rounds);
        measure_side(&mut echo, &World::native("echo")?, stretch)?;
        measure_side(&mut native, &World::native("three")?, stretch)?;
        measure_side(&mut os, &World::ours(&binary, "os")?, stretch)?;
        let world = World::ours(&binary, "full")?;
        syncs.push(fsync::cost_ms(world._dir.path())?);
        measure_side(&mut full, &world, stretch)?;
    }
    let (echo_50, native_50, sync) = (median(&echo.p50_ms), median(&native.p50_ms), median(&syncs));
    report.plain("bare echo, one at a time, p50", echo_50, "ms", Bar::Shown);
    report.plain("bare echo, 200 outstanding", median(&echo.jobs_s), "jobs/s", Bar::Shown);
    report.plain("one fsync on the journal's disk", sync, "ms", Bar::Shown);
    let ratio = ratios(&os.p50_ms, &native.p50_ms);
    report.ratio("one at a time, sync os, p50", median(&os.p50_ms), native_50, "ms", ratio, Bar::AtMost(LATENCY_RATIO));
    let ratio = ratios(&os.p99_ms, &native.p99_ms);
    report.ratio("one at a time, sync os, p99", median(&os.p99_ms), median(&native.p99_ms), "ms", ratio, Bar::Shown);
    // The bar of "full" is the bar of "os" and at most 1.3 fsyncs on top; judged is the number of fsyncs that remain.
    let waits: Vec<f64> =
        full.p50_ms.iter().zip(&native.p50_ms).zip(&syncs).map(|((f, n), s)| (f - LATENCY_RATIO * n) / s).collect();
    report.beside("one at a time, sync full, p50", median(&full.p50_ms), native_50, "ms", Bar::Shown);
    report.judge_last(median(&waits), "fsyncs over 2x", Bar::AtMost(FSYNCS));
    let ratio = ratios(&full.p99_ms, &native.p99_ms);
    report.ratio("one at a time, sync full, p99", median(&full.p99_ms), median(&native.p99_ms), "ms", ratio, Bar::Shown);
    let ratio = ratios(&os.jobs_s, &native.jobs_s);
    report.ratio(
        "200 outstanding, sync os",
        median(&os.jobs_s),
        median(&native.jobs_s),
        "jobs/s",
        ratio,
        Bar::AtLeast(THROUGHPUT_OS),
    );
    let ratio = ratios(&full.jobs_s, &native.jobs_s);
    report.ratio(
        "200 outstanding, sync full",
        median(&full.jobs_s),
        median(&native.jobs_s),
        "jobs/s",
        ratio,
        Bar::AtLeast(THROUGHPUT_FULL),
    );
    Ok(())
}

/// The baselines alone, for a look at the machine.
pub(crate) fn floor(plan: &Plan, report: &mut Report) -> Result<()> {
    let stretch = Duration::from_secs(plan.seconds);
    for (mode, name) in [("echo", "bare echo"), ("three", "native responder")] {
        let mut side = Side::new();
        measure_side(&mut side, &World::native(mode)?, stretch)?;
        report.plain(&format!("{name}, one at a time, p50"), median(&side.p50_ms), "ms", Bar::Shown);
        report.plain(&format!("{name}, one at a time, p99"), median(&side.p99_ms), "ms", Bar::Shown);
        report.plain(&format!("{name}, 200 outstanding"), median(&side.jobs_s), "jobs/s", Bar::Shown);
    }
    report.plain("one fsync", fsync::cost_ms(TempDir::new_in(root().join("target"))?.path())?, "ms", Bar::Shown);
    Ok(())
}

impl Side {
    const fn new() -> Self {
        Self { p50_ms: Vec::new(), p99_ms: Vec::new(), jobs_s: Vec::new() }
    }
}

/// The median of the ratios round by round.
fn ratios(ours: &[f64], baseline: &[f64]) -> f64 {
    median(&ours.iter().zip(baseline).map(|(ours, baseline)| ours / baseline).collect::<Vec<_>>())
}

fn measure_side(side: &mut Side, world: &World, stretch: Duration) -> Result<()> {
    let target =
        Target { agent: AGENT.into(), service: "bench.answer".into(), args: json!({"text": "x".repeat(100)}).to_string() };
    let mut load = Load::connect(world.broker.port(), OWNER)?;
    load.warm(&target, WARM_JOBS)?;
    let times = load.one_by_one(&target, stretch)?;
    side.p50_ms.push(percentile(&times, 50.0));
    side.p99_ms.push(percentile(&times, 99.0));
    all_good(&load.run(&target, OUTSTANDING, Duration::from_secs(1), 2_000)?)?;
    side.jobs_s.push(load.throughput(&target, OUTSTANDING, stretch)?);
    Ok(())
}

fn broker() -> Broker {
    Broker::with(Style::Bench, &Options { quiet: true, ..Options::default() })
}

/// Waits until the agent's status says online, as anyone on the mesh can see.
fn wait_online(port: u16) {
    let witness = Client::connect(port);
    witness.subscribe(&format!("agents/registry/{AGENT}/status"));
    witness.next(0, "the answering side to be online", |message| message.json["status"] == "online");
}

impl World {
    /// A broker with the native responder.
    fn native(mode: &str) -> Result<Self> {
        let broker = broker();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["responder", &broker.port().to_string(), AGENT, mode]).stdin(Stdio::null());
        let process = Process::new(command.spawn()?);
        wait_online(broker.port());
        Ok(Self { _answering: Answering::Native { _process: process }, _catalog: None, _dir: TempDir::new()?, broker })
    }

    /// A broker with the node, its prompt guest answering.
    fn ours(binary: &Path, sync: &str) -> Result<Self> {
        let catalog = Catalog::empty();
        catalog.file(
            "bench.json",
            &json!({"service": "bench.answer", "description": "Answers with its prompt.",
            "requestSchema": {"text": "string"}, "prompt": "{{text}}"}),
        );
        Self::node(binary, sync, catalog, |config| {
            config.default_prompt();
        })
    }

    /// A broker with the node on any catalog.
    pub(crate) fn node(binary: &Path, sync: &str, catalog: Catalog, change: impl FnOnce(&mut Config)) -> Result<Self> {
        let broker = broker();
        // Beside the build, since /tmp may lie in memory, where an fsync costs nothing.
        let dir = TempDir::new_in(root().join("target"))?;
        let mut config = Config::new(dir.path(), &broker.url(), AGENT, catalog.path());
        config.set("journal.sync", sync);
        change(&mut config);
        let mut command = Command::new(binary);
        command.arg("run").arg("--config").arg(config.write()).env_clear().env("RUST_LOG", "warn").stdin(Stdio::null());
        let node = Node::spawn(command, dir.path(), config.ops());
        wait_online(broker.port());
        Ok(Self { _answering: Answering::Ours { _node: node }, _catalog: Some(catalog), _dir: dir, broker })
    }
}

/// The release binary: the one named, or built now.
pub(crate) fn node_binary(plan: &Plan) -> Result<PathBuf> {
    if let Some(path) = &plan.node {
        return std::fs::canonicalize(path).with_context(|| format!("no node at {}", path.display()));
    }
    let built = Command::new("cargo").current_dir(root()).args(["build", "--release", "--package", "node"]).status()?;
    ensure!(built.success(), "the node does not build");
    Ok(std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from).join("release/amp-node"))
}
