//! Any bytes on the topics a requester reads: results, events, profiles, statuses. No panic.
#![no_main]

use job::ids::AgentId;
use libfuzzer_sys::fuzz_target;
use wire::mqtt::client::decode_seen;
use wire::mqtt::registry::{decode_profile, decode_status};
use wire::mqtt::topics::Root;

fuzz_target!(|bytes: &[u8]| {
    let Ok(agent) = AgentId::parse("dba") else { return };
    if let Ok(seen) = decode_seen(bytes) {
        assert_eq!(seen.payload.as_str().as_bytes(), bytes, "the payload is kept to the byte");
    }
    let _readable = (decode_profile(&agent, bytes), decode_status(bytes));
    if let (Ok(topic), Ok(root)) = (std::str::from_utf8(bytes), Root::parse("agents")) {
        let _known = root.parse_topic(topic);
    }
});
