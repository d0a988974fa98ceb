//! Guests that cannot be used, and the words their authors read (G1-55).

use std::fs;

use job::executor::{Executor, PrepareError};

use super::{BENCH, MIB, body, guest_file, order, settings, source_of};
use crate::{Sandbox, to_component};

fn refusal(bytes: &[u8]) -> PrepareError {
    match BENCH.runtime.block_on(BENCH.sandbox.prepare(source_of("broken", bytes))) {
        Ok(_) => panic!("it was taken"),
        Err(error) => error,
    }
}

/// A component in which one text stands for another of the same length.
fn altered(name: &str, from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = fs::read(guest_file(name)).expect("file");
    let mut found = 0;
    for at in 0..bytes.len() - from.len() {
        if bytes[at..].starts_with(from.as_bytes()) {
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
            found += 1;
        }
    }
    assert!(found > 0, "{from} does not occur in {name}");
    bytes
}

/// G1-55: each fault of a file is named, with what its author can do.
#[test]
fn each_fault_is_named_with_its_mend() {
    // A module that imports the function `x` of `env`, and tells nothing of components.
    let core = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x02\x09\x01\x03env\x01x\0\0".to_vec();
    let empty_core = b"\0asm\x01\0\0\0".to_vec();
    let empty_component = b"\0asm\x0d\0\x01\0".to_vec();
    let mut cut = fs::read(guest_file("prompt")).expect("file");
    cut.truncate(cut.len() / 2);
    let rows: Vec<(Vec<u8>, &str, &str)> = vec![
        (b"#!/bin/sh".to_vec(), "broken.wasm cannot be used: it is not WebAssembly", "name a .wasm file"),
        (Vec::new(), "not WebAssembly", "name a .wasm file"),
        (b"\0asm\x09\0\x09\0".to_vec(), "unknown version", "name a .wasm file"),
        (core, "core module that cannot become a component", "amp:capability/executor"),
        (empty_core, "exports no `execute`", "export `execute`"),
        (empty_component, "exports no `execute`", "export `execute`"),
        (cut, "does not compile", "build it"),
        (altered("prompt", "execute", "exequte"), "exports no `execute`", "export `execute`"),
        (
            altered("prompt", "amp:capability/report@1.0.0", "amp:capability/rebort@1.0.0"),
            "amp:capability/rebort@1.0.0",
            "take the import out",
        ),
        (vec![0; (64 << 20) + 1], "the limit is 67108864", "strip"),
    ];
    for (bytes, what, mend) in rows {
        let error = refusal(&bytes);
        assert!(error.what.contains(what), "{}", error.what);
        assert!(error.mend.contains(mend), "{} / {}", error.what, error.mend);
    }
}

/// A guest whose memory no entry could grant is refused when it is loaded, not at its first job.
#[test]
fn a_guest_that_needs_too_much_memory_is_refused() {
    let home = tempfile::tempdir().expect("temporary folder");
    let mut small = settings(&home.path().join("compiled"));
    (small.max_live, small.memory_bytes_max) = (1, MIB);
    let sandbox = Sandbox::new(&small).expect("sandbox");
    let bytes = fs::read(guest_file("prompt")).expect("file");
    let error = BENCH.runtime.block_on(sandbox.prepare(source_of("prompt", &bytes))).map(|_| ()).expect_err("refused");
    assert!(error.what.contains("at most 1048576"), "{}", error.what);
    assert!(error.mend.contains("limits.max.memory_mb"), "{}", error.mend);
}

/// A component is taken as it is.
#[test]
fn a_component_needs_no_conversion() {
    let bytes = fs::read(guest_file("prompt")).expect("file");
    assert_eq!(to_component(&bytes).expect("component").as_ref(), bytes.as_slice());
}

/// DESIGN section 4: a core module with an embedded component type becomes a component when it is loaded.
#[test]
fn a_core_module_with_its_type_runs() {
    let module = fs::read(guest_file("core")).expect("file");
    assert_eq!(&module[4..8], &[1, 0, 0, 0], "a core module");
    // It is the built-in guest before its conversion, so that the lock file covers both.
    assert_eq!(to_component(&module).expect("component").as_ref(), fs::read(guest_file("prompt")).expect("file"));
    let guest = BENCH.runtime.block_on(BENCH.sandbox.prepare(source_of("core", &module))).expect("ready");
    let mut order = order("{}");
    order.prompt = "hello".into();
    assert_eq!(body(order.run(&guest).end), r#"{"prompt":"hello"}"#);
}
