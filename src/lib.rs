//! lasthop: how two processes on one machine should talk.
//!
//! [`cli`] parses the command line, calls a stage, and prints. [`selftest`] and [`mod@load`] are, like it, users of the
//! stages: many short runs whose answer is known, and a single endpoint without a run.

pub mod cli;
pub mod load;
pub mod selftest;
