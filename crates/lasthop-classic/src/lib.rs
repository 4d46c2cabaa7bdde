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
    kind::{Order, Reading, SHORTEST_TRIAL, Tool, Unable},
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

/// The word is not the name of a tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown tool `{0}` (known: {known})", known = TOOLS.map(|tool| tool.name).join(", "))]
pub struct UnknownTool(pub String);

/// The tool of that name.
/// Errors: there is none.
pub fn named(name: &str) -> Result<&'static Tool, UnknownTool> {
    TOOLS.into_iter().find(|tool| tool.name == name).ok_or_else(|| UnknownTool(name.to_owned()))
}

/// The classic tool that drives a case; `None` if its own load does.
pub fn tool_of(levels: &Levels) -> Option<&'static Tool> {
    levels.get(DRIVER).and_then(|level| named(&level.to_string()).ok())
}
