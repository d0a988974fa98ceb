//! The broker in this process: for the first five minutes and for development. Its state is in memory and ends with it.
//!
//! Owns starting and stopping it. It must not know agents: they connect to it like to any other broker.

use std::io;
use std::net::{SocketAddr, TcpListener};

use mqtt5::broker::MqttBroker;
use mqtt5::broker::config::{BrokerConfig, RateLimitConfig, StorageBackend, StorageConfig};
use tokio::task::JoinHandle;

/// Most clients at once.
const CLIENTS_MAX: usize = 1000;
/// Most messages that wait for one client that is away, and most bytes of them.
const QUEUED_MESSAGES_MAX: usize = 100_000;
const QUEUED_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Most messages that wait for one client that is connected.
const CLIENT_CHANNEL_MAX: usize = 100_000;
/// Most retained messages.
const RETAINED_MAX: usize = 100_000;

/// Why the broker cannot start.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// Somebody else has the port.
    #[error("the embedded broker cannot listen on {0}: the port is taken; stop what listens there, or set mesh.embedded_listen")]
    Busy(SocketAddr),
    /// It knows no logins, so it listens on this machine only.
    #[error(
        "the embedded broker does not listen on {0}: it lets everyone in, so it stays on loopback; use an external broker for other machines"
    )]
    NotLoopback(SocketAddr),
    /// Anything else.
    #[error("the embedded broker cannot listen on {address}: {why}; set mesh.embedded_listen")]
    Failed {
        /// Where it should listen.
        address: SocketAddr,
        /// What the system said.
        why: String,
    },
}

/// A running broker. Dropping it ends it at once.
#[derive(Debug)]
pub struct EmbeddedBroker {
    address: SocketAddr,
    stop: StopOnDrop,
    task: JoinHandle<()>,
}

struct StopOnDrop(mqtt5::broker::BrokerShutdownHandle);

impl std::fmt::Debug for StopOnDrop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StopOnDrop")
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

impl EmbeddedBroker {
    /// Starts it; when this returns, it accepts connections. Port 0 takes a free one. `packet_bytes_max` is the largest packet
    /// it takes, at least 1024.
    pub async fn start(listen: SocketAddr, packet_bytes_max: usize) -> Result<Self, EmbeddedError> {
        if !listen.ip().is_loopback() {
            return Err(EmbeddedError::NotLoopback(listen));
        }
        let failed = |why: String| EmbeddedError::Failed { address: listen, why };
        // Asked first, because the broker's own error does not tell a taken port from another fault.
        match TcpListener::bind(listen) {
            Ok(_free_again_at_once) => {}
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(EmbeddedError::Busy(listen)),
            Err(error) => return Err(failed(error.to_string())),
        }
        let mut broker = MqttBroker::with_config(config(listen, packet_bytes_max)).await.map_err(|e| failed(e.to_string()))?;
        let address = broker.local_addr().ok_or_else(|| failed("it has no address".into()))?;
        let stop = StopOnDrop(broker.shutdown_handle());
        let mut ready = broker.ready_receiver();
        let task = tokio::spawn(async move {
            if let Err(error) = broker.run().await {
                tracing::error!(%error, "the embedded broker stopped");
            }
        });
        ready.wait_for(|ready| *ready).await.map_err(|_| failed("it stopped at once".into()))?;
        Ok(Self { address, stop, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it and waits until its connections are closed.
    pub async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the embedded broker failed");
        }
    }
}

fn config(listen: SocketAddr, packet_bytes_max: usize) -> BrokerConfig {
    let storage = StorageConfig::new()
        .with_backend(StorageBackend::Memory)
        .with_persistence(true)
        .with_max_queued_messages_per_client(QUEUED_MESSAGES_MAX)
        .with_max_queued_bytes_per_client(QUEUED_BYTES_MAX);
    let mut config = BrokerConfig::new()
        .with_bind_address(listen)
        .with_max_clients(CLIENTS_MAX)
        .with_max_packet_size(packet_bytes_max)
        .with_max_retained_messages(RETAINED_MAX)
        .with_client_channel_capacity(CLIENT_CHANNEL_MAX)
        .with_sys_topics_enabled(false)
        .with_storage(storage);
    // Everyone on this machine may come in, so there is no login to guess and nothing to slow down.
    config.auth_config.rate_limit = RateLimitConfig { enabled: false, ..RateLimitConfig::default() };
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: &str = "127.0.0.1:0";
    const PACKET_BYTES_MAX: usize = 1024 * 1024;

    /// A taken port is one sentence with the mend, and a stopped broker gives its port back.
    #[tokio::test]
    async fn a_taken_port_is_said_and_a_stopped_broker_frees_its_own() {
        let broker = EmbeddedBroker::start(ANY.parse().expect("an address"), PACKET_BYTES_MAX).await.expect("starts");
        let address = broker.address();
        let taken = EmbeddedBroker::start(address, PACKET_BYTES_MAX).await.expect_err("taken");
        let text = taken.to_string();
        assert!(matches!(taken, EmbeddedError::Busy(_)) && text.contains("mesh.embedded_listen"), "{text}");
        broker.stop().await;
        EmbeddedBroker::start(address, PACKET_BYTES_MAX).await.expect("free again").stop().await;
    }

    #[tokio::test]
    async fn it_stays_on_this_machine() {
        let open = EmbeddedBroker::start("0.0.0.0:0".parse().expect("an address"), PACKET_BYTES_MAX).await;
        assert!(matches!(open, Err(EmbeddedError::NotLoopback(_))));
    }
}
