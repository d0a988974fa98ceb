//! The small HTTP server of `[ops]`: /healthz, /readyz and /metrics.
//!
//! Owns the listener and who may ask. It must not know what any figure or condition means.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use job::status::Board;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::pages::readiness;

/// How long open requests may take when the server stops.
const STOP_MAX: Duration = Duration::from_secs(2);
/// Longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 4096;

/// What the ops door needs.
pub struct OpsSettings {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Whoever asks from outside has to show it as `Authorization: Bearer …`. Needed unless the address is loopback.
    pub token: Option<String>,
}

/// Why the ops door cannot open.
#[derive(Debug, thiserror::Error)]
pub enum OpsError {
    /// Somebody else has the port.
    #[error(
        "the ops door cannot listen on {0}: the port is taken; stop what listens there, or set ops.listen (\"\" turns it off)"
    )]
    Busy(SocketAddr),
    /// Everyone could read it.
    #[error("the ops door does not listen on {0} without a token: set ops.token, or a loopback address in ops.listen")]
    NeedsToken(SocketAddr),
    /// Anything else.
    #[error("the ops door cannot listen on {listen}: {error}; set ops.listen")]
    Failed {
        /// Where it should listen.
        listen: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
}

/// The open ops door.
#[derive(Debug)]
pub struct Ops {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

#[derive(Clone)]
struct Shown {
    board: Board,
    metrics: Option<PrometheusHandle>,
    token: Option<Arc<str>>,
}

impl Ops {
    /// Opens the door; when this returns, it answers. Without a handle /metrics is not found.
    pub async fn start(settings: OpsSettings, board: Board, metrics: Option<PrometheusHandle>) -> Result<Self, OpsError> {
        let OpsSettings { listen, token } = settings;
        let token = token.filter(|token| !token.is_empty() && token.len() <= TOKEN_BYTES_MAX);
        if !listen.ip().is_loopback() && token.is_none() {
            return Err(OpsError::NeedsToken(listen));
        }
        let listener = TcpListener::bind(listen).await.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => OpsError::Busy(listen),
            _ => OpsError::Failed { listen, error },
        })?;
        let address = listener.local_addr().map_err(|error| OpsError::Failed { listen, error })?;
        let shown = Shown { board, metrics, token: token.map(Into::into) };
        let router = Router::new()
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics_page))
            .layer(middleware::from_fn_with_state(shown.clone(), check_token))
            .with_state(shown);
        let stop = watch::Sender::new(false);
        let task = tokio::spawn(serve(listener, router, stop.subscribe()));
        Ok(Self { address, stop, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the door; open requests get a moment to end.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        let abort = self.task.abort_handle();
        if tokio::time::timeout(STOP_MAX, self.task).await.is_err() {
            abort.abort();
        }
    }
}

async fn serve(listener: TcpListener, router: Router, stop: watch::Receiver<bool>) {
    let served = axum::serve(listener, router).with_graceful_shutdown(stopped(stop)).await;
    if let Err(error) = served {
        tracing::error!(%error, "the ops door closed");
    }
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that the door was dropped, which closes it too.
    let _dropped_or_told = stop.wait_for(|stop| *stop).await;
}

/// The process answers, so it is alive.
async fn healthz() -> &'static str {
    "alive\n"
}

async fn readyz(State(shown): State<Shown>, headers: HeaderMap) -> Response {
    let readiness = readiness(&shown.board.conditions());
    let code = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let wants_text = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).is_some_and(|a| a.starts_with("text/"));
    if wants_text {
        (code, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], readiness.text).into_response()
    } else {
        (code, [(header::CONTENT_TYPE, "application/json")], readiness.json).into_response()
    }
}

async fn metrics_page(State(shown): State<Shown>) -> Response {
    match &shown.metrics {
        Some(handle) => {
            handle.run_upkeep();
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], handle.render()).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn check_token(State(shown): State<Shown>, request: Request, next: Next) -> Response {
    if let Some(token) = &shown.token {
        let given = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        if !same(given.as_bytes(), token.as_bytes()) {
            return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], "this door needs its token\n")
                .into_response();
        }
    }
    next.run(request).await
}

/// Compares without stopping at the first difference, so that the time taken tells nothing about the token.
fn same(given: &[u8], token: &[u8]) -> bool {
    let differences = token.iter().enumerate().fold(0u8, |seen, (at, byte)| seen | (byte ^ given.get(at).unwrap_or(&0)));
    differences == 0 && given.len() == token.len()
}

#[cfg(test)]
mod tests;
