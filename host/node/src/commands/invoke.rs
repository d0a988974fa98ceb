//! `amp-node invoke`: ask for a job and wait for its result.
//!
//! Owns the arguments, the choice of the agent, and how an ending becomes an exit. It must not know the wire.

use std::time::Duration;

use doors::mqtt::requester::{Heard, Requester, RequesterError, SeenAgent};
use job::ids::{AgentId, JobId};
use job::json::JsonText;
use job::reason::Reserved;
use supply::Config;
use tokio::time::Instant;
use wire::mqtt::client::{InvokeRequest, Seen};

use crate::cli;
use crate::commands::source::{client_config, failure_of, owner_of, requester, small_runtime};
use crate::exit::{Exit, Failure};
use crate::say::{self, Paint, paint};
use crate::{Ended, logging};

/// How long the registry is read for an agent.
const REGISTRY_WAIT: Duration = Duration::from_secs(3);

/// Asks and waits.
pub(crate) fn invoke(args: cli::Invoke) -> Ended {
    let _flush = logging::start(false, true);
    let config = client_config(&args.source)?;
    let asked = Ask {
        agent: args.agent.as_deref().map(agent_id).transpose()?,
        service: args.service,
        args: arguments(&args.arg, args.args.as_deref())?,
        requested_by: owner_of(args.owner)?.0,
        job: match args.job_id {
            Some(id) => JobId::parse(&id).map_err(|error| Failure::usage(format!("--job-id: {error}")))?,
            None => fresh_id()?,
        },
        timeout: Duration::from_secs(args.timeout),
        follow: args.follow,
        stop_on_duplicate: args.stop_on_duplicate,
    };
    small_runtime()?.block_on(async {
        let seen = ask(&config, asked).await?;
        show(&seen, args.json);
        Ok(Exit::of_type(&seen.kind))
    })
}

/// One request of a person.
pub(crate) struct Ask {
    pub(crate) agent: Option<AgentId>,
    pub(crate) service: String,
    pub(crate) args: JsonText,
    pub(crate) requested_by: String,
    pub(crate) job: JobId,
    pub(crate) timeout: Duration,
    pub(crate) follow: bool,
    pub(crate) stop_on_duplicate: bool,
}

/// An agent id from the command line.
pub(crate) fn agent_id(text: &str) -> Result<AgentId, Failure> {
    AgentId::parse(text).map_err(|error| Failure::usage(format!("--agent: {error}")))
}

/// A fresh job id.
pub(crate) fn fresh_id() -> Result<JobId, Failure> {
    let id = format!("job-{}", ulid::Ulid::new().to_string().to_lowercase());
    JobId::parse(&id).map_err(|error| Failure::failed(error.to_string()))
}

/// Asks and waits for the terminal result.
pub(crate) async fn ask(config: &Config, ask: Ask) -> Result<Seen, Failure> {
    let until = Instant::now() + ask.timeout;
    let mut requester = requester(config).await?;
    let agent = match ask.agent {
        Some(agent) => agent,
        None => find(&mut requester, &ask.service, until).await?,
    };
    let broker = crate::start::broker_address(config);
    if ask.follow {
        say::note(&format!("{} {} at {agent} on {broker}, job {}", paint(Paint::Dim, "asking"), ask.service, ask.job));
    }
    let request = InvokeRequest { service: ask.service, args: ask.args, requested_by: ask.requested_by, job: ask.job };
    requester.invoke(&agent, &request, until).await.map_err(failure_of)?;
    let seen = loop {
        match requester.hear(until).await {
            Ok(Heard::Event(seen)) if ask.follow => milestone(&seen),
            Ok(Heard::Event(_)) => {}
            Ok(Heard::Unreadable { topic, why }) => say::note(&format!("{topic}: {why}")),
            Ok(Heard::Result(seen)) if seen.reserved() == Some(Reserved::Duplicate) && !ask.stop_on_duplicate => {
                say::note("this job id is active already; waiting for that job's own result (--stop-on-duplicate ends here)");
            }
            Ok(Heard::Result(seen)) => break seen,
            Err(error) => {
                let late = matches!(error, RequesterError::NoAnswer { .. });
                let failure = failure_of(error);
                if !late {
                    return Err(failure);
                }
                let known = requester.agents(None, Instant::now() + REGISTRY_WAIT).await.unwrap_or_default();
                let presence = match known.iter().find(|seen| seen.agent == agent) {
                    None => format!("; no profile of an agent {agent} is on this mesh"),
                    Some(seen) if !seen.online => format!("; {agent} is offline"),
                    Some(_) => String::new(),
                };
                let waited_s = ask.timeout.as_secs();
                let what = format!("no answer within {waited_s} s from {agent} on {broker} for job {}{presence}", request.job);
                return Err(Failure { what, ..failure });
            }
        }
    };
    requester.close().await;
    Ok(seen)
}

