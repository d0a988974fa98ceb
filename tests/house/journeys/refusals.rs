//! Requests that are refused before any work, each with its reason, in the right scope.
//!
//! Owns the `rejected` rows of G1-48 that this step can reach.

use house::catalog::{Catalog, mischief};
use house::lab::{AGENT, Lab, OWNER};
use serde_json::{Value, json};

/// The usual entries, a strict one, and one whose variable has no value, to see that nothing was resolved.
fn catalog() -> Catalog {
    let catalog = Catalog::usual();
    catalog.file(
        "more.json",
        &json!([
            {"service": "test.strict", "description": "Refuses other types.", "requestSchema": {"pr": "number"},
             "prompt": "{{pr}} ${NO_SUCH_VARIABLE}", "strict": true},
            {"service": "test.unresolved", "description": "Has a variable without a value.", "prompt": "${NO_SUCH_VARIABLE}"},
        ]),
    );
    catalog
}

/// S1-22, S1-22b, S1-39, S1-40, S1-44, S1-44b, S1-58, G1-13, G1-19, G1-29: one row a refusal: where, which job id, why.
#[test]
fn each_fault_has_its_reason_and_scope() {
    let lab = Lab::with(catalog(), |_| {});
    let base = |job: &str| json!({"service": "test.unresolved", "args": {}, "requestedBy": OWNER, "jobId": job});
    let with = |job: &str, member: &str, value: Value| {
        let mut body = base(job);
        body[member] = value;
        body
    };
    let without = |job: &str, member: &str| {
        let mut body = base(job);
        body.as_object_mut().unwrap().remove(member);
        body
    };
    let rows = [
        ("r1", with("r1", "service", json!("no.such.service")), OWNER, "unknown_service"),
        ("r2", without("r2", "service"), OWNER, "unknown_service"),
        ("r3", without("r3", "requestedBy"), "public", "missing_requested_by"),
        ("r4", with("r4", "requestedBy", Value::Null), "public", "missing_requested_by"),
        ("r5", with("r5", "requestedBy", json!(7)), "public", "missing_requested_by"),
        ("r6", with("r6", "args", json!([1])), OWNER, "bad_request"),
        ("r7", with("r7", "args", json!("text")), OWNER, "bad_request"),
        ("r8", with("r8", "depth", json!(-1)), OWNER, "bad_lineage"),
        ("r9", with("r9", "depth", json!(1.5)), OWNER, "bad_lineage"),
        ("r10", with("r10", "depth", json!("2")), OWNER, "bad_lineage"),
        ("r11", with("r11", "parentJobId", json!(["x"])), OWNER, "bad_lineage"),
        ("r12", with("r12", "depth", json!(5)), OWNER, "depth_exceeded"),
        ("r13", with("r13", "depth", json!(4_000_000)), OWNER, "depth_exceeded"),
        ("r14", json!({"service": "test.strict", "args": {"pr": "x"}, "requestedBy": OWNER, "jobId": "r14"}), OWNER, "schema"),
    ];
    for (_, body, _, _) in &rows {
        lab.client.publish(lab.command("invoke", body));
    }
    for (job, body, owner, reason) in &rows {
        let result = lab.result_as(owner, job, 0);
        assert_eq!((&result["type"], &result["reason"]), (&json!("rejected"), &json!(reason)), "{body} gave {result}");
        assert_eq!(
            (&result["usage"]["attempt"], &result["usage"]["fuel"], &result["usage"]["guest"]),
            (&json!(0), &json!(0), &Value::Null)
        );
    }
    assert_eq!(lab.result("r12")["maxDepth"], 4);
    lab.settle("end");
    let started = lab.client.all().into_iter().find(|m| m.topic.ends_with("/events") && !m.topic.contains("/settler/"));
    assert!(started.is_none(), "a refused job showed an event: {started:?}");
    // Retained like any result.
    assert_eq!(lab.late("agents/jobs/+/+/result").len(), rows.len() + 1);
}

/// S1-58, S1-60: depth 4 runs at the default limit; a configured limit is the one that holds.
#[test]
fn the_depth_limit_is_configurable() {
    for (limit, deepest) in [(None, 4), (Some(1), 1)] {
        let lab = Lab::with(Catalog::usual(), |config| {
            if let Some(limit) = limit {
                config.set("mesh.max_depth", limit);
            }
        });
        for (depth, kind) in [(deepest, "result"), (deepest + 1, "rejected")] {
            let body = json!({"service": "test.echo", "args": {"text": "x"}, "requestedBy": OWNER, "jobId": format!("d{depth}"),
                "parentJobId": "p", "rootJobId": "r", "depth": depth});
            lab.client.publish(lab.command("invoke", &body));
            let result = lab.result(&format!("d{depth}"));
            assert_eq!(result["type"], kind, "depth {depth}: {result}");
        }
    }
}

