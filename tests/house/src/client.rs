//! A typed handle on the paho driver: an MQTT client that shares no code with the node.
//!
//! Owns the driver process, what it has seen so far, and waiting for more. It must not know the meaning of a topic.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use serde_json::{Value, json};

use crate::WAIT;
use crate::process::Process;

const SCRIPT: &str = include_str!("driver.py");
/// Debian's Python, which is the one that has the package python3-paho-mqtt.
const PYTHON: &str = "/usr/bin/python3";
/// How many of the last messages a failed wait shows.
const SHOWN: usize = 25;

static CLIENTS: AtomicU64 = AtomicU64::new(0);

/// One message the client received.
#[derive(Debug, Clone)]
pub struct Message {
    /// Where it was published.
    pub topic: String,
    /// Its bytes.
    pub payload: Vec<u8>,
    /// Its bytes as JSON, null when they are none.
    pub json: Value,
    /// The lower of the publisher's and the subscription's quality of service.
    pub qos: u64,
    /// The retain flag: as published, since the driver asks for that.
    pub retain: bool,
    /// When it arrived here.
    pub at: Instant,
}

/// A message to publish.
#[derive(Debug, Clone)]
pub struct Outgoing {
    topic: String,
    order: Value,
}

impl Outgoing {
    /// A message with QoS 1, not retained.
    pub fn new(topic: impl Into<String>, payload: impl AsRef<[u8]>) -> Self {
        let topic = topic.into();
        let payload: String = payload.as_ref().iter().map(|byte| char::from(*byte)).collect();
        Self { order: json!({"topic": topic, "payload": payload}), topic }
    }

    /// With the retain flag.
    pub fn retained(mut self) -> Self {
        self.order["retain"] = json!(true);
        self
    }

    /// With another quality of service.
    pub fn qos(mut self, qos: u8) -> Self {
        self.order["qos"] = json!(qos);
        self
    }

    /// With a message expiry in seconds.
    pub fn expires(mut self, seconds: u32) -> Self {
        self.order["expiry"] = json!(seconds);
        self
    }

    /// With a Response Topic.
    pub fn respond(mut self, topic: &str) -> Self {
        self.order["respond"] = json!(topic);
        self
    }

    /// The topic it goes to.
    pub fn topic(&self) -> &str {
        &self.topic
    }
}

#[derive(Debug, Default)]
struct Seen {
    messages: Vec<Message>,
    replies: HashMap<u64, Option<String>>,
    /// Connections made, each with whether the broker knew the session.
    ups: Vec<bool>,
    gone: bool,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
}

/// How to connect.
#[derive(Debug, Clone)]
pub struct Login {
    /// Client id; the default is unique in this process.
    pub id: String,
    /// Protocol level, 5 or 4.
    pub version: u8,
    /// Whether the broker starts a new session.
    pub clean: bool,
    /// User name and password.
    pub user: Option<(String, String)>,
}

impl Default for Login {
    fn default() -> Self {
        let number = CLIENTS.fetch_add(1, Ordering::Relaxed);
        Self { id: format!("witness-{}-{number}", std::process::id()), version: 5, clean: true, user: None }
    }
}

/// A connected client.
#[derive(Debug)]
pub struct Client {
    _process: Process,
    stdin: Mutex<ChildStdin>,
    shared: Arc<Shared>,
    orders: AtomicU64,
}

impl Client {
    /// Connects to a port of this machine with MQTT 5 and a new session.
    pub fn connect(port: u16) -> Self {
        Self::login(port, &Login::default())
    }

