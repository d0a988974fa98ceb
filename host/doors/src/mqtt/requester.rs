//! The requester's client, as the command line uses it: invoke, follow, cancel, and see who offers what.
//!
//! Owns one connection with a client id of its own and no session. It must not know how answers are shown.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use job::ids::{AgentId, IdError, JobId, Owner};
use tokio::time::{Instant, timeout_at};
use wire::mqtt::client::{InvokeRequest, Seen, decode_seen, encode_cancel, encode_invoke};
use wire::mqtt::outgoing::Message;
use wire::mqtt::registry::SeenProfile;
use wire::mqtt::topics::{Root, Topic};

use super::asking::{error_of, next_event, open};
use super::backoff::Backoff;
use super::link::{Delivery, Fault, Link, LinkEvent, Retained, Ticket, Verdict};
use super::roll::Roll;
use super::settings::{BrokerAddress, Login};

/// The registry is taken for read when nothing of it has come for this long.
const REGISTRY_QUIET: Duration = Duration::from_millis(250);
/// First and longest wait between two connections.
const RECONNECT_FIRST: Duration = Duration::from_millis(200);
const RECONNECT_MOST: Duration = Duration::from_secs(5);

/// Where and as whom to ask.
#[derive(Debug, Clone)]
pub struct RequesterSettings {
    /// The broker.
    pub broker: BrokerAddress,
    /// How to log in, if at all.
    pub login: Option<Login>,
    /// The mesh root.
    pub root: Root,
    /// Largest packet to take, in bytes.
    pub packet_bytes_max: u32,
}

/// Why a request got nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequesterError {
    /// No broker there.
    #[error("cannot reach the broker at {broker}: {why}")]
    Unreachable {
        /// Where.
        broker: BrokerAddress,
        /// What was wrong.
        why: String,
    },
    /// The broker lets us not in.
    #[error("the broker at {broker} refused the login: {why}")]
    LoginRefused {
        /// Where.
        broker: BrokerAddress,
        /// Its word.
        why: String,
    },
    /// The agent has never subscribed to its commands there.
    #[error("no agent listens on {topic} at {broker}")]
    NobodyListens {
        /// The command topic.
        topic: String,
        /// Where.
        broker: BrokerAddress,
    },
    /// The broker's access rules forbid it.
    #[error("the broker at {broker} does not allow {topic}: {why}")]
    NotAllowed {
        /// The topic or filter.
        topic: String,
        /// Where.
        broker: BrokerAddress,
        /// Its word.
        why: String,
    },
    /// Nothing came in time.
    #[error("no answer within {waited_s} s")]
    NoAnswer {
        /// How long was waited, in seconds.
        waited_s: u64,
    },
    /// requestedBy gives no owner.
    #[error(transparent)]
    BadOwner(#[from] IdError),
}

/// An agent as the registry shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenAgent {
    /// Its id.
    pub agent: AgentId,
    /// Its profile.
    pub profile: SeenProfile,
    /// Whether it is connected. The status topic wins over the profile (G1-11).
    pub online: bool,
}

impl SeenAgent {
    /// Whether it offers this service.
    pub fn offers(&self, service: &str) -> bool {
        self.profile.capabilities.iter().any(|capability| capability.service == service)
    }
}

/// Something the job's topics said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// A milestone, advisory.
    Event(Seen),
    /// A terminal result; after a `duplicate` the job's own may follow.
    Result(Seen),
    /// Something that cannot be read.
    Unreadable {
        /// Where it came by.
        topic: String,
        /// What is wrong with it.
        why: String,
    },
}

/// A connection of a requester.
pub struct Requester {
    settings: RequesterSettings,
    client_id: String,
    link: Box<dyn Link>,
    since: Instant,
    commands: u64,
    heard: VecDeque<Delivery>,
    following: Option<Following>,
    roll: Roll,
}

/// The job being followed.
struct Following {
    filter: String,
    /// A result that was kept from an earlier job with this id: not an answer to us.
    stale: Option<Bytes>,
    /// Whether the connection was lost since; what is kept then may be our answer.
    reconnected: bool,
    /// The command, while the broker has not taken it.
    unsent: Option<Message>,
}

impl Requester {
    /// Connects, within `wait`.
    pub async fn connect(settings: RequesterSettings, wait: Duration) -> Result<Self, RequesterError> {
        let client_id = format!("amp-req-{}", ulid::Ulid::new().to_string().to_ascii_lowercase());
        let link = open(&settings, &client_id, Instant::now() + wait).await?;
        Ok(Self {
            roll: Roll::new(settings.root.clone()),
            settings,
            client_id,
            link,
            since: Instant::now(),
            commands: 0,
            heard: VecDeque::new(),
            following: None,
        })
    }

