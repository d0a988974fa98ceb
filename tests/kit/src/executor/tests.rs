//! The scripted guest on its own: that it owes what every guest owes.
use std::sync::Arc;
use std::time::Duration;

use super::{Act, ScriptedExecutor, ScriptedGuest};
use crate::samples::key;
use futures::FutureExt;
use job::executor::{End, Executor, Grants, GuestSource, Host, Limits, LogLevel, Work};
use job::json::JsonText;
use job::lineage::Lineage;
use tokio::sync::{mpsc, oneshot};

struct Heard(mpsc::UnboundedSender<String>);

impl Host for Heard {
    fn progress(&self, message: &str) {
        self.0.send(message.into()).unwrap();
    }
    fn log(&self, _: LogLevel, message: &str) {
        self.0.send(format!("log {message}")).unwrap();
    }
}

fn work(stop: oneshot::Receiver<()>) -> Work {
    Work {
        key: key("j1"),
        service: "schema.review".into(),
        args: JsonText::empty_object(),
        prompt: "Review.".into(),
        lineage: Lineage::root(key("j1").job),
        attempt: 2,
        limits: Limits { timeout_ms: 1000, fuel: 1, memory_bytes: 1, output_bytes: 1 },
        grants: Grants::default(),
        deadline: (tokio::time::Instant::now() + Duration::from_secs(1)).into_std(),
        // Only a word stops it, not the end of the test's own handle.
        stop: Box::pin(async move {
            if stop.await.is_err() {
                std::future::pending::<()>().await;
            }
        }),
    }
}

#[tokio::test(start_paused = true)]
async fn scripts_are_played_and_recorded() {
    let guest = ScriptedGuest::answering("1");
    guest.next(vec![Act::Say("half".into()), Act::Log(LogLevel::Info, "x".into()), Act::Hold, Act::End(End::OutOfFuel)]);
    let executor = ScriptedExecutor::default().with("g", &guest);
    executor.refuse("bad", "not WebAssembly");
    let source = |name: &str| GuestSource { name: name.into(), bytes: Arc::from(*b"") };
    assert!(executor.prepare(source("bad")).await.is_err() && executor.prepare(source("none")).await.is_err());
    let (says, mut heard) = mpsc::unbounded_channel();
    let host = Arc::new(Heard(says));
    let ready = executor.prepare(source("g")).await.unwrap();
    let mut run = ready.run(work(oneshot::channel().1), host.clone());
    assert!((&mut run).now_or_never().is_none(), "it holds");
    assert_eq!((heard.recv().await.unwrap(), heard.recv().await.unwrap()), ("half".into(), "log x".into()));
    assert_eq!(guest.wait_runs(1).await[0].attempt, 2);
    guest.go_on(1);
    assert_eq!(run.await.end, End::OutOfFuel);
    let second = ready.run(work(oneshot::channel().1), host).await;
    assert_eq!(second.end, End::Answered { kind: None, body: "1".into() });
    assert_eq!(guest.wait_ends(2).await.len(), 2);
    assert_eq!(executor.prepared().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn stop_and_deadline_end_a_hold() {
    let guest = ScriptedGuest::holding();
    let host = Arc::new(Heard(mpsc::unbounded_channel().0));
    let ready = ScriptedExecutor::guest(&guest);
    let (stop, stopped) = oneshot::channel();
    let run = tokio::spawn(ready.run(work(stopped), host.clone()));
    guest.wait_runs(1).await;
    stop.send(()).unwrap();
    assert_eq!(run.await.unwrap().end, End::Stopped);
    assert_eq!(ready.run(work(oneshot::channel().1), host).await.end, End::PastDeadline);
}
