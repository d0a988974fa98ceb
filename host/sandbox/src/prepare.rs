//! From a component to a guest that can run: imports, exports and needs are checked before any job comes.
//!
//! Owns the words an author reads when a guest cannot be used (G1-55). It must not know the cache or threads.

use std::sync::Arc;

use job::executor::PrepareError;
use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

use crate::bindings::{ExecutorPre, amp};
use crate::convert::NotWasm;
use crate::run::ReadyGuest;
use crate::state::State;

/// Largest file of a guest, in bytes.
pub(crate) const GUEST_BYTES_MAX: usize = 64 << 20;
/// A page of linear memory, in bytes.
const PAGE_BYTES: u64 = 64 << 10;
/// The export a guest is called by.
const EXECUTE: &str = "execute";
/// How the name of the interface begins that commands export.
const COMMAND: &str = "wasi:cli/run@";
/// What a guest may import.
const OFFER: &str = "amp:capability/report, mesh and input @1.0.0 and the interfaces of WASI 0.2 (without wasi:http)";

/// Links everything a guest may import.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    use wasmtime::component::HasSelf;
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    amp::capability::report::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    amp::capability::mesh::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    amp::capability::input::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    Ok(linker)
}

/// The bytes are no guest.
pub(crate) fn not_wasm(name: &str, error: &NotWasm) -> PrepareError {
    let mend = match error {
        NotWasm::Foreign | NotWasm::Unknown => "name a .wasm file: a component, or a core module with an embedded component type",
        NotWasm::Core { .. } => {
            "build it with bindings for the world amp:capability/executor (wit-bindgen embeds the type; a wasm32-wasip1 module has to \
             be made a component first, for example with `wasm-tools component new --adapt`)"
        }
    };
    PrepareError { what: format!("the guest {name} cannot be used: {error}"), mend: mend.into() }
}

/// The file is too large to be looked at.
pub(crate) fn too_large(name: &str, bytes: usize) -> PrepareError {
    PrepareError {
        what: format!("the guest {name} has {bytes} bytes; the limit is {GUEST_BYTES_MAX}"),
        mend: "build it without debug information (strip)".into(),
    }
}

/// The compiler refused it.
pub(crate) fn not_compiled(name: &str, error: &wasmtime::Error) -> PrepareError {
    PrepareError {
        what: format!("the guest {name} does not compile: {error:#}"),
        mend: "build it for WebAssembly 2.0 with 32-bit memory, as one component of at most 16 core modules and one memory"
            .into(),
    }
}

/// This process could not do the work; the guest may be fine.
pub(crate) fn no_thread(name: &str, why: &str) -> PrepareError {
    PrepareError {
        what: format!("the guest {name} was not prepared: {why}"),
        mend: "try again; the node's log tells more".into(),
    }
}

/// Checks a component and makes it ready.
pub(crate) fn ready(
    linker: &Linker<State>,
    component: &Component,
    name: &str,
    hash: Arc<str>,
    memory_bytes_max: u64,
) -> Result<ReadyGuest, PrepareError> {
    let memory_bytes_min = memory_bytes_min(component);
    if memory_bytes_min > memory_bytes_max {
        return Err(PrepareError {
            what: format!(
                "the guest {name} needs {memory_bytes_min} bytes of memory to begin with, and an entry may get at most \
                 {memory_bytes_max}"
            ),
            mend: "raise limits.max.memory_mb, or build the guest with less initial memory and stack".into(),
        });
    }
    let pre = linker.instantiate_pre(component).map_err(|error| PrepareError {
        what: format!("the guest {name} imports what this host does not offer: {error:#}"),
        mend: format!("take the import out; a guest may import {OFFER}"),
    })?;
    let engine = linker.engine().clone();
    let linked = ExecutorPre::new(pre).map_err(|error| no_execute(component, &engine, name, &error))?;
    Ok(ReadyGuest::new(engine, linked, hash, memory_bytes_min))
}

fn no_execute(component: &Component, engine: &Engine, name: &str, error: &wasmtime::Error) -> PrepareError {
    let exports: Vec<String> = component.component_type().exports(engine).map(|(export, _)| export.to_owned()).collect();
    let (what, mend) = if exports.iter().any(|export| export == EXECUTE) {
        (format!("exports `execute` with another type: {error:#}"), "build it against the current wit/ folder")
    } else if exports.iter().any(|export| export.starts_with(COMMAND)) {
        (
            "is a WASI command, which this host does not run".to_owned(),
            "export `execute` of the world amp:capability/executor instead",
        )
    } else {
        ("exports no `execute`".to_owned(), "export `execute` of the world amp:capability/executor")
    };
    PrepareError { what: format!("the guest {name} {what}"), mend: mend.into() }
}

/// The linear memory a component has before it runs, in bytes. wasmtime counts it in pages.
fn memory_bytes_min(component: &Component) -> u64 {
    component.resources_required().and_then(|needs| needs.max_initial_memory_size).unwrap_or(0).saturating_mul(PAGE_BYTES)
}
