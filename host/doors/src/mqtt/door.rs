//! One agent's door: one task that owns the connection and everything that waits to cross it.
//!
//! Owns the loop, reconnecting, and what each event means. It must not know the client library, the journal's inside, or how a
//! job runs. The task never waits for a publish: it hands over what fits, and goes on polling (U01).

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use job::clock::Clock;
use job::ids::AgentId;
use job::jobs::Jobs;
use job::status::Board;
use job::store::{Outbox, RowId};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};
use wire::mqtt::registry::Profile;

use super::backoff::Backoff;
use super::blame::Sent;
use super::conditions;
use super::desk::Desk;
use super::inbound::{Handled, Inbound, RECEIVE_MAX, topic_text};
use super::leaving::Leaving;
use super::link::{Delivery, Fault, Link, LinkEvent, Plan, Receipt, Retained};
use super::mesh::Connection;
use super::metrics::Figures;
use super::pager::Pager;
use super::post::{Mail, Post};
use super::presence::{Noticed, Presence};
use super::settings::MeshSettings;
use super::v5::V5Link;

/// Silence after which the client pings (G1-14).
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Silence of the client library itself after which its connection is given up: it pings at a third of that, so something is
/// stuck. The library has no limit of its own for a write that never ends.
const WATCHDOG: Duration = Duration::from_secs(90);
/// First and longest wait between two connections.
const RECONNECT_FIRST: Duration = Duration::from_millis(200);
const RECONNECT_MOST: Duration = Duration::from_secs(30);
/// A connection that lived this long was a good one: the next wait starts over.
pub(crate) const GOOD_CONNECTION: Duration = Duration::from_secs(10);
/// The timer's rest when there is nothing to wait for.
const IDLE: Duration = Duration::from_secs(3600);

/// Everything a door is made of.
pub(crate) struct Parts {
    pub(crate) settings: Arc<MeshSettings>,
    pub(crate) profile: Arc<Profile>,
    pub(crate) post: Arc<Post>,
    pub(crate) inbox: UnboundedReceiver<Mail>,
    pub(crate) jobs: Arc<dyn Jobs>,
    pub(crate) outbox: Arc<dyn Outbox>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) board: Board,
    pub(crate) state: watch::Sender<Connection>,
}

/// One agent's door.
pub(crate) struct Door {
    pub(super) settings: Arc<MeshSettings>,
    pub(super) agent: AgentId,
    pub(super) post: Arc<Post>,
    inbox: UnboundedReceiver<Mail>,
    pub(super) outbox: Arc<dyn Outbox>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) board: Board,
    pub(super) state: watch::Sender<Connection>,
    pub(super) figures: Figures,
    pub(super) link: Option<Box<dyn Link>>,
    /// Since when the broker has let us in.
    pub(super) open_since: Option<Instant>,
    last_event: Instant,
    reconnect_at: Option<Instant>,
    backoff: Backoff,
    /// Publishes the broker takes unacknowledged, and the desk therefore sends.
    pub(super) window: usize,
    pub(super) desk: Desk,
    pub(super) sent: HashMap<u64, Sent>,
    /// Bytes of the largest message that the broker ever took.
    pub(super) taken_max: usize,
    /// The row that may be too large, and the bytes of its packet: an error is sent in its place.
    pub(super) stand_in_for: Option<(RowId, usize)>,
    /// Cuts since the last acknowledged row or event.
    pub(super) fruitless: u32,
    /// The last publish that was refused on this connection.
    pub(super) refused_topic: Option<(String, Instant)>,
    pub(super) inbound: Inbound,
    pub(super) receipts: VecDeque<Receipt>,
    pub(super) pager: Pager,
    pub(super) presence: Presence,
    pub(super) delivered: Vec<RowId>,
    pub(super) delivered_since: Option<Instant>,
    /// Whether a refused publish is on the board.
    pub(super) refusal_shown: bool,
    pub(super) leaving: Option<Leaving>,
    timer: Pin<Box<Sleep>>,
    /// Whether the connection is looked at before the letter box in the next round; it alternates, so neither starves.
    link_first: bool,
}

/// What the loop woke up for.
enum Woken {
    Link(LinkEvent),
    Answer(Option<Receipt>),
    Mail(Mail),
    NodeGone,
    Page,
    Time,
}

