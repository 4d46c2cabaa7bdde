//! Validates servers without a recipe, whose command is in the experiment.

use std::time::Duration;

use lasthop_model::{
    program::{Program, ProgramKind},
    service::Stop,
};
use lasthop_protocol::spec::Transport;

use super::{checker::Checker, scope::Scope};
use crate::{
    definition::{ReadyFile, ServiceFile},
    model::{Listen, Recipe},
    shape::join,
};

/// What `{{ listen }}` stands for unless the experiment says otherwise. TLS needs more than an address.
const ADDRESSES: [(Transport, &str); 4] = [
    (Transport::Unix, "{{ listen.path }}"),
    (Transport::Abstract, "@{{ listen.name }}"),
    (Transport::Tcp, "{{ listen.address }}"),
    (Transport::Tcp6, "{{ listen.address }}"),
];

impl Checker<'_> {
    /// The recipe that the command of a service makes, by the service's name. `None` if the service names a recipe.
    pub(super) fn command(
        &mut self,
        pointer: &str,
        name: &str,
        service: &ServiceFile,
        scope: &Scope,
    ) -> Option<Recipe> {
        let only = [
            ("bind", service.bind.given().next().is_some()),
            ("ready", service.ready.is_some()),
        ];
        match (service.recipe.is_empty(), service.command.split_first()) {
            (true, Some((program, arguments))) => Some(self.made_of(pointer, name, service, scope, program, arguments)),
            (true, None) => {
                self.key_error(pointer, "this service has neither `recipe` nor `command`", None);
                None
            }
            (false, Some(_)) => {
                self.key_error(
                    &join(pointer, "command"),
                    "`recipe` says already how to start this service",
                    None,
                );
                None
            }
            (false, None) => {
                for (key, _) in only.iter().filter(|(_, given)| *given) {
                    self.key_error(
                        &join(pointer, key),
                        format!("`{key}` belongs to a `command`, not to a recipe"),
                        None,
                    );
                }
                None
            }
        }
    }

    fn made_of(
        &mut self,
        pointer: &str,
        name: &str,
        service: &ServiceFile,
        scope: &Scope,
        program: &str,
        arguments: &[String],
    ) -> Recipe {
        let at = |key: &str| join(pointer, key);
        if program.contains("{{") || (program.contains('/') && !program.starts_with('/')) {
            let help = "write a program of PATH or an absolute path; `env` starts a program of the experiment: \
                        command = [\"env\", \"{{ directory }}/app/server\"]";
            let message = format!("`{program}` is no program that can be found before the start");
            self.error_with_help(&join(&at("command"), "0"), message, Some(help.to_owned()));
        }
        if service.container.is_some() {
            let message = "a service in a container needs a recipe, which says how to find its program there";
            self.key_error(&at("container"), message, None);
        }
        self.template_tree(&at("command"), scope);
        self.template_tree(&at("bind"), scope);
        self.template_tree(&join(&at("ready"), "path"), scope);
        self.template_tree(&join(&at("ready"), "command"), scope);
        let own = self.listen(&at("bind"), &service.bind);
        let listen = ADDRESSES.map(|(transport, address)| {
            let arguments = vec![address.to_owned()];
            (
                transport,
                Listen {
                    arguments,
                    config: address.to_owned(),
                    ..Listen::default()
                },
            )
        });
        Recipe {
            name: name.to_owned(),
            summary: program.to_owned(),
            program: Program {
                kind: ProgramKind::Named {
                    names: vec![program.to_owned()],
                    folders: Vec::new(),
                },
                obtain: Some(format!("install it, or say where it is: --program {name}=PATH")),
                ..Program::default()
            },
            listen: listen.into_iter().chain(own).collect(),
            arguments: arguments.to_vec(),
            ready: self.ready(&at("ready"), service.ready.as_ref().unwrap_or(&ReadyFile::default())),
            stop: Stop {
                signal: "TERM".to_owned(),
                timeout: Duration::from_secs(5),
            },
            // It has no digests: the command is in the experiment, which has one.
            ..Recipe::default()
        }
    }
}
