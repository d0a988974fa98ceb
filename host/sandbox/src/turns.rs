//! Taking turns: no guest keeps a thread to itself, whether it computes or spends its time in host calls (U23).
//!
//! Owns how long a turn is. A computing guest is measured by its fuel, which wasmtime does by itself. A host call burns no
//! fuel, so after each one the clock is read, and when the turn has lasted too long the guest gives way on its way back. It
//! must not know what a host call does.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, Instant};

use wasmtime::{CallHook, CallHookHandler, Store, StoreContextMut};

use crate::state::State;

/// Fuel a guest burns in one turn: about 0.05 to 0.13 ms, at a cost of about two percent of pure computing.
const TURN_FUEL: u64 = 500_000;
/// The longest a turn lasts for a guest that spends it in host calls.
const TURN_TIME: Duration = Duration::from_micros(500);

thread_local! {
    /// When the guest that this thread drives began its turn.
    static TURN_BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A guest begins its turn on this thread.
pub(crate) fn begin(now: Instant) {
    TURN_BEGAN.set(Some(now));
}

/// Makes the guest of this store give way when its turn is over.
pub(crate) fn watch(store: &mut Store<State>) -> wasmtime::Result<()> {
    store.fuel_async_yield_interval(Some(TURN_FUEL))?;
    store.call_hook_async(Crossings);
    Ok(())
}

/// Called whenever a guest calls its host or comes back, be it for an import, for memory, or for its next portion of fuel.
struct Crossings;

#[async_trait::async_trait]
impl CallHookHandler<State> for Crossings {
    async fn handle_call_event(&self, _: StoreContextMut<'_, State>, crossing: CallHook) -> wasmtime::Result<()> {
        if matches!(crossing, CallHook::ReturningFromHost) && TURN_BEGAN.get().is_some_and(|began| began.elapsed() > TURN_TIME) {
            give_way().await;
        }
        Ok(())
    }
}

/// Lets the runtime drive other jobs, and comes back.
async fn give_way() {
    let mut gave_way = false;
    poll_fn(|context| {
        if gave_way {
            return Poll::Ready(());
        }
        gave_way = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
