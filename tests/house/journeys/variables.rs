//! Variables and arguments: their two passes, their sources, and what must never leave.
//!
//! Owns section 12 of the protocol document as a requester sees it.

use house::catalog::Catalog;
use house::config::Config;
use house::lab::{Lab, OWNER};
use house::node::Node;
use serde_json::{Value, json};

/// One prompt a service, answered by the built-in guest.
fn prompts(rows: &[(&str, &str)]) -> Catalog {
    let catalog = Catalog::usual();
    let entries: Vec<Value> =
        rows.iter().map(|(service, prompt)| json!({"service": service, "description": "Test.", "prompt": prompt})).collect();
    catalog.file("prompts.json", &json!(entries));
    catalog
}

/// A lab whose node has environment variables.
fn lab(catalog: Catalog, env: &[(&str, &str)], change: impl FnOnce(&mut Config)) -> Lab {
    let mut lab = Lab::prepared(house::broker::Broker::start(house::broker::Style::Bench), catalog, change);
    let mark = lab.client.mark();
    lab.node = Some(Node::start_with(&lab.config, &[], env));
    lab.wait_online(mark);
    lab
}

/// S1-81, S1-C8, U16: an argument is data: what looks like a placeholder in it stays as it is, to the byte.
#[test]
fn arguments_are_never_scanned() {
    let lab = lab(prompts(&[("test.review", "Review {{x}} on ${HOST}")]), &[("SIDE_DOOR", "canary-side-door")], |config| {
        config.set("vars.HOST", "db1").set("vars.OTHER", "canary-other");
    });
    let x = "${OTHER} ${SIDE_DOOR} {{x}} ${HOST} {{args}} $${HOST} <<x>> $<HOST>";
    let result = lab.ask("scan", "test.review", json!({"x": x}));
    assert_eq!(result["prompt"], format!("Review {x} on db1"));
}

/// S1-82, G1-4: a variable from the configuration that holds {{x}} is template text and is rendered with the argument.
#[test]
fn a_variable_may_hold_a_placeholder() {
    let lab = lab(prompts(&[("test.indirect", "Say: ${TEXT}")]), &[], |config| {
        config.set("vars.TEXT", "hello {{x}}, not ${AGAIN}").set("vars.AGAIN", "canary-again");
    });
    assert_eq!(lab.ask("indirect", "test.indirect", json!({"x": "Ada"}))["prompt"], "Say: hello Ada, not ${AGAIN}");
}

/// G1-5: the escape for a literal placeholder.
#[test]
fn a_doubled_dollar_is_a_literal() {
    let lab = lab(prompts(&[("test.literal", "$${HOST} is ${HOST}")]), &[], |config| {
        config.set("vars.HOST", "db1");
    });
    assert_eq!(lab.ask("literal", "test.literal", json!({}))["prompt"], "${HOST} is db1");
}

/// G1-40: the second spelling has the same two passes, and braces are plain text in it.
#[test]
fn angles_are_the_second_spelling() {
    let catalog = Catalog::usual();
    catalog.file(
        "angles.json",
        &json!({"service": "test.angles", "description": "Angles.", "placeholders": "angles",
        "prompt": "{\"k\": \"${HOST} {{x}}\"} <<x>> $<HOST>"}),
    );
    let lab = lab(catalog, &[], |config| {
        config.set("vars.HOST", "db1");
    });
    let result = lab.ask("angles", "test.angles", json!({"x": "<<x>> $<HOST>"}));
    assert_eq!(result["prompt"], "{\"k\": \"${HOST} {{x}}\"} <<x>> $<HOST> db1");
}

