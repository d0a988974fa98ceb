//! The dictionary against its test data and against itself.

use std::fmt::Write as _;
use std::path::Path;

use job::clock::Timestamp;
use job::courier::EventKind;
use job::ids::{AgentId, Door, JobId, JobKey, Owner};
use job::json::{JsonText, NESTING_MAX};
use job::outcome::{Ending, Outcome, Redacted, Usage};
use job::reason::Reason;
use job::store::Item;
use proptest::prelude::*;

use super::cancel::decode_cancel;
use super::client::{InvokeRequest, decode_seen, encode_cancel, encode_invoke};
use super::invoke::{Invoke, Meta, decode_invoke, hash_of};
use super::outgoing::{event, outcome_payload, row, too_large};
use super::registry::{
    Advertised, OwnerPolicy, Presence, Profile, decode_profile, decode_status, online_payload, profile_payload, will_payload,
};
use super::topics::Root;

const META: Meta = Meta { redelivered: false, expires: None, payload_bytes_max: 2048 };
const TS: Timestamp = Timestamp(1_787_688_849_007);

fn agent() -> AgentId {
    AgentId::parse("dba").expect("an agent")
}

fn key() -> JobKey {
    let (owner, job) = (Owner::from_slug("alice").expect("an owner"), JobId::parse("rev-118").expect("a job"));
    JobKey { agent: agent(), door: Door::Mesh, owner, job }
}

fn fresh() -> JobId {
    JobId::parse("job-fresh").expect("a job")
}

fn show_invoke(bytes: &[u8]) -> String {
    let mut out = String::new();
    match decode_invoke(&agent(), bytes, META, fresh) {
        Invoke::Submission(s) => {
            let parent = s.lineage.parent.as_ref().map_or("-", JobId::as_str);
            writeln!(out, "submission {}\nrequestedBy {:?}\nservice {:?}", s.key, s.requested_by, s.service).expect("text");
            writeln!(out, "args {}\nlineage {parent} {} {}", s.args.as_str(), s.lineage.root, s.lineage.depth).expect("text");
        }
        Invoke::Refusal(r) => {
            writeln!(out, "refusal {} {}\nmessage {}\nextra {}", r.key, r.reason, r.message, r.extra.as_str()).expect("text");
        }
        Invoke::NotAJob(why) => writeln!(out, "no job {}", why.word()).expect("text"),
    }
    out
}

fn show_cancel(bytes: &[u8]) -> String {
    decode_cancel(&agent(), bytes).map_or_else(|why| format!("no job {}\n", why.word()), |key| format!("cancel {key}\n"))
}

fn check_folder(folder: &str, show: impl Fn(&[u8]) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/mqtt").join(folder);
    let mut cases = 0;
    for file in std::fs::read_dir(&folder).expect("the folder") {
        let path = file.expect("an entry").path();
        if path.extension().is_some_and(|ext| ext == "in") {
            let expected = std::fs::read_to_string(path.with_extension("expect")).expect("its expectation");
            assert_eq!(show(&std::fs::read(&path).expect("the case")), expected, "{}", path.display());
            cases += 1;
        }
    }
    assert!(cases > 5, "the folder {} has its cases", folder.display());
}

/// S1-21, S1-22, S1-22b, S1-23, S1-24, S1-48 to S1-53, U11, U13; G1-13, 19, 20, 29, 32, 46: a file a case.
#[test]
fn invokes_read_as_their_cases_say() {
    check_folder("invoke", show_invoke);
}

/// S1-25: likewise.
#[test]
fn cancels_read_as_their_cases_say() {
    check_folder("cancel", show_cancel);
}

