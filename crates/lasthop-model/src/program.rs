//! Executables: how to find them, and what installs them.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::manager::MANAGERS;

/// How to find the executable and its version.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// True for lasthop's own executable. Then leave out `names`, `folders` and `version`.
    #[serde(default)]
    pub lasthop: bool,
    /// Names of the executable. lasthop uses the first that it finds in its own environments, on `PATH` or in
    /// `folders`.
    #[serde(default)]
    pub names: Vec<String>,
    /// Folders to search after `PATH`, such as `/usr/sbin`.
    #[serde(default)]
    pub folders: Vec<PathBuf>,
    pub version: Option<Version>,
    #[serde(default)]
    pub packages: Packages,
    /// If no package manager has it: what to download, and where to put it. Shown if it is missing.
    pub obtain: Option<String>,
}

/// How to read the version.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// Arguments that print it.
    pub arguments: Vec<String>,
    /// Regular expression with one group: the version.
    pub pattern: String,
    /// The lowest version that works.
    pub minimum: Option<String>,
}

/// What must be installed: names for package managers of the system, and what belongs in environments of lasthop.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(transform = with_forms)]
pub struct Packages {
    /// Python packages with their version, `name==1.2.3`.
    pub python: Vec<String>,
    /// Ruby gems with their version, `name:1.2.3`.
    pub gems: Vec<String>,
    /// By the package managers that know them.
    #[serde(flatten)]
    #[schemars(skip)]
    pub system: BTreeMap<String, Vec<String>>,
}

/// What each kind of name looks like.
fn with_forms(schema: &mut Schema) {
    const PYTHON: [&str; 2] = [
        r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9][A-Za-z0-9.+!_-]*$",
        "a requirement with its version such as \"flask==3.1.3\"",
    ];
    const GEM: [&str; 2] = [
        r"^[A-Za-z0-9][A-Za-z0-9._-]*:[0-9][A-Za-z0-9.-]*$",
        "a gem with its version such as \"rack:3.1.8\"",
    ];
    let form = |pattern, expected| json!({ "type": "string", "pattern": pattern, "x-expected": expected });
    if let Some(Value::Object(keys)) = schema.get_mut("properties") {
        for (key, [pattern, expected]) in [("python", PYTHON), ("gems", GEM)] {
            keys[key]["items"] = form(pattern, expected);
        }
        keys.extend(MANAGERS.map(|manager| {
            let about = format!("Names of packages for {}.", manager.name);
            let items = form(manager.pattern, manager.expected);
            (
                manager.name.to_owned(),
                json!({ "type": "array", "items": items, "description": about }),
            )
        }));
    }
    schema.insert("additionalProperties".to_owned(), false.into());
}

impl Packages {
    /// Names for this package manager; none if there is none.
    pub fn of(&self, manager: &str) -> &[String] {
        self.system.get(manager).map_or(&[], Vec::as_slice)
    }

    /// Whether no package is named at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.system.is_empty() && self.python.is_empty() && self.gems.is_empty()
    }
}
