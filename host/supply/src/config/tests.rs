//! Configurations and what becomes of them.

use std::collections::BTreeSet;

use super::*;

fn resolve(text: &str, environment: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let inputs =
        Inputs { file: Some(("etc/amp-node.toml".into(), text.to_owned())), catalog: None, no_agent: false, environment };
    Config::resolve(&inputs).map_err(|error| error.faults.iter().map(ToString::to_string).collect())
}

const AGENT: &str = "[[agent]]\nid = \"a\"\n";

/// DESIGN section 4: the file of the design page, with what later builds add taken out.
const WHOLE: &str = r#"
[node]
data_dir = "data"
grace = "5s"
[[agent]]
id = "reviewer"
display_name = "Code reviewer"
catalog = "catalogs/reviewer"
replicas = false
owner_policy = { verified = false, property = "username" }
[agent.default_executor]
guest = "prompt"
limits = { timeout_ms = 1000, fuel = 5, memory_mb = 3, output_kb = 4 }
grants = { env = { MODEL = "${MODEL}" } }
[mesh]
broker = "mqtt://b:1884"
embedded_listen = "127.0.0.1:0"
protocol = 5
root = "team/mesh"
max_depth = 3
username = "u"
password = "${MQTT_PASSWORD}"
resend_window = "1m"
retain_results = "0"
max_payload_kb = 512
max_packet_mb = 8
[vars]
REVIEW_CHANNEL = "C123"
[secrets]
store = "auto"
redact = ["PIN"]
[environment]
allow = ["REVIEW_*", "OPENAI_API_KEY"]
[journal]
sync = "os"
remember = "1h"
remember_max_mb = 10
[limits]
timeout_ms = 60000
fuel = 10000000000
memory_mb = 64
output_kb = 512
max_running = 20
max_live = 100
max_queued = 50
[limits.max]
timeout_ms = 70000
fuel = 20000000000
memory_mb = 128
output_kb = 600
[ops]
listen = ""
"#;

/// Every key is taken, and relative paths begin beside the file.
#[test]
fn a_whole_file_is_taken() {
    let config = resolve(WHOLE, &[]).expect("fine");
    assert_eq!(config.node.data_dir, Some("etc/data".into()));
    assert_eq!(config.node.grace, Duration::from_secs(5));
    let agent = &config.agents[0];
    assert_eq!((agent.id.as_str(), agent.display_name.as_str()), ("reviewer", "Code reviewer"));
    assert_eq!(agent.catalog, PathBuf::from("etc/catalogs/reviewer"));
    let executor = agent.default_executor.as_ref().expect("a default executor");
    assert_eq!(executor.limits, LimitSet { timeout_ms: 1000, fuel: 5, memory_mb: 3, output_kb: 4 });
    assert_eq!(executor.grants_env[0].1.variables(), ["MODEL"]);
    assert_eq!(config.mesh.broker.to_string(), "mqtt://b:1884");
    assert_eq!((config.mesh.root.as_str(), config.mesh.max_depth), ("team/mesh", 3));
    assert_eq!(config.mesh.password.as_ref().map(Text::variables), Some(["MQTT_PASSWORD".to_owned()].as_slice()));
    assert_eq!((config.mesh.max_payload_kb, config.mesh.max_packet_mb), (512, 8));
    assert_eq!((config.journal.sync, config.journal.remember_max_mb), (SyncMode::Os, 10));
    assert_eq!(config.limits.max.output_kb, 600);
    assert_eq!((config.limits.max_running, config.limits.max_live, config.limits.max_queued), (20, 100, 50));
    assert_eq!(config.ops_listen, None);
    assert_eq!(config.allow.as_deref(), Some(["REVIEW_*".to_owned(), "OPENAI_API_KEY".to_owned()].as_slice()));
}

