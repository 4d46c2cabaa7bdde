//! What more than one part of lasthop asks the kernel, whatever it is asked for.
//!
//! | module | holds |
//! |---|---|
//! | [`clock`] | monotonic time, CPU time of a thread |
//! | [`fn@connect`] | a blocking connection to any address |
//! | [`limits`] | how many files a process may open |
//! | [`regular`] | the door to files that somebody else may have put there |
//! | [`schedstat`] | what the scheduler counts of a thread |
//! | [`udp`] | who is bound to a UDP port, and what the kernel dropped there |

pub mod clock;
mod connect;
pub mod limits;
pub mod regular;
mod schedstat;
pub mod udp;

pub use connect::connect;
pub use schedstat::run_delay;
