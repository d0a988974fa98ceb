//! Any bytes on an invoke topic: no panic, and what is taken keeps the promises of its type.
#![no_main]

use job::ids::{AgentId, JobId};
use job::json::check_text;
use libfuzzer_sys::fuzz_target;
use wire::mqtt::invoke::{Invoke, Meta, decode_invoke};

fuzz_target!(|bytes: &[u8]| {
    let Ok(agent) = AgentId::parse("dba") else { return };
    let meta = Meta { redelivered: false, expires: None, payload_bytes_max: 4096 };
    match decode_invoke(&agent, bytes, meta, || JobId::generated(7)) {
        Invoke::Submission(submission) => {
            assert!(bytes.len() <= meta.payload_bytes_max);
            assert!(submission.args.as_str().starts_with('{'));
            assert!(check_text(submission.args.as_str()).is_ok());
            assert!(JobId::parse(submission.key.job.as_str()).is_ok());
        }
        Invoke::Refusal(refusal) => assert!(check_text(refusal.extra.as_str()).is_ok()),
        Invoke::NotAJob(_) => {}
    }
});
