//! From the written file and its overrides to a checked configuration.
//!
//! Owns the checks that need several keys, the bounds, and the settings of later builds. All faults are told at once. It must
//! not know how a file is parsed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use catalog::limits::LimitSet;
use catalog::template::{Text, is_variable_name};
use job::ids::AgentId;
use toml::Table;

use super::overlay::overlay;
use super::places::Places;
use super::settings::{self, Refusal};
use super::{
    AgentConfig, Config, ConfigError, DefaultExecutorConfig, FILE_BYTES_MAX, Inputs, JournalConfig, LimitsConfig, MeshConfig,
    NodeConfig, SyncMode, duration, raw,
};

/// Instances kept free for each level of delegation (G1-50).
const LIVE_PER_DEPTH: u64 = 16;
/// Longest duration of any key: ten years.
const DURATION_MAX: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Longest grace of a stop.
const GRACE_MAX: Duration = Duration::from_secs(3600);
/// Ceiling of the ceiling of an answer, in KiB: what every door can still carry (G4-6).
const OUTPUT_KB_MAX: u64 = 700;
/// What a 32-bit memory can be at most, in MiB.
const MEMORY_MB_MAX: u64 = 4096;
/// Largest MQTT packet, in MiB.
const PACKET_MB_MAX: u64 = 256;
/// Most instances, running jobs or hops that can be asked for.
const COUNT_MAX: u64 = 1_000_000;
/// Most variables in `[vars]`.
const VARS_MAX: usize = 10_000;

pub(super) fn resolve(inputs: &Inputs) -> Result<Config, ConfigError> {
    let mut places = Places::new(inputs.file.as_ref().map(|(path, _)| path.as_path()));
    let file = written(inputs, &mut places);
    let file = match file {
        Some(file) if places.faults.is_empty() => file,
        _ => return Err(ConfigError { faults: places.faults }),
    };
    let beside = inputs.file.as_ref().and_then(|(path, _)| path.parent()).unwrap_or(Path::new("")).to_owned();
    let mut check = Check { places, beside, file };
    let config = check.config(inputs);
    match config {
        Some(config) if check.places.faults.is_empty() => Ok(config),
        _ => Err(ConfigError { faults: check.places.faults }),
    }
}

/// The file with its overrides, as plain types.
pub(super) fn written(inputs: &Inputs, places: &mut Places) -> Option<raw::File> {
    let text = inputs.file.as_ref().map_or("", |(_, text)| text.as_str());
    if text.len() > FILE_BYTES_MAX {
        places.fault("", format!("the file is {} bytes long, the limit is {FILE_BYTES_MAX}", text.len()), "shorten it");
        return None;
    }
    places.read(text);
    let mut table: Table = text.parse().ok()?;
    overlay(&mut table, &inputs.environment, places);
    match table.try_into() {
        Ok(file) => Some(file),
        // The walk over the file has refused every wrong kind before; this is the second line of defence.
        Err(error) if places.faults.is_empty() => {
            places.fault("", error.message().to_owned(), "see amp-node config");
            None
        }
        Err(_) => None,
    }
}

struct Check {
    places: Places,
    /// The folder relative paths of the file begin in.
    beside: PathBuf,
    file: raw::File,
}

impl Check {
    fn config(&mut self, inputs: &Inputs) -> Option<Config> {
        self.later();
        let limits = self.limits();
        let node = self.node();
        let agents = self.agents(inputs, &limits);
        let mesh = self.mesh(&limits);
        let journal = self.journal(mesh.as_ref());
        self.names();
        let ops_listen = match self.file.ops.listen.clone() {
            off if off.is_empty() => None,
            listen => self.take("ops.listen", settings::loopback(&listen)),
        };
        Some(Config {
            node,
            agents,
            mesh: mesh?,
            vars: std::mem::take(&mut self.file.vars),
            redact: std::mem::take(&mut self.file.secrets.redact),
            allow: self.file.environment.allow.take(),
            journal,
            limits,
            ops_listen,
        })
    }

    fn take<T>(&mut self, path: &str, setting: Result<T, Refusal>) -> Option<T> {
        setting.map_err(|(what, mend)| self.places.fault(path, what, mend)).ok()
    }

