//! Consent to resume a record that may be somebody else's. Records are made to be shared, and resuming one executes
//! what it names.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use lasthop_model::{
    program::ProgramKind,
    record::{Given, Origin, Settings},
    service::ReadyCheck,
};

use lasthop_host::service::container::containerfile::FILE;
use lasthop_plan::model::{Experiment, Recipe, Source};
use lasthop_results::text;

/// What you must confirm before a run is resumed.
#[derive(Debug, thiserror::Error)]
#[error(
    "run {run} may be somebody else's: {because}. Resuming it executes what its record names:\n{}",
    executed.iter().map(|one| format!("  - {}", text::line(one))).collect::<Vec<_>>().join("\n")
)]
pub struct Consent {
    pub run: String,
    /// Why it may not be this user's own.
    pub because: String,
    /// Programs, commands and hosts, one line each.
    pub executed: Vec<String>,
}

/// Why a record may be somebody else's; `None` if it is in the user's own store and nobody else could have written it.
#[must_use]
pub fn foreign(record: &Path, store: &Path) -> Option<String> {
    let whole = |path: &Path| fs::canonicalize(path).ok();
    let parent = whole(record).and_then(|path| path.parent().map(Path::to_owned));
    if parent.is_none() || parent != whole(store) {
        return Some(format!("it is not in your own store, {}", store.display()));
    }
    let me = rustix::process::geteuid().as_raw();
    let may_be_others = |path: &Path| {
        let data = fs::symlink_metadata(path);
        data.map_or(true, |data| data.uid() != me || data.is_symlink() || data.permissions().mode() & 0o022 != 0)
    };
    [record.to_owned(), record.join("run.json")]
        .into_iter()
        .find(|path| may_be_others(path))
        .map(|path| format!("others can write to {}", path.display()))
}

/// What resuming a run executes and connects to because its record says so, one line each.
#[must_use]
pub fn executed(origin: &Origin, settings: &Settings, given: Option<&Given>, experiment: &Experiment) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(given) = given {
        lines.extend(given.endpoints.values().map(|endpoint| format!("load on {}", endpoint.url)));
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
    lines.extend(origin.programs.iter().map(|(recipe, path)| format!("the program {} for {recipe}", path.display())));
    lines.extend(settings.tools.iter().map(|tool| format!("the tool {tool}")));
    lines.extend(origin.engine.map(|engine| format!("the container engine {}", engine.name())));
    lines.extend(settings.driver_at.as_ref().map(|place| format!("a driver at {}", String::from(place.clone()))));
    let remote = &origin.remote;
    lines.extend(remote.options.iter().map(|option| format!("ssh with the option {option}")));
    lines.extend(remote.config.iter().map(|path| format!("ssh with the configuration {}", path.display())));
    lines.extend(remote.program.iter().map(|program| format!("on that host the program {program}")));
    lines.extend(remote.listen.iter().map(|address| format!("servers that listen on {address}")));
    lines
}

/// What a recipe starts, as written there.
fn commands(recipe: &Recipe) -> Vec<String> {
    let program = match &recipe.program.kind {
        ProgramKind::Lasthop => "lasthop".to_owned(),
        ProgramKind::Named { names, .. } => names.join(" or "),
    };
    let server = [program].into_iter().chain(recipe.arguments.iter().cloned()).collect::<Vec<_>>();
    let check = match &recipe.ready.check {
        ReadyCheck::Command(words) => Some(words),
        ReadyCheck::Connect | ReadyCheck::Http { .. } => None,
    };
    let all = recipe.build.iter().chain(&recipe.prepare).chain(check).chain([&server]);
    all.map(|words| format!("{}: {}", recipe.name, line(words))).collect()
}

/// Quoted for a shell.
fn line(words: &[String]) -> String {
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}
