//! A [`Link`] over rumqttc's MQTT 5 client.
//!
//! Owns all that is particular to the library, each trap with its reason. It must not know jobs or the journal.
//!
//! Each connection gets a client of its own. The library's own resending loses publishes when a session is gone, and when many
//! are in flight; so nothing is left to it: the desk sends again what was not acknowledged, on a fresh client whose packet ids
//! and queues start empty.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};
use rumqttc::NetworkOptions;
use rumqttc::Outgoing;
use rumqttc::v5::mqttbytes::v5::{
    ConnectReturnCode, DisconnectReasonCode, Filter, LastWill, Packet, PubAck, PubAckReason, Publish, RetainForwardRule, SubAck,
    SubscribeReasonCode,
};
use rumqttc::v5::mqttbytes::{Error as CodecError, QoS};
use rumqttc::v5::{AsyncClient, ConnectionError, Event, EventLoop, MqttOptions, StateError};
use wire::mqtt::outgoing::Message;

use super::link::{Delivery, Fault, Full, Lack, Link, LinkEvent, Plan, Receipt, Retained, Ticket, Verdict};

/// Most publishes the library has in flight; several times the desk's window, so that a packet id never comes round to one
/// that is still unacknowledged.
const IN_FLIGHT_MAX: u16 = 4096;
/// Places in the library's request queue: all the desk's window and all acknowledgements of a full receive window fit.
const REQUESTS_MAX: usize = 16 * 1024;
/// Seconds to wait for a TCP connection and for the answer to CONNECT.
const CONNECT_TIMEOUT_S: u64 = 5;

/// The reason "packet too large" of MQTT 5.
const PACKET_TOO_LARGE: u8 = 0x95;

type Polled = Result<Event, ConnectionError>;

/// One MQTT 5 connection.
pub(crate) struct V5Link {
    client: AsyncClient,
    events: Pin<Box<dyn Stream<Item = Polled> + Send>>,
    /// Tickets handed to the library whose packet id is not known yet, in the order the library takes them.
    sent: VecDeque<Ticket>,
    /// Tickets by packet id.
    in_flight: Vec<Option<Ticket>>,
    closed: bool,
}

impl V5Link {
    /// Prepares a connection; polling opens it.
    pub(crate) fn new(plan: &Plan) -> Self {
        let (client, eventloop) = AsyncClient::new(options(plan), REQUESTS_MAX);
        // The poll future is kept until it resolves, because dropping it in the middle of a write would lose that packet.
        let events = futures::stream::unfold((Box::new(eventloop), None), |(mut eventloop, over)| async move {
            // The library reports an error before what it had read before the error, the answers to publishes among it.
            let over = match over {
                Some(error) => error,
                None => {
                    let polled = eventloop.poll().await;
                    match unwedge(&eventloop, polled) {
                        Ok(event) => return Some((Ok(event), (eventloop, None))),
                        Err(error) => error,
                    }
                }
            };
            match eventloop.state.events.pop_front() {
                Some(event) => Some((Ok(event), (eventloop, Some(over)))),
                None => Some((Err(over), (eventloop, None))),
            }
        });
        let in_flight = vec![None; usize::from(IN_FLIGHT_MAX) + 1];
        Self { client, events: Box::pin(events), sent: VecDeque::new(), in_flight, closed: false }
    }

    fn translate(&mut self, polled: Polled) -> Option<LinkEvent> {
        match polled {
            Ok(Event::Incoming(Packet::ConnAck(ack))) => {
                let properties = ack.properties.as_ref();
                Some(LinkEvent::Open {
                    session_present: ack.session_present,
                    receive_max: properties.and_then(|p| p.receive_max).unwrap_or(u16::MAX),
                    packet_bytes_max: properties.and_then(|p| p.max_packet_size),
                })
            }
            Ok(Event::Incoming(Packet::Publish(publish))) => Some(LinkEvent::Delivery(delivery(publish))),
            Ok(Event::Incoming(Packet::PubAck(ack))) => {
                let ticket = self.in_flight.get_mut(usize::from(ack.pkid)).and_then(Option::take)?;
                Some(LinkEvent::Answered(ticket, verdict(&ack)))
            }
            Ok(Event::Incoming(Packet::SubAck(ack))) => Some(LinkEvent::Subscribed(refused_filters(&ack))),
            Ok(Event::Outgoing(Outgoing::Publish(packet))) => {
                let ticket = self.sent.pop_front();
                if let Some(place) = self.in_flight.get_mut(usize::from(packet)) {
                    *place = ticket;
                }
                None
            }
            Ok(Event::Outgoing(Outgoing::Disconnect)) => Some(LinkEvent::Goodbye),
            Ok(_) => None,
            Err(error) => {
                self.closed = true;
                Some(LinkEvent::Closed(fault(&error)))
            }
        }
    }
}