/// The table of keys is the truth: same paths and same defaults as the types, and the file above sets every one of them.
#[test]
fn the_table_of_keys_and_the_types_agree() {
    fn flatten(path: &str, value: &toml::Value, out: &mut BTreeMap<String, String>) {
        let leaf = || KEYS.iter().any(|key| key.path == path);
        match value {
            toml::Value::Table(table) if !leaf() => {
                for (name, value) in table {
                    flatten(&if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, value, out);
                }
            }
            toml::Value::Array(items) if !leaf() => items.iter().for_each(|item| flatten(path, item, out)),
            _ => {
                out.insert(path.to_owned(), value.to_string());
            }
        }
    }
    let agent = raw::Agent { default_executor: Some(raw::DefaultExecutor::default()), ..raw::Agent::default() };
    let file = raw::File { agent: vec![agent], ..raw::File::default() };
    let mut defaults = BTreeMap::new();
    flatten("", &toml::Value::try_from(&file).expect("it serializes"), &mut defaults);
    let table: BTreeMap<String, String> =
        KEYS.iter().filter(|key| !key.default.is_empty()).map(|key| (key.path.to_owned(), key.default.to_owned())).collect();
    assert_eq!(defaults, table);

    let mut written = BTreeMap::new();
    flatten("", &toml::Value::Table(WHOLE.parse().expect("TOML")), &mut written);
    let paths: BTreeSet<String> = KEYS.iter().map(|key| key.path.to_owned()).collect();
    assert_eq!(written.into_keys().collect::<BTreeSet<_>>(), paths);
    for key in KEYS {
        assert!(!key.meaning.is_empty() && key.meaning.len() < 160, "{}", key.path);
    }
}

/// DESIGN section 4: without a file, the folder runs: an agent named after it, `prompt` as default executor, embedded broker.
#[test]
fn a_folder_runs_without_a_file() {
    let config = Config::for_catalog("somewhere/my reviewer".into(), Vec::new()).expect("fine");
    assert_eq!(config.agents[0].id.as_str(), "my-reviewer");
    assert_eq!(config.agents[0].catalog, PathBuf::from("somewhere/my reviewer"));
    assert_eq!(config.agents[0].default_executor.as_ref().map(|executor| executor.guest.as_str()), Some("prompt"));
    assert_eq!(config.mesh.broker, Broker::Embedded { listen: "127.0.0.1:1883".parse().expect("an address") });
    assert_eq!(config.ops_listen, "127.0.0.1:8701".parse().ok());
    assert!(Config::for_catalog(PathBuf::from("/"), Vec::new()).expect("fine").agents[0].id.as_str() == "node");
}

/// A folder on the command line stands in for the catalog of the only agent.
#[test]
fn a_named_folder_wins_over_the_file() {
    let inputs = |text: &str| Inputs {
        file: Some(("amp-node.toml".into(), text.to_owned())),
        catalog: Some("here".into()),
        no_agent: false,
        environment: Vec::new(),
    };
    let config = Config::resolve(&inputs(AGENT)).expect("fine");
    assert_eq!((config.agents[0].id.as_str(), config.agents[0].catalog.as_path()), ("a", std::path::Path::new("here")));
    assert!(config.agents[0].default_executor.is_none());
    assert_eq!(Config::resolve(&inputs("")).expect("fine").agents[0].id.as_str(), "here");
    let error = Config::resolve(&inputs(&format!("{AGENT}[[agent]]\nid=\"b\""))).expect_err("which one?");
    assert!(error.to_string().contains("several agents"), "{error}");
}

