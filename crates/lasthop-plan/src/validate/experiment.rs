//! Validates experiments.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use indexmap::IndexMap;
use lasthop_model::{
    level::{Level, Levels},
    rate::{CONSTANT, POISSON},
    record::AnswerPlan,
    selection::{PATH, TRANSPORT},
};
use lasthop_protocol::{PROTOCOLS, spec::Transport};

use super::{
    checker::{Checker, read},
    scope::Scope,
};
use crate::{
    cases,
    definition::{ExperimentFile, ServiceFile},
    diagnostics::{Diagnostics, suggest},
    digest,
    files::Files,
    model::{Defaults, Derive, DeriveKind, Experiment, Factor, Load, Place, Recipe, Service, Source},
    pace::{self, PaceError},
    render::{SECRET, SERVICE_NAMES},
    schema,
    shape::join,
    template,
};

/// The file that makes a folder an experiment.
pub(crate) const FILE: &str = "experiment.toml";
/// The end of a link that is the load generator.
const DRIVER: &str = "driver";

/// A source of recipes.
pub(crate) trait Recipes {
    /// Names of all recipes.
    fn names(&self) -> Vec<String>;
    /// The recipe of this name, if there is one.
    fn get(&self, name: &str) -> Option<Result<Recipe, Diagnostics>>;
}

/// Reads an experiment from the files of its folder.
/// Errors: everything that is wrong with it, its templates and the recipes that it uses.
pub(crate) fn experiment(
    name: &str,
    folder: &str,
    source: Source,
    files: &Files,
    recipes: &dyn Recipes,
) -> Result<Experiment, Diagnostics> {
    let (mut checker, file) = read::<ExperimentFile>(folder, FILE, files, schema::experiment_schema());
    let Some(file) = file else { return Err(checker.found) };
    let mut experiment = checker.build(name, source, &file);
    if checker.found.is_empty() {
        checker.check_combinations(&file, &mut experiment, recipes);
    }
    if checker.found.is_empty() {
        Ok(experiment)
    } else {
        Err(checker.found)
    }
}

