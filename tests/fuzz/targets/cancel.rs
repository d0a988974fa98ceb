//! Any bytes on a cancel topic: no panic, and a key that is named can be named.
#![no_main]

use job::ids::{AgentId, JobId, Owner};
use libfuzzer_sys::fuzz_target;
use wire::mqtt::cancel::decode_cancel;

fuzz_target!(|bytes: &[u8]| {
    let Ok(agent) = AgentId::parse("dba") else { return };
    if let Ok(key) = decode_cancel(&agent, bytes) {
        assert!(JobId::parse(key.job.as_str()).is_ok());
        assert!(Owner::from_slug(key.owner.as_str()).is_ok());
    }
});
