//! `lasthop answers`

use lasthop_analyse::answers::{Answer, Answers, answers as kept};
use lasthop_page::text;
use lasthop_plan::diagnostics::suggest;
use lasthop_report::{Format, answers as shown};

use super::{
    args,
    context::catalog,
    output::{CliError, is_a_format, print, print_document},
};

/// Prints kept answers, without a run.
pub fn answers(arguments: &args::Answers) -> Result<(), CliError> {
    const FORMATS: [Format; 4] = [Format::Terminal, Format::Json, Format::Csv, Format::Markdown];
    is_a_format("a list of answers", arguments.format, &FORMATS)?;
    let found = match &arguments.stack {
        Some(stack) => about(kept(), stack)?,
        None => kept().answers.iter().collect(),
    };
    if found.is_empty() {
        return Err(CliError::failed(
            "this lasthop came without answers: `lasthop run EXPERIMENT` finds one",
        ));
    }
    let whole = arguments.stack.is_some();
    match arguments.format {
        Format::Json => print(&text::json(&Answers::of(found.into_iter().cloned().collect()))),
        Format::Csv => print(&shown::csv(&found)),
        format => print_document(&(), &shown::document(&found, whole), format, false),
    }
}

/// The answer about the experiment named `stack`, or all answers with the word `stack` in their experiment's name, as
/// an end of their link, or as their group.
fn about<'a>(known: &'a Answers, stack: &str) -> Result<Vec<&'a Answer>, CliError> {
    if let Some(answer) = known.get(stack) {
        return Ok(vec![answer]);
    }
    let names = |answer: &&Answer| {
        answer.experiment.split('-').any(|word| word == stack)
            || [&answer.link.from, &answer.link.to, &answer.group].contains(&&stack.to_owned())
    };
    let found: Vec<&Answer> = known.answers.iter().filter(names).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let experiments = catalog()?.names();
    if experiments.iter().any(|name| name == stack) {
        return Err(CliError::failed(format!(
            "no answer came with this lasthop for `{stack}`: `lasthop run {stack}` finds one"
        )));
    }
    let near = suggest(stack, &experiments).unwrap_or_default();
    Err(CliError::usage(format!(
        "no experiment names `{stack}`; {near} `lasthop list` shows all"
    )))
}