/// U14, G1-53: 64 levels in args run; more than the one limit is refused with an answer; a hundred thousand do no harm.
#[test]
fn deep_nesting_is_answered_not_crashed_on() {
    let invoke = |levels: usize| {
        let (open, close) = ("[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"service":"s","requestedBy":"a","jobId":"j","args":{{"x":{open}{close}}}}}"#).into_bytes()
    };
    let meta = Meta { payload_bytes_max: usize::MAX, ..META };
    for (levels, runs) in [(64, true), (NESTING_MAX - 2, true), (NESTING_MAX - 1, false), (128, false), (100_000, false)] {
        match decode_invoke(&agent(), &invoke(levels), meta, fresh) {
            Invoke::Submission(_) => assert!(runs, "{levels} levels"),
            Invoke::Refusal(refusal) => {
                assert!(!runs, "{levels} levels");
                assert_eq!((refusal.reason, refusal.key.owner.as_str()), (Reason::BadRequest, "a"));
            }
            Invoke::NotAJob(why) => panic!("{levels} levels: {why}"),
        }
    }
}

/// S1-46 rests on it: the hash is that of the bytes, and the transport's marks come through.
#[test]
fn hash_and_marks_come_through() {
    let bytes = br#"{"service":"s","requestedBy":"a","jobId":"j"}"#;
    let meta = Meta { redelivered: true, expires: Some(Timestamp(9)), ..META };
    let Invoke::Submission(submission) = decode_invoke(&agent(), bytes, meta, fresh) else { panic!("a submission") };
    assert_eq!((submission.hash, submission.redelivered, submission.expires), (hash_of(bytes), true, Some(Timestamp(9))));
}

fn done(kind: &str, body: &str) -> Outcome {
    let body = JsonText::check(body.as_bytes()).expect("JSON");
    Outcome { ending: Ending::Done { kind: kind.into(), body }, usage: Usage::default(), ts: TS }
}

const TAIL: &str =
    r#""ts":"2026-08-25T20:14:09.007Z","usage":{"fuel":0,"wallMs":0,"peakMemoryBytes":0,"guest":null,"attempt":0}}"#;

/// S1-26, S1-31, S1-54, G1-47: a guest's object is spread, other values stand under result, our members win.
#[test]
fn results_are_laid_out_as_decided() {
    let head = r#"{"jobId":"rev-118","owner":"alice","type":"review","#;
    let rows = [
        (r#"{"verdict":"OK","n":1.10}"#, r#""verdict":"OK","n":1.10,"#),
        (r#" { "verdict" : "OK" } "#, r#""verdict" : "OK","#),
        ("{}", ""),
        ("{ }", ""),
        ("[1,2]", r#""result":[1,2],"#),
        ("\"text\"", r#""result":"text","#),
        ("null", r#""result":null,"#),
        (r#"{"jobId":"x","a":1,"owner":"y","ts":0,"usage":{},"type":"error"}"#, r#""a":1,"#),
        (r#"{"\u006aobId":"x","a\n":1}"#, r#""a\n":1,"#),
        (r#"{"reason":"mine","message":"mine"}"#, r#""reason":"mine","message":"mine","#),
    ];
    for (body, expected) in rows {
        let payload = String::from_utf8(outcome_payload(&key(), &done("review", body))).expect("UTF-8");
        assert_eq!(payload, format!("{head}{expected}{TAIL}"), "{body}");
    }
}

/// G1-47: the five reserved types carry reason and message, which nothing overrides.
#[test]
fn reserved_results_carry_reason_and_message() {
    let extra = JsonText::trusted(r#"{"maxDepth":4,"reason":"x","message":"y","jobId":"z"}"#);
    let ending = Ending::Ended { reason: Reason::DepthExceeded, message: "too \"deep\"".into(), extra };
    let usage = Usage {
        fuel: 7,
        wall_ms: 8,
        peak_memory_bytes: 9,
        guest: Some("sha256:ab".into()),
        attempt: 2,
        redacted: vec![Redacted { name: "DB".into(), source: "env".into() }],
    };
    let payload = String::from_utf8(outcome_payload(&key(), &Outcome { ending, usage, ts: TS })).expect("UTF-8");
    let usage = r#""usage":{"fuel":7,"wallMs":8,"peakMemoryBytes":9,"guest":"sha256:ab","attempt":2,"redacted":[{"name":"DB","source":"env"}]}}"#;
    let expected = format!(
        r#"{{"jobId":"rev-118","owner":"alice","type":"rejected","reason":"depth_exceeded","message":"too \"deep\"","maxDepth":4,"ts":"2026-08-25T20:14:09.007Z",{usage}"#
    );
    assert_eq!(payload, expected);
}

/// S1-07, S1-26, S1-27, S1-30, S1-65: topic, retain flag and payload of each thing an agent says about a job.
#[test]
fn rows_and_events_have_their_topics() {
    let root = Root::parse("agents").expect("a root");
    let items = [
        (Item::Outcome(done("result", "{}")), "result", "result", true),
        (Item::Duplicate(Outcome::duplicate(TS)), "result", "duplicate", true),
        (Item::Rejection(Outcome::ended(Reason::Overloaded, "", Usage::default(), TS)), "result", "rejected", true),
        (Item::CancelAcknowledged(TS), "events", "cancel_acknowledged", false),
        (Item::CancelRejected(TS), "events", "cancel_rejected", false),
    ];
    for (item, leaf, kind, retain) in items {
        let message = row(&root, &key(), &item);
        assert_eq!((message.topic, message.retain), (format!("agents/jobs/alice/rev-118/{leaf}"), retain));
        let seen = decode_seen(&message.payload).expect("readable");
        assert_eq!((seen.kind.as_str(), seen.job.as_deref(), seen.owner.as_deref()), (kind, Some("rev-118"), Some("alice")));
        assert_eq!(seen.ts, Some(TS));
    }
    let progress = EventKind::Progress { message: "analyzing the diff".into() };
    for (kind, word) in [(EventKind::Accepted, "accepted"), (EventKind::Started, "started"), (progress, "progress")] {
        let message = event(&root, &key(), &kind, TS);
        assert_eq!((message.topic.as_str(), message.retain), ("agents/jobs/alice/rev-118/events", false));
        let seen = decode_seen(&message.payload).expect("readable");
        assert_eq!((seen.kind.as_str(), seen.ts), (word, Some(TS)));
        assert_eq!(seen.message.is_some(), word == "progress");
    }
}

/// G1-46: what stands in for an oversize result is the same each time, and keeps the stamp and the receipt.
#[test]
fn an_oversize_result_has_one_stand_in() {
    let outcome = done("result", &format!("\"{}\"", "x".repeat(1000)));
    let size = outcome_payload(&key(), &outcome).len();
    let stand_in = too_large(&outcome, size, 500);
    assert_eq!((stand_in.reason(), stand_in.ts), (Some(Reason::OutputLimit), TS));
    assert_eq!(outcome_payload(&key(), &stand_in), outcome_payload(&key(), &too_large(&outcome, size, 500)));
}

/// S1-13, S1-16, S1-90: the profile has every member the document shows, and reads back.
#[test]
fn profiles_read_back() {
    let capability = Advertised {
        service: "schema.review".into(),
        description: "Reviews a migration for lock risk.".into(),
        request_schema: Some(JsonText::trusted(r#"{ "migration": "string" }"#)),
    };
    let profile = Profile {
        agent: agent(),
        display_name: "Database reviewer".into(),
        capabilities: vec![capability],
        owner_policy: OwnerPolicy { required: true, verified: false },
    };
    let payload = String::from_utf8(profile_payload(&profile, TS)).expect("UTF-8");
    let expected = r#"{"agentId":"dba","displayName":"Database reviewer","status":"online","protocolVersion":"1.3","capabilities":[{"service":"schema.review","description":"Reviews a migration for lock risk.","requestSchema":{ "migration": "string" }}],"ownerPolicy":{"required":true,"verified":false},"ts":"2026-08-25T20:14:09.007Z"}"#;
    assert_eq!(payload, expected);
    let seen = decode_profile(&agent(), payload.as_bytes()).expect("readable").expect("there");
    assert_eq!((seen.display_name.as_str(), seen.capabilities), ("Database reviewer", profile.capabilities));
    assert_eq!(decode_profile(&agent(), b""), Ok(None));
    assert!(decode_profile(&agent(), b"[]").is_err());
}

/// S1-18, G1-10: JSON, bare words and the empty payload are all read.
#[test]
fn presence_is_read_in_every_form() {
    let online = Presence::Online { instance: Some("i1".into()), ts: Some(TS) };
    assert_eq!(decode_status(&online_payload(&agent(), "i1", TS)), online);
    assert_eq!(decode_status(&will_payload(&agent(), "i1", TS)), Presence::Left);
    let rows: [(&[u8], Presence); 6] = [
        (b"online", Presence::Online { instance: None, ts: None }),
        (b"offline", Presence::Left),
        (b"", Presence::Left),
        (b"{\"status\":\"away\"}", Presence::Unreadable),
        (b"\xff", Presence::Unreadable),
        (b"[]", Presence::Unreadable),
    ];
    for (bytes, expected) in rows {
        assert_eq!(decode_status(bytes), expected);
    }
}

/// S1-32: a type nobody has heard of is read like any other; what has no type is not a payload of a job topic.
#[test]
fn unknown_types_are_read() {
    let seen = decode_seen(br#"{"jobId":"j","owner":"a","type":"zebra","ts":"2026-08-25T20:14:09Z","x":1}"#).expect("readable");
    assert_eq!((seen.kind.as_str(), seen.reserved()), ("zebra", None));
    for bad in [&b"{}"[..], b"[]", b"\xff", b"{\"type\":1}", b""] {
        assert!(decode_seen(bad).is_err());
    }
}

proptest! {
    /// What our client sends is what our agent reads.
    #[test]
    fn invokes_round_trip(service in "\\PC{0,30}", by in "\\PC{0,30}", job in "[^/+#\\p{C}]{1,30}", value in any::<String>()) {
        let args = serde_json::json!({ "x": value }).to_string();
        let request = InvokeRequest {
            service: service.clone(),
            args: JsonText::trusted(args.clone()),
            requested_by: by.clone(),
            job: JobId::parse(&job).expect("a job"),
        };
        let meta = Meta { payload_bytes_max: usize::MAX, ..META };
        let Invoke::Submission(read) = decode_invoke(&agent(), &encode_invoke(&request), meta, fresh) else {
            return Err(TestCaseError::fail("a submission"));
        };
        prop_assert_eq!((read.service, read.requested_by.clone(), read.args.as_str()), (service, by.clone(), args.as_str()));
        let owner = Owner::from_requested_by(&by).expect("an owner");
        prop_assert_eq!((&read.key.job, &read.key.owner, read.lineage.depth), (&request.job, &owner, 0));
        prop_assert_eq!(decode_cancel(&agent(), &encode_cancel(&request.job, &by)), Ok(read.key));
    }

    /// U11: no bytes make a reader panic.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = show_invoke(&bytes);
        let _ = show_cancel(&bytes);
        let _ = (decode_seen(&bytes), decode_status(&bytes), decode_profile(&agent(), &bytes));
    }

    /// A guest's answer, whatever it is, gives a payload that is valid JSON and keeps our members.
    #[test]
    fn results_are_always_json(names in proptest::collection::vec("jobId|owner|ts|type|usage|[a-z\"\\\\]{0,4}", 0..6)) {
        let members: serde_json::Map<_, _> = names.into_iter().map(|name| (name, serde_json::json!(1))).collect();
        let body = serde_json::Value::Object(members).to_string();
        let payload = outcome_payload(&key(), &done("result", &body));
        let seen = decode_seen(&payload).expect("readable");
        prop_assert_eq!((seen.job.as_deref(), seen.owner.as_deref(), seen.ts), (Some("rev-118"), Some("alice"), Some(TS)));
        prop_assert_eq!(seen.kind, "result");
    }
}
