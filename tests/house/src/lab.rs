//! One test's world: a broker, a witness that captures `#`, a catalog and a node.
//!
//! Owns their order of start and the questions tests ask most. On its end it holds everything captured to the rules of
//! [`crate::audit`]. It must not know any single check.

use std::process::ExitStatus;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::audit::{self, PROBE, Rules};
use crate::broker::{Broker, Style};
use crate::catalog::Catalog;
use crate::client::{Client, Login, Message, Outgoing};
use crate::config::Config;
use crate::node::Node;

/// The agent most tests talk to.
pub const AGENT: &str = "dba";
/// The requester most tests are.
pub const OWNER: &str = "alice";

/// Everything a test needs. Fields drop in this order: the node goes first, the broker last.
#[derive(Debug)]
pub struct Lab {
    /// The node; none while it is down.
    pub node: Option<Node>,
    /// The witness: subscribed to everything, and the usual requester.
    pub client: Client,
    /// The configuration of the next start.
    pub config: Config,
    /// The catalog of [`AGENT`].
    pub catalog: Catalog,
    /// What the capture is held to.
    pub rules: Rules,
    /// The broker.
    pub broker: Broker,
    _dir: TempDir,
}

impl Lab {
    /// The usual world, up and online.
    pub fn start() -> Self {
        Self::with(Catalog::usual(), |_| {})
    }

    /// A world with a catalog and changes to the configuration, up and online.
    pub fn with(catalog: Catalog, change: impl FnOnce(&mut Config)) -> Self {
        let mut lab = Self::prepared(Broker::start(Style::Bench), catalog, change);
        lab.up();
        lab
    }

    /// A world whose node is not started yet.
    pub fn prepared(broker: Broker, catalog: Catalog, change: impl FnOnce(&mut Config)) -> Self {
        let dir = TempDir::with_prefix("house-node-").unwrap();
        let client = Client::connect(broker.port());
        client.subscribe("#");
        let mut config = Config::new(dir.path(), &broker.url(), AGENT, catalog.path());
        config.default_prompt();
        change(&mut config);
        let rules = Rules { roots: vec!["agents".into()], reuses_ids: false };
        Self { node: None, client, config, catalog, rules, broker, _dir: dir }
    }

    /// Starts the node and waits until its status says online.
    pub fn up(&mut self) {
        let mark = self.client.mark();
        self.node = Some(Node::start(&self.config));
        self.wait_online(mark);
    }

    /// Waits for an "online" on the status topic that came after a mark.
    pub fn wait_online(&mut self, mark: usize) {
        let root = self.rules.roots.first().cloned().unwrap_or_default();
        let topic = format!("{root}/registry/{AGENT}/status");
        let log = self.node.as_ref().map(Node::log).unwrap_or_default();
        self.client.next(mark, &format!("{AGENT} to be online\n{log}"), |message| {
            message.topic == topic && message.json["status"] == "online"
        });
    }

    /// The node, which must be up.
    pub fn node(&mut self) -> &mut Node {
        self.node.as_mut().expect("the node is down")
    }

    /// Stops the node politely.
    pub fn stop(&mut self) -> ExitStatus {
        self.node.take().expect("the node is down").stop()
    }

    /// Kills the node.
    pub fn kill(&mut self) {
        self.node.take().expect("the node is down").kill();
    }

    /// Publishes an invoke of [`OWNER`].
    pub fn invoke(&self, job: &str, service: &str, args: Value) {
        self.invoke_as(OWNER, job, service, args);
    }

    /// Publishes an invoke of anyone.
    pub fn invoke_as(&self, owner: &str, job: &str, service: &str, args: Value) {
        self.client.publish(self.order(owner, job, service, args));
    }

    /// The message that [`Self::invoke_as`] publishes.
    pub fn order(&self, owner: &str, job: &str, service: &str, args: Value) -> Outgoing {
        let body = json!({"service": service, "args": args, "requestedBy": owner, "jobId": job});
        self.command("invoke", &body)
    }

    /// Any command to [`AGENT`] as a message.
    pub fn command(&self, word: &str, body: &Value) -> Outgoing {
        Outgoing::new(format!("{}/commands/{AGENT}/{word}", self.root()), body.to_string())
    }

    /// Publishes a payload of any bytes as an invoke.
    pub fn raw(&self, payload: impl AsRef<[u8]>) {
        self.client.publish(Outgoing::new(format!("{}/commands/{AGENT}/invoke", self.root()), payload));
    }

