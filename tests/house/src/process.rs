//! Child processes of a test: signals, waiting for their end, never left behind.
//!
//! Owns the handle. It must not know what the process is.

use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A child that is killed when its test is over.
#[derive(Debug)]
pub struct Process(Child);

impl Process {
    /// Takes a child over.
    pub fn new(child: Child) -> Self {
        Self(child)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends a signal; a process that is gone is no fault.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            kill_process(pid, signal).ok();
        }
    }

    /// Kills it with SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }

    /// Waits for its end, at most `limit`.
    pub fn end_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return Some(status);
            }
            if Instant::now() >= end {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
