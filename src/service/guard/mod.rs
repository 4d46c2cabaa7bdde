//! The guard: a process that starts everything a run needs, and ends it, whatever becomes of lasthop.
//!
//! ```text
//! lasthop ──channel── lasthop guard ──┬── nginx ── worker
//!                                     ├── gunicorn ── worker
//!                                     └── lasthop drive
//! ```
//!
//! - It has a session of its own, so Ctrl-C in the terminal reaches lasthop only.
//! - It is a subreaper: an orphan below it becomes its child. What is to be ended is exactly what descends from it.
//! - Each process that it starts has its own group and dies with the guard (parent-death signal).
//! - When the channel ends, which it does however lasthop dies, the guard stops all, kills until no descendant is
//!   left, removes the sandbox and ends.
//! - If the guard itself is killed, lasthop notices and kills what is left; if both are, the next lasthop does
//!   ([`sweep()`]).

mod channel;
mod client;
mod message;
mod serve;
pub mod signal;
mod sweep;

pub use client::{Guard, GuardError, GuardedChild, Input, Output, Spawn, Stopped};
pub use message::Exit;
pub use serve::{ServeError, serve};
pub use sweep::{Swept, sweep, sweep_in};

/// The environment variable that marks each process of a run; its value is the path of the sandbox.
pub const MARKER: &str = "LASTHOP_RUN";
