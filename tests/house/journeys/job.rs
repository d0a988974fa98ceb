//! The first journey: an invoke becomes accepted, started and one retained result.
//!
//! Owns what a requester sees of a job that goes well.

use house::audit;
use house::client::{Client, Outgoing};
use house::lab::{AGENT, Lab, OWNER};
use serde_json::{Value, json};

/// S1-04, S1-21, S1-24, S1-26, S1-27, S1-28, S1-35, S1-54, S1-74, DC-01: the whole journey of one job.
#[test]
fn an_invoke_becomes_accepted_started_and_one_retained_result() {
    let lab = Lab::start();
    let invoke = json!({"service": "test.echo", "args": {"text": "hello"}, "requestedBy": OWNER, "jobId": "j1",
        "parentJobId": null, "rootJobId": "j1", "depth": 0});
    lab.client.publish(lab.command("invoke", &invoke));
    let result = lab.result("j1");
    assert_eq!((&result["type"], &result["prompt"]), (&json!("result"), &json!("hello")));
    lab.event(OWNER, "j1", "started");
    lab.settle("end");
    assert_eq!(lab.event_types("j1"), ["accepted", "started"]);
    audit::check_order(&lab.events(OWNER, "j1"), &result);
    let usage = &result["usage"];
    assert!(usage["guest"].as_str().is_some_and(|guest| guest.starts_with("sha256:") && guest.len() == 71), "{usage}");
    assert!(usage["fuel"].as_u64().is_some_and(|fuel| fuel > 0) && usage["attempt"] == 1, "{usage}");

    // Who comes later sees the result and none of the events.
    let late = lab.late(&format!("agents/jobs/{OWNER}/j1/#"));
    assert_eq!(late.len(), 1, "{late:?}");
    assert_eq!((late[0].topic.as_str(), &late[0].json), ("agents/jobs/alice/j1/result", &result));
}

/// S1-29, S1-30: who joins mid-job gets the result and none of the milestones published before.
#[test]
fn joining_mid_job_shows_the_result_only() {
    let lab = Lab::start();
    lab.invoke("mid", "test.mischief", json!({"do": "sleep", "n": 1200}));
    lab.event(OWNER, "mid", "started");
    let joiner = Client::connect(lab.broker.port());
    joiner.subscribe(&format!("agents/jobs/{OWNER}/mid/#"));
    let first = joiner.next(0, "anything of the job", |_| true);
    assert_eq!(first.topic, "agents/jobs/alice/mid/result");
    assert_eq!(first.json["type"], "result");
    assert_eq!(joiner.all().len(), 1);
}

/// S1-30, S1-34: a hundred milestones arrive in the order they were said, each with its message.
#[test]
fn milestones_arrive_in_order() {
    let lab = Lab::start();
    let result = lab.ask("steps", "test.mischief", json!({"do": "progress", "n": 100}));
    assert_eq!(result["result"], "done");
    let topic = lab.topic(OWNER, "steps", "events");
    let seen = lab.client.collect(0, 100, "progress", |m| m.topic == topic && m.json["type"] == "progress");
    let said: Vec<&str> = seen.iter().map(|message| message.json["message"].as_str().unwrap()).collect();
    let expected: Vec<String> = (0..100).map(|step| format!("step {step}")).collect();
    assert_eq!(said, expected);
    audit::check_order(&lab.events(OWNER, "steps"), &result);
}

/// S1-31, G1-22: a type the guest chose is published as it is.
#[test]
fn a_domain_type_is_published_as_it_is() {
    let lab = Lab::start();
    let result = lab.ask("kind", "test.mischief", json!({"do": "reserved_kind", "text": "review"}));
    assert_eq!(result["type"], "review");
    assert!(result.get("reason").is_none(), "{result}");
}

