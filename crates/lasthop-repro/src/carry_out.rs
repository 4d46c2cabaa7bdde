//! The runs of a repetition. Each part is run by lasthop's own design, then by the study's method: with the study's
//! tool and length of trials, in one round with a block for each of the study's repetitions.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use indexmap::IndexMap;
use lasthop_analyse::summary::Summary;
use lasthop_model::{
    driver::ToolChoice,
    engine::EngineKind,
    quantity::counted,
    record::{Digests, ExplainSettings, Origin, RunHeader, Settings, Stopped},
    selection::{Choice, Selection},
};
use lasthop_plan::{
    digest,
    model::{Experiment, Source},
    plan::Plan,
    settings::{Overrides, PlacementChoice},
};
use lasthop_record::{Store, store};
use lasthop_run::{RunError, event::Event, resume::Unfinished};
use lasthop_stack::locate::Locator;
use lasthop_system::interrupt;
use lasthop_trial::options::Reuse;

use super::{
    Options,
    found::{found, layers},
    measured::Carried,
    outcome::Note,
};
use crate::study::model::{By, Study, StudyRun};

/// Smaller budgets use the short levels of a study.
const SHORT: Duration = Duration::from_secs(60);
/// Approximate time for starting and stopping the servers, in seconds.
const START: f64 = 4.0;
/// Approximate time for starting psql, in seconds; every connection starts a psql.
const PSQL: f64 = 0.03;

/// Checks that explain why a figure differs on this machine.
const EXPLAINING: [&str; 6] = [
    "driver-saturated",
    "driver-kept-off",
    "headroom",
    "steal",
    "foreign-load",
    "throttled",
];

/// A repetition in progress.
pub struct Job<'a> {
    pub study: &'a Study,
    pub options: &'a Options<'a>,
    pub engine: Option<EngineKind>,
    /// The budget of each run.
    pub budget: Duration,
}

/// Refuses open loops: figures of a study are requests per second, or times derived from them, and at a rate they would
/// only repeat the rate.
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
    /// A program is missing on this machine.
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    Other(String),
}

/// The plan of a run, and the selection of its cases.
type Planned = (Plan, Selection);

/// The length of the method's runs within the budget.
struct Length {
    runs: u32,
    seconds: u64,
    count: Option<u64>,
    /// The reductions against the study's length, in words.
    shortened: Option<String>,
}

