//! The command line as a person or a script meets it: exit codes, help, JSON, refusals in one sentence.
//!
//! Owns DESIGN section 4 "Command line" for the commands of this step.

use std::process::{Command, Output};

use house::catalog::{Catalog, mischief};
use house::lab::{AGENT, Lab, OWNER};
use house::node::{command, run};
use serde_json::{Value, json};
use tempfile::TempDir;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

/// A command line that talks to a lab's broker.
fn client(lab: &Lab, args: &[&str]) -> Command {
    let mut command = command(args);
    command.env("AMP_MESH__BROKER", lab.broker.url()).env("AMP_NODE__DATA_DIR", lab.config.dir().join("cli"));
    command.current_dir(lab.config.dir().parent().unwrap());
    command
}

/// DESIGN: every command has --help with an example, on stdout, exit code 0.
#[test]
fn every_command_has_help_with_an_example() {
    for name in ["run", "demo", "check", "config", "invoke", "cancel"] {
        let output = run(&mut command(&[name, "--help"]));
        let help = text(&output.stdout);
        assert_eq!(code(&output), 0, "{name}: {}", text(&output.stderr));
        assert!(help.to_lowercase().contains("example") && help.contains(&format!("amp-node {name}")), "{name}: {help}");
    }
    let output = run(&mut command(&["--help"]));
    assert_eq!(code(&output), 0);
    assert_eq!(code(&run(&mut command(&["--version"]))), 0);
}

