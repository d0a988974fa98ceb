//! A configuration that is read again: which settings apply while the node runs, and which need a restart (DESIGN section 4).
//!
//! Owns that list and the sentences about each change. Pure. It must not know who applies a setting.

use std::collections::BTreeMap;
use std::fmt;

use super::shown::{Shown, shown};
use super::{Config, ConfigError, Inputs};

/// Tables and keys that apply while the node runs.
const LIVE: [&str; 3] = ["vars", "environment", "limits"];
/// Keys of these tables that do not.
const NOT_LIVE: [&str; 1] = ["limits.max_live"];
/// Keys of an agent that apply while the node runs.
const LIVE_OF_AGENT: [&str; 3] = ["catalog", "display_name", "default_executor"];
/// The table whose values are not written into logs, although they are no secrets by definition.
const VARS: &str = "vars";

/// One setting that the file now says otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its path.
    pub path: String,
    /// What held.
    pub old: String,
    /// What the file says.
    pub new: String,
    /// Whether it applies at once.
    pub applies: Applies,
}

/// When a changed setting counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applies {
    /// Now.
    Now,
    /// After a restart.
    AfterRestart,
    /// The node runs by this value already: the file is back at what it said at the start.
    AsItRuns,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} -> {}", self.path, or_nothing(&self.old), or_nothing(&self.new))?;
        match self.applies {
            Applies::Now => Ok(()),
            Applies::AfterRestart => write!(f, ", needs a restart"),
            Applies::AsItRuns => write!(f, ", as it runs"),
        }
    }
}

fn or_nothing(value: &str) -> &str {
    if value.is_empty() { "(none)" } else { value }
}

/// Reads a configuration again. `started` is what the node was started by, `last` what was read last, `running` what is in force;
/// returned is what is in force from now on, and every setting that differs from what was read last.
pub fn renew(started: &Inputs, last: &Inputs, fresh: &Inputs, running: &Config) -> Result<(Config, Vec<Setting>), ConfigError> {
    let wanted = Config::resolve(fresh)?;
    let (started_shown, last_shown, fresh_shown) = (table(started)?, table(last)?, table(fresh)?);
    let memory_grows = wanted.limits.max.memory_mb > Config::resolve(started)?.limits.max.memory_mb;
    let known = |id: &str| running.agents.iter().any(|agent| agent.id.as_str() == id);
    let stays = |id: &str| wanted.agents.iter().any(|agent| agent.id.as_str() == id);

    let mut settings = Vec::new();
    let mut paths: Vec<&String> =
        fresh_shown.keys().chain(last_shown.keys().filter(|path| !fresh_shown.contains_key(*path))).collect();
    paths.sort();
    for path in paths {
        let at = |table: &BTreeMap<String, Shown>| table.get(path).map(|shown| shown.value.clone()).unwrap_or_default();
        let (old, new) = (at(&last_shown), at(&fresh_shown));
        if old == new || agent_of(path).is_some_and(|(id, _)| !known(id) || !stays(id)) {
            continue;
        }
        let applies = match is_live(path) && !(path == "limits.max.memory_mb" && memory_grows) {
            true => Applies::Now,
            false if new == at(&started_shown) => Applies::AsItRuns,
            false => Applies::AfterRestart,
        };
        if path == VARS {
            settings.extend(vars(running, &wanted));
        } else {
            settings.push(Setting { path: path.clone(), old, new, applies });
        }
    }
    settings.extend(agents(last, running, &wanted));
    Ok((merged(running, wanted, memory_grows), settings))
}

fn table(inputs: &Inputs) -> Result<BTreeMap<String, Shown>, ConfigError> {
    Ok(shown(inputs)?.into_iter().map(|shown| (shown.path.clone(), shown)).collect())
}

/// The id and key of an agent's setting. Ids may hold dots, keys of an agent are known.
fn agent_of(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("agent.")?;
    let key = super::keys::KEYS
        .iter()
        .filter_map(|key| key.path.strip_prefix("agent."))
        .filter(|key| rest.strip_suffix(key).is_some_and(|id| id.ends_with('.')))
        .max_by_key(|key| key.len())?;
    Some((rest.strip_suffix(key)?.strip_suffix('.')?, key))
}

fn is_live(path: &str) -> bool {
    if NOT_LIVE.contains(&path) {
        return false;
    }
    match agent_of(path) {
        Some((_, key)) => LIVE_OF_AGENT.iter().any(|live| key.split('.').next() == Some(live)),
        None => path.split('.').next().is_some_and(|table| LIVE.contains(&table)),
    }
}

/// Which variables changed, by name: their values stay out of the log.
fn vars(running: &Config, wanted: &Config) -> Vec<Setting> {
    let names = running.vars.keys().chain(wanted.vars.keys().filter(|name| !running.vars.contains_key(*name)));
    let differs = |name: &&String| running.vars.get(*name) != wanted.vars.get(*name);
    let word = |there: bool, word: &str| if there { word.to_owned() } else { String::new() };
    names
        .filter(differs)
        .map(|name| Setting {
            path: format!("{VARS}.{name}"),
            old: word(running.vars.contains_key(name), "(a value)"),
            new: word(wanted.vars.contains_key(name), "(another value)"),
            applies: Applies::Now,
        })
        .collect()
}

