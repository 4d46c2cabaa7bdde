//! `lasthop survey`: the links between processes of this machine that run now, how busy each is, and what another socket
//! would save.
//!
//! It asks the kernel for sockets and their counters, and reads `/proc`. It attaches to nothing, sends nothing over the
//! links and reads nothing that goes over them.
//!
//! | module | holds |
//! |---|---|
//! | `spaces`, `processes` | network namespaces; who has a socket, which processes are one server |
//! | `containers` | what containers are called |
//! | [`watch`] | connections and what they count, for some seconds |
//! | [`links`] | the result: links with their load |
//! | [`saving`] | what a Unix socket would save |
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

/// The CPU time for completing after an interrupt what was seen, in nanoseconds.
const LAST_LOOK: u64 = 2_000_000_000;

/// Whether lasthop has looked for so long since an interrupt that it looks at nothing more. How much there is to look at
/// is up to every user of the machine. Only the thread that watches asks.
fn is_out_of_time() -> bool {
    static HEARD: OnceLock<u64> = OnceLock::new();
    interrupt::heard() && {
        let now = clock::thread_cpu();
        now - HEARD.get_or_init(|| now) > LAST_LOOK
    }
}

/// Watches this machine, and says when it has begun.
pub fn survey(timing: Timing, begun: impl FnOnce()) -> io::Result<Survey> {
    let mut spaces = Spaces::own()?;
    let mut processes = Processes::default();
    let seen = watch::watch(&mut spaces, &mut processes, timing, begun)?;
    Ok(Survey::of(&seen, &mut processes, spaces.unseen()))
}