/// Exit code 2: usage.
#[test]
fn usage_errors_are_two() {
    for args in [&["no-such-command"][..], &["run", "--no-such-flag"], &["invoke"], &["cancel", "x"], &[]] {
        let output = run(&mut command(args));
        assert_eq!(code(&output), 2, "{args:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty() || args.is_empty(), "{args:?} wrote to stdout");
    }
}

/// Exit code 2: a configuration error is one sentence that says what, where and what to do; an unknown key names the nearest.
#[test]
fn configuration_errors_are_two_and_named() {
    let catalog = Catalog::usual();
    let folder = catalog.path().display();
    let agent = format!("[[agent]]\nid = \"a\"\ncatalog = \"{folder}\"\n");
    let rows = [
        ("[mesh]\nbrokr = \"x\"\n", "broker"),
        ("[limits]\nmax_runing = 3\n", "max_running"),
        ("[limits]\nmax_running = \"many\"\n", "max_running"),
        ("[mesh]\nroot = \"a:b\"\n", "root"),
        ("[mesh]\nbroker = \"http://x\"\n", "broker"),
        ("[journal]\nsync = \"sometimes\"\n", "full"),
        ("not toml", "amp-node.toml"),
    ];
    for (config, word) in rows {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("amp-node.toml");
        std::fs::write(&file, format!("{config}{agent}[node]\ndata_dir = \"{}\"\n", dir.path().join("data").display())).unwrap();
        let output = run(&mut command(&["run", "--config", file.to_str().unwrap()]));
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{config}: {said}");
        assert!(said.contains(word) && said.contains("amp-node.toml"), "{config}: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    let output = run(&mut command(&["run", "--config", "/no/such/file.toml"]));
    assert_eq!(code(&output), 2, "{}", text(&output.stderr));
    let output = run(&mut command(&["run", "/no/such/catalog"]));
    assert_eq!(code(&output), 2, "{}", text(&output.stderr));
}

/// G1-50, G1-13: limits that cannot hold together, and ids that could not be topics, are refused before anything starts.
#[test]
fn impossible_settings_are_refused() {
    let catalog = Catalog::usual();
    let rows = [("id = \"a b\"", "", "id"), ("id = \"a\"", "[limits]\nmax_live = 10\n", "max_live"), ("id = \"a/b\"", "", "id")];
    for (id, rest, word) in rows {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("amp-node.toml");
        std::fs::write(&file, format!("{rest}[[agent]]\n{id}\ncatalog = \"{}\"\n", catalog.path().display())).unwrap();
        let output =
            run(command(&["run", "--config", file.to_str().unwrap()]).env("AMP_NODE__DATA_DIR", dir.path().join("data")));
        assert_eq!(code(&output), 2, "{id}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(word), "{}", text(&output.stderr));
    }
}

/// DESIGN: `config` prints every key with its default and unit, and valid JSON on request; the environment overrides.
#[test]
fn config_prints_every_key() {
    let output = run(command(&["config"]).env("AMP_LIMITS__MAX_QUEUED", "77").env("AMP_SOMETHING", "left alone"));
    let said = text(&output.stdout);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    for key in [
        "data_dir",
        "grace",
        "broker",
        "embedded_listen",
        "max_depth",
        "resend_window",
        "retain_results",
        "max_payload_kb",
        "max_packet_mb",
        "sync",
        "remember",
        "remember_max_mb",
        "timeout_ms",
        "fuel",
        "memory_mb",
        "output_kb",
        "max_running",
        "max_live",
        "max_queued",
        "listen",
        "allow",
        "redact",
        "store",
    ] {
        assert!(said.contains(key), "{key} is missing in {said}");
    }
    assert!(said.contains("77"), "the environment did not override: {said}");
    let output = run(&mut command(&["config", "--json"]));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json.is_object() || json.is_array());
    let output = run(command(&["config"]).env("AMP_LIMITS__MAX_QEUED", "77"));
    assert_eq!(code(&output), 2, "an unknown override was taken: {}", text(&output.stderr));
}

/// Exit codes 0, 3, 4, 5, 6 of `invoke`, with the result as data on stdout.
#[test]
fn invoke_tells_the_ending_by_its_exit_code() {
    let catalog = Catalog::usual();
    catalog.file("brief.json", &mischief("test.brief", json!({"limits": {"timeoutMs": 300}})));
    let lab = Lab::with(catalog, |_| {});
    let rows = [
        ("test.echo", r#"{"text":"hi"}"#, 0, "result"),
        ("test.mischief", r#"{"do":"fail","text":"no"}"#, 3, "error"),
        ("test.brief", r#"{"do":"loop"}"#, 4, "timeout"),
        ("no.such", "{}", 6, "rejected"),
    ];
    for (at, (service, args, expected, kind)) in rows.into_iter().enumerate() {
        let job = format!("cli{at}");
        let output = run(&mut client(
            &lab,
            &["invoke", service, "--agent", AGENT, "--args", args, "--as", OWNER, "--job-id", &job, "--json"],
        ));
        assert_eq!(code(&output), expected, "{service}: {}{}", text(&output.stdout), text(&output.stderr));
        let result: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stdout)));
        assert_eq!((&result["type"], &result["jobId"]), (&json!(kind), &json!(job)));
    }
    lab.cancel(OWNER, "cancelled");
    lab.event(OWNER, "cancelled", "cancel_rejected");
    let args = ["invoke", "test.echo", "--agent", AGENT, "--as", OWNER, "--job-id", "cancelled", "--json"];
    assert_eq!(code(&run(&mut client(&lab, &args))), 5);
}

/// DESIGN: `--arg k=v` builds the arguments; without --agent the agent that offers the service is found.
#[test]
fn invoke_finds_the_agent_and_builds_arguments() {
    let lab = Lab::start();
    let output = run(&mut client(&lab, &["invoke", "test.echo", "--arg", "text=a=b c", "--as", OWNER]));
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("a=b c"), "{}", text(&output.stdout));
    // A near miss is named with what there is (rule 3), and nothing hangs.
    let output = run(&mut client(&lab, &["invoke", "test.ecko", "--as", OWNER, "--timeout", "5"]));
    assert_ne!(code(&output), 0);
    assert!(text(&output.stderr).contains("test.echo"), "{}", text(&output.stderr));
}

/// Exit codes 7 and 8: a duplicate that was not waited out, and an answer that did not come in time.
#[test]
fn invoke_stops_on_duplicate_and_on_its_timeout() {
    let lab = Lab::start();
    lab.invoke("taken", "test.mischief", json!({"do": "sleep", "n": 4000}));
    lab.event(OWNER, "taken", "started");
    let base = ["invoke", "test.echo", "--agent", AGENT, "--as", OWNER, "--job-id", "taken"];
    let output = run(client(&lab, &base).arg("--stop-on-duplicate"));
    assert_eq!(code(&output), 7, "{}", text(&output.stderr));
    let output = run(client(&lab, &base).args(["--timeout", "1"]));
    assert_eq!(code(&output), 8, "{}", text(&output.stderr));
    // By default it waits for the active job's own result (G1-16).
    let output = run(client(&lab, &base).arg("--json"));
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("slept"), "{}", text(&output.stdout));
}

/// `cancel` waits for the final state and says it; cancelling what is not there is a failure with words.
#[test]
fn cancel_ends_a_job() {
    let lab = Lab::start();
    lab.invoke("long", "test.mischief", json!({"do": "sleep", "n": 40_000}));
    lab.event(OWNER, "long", "started");
    let output = run(&mut client(&lab, &["cancel", "long", "--as", OWNER]));
    let seen = (lab.event_types("long"), lab.results(OWNER, "long"));
    assert_eq!(code(&output), 0, "{}{} while the mesh saw {seen:?}", text(&output.stdout), text(&output.stderr));
    assert_eq!(lab.result("long")["type"], "cancelled");
    // Another cancel is answered with silence on the wire (S1-69); the command still says how the job ended.
    let again = run(&mut client(&lab, &["cancel", "long", "--as", OWNER, "--json"]));
    assert_eq!(code(&again), 0, "{}{}", text(&again.stdout), text(&again.stderr));
    assert!(text(&again.stdout).contains("cancelled"), "{}", text(&again.stdout));
}

/// Exit code 9: the broker is not there, said with its address; without a terminal nothing asks and nothing is coloured.
#[test]
fn an_unreachable_broker_is_nine() {
    let port = house::ports::free();
    let url = format!("mqtt://127.0.0.1:{port}");
    for args in [&["invoke", "test.echo", "--agent", AGENT, "--as", OWNER, "--timeout", "5"][..], &["cancel", "x", "--as", OWNER]]
    {
        let dir = TempDir::new().unwrap();
        let output =
            run(command(args).env("AMP_MESH__BROKER", &url).env("AMP_NODE__DATA_DIR", dir.path()).current_dir(dir.path()));
        let said = text(&output.stderr);
        assert_eq!(code(&output), 9, "{args:?}: {said}");
        assert!(said.contains(&port.to_string()), "{said}");
        assert!(!said.contains('\u{1b}'), "colour codes without a terminal: {said:?}");
    }
}

/// `--follow` shows milestones on stderr while stdout stays data.
#[test]
fn follow_shows_milestones_beside_the_data() {
    let lab = Lab::start();
    let args = [
        "invoke",
        "test.mischief",
        "--agent",
        AGENT,
        "--as",
        OWNER,
        "--args",
        r#"{"do":"progress","n":3}"#,
        "--follow",
        "--json",
    ];
    let output = run(&mut client(&lab, &args));
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("step 2"), "{}", text(&output.stderr));
    for line in text(&output.stdout).lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
}

/// The README's first command: `demo` shows a job from invoke to result on the embedded broker and ends by itself.
#[test]
fn the_demo_shows_a_job_and_ends() {
    let dir = TempDir::new().unwrap();
    let mut demo = command(&["demo"]);
    demo.env("AMP_MESH__EMBEDDED_LISTEN", format!("127.0.0.1:{}", house::ports::free())).env("AMP_NODE__DATA_DIR", dir.path());
    demo.env("AMP_OPS__LISTEN", format!("127.0.0.1:{}", house::ports::free())).current_dir(house::node::root());
    let output = run(&mut demo);
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(code(&output), 0, "{said}");
    for word in ["accepted", "started", "result"] {
        assert!(said.contains(word), "{word} is not shown: {said}");
    }
}