/// G1-47: an object is spread at the top level, anything else stands under `result`, and our own members always win.
#[test]
fn answers_are_laid_out() {
    let lab = Lab::start();
    for (at, (answer, expected)) in [
        (r#"[1,"two",null]"#, json!([1, "two", null])),
        (r#""text""#, json!("text")),
        ("null", Value::Null),
        ("7.50", serde_json::from_str("7.50").unwrap()),
    ]
    .into_iter()
    .enumerate()
    {
        let result = lab.ask(&format!("plain{at}"), "test.mischief", json!({"do": "answer", "text": answer}));
        assert_eq!(result.get("result"), Some(&expected), "{result}");
    }
    let text = r#"{"verdict":"ok","jobId":"x","owner":"y","ts":"z","usage":1,"nested":{"a":[1]}}"#;
    let result = lab.ask("object", "test.mischief", json!({"do": "answer", "text": text}));
    assert_eq!((&result["verdict"], &result["nested"]), (&json!("ok"), &json!({"a": [1]})));
    assert_eq!((&result["jobId"], &result["owner"], &result["type"]), (&json!("object"), &json!(OWNER), &json!("result")));
    assert!(result.get("result").is_none() && result["usage"]["attempt"] == 1, "{result}");
}

/// S1-23, G1-39: without a jobId the agent makes one and uses it on topics and in payloads.
#[test]
fn a_missing_job_id_is_generated() {
    let lab = Lab::start();
    lab.raw(json!({"service": "test.echo", "args": {"text": "x"}, "requestedBy": OWNER}).to_string());
    let result =
        lab.client.next(0, "a result", |m| m.topic.starts_with("agents/jobs/alice/job-") && m.topic.ends_with("/result"));
    let id = result.topic.split('/').nth(3).unwrap();
    let ulid = id.strip_prefix("job-").unwrap();
    assert!(ulid.len() == 26 && ulid.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()), "{id}");
    assert_eq!(result.json["jobId"], id);
    lab.event(OWNER, id, "accepted");
}

/// S1-21, S1-24: lineage reaches the guest; left out it means a root job.
#[test]
fn lineage_reaches_the_guest() {
    let lab = Lab::start();
    let plain = lab.ask("root", "test.mischief", json!({"do": "echo"}));
    assert_eq!(plain["job"], json!(["root", OWNER, "test.mischief", "", null, "root", 0, 1, 60000]));
    let child = json!({"service": "test.mischief", "args": {"do": "echo"}, "requestedBy": OWNER, "jobId": "child",
        "parentJobId": "mum", "rootJobId": "gran", "depth": 2});
    lab.client.publish(lab.command("invoke", &child));
    let result = lab.result("child");
    assert_eq!(result["job"], json!(["child", OWNER, "test.mischief", "", "mum", "gran", 2, 1, 60000]));
}

/// S1-53b: there is no callback channel; a Response Topic gets nothing and the result goes where it always goes.
#[test]
fn a_response_topic_gets_nothing() {
    let lab = Lab::start();
    // The audit fails on any topic outside the map, which is where a reply would land.
    lab.client.publish(lab.order(OWNER, "cb", "test.echo", json!({"text": "x"})).respond("answers/for/alice"));
    assert_eq!(lab.result("cb")["prompt"], "x");
    lab.settle("end");
    assert!(lab.client.all().iter().all(|message| !message.topic.starts_with("answers")));
}

/// S1-75, G1-8: a schema is advice: another type is taken as it is, and a missing argument is empty and named in an event.
#[test]
fn a_schema_is_advice() {
    let lab = Lab::start();
    assert_eq!(lab.ask("number", "test.echo", json!({"text": 5}))["prompt"], "5");
    assert_eq!(lab.ask("missing", "test.echo", json!({}))["prompt"], "");
    let event = lab.event(OWNER, "missing", "progress");
    assert!(event.json["message"].as_str().unwrap().contains("text"), "{}", event.json);
}

/// G1-13: args that are absent or null are an empty object.
#[test]
fn absent_arguments_are_empty() {
    let lab = Lab::start();
    for (job, args) in [("absent", None), ("null", Some(Value::Null))] {
        let mut invoke = json!({"service": "test.echo", "requestedBy": OWNER, "jobId": job});
        if let Some(args) = args {
            invoke["args"] = args;
        }
        lab.client.publish(lab.command("invoke", &invoke));
        assert_eq!(lab.result(job)["prompt"], "");
    }
}

/// S1-45: Debian's mosquitto_pub and mosquitto_sub run a job at MQTT 3.1.1 and 5, with QoS 1 all the way.
#[test]
fn debian_clients_run_a_job() {
    let lab = Lab::start();
    let port = lab.broker.port().to_string();
    for version in ["mqttv311", "mqttv5"] {
        let body = json!({"service": "test.echo", "args": {"text": version}, "requestedBy": "deb", "jobId": version}).to_string();
        let topic = format!("agents/commands/{AGENT}/invoke");
        let sent = std::process::Command::new("mosquitto_pub")
            .args(["-p", &port, "-V", version, "-q", "1", "-t", &topic, "-m", &body])
            .output()
            .expect("mosquitto_pub is missing: install mosquitto-clients");
        assert!(sent.status.success(), "{sent:?}");
        let got = std::process::Command::new("mosquitto_sub")
            .args(["-p", &port, "-V", version, "-q", "1", "-C", "1", "-W", "40", "-F", "%q %r %p"])
            .args(["-t", &format!("agents/jobs/deb/{version}/result")])
            .output()
            .unwrap();
        let line = String::from_utf8(got.stdout).unwrap();
        let payload = line.strip_prefix("1 1 ").or_else(|| line.strip_prefix("1 0 ")).unwrap_or_else(|| panic!("{line:?}"));
        let result: Value = serde_json::from_str(payload).unwrap();
        assert_eq!(result["prompt"], version);
    }
}

/// G1-35's last sentence: a live invoke whose publisher also asked to retain it arrives without the flag and runs.
#[test]
fn a_live_retained_invoke_runs() {
    let lab = Lab::start();
    let order = lab.order(OWNER, "kept", "test.echo", json!({"text": "now"}));
    lab.client.publish(order.retained());
    assert_eq!(lab.result("kept")["prompt"], "now");
    lab.client.publish(Outgoing::new(format!("agents/commands/{AGENT}/invoke"), "").retained());
}
