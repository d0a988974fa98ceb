//! A client that writes down what it is sent, and can publish: the outside view of a test.

use std::time::Duration;

use rumqttc::NetworkOptions;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{Packet, PublishProperties};
use rumqttc::v5::{AsyncClient, Event, MqttOptions};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::mqtt::settings::BrokerAddress;

/// No test waits longer than this for anything.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A message as the observer got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Got {
    pub(super) topic: String,
    pub(super) payload: String,
    pub(super) retained: bool,
}

/// The observer.
pub(super) struct Observer {
    client: AsyncClient,
    got: watch::Sender<Vec<Got>>,
    answered: watch::Receiver<u64>,
    asked: u64,
    task: JoinHandle<()>,
}

impl Observer {
    /// Connects with a clean session and subscribes; returns when the subscription stands.
    pub(super) async fn start(broker: &BrokerAddress, filter: &str) -> Self {
        let mut options = MqttOptions::new(format!("observer-{}", ulid::Ulid::new()), &broker.host, broker.port);
        options.set_clean_start(true).set_keep_alive(Duration::from_secs(10));
        options.set_max_packet_size(Some(64 * 1024 * 1024)).set_receive_maximum(Some(u16::MAX));
        let mut network = NetworkOptions::new();
        network.set_tcp_nodelay(true);
        options.set_network_options(network);
        let (client, mut eventloop) = AsyncClient::new(options, 10_000);
        let got = watch::Sender::new(Vec::new());
        let (count, answered) = watch::channel(0u64);
        let notes = got.clone();
        let task = tokio::spawn(async move {
            loop {
                match eventloop.poll().await {
                    Ok(Event::Incoming(Packet::Publish(publish))) => notes.send_modify(|all: &mut Vec<Got>| {
                        all.push(Got {
                            topic: String::from_utf8(publish.topic.to_vec()).expect("UTF-8"),
                            payload: String::from_utf8(publish.payload.to_vec()).expect("UTF-8"),
                            retained: publish.retain,
                        });
                    }),
                    Ok(Event::Incoming(Packet::PubAck(_) | Packet::SubAck(_))) => count.send_modify(|count| *count += 1),
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        });
        let mut observer = Self { client, got, answered, asked: 0, task };
        observer.client.subscribe(filter, QoS::AtLeastOnce).await.expect("asks");
        observer.asked += 1;
        observer.settled().await;
        observer
    }

    /// Waits until the broker has answered everything asked so far.
    pub(super) async fn settled(&mut self) {
        let asked = self.asked;
        let all = self.answered.wait_for(|answered| *answered >= asked);
        tokio::time::timeout(PATIENCE, all).await.expect("the broker answers").expect("it lives");
    }

    /// Publishes at QoS 1, without waiting.
    pub(super) async fn publish(&mut self, topic: &str, payload: impl Into<Vec<u8>>, retain: bool) {
        self.client.publish(topic, QoS::AtLeastOnce, retain, payload.into()).await.expect("queues");
        self.asked += 1;
    }

    /// Publishes at QoS 1 with an expiry.
    pub(super) async fn publish_expiring(&mut self, topic: &str, payload: impl Into<Vec<u8>>, expiry_s: u32) {
        let properties = PublishProperties {
            message_expiry_interval: Some(expiry_s),
            payload_format_indicator: None,
            topic_alias: None,
            response_topic: Some("nowhere".into()),
            correlation_data: None,
            user_properties: Vec::new(),
            subscription_identifiers: Vec::new(),
            content_type: None,
        };
        let sent = self.client.publish_with_properties(topic, QoS::AtLeastOnce, false, payload.into(), properties);
        sent.await.expect("queues");
        self.asked += 1;
    }

    /// All messages so far.
    pub(super) fn got(&self) -> Vec<Got> {
        self.got.borrow().clone()
    }

    /// Waits until the messages satisfy `enough`.
    pub(super) async fn wait(&self, what: &str, mut enough: impl FnMut(&[Got]) -> bool) -> Vec<Got> {
        let mut got = self.got.subscribe();
        let waited = tokio::time::timeout(PATIENCE, got.wait_for(|all| enough(all))).await;
        match waited {
            Ok(all) => all.expect("it lives").clone(),
            Err(_) => {
                let last: Vec<Got> = self.got.borrow().iter().rev().take(8).cloned().collect();
                panic!("{what} did not come; {} messages, the last: {last:#?}", self.got.borrow().len())
            }
        }
    }

    /// Waits for a message on this topic that satisfies `fits`.
    pub(super) async fn wait_for(&self, topic: &str, fits: impl Fn(&str) -> bool) -> Got {
        let is_it = |got: &Got| got.topic == topic && fits(&got.payload);
        let all = self.wait(topic, |all| all.iter().any(is_it)).await;
        all.into_iter().find(is_it).expect("just seen")
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What a new subscriber finds kept under this filter. Waits for `count` messages, and that no more come.
pub(super) async fn retained(broker: &BrokerAddress, filter: &str, count: usize) -> Vec<Got> {
    let observer = Observer::start(broker, filter).await;
    let got = observer.wait(&format!("{count} retained of {filter}"), |all| all.len() >= count).await;
    assert!(got.iter().all(|got| got.retained), "{got:?}");
    got
}
