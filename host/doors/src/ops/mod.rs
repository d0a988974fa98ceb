//! The ops door: is the process alive, can it do its work, and what are its figures.
//!
//! Read in this order: [`server`], `pages`.

mod pages;
pub mod server;
