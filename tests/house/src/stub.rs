//! A broker of a hundred lines that says exactly what a test tells it to: flags no real broker can be made to send on demand.
//!
//! Owns just enough MQTT 5 to let one node in, take its publishes and hand it commands with any DUP and RETAIN flag. It keeps
//! no session and delivers nothing by itself.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::{WAIT, ports};

const CONNECT: u8 = 1;
const PUBLISH: u8 = 3;
const PUBACK: u8 = 4;
const SUBSCRIBE: u8 = 8;
const PINGREQ: u8 = 12;

/// A publish of the node.
#[derive(Debug, Clone)]
pub struct Published {
    /// Where.
    pub topic: String,
    /// What, as JSON; null when it is none.
    pub json: Value,
}

#[derive(Debug, Default)]
struct State {
    published: Vec<Published>,
    acknowledged: Vec<u16>,
    subscribed: usize,
    stream: Option<TcpStream>,
    next_packet: u16,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The stub; one node at a time.
#[derive(Debug)]
pub struct StubBroker {
    shared: Arc<Shared>,
    port: u16,
}

impl StubBroker {
    /// Listens on a free port.
    pub fn start() -> Self {
        let port = ports::free();
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_nodelay(true).ok();
                serving.state.lock().unwrap().stream = stream.try_clone().ok();
                serve(&serving, stream);
            }
        });
        Self { shared, port }
    }

    /// Its address as the node's configuration wants it.
    pub fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    /// Waits until the node has subscribed.
    pub fn wait_subscribed(&self) {
        self.wait("a SUBSCRIBE", |state| (state.subscribed > 0).then_some(()));
    }

    /// Hands the node a QoS 1 message with these flags and waits for its acknowledgement.
    pub fn deliver(&self, topic: &str, payload: &str, dup: bool, retain: bool) {
        let mut state = self.shared.state.lock().unwrap();
        state.next_packet += 1;
        let packet = state.next_packet;
        let mut body = text(topic);
        body.extend(packet.to_be_bytes());
        body.push(0);
        body.extend(payload.as_bytes());
        let head = (PUBLISH << 4) | (u8::from(dup) << 3) | (1 << 1) | u8::from(retain);
        write(state.stream.as_mut().expect("no node is connected"), head, &body);
        drop(state);
        self.wait("the node's PUBACK", |state| state.acknowledged.contains(&packet).then_some(()));
    }

    /// Waits for the publish with this number, from 0, among those `is` accepts.
    pub fn nth(&self, number: usize, what: &str, is: impl Fn(&Published) -> bool) -> Published {
        self.wait(what, |state| state.published.iter().filter(|published| is(published)).nth(number).cloned())
    }

    /// Everything the node has published so far.
    pub fn published(&self) -> Vec<Published> {
        self.shared.state.lock().unwrap().published.clone()
    }

    fn wait<T>(&self, what: &str, ready: impl Fn(&State) -> Option<T>) -> T {
        let end = Instant::now() + WAIT;
        let mut state = self.shared.state.lock().unwrap();
        loop {
            if let Some(found) = ready(&state) {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the stub waited in vain for {what}; it saw {:?}", state.published);
            state = self.shared.changed.wait_timeout(state, left).unwrap().0;
        }
    }
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = u16::try_from(text.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

fn write(stream: &mut TcpStream, head: u8, body: &[u8]) {
    let mut packet = vec![head];
    let mut left = body.len();
    loop {
        let seven = u8::try_from(left % 128).unwrap();
        left /= 128;
        packet.push(if left > 0 { seven | 128 } else { seven });
        if left == 0 {
            break;
        }
    }
    packet.extend(body);
    stream.write_all(&packet).ok();
}

/// A number of up to four bytes, seven bits each, from a reader of bytes.
fn varint(mut next: impl FnMut() -> Option<u8>) -> Option<usize> {
    let mut value = 0;
    for shift in 0..4 {
        let byte = next()?;
        value |= usize::from(byte & 127) << (7 * shift);
        if byte & 128 == 0 {
            return Some(value);
        }
    }
    None
}

fn packet(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut byte = || {
        let mut one = [0];
        stream.read_exact(&mut one).ok()?;
        Some(one[0])
    };
    let head = byte()?;
    let size = varint(&mut byte)?;
    let mut body = vec![0; size];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn serve(shared: &Shared, mut stream: TcpStream) {
    while let Some((head, body)) = packet(&mut stream) {
        let mut state = shared.state.lock().unwrap();
        let id = |at: usize| body.get(at..at + 2).map_or([0, 0], |id| [id[0], id[1]]);
        match head >> 4 {
            CONNECT => write(&mut stream, 0x20, &[0, 0, 0]),
            SUBSCRIBE => {
                let mut rest = body.iter().skip(2).copied();
                let properties = varint(|| rest.next()).unwrap_or(0);
                let filters: Vec<u8> = rest.skip(properties).collect();
                let mut answer = id(0).to_vec();
                answer.push(0);
                let mut at = 0;
                while let Some(size) = filters.get(at..at + 2) {
                    at += 3 + usize::from(u16::from_be_bytes([size[0], size[1]]));
                    answer.push(1);
                }
                write(&mut stream, 0x90, &answer);
                state.subscribed += 1;
            }
            PUBLISH => {
                let size = usize::from(u16::from_be_bytes(id(0)));
                let topic = String::from_utf8_lossy(body.get(2..2 + size).unwrap_or_default()).into_owned();
                write(&mut stream, 0x40, &id(2 + size));
                let mut rest = body.iter().skip(4 + size).copied();
                let properties = varint(|| rest.next()).unwrap_or(0);
                let payload: Vec<u8> = rest.skip(properties).collect();
                state.published.push(Published { topic, json: serde_json::from_slice(&payload).unwrap_or_default() });
            }
            PUBACK => state.acknowledged.push(u16::from_be_bytes(id(0))),
            PINGREQ => write(&mut stream, 0xD0, &[]),
            _ => {}
        }
        drop(state);
        shared.changed.notify_all();
    }
}
