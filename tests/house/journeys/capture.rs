//! What a listener on `#` sees of a node that does nothing, and what the machine sees of its sockets.
//!
//! Owns S1-20 and S1-01b. That every other test's capture holds only the topics of the map is the audit's work.

use std::collections::BTreeSet;
use std::time::Duration;

use house::catalog::Catalog;
use house::lab::Lab;
use serde_json::json;

fn idle() -> Duration {
    let seconds = std::env::var("HOUSE_IDLE_S").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    Duration::from_secs(seconds)
}

/// S1-20, S1-C2: an idle node publishes nothing at all; there is no heartbeat on any topic.
#[test]
fn an_idle_node_is_silent() {
    let lab = Lab::start();
    lab.settle("before");
    let late = lab.late("#").len();
    let mark = lab.client.mark();
    std::thread::sleep(idle());
    let heard = lab.client.since(mark);
    let heard: Vec<_> = heard.iter().filter(|m| !m.topic.starts_with("probe/")).collect();
    assert!(heard.is_empty(), "{heard:?}");
    assert_eq!(lab.late("#").len(), late);
}

/// Inodes of the sockets a process holds.
fn sockets(pid: u32) -> BTreeSet<String> {
    let links =
        std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect()
}

/// Local ports a process listens on, and how many connections it has made.
fn listening_and_connected(pid: u32) -> (Vec<String>, usize) {
    let ours = sockets(pid);
    let mut listening = Vec::new();
    let mut connected = 0;
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for fields in text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>()) {
            if fields.get(9).is_some_and(|inode| ours.contains(*inode)) {
                match fields[3] {
                    "0A" => listening.push(fields[1].to_owned()),
                    "01" => connected += 1,
                    _ => {}
                }
            }
        }
    }
    (listening, connected)
}

/// S1-01, S1-01b: with an external broker and no ops pages the process listens on nothing, holds one connection for its agent,
/// and works.
#[test]
fn an_agent_is_never_a_server() {
    let mut lab = Lab::with(Catalog::usual(), |config| {
        config.set("ops.listen", "");
    });
    assert_eq!(lab.ask("one", "test.echo", json!({"text": "x"}))["prompt"], "x");
    let (listening, connected) = listening_and_connected(lab.node().pid());
    assert!(listening.is_empty(), "it listens on {listening:?}");
    assert_eq!(connected, 1);
}