impl Checker<'_> {
    fn build(&mut self, name: &str, source: Source, file: &ExperimentFile) -> Experiment {
        self.check_names(file);
        self.check_link(file);
        let factors = self.factors(file);
        let factor_scope = Scope::default().add(file.factors.keys());
        for (at, exclude) in file.exclude.iter().enumerate() {
            self.expression(&format!("/exclude/{at}/when"), &exclude.when, &factor_scope);
        }
        // A factor that only conditions mention changes nothing that is measured.
        self.used.clear();
        let (services, recipes) = self.services(file, &factor_scope);
        let load = self.load(file, &factor_scope.add_services(file.services.keys()).add([SECRET]));
        self.check_overload(file);
        self.check_use(file);
        let mut own = self.files.clone();
        own.remove(&PathBuf::from(FILE));
        Experiment {
            name: name.to_owned(),
            title: file.title.clone(),
            question: file.question.clone(),
            group: file.group.clone(),
            source,
            files: own,
            digests: digest::of_files(self.files),
            link: file.link.clone(),
            factors,
            excludes: file.exclude.clone(),
            services,
            recipes,
            load,
            derive: self.derive(file),
            answer: self.answer(file),
            overload: file.overload.clone(),
            defaults: self.defaults(file),
        }
    }

    fn check_overload(&mut self, file: &ExperimentFile) {
        for (name, given) in &file.overload.levels {
            let pointer = join("/overload/levels", name);
            let Some(factor) = file.factors.get(name) else {
                let help = suggest(name, file.factors.keys().map(String::as_str));
                self.key_error(&pointer, format!("there is no factor `{name}`"), help);
                continue;
            };
            for (at, level) in given.iter().enumerate().filter(|(_, level)| !factor.is_in_range(level)) {
                self.must_be_level(&format!("{pointer}/{at}"), level, &factor.levels);
            }
        }
        for name in file
            .overload
            .log
            .keys()
            .filter(|name| !file.services.contains_key(*name))
        {
            let help = suggest(name, file.services.keys().map(String::as_str));
            self.key_error(
                &join("/overload/log", name),
                format!("there is no service `{name}`"),
                help,
            );
        }
    }

    fn derive(&mut self, file: &ExperimentFile) -> IndexMap<String, Derive> {
        let scope = Scope::default().add(file.factors.keys());
        let mut all = IndexMap::new();
        for (name, derive) in &file.derive {
            let pointer = join("/derive", name);
            self.must_be_name(&pointer, "quantity", name);
            self.expression(&join(&pointer, "of"), &derive.of, &scope);
            let kind = match (&derive.minus, &derive.per, &derive.crossover) {
                (Some(minus), None, None) => {
                    self.expression(&join(&pointer, "minus"), minus, &scope);
                    DeriveKind::Minus(minus.clone())
                }
                (None, Some(per), None) => {
                    self.must_be_numbers(&join(&pointer, "per"), per, file);
                    DeriveKind::Per(per.clone())
                }
                (None, None, Some(over)) => {
                    self.must_be_numbers(&join(&pointer, "crossover"), over, file);
                    DeriveKind::Crossover(over.clone())
                }
                _ => {
                    self.key_error(
                        &pointer,
                        "exactly one of `minus`, `per` and `crossover` is needed",
                        None,
                    );
                    continue;
                }
            };
            all.insert(
                name.clone(),
                Derive {
                    help: derive.help.clone(),
                    of: derive.of.clone(),
                    kind,
                },
            );
        }
        all
    }

    fn answer(&mut self, file: &ExperimentFile) -> AnswerPlan {
        let answer = &file.answer;
        if let Some(until) = &answer.until {
            self.must_be_quantity("/answer/until", until, file, true);
        }
        for (at, quantity) in answer.which.iter().flatten().enumerate() {
            self.must_be_quantity(&format!("/answer/which/{at}"), quantity, file, false);
        }
        if let Some([one, other]) = &answer.which
            && one == other
        {
            self.error("/answer/which/1", "the two quantities must differ");
        }
        for (at, quantity) in answer.costs.iter().enumerate() {
            self.must_be_quantity(&format!("/answer/costs/{at}"), quantity, file, false);
        }
        let compared = [PATH, TRANSPORT].into_iter().find_map(|name| file.factors.get(name));
        let levels = compared.map_or(&[][..], |factor| &factor.levels);
        for (key, named) in [
            ("price", &answer.price),
            ("also", &answer.also),
            ("occupies", &answer.occupies),
        ] {
            for (at, level) in named.iter().enumerate() {
                self.must_be_level(&format!("/answer/{key}/{at}"), &Level::Text(level.clone()), levels);
            }
        }
        for (at, factor) in answer.explain.iter().enumerate() {
            let known = file.factors.keys().map(String::as_str);
            self.must_be_known(&format!("/answer/explain/{at}"), "factor", factor, known);
        }
        answer.clone()
    }

    /// A quantity of `[derive]`, which is a level if it has a crossover, and otherwise a time.
    fn must_be_quantity(&mut self, pointer: &str, name: &str, file: &ExperimentFile, is_level: bool) {
        if !self.must_be_known(pointer, "quantity", name, file.derive.keys().map(String::as_str)) {
            return;
        }
        match (file.derive[name].crossover.is_some(), is_level) {
            (true, false) => self.error_with_help(
                pointer,
                format!("`{name}` is a level and not a time"),
                Some(format!("`until = \"{name}\"` says from which level on")),
            ),
            (false, true) => self.error_with_help(
                pointer,
                format!("`{name}` is a time and not a level"),
                Some("`until` takes a quantity with `crossover`; `costs` takes times".to_owned()),
            ),
            _ => {}
        }
    }

    fn must_be_numbers(&mut self, pointer: &str, name: &str, file: &ExperimentFile) {
        let is_number = |level: &Level| matches!(level, Level::Int(number) if *number > 0);
        if self.must_be_known(pointer, "factor", name, file.factors.keys().map(String::as_str))
            && !file.factors[name].levels.iter().all(is_number)
        {
            self.error(
                pointer,
                format!("the levels of `{name}` are not all whole numbers of 1 or more"),
            );
        }
    }

    fn check_names(&mut self, file: &ExperimentFile) {
        let reserved: Vec<&str> = SERVICE_NAMES.into_iter().chain([DRIVER]).collect();
        for (what, table, names) in [
            ("factor", "/factors", file.factors.keys().collect::<Vec<_>>()),
            ("service", "/services", file.services.keys().collect()),
        ] {
            for name in names {
                let pointer = join(table, name);
                self.must_be_name(&pointer, what, name);
                if reserved.contains(&name.as_str()) {
                    self.key_error(&pointer, format!("the name `{name}` is reserved in templates"), None);
                }
            }
        }
        for name in file.services.keys().filter(|name| file.factors.contains_key(*name)) {
            self.key_error(
                &join("/services", name),
                format!("`{name}` is also the name of a factor"),
                None,
            );
        }
    }

    fn check_link(&mut self, file: &ExperimentFile) {
        let services: Vec<&str> = file.services.keys().map(String::as_str).collect();
        let ends = services.iter().copied().chain([DRIVER]);
        self.must_be_known("/link/from", "service", &file.link.from, ends);
        self.must_be_known("/link/to", "service", &file.link.to, services.iter().copied());
        if file.link.from == file.link.to {
            self.error("/link/to", "the two ends of a link must differ");
        }
        if !file.load.target.contains("{{") {
            self.check_target(file, &file.load.target);
        }
        if let Some(proof) = &file.link.proof {
            self.must_be_reuse("/link/proof/reuse", &proof.reuse);
        }
    }

    /// Whether the driver can talk to a service.
    fn check_target(&mut self, file: &ExperimentFile, target: &str) {
        let known = self.must_be_known(
            "/load/target",
            "service",
            target,
            file.services.keys().map(String::as_str),
        );
        if known && file.link.from == DRIVER && target != file.link.to {
            let help = Some(format!("the link goes from the driver to `{}`", file.link.to));
            self.error_with_help("/load/target", "the driver must talk over the link", help);
        }
    }

    fn must_be_reuse(&mut self, pointer: &str, text: &str) {
        if !text.contains("{{") {
            self.must_be_known(
                pointer,
                "way to use connections called",
                text,
                ["keep-alive", "per-request"],
            );
        }
    }

    fn factors(&mut self, file: &ExperimentFile) -> IndexMap<String, Factor> {
        let mut above = Scope::default();
        for (name, factor) in &file.factors {
            let pointer = join("/factors", name);
            if let Some(when) = &factor.when {
                self.expression(&join(&pointer, "when"), when, &above);
            }
            above = above.add([name]);
            self.factor(&pointer, name, factor);
        }
        let mut factors = file.factors.clone();
        if let Some(at) = factors.get_index_of(TRANSPORT) {
            factors.move_index(at, 0);
        }
        if let Some(at) = factors.get_index_of(PATH) {
            factors.move_index(at, 0);
        }
        self.one_is_compared(file);
        factors
    }

    /// The compared factor: `transport`, or `path` with a transport for each level.
    fn one_is_compared(&mut self, file: &ExperimentFile) {
        let has = |name: &str| file.factors.contains_key(name);
        match (has(TRANSPORT), has(PATH), &file.link.transport) {
            (true, true, _) => {
                self.key_error(
                    "/factors/path",
                    "`path` and `transport` exclude each other: only one factor is compared",
                    None,
                );
            }
            (false, false, _) => {
                self.key_error(
                    "/factors",
                    "the factor `transport` is missing, which varies the transport of the link",
                    None,
                );
            }
            (true, false, Some(_)) => {
                self.key_error(
                    "/link/transport",
                    "the factor `transport` already determines the transport",
                    None,
                );
            }
            (false, true, None) => {
                let help = "add for example transport = \"{{ 'unix' if path == 'socket' else 'tcp' }}\"";
                self.key_error(
                    "/link",
                    "`transport` is missing, because each path needs one",
                    Some(help.to_owned()),
                );
            }
            _ => {}
        }
    }

    fn factor(&mut self, pointer: &str, name: &str, factor: &Factor) {
        let levels = &factor.levels;
        for (at, level) in levels
            .iter()
            .enumerate()
            .filter(|(at, level)| levels[..*at].contains(level))
        {
            self.error(
                &format!("{pointer}/levels/{at}"),
                format!("the level `{level}` is listed twice"),
            );
        }
        for (at, level) in factor.usual().iter().enumerate() {
            self.must_be_level(&format!("{pointer}/default/{at}"), level, levels);
        }
        if factor.usual().is_empty() {
            self.error(&format!("{pointer}/default"), "at least one level is needed");
        }
        for (at, level) in factor.controls.iter().enumerate() {
            self.must_be_level(&format!("{pointer}/controls/{at}"), level, levels);
        }
        self.reference(pointer, name, factor);
        self.range(pointer, factor);
        let known: Vec<String> = levels.iter().map(Level::to_string).collect();
        for level in factor.labels.keys() {
            self.must_be_known(
                &format!("{pointer}/labels/{level}"),
                "level",
                level,
                known.iter().map(String::as_str),
            );
        }
    }

    fn must_be_level(&mut self, pointer: &str, level: &Level, levels: &[Level]) {
        let known: Vec<String> = levels.iter().map(Level::to_string).collect();
        if !levels.contains(level) {
            let help = suggest(&level.to_string(), known.iter().map(String::as_str));
            self.error_with_help(pointer, format!("`{level}` is not one of the levels"), help);
        }
    }

    fn reference(&mut self, pointer: &str, name: &str, factor: &Factor) {
        let place = format!("{pointer}/reference");
        match &factor.reference {
            Some(level) if name == TRANSPORT || name == PATH => self.must_be_level(&place, level, &factor.levels),
            Some(_) => self.key_error(&place, "only `transport` or `path` can have a reference", None),
            None if name == TRANSPORT || name == PATH => {
                self.key_error(
                    pointer,
                    format!("`reference` is missing, the {name} that others are compared with"),
                    None,
                );
            }
            None => {}
        }
        if name == PATH && factor.when.is_some() {
            self.key_error(
                &format!("{pointer}/when"),
                "`path` cannot have a condition, because every case has a path",
                None,
            );
        }
        if name != TRANSPORT {
            return;
        }
        for (at, level) in factor.levels.iter().enumerate() {
            let known = Transport::ALL.map(Transport::name);
            self.must_be_known(
                &format!("{pointer}/levels/{at}"),
                "transport",
                &level.to_string(),
                known,
            );
        }
        if factor.when.is_some() {
            self.key_error(
                &format!("{pointer}/when"),
                "`transport` cannot have a condition, because every case has a transport",
                None,
            );
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

    /// The services in start order, and the recipes that their commands make.
    fn services(
        &mut self,
        file: &ExperimentFile,
        factors: &Scope,
    ) -> (IndexMap<String, Service>, IndexMap<String, Recipe>) {
        let order = self.start_order(file);
        let mut services: BTreeMap<&String, Service> = BTreeMap::new();
        let mut recipes = IndexMap::new();
        for (name, service) in &file.services {
            let (service, recipe) = self.service(file, name, service, factors);
            services.insert(name, service);
            recipes.extend(recipe.map(|recipe| (name.clone(), recipe)));
        }
        let ordered = order
            .into_iter()
            .filter_map(|name| Some((name.clone(), services.remove(name)?)));
        (ordered.collect(), recipes)
    }

    fn service(
        &mut self,
        file: &ExperimentFile,
        name: &str,
        service: &ServiceFile,
        factors: &Scope,
    ) -> (Service, Option<Recipe>) {
        let pointer = join("/services", name);
        let at = |key: &str| join(&pointer, key);
        let is_link = file.link.to == *name;
        if is_link && service.listen.is_some() {
            let help = Some("leave `listen` out".to_owned());
            self.key_error(
                &at("listen"),
                "this service listens on the transport of the case, because the link goes to it",
                help,
            );
        } else if !is_link && service.listen.is_none() {
            let help = Some(format!(
                "only `{}`, which the link goes to, listens on the transport of the case",
                file.link.to
            ));
            self.key_error(&pointer, "`listen` is missing: the transport that it listens on", help);
        }
        self.template(&at("recipe"), &service.recipe, factors);
        self.template(&at("count"), &service.count, factors);
        if service.count != "1" && file.load.target == name {
            self.key_error(
                &at("count"),
                "the driver talks to this service, so it must be a single server",
                None,
            );
        }
        let outer = factors.clone().add_services(file.services.keys()).add_own();
        self.template_tree(&at("settings"), &outer);
        for key in service.settings.keys() {
            self.must_be_name(&join(&at("settings"), key), "setting", key);
        }
        let scope = outer.add(service.settings.keys());
        if let Some(app) = &service.app
            && !self.files.keys().any(|path| path.starts_with(app))
        {
            self.error(&at("app"), format!("there is no folder `{app}` in {}", self.place()));
        }
        let recipe = self.command(&pointer, name, service, &scope);
        self.template_tree(&at("container"), factors);
        let service = Service {
            recipe: recipe.as_ref().map_or(&service.recipe, |made| &made.name).clone(),
            listen: service.listen,
            count: service.count.clone(),
            needs: service.needs.clone(),
            settings: service.settings.clone(),
            config: self.config(&at("config"), &service.config, &scope),
            app: service.app.as_ref().map(PathBuf::from),
            warm: service
                .warm
                .as_ref()
                .map_or(Duration::ZERO, |warm| self.duration(&at("warm"), Some(warm), "1s")),
            packages: service.packages.clone(),
            container: service.container.clone(),
        };
        (service, recipe)
    }

    /// Orders services so that each comes after those that it needs, and otherwise as in the file.
    fn start_order<'b>(&mut self, file: &'b ExperimentFile) -> Vec<&'b String> {
        let names: Vec<&str> = file.services.keys().map(String::as_str).collect();
        for (name, service) in &file.services {
            for (at, need) in service.needs.iter().enumerate() {
                let pointer = format!("{}/{at}", join(&join("/services", name), "needs"));
                self.must_be_known(&pointer, "service", need, names.iter().copied());
            }
        }
        let mut order: Vec<&String> = Vec::new();
        let mut waiting: Vec<(&String, &ServiceFile)> = file.services.iter().collect();
        while !waiting.is_empty() {
            let ready = |service: &ServiceFile| {
                service
                    .needs
                    .iter()
                    .all(|need| order.contains(&need) || !file.services.contains_key(need))
            };
            let Some(at) = waiting.iter().position(|(_, service)| ready(service)) else {
                let circle: Vec<&str> = waiting.iter().map(|(name, _)| name.as_str()).collect();
                let pointer = join(&join("/services", waiting[0].0), "needs");
                self.key_error(
                    &pointer,
                    format!("these services wait for each other in a circle: {}", circle.join(", ")),
                    None,
                );
                break;
            };
            order.push(waiting.remove(at).0);
        }
        order
    }

    fn load(&mut self, file: &ExperimentFile, scope: &Scope) -> Load {
        let load = &file.load;
        let common = [
            "protocol",
            "connections",
            "threads",
            "reuse",
            "pipeline",
            "requests_per_connection",
            "rate",
            "arrivals",
            "nodelay",
            "driver",
        ];
        for key in common.into_iter().chain(PROTOCOLS.map(|kind| kind.name)) {
            self.template_tree(&join("/load", key), scope);
        }
        self.check_arrivals(load);
        self.template("/load/target", &load.target, &Scope::default().add(file.factors.keys()));
        self.template_tree("/link/proof/reuse", scope);
        self.template_tree("/link/transport", scope);
        self.must_be_reuse("/load/reuse", &load.reuse);
        if !load.protocol.contains("{{") {
            self.must_be_known(
                "/load/protocol",
                "protocol",
                &load.protocol,
                PROTOCOLS.map(|kind| kind.name),
            );
        }
        Load {
            rate_at: Place::File(Box::new(self.document.at_value("/load/rate", ""))),
            arrivals_at: Place::File(Box::new(self.document.at_value("/load/arrivals", ""))),
            ..load.clone()
        }
    }

    fn check_arrivals(&mut self, load: &Load) {
        let Some(arrivals) = &load.arrivals else { return };
        if load.rate.is_empty() {
            let help = Some(
                "add `rate` in requests per second, or leave `arrivals` out (`lasthop run` has --arrivals)".to_owned(),
            );
            self.key_error(
                "/load/arrivals",
                "`arrivals` needs an open loop, but there is no `rate`",
                help,
            );
        } else if !arrivals.contains("{{") {
            self.must_be_known(
                "/load/arrivals",
                "way for requests to arrive called",
                arrivals,
                [CONSTANT, POISSON],
            );
        }
    }

    /// Checks the rate of every combination, and whether it can be an open loop.
    fn check_pace(&mut self, file: &ExperimentFile, load: &Load, combinations: &[Levels]) {
        if pace::needs_addresses(load, file.services.keys()) {
            return;
        }
        let error = combinations
            .iter()
            .find_map(|levels| pace::of_case(load, &template::of_levels(levels)).err());
        if let Some(PaceError::File(diagnostic)) = error {
            self.found.push(*diagnostic);
        }
    }

    /// Reports factors that no service and no load uses, which would only multiply the cases.
    fn check_use(&mut self, file: &ExperimentFile) {
        if self.unreadable {
            return;
        }
        let used: BTreeSet<&str> = self
            .used
            .iter()
            .map(|name| name.split('.').next().unwrap_or(name))
            .collect();
        let unused: Vec<String> = file
            .factors
            .keys()
            .filter(|name| *name != TRANSPORT && *name != PATH && !used.contains(name.as_str()))
            .cloned()
            .collect();
        for name in unused {
            let help = Some(format!(
                "write {{{{ {name} }}}} where it should have an effect, or remove the factor"
            ));
            self.key_error(
                &join("/factors", &name),
                format!("no service and no load uses the factor `{name}`"),
                help,
            );
        }
    }

    fn defaults(&mut self, file: &ExperimentFile) -> Defaults {
        let defaults = &file.defaults;
        Defaults {
            trial: self.duration("/defaults/trial", defaults.trial.as_ref(), "50ms"),
            budget: self.duration("/defaults/budget", defaults.budget.as_ref(), "30s"),
            precision: self.share("/defaults/precision", defaults.precision.as_ref()),
            margin: self.share("/defaults/margin", defaults.margin.as_ref()),
            blocks: defaults.blocks,
        }
    }

    /// Checks what depends on levels: recipes, transports and protocols of every combination of all levels.
    fn check_combinations(&mut self, file: &ExperimentFile, experiment: &mut Experiment, recipes: &dyn Recipes) {
        let deciding = deciding(file);
        let levels = |(name, factor): (&String, &Factor)| {
            let kept = if deciding.contains(name) {
                factor.levels.len()
            } else {
                1
            };
            (name.clone(), factor.levels[..kept].to_vec())
        };
        let all = experiment.factors.iter().map(levels).collect();
        let combinations = match cases::combinations(experiment, &all) {
            Ok((combinations, _)) => combinations,
            Err(error) => return self.error("/factors", error.to_string()),
        };
        if let Some(error) = combinations
            .iter()
            .find_map(|levels| cases::transport(&experiment.link, levels).err())
        {
            return self.error("/link/transport", error.message);
        }
        for (name, service) in &file.services {
            self.check_recipes(file, name, service, &combinations, experiment, recipes);
        }
        self.check_protocols(&combinations, experiment);
        self.check_pace(file, &experiment.load, &combinations);
        if file.load.target.contains("{{") {
            self.check_targets(file, &combinations);
        }
    }

    /// The service that the driver talks to must be a single server in every case.
    fn check_targets(&mut self, file: &ExperimentFile, combinations: &[Levels]) {
        let mut targets = BTreeSet::new();
        for levels in combinations {
            let context = template::of_levels(levels);
            let target = match template::render("load.target", &file.load.target, &context) {
                Ok(target) => target.trim().to_owned(),
                Err(error) => return self.error("/load/target", error.message),
            };
            let count = file
                .services
                .get(&target)
                .map(|service| template::render("count", &service.count, &context));
            if let Some(Ok(count)) = count.filter(|count| !matches!(count, Ok(count) if count.trim() == "1")) {
                let message = format!(
                    "the driver talks to `{target}`, whose `count` is {} in some case: it must be 1",
                    count.trim()
                );
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
        file: &ExperimentFile,
        name: &str,
        service: &ServiceFile,
        combinations: &[Levels],
        experiment: &mut Experiment,
        recipes: &dyn Recipes,
    ) {
        let made = experiment.services[name].recipe.clone();
        let has_command = |name: &str| {
            file.services
                .get(name)
                .is_some_and(|service| !service.command.is_empty())
        };
        let pointer = join(
            &join("/services", name),
            if has_command(name) { "command" } else { "recipe" },
        );
        let mut wanted: BTreeMap<String, BTreeSet<Transport>> = BTreeMap::new();
        for levels in combinations {
            let context = template::of_levels(levels);
            match template::render(&pointer, &made, &context) {
                Ok(recipe) => {
                    let link = || cases::transport(&experiment.link, levels);
                    let transport = service.listen.map_or_else(link, Ok).expect("checked before");
                    wanted.entry(recipe.trim().to_owned()).or_default().insert(transport);
                }
                Err(error) => return self.error(&pointer, error.message),
            }
        }
        for (recipe, transports) in wanted {
            if has_command(name) {
                let made = experiment.recipes[&recipe].clone();
                self.check_transports(file, &pointer, &made, &transports);
                continue;
            }
            if has_command(&recipe) {
                let message = format!("`{recipe}` is also a service with a `command`: give that another name");
                self.error(&pointer, message);
                continue;
            }
            match recipes.get(&recipe) {
                None => {
                    let names = recipes.names();
                    self.must_be_known(&pointer, "recipe", &recipe, names.iter().map(String::as_str));
                }
                Some(Err(errors)) => self.found.extend(errors),
                Some(Ok(found)) => {
                    self.check_transports(file, &pointer, &found, &transports);
                    self.check_settings(name, service, &found);
                    experiment.recipes.insert(recipe, found);
                }
            }
        }
    }

    fn check_transports(
        &mut self,
        file: &ExperimentFile,
        pointer: &str,
        recipe: &Recipe,
        transports: &BTreeSet<Transport>,
    ) {
        let known: Vec<&str> = recipe.listen.keys().map(|transport| transport.name()).collect();
        for transport in transports
            .iter()
            .filter(|transport| !recipe.listen.contains_key(*transport))
        {
            let message = format!("recipe `{}` cannot listen on {transport}", recipe.name);
            let help = if file.exclude.is_empty() {
                ""
            } else {
                ", or exclude the combination"
            };
            self.error_with_help(
                pointer,
                message,
                Some(format!("it can listen on: {}{help}", known.join(", "))),
            );
        }
    }

    /// A setting belongs to the recipe or to a configuration file of the experiment.
    fn check_settings(&mut self, name: &str, service: &ServiceFile, recipe: &Recipe) {
        let pointer = join(&join("/services", name), "settings");
        let several = service.recipe.contains("{{");
        let mentioned: BTreeSet<String> = service.config.values().flat_map(|file| self.mentioned(file)).collect();
        for key in service.settings.keys() {
            if !recipe.settings.contains_key(key) && !mentioned.contains(key) && !several {
                let help = suggest(key, recipe.settings.keys().map(String::as_str));
                self.key_error(
                    &join(&pointer, key),
                    format!("recipe `{}` has no setting `{key}`", recipe.name),
                    help,
                );
            }
        }
        for (key, _) in recipe
            .settings
            .iter()
            .filter(|(key, setting)| setting.default.is_none() && !service.settings.contains_key(*key))
        {
            let pointer = join("/services", name);
            self.key_error(
                &pointer,
                format!("recipe `{}` needs the setting `{key}`", recipe.name),
                None,
            );
        }
    }

    /// Names that a configuration file takes.
    fn mentioned(&self, file: &str) -> BTreeSet<String> {
        let text = self
            .files
            .get(&PathBuf::from(file))
            .map(|bytes| String::from_utf8_lossy(bytes));
        text.and_then(|text| template::names(&text).ok()).unwrap_or_default()
    }

    fn check_protocols(&mut self, combinations: &[Levels], experiment: &Experiment) {
        let mut names = BTreeSet::new();
        for levels in combinations {
            let context = template::of_levels(levels);
            match template::render("load.protocol", &experiment.load.protocol, &context) {
                Ok(name) => drop(names.insert(name.trim().to_owned())),
                Err(error) => return self.error("/load/protocol", error.message),
            }
        }
        for name in names {
            if self.must_be_known("/load/protocol", "protocol", &name, PROTOCOLS.map(|kind| kind.name))
                && !experiment.load.parameters.contains_key(&name)
            {
                self.error(
                    "/load/protocol",
                    format!("`[load.{name}]` with the protocol's parameters is missing"),
                );
            }
        }
    }
}

/// Factors that decide which recipes and protocols are used, and which combinations exist. The others need not be
/// combined, because they would only multiply the number of checks.
fn deciding(file: &ExperimentFile) -> BTreeSet<String> {
    let templates = file
        .services
        .values()
        .flat_map(|service| [&service.recipe, &service.count]);
    let templates = templates.chain([&file.load.protocol, &file.load.target]);
    let templates = templates.chain(&file.link.transport);
    let templates = templates.chain(pacing(&file.load));
    let conditions = file.factors.values().filter_map(|factor| factor.when.as_ref());
    let conditions = conditions.chain(file.exclude.iter().map(|exclude| &exclude.when));
    let in_templates = templates.filter_map(|text| template::names(text).ok()).flatten();
    let in_conditions = conditions
        .filter_map(|text| template::expression_names(text).ok())
        .flatten();
    in_templates
        .chain(in_conditions)
        .chain([TRANSPORT.to_owned(), PATH.to_owned()])
        .collect()
}

/// The factors that decide whether a case can be an open loop; none if there is no rate.
fn pacing(load: &Load) -> Vec<&String> {
    let open = !load.rate.is_empty();
    let all = [&load.rate, &load.pipeline, &load.requests_per_connection, &load.reuse].into_iter();
    all.chain(&load.arrivals)
        .chain(load.driver.first())
        .filter(|_| open)
        .collect()
}
