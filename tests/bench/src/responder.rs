//! The baseline of the mesh: a native responder that publishes what the protocol asks of a job and does nothing else.
//!
//! Owns one rumqttc event loop: MQTT 5, QoS 1, manual acks, TCP_NODELAY; no sandbox, no journal, no checks. It runs as a
//! process of its own, as the node does.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use rumqttc::NetworkOptions;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::{Packet, Publish};
use rumqttc::v5::{AsyncClient, Event, EventLoop, MqttOptions};
use serde_json::Value;

/// Messages rumqttc may have unacknowledged; far more than the load keeps outstanding.
const INFLIGHT: u16 = 20_000;
const CHANNEL: usize = 20_000;
/// Longest silence before the process ends by itself.
const IDLE: Duration = Duration::from_secs(60);

/// Connects with the options every client of the bench uses.
pub(crate) fn connect(id: &str, port: u16, manual_acks: bool) -> (AsyncClient, EventLoop) {
    let mut options = MqttOptions::new(id, "127.0.0.1", port);
    let mut network = NetworkOptions::new();
    network.set_tcp_nodelay(true);
    options.set_network_options(network);
    options.set_manual_acks(manual_acks);
    options.set_keep_alive(Duration::from_secs(30));
    options.set_outgoing_inflight_upper_limit(INFLIGHT);
    AsyncClient::new(options, CHANNEL)
}

/// `bench responder PORT AGENT three|echo`: answers invokes until nobody sends any.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let [port, agent, mode] = args else { bail!("responder PORT AGENT three|echo") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(port.parse().context("PORT")?, agent, mode == "three"))
}

async fn serve(port: u16, agent: &str, three: bool) -> Result<()> {
    let (client, mut events) = connect(&format!("native-{agent}"), port, three);
    client.subscribe(format!("agents/commands/{agent}/invoke"), QoS::AtLeastOnce).await?;
    let status = format!("agents/registry/{agent}/status");
    loop {
        let event = tokio::time::timeout(IDLE, events.poll()).await.context("idle")??;
        match event {
            Event::Incoming(Packet::SubAck(_)) => {
                client.try_publish(&status, QoS::AtLeastOnce, true, r#"{"status":"online"}"#)?;
            }
            Event::Incoming(Packet::Publish(publish)) => {
                answer(&client, &publish, three)?;
                if three {
                    client.try_ack(&publish)?;
                }
            }
            _ => {}
        }
    }
}

fn answer(client: &AsyncClient, publish: &Publish, three: bool) -> Result<()> {
    let invoke: Value = serde_json::from_slice(&publish.payload)?;
    let job = invoke["jobId"].as_str().context("jobId")?;
    let owner = invoke["requestedBy"].as_str().context("requestedBy")?;
    let text = &invoke["args"]["text"];
    if three {
        for kind in ["accepted", "started"] {
            let event = format!(r#"{{"jobId":"{job}","owner":"{owner}","type":"{kind}","ts":"2026-01-01T00:00:00.000Z"}}"#);
            client.try_publish(format!("agents/jobs/{owner}/{job}/events"), QoS::AtLeastOnce, false, event)?;
        }
    }
    // As many bytes as the node's result with its usage receipt.
    let result = format!(
        r#"{{"jobId":"{job}","owner":"{owner}","type":"result","ts":"2026-01-01T00:00:00.000Z","prompt":{text},"usage":{{"fuel":12345,"wallMs":1,"peakMemoryBytes":1179648,"guest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","attempt":1}}}}"#
    );
    client.try_publish(format!("agents/jobs/{owner}/{job}/result"), QoS::AtLeastOnce, true, result)?;
    Ok(())
}
