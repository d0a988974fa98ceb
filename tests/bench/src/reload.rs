//! `bench reload`: ten thousand entries, one changed: when is it live, and what do ordinary jobs feel meanwhile?
//!
//! Owns the two layouts of a large catalog and what the same reading and publishing costs without the node. It must not know the
//! node's inside.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use house::catalog::Catalog;
use house::client::Client;
use serde_json::{Value, json};

use crate::Plan;
use crate::load::{Load, Target, all_good};
use crate::mesh::{World, node_binary};
use crate::report::{Bar, Report};
use crate::stats::percentile;

const ENTRIES: usize = 10_000;
/// Changes measured for each layout.
const CHANGES: usize = 12;
const PROFILE: &str = "agents/registry/bench/profile";

/// Measures both layouts and reports.
pub(crate) fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    for (name, files) in [("in one file", 1), ("in 10,000 files", ENTRIES)] {
        layout(plan, report, name, files)?;
    }
    Ok(())
}

fn layout(plan: &Plan, report: &mut Report, name: &str, files: usize) -> Result<()> {
    let binary = node_binary(plan)?;
    let catalog = Catalog::empty();
    catalog.file("answer.json", &json!({"service": "bench.answer", "requestSchema": {"text": "string"}, "prompt": "{{text}}"}));
    let folder = catalog.path().to_owned();
    for file in 0..files {
        write(&folder, file, files, "first")?;
    }
    let began = Instant::now();
    let world = World::node(&binary, "os", catalog, |config| {
        config.default_prompt();
    })?;
    report.plain(&format!("10,000 entries {name}, start to online"), began.elapsed().as_secs_f64() * 1e3, "ms", Bar::Shown);
    let port = world.broker.port();
    let witness = Client::connect(port);
    witness.subscribe(PROFILE);
    let target = Target { agent: "bench".into(), service: "bench.answer".into(), args: json!({"text": "x"}).to_string() };
    let mut load = Load::connect(port, "calm")?;
    load.warm(&target, 200)?;
    let calm = load.one_by_one(&target, Duration::from_secs(plan.seconds))?;

    let over = AtomicBool::new(false);
    let (busy, live) = std::thread::scope(|scope| {
        let ordinary = scope.spawn(|| -> Result<Vec<f64>> {
            let mut load = Load::connect(port, "busy")?;
            let mut times = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let answers = load.run(&target, 1, Duration::from_millis(200), 2_000)?;
                all_good(&answers)?;
                times.extend(answers.iter().map(|answer| answer.after.as_secs_f64() * 1e3));
            }
            Ok(times)
        });
        let live = changes(&witness, &folder, files);
        over.store(true, Ordering::Relaxed);
        (ordinary.join(), live)
    });
    let busy = busy.map_err(|_| anyhow::anyhow!("the ordinary requester panicked"))??;
    let live = live?;
    let bare = bare_ms(&folder)?;
    let what = format!("one of 10,000 entries {name} changed, live after, p50");
    report.beside(&what, percentile(&live, 50.0), bare, "ms", Bar::AtMost(1000.0));
    report.plain(&format!("the same, longest of {CHANGES}"), percentile(&live, 100.0), "ms", Bar::AtMost(1000.0));
    let (longest, usual) = (percentile(&busy, 100.0), percentile(&calm, 100.0));
    report.beside("longest ordinary job meanwhile, beside the longest without", longest, usual, "ms", Bar::Shown);
    report.plain("ordinary jobs meanwhile, p99.9", percentile(&busy, 99.9), "ms", Bar::Shown);
    let delay = longest - percentile(&calm, 50.0);
    report.plain("delay of the most delayed job", delay, "ms", Bar::AtMost(50.0));
    Ok(())
}

/// Writes one file of the layout; the entry that changes is the last one of it.
fn write(folder: &Path, file: usize, files: usize, text: &str) -> Result<()> {
    let each = ENTRIES / files;
    let entry = |at: usize| {
        let description = if at + 1 == each { text } else { "One of very many." };
        json!({"service": format!("bench.n{}", file * each + at), "description": description,
               "requestSchema": {"migration": "string", "depth?": "integer"},
               "prompt": "Review migration {{migration}} at depth {{depth}}. Flag lock risk and missing indexes."})
    };
    let entries: Vec<Value> = (0..each).map(entry).collect();
    // Renamed over, as careful tools save: the change is there at one instant.
    let (temporary, name) = (folder.join(".next"), folder.join(format!("n{file:05}.json")));
    std::fs::write(&temporary, json!(entries).to_string())?;
    std::fs::rename(temporary, name).context("the file cannot be renamed")
}

/// Changes one entry after the other; from the rename to the retained profile that shows it, in milliseconds.
fn changes(witness: &Client, folder: &Path, files: usize) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for at in 0..CHANGES {
        let text = format!("changed-{at}");
        let mark = witness.mark();
        write(folder, at % files, files, &text)?;
        let began = Instant::now();
        let told = witness.next(mark, "the changed profile", |message| {
            message.topic == PROFILE && message.payload.windows(text.len()).any(|window| window == text.as_bytes())
        });
        times.push(told.at.saturating_duration_since(began).as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// What reading and parsing the folder costs without us, in milliseconds.
fn bare_ms(folder: &Path) -> Result<f64> {
    let began = Instant::now();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "json") {
            serde_json::from_slice::<Value>(&std::fs::read(path)?)?;
        }
    }
    Ok(began.elapsed().as_secs_f64() * 1e3)
}
