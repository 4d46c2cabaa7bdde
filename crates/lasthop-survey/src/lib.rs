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
//! | [`saving`], [`limit`] | what a Unix socket would save, and the limits of `--fail-if` |
//! | [`page`], `graph` | the result for people, with a picture, and as CSV |
//! | [`saved`], [`diff`] | a survey that was kept, and what changed from one to another |

mod containers;
pub mod diff;
#[cfg(test)]
mod fixtures;
mod graph;
pub mod limit;
pub mod links;
pub mod page;
mod processes;
pub mod saved;
pub mod saving;
mod spaces;
pub mod watch;

use std::{
    io,
    sync::OnceLock,
    time::{Duration, Instant},
};

use lasthop_system::interrupt;
use links::Survey;
use processes::Processes;
use spaces::Spaces;
use watch::Timing;

/// How long what was seen may still be completed after an interrupt.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// Whether lasthop was interrupted so long ago that it looks at nothing more. How much there is to look at is up to every
/// user of the machine.
fn is_out_of_time() -> bool {
    static HEARD: OnceLock<Instant> = OnceLock::new();
    interrupt::heard() && HEARD.get_or_init(Instant::now).elapsed() > LAST_LOOK
}

/// Watches this machine, and says when it has begun.
///
/// # Errors
///
/// The kernel has no `sock_diag`, or refuses to answer.
pub fn survey(timing: Timing, begun: impl FnOnce()) -> io::Result<Survey> {
    let mut spaces = Spaces::own()?;
    let mut processes = Processes::default();
    let seen = watch::watch(&mut spaces, &mut processes, timing, begun)?;
    Ok(Survey::of(&seen, &mut processes, spaces.unseen()))
}