    /// Reads the registry until it is quiet, or, with a service, until an agent that offers it is seen online.
    pub async fn agents(&mut self, service: Option<&str>, until: Instant) -> Result<Vec<SeenAgent>, RequesterError> {
        let root = self.settings.root.clone();
        let filters = [(root.profiles_filter(), Retained::Send), (root.statuses_filter(), Retained::Send)];
        self.subscribe(&filters, until).await?;
        let mut quiet = Instant::now() + REGISTRY_QUIET;
        loop {
            let found = self.roll.agents();
            if service.is_some_and(|service| found.iter().any(|agent| agent.online && agent.offers(service))) {
                return Ok(found);
            }
            match timeout_at(quiet.min(until), next_event(&mut self.link)).await {
                Err(_) => return Ok(found),
                Ok(LinkEvent::Delivery(delivery)) => {
                    if self.roll.note(&delivery) {
                        quiet = Instant::now() + REGISTRY_QUIET;
                    } else {
                        self.heard.push_back(delivery);
                    }
                }
                Ok(LinkEvent::Closed(fault)) => return Err(self.error_of(&fault)),
                Ok(_) => {}
            }
        }
    }

    /// Sends an invoke and follows its job. Resolves when the broker has taken it.
    pub async fn invoke(&mut self, agent: &AgentId, request: &InvokeRequest, until: Instant) -> Result<(), RequesterError> {
        let owner = Owner::from_requested_by(&request.requested_by)?;
        self.follow(&owner, &request.job, until).await?;
        let topic = self.settings.root.invoke(agent);
        self.command(Message { topic, payload: encode_invoke(request), retain: false }, until).await
    }

    /// Sends a cancel and follows its job. Resolves when the broker has taken it.
    pub async fn cancel(
        &mut self,
        agent: &AgentId,
        job: &JobId,
        requested_by: &str,
        until: Instant,
    ) -> Result<(), RequesterError> {
        let owner = Owner::from_requested_by(requested_by)?;
        self.follow(&owner, job, until).await?;
        let topic = self.settings.root.cancel(agent);
        self.command(Message { topic, payload: encode_cancel(job, requested_by), retain: false }, until).await
    }

    /// The next thing the followed job's topics say. A lost connection is opened anew meanwhile.
    pub async fn hear(&mut self, until: Instant) -> Result<Heard, RequesterError> {
        loop {
            while let Some(delivery) = self.heard.pop_front() {
                if let Some(heard) = self.read(&delivery) {
                    return Ok(heard);
                }
            }
            match timeout_at(until, next_event(&mut self.link)).await {
                Err(_) => return Err(self.no_answer()),
                Ok(LinkEvent::Delivery(delivery)) => self.heard.push_back(delivery),
                Ok(LinkEvent::Closed(_)) => self.reopen(until).await?,
                Ok(_) => {}
            }
        }
    }

    /// The result that stood on the followed job's topic before the command was sent.
    pub fn stood_before(&self) -> Option<Seen> {
        decode_seen(self.following.as_ref()?.stale.as_ref()?).ok()
    }

    /// Says goodbye.
    pub async fn close(mut self) {
        if self.link.disconnect().is_ok() {
            let until = Instant::now() + Duration::from_secs(1);
            // The broker closes the connection when it has read the goodbye; past a second nobody cares.
            while let Ok(event) = timeout_at(until, next_event(&mut self.link)).await {
                if matches!(event, LinkEvent::Closed(_)) {
                    break;
                }
            }
        }
    }

    async fn follow(&mut self, owner: &Owner, job: &JobId, until: Instant) -> Result<(), RequesterError> {
        let filter = self.settings.root.job_filter(owner, job);
        if self.following.as_ref().is_some_and(|following| following.filter == filter) {
            return Ok(());
        }
        self.following = Some(Following { filter: filter.clone(), stale: None, reconnected: false, unsent: None });
        self.subscribe(&[(filter, Retained::Send)], until).await
    }

