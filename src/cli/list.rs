//! `lasthop list`, `lasthop show`, `lasthop runs`

use std::path::{Path, PathBuf};

use lasthop_analyse::seconds_to;
use lasthop_model::{
    quantity::{counted, rate_text, written},
    record::Stopped,
};
use lasthop_page::{
    Page,
    units::{Bytes, Seconds},
};
use lasthop_plan::{
    catalog::Entry,
    diagnostics::suggest,
    model::{Experiment, Factor},
    plan::{Plan, usual_recipes},
};
use lasthop_record::{
    Store, recorded,
    store::{self, State},
};
use lasthop_report::{ExperimentEntry, Format, RunEntry, RunState, configuration};
use lasthop_stack::{home::Home, locate::Locator};

use super::{
    args,
    context::{catalog, home, locator},
    diff, index,
    output::{CliError, OF_ROWS, OrExit, agreed, can_ask, deliver_bytes, is_a_format, print, talk, terminal},
    run::selection,
};

pub fn experiments(arguments: &args::List) -> Result<(), CliError> {
    let home = home()?;
    let entries = catalog()?.list();
    let (good, bad): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.experiment.is_ok());
    let listed = good.iter().filter_map(|entry| listed(&home, entry, arguments.versions));
    let listed: Vec<ExperimentEntry> = listed.collect::<Result<_, _>>()?;
    print(&lasthop_report::experiments_table(&listed, arguments.all, &terminal()))?;
    for entry in bad {
        if let Err(error) = entry.experiment {
            talk(&format!("warning: {} cannot be loaded:\n{error}", entry.name));
        }
    }
    Ok(())
}

fn listed(home: &Home, entry: &Entry, versions: bool) -> Option<Result<ExperimentEntry, CliError>> {
    let experiment = entry.experiment.as_ref().ok()?;
    let entry = |locator| ExperimentEntry {
        name: entry.name.clone(),
        title: experiment.title.clone(),
        group: experiment.group.clone(),
        source: entry.source.to_string(),
        missing: missing(experiment, &locator, versions),
    };
    Some(locator(home, experiment, &args::Programs::default()).map(entry))
}

/// Recipes of the default cases whose program is missing (with `versions`, also if it is outdated), and services that
/// lack packages.
pub fn missing(experiment: &Experiment, locator: &Locator, versions: bool) -> Vec<String> {
    let mut recipes = usual_recipes(experiment).unwrap_or_default();
    recipes.retain(|recipe| {
        let program = &experiment.recipes[recipe].program;
        !locator.is_there(recipe, program) || (versions && locator.locate(recipe, program).is_err())
    });
    let services = experiment.services.iter();
    let lacking = services.filter(|(_, service)| locator.lacks(&service.packages).is_some());
    recipes.extend(lacking.map(|(name, _)| name.clone()));
    recipes.into_iter().collect()
}

pub fn show(arguments: &args::Show) -> Result<(), CliError> {
    let subject = &arguments.subject;
    if let Some(wanted) = &arguments.files {
        return files(subject, wanted);
    }
    let catalog = catalog()?;
    let is_experiment = catalog.names().contains(subject) || Path::new(subject).join("experiment.toml").is_file();
    let run = (!is_experiment).then(|| diff::find(&[subject]));
    if let Some(Ok(records)) = &run {
        let args::Select { only, set, aa } = &arguments.select;
        if *aa || !(only.is_empty() && set.is_empty()) {
            let text = "--only, --set and --aa choose cases of an experiment, and this is a run";
            return Err(CliError::usage(text));
        }
        return records.iter().try_for_each(|record| configurations(record));
    }
    let experiment = catalog.load(subject).map_err(|error| match run {
        Some(Err(of_run)) => CliError::usage(format!("{error}\n{}", of_run.text)),
        _ => CliError::usage(error),
    })?;
    let plan = Plan::new(experiment, &selection(&arguments.select)).or_usage()?;
    print(&describe(&plan, &time_to_narrow(&plan)?))
}

fn configurations(record: &Path) -> Result<(), CliError> {
    let data = store::read(record).or_failed()?;
    let summary = lasthop_analyse::summarise(&data);
    print(configuration::shown(record, &data, &summary).or_failed()?.as_bytes())
}

/// The widest interval of a comparison that counts as narrow.
const WIDE: f64 = 0.05;

