//! Taking turns: no guest keeps a thread to itself, whether it computes or spends its time in host calls (U23).
//!
//! Owns how long a turn is. A computing guest is measured by its fuel, which wasmtime does by itself. A host call burns no
//! fuel, so after each one the clock is read; when the turn has lasted too long, the guest's next step is made to be one at
//! which it gives way. It must not know what a host call does.

use std::cell::Cell;
use std::time::{Duration, Instant};

use wasmtime::{CallHook, Store, StoreContextMut};

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
    store.call_hook(crossing);
    Ok(())
}

/// Called whenever a guest calls its host or comes back, which it also does to ask for its next portion of fuel.
///
/// A portion of one unit brings the guest back at its next loop or call; there the portion is restored before it is handed
/// out, and the guest gives way. The total of its fuel is the same all along.
fn crossing(mut store: StoreContextMut<'_, State>, crossing: CallHook) -> wasmtime::Result<()> {
    match crossing {
        CallHook::CallingHost if store.data().turn_is_over => {
            store.data_mut().turn_is_over = false;
            store.fuel_async_yield_interval(Some(TURN_FUEL))
        }
        CallHook::ReturningFromHost if TURN_BEGAN.get().is_some_and(|began| began.elapsed() > TURN_TIME) => {
            store.data_mut().turn_is_over = true;
            store.fuel_async_yield_interval(Some(1))
        }
        _ => Ok(()),
    }
}
