//! Catalogs, settings and agents that change under a running node.
//!
//! Owns DC-07, G1-55 and U28 as an operator sees them: files are edited, and what is advertised and run follows.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use house::broker::{Broker, Options, Style};
use house::catalog::{Catalog, MISCHIEF, mischief};
use house::lab::{AGENT, Lab};
use house::until;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A change must be live within this, however the file was saved (U28).
const LIVE_WITHIN: Duration = Duration::from_secs(2);

/// A lab whose catalog folder lies in a folder that the test owns too, so that the folder itself can be replaced.
struct World {
    lab: Lab,
    top: TempDir,
    marks: usize,
}

impl World {
    fn new() -> Self {
        let top = TempDir::with_prefix("house-reload-").unwrap();
        let folder = top.path().join("agent");
        fs::create_dir(&folder).unwrap();
        write(&folder, "live.json", &entry("test.live", "first"));
        write(&folder, "echo.json", &json!({"service": "test.echo", "prompt": "{{text}}"}).to_string());
        let mut lab = Lab::prepared(Broker::start(Style::Bench), Catalog::empty(), |config| {
            config.agent_set("catalog", folder.to_str().unwrap());
        });
        lab.up();
        Self { lab, top, marks: 0 }
    }

    fn folder(&self) -> PathBuf {
        self.top.path().join("agent")
    }

    /// Makes a change and waits until the profile shows this description, in time.
    fn becomes(&mut self, how: &str, description: &str, change: impl FnOnce(&Path)) {
        let mark = self.lab.client.mark();
        let began = Instant::now();
        change(&self.folder());
        self.lab.client.next(mark, &format!("{how}: the profile to say {description}"), |message| {
            message.topic == format!("agents/registry/{AGENT}/profile")
                && described(&message.json, "test.live") == json!(description)
        });
        let took = began.elapsed();
        assert!(took < LIVE_WITHIN, "{how} was live after {took:?}");
        self.marks += 1;
        let job = format!("live-{}", self.marks);
        assert_eq!(self.lab.ask(&job, "test.live", json!({}))["prompt"], description, "{how}");
    }
}

fn entry(service: &str, text: &str) -> String {
    json!({"service": service, "description": text, "prompt": text}).to_string()
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).unwrap();
}

fn described(profile: &Value, service: &str) -> Value {
    let capabilities = profile["capabilities"].as_array().cloned().unwrap_or_default();
    capabilities.into_iter().find(|c| c["service"] == service).map(|c| c["description"].clone()).unwrap_or_default()
}

/// Profiles of the agent since a mark.
fn profiles(lab: &Lab, mark: usize) -> Vec<Value> {
    let topic = format!("agents/registry/{AGENT}/profile");
    lab.client.since(mark).into_iter().filter(|m| m.topic == topic && !m.payload.is_empty()).map(|m| m.json).collect()
}

/// Waits for a profile since a mark that pleases.
fn profile_where(lab: &Lab, mark: usize, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let topic = format!("agents/registry/{AGENT}/profile");
    lab.client.next(mark, what, |m| m.topic == topic && !m.payload.is_empty() && is(&m.json)).json
}

