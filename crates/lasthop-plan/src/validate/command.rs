//! Validates servers without a recipe, whose command is in the experiment.

use lasthop_model::program::Program;
use lasthop_trial::address::Transport;

use super::{checker::Checker, scope::Scope};
use crate::{
    document::join,
    model::{Connect, Listen, Recipe, Service, Start},
    template,
};

/// Default meaning of `{{ listen }}`. TLS has none, because it needs more than an address.
const ADDRESSES: [(Transport, &str); 4] = [
    (Transport::Unix, "{{ listen.path }}"),
    (Transport::Abstract, "@{{ listen.name }}"),
    (Transport::Tcp, "{{ listen.address }}"),
    (Transport::Tcp6, "{{ listen.address }}"),
];

impl Checker<'_> {
    /// The recipe made of a service's command, named after the service. `None` if the service names a recipe.
    pub(super) fn command(
        &mut self,
        pointer: &str,
        name: &str,
        service: &mut Service,
        scope: &Scope,
    ) -> Option<Recipe> {
        let Some((program, arguments)) = service.command.split_first() else {
            if service.recipe.is_empty() {
                self.key_error(pointer, "this service has neither `recipe` nor `command`");
                return None;
            }
            for (key, is_given) in [
                ("bind", !service.bind.is_empty()),
                ("connect", service.connect != Connect::default()),
                ("ready", service.ready.is_some()),
            ] {
                if is_given {
                    let message = format!("`{key}` belongs to a `command`, not to a recipe");
                    self.key_error(&join(pointer, key), message);
                }
            }
            return None;
        };
        let command = join(pointer, "command");
        if !service.recipe.is_empty() {
            self.key_error(&command, "`recipe` says already how to start this service");
            return None;
        }
        if program.contains("{{") || (program.contains('/') && !program.starts_with('/')) {
            let help = "write a program of PATH or an absolute path; `env` starts a program of the experiment: \
                        command = [\"env\", \"{{ directory }}/app/server\"]";
            let message = format!("`{program}` is no program that can be found before the start");
            self.error_with_help(&join(&command, "0"), message, Some(help.to_owned()));
        }
        if service.container.is_some() {
            let message = "a service in a container needs a recipe, which says how to find its program there";
            self.key_error(&join(pointer, "container"), message);
        }
        for part in ["command", "bind", "ready/path", "ready/command"] {
            self.template_tree(&format!("{pointer}/{part}"), scope);
        }
        self.connect(&join(pointer, "connect"));
        self.listen(&join(pointer, "bind"), &mut service.bind);
        self.listen_is_told(pointer, service);
        let ready = service.ready.clone().unwrap_or_default();
        self.ready(&join(pointer, "ready"), &ready);
        let listen = ADDRESSES.map(|(transport, address)| {
            let listen = Listen {
                arguments: vec![address.to_owned()],
                config: address.to_owned(),
                ..Listen::default()
            };
            (transport, listen)
        });
        name.clone_into(&mut service.recipe);
        Some(Recipe {
            name: name.to_owned(),
            summary: program.clone(),
            program: Program {
                names: vec![program.clone()],
                obtain: Some(format!("install it, or say where it is: --program {name}=PATH")),
                ..Program::default()
            },
            // The last entry of a transport counts, so that `bind` replaces the default.
            listen: listen.into_iter().chain(service.bind.clone()).collect(),
            start: Start {
                arguments: arguments.to_vec(),
                ..Start::default()
            },
            connect: service.connect.clone(),
            ready,
            // Without digests, because the command is in the experiment, which has a digest.
            ..Recipe::default()
        })
    }

    /// Checks that the server gets its listening address, and every part that `bind` defines.
    fn listen_is_told(&mut self, pointer: &str, service: &Service) {
        let command = join(pointer, "command");
        let names = |text: &str| template::names(text).unwrap_or_default();
        let configs = service.config.values().map(|file| file.text.as_str());
        let mut all = service.command.iter().map(String::as_str).chain(configs);
        let is_told = all.any(|text| names(text).iter().any(|name| name.split('.').next() == Some("listen")));
        if !is_told && !self.unreadable {
            let help =
                "write `{{ listen }}` where the server takes its address; it stands for the arguments of `bind`, if \
                        there are some"
                    .to_owned();
            let message = "nothing tells this server where to listen: `{{ listen }}` is missing";
            self.error_with_help(&command, message, Some(help));
            return;
        }
        let is_alone = service.command.iter().any(|word| template::is_listen(word));
        for (transport, listen) in &service.bind {
            let bind = join(&join(pointer, "bind"), transport.name());
            if !listen.arguments.is_empty() && !is_alone {
                let help = "they stand for the word `{{ listen }}` of `command`, which has none".to_owned();
                self.key_error_with_help(
                    &join(&bind, "arguments"),
                    "these arguments are used nowhere",
                    Some(help),
                );
            } else if listen.config.is_empty()
                && let Some(at) = service
                    .command
                    .iter()
                    .position(|word| !template::is_listen(word) && names(word).contains("listen"))
            {
                let message =
                    format!("`{{{{ listen }}}}` is empty within this word: `bind.{transport}` has no `config`");
                self.error(&join(&command, &at.to_string()), message);
            }
        }
    }
}
