//! Validates recipes.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use indexmap::IndexMap;
use lasthop_model::{
    program::{Program, ProgramKind},
    service::{Ready, ReadyCheck, Stop, stays_inside},
};
use lasthop_protocol::spec::Transport;

use super::{
    checker::{Checker, read},
    scope::Scope,
};
use crate::{
    definition::{ListenTable, ProgramFile, ReadyFile, ReadyName, RecipeFile},
    diagnostics::Diagnostics,
    digest,
    files::Files,
    model::{Listen, Recipe},
    schema,
    shape::join,
};

/// The file that makes a folder a recipe.
pub(crate) const FILE: &str = "recipe.toml";

/// Reads a recipe from the files of its folder.
/// Errors: everything that is wrong with it.
pub(crate) fn recipe(name: &str, folder: &str, files: &Files) -> Result<Recipe, Diagnostics> {
    let (mut checker, file) = read::<RecipeFile>(folder, FILE, files, schema::recipe_schema());
    let recipe = file.map(|file| checker.recipe(name, &file));
    match recipe {
        Some(recipe) if checker.found.is_empty() => Ok(recipe),
        _ => Err(checker.found),
    }
}

impl Checker<'_> {
    fn recipe(&mut self, name: &str, file: &RecipeFile) -> Recipe {
        for setting in file.settings.keys() {
            self.must_be_name(&join("/settings", setting), "setting", setting);
        }
        // A recipe serves many experiments, so it can use its settings but not their factors.
        let scope = Scope::default().add(file.settings.keys()).add_own();
        self.template_tree("/start/program", &scope);
        self.templates("/start/arguments", &file.start.arguments, &scope);
        self.template_tree("/start/environment", &scope);
        self.template_tree("/start/build", &scope);
        self.template_tree("/start/prepare", &scope);
        self.template_tree("/listen", &scope);
        self.template_tree("/connect/unix", &Scope::default().add(["path"]));
        self.template_tree("/connect/abstract", &Scope::default().add(["name"]));
        self.template_tree("/connect/tcp", &Scope::default().add(["address"]));
        self.template_tree("/ready/path", &scope);
        self.template_tree("/ready/command", &scope);
        self.template_tree("/export/files", &scope);
        let export = &file.export;
        for name in export.files.keys().filter(|name| !stays_inside(Path::new(name))) {
            self.key_error(
                &join("/export/files", name),
                format!("`{name}` is outside the exported folder"),
                None,
            );
        }
        if !export.files.is_empty() && !export.blocks.is_empty() {
            self.key_error("/export/blocks", "`files` says already what is exported", None);
        }
        if file.listen.given().next().is_none() {
            self.key_error("/listen", "a server must listen on at least one transport", None);
        }
        let listen = self.listen("/listen", &file.listen);
        Recipe {
            name: name.to_owned(),
            summary: file.summary.clone(),
            program: self.program(&file.program),
            listen,
            connect: file.connect.clone(),
            settings: file.settings.clone(),
            build: file.start.build.clone(),
            prepare: file.start.prepare.clone(),
            prepare_timeout: self.duration("/start/prepare_timeout", file.start.prepare_timeout.as_ref(), "120s"),
            made: file.start.program.clone(),
            arguments: file.start.arguments.clone(),
            environment: file.start.environment.clone(),
            run_as: file.start.run_as,
            own_memory: file.start.own_memory,
            reads_variables: file.start.reads_variables,
            config: self.config("/config", &file.config, &scope),
            ready: self.ready("/ready", &file.ready),
            stop: self.stop(file),
            export: export.clone(),
            digests: digest::of_files(self.files),
        }
    }

    /// Where a server listens, by transport.
    pub(super) fn listen(&mut self, pointer: &str, table: &ListenTable) -> IndexMap<Transport, Listen> {
        let mut all = IndexMap::new();
        for (transport, listen) in table.given() {
            let pointer = join(pointer, transport.name());
            if listen.file.is_some() && !transport.is_unix() {
                self.key_error(&join(&pointer, "file"), "only a Unix socket has a file name", None);
            }
            if let Some(authority) = &listen.authority {
                let pointer = join(&pointer, "authority");
                if !transport.is_tls() {
                    self.key_error(&pointer, "this transport has no TLS", None);
                } else if !stays_inside(authority) {
                    self.error(
                        &pointer,
                        format!("`{}` is outside the folder `runtime`", authority.display()),
                    );
                }
            }
            all.insert(transport, listen.clone());
        }
        all
    }

    fn program(&mut self, file: &ProgramFile) -> Program {
        let version = file.version.as_ref();
        if file.lasthop {
            if !file.names.is_empty() || version.is_some() {
                self.key_error("/program", "`lasthop = true` excludes `names` and `version`", None);
            }
        } else {
            if file.names.is_empty() {
                self.key_error("/program", "`names` is missing, the names of the executable", None);
            }
            if version.is_none() {
                self.key_error(
                    "/program",
                    "`version` is missing, which says how to find out the version",
                    None,
                );
            }
        }
        let pattern = version.map(|version| version.pattern.clone()).unwrap_or_default();
        if version.is_some() {
            self.version_pattern(&pattern);
        }
        let folders = file.folders.iter().map(PathBuf::from).collect();
        Program {
            kind: if file.lasthop {
                ProgramKind::Lasthop
            } else {
                ProgramKind::Named {
                    names: file.names.clone(),
                    folders,
                }
            },
            version_arguments: version.map(|version| version.arguments.clone()).unwrap_or_default(),
            version_pattern: pattern,
            minimum: version.and_then(|version| version.minimum.clone()),
            packages: file.packages.clone(),
            obtain: file.obtain.clone(),
        }
    }

    fn version_pattern(&mut self, pattern: &str) {
        match regex::Regex::new(pattern) {
            Ok(regex) if regex.captures_len() == 2 => {}
            Ok(_) => self.error(
                "/program/version/pattern",
                "expected exactly one group, for the version",
            ),
            Err(error) => {
                let last = error
                    .to_string()
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .trim_start_matches("error: ")
                    .to_owned();
                self.error("/program/version/pattern", format!("regular expression: {last}"));
            }
        }
    }

    pub(super) fn ready(&mut self, pointer: &str, ready: &ReadyFile) -> Ready {
        let check = ready.check.unwrap_or_default();
        let allowed: &[&str] = match check {
            ReadyName::Connect => &["check", "timeout"],
            ReadyName::Http => &["check", "timeout", "path", "status"],
            ReadyName::Command => &["check", "timeout", "command"],
        };
        let given = [
            ("path", ready.path.is_some()),
            ("status", ready.status.is_some()),
            ("command", ready.command.is_some()),
        ];
        for (key, _) in given.iter().filter(|(key, given)| *given && !allowed.contains(key)) {
            let help = Some(format!("this check accepts {}", allowed.join(", ")));
            self.key_error(
                &join(pointer, key),
                format!("`{key}` does not belong to this check"),
                help,
            );
        }
        let check = match check {
            ReadyName::Connect => ReadyCheck::Connect,
            ReadyName::Http => ReadyCheck::Http {
                path: ready.path.clone().unwrap_or_else(|| "/".to_owned()),
                status: ready.status.unwrap_or(200),
            },
            ReadyName::Command => ReadyCheck::Command(ready.command.clone().unwrap_or_default()),
        };
        if check == ReadyCheck::Command(Vec::new()) {
            self.key_error(pointer, "`command` is missing", None);
        }
        Ready {
            check,
            timeout: self.duration(&join(pointer, "timeout"), ready.timeout.as_ref(), "10s"),
        }
    }

    fn stop(&mut self, file: &RecipeFile) -> Stop {
        let timeout: Duration = self.duration("/stop/timeout", file.stop.timeout.as_ref(), "5s");
        Stop {
            signal: file.stop.signal.clone().unwrap_or_else(|| "TERM".to_owned()),
            timeout,
        }
    }
}