/// U28, DC-07, S1-73, G1-36: in place, renamed over, an editor's way, swapped links twice, deleted and made again, broken and mended,
/// the folder itself replaced: each is live within two seconds, with no restart.
#[test]
fn every_way_of_saving_is_seen() {
    let mut world = World::new();
    world.becomes("in place", "second", |folder| write(folder, "live.json", &entry("test.live", "second")));
    world.becomes("renamed over", "third", |folder| {
        write(folder, ".live.json.tmp", &entry("test.live", "third"));
        fs::rename(folder.join(".live.json.tmp"), folder.join("live.json")).unwrap();
    });
    world.becomes("an editor's way", "fourth", |folder| {
        fs::rename(folder.join("live.json"), folder.join("live.json~")).unwrap();
        write(folder, "live.json", &entry("test.live", "fourth"));
        fs::remove_file(folder.join("live.json~")).unwrap();
    });
    world.becomes("into mounted links", "fifth", |folder| {
        fs::create_dir(folder.join("..v5")).unwrap();
        write(&folder.join("..v5"), "live.json", &entry("test.live", "fifth"));
        symlink("..v5", folder.join("..data")).unwrap();
        fs::remove_file(folder.join("live.json")).unwrap();
        symlink("..data/live.json", folder.join("live.json")).unwrap();
    });
    for (version, text) in [("..v6", "sixth"), ("..v7", "seventh")] {
        world.becomes("swapped links", text, |folder| {
            fs::create_dir(folder.join(version)).unwrap();
            write(&folder.join(version), "live.json", &entry("test.live", text));
            symlink(version, folder.join("..next")).unwrap();
            fs::rename(folder.join("..next"), folder.join("..data")).unwrap();
        });
    }
    let mark = world.lab.client.mark();
    fs::remove_file(world.folder().join("live.json")).unwrap();
    profile_where(&world.lab, mark, "it to be gone", |profile| described(profile, "test.live").is_null());
    assert_eq!(world.lab.ask("gone", "test.live", json!({}))["reason"], "unknown_service");
    world.becomes("made again", "eighth", |folder| write(folder, "live.json", &entry("test.live", "eighth")));
    write(&world.folder(), "live.json", &entry("test.live", "half")[..20]);
    world.lab.node().wait_log("rejected, keeping its last good entry");
    assert_eq!(world.lab.ask("kept", "test.live", json!({}))["prompt"], "eighth");
    world.becomes("mended", "ninth", |folder| write(folder, "live.json", &entry("test.live", "ninth")));
    world.becomes("the folder replaced", "tenth", |folder| {
        let other = folder.with_extension("next");
        fs::create_dir(&other).unwrap();
        write(&other, "live.json", &entry("test.live", "tenth"));
        write(&other, "echo.json", &json!({"service": "test.echo", "prompt": "{{text}}"}).to_string());
        fs::rename(folder, folder.with_extension("old")).unwrap();
        fs::rename(&other, folder).unwrap();
    });
    world.becomes("in the new folder", "eleventh", |folder| write(folder, "live.json", &entry("test.live", "eleventh")));
    world.lab.settle("end");
}

/// DC-07, G1-55: a changed guest is checked before the swap, jobs that run keep theirs, and the receipt names which one ran.
#[test]
fn a_changed_guest_is_swapped_under_running_jobs() {
    let catalog = Catalog::usual();
    catalog.file(
        "own.json",
        &json!({"service": "test.own", "prompt": "new guest", "executor": "own.wasm",
        "limits": {"timeoutMs": 4000, "fuel": 900_000_000_000_u64}}),
    );
    fs::copy(catalog.path().join(MISCHIEF), catalog.path().join("own.wasm")).unwrap();
    let mut lab = Lab::with(catalog, |_| {});
    lab.invoke("runs", "test.own", json!({"do": "loop"}));
    lab.event("alice", "runs", "started");
    let mark = lab.client.mark();
    write(lab.catalog.path(), "own.wasm", "not wasm at all");
    lab.node().wait_log("rejected, keeping entry");
    let old = lab.ask("still", "test.own", json!({"do": "ways"}));
    assert_eq!(old["type"], "result", "{old}");
    let (_, ready) = lab.node().page("/readyz").unwrap();
    assert!(ready.contains("own.wasm"), "{ready}");
    assert_eq!(profiles(&lab, mark).len(), 0, "nothing changed for requesters");

    let prompt = house::node::root().join("guests/prompt/prompt.wasm");
    fs::copy(prompt, lab.catalog.path().join("own.wasm")).unwrap();
    profile_where(&lab, mark, "the profile after the swap", |_| true);
    let new = lab.ask("new", "test.own", json!({}));
    assert_eq!(new["prompt"], "new guest");
    let ended = lab.result("runs");
    assert_eq!((&ended["type"], &ended["usage"]["guest"]), (&json!("timeout"), &old["usage"]["guest"]));
    assert_ne!(new["usage"]["guest"], old["usage"]["guest"]);
    lab.node().wait_log("test.own changed, guest ");
    until("health to be fine again", || lab.node.as_ref()?.page("/readyz").filter(|(_, page)| !page.contains("own.wasm")));
}

