//! `lasthop survey`: the links between running processes of this machine, the traffic of each, and the saving with
//! another socket.
//!
//! The survey asks the kernel for sockets and their counters, and reads `/proc`. It attaches to nothing, sends nothing
//! over the links and reads none of their traffic.
//!
//! | module | holds |
//! |---|---|
//! | `spaces`, `processes` | network namespaces; owners of sockets, and the processes of one server |
//! | `containers` | names of containers |
//! | [`watch`] | connections and their counters, for some seconds |
//! | [`links`] | the result: links with their load |
//! | [`saving`] | the saving with a Unix socket |
//! | [`page`], `graph` | the result for people, with a picture, and as CSV |

mod containers;
#[cfg(test)]
mod fixtures;
mod graph;
pub mod links;
pub mod page;
mod processes;
pub mod saving;
mod spaces;
pub mod watch;

use std::{io, sync::OnceLock};

use lasthop_system::{clock, interrupt};
use links::Survey;
use processes::Processes;
use spaces::Spaces;
use watch::Timing;

/// CPU time to complete the result after an interrupt, in nanoseconds.
const LAST_LOOK: u64 = 2_000_000_000;

/// Whether the time after an interrupt is used up: every user of the machine can lengthen the work. Only the watching
/// thread asks.
fn is_out_of_time() -> bool {
    static HEARD: OnceLock<u64> = OnceLock::new();
    interrupt::heard() && {
        let now = clock::thread_cpu();
        now - HEARD.get_or_init(|| now) > LAST_LOOK
    }
}

/// Watches this machine. Calls `begun` when the watch begins.
pub fn survey(timing: Timing, begun: impl FnOnce()) -> io::Result<Survey> {
    let mut spaces = Spaces::own()?;
    let mut processes = Processes::default();
    let seen = watch::watch(&mut spaces, &mut processes, timing, begun)?;
    Ok(Survey::of(&seen, &mut processes, spaces.unseen()))
}
