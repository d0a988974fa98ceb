//! The mesh door over real sockets: Mosquitto where it is installed, the embedded broker always.

mod broker;
mod closing;
mod commands;
mod delivery;
mod desk_order;
mod fake;
mod house;
mod observer;
mod paging;
mod presence;
mod proxy;
mod requesting;