/// G1-13: a job id that could not be a topic level is refused under a generated one that names the original.
#[test]
fn a_bad_job_id_is_answered_under_another() {
    let lab = Lab::start();
    for id in [json!("a/b"), json!("a+b"), json!("#"), json!("tab\there"), json!(""), json!("x".repeat(129))] {
        let mark = lab.client.mark();
        lab.raw(json!({"service": "test.echo", "args": {}, "requestedBy": OWNER, "jobId": id}).to_string());
        let answer = lab
            .client
            .next(mark, "a rejection", |m| m.topic.starts_with("agents/jobs/alice/job-") && m.topic.ends_with("/result"));
        assert_eq!((&answer.json["type"], &answer.json["reason"]), (&json!("rejected"), &json!("bad_request")), "{id}");
        assert_eq!(answer.json["requestedJobId"], id);
    }
    let longest = "y".repeat(128);
    assert_eq!(lab.ask(&longest, "test.echo", json!({"text": "fits"}))["prompt"], "fits");
}

/// G1-46: a payload over the limit is refused with that reason in its owner's scope; one below it runs.
#[test]
fn an_oversized_payload_is_refused() {
    let lab = Lab::with(Catalog::usual(), |config| {
        config.set("mesh.max_payload_kb", 64);
    });
    lab.invoke("big", "test.echo", json!({"text": "x".repeat(70 * 1024)}));
    let result = lab.result("big");
    assert_eq!((&result["type"], &result["reason"]), (&json!("rejected"), &json!("payload_too_large")), "{result}");
    let result = lab.ask("fits", "test.mischief", json!({"do": "answer", "text": "1", "pad": "x".repeat(60 * 1024)}));
    assert_eq!(result["result"], 1);
}

/// G1-43, G1-17: past the queue's limit an invoke is refused with a time to wait, and the same invoke runs later.
#[test]
fn overload_is_refused_and_may_be_retried() {
    let mut lab = Lab::with(Catalog::usual(), |config| {
        config.set("limits.max_running", 1).set("limits.max_queued", 3);
    });
    lab.rules.reuses_ids = true;
    lab.invoke("busy", "test.mischief", json!({"do": "loop"}));
    lab.event(OWNER, "busy", "started");
    let orders = (0..8).map(|at| lab.order(OWNER, &format!("q{at}"), "test.echo", json!({"text": "x"})));
    lab.client.publish_all(orders.collect());
    let refused = lab.client.next(0, "a refusal", |m| m.json["reason"] == "overloaded");
    assert_eq!(refused.json["type"], "rejected");
    assert!(refused.json["retryAfterMs"].as_u64().is_some_and(|ms| ms > 0), "{}", refused.json);
    let job = refused.json["jobId"].as_str().unwrap().to_owned();
    lab.cancel(OWNER, "busy");
    lab.result("busy");
    let mark = lab.client.mark();
    lab.invoke(&job, "test.echo", json!({"text": "x"}));
    assert_eq!(lab.result_as(OWNER, &job, mark)["prompt"], "x");
}

/// S1-44, G1-5: a variable without a value ends the job with that reason and its name, and the guest never starts.
#[test]
fn an_unresolved_variable_is_named() {
    let lab = Lab::with(catalog(), |_| {});
    let result = lab.ask("unset", "test.unresolved", json!({}));
    assert_eq!((&result["type"], &result["reason"]), (&json!("error"), &json!("unresolved_variable")));
    assert!(result["message"].as_str().unwrap().contains("NO_SUCH_VARIABLE"), "{result}");
    assert_eq!((&result["usage"]["fuel"], &result["usage"]["guest"]), (&json!(0), &Value::Null), "{result}");
}

/// DESIGN `limits`: an entry's own limits hold, and what they leave out comes from the configuration.
#[test]
fn limits_of_entry_and_configuration_hold() {
    let catalog = Catalog::usual();
    catalog.file("own.json", &mischief("test.own", json!({"limits": {"timeoutMs": 250}})));
    let lab = Lab::with(catalog, |config| {
        config.set("limits.timeout_ms", 1500);
    });
    for (service, timeout) in [("test.own", 250), ("test.mischief", 1500)] {
        let result = lab.ask(service, service, json!({"do": "echo"}));
        assert_eq!(result["job"][8], timeout, "{AGENT}: {result}");
    }
}
