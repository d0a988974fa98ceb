//! What the binary carries with it: the built-in guest and the demo catalog, so that it runs with no file beside it (DC-12).
//!
//! Owns the embedded bytes. It must not know what any of them says; the demo's services are data like any other's.

use std::path::Path;

/// The built-in guests by name (G1-56).
pub(crate) fn builtin_guests() -> &'static [(&'static str, &'static [u8])] {
    &[("prompt", include_bytes!("../../../guests/prompt/prompt.wasm"))]
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