    /// Publishes a cancel.
    pub fn cancel(&self, owner: &str, job: &str) {
        self.client.publish(self.command("cancel", &json!({"jobId": job, "requestedBy": owner})));
    }

    fn root(&self) -> &str {
        self.rules.roots.first().map_or("agents", String::as_str)
    }

    /// The topic of a job of [`OWNER`].
    pub fn topic(&self, owner: &str, job: &str, leaf: &str) -> String {
        format!("{}/jobs/{owner}/{job}/{leaf}", self.root())
    }

    /// Waits for the terminal result of a job of [`OWNER`], duplicate notices aside.
    pub fn result(&self, job: &str) -> Value {
        self.result_as(OWNER, job, 0)
    }

    /// Waits for a terminal result that came after a mark, duplicate notices aside.
    pub fn result_as(&self, owner: &str, job: &str, mark: usize) -> Value {
        let topic = self.topic(owner, job, "result");
        self.client
            .next(mark, &format!("the result {topic}{}", self.log_tail()), |message| {
                message.topic == topic && message.json["type"] != "duplicate" && !message.payload.is_empty()
            })
            .json
    }

    /// The last lines of the node's log, for messages.
    fn log_tail(&self) -> String {
        let log = self.node.as_ref().map(Node::log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("\nthe node's log ends:\n{}\n", lines.get(lines.len().saturating_sub(30)..).unwrap_or_default().join("\n"))
    }

    /// Invokes and waits for the result.
    pub fn ask(&self, job: &str, service: &str, args: Value) -> Value {
        self.invoke(job, service, args);
        self.result(job)
    }

    /// Waits for an event of a type.
    pub fn event(&self, owner: &str, job: &str, kind: &str) -> Message {
        let topic = self.topic(owner, job, "events");
        self.client.next(0, &format!("event {kind} on {topic}"), |message| message.topic == topic && message.json["type"] == kind)
    }

    /// All events of a job seen so far.
    pub fn events(&self, owner: &str, job: &str) -> Vec<Value> {
        let topic = self.topic(owner, job, "events");
        self.client.all().into_iter().filter(|message| message.topic == topic).map(|message| message.json).collect()
    }

    /// The types of all events of a job of [`OWNER`] seen so far.
    pub fn event_types(&self, job: &str) -> Vec<String> {
        self.events(OWNER, job).iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// All results of a job seen so far, duplicate notices included.
    pub fn results(&self, owner: &str, job: &str) -> Vec<Value> {
        let topic = self.topic(owner, job, "result");
        self.client.all().into_iter().filter(|message| message.topic == topic).map(|message| message.json).collect()
    }

    /// Waits until everything the node published so far has reached the witness: a job of its own goes through.
    pub fn settle(&self, tag: &str) {
        let job = format!("settle-{tag}");
        self.invoke_as("settler", &job, "test.echo", json!({"text": tag}));
        self.result_as("settler", &job, 0);
    }

    /// What a client that subscribes only now is given: the retained messages of a filter.
    pub fn late(&self, filter: &str) -> Vec<Message> {
        late(self.broker.port(), filter)
    }

    /// Whether the node still runs and the capture holds to the rules; called by drop as well.
    pub fn audit(&mut self) {
        if let Some(node) = self.node.as_mut() {
            node.assert_alive();
        }
        audit::check(&self.client.all(), &self.rules);
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.audit();
        } else if let Some(node) = &self.node {
            let log = node.log();
            let tail: Vec<&str> = log.lines().collect();
            let tail = tail.get(tail.len().saturating_sub(60)..).unwrap_or_default().join("\n");
            std::io::Write::write_all(&mut std::io::stderr(), format!("--- the node's log ends:\n{tail}\n").as_bytes()).ok();
        }
    }
}

/// The retained messages of a filter, as a client sees them that connects only now.
pub fn late(port: u16, filter: &str) -> Vec<Message> {
    let login = Login::default();
    let probe = format!("{PROBE}{}", login.id);
    let client = Client::login(port, &login);
    client.subscribe(&probe);
    client.subscribe(filter);
    // Mosquitto sends what is retained before it handles what follows, so the probe comes last.
    client.publish(Outgoing::new(&probe, "probe"));
    client.next(0, "the probe", |message| message.topic == probe);
    client.all().into_iter().filter(|message| message.topic != probe).collect()
}