/// `AMP_MESH__BROKER` overrides; names without a double underscore, or of others, are left alone.
#[test]
fn the_environment_overrides() {
    let environment = [
        ("AMP_MESH__BROKER", "mqtt://env"),
        ("AMP_LIMITS__MAX__FUEL", "20000000000"),
        ("AMP_VARS__Team", "x"),
        ("AMP_ENVIRONMENT__ALLOW", "A, B_*"),
        ("AMP_HOME", "ignored"),
        ("MESH__BROKER", "ignored"),
        ("AMP_OPS__LISTEN", ""),
    ];
    let config = resolve(WHOLE, &environment).expect("fine");
    assert_eq!(config.mesh.broker.to_string(), "mqtt://env:1883");
    assert_eq!(config.limits.max.fuel, 20_000_000_000);
    assert_eq!(config.vars.get("Team").map(String::as_str), Some("x"));
    assert_eq!(config.allow, Some(vec!["A".to_owned(), "B_*".to_owned()]));
    let rows = [
        ("AMP_MESH__BROKR", "x", "AMP_MESH__BROKR: the name overrides no key; did you mean AMP_MESH__BROKER?"),
        ("AMP_MESH__MAX_DEPTH", "many", "AMP_MESH__MAX_DEPTH: mesh.max_depth: the value is of another kind"),
        ("AMP_MESH__ROOT", "a.b", "AMP_MESH__ROOT: mesh.root: \"a.b\" is no mesh root"),
        ("AMP_AGENT__ID", "x", "AMP_AGENT__ID: the name overrides no key"),
        ("AMP_HTTP__LISTEN", "x", "AMP_HTTP__LISTEN: the name overrides no key"),
    ];
    for (name, value, expected) in rows {
        let faults = resolve(AGENT, &[(name, value)]).expect_err(name);
        assert!(faults.len() == 1 && faults[0].contains(expected), "{name}: {faults:?}");
    }
}

/// Unknown keys name the nearest known one, wrong kinds say what is taken, all with file, line and column.
#[test]
fn faults_name_file_line_and_key() {
    let rows = [
        ("[mesh]\nbrokr = \"x\"", "etc/amp-node.toml:4:1: mesh.brokr: there is no key brokr in [mesh]; did you mean broker?"),
        ("[mehs]", "3:2: mehs: there is no key mehs here; did you mean mesh?"),
        ("[banana]", "3:2: banana: there is no key banana here; the keys here are node, agent, mesh"),
        ("[limits.max]\nfule = 1", "4:1: limits.max.fule: there is no key fule in [limits.max]; did you mean fuel?"),
        ("nme = \"x\"", "3:1: agent.nme: there is no key nme in [agent]"),
        ("[mesh]\nmax_depth = \"4\"", "4:1: mesh.max_depth: max_depth takes a whole number, this is string"),
        ("[mesh]\nmax_depth = -4", "4:1: mesh.max_depth: max_depth takes a whole number"),
        ("[vars]\nX = 5", "4:1: vars.X: X takes a text"),
        ("[ops]\nlisten = 8701", "4:1: ops.listen: listen takes a text"),
        ("[ops", "3:5: "),
        ("[node]\ngrace = \"20\"", "4:1: node.grace: \"20\" is no duration"),
        ("[node]\ngrace = \"2h\"", "4:1: node.grace: 2h is longer than the limit of 3600 seconds"),
        ("[mesh]\nroot = \"a:b\"", "4:1: mesh.root: \"a:b\" is no mesh root"),
        ("[mesh]\nbroker = \"b\"", "4:1: mesh.broker: \"b\" is no broker"),
        ("[mesh]\nmax_depth = 63", "max_live is 1000, and has to be more than 16 x max_depth = 1008"),
        ("[limits]\nmax_live = 64", "4:1: limits.max_live: max_live is 64, and has to be more than 16 x max_depth = 64"),
        ("[limits]\nmax_running = 0", "4:1: limits.max_running: 0 is out of range"),
        ("[limits]\nmemory_mb = 257", "4:1: limits.memory_mb: 257 is over the ceiling of 256"),
        ("[limits.max]\noutput_kb = 701", "4:1: limits.max.output_kb: 701 is out of range; write a number from 1 to 700"),
        ("[limits]\nfuel = 0", "4:1: limits.fuel: 0 is out of range"),
        ("[mesh]\nmax_payload_kb = 16385", "4:1: mesh.max_payload_kb: 16385 is out of range; write a number from 1 to 16384"),
        ("[mesh]\nresend_window = \"25h\"", "4:1: mesh.resend_window: resend_window is 90000 s, longer than jobs are remembered"),
        ("[mesh]\npassword = \"x\"", "4:1: mesh.password: there is a password and no username"),
        ("[mesh]\nusername = \"u\"\npassword = \"hunter${2\"", "5:1: mesh.password: ${ opens a variable and no name follows"),
        ("[journal]\nsync = \"fsync\"", "4:1: journal.sync: there is no sync \"fsync\"; write full or os"),
        ("[vars]\n\"a b\" = \"x\"", "4:1: vars.a b: \"a b\" is no name of a variable"),
        ("[ops]\nlisten = \"0.0.0.0:8701\"", "4:1: ops.listen: this build listens on loopback addresses only"),
        ("[[agent]]\nid = \"a\"", "4:1: agent.id: two agents are called a"),
        ("[[agent]]\nid = \".a\"", "4:1: agent.id: \".a\" is no agent id"),
        ("[agent.default_executor]\nguest = \"chat\"", "4:1: agent.default_executor.guest: there is no built-in guest \"chat\""),
        (
            "[agent.default_executor.limits]\nfuel = 1000000000001",
            "4:1: agent.default_executor.limits.fuel: 1000000000001 is over the ceiling",
        ),
    ];
    for (text, expected) in rows {
        let faults = resolve(&format!("{AGENT}{text}"), &[]).expect_err(text);
        assert!(faults.len() == 1 && faults[0].contains(expected), "{text}: {faults:?}");
    }
    assert!(resolve("", &[]).expect_err("no agent")[0].contains("there is no [[agent]]"));
    assert!(resolve("agent = 5", &[]).expect_err("no tables")[0].contains("write [[agent]]"));
    assert!(resolve("[agent]\nid = \"a\"", &[]).expect_err("one table")[0].contains("write [[agent]]"));
    assert!(resolve(&" ".repeat(FILE_BYTES_MAX + 1), &[]).expect_err("too long")[0].contains("the limit is 1048576"));
}

