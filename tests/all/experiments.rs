//! Brief runs of every experiment on its real servers. `tests/experiments/NAME.toml` lists the runs of the experiment
//! NAME and what their results must show; `_every.toml` has what every result must show. [`Tests`] and [`Run`] are the
//! keys of these files.
//!
//! `LASTHOP_TEST=servers cargo test --test all experiments::redis` tests one experiment.

use std::{
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use minijinja::{Environment, Expression, UndefinedBehavior, Value, context, value::ValueKind};
use serde::{Deserialize, de::DeserializeOwned};

use crate::common::{BRIEF, Lasthop, Ran, go_is_warm, have_setup, is_set_up, leave_out, servers};

// One test for each folder of `experiments`, from build.rs.
include!(concat!(env!("OUT_DIR"), "/experiments.rs"));

/// HAProxy writes `unix@/path` where nginx writes `unix:/path`, and Redis cannot tell its connections apart.
#[test]
fn haproxy_redis() {
    test("haproxy-redis");
}

/// lighttpd has no recipe, and writes host and port as two settings.
#[test]
fn lighttpd_php() {
    test("lighttpd-php");
}

/// Name of the file whose expressions hold for every run.
const EVERY: &str = "_every";

/// A file of `tests/experiments`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tests {
    /// The file of `tests/all` that tests the experiment instead, because the runs need more than its servers.
    tested_by: Option<String>,
    /// Why the servers may be missing, although `script/setup` has run.
    optional: Option<String>,
    /// A recipe in Go, whose server is compiled before the runs: a start has a deadline.
    go: Option<String>,
    /// Runs by name.
    #[serde(default)]
    run: BTreeMap<String, Run>,
}

/// A brief run and what its result must show, in expressions of minijinja.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Run {
    /// Whether the run starts no server except lasthop's own, as in `cargo test` alone.
    quick: bool,
    /// Replacements in a copy of `experiment.toml`: old text and new text.
    replace: Vec<[String; 2]>,
    /// Options of `lasthop run`.
    choices: String,
    /// A part of the cause of each failure, or of the error if nothing ran. `_every.toml` does not apply.
    fails: Option<String>,
    /// The exit code: by default 1 for a run with `fails`, otherwise 0.
    code: Option<i32>,
    /// Number of cases.
    cases: Option<usize>,
    /// Services with CPU time in every case, sorted.
    roles: Option<Vec<String>>,
    /// Expressions over the result (`docs/schema/result.json`).
    holds: Vec<String>,
    /// Expressions over every element of a list in the result, by the name of the list. Fields of the element hide
    /// those of the result.
    every: BTreeMap<String, Vec<String>>,
}

/// The file [`EVERY`], with two keys of [`Run`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Every {
    holds: Vec<String>,
    every: BTreeMap<String, Vec<String>>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn folder() -> PathBuf {
    root().join("tests/experiments")
}

/// Reads a file of `tests/experiments`.
fn read<T: DeserializeOwned>(name: &str) -> T {
    let file = format!("{name}.toml");
    let text = fs::read_to_string(folder().join(&file));
    let text = text.unwrap_or_else(|error| panic!("tests/experiments/{file}, the test of {name}: {error}"));
    toml::from_str(&text).unwrap_or_else(|error| panic!("tests/experiments/{file}: {error}"))
}

/// The experiment as `lasthop run` takes it: its name, or its folder beside its file if it is only for tests.
fn place(experiment: &str) -> String {
    let own = folder().join(experiment);
    if own.is_dir() {
        own.into_os_string().into_string().unwrap()
    } else {
        experiment.to_owned()
    }
}