/// S1-76, S1-76b, G1-6: the configuration wins over the environment, which is the last source and open by default, but not for
/// names that look secret.
#[test]
fn sources_have_their_order() {
    let rows =
        [("test.both", "${BOTH}"), ("test.env", "${ENV_ONLY}"), ("test.secret", "${MY_API_KEY}"), ("test.amp", "${AMP_THING}")];
    let env =
        [("BOTH", "from the environment"), ("ENV_ONLY", "environment"), ("MY_API_KEY", "canary-key-12345"), ("AMP_THING", "x")];
    let lab = lab(prompts(&rows), &env, |config| {
        config.set("vars.BOTH", "from the configuration");
    });
    assert_eq!(lab.ask("both", "test.both", json!({}))["prompt"], "from the configuration");
    assert_eq!(lab.ask("env", "test.env", json!({}))["prompt"], "environment");
    for service in ["test.secret", "test.amp"] {
        assert_eq!(lab.ask(service, service, json!({}))["reason"], "unresolved_variable");
    }
}

/// G1-6: an allow list replaces the default; a secret-looking name counts only when it is listed whole.
#[test]
fn the_environment_can_be_narrowed() {
    let rows =
        [("test.a", "${REVIEW_TEAM}"), ("test.b", "${ENV_ONLY}"), ("test.c", "${REVIEW_TOKEN}"), ("test.d", "${OPENAI_API_KEY}")];
    let env =
        [("REVIEW_TEAM", "red"), ("ENV_ONLY", "x"), ("REVIEW_TOKEN", "canary-token-1"), ("OPENAI_API_KEY", "canary-openai-2")];
    let lab = lab(prompts(&rows), &env, |config| {
        config.set("environment.allow", vec!["REVIEW_*".to_owned(), "OPENAI_API_KEY".to_owned()]);
    });
    assert_eq!(lab.ask("a", "test.a", json!({}))["prompt"], "red");
    for service in ["test.b", "test.c"] {
        assert_eq!(lab.ask(service, service, json!({}))["reason"], "unresolved_variable");
    }
    // It resolves, and being secret it is masked in what comes back.
    assert_eq!(lab.ask("d", "test.d", json!({}))["prompt"], "[redacted OPENAI_API_KEY]");
}

/// S1-79, S1-79b, S1-83, S1-83b, G1-44, invariant 7: a secret with a quote, a backslash and a newline reaches the guest and
/// leaves nowhere: not in results, events, errors, retained topics, logs or metrics, in no encoding.
#[test]
fn a_secret_leaves_nowhere() {
    let secret = "can\"ary\\se\ncret/+=value";
    let rows = [("test.tell", "The word is ${THE_WORD}."), ("test.plain", "${PLAIN_VALUE}")];
    let catalog = prompts(&rows);
    catalog.file(
        "use.json",
        &house::catalog::mischief("test.use", json!({"prompt": "${THE_WORD}", "grants": {"env": {"WORD": "${THE_WORD}"}}})),
    );
    let env = [("THE_WORD", secret), ("PLAIN_VALUE", "plain-value-shown")];
    let mut lab = lab(catalog, &env, |config| {
        config.set("secrets.redact", vec!["THE_WORD".to_owned()]);
    });
    let told = lab.ask("tell", "test.tell", json!({}));
    assert_eq!(told["prompt"], "The word is [redacted THE_WORD].");
    assert_eq!(told["usage"]["redacted"][0]["name"], "THE_WORD", "{told}");
    let echoed = lab.ask("echo", "test.use", json!({"do": "echo"}));
    assert_eq!(echoed["job"][3], "[redacted THE_WORD]", "{echoed}");
    let seen = lab.ask("env", "test.use", json!({"do": "look_around"}));
    assert_eq!(seen["env"], json!([["WORD", "[redacted THE_WORD]"]]), "the guest did not get what its entry grants");
    for (at, args) in
        [json!({"do": "fail", "text": secret}), json!({"do": "panic", "text": secret}), json!({"do": "log", "text": secret})]
            .into_iter()
            .enumerate()
    {
        lab.ask(&format!("say{at}"), "test.use", args);
    }
    assert_eq!(lab.ask("plain", "test.plain", json!({}))["prompt"], "plain-value-shown");
    let forms = [
        secret.to_owned(),
        json!(secret).to_string().trim_matches('"').to_owned(),
        "se\\ncret/+=value".into(),
        "cret/+=value".into(),
    ];
    let log = lab.node().log();
    let metrics = lab.node().page("/metrics").unwrap().1;
    for form in &forms {
        assert!(!log.contains(form.as_str()), "{form:?} stands in the log");
        assert!(!metrics.contains(form.as_str()), "{form:?} stands in a metric");
        // The test's own commands carry it, as an argument; nothing the node published does.
        for message in lab.client.all().iter().filter(|m| !m.topic.contains("/commands/")) {
            assert!(!String::from_utf8_lossy(&message.payload).contains(form.as_str()), "{form:?} on {}", message.topic);
        }
    }
}