/// Seconds per comparison until intervals are within ±5 %, for half of the comparisons and for all: the medians over
/// the answers in `docs/answers`.
const BY_EXPERIENCE: [f64; 2] = [5.0, 20.0];

/// The time until intervals are narrow, from the newest run of these cases on this machine.
fn time_to_narrow(plan: &Plan) -> Result<String, CliError> {
    let store = Store::new(home()?.path());
    let source = recorded(&plan.experiment.source.to_string());
    let is_same = |path: &Path| {
        let Ok(header) = store::header(path) else { return false };
        let cases = plan.cases.iter().map(|case| &case.case);
        (&header.experiment.name, &header.experiment.source) == (&plan.experiment.name, &source)
            && header.settings.overload.is_none()
            && cases.eq(header.cases.iter().map(|case| &case.case))
            && store::state(path) == State::Complete
    };
    let run = store.newest(is_same).or_failed()?;
    let known = run.as_ref().and_then(|run| {
        let data = store::read(run).ok()?;
        Some((seconds_to(&data, WIDE)?, data.header.run))
    });
    let comparisons = plan.cases.iter().filter(|case| case.reference.is_some()).count();
    let ([half, all], source) = known.map_or_else(
        || {
            let total = BY_EXPERIENCE.map(|seconds| seconds * comparisons as f64);
            (total, "as a rule; a run here will tell".to_owned())
        },
        |(seconds, run)| (seconds, format!("going by {run}")),
    );
    let [width, half, all] = [
        format!("±{:.0} %", WIDE * 100.0),
        Seconds(half).to_string(),
        Seconds(all).to_string(),
    ];
    Ok(match comparisons {
        0 => String::new(),
        1 => format!("Its comparison is within {width} after about {all} ({source})"),
        some => {
            format!("Half of its {some} comparisons are within {width} after about {half}, all after {all} ({source})")
        }
    })
}

/// Prints the requested files unchanged, or lists all.
fn files(experiment: &str, wanted: &[PathBuf]) -> Result<(), CliError> {
    let files = catalog()?.files(experiment).or_usage()?;
    if wanted.is_empty() {
        return print(
            files
                .iter()
                .map(|(path, content): (&PathBuf, &Vec<u8>)| format!("{:>7}  {}\n", content.len(), path.display()))
                .collect::<String>()
                .as_bytes(),
        );
    }
    for path in wanted {
        let unknown = || {
            let known: Vec<String> = files.keys().map(|path| path.display().to_string()).collect();
            let near = suggest(&path.display().to_string(), known.iter().map(String::as_str)).unwrap_or_default();
            CliError::usage(format!("`{experiment}` has no file `{}`; {near}", path.display()))
        };
        print(files.get(path).ok_or_else(unknown)?)?;
    }
    Ok(())
}

fn describe(plan: &Plan, time_to_narrow: &str) -> Vec<u8> {
    let experiment = &plan.experiment;
    let mut page = Page::new(&lasthop_page::Options {
        color: false,
        ..terminal()
    });
    let mut say = |line: String| {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        page.wrapped(&text.into(), indent, indent + 4);
    };
    say(format!("{}: {}", experiment.name, experiment.title));
    say(format!("  {}", experiment.question));
    say(String::new());
    say(format!(
        "Link under test: {} → {}",
        experiment.link.from, experiment.link.to
    ));
    say(String::new());
    say("Services, in start order".to_owned());
    for (name, recipe) in &plan.summary().services {
        say(format!("  {name} (recipe {recipe})"));
    }
    say(String::new());
    say("Factors (* = selected)".to_owned());
    for (name, factor) in &experiment.factors {
        say(format!("  {name}: {}", levels(name, factor, plan)));
        say(format!("      {}", factor.help));
    }
    say(String::new());
    say(format!(
        "Cases: {}, on {} stacks of services",
        plan.cases.len(),
        plan.stacks.len()
    ));
    for case in &plan.cases {
        let against = case
            .reference
            .as_ref()
            .map_or("reference".to_owned(), |reference| format!("against {reference}"));
        let at = case
            .load
            .rate
            .map_or(String::new(), |rate| format!(", at {} requests/s", rate_text(rate)));
        say(format!("  {:<40} {against}{at}", case.case));
    }
    let defaults = &experiment.defaults;
    say(String::new());
    say(format!(
        "Trials of {}, {}until every interval is within ±{} % or {} have passed",
        written(defaults.trial.0),
        defaults
            .blocks
            .map_or(String::new(), |blocks| format!("{blocks} blocks per round, ")),
        (defaults.precision.0 * 1e4).round() / 1e2,
        written(defaults.budget.0)
    ));
    if !time_to_narrow.is_empty() {
        say(time_to_narrow.to_owned());
    }
    page.finish()
}

