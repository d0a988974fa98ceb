//! What one fsync costs on the disk the node's journal lies on, measured beside the runs that pay for it.
//!
//! Owns a file in a folder the caller names. It must not know SQLite.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::stats::median;

const ROUNDS: usize = 200;
const LIMIT: Duration = Duration::from_secs(5);
/// About what one commit appends to a write-ahead log: two pages.
const BYTES: [u8; 8192] = [7; 8192];

/// Median cost of appending two pages and syncing them, in milliseconds.
pub(crate) fn cost_ms(dir: &Path) -> Result<f64> {
    let mut file = File::create(dir.join("fsync-probe"))?;
    let mut costs = Vec::with_capacity(ROUNDS);
    let end = Instant::now() + LIMIT;
    while costs.len() < ROUNDS && Instant::now() < end {
        file.write_all(&BYTES)?;
        let start = Instant::now();
        file.sync_data()?;
        costs.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(&costs))
}
