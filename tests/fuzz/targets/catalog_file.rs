//! Any bytes as a catalog file: reading ends, what is wrong is named, and nothing panics.
#![no_main]

use catalog::{LimitSet, Rules, read_file};
use libfuzzer_sys::fuzz_target;

const LIMITS: LimitSet = LimitSet { timeout_ms: 60_000, fuel: 1_000_000, memory_mb: 64, output_kb: 512 };

fuzz_target!(|bytes: &[u8]| {
    let rules = Rules { defaults: LIMITS, ceilings: LIMITS, default_executor: None };
    let reading = read_file("fuzz.json", bytes, &rules);
    assert!(!(reading.whole && reading.faults.is_empty()), "a file that cannot be read has a fault that says why");
    assert!(!(reading.whole && !reading.entries.is_empty()), "a file that cannot be read gives no entries");
});