/// G1-55, S1-16: what is bad keeps its last good version, what is deleted goes, of two the live one stays; a line each.
#[test]
fn one_bad_entry_costs_nothing_but_itself() {
    let catalog = Catalog::usual();
    let good = |text: &str| json!({"service": "test.a", "prompt": text});
    catalog.file("a.json", &json!([good("one"), {"service": "test.b", "prompt": "b"}]));
    let mut lab = Lab::with(catalog, |_| {});
    let mark = lab.client.mark();
    lab.catalog.file("a.json", &json!([{"service": "test.a", "prompt": "{{> bad}}"}, {"service": "test.b", "prompt": "b2"}]));
    profile_where(&lab, mark, "the profile", |_| true);
    lab.node().wait_log("rejected, keeping entry");
    assert_eq!(lab.ask("a", "test.a", json!({}))["prompt"], "one");
    assert_eq!(lab.ask("b", "test.b", json!({}))["prompt"], "b2");
    lab.catalog.file("second.json", &good("another"));
    lab.node().wait_log("the service stands at");
    assert_eq!(lab.ask("a2", "test.a", json!({}))["prompt"], "one");
    let mark = lab.client.mark();
    lab.catalog.file("a.json", &json!([]));
    profile_where(&lab, mark, "the second to take over", |profile| described(profile, "test.b").is_null());
    assert_eq!(lab.ask("a3", "test.a", json!({}))["prompt"], "another");
    assert_eq!(lab.ask("b3", "test.b", json!({}))["reason"], "unknown_service");
    lab.node().wait_log("test.b removed, was entry ");
}

/// G1-36: the profile is published again after a change, and only then: the same bytes written again are none.
#[test]
fn the_profile_follows_changes_and_nothing_else() {
    let lab = Lab::start();
    let mark = lab.client.mark();
    let usual = fs::read_to_string(lab.catalog.path().join("usual.json")).unwrap();
    for _ in 0..5 {
        lab.catalog.text("usual.json", &usual);
        lab.catalog.text("notes.txt", "nobody reads this");
        fs::File::open(lab.catalog.path().join("usual.json")).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
        lab.settle(&format!("{:?}", Instant::now()).replace(['/', '+', '#'], "-"));
    }
    lab.catalog.text("more.json", &entry("test.more", "more"));
    profile_where(&lab, mark, "the one change", |profile| described(profile, "test.more") == "more");
    lab.settle("end");
    assert_eq!(profiles(&lab, mark).len(), 1);
}

/// DC-06b: a link that leads out of the folder is that entry's error when it appears under a running node, and nothing of the
/// file behind it is shown.
#[test]
fn a_link_that_leads_out_is_refused_later_too() {
    let mut lab = Lab::start();
    let outside = TempDir::new().unwrap();
    write(outside.path(), "secret.json", &entry("test.outside", "outside-words"));
    symlink(outside.path().join("secret.json"), lab.catalog.path().join("out.json")).unwrap();
    lab.node().wait_log("out.json leads out of the catalog folder");
    lab.catalog.file("up.json", &mischief("test.up", json!({"executor": "../up.wasm"})));
    lab.node().wait_log("rejected, left out: ");
    assert_eq!(lab.ask("out", "test.outside", json!({}))["reason"], "unknown_service");
    lab.settle("fine");
    assert!(!lab.node().log().contains("outside-words"));
}

