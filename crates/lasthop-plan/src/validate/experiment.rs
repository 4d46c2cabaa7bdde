//! Validates experiments.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use indexmap::IndexMap;
use lasthop_model::{
    level::{Level, Levels},
    rate::{CONSTANT, POISSON},
    record::{ANSWERED, MOST_CASES},
    selection::{PATH, TRANSPORT, compared},
};
use lasthop_protocol::{PROTOCOLS, custom};
use lasthop_trial::address::Transport;

use super::{
    checker::{Checker, read},
    scope::Scope,
};
use crate::{
    cases,
    diagnostics::{Diagnostics, suggest},
    digest,
    document::join,
    files::{EXPERIMENT_FILE as FILE, Files},
    model::{Experiment, Factor, Load, Recipe, Service, SettingSource, Source},
    pace::{self, PaceError},
    render::{SECRET, SERVICE_NAMES},
    schema::{self, LOAD_KEYS},
    template,
};

/// The word for the load generator as an end of a link.
const DRIVER: &str = "driver";
/// The ways to use connections, and their words in messages.
const WAYS: [&str; 2] = ["keep-alive", "per-request"];
const REUSE: &str = "way to use connections called";

/// The recipes that an experiment may use.
pub(crate) struct Recipes<'a> {
    /// Names of all recipes.
    pub names: Vec<String>,
    /// The recipe of this name, if there is one.
    pub get: &'a dyn Fn(&str) -> Option<Result<Recipe, Diagnostics>>,
}

/// Reads an experiment from the files of its folder.
pub(crate) fn experiment(
    name: &str,
    folder: &str,
    source: Source,
    files: &Files,
    recipes: &Recipes<'_>,
) -> Result<Experiment, Diagnostics> {
    let (mut checker, experiment) = read::<Experiment>(folder, FILE, files, schema::experiment_schema());
    let Some(mut experiment) = experiment else {
        return Err(checker.found);
    };
    name.clone_into(&mut experiment.name);
    experiment.source = source;
    experiment.digests = digest::of_files(files);
    experiment.files.clone_from(files);
    experiment.files.remove(Path::new(FILE));
    checker.experiment(&mut experiment);
    // Checks that depend on levels need valid names and templates.
    if checker.found.is_empty() {
        checker.check_combinations(&mut experiment, recipes);
    }
    if checker.found.is_empty() {
        Ok(experiment)
    } else {
        Err(checker.found)
    }
}

