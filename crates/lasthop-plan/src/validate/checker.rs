//! A file under check, with all its errors.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use lasthop_model::{
    program::{Form, Packages, forms},
    service::stays_inside,
};
use regex::Regex;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::scope::{Scope, place_of};
use crate::{
    diagnostics::{Diagnostic, Diagnostics, suggest},
    document::{Document, join},
    files::{Files, LONGEST_TEXT, shown},
    model::ConfigFile,
    template,
};

/// A file under check, and the errors found in it and in its templates.
pub struct Checker<'a> {
    pub document: Document,
    /// The folder, by the name that the user knows.
    pub folder: &'a str,
    pub files: &'a Files,
    pub found: Diagnostics,
    /// Names used in templates and expressions, or probably meant there.
    pub used: Vec<String>,
    /// Whether a template was unreadable, so that its names are unknown.
    pub unreadable: bool,
}

/// Advice for a server's own braces that are read as a template's.
const RAW: &str = "the text is a template: put braces of the server's own between `{% raw %}` and `{% endraw %}`";

/// Reads a file. Returns its content if all required keys are present.
pub fn read<'a, T: DeserializeOwned>(
    folder: &'a str,
    file: &str,
    files: &'a Files,
    schema: &Value,
) -> (Checker<'a>, Option<T>) {
    let mut found = Diagnostics::default();
    let name = shown(folder, file);
    let text = String::from_utf8_lossy(files.get(Path::new(file)).map_or(&[], Vec::as_slice));
    let mut document = Document::parse(&name, &text, &mut found);
    let content = document.read(schema, &mut found);
    (
        Checker {
            document,
            folder,
            files,
            found,
            used: Vec::new(),
            unreadable: false,
        },
        content,
    )
}

