//! The command line of lasthop: parses, calls a stage, and prints.

pub mod cli;
