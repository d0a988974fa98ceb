//! Any checked JSON as a guest's answer: the payload is JSON, and our members stand.
#![no_main]

use job::clock::Timestamp;
use job::ids::{AgentId, Door, JobId, JobKey, Owner};
use job::json::JsonText;
use job::outcome::{Ending, Outcome, Usage};
use libfuzzer_sys::fuzz_target;
use wire::mqtt::client::decode_seen;
use wire::mqtt::outgoing::outcome_payload;

fuzz_target!(|bytes: &[u8]| {
    let Ok(body) = JsonText::check(bytes) else { return };
    // One level more is added around a body that is no object, so one at the very limit cannot be read again.
    if bytes.iter().filter(|byte| matches!(byte, b'[' | b'{')).count() >= job::json::NESTING_MAX {
        return;
    }
    let (Ok(agent), Ok(job)) = (AgentId::parse("dba"), JobId::parse("rev-118")) else { return };
    let key = JobKey { agent, door: Door::Mesh, owner: Owner::public(), job };
    let outcome = Outcome {
        ending: Ending::Done { kind: "review".into(), body },
        usage: Usage::default(),
        ts: Timestamp(1_787_688_849_007),
    };
    let payload = outcome_payload(&key, &outcome);
    let seen = decode_seen(&payload).expect("a result is readable");
    assert_eq!((seen.job.as_deref(), seen.owner.as_deref(), seen.kind.as_str()), (Some("rev-118"), Some("public"), "review"));
    assert_eq!(seen.ts, Some(outcome.ts));
});