impl Checker<'_> {
    /// The folder, in a sentence.
    pub fn place(&self) -> &str {
        if self.folder.is_empty() {
            "this folder"
        } else {
            self.folder
        }
    }

    pub fn error(&mut self, pointer: &str, message: impl Into<String>) {
        self.error_with_help(pointer, message, None);
    }

    pub fn error_with_help(&mut self, pointer: &str, message: impl Into<String>, help: Option<String>) {
        self.push(pointer, self.document.at_value(pointer, message).with_help(help));
    }

    pub fn key_error(&mut self, pointer: &str, message: impl Into<String>) {
        self.key_error_with_help(pointer, message, None);
    }

    pub fn key_error_with_help(&mut self, pointer: &str, message: impl Into<String>, help: Option<String>) {
        self.push(pointer, self.document.at_key(pointer, message).with_help(help));
    }

    fn push(&mut self, pointer: &str, diagnostic: Diagnostic) {
        if !self.document.is_echo(pointer) {
            self.found.push(diagnostic);
        }
    }

    /// Checks that the word at the pointer is known.
    pub fn must_be_known<T: AsRef<str>>(
        &mut self,
        pointer: &str,
        what: &str,
        word: &str,
        known: impl IntoIterator<Item = T>,
    ) -> bool {
        let known: Vec<T> = known.into_iter().collect();
        let is_known = known.iter().any(|candidate| candidate.as_ref() == word);
        if !is_known {
            self.error_with_help(pointer, format!("there is no {what} `{word}`"), suggest(word, known));
        }
        is_known
    }

    /// Checks that a name can be used in expressions, as those of factors, services and settings are.
    pub fn must_be_name(&mut self, pointer: &str, what: &str, name: &str) {
        let first = name.starts_with(|first: char| first.is_ascii_lowercase());
        let rest = name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if !first || !rest {
            let help = "start with a lower-case letter, followed by a-z, 0-9 and _".to_owned();
            let message = format!("`{name}` cannot be the name of a {what}");
            self.key_error_with_help(pointer, message, Some(help));
        }
    }

    pub fn template(&mut self, pointer: &str, text: &str, scope: &Scope) {
        match template::names(text) {
            Ok(names) => self.names_must_be_known(pointer, names, scope),
            Err(flaw) => {
                self.unreadable = true;
                self.error_with_help(pointer, format!("template: {}", flaw.message), Some(RAW.to_owned()));
            }
        }
    }

    pub fn expression(&mut self, pointer: &str, text: &str, scope: &Scope) {
        match template::expression_names(text) {
            Ok(names) => self.names_must_be_known(pointer, names, scope),
            Err(flaw) => self.error(pointer, format!("expression: {}", flaw.message)),
        }
    }

    pub fn names_must_be_known(&mut self, pointer: &str, names: impl IntoIterator<Item = String>, scope: &Scope) {
        for name in names {
            if let Some((message, help)) = scope.problem(&name) {
                self.error_with_help(pointer, message, help);
            }
            self.used.extend(scope.meant(&name));
        }
    }

    /// Checks every text in a JSON value as a template.
    pub fn template_tree(&mut self, pointer: &str, scope: &Scope) {
        let Some(value) = self.document.tree.pointer(pointer).cloned() else {
            return;
        };
        match value {
            Value::String(text) => self.template(pointer, &text, scope),
            Value::Array(items) => {
                (0..items.len()).for_each(|at| self.template_tree(&join(pointer, &at.to_string()), scope));
            }
            Value::Object(map) => map
                .keys()
                .for_each(|key| self.template_tree(&join(pointer, key), scope)),
            _ => {}
        }
    }

    /// Reads the configuration files of a table, in which a path in the service's directory maps to a template file.
    pub fn config(&mut self, pointer: &str, table: &mut IndexMap<PathBuf, ConfigFile>, scope: &Scope) {
        for (path, ConfigFile { source, text }) in table {
            let pointer = join(pointer, &path.to_string_lossy());
            if !stays_inside(path) {
                let message = format!("`{}` is outside the service's directory", path.display());
                self.key_error(&pointer, message);
            }
            let Some(bytes) = self.files.get(Path::new(source)) else {
                let help = suggest(source, self.files.keys().map(|path| path.to_string_lossy()));
                let message = format!("there is no file `{source}` in {}", self.place());
                self.error_with_help(&pointer, message, help);
                continue;
            };
            match str::from_utf8(bytes) {
                _ if bytes.len() as u64 > LONGEST_TEXT => {
                    let message = format!("`{source}` is longer than {} KiB", LONGEST_TEXT >> 10);
                    self.error(&pointer, message);
                }
                Ok(content) => content.clone_into(text),
                Err(_) => self.error(&pointer, format!("`{source}` is not UTF-8 text")),
            }
            *source = shown(self.folder, source);
            self.template_file(source, text, scope);
        }
    }

    /// Checks names of packages by their manager's pattern.
    pub fn packages(&mut self, pointer: &str, packages: &Packages) {
        for (manager, names) in &packages.0 {
            let place = join(pointer, manager);
            let Some(Form { pattern, expected, .. }) = forms().find(|form| form.manager == manager) else {
                let help = suggest(manager, forms().map(|form| form.manager));
                self.key_error_with_help(&place, format!("unknown key `{manager}`"), help);
                continue;
            };
            let form = Regex::new(pattern).expect("the patterns of package managers are right");
            for (at, name) in names.iter().enumerate().filter(|(_, name)| !form.is_match(name)) {
                let message = format!("expected {expected}, found the text `{name}`");
                self.error(&join(&place, &at.to_string()), message);
            }
        }
    }

    pub fn template_file(&mut self, source: &str, text: &str, scope: &Scope) {
        match template::names(text) {
            Err(flaw) => {
                self.unreadable = true;
                let diagnostic = Diagnostic::new(source, text, flaw.range, flaw.message);
                self.found.push(diagnostic.with_help(Some(RAW.to_owned())));
            }
            Ok(names) => {
                for name in names {
                    if let Some((message, help)) = scope.problem(&name) {
                        let diagnostic = Diagnostic::new(source, text, place_of(&name, text), message);
                        // A name unlike all known ones may be none of lasthop's.
                        let help = match help {
                            Some(help) if help.starts_with("known: ") => Some(format!("{help}; {RAW}")),
                            help => help,
                        };
                        self.found.push(diagnostic.with_help(help));
                    }
                    self.used.extend(scope.meant(&name));
                }
            }
        }
    }
}
