//! The host side of the guest contract in `wit/`, generated.
//!
//! Owns nothing by hand.

#![allow(missing_docs, unreachable_pub, reason = "generated; the documentation stands in the wit files")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "amp:capability/executor",
    exports: { default: async },
});