    /// Connects with everything chosen.
    pub fn login(port: u16, login: &Login) -> Self {
        let mut command = Command::new(PYTHON);
        command.args(["-u", "-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn().expect("no Python at /usr/bin/python3: are python3 and python3-paho-mqtt installed?");
        let mut process = Process::new(child);
        let stdin = process.child().stdin.take().unwrap();
        let stdout = process.child().stdout.take().unwrap();
        let shared = Arc::new(Shared::default());
        let reading = Arc::clone(&shared);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Ok(line) = line else { break };
                reading.take(&line);
            }
            reading.seen.lock().unwrap().gone = true;
            reading.changed.notify_all();
        });
        let client = Self { _process: process, stdin: Mutex::new(stdin), shared, orders: AtomicU64::new(0) };
        let (user, password) = login.user.clone().map_or((Value::Null, Value::Null), |(u, p)| (json!(u), json!(p)));
        client.order(json!({"op": "connect", "host": "127.0.0.1", "port": port, "id": login.id, "v": login.version,
            "clean": login.clean, "user": user, "pass": password}));
        client.wait_ups(1);
        client
    }

    /// Subscribes with QoS 2, so that every message shows the QoS it was published with.
    pub fn subscribe(&self, filter: &str) {
        self.order(json!({"op": "subscribe", "topic": filter}));
    }

    /// Publishes and waits for the broker's acknowledgement.
    pub fn publish(&self, message: Outgoing) {
        self.publish_all(vec![message]);
    }

    /// Publishes all in one burst and waits until all are acknowledged.
    pub fn publish_all(&self, messages: Vec<Outgoing>) {
        let orders: Vec<Value> = messages.into_iter().map(|message| message.order).collect();
        self.order(json!({"op": "publish", "messages": orders}));
    }

    /// Publishes all in one burst and does not wait.
    pub fn send_all(&self, messages: Vec<Outgoing>) {
        let orders: Vec<Value> = messages.into_iter().map(|message| message.order).collect();
        self.write(json!({"op": "publish", "messages": orders}));
    }

    /// Leaves with a DISCONNECT.
    pub fn disconnect(&self) {
        self.order(json!({"op": "disconnect"}));
    }

    /// Waits until this client has connected `count` times in all.
    pub fn wait_ups(&self, count: usize) {
        self.wait(&format!("connection number {count}"), |seen| (seen.ups.len() >= count).then_some(()));
    }

    /// How many messages arrived so far: a place from which to look on.
    pub fn mark(&self) -> usize {
        self.lock().messages.len()
    }

    /// All messages from a mark on.
    pub fn since(&self, mark: usize) -> Vec<Message> {
        self.lock().messages.get(mark..).unwrap_or_default().to_vec()
    }

    /// All messages.
    pub fn all(&self) -> Vec<Message> {
        self.since(0)
    }

    /// Waits until `find` finds what it looks for among all messages.
    pub fn find<T>(&self, what: &str, mut find: impl FnMut(&[Message]) -> Option<T>) -> T {
        self.wait(what, |seen| find(&seen.messages))
    }

    /// Waits for the first message from a mark on that `is` accepts.
    pub fn next(&self, mark: usize, what: &str, is: impl Fn(&Message) -> bool) -> Message {
        // Each message is looked at once, however many arrive meanwhile.
        let mut next = mark;
        self.wait(what, |seen| {
            let fresh = seen.messages.get(next..).unwrap_or_default();
            next = seen.messages.len().max(next);
            fresh.iter().find(|message| is(message)).cloned()
        })
    }

    /// Waits until `count` messages from a mark on are accepted by `is`, and returns them.
    pub fn collect(&self, mark: usize, count: usize, what: &str, is: impl Fn(&Message) -> bool) -> Vec<Message> {
        let mut next = mark;
        let mut found: Vec<Message> = Vec::new();
        let end = Instant::now() + WAIT;
        let mut seen = self.lock();
        loop {
            found.extend(seen.messages.get(next..).unwrap_or_default().iter().filter(|message| is(message)).cloned());
            next = seen.messages.len().max(next);
            if found.len() >= count {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !seen.gone, "only {} of {count} came of {what}\n{}", found.len(), show(&seen.messages));
            seen = self.shared.changed.wait_timeout(seen, left).unwrap().0;
        }
    }

    fn wait<T>(&self, what: &str, mut ready: impl FnMut(&Seen) -> Option<T>) -> T {
        let end = Instant::now() + WAIT;
        let mut seen = self.lock();
        loop {
            if let Some(found) = ready(&seen) {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || seen.gone {
                let why = if seen.gone { "the driver is gone" } else { "nothing came" };
                let shown = show(&seen.messages);
                drop(seen);
                panic!("waited in vain for {what}: {why}\n{shown}");
            }
            seen = self.shared.changed.wait_timeout(seen, left).unwrap().0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.shared.seen.lock().unwrap()
    }

    fn write(&self, mut order: Value) -> u64 {
        let number = self.orders.fetch_add(1, Ordering::Relaxed);
        order["n"] = json!(number);
        let mut stdin = self.stdin.lock().unwrap();
        writeln!(stdin, "{order}").and_then(|()| stdin.flush()).expect("the driver is gone");
        number
    }

    fn order(&self, order: Value) {
        let name = order["op"].clone();
        let number = self.write(order);
        let fault = self.wait(&format!("the driver to {name}"), |seen| seen.replies.get(&number).cloned());
        assert!(fault.is_none(), "the driver could not {name}: {fault:?}");
    }
}

impl Shared {
    fn take(&self, line: &str) {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        let mut seen = self.seen.lock().unwrap();
        if let Some(number) = line["reply"].as_u64() {
            seen.replies.insert(number, line["fault"].as_str().map(String::from));
        } else if line["up"].as_bool() == Some(true) {
            seen.ups.push(line["present"].as_bool() == Some(true));
        } else if let Some(topic) = line["topic"].as_str() {
            let payload: Vec<u8> =
                line["payload"].as_str().unwrap_or_default().chars().map(|c| u8::try_from(c).unwrap_or(b'?')).collect();
            seen.messages.push(Message {
                topic: topic.to_owned(),
                json: serde_json::from_slice(&payload).unwrap_or_default(),
                payload,
                qos: line["qos"].as_u64().unwrap_or(9),
                retain: line["retain"].as_bool().unwrap_or_default(),
                at: Instant::now(),
            });
        }
        self.changed.notify_all();
    }
}

fn show(messages: &[Message]) -> String {
    let skipped = messages.len().saturating_sub(SHOWN);
    let lines: Vec<String> = messages
        .iter()
        .skip(skipped)
        .map(|message| {
            format!("  {} {}", message.topic, String::from_utf8_lossy(message.payload.get(..300).unwrap_or(&message.payload)))
        })
        .collect();
    format!("{skipped} earlier messages, then:\n{}", lines.join("\n"))
}
