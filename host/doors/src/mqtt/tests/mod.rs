//! The mesh door over real sockets: Mosquitto where it is installed, the embedded broker always.

mod broker;
mod closing;
mod commands;
mod delivery;
mod desk_order;
mod desk_suspects;
mod fake;
mod house;
mod lacking;
mod observer;
mod paging;
mod poison;
mod presence;
mod proxy;
mod requesting;
mod stale;
