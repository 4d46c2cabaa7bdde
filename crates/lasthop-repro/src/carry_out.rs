//! The runs of a repetition. First lasthop's own design over all conditions together; then the study's method, each
//! condition by itself, one after the other, as the study had them.

use std::time::Duration;

use indexmap::IndexMap;
use lasthop_analyse::summary::Summary;
use lasthop_classic::Tool;
use lasthop_model::{
    driver::ToolChoice,
    engine::EngineKind,
    level::texts,
    quantity::counted,
    record::{CasePlan, Environment, ExplainSettings, Stopped},
    selection::{Choice, Selection},
};
use lasthop_plan::{
    catalog::LoadError,
    model::Experiment,
    plan::Plan,
    settings::{Overrides, PlacementChoice},
};
use lasthop_protocol::spec::Reuse;
use lasthop_record::{RunData, store};
use lasthop_run::{RunError, event::Event};
use lasthop_stack::{home::Home, locate::Locator};
use lasthop_system::interrupt;

use super::{
    Options,
    found::{found, layers},
    measured::MethodCase,
    outcome::{Note, Part},
};
use crate::study::model::{Study, StudyRun, Time};

/// Below this budget the short levels of a study are taken.
const SHORT: Duration = Duration::from_secs(60);
/// What starting and stopping the servers of one condition takes, about.
const START: f64 = 2.5;
/// What starting psql takes, about; it is started for every connection.
const PSQL: f64 = 0.03;

/// Checks that tell why a figure is another on this machine.
const EXPLAINING: [&str; 6] = [
    "driver-saturated",
    "driver-kept-off",
    "headroom",
    "steal",
    "foreign-load",
    "throttled",
];

/// One repetition under way.
pub struct Job<'a> {
    pub study: &'a Study,
    pub options: &'a Options<'a>,
    pub engine: Option<EngineKind>,
    /// For each of its runs.
    pub budget: Duration,
}

/// What the runs of one part left.
#[derive(Debug, Default)]
pub struct Carried {
    pub method: Vec<MethodCase>,
    pub design: Option<Summary>,
    /// What the checks of the records say that explains a difference.
    pub checks: Vec<Note>,
    pub method_environment: Option<Environment>,
}

impl Carried {
    pub fn environment(&self) -> Option<&Environment> {
        let design = self.design.as_ref().and_then(|summary| summary.environment.as_ref());
        self.method_environment.as_ref().or(design)
    }

    /// The first finding of each check for either method.
    fn keep_checks(&mut self, summary: &Summary, of: &str) {
        for check in summary.checks.iter().filter(|check| EXPLAINING.contains(&&*check.id)) {
            if !self
                .checks
                .iter()
                .any(|note| note.id == check.id && note.text.starts_with(of))
            {
                self.checks.push(Note {
                    id: check.id.clone(),
                    text: format!("{of}: {}; {}", check.evidence, check.effect),
                });
            }
        }
    }
}

/// What studies published are requests per second, and times of a request that follow from them: at a rate they would
/// be the rate.
fn closed(plan: &Plan) -> Result<(), String> {
    let Some((case, rate)) = plan.cases.iter().find_map(|case| Some((&case.case, case.load.rate?))) else {
        return Ok(());
    };
    let Experiment { name, source, .. } = &plan.experiment;
    Err(format!(
        "experiment `{name}` ({source}) has {rate} requests/s in the case {case}, but figures of a study need a closed \
         loop: set its `rate` to 0 there, or rename your own folder"
    ))
}

/// Why a run has no record.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    /// A program is not on this machine.
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    Other(String),
}

/// An experiment with the cases of both ways of measuring.
struct Plans {
    experiment: Experiment,
    design: Plan,
    method: Plan,
}

/// The method as it can be had in the time.
struct Shortened {
    runs: u32,
    seconds: u64,
    count: Option<u64>,
    text: Option<String>,
}

