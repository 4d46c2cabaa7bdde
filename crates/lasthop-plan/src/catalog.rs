//! The catalog of experiments and recipes: finds and loads them.
//!
//! An experiment is looked up by name in `<data>/experiments`, then in the binary. It is looked up by path if the name
//! has a slash or is a folder with an `experiment.toml`. A recipe is looked up in the experiment's own `services`
//! folder, then in `<data>/services`, then in the binary.

pub mod create;

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use include_dir::{Dir, include_dir};
use lasthop_system::{digest::of_bytes, owner};

use super::{
    diagnostics::{Diagnostic, Diagnostics, meant, suggest},
    files::{EXPERIMENT_FILE, Files, RECIPE_FILE, bounded, embedded, read_folder, size, unread},
    model::{Experiment, Recipe, Source},
    validate::{self, Recipes},
};

static EXPERIMENTS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../experiments");
static SERVICES: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../../services");
/// Digits of the digest that distinguishes the packages of experiments.
const PLACE: usize = 12;

/// The files of an experiment, and their place.
struct Located {
    name: String,
    /// The folder, by the name that the user knows.
    shown: String,
    source: Source,
    files: Files,
}

/// An entry in the list of experiments.
#[derive(Debug)]
pub struct Entry {
    pub name: String,
    pub source: Source,
    /// The experiment, or why it cannot be loaded.
    pub experiment: Result<Experiment, String>,
}

/// All experiments and recipes of this machine.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// lasthop's data folder, with the user's own experiments and recipes.
    data: Option<PathBuf>,
    /// Recipes already read, because many experiments share a few.
    read: RefCell<BTreeMap<String, Recipe>>,
}

impl Catalog {
    /// A catalog with lasthop's data folder, which need not exist.
    pub fn new(data: Option<PathBuf>) -> Self {
        Self {
            data,
            ..Self::default()
        }
    }

    /// Names of all experiments, the user's and the built-in ones, sorted.
    pub fn names(&self) -> Vec<String> {
        self.all_names(&EXPERIMENTS, "experiments", EXPERIMENT_FILE)
    }

    fn all_names(&self, built_in: &Dir<'static>, kind: &str, file: &str) -> Vec<String> {
        let own = self.data.iter().filter_map(|data| fs::read_dir(data.join(kind)).ok());
        let own = own.flatten().flatten().map(|entry| entry.path());
        let built_in = built_in
            .dirs()
            .filter(|dir| dir.get_file(dir.path().join(file)).is_some());
        let names: BTreeSet<String> = own
            .filter(|folder| folder.join(file).is_file())
            .chain(built_in.map(|dir| dir.path().to_owned()))
            .filter_map(|folder| Some(folder.file_name()?.to_string_lossy().into_owned()))
            // Hides templates and hidden folders.
            .filter(|name| !name.starts_with(['_', '.']))
            .collect();
        names.into_iter().collect()
    }

    /// All experiments by name, including those that cannot be loaded.
    pub fn list(&self) -> Vec<Entry> {
        let entry = |name: String| Entry {
            source: self.source(&name),
            experiment: self.load(&name),
            name,
        };
        self.names().into_iter().map(entry).collect()
    }

    /// The source of the experiment with this name.
    pub fn source(&self, name: &str) -> Source {
        let own = self.own("experiments", name, EXPERIMENT_FILE);
        own.map_or(Source::BuiltIn, |folder| {
            Source::Folder(folder.canonicalize().unwrap_or(folder))
        })
    }

    /// Loads an experiment by name or by path.
    pub fn load(&self, name: &str) -> Result<Experiment, String> {
        let Located {
            name,
            shown,
            source,
            files,
        } = self.find(name)?;
        self.check(&name, &shown, source, &files)
    }

    fn find(&self, name: &str) -> Result<Located, String> {
        // A name with a slash is a path, even if an experiment has that name.
        if name.contains('/') {
            return found_in(Path::new(name));
        }
        // The user's experiment replaces a built-in one.
        if let Some(own) = self.own("experiments", name, EXPERIMENT_FILE) {
            self.must_be_own(&own)?;
            return found_in(&own);
        }
        if let Some(files) = embedded(&EXPERIMENTS, name, EXPERIMENT_FILE) {
            let shown = format!("built-in:experiments/{name}");
            return Ok(Located {
                name: name.to_owned(),
                shown,
                source: Source::BuiltIn,
                files,
            });
        }
        if Path::new(name).join(EXPERIMENT_FILE).is_file() {
            return found_in(Path::new(name));
        }
        // `.`, or a folder that lacks its `experiment.toml`.
        if Path::new(name).is_dir() {
            return Err(no_experiment(Path::new(name)));
        }
        let advice = meant(name, self.names(), "`lasthop list --all` shows all");
        Err(format!("there is no experiment `{name}`; {advice}"))
    }

    /// All files of an experiment by path. They include, in `services/`, every recipe that its cases may use, so that
    /// the folder needs no other.
    pub fn files(&self, name: &str) -> Result<Files, String> {
        let Located {
            name,
            shown,
            source,
            mut files,
        } = self.find(name)?;
        for recipe in self.check(&name, &shown, source, &files)?.recipes.keys() {
            let folder = Path::new("services").join(recipe);
            if !files.contains_key(&folder.join(RECIPE_FILE))
                && let Some((_, shared)) = self.recipe_files(recipe)
            {
                files.extend(shared?.into_iter().map(|(path, content)| (folder.join(path), content)));
            }
        }
        Ok(files)
    }

