//! Catalogs as data: shapes of a file, what is refused and how it is said, what needs no build.
//!
//! Owns section 11 of the protocol document and G1-55 at the start of a node.

use house::broker::{Broker, Style};
use house::catalog::Catalog;
use house::client::{Client, Outgoing};
use house::lab::{Lab, OWNER};
use house::node::{Node, binary, command, root};
use serde_json::{Value, json};
use tempfile::TempDir;

/// S1-03, S1-71, S1-74, DC-01: a file holds one entry, an array, or an object of capabilities, each plain data.
#[test]
fn a_file_has_three_shapes() {
    let catalog = Catalog::usual();
    let entry =
        |service: &str| json!({"service": service, "description": "Shape.", "requestSchema": {"n": "number"}, "prompt": "{{n}}"});
    catalog.file("one.json", &entry("shape.one"));
    catalog.file("many.json", &json!([entry("shape.two"), entry("shape.three")]));
    catalog.file("object.json", &json!({"capabilities": [entry("shape.four")]}));
    let lab = Lab::with(catalog, |_| {});
    for service in ["shape.one", "shape.two", "shape.three", "shape.four"] {
        assert_eq!(lab.ask(service, service, json!({"n": 7}))["prompt"], "7");
    }
}

/// S1-71: a request schema may be a JSON Schema too, and strict holds requests to it.
#[test]
fn a_json_schema_is_enforced_when_strict() {
    let catalog = Catalog::usual();
    let schema = json!({"type": "object", "required": ["pr"], "properties": {"pr": {"type": "integer", "minimum": 1}}});
    catalog.file(
        "strict.json",
        &json!({"service": "test.strict", "description": "Strict.", "requestSchema": schema, "strict": true, "prompt": "{{pr}}"}),
    );
    let lab = Lab::with(catalog, |_| {});
    assert_eq!(lab.ask("good", "test.strict", json!({"pr": 42}))["prompt"], "42");
    for (at, args) in [json!({"pr": 0}), json!({"pr": "42"}), json!({})].into_iter().enumerate() {
        let result = lab.ask(&format!("bad{at}"), "test.strict", args);
        assert_eq!((&result["type"], &result["reason"]), (&json!("rejected"), &json!("schema")), "{result}");
    }
    let profile = lab.late("agents/registry/dba/profile")[0].json.clone();
    let shown = profile["capabilities"].as_array().unwrap().iter().find(|c| c["service"] == "test.strict").unwrap().clone();
    assert_eq!(shown["requestSchema"], schema);
}

/// S1-79, S1-80, DESIGN "grants and limits never leave the node": the profile shows three members of an entry and no more.
#[test]
fn the_profile_shows_no_prompt_limits_or_grants() {
    let catalog = Catalog::usual();
    catalog.file(
        "private.json",
        &json!({"service": "test.private", "description": "Private parts.", "prompt": "canary-prompt ${HOST}",
        "limits": {"timeoutMs": 1234}, "idempotent": false}),
    );
    let lab = Lab::with(catalog, |config| {
        config.set("vars.HOST", "canary-host");
    });
    lab.ask("private", "test.private", json!({}));
    for message in lab.late("agents/registry/#") {
        let text = String::from_utf8_lossy(&message.payload).into_owned();
        for canary in ["canary-prompt", "canary-host", "1234", "\"idempotent\"", "\"prompt\"", "\"executor\"", "\"limits\""] {
            assert!(!text.contains(canary), "{canary} stands on {}: {text}", message.topic);
        }
    }
}

/// U19, G1-9, G1-55, G1-57: hostile or mistaken entries are refused one by one; the node and its other entries live.
#[test]
fn hostile_entries_are_refused_alone() {
    let catalog = Catalog::usual();
    let blocks = format!("{}{}", "{{#if a}}".repeat(10_000), "{{/if}}".repeat(10_000));
    let long = "x".repeat(70 * 1024);
    let hostile = [
        "{{> self}}",
        "{{#> a}}{{#> b}}{{/b}}{{/a}}",
        blocks.as_str(),
        "{{{{raw}}}}x{{{{/raw}}}}",
        "{{* deco}}",
        "{{lookup a b}}",
        "{{log a}}",
        "{{no_such_helper a}}",
        "{{#if}}",
        "{{",
        "{{a",
        "${",
        "${1BAD}",
        long.as_str(),
    ];
    for (at, prompt) in hostile.iter().enumerate() {
        let entry = json!({"service": format!("bad.number{at}"), "description": "Hostile.", "prompt": prompt});
        catalog.file(&format!("bad{at}.json"), &entry);
    }
    catalog.file(
        "grant.json",
        &json!({"service": "bad.grant", "description": "Unknown grant.", "prompt": "x", "grants": {"teleport": true}}),
    );
    catalog.file("field.json", &json!({"service": "bad.field", "description": "Unknown field.", "promt": "x"}));
    catalog.file(
        "escape.json",
        &json!({"service": "bad.escape", "description": "Leaves its folder.", "prompt": "", "executor": "../x.wasm"}),
    );
    catalog.text("deep.json", &format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)));
    catalog.text("wasm.json", r#"{"service": "bad.wasm", "description": "Not a guest.", "prompt": "", "executor": "no.wasm"}"#);
    catalog.text("no.wasm", "this is not WebAssembly");
    let mut lab = Lab::with(catalog, |_| {});
    assert_eq!(lab.ask("fine", "test.echo", json!({"text": "x"}))["prompt"], "x");
    let profile = lab.late("agents/registry/dba/profile")[0].json.to_string();
    assert!(!profile.contains("bad."), "{profile}");
    // Health is degraded and names them.
    let (_, page) = lab.node().page("/readyz").unwrap();
    for file in ["bad0.json", "grant.json", "deep.json", "no.wasm"] {
        assert!(page.contains(file), "{file} is not named in {page}");
    }
}