/// What later builds bring is refused by name, never silently ignored.
#[test]
fn settings_of_later_builds_are_refused() {
    let rows = [
        ("[http]\nlisten = \"x\"", "this build does not offer [http] yet"),
        ("[store]\nurl = \"postgres://x\"", "this build does not offer [store] yet"),
        ("[hub]", "this build does not offer [hub] yet"),
        ("[session]", "this build does not offer [session] yet"),
        ("[a2a]", "this build does not offer [a2a] yet"),
        ("[launcher]", "this build does not offer [launcher] yet"),
        ("replicas = true", "this build does not offer replicas yet"),
        ("replica = \"x\"", "this build does not offer agent.replica yet"),
        ("owner_policy = { verified = true }", "this build does not offer verified owners yet"),
        ("[agent.a2a]\naccepts_tasks = true", "this build does not offer [agent.a2a] yet"),
        ("[mesh]\nbroker = \"mqtts://b\"", "this build does not offer mqtts:// yet"),
        ("[mesh]\nprotocol = 4", "this build does not offer protocol 4 yet"),
        ("[mesh]\nca = \"x\"", "this build does not offer mesh.ca yet"),
        ("[mesh]\nretain_results = \"7d\"", "this build does not offer retain_results yet"),
        ("[node]\ndirs_root = \"x\"", "this build does not offer node.dirs_root yet"),
        ("[secrets]\nstore = \"file\"", "this build does not offer the secret store file yet"),
        ("[agent.default_executor.grants]\nhttp = []", "this build does not offer agent.default_executor.grants.http yet"),
    ];
    for (text, expected) in rows {
        let faults = resolve(&format!("{AGENT}{text}"), &[]).expect_err(text);
        assert!(faults.len() == 1 && faults[0].contains(expected), "{text}: {faults:?}");
    }
}

/// All faults are told at once.
#[test]
fn faults_are_told_together() {
    let faults = resolve("[mesh]\nroot = \"a.b\"\nmax_depth = 100000000\n[journal]\nsync = \"x\"", &[]).expect_err("three");
    assert!(faults.len() >= 4, "{faults:?}");
}