    /// Reads an experiment from its files, by their path in the folder that messages call `shown`.
    pub fn check(&self, name: &str, shown: &str, source: Source, files: &Files) -> Result<Experiment, String> {
        let own_recipe = |path: &Path| {
            let inner = path.strip_prefix("services").ok()?;
            let name = inner.parent()?.to_str()?.to_owned();
            (inner.ends_with(RECIPE_FILE) && inner.components().count() == 2).then_some(name)
        };
        let mut names = self.recipe_names();
        names.extend(files.keys().filter_map(|path| own_recipe(path)));
        names.sort();
        names.dedup();
        let get = |recipe: &str| {
            let folder = Path::new("services").join(recipe);
            let own: Files = files
                .iter()
                .filter_map(|(path, content): (&PathBuf, &Vec<u8>)| {
                    Some((path.strip_prefix(&folder).ok()?.to_owned(), content.clone()))
                })
                .collect();
            if own.contains_key(Path::new(RECIPE_FILE)) {
                Some(validate::recipe(recipe, &format!("{shown}/services/{recipe}"), &own))
            } else {
                self.find_recipe(recipe)
            }
        };
        let recipes = Recipes { names, get: &get };
        let checked = bounded(name, size(files), || {
            validate::experiment(name, shown, source, files, &recipes)
        });
        checked.map_err(|errors| errors.to_string())
    }

    /// Names of all recipes that any experiment may use, sorted.
    pub fn recipe_names(&self) -> Vec<String> {
        self.all_names(&SERVICES, "services", RECIPE_FILE)
    }

    /// Loads a recipe by name: the user's, or a built-in one.
    pub fn recipe(&self, name: &str) -> Result<Recipe, String> {
        match self.find_recipe(name) {
            Some(found) => found.map_err(|errors| errors.to_string()),
            None => {
                let near = suggest(name, self.recipe_names()).unwrap_or_default();
                Err(format!("there is no recipe `{name}`; {near}"))
            }
        }
    }

    fn find_recipe(&self, name: &str) -> Option<Result<Recipe, Diagnostics>> {
        if let Some(read) = self.read.borrow().get(name) {
            return Some(Ok(read.clone()));
        }
        let (shown, files) = self.recipe_files(name)?;
        let found = files
            .map_err(|error| Diagnostics::from(Diagnostic::new(&shown, "", 0..0, error)))
            .and_then(|files| validate::recipe(name, &shown, &files));
        if let Ok(recipe) = &found {
            self.read.borrow_mut().insert(name.to_owned(), recipe.clone());
        }
        Some(found)
    }

    /// The folder of the recipe of this name, the user's or a built-in one, by the name that the user knows, and its
    /// files.
    fn recipe_files(&self, name: &str) -> Option<(String, Result<Files, String>)> {
        if let Some(folder) = self.own("services", name, RECIPE_FILE) {
            let files = self.must_be_own(&folder).and_then(|()| read_folder(&folder));
            return Some((folder.display().to_string(), files));
        }
        let files = embedded(&SERVICES, name, RECIPE_FILE)?;
        Some((format!("built-in:services/{name}"), Ok(files)))
    }

    fn own(&self, kind: &str, name: &str, file: &str) -> Option<PathBuf> {
        let folder = self.data.as_ref()?.join(kind).join(name);
        folder.join(file).is_file().then_some(folder)
    }

    /// Refuses a folder in the data folder that another account could have made or changed, because the user did not
    /// name that folder.
    fn must_be_own(&self, folder: &Path) -> Result<(), String> {
        let foreign = self.data.as_ref().and_then(|data| owner::foreign_on_way(data, folder));
        let foreign = foreign.or_else(|| owner::foreign_below(folder));
        foreign.map_or(Ok(()), |foreign| Err(foreign.refusal()))
    }
}

impl Experiment {
    /// The name of the experiment's folders of packages. A user's experiment may have the name of another one but need
    /// other packages. So the name includes a digest of the packages, unless they are those of the built-in experiment
    /// of that name.
    pub fn place(&self) -> String {
        let list = self.package_list();
        let is_built_in = || {
            Catalog::new(None)
                .load(&self.name)
                .is_ok_and(|one| one.package_list() == list)
        };
        if self.source == Source::BuiltIn || is_built_in() {
            return self.name.clone();
        }
        format!("{}-{}", self.name, &of_bytes(list.as_bytes())[..PLACE])
    }
}

fn no_experiment(folder: &Path) -> String {
    let shown = folder.display();
    if folder.is_dir() {
        format!("there is no {EXPERIMENT_FILE} in `{shown}`; `lasthop new NAME` makes a folder with one")
    } else {
        format!("there is no folder `{shown}`; `lasthop new NAME` makes one")
    }
}

fn found_in(folder: &Path) -> Result<Located, String> {
    if !folder.join(EXPERIMENT_FILE).is_file() {
        return Err(no_experiment(folder));
    }
    // Resolved, because `.` and `..` have no names, and a run may be resumed from another folder.
    let absolute = folder.canonicalize().map_err(|cause| unread(folder, &cause))?;
    let name = absolute
        .file_name()
        // `/` has no name.
        .map_or_else(|| "experiment".to_owned(), |name| name.to_string_lossy().into_owned());
    let files = read_folder(&absolute)?;
    let shown = folder.strip_prefix("./").unwrap_or(folder).display().to_string();
    Ok(Located {
        name,
        shown,
        source: Source::Folder(absolute),
        files,
    })
}

