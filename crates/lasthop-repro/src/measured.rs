//! The results of both ways of measuring, in the quantities of the study. Either way is a run, so figures are
//! expressions over its result, with one expression for both unless they differ.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use lasthop_analyse::summary::{CaseSummary, Metric, Summary};
use lasthop_model::level::texts;
use lasthop_plan::template::{expression_names, number};
use lasthop_stats::{Interval, mean};

use super::outcome::{Note, Ratios, RepeatedExperiment, Sample, Value};
use crate::study::{
    figures::{FIGURES, figure},
    model::{By, Claim, LASTHOP, Quantity, Study, StudyRun, unit},
};

/// Level of each factor.
type Levels = IndexMap<String, String>;

/// The results of one of a study's runs, by both ways of measuring.
#[derive(Debug, Default)]
pub struct Carried {
    pub part: RepeatedExperiment,
    pub by_study: Option<Summary>,
    pub by_lasthop: Option<Summary>,
    /// Findings of the records' checks that explain a difference.
    pub checks: Vec<Note>,
}

/// Everything measured for a study.
#[derive(Debug)]
pub struct Measured<'a> {
    pub study: &'a Study,
    /// The results of each run.
    pub carried: &'a [Carried],
}

pub fn fits(have: &Levels, wanted: &Levels) -> bool {
    wanted.iter().all(|(factor, level)| have.get(factor) == Some(level))
}

/// Names in an expression. Reading the study has already checked that the expression is valid.
pub fn names(expression: &str) -> BTreeSet<String> {
    expression_names(expression).unwrap_or_default()
}

/// Whether a name is a figure of a case.
pub fn is_figure(name: &str) -> bool {
    FIGURES.iter().any(|(known, _)| *known == name)
}

