//! Any bytes as a catalog file: reading ends, faults are named, and nothing panics.
#![no_main]

use catalog::{Rules, read_file};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let reading = read_file("fuzz.json", bytes, &Rules::default());
    assert!(reading.faults.len() + reading.entries.len() <= bytes.len().max(1));
});
