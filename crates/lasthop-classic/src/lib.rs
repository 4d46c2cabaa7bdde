//! DRIVE with the classic tools: wrk, ab, httperf, h2load, psql, pgbench, sysbench, redis-benchmark.
//!
//! A tool replaces lasthop's load generator for a case ([`drive`] speaks the wire protocol for it), with the flags of a
//! study or with flags made from the case. A [`form`] that knows every line reads its output: an unknown line is an
//! error, not a number. There is one file per tool.

mod ab;
mod choice;
pub mod drive;
pub mod form;
mod h2load;
mod httperf;
mod kind;
mod pgbench;
mod process;
mod psql;
mod redis_benchmark;
mod sysbench;
mod url;
mod wrk;

use lasthop_model::{level::Levels, selection::DRIVER};

pub use self::{
    choice::choice,
    kind::{Order, Reading, SHORTEST_TRIAL, Tool},
};

/// Every tool. A new one is a file and an entry here.
pub static TOOLS: [&Tool; 8] = [
    &wrk::TOOL,
    &ab::TOOL,
    &httperf::TOOL,
    &h2load::TOOL,
    &psql::TOOL,
    &pgbench::TOOL,
    &sysbench::TOOL,
    &redis_benchmark::TOOL,
];

/// The tool of that name.
pub fn named(name: &str) -> Result<&'static Tool, String> {
    TOOLS.into_iter().find(|tool| tool.name == name).ok_or_else(|| {
        let known = TOOLS.map(|tool| tool.name).join(", ");
        format!("unknown tool `{name}` (known: {known})")
    })
}

/// The classic tool that drives a case; `None` if its own load does.
pub fn tool_of(levels: &Levels) -> Option<&'static Tool> {
    levels.get(DRIVER).and_then(|level| named(&level.to_string()).ok())
}
