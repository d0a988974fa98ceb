//! The ops door over real sockets.

use job::status::{Condition, Severity};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

async fn ask(address: SocketAddr, path: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.expect("connects");
    let request = format!("GET {path} HTTP/1.1\r\nHost: ops\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.expect("writes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("reads");
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (code, answer)
}

async fn open(token: Option<&str>, board: &Board) -> Ops {
    let listen = "127.0.0.1:0".parse().expect("an address");
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || metrics::counter!("amp_test_total").increment(3));
    let settings = OpsSettings { listen, token: token.map(str::to_owned) };
    Ops::start(settings, board.clone(), Some(recorder.handle())).await.expect("opens")
}

/// The node's work state: ready, degraded with 200, down with 503, each condition with its mend, as text and as JSON.
#[tokio::test]
async fn readiness_names_each_fault_with_its_mend() {
    let board = Board::default();
    let ops = open(None, &board).await;
    let (code, answer) = ask(ops.address(), "/readyz", "").await;
    assert_eq!(code, 200);
    assert!(answer.contains(r#"{"status":"ready","conditions":[]}"#), "{answer}");

    let condition = |severity| Condition { severity, what: "broken".into(), mend: "mend it".into() };
    board.raise("catalog.x", condition(Severity::Degraded));
    let (code, answer) = ask(ops.address(), "/readyz", "").await;
    assert_eq!(code, 200);
    assert!(answer.contains(r#""status":"degraded""#) && answer.contains("mend it"), "{answer}");

    board.raise("broker.x", condition(Severity::Down));
    let (code, answer) = ask(ops.address(), "/readyz", "Accept: text/plain\r\n").await;
    assert_eq!(code, 503);
    assert!(answer.contains("down: broker.x: broken; mend it"), "{answer}");
    let (code, _) = ask(ops.address(), "/healthz", "").await;
    assert_eq!(code, 200, "it is alive all the same");
    ops.stop().await;
}

#[tokio::test]
async fn figures_are_shown() {
    let ops = open(None, &Board::default()).await;
    let (code, answer) = ask(ops.address(), "/metrics", "").await;
    assert_eq!(code, 200);
    assert!(answer.contains("amp_test_total 3"), "{answer}");
    ops.stop().await;
}

/// A token closes the door to everyone else, and an open address needs one.
#[tokio::test]
async fn a_token_is_asked_for() {
    let ops = open(Some("s3cret"), &Board::default()).await;
    for (headers, expected) in [("", 401), ("Authorization: Bearer s3cre\r\n", 401), ("Authorization: Bearer s3cret\r\n", 200)] {
        assert_eq!(ask(ops.address(), "/healthz", headers).await.0, expected, "{headers}");
    }
    let listen = "0.0.0.0:0".parse().expect("an address");
    let open_to_all = Ops::start(OpsSettings { listen, token: Some(String::new()) }, Board::default(), None).await;
    assert!(matches!(open_to_all, Err(OpsError::NeedsToken(_))));
    ops.stop().await;
}

#[tokio::test]
async fn a_taken_port_is_said() {
    let ops = open(None, &Board::default()).await;
    let settings = OpsSettings { listen: ops.address(), token: None };
    let error = Ops::start(settings, Board::default(), None).await.expect_err("taken").to_string();
    assert!(error.contains("ops.listen") && error.contains("taken"), "{error}");
    ops.stop().await;
}