impl Door {
    /// Puts a door together; `run` opens it.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { settings, profile, post, inbox, jobs, outbox, clock, board, state } = parts;
        let agent = profile.agent.clone();
        let inbound = Inbound::new(agent.clone(), &settings.root, jobs, clock.clone(), settings.payload_bytes_max);
        let pager = Pager::new(agent.clone(), outbox.clone(), post.clone());
        let presence = Presence::new(settings.root.clone(), settings.instance.clone(), clock.now(), profile);
        let now = Instant::now();
        board.raise(&conditions::connection(&agent), conditions::connecting(&agent, &settings.broker));
        Self {
            figures: Figures::new(&agent),
            settings,
            agent,
            post,
            inbox,
            outbox,
            clock,
            board,
            state,
            link: None,
            open_since: None,
            last_event: now,
            reconnect_at: Some(now),
            backoff: Backoff::new(RECONNECT_FIRST, RECONNECT_MOST),
            window: 1,
            desk: Desk::default(),
            sent: HashMap::new(),
            taken_max: 0,
            stand_in_for: None,
            fruitless: 0,
            refused_topic: None,
            inbound,
            receipts: VecDeque::new(),
            pager,
            presence,
            delivered: Vec::new(),
            delivered_since: None,
            refusal_shown: false,
            leaving: None,
            timer: Box::pin(tokio::time::sleep(IDLE)),
            link_first: true,
        }
    }

    /// Works until the node closes the door, or another instance turns out to have been here first.
    pub(crate) async fn run(mut self) {
        loop {
            let now = Instant::now();
            self.handle_time(now);
            self.turn(now);
            if self.has_left(now) {
                break;
            }
            self.set_timer(now);
            match self.woken().await {
                Woken::Link(event) => self.handle_link(event),
                Woken::Answer(receipt) => self.receipts.extend(receipt),
                Woken::Mail(mail) => self.handle_mail(mail),
                Woken::NodeGone => break,
                Woken::Page | Woken::Time => {}
            }
        }
        self.flush_delivered();
        self.figures.connected.set(0.0);
    }

    async fn woken(&mut self) -> Woken {
        self.link_first = !self.link_first;
        poll_fn(|cx| {
            let rounds = if self.link_first { [true, false] } else { [false, true] };
            for link in rounds {
                let woken = if link { self.poll_link(cx) } else { self.poll_rest(cx) };
                if let Some(woken) = woken {
                    return Poll::Ready(woken);
                }
            }
            self.timer.as_mut().poll(cx).map(|()| Woken::Time)
        })
        .await
    }

    fn poll_link(&mut self, cx: &mut Context<'_>) -> Option<Woken> {
        match self.link.as_mut()?.poll_event(cx) {
            Poll::Ready(event) => Some(Woken::Link(event)),
            Poll::Pending => None,
        }
    }

    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Option<Woken> {
        if let Poll::Ready(receipt) = self.inbound.poll_answer(cx, &self.figures) {
            return Some(Woken::Answer(receipt));
        }
        if let Poll::Ready(mail) = self.inbox.poll_recv(cx) {
            return Some(mail.map_or(Woken::NodeGone, Woken::Mail));
        }
        if self.pager.poll_page(cx, &mut self.desk, Instant::now()).is_ready() {
            return Some(Woken::Page);
        }
        None
    }

    fn handle_mail(&mut self, mail: Mail) {
        match mail {
            Mail::Row(row) => self.pager.handle_row(row, &mut self.desk),
            Mail::Withdraw(id, key) => {
                if !self.pager.handle_withdraw(id)
                    && let Some(gone) = self.desk.withdraw(id, &key)
                {
                    self.account(gone);
                }
            }
            Mail::Wake => {}
            Mail::Event(event) => self.desk.push_event(event),
            Mail::Advertise(profile) => self.presence.advertise(profile),
            Mail::Drain => self.inbound.drain(),
            Mail::Close(until, done) => {
                self.inbound.close();
                self.close(until, done);
            }
        }
    }

    fn handle_link(&mut self, event: LinkEvent) {
        self.last_event = Instant::now();
        match event {
            LinkEvent::Open { session_present, receive_max, packet_bytes_max } => {
                self.handle_open(session_present, receive_max, packet_bytes_max);
            }
            LinkEvent::Delivery(delivery) => self.handle_delivery(delivery),
            LinkEvent::Answered(ticket, verdict) => self.handle_answer(ticket, &verdict),
            LinkEvent::Subscribed(refused) => self.handle_subscribed(&refused),
            LinkEvent::Goodbye => {}
            LinkEvent::Closed(fault) => self.handle_closed(&fault),
        }
    }

    fn handle_open(&mut self, session_present: bool, receive_max: u16, packet_bytes_max: Option<u32>) {
        let now = Instant::now();
        self.open_since = Some(now);
        self.window = usize::from(receive_max).clamp(1, super::sending::WINDOW_MAX);
        self.post.set_packet_bytes_max(packet_bytes_max);
        self.inbound.opened();
        self.presence.opened();
        self.figures.connects.increment(1);
        self.figures.connected.set(1.0);
        tracing::info!(agent = %self.agent, broker = %self.settings.broker, session_present, "connected");
        // Subscribing anew costs nothing when the broker kept the session, and is what saves us when it did not (U07).
        let filters = self.filters();
        if let Some(link) = &mut self.link
            && link.subscribe(&filters).is_err()
        {
            // Cannot happen on an empty queue; a connection that cannot subscribe is of no use.
            self.handle_closed(&Fault::Ended("its queue is full at the start".into()));
        }
    }

    fn filters(&self) -> Vec<(String, Retained)> {
        let mut filters = vec![(self.settings.root.status(&self.agent), Retained::Send)];
        filters.extend(self.inbound.topics().map(|topic| (topic.to_owned(), Retained::Skip)));
        filters
    }

    fn handle_subscribed(&mut self, refused: &[(usize, &'static str)]) {
        // Only now do commands come, so only now is the agent there for others.
        self.board.clear(&conditions::connection(&self.agent));
        self.board.clear(&conditions::beside(&self.agent, "subscribe"));
        self.state.send_replace(Connection::Online);
        let filters = self.filters();
        for (at, why) in refused {
            let filter = filters.get(*at).map_or("a topic", |(filter, _)| filter.as_str());
            tracing::error!(agent = %self.agent, filter, why, "subscription refused");
            self.board.raise(&conditions::beside(&self.agent, "subscribe"), conditions::not_subscribed(&self.agent, filter, why));
        }
    }

    fn handle_delivery(&mut self, delivery: Delivery) {
        let delivery = match self.inbound.handle(delivery, &self.figures) {
            Handled::Acknowledge(receipt) => return self.receipts.push_back(receipt),
            Handled::Kept => return,
            Handled::NotACommand(delivery) => delivery,
        };
        self.receipts.push_back(delivery.receipt);
        if delivery.topic.as_ref() != self.settings.root.status(&self.agent).as_bytes() {
            self.figures.others.increment(1);
            tracing::debug!(agent = %self.agent, topic = topic_text(&delivery), "not for a door");
            return;
        }
        self.figures.statuses.increment(1);
        match self.presence.handle_status(&delivery.payload) {
            Noticed::Nothing => {}
            Noticed::TheyCollide(other) => {
                self.figures.collisions.increment(1);
                let condition = conditions::other_collides(&self.agent, &self.settings.broker, &other);
                tracing::error!(agent = %self.agent, broker = %self.settings.broker, %other, "collision: {}", condition.what);
                self.board.raise(&conditions::beside(&self.agent, "collision"), condition);
            }
            Noticed::WeCollide(other) => self.collide(other),
        }
    }

    fn handle_closed(&mut self, fault: &Fault) {
        let now = Instant::now();
        self.link = None;
        self.figures.dropped(fault.word());
        self.figures.connected.set(0.0);
        let open_since = self.open_since.take();
        let explained = self.lose_flights(fault, open_since, now);
        if explained || open_since.is_some_and(|since| now - since >= GOOD_CONNECTION) {
            self.backoff.reset();
        }
        self.receipts.clear();
        if self.leaving.as_ref().is_some_and(Leaving::said_goodbye) {
            return;
        }
        let condition = conditions::not_connected(&self.agent, &self.settings.broker, fault, self.refused_lately(now));
        self.refused_topic = None;
        tracing::warn!(agent = %self.agent, broker = %self.settings.broker, "{}", condition.what);
        self.state.send_replace(Connection::Down(condition.what.clone()));
        self.board.raise(&conditions::connection(&self.agent), condition);
        self.reconnect_at = Some(now + self.backoff.wait());
    }

    fn handle_time(&mut self, now: Instant) {
        if self.link.is_some() && now >= self.last_event + WATCHDOG {
            self.handle_closed(&Fault::TimedOut);
        }
        if self.link.is_some() && self.open_since.is_some() && self.inbound.wants_reconnect() {
            tracing::warn!(agent = %self.agent, "connecting anew to get the commands the broker had to keep");
            self.handle_closed(&Fault::Ended("by us, to get more commands".into()));
        }
        if self.link.is_none() && self.reconnect_at.is_some_and(|at| at <= now) {
            self.connect(now);
        }
        self.inbound.handle_time(now, &self.figures);
        self.desk.handle_time(now);
        if self.delivered_since.is_some_and(|since| now >= since + super::sending::DELIVERED_WAIT) {
            self.flush_delivered();
        }
    }

    fn connect(&mut self, now: Instant) {
        self.reconnect_at = None;
        self.last_event = now;
        let plan = Plan {
            broker: self.settings.broker.clone(),
            login: self.settings.login.clone(),
            client_id: self.settings.root.client_id(&self.agent),
            session: true,
            will: Some(self.presence.will(self.clock.now())),
            manual_acks: true,
            packet_bytes_max: self.settings.packet_bytes_max,
            receive_max: RECEIVE_MAX,
            keep_alive: KEEP_ALIVE,
        };
        self.link = Some(Box::new(V5Link::new(&plan)));
    }

    /// Arms the timer for whatever comes first. A timer that is early does no harm, so it is only ever moved forward in time
    /// when it has fired.
    fn set_timer(&mut self, now: Instant) {
        let next = [
            self.link.as_ref().map(|_| self.last_event + WATCHDOG),
            self.reconnect_at.filter(|_| self.link.is_none()),
            self.inbound.next_retry(),
            self.desk.next_retry(),
            self.presence.next_retry().filter(|_| self.open_since.is_some()),
            self.pager.next_retry(),
            self.delivered_since.map(|since| since + super::sending::DELIVERED_WAIT),
            self.leaving.as_ref().map(|leaving| leaving.next_step(now)),
        ];
        let next = next.into_iter().flatten().min().unwrap_or(now + IDLE);
        if next < self.timer.deadline() || self.timer.is_elapsed() {
            self.timer.as_mut().reset(next);
        }
    }
}
