//! The running part of a job: variables, rendering, guest (G1-4 "Order in a job"), all before one deadline.
//!
//! Owns what happens between started and the ending's words. It must not know the journal.

use std::sync::Arc;
use std::time::Duration;

use catalog::{RenderError, Rendered, Values};
use futures::FutureExt;
use job::courier::EventKind;
use job::executor::{End, Grants, Host, LogLevel, Work};
use job::json::JsonText;
use job::outcome::{Ending, Usage};
use job::reason::Reason;
use tokio::time::Instant;

use crate::conclude::{ended, ending_of, past_deadline};
use crate::journey::{Finish, Journey};
use crate::live::Live;
use crate::redact::Redactor;

/// How long a run waits before it asks again for a place that the sandbox did not have.
const NO_PLACE_WAIT: Duration = Duration::from_millis(20);

/// The rendered job, with what must not leave it.
struct Prepared {
    prompt: Arc<str>,
    grants: Grants,
    redactor: Arc<Redactor>,
}

/// Runs the job once, to its end.
pub(crate) async fn perform(journey: &Journey, attempt: u32) -> Finish {
    let entry = &journey.capability.entry;
    let started = Instant::now();
    let deadline = started + Duration::from_millis(entry.limits.timeout_ms);
    journey.live.say(EventKind::Started);
    let receipt = |mut usage: Usage| {
        usage.attempt = attempt;
        usage.wall_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        usage
    };

    let prepared = tokio::select! {
        biased;
        cut = cut_short(journey, deadline) => return cut.finish(journey, receipt(Usage::default())),
        prepared = prepare(journey) => prepared,
    };
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(ending) => return Finish::With(ending, receipt(Usage::default())),
    };

    let ran = loop {
        let work = work_order(journey, &prepared, attempt, deadline);
        let host = Arc::new(JobHost { live: journey.live.clone(), redactor: prepared.redactor.clone() });
        let ran = journey.capability.guest.run(work, host).await;
        let End::NoPlace { message } = &ran.end else { break ran };
        // The limits keep this from happening; if a setting is off, the job waits for its deadline rather than failing.
        tracing::warn!(job = %journey.live.key, %message, "the sandbox had no place; trying again");
        metrics::counter!("amp_engine_no_place_total").increment(1);
        tokio::select! {
            biased;
            cut = cut_short(journey, deadline) => return cut.finish(journey, receipt(ran.usage)),
            () = tokio::time::sleep(NO_PLACE_WAIT) => {}
        }
    };
    finish(journey, ran.end, receipt(ran.usage), &prepared.redactor)
}

/// What ends a run from outside while no guest runs.
enum Cut {
    Cancelled,
    Halted,
    Late,
}

/// Waits for it: a cancel wins over the stop of the node, and that over the deadline.
async fn cut_short(journey: &Journey, deadline: Instant) -> Cut {
    tokio::select! {
        biased;
        () = journey.live.cancel.cancelled() => Cut::Cancelled,
        () = journey.core.halted.cancelled() => Cut::Halted,
        () = tokio::time::sleep_until(deadline) => Cut::Late,
    }
}

impl Cut {
    fn finish(self, journey: &Journey, usage: Usage) -> Finish {
        match self {
            Self::Cancelled => Finish::Cancelled(usage),
            Self::Halted => Finish::Interrupted(usage),
            Self::Late => Finish::With(past_deadline(&journey.capability.entry.limits), usage),
        }
    }
}

fn work_order(journey: &Journey, prepared: &Prepared, attempt: u32, deadline: Instant) -> Work {
    let entry = &journey.capability.entry;
    let (live, halted) = (journey.live.clone(), journey.core.halted.clone());
    Work {
        key: live.key.clone(),
        service: entry.service.clone(),
        args: journey.job.args.clone(),
        prompt: prepared.prompt.clone(),
        lineage: journey.job.lineage.clone(),
        attempt,
        limits: entry.limits,
        grants: prepared.grants.clone(),
        deadline: deadline.into_std(),
        stop: async move {
            tokio::select! {
                () = live.cancel.cancelled() => {}
                () = halted.cancelled() => {}
            }
        }
        .boxed(),
    }
}