    /// Settings whose other values belong to later builds.
    fn later(&mut self) {
        if self.file.mesh.protocol != 5 {
            let what = match self.file.mesh.protocol {
                4 => "this build does not offer protocol 4 yet".to_owned(),
                other => format!("there is no protocol {other}"),
            };
            self.places.fault("mesh.protocol", what, "write 5, or take it out");
        }
        if self.duration("mesh.retain_results", &self.file.mesh.retain_results.clone(), DURATION_MAX) != Duration::ZERO {
            let what = "this build does not offer retain_results yet and keeps results for ever";
            self.places.fault("mesh.retain_results", what, "write \"0\", or take it out");
        }
        match self.file.secrets.store.clone().as_str() {
            "auto" => {}
            store @ ("secret-service" | "file" | "keyutils") => {
                let what = format!("this build does not offer the secret store {store} yet");
                self.places.fault("secrets.store", what, "write auto, and give secrets by the environment");
            }
            other => self.places.fault("secrets.store", format!("there is no secret store {other:?}"), "write auto"),
        }
        for i in 0..self.file.agent.len() {
            if self.file.agent[i].replicas {
                self.places.fault(&format!("agent.{i}.replicas"), "this build does not offer replicas yet", "write false");
            }
            if self.file.agent[i].owner_policy.verified {
                let what = "this build does not offer verified owners yet";
                self.places.fault(&format!("agent.{i}.owner_policy.verified"), what, "write false");
            }
        }
    }

    fn text(&mut self, path: &str, text: &str) -> Option<Text> {
        let parsed = Text::parse(text);
        if parsed.is_none() {
            // The text itself may be a password, so it is not quoted.
            self.places.fault(
                path,
                "${ opens a variable and no name follows",
                "write ${NAME}, or $${ for the characters themselves",
            );
        }
        parsed
    }

    fn duration(&mut self, path: &str, text: &str, max: Duration) -> Duration {
        match duration::parse(text) {
            Some(duration) if duration <= max => duration,
            Some(_) => {
                let what = format!("{text} is longer than the limit of {} seconds", max.as_secs());
                self.places.fault(path, what, "shorten it");
                Duration::ZERO
            }
            None => {
                self.places.fault(
                    path,
                    format!("{text:?} is no duration"),
                    "write a number with ms, s, m, h or d, such as \"20s\", or \"0\"",
                );
                Duration::ZERO
            }
        }
    }

    fn number(&mut self, path: &str, number: u64, least: u64, most: u64) -> u64 {
        if (least..=most).contains(&number) {
            return number;
        }
        self.places.fault(path, format!("{number} is out of range"), format!("write a number from {least} to {most}"));
        // Something near it, so that checks that depend on it do not speak up too.
        number.clamp(least, most)
    }

    fn small(&mut self, path: &str, number: u64, least: u64, most: u64) -> u32 {
        u32::try_from(self.number(path, number, least, most.min(u64::from(u32::MAX)))).unwrap_or(u32::MAX)
    }

    fn node(&mut self) -> NodeConfig {
        let raw::Node { data_dir, grace } = self.file.node.clone();
        let data_dir = (!data_dir.is_empty()).then(|| self.beside.join(data_dir));
        NodeConfig { data_dir, grace: self.duration("node.grace", &grace, GRACE_MAX) }
    }

    fn limits(&mut self) -> LimitsConfig {
        let raw::Limits { timeout_ms, fuel, memory_mb, output_kb, max_running, max_live, max_queued, max } =
            self.file.limits.clone();
        let max = LimitSet {
            timeout_ms: self.number("limits.max.timeout_ms", max.timeout_ms, 1, u64::from(u32::MAX)),
            fuel: self.number("limits.max.fuel", max.fuel, 1, i64::MAX as u64),
            memory_mb: self.number("limits.max.memory_mb", max.memory_mb, 1, MEMORY_MB_MAX),
            output_kb: self.number("limits.max.output_kb", max.output_kb, 1, OUTPUT_KB_MAX),
        };
        let defaults = LimitSet {
            timeout_ms: self.below_ceiling("limits.timeout_ms", timeout_ms, max.timeout_ms),
            fuel: self.below_ceiling("limits.fuel", fuel, max.fuel),
            memory_mb: self.below_ceiling("limits.memory_mb", memory_mb, max.memory_mb),
            output_kb: self.below_ceiling("limits.output_kb", output_kb, max.output_kb),
        };
        LimitsConfig {
            defaults,
            max,
            // More of them than max_live is no fault: then max_live decides.
            max_running: self.small("limits.max_running", max_running, 1, COUNT_MAX),
            max_live: self.small("limits.max_live", max_live, 1, COUNT_MAX),
            max_queued: self.small("limits.max_queued", max_queued, 1, 100 * COUNT_MAX),
        }
    }

