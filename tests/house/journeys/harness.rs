//! The harness itself: broker, witness, proxy and audit do what the journeys rely on. No node runs here.
//!
//! Owns the proof that a silent harness is not a passing test.

use house::audit::{self, Rules};
use house::broker::{Broker, Options, Style};
use house::client::{Client, Login, Outgoing};
use house::lab::late;
use house::proxy::Proxy;

/// The witness sees topic, bytes, QoS and retain flag as they were published.
#[test]
fn the_witness_sees_what_was_published() {
    let broker = Broker::start(Style::Stock);
    let witness = Client::connect(broker.port());
    witness.subscribe("#");
    let other = Client::login(broker.port(), &Login { version: 4, ..Login::default() });
    other.publish(Outgoing::new("t/one", b"\xff\x00\xfe").retained());
    other.publish(Outgoing::new("t/two", "two").qos(0));
    other.publish(Outgoing::new("t/three", "three").qos(2));
    let seen = witness.collect(0, 3, "messages", |_| true);
    assert_eq!((seen[0].payload.as_slice(), seen[0].qos, seen[0].retain), (b"\xff\x00\xfe".as_slice(), 1, true));
    assert_eq!((seen[1].qos, seen[2].qos, seen[2].retain), (0, 2, false));
    let kept = late(broker.port(), "t/#");
    assert_eq!((kept.len(), kept[0].topic.as_str()), (1, "t/one"));
}

/// A proxy cuts after so many hits, refuses while it is blocked, swallows one direction, and lets pass again.
#[test]
fn the_proxy_cuts_and_swallows() {
    let broker = Broker::start(Style::Bench);
    let witness = Client::connect(broker.port());
    witness.subscribe("#");
    let proxy = Proxy::start(broker.port());
    let client = Client::login(proxy.port(), &Login { clean: false, ..Login::default() });
    client.publish(Outgoing::new("p/first", "needle one"));
    proxy.block_after("needle", 1);
    client.send_all(vec![Outgoing::new("p/second", "needle two")]);
    proxy.wait_cuts(1);
    proxy.release();
    client.wait_ups(2);
    witness.next(0, "the message sent again after the cut", |m| m.topic == "p/second");
    proxy.swallow();
    client.send_all(vec![Outgoing::new("p/third", "unheard")]);
    proxy.wait_swallowed("unheard");
    assert!(witness.all().iter().all(|m| m.topic != "p/third"));
}

/// A broker with persistence keeps what is retained over a restart by SIGTERM; without, it forgets.
#[test]
fn brokers_restart_as_configured() {
    for persistence in [true, false] {
        let mut broker = Broker::with(Style::Stock, &Options { persistence, ..Options::default() });
        let client = Client::connect(broker.port());
        client.publish(Outgoing::new("r/kept", "x").retained());
        broker.stop();
        broker.up();
        client.wait_ups(2);
        assert_eq!(late(broker.port(), "r/#").len(), usize::from(persistence));
    }
}

/// The audit refuses what it is there to refuse, and accepts a proper pair of event and result.
#[test]
fn the_audit_refuses_what_it_must() {
    let rules = Rules { roots: vec!["agents".into()], reuses_ids: false };
    let usage = r#""usage":{"fuel":0,"wallMs":0,"peakMemoryBytes":0,"guest":null,"attempt":0}"#;
    let head = r#""jobId":"j","owner":"a","ts":"2026-01-01T00:00:00.001Z""#;
    let result = |more: &str| format!("{{{head},{usage},{more}}}");
    let good = [
        ("agents/jobs/a/j/events", format!("{{{head},\"type\":\"started\"}}"), false),
        ("agents/jobs/a/j/result", result(r#""type":"result","x":1"#), true),
    ];
    let bad = [
        ("agents/jobs/j/result", result(r#""type":"result""#), true),
        ("elsewhere/x", "{}".into(), false),
        ("agents/jobs/a/j/result", result(r#""type":"result","x":2"#), true),
        ("agents/jobs/a/k/result", result(r#""type":"result""#), true),
        ("agents/jobs/a/j/events", format!("{{{head},\"type\":\"started\"}}"), true),
        ("agents/jobs/b/j/result", result(r#""type":"result""#), true),
        ("agents/registry/dba/profile", "{}".into(), false),
    ];
    for case in bad.iter().map(Some).chain([None]) {
        let broker = Broker::start(Style::Bench);
        let client = Client::connect(broker.port());
        client.subscribe("#");
        let messages = good.iter().chain(case).map(|(topic, payload, retain)| {
            let message = Outgoing::new(*topic, payload);
            if *retain { message.retained() } else { message }
        });
        let count = good.len() + usize::from(case.is_some());
        client.publish_all(messages.collect());
        let seen = client.collect(0, count, "all messages", |_| true);
        let verdict = std::panic::catch_unwind(|| audit::check(&seen, &rules));
        assert_eq!(verdict.is_err(), case.is_some(), "{case:?}");
    }
}