fn finish(journey: &Journey, end: End, usage: Usage, redactor: &Redactor) -> Finish {
    let limits = &journey.capability.entry.limits;
    let result_bytes_max = journey.core.voice.courier.result_bytes_max(&journey.live.key);
    match ending_of(end, limits, result_bytes_max) {
        Some(ending) => {
            let (ending, usage) = redacted(ending, usage, redactor);
            Finish::With(ending, usage)
        }
        None if journey.live.cancel.is_cancelled() => Finish::Cancelled(usage),
        None => Finish::Interrupted(usage),
    }
}

fn redacted(ending: Ending, mut usage: Usage, redactor: &Redactor) -> (Ending, Usage) {
    let ending = match ending {
        Ending::Done { kind, body } => {
            let (body, found) = redactor.json(body);
            usage.redacted = found;
            let kind = redactor.text(&kind).into_owned().into();
            Ending::Done { kind, body }
        }
        Ending::Ended { reason, message, extra } => {
            Ending::Ended { reason, message: redactor.text(&message).into_owned(), extra }
        }
    };
    (ending, usage)
}

/// Resolves the variables and renders the prompt and the environment grant.
async fn prepare(journey: &Journey) -> Result<Prepared, Ending> {
    let entry = &journey.capability.entry;
    let mut values = Values::new();
    for name in entry.variables() {
        let found = journey.core.variables.lookup(name).await;
        match found {
            Ok(Some(value)) => {
                values.insert(name.to_owned(), value);
            }
            Ok(None) => {
                let message = format!(
                    "the variable ${{{name}}} has no value: neither [vars] nor the environment has it, or environment.allow does \
                     not name it (a name that looks secret has to be listed whole)"
                );
                return Err(ended(Reason::UnresolvedVariable, message));
            }
            Err(error) => return Err(ended(Reason::SecretStore, error.to_string())),
        }
    }
    let redactor = Arc::new(Redactor::new(&values));
    let refused = |error: RenderError| {
        let reason = match &error {
            RenderError::Unresolved { .. } => Reason::UnresolvedVariable,
            _ => Reason::Template,
        };
        redacted(ended(reason, error.to_string()), Usage::default(), &redactor).0
    };
    let grants = entry.grants.resolve(&values).map_err(refused)?;
    let rendered = render(journey, values).await.map_err(refused)?;
    for path in &rendered.missing {
        let message = format!("the prompt names the argument {path}, which this request does not have; it is left empty");
        journey.live.say(EventKind::Progress { message: redactor.text(&message).into_owned() });
    }
    Ok(Prepared { prompt: rendered.text.into(), grants, redactor })
}

/// Renders the prompt: at once where that is quick, on a thread of its own where the template may go round, so that no other job
/// waits for it and the deadline is kept (U23).
async fn render(journey: &Journey, values: Values) -> Result<Rendered, RenderError> {
    let (template, args) = (&journey.capability.entry.template, &journey.job.args);
    if !template.may_loop(&values) {
        return template.render(&values, args, &JsonText::empty_object());
    }
    let (template, args) = (template.clone(), args.clone());
    let permit = journey.core.renderers.clone().acquire_owned().await;
    let work = move || {
        let rendered = template.render(&values, &args, &JsonText::empty_object());
        drop(permit);
        rendered
    };
    let failed = |what: String| RenderError::Failed { line: 0, column: 0, what };
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(failed(format!("the node failed at it ({error})"))))
}

/// A guest's text as one line of the log: a guest that writes line ends must not write lines of its own.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// What the running guest may say.
struct JobHost {
    live: Arc<Live>,
    redactor: Arc<Redactor>,
}

impl Host for JobHost {
    fn progress(&self, message: &str) {
        self.live.say(EventKind::Progress { message: self.redactor.text(message).into_owned() });
    }

    fn log(&self, level: LogLevel, message: &str) {
        let message = one_line(&self.redactor.text(message));
        let job = &self.live.key;
        match level {
            LogLevel::Debug => tracing::debug!(target: "guest", %job, "{message}"),
            LogLevel::Info => tracing::info!(target: "guest", %job, "{message}"),
            LogLevel::Warn => tracing::warn!(target: "guest", %job, "{message}"),
            LogLevel::Error => tracing::error!(target: "guest", %job, "{message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    /// A requester's text that a guest repeats cannot forge a line of the log.
    #[test]
    fn a_log_line_stays_one_line() {
        assert_eq!(super::one_line("a\nERROR b\u{1b}[31m é"), "a\\nERROR b\\u{1b}[31m é");
    }
}