    async fn subscribe(&mut self, filters: &[(String, Retained)], until: Instant) -> Result<(), RequesterError> {
        if self.link.subscribe(filters).is_err() {
            return Err(self.error_of(&Fault::Lost("too much waits to be sent".into())));
        }
        loop {
            match timeout_at(until, next_event(&mut self.link)).await {
                Err(_) => return Err(self.no_answer()),
                Ok(LinkEvent::Subscribed(refused)) => {
                    let Some((at, why)) = refused.first() else { return Ok(()) };
                    let topic = filters.get(*at).map(|(filter, _)| filter.clone()).unwrap_or_default();
                    return Err(RequesterError::NotAllowed { topic, broker: self.settings.broker.clone(), why: (*why).into() });
                }
                Ok(LinkEvent::Delivery(delivery)) => self.heard.push_back(delivery),
                Ok(LinkEvent::Closed(fault)) => return Err(self.error_of(&fault)),
                Ok(_) => {}
            }
        }
    }

    async fn command(&mut self, message: Message, until: Instant) -> Result<(), RequesterError> {
        let (topic, broker) = (message.topic.clone(), self.settings.broker.clone());
        if let Some(following) = &mut self.following {
            following.unsent = Some(message.clone());
        }
        let mut ticket = self.send(message)?;
        loop {
            match timeout_at(until, next_event(&mut self.link)).await {
                Err(_) => return Err(self.no_answer()),
                Ok(LinkEvent::Answered(answered, verdict)) if answered == ticket => {
                    if let Some(following) = &mut self.following {
                        following.unsent = None;
                    }
                    return match verdict {
                        Verdict::Taken => Ok(()),
                        Verdict::NobodyListens => Err(RequesterError::NobodyListens { topic, broker }),
                        Verdict::Refused(why) => Err(RequesterError::NotAllowed { topic, broker, why: why.into() }),
                    };
                }
                Ok(LinkEvent::Delivery(delivery)) => self.heard.push_back(delivery),
                Ok(LinkEvent::Closed(_)) => {
                    self.reopen(until).await?;
                    ticket = Ticket::Command(self.commands);
                }
                Ok(_) => {}
            }
        }
    }

    fn send(&mut self, message: Message) -> Result<Ticket, RequesterError> {
        self.commands += 1;
        let ticket = Ticket::Command(self.commands);
        match self.link.publish(ticket, message) {
            Ok(()) => Ok(ticket),
            Err(_) => Err(self.error_of(&Fault::Lost("too much waits to be sent".into()))),
        }
    }

    /// Opens the connection anew, subscribes, and sends a command again that the broker may not have.
    async fn reopen(&mut self, until: Instant) -> Result<(), RequesterError> {
        let mut backoff = Backoff::new(RECONNECT_FIRST, RECONNECT_MOST);
        loop {
            let wait = Instant::now() + backoff.wait();
            if wait >= until {
                return Err(self.no_answer());
            }
            tokio::time::sleep_until(wait).await;
            match open(&self.settings, &self.client_id, until).await {
                Ok(link) => self.link = link,
                Err(RequesterError::Unreachable { .. }) => continue,
                Err(error) => return Err(error),
            }
            let Some(following) = &mut self.following else { return Ok(()) };
            following.reconnected = true;
            let (filter, unsent) = (following.filter.clone(), following.unsent.clone());
            match self.subscribe(&[(filter, Retained::Send)], until).await {
                Ok(()) => {}
                Err(RequesterError::Unreachable { .. }) => continue,
                Err(error) => return Err(error),
            }
            if let Some(message) = unsent {
                self.send(message)?;
            }
            return Ok(());
        }
    }

    fn read(&mut self, delivery: &Delivery) -> Option<Heard> {
        let topic = std::str::from_utf8(&delivery.topic).ok()?;
        let is_result = match self.settings.root.parse_topic(topic)? {
            Topic::Result(..) => true,
            Topic::Events(..) => false,
            _ => {
                self.roll.note(delivery);
                return None;
            }
        };
        let following = self.following.as_mut()?;
        if is_result && delivery.retained {
            if !following.reconnected {
                following.stale = Some(delivery.payload.clone());
                return None;
            }
            if following.stale.as_ref() == Some(&delivery.payload) {
                return None;
            }
        }
        if is_result && delivery.payload.is_empty() {
            // An earlier result was cleared.
            return None;
        }
        Some(match decode_seen(&delivery.payload) {
            Ok(seen) if is_result => Heard::Result(seen),
            Ok(seen) => Heard::Event(seen),
            Err(error) => Heard::Unreadable { topic: topic.to_owned(), why: error.0 },
        })
    }

    fn no_answer(&self) -> RequesterError {
        RequesterError::NoAnswer { waited_s: self.since.elapsed().as_secs() }
    }

    fn error_of(&self, fault: &Fault) -> RequesterError {
        error_of(&self.settings, fault)
    }
}
