//! A classic tool beside lasthop over the cases of a study, in turn, with the shape of the load and not the study's flags:
//! do two load generators count the same?

use lasthop_analyse::summary::{Check, Summary};
use lasthop_model::{
    driver::ToolChoice,
    selection::{OWN_DRIVER, Selection},
};
use lasthop_plan::{model::Experiment, plan::Plan, settings::Overrides};
use lasthop_run::event::Event;

use super::{
    carry_out::Job,
    outcome::{Agreement, CrossCheck},
};
use crate::study::model::StudyRun;

/// The checks of a run that speak of two drivers, without the words in front.
const CHECKS: &str = "cross-check-";

impl Job<'_> {
    /// Case by case, whether the tool agrees; and the record.
    pub fn cross_check(
        &self,
        run: &StudyRun,
        experiment: &Experiment,
        tell: &mut dyn FnMut(&Event<'_>),
    ) -> (Vec<CrossCheck>, Option<String>) {
        let Some(tool) = self.study.method.tool.map(|tool| tool.cross_check) else {
            let text = "the study's own programs drive, and no classic tool knows their protocol".to_owned();
            return (vec![not_run(text)], None);
        };
        let drivers = [OWN_DRIVER, tool].map(str::to_owned).to_vec();
        let selection = Selection { set: self.levels(run), drivers, ..Selection::default() };
        let plan = match Plan::new(experiment.clone(), &selection) {
            Ok(plan) => plan,
            Err(error) => return (vec![not_run(error.to_string())], None),
        };
        let tools = vec![ToolChoice::plain(tool)];
        let overrides = Overrides { tools, no_headroom: true, ..self.overrides() };
        match self.execute(&plan, overrides, tell) {
            Ok((record, data)) => (agreements(&lasthop_analyse::summarise(&data)), Some(record)),
            Err(cause) => (vec![not_run(cause.to_string())], None),
        }
    }
}

fn not_run(text: String) -> CrossCheck {
    CrossCheck { case: None, word: Agreement::NotRun, text }
}

fn agreements(summary: &Summary) -> Vec<CrossCheck> {
    let judged = summary.checks.iter().filter_map(of_check);
    let failed = summary.failures.iter().map(|failure| CrossCheck {
        case: Some(failure.case.clone()),
        word: Agreement::NotRun,
        text: format!("failed at {}: {}", failure.stage, failure.cause),
    });
    let mut all: Vec<CrossCheck> = judged.collect();
    for failure in failed {
        if !all.contains(&failure) {
            all.push(failure);
        }
    }
    if all.is_empty() {
        all.push(not_run("no block contains both drivers; use a longer budget".to_owned()));
    }
    all
}

fn of_check(check: &Check) -> Option<CrossCheck> {
    let word = match check.id.strip_prefix(CHECKS)? {
        "agrees" => Agreement::Agrees,
        "explained" => Agreement::Explained,
        "differs" => Agreement::Differs,
        _ => Agreement::Undecided,
    };
    Some(CrossCheck { case: check.case.clone(), word, text: format!("{}: {}", check.evidence, check.effect) })
}