fn test(experiment: &str) {
    let tests: Tests = read(experiment);
    if let Some(file) = tests.tested_by {
        let text = fs::read_to_string(root().join("tests/all").join(&file)).unwrap();
        assert!(
            text.contains(&format!("\"{experiment}\"")),
            "{file} does not test {experiment}"
        );
        return;
    }
    let is_ready = LazyCell::new(|| {
        let is_ready = match &tests.optional {
            Some(why) => servers() && (is_set_up(&place(experiment)) || leave_out(why)),
            None => have_setup(&place(experiment)),
        };
        if let (true, Some(recipe)) = (is_ready, &tests.go) {
            go_is_warm(recipe);
        }
        is_ready
    });
    let every: Every = read(EVERY);
    let mut wrong = Vec::new();
    for (name, run) in tests.run.iter().filter(|(_, run)| run.quick || *is_ready) {
        let found = run.wrong(experiment, &every).into_iter();
        wrong.extend(found.map(|found| format!("tests/experiments/{experiment}.toml, run.{name}: {found}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

impl Run {
    /// Runs the experiment. Returns everything that is wrong.
    fn wrong(&self, experiment: &str, every: &Every) -> Vec<String> {
        let lasthop = Lasthop::new();
        if !self.replace.is_empty()
            && let Err(missing) = self.change(&lasthop.own_copy(experiment).join("experiment.toml"))
        {
            return vec![missing];
        }
        let choices = self.choices.split_whitespace();
        let ran = lasthop.run(["run", &place(experiment)].into_iter().chain(BRIEF).chain(choices));
        let Ran { code, stdout, stderr } = &ran;
        let mut wrong = Vec::new();
        let wanted = self.code.unwrap_or(i32::from(self.fails.is_some()));
        if *code != Some(wanted) {
            wrong.push(format!("the exit code is {code:?}, not {wanted}:\n{stderr}"));
        }
        let result = serde_json::from_str::<serde_json::Value>(stdout).map(Value::from_serialize);
        match (&self.fails, &result) {
            (None, Err(error)) => {
                wrong.push(format!("there is no result ({error}):\n{stdout}\n{stderr}"));
                return wrong;
            }
            (None, Ok(result)) => {
                let found = refuted(&every.holds, &every.every, result).into_iter();
                wrong.extend(found.map(|found| format!("{EVERY}.toml: {found}")));
            }
            (Some(text), Ok(result)) => {
                wrong.extend(refuted_of_each(
                    "fails",
                    "failures",
                    &[format!("{text:?} in cause")],
                    result,
                ));
            }
            (Some(text), Err(_)) if stderr.contains(text) => {}
            (Some(text), Err(_)) => wrong.push(format!("fails: {text:?} is not in:\n{stderr}")),
        }
        wrong.extend(self.refuted(&result.unwrap_or_default()));
        wrong
    }

    fn change(&self, file: &Path) -> Result<(), String> {
        let mut text = fs::read_to_string(file).unwrap();
        for [from, to] in &self.replace {
            if !text.contains(from) {
                return Err(format!("replace: `{from}` is not in experiment.toml"));
            }
            text = text.replace(from, to);
        }
        fs::write(file, text).unwrap();
        Ok(())
    }

    /// What the result shows otherwise.
    fn refuted(&self, result: &Value) -> Vec<String> {
        let mut wrong = Vec::new();
        let cases: Vec<String> = elements("cases", result).iter().map(name).collect();
        if let Some(wanted) = self.cases.filter(|wanted| *wanted != cases.len()) {
            wrong.push(format!("cases: not {wanted} but {}: {}", cases.len(), cases.join(", ")));
        }
        if let Some(roles) = &self.roles {
            let are_these = format!("metrics.cpu_per_request.roles | sort == {roles:?}");
            wrong.extend(refuted_of_each("roles", "cases", &[are_these], result));
        }
        wrong.extend(refuted(&self.holds, &self.every, result));
        wrong
    }
}

/// The expressions of `holds` and `every` that a result refutes, each with the reason.
fn refuted(holds: &[String], every: &BTreeMap<String, Vec<String>>, result: &Value) -> Vec<String> {
    let whole = holds
        .iter()
        .filter_map(|expression| not_true("holds", expression, result));
    let each = every
        .iter()
        .flat_map(|(list, expressions)| refuted_of_each(&format!("every.{list}"), list, expressions, result));
    whole.chain(each).collect()
}

/// The expressions of a key that an element of a list refutes. An empty list is wrong, too: it would make every
/// expression true.
fn refuted_of_each(key: &str, list: &str, expressions: &[String], result: &Value) -> Vec<String> {
    let elements = elements(list, result);
    if elements.is_empty() {
        return vec![format!("{key}: there are no {list}")];
    }
    let mut wrong = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        let facts = context! { ..element.clone(), ..result.clone() };
        let key = format!("{key}: {list}[{index}] {}", name(element));
        let key = key.trim_end();
        wrong.extend(
            expressions
                .iter()
                .filter_map(|expression| not_true(key, expression, &facts)),
        );
    }
    wrong
}

/// A list in a result.
fn elements(list: &str, result: &Value) -> Vec<Value> {
    let elements = result.get_attr(list).and_then(|list| list.try_iter());
    elements.map_or_else(|_| Vec::new(), Iterator::collect)
}

/// The name of the case that an element of a list is about.
fn name(element: &Value) -> String {
    element.get_attr("case").unwrap_or_default().to_string()
}

fn not_true(key: &str, expression: &str, facts: &Value) -> Option<String> {
    let why = holds(expression, facts).err()?;
    Some(format!("{key}: not true: {expression}\n{why}"))
}

/// Evaluates an expression. The error has the values of all names. An unknown name is an error, and so are an
/// expression without names and a value that is neither true nor false: such an expression cannot fail.
fn holds(expression: &str, facts: &Value) -> Result<(), String> {
    let expression = compiled(expression)?;
    let mut values = String::new();
    for name in BTreeSet::from_iter(expression.undeclared_variables(true)) {
        let found = name
            .split('.')
            .try_fold(facts.clone(), |value, key| value.get_attr(key));
        let found = found.ok().filter(|value| !value.is_undefined());
        let found = found.ok_or_else(|| format!("there is no {name}"))?;
        values += &format!("{name} is {found:?}\n");
    }
    let value = expression.eval(facts).map_err(|error| format!("{error:#}"))?;
    if values.is_empty() || value.kind() != ValueKind::Bool {
        return Err(format!("it is always {value:?}"));
    }
    if value.is_true() { Ok(()) } else { Err(values) }
}

fn compiled(expression: &str) -> Result<Expression<'static, 'static>, String> {
    static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment
    });
    let compiled = ENVIRONMENT.compile_expression_owned(expression.to_owned());
    compiled.map_err(|error| format!("{error:#}"))
}

#[test]
fn every_file_belongs_to_an_experiment_and_can_be_read() {
    let shared: Every = read(EVERY);
    can_be_read(&shared.holds, &shared.every, EVERY);
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if path.is_dir() || name == EVERY {
            continue;
        }
        let places = ["experiments", "tests/experiments"].map(|place| root().join(place).join(name));
        assert!(
            places.iter().any(|place| place.join("experiment.toml").exists()),
            "there is no experiment {name}"
        );
        let tests: Tests = read(name);
        assert!(
            tests.tested_by.is_some() == tests.run.is_empty(),
            "{name}: either runs, or the file that tests the experiment"
        );
        for (what, run) in &tests.run {
            let what = format!("{name}, run.{what}");
            assert!(run.fails.is_some() || run.cases.is_some(), "{what}: how many cases?");
            can_be_read(&run.holds, &run.every, &what);
        }
    }
}

fn can_be_read(holds: &[String], every: &BTreeMap<String, Vec<String>>, what: &str) {
    for expression in holds.iter().chain(every.values().flatten()) {
        compiled(expression).unwrap_or_else(|error| panic!("{what}: {expression}: {error}"));
    }
}

#[test]
fn an_expression_that_cannot_fail_is_an_error() {
    let facts = context! { proof => context! { family => "inet" }, transport => "unix" };
    assert_eq!(holds("proof.family != transport", &facts), Ok(()));
    for (expression, why) in [
        (
            "proof.family == transport",
            "proof.family is \"inet\"\ntransport is \"unix\"\n",
        ),
        ("proof.famly != transport", "there is no proof.famly"),
        ("not link", "there is no link"),
        ("transport", "it is always \"unix\""),
        ("1 == 1", "it is always True"),
    ] {
        assert_eq!(holds(expression, &facts), Err(why.to_owned()));
    }
}

#[test]
fn everything_wrong_with_a_result_is_reported() {
    let cases = [("unix", 5), ("tcp", 0)].map(|(case, requests)| context! { case, requests });
    let result = context! { cases => cases.to_vec(), checks => Vec::<Value>::new(), requests => 7 };
    let run = |text: &str| toml::from_str::<Run>(text).unwrap().refuted(&result);
    assert_eq!(
        run("cases = 2\nholds = ['requests == 7']\nevery.cases = ['requests < 7']"),
        [] as [String; 0]
    );
    let wrong = run("cases = 3\nholds = ['requests == 8']\nevery = { cases = ['requests > 0'], checks = ['case'] }");
    assert_eq!(
        wrong,
        [
            "cases: not 3 but 2: unix, tcp",
            "holds: not true: requests == 8\nrequests is 7\n",
            "every.cases: cases[1] tcp: not true: requests > 0\nrequests is 0\n",
            "every.checks: there are no checks",
        ]
    );
    assert!(toml::from_str::<Run>("case = 2").is_err(), "an unknown key");
}
