//! Nothing leaks: between jobs, from the host, or past the end of a run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use job::executor::{End, Executor, Grants};

use super::{BENCH, Listener, body, guest_source, order, settings, way};
use crate::Sandbox;

/// DC-03: a static starts anew for every job, and memory holds nothing of the job before, in this place or another.
#[test]
fn no_job_finds_what_another_left() {
    for round in 0..50 {
        // The marks fill more than a place keeps resident, so both ways of clearing it are seen.
        assert_eq!(body(way("remember", 64, "").end()), "[1,0]", "round {round}");
    }
    let together: Vec<_> = (0..50)
        .map(|_| BENCH.runtime.spawn(BENCH.mischief.run(way("remember", 16, "").work(), Arc::new(Listener::default()))))
        .collect();
    for task in together {
        assert_eq!(body(BENCH.runtime.block_on(task).expect("ran").end), "[1,0]");
    }
}

/// U13, DESIGN section 4: a guest sees its own job, whole and to the byte.
#[test]
fn a_guest_sees_its_job_to_the_byte() {
    let args = r#"{"do":"echo","id":2512292042121000001,"big":123456789012345678901234567890,"f":1.10,"s":"ä\n\"日"}"#;
    let mut order = order(args);
    order.prompt = "Review it — ä日\n${X} {{y}}".into();
    let told = body(order.end());
    assert!(told.starts_with(&format!("{{\"args\":{args},")), "{told}");
    let job = r#"["rev-118","mohanad","schema.review","Review it — ä日\n${X} {{y}}","dep-1","dep-0",2,3,60000]"#;
    assert!(told.contains(job), "{told}");
}

/// DESIGN invariant 6: no environment, arguments, folders, stdin or sockets but what is granted.
#[test]
fn a_guest_has_only_its_grants() {
    let bare = r#"{"args":[],"env":[],"folders":[],"socket":"access-denied","stdin":"closed"}"#;
    assert_eq!(body(way("look_around", 0, "").end()), bare);
    let mut granted = way("look_around", 0, "");
    granted.grants = Grants { env: vec![("MODEL".into(), "small".into())] };
    assert_eq!(body(granted.end()), bare.replace(r#""env":[]"#, r#""env":[["MODEL","small"]]"#));
}

/// S1-70: a stopped, late or dropped run frees its place at once, also when it waits in a host call.
#[test]
fn an_ended_run_frees_its_place() {
    let home = tempfile::tempdir().expect("temporary folder");
    let mut few = settings(&home.path().join("compiled"));
    few.max_live = 1;
    let sandbox = Sandbox::new(&few).expect("sandbox");
    let guest = BENCH.runtime.block_on(sandbox.prepare(guest_source("mischief"))).expect("ready");
    let gone = || assert_eq!(sandbox.live(), 0);
    for word in ["sleep", "loop"] {
        assert_eq!(way(word, 3_600_000, "").timeout(20).run(&guest).end, End::PastDeadline);
        gone();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let run = guest.run(way(word, 3_600_000, "").stop(async { drop(stopped.await) }).work(), Arc::new(Listener::default()));
        let task = BENCH.runtime.spawn(run);
        wait_until(|| sandbox.live() == 1);
        drop(stop);
        assert_eq!(BENCH.runtime.block_on(task).expect("ran").end, End::Stopped);
        gone();
        let task = BENCH.runtime.spawn(guest.run(way(word, 3_600_000, "").work(), Arc::new(Listener::default())));
        wait_until(|| sandbox.live() == 1);
        // With its one place taken, the pool has none for another: that is no ending of a job.
        match way("answer", 0, "1").run(&guest).end {
            End::NoPlace { message } => assert!(message.contains("every place"), "{message}"),
            other => panic!("{other:?}"),
        }
        task.abort();
        assert!(BENCH.runtime.block_on(task).expect_err("aborted").is_cancelled());
        gone();
    }
    assert_eq!(body(way("answer", 0, "1").run(&guest).end), "1");
}

/// Waits for something another thread does, and gives up long after it should have been.
fn wait_until(done: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < until, "it never happened");
        std::thread::yield_now();
    }
}
