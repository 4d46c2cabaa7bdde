//! The tests of this crate in one executable, linked once: `cargo test -p lasthop-load --test all shortage::` runs one
//! file. `many.rs` beside this folder measures the memory of its own process.

#[path = "../common/mod.rs"]
mod common;

mod channels;
mod datagrams;
mod endings;
mod misbehaving;
mod misbehaving_grpc;
mod misbehaving_protocols;
mod misbehaving_waits;
mod null_server;
mod open_loop;
mod own_server;
mod real_mariadb;
mod real_servers;
mod real_websocket;
mod shortage;
mod slow_replies;
