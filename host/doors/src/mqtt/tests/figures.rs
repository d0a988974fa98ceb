//! Private measuring (not to be kept).
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use job::BoxFuture;
use job::clock::Timestamp;
use job::courier::{Courier, Event, EventKind, Gate};
use job::ids::JobKey;
use job::jobs::*;
use job::outcome::*;
use job::store::*;
use rumqttc::NetworkOptions;
use rumqttc::v5::mqttbytes::QoS;
use rumqttc::v5::mqttbytes::v5::Packet;
use rumqttc::v5::{AsyncClient, Event as MqttEvent, EventLoop, MqttOptions};
use wire::mqtt::topics::Root;

use super::broker::{BENCH, Mosquitto};
use super::house::profile;
use crate::mqtt::mesh::*;
use crate::mqtt::settings::*;

struct Direct { courier: Mutex<Option<Arc<dyn Courier>>>, id: std::sync::atomic::AtomicI64 }
struct DirectJobs(Arc<Direct>);
impl Jobs for DirectJobs {
    fn submit(&self, s: Submission) -> BoxFuture<'static, Result<Admitted, Unavailable>> {
        let c = self.0.courier.lock().unwrap().clone().unwrap();
        let gate = Gate::default();
        for kind in [EventKind::Accepted, EventKind::Started] {
            c.announce(Event { key: s.key.clone(), kind, ts: Timestamp(1_787_688_849_000), gate: gate.clone() });
        }
        let outcome = Outcome { ending: Ending::Done { kind: "result".into(), body: s.args }, usage: Usage::default(), ts: Timestamp(1_787_688_849_001) };
        c.deliver(OutboxRow { id: self.0.id.fetch_add(1, std::sync::atomic::Ordering::Relaxed), route: Route::Mesh(s.key), item: Item::Outcome(outcome) });
        Box::pin(async { Ok(Admitted::Accepted) })
    }
    fn refuse(&self, _: Refusal) -> BoxFuture<'static, Result<Admitted, Unavailable>> { unimplemented!() }
    fn cancel(&self, _: JobKey) -> BoxFuture<'static, Result<Cancelled, Unavailable>> { unimplemented!() }
}
struct NoOutbox;
impl Outbox for NoOutbox {
    fn attach(&self, _: Arc<dyn Courier>) {}
    fn due(&self, _: job::ids::AgentId, _: RowId, _: usize) -> BoxFuture<'static, Result<Vec<OutboxRow>, StoreError>> { Box::pin(async { Ok(vec![]) }) }
    fn delivered(&self, _: Vec<RowId>) {}
}

fn client(port: u16, id: &str) -> (AsyncClient, EventLoop) {
    let mut o = MqttOptions::new(id, "127.0.0.1", port);
    o.set_clean_start(true);
    let mut n = NetworkOptions::new();
    n.set_tcp_nodelay(true);
    o.set_network_options(n);
    o.set_receive_maximum(Some(u16::MAX));
    AsyncClient::new(o, 4096)
}

async fn native(port: u16, ready: tokio::sync::oneshot::Sender<()>) {
    let (c, mut el) = client(port, "native");
    c.subscribe("agents/commands/native/invoke", QoS::AtLeastOnce).await.unwrap();
    let mut ready = Some(ready);
    loop {
        match el.poll().await {
            Ok(MqttEvent::Incoming(Packet::SubAck(_))) => { let _ = ready.take().unwrap().send(()); }
            Ok(MqttEvent::Incoming(Packet::Publish(p))) => {
                let v: serde_json::Value = serde_json::from_slice(&p.payload).unwrap();
                let job = v["jobId"].as_str().unwrap();
                for t in ["accepted", "started"] {
                    c.try_publish(format!("agents/jobs/alice/{job}/events"), QoS::AtLeastOnce, false, format!(r#"{{"jobId":"{job}","owner":"alice","type":"{t}","ts":"2026-08-25T20:14:09.001Z"}}"#)).unwrap();
                }
                c.try_publish(format!("agents/jobs/alice/{job}/result"), QoS::AtLeastOnce, true, format!(r#"{{"jobId":"{job}","owner":"alice","type":"result","ts":"2026-08-25T20:14:09.001Z","x":"y"}}"#)).unwrap();
            }
            Ok(_) => {}
            Err(e) => panic!("{e}"),
        }
    }
}

async fn load(port: u16, agent: &str, run: &str, jobs: usize, outstanding: usize) -> (f64, Duration, Duration) {
    let (c, mut el) = client(port, &format!("load{run}"));
    c.subscribe("agents/jobs/alice/+/result", QoS::AtLeastOnce).await.unwrap();
    loop { if let MqttEvent::Incoming(Packet::SubAck(_)) = el.poll().await.unwrap() { break; } }
    let topic = format!("agents/commands/{agent}/invoke");
    let prefix = format!("{run}-");
    let mut sent = vec![Instant::now(); jobs];
    let mut next = 0; let mut done = 0; let mut lat = Vec::new();
    let start = Instant::now();
    let mut fly = 0;
    while done < jobs {
        while next < jobs && fly < outstanding {
            sent[next] = Instant::now();
            c.try_publish(&topic, QoS::AtLeastOnce, false, format!(r#"{{"service":"echo","requestedBy":"alice","jobId":"{prefix}{next}","args":{{"x":"y"}}}}"#)).unwrap();
            next += 1; fly += 1;
        }
        if let MqttEvent::Incoming(Packet::Publish(p)) = el.poll().await.unwrap() {
            let t = std::str::from_utf8(&p.topic).unwrap();
            if let Some(n) = t.split('/').nth(3).and_then(|j| j.strip_prefix(&prefix)) {
                lat.push(sent[n.parse::<usize>().unwrap()].elapsed());
                done += 1; fly -= 1;
            }
        }
    }
    let rate = jobs as f64 / start.elapsed().as_secs_f64();
    lat.sort();
    (rate, lat[lat.len() / 2], lat[lat.len() * 99 / 100])
}

#[ignore]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures() {
    let b = Mosquitto::start(BENCH).await.unwrap();
    let (tx, rx) = tokio::sync::oneshot::channel();
    tokio::spawn(native(b.port, tx));
    rx.await.unwrap();
    struct C; impl job::clock::Clock for C { fn now(&self) -> Timestamp { Timestamp(1) } }
    let settings = MeshSettings { broker: b.address(), login: None, root: Root::parse("agents").unwrap(), payload_bytes_max: 1 << 20, packet_bytes_max: 1 << 24, instance: "I".into() };
    let mut mesh = Mesh::new(settings, vec![profile("x")], Arc::new(C), Default::default());
    let d = Arc::new(Direct { courier: Mutex::new(Some(mesh.courier())), id: 1.into() });
    let jobs: Arc<dyn Jobs> = Arc::new(DirectJobs(d));
    let outbox: Arc<dyn Outbox> = Arc::new(NoOutbox);
    mesh.start(&jobs, &outbox);
    let mut s = mesh.connection(&super::house::agent()).unwrap();
    s.wait_for(|s| *s == Connection::Online).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    for round in 0..3 {
        for agent in ["native", "dba"] {
            let one = load(b.port, agent, &format!("{agent}{round}a"), 2000, 1).await;
            let many = load(b.port, agent, &format!("{agent}{round}b"), 20000, 200).await;
            eprintln!("{agent:7} one: {:6.0}/s p50 {:?} p99 {:?}   200: {:6.0}/s p50 {:?} p99 {:?}", one.0, one.1, one.2, many.0, many.1, many.2);
        }
    }
}
