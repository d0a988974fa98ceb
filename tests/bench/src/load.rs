//! The load generator: invokes out, retained results in, the same for the node and for its baseline.
//!
//! Owns one rumqttc event loop on one thread. It must not know who answers.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::{AsyncClient, Event, EventLoop};
use tokio::runtime::Runtime;

use crate::responder::connect;

/// Longest wait for any one message.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most jobs of one stretch, whatever its length.
const JOBS_MAX: usize = 200_000;

/// Who is asked to do what.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) agent: String,
    pub(crate) service: String,
    /// The arguments, a JSON object.
    pub(crate) args: String,
}

/// A connected requester.
pub(crate) struct Load {
    runtime: Runtime,
    client: AsyncClient,
    events: EventLoop,
    owner: String,
    next: usize,
}

/// One answered job.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) after: Duration,
    pub(crate) good: bool,
}

impl Load {
    /// Connects and subscribes to the results of one owner.
    pub(crate) fn connect(port: u16, owner: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (client, events) = runtime.block_on(async {
            let (client, mut events) = connect(&format!("load-{owner}"), port, false);
            client.subscribe(format!("agents/jobs/{owner}/+/result"), QoS::AtLeastOnce).await?;
            loop {
                if let Event::Incoming(Packet::SubAck(_)) = tokio::time::timeout(PATIENCE, events.poll()).await?? {
                    return anyhow::Ok((client, events));
                }
            }
        })?;
        Ok(Self { runtime, client, events, owner: owner.to_owned(), next: 0 })
    }

    /// Asks until the first answer comes, so that the other side is known to be up.
    pub(crate) fn warm(&mut self, target: &Target, jobs: usize) -> Result<()> {
        self.run(target, 1, Duration::from_secs(30), jobs).map(|_| ())
    }

    /// One job after the other for a while; each one's time from publish to retained result, in milliseconds.
    pub(crate) fn one_by_one(&mut self, target: &Target, stretch: Duration) -> Result<Vec<f64>> {
        let answers = self.run(target, 1, stretch, JOBS_MAX)?;
        Ok(answers.iter().map(|answer| answer.after.as_secs_f64() * 1e3).collect())
    }

    /// So many jobs outstanding for a while; answered jobs a second.
    pub(crate) fn throughput(&mut self, target: &Target, outstanding: usize, stretch: Duration) -> Result<f64> {
        let start = Instant::now();
        let answers = self.run(target, outstanding, stretch, JOBS_MAX)?;
        all_good(&answers)?;
        #[expect(clippy::cast_precision_loss, reason = "a count of jobs")]
        let count = answers.len() as f64;
        Ok(count / start.elapsed().as_secs_f64())
    }

    /// Keeps `outstanding` jobs open until the stretch or the jobs are used up, then waits for the open ones.
    pub(crate) fn run(&mut self, target: &Target, outstanding: usize, stretch: Duration, jobs: usize) -> Result<Vec<Answer>> {
        let Self { runtime, client, events, owner, next } = self;
        let topic = format!("agents/commands/{}/invoke", target.agent);
        let end = Instant::now() + stretch;
        let mut open: HashMap<usize, Instant> = HashMap::with_capacity(outstanding * 2);
        let mut answers = Vec::new();
        let mut left = jobs;
        runtime.block_on(async {
            loop {
                while left > 0 && open.len() < outstanding && Instant::now() < end {
                    let payload = format!(
                        r#"{{"service":"{}","args":{},"requestedBy":"{owner}","jobId":"b{next}"}}"#,
                        target.service, target.args
                    );
                    client.try_publish(&topic, QoS::AtLeastOnce, false, payload).context("the channel is full")?;
                    open.insert(*next, Instant::now());
                    *next += 1;
                    left -= 1;
                }
                if open.is_empty() {
                    return Ok(answers);
                }
                let waited = tokio::time::timeout(PATIENCE, events.poll()).await;
                let event = waited.with_context(|| format!("no answer for {PATIENCE:?}, {} jobs open", open.len()))??;
                let Event::Incoming(Packet::Publish(publish)) = event else { continue };
                let Some(number) = job_number(&publish.topic) else { continue };
                if let Some(sent) = open.remove(&number) {
                    let good = is_result(&publish.payload);
                    answers.push(Answer { after: sent.elapsed(), good });
                }
            }
        })
    }
}

/// The number in `agents/jobs/<owner>/b<number>/result`.
fn job_number(topic: &[u8]) -> Option<usize> {
    let topic = std::str::from_utf8(topic).ok()?;
    topic.rsplit('/').nth(1)?.strip_prefix('b')?.parse().ok()
}

/// Whether the job was done, found without parsing, since the generator shares its cores with what it measures.
fn is_result(payload: &[u8]) -> bool {
    payload.windows(15).any(|window| window == br#""type":"result""#)
}

/// Fails when a job of a measured stretch ended otherwise than by its answer.
pub(crate) fn all_good(answers: &[Answer]) -> Result<()> {
    let bad = answers.iter().find(|answer| !answer.good);
    ensure!(bad.is_none(), "job {bad:?} of {} did not end with its answer", answers.len());
    Ok(())
}
