//! `bench runaway`: a real node with looping guests, seen from the mesh: when do they stop, and what do ordinary jobs feel?
//!
//! Owns two runs: one spinner at a time, and 64 of them beside ordinary jobs. It must not know the node's inside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use house::catalog::{Catalog, MISCHIEF, mischief};
use house::client::{Client, Message, Outgoing};
use serde_json::json;

use crate::Plan;
use crate::load::{Load, Target, all_good};
use crate::mesh::{World, node_binary};
use crate::report::{Bar, Report};
use crate::stats::percentile;

const DEADLINE_MS: u64 = 300;
const ALONE: usize = 60;
const SPINNERS: usize = 64;
/// Waves of 64 spinners while ordinary jobs run.
const WAVES: usize = 6;
const FUEL: u64 = 1_000_000_000_000;

/// Runs both and reports.
pub(crate) fn measure(plan: &Plan, report: &mut Report) -> Result<()> {
    let binary = node_binary(plan)?;
    let catalog = Catalog::empty();
    catalog.guest(MISCHIEF).file("bench.json", &json!([
        {"service": "bench.answer", "description": "Answers with its prompt.", "requestSchema": {"text": "string"}, "prompt": "{{text}}"},
        mischief("bench.spin", json!({"limits": {"timeoutMs": DEADLINE_MS, "fuel": FUEL}})),
    ]));
    let world = World::node(&binary, "os", catalog, |config| {
        config.default_prompt();
        config.set("limits.fuel", i64::try_from(FUEL).unwrap_or(i64::MAX));
        config.set("limits.max.fuel", i64::try_from(FUEL).unwrap_or(i64::MAX));
    })?;
    let port = world.broker.port();
    let witness = Client::connect(port);
    witness.subscribe("agents/jobs/spin/+/+");
    let alone = overshoots(&witness, "a", ALONE, 1)?;
    report.plain("runaway guest alone, stopped past its deadline, p99", percentile(&alone, 99.0), "ms", Bar::AtMost(10.0));
    let cancels = cancels(&witness)?;
    report.plain("runaway guest alone, cancel to its result, p99", percentile(&cancels, 99.0), "ms", Bar::AtMost(5.0));

    let target = Target { agent: "bench".into(), service: "bench.answer".into(), args: json!({"text": "x"}).to_string() };
    let quiet = {
        let mut load = Load::connect(port, "quiet")?;
        load.warm(&target, 200)?;
        load.one_by_one(&target, Duration::from_secs(plan.seconds))?
    };
    let over = AtomicBool::new(false);
    let (beside, stops) = std::thread::scope(|scope| {
        let ordinary = scope.spawn(|| -> Result<Vec<f64>> {
            let mut load = Load::connect(port, "ordinary")?;
            let mut times = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let answers = load.run(&target, 1, Duration::from_millis(200), 500)?;
                all_good(&answers)?;
                times.extend(answers.iter().map(|answer| answer.after.as_secs_f64() * 1e3));
            }
            Ok(times)
        });
        let stops = overshoots(&witness, "w", SPINNERS * WAVES, SPINNERS);
        over.store(true, Ordering::Relaxed);
        (ordinary.join(), stops)
    });
    let beside = beside.map_err(|_| anyhow::anyhow!("the ordinary requester panicked"))??;
    let what = "64 runaway guests, stopped past their deadline, p99";
    report.plain(what, percentile(&stops?, 99.0), "ms", Bar::AtMost(25.0));
    let (calm, busy) = (percentile(&quiet, 99.0), percentile(&beside, 99.0));
    report.beside("ordinary jobs beside 64 runaway guests, p99", busy, calm, "ms", Bar::AtMost(50.0));
    Ok(())
}

fn spin(job: &str) -> Outgoing {
    let body = json!({"service": "bench.spin", "args": {"do": "loop"}, "requestedBy": "spin", "jobId": job});
    Outgoing::new("agents/commands/bench/invoke", body.to_string())
}

fn is(message: &Message, job: &str, leaf: &str, kind: &str) -> bool {
    message.topic == format!("agents/jobs/spin/{job}/{leaf}") && message.json["type"] == kind
}

/// Starts spinners, `at_once` of them together, and tells how long past started plus deadline each one's result came, in ms.
fn overshoots(witness: &Client, tag: &str, count: usize, at_once: usize) -> Result<Vec<f64>> {
    let mut past = Vec::new();
    for wave in 0..count.div_ceil(at_once) {
        let jobs: Vec<String> = (0..at_once).map(|at| format!("{tag}{wave}-{at}")).collect();
        let mark = witness.mark();
        witness.publish_all(jobs.iter().map(|job| spin(job)).collect());
        for job in &jobs {
            let started = witness.next(mark, "a spinner to start", |message| is(message, job, "events", "started"));
            let ended =
                witness.next(mark, "a spinner to end", |message| message.topic == format!("agents/jobs/spin/{job}/result"));
            ensure!(ended.json["reason"] == "deadline", "a spinner ended with {}", ended.json);
            let ran = ended.at.saturating_duration_since(started.at).as_secs_f64() * 1e3;
            #[expect(clippy::cast_precision_loss, reason = "a few hundred milliseconds")]
            past.push(ran - DEADLINE_MS as f64);
        }
    }
    Ok(past)
}

/// Cancels spinners one by one; from the cancel's publish to the cancelled result, in ms.
fn cancels(witness: &Client) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for at in 0..ALONE {
        let job = format!("c{at}");
        let mark = witness.mark();
        witness.publish(spin(&job));
        witness.next(mark, "a spinner to start", |message| is(message, &job, "events", "started"));
        let body = json!({"jobId": job, "requestedBy": "spin"}).to_string();
        let sent = std::time::Instant::now();
        witness.send_all(vec![Outgoing::new("agents/commands/bench/cancel", body)]);
        let ended =
            witness.next(mark, "a cancelled spinner", |message| message.topic == format!("agents/jobs/spin/{job}/result"));
        ensure!(ended.json["type"] == "cancelled", "a cancelled spinner ended with {}", ended.json);
        times.push(ended.at.saturating_duration_since(sent).as_secs_f64() * 1e3);
    }
    Ok(times)
}
