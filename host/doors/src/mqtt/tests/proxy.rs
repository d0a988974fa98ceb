//! A TCP proxy that can cut every connection, can hold back what the broker says, and can cut whenever it sees a text.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::broker::address;
use crate::mqtt::settings::BrokerAddress;

/// A running proxy.
pub(super) struct Proxy {
    port: u16,
    cuts: Arc<watch::Sender<u64>>,
    open: watch::Sender<bool>,
    disliked: watch::Sender<String>,
    passed: Arc<watch::Sender<u64>>,
}

impl Proxy {
    /// Forwards to this port; each chunk from the broker waits `delay` first.
    pub(super) async fn start(target: u16, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let port = listener.local_addr().expect("an address").port();
        let cuts = Arc::new(watch::Sender::new(0));
        let open = watch::Sender::new(true);
        let (seen, is_open) = (cuts.clone(), open.subscribe());
        let disliked = watch::Sender::new(String::new());
        let passed = Arc::new(watch::Sender::new(0));
        let (text, count) = (disliked.subscribe(), passed.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !*is_open.borrow() {
                    continue;
                }
                let mut cut = seen.subscribe();
                cut.mark_unchanged();
                count.send_modify(|count| *count += 1);
                let text = text.clone();
                tokio::spawn(async move {
                    let Ok(broker) = TcpStream::connect(("127.0.0.1", target)).await else { return };
                    client.set_nodelay(true).expect("an option");
                    broker.set_nodelay(true).expect("an option");
                    let (from_client, to_client) = client.into_split();
                    let (from_broker, to_broker) = broker.into_split();
                    tokio::select! {
                        _ = cut.changed() => {}
                        () = copy(from_client, to_broker, Duration::ZERO, Some(text)) => {}
                        () = copy(from_broker, to_client, delay, None) => {}
                    }
                });
            }
        });
        Self { port, cuts, open, disliked, passed }
    }

    /// Cuts every connection there is.
    pub(super) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Whether new connections are let through.
    pub(super) fn set_open(&self, open: bool) {
        self.open.send_replace(open);
    }

    /// From now on cuts a connection whose client sends this text; empty for none.
    pub(super) fn dislike(&self, text: &str) {
        self.disliked.send_replace(text.into());
    }

    /// Connections so far.
    pub(super) fn connections(&self) -> u64 {
        *self.passed.borrow()
    }

    pub(super) fn address(&self) -> BrokerAddress {
        address(self.port)
    }
}

async fn copy(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    delay: Duration,
    disliked: Option<watch::Receiver<String>>,
) {
    let mut seen = Vec::new();
    let mut chunk = vec![0; 16 * 1024];
    while let Ok(read) = from.read(&mut chunk).await {
        if read == 0 {
            return;
        }
        if let Some(text) = disliked.as_ref().map(|text| text.borrow().clone()).filter(|text| !text.is_empty()) {
            // The text may lie across two chunks.
            let old = seen.len().saturating_sub(text.len());
            seen.drain(..old);
            seen.extend_from_slice(&chunk[..read]);
            if seen.windows(text.len()).any(|window| window == text.as_bytes()) {
                return;
            }
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if to.write_all(&chunk[..read]).await.is_err() {
            return;
        }
    }
}