impl<'a> Measured<'a> {
    pub fn result(&self, run: &StudyRun, by: By) -> Option<&'a Summary> {
        let carried = self.carried.iter().find(|carried| carried.part.runs == run.id)?;
        match by {
            By::Study => carried.by_study.as_ref(),
            By::Lasthop => carried.by_lasthop.as_ref(),
        }
    }

    /// The value of a quantity for a condition, in the unit `of`. By the study's method it has no interval, as in the
    /// study.
    pub fn value(&self, run: &StudyRun, by: By, quantity: &Quantity, levels: &Levels, of: &str) -> Option<Value> {
        let known = self.known(run, by, quantity, levels)?.times(1.0 / unit(of));
        Some(match by {
            By::Study => Interval::exact(known.estimate).into(),
            By::Lasthop => known.into(),
        })
    }

    fn known(&self, run: &StudyRun, by: By, quantity: &Quantity, levels: &Levels) -> Option<Interval> {
        let expression = quantity.by(by)?;
        let mut wanted = levels.clone();
        wanted.extend(quantity.levels.clone());
        let names: Vec<String> = names(expression).into_iter().collect();
        let parts: Option<Vec<Interval>> = names.iter().map(|name| self.named(run, by, name, &wanted)).collect();
        Interval::combined(&parts?, |values| {
            let names = names.iter().map(String::as_str);
            number(expression, &names.zip(values.iter().copied()).collect::<Vec<_>>())
        })
    }

    /// The value of a name in an expression: a figure of the case, or a quantity that the experiment derives from
    /// several cases. A prefix with a dot refers to another run of the study, or to lasthop's method.
    fn named(&self, run: &StudyRun, by: By, name: &str, levels: &Levels) -> Option<Interval> {
        match name.split_once('.') {
            Some((LASTHOP, name)) => return self.named(run, By::Lasthop, name, levels),
            Some((other, name)) => return self.named(self.study.run(other)?, by, name, levels),
            None => {}
        }
        if is_figure(name) {
            return figure(self.case(run, by, levels)?, name);
        }
        let wanted = condition(run, levels);
        let mut all = self.result(run, by)?.derived.iter();
        let derived = all.find(|derived| derived.quantity == name && fits(&texts(&derived.levels), &wanted))?;
        // Derived quantities are in microseconds.
        Some(derived.value.as_ref()?.interval.times(1e-6))
    }

    /// The case of a condition.
    pub fn case(&self, run: &StudyRun, by: By, levels: &Levels) -> Option<&'a CaseSummary> {
        let wanted = condition(run, levels);
        let mut cases = self.result(run, by)?.cases.iter();
        cases.find(|case| fits(&texts(&case.levels), &wanted) && case.metrics.is_some())
    }

    /// The measured ratios of a claim; `None` if lasthop's method has no result.
    pub fn ratios(&self, claim: &Claim) -> Option<Ratios> {
        let run = self.study.run(&claim.runs)?;
        self.result(run, By::Lasthop)?;
        Some(Ratios {
            method: self.ratio(run, By::Study, claim).map(|ratio| ratio.estimate),
            lasthop: self.ratio(run, By::Lasthop, claim).map(Value::from),
            sample: self.sample(run, claim),
        })
    }

    /// The ratio of a claim; if several pairs of conditions fit, their geometric mean.
    fn ratio(&self, run: &StudyRun, by: By, claim: &Claim) -> Option<Interval> {
        let one = |(case, against): &(Levels, Levels)| {
            let paired = self.paired(run, by, claim, case, against);
            let apart = || {
                let over = self.known(run, by, &claim.measured, case)?;
                over.by(&self.known(run, by, &claim.against_measured, against)?)
            };
            paired.or_else(apart)
        };
        let ratios: Option<Vec<Interval>> = self.pairs(run, by, claim).iter().map(one).collect();
        geometric_mean(&ratios?)
    }

    /// The ratio within blocks, whose interval is narrower than one from the intervals of two rates or times.
    fn paired(&self, run: &StudyRun, by: By, claim: &Claim, case: &Levels, against: &Levels) -> Option<Interval> {
        if claim.against_quantity.is_some() {
            return None;
        }
        let over = self.case(run, by, case)?;
        let is_time = match claim.measured.by(by)? {
            "rate" => false,
            "time" => true,
            "mean" if over.reported.is_none() => true,
            _ => return None,
        };
        let under = self.case(run, by, against)?;
        let find = |one: &CaseSummary, other: &CaseSummary| {
            let all = self.result(run, by)?.comparisons.iter();
            let mut of_rates = all.filter(|found| found.metric == Metric::Throughput);
            let found = of_rates.find(|found| found.case == one.case && found.reference == other.case);
            found.map(|found| found.ratio)
        };
        let turned = || find(under, over).map(|ratio| ratio.inverse());
        let ratio = find(over, under).or_else(turned)?;
        Some(if is_time { ratio.inverse() } else { ratio })
    }

    /// Pairs of conditions that differ only in what the claim compares. For a quantity derived from several cases, this
    /// is the claim's own pair.
    fn pairs(&self, run: &StudyRun, by: By, claim: &Claim) -> Vec<(Levels, Levels)> {
        let of_cases = [&claim.measured, &claim.against_measured].map(|quantity| {
            quantity
                .by(by)
                .is_some_and(|expression| names(expression).iter().all(|name| is_figure(name)))
        });
        if of_cases.contains(&false) {
            return vec![(claim.case.clone(), claim.against.clone())];
        }
        let cases = self.result(run, by).into_iter().flat_map(|summary| &summary.cases);
        let fitting = cases
            .map(|case| texts(&case.levels))
            .filter(|have| fits(have, &claim.case));
        let pair = |over: Levels| {
            let mut under = over.clone();
            under.extend(claim.against.clone());
            (over, under)
        };
        fitting.map(pair).collect()
    }

    /// The sample behind a claim's ratio by lasthop's method: if the ratio uses several runs, the one with the fewest
    /// rounds.
    fn sample(&self, run: &StudyRun, claim: &Claim) -> Option<Sample> {
        let of = |run: &StudyRun| {
            let summary = self.result(run, By::Lasthop)?;
            Some(Sample {
                rounds: summary.rounds,
                blocks: summary.blocks,
            })
        };
        let expressions = [&claim.measured, &claim.against_measured].map(|quantity| quantity.by(By::Lasthop));
        let names = expressions.into_iter().flatten().flat_map(names);
        let others = names.filter_map(|name| of(self.study.run(name.split_once('.')?.0)?));
        let sample = std::iter::once(of(run)?)
            .chain(others)
            .min_by_key(|sample| sample.rounds)?;
        let rounds = if self.is_of_one_start(run, claim) {
            1
        } else {
            sample.rounds
        };
        Some(Sample { rounds, ..sample })
    }

    /// Whether all blocks with both sides of a claim are from one round, in a run of several.
    fn is_of_one_start(&self, run: &StudyRun, claim: &Claim) -> bool {
        let one_start = |(case, against): &(Levels, Levels)| {
            let [over, under] =
                [case, against].map(|levels| self.case(run, By::Lasthop, levels).map(|case| &case.case));
            let mut all = self
                .result(run, By::Lasthop)
                .into_iter()
                .flat_map(|summary| &summary.comparisons);
            all.any(|one| {
                let of = [Some(&one.case), Some(&one.reference)];
                one.one_start && (of == [over, under] || of == [under, over])
            })
        };
        self.pairs(run, By::Lasthop, claim).iter().any(one_start)
    }
}

/// Levels, with those added that distinguish the study's condition in a result.
fn condition(run: &StudyRun, levels: &Levels) -> Levels {
    let mut wanted = run.condition();
    wanted.extend(levels.clone());
    wanted
}

/// The geometric mean of ratios; errors of their logarithms combine in quadrature. Zero width if a ratio has no width,
/// and `None` without ratios.
fn geometric_mean(ratios: &[Interval]) -> Option<Interval> {
    if let [only] = ratios {
        return Some(*only);
    }
    let mean = |logs: &[f64]| mean::of(logs.iter().copied());
    let logs: Vec<Interval> = ratios.iter().map(|ratio| ratio.map(f64::ln)).collect();
    let all = Interval::combined(&logs, mean)?.map(f64::exp);
    let have_width = ratios.iter().all(Interval::has_width);
    Some(if have_width { all } else { Interval::exact(all.estimate) })
}

