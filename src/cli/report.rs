//! `lasthop report`, and the end of every run: its record is read once, its limits are judged, its report is written, and
//! the exit code follows.

use std::path::PathBuf;

use lasthop_analyse::checks::known::{self, CheckMeaning};
use lasthop_plan::diagnostics::closest;
use lasthop_report::explained;

use super::{
    args::{self, OutputOptions},
    context::{Recorded, deliver, read},
    diff,
    output::{CliError, DONE, Exit, print, terminal},
};

pub fn report(arguments: &args::Report) -> Exit {
    if let Some(id) = &arguments.check {
        return explain_check(id.as_deref()).map(|()| DONE);
    }
    let wanted: Vec<&str> = arguments.runs.iter().map(String::as_str).collect();
    of(&diff::find(&wanted)?, &arguments.by, &arguments.output)
}

/// Reports recorded runs by their directories: one by itself, several together.
pub fn of(directories: &[PathBuf], by: &[String], output: &OutputOptions) -> Exit {
    match directories {
        [one] if by.is_empty() => of_one(&mut read(one)?, output),
        several => diff::fleet_of(several, by, output),
    }
}

/// Judges the limits of a run and writes its report. Returns the exit code of the limits.
pub fn of_one(recorded: &mut Recorded, output: &OutputOptions) -> Exit {
    recorded.summary.limits = diff::held(&output.fail_if, &recorded.summary)?;
    deliver(recorded, output)?;
    Ok(diff::hold(&recorded.summary.limits))
}

/// Prints the meaning of a check, or all checks.
fn explain_check(id: Option<&str>) -> Result<(), CliError> {
    let document = match id {
        None => explained::list(),
        Some(id) => explained::of(CheckMeaning::of(id).ok_or_else(|| {
            let near = closest(id, known::all().map(|known| known.id));
            let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
            CliError::usage(format!(
                "there is no check `{id}`; {near}`lasthop report --check` lists all"
            ))
        })?),
    };
    print(&lasthop_page::document_terminal(&document, &terminal()))
}
