//! From the bytes an author hands in to a component.
//!
//! Owns what a file is told apart by, and the conversion of core modules that carry their component type. It must not know
//! wasmtime.

use std::borrow::Cow;

use wit_component::ComponentEncoder;

/// How every WebAssembly file begins.
const MAGIC: &[u8] = b"\0asm";
/// Version and layer of a core module.
const CORE: &[u8] = &[1, 0, 0, 0];
/// Version and layer of a component.
const COMPONENT: &[u8] = &[0x0d, 0, 1, 0];

/// Why bytes are no component and cannot become one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotWasm {
    /// Not WebAssembly at all.
    #[error("it is not WebAssembly: a file begins with \\0asm")]
    Foreign,
    /// WebAssembly of a version nobody here knows.
    #[error("it is WebAssembly of an unknown version or layer")]
    Unknown,
    /// A core module that does not say what it imports and exports as a component.
    #[error("it is a core module that cannot become a component ({why})")]
    Core {
        /// What the conversion missed.
        why: String,
    },
}

/// Gives the component in these bytes: as they are, or made from a core module with an embedded component type.
pub fn to_component(bytes: &[u8]) -> Result<Cow<'_, [u8]>, NotWasm> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(NotWasm::Foreign)?;
    match rest.get(..4) {
        Some(COMPONENT) => Ok(Cow::Borrowed(bytes)),
        Some(CORE) => encode(bytes).map(Cow::Owned).map_err(|why| NotWasm::Core { why }),
        _ => Err(NotWasm::Unknown),
    }
}

fn encode(module: &[u8]) -> Result<Vec<u8>, String> {
    let encoded = ComponentEncoder::default().module(module).and_then(|encoder| encoder.validate(true).encode());
    encoded.map_err(|error| format!("{error:#}"))
}
