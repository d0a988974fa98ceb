//! A TCP proxy between a client and the broker that can be cut, blocked, or made to swallow one direction.
//!
//! Owns the pump and its switches. It must not parse MQTT: what it looks for are bytes the caller names.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

use crate::{WAIT, ports};

const CHUNK: usize = 16 * 1024;

/// What the proxy does with bytes the client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upstream {
    Pass,
    Swallow,
}

#[derive(Debug)]
struct State {
    blocked: bool,
    upstream: Upstream,
    /// Cut every connection once the client has sent `needle` this many more times.
    cut_at: Option<(Vec<u8>, usize)>,
    /// Whether that cut also blocks.
    then_block: bool,
    cuts: usize,
    /// Everything the client sent while it was swallowed.
    swallowed: Vec<u8>,
    live: Vec<TcpStream>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    to: u16,
}

/// The proxy; its threads end with the connections they serve.
#[derive(Debug, Clone)]
pub struct Proxy {
    shared: Arc<Shared>,
    port: u16,
}

impl Proxy {
    /// Starts a proxy in front of a port of this machine.
    pub fn start(to: u16) -> Self {
        let port = ports::free();
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let state = State {
            blocked: false,
            upstream: Upstream::Pass,
            cut_at: None,
            then_block: false,
            cuts: 0,
            swallowed: Vec::new(),
            live: Vec::new(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), to });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                serve(&serving, client);
            }
        });
        Self { shared, port }
    }

    /// The port clients connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its address as the node's configuration wants it.
    pub fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    /// Cuts every connection and refuses new ones until [`Self::release`].
    pub fn block(&self) {
        let mut state = self.shared.state.lock().unwrap();
        state.blocked = true;
        cut(&mut state);
        self.shared.changed.notify_all();
    }

    /// Lets connections pass again.
    pub fn release(&self) {
        let mut state = self.shared.state.lock().unwrap();
        state.blocked = false;
        state.upstream = Upstream::Pass;
    }

    /// Cuts every connection; new ones are let through.
    pub fn cut(&self) {
        cut(&mut self.shared.state.lock().unwrap());
        self.shared.changed.notify_all();
    }

    /// Cuts and blocks as soon as the client has sent `needle` so many more times.
    pub fn block_after(&self, needle: &str, times: usize) {
        self.arm(needle, times, true);
    }

    /// Cuts as soon as the client has sent `needle` so many more times; new connections are let through.
    pub fn cut_after(&self, needle: &str, times: usize) {
        self.arm(needle, times, false);
    }

    fn arm(&self, needle: &str, times: usize, then_block: bool) {
        let mut state = self.shared.state.lock().unwrap();
        state.cut_at = Some((needle.as_bytes().to_vec(), times));
        state.then_block = then_block;
    }

    /// From now on what the client sends is lost, while it goes on hearing the broker.
    pub fn swallow(&self) {
        self.shared.state.lock().unwrap().upstream = Upstream::Swallow;
    }

    /// Waits until the swallowed bytes hold `needle`.
    pub fn wait_swallowed(&self, needle: &str) {
        self.wait(&format!("{needle:?} from the client"), |state| find(&state.swallowed, needle.as_bytes()) > 0);
    }

    /// Waits until the proxy has cut by itself or by order `count` times in all.
    pub fn wait_cuts(&self, count: usize) {
        self.wait(&format!("cut number {count}"), |state| state.cuts >= count);
    }

    /// How often connections were cut.
    pub fn cuts(&self) -> usize {
        self.shared.state.lock().unwrap().cuts
    }

    fn wait(&self, what: &str, ready: impl Fn(&State) -> bool) {
        let end = Instant::now() + WAIT;
        let mut state = self.shared.state.lock().unwrap();
        while !ready(&state) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the proxy waited in vain for {what}");
            state = self.shared.changed.wait_timeout(state, left).unwrap().0;
        }
    }
}

fn cut(state: &mut State) {
    if !state.live.is_empty() {
        state.cuts += 1;
    }
    for stream in state.live.drain(..) {
        stream.shutdown(Shutdown::Both).ok();
    }
}

/// How often `needle` occurs.
fn find(hay: &[u8], needle: &[u8]) -> usize {
    hay.windows(needle.len()).filter(|window| *window == needle).count()
}

fn serve(shared: &Arc<Shared>, client: TcpStream) {
    let mut state = shared.state.lock().unwrap();
    if state.blocked {
        client.shutdown(Shutdown::Both).ok();
        return;
    }
    let Ok(server) = TcpStream::connect(("127.0.0.1", shared.to)) else {
        client.shutdown(Shutdown::Both).ok();
        return;
    };
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    state.live.extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
    drop(state);
    let (up_from, up_to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let watching = Arc::clone(shared);
    thread::spawn(move || pump(up_from, up_to, |bytes| upstream(&watching, bytes)));
    thread::spawn(move || pump(server, client, |_| Upstream::Pass));
}

/// Decides about bytes of the client, and cuts when they were the last the caller wanted through.
fn upstream(shared: &Shared, bytes: &[u8]) -> Upstream {
    let mut state = shared.state.lock().unwrap();
    if let Some((needle, left)) = state.cut_at.take() {
        let seen = find(bytes, &needle);
        if seen >= left {
            state.blocked |= state.then_block;
            cut(&mut state);
            shared.changed.notify_all();
            return Upstream::Swallow;
        } else {
            state.cut_at = Some((needle, left - seen));
        }
    }
    if state.upstream == Upstream::Swallow {
        state.swallowed.extend_from_slice(bytes);
    }
    shared.changed.notify_all();
    if state.blocked { Upstream::Swallow } else { state.upstream }
}

fn pump(mut from: TcpStream, mut to: TcpStream, decide: impl Fn(&[u8]) -> Upstream) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(size) = from.read(&mut buffer) {
        let Some(bytes) = buffer.get(..size).filter(|bytes| !bytes.is_empty()) else { break };
        if decide(bytes) == Upstream::Pass && to.write_all(bytes).is_err() {
            break;
        }
    }
    from.shutdown(Shutdown::Both).ok();
    to.shutdown(Shutdown::Both).ok();
}
