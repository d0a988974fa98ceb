//! Every key of `amp-node.toml`, once: `amp-node config` prints this table, the reader checks against it, and a test holds it
//! against the types.
//!
//! Owns names, defaults, units and meanings, and the keys of later builds. It must not know values.

/// What a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// A whole number.
    Whole,
    /// `true` or `false`.
    Flag,
    /// A duration such as `20s`.
    Duration,
    /// A list of texts.
    List,
    /// A table of names and texts.
    Map,
}

/// One key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its path; `agent` stands for each `[[agent]]`.
    pub path: &'static str,
    /// What it takes.
    pub kind: Kind,
    /// Its default as the file would write it; empty when there is none and the meaning says what then holds.
    pub default: &'static str,
    /// The unit of its value; empty where none applies.
    pub unit: &'static str,
    /// What it means, in one line.
    pub meaning: &'static str,
}

const fn key(path: &'static str, kind: Kind, default: &'static str, unit: &'static str, meaning: &'static str) -> Key {
    Key { path, kind, default, unit, meaning }
}

/// Every key this build knows, in the order of the file.
pub const KEYS: &[Key] = &[
    key(
        "node.data_dir",
        Kind::Text,
        "\"\"",
        "path",
        "where the journal and compiled guests lie; empty: $STATE_DIRECTORY, else /var/lib/amp-node as root, else the XDG state folder",
    ),
    key("node.grace", Kind::Duration, "\"20s\"", "duration", "how long a stop waits for running jobs"),
    key("agent.id", Kind::Text, "\"node\"", "", "stable id, 1 to 64 of A-Z a-z 0-9 . _ -, unique in the file"),
    key("agent.display_name", Kind::Text, "\"\"", "", "name for people; empty: the id"),
    key(
        "agent.catalog",
        Kind::Text,
        "\"\"",
        "path",
        "folder of *.json and the .wasm they name; empty: catalogs/<id> beside the file",
    ),
    key("agent.replicas", Kind::Flag, "false", "", "several nodes share this agent; not in this build yet"),
    key(
        "agent.owner_policy.verified",
        Kind::Flag,
        "false",
        "",
        "requestedBy is checked against the broker's identity; not in this build yet",
    ),
    key("agent.owner_policy.property", Kind::Text, "\"username\"", "", "the MQTT property that carries the verified identity"),
    key(
        "agent.default_executor.guest",
        Kind::Text,
        "\"prompt\"",
        "",
        "runs entries that name no executor: the built-in prompt, or a .wasm of the catalog folder; without the table such entries are refused",
    ),
    key(
        "agent.default_executor.limits.timeout_ms",
        Kind::Whole,
        "",
        "milliseconds",
        "wall clock of a job it runs; absent: [limits]",
    ),
    key("agent.default_executor.limits.fuel", Kind::Whole, "", "fuel", "fuel of a job it runs; absent: [limits]"),
    key("agent.default_executor.limits.memory_mb", Kind::Whole, "", "MiB", "memory of a job it runs; absent: [limits]"),
    key("agent.default_executor.limits.output_kb", Kind::Whole, "", "KiB", "answer of a job it runs; absent: [limits]"),
    key(
        "agent.default_executor.grants.env",
        Kind::Map,
        "{}",
        "",
        "environment variables its guest sees; values may hold ${NAME}",
    ),
    key("mesh.broker", Kind::Text, "\"embedded\"", "URL", "embedded: in this process on embedded_listen; or mqtt://host:port"),
    key(
        "mesh.embedded_listen",
        Kind::Text,
        "\"127.0.0.1:1883\"",
        "address",
        "where the embedded broker listens, a loopback address",
    ),
    key("mesh.protocol", Kind::Whole, "5", "", "MQTT version; 4 is not in this build yet"),
    key("mesh.root", Kind::Text, "\"agents\"", "", "topic prefix; levels of A-Z a-z 0-9 _ - with / between them"),
    key("mesh.max_depth", Kind::Whole, "4", "hops", "how far a request may be from its beginning"),
    key("mesh.username", Kind::Text, "\"\"", "", "login name; may hold ${NAME}; empty: none"),
    key("mesh.password", Kind::Text, "\"\"", "", "password, such as \"${MQTT_PASSWORD}\"; resolved when it is used"),
    key("mesh.resend_window", Kind::Duration, "\"10m\"", "duration", "how long the same bytes are a resend and no new job"),
    key(
        "mesh.retain_results",
        Kind::Duration,
        "\"0\"",
        "duration",
        "how long results stay retained, 0 for ever; other values are not in this build yet",
    ),
    key("mesh.max_payload_kb", Kind::Whole, "1024", "KiB", "largest invoke; above it the job is rejected"),
    key("mesh.max_packet_mb", Kind::Whole, "16", "MiB", "largest packet taken at all"),
    key("vars", Kind::Map, "{}", "", "first source of ${NAME}"),
    key("secrets.store", Kind::Text, "\"auto\"", "", "second source of ${NAME}; the stores themselves are not in this build yet"),
    key("secrets.redact", Kind::List, "[]", "names", "further environment names whose values are secret"),
    key(
        "environment.allow",
        Kind::List,
        "",
        "names",
        "third source of ${NAME}: names and patterns with *; absent: all but secret-looking names and AMP_*",
    ),
    key("journal.sync", Kind::Text, "\"full\"", "", "full: acknowledged work survives power loss; os: a crash of the process"),
    key("journal.remember", Kind::Duration, "\"24h\"", "duration", "how long finished jobs are remembered"),
    key("journal.remember_max_mb", Kind::Whole, "4096", "MiB", "how much of them, oldest finished first"),
    key("limits.timeout_ms", Kind::Whole, "60000", "milliseconds", "wall clock of a job whose entry sets none"),
    key("limits.fuel", Kind::Whole, "10000000000", "fuel", "fuel of a job whose entry sets none"),
    key("limits.memory_mb", Kind::Whole, "64", "MiB", "memory of a job whose entry sets none"),
    key("limits.output_kb", Kind::Whole, "512", "KiB", "answer of a job whose entry sets none"),
    key("limits.max_running", Kind::Whole, "256", "jobs", "jobs using CPU at once"),
    key("limits.max_live", Kind::Whole, "1000", "instances", "instances alive at once, waiting ones included"),
    key("limits.max_queued", Kind::Whole, "10000", "jobs", "jobs waiting for a place; past it an invoke is rejected"),
    key("limits.max.timeout_ms", Kind::Whole, "3600000", "milliseconds", "ceiling of an entry's timeoutMs"),
    key("limits.max.fuel", Kind::Whole, "1000000000000", "fuel", "ceiling of an entry's fuel"),
    key("limits.max.memory_mb", Kind::Whole, "256", "MiB", "ceiling of an entry's memoryMb"),
    key("limits.max.output_kb", Kind::Whole, "700", "KiB", "ceiling of an entry's outputKb"),
    key(
        "ops.listen",
        Kind::Text,
        "\"127.0.0.1:8701\"",
        "address",
        "/healthz, /readyz and /metrics, a loopback address; empty: off",
    ),
];

/// Keys and tables of later builds: refused by name, so that nobody believes they work.
pub(super) const LATER: &[&str] = &[
    "node.dirs_root",
    "agent.replica",
    "agent.a2a",
    "mesh.ca",
    "mesh.cert",
    "mesh.key",
    "http",
    "store",
    "hub",
    "session",
    "a2a",
    "launcher",
    "ops.token",
    "agent.default_executor.grants.http",
    "agent.default_executor.grants.dirs",
    "agent.default_executor.grants.ask",
];

/// The key at this path.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// Whether the path is that of a table.
pub(super) fn is_table(path: &str) -> bool {
    KEYS.iter().any(|key| below(key.path, path).is_some())
}

/// The names that may stand directly below a path; the root is the empty path.
pub(super) fn children(path: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for key in KEYS {
        let rest = if path.is_empty() { Some(key.path) } else { below(key.path, path) };
        if let Some(name) = rest.and_then(|rest| rest.split('.').next())
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

fn below<'k>(key: &'k str, path: &str) -> Option<&'k str> {
    key.strip_prefix(path)?.strip_prefix('.')
}