#[cfg(test)]
mod tests {
    use lasthop_model::selection::Selection;

    use super::*;
    use crate::plan::Plan;

    fn write(folder: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    /// A file of the built-in experiments.
    fn built_in(path: &str) -> &'static str {
        EXPERIMENTS.get_file(path).unwrap().contents_utf8().unwrap()
    }

    /// An experiment of these files, or all its errors as the user sees them, without the folder's path.
    fn load(files: &[(&str, &str)]) -> Result<Experiment, String> {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), files);
        let shown = folder.path().display().to_string();
        let found = Catalog::default().load(&shown);
        found.map_err(|error| error.replace(&shown, "FOLDER"))
    }

    fn errors(files: &[(&str, &str)]) -> String {
        load(files).unwrap_err()
    }

    fn loaded(files: &[(&str, &str)]) -> Experiment {
        load(files).unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// An experiment with a server that has no recipe, with a file and more lines in the server's table.
    fn with_command(more: &str, path: &str) -> String {
        format!(
            r#"
title = "A stack"
question = "Which?"
link = {{ from = "driver", to = "app" }}
factors.transport = {{ help = "how", levels = ["unix", "tcp"], reference = "tcp" }}

[services.app]
command = ["server", "{{{{ listen }}}}"]
{more}

[load]
target = "app"
protocol = "http"
http = {{ path = "{path}", expect = {{ status = 200 }} }}
"#
        )
    }

    #[test]
    fn braces_of_a_server_are_no_template_where_that_is_said() {
        let toml = with_command("config = { \"site\" = \"site\" }", "/");
        let raw = "put braces of the server's own between `{% raw %}` and `{% endraw %}`";
        for (text, wanted) in [
            (
                "a\nlocal t = {#arg, 1}\nb\n",
                "site:2:11: the comment that begins here has no end",
            ),
            ("proxy {{upstreams 5000}}\n", "site:1:"),
            ("to {{ .Name }}\n", "site:1:"),
            ("to {{ upstreams }}\n", "there is no `upstreams` here"),
        ] {
            let told = errors(&[("experiment.toml", &toml), ("site", text)]);
            assert!(told.contains(wanted) && told.contains(raw), "{text}: {told}");
        }
    }

    #[test]
    fn keys_of_other_tools_are_told_in_the_words_of_this_one() {
        for key in ["environment", "env"] {
            let told = errors(&[(
                "experiment.toml",
                &with_command(&format!("{key} = {{ PORT = \"1\" }}"), "/"),
            )]);
            let wanted = "write `command = [\"env\", \"PORT={{ listen.port }}\", …]`";
            assert!(
                told.contains(&format!("unknown key `{key}`")) && told.contains(wanted),
                "{told}"
            );
        }
    }

    #[test]
    fn a_request_that_cannot_be_sent_is_an_error_of_the_file() {
        let planned = |path: &str| {
            let experiment = loaded(&[("experiment.toml", &with_command("", path))]);
            Plan::new(experiment, &Selection::default()).map(drop)
        };
        assert_eq!(planned("/"), Ok(()));
        let error = planned("").unwrap_err();
        let wanted = "case unix: load.http: the request target `` does not begin with `/`";
        assert_eq!(error, wanted);
    }

    #[test]
    fn every_built_in_loads_and_plans() {
        let catalog = Catalog::default();
        let names: Vec<String> = catalog.list().into_iter().map(|entry| entry.name).collect();
        let folders = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments")).unwrap();
        let folders = folders
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.path().join(EXPERIMENT_FILE).is_file());
        let folders = folders
            .map(|entry| entry.file_name().into_string().unwrap())
            .filter(|name| !name.starts_with('_'));
        assert_eq!(names, folders.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>());
        for name in names {
            let experiment = catalog.load(&name).unwrap_or_else(|error| panic!("{error}"));
            let plan = Plan::new(experiment, &Selection::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(plan.differences, [], "{name}: cases differ in more than the link");
        }
        for name in catalog.recipe_names() {
            catalog.recipe(&name).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn every_built_in_has_a_sentence_in_the_table() {
        let experiments = built_in("README.md");
        let services = SERVICES.get_file("README.md").unwrap().contents_utf8().unwrap();
        let catalog = Catalog::default();
        for entry in catalog.list() {
            let row = format!("| [{0}]({0}/) | {1} |", entry.name, entry.experiment.unwrap().question);
            assert!(experiments.contains(&row), "experiments/README.md lacks: {row}");
        }
        for name in catalog.recipe_names() {
            assert!(
                services.contains(&format!("| [{name}]({name}/recipe.toml) |")),
                "services/README.md lacks {name}"
            );
        }
    }

    #[test]
    fn what_a_derived_quantity_cannot_be_is_named() {
        let redis = built_in("redis/experiment.toml");
        let wrong = |derive: &str| {
            let text = format!("{redis}\n[derive.q]\nhelp = \"what\"\nof = \"true\"\n{derive}\n");
            errors(&[("experiment.toml", &text)])
        };
        let exactly = "exactly one of `minus`, `per` and `crossover` is needed";
        assert!(wrong("").contains(exactly));
        assert!(wrong("per = \"bytes\"\ncrossover = \"bytes\"").contains(exactly));
        let error = wrong("per = \"byte\"");
        assert!(
            error.contains("there is no factor `byte`") && error.contains("did you mean `bytes`?"),
            "{error}"
        );
        assert!(
            wrong("crossover = \"command\"").contains("the levels of `command` are not all whole numbers of 1 or more")
        );
        assert!(wrong("minus = \"comand == 'GET'\"").contains("there is no `comand` here"));
    }

    #[test]
    fn what_an_answer_cannot_name_is_shown_in_its_place() {
        let files = built_in("ipc/experiment.toml");
        assert!(files.contains("case in cases"));
        let error = errors(&[("experiment.toml", &files.replace("case in cases", "case in case"))]);
        assert!(error.contains("there is no `case` here"), "{error}");
        let error = errors(&[("experiment.toml", &files.replace("endfor", "end"))]);
        assert!(error.contains("template: "), "{error}");
    }

    /// The experiment `redis` with these lines added to `[load]`, and without some others.
    fn at_a_rate(lines: &str, without: &str) -> String {
        let redis = built_in("redis/experiment.toml");
        assert!(redis.contains(without));
        let text = redis
            .replace(without, "")
            .replace("[load]\n", &format!("[load]\n{lines}\n"));
        errors(&[("experiment.toml", &text)])
    }

    #[test]
    fn a_rate_that_cannot_be_is_shown_in_its_place() {
        let pipeline = "pipeline = \"{{ pipeline }}\"\n";
        let impossible = at_a_rate("rate = 2000", "");
        assert!(
            impossible.contains(
                "a load at 2000 requests/s: 4 requests in a pipeline: an open loop releases requests one by one"
            ) || impossible.contains(
                "a load at 2000 requests/s: 16 requests in a pipeline: an open loop releases requests one by one"
            ),
            "{impossible}"
        );
        assert!(
            impossible.contains("| rate = 2000") && impossible.contains("exclude the combination"),
            "{impossible}"
        );
        let unused = at_a_rate("rate = -1", pipeline);
        assert!(
            unused.contains("no service and no load uses the factor `pipeline`")
                && unused.contains("write {{ pipeline }} where it should have an effect, or remove the factor"),
            "{unused}"
        );
        for (lines, text) in [
            (
                "rate = -1",
                "`-1` is not a rate: write requests per second from 0.001 to 100,000,000",
            ),
            (
                "rate = \"fast\"",
                "`fast` is not a rate: write requests per second from 0.001 to 100,000,000",
            ),
            ("rate = true", "expected a number, or a template"),
            ("rate = \"{{ 3 * connections }} or so\"", "or so` is not a rate"),
            ("rate = \"{{ rates }}\"", "there is no `rates` here"),
            (
                "arrivals = \"poisson\"",
                "`arrivals` needs an open loop, but there is no `rate`",
            ),
            ("rate = 5\narrivals = \"poison\"", "did you mean `poisson`?"),
            (
                "rate = \"{{ pipeline }}\"\narrivals = \"{{ command }}\"",
                "`arrivals` is `GET`, expected constant or poisson",
            ),
        ] {
            let error = at_a_rate(lines, "");
            assert!(
                error.contains(text) && error.contains("experiment.toml:"),
                "{lines}: {error}"
            );
        }
    }

    /// Errors of `redis` with `lines` in `[load]` and the level `wrong` of `connections`: from a file that lists the
    /// level, and from the plan of a run that chooses the level, with a valid file.
    fn both_ways(lines: &str, wrong: i64) -> [String; 2] {
        let redis = built_in("redis/experiment.toml");
        let with = |levels: &str| {
            redis
                .replace("levels = [1, 50]\ndefault = [50]", levels)
                .replace("[load]\n", &format!("[load]\n{lines}\n"))
                .replace(
                    "pipeline = \"{{ pipeline }}\"",
                    "pipeline = \"{{ pipeline if pipeline < 4 else 1 }}\"",
                )
        };
        let folder = tempfile::tempdir().unwrap();
        let shown = folder.path().display().to_string();
        write(
            folder.path(),
            &[("experiment.toml", &with("levels = [1]\ndefault = [1]"))],
        );
        let experiment = Catalog::default()
            .load(&shown)
            .unwrap_or_else(|error| panic!("{error}"));
        let set = vec![format!("connections={wrong}").parse().unwrap()];
        let planned = Plan::new(
            experiment,
            &Selection {
                set,
                ..Selection::default()
            },
        )
        .unwrap_err();
        let listed = format!("levels = [1, {wrong}]\ndefault = [1]");
        [
            errors(&[("experiment.toml", &with(&listed))]),
            planned.to_string().replace(&shown, "FOLDER"),
        ]
    }

    #[test]
    fn a_flaw_of_the_rate_has_the_same_words_in_a_file_and_in_a_plan() {
        for (lines, message, help) in [
            (
                "rate = \"{{ 5 - connections }}\"",
                "`-2` is not a rate: write requests per second from",
                "",
            ),
            (
                "rate = 100\narrivals = \"{{ 'poisson' if connections < 2 else 'lumpy' }}\"",
                "`arrivals` is `lumpy`, expected constant or poisson",
                "",
            ),
            (
                "rate = 100\nrequests_per_connection = \"{{ connections }}\"",
                "a load at 100 requests/s: 7 requests for each connection: ",
                "exclude the combination ([[exclude]]), or set `rate` to 0 there",
            ),
            (
                "rate = \"{{ 100 if connections < 2 else [].a.b }}\"",
                "template: undefined value",
                "",
            ),
        ] {
            let [file, plan] = both_ways(lines, 7);
            assert!(file.contains(message) && file.contains(help), "{lines}: {file}");
            assert!(file.starts_with("FOLDER/experiment.toml:"), "{lines}: {file}");
            let (case, said) = plan.split_once(": ").unwrap();
            assert!(case.starts_with("case unix"), "{plan}");
            assert_eq!(said, file.trim_end(), "{lines}");
        }
    }

    #[test]
    fn a_rate_that_depends_on_an_address_is_left_to_the_plan() {
        let rate = "rate = \"{{ redis.port - 100000 if transport == 'tcp' else 0 }}\"";
        let toml = built_in("redis/experiment.toml").replace("[load]\n", &format!("[load]\n{rate}\n"));
        let experiment = loaded(&[("experiment.toml", &toml)]);
        let error = Plan::new(experiment, &Selection::default()).unwrap_err().to_string();
        assert!(
            error.starts_with("case tcp/") && error.contains("` is not a rate: write requests"),
            "{error}"
        );
        assert!(
            error.contains("experiment.toml:") && error.contains("| rate = "),
            "{error}"
        );
    }

    #[test]
    fn a_target_that_a_case_does_not_have_is_named() {
        let text = |path: &str| built_in(&format!("containers/{path}"));
        let wrong = |from: &str, to: &str| {
            let toml = text("experiment.toml");
            assert!(toml.contains(from), "{from}");
            errors(&[
                ("experiment.toml", &toml.replace(from, to)),
                ("nginx.conf.j2", text("nginx.conf.j2")),
                ("haproxy.cfg.j2", text("haproxy.cfg.j2")),
                ("app/application.py", text("app/application.py")),
            ])
        };
        let target = "{{ 'haproxy' if front == 'haproxy' else 'nginx' }}";
        let unknown = wrong(target, "{{ 'haproxi' if front == 'haproxy' else 'nginx' }}");
        assert!(
            unknown.contains("there is no service `haproxi`") && unknown.contains("`haproxy`?"),
            "{unknown}"
        );
        let absent = wrong(target, "{{ 'haproxy' if front == 'none' else 'nginx' }}");
        assert!(
            absent.contains("the driver talks to `haproxy`, whose `count` is 0 in some case: it must be 1"),
            "{absent}"
        );
        assert!(wrong(target, "{{ nginx.address }}").contains("there is no `nginx` here"));
        assert!(wrong("from = \"nginx\"", "from = \"driver\"").contains("the driver must talk over the link"));
    }

    #[test]
    fn the_users_own_go_before_the_built_in() {
        let data = tempfile::tempdir().unwrap();
        let without = Catalog::default();
        let toml = built_in("sockets/experiment.toml").replacen("title = \"", "title = \"My own ", 1);
        let recipe = SERVICES
            .get_file("lasthop-serve/recipe.toml")
            .unwrap()
            .contents_utf8()
            .unwrap();
        let recipe = recipe.replacen("summary = \"", "summary = \"My own ", 1);
        write(
            data.path(),
            &[
                ("experiments/sockets/experiment.toml", &toml),
                ("experiments/sockets/app/server.py", ""),
                ("services/lasthop-serve/recipe.toml", &recipe),
            ],
        );
        let catalog = Catalog::new(Some(data.path().to_owned()));
        let own = catalog.load("sockets").unwrap_or_else(|error| panic!("{error}"));
        assert!(own.title.starts_with("My own "));
        assert!(own.recipes["lasthop-serve"].summary.starts_with("My own "));
        assert!(matches!(own.source, Source::Folder(_)));
        assert_eq!(catalog.names(), without.names());
        assert_eq!(without.load("sockets").unwrap().source, Source::BuiltIn);
    }

    /// Errors of shape and of meaning: the former hide none of the latter.
    const MANY_ERRORS: &str = r#"
titel = "A stack"
question = "Which?"
link = { from = "driver", to = "ap" }
exclude = [{ when = "size >", because = "it is wrong" }]
factors.transport = { help = "how", levels = ["unix", "tpc"], default = ["unix", "tcp"], reference = "tls" }
factors.connections = { help = "connections", levels = [1, 10], range = [1, 5], reference = 1 }
factors.unused = { help = "nothing depends on it", levels = [true, true], when = "later" }
factors.later = { help = "declared too late", levels = ["a"] }
factors.listen = { help = "has a meaning", levels = ["a"] }

[services.app]
recipe = "gunicorn"
needs = ["database", "cache"]
app = "source"
[services.app.config]
"app.conf" = "app.conf.j2"
"other.conf" = "app.conf.j3"
"third.conf" = "other.conf.j2"
"../up.conf" = "up.conf.j2"

[services.cache]
recipe = "{{ recipe }}"
listen = "unix"
needs = ["app"]
settings = { size = "{{ app.adress }}", "kebab-case" = 1 }

[services.own]
recipe = "gunicorn"
listen = "tcp"
needs = ["own"]

[load]
target = "cache"
protocol = "htpp"
connections = "{{ conections }}"
reuse = "keepalive"
nodelay = 1
driver = ["{{ app.directory"]
http = { path = "/", expect = { status = 200 } }

[defaults]
trial = "0s"
precision = "2"
"#;

    #[test]
    fn every_error_at_once() {
        let broken = "a\n{% if connections %}\n  b\n";
        let unknown = "# worker\nworker_processes {{ worker }};\n  listen {{ listen.adress }};\n";
        let files = [
            ("experiment.toml", MANY_ERRORS),
            ("app.conf.j2", broken),
            ("up.conf.j2", unknown),
        ];
        insta::assert_snapshot!(errors(&files));
    }

    #[test]
    fn what_tcp_meets_is_checked() {
        let with = |experiment: &str, network: &str| {
            let file = built_in(&format!("{experiment}/experiment.toml"));
            let text = format!("{file}\n[network]\n{network}\n");
            errors(&[("experiment.toml", &text)])
        };
        for (experiment, network, wanted) in [
            (
                "containers",
                "mtu = 1500",
                "runs in a container, which has a network of its own",
            ),
            ("sockets", "rules = \"{{ patern }}\"", "`patern`"),
            ("sockets", "mtu = true", "expected a whole number"),
            (
                "sockets",
                "sysctls = { \"vm.swappiness\" = \"1\" }",
                "is no setting of a network namespace",
            ),
            ("sockets", "rule = \"\"", "unknown key `rule`"),
        ] {
            let found = with(experiment, network);
            assert!(found.contains(wanted), "{network}: {found}");
        }
    }

    #[test]
    fn every_error_of_syntax_at_once() {
        let text = "title = \"x\nquestion = 'y\n[link\nfrom = driver\nto = \"app\"\nto = \"app\"\nwrong = 1\n";
        insta::assert_snapshot!(errors(&[("experiment.toml", text)]));
    }

    fn template_with(edit: impl Fn(&str) -> String, recipe: impl Fn(&str) -> String) -> String {
        let recipe = recipe(built_in("_template/services/python-app/recipe.toml"));
        let toml = edit(built_in("_template/experiment.toml"));
        errors(&[
            ("experiment.toml", &toml),
            ("app/server.py", ""),
            ("services/python-app/recipe.toml", &recipe),
        ])
    }

    #[test]
    fn every_error_of_a_recipe_at_once() {
        let recipe = r#"
summary = "wrong"
[program]
lasthop = true
names = ["x"]
version = { arguments = [], pattern = "(a" }
[listen.unix]
arguments = ["{{ listen.pth }}"]
[listen.sctp]
[settings.Size]
help = "a name that cannot be one"
[start]
arguments = ["{{ transport }}", "{{ is_rot }}"]
[ready]
check = "connect"
path = "/"
timeout = "soon"
[stop]
signal = "term"
"#;
        insta::assert_snapshot!(template_with(str::to_owned, |_| recipe.to_owned()));
    }

    /// The template with a command instead of the recipe, and with more keys.
    fn commanded(command: &str, more: &str) -> String {
        built_in("_template/experiment.toml").replace("recipe = \"python-app\"\n", &format!("{command}\n{more}\n"))
    }

    #[test]
    fn a_command_takes_the_place_of_a_recipe() {
        let bind = "bind.tcp.arguments = [\"--port\", \"{{ listen.port }}\", \"-c{{ connections }}\"]";
        let toml = commanded("command = [\"python3\", \"app/server.py\", \"{{ listen }}\"]", bind);
        let experiment = loaded(&[("experiment.toml", &toml), ("app/server.py", "")]);
        let plan = Plan::new(experiment, &Selection::default()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(plan.differences, [], "cases differ in the link only");
        assert_eq!(plan.stacks[0].services["app"].recipe, "app");
        let recipe = &plan.experiment.recipes["app"];
        let listen: Vec<_> = recipe
            .listen
            .iter()
            .map(|(name, listen)| (name.name(), listen.arguments.concat()))
            .collect();
        let expected = [
            ("unix", "{{ listen.path }}"),
            ("abstract", "@{{ listen.name }}"),
            ("tcp", "--port{{ listen.port }}-c{{ connections }}"),
            ("tcp6", "{{ listen.address }}"),
        ];
        assert_eq!(listen, expected.map(|(name, text)| (name, text.to_owned())));
    }

    /// An experiment that compares two builds, with this link and these factors.
    fn builds(link: &str, factors: &str) -> String {
        format!(
            "title = \"builds\"\nquestion = \"Is the new build slower?\"\n[link]\nfrom = \"driver\"\nto = \"srv\"\n{link}\n{factors}\n\
             [services.srv]\ncommand = [\"env\", \"app/srv-{{{{ build }}}}\", \"{{{{ listen }}}}\"]\napp = \"app\"\n\
             [load]\ntarget = \"srv\"\nprotocol = \"http\"\n[load.http]\npath = \"/\"\nexpect = {{ status = 200 }}\n"
        )
    }

    const BUILD: &str = "[factors.build]\nhelp = \"the build\"\nlevels = [\"old\", \"new\"]\nreference = \"old\"\n";
    const TRANSPORTS: &str = "[factors.transport]\nhelp = \"the way\"\nlevels = [\"unix\", \"tcp\"]\n";

    #[test]
    fn any_factor_may_have_the_reference() {
        let plan = |link: &str, factors: &str| {
            let toml = builds(link, factors);
            let experiment = loaded(&[("experiment.toml", &toml), ("app/srv-old", ""), ("app/srv-new", "")]);
            Plan::new(experiment, &Selection::default()).unwrap_or_else(|error| panic!("{error}"))
        };
        let cases = |plan: &Plan| -> Vec<(String, String)> {
            let named = plan.cases.iter();
            let both = named.map(|case| (case.case.clone(), case.reference.clone().unwrap_or_default()));
            both.collect()
        };
        let pair = |case: &str, reference: &str| (case.to_owned(), reference.to_owned());
        let one = plan("transport = \"tcp\"", BUILD);
        assert_eq!(one.experiment.compared(), "build");
        assert_eq!(cases(&one), [pair("old", ""), pair("new", "old")]);
        assert_eq!(one.differences, [], "the builds are to differ");
        let each = plan("", &format!("{TRANSPORTS}{BUILD}"));
        let expected = [
            pair("old/transport=unix", ""),
            pair("old/transport=tcp", ""),
            pair("new/transport=unix", "old/transport=unix"),
            pair("new/transport=tcp", "old/transport=tcp"),
        ];
        assert_eq!(cases(&each), expected);
    }

    #[test]
    fn one_factor_has_the_reference() {
        let error =
            |link: &str, factors: &str| errors(&[("experiment.toml", &builds(link, factors)), ("app/srv-old", "")]);
        let without = BUILD.replace("reference = \"old\"\n", "");
        for (link, factors, said) in [
            ("", without.clone(), "the factor `transport` is missing"),
            ("transport = \"tcp\"", without.clone(), "no factor has a `reference`"),
            (
                "",
                format!("{TRANSPORTS}{without}"),
                "`reference` is missing, the transport that others",
            ),
            ("", BUILD.to_owned(), "`transport` is missing"),
            (
                "transport = \"tcp\"",
                format!("{TRANSPORTS}{BUILD}"),
                "already determines the transport",
            ),
            (
                "",
                format!("{TRANSPORTS}reference = \"tcp\"\n{BUILD}"),
                "`transport` has a reference already",
            ),
            (
                "transport = \"tcp\"",
                BUILD.replace("\"old\"\n", "\"older\"\n"),
                "`older` is not one of the levels",
            ),
        ] {
            let found = error(link, &factors);
            assert!(found.contains(said), "{said}: {found}");
        }
    }

    #[test]
    fn what_a_command_cannot_be_is_said() {
        let command = "command = [\"python3\", \"{{ listen }}\"]";
        let other = "app = \"app\"\n[services.other]\nrecipe = \"app\"\nlisten = \"tcp\"";
        for (command, more, error) in [
            ("", "", "this service has neither `recipe` nor `command`"),
            (
                command,
                "recipe = \"python-app\"",
                "`recipe` says already how to start this service",
            ),
            (
                "recipe = \"nginx\"",
                "bind.unix.config = \"x\"",
                "`bind` belongs to a `command`, not to a recipe",
            ),
            (
                "recipe = \"nginx\"",
                "ready = { check = \"connect\" }",
                "`ready` belongs to a `command`",
            ),
            (
                "command = [\"app/server\"]",
                "",
                "`app/server` is no program that can be found before the start",
            ),
            (
                "command = [\"x\", \"{{ listen.pth }}\"]",
                "",
                "`listen` has no attribute `pth`",
            ),
            (
                "recipe = \"nginx\"",
                "connect.unix = \"x\"",
                "`connect` belongs to a `command`",
            ),
            (command, "connect.tcp = \"{{ hots }}\"", "did you mean `host`?"),
            (command, "bind.tcp.file = \"x\"", "only a Unix socket has a file name"),
            (
                command,
                "ready = { check = \"http\", command = [] }",
                "`command` does not belong to this check",
            ),
            (
                command,
                "container = { network = \"bridge\" }",
                "a service in a container needs a recipe",
            ),
            (command, other, "`app` is also a service with a `command`"),
            (
                "command = [\"x\", \"8000\"]",
                "bind.unix.arguments = [\"{{ listen.path }}\"]",
                "nothing tells this server where to listen: `{{ listen }}` is missing",
            ),
            (
                "command = [\"x\", \"8000\"]",
                "",
                "nothing tells this server where to listen",
            ),
            (
                "command = [\"x\", \"{{ listen.address }}\"]",
                "bind.unix.arguments = [\"--uds\", \"{{ listen.path }}\"]",
                "these arguments are used nowhere",
            ),
            (
                command,
                "bind.tcp.arguments = [\"tcp\", \"{{ listen }}\"]",
                "`{{ listen }}` is empty here, without a `config`",
            ),
            (
                "command = [\"x\", \"--bind={{ listen }}\"]",
                "bind.tcp.url = \"x\"",
                "`{{ listen }}` is empty within this word: `bind.tcp` has no `config`",
            ),
        ] {
            // The line is removed because the template has its own `app`.
            let toml = commanded(command, more).replacen("listen = \"tcp\"\napp = \"app\"", "listen = \"tcp\"", 1);
            let said = errors(&[("experiment.toml", &toml), ("app/server.py", "")]);
            assert!(
                said.contains(error) && said.contains("experiment.toml:"),
                "{error} in {said}"
            );
        }
        let tls = commanded(command, "").replace("\"unix\", \"tcp\"", "\"unix\", \"tls\", \"tcp\"");
        let said = errors(&[("experiment.toml", &tls), ("app/server.py", "")]);
        assert!(said.contains("recipe `app` cannot listen on tls"), "{said}");
    }

    /// Changes of the template, the place of the error in each, and a part of its message.
    const UNREADABLE: &str = r#"
title = -> titel = @ 3:1 @ unknown key `titel`
title = -> # @ 1:1 @ `title` is missing
to = "app" -> # @ 7:2 @ `to` is missing in `link`
from = "driver" -> from = 1 @ 8:8 @ expected text, found `1`
["unix", "tcp"] -> "unix" @ 15:10 @ expected a list, found the text `unix`
"unix", "tcp" -> 1.5 @ 15:11 @ expected text, a whole number, true or false
levels = [1, 4]\ndefault = [1] -> levels = [] @ 20:10 @ at least one level is needed
[1, 1000] -> [1] @ 22:9 @ expected a list of 2, found a list of 1
[1, 1000] -> 3 @ 22:9 @ expected a list of 2, found `3`
1000 -> 10000000000000000000 @ 22:13 @ this number is out of range
app = "app" -> app = { x = 1 } @ 28:7 @ expected text, found a table
app = "app" -> bind.tpc = {} @ 28:6 @ did you mean `tcp`?
recipe = "python-app"\napp = "app" -> command = ["x", "{{ listen }}"]\nbind.tcp.file = 2 @ 28:17 @ expected text, found `2`
app = "app" -> listen = "upd" @ 28:10 @ did you mean `udp`?
app = "app" -> packages = { aptt = [] } @ 28:14 @ did you mean `apt`?
app = "app" -> packages = { python = ["flask"] } @ 28:24 @ a requirement with its version such as "flask==3.1.3", found the text `flask`
reuse = -> reusse = @ 35:1 @ did you mean `reuse`?
target = -> targett = @ 32:1 @ did you mean `target`?
reuse = "keep-alive" -> threads = [2] @ 35:11 @ expected a whole number, or a template such as "{{ NAME }}", found a list of 1
reuse = "keep-alive" -> threads = "two" @ 35:11 @ or a template such as "{{ NAME }}", found the text `two`
path = "/" -> path = 1 @ 38:8 @ expected text, found `1`
path = "/" -> # @ 37:7 @ `path` is missing in `load.http`
path = "/" -> path = "/"\nversion = "3" @ 39:11 @ `3` is not one of 1.0, 1.1, 2
status = -> statuss = @ 41:1 @ did you mean `status`?
status = 200 -> status = 70000 @ 41:10 @ expected a whole number from 0 to 65535
status = 200 -> status = 99 @ 41:10 @ the status 99 to be expected is not one of a final reply (200 to 599)
"20s" -> 20 @ 45:10 @ `20` has no unit
budget = "20s" -> blocks = 1 @ 45:10 @ expected a whole number from 2 to 10000
"#;

    #[test]
    fn a_value_that_cannot_be_read_is_shown_in_its_place() {
        for row in UNREADABLE.trim().lines() {
            let row = row.replace("\\n", "\n");
            let [change, place, said] = row.split(" @ ").collect::<Vec<_>>()[..] else {
                panic!("{row}")
            };
            let (from, to) = change.split_once(" -> ").unwrap();
            let told = template_with(|toml| toml.replacen(from, to, 1), str::to_owned);
            let first = format!("FOLDER/experiment.toml:{place}: ");
            assert!(told.starts_with(&first) && told.contains(said), "{row}: {told}");
            assert_eq!(told.matches("FOLDER/experiment.toml:").count(), 1, "{row}: {told}");
        }
    }

    #[test]
    fn a_template_stands_for_any_parameter_of_a_protocol() {
        let templates = |toml: &str| {
            toml.replace("status = 200", "status = \"{{ 199 + connections }}\"")
                .replace("path = \"/\"", "path = \"/{{ conections }}\"")
        };
        let told = template_with(templates, str::to_owned);
        assert!(told.contains("did you mean `connections`?"), "{told}");
        assert!(!told.contains("status") && !told.contains("missing"), "{told}");
    }

    #[test]
    fn what_lasthop_does_not_speak_needs_a_driver() {
        let custom =
            |toml: &str| toml.replace("\"http\"", "\"custom\"") + "[load.custom]\nbytes = \"{{ connections }}\"\n";
        let said = template_with(custom, str::to_owned);
        assert!(said.contains("`custom` needs a driver of your own"), "{said}");
    }

    #[test]
    fn a_recipe_that_does_not_fit_is_an_error_of_the_experiment() {
        let tls = |text: &str| text.replace(r#"levels = ["unix", "tcp"]"#, r#"levels = ["unix", "tls", "tcp"]"#);
        let recipe = |name: &'static str| move |text: &str| text.replace(r#"recipe = "python-app""#, name);
        let setting = |text: &str| text.replace("app = \"app\"", "app = \"app\"\nsettings = { backlg = 5 }");
        let same = |text: &str| text.to_owned();
        insta::assert_snapshot!(format!(
            "{}\n{}\n{}\n{}",
            template_with(tls, same),
            template_with(recipe(r#"recipe = "python-ap""#), same),
            template_with(recipe(r#"recipe = "gunicorn""#), same),
            template_with(setting, same),
        ));
    }
}
