//! The real node: the built binary with a configuration file, its log captured.
//!
//! Owns finding, starting, stopping and killing it. It must not know what the node does with a job.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use crate::config::Config;
use crate::process::Process;
use crate::{WAIT, http, until};

/// Longest stop a test accepts: the grace time of its configuration and some air.
const STOP: Duration = Duration::from_secs(30);

/// The binary under test: `AMP_NODE_BIN`, or built once from this workspace in the profile of the test itself.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        if let Some(named) = std::env::var_os("AMP_NODE_BIN") {
            return named.into();
        }
        let here = std::env::current_exe().unwrap();
        // target/<profile>/deps/house-…
        let profile = here.ancestors().nth(2).unwrap().to_owned();
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.current_dir(root()).args(["build", "--quiet", "--package", "node"]);
        if profile.file_name().is_some_and(|name| name == "release") {
            build.arg("--release");
        }
        let built = build.output().unwrap();
        assert!(built.status.success(), "the node does not build:\n{}", String::from_utf8_lossy(&built.stderr));
        profile.join("amp-node")
    })
}

/// The root of the workspace.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned())
}

/// A command line of the node with an empty environment but for PATH, so that nothing of this machine leaks in.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(args).env_clear().stdin(Stdio::null());
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// Runs a command line of the node to its end and returns what it wrote.
pub fn run(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the node's binary does not start");
    let mut process = Process::new(child);
    let (mut stdout, mut stderr) = (process.child().stdout.take().unwrap(), process.child().stderr.take().unwrap());
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut stdout, &mut bytes).ok();
        bytes
    });
    let errors = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut stderr, &mut bytes).ok();
        bytes
    });
    let Some(status) = process.end_within(WAIT) else {
        drop(process);
        panic!("{command:?} did not end in {WAIT:?}:\n{}", String::from_utf8_lossy(&errors.join().unwrap()));
    };
    Output { status, stdout: reader.join().unwrap(), stderr: errors.join().unwrap() }
}

/// A running node.
#[derive(Debug)]
pub struct Node {
    process: Process,
    log: PathBuf,
    ops: u16,
}

impl Node {
    /// Starts `amp-node run` with this configuration and does not wait for anything.
    pub fn start(config: &Config) -> Self {
        Self::start_with(config, &[], &[])
    }

    /// Starts it with further arguments and environment variables.
    pub fn start_with(config: &Config, args: &[&str], env: &[(&str, &str)]) -> Self {
        let path = config.write();
        let mut command = command(&["run", "--config", path.to_str().unwrap()]);
        command.args(args).envs(env.iter().copied()).current_dir(config.dir());
        Self::spawn(command, config.dir(), config.ops())
    }

    /// Starts any command line as a node whose ops pages are on `ops`; its log goes to `dir`.
    pub fn spawn(mut command: Command, dir: &Path, ops: u16) -> Self {
        let log = dir.join("node.log");
        let file = File::options().create(true).append(true).open(&log).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file);
        let child = command.spawn().expect("the node's binary does not start");
        Self { process: Process::new(child), log, ops }
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Everything it logged, over all starts with the same folder.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Waits until /readyz answers 200.
    pub fn wait_ready(&mut self) {
        let ops = self.ops;
        until(&format!("/readyz to answer 200\n{}", self.log()), || {
            self.assert_alive();
            http::get(ops, "/readyz").filter(|(status, _)| *status == 200)
        });
    }

    /// Waits until the log holds a text.
    pub fn wait_log(&mut self, text: &str) {
        until(&format!("{text:?} in the node's log"), || self.log().contains(text).then_some(()));
    }

    /// A page of its ops door.
    pub fn page(&self, path: &str) -> Option<(u16, String)> {
        http::get(self.ops, path)
    }

    /// The sum of a metric over all its labels that hold `label`, 0 when it was never counted.
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        let (_, page) = self.page("/metrics").expect("no /metrics");
        let lines = page.lines().filter(|line| !line.starts_with('#') && line.contains(label));
        let of_name = lines.filter(|line| line.split(['{', ' ']).next() == Some(name));
        of_name.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Fails with the log when the node has ended.
    pub fn assert_alive(&mut self) {
        if let Some(status) = self.process.end_within(Duration::ZERO) {
            panic!("the node ended with {status}:\n{}", self.log());
        }
    }

    /// Stops it with SIGTERM and waits for its end.
    pub fn stop(&mut self) -> ExitStatus {
        self.process.terminate();
        self.end()
    }

    /// Sends SIGTERM only.
    pub fn terminate(&self) {
        self.process.terminate();
    }

    /// Waits for its end.
    pub fn end(&mut self) -> ExitStatus {
        let Some(status) = self.process.end_within(STOP) else {
            panic!("the node did not stop in {STOP:?}:\n{}", self.log());
        };
        status
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }
}
