//! Where CPU time goes: samples of all CPUs, and counts of kernel events, by role and by layer. Nothing here knows a
//! run or a report.
//!
//! | module | holds |
//! |---|---|
//! | [`profiler`] | a trial under observation |
//! | [`mod@layers`] | which function belongs to which layer (`layers.toml`) |
//! | [`missing`] | what is missing before a machine can be observed |
//! | `ring`, `record`, `collector` | the kernel's rings, their records, the thread that empties them |
//! | `tracepoints`, `system_calls` | counted events |
//! | `roles` | which process belongs to which role |
//! | [`connects`] | which processes open connections, also without a profile |
//! | `symbols`, `elf`, `fold` | names of functions, also in files of servers; the layers and stacks of a role |

mod collector;
pub mod connects;
mod elf;
mod fold;
pub mod layers;
pub mod missing;
pub mod profiler;
mod record;
mod ring;
mod roles;
mod symbols;
mod system_calls;
mod tracepoints;

pub use layers::{Layer, Layers, layers};
pub use missing::Missing;
pub use profiler::{Profiler, Settings};
