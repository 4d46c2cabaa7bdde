//! Validates recipes.

use indexmap::IndexMap;
use lasthop_model::{program::Program, service::stays_inside};
use lasthop_trial::address::Transport;

use super::{
    checker::{Checker, read},
    scope::Scope,
};
use crate::{
    diagnostics::Diagnostics,
    digest,
    document::join,
    files::{Files, RECIPE_FILE as FILE},
    model::{Listen, ReadyFile, ReadyName, Recipe, SIGNALS},
    schema, template,
};

/// Reads a recipe from the files of its folder.
pub(crate) fn recipe(name: &str, folder: &str, files: &Files) -> Result<Recipe, Diagnostics> {
    let (mut checker, recipe) = read::<Recipe>(folder, FILE, files, schema::recipe_schema());
    let Some(mut recipe) = recipe else {
        return Err(checker.found);
    };
    name.clone_into(&mut recipe.name);
    recipe.digests = digest::of_files(files);
    checker.recipe(&mut recipe);
    if checker.found.is_empty() {
        Ok(recipe)
    } else {
        Err(checker.found)
    }
}

impl Checker<'_> {
    fn recipe(&mut self, recipe: &mut Recipe) {
        for setting in recipe.settings.keys() {
            self.must_be_name(&join("/settings", setting), "setting", setting);
        }
        // A recipe serves many experiments, so that its templates see its settings but no factors.
        let scope = Scope::default().add(recipe.settings.keys()).add_own();
        for pointer in [
            "/start/program",
            "/start/arguments",
            "/start/environment",
            "/start/build",
            "/start/prepare",
            "/listen",
            "/ready/path",
            "/ready/command",
        ] {
            self.template_tree(pointer, &scope);
        }
        self.connect("/connect");
        if recipe.listen.is_empty() {
            self.key_error("/listen", "a server must listen on at least one transport");
        }
        self.listen("/listen", &mut recipe.listen);
        self.program(&recipe.program);
        self.config("/config", &mut recipe.config, &scope);
        self.ready("/ready", &recipe.ready);
        if let Some(signal) = &recipe.stop.signal {
            self.must_be_known("/stop/signal", "way to stop a server called", signal, SIGNALS);
        }
    }

    /// Checks how a server writes addresses.
    pub(super) fn connect(&mut self, pointer: &str) {
        for (key, names) in [
            ("unix", &["path"][..]),
            ("abstract", &["name"]),
            ("tcp", &["address", "host", "port"]),
        ] {
            self.template_tree(&join(pointer, key), &Scope::default().add(names.iter().copied()));
        }
    }

    /// Checks the listening addresses, and puts them in the order of the transports.
    pub(super) fn listen(&mut self, pointer: &str, table: &mut IndexMap<Transport, Listen>) {
        table.sort_keys();
        for (transport, listen) in table {
            let pointer = join(pointer, transport.name());
            // In arguments, `listen` is the text of `config`; in `config` itself, `listen` is the plain address.
            let is_empty = |text: &String| template::names(text).is_ok_and(|names| names.contains("listen"));
            let nothing = listen
                .arguments
                .iter()
                .position(is_empty)
                .filter(|_| listen.config.is_empty());
            if let Some(at) = nothing {
                let help =
                    "write what the server takes, such as `{{ listen.path }}` or `{{ listen.address }}`".to_owned();
                let place = join(&join(&pointer, "arguments"), &at.to_string());
                self.error_with_help(&place, "`{{ listen }}` is empty here, without a `config`", Some(help));
            }
            if let Some(file) = &listen.file {
                let pointer = join(&pointer, "file");
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
                if !transport.is_unix() {
                    self.key_error(&pointer, "only a Unix socket has a file name");
                } else if file.is_empty() || !file.chars().all(is_plain) {
                    let message = format!("`{file}` is no file name of letters, digits, `.`, `_` and `-`");
                    self.error(&pointer, message);
                }
            }
            let Some(authority) = &listen.authority else { continue };
            let pointer = join(&pointer, "authority");
            if !transport.is_tls() {
                self.key_error(&pointer, "this transport has no TLS");
            } else if !stays_inside(authority) {
                self.error(
                    &pointer,
                    format!("`{}` is outside the folder `runtime`", authority.display()),
                );
            }
        }
    }

    fn program(&mut self, program: &Program) {
        self.packages("/program/packages", &program.packages);
        if program.lasthop {
            if !program.names.is_empty() || program.version.is_some() {
                self.key_error("/program", "`lasthop = true` excludes `names` and `version`");
            }
        } else {
            if program.names.is_empty() {
                self.key_error("/program", "`names` is missing, the names of the executable");
            }
            if program.version.is_none() {
                self.key_error(
                    "/program",
                    "`version` is missing, which says how to find out the version",
                );
            }
        }
        let Some(version) = &program.version else { return };
        let flaw = match regex::Regex::new(&version.pattern) {
            // The whole match is a group too.
            Ok(regex) if regex.captures_len() == 2 => return,
            Ok(_) => "expected exactly one group, for the version".to_owned(),
            Err(error) => {
                let text = error.to_string();
                let last = text.lines().last().unwrap_or_default();
                format!("regular expression: {}", last.trim_start_matches("error: "))
            }
        };
        self.error("/program/version/pattern", flaw);
    }

    pub(super) fn ready(&mut self, pointer: &str, ready: &ReadyFile) {
        let check = ready.check.unwrap_or_default();
        let allowed: &[&str] = match check {
            ReadyName::Connect => &["check", "timeout"],
            ReadyName::Http => &["check", "timeout", "path", "status"],
            ReadyName::Command => &["check", "timeout", "command"],
        };
        for (key, is_given) in [
            ("path", ready.path.is_some()),
            ("status", ready.status.is_some()),
            ("command", ready.command.is_some()),
        ] {
            if is_given && !allowed.contains(&key) {
                let help = format!("this check accepts {}", allowed.join(", "));
                let message = format!("`{key}` does not belong to this check");
                self.key_error_with_help(&join(pointer, key), message, Some(help));
            }
        }
        if check == ReadyName::Command && ready.command.as_ref().is_none_or(Vec::is_empty) {
            self.key_error(pointer, "`command` is missing");
        }
    }
}
