//! Everything at once: kills, cuts, lost sessions, cancels, duplicates and jobs that may not run twice, in a seeded mix.
//!
//! Owns the proof that the promises hold together, not only one by one.

use std::collections::BTreeMap;

use house::broker::{Broker, Style};
use house::catalog::{Catalog, mischief};
use house::client::{Client, Login};
use house::lab::{AGENT, Lab, OWNER};
use house::proxy::Proxy;
use serde_json::{Value, json};

const ROUNDS: u64 = 12;
const JOBS: u64 = 25;

struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// What may become of a job, by what was done to it.
#[derive(Debug, Clone, Copy)]
struct Fate {
    once: bool,
    cancelled: bool,
}

fn args(dice: &mut Dice) -> Value {
    match dice.roll(4) {
        0 => json!({"do": "sleep", "n": dice.roll(80)}),
        1 => json!({"do": "work", "n": dice.roll(200_000)}),
        2 => json!({"do": "progress", "n": dice.roll(6)}),
        _ => json!({"do": "answer", "text": "{\"verdict\":\"fine\"}"}),
    }
}

/// A burst of invokes; some come twice, some are cancelled at once.
fn burst(lab: &Lab, dice: &mut Dice, round: u64, fates: &mut BTreeMap<String, Fate>) {
    let mut orders = Vec::new();
    for at in 0..JOBS {
        let job = format!("c{round}-{at}");
        let fate = Fate { once: dice.roll(4) == 0, cancelled: dice.roll(4) == 0 };
        let service = if fate.once { "test.once" } else { "test.mischief" };
        let order = lab.order(OWNER, &job, service, args(dice));
        orders.push(order.clone());
        if dice.roll(5) == 0 {
            orders.push(order);
        }
        if fate.cancelled {
            orders.push(lab.command("cancel", &json!({"jobId": job, "requestedBy": OWNER})));
        }
        fates.insert(job, fate);
    }
    lab.client.send_all(orders);
}

/// S1-04, S1-43, S1-42c, S1-65, G1-16, G1-24, G1-27, invariants 1 to 3: whatever happens in whatever order, each job has one
/// terminal result of a kind its fate allows, the retained one is that one, and a cancelled job was acknowledged first.
#[test]
fn the_promises_hold_together() {
    let broker = Broker::start(Style::Bench);
    let proxy = Proxy::start(broker.port());
    let url = proxy.url();
    let catalog = Catalog::usual();
    catalog.file("once.json", &mischief("test.once", json!({"idempotent": false})));
    let mut lab = Lab::prepared(broker, catalog, |config| {
        config.set("mesh.broker", url).set("limits.max_running", 8).set("node.grace", "1s");
    });
    lab.up();
    let mut dice = Dice(0xD1B5_4A32_D192_ED03);
    let mut fates = BTreeMap::new();
    for round in 0..ROUNDS {
        let mark = lab.client.mark();
        burst(&lab, &mut dice, round, &mut fates);
        let messages = usize::try_from(1 + dice.roll(2 * JOBS)).unwrap();
        lab.client.collect(mark, messages, "messages before the blow", |m| m.topic.contains(&format!("/c{round}-")));
        match dice.roll(4) {
            0 => {
                lab.kill();
                lab.up();
            }
            1 => proxy.cut(),
            2 => {
                // In the middle of what it publishes, and perhaps once more in what follows.
                proxy.cut_after("\"type\":", usize::try_from(1 + dice.roll(10)).unwrap());
                lab.settle(&format!("cut-{round}"));
            }
            _ => {
                assert_eq!(lab.stop().code(), Some(0));
                lab.up();
            }
        }
        proxy.release();
    }
    for (job, fate) in &fates {
        let result = lab.result(job);
        let (kind, reason) = (result["type"].as_str().unwrap_or_default(), result["reason"].as_str().unwrap_or_default());
        let allowed = match (kind, reason) {
            ("result", _) => true,
            ("cancelled", "requested") => fate.cancelled,
            ("error", "interrupted" | "shutdown") => fate.once,
            _ => false,
        };
        assert!(allowed, "{job}, {fate:?}, ended with {result}");
        if kind == "cancelled" {
            lab.event(OWNER, job, "cancel_acknowledged");
        }
    }
    lab.settle("end");
    let retained = lab.late("agents/jobs/alice/+/result");
    assert_eq!(retained.len(), fates.len());
    for message in retained {
        let job = message.topic.split('/').nth(3).unwrap().to_owned();
        assert_eq!(message.json, lab.result(&job), "what stays retained for {job} is not its result");
    }
}

/// U07, G1-25, S1-89: the session is lost while jobs run; nothing that was accepted is lost with it, and cancels still reach it.
#[test]
fn a_lost_session_loses_no_accepted_job() {
    let broker = Broker::start(Style::Bench);
    let proxy = Proxy::start(broker.port());
    let url = proxy.url();
    let mut lab = Lab::prepared(broker, Catalog::usual(), |config| {
        config.set("mesh.broker", url);
    });
    lab.up();
    for at in 0..10 {
        lab.invoke(&format!("l{at}"), "test.mischief", json!({"do": "sleep", "n": 1500}));
    }
    lab.client.collect(0, 10, "starts", |m| m.json["type"] == "started");
    let mark = lab.client.mark();
    proxy.block();
    Client::login(lab.broker.port(), &Login { id: format!("amp:agents:{AGENT}"), ..Login::default() }).disconnect();
    proxy.release();
    lab.wait_online(mark);
    lab.cancel(OWNER, "l0");
    for at in 1..10 {
        assert_eq!(lab.result(&format!("l{at}"))["result"], "slept");
    }
    let first = lab.result("l0");
    assert!(first["type"] == "cancelled" || first["result"] == "slept", "{first}");
}
