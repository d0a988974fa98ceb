//! The measuring program: `bench sandbox` and `bench mesh`, each figure a ratio to a baseline of the same run.
//!
//! Owns the command line and the order of runs. It must not decide what a bar is; DESIGN section 6 does, and [`report`] holds
//! the figures to it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a measuring program prints what it measured")]

mod bare;
mod fsync;
mod load;
mod mesh;
mod reload;
mod report;
mod responder;
mod runaway;
mod sandboxed;
mod stats;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

use report::Report;

const HELP: &str = "\
bench [sandbox|mesh|runaway|reload|floor|all] [options]

Measures the node against baselines of the same run and prints a table, then JSON on request.

  sandbox        a trivial job in a fresh sandbox against bare wasmtime, and how fast a runaway guest is stopped
  mesh           invoke to retained result on a real Mosquitto against a native responder
  floor          the mesh baselines alone, without a node
  reload         one of ten thousand entries changed on a real node, beside ordinary jobs
  runaway        64 looping guests on a real node beside ordinary jobs

  --node PATH    the node's release binary (default: built by cargo)
  --seconds N    length of one measured stretch (default 5)
  --rounds N     alternating rounds of baseline and node; the median ratio counts (default 3)
  --json FILE    writes the figures as JSON; - is standard output
  --strict       exit code 1 when a bar is missed

Example: cargo run --release -p bench -- mesh --rounds 5 --json mesh.json";

/// What to measure and how long.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    what: String,
    node: Option<PathBuf>,
    seconds: u64,
    rounds: usize,
    json: Option<String>,
    strict: bool,
}

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == "responder") {
        return ended(responder::main(&args.split_off(1)).map(|()| true));
    }
    match plan(&args) {
        Ok(Some(plan)) => ended(measure(&plan)),
        Ok(None) => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench: {error}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

fn ended(outcome: Result<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn plan(args: &[String]) -> Result<Option<Plan>> {
    let mut plan = Plan { what: "all".into(), node: None, seconds: 5, rounds: 3, json: None, strict: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| anyhow::anyhow!("{arg} needs a value"));
        match arg.as_str() {
            "-h" | "--help" => return Ok(None),
            "sandbox" | "mesh" | "runaway" | "reload" | "floor" | "all" => plan.what = arg.clone(),
            "--node" => plan.node = Some(value()?.into()),
            "--seconds" => plan.seconds = value()?.parse::<u64>()?.clamp(1, 60),
            "--rounds" => plan.rounds = value()?.parse::<usize>()?.clamp(1, 20),
            "--json" => plan.json = Some(value()?.clone()),
            "--strict" => plan.strict = true,
            other => bail!("no argument {other:?}"),
        }
    }
    Ok(Some(plan))
}

/// Runs the plan; whether every bar was met, or nobody asked.
fn measure(plan: &Plan) -> Result<bool> {
    let mut report = Report::new();
    if matches!(plan.what.as_str(), "sandbox" | "all") {
        sandboxed::measure(plan, &mut report)?;
    }
    if matches!(plan.what.as_str(), "mesh" | "all") {
        mesh::measure(plan, &mut report)?;
    }
    if plan.what == "floor" {
        mesh::floor(plan, &mut report)?;
    }
    if matches!(plan.what.as_str(), "runaway" | "all") {
        runaway::measure(plan, &mut report)?;
    }
    if matches!(plan.what.as_str(), "reload" | "all") {
        reload::measure(plan, &mut report)?;
    }
    eprintln!("{}", report.table());
    match plan.json.as_deref() {
        Some("-") => println!("{}", report.json()),
        Some(file) => std::fs::write(file, report.json().to_string() + "\n")?,
        None => {}
    }
    Ok(report.all_met() || !plan.strict)
}
