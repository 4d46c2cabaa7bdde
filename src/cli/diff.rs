//! `lasthop diff`, `lasthop report` of several runs, and `--fail-if`

use std::{path::PathBuf, process::ExitCode};

use lasthop_results::{
    analyse::{
        across::{beside::beside, diff},
        limit::{self, Limit, Standing, Subject},
        summary::Summary,
    },
    record::{Store, store},
    report::across::{self, Told},
};

use super::{
    args,
    context::{deliver_bytes, home},
    output::{CliError, LIMIT, talk},
};

/// Directories of recorded runs.
pub fn find(wanted: &[&str]) -> Result<Vec<PathBuf>, CliError> {
    let runs = Store::new(home()?.runs());
    wanted.iter().map(|wanted| runs.find(wanted).map_err(CliError::usage)).collect()
}

pub fn diff(arguments: &args::Diff) -> Result<ExitCode, CliError> {
    let [old, new] = [&arguments.old, &arguments.new].map(|wanted| find(&[wanted]));
    let read = |found: Result<Vec<PathBuf>, CliError>| store::read(&found?[0]).map_err(CliError::failed);
    let diff = diff::diff(&read(old)?, &read(new)?).map_err(CliError::usage)?;
    let subjects = limit::of_diff(&diff);
    checked(&arguments.output.fail_if, &subjects)?;
    tell(&diff, &arguments.output)?;
    hold(&arguments.output.fail_if, &subjects, diff.confidence)
}

fn tell(result: &impl Told, output: &args::OutputOptions) -> Result<(), CliError> {
    if output.format.is_of_trials() {
        return Err(CliError::usage("this format has the trials of one run: report each run by itself"));
    }
    deliver_bytes(output, |options| across::render(result, output.format, options))
}

/// Several runs in one report.
pub fn report(directories: &[PathBuf], output: &args::OutputOptions) -> Result<ExitCode, CliError> {
    let data = directories.iter().map(|directory| store::read(directory).map_err(CliError::failed));
    let beside = beside(&data.collect::<Result<Vec<_>, _>>()?).map_err(CliError::usage)?;
    let subjects: Vec<Vec<Subject>> = beside.summaries.iter().map(limit::of_run).collect();
    subjects.iter().try_for_each(|subjects| checked(&output.fail_if, subjects))?;
    tell(&beside, output)?;
    let codes = subjects.iter().map(|subjects| hold(&output.fail_if, subjects, beside.confidence));
    let codes: Vec<ExitCode> = codes.collect::<Result<_, _>>()?;
    Ok(codes.into_iter().find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS))
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
