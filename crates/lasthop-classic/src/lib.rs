//! DRIVE with the classic tools: wrk, psql and the others of `tools`, in place of lasthop's load generator.
//!
//! A tool drives a case ([`drive`] speaks the wire protocol for it), with the flags of a study or flags derived from
//! the case. Its file holds its arguments and every line that it may print: an unknown line is an error, not a number.

mod choice;
pub mod drive;
mod output;
mod process;
mod template;
#[cfg(test)]
mod tests;
mod tool;

use std::sync::LazyLock;

use include_dir::{Dir, include_dir};
use lasthop_model::{level::Levels, selection::DRIVER};

pub use self::{
    choice::choice,
    tool::{Order, Reading, SHORTEST_TRIAL, Tool},
};

static FILES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../tools");

/// Every tool, by name.
pub static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let files = FILES.files().filter_map(|file| {
        let name = file.path().to_str()?.strip_suffix(".toml")?;
        let read = toml::from_str(file.contents_utf8()?).map(|tool: Tool| Tool { name, ..tool });
        Some(read.unwrap_or_else(|error| panic!("tools/{name}.toml: {error}")))
    });
    let mut tools: Vec<Tool> = files.collect();
    tools.sort_by_key(|tool| tool.name);
    tools
});

/// The tool of that name.
pub fn named(name: &str) -> Result<&'static Tool, String> {
    TOOLS.iter().find(|tool| tool.name == name).ok_or_else(|| {
        let known: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        format!("unknown tool `{name}` (known: {})", known.join(", "))
    })
}

/// The classic tool that drives a case; `None` if lasthop's own load does.
pub fn tool_of(levels: &Levels) -> Option<&'static Tool> {
    levels.get(DRIVER).and_then(|level| named(&level.to_string()).ok())
}