fn levels(name: &str, factor: &Factor, plan: &Plan) -> String {
    let chosen = plan
        .factors
        .get(name)
        .map(|chosen| &chosen.levels[..])
        .unwrap_or_default();
    let level = |level| format!("{level}{}", if chosen.contains(level) { "*" } else { "" });
    let mut levels: Vec<String> = factor.levels.iter().map(level).collect();
    levels.extend(
        chosen
            .iter()
            .filter(|level| !factor.levels.contains(level))
            .map(|level| format!("{level}*")),
    );
    let range = factor.range.map_or(String::new(), |[low, high]| {
        format!("; any from {low} to {high} with --set")
    });
    format!("{}{range}", levels.join(" "))
}

pub fn runs(arguments: &args::Runs) -> Result<(), CliError> {
    let store = Store::new(home()?.path());
    if !arguments.remove.is_empty() {
        return remove(&store, arguments);
    }
    is_a_format("a list of runs", arguments.format, &OF_ROWS)?;
    let directories = store.list().or_failed()?;
    if directories.is_empty() && arguments.format == Format::Terminal {
        talk("no run is recorded yet; start one with `lasthop run`");
        return Ok(());
    }
    let entries = directories.iter().map(|directory| run_entry(&store, directory));
    let output = arguments.output.as_deref();
    if arguments.format == Format::Html {
        let listed: Vec<index::Listed> = entries.zip(directories.iter().cloned()).collect();
        return index::write(&listed, output);
    }
    let entries: Vec<RunEntry> = entries.collect();
    deliver_bytes(output, false, |options| {
        lasthop_report::runs(&entries, arguments.format, options)
    })
}

fn remove(store: &Store, arguments: &args::Runs) -> Result<(), CliError> {
    let mut records = arguments
        .remove
        .iter()
        .map(|wanted| store.find(wanted))
        .collect::<Result<Vec<_>, _>>()
        .or_usage()?;
    records.sort();
    records.dedup();
    let bytes = records.iter().map(|record| store::bytes(record)).sum();
    for record in &records {
        talk(&store.word_for(record));
    }
    if !arguments.yes {
        if !can_ask() {
            let text = "nothing was removed, because there is no terminal to ask on; add --yes";
            return Err(CliError::failed(text));
        }
        if !agreed(&format!(
            "Remove {} ({}) for good? [y/N] ",
            counted(records.len() as u64, "run"),
            Bytes(bytes)
        )) {
            return Err(CliError::failed("nothing was removed"));
        }
    }
    records.iter().try_for_each(|record| store.remove(record)).or_failed()?;
    talk(&format!(
        "removed {}, {}",
        counted(records.len() as u64, "run"),
        Bytes(bytes)
    ));
    Ok(())
}

fn run_entry(store: &Store, directory: &Path) -> RunEntry {
    let run = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = store::bytes(directory);
    match store::header(directory).and_then(|header| Ok((header, outcome(directory)?))) {
        Ok((header, state)) => RunEntry {
            run,
            experiment: header.experiment.name,
            when: header
                .started
                .to_zoned(jiff::tz::TimeZone::system())
                .strftime("%Y-%m-%d %H:%M")
                .to_string(),
            started: header.started.to_string(),
            state,
            is_own: store.made_here(directory).is_ok(),
            bytes,
            headline: store::headline(directory).unwrap_or_default(),
        },
        Err(error) => RunEntry {
            run,
            experiment: String::new(),
            started: String::new(),
            when: String::new(),
            state: RunState::Unreadable,
            is_own: true,
            bytes,
            headline: error,
        },
    }
}

fn outcome(directory: &Path) -> Result<RunState, String> {
    Ok(match store::end(directory)?.map(|end| end.stopped) {
        None if store::state(directory) == State::Running => RunState::Running,
        None => RunState::CutOff,
        Some(Stopped::Interrupted) => RunState::Interrupted,
        Some(Stopped::Failed) => RunState::Failed,
        Some(_) => RunState::Complete,
    })
}
