//! Owner scoping: where a result lands, and that owners do not disturb each other.
//!
//! Owns the slug as an outsider derives it from the protocol document, section 8.

use house::catalog::Catalog;
use house::lab::{Lab, OWNER};
use serde_json::json;

/// S1-08, S1-09, S1-48 to S1-53, S1-52b, S1-22b: one row a spelling of requestedBy and the scope its result lands in.
#[test]
fn results_land_in_the_slug_of_the_requester() {
    let lab = Lab::start();
    let long = "L".repeat(200);
    let rows = [
        ("Mohanad.Q!", "mohanad-q"),
        ("--ci--", "ci"),
        ("", "public"),
        ("!!!", "public"),
        ("...", "public"),
        ("a_b-C9", "a_b-c9"),
        ("a  b", "a--b"),
        ("ÅSA", "sa"),
        ("x/y+z#", "x-y-z"),
        ("名前", "public"),
        (long.as_str(), &"l".repeat(200)),
    ];
    for (at, (name, slug)) in rows.iter().enumerate() {
        let job = format!("slug{at}");
        lab.invoke_as(name, &job, "test.echo", json!({"text": name}));
        let result = lab.result_as(slug, &job, 0);
        assert_eq!((&result["owner"], &result["prompt"]), (&json!(slug), &json!(name)));
        let elsewhere = lab.client.all().into_iter().filter(|m| m.topic.ends_with(&format!("/{job}/result"))).count();
        assert_eq!(elsewhere, 1, "the result of {name:?} stands on more than one topic");
    }
}

/// G1-32: a slug past its limit is not a job: counted, nothing published.
#[test]
fn an_endless_owner_is_not_a_job() {
    let lab = Lab::start();
    lab.invoke_as(&"o".repeat(1025), "long", "test.echo", json!({"text": "x"}));
    lab.settle("end");
    assert!(lab.client.all().iter().all(|m| !m.topic.contains("/long/")));
    let fits = "o".repeat(1024);
    lab.invoke_as(&fits, "fits", "test.echo", json!({"text": "x"}));
    assert_eq!(lab.result_as(&fits, "fits", 0)["prompt"], "x");
}

/// S1-41, G1-18, S1-42e: one job id under two owners is two jobs, running or finished.
#[test]
fn one_id_under_two_owners_is_two_jobs() {
    let lab = Lab::start();
    for owner in ["ann", "bob"] {
        lab.invoke_as(owner, "same", "test.mischief", json!({"do": "sleep", "n": 700}));
    }
    lab.event("ann", "same", "started");
    lab.event("bob", "same", "started");
    for owner in ["ann", "bob"] {
        assert_eq!(lab.result_as(owner, "same", 0)["result"], "slept");
    }
    // A third owner takes the id when both have ended.
    lab.invoke_as("cleo", "same", "test.mischief", json!({"do": "sleep", "n": 1}));
    assert_eq!(lab.result_as("cleo", "same", 0)["result"], "slept");
    assert_eq!(lab.late("agents/jobs/+/same/result").len(), 3);
}

/// S1-10, S1-09: the subscriptions the document recommends yield what it says and nothing else.
#[test]
fn the_recommended_subscriptions_yield_ones_own() {
    let lab = Lab::start();
    let mine = house::client::Client::connect(lab.broker.port());
    mine.subscribe("agents/jobs/alice/#");
    let results = house::client::Client::connect(lab.broker.port());
    results.subscribe("agents/jobs/alice/+/result");
    for owner in ["bob", OWNER] {
        lab.invoke_as(owner, "own", "test.echo", json!({"text": owner}));
        lab.result_as(owner, "own", 0);
    }
    results.next(0, "the result", |m| m.json["prompt"] == OWNER);
    assert_eq!(results.all().len(), 1);
    mine.collect(0, 3, "events and result", |_| true);
    assert!(mine.all().iter().all(|m| m.topic.starts_with("agents/jobs/alice/own/")));
    let profiles = lab.late("agents/registry/+/profile");
    assert_eq!(profiles.len(), 1);
    assert!(profiles[0].json["capabilities"].is_array());
}

/// G1-43: queued jobs are taken owner by owner in turn, so one owner's burst does not starve another.
#[test]
fn a_burst_of_one_owner_does_not_starve_another() {
    let lab = Lab::with(Catalog::usual(), |config| {
        config.set("limits.max_running", 1);
    });
    lab.invoke_as("crowd", "first", "test.mischief", json!({"do": "sleep", "n": 1500}));
    lab.event("crowd", "first", "started");
    let mut orders: Vec<_> = (0..40).map(|at| lab.order("crowd", &format!("c{at}"), "test.echo", json!({"text": "x"}))).collect();
    orders.push(lab.order("lone", "l0", "test.echo", json!({"text": "x"})));
    lab.client.publish_all(orders);
    lab.result_as("crowd", "c39", 0);
    lab.result_as("lone", "l0", 0);
    let order: Vec<String> = lab.client.all().into_iter().filter(|m| m.topic.ends_with("/result")).map(|m| m.topic).collect();
    let lone = order.iter().position(|topic| topic.contains("/lone/")).unwrap();
    assert!(lone <= 5, "the lone owner's job came {lone} results after the start of the burst");
}