impl Link for V5Link {
    fn publish(&mut self, ticket: Ticket, message: Message) -> Result<(), Full> {
        let Message { topic, payload, retain } = message;
        self.client.try_publish(topic, QoS::AtLeastOnce, retain, payload).map_err(|_| Full)?;
        self.sent.push_back(ticket);
        Ok(())
    }

    fn subscribe(&mut self, filters: &[(String, Retained)]) -> Result<(), Full> {
        let filters = filters.iter().map(|(path, retained)| {
            let mut filter = Filter::new(path.as_str(), QoS::AtLeastOnce);
            filter.retain_forward_rule = match retained {
                Retained::Skip => RetainForwardRule::Never,
                Retained::Send => RetainForwardRule::OnEverySubscribe,
            };
            filter
        });
        self.client.try_subscribe_many(filters).map_err(|_| Full)
    }

    fn acknowledge(&mut self, receipt: Receipt) -> Result<(), Full> {
        if receipt.packet == 0 {
            return Ok(());
        }
        let qos = if receipt.exactly_once { QoS::ExactlyOnce } else { QoS::AtLeastOnce };
        let stub = Publish { pkid: receipt.packet, qos, ..Publish::default() };
        self.client.try_ack(&stub).map_err(|_| Full)
    }

    fn disconnect(&mut self) -> Result<(), Full> {
        self.client.try_disconnect().map_err(|_| Full)
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<LinkEvent> {
        // Polling the library after an error would open a new connection, which is not this link's to do.
        while !self.closed {
            match self.events.poll_next_unpin(cx) {
                Poll::Ready(Some(polled)) => {
                    if let Some(event) = self.translate(polled) {
                        return Poll::Ready(event);
                    }
                }
                Poll::Ready(None) => self.closed = true,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Pending
    }
}

/// A refused publish whose packet id another one waits for would leave the library waiting for ever; such a connection is given
/// up, and the next one sends again.
fn unwedge(eventloop: &EventLoop, polled: Polled) -> Polled {
    let refused = matches!(&polled, Ok(Event::Incoming(Packet::PubAck(ack))) if matches!(verdict(ack), Verdict::Refused(_)));
    if refused && eventloop.state.collision.is_some() {
        return Err(ConnectionError::MqttState(StateError::CollisionTimeout));
    }
    polled
}

fn options(plan: &Plan) -> MqttOptions {
    let mut options = MqttOptions::new(&plan.client_id, &plan.broker.host, plan.broker.port);
    if plan.broker.host.contains(':') {
        options = MqttOptions::new(&plan.client_id, format!("[{}]", plan.broker.host), plan.broker.port);
    }
    options.set_clean_start(!plan.session);
    options.set_session_expiry_interval(Some(if plan.session { u32::MAX } else { 0 }));
    options.set_keep_alive(plan.keep_alive);
    options.set_manual_acks(plan.manual_acks);
    options.set_max_packet_size(Some(plan.packet_bytes_max));
    options.set_receive_maximum(Some(plan.receive_max));
    options.set_outgoing_inflight_upper_limit(IN_FLIGHT_MAX);
    options.set_connection_timeout(CONNECT_TIMEOUT_S);
    // Without this a job that is alone waits 40 ms for Nagle's algorithm.
    let mut network = NetworkOptions::new();
    network.set_tcp_nodelay(true);
    network.set_connection_timeout(CONNECT_TIMEOUT_S);
    options.set_network_options(network);
    if let Some(login) = &plan.login {
        options.set_credentials(login.username.as_str(), login.password.as_str());
    }
    if let Some(will) = &plan.will {
        let will = LastWill::new(will.topic.as_str(), will.payload.clone(), QoS::AtLeastOnce, will.retain, None);
        options.set_last_will(will);
    }
    options
}

fn delivery(publish: Publish) -> Delivery {
    let expires_in_s = publish.properties.as_ref().and_then(|p| p.message_expiry_interval);
    let receipt = Receipt { packet: publish.pkid, exactly_once: publish.qos == QoS::ExactlyOnce };
    Delivery {
        topic: publish.topic,
        payload: publish.payload,
        redelivered: publish.dup,
        retained: publish.retain,
        expires_in_s,
        receipt,
    }
}

fn verdict(ack: &PubAck) -> Verdict {
    match ack.reason {
        PubAckReason::Success => Verdict::Taken,
        PubAckReason::NoMatchingSubscribers => Verdict::NobodyListens,
        PubAckReason::UnspecifiedError => Verdict::Refused("unspecified error"),
        PubAckReason::ImplementationSpecificError => Verdict::Refused("implementation specific error"),
        PubAckReason::NotAuthorized => Verdict::Refused("not authorised"),
        PubAckReason::TopicNameInvalid => Verdict::Refused("topic name invalid"),
        PubAckReason::PacketIdentifierInUse => Verdict::Refused("packet id in use"),
        PubAckReason::QuotaExceeded => Verdict::Refused("quota exceeded"),
        PubAckReason::PayloadFormatInvalid => Verdict::Refused("payload format invalid"),
    }
}

fn refused_filters(ack: &SubAck) -> Vec<(usize, &'static str)> {
    let word = |code: &SubscribeReasonCode| match code {
        SubscribeReasonCode::Success(_) => None,
        SubscribeReasonCode::NotAuthorized => Some("not authorised"),
        SubscribeReasonCode::TopicFilterInvalid => Some("filter invalid"),
        SubscribeReasonCode::QuotaExceeded => Some("quota exceeded"),
        _ => Some("refused"),
    };
    ack.return_codes.iter().enumerate().filter_map(|(at, code)| word(code).map(|word| (at, word))).collect()
}

fn fault(error: &ConnectionError) -> Fault {
    match error {
        ConnectionError::Io(error) => Fault::Unreachable(error.to_string()),
        ConnectionError::Timeout(_) => Fault::TimedOut,
        ConnectionError::ConnectionRefused(code) => match code {
            ConnectReturnCode::BadUserNamePassword => Fault::LoginRefused("bad user name or password"),
            ConnectReturnCode::NotAuthorized => Fault::LoginRefused("not authorised"),
            ConnectReturnCode::Banned => Fault::LoginRefused("banned"),
            ConnectReturnCode::RetainNotSupported => Fault::Lacks(Lack::Retained),
            ConnectReturnCode::QoSNotSupported => Fault::Lacks(Lack::AtLeastOnce),
            ConnectReturnCode::PacketTooLarge => Fault::Lacks(Lack::PacketSize),
            other => Fault::Refused(format!("{other:?}")),
        },
        ConnectionError::MqttState(StateError::ServerDisconnect { reason_code, reason_string }) => match reason_code {
            DisconnectReasonCode::SessionTakenOver => Fault::TakenOver,
            DisconnectReasonCode::PacketTooLarge => Fault::TooLarge,
            DisconnectReasonCode::RetainNotSupported => Fault::Lacks(Lack::Retained),
            DisconnectReasonCode::QoSNotSupported => Fault::Lacks(Lack::AtLeastOnce),
            DisconnectReasonCode::ServerBusy
            | DisconnectReasonCode::ServerShuttingDown
            | DisconnectReasonCode::KeepAliveTimeout
            | DisconnectReasonCode::AdministrativeAction
            | DisconnectReasonCode::UseAnotherServer
            | DisconnectReasonCode::ServerMoved
            | DisconnectReasonCode::ConnectionRateExceeded
            | DisconnectReasonCode::MaximumConnectTime => {
                Fault::Ended(format!("the broker said {reason_code:?} {}", reason_string.as_deref().unwrap_or_default()))
            }
            other => Fault::Lost(format!("the broker said {other:?} {}", reason_string.as_deref().unwrap_or_default())),
        },
        ConnectionError::MqttState(StateError::ConnectionAborted) => Fault::Lost("closed by the broker".into()),
        ConnectionError::MqttState(StateError::AwaitPingResp) => Fault::TimedOut,
        ConnectionError::MqttState(StateError::CollisionTimeout) => Fault::Ended("by us, to send anew what was refused".into()),
        // Mosquitto says so in the answer to a publish, where the standard has no such reason and the library cannot read it.
        ConnectionError::MqttState(StateError::Deserialization(CodecError::InvalidConnectReturnCode(PACKET_TOO_LARGE))) => {
            Fault::TooLarge
        }
        other => Fault::Lost(other.to_string()),
    }
}
