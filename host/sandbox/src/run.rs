//! One job in one fresh instance: the store, the race between stop, deadline and guest, and the receipt.
//!
//! Owns the hot path: everything here happens once a job, so it does as little as it can. It must not know how a guest was
//! prepared, nor what its answer means.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use job::BoxFuture;
use job::executor::{End, Grants, Guest, Host, Limits, Ran, Work};
use job::outcome::Usage;
use tokio::time::Sleep;
use wasmtime::{Engine, Store};

use crate::bindings::ExecutorPre;
use crate::bindings::amp::capability::types::{Failure, Job, Outcome};
use crate::end;
use crate::state::State;
use crate::turns;

/// A guest that is compiled, linked and checked. Its runs are driven by a tokio runtime with timers ([`crate::guest_runtime`]).
pub(crate) struct ReadyGuest {
    parts: Arc<Parts>,
}

struct Parts {
    engine: Engine,
    linked: ExecutorPre<State>,
    hash: Arc<str>,
    memory_bytes_min: u64,
}

impl ReadyGuest {
    /// A guest whose imports and exports have been checked.
    pub(crate) fn new(engine: Engine, linked: ExecutorPre<State>, hash: Arc<str>, memory_bytes_min: u64) -> Self {
        Self { parts: Arc::new(Parts { engine, linked, hash, memory_bytes_min }) }
    }
}

impl Guest for ReadyGuest {
    fn hash(&self) -> Arc<str> {
        self.parts.hash.clone()
    }

    fn memory_bytes_min(&self) -> u64 {
        self.parts.memory_bytes_min
    }

    fn run(&self, work: Work, host: Arc<dyn Host>) -> BoxFuture<'static, Ran> {
        Box::pin(run(self.parts.clone(), work, host))
    }
}

async fn run(parts: Arc<Parts>, work: Work, host: Arc<dyn Host>) -> Ran {
    let job = job_of(&work);
    let Work { limits, grants, deadline, stop, .. } = work;
    let mut store = match store_for(&parts.engine, &limits, &grants, host) {
        Ok(store) => store,
        Err(error) => {
            let end = End::NoPlace { message: format!("no store for the job ({error:#})") };
            return Ran { end, usage: Usage { guest: Some(parts.hash.clone()), ..Usage::default() } };
        }
    };
    let raced = race(stop, deadline, async {
        match parts.linked.instantiate_async(&mut store).await {
            Ok(instance) => Called::Ran(instance.call_execute(&mut store, &job).await),
            Err(error) => Called::NeverRan(error),
        }
    })
    .await;
    let end = match raced {
        Raced::Stopped => End::Stopped,
        Raced::Late => end::of_deadline(store.data()),
        Raced::Over(Called::NeverRan(error)) => end::of_instantiation(&error, &limits, store.data()),
        Raced::Over(Called::Ran(called)) => {
            if let Err(error) = &called {
                tracing::debug!(job = %work.key, guest = %parts.hash, "the guest did not return: {error:?}");
            }
            end::of_call(called, &limits, store.data())
        }
    };
    let usage = usage_of(&parts, &end, &limits, &store);
    Ran { end, usage }
}

/// What the guest is told of its job.
pub(crate) fn job_of(work: &Work) -> Job {
    Job {
        id: work.key.job.as_str().to_owned(),
        owner: work.key.owner.as_str().to_owned(),
        service: work.service.as_ref().to_owned(),
        args: work.args.as_str().to_owned(),
        prompt: work.prompt.as_ref().to_owned(),
        parent: work.lineage.parent.as_ref().map(|parent| parent.as_str().to_owned()),
        root: work.lineage.root.as_str().to_owned(),
        depth: work.lineage.depth,
        attempt: work.attempt,
        timeout_ms: work.limits.timeout_ms,
    }
}

fn store_for(engine: &Engine, limits: &Limits, grants: &Grants, host: Arc<dyn Host>) -> wasmtime::Result<Store<State>> {
    let mut store = Store::new(engine, State::new(limits, grants, host));
    store.limiter(|state| &mut state.limiter);
    store.set_fuel(limits.fuel)?;
    turns::watch(&mut store)?;
    store.set_hostcall_fuel(end::handed_over_bytes_max(limits));
    Ok(store)
}

/// The receipt. Fuel that was used up is the limit itself, whatever the last step would have cost (DC-04).
fn usage_of(parts: &Parts, end: &End, limits: &Limits, store: &Store<State>) -> Usage {
    let left = store.get_fuel().unwrap_or(0);
    let fuel = if *end == End::OutOfFuel { limits.fuel } else { limits.fuel.saturating_sub(left) };
    let peak_memory_bytes = store.data().limiter.peak_bytes();
    Usage { fuel, peak_memory_bytes, guest: Some(parts.hash.clone()), ..Usage::default() }
}

/// How far the guest came.
enum Called {
    /// There was no instance.
    NeverRan(wasmtime::Error),
    /// It was called.
    Ran(wasmtime::Result<Result<Outcome, Failure>>),
}

/// Who won.
enum Raced<T> {
    /// `stop` resolved.
    Stopped,
    /// The deadline passed.
    Late,
    /// The guest came to an end of its own.
    Over(T),
}

/// Stop wins over the deadline, the deadline over the guest. The clock is read at every step, so a guest that never rests is
/// late at once; the timer is armed only for a guest that waits, which an ordinary job never does.
async fn race<T>(mut stop: BoxFuture<'static, ()>, deadline: Instant, call: impl Future<Output = T>) -> Raced<T> {
    let mut call = pin!(call);
    let mut alarm: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|context| {
        if stop.as_mut().poll(context).is_ready() {
            return Poll::Ready(Raced::Stopped);
        }
        let now = Instant::now();
        if now >= deadline {
            return Poll::Ready(Raced::Late);
        }
        turns::begin(now);
        if let Poll::Ready(called) = call.as_mut().poll(context) {
            return Poll::Ready(Raced::Over(called));
        }
        let alarm = alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline.into())));
        alarm.as_mut().poll(context).map(|()| Raced::Late)
    })
    .await
}
