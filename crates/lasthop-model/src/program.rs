//! Executables: how to find and install them.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::manager::{LANGUAGES, Language, MANAGERS};

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
    /// Arguments with which the program prints its version.
    pub arguments: Vec<String>,
    /// Regular expression with one group: the version.
    pub pattern: String,
    /// The lowest version that works.
    pub minimum: Option<String>,
}

/// What must be installed: names by the package manager, of the system or of a language, that knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(transform = with_forms)]
pub struct Packages(pub BTreeMap<String, Vec<String>>);

/// How a file names the packages of a manager.
pub struct Form {
    /// The manager's name, which is the key in the file.
    pub manager: &'static str,
    /// Pattern of a package name.
    pub pattern: &'static str,
    /// A package name in words, with an example.
    pub expected: &'static str,
    about: String,
}

/// The forms of all managers.
pub fn forms() -> impl Iterator<Item = Form> {
    let languages = LANGUAGES.iter().map(|language| Form {
        manager: language.name,
        pattern: language.pattern,
        expected: language.expected,
        about: format!("{} with their version, for the experiment alone.", language.packages),
    });
    let managers = MANAGERS.iter().map(|manager| Form {
        manager: manager.name,
        pattern: manager.pattern,
        expected: manager.expected,
        about: format!("Names of packages for {}.", manager.name),
    });
    languages.chain(managers)
}

/// Adds a key for each package manager, with the pattern of its package names, to the schema.
fn with_forms(schema: &mut Schema) {
    let key = |form: Form| {
        let items = json!({ "type": "string", "pattern": form.pattern });
        let names = json!({ "type": "array", "items": items, "description": form.about });
        (form.manager.to_owned(), names)
    };
    let keys: Map<String, Value> = forms().map(key).collect();
    schema.insert("properties".to_owned(), keys.into());
    schema.insert("additionalProperties".to_owned(), false.into());
}

impl Packages {
    /// Packages with one name for each of these managers.
    pub fn named<'a>(names: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let names = names.into_iter();
        Self(
            names
                .map(|(manager, name)| (manager.to_owned(), vec![name.to_owned()]))
                .collect(),
        )
    }

    /// Names for this package manager; empty if there are none.
    pub fn names_for(&self, manager: &str) -> &[String] {
        self.0.get(manager).map_or(&[], Vec::as_slice)
    }

    /// The languages that have packages here.
    pub fn languages(&self) -> impl Iterator<Item = &'static Language> {
        LANGUAGES
            .into_iter()
            .filter(|language| !self.names_for(language.name).is_empty())
    }

    /// Whether there is no package at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
