//! Maps compiled code into the process: the one unsafe step of the house.
//!
//! Owns the reason why it is sound. It must not know where the file comes from; `cache.rs` vouches for that.

use std::os::fd::AsRawFd;

use cap_std::fs::File;
use wasmtime::Engine;
use wasmtime::component::Component;

/// Maps a file that `Component::serialize` wrote.
///
/// The caller vouches that nobody but this user could have written the file, and that its bytes are the ones that were
/// written.
#[expect(unsafe_code, reason = "compiled code cannot be loaded otherwise")]
pub(crate) fn map(engine: &Engine, file: &File) -> wasmtime::Result<Component> {
    // The path leads to the open file itself, so what was checked is what is mapped, even if the name is taken over meanwhile.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // SAFETY: the bytes have to come from a compiler of this version and must not be tampered with. The cache reads only from
    // a folder that this user alone may write (checked on its handle), and compares the digest that was written beside the
    // code before it calls this; wasmtime itself checks version and settings.
    unsafe { Component::deserialize_file(engine, path) }
}
