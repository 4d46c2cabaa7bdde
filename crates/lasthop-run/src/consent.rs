//! Consent to resume a record that may be somebody else's. Records are shared, and resuming a record executes the
//! commands in it.

use std::{path::Path, time::Duration};

use lasthop_model::{
    quantity::{rate_text, written},
    record::{ComparedEndpoints, GivenEndpoint, Origin, Settings},
    selection::Choice,
};
use lasthop_page::text;
use lasthop_plan::model::{Experiment, Recipe, Source};
use lasthop_protocol::spec::Spec;
use lasthop_stack::container::containerfile::FILE;
use serde_json::Value;

/// What the user must confirm before a run is resumed.
#[derive(Debug, thiserror::Error)]
#[error(
    "run {run} may be somebody else's: {because}. Resuming it executes what its record names:\n{}",
    executed.iter().map(|one| format!("  - {}", text::line(one))).collect::<Vec<_>>().join("\n")
)]
pub struct Consent {
    pub run: String,
    /// Why the record may not be this user's.
    pub because: String,
    /// Programs, commands and hosts, one line each.
    pub executed: Vec<String>,
}

/// Everything that resuming the run executes or connects to because the record says so, one line each.
pub fn executed(
    origin: &Origin,
    settings: &Settings,
    given: Option<&ComparedEndpoints>,
    experiment: &Experiment,
) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(given) = given {
        lines.extend(given.endpoints.iter().flat_map(|(name, endpoint)| load(name, endpoint)));
        lines.extend(
            given
                .pids
                .iter()
                .map(|(role, pid)| format!("a look at the CPU time of process {pid}, as {role}")),
        );
        lines.extend(given.restart.iter().map(|command| format!("the command {command}")));
    }
    match &experiment.source {
        Source::Given => {}
        Source::BuiltIn => lines.push(format!("the built-in experiment {}", experiment.name)),
        Source::Folder(folder) => {
            lines.push(format!("the experiment in {}", folder.display()));
            lines.extend(experiment.recipes.values().flat_map(commands));
            let image = experiment.files.contains_key(Path::new(FILE));
            lines.extend(image.then(|| format!("its {FILE}, to build the image of its containers")));
            let driver = Some(&experiment.load.driver).filter(|words| !words.is_empty());
            lines.extend(driver.map(|words| format!("its driver: {}", line(words))));
        }
    }
    let choice = |choice: &Choice| format!("{}={}", choice.factor, choice.levels.join(","));
    let selection = &origin.selection;
    lines.extend(
        selection
            .only
            .iter()
            .chain(&selection.set)
            .map(|one| format!("with the levels {}", choice(one))),
    );
    lines.extend(
        selection
            .rate
            .map(|rate| format!("at the rate {}", rate_text(rate.into()))),
    );
    lines.push(format!(
        "for up to {} in all",
        written(Duration::from_nanos(settings.budget_ns))
    ));
    lines.extend(
        origin
            .programs
            .iter()
            .map(|(recipe, path)| format!("the program {} for {recipe}", path.display())),
    );
    lines.extend(settings.tools.iter().map(|tool| format!("the tool {tool}")));
    lines.extend(
        origin
            .engine
            .map(|engine| format!("the container engine {}", engine.name())),
    );
    lines.extend(
        settings
            .driver_at
            .as_ref()
            .map(|place| format!("a driver at {}", String::from(place.clone()))),
    );
    let remote = &origin.remote;
    lines.extend(
        remote
            .options
            .iter()
            .map(|option| format!("ssh with the option {option}")),
    );
    lines.extend(
        remote
            .config
            .iter()
            .map(|path| format!("ssh with the configuration {}", path.display())),
    );
    lines.extend(
        remote
            .program
            .iter()
            .map(|program| format!("on that host the program {program}")),
    );
    lines.extend(
        remote
            .listen
            .iter()
            .map(|address| format!("servers that listen on {address}")),
    );
    lines
}

/// The load on a running endpoint: all that is sent, the address, and the method. Taken from the driver's
/// specification, because the URL beside it could say something else.
fn load(name: &str, endpoint: &GivenEndpoint) -> Vec<String> {
    let spec = &endpoint.spec;
    let address = &spec.endpoint.address;
    let mut lines = vec![format!(
        "load on {address}, which the record calls {name:?} and {:?}",
        endpoint.url
    )];
    let mut told = Vec::new();
    leaves("", &serde_json::to_value(spec).unwrap_or_default(), &mut told);
    let mut usual = Vec::new();
    let plain = Spec::new(spec.endpoint.clone(), spec.protocol.clone());
    leaves("", &serde_json::to_value(plain).unwrap_or_default(), &mut usual);
    lines.extend(
        told.iter()
            .filter(|leaf: &&(String, Value)| {
                // `plain` has the record's own endpoint and protocol, so their contents would always look usual.
                leaf.0.starts_with("endpoint.tls") || leaf.0.starts_with("protocol.") || !usual.contains(leaf)
            })
            .map(|(path, value)| format!("load on {address}, with {path} {value}")),
    );
    let variable = spec.protocol.kind().password_variable.filter(|_| endpoint.secret);
    lines.extend(variable.map(|variable| format!("load on {address}, with the password in the variable {variable}")));
    lines
}

/// The non-empty values of a tree by path, without expected replies, which are not sent.
fn leaves(path: &str, tree: &Value, found: &mut Vec<(String, Value)>) {
    let below = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    match tree {
        Value::Object(parts) => {
            parts
                .iter()
                .filter(|(name, _)| *name != "expect")
                .for_each(|(name, part)| leaves(&below(name), part, found));
        }
        Value::Array(parts) if parts.iter().any(|part| part.is_array() || part.is_object()) => {
            parts
                .iter()
                .enumerate()
                .for_each(|(at, part)| leaves(&below(&at.to_string()), part, found));
        }
        Value::Array(parts) if parts.is_empty() => {}
        Value::Null => {}
        Value::String(text) if text.is_empty() => {}
        value => found.push((path.to_owned(), value.clone())),
    }
}

/// The commands that a recipe runs, as written there.
fn commands(recipe: &Recipe) -> Vec<String> {
    let program = if recipe.program.lasthop {
        "lasthop".to_owned()
    } else {
        recipe.program.names.join(" or ")
    };
    let server = [program]
        .into_iter()
        .chain(recipe.start.arguments.iter().cloned())
        .collect::<Vec<_>>();
    let Recipe { start, ready, .. } = recipe;
    let all = start
        .build
        .iter()
        .chain(&start.prepare)
        .chain(&ready.command)
        .chain([&server]);
    all.map(|words| format!("{}: {}", recipe.name, line(words))).collect()
}

/// The words as one line, quoted for a shell.
fn line(words: &[String]) -> String {
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}