    fn below_ceiling(&mut self, path: &str, number: u64, ceiling: u64) -> u64 {
        if number > ceiling {
            let what = format!("{number} is over the ceiling of {ceiling}");
            self.places.fault(path, what, "lower it, or raise the ceiling in [limits.max]");
        }
        self.number(path, number.min(ceiling), 1, ceiling)
    }

    fn agents(&mut self, inputs: &Inputs, limits: &LimitsConfig) -> Vec<AgentConfig> {
        let written = std::mem::take(&mut self.file.agent);
        let catalog = inputs.catalog.as_deref();
        match (written.len(), catalog) {
            (0, Some(folder)) => return self.agent_of_folder(folder, limits),
            (0, None) if inputs.no_agent => {}
            (0, None) => {
                self.places.fault(
                    "",
                    "there is no [[agent]]",
                    "add one with an id and a catalog folder, or name a catalog folder to run",
                );
            }
            (1, _) | (_, None) => {}
            (_, Some(_)) => {
                let what = "the file has several agents, and a catalog folder was named on the command line";
                self.places.fault("agent", what, "leave the folder out, or run it without the file");
            }
        }
        let mut agents: Vec<AgentConfig> = Vec::new();
        for (i, raw) in written.into_iter().enumerate() {
            let path = format!("agent.{i}");
            let Ok(id) = AgentId::parse(&raw.id) else {
                let what = format!("{:?} is no agent id", raw.id);
                self.places.fault(
                    &format!("{path}.id"),
                    what,
                    "write 1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or a digit",
                );
                continue;
            };
            if agents.iter().any(|other| other.id == id) {
                self.places.fault(&format!("{path}.id"), format!("two agents are called {id}"), "give one of them another id");
            }
            let folder = match (catalog, raw.catalog.as_str()) {
                (Some(folder), _) => folder.to_owned(),
                (None, "") => self.beside.join("catalogs").join(id.as_str()),
                (None, folder) => self.beside.join(folder),
            };
            let display_name = if raw.display_name.is_empty() { id.as_str().to_owned() } else { raw.display_name };
            let default_executor = raw.default_executor.map(|raw| self.default_executor(&path, raw, limits));
            agents.push(AgentConfig { id, display_name, catalog: folder, default_executor });
        }
        agents
    }

    /// The agent of a folder that runs without a file, or with one that has no agent: its default executor is `prompt` (G1-56).
    fn agent_of_folder(&mut self, folder: &Path, limits: &LimitsConfig) -> Vec<AgentConfig> {
        let name = folder.canonicalize().ok().or_else(|| Some(folder.to_owned()));
        let name = name.and_then(|path| path.file_name().map(|name| name.to_string_lossy().into_owned())).unwrap_or_default();
        let Ok(id) = AgentId::parse(&settings::id_from_folder(&name)) else { return Vec::new() };
        let default_executor = self.default_executor("agent", raw::DefaultExecutor::default(), limits);
        let display_name = id.as_str().to_owned();
        vec![AgentConfig { id, display_name, catalog: folder.to_owned(), default_executor: Some(default_executor) }]
    }

    fn default_executor(&mut self, path: &str, raw: raw::DefaultExecutor, limits: &LimitsConfig) -> DefaultExecutorConfig {
        if raw.guest != "prompt" && !raw.guest.ends_with(".wasm") {
            let what = format!("there is no built-in guest {:?}", raw.guest);
            self.places.fault(
                &format!("{path}.default_executor.guest"),
                what,
                "write prompt, or the name of a .wasm in the catalog folder",
            );
        }
        let mut limit = |name: &str, set: Option<u64>, default: u64, ceiling: u64| match set {
            None => default,
            Some(number) => self.below_ceiling(&format!("{path}.default_executor.limits.{name}"), number, ceiling),
        };
        let (default, max) = (limits.defaults, limits.max);
        let limits = LimitSet {
            timeout_ms: limit("timeout_ms", raw.limits.timeout_ms, default.timeout_ms, max.timeout_ms),
            fuel: limit("fuel", raw.limits.fuel, default.fuel, max.fuel),
            memory_mb: limit("memory_mb", raw.limits.memory_mb, default.memory_mb, max.memory_mb),
            output_kb: limit("output_kb", raw.limits.output_kb, default.output_kb, max.output_kb),
        };
        for name in raw.grants.env.keys().filter(|name| !is_variable_name(name)) {
            let key = format!("{path}.default_executor.grants.env.{name}");
            self.places.fault(&key, format!("{name:?} is no name of an environment variable"), "use letters, digits and _");
        }
        let mut grants_env = Vec::new();
        for (name, text) in raw.grants.env {
            let text = self.text(&format!("{path}.default_executor.grants.env.{name}"), &text);
            grants_env.extend(text.map(|text| (name, text)));
        }
        DefaultExecutorConfig { guest: raw.guest, limits, grants_env }
    }