/// S1-82b, U13, G1-53: digits are kept from the wire to the guest, to the prompt and back.
#[test]
fn digits_are_kept() {
    let lab = lab(prompts(&[("test.digits", "{{id}} {{big}} {{f}} {{e}} {{args}}")]), &[], |_| {});
    let args = r#"{"id":2512292042121000001,"big":123456789012345678901234567890,"f":1.10,"e":1e3}"#;
    lab.raw(format!(r#"{{"service":"test.digits","args":{args},"requestedBy":"alice","jobId":"digits"}}"#));
    let prompt = lab.result("digits")["prompt"].as_str().unwrap().to_owned();
    assert_eq!(prompt, format!("2512292042121000001 123456789012345678901234567890 1.10 1e3 {args}"));
    let args = r#"{"do":"echo","big":123456789012345678901234567890,"f":1.10,"e":1e3}"#;
    lab.raw(format!(r#"{{"service":"test.mischief","args":{args},"requestedBy":"alice","jobId":"guest"}}"#));
    let topic = lab.topic(OWNER, "guest", "result");
    let message = lab.client.next(0, "the result", |m| m.topic == topic);
    assert!(String::from_utf8_lossy(&message.payload).contains(args), "{}", message.json);
}

/// U18: nothing is escaped for HTML; objects and lists are compact JSON.
#[test]
fn text_is_not_escaped_and_objects_are_json() {
    let lab = lab(prompts(&[("test.text", "{{t}}|{{o}}|{{l}}|{{n}}|{{b}}")]), &[], |_| {});
    let text = "a<b && \"c\"='d' `e` \u{1F600} \u{2028}";
    let result = lab.ask("text", "test.text", json!({"t": text, "o": {"k": 1}, "l": [1, {"k": 2}], "n": null, "b": true}));
    let prompt = result["prompt"].as_str().unwrap();
    assert!(prompt.starts_with(&format!("{text}|{{\"k\":1}}|[1,{{\"k\":2}}]|")), "{prompt}");
    assert!(prompt.ends_with("|true"), "{prompt}");
}

/// G1-9: blocks render, a parameterless name is always an argument, and the reserved roots win over arguments of that name.
#[test]
fn blocks_and_reserved_names() {
    let rows = [
        (
            "test.blocks",
            "{{#if on}}yes{{else}}no{{/if}} {{#each items}}[{{this}}]{{/each}} {{#unless off}}u{{/unless}} {{#with o}}{{k}}{{/with}}",
        ),
        ("test.names", "{{lookup}} {{log}} {{if}}"),
        ("test.args", "{{args.args}}"),
    ];
    let lab = lab(prompts(&rows), &[], |_| {});
    let args = json!({"on": true, "items": ["a", 2], "o": {"k": "v"}});
    assert_eq!(lab.ask("blocks", "test.blocks", args)["prompt"], "yes [a][2] u v");
    assert_eq!(lab.ask("args", "test.args", json!({"args": "mine"}))["prompt"], "mine");
    // Either every such name is an argument, or the entry was refused at load; a helper never runs.
    let names = lab.ask("names", "test.names", json!({"lookup": "1", "log": "2", "if": "3"}));
    assert!(names["prompt"] == "1 2 3" || names["reason"] == "unknown_service", "{names}");
}
