//! `amp-node check`: what is wrong with catalogs and configuration, with file, line and mend, before a node runs them.
//!
//! Owns what is looked at and in which layout it is told. What is right is the other rooms' to say.

use std::path::PathBuf;

use catalog::{Entry, Fault, Snapshot};
use job::executor::SandboxSettings;
use sandbox::Sandbox;
use serde_json::{Value, json};
use supply::config::AgentConfig;
use supply::{Config, Inputs};

use crate::cli;
use crate::commands::run::runtime;
use crate::commands::source::{config_of, inputs_of};
use crate::exit::{Exit, Failure};
use crate::say::{self, Paint, paint};
use crate::{Ended, logging, shipped};

/// Instances a check asks for: it compiles and links, and runs nothing.
const INSTANCES: u32 = 1;
/// Parts of an argument's name that make it look like a credential.
const CREDENTIAL_WORDS: [&str; 6] = ["password", "passwd", "secret", "token", "apikey", "api_key"];

/// Something to tell about a catalog.
struct Finding {
    level: Level,
    file: String,
    line: usize,
    column: usize,
    service: Option<String>,
    field: Option<String>,
    what: String,
    mend: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Fault,
    Warning,
}

/// Checks and tells.
pub(crate) fn check(args: cli::Check) -> Ended {
    let _flush = logging::start(false, true);
    let mut findings = Vec::new();
    let mut checked = Vec::new();
    for (config, agent) in agents(&args)? {
        match snapshot_of(&config, &agent)? {
            Ok(snapshot) => {
                findings.extend(snapshot.faults.iter().map(of_fault));
                findings.extend(snapshot.entries.values().flat_map(|capability| warnings(&capability.entry)));
                checked.push((agent.catalog.clone(), snapshot.entries.len()));
            }
            Err(finding) => findings.push(finding),
        }
    }
    let faults = findings.iter().filter(|finding| finding.level == Level::Fault).count();
    if args.json {
        say::data(&as_json(&findings, &checked).to_string());
    } else {
        findings.iter().for_each(tell);
        for (folder, count) in &checked {
            say::note(&format!("{}: {count} capabilities are fine", folder.display()));
        }
        if faults > 0 {
            say::note(&format!("{faults} faults"));
        }
    }
    Ok(if faults > 0 { Exit::Failure } else { Exit::Success })
}

/// What to check: the folders named, each as an agent of its own, or the agents of the configuration.
fn agents(args: &cli::Check) -> Result<Vec<(Config, AgentConfig)>, Failure> {
    if args.catalogs.is_empty() {
        let config = config_of(&args.source, None)?;
        return Ok(config.agents.iter().map(|agent| (config.clone(), agent.clone())).collect());
    }
    let mut all = Vec::new();
    for folder in &args.catalogs {
        // The limits of the configuration hold for the folder too, where there is one.
        let inputs = inputs_of(&args.source, Some(folder.clone()))?;
        let config = Config::resolve(&inputs)
            .or_else(|_| Config::resolve(&Inputs { file: None, catalog: Some(folder.clone()), ..inputs.clone() }));
        let config = config.map_err(|error| Failure::usage(error.to_string()))?;
        all.extend(config.agents.first().map(|agent| (config.clone(), agent.clone())));
    }
    Ok(all)
}

/// Reads a folder and compiles its guests, with compiled code thrown away afterwards.
fn snapshot_of(config: &Config, agent: &AgentConfig) -> Result<Result<Snapshot, Finding>, Failure> {
    let cache = tempfile::TempDir::with_prefix("amp-node-check-")
        .map_err(|error| Failure::failed(format!("a folder for compiled code cannot be made: {error}")))?;
    let settings = SandboxSettings {
        cache_dir: cache.path().join("compiled"),
        max_live: INSTANCES,
        memory_bytes_max: config.limits.max.to_limits().memory_bytes,
    };
    let sandbox = Sandbox::new(&settings).map_err(|error| Failure::failed(error.to_string()))?;
    let loaded = runtime()?.block_on(supply::load_agent(agent, &config.limits, &shipped::builtins(), &sandbox));
    Ok(loaded.map_err(|error| Finding {
        level: Level::Fault,
        file: agent.catalog.display().to_string(),
        line: 0,
        column: 0,
        service: None,
        field: None,
        what: error.to_string(),
        mend: "name a folder of *.json files".into(),
    }))
}

fn of_fault(fault: &Fault) -> Finding {
    Finding {
        level: Level::Fault,
        file: fault.place.file.to_string(),
        line: fault.place.line,
        column: fault.place.column,
        service: fault.service.as_ref().map(ToString::to_string),
        field: fault.field.clone(),
        what: fault.what.clone(),
        mend: fault.mend.clone(),
    }
}

/// Lints of a good entry (S1-84).
fn warnings(entry: &Entry) -> Vec<Finding> {
    let schema: Value = serde_json::from_str(entry.request_schema.as_str()).unwrap_or_default();
    let properties = schema.get("properties").filter(|properties| properties.is_object()).unwrap_or(&schema);
    let names = properties.as_object().into_iter().flat_map(|object| object.keys());
    let suspicious = names.filter(|name| {
        let lower = name.to_lowercase();
        CREDENTIAL_WORDS.iter().any(|word| lower.contains(word))
    });
    suspicious
        .map(|name| Finding {
            level: Level::Warning,
            file: entry.place.file.to_string(),
            line: entry.place.line,
            column: entry.place.column,
            service: Some(entry.service.to_string()),
            field: Some(format!("requestSchema.{name}")),
            what: format!("the argument {name} looks like a credential; arguments are readable by every subscriber, and results are retained"),
            mend: "let the deployment hold it, as ${NAME} in the prompt or in grants.env".into(),
        })
        .collect()
}

fn tell(finding: &Finding) {
    let word = match finding.level {
        Level::Fault => paint(Paint::Red, "fault"),
        Level::Warning => paint(Paint::Yellow, "warning"),
    };
    let place = match (finding.line, finding.column) {
        (0, _) => finding.file.clone(),
        (line, 0) => format!("{}:{line}", finding.file),
        (line, column) => format!("{}:{line}:{column}", finding.file),
    };
    let within: Vec<&str> = finding.service.as_deref().into_iter().chain(finding.field.as_deref()).collect();
    let within = if within.is_empty() { String::new() } else { format!("{}: ", within.join(": ")) };
    say::note(&format!("{word} {place}: {within}{}", finding.what));
    say::note(&format!("      {} {}", paint(Paint::Cyan, "mend:"), finding.mend));
}

fn as_json(findings: &[Finding], checked: &[(PathBuf, usize)]) -> Value {
    let findings: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({
                "level": if finding.level == Level::Fault { "fault" } else { "warning" },
                "file": finding.file, "line": finding.line, "column": finding.column,
                "service": finding.service, "field": finding.field, "what": finding.what, "mend": finding.mend,
            })
        })
        .collect();
    let checked: Vec<Value> =
        checked.iter().map(|(folder, count)| json!({ "catalog": folder.display().to_string(), "capabilities": count })).collect();
    json!({ "findings": findings, "checked": checked })
}
