//! Acknowledgements belong to the connection a command came by.
//!
//! Owns the case no real broker shows on demand: the engine answers after the connection has been opened anew.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::FutureExt;
use futures::task::noop_waker;
use job::BoxFuture;
use job::ids::{AgentId, JobKey};
use job::jobs::{Jobs, Refusal, Submission, Unavailable};
use job::store::{Admitted, Cancelled};
use kit::FakeClock;
use tokio::sync::oneshot;
use wire::mqtt::topics::Root;

use crate::mqtt::inbound::{Handled, Inbound};
use crate::mqtt::link::{Delivery, Receipt};
use crate::mqtt::metrics::Figures;

type Reply = oneshot::Sender<Result<Admitted, Unavailable>>;

/// An engine that answers when the test says so.
#[derive(Default)]
struct Slow(Mutex<Vec<Reply>>);

impl Jobs for Slow {
    fn submit(&self, _: Submission) -> BoxFuture<'static, Result<Admitted, Unavailable>> {
        let (reply, answer) = oneshot::channel();
        self.0.lock().expect("a lock").push(reply);
        answer.map(|answer| answer.unwrap_or(Err(Unavailable::Stopping))).boxed()
    }

    fn refuse(&self, _: Refusal) -> BoxFuture<'static, Result<Admitted, Unavailable>> {
        std::future::ready(Ok(Admitted::Refused)).boxed()
    }

    fn cancel(&self, _: JobKey) -> BoxFuture<'static, Result<Cancelled, Unavailable>> {
        std::future::ready(Ok(Cancelled::Unknown)).boxed()
    }
}

/// S1-42b, invariant 2: a command that came by an older connection is never acknowledged on a newer one, where its packet id
/// may stand for another command; the broker sends it again.
#[tokio::test]
async fn an_answer_that_comes_after_a_reconnect_acknowledges_nothing() {
    let agent = AgentId::parse("dba").expect("an id");
    let root = Root::parse("agents").expect("a root");
    let engine = Arc::new(Slow::default());
    let mut inbound = Inbound::new(agent.clone(), &root, engine.clone(), Arc::new(FakeClock::at(0)), 1024);
    let figures = Figures::new(&agent);
    let waker = noop_waker();
    let mut cx = std::task::Context::from_waker(&waker);
    for reconnected in [false, true] {
        inbound.opened();
        let delivery = Delivery {
            topic: Bytes::from(root.invoke(&agent)),
            payload: Bytes::from_static(br#"{"service":"a.b","requestedBy":"alice","jobId":"j"}"#),
            redelivered: false,
            retained: false,
            expires_in_s: None,
            receipt: Receipt { packet: 7, exactly_once: false },
        };
        assert!(matches!(inbound.handle(delivery, &figures), Handled::Kept));
        assert!(inbound.poll_answer(&mut cx, &figures).is_pending(), "the engine owes its answer");
        if reconnected {
            inbound.opened();
        }
        let reply = engine.0.lock().expect("a lock").pop().expect("it was asked");
        reply.send(Ok(Admitted::Accepted)).expect("it waits");
        let std::task::Poll::Ready(receipt) = inbound.poll_answer(&mut cx, &figures) else { panic!("it was answered") };
        assert_eq!(receipt.map(|receipt| receipt.packet), (!reconnected).then_some(7));
        assert_eq!(inbound.held(), 0);
    }
}
