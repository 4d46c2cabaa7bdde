//! `lasthop diff`, `lasthop report` of several runs, and `--fail-if`

use std::path::{Path, PathBuf};

use lasthop_analyse::{
    across::{
        diff,
        fleet::{self, Member},
    },
    limit::{self, Limit, Subject},
    summary::{Held, Standing, Summary},
};
use lasthop_record::{RunData, Store, store};
use lasthop_report::{
    Format,
    across::{self, Reportable},
};

use super::{
    args,
    context::{home, on_all_cpus},
    output::{CliError, DONE, Exit, LIMIT, OrExit, UNJUDGED, deliver_bytes, talk, writable},
};

/// Directories of recorded runs.
pub fn find(wanted: &[&str]) -> Result<Vec<PathBuf>, CliError> {
    let find = |wanted: &&str| match home() {
        Ok(home) => Store::new(home.path()).find(wanted).or_usage(),
        // A record given by its path needs no data folder.
        Err(_) if Path::new(wanted).join("run.json").is_file() => Ok(PathBuf::from(wanted)),
        Err(error) => Err(error),
    };
    wanted.iter().map(find).collect()
}

pub fn diff(arguments: &args::Diff) -> Exit {
    has_format(&arguments.output)?;
    let [old, new] = [&arguments.old, &arguments.new].map(|wanted| find(&[wanted]));
    let read = |found: Result<Vec<PathBuf>, CliError>| store::read(&found?[0]).or_failed();
    let old = read(old)?;
    let new = read(new)?;
    [&old, &new].into_iter().try_for_each(compares)?;
    let mut diff = diff::diff(&old, &new).or_usage()?;
    diff.limits = judged(&arguments.output.fail_if, &limit::of_diff(&diff), diff.confidence)?;
    tell(&diff, &arguments.output)?;
    Ok(hold(&diff.limits))
}

fn compares(data: &RunData) -> Result<(), CliError> {
    let header = &data.header;
    match header.settings.overload {
        None => Ok(()),
        Some(_) => Err(CliError::usage(format!(
            "run {0} is one with overload, which has no ratios: report it by itself (lasthop report {0})",
            header.run
        ))),
    }
}

/// Checks that several runs have this format.
pub fn has_format(output: &args::OutputOptions) -> Result<(), CliError> {
    if output.format == Format::Trials {
        return Err(CliError::usage(
            "`--format trials` has the trials of one run: report each run by itself",
        ));
    }
    writable(output.output.as_deref())
}

fn tell(result: &impl Reportable, output: &args::OutputOptions) -> Result<(), CliError> {
    deliver_bytes(output.output.as_deref(), output.verbose, |options| {
        across::render(result, output.format, options)
    })
}

/// The results of all limits for every run.
fn judged_all<'a>(
    limits: &[Limit],
    runs: impl IntoIterator<Item = &'a Summary>,
    confidence: f64,
) -> Result<Vec<Held>, CliError> {
    let of = |run: &Summary| {
        let held = judged(limits, &limit::of_run(run), confidence)?;
        Ok(held
            .into_iter()
            .map(|held| Held {
                text: format!("{}: {}", run.run, held.text),
                ..held
            })
            .collect())
    };
    let all: Vec<Vec<Held>> = runs.into_iter().map(of).collect::<Result<_, CliError>>()?;
    Ok(all.concat())
}

fn members(directories: &[PathBuf]) -> Result<Vec<Member>, CliError> {
    on_all_cpus(directories, |directory| {
        let data = store::read(directory).or_failed()?;
        compares(&data)?;
        Ok(Member::of(data))
    })
}

/// The report of several runs, usually of several machines.
pub fn fleet_of(directories: &[PathBuf], by: &[String], output: &args::OutputOptions) -> Exit {
    has_format(output)?;
    let members = members(directories)?;
    let limits = judged_all(
        &output.fail_if,
        members.iter().map(Member::summary),
        lasthop_stats::CONFIDENCE,
    )?;
    let mut fleet = fleet::fleet(members, by).or_usage()?;
    fleet.limits = limits;
    tell(&fleet, output)?;
    Ok(hold(&fleet.limits))
}

/// The results of all limits for the cases of a run.
pub fn held(limits: &[Limit], summary: &Summary) -> Result<Vec<Held>, CliError> {
    judged(limits, &limit::of_run(summary), summary.settings.confidence)
}

/// Checks that each limit names a case that is compared.
pub fn checked(limits: &[Limit], subjects: &[Subject]) -> Result<(), CliError> {
    limit::judge(limits, subjects).map(drop).or_usage()
}

fn judged(limits: &[Limit], subjects: &[Subject], confidence: f64) -> Result<Vec<Held>, CliError> {
    Ok(across::held(&limit::judge(limits, subjects).or_usage()?, confidence))
}

/// Prints the results of the limits. Fails if a case exceeds a limit, or if a limit could be judged for no case.
pub fn hold(held: &[Held]) -> u8 {
    held.iter().for_each(|held| talk(&held.text));
    let is_judged = |one: &Held| {
        let mut alike = held.iter().filter(|other| other.limit == one.limit);
        alike.any(|other| other.standing != Standing::Unjudged)
    };
    if held.iter().any(|held| held.standing == Standing::Beyond) {
        LIMIT
    } else if held.iter().all(is_judged) {
        DONE
    } else {
        UNJUDGED
    }
}
