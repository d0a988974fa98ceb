//! A real Mosquitto on a free loopback port.
//!
//! Owns its configuration, its life and its log, which is an independent witness of what clients sent. It must not know
//! the node.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::process::Process;
use crate::{ports, until};

const STOP: Duration = Duration::from_secs(20);

/// How the broker is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// The configuration of the bench: no limit on messages in flight or queued, TCP_NODELAY.
    Bench,
    /// Mosquitto as Debian ships it, but for the port and anonymous login.
    Stock,
}

/// A broker that is stopped when dropped.
#[derive(Debug)]
pub struct Broker {
    dir: TempDir,
    port: u16,
    process: Option<Process>,
}

/// What to set beyond the style.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether state outlives a restart by SIGTERM.
    pub persistence: bool,
    /// Users and passwords; none means anonymous login.
    pub users: Vec<(String, String)>,
    /// Further configuration lines.
    pub lines: Vec<String>,
    /// Whether to log nothing, for measuring.
    pub quiet: bool,
}

impl Broker {
    /// Starts a broker without persistence.
    pub fn start(style: Style) -> Self {
        Self::with(style, &Options::default())
    }

    /// Starts a broker with options.
    pub fn with(style: Style, options: &Options) -> Self {
        let broker = Self { dir: TempDir::with_prefix("house-broker-").unwrap(), port: ports::free(), process: None };
        fs::write(broker.path("mosquitto.conf"), broker.configuration(style, options)).unwrap();
        let mut broker = broker;
        broker.up();
        broker
    }

    fn configuration(&self, style: Style, options: &Options) -> String {
        let dir = self.dir.path().display();
        // As root Mosquitto would drop to a user that cannot write this folder.
        let mut lines = vec![format!("listener {} 127.0.0.1", self.port), "user root".into()];
        lines.push(format!("log_dest file {dir}/mosquitto.log"));
        lines.push(if options.quiet { "log_type none".into() } else { "log_type all".into() });
        if options.users.is_empty() {
            lines.push("allow_anonymous true".into());
        } else {
            self.write_passwords(&options.users);
            lines.push(format!("allow_anonymous false\npassword_file {dir}/passwords"));
        }
        if style == Style::Bench {
            lines.extend(["max_inflight_messages 0", "max_queued_messages 0", "set_tcp_nodelay true"].map(String::from));
        }
        if options.persistence {
            lines.push(format!("persistence true\npersistence_location {dir}/"));
        }
        lines.extend(options.lines.iter().cloned());
        lines.join("\n") + "\n"
    }

    fn write_passwords(&self, users: &[(String, String)]) {
        let file = self.path("passwords");
        fs::write(&file, "").unwrap();
        for (user, password) in users {
            let done = Command::new("mosquitto_passwd").arg("-b").arg(&file).arg(user).arg(password).output().unwrap();
            assert!(done.status.success(), "mosquitto_passwd: {done:?}");
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The port it listens on, the same over restarts.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address as the node's configuration wants it.
    pub fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    /// The id of its process.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }

    /// Starts it again after [`Self::stop`] or [`Self::kill`].
    pub fn up(&mut self) {
        let program =
            ["/usr/sbin/mosquitto", "/usr/local/sbin/mosquitto"].into_iter().find(|path| fs::exists(path).unwrap_or(false));
        let mut command = Command::new(program.unwrap_or("mosquitto"));
        command.arg("-c").arg(self.path("mosquitto.conf")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("mosquitto did not start: is the package `mosquitto` installed?");
        let mut process = Process::new(child);
        until("mosquitto to listen", || {
            assert!(process.end_within(Duration::ZERO).is_none(), "mosquitto ended at once:\n{}", self.log());
            std::net::TcpStream::connect(("127.0.0.1", self.port)).ok()
        });
        self.process = Some(process);
    }

    /// Stops it with SIGTERM, so that persistence is written.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.terminate();
            assert!(process.end_within(STOP).is_some(), "mosquitto did not stop");
        }
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Everything it logged so far, over all restarts.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.path("mosquitto.log")).unwrap_or_default()).into_owned()
    }
}
