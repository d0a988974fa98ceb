//! Opening a requester's connection.
//!
//! Owns its plan and what its faults mean. It must not know what is asked.

use std::future::poll_fn;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::link::{Fault, Link, LinkEvent, Plan};
use super::requester::{RequesterError, RequesterSettings};
use super::v5::V5Link;

/// Silence after which the client pings.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Most deliveries taken unacknowledged.
const RECEIVE_MAX: u16 = 1024;

/// The next event of a connection.
pub(crate) async fn next_event(link: &mut Box<dyn Link>) -> LinkEvent {
    poll_fn(|cx| link.poll_event(cx)).await
}

/// What a fault means to a requester.
pub(crate) fn error_of(settings: &RequesterSettings, fault: &Fault) -> RequesterError {
    let broker = settings.broker.clone();
    match fault {
        Fault::LoginRefused(why) => RequesterError::LoginRefused { broker, why: (*why).into() },
        other => RequesterError::Unreachable { broker, why: other.to_string() },
    }
}

/// Opens a connection, until then at the latest.
pub(crate) async fn open(settings: &RequesterSettings, client_id: &str, until: Instant) -> Result<Box<dyn Link>, RequesterError> {
    let plan = Plan {
        broker: settings.broker.clone(),
        login: settings.login.clone(),
        client_id: client_id.to_owned(),
        session: false,
        will: None,
        manual_acks: false,
        packet_bytes_max: settings.packet_bytes_max,
        receive_max: RECEIVE_MAX,
        keep_alive: KEEP_ALIVE,
    };
    let mut link: Box<dyn Link> = Box::new(V5Link::new(&plan));
    match timeout_at(until, next_event(&mut link)).await {
        Ok(LinkEvent::Open { .. }) => Ok(link),
        Ok(LinkEvent::Closed(fault)) => Err(error_of(settings, &fault)),
        Ok(_) => Err(error_of(settings, &Fault::Lost("it spoke before it answered".into()))),
        Err(_) => Err(error_of(settings, &Fault::TimedOut)),
    }
}
