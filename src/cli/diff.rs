//! `lasthop diff`, `lasthop report` of several runs, `lasthop fleet report`, and `--fail-if`

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
};

use lasthop_results::{
    analyse::{
        across::{
            beside::beside,
            diff,
            fleet::{self, Member},
        },
        limit::{self, Limit, Standing, Subject},
        summary::Summary,
    },
    record::{RunData, Store, store},
    report::across::{self, Told},
};

use super::{
    args,
    context::{deliver_bytes, home, ready},
    output::{CliError, LIMIT, talk},
};

/// Directories of recorded runs.
pub fn find(wanted: &[&str]) -> Result<Vec<PathBuf>, CliError> {
    let find = |wanted: &&str| match Path::new(wanted).join("run.json").is_file() {
        // A record by its path needs no data folder.
        true => Ok(PathBuf::from(wanted)),
        false => Store::new(home()?.runs()).find(wanted).map_err(CliError::usage),
    };
    wanted.iter().map(find).collect()
}

pub fn diff(arguments: &args::Diff) -> Result<ExitCode, CliError> {
    has_format(&arguments.output)?;
    let [old, new] = [&arguments.old, &arguments.new].map(|wanted| find(&[wanted]));
    let read = |found: Result<Vec<PathBuf>, CliError>| store::read(&found?[0]).map_err(CliError::failed);
    let (old, new) = (read(old)?, read(new)?);
    [&old, &new].into_iter().try_for_each(compares)?;
    let diff = diff::diff(&old, &new).map_err(CliError::usage)?;
    let subjects = limit::of_diff(&diff);
    checked(&arguments.output.fail_if, &subjects)?;
    tell(&diff, &arguments.output)?;
    hold(&arguments.output.fail_if, &subjects, diff.confidence)
}

/// Errors: a run with overload, which has no ratios.
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

/// Whether a report of several runs can be written.
/// Errors: only a single run has its format, or its file cannot be written.
pub fn has_format(output: &args::OutputOptions) -> Result<(), CliError> {
    if output.format.is_of_trials() {
        return Err(CliError::usage("this format has the trials of one run: report each run by itself"));
    }
    ready(output)
}

fn tell(result: &impl Told, output: &args::OutputOptions) -> Result<(), CliError> {
    deliver_bytes(output, |options| across::render(result, output.format, options))
}

/// Several runs in one report.
pub fn report(directories: &[PathBuf], output: &args::OutputOptions) -> Result<ExitCode, CliError> {
    has_format(output)?;
    let data = directories.iter().map(|directory| store::read(directory).map_err(CliError::failed));
    let data = data.collect::<Result<Vec<_>, _>>()?;
    data.iter().try_for_each(compares)?;
    let beside = beside(&data).map_err(CliError::usage)?;
    let subjects: Vec<Vec<Subject>> = beside.summaries.iter().map(limit::of_run).collect();
    subjects.iter().try_for_each(|subjects| checked(&output.fail_if, subjects))?;
    tell(&beside, output)?;
    hold_all(&output.fail_if, &subjects, beside.confidence)
}

/// Whether the limits hold in every run.
fn hold_all(limits: &[Limit], runs: &[Vec<Subject>], confidence: f64) -> Result<ExitCode, CliError> {
    let codes = runs.iter().map(|subjects| hold(limits, subjects, confidence));
    let codes: Vec<ExitCode> = codes.collect::<Result<_, _>>()?;
    Ok(codes.into_iter().find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS))
}

/// Each CPU analyses a share of the records, one after the other, so that few are in memory at a time.
fn members(directories: &[PathBuf]) -> Result<Vec<Member>, CliError> {
    let member = |directory: &PathBuf| {
        let data = store::read(directory).map_err(CliError::failed)?;
        compares(&data)?;
        Ok(Member::of(data))
    };
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let shares = directories.chunks(directories.len().div_ceil(cpus));
    thread::scope(|scope| {
        let read = |share: &[PathBuf]| share.iter().map(member).collect::<Result<Vec<_>, CliError>>();
        let workers: Vec<_> = shares.map(|share| scope.spawn(move || read(share))).collect();
        let found = workers.into_iter().map(|worker| worker.join().expect("no worker panics"));
        Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    })
}

/// Runs of several machines.
pub fn fleet(arguments: &args::FleetReport) -> Result<ExitCode, CliError> {
    let wanted: Vec<&str> = arguments.runs.iter().map(String::as_str).collect();
    fleet_of(&find(&wanted)?, &arguments.by, &arguments.output)
}

/// Runs of several machines, by their directories.
pub fn fleet_of(directories: &[PathBuf], by: &[String], output: &args::OutputOptions) -> Result<ExitCode, CliError> {
    has_format(output)?;
    let limits = &output.fail_if;
    let members = members(directories)?;
    let subjects: Vec<Vec<Subject>> = members.iter().map(|member| limit::of_run(member.summary())).collect();
    subjects.iter().try_for_each(|subjects| checked(limits, subjects))?;
    let fleet = fleet::fleet(members, by).map_err(CliError::usage)?;
    tell(&fleet, output)?;
    hold_all(limits, &subjects, fleet.confidence)
}

/// Whether the limits of a run hold.
pub fn hold_in_run(limits: &[Limit], summary: &Summary) -> Result<ExitCode, CliError> {
    hold(limits, &limit::of_run(summary), summary.settings.confidence)
}

/// Each limit names something.
pub fn checked(limits: &[Limit], subjects: &[Subject]) -> Result<(), CliError> {
    limit::judge(limits, subjects).map(drop).map_err(CliError::usage)
}

/// Says how each case stands to each limit, and fails if one is beyond it.
fn hold(limits: &[Limit], subjects: &[Subject], confidence: f64) -> Result<ExitCode, CliError> {
    let found = limit::judge(limits, subjects).map_err(CliError::usage)?;
    found.iter().for_each(|finding| talk(&across::limit(finding, confidence)));
    let beyond = found.iter().any(|finding| finding.standing == Standing::Beyond);
    Ok(if beyond { ExitCode::from(LIMIT) } else { ExitCode::SUCCESS })
}