/// Agents that come and go. One that is taken out of the file goes on until a restart.
fn agents(last: &Inputs, running: &Config, wanted: &Config) -> Vec<Setting> {
    let before: Vec<String> =
        Config::resolve(last).map(|config| config.agents.iter().map(|agent| agent.id.to_string()).collect()).unwrap_or_default();
    let setting = |id: &str, old: &str, new: &str, applies| Setting {
        path: format!("agent.{id}"),
        old: old.into(),
        new: new.into(),
        applies,
    };
    let mut settings = Vec::new();
    for agent in &wanted.agents {
        let id = agent.id.as_str();
        if !before.iter().any(|known| known == id) {
            let runs = running.agents.iter().any(|agent| agent.id.as_str() == id);
            let applies = if runs { Applies::AsItRuns } else { Applies::Now };
            settings.push(setting(id, "", &agent.catalog.display().to_string(), applies));
        }
    }
    for id in before.iter().filter(|id| !wanted.agents.iter().any(|agent| agent.id.as_str() == **id)) {
        settings.push(setting(id, "in the file", "", Applies::AfterRestart));
    }
    settings
}

/// What is in force: the running configuration with the live parts of the wanted one.
fn merged(running: &Config, wanted: Config, memory_grows: bool) -> Config {
    let mut config = running.clone();
    config.vars = wanted.vars;
    config.allow = wanted.allow;
    let (max_live, memory_mb) = (running.limits.max_live, running.limits.max.memory_mb);
    config.limits = wanted.limits;
    config.limits.max_live = max_live;
    if memory_grows {
        config.limits.max.memory_mb = memory_mb;
    }
    for agent in wanted.agents {
        match config.agents.iter_mut().find(|known| known.id == agent.id) {
            Some(known) => *known = agent,
            None => config.agents.push(agent),
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(file: &str) -> Inputs {
        Inputs { file: Some(("amp-node.toml".into(), file.to_owned())), ..Inputs::default() }
    }

    fn check(first: &str, second: &str) -> (Config, Vec<String>) {
        let (first, second) = (inputs(first), inputs(second));
        let running = Config::resolve(&first).expect("fine");
        let (config, settings) = renew(&first, &first, &second, &running).expect("fine");
        (config, settings.iter().map(ToString::to_string).collect())
    }

    const ONE: &str = "[[agent]]\nid = \"a.b\"\n";

    /// DESIGN section 4: vars, environment, limits, catalogs and new agents apply at once; all else is told to need a restart.
    #[test]
    fn live_tables_apply_and_others_wait() {
        let rows = [
            ("[vars]\nTEAM = \"x\"", "vars.TEAM: (none) -> (another value)"),
            ("[environment]\nallow = [\"A\"]", "environment.allow: (none) -> [\"A\"]"),
            ("[limits]\ntimeout_ms = 5", "limits.timeout_ms: 60000 -> 5"),
            ("[limits]\nmax_live = 500", "limits.max_live: 1000 -> 500, needs a restart"),
            ("[limits]\nmax_running = 5", "limits.max_running: 256 -> 5"),
            ("[limits.max]\nmemory_mb = 512", "limits.max.memory_mb: 256 -> 512, needs a restart"),
            ("[limits.max]\nmemory_mb = 128", "limits.max.memory_mb: 256 -> 128"),
            ("[mesh]\nroot = \"other\"", "mesh.root: \"agents\" -> \"other\", needs a restart"),
            ("[journal]\nsync = \"os\"", "journal.sync: \"full\" -> \"os\", needs a restart"),
            ("[[agent]]\nid = \"new\"\ncatalog = \"/n\"", "agent.new: (none) -> /n"),
        ];
        for (more, expected) in rows {
            assert_eq!(check(ONE, &format!("{ONE}{more}")).1, [expected], "{more}");
        }
        let (config, told) = check(ONE, "[[agent]]\nid = \"a.b\"\ncatalog = \"/elsewhere\"\n");
        assert_eq!((config.agents[0].catalog.display().to_string().as_str(), told.len()), ("/elsewhere", 1));
        let (config, told) = check(&format!("{ONE}[[agent]]\nid = \"c\""), ONE);
        assert_eq!((config.agents.len(), told), (2, vec!["agent.c: in the file -> (none), needs a restart".to_owned()]));
    }

    /// What needs a restart does not creep in, and values of variables and passwords stay out of the sentences.
    #[test]
    fn what_runs_stays_and_values_stay_out() {
        let secret = "[mesh]\nroot = \"x\"\nusername = \"u\"\npassword = \"hunter2\"\n[limits]\nmax_live = 500\n[limits.max]\nmemory_mb = 999\n[vars]\nA = \"value1\"";
        let (config, told) = check(ONE, &format!("{ONE}{secret}"));
        assert_eq!((config.mesh.root.as_str(), config.limits.max_live, config.limits.max.memory_mb), ("agents", 1000, 256));
        assert_eq!(config.vars["A"], "value1");
        let told = told.join("\n");
        assert!(!told.contains("hunter2") && !told.contains("value1"), "{told}");
    }

    /// A file that goes back to what runs says so.
    #[test]
    fn a_way_back_is_told() {
        let (first, second) = (inputs(ONE), inputs(&format!("{ONE}[mesh]\nroot = \"other\"")));
        let running = Config::resolve(&first).expect("fine");
        let (_, told) = renew(&first, &second, &first, &running).expect("fine");
        assert_eq!(told[0].to_string(), "mesh.root: \"other\" -> \"agents\", as it runs");
    }
}
