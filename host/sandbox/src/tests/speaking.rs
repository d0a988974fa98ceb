//! What a guest says while it works, and what it may ask.

use std::sync::Arc;

use job::executor::LogLevel;

use super::{BENCH, Listener, Order, body, order, way};
use crate::speech::{LOG_BYTES_MAX, LOG_CALLS_MAX, PROGRESS_BYTES_MAX, PROGRESS_CALLS_MAX};

fn heard(order: Order) -> Arc<Listener> {
    let listener = Arc::new(Listener::default());
    let ran = BENCH.runtime.block_on(BENCH.runtime.spawn(BENCH.mischief.run(order.work(), listener.clone()))).expect("ran");
    assert_eq!(body(ran.end), "\"done\"");
    listener
}

/// Milestones come in order, and no more of them than a job may have.
#[test]
fn progress_is_passed_on_in_order_and_bounded() {
    let few = heard(way("progress", 3, ""));
    assert_eq!(*few.progress.lock().expect("lock"), ["step 0", "step 1", "step 2"]);
    let many = heard(way("progress", u64::from(PROGRESS_CALLS_MAX) + 500, ""));
    let many = many.progress.lock().expect("lock");
    assert_eq!(many.len(), PROGRESS_CALLS_MAX as usize);
    assert_eq!(many.last().map(String::as_str), Some("step 9999"));
}

/// A message that is too long is cut between characters.
#[test]
fn long_messages_are_cut() {
    let listener = heard(way("long_progress", 1_000_000, "日"));
    let progress = listener.progress.lock().expect("lock");
    assert_eq!(progress.as_slice(), ["日".repeat(PROGRESS_BYTES_MAX / "日".len())]);
    let listener = heard(way("log", 0, &"é".repeat(LOG_BYTES_MAX)));
    assert!(listener.log.lock().expect("lock").iter().all(|(_, line)| line.len() == LOG_BYTES_MAX));
}

/// Log lines keep their level, and no more of them come than a job may have.
#[test]
fn log_lines_are_passed_on_and_bounded() {
    let listener = heard(way("log", u64::from(LOG_CALLS_MAX), "line"));
    let log = listener.log.lock().expect("lock");
    assert_eq!(log.len(), LOG_CALLS_MAX as usize);
    let levels: Vec<LogLevel> = log[..5].iter().map(|(level, _)| *level).collect();
    assert_eq!(levels, [LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error, LogLevel::Info]);
}

/// The contract's other imports answer with their typed error until this host can carry them.
#[test]
fn asking_is_answered_not_available() {
    let told: Vec<String> = serde_json::from_str(&body(way("ask", 0, "").end())).expect("JSON");
    assert_eq!(told.len(), 4);
    for answer in told {
        assert!(answer.contains("NotAvailable(\"this host cannot"), "{answer}");
    }
}

/// G1-56: the built-in guest answers with the prompt, whatever characters it holds.
#[test]
fn the_prompt_guest_answers_with_the_prompt() {
    let mut order = order("{}");
    order.prompt = "say \"hi\"\n\u{1}日\\".into();
    let expected = serde_json::json!({ "prompt": order.prompt });
    let found: serde_json::Value = serde_json::from_str(&body(order.run(&BENCH.prompt).end)).expect("JSON");
    assert_eq!(found, expected);
}

/// The demo guest reports milestones and gives a result of its own type.
#[test]
fn the_review_guest_reports_and_judges() {
    let args = r#"{"migration":"ALTER TABLE t ADD COLUMN c int; CREATE INDEX i ON t (c)"}"#;
    let listener = Arc::new(Listener::default());
    let run = BENCH.review.run(order(args).work(), listener.clone());
    let job::executor::End::Answered { kind, body } = BENCH.runtime.block_on(run).end else { panic!("not answered") };
    assert_eq!(kind.as_deref(), Some("review"));
    let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((&body["verdict"], &body["statements"]), (&"changes_requested".into(), &2.into()));
    assert!(body["summary"].as_str().is_some_and(|summary| summary.contains("CONCURRENTLY")), "{body}");
    let progress = listener.progress.lock().expect("lock");
    assert_eq!(*progress, ["reading the migration", "checking 2 statements for locks", "found 1 risk"]);
}

/// The demo guest's rules: the severity of each statement, none where there is no risk.
#[test]
fn the_review_guest_knows_its_rules() {
    let rows = [
        ("DROP TABLE users", Some("block")),
        ("alter table t drop column c", Some("block")),
        ("CREATE INDEX i ON t (c)", Some("block")),
        ("CREATE INDEX CONCURRENTLY i ON t (c)", None),
        ("ALTER TABLE t ALTER COLUMN c SET NOT NULL", Some("warn")),
        ("ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES b (a) NOT VALID", None),
        ("ALTER TABLE t ADD COLUMN c int", None),
        ("0042_add_index", None),
    ];
    for (statement, severity) in rows {
        let args = serde_json::json!({ "migration": statement }).to_string();
        let review: serde_json::Value = serde_json::from_str(&body(order(&args).run(&BENCH.review).end)).expect("JSON");
        assert_eq!(review["findings"][0]["severity"].as_str(), severity, "{statement}: {review}");
        let verdict = if severity == Some("block") { "changes_requested" } else { "approved" };
        assert_eq!(review["verdict"], verdict, "{statement}");
    }
    for (args, words) in [(r#"{"migration":" ; "}"#, "is empty"), ("{}", "missing field `migration`")] {
        match order(args).run(&BENCH.review).end {
            job::executor::End::Failed { message } => assert!(message.contains(words), "{message}"),
            other => panic!("{other:?}"),
        }
    }
}