/// The agent that offers the service, or a sentence that says what there is instead.
async fn find(requester: &mut Requester, service: &str, until: Instant) -> Result<AgentId, Failure> {
    let wait = until.min(Instant::now() + REGISTRY_WAIT);
    let agents = requester.agents(Some(service), wait).await.map_err(failure_of)?;
    if let Some(found) = agents.iter().find(|agent| agent.online && agent.offers(service)) {
        return Ok(found.agent.clone());
    }
    if let Some(away) = agents.iter().find(|agent| agent.offers(service)) {
        let what = format!("{} offers {service} but is offline", away.agent);
        let mend = format!("start it, or add --agent {} to leave the request with the broker until it is back", away.agent);
        return Err(Failure::failed(what).mend(mend));
    }
    let mend = match nearest(&agents, service) {
        Some((agent, offered)) => format!("did you mean {offered} of {agent}?"),
        None if agents.is_empty() => "nobody is on this mesh; start a node with `amp-node run`".into(),
        None => {
            let names: Vec<&str> = agents.iter().map(|agent| agent.agent.as_str()).take(10).collect();
            format!("the agents here are {}", names.join(", "))
        }
    };
    Err(Failure::failed(format!("no agent offers {service}")).mend(mend))
}

fn nearest<'a>(agents: &'a [SeenAgent], service: &str) -> Option<(&'a AgentId, &'a str)> {
    let offers = agents
        .iter()
        .flat_map(|agent| agent.profile.capabilities.iter().map(move |capability| (&agent.agent, capability.service.as_str())));
    let names: Vec<(&AgentId, &str)> = offers.collect();
    let words: Vec<&str> = names.iter().map(|(_, service)| *service).collect();
    let found = catalog::nearest::nearest(service, words)?;
    names.into_iter().find(|(_, service)| *service == found)
}

/// The arguments object from `--arg name=value` or `--args JSON`.
fn arguments(pairs: &[String], whole: Option<&str>) -> Result<JsonText, Failure> {
    if let Some(text) = whole {
        let checked = JsonText::check(text.as_bytes()).map_err(|fault| Failure::usage(format!("--args is not JSON: {fault}")))?;
        if !text.trim_start().starts_with('{') {
            return Err(Failure::usage("--args is not a JSON object").mend("write it as '{\"name\": \"value\"}'"));
        }
        return Ok(checked);
    }
    let mut object = serde_json::Map::new();
    for pair in pairs {
        let Some((name, value)) = pair.split_once('=') else {
            return Err(Failure::usage(format!("--arg {pair} has no value")).mend("write it as --arg name=value"));
        };
        let value = match serde_json::from_str(value) {
            Ok(parsed) if job::json::check_text(value).is_ok() => parsed,
            _ => serde_json::Value::from(value),
        };
        if object.insert(name.to_owned(), value).is_some() {
            return Err(Failure::usage(format!("--arg {name} is given twice")));
        }
    }
    Ok(JsonText::trusted(serde_json::Value::Object(object).to_string()))
}

/// A milestone, on stderr.
fn milestone(seen: &Seen) {
    let word = match seen.kind.as_str() {
        "progress" => paint(Paint::Dim, "progress"),
        other => paint(Paint::Cyan, other),
    };
    say::note(&format!("  {word} {}", seen.message.as_deref().unwrap_or_default()));
}

/// The result: one line of JSON, or the same laid out for people.
pub(crate) fn show(seen: &Seen, json: bool) {
    let laid_out = if json { None } else { serde_json::from_str::<serde_json::Value>(seen.payload.as_str()).ok() };
    match laid_out {
        None => say::data(seen.payload.as_str()),
        Some(value) => {
            let good = seen.reserved().is_none();
            say::note(&format!("  {}", paint(if good { Paint::Green } else { Paint::Red }, &seen.kind)));
            say::data(&format!("{value:#}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_json_where_they_can_be() {
        let rows = [
            (vec!["a=1.10", "b=x=y", "c=true", "d=[1]", "e="], r#"{"a":1.10,"b":"x=y","c":true,"d":[1],"e":""}"#),
            (vec![], "{}"),
        ];
        for (pairs, expected) in rows {
            let pairs: Vec<String> = pairs.into_iter().map(str::to_owned).collect();
            assert_eq!(arguments(&pairs, None).expect("arguments").as_str(), expected);
        }
        for (pairs, whole) in [(vec!["novalue".to_owned()], None), (vec![], Some("[1]")), (vec![], Some("{"))] {
            assert!(arguments(&pairs, whole).is_err());
        }
    }
}