#[cfg(test)]
mod tests {
    use lasthop_analyse::{
        summarise,
        testing::{TCP, UNIX, run},
    };

    use super::*;
    use crate::study::catalog;

    const STUDY: &str = r#"
        title = "t"
        author = "a"
        published = "2017"
        question = "?"
        missed = []
        environment = { machine = "m", system = "s", software = {}, link = "l" }
        method = { driver = "program", text = "t", runs = 1, seconds = 1 }
        runs = [{ id = "one", experiment = "x" }, { id = "other", experiment = "x" }]
        quantities.more = { value = "time - other.time", words = "w" }
        quantities.start = { method = "time - lasthop.time", words = "w" }
        quantities.derived = { value = "derived", words = "w" }
        claims = [
            { runs = "one", text = "", case.transport = "unix", against.transport = "tcp", quantity = "requests-per-second" },
            { runs = "one", text = "", case.transport = "unix", against.transport = "tcp", quantity = "latency-mean" },
            { runs = "one", text = "", case = {}, against = {}, quantity = "more", against_quantity = "latency-p99" },
            { runs = "one", text = "", case = {}, against = {}, quantity = "start" },
            { runs = "one", text = "", case = {}, against = {}, quantity = "derived" },
        ]
    "#;

    #[test]
    fn both_columns_are_expressions_over_a_result() {
        let study = catalog::read("x", "x.toml", STUDY).unwrap();
        let own = summarise(&run(&[TCP, UNIX], 6, 5));
        let mut theirs = summarise(&run(&[TCP, UNIX], 1, 1));
        theirs.cases[1].reported = Some(lasthop_trial::result::Reported {
            mean_ns: Some(70_000.0),
            ..Default::default()
        });
        let carried = ["one", "other"].map(|runs| Carried {
            part: RepeatedExperiment {
                runs: runs.to_owned(),
                ..RepeatedExperiment::default()
            },
            by_study: Some(theirs.clone()),
            by_lasthop: Some(own.clone()),
            checks: Vec::new(),
        });
        let measured = Measured {
            study: &study,
            carried: &carried,
        };
        let [rate, latency, more, start, derived] = &study.claims[..] else {
            panic!()
        };
        let one = &study.runs[0];
        let value = |by, claim: &Claim, levels: &Levels, unit| measured.value(one, by, &claim.measured, levels, unit);
        // The reference is the first case, and the study's method has no interval.
        let found = value(By::Study, rate, &rate.against, "1/s").unwrap();
        assert!((found.value - theirs.cases[0].metrics.as_ref().unwrap().throughput.interval.estimate).abs() < 1e-6);
        assert_eq!(found.low, None);
        let found = value(By::Lasthop, latency, &latency.against, "us").unwrap();
        assert!(
            (found.value / 50.0 - 1.0).abs() < 0.05 && found.low < Some(found.value),
            "{found:?}"
        );
        assert_eq!(
            value(By::Study, latency, &latency.case, "us").unwrap().value,
            70.0,
            "as it says itself"
        );
        // A comparison within blocks is narrower than its parts.
        let ratios = measured.ratios(rate).unwrap();
        let paired = own
            .comparisons
            .iter()
            .find(|found| found.metric == Metric::Throughput)
            .unwrap();
        assert_eq!(ratios.lasthop, Some(paired.ratio.into()));
        assert_eq!(
            measured.ratios(latency).unwrap().lasthop,
            Some(paired.ratio.inverse().into())
        );
        assert_eq!(ratios.sample, Some(Sample { rounds: 6, blocks: 30 }));
        let ends = |ratio: Option<Value>| ratio.map(|ratio| (ratio.low, ratio.high));
        assert_ne!(ends(ratios.lasthop), Some((None, None)));
        // Names of other results.
        let found = value(By::Lasthop, more, &rate.case, "s").unwrap();
        assert!(found.value == 0.0 && found.low < Some(0.0), "{found:?}");
        let found = value(By::Study, start, &rate.against, "s").unwrap();
        assert!(found.value.abs() < 5e-6 && found.value != 0.0, "{found:?}");
        assert_eq!(value(By::Lasthop, start, &rate.case, "s"), None);
        assert_eq!(value(By::Study, derived, &rate.case, "s"), None);
    }

    #[test]
    fn several_pairs_are_one_ratio() {
        let ratio = |estimate: f64, half: f64| Interval {
            estimate,
            low: estimate / half,
            high: estimate * half,
        };
        let all = geometric_mean(&[ratio(2.0, 1.2), ratio(8.0, 1.2)]).unwrap();
        assert!((all.estimate - 4.0).abs() < 1e-9);
        assert!((all.high / 4.0 - 1.2_f64.powf(0.5_f64.sqrt())).abs() < 1e-9, "{all:?}");
        assert!(!geometric_mean(&[ratio(2.0, 1.0), ratio(2.0, 1.1)]).unwrap().has_width());
        assert_eq!(geometric_mean(&[]), None);
    }
}
