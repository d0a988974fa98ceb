//! What the binary carries with it: the built-in guest and the demo catalog, so that it runs with no file beside it (DC-12).
//!
//! Owns the embedded bytes. It must not know what any of them says; the demo's services are data like any other's.

use std::path::Path;

use supply::Builtin;

/// The built-in guests (G1-56).
pub(crate) fn builtins() -> Vec<Builtin> {
    let prompt: &[u8] = include_bytes!("../../../guests/prompt/prompt.wasm");
    vec![Builtin { name: "prompt", bytes: prompt.into() }]
}

include!(concat!(env!("OUT_DIR"), "/demo.rs"));

/// Writes the demo catalog into a folder.
pub(crate) fn write_demo(folder: &Path) -> std::io::Result<()> {
    for (name, bytes) in DEMO_FILES {
        std::fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}

/// The invoke the demo shows: an object with service and args.
pub(crate) const FIRST_INVOKE: &str = include_str!("../../../catalogs/demo/first.invoke");
