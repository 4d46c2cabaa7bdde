//! lasthop: how two processes on one machine should talk.
//!
//! [`cli`] parses the command line, calls a stage, and prints. [`selftest`] and [`mod@load`] also use the stages: for
//! many short runs with a known answer, and for a single endpoint without a run.

pub mod cli;
pub mod load;
pub mod selftest;
