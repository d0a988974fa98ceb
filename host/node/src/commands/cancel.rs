//! `amp-node cancel`: cancel a job and wait for its final state.
//!
//! Owns whom to ask and what counts as done. It must not know the wire.

use std::time::Duration;

use doors::mqtt::requester::{Heard, Requester, RequesterError};
use job::ids::{AgentId, JobId};
use job::reason::Reserved;
use tokio::time::Instant;

use crate::cli;
use crate::commands::invoke::{agent_id, show};
use crate::commands::source::{client_config, failure_of, owner_of, requester, small_runtime};
use crate::exit::{Exit, Failure};
use crate::{Ended, logging, say};

/// How long the registry is read for agents.
const REGISTRY_WAIT: Duration = Duration::from_secs(3);

/// How long silence is listened to before the result that stood there before is looked at.
const SILENCE_WAIT: Duration = Duration::from_secs(2);

/// Cancels and waits.
pub(crate) fn cancel(args: cli::Cancel) -> Ended {
    let _flush = logging::start(false, true);
    let config = client_config(&args.source)?;
    let job = JobId::parse(&args.job).map_err(|error| Failure::usage(format!("the job id: {error}")))?;
    let (requested_by, _) = owner_of(Some(args.owner))?;
    let named = args.agent.as_deref().map(agent_id).transpose()?;
    small_runtime()?.block_on(async {
        let until = Instant::now() + Duration::from_secs(args.timeout);
        let mut requester = requester(&config).await?;
        let agents = match named {
            Some(agent) => vec![agent],
            None => everyone(&mut requester, until).await?,
        };
        // An id is unique within an owner, not across agents; the agents that do not know it change nothing.
        for agent in &agents {
            requester.cancel(agent, &job, &requested_by, until).await.map_err(failure_of)?;
        }
        let mut refused = 0;
        loop {
            let heard = match requester.hear(until.min(Instant::now() + SILENCE_WAIT)).await {
                Err(RequesterError::NoAnswer { .. }) if Instant::now() < until => {
                    // A job that had ended cancelled answers another cancel with silence; its result stands there already.
                    let before = requester.stood_before().filter(|seen| seen.reserved() == Some(Reserved::Cancelled));
                    let Some(seen) = before else { continue };
                    say::note("the job had ended cancelled before");
                    Heard::Result(seen)
                }
                heard => heard.map_err(failure_of)?,
            };
            match heard {
                Heard::Result(seen) if seen.reserved() == Some(Reserved::Duplicate) => {}
                Heard::Result(seen) => {
                    show(&seen, args.json);
                    requester.close().await;
                    let cancelled = seen.reserved() == Some(Reserved::Cancelled);
                    return Ok(if cancelled { Exit::Success } else { Exit::of_type(&seen.kind) });
                }
                Heard::Event(seen) if seen.kind == "cancel_rejected" => {
                    refused += 1;
                    if refused == agents.len() {
                        requester.close().await;
                        let what = format!("no job {job} of {requested_by} is active");
                        return Err(Failure::failed(what).mend("it may have ended, or run under another owner or agent"));
                    }
                }
                Heard::Event(_) => {}
                Heard::Unreadable { topic, why } => say::note(&format!("{topic}: {why}")),
            }
        }
    })
}

async fn everyone(requester: &mut Requester, until: Instant) -> Result<Vec<AgentId>, Failure> {
    let wait = until.min(Instant::now() + REGISTRY_WAIT);
    let agents = requester.agents(None, wait).await.map_err(failure_of)?;
    if agents.is_empty() {
        return Err(Failure::failed("nobody is on this mesh").mend("name an agent that is away with --agent"));
    }
    Ok(agents.into_iter().map(|agent| agent.agent).collect())
}
