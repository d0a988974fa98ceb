//! The configuration file of a node under test, key by key.
//!
//! Owns the table and its file. It must not know what a key means; the node checks that.

use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::ports;

/// A configuration that is written before each start of the node.
#[derive(Debug, Clone)]
pub struct Config {
    table: Table,
    agents: Vec<Table>,
    dir: PathBuf,
    ops: u16,
}

impl Config {
    /// One agent on a broker, with a data folder and ops pages of its own, everything beneath `dir`.
    pub fn new(dir: &Path, broker: &str, agent: &str, catalog: &Path) -> Self {
        let ops = ports::free();
        let mut config = Self { table: Table::new(), agents: Vec::new(), dir: dir.to_owned(), ops };
        config.set("node.data_dir", text(&dir.join("data"))).set("node.grace", "10s").set("mesh.broker", broker);
        config.set("ops.listen", format!("127.0.0.1:{ops}"));
        config.agent(agent, catalog);
        config
    }

    /// Sets one key by its dotted path.
    pub fn set(&mut self, path: &str, value: impl Into<Value>) -> &mut Self {
        let mut steps: Vec<&str> = path.split('.').collect();
        let last = steps.pop().unwrap();
        let mut table = &mut self.table;
        for step in steps {
            let inner = table.entry(step).or_insert_with(|| Value::Table(Table::new()));
            table = inner.as_table_mut().expect("a path of tables");
        }
        table.insert(last.to_owned(), value.into());
        self
    }

    /// Takes one key away.
    pub fn unset(&mut self, path: &str) -> &mut Self {
        let (section, key) = path.split_once('.').unwrap();
        if let Some(table) = self.table.get_mut(section).and_then(Value::as_table_mut) {
            table.remove(key);
        }
        self
    }

    /// Adds an agent.
    pub fn agent(&mut self, id: &str, catalog: &Path) -> &mut Self {
        let mut agent = Table::new();
        agent.insert("id".into(), id.into());
        agent.insert("catalog".into(), text(catalog).into());
        self.agents.push(agent);
        self
    }

    /// Sets a key of the last agent added.
    pub fn agent_set(&mut self, key: &str, value: impl Into<Value>) -> &mut Self {
        self.agents.last_mut().unwrap().insert(key.to_owned(), value.into());
        self
    }

    /// Lets the built-in prompt guest run the entries of the last agent that name no executor.
    pub fn default_prompt(&mut self) -> &mut Self {
        let mut executor = Table::new();
        executor.insert("guest".into(), "prompt".into());
        self.agent_set("default_executor", executor)
    }

    /// The port of the ops pages.
    pub fn ops(&self) -> u16 {
        self.ops
    }

    /// The folder everything lies in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes the file and returns its path.
    pub fn write(&self) -> PathBuf {
        let path = self.dir.join("amp-node.toml");
        let mut table = self.table.clone();
        table.insert("agent".into(), Value::Array(self.agents.iter().cloned().map(Value::Table).collect()));
        fs::write(&path, toml::to_string(&table).unwrap()).unwrap();
        path
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("paths of tests are text").to_owned()
}
