//! The guard: a process that starts all processes of a run, and ends them whatever happens to lasthop.
//!
//! ```text
//! lasthop ──channel── lasthop guard ──┬── nginx ── worker
//!                                     ├── gunicorn ── worker
//!                                     └── lasthop drive
//! ```
//!
//! - The guard has its own session, so Ctrl-C in the terminal reaches only lasthop.
//! - It is a subreaper: an orphan below it becomes its child. So the processes to end are exactly its descendants.
//! - Each process that it starts has its own group and dies with the guard (parent-death signal).
//! - When the channel closes, which happens however lasthop dies, the guard stops its processes, kills until no
//!   descendant is left, removes the sandbox and exits.
//! - If the guard is killed, lasthop notices and kills the remaining processes. If both are killed, the next lasthop
//!   does ([`sweep()`]).

mod channel;
mod client;
pub mod message;
mod serve;
mod sweep;

pub use client::{Guard, GuardError, GuardedChild};
pub use message::SpawnRequest;
pub use serve::serve;
pub use sweep::{Sweep, Swept, sweep, sweep_in};

/// The environment variable that marks each process of a run; its value is the path of the sandbox.
pub const MARKER: &str = "LASTHOP_RUN";
