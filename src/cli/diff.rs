//! `lasthop diff`, and `lasthop report` of several runs

use std::path::{Path, PathBuf};

use lasthop_analyse::{
    across::{
        diff,
        fleet::{self, Member},
    },
    limit::{self, Limit},
    summary::{JudgedLimit, Summary},
};
use lasthop_record::{RunData, Store, store};
use lasthop_report::{
    Format,
    across::{self, Reportable},
};

use super::{
    args,
    context::{home, on_all_cpus},
    limits,
    output::{CliError, Exit, OrExit, deliver_bytes, writable},
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
    diff.limits = limits::judge(&arguments.output.fail_if, &limit::of_diff(&diff), diff.confidence)?;
    tell(&diff, &arguments.output)?;
    Ok(limits::exit_status(&diff.limits))
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
fn judge_all<'a>(
    limits: &[Limit],
    runs: impl IntoIterator<Item = &'a Summary>,
    confidence: f64,
) -> Result<Vec<JudgedLimit>, CliError> {
    let of = |run: &Summary| {
        let judged = limits::judge(limits, &limit::of_run(run), confidence)?;
        Ok(judged
            .into_iter()
            .map(|judged| JudgedLimit {
                text: format!("{}: {}", run.run, judged.text),
                ..judged
            })
            .collect())
    };
    let all: Vec<Vec<JudgedLimit>> = runs.into_iter().map(of).collect::<Result<_, CliError>>()?;
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
    let limits = judge_all(
        &output.fail_if,
        members.iter().map(Member::summary),
        lasthop_stats::CONFIDENCE,
    )?;
    let mut fleet = fleet::fleet(members, by).or_usage()?;
    fleet.limits = limits;
    tell(&fleet, output)?;
    Ok(limits::exit_status(&fleet.limits))
}