    fn mesh(&mut self, limits: &LimitsConfig) -> Option<MeshConfig> {
        let raw = self.file.mesh.clone();
        let listen = self.take("mesh.embedded_listen", settings::loopback(&raw.embedded_listen));
        let broker = listen.and_then(|listen| self.take("mesh.broker", settings::broker(&raw.broker, listen)));
        let root = self.take("mesh.root", settings::root(&raw.root));
        let max_depth = self.small("mesh.max_depth", raw.max_depth, 0, COUNT_MAX);
        if u64::from(limits.max_live) <= LIVE_PER_DEPTH * u64::from(max_depth) {
            let what = format!(
                "max_live is {}, and has to be more than {LIVE_PER_DEPTH} x max_depth = {}, so that delegated jobs find room",
                limits.max_live,
                LIVE_PER_DEPTH * u64::from(max_depth)
            );
            self.places.fault("limits.max_live", what, "raise max_live, or lower max_depth in [mesh]");
        }
        let max_packet_mb = self.small("mesh.max_packet_mb", raw.max_packet_mb, 1, PACKET_MB_MAX);
        let max_payload_kb = self.small("mesh.max_payload_kb", raw.max_payload_kb, 1, 1024 * u64::from(max_packet_mb));
        let resend_window = self.duration("mesh.resend_window", &raw.resend_window, DURATION_MAX);
        if raw.username.is_empty() && !raw.password.is_empty() {
            self.places.fault("mesh.password", "there is a password and no username", "set the username too");
        }
        let username = if raw.username.is_empty() { None } else { self.text("mesh.username", &raw.username) };
        let password = if raw.password.is_empty() { None } else { self.text("mesh.password", &raw.password) };
        Some(MeshConfig {
            broker: broker?,
            root: root?,
            max_depth,
            username,
            password,
            resend_window,
            max_payload_kb,
            max_packet_mb,
        })
    }

    fn journal(&mut self, mesh: Option<&MeshConfig>) -> JournalConfig {
        let raw::Journal { sync, remember, remember_max_mb } = self.file.journal.clone();
        let sync = match sync.as_str() {
            "full" => SyncMode::Full,
            "os" => SyncMode::Os,
            other => {
                self.places.fault("journal.sync", format!("there is no sync {other:?}"), "write full or os");
                SyncMode::Full
            }
        };
        let remember = self.duration("journal.remember", &remember, DURATION_MAX);
        if let Some(mesh) = mesh.filter(|mesh| mesh.resend_window > remember) {
            let what = format!(
                "resend_window is {} s, longer than jobs are remembered, {} s",
                mesh.resend_window.as_secs(),
                remember.as_secs()
            );
            self.places.fault("mesh.resend_window", what, "shorten it, or lengthen remember in [journal]");
        }
        JournalConfig { sync, remember, remember_max_mb: self.number("journal.remember_max_mb", remember_max_mb, 1, COUNT_MAX) }
    }

    /// The names in `[vars]` and `[environment]`.
    fn names(&mut self) {
        if self.file.vars.len() > VARS_MAX {
            self.places.fault("vars", format!("there are more than {VARS_MAX} variables"), "take some out");
        }
        let bad: Vec<String> = self.file.vars.keys().filter(|name| !is_variable_name(name)).cloned().collect();
        for name in bad {
            let what = format!("{name:?} is no name of a variable");
            self.places.fault(&format!("vars.{name}"), what, "use letters, digits and _, beginning with no digit");
        }
        let empty = |names: &[String]| names.iter().any(|name| name.trim().is_empty());
        if empty(&self.file.secrets.redact) {
            self.places.fault("secrets.redact", "a name is empty", "take it out");
        }
        if self.file.environment.allow.as_deref().is_some_and(empty) {
            self.places.fault("environment.allow", "a name is empty", "take it out");
        }
    }
}
