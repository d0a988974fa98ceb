//! The commands, one file each, and how they find their configuration.

pub(crate) mod cancel;
pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod invoke;
pub(crate) mod run;
pub(crate) mod source;