/// DC-01b, G1-56, S1-71: the document's own sample entry, alone in a folder, without a configuration file: it is advertised,
/// runs in WebAssembly on the embedded broker, and gives one retained result.
#[test]
fn the_documents_sample_runs_alone() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("reviewer");
    std::fs::create_dir(&folder).unwrap();
    let sample = json!({"service": "schema.review", "description": "Reviews a migration for lock risk.",
        "requestSchema": {"migration": "string"}, "prompt": "Review migration {{migration}}. Flag lock risk and missing indexes."});
    std::fs::write(folder.join("sample.json"), sample.to_string()).unwrap();
    let (mesh, ops) = (house::ports::free(), house::ports::free());
    let mut run = command(&["run", folder.to_str().unwrap()]);
    run.env("AMP_MESH__EMBEDDED_LISTEN", format!("127.0.0.1:{mesh}")).env("AMP_OPS__LISTEN", format!("127.0.0.1:{ops}"));
    run.env("AMP_NODE__DATA_DIR", dir.path().join("data")).current_dir(dir.path());
    let mut node = Node::spawn(run, dir.path(), ops);
    node.wait_ready();
    let client = Client::connect(mesh);
    client.subscribe("#");
    let profile = client.next(0, "a profile", |m| m.topic.ends_with("/profile"));
    assert_eq!(profile.json["capabilities"][0]["service"], "schema.review");
    let agent = profile.json["agentId"].as_str().unwrap();
    let invoke = json!({"service": "schema.review", "args": {"migration": "V7"}, "requestedBy": OWNER, "jobId": "m1"});
    client.publish(Outgoing::new(format!("agents/commands/{agent}/invoke"), invoke.to_string()));
    let result = client.next(0, "the result", |m| m.topic == "agents/jobs/alice/m1/result");
    assert_eq!(result.json["prompt"], "Review migration V7. Flag lock risk and missing indexes.");
    assert!(result.json["usage"]["guest"].as_str().is_some_and(|guest| guest.starts_with("sha256:")));
    let late = house::lab::late(mesh, "agents/jobs/alice/m1/#");
    assert_eq!(late.len(), 1);
    assert_eq!(node.stop().code(), Some(0), "{}", node.log());
}

/// DC-12: the binary and a catalogs folder alone run; nothing of the source tree is needed.
#[test]
fn the_binary_and_a_catalog_are_enough() {
    let dir = TempDir::new().unwrap();
    let copy = dir.path().join("amp-node");
    std::fs::copy(binary(), &copy).unwrap();
    copy_folder(&root().join("catalogs/demo"), &dir.path().join("catalogs/demo"));
    let broker = Broker::start(Style::Bench);
    let ops = house::ports::free();
    let mut run = std::process::Command::new(&copy);
    run.args(["run", "catalogs/demo"]).env_clear().current_dir(dir.path()).env("AMP_MESH__BROKER", broker.url());
    run.env("AMP_OPS__LISTEN", format!("127.0.0.1:{ops}")).env("AMP_NODE__DATA_DIR", dir.path().join("data"));
    let mut node = Node::spawn(run, dir.path(), ops);
    node.wait_ready();
    let client = Client::connect(broker.port());
    client.subscribe("agents/#");
    let profile = client.next(0, "a profile", |m| m.topic.ends_with("/profile") && !m.payload.is_empty()).json;
    let agent = profile["agentId"].as_str().unwrap().to_owned();
    for (at, capability) in profile["capabilities"].as_array().unwrap().iter().enumerate() {
        let invoke = json!({"service": capability["service"], "args": {}, "requestedBy": OWNER, "jobId": format!("d{at}")});
        client.publish(Outgoing::new(format!("agents/commands/{agent}/invoke"), invoke.to_string()));
        let result = client.next(0, "the result", |m| m.topic == format!("agents/jobs/alice/d{at}/result"));
        assert_ne!(result.json["type"], Value::Null, "{}", result.json);
        assert_ne!(result.json["reason"], "unknown_service", "{}", result.json);
    }
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// S1-73b, S1-02: a second agent is a table in the configuration; both answer, each on topics of its own.
#[test]
fn a_second_agent_needs_no_build() {
    let second = Catalog::empty();
    second.file("two.json", &json!({"service": "other.job", "description": "Of the second agent.", "prompt": "second {{n}}"}));
    let lab = Lab::with(Catalog::usual(), |config| {
        config.agent("linter", second.path()).default_prompt();
    });
    lab.client.next(0, "the second agent", |m| m.topic == "agents/registry/linter/status" && m.json["status"] == "online");
    let body = json!({"service": "other.job", "args": {"n": 2}, "requestedBy": OWNER, "jobId": "two"}).to_string();
    lab.client.publish(Outgoing::new("agents/commands/linter/invoke", body));
    assert_eq!(lab.result("two")["prompt"], "second 2");
    assert_eq!(lab.ask("one", "other.job", json!({}))["reason"], "unknown_service", "the first agent does not offer it");
}