impl Checker<'_> {
    fn experiment(&mut self, file: &mut Experiment) {
        self.check_names(file);
        self.check_link(file);
        self.factors(&mut file.factors);
        self.one_is_compared(file);
        let factors = Scope::default().add(file.factors.keys());
        for (at, exclude) in file.exclude.iter().enumerate() {
            self.expression(&format!("/exclude/{at}/when"), &exclude.when, &factors);
        }
        // A factor that only conditions use has no effect on measurements, so their uses do not count.
        self.used.clear();
        self.services(file, &factors);
        self.load(file, &factors);
        self.check_network(file, &factors);
        self.check_overload(file);
        self.check_use(file);
        self.derive(file);
        if let Some(answer) = &file.answer {
            self.template("/answer", answer, &Scope::default().add(ANSWERED));
        }
    }

    fn check_overload(&mut self, file: &Experiment) {
        for (name, given) in &file.overload.levels {
            let pointer = join("/overload/levels", name);
            let Some(factor) = file.factors.get(name) else {
                let help = suggest(name, file.factors.keys());
                self.key_error_with_help(&pointer, format!("there is no factor `{name}`"), help);
                continue;
            };
            for (at, level) in given.iter().enumerate().filter(|(_, level)| !factor.is_in_range(level)) {
                self.must_be_level(&format!("{pointer}/{at}"), level, &factor.levels);
            }
        }
        for name in file.overload.log.keys() {
            if !file.services.contains_key(name) {
                let help = suggest(name, file.services.keys());
                let message = format!("there is no service `{name}`");
                self.key_error_with_help(&join("/overload/log", name), message, help);
            }
        }
    }

    fn derive(&mut self, file: &Experiment) {
        let scope = Scope::default().add(file.factors.keys());
        for (name, derive) in &file.derive {
            let pointer = join("/derive", name);
            self.must_be_name(&pointer, "quantity", name);
            self.expression(&join(&pointer, "of"), &derive.of, &scope);
            match (&derive.minus, &derive.per, &derive.crossover) {
                (Some(minus), None, None) => self.expression(&join(&pointer, "minus"), minus, &scope),
                (None, Some(per), None) => self.must_be_numbers(&join(&pointer, "per"), per, file),
                (None, None, Some(over)) => self.must_be_numbers(&join(&pointer, "crossover"), over, file),
                _ => self.key_error(&pointer, "exactly one of `minus`, `per` and `crossover` is needed"),
            }
        }
    }

    fn must_be_numbers(&mut self, pointer: &str, name: &str, file: &Experiment) {
        if self.must_be_known(pointer, "factor", name, file.factors.keys())
            && !file.factors[name]
                .levels
                .iter()
                .all(|level| matches!(level, Level::Int(number) if *number > 0))
        {
            self.error(
                pointer,
                format!("the levels of `{name}` are not all whole numbers of 1 or more"),
            );
        }
    }

    fn check_names(&mut self, file: &Experiment) {
        let factors = file.factors.keys().map(|name| ("factor", "/factors", name));
        let services = file.services.keys().map(|name| ("service", "/services", name));
        for (what, table, name) in factors.chain(services) {
            let pointer = join(table, name);
            self.must_be_name(&pointer, what, name);
            if name == DRIVER || SERVICE_NAMES.contains(&name.as_str()) {
                self.key_error(&pointer, format!("the name `{name}` is reserved in templates"));
            }
            if what == "service" && file.factors.contains_key(name) {
                self.key_error(&pointer, format!("`{name}` is also the name of a factor"));
            }
        }
    }

    fn check_link(&mut self, file: &Experiment) {
        let services = file.services.keys().map(String::as_str);
        let ends = services.clone().chain([DRIVER]);
        self.must_be_known("/link/from", "service", &file.link.from, ends);
        self.must_be_known("/link/to", "service", &file.link.to, services);
        if file.link.from == file.link.to {
            self.error("/link/to", "the two ends of a link must differ");
        }
        if !file.load.target.contains("{{") {
            self.check_target(file, &file.load.target);
        }
        if let Some(factor) = &file.link.requests {
            self.must_be_numbers("/link/requests", factor, file);
        }
        if let Some(proof) = &file.link.proof {
            self.must_be_one_of("/link/proof/reuse", REUSE, &proof.reuse, WAYS);
            if !proof.path.starts_with('/') {
                self.error("/link/proof/path", "expected a path that begins with `/`");
            }
        }
    }

    fn check_network(&mut self, file: &Experiment, factors: &Scope) {
        let Some(network) = &file.network else { return };
        self.template_tree("/network", factors);
        let is_plain = |name: &str| {
            name.chars()
                .all(|one| one.is_ascii_alphanumeric() || "._-".contains(one))
        };
        for name in network.sysctls.keys() {
            // Other settings belong to the machine.
            if !name.starts_with("net.") || !is_plain(name) {
                let message = format!("`{name}` is no setting of a network namespace, which begins with `net.`");
                self.key_error(&join("/network/sysctls", name), message);
            }
        }
        if let Some((name, _)) = file.services.iter().find(|(_, service)| service.container.is_some()) {
            let help = "say what its container's network has: `sysctls` in `container`".to_owned();
            let message = format!("the service `{name}` runs in a container, which has a network of its own");
            self.key_error_with_help("/network", message, Some(help));
        }
    }

    /// Checks that the driver can connect to a service.
    fn check_target(&mut self, file: &Experiment, target: &str) {
        if self.must_be_known("/load/target", "service", target, file.services.keys())
            && file.link.from == DRIVER
            && target != file.link.to
        {
            let help = Some(format!("the link goes from the driver to `{}`", file.link.to));
            self.error_with_help("/load/target", "the driver must talk over the link", help);
        }
    }

    fn factors(&mut self, factors: &mut IndexMap<String, Factor>) {
        let compared = compared(factors, |factor| factor.reference.is_some()).to_owned();
        let mut above = Scope::default();
        for (name, factor) in &*factors {
            let pointer = join("/factors", name);
            if let Some(when) = &factor.when {
                self.expression(&join(&pointer, "when"), when, &above);
            }
            above = above.add([name]);
            self.factor(&pointer, name, factor, *name == compared);
        }
        if let Some(at) = factors.get_index_of(&compared) {
            // The compared factor comes first, as the outermost loop of the combinations. It has no condition, and so
            // needs no factor before it.
            factors.move_index(at, 0);
        }
    }

    /// Checks that a word is one of these, unless a template makes the word.
    fn must_be_one_of<const N: usize>(&mut self, pointer: &str, what: &str, word: &str, known: [&str; N]) {
        if !word.contains("{{") {
            self.must_be_known(pointer, what, word, known);
        }
    }

    /// Checks for one compared factor: `transport`, or another with a transport for each level.
    fn one_is_compared(&mut self, file: &Experiment) {
        let is_there = |name: &str| file.factors.contains_key(name);
        let with_reference = file.factors.iter().filter(|(_, factor)| factor.reference.is_some());
        let mut compared = with_reference.map(|(name, _)| name.as_str());
        let first = compared.next().or_else(|| is_there(PATH).then_some(PATH));
        if is_there(TRANSPORT) && is_there(PATH) {
            let message = "`path` and `transport` exclude each other: only one factor is compared";
            return self.key_error("/factors/path", message);
        }
        if let (Some(first), Some(second)) = (first, compared.next()) {
            let place = join(&join("/factors", second), "reference");
            return self.key_error(
                &place,
                format!("`{first}` has a reference already: only one factor is compared"),
            );
        }
        match (is_there(TRANSPORT), first, &file.link.transport) {
            (false, None, None) => self.key_error(
                "/factors",
                "the factor `transport` is missing, which varies the transport of the link",
            ),
            (false, None, Some(_)) => self.key_error(
                "/factors",
                "no factor has a `reference`, the level that others are compared with",
            ),
            (true, _, Some(_)) => self.key_error(
                "/link/transport",
                "the factor `transport` already determines the transport",
            ),
            (false, Some(PATH), None) => {
                let help = "add for example transport = \"{{ 'unix' if path == 'socket' else 'tcp' }}\"";
                let message = "`transport` is missing, because each path needs one";
                self.key_error_with_help("/link", message, Some(help.to_owned()));
            }
            (false, Some(_), None) => {
                let help = "add for example transport = \"tcp\", or the factor `transport`";
                self.key_error_with_help("/link", "`transport` is missing", Some(help.to_owned()));
            }
            (_, Some(_), _) | (true, None, None) => {}
        }
    }

    fn factor(&mut self, pointer: &str, name: &str, factor: &Factor, is_compared: bool) {
        let levels = &factor.levels;
        // The number of levels is limited, because each level is compared with every other.
        for (key, listed) in [
            ("levels", &levels[..]),
            ("default", factor.usual()),
            ("controls", &factor.controls),
        ] {
            if listed.len() > MOST_CASES {
                let message = format!("{} levels, more than the {MOST_CASES} cases of a run", listed.len());
                return self.error(&format!("{pointer}/{key}"), message);
            }
        }
        for (at, level) in levels.iter().enumerate() {
            let pointer = format!("{pointer}/levels/{at}");
            if levels[..at].contains(level) {
                self.error(&pointer, format!("the level `{level}` is listed twice"));
            }
            if name == TRANSPORT {
                self.must_be_known(
                    &pointer,
                    "transport",
                    &level.to_string(),
                    Transport::ALL.map(Transport::name),
                );
            }
        }
        for (key, named) in [("default", factor.usual()), ("controls", &factor.controls)] {
            for (at, level) in named.iter().enumerate() {
                self.must_be_level(&format!("{pointer}/{key}/{at}"), level, levels);
            }
        }
        for (key, listed) in [("levels", Some(levels)), ("default", factor.default.as_ref())] {
            if listed.is_some_and(Vec::is_empty) {
                self.error(&join(pointer, key), "at least one level is needed");
            }
        }
        self.reference(pointer, name, factor, is_compared);
        self.range(pointer, factor);
        for level in factor.labels.keys() {
            let known = levels.iter().map(Level::to_string);
            self.must_be_known(&format!("{pointer}/labels/{level}"), "level", level, known);
        }
    }

    fn must_be_level(&mut self, pointer: &str, level: &Level, levels: &[Level]) {
        if !levels.contains(level) {
            let help = suggest(&level.to_string(), levels.iter().map(Level::to_string));
            self.error_with_help(pointer, format!("`{level}` is not one of the levels"), help);
        }
    }

    fn reference(&mut self, pointer: &str, name: &str, factor: &Factor, is_compared: bool) {
        match &factor.reference {
            Some(level) => self.must_be_level(&format!("{pointer}/reference"), level, &factor.levels),
            None if is_compared => self.key_error(
                pointer,
                format!("`reference` is missing, the {name} that others are compared with"),
            ),
            None => {}
        }
        if (is_compared || name == TRANSPORT) && factor.when.is_some() {
            let message = format!("`{name}` cannot have a condition, because every case has a {name}");
            self.key_error(&format!("{pointer}/when"), message);
        }
    }

    fn range(&mut self, pointer: &str, factor: &Factor) {
        let Some([low, high]) = factor.range else { return };
        let place = format!("{pointer}/range");
        if low > high {
            self.error(&place, "the lower number must come first");
        }
        if let Some(level) = factor.levels.iter().find(|level| !factor.is_in_range(level)) {
            self.error(
                &place,
                format!("the level `{level}` is not a whole number from {low} to {high}"),
            );
        }
    }

    /// Checks the services, puts them in start order, and adds the recipes made of commands.
    fn services(&mut self, file: &mut Experiment, factors: &Scope) {
        let outer = factors.clone().add_services(file.services.keys()).add_own();
        let names: Vec<String> = file.services.keys().cloned().collect();
        let mut services = std::mem::take(&mut file.services);
        for (name, service) in &mut services {
            for (at, need) in service.needs.iter().enumerate() {
                let pointer = format!("{}/needs/{at}", join("/services", name));
                self.must_be_known(&pointer, "service", need, &names);
            }
            let made = self.service(file, name, service, factors, outer.clone());
            file.recipes.extend(made.map(|recipe| (name.clone(), recipe)));
        }
        file.services = self.in_start_order(services);
    }

    fn service(
        &mut self,
        file: &Experiment,
        name: &str,
        service: &mut Service,
        factors: &Scope,
        outer: Scope,
    ) -> Option<Recipe> {
        let pointer = join("/services", name);
        let at = |key: &str| join(&pointer, key);
        let link = &file.link.to;
        if link == name && service.listen.is_some() {
            self.key_error_with_help(
                &at("listen"),
                "this service listens on the transport of the case, because the link goes to it",
                Some("leave `listen` out".to_owned()),
            );
        } else if link != name && service.listen.is_none() {
            let help = format!("only `{link}`, which the link goes to, listens on the transport of the case");
            let message = "`listen` is missing: the transport that it listens on";
            self.key_error_with_help(&pointer, message, Some(help));
        }
        for key in ["recipe", "count", "container"] {
            self.template_tree(&at(key), factors);
        }
        if service.count != "1" && file.load.target == name {
            self.key_error(
                &at("count"),
                "the driver talks to this service, so it must be a single server",
            );
        }
        self.template_tree(&at("settings"), &outer);
        for key in service.settings.keys() {
            self.must_be_name(&join(&at("settings"), key), "setting", key);
        }
        let scope = outer.add(service.settings.keys());
        if let Some(app) = &service.app
            && !self.files.keys().any(|path| path.starts_with(app))
        {
            let message = format!("there is no folder `{}` in {}", app.display(), self.place());
            self.error(&at("app"), message);
        }
        self.packages(&at("packages"), &service.packages);
        self.config(&at("config"), &mut service.config, &scope);
        self.command(&pointer, name, service, &scope)
    }

    /// Orders services so that each follows those that it needs. Otherwise, the order is that of the file.
    fn in_start_order(&mut self, mut waiting: IndexMap<String, Service>) -> IndexMap<String, Service> {
        let mut ordered = IndexMap::new();
        while !waiting.is_empty() {
            let Some(at) = waiting
                .values()
                .position(|service| !service.needs.iter().any(|need| waiting.contains_key(need)))
            else {
                let circle: Vec<&str> = waiting.keys().map(String::as_str).collect();
                self.key_error(
                    &join(&join("/services", circle[0]), "needs"),
                    format!("these services wait for each other in a circle: {}", circle.join(", ")),
                );
                ordered.extend(waiting);
                break;
            };
            ordered.extend(waiting.shift_remove_index(at));
        }
        ordered
    }

    fn load(&mut self, file: &mut Experiment, factors: &Scope) {
        let scope = factors.clone().add_services(file.services.keys()).add([SECRET]);
        self.template_tree("/load/target", factors);
        self.read_parameters(&file.load);
        for key in LOAD_KEYS.iter().filter(|key| **key != "target") {
            self.template_tree(&join("/load", key), &scope);
        }
        self.template_tree("/link/proof/reuse", &scope);
        self.template_tree("/link/transport", &scope);
        let load = &mut file.load;
        self.check_arrivals(load);
        self.must_be_one_of("/load/reuse", REUSE, &load.reuse, WAYS);
        self.must_be_one_of(
            "/load/protocol",
            "protocol",
            &load.protocol,
            PROTOCOLS.map(|kind| kind.name),
        );
        load.rate_at = SettingSource::File(Box::new(self.document.at_value("/load/rate", "")));
        load.arrivals_at = SettingSource::File(Box::new(self.document.at_value("/load/arrivals", "")));
    }

    /// Checks that each protocol accepts its table, except for values from templates.
    fn read_parameters(&mut self, load: &Load) {
        let mut document = self.document.clone();
        for kind in load.parameters.keys().filter_map(|name| lasthop_protocol::kind(name)) {
            let table = join("/load", kind.name);
            document.table(&table, schema::experiment_schema(), kind.read, &mut self.found);
        }
    }

    fn check_arrivals(&mut self, load: &Load) {
        let Some(arrivals) = &load.arrivals else { return };
        let pointer = "/load/arrivals";
        if load.rate.is_empty() {
            let help = "add `rate` in requests per second, or leave `arrivals` out (`lasthop run` has --arrivals)";
            let message = "`arrivals` needs an open loop, but there is no `rate`";
            self.key_error_with_help(pointer, message, Some(help.to_owned()));
        } else {
            let what = "way for requests to arrive called";
            self.must_be_one_of(pointer, what, arrivals, [CONSTANT, POISSON]);
        }
    }

    /// Checks the rate of every combination, and that it can be an open loop.
    fn check_pace(&mut self, file: &Experiment, combinations: &[Levels]) {
        if pace::needs_addresses(&file.load, file.services.keys()) {
            return;
        }
        let error = combinations
            .iter()
            .find_map(|levels| pace::of_case(&file.load, &template::of_levels(levels)).err());
        if let Some(PaceError::File(diagnostic)) = error {
            self.found.push(*diagnostic);
        }
    }

    /// Reports factors that no service and no load uses, because they only multiply the cases.
    fn check_use(&mut self, file: &Experiment) {
        if self.unreadable {
            return;
        }
        for name in file.factors.keys().filter(|name| *name != TRANSPORT && *name != PATH) {
            if !self.used.iter().any(|used| used.split('.').next() == Some(name)) {
                let help = format!("write {{{{ {name} }}}} where it should have an effect, or remove the factor");
                let message = format!("no service and no load uses the factor `{name}`");
                self.key_error_with_help(&join("/factors", name), message, Some(help));
            }
        }
    }

    /// Checks that depend on levels: recipes, transports and protocols of every combination of all levels.
    fn check_combinations(&mut self, file: &mut Experiment, recipes: &Recipes<'_>) {
        let deciding = deciding(file);
        let levels = |(name, factor): (&String, &Factor)| {
            let kept = if deciding.contains(name) {
                factor.levels.len()
            } else {
                1
            };
            (name.clone(), factor.levels[..kept].to_vec())
        };
        let all = file.factors.iter().map(levels).collect();
        let combinations = match cases::combinations(file, &all) {
            Ok((combinations, _)) => combinations,
            Err(error) => return self.error("/factors", error.to_string()),
        };
        for levels in &combinations {
            if let Err(error) = cases::transport(&file.link, levels) {
                return self.error("/link/transport", error.message);
            }
        }
        let mut used = IndexMap::new();
        for (name, service) in &file.services {
            self.check_recipes(file, name, service, &combinations, recipes, &mut used);
        }
        file.recipes.extend(used);
        self.check_protocols(file, &combinations);
        self.check_pace(file, &combinations);
        if file.load.target.contains("{{") {
            self.check_targets(file, &combinations);
        }
    }

    /// Checks that the service to which the driver connects is a single server in every case.
    fn check_targets(&mut self, file: &Experiment, combinations: &[Levels]) {
        let mut targets = BTreeSet::new();
        for levels in combinations {
            let context = template::of_levels(levels);
            let target = match template::word("load.target", &file.load.target, &context) {
                Ok(target) => target,
                Err(error) => return self.error("/load/target", error.message),
            };
            if let Some(service) = file.services.get(&target)
                && let Ok(count) = template::word("count", &service.count, &context)
                && count != "1"
            {
                let message =
                    format!("the driver talks to `{target}`, whose `count` is {count} in some case: it must be 1");
                return self.error("/load/target", message);
            }
            targets.insert(target);
        }
        for target in targets {
            self.check_target(file, &target);
        }
    }

    fn check_recipes(
        &mut self,
        file: &Experiment,
        name: &str,
        service: &Service,
        combinations: &[Levels],
        recipes: &Recipes<'_>,
        used: &mut IndexMap<String, Recipe>,
    ) {
        let pointer = join("/services", name);
        // Only recipes made of commands are known yet.
        if let Some(made) = file.recipes.get(name) {
            let transports = combinations.iter().map(|levels| transport_of(file, service, levels));
            return self.check_transports(file, &join(&pointer, "command"), made, &transports.collect());
        }
        let pointer = join(&pointer, "recipe");
        let mut wanted: BTreeMap<String, BTreeSet<Transport>> = BTreeMap::new();
        for levels in combinations {
            match template::word(&pointer, &service.recipe, &template::of_levels(levels)) {
                Ok(recipe) => {
                    let transport = transport_of(file, service, levels);
                    wanted.entry(recipe).or_default().insert(transport);
                }
                Err(error) => return self.error(&pointer, error.message),
            }
        }
        for (recipe, transports) in wanted {
            if file.recipes.contains_key(&recipe) {
                let message = format!("`{recipe}` is also a service with a `command`: give that another name");
                self.error(&pointer, message);
                continue;
            }
            match (recipes.get)(&recipe) {
                None => {
                    self.must_be_known(&pointer, "recipe", &recipe, &recipes.names);
                }
                Some(Err(errors)) => self.found.extend(errors),
                Some(Ok(found)) => {
                    self.check_transports(file, &pointer, &found, &transports);
                    self.check_settings(name, service, &found);
                    used.insert(recipe, found);
                }
            }
        }
    }

    fn check_transports(
        &mut self,
        file: &Experiment,
        pointer: &str,
        recipe: &Recipe,
        transports: &BTreeSet<Transport>,
    ) {
        let known: Vec<&str> = recipe.listen.keys().map(|transport| transport.name()).collect();
        let exclude = if file.exclude.is_empty() {
            ""
        } else {
            ", or exclude the combination"
        };
        for transport in transports {
            if !recipe.listen.contains_key(transport) {
                let message = format!("recipe `{}` cannot listen on {transport}", recipe.name);
                let help = format!("it can listen on: {}{exclude}", known.join(", "));
                self.error_with_help(pointer, message, Some(help));
            }
        }
    }

    /// Checks that each setting belongs to the recipe or to a configuration file of the experiment.
    fn check_settings(&mut self, name: &str, service: &Service, recipe: &Recipe) {
        let pointer = join("/services", name);
        let several = service.recipe.contains("{{");
        let names = service
            .config
            .values()
            .filter_map(|file| template::names(&file.text).ok());
        let mentioned: BTreeSet<String> = names.flatten().collect();
        for key in service.settings.keys() {
            if !recipe.settings.contains_key(key) && !mentioned.contains(key) && !several {
                let help = suggest(key, recipe.settings.keys());
                let message = format!("recipe `{}` has no setting `{key}`", recipe.name);
                self.key_error_with_help(&join(&join(&pointer, "settings"), key), message, help);
            }
        }
        for (key, setting) in &recipe.settings {
            if setting.default.is_none() && !service.settings.contains_key(key) {
                self.key_error(&pointer, format!("recipe `{}` needs the setting `{key}`", recipe.name));
            }
        }
    }

    fn check_protocols(&mut self, file: &Experiment, combinations: &[Levels]) {
        let mut names = BTreeSet::new();
        for levels in combinations {
            match template::word("load.protocol", &file.load.protocol, &template::of_levels(levels)) {
                Ok(name) => drop(names.insert(name)),
                Err(error) => return self.error("/load/protocol", error.message),
            }
        }
        for name in names {
            if self.must_be_known("/load/protocol", "protocol", &name, PROTOCOLS.map(|kind| kind.name))
                && !file.load.parameters.contains_key(&name)
            {
                self.error(
                    "/load/protocol",
                    format!("`[load.{name}]` with the protocol's parameters is missing"),
                );
            }
            if name == custom::KIND.name && file.load.driver.is_empty() {
                let help = "write `driver = [PROGRAM, …]`, or a protocol that lasthop speaks".to_owned();
                let message = format!("`{name}` needs a driver of your own, which `[load]` does not have");
                self.error_with_help("/load/protocol", message, Some(help));
            }
        }
    }
}

/// The transport of a service in a combination.
fn transport_of(file: &Experiment, service: &Service, levels: &Levels) -> Transport {
    service
        .listen
        .map_or_else(|| cases::transport(&file.link, levels), Ok)
        .expect("checked before")
}

/// Factors that decide about recipes, protocols and existing combinations. Combining other factors would only multiply
/// the checks.
fn deciding(file: &Experiment) -> BTreeSet<String> {
    let services = file.services.values();
    let mut templates: Vec<&String> = services.flat_map(|service| [&service.recipe, &service.count]).collect();
    templates.extend([&file.load.protocol, &file.load.target]);
    templates.extend(&file.link.transport);
    // These decide whether a case can be an open loop. Without a rate, no case is one.
    if !file.load.rate.is_empty() {
        templates.extend(pace::templates(&file.load));
    }
    let conditions = file.factors.values().filter_map(|factor| factor.when.as_ref());
    let conditions = conditions.chain(file.exclude.iter().map(|exclude| &exclude.when));
    let names = templates.into_iter().map(|text| template::names(text));
    let names = names.chain(conditions.map(|text| template::expression_names(text)));
    names
        .flatten()
        .flatten()
        .chain([TRANSPORT.to_owned(), PATH.to_owned()])
        .collect()
}