/// S1-78, DESIGN section 4: variables and limits apply to the next job, other settings are told to need a restart, a broken file
/// keeps what was in force.
#[test]
fn live_settings_apply_at_once() {
    let catalog = Catalog::usual();
    catalog.file("var.json", &json!({"service": "test.var", "prompt": "${TEAM} and ${HOUSE_REGION}"}));
    catalog.file("slow.json", &mischief("test.slow", json!({})));
    let mut lab = Lab::with(catalog, |config| {
        config.set("vars.TEAM", "red").set("vars.HOUSE_REGION", "north").set("limits.max.fuel", 2_000_000_000_000_i64);
        config.set("limits.fuel", 1_000_000_000_000_i64);
    });
    assert_eq!(lab.ask("one", "test.var", json!({}))["prompt"], "red and north");
    let path = lab.config.set("vars.TEAM", "blue").set("limits.timeout_ms", 300).set("mesh.max_depth", 5).write();
    lab.node().wait_log("configuration: limits.timeout_ms: 60000 -> 300");
    lab.node().wait_log("configuration: mesh.max_depth: 4 -> 5, needs a restart");
    lab.node().wait_log("configuration: vars.TEAM: (a value) -> (another value)");
    lab.node().wait_log("test.slow changed, entry ");
    assert_eq!(lab.ask("two", "test.var", json!({}))["prompt"], "blue and north");
    let slow = lab.ask("slow", "test.slow", json!({"do": "loop"}));
    assert_eq!((&slow["type"], &slow["reason"]), (&json!("timeout"), &json!("deadline")));
    let good = fs::read_to_string(&path).unwrap();
    fs::write(&path, format!("{good}\n[limits]\ntimout_ms = 1\n")).unwrap();
    lab.node().wait_log("configuration rejected, keeping what was in force");
    assert!(lab.node().page("/readyz").unwrap().1.contains("configuration"));
    assert_eq!(lab.ask("three", "test.var", json!({}))["prompt"], "blue and north");
    fs::write(&path, good).unwrap();
    lab.node().wait_log("the configuration file is fine again");
}

/// S1-73b: an agent that is added to the file joins while the node runs, as soon as its folder is there.
#[test]
fn an_added_agent_joins() {
    let mut lab = Lab::start();
    let top = TempDir::new().unwrap();
    let folder = top.path().join("second");
    let mark = lab.client.mark();
    lab.config.agent("second", &folder).default_prompt().write();
    lab.node().wait_log("agent not added yet");
    fs::create_dir(&folder).unwrap();
    write(&folder, "hello.json", &entry("test.hello", "hello from the second"));
    lab.client.next(mark, "second to be online", |m| m.topic == "agents/registry/second/status" && m.json["status"] == "online");
    let body = json!({"service": "test.hello", "args": {}, "requestedBy": "alice", "jobId": "hello"}).to_string();
    lab.client.publish(house::client::Outgoing::new("agents/commands/second/invoke", body));
    assert_eq!(lab.result("hello")["prompt"], "hello from the second");
    write(&folder, "hello.json", &entry("test.hello", "changed"));
    lab.client.next(mark, "its change", |m| {
        m.topic == "agents/registry/second/profile" && described(&m.json, "test.hello") == "changed"
    });
    lab.node().wait_log("agent added");
    assert!(lab.stop().success());
    let cleared =
        lab.client.next(mark, "second to leave", |m| m.topic == "agents/registry/second/profile" && m.payload.is_empty());
    assert!(cleared.payload.is_empty());
}

/// A profile that the broker would not take is refused with a sentence: the connection stays, the old one stands, jobs go on.
#[test]
fn a_profile_too_large_is_a_sentence() {
    let broker = Broker::with(Style::Bench, &Options { lines: vec!["max_packet_size 40000".into()], ..Options::default() });
    let mut lab = Lab::prepared(broker, Catalog::usual(), |_| {});
    lab.up();
    let entries: Vec<Value> =
        (0..400).map(|at| json!({"service": format!("test.n{at}"), "description": "x".repeat(100), "prompt": "many"})).collect();
    lab.catalog.file("many.json", &json!(entries));
    lab.node().wait_log("and the broker takes packets of 40000");
    assert_eq!(lab.ask("many", "test.n7", json!({}))["prompt"], "many");
    assert!(described(&lab.late("agents/registry/dba/profile")[0].json, "test.echo") == "Answers with its prompt.");
    assert!(lab.node().page("/readyz").unwrap().1.contains("let the agent offer less"));
    let mark = lab.client.mark();
    lab.catalog.file("many.json", &json!(entries[..3]));
    profile_where(&lab, mark, "a profile that fits", |profile| !described(profile, "test.n2").is_null());
    assert_eq!(lab.broker.log().matches("as amp:agents:dba").count(), 1, "one connection throughout");
}
