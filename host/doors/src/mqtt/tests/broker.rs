//! Brokers for tests: a Mosquitto of our own on a free port.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::mqtt::settings::BrokerAddress;

const BINARY: &str = "/usr/sbin/mosquitto";

/// As the package ships it, but for the listener.
pub(super) const STOCK: &str = "";
/// As the measuring program uses it.
pub(super) const BENCH: &str = "max_inflight_messages 0\nmax_queued_messages 0\nset_tcp_nodelay true\n";

/// A running Mosquitto.
pub(super) struct Mosquitto {
    pub(super) port: u16,
    folder: TempDir,
    child: Option<Child>,
}

impl Mosquitto {
    /// Starts one with these lines added; `None`, with a line that says so, where it is not installed.
    pub(super) async fn start(lines: &str) -> Option<Self> {
        Self::start_with(lines, &[]).await
    }

    /// Likewise with files beside its configuration, which may name each as `FOLDER/<name>`.
    pub(super) async fn start_with(lines: &str, files: &[(&str, &str)]) -> Option<Self> {
        if !Path::new(BINARY).exists() {
            #[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
            {
                eprintln!("SKIPPED: {BINARY} is not installed");
            }
            return None;
        }
        let port = free_port();
        let folder = tempfile::tempdir().expect("a folder");
        let access = if lines.contains("allow_anonymous") { "" } else { "allow_anonymous true\n" };
        let lines = lines.replace("FOLDER", &folder.path().display().to_string());
        // As root it would change to a user that cannot read the folder.
        let config = format!("user root\nlistener {port} 127.0.0.1\n{access}{lines}");
        std::fs::write(folder.path().join("mosquitto.conf"), config).expect("writes");
        let mut broker = Self { port, folder, child: None };
        files.iter().for_each(|(name, text)| broker.write(name, text));
        broker.restart().await;
        Some(broker)
    }

    /// Replaces such a file.
    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).expect("writes");
    }

    /// Kills it and starts it again; nothing of its state survives.
    pub(super) async fn restart(&mut self) {
        self.kill();
        let config = self.folder.path().join("mosquitto.conf");
        let child = Command::new(BINARY).arg("-c").arg(config).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = self.child.insert(child.expect("mosquitto starts"));
        while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            assert_eq!(child.try_wait().expect("a child"), None, "mosquitto does not like its configuration");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Has it read its files again.
    pub(super) fn reload(&self) {
        let id = self.child.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().expect("kill runs").success());
    }

    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("kills");
            child.wait().expect("is gone");
        }
    }

    pub(super) fn address(&self) -> BrokerAddress {
        address(self.port)
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(super) fn address(port: u16) -> BrokerAddress {
    BrokerAddress { host: "127.0.0.1".into(), port }
}

pub(super) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").expect("binds").local_addr().expect("an address").port()
}
