//! A classic tool beside lasthop over the cases of a study, in turn, with the shape of the load and not the study's flags:
//! do two load generators count the same?

use super::{
    carry_out::Job,
    outcome::{Agreement, CrossCheck},
};
use crate::{
    analyse::{
        self,
        summary::{Check, Summary},
    },
    experiment::{
        cases::{OWN_DRIVER, Selection},
        model::Experiment,
        plan::Plan,
    },
    record::schema::Settings,
    run::event::Event,
    study::model::StudyRun,
    tool::{Tool, ToolChoice},
};

/// The checks of a run that speak of two drivers, without the words in front.
const CHECKS: &str = "cross-check-";

/// The tool that can check a study's cases. psql is no load generator: it is started for each number that it yields, and
/// pgbench asks the same of the same server without that.
fn tool(method: Option<Tool>) -> Option<Tool> {
    match method {
        Some(Tool::Psql) => Some(Tool::Pgbench),
        other => other,
    }
}

impl Job<'_> {
    /// Case by case, whether the tool agrees; and the record.
    pub fn cross_check(
        &self,
        run: &StudyRun,
        experiment: &Experiment,
        tell: &mut dyn FnMut(&Event<'_>),
    ) -> (Vec<CrossCheck>, Option<String>) {
        let Some(tool) = tool(self.study.method.tool) else {
            let text = "the study's own programs drive, and no classic tool speaks their protocol".to_owned();
            return (vec![not_run(text)], None);
        };
        let drivers = [OWN_DRIVER, tool.name()].map(str::to_owned).to_vec();
        let selection = Selection { set: self.levels(run), drivers, ..Selection::default() };
        let plan = match Plan::new(experiment.clone(), &selection) {
            Ok(plan) => plan,
            Err(error) => return (vec![not_run(error.to_string())], None),
        };
        let choice = ToolChoice { tool, flags: Vec::new(), count: None };
        let settings = Settings { tools: vec![choice], headroom: false, ..self.design_settings(&plan) };
        match self.execute(&plan, settings, tell) {
            Ok((record, data)) => (agreements(&analyse::summarise(&data)), Some(record)),
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
        all.push(not_run("no block had both drivers: a longer budget has".to_owned()));
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