impl Job<'_> {
    /// Measures one of the study's runs in both ways.
    pub fn carry_out(&self, run: &StudyRun, tell: &mut dyn FnMut(&Event<'_>)) -> Carried {
        let mut carried = Carried::default();
        let part = &mut carried.part;
        part.runs.clone_from(&run.id);
        part.experiment.clone_from(&run.experiment);
        part.beyond.clone_from(&run.beyond);
        let [design, method] = match self.plans(run) {
            Ok(plans) => plans,
            Err(reason) => {
                part.skipped = Some(reason);
                return carried;
            }
        };
        let overrides = Overrides {
            explain: self.options.explain.then(ExplainSettings::default),
            ..self.overrides()
        };
        let done = match self.execute(&design, overrides, tell) {
            Err(Trouble::Missing(cause)) => {
                part.skipped = Some(cause);
                part.missing = true;
                return carried;
            }
            done => done,
        };
        if let Some((record, summary)) = keep(&mut carried, By::Lasthop, done) {
            let part = &mut carried.part;
            part.design_record = Some(record);
            part.design = Some(describe_design(&design.0, &summary));
            part.found = found(self.study, run, &summary);
            part.layers = layers(self.study, run, &summary);
            carried.by_lasthop = Some(summary);
        }
        if run.beyond.is_none() {
            let length = self.length(run, &method.0, carried.by_lasthop.as_ref());
            carried.part.method = Some(self.describe(&method.0, &length));
            let done = self.execute(&method, self.method(&method.0, &length), tell);
            carried.part.shortened = length.shortened;
            if let Some((record, summary)) = keep(&mut carried, By::Study, done) {
                carried.part.method_records = vec![record];
                carried.by_study = Some(summary);
            }
        }
        carried
    }

    /// The plans of lasthop's design and of the study's method, or why there is nothing to run.
    fn plans(&self, run: &StudyRun) -> Result<[Planned; 2], String> {
        if interrupt::heard() {
            return Err("interrupted".to_owned());
        }
        if let Some(because) = &run.because {
            return Err(because.clone());
        }
        let experiment = self.options.catalog.load(&run.experiment)?;
        let plan = |set, drivers| {
            let selection = Selection {
                set,
                drivers,
                ..Selection::default()
            };
            let plan = Plan::new(experiment.clone(), &selection).map_err(|error| error.to_string())?;
            closed(&plan).map(|()| (plan, selection))
        };
        let mut short = run.short.clone();
        let method = self.levels(run, run.levels.clone(), &short);
        short.extend(run.design.short.clone());
        let design = self.levels(run, run.design_levels(), &short);
        let tool = self.study.method.tool().into_iter();
        Ok([
            plan(design, Vec::new())?,
            plan(method, tool.map(|tool| tool.name.to_owned()).collect())?,
        ])
    }

    /// Levels of the run and of its figures and claims; a small budget selects the levels of `short`.
    fn levels(
        &self,
        run: &StudyRun,
        mut chosen: IndexMap<String, Vec<String>>,
        short: &IndexMap<String, Vec<String>>,
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
        if self.budget < SHORT {
            chosen.extend(short.clone());
        }
        chosen
            .into_iter()
            .map(|(factor, levels)| Choice { factor, levels })
            .collect()
    }

    /// Settings in which all runs differ from their experiments.
    fn overrides(&self) -> Overrides {
        Overrides {
            seed: self.options.seed,
            budget: Some(self.budget),
            ..Overrides::default()
        }
    }

    /// Settings of the study's method: one start of the servers, a block for each of its repetitions, no pinning.
    fn method(&self, plan: &Plan, length: &Length) -> Overrides {
        let trials = u64::from(length.runs) * plan.cases.len() as u64;
        Overrides {
            trial: Some(Duration::from_secs(length.seconds)),
            warm_up: Some(Duration::ZERO),
            blocks: Some(length.runs),
            rounds: Some(1),
            // More time than the trials with their starts and pauses need, so that the number of blocks ends the run.
            budget: Some(Duration::from_secs(trials * (length.seconds + 20) + 120)),
            placement: PlacementChoice::Free,
            tools: self.tool(length).into_iter().collect(),
            ..self.overrides()
        }
    }

    fn tool(&self, length: &Length) -> Option<ToolChoice> {
        let seconds = length.seconds.to_string();
        let count = length.count.unwrap_or(1).to_string();
        let flags = self.study.method.flags.iter();
        Some(ToolChoice {
            flags: flags
                .map(|flag| flag.replace("{seconds}", &seconds).replace("{count}", &count))
                .collect(),
            count: length.count,
            ..ToolChoice::plain(self.study.method.tool()?.name)
        })
    }

    /// The length that keeps the method within about the budget: fewer runs first, then shorter runs.
    fn length(&self, run: &StudyRun, plan: &Plan, design: Option<&Summary>) -> Length {
        let method = &self.study.method;
        let all_runs = run.runs.unwrap_or(method.runs).max(1);
        let all_requests = run.count.or(method.count);
        let rate = design.map_or(1000.0, slowest);
        let loads = || plan.cases.iter().map(|case| &case.load);
        let together = loads().map(|load| load.requests_per_connection).max().unwrap_or(1);
        let is_started = method.tool().is_some_and(|tool| tool.is_timed_from_outside)
            && loads().any(|load| load.reuse == Reuse::PerRequest);
        let start = if is_started { PSQL } else { 0.0 };
        let needed = |count: u64| count as f64 * (2.0 * f64::from(together) / rate + start);
        let one = method
            .seconds
            .map_or_else(|| needed(all_requests.unwrap_or(1)), f64::from);
        let room = ((self.budget.as_secs_f64() - START) / plan.cases.len() as f64).max(2.0);
        let runs = ((room / one) as u32).clamp(1, all_runs);
        let scale = (room / one).min(1.0);
        let seconds = method
            .seconds
            .map(|seconds| ((f64::from(seconds) * scale) as u64).max(1));
        let count = all_requests.map(|count| ((count as f64 * scale) as u64).clamp(count.min(50), count));
        let mut shorter = Vec::new();
        if runs < all_runs {
            shorter.push(format!("{runs} of {all_runs} runs"));
        }
        if let (Some(now), Some(then)) = (seconds, method.seconds)
            && now < u64::from(then)
        {
            shorter.push(format!("{now} s of {then} s"));
        }
        if let (Some(now), Some(then), None) = (count, all_requests, method.seconds)
            && now < then
        {
            shorter.push(format!("{now} of {then} requests"));
        }
        Length {
            runs,
            seconds: seconds.unwrap_or_else(|| needed(count.unwrap_or(1)).ceil().max(1.0) as u64),
            count,
            shortened: (!shorter.is_empty()).then(|| shorter.join(", ")),
        }
    }

    fn describe(&self, plan: &Plan, length: &Length) -> String {
        let tool = self.tool(length).map(|tool| tool.to_string());
        let mut words = vec![tool.unwrap_or_else(|| "the experiment's own programs".to_owned())];
        words.extend(match (self.study.method.seconds, length.count) {
            (None, Some(1)) => None,
            (None, Some(count)) => Some(format!("{count} requests")),
            _ => Some(format!("{} s", length.seconds)),
        });
        words.extend(series(plan));
        words.push(match length.runs {
            1 => "1 run of each condition".to_owned(),
            runs => format!("{runs} runs of each condition in turn, averaged"),
        });
        words.join(", ")
    }

    /// Makes a run, or continues an equal run of an interrupted repetition.
    fn execute(
        &self,
        (plan, selection): &Planned,
        overrides: Overrides,
        tell: &mut dyn FnMut(&Event<'_>),
    ) -> Result<(String, Summary), Trouble> {
        let options = self.options;
        let settings = plan.settings(overrides).map_err(Trouble::Other)?;
        let origin = Origin {
            experiment: match &plan.experiment.source {
                Source::Folder(folder) => folder.display().to_string(),
                Source::BuiltIn | Source::Given => plan.experiment.name.clone(),
            },
            selection: selection.clone(),
            programs: options.programs.clone(),
            engine: self.engine,
            files: digest::of_experiment(&plan.experiment),
            ..Origin::default()
        };
        let store = Store::new(options.into.path());
        let begun = self.begun(&store, &origin, &settings);
        let record = match begun.as_ref().filter(|record| is_finished(record)) {
            Some(record) => record.clone(),
            None => {
                let unfinished = begun.and_then(|record| Unfinished::open(&record, &store).ok());
                let unfinished = unfinished.and_then(|run| Some((run.settings(None).ok()?, run)));
                let (settings, unfinished) =
                    unfinished.map_or((settings, None), |(settings, run)| (settings, Some(run)));
                self.measure(plan, settings, origin, unfinished, tell)?
            }
        };
        let data = store::read(&record).map_err(Trouble::Other)?;
        let relative = record.strip_prefix(options.into.path()).unwrap_or(&record);
        Ok((relative.display().to_string(), lasthop_analyse::summarise(&data)))
    }

    /// The record of an equal run that began after the last finished repetition, and so belongs to an interrupted one.
    fn begun(&self, store: &Store, origin: &Origin, settings: &Settings) -> Option<PathBuf> {
        let is_such = |record: &Path| {
            let header = store::header(record).ok();
            let Some(header) = header.and_then(|header| lasthop_record::in_use(&header).ok()) else {
                return false;
            };
            let RunHeader {
                lasthop,
                started,
                settings: then,
                ..
            } = header;
            let wanted = Settings {
                seed: self.options.seed.unwrap_or(then.seed),
                placement: then.placement.clone(),
                ..settings.clone()
            };
            let from = header.origin.map(|from| Origin {
                executables: Digests::new(),
                ..from
            });
            let is_later = SystemTime::from(started) > self.options.since;
            is_later && lasthop == env!("CARGO_PKG_VERSION") && wanted == then && from.as_ref() == Some(origin)
        };
        store.newest(is_such).ok()?
    }

    /// Makes a run, or resumes an unfinished one, unless its origin or environment has changed.
    fn measure(
        &self,
        plan: &Plan,
        settings: Settings,
        origin: Origin,
        unfinished: Option<Unfinished>,
        tell: &mut dyn FnMut(&Event<'_>),
    ) -> Result<PathBuf, Trouble> {
        let options = self.options;
        let place = plan.experiment.place();
        options.home.check_packages(&place).map_err(Trouble::Other)?;
        let locator = Locator::new(options.home, &place, options.programs.clone());
        let job = lasthop_run::Job {
            whole_round: true,
            ..lasthop_run::Job::new(plan, settings, &locator, options.into, options.command.clone()).with_origin(origin)
        };
        let outcome = match lasthop_run::carry_out(&job, unfinished, tell) {
            Err(RunError::Changed(_)) => lasthop_run::carry_out(&job, None, tell),
            outcome => outcome,
        };
        let outcome = outcome.map_err(|error| match error {
            RunError::Missing(cause) => Trouble::Missing(cause),
            other => Trouble::Other(other.to_string()),
        })?;
        outcome.guarded().map_err(Trouble::Other)
    }
}

/// Whether a run needs no resuming. A run that failed does, because its servers may work by now.
fn is_finished(record: &Path) -> bool {
    let end = store::end(record).ok().flatten();
    end.is_some_and(|end| matches!(end.stopped, Stopped::Precision | Stopped::Rounds | Stopped::Budget))
}

/// The numbers of the lines that the experiment derives: `rows of 50000 and 100000`.
fn series(plan: &Plan) -> Vec<String> {
    let per = plan.experiment.derive.values().filter_map(|derive| derive.per.as_ref());
    let levels = |factor: &String| {
        let mut levels: Vec<String> = Vec::new();
        for level in plan.cases.iter().filter_map(|case| case.levels.get(factor)) {
            let level = level.to_string();
            if !levels.contains(&level) {
                levels.push(level);
            }
        }
        (levels.len() > 1).then(|| format!("{factor} of {}", levels.join(" and ")))
    };
    per.filter_map(levels).collect()
}

/// The numbers of derived lines, and the number of measurements of each case.
fn describe_design(plan: &Plan, summary: &Summary) -> String {
    let mut words = series(plan);
    words.push(format!(
        "{} in {} of {}",
        counted(u64::from(summary.blocks), "block"),
        counted(u64::from(summary.rounds), "round"),
        counted(plan.cases.len() as u64, "case")
    ));
    words.join(", ")
}

fn slowest(design: &Summary) -> f64 {
    let rates = design
        .cases
        .iter()
        .filter_map(|case| Some(case.metrics.as_ref()?.throughput.interval.estimate));
    // Without any rate, the fold returns infinity.
    rates.fold(f64::INFINITY, f64::min).clamp(0.05, 1e7)
}

/// Records a run's failures, and the first finding of each check that explains a difference.
fn keep(carried: &mut Carried, by: By, done: Result<(String, Summary), Trouble>) -> Option<(String, Summary)> {
    let of = by.words();
    let failures = &mut carried.part.failures;
    let (record, summary) = match done {
        Ok(done) => done,
        Err(cause) => {
            failures.push(format!("{of}: {cause}"));
            return None;
        }
    };
    for failure in &summary.failures {
        let text = format!("{of}: {} failed at {}: {}", failure.case, failure.stage, failure.cause);
        if !failures.contains(&text) {
            failures.push(text);
        }
    }
    for id in EXPLAINING {
        let check = summary.checks.iter().find(|check| check.id == id);
        carried.checks.extend(check.map(|check| Note {
            id: id.to_owned(),
            text: format!("{of}: {}; {}", check.evidence, check.effect),
        }));
    }
    Some((record, summary))
}