impl Job<'_> {
    /// Both ways of measuring for one of the study's runs.
    pub fn carry_out(&self, run: &StudyRun, tell: &mut dyn FnMut(&Event<'_>)) -> (Part, Carried) {
        let mut part = Part {
            runs: run.id.clone(),
            experiment: run.experiment.clone(),
            ..Part::default()
        };
        let mut carried = Carried::default();
        part.beyond.clone_from(&run.beyond);
        let Plans {
            experiment,
            design,
            method: plan,
        } = match self.plans(run) {
            Ok(planned) => planned,
            Err(reason) => {
                part.skipped = Some(reason);
                return (part, carried);
            }
        };
        let overrides = Overrides {
            explain: self.options.explain.then(ExplainSettings::default),
            ..self.overrides()
        };
        match self.execute(&design, overrides, tell) {
            Ok((record, data)) => {
                let summary = lasthop_analyse::summarise(&data);
                part.design_record = Some(record);
                part.design = Some(describe_design(run, &design, &summary));
                part.found = found(run, &summary);
                part.layers = layers(self.study, run, &summary);
                keep_failures(&mut part, &summary, "lasthop's method");
                carried.keep_checks(&summary, "lasthop's method");
                carried.design = Some(summary);
            }
            Err(Trouble::Missing(cause)) => {
                part.skipped = Some(cause);
                part.missing = true;
                return (part, carried);
            }
            Err(cause) => part.failures.push(format!("lasthop's method: {cause}")),
        }
        if run.beyond.is_none() {
            self.study_method(run, &experiment, &plan, &mut part, &mut carried, tell);
        }
        (part, carried)
    }

    /// The study's method, one condition after the other.
    fn study_method(
        &self,
        run: &StudyRun,
        experiment: &Experiment,
        plan: &Plan,
        part: &mut Part,
        carried: &mut Carried,
        tell: &mut dyn FnMut(&Event<'_>),
    ) {
        let shortened = self.shorten(run, plan, carried.design.as_ref());
        part.shortened.clone_from(&shortened.text);
        part.method = Some(self.describe(run, plan, &shortened));
        for case in &plan.cases {
            if interrupt::heard() {
                part.failures.push("interrupted".to_owned());
                break;
            }
            let mut method = MethodCase {
                levels: texts(&case.levels),
                trials: Vec::new(),
                double: Vec::new(),
            };
            let factors: &[u64] = if run.time == Time::Slope { &[1, 2] } else { &[1] };
            for &factor in factors {
                match self.method(experiment, case, &shortened, factor, tell) {
                    Ok((record, data)) => {
                        let answered = data.trials().filter(|trial| trial.result.requests > 0);
                        let into = if factor == 1 {
                            &mut method.trials
                        } else {
                            &mut method.double
                        };
                        into.extend(answered.map(|trial| trial.result.clone()));
                        let summary = lasthop_analyse::summarise(&data);
                        keep_failures(part, &summary, "the study's method");
                        carried.keep_checks(&summary, "the study's method");
                        part.method_records.push(record);
                        carried.method_environment = carried.method_environment.take().or(data.environment);
                    }
                    Err(cause) => push_once(&mut part.failures, format!("the study's method: {cause}")),
                }
            }
            carried.method.push(method);
        }
    }

    /// The experiment and all conditions of the study, or why there is nothing to run.
    fn plans(&self, run: &StudyRun) -> Result<Plans, String> {
        if interrupt::heard() {
            return Err("interrupted".to_owned());
        }
        let because = run
            .because
            .as_ref()
            .map_or_else(String::new, |because| format!(": {because}"));
        let experiment = match self.options.catalog.load(&run.experiment) {
            Ok(experiment) => experiment,
            Err(LoadError::Unknown { .. }) => {
                return Err(format!("there is no experiment `{}` here{because}", run.experiment));
            }
            Err(error) => return Err(error.to_string()),
        };
        if let Some(because) = &run.because {
            return Err(because.clone());
        }
        let plan = |set| {
            let selection = Selection {
                set,
                ..Selection::default()
            };
            Plan::new(experiment.clone(), &selection).map_err(|error| error.to_string())
        };
        let design = plan(self.design_levels(run))?;
        let method = plan(self.levels(run))?;
        closed(&design).and_then(|()| closed(&method))?;
        Ok(Plans {
            experiment,
            design,
            method,
        })
    }

    /// Levels of the runs, and of the figures and claims that they answer.
    fn levels(&self, run: &StudyRun) -> Vec<Choice> {
        let short = if self.budget < SHORT {
            run.short.clone()
        } else {
            IndexMap::new()
        };
        self.with_figures(run, run.levels.clone(), short)
    }

    /// The same for lasthop's own design.
    fn design_levels(&self, run: &StudyRun) -> Vec<Choice> {
        let mut short = IndexMap::new();
        if self.budget < SHORT {
            short.extend(run.short.clone());
            short.extend(run.design.short.clone());
        }
        self.with_figures(run, run.design_levels(), short)
    }

    fn with_figures(
        &self,
        run: &StudyRun,
        mut chosen: IndexMap<String, Vec<String>>,
        short: IndexMap<String, Vec<String>>,
    ) -> Vec<Choice> {
        let figures = self
            .study
            .figures
            .iter()
            .filter(|figure| figure.runs == run.id)
            .map(|figure| &figure.levels);
        let claims = self.study.claims.iter();
        let claims = claims.filter(|claim| claim.runs == run.id && claim.because.is_none());
        for (factor, level) in figures
            .chain(claims.flat_map(|claim| [&claim.case, &claim.against]))
            .flatten()
        {
            let levels = chosen.entry(factor.clone()).or_default();
            if !levels.contains(level) {
                levels.push(level.clone());
            }
        }
        chosen.extend(short);
        chosen
            .into_iter()
            .map(|(factor, levels)| Choice { factor, levels })
            .collect()
    }

    /// What all its runs do differently from their experiments.
    fn overrides(&self) -> Overrides {
        Overrides {
            seed: self.options.seed,
            budget: Some(self.budget),
            ..Overrides::default()
        }
    }

    /// One condition as the study had it: its servers alone, one start of them, its runs one after the other, no
    /// pinning.
    fn method(
        &self,
        experiment: &Experiment,
        case: &CasePlan,
        shortened: &Shortened,
        factor: u64,
        tell: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(String, RunData), Trouble> {
        let tool = self.study.method.tool;
        let levels = case.levels.iter();
        let selection = Selection {
            set: levels
                .map(|(name, level)| Choice {
                    factor: name.clone(),
                    levels: vec![level.to_string()],
                })
                .collect(),
            drivers: tool.iter().map(|tool| tool.name.to_owned()).collect(),
            ..Selection::default()
        };
        let plan = Plan::new(experiment.clone(), &selection).map_err(|error| Trouble::Other(error.to_string()))?;
        let count = shortened.count.map(|count| count * factor);
        let seconds = shortened.seconds * factor;
        let overrides = Overrides {
            trial: Some(Duration::from_secs(seconds)),
            warm_up: Some(Duration::ZERO),
            blocks: Some(shortened.runs),
            rounds: Some(1),
            // Never reached, so that all its runs take place.
            precision: Some(1e-6),
            // The number of runs ends it, not the time: more than their starts and pauses take.
            budget: Some(Duration::from_secs(u64::from(shortened.runs) * (seconds + 20) + 120)),
            placement: PlacementChoice::Free,
            tools: tool
                .map(|tool| self.choice(tool, shortened, count))
                .into_iter()
                .collect(),
            ..self.overrides()
        };
        self.execute(&plan, overrides, tell)
    }

    fn choice(&self, tool: &Tool, shortened: &Shortened, count: Option<u64>) -> ToolChoice {
        let seconds = shortened.seconds.to_string();
        let number = count.unwrap_or(1).to_string();
        let flags = self.study.method.flags.iter();
        let flags = flags
            .map(|flag| flag.replace("{seconds}", &seconds).replace("{count}", &number))
            .collect();
        ToolChoice {
            flags,
            count,
            ..ToolChoice::plain(tool.name)
        }
    }

    /// Fewer runs first, then shorter ones, so that the method takes about as long as the budget at most.
    fn shorten(&self, run: &StudyRun, plan: &Plan, design: Option<&Summary>) -> Shortened {
        let method = &self.study.method;
        let rate = design.map_or(1000.0, slowest);
        let needed = |count: u64| {
            let start = if method.tool.is_some_and(|tool| tool.is_timed_from_outside)
                && plan.cases.iter().any(|case| case.load.reuse == Reuse::PerRequest)
            {
                PSQL
            } else {
                0.0
            };
            count as f64 * (2.0 / rate + start)
        };
        let slope = if run.time == Time::Slope { 2.0 } else { 1.0 };
        let conditions = plan.cases.len() as f64 * slope;
        // A slope has a second length, which is double: together three, of which each is 1.5 on average.
        let one = method.seconds.map_or_else(|| needed(run.count.unwrap_or(1)), f64::from) * (1.0 + slope) / 2.0;
        let room = (self.budget.as_secs_f64() / conditions - START).max(2.0);
        let runs = ((room / one) as u32).clamp(1, run.runs);
        let scale = (room / one).min(1.0);
        let seconds = method
            .seconds
            .map(|seconds| ((f64::from(seconds) * scale) as u64).max(1));
        let count = run
            .count
            .map(|count| ((count as f64 * scale) as u64).clamp(count.min(50), count));
        let mut shorter = Vec::new();
        if runs < run.runs {
            shorter.push(format!("{runs} of {} runs", run.runs));
        }
        if let (Some(now), Some(then)) = (seconds, method.seconds)
            && now < u64::from(then)
        {
            shorter.push(format!("{now} s of {then} s"));
        }
        if let (Some(now), Some(then), None) = (count, run.count, method.seconds)
            && now < then
        {
            shorter.push(format!("{now} of {then} requests"));
        }
        Shortened {
            runs,
            seconds: seconds.unwrap_or_else(|| needed(count.unwrap_or(1)).ceil().max(1.0) as u64),
            count,
            text: (!shorter.is_empty()).then(|| shorter.join(", ")),
        }
    }

    fn describe(&self, run: &StudyRun, plan: &Plan, shortened: &Shortened) -> String {
        let driver = match self.study.method.tool {
            Some(tool) => self.choice(tool, shortened, shortened.count).to_string(),
            None => "the experiment's own programs".to_owned(),
        };
        let length = match (self.study.method.seconds, shortened.count) {
            (None, Some(count)) if run.time == Time::Slope => format!("{count} and {} requests", 2 * count),
            (None, Some(count)) => format!("{count} {}", if count == 1 { "request" } else { "requests" }),
            _ => format!("{} s", shortened.seconds),
        };
        let length = match &run.time {
            Time::Levels(factor) => format!("{length}, {}", levels_of(plan, factor)),
            Time::Rate | Time::Slope => length,
        };
        let plural = if shortened.runs == 1 { "run" } else { "runs averaged" };
        format!(
            "{driver}, {length}, {} {plural}, one condition after the other",
            shortened.runs
        )
    }

    fn execute(
        &self,
        plan: &Plan,
        overrides: Overrides,
        tell: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(String, RunData), Trouble> {
        let options = self.options;
        let settings = plan
            .settings(overrides)
            .map_err(|error| Trouble::Other(error.to_string()))?;
        let place = plan.experiment.place();
        options.home.check_packages(&place).map_err(Trouble::Other)?;
        let locator = Locator::new(options.home, &place, options.programs.clone());
        let job = lasthop_run::Job {
            engine: self.engine,
            whole_round: true,
            ..lasthop_run::Job::new(plan, settings, &locator, options.into, options.command.clone())
        };
        let outcome = lasthop_run::carry_out(&job, None, tell).map_err(|error| match error {
            RunError::Missing(cause) => Trouble::Missing(cause),
            other => Trouble::Other(other.to_string()),
        })?;
        if outcome.stopped == Stopped::Interrupted && !interrupt::heard() {
            return Err(Trouble::Other("lasthop's guard process was lost".to_owned()));
        }
        let data = store::read(&outcome.record).map_err(|error| Trouble::Other(error.to_string()))?;
        Ok((relative(options.into, &outcome.record), data))
    }
}

/// What of a factor was run: `rows of 50000 and 100000`.
fn levels_of(plan: &Plan, factor: &str) -> String {
    let mut levels: Vec<String> = Vec::new();
    for level in plan
        .cases
        .iter()
        .filter_map(|case| case.levels.get(factor))
        .map(ToString::to_string)
    {
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    format!("{factor} of {}", levels.join(" and "))
}

/// The numbers that a line goes through, and how often each case was measured.
fn describe_design(run: &StudyRun, plan: &Plan, summary: &Summary) -> String {
    let series = run.design_levels().into_iter().filter(|(factor, levels)| {
        let numbers = levels.len() > 1 && levels.iter().all(|level| level.parse::<u64>().is_ok());
        numbers
            && plan
                .experiment
                .derive
                .values()
                .any(|derive| derive.per.as_ref() == Some(factor))
    });
    let mut words: Vec<String> = series.map(|(factor, _)| levels_of(plan, &factor)).collect();
    words.push(format!(
        "{} in {} of {}",
        counted(u64::from(summary.blocks), "block"),
        counted(u64::from(summary.rounds), "round"),
        counted(plan.cases.len() as u64, "case")
    ));
    words.join(", ")
}

/// A record's path below the folder of the repetition.
fn relative(into: &Home, record: &std::path::Path) -> String {
    record.strip_prefix(into.path()).unwrap_or(record).display().to_string()
}

fn slowest(design: &Summary) -> f64 {
    let rates = design
        .cases
        .iter()
        .filter_map(|case| Some(case.metrics.as_ref()?.throughput.interval.estimate));
    // Without a rate, infinity comes out of the fold.
    rates.fold(f64::INFINITY, f64::min).clamp(0.05, 1e7)
}

fn keep_failures(part: &mut Part, summary: &Summary, of: &str) {
    for failure in &summary.failures {
        push_once(
            &mut part.failures,
            format!("{of}: {} failed at {}: {}", failure.case, failure.stage, failure.cause),
        );
    }
}

fn push_once(list: &mut Vec<String>, text: String) {
    if !list.contains(&text) {
        list.push(text);
    }
}
