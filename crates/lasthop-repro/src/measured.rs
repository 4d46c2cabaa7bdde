//! What the two ways of measuring yielded, by condition, in the quantities of the study.

use indexmap::IndexMap;
use lasthop_analyse::summary::{CaseSummary, Summary};
use lasthop_model::level::texts;
use lasthop_protocol::TrialResult;
use lasthop_stats::{Interval, mean};

use super::outcome::{Ratios, Sample, Value};
use crate::study::model::{Base, Claim, Quantity, StudyRun, Time, unit};

/// Level of each factor.
type Levels = IndexMap<String, String>;

/// Trials of one condition by the study's method.
#[derive(Clone, Debug)]
pub struct MethodCase {
    pub levels: IndexMap<String, String>,
    /// One for each run of `count` requests or the length of the method.
    pub trials: Vec<TrialResult>,
    /// The same with twice as many requests, for a line.
    pub double: Vec<TrialResult>,
}

/// Everything measured for one of a study's runs.
#[derive(Debug)]
pub struct MeasuredPart<'a> {
    pub run: &'a StudyRun,
    pub method: &'a [MethodCase],
    pub design: Option<&'a Summary>,
    /// Those of the run that is subtracted.
    pub minus: Option<Box<MeasuredPart<'a>>>,
}

pub fn fits(have: &IndexMap<String, String>, wanted: &IndexMap<String, String>) -> bool {
    wanted.iter().all(|(factor, level)| have.get(factor) == Some(level))
}

impl MeasuredPart<'_> {
    /// A quantity by the study's method, in `of`'s unit: the mean of its runs, as the study had it.
    pub fn method_value(&self, quantity: &Quantity, levels: &IndexMap<String, String>, of: &str) -> Option<Value> {
        let value = self.by_method(quantity, levels)? / unit(of);
        value.is_finite().then_some(Value {
            value,
            low: None,
            high: None,
        })
    }

    /// A quantity by lasthop's design, in `of`'s unit, with its interval.
    pub fn design_value(&self, quantity: &Quantity, levels: &IndexMap<String, String>, of: &str) -> Option<Value> {
        let known = self.by_design(quantity, levels)?.times(1.0 / unit(of));
        known.estimate.is_finite().then(|| known.into())
    }

    fn method_case(&self, levels: &IndexMap<String, String>) -> Option<&MethodCase> {
        self.method
            .iter()
            .find(|case| fits(&case.levels, levels) && !case.trials.is_empty())
    }

    /// Seconds of a request by the study's method.
    fn method_time(&self, levels: &IndexMap<String, String>) -> Option<f64> {
        let elapsed = |trials: &[TrialResult]| mean::of(trials.iter().map(|trial| trial.elapsed_ns as f64 / 1e9));
        let requests = |trials: &[TrialResult]| mean::of(trials.iter().map(|trial| trial.requests as f64));
        let per = |levels: &IndexMap<String, String>| {
            let case = self.method_case(levels)?;
            Some(elapsed(&case.trials)? / requests(&case.trials)?)
        };
        match &self.run.time {
            Time::Rate => per(levels),
            Time::Slope => {
                let case = self.method_case(levels)?;
                let more = requests(&case.double)? - requests(&case.trials)?;
                (more > 0.0).then_some((elapsed(&case.double)? - elapsed(&case.trials)?) / more)
            }
            Time::Levels(factor) => {
                let ends = ends(self.method.iter().map(|case| &case.levels), factor, levels)?;
                Some((per(&ends.1.1)? - per(&ends.0.1)?) / (ends.1.0 - ends.0.0))
            }
        }
    }

    /// A line that falls has no rate.
    fn method_rate(&self, levels: &Levels) -> Option<f64> {
        self.method_time(levels).filter(|time| *time > 0.0).map(f64::recip)
    }

    fn by_method(&self, quantity: &Quantity, levels: &IndexMap<String, String>) -> Option<f64> {
        let trials = || self.method_case(levels).map(|case| &case.trials);
        let average = |of: &dyn Fn(&TrialResult) -> Option<f64>| {
            let values: Option<Vec<f64>> = trials()?.iter().map(of).collect();
            mean::of(values?)
        };
        let seconds = |trial: &TrialResult| trial.elapsed_ns as f64 / 1e9;
        let said = |of: fn(&lasthop_protocol::result::Reported) -> Option<f64>| {
            average(&|trial| {
                trial
                    .reported
                    .as_deref()
                    .and_then(of)
                    .map(|nanoseconds| nanoseconds / 1e9)
            })
        };
        match quantity {
            Quantity { count: Some(count), .. } => self.exactly(*count, levels),
            Quantity { level: Some(level), .. } => self.at_level(level, levels),
            Quantity { base, .. } => match base {
                Base::Rate if self.run.time == Time::Rate => average(&|trial| Some(trial.throughput())),
                Base::Rate => self.method_rate(levels),
                Base::LatencyMean => said(|reported| reported.mean_ns),
                Base::LatencyDeviation => said(|reported| reported.deviation_ns),
                Base::LatencyMax => said(|reported| reported.max_ns),
                Base::LatencyP99 => said(|reported| reported.p99_ns),
                Base::Requests => average(&|trial| Some(trial.requests as f64)),
                Base::Seconds => average(&|trial| Some(seconds(trial))),
                Base::Received => average(&|trial| Some(trial.bytes_received as f64)),
                Base::Transfer => average(&|trial| Some(trial.bytes_received as f64 / seconds(trial))),
                Base::Time => self.method_time(levels),
                Base::Difference => Some(self.method_time(levels)? - self.minus.as_ref()?.method_time(levels)?),
                Base::Subtracted => self.minus.as_ref()?.method_time(levels),
                Base::ToolStart => Some(self.method_time(levels)? - self.design_time(levels)?.estimate),
                Base::Printed => None,
            },
        }
    }

    /// Mean seconds of the runs of so many requests, if they had exactly so many.
    fn exactly(&self, count: u64, levels: &IndexMap<String, String>) -> Option<f64> {
        let case = self.method_case(levels)?;
        let trials = if self.run.count == Some(count) {
            &case.trials
        } else {
            &case.double
        };
        let all = trials.iter().all(|trial| trial.requests == count);
        mean::of(trials.iter().map(|trial| trial.elapsed_ns as f64 / 1e9)).filter(|_| all)
    }

    fn at_level(&self, level: &str, levels: &IndexMap<String, String>) -> Option<f64> {
        let Time::Levels(factor) = &self.run.time else {
            return None;
        };
        let mut wanted = levels.clone();
        wanted.insert(factor.clone(), level.to_owned());
        let case = self.method_case(&wanted)?;
        mean::of(
            case.trials
                .iter()
                .map(|trial| trial.elapsed_ns as f64 / 1e9 / trial.requests.max(1) as f64),
        )
    }

    /// The case of lasthop's design that a condition corresponds to.
    pub fn design_case(&self, levels: &IndexMap<String, String>) -> Option<&CaseSummary> {
        let summary = self.design?;
        let wanted = self.design_condition(levels);
        summary
            .cases
            .iter()
            .find(|case| fits(&texts(&case.levels), &wanted) && case.metrics.is_some())
    }

    /// A condition with what tells it from other cases of lasthop's design.
    fn design_condition(&self, levels: &Levels) -> Levels {
        let mut wanted = self.run.design_condition();
        wanted.extend(levels.clone());
        wanted
    }

    /// The derived quantity of the experiment that answers what the study got by a line or a subtraction, in seconds.
    fn derived(&self, quantity: &Quantity, levels: &Levels) -> Option<Interval> {
        let name = self
            .run
            .design
            .quantity
            .as_ref()
            .filter(|_| self.is_derived(quantity))?;
        let wanted = self.design_condition(levels);
        let mut all = self.design?.derived.iter();
        let found = all.find(|derived| derived.quantity == *name && fits(&texts(&derived.levels), &wanted))?;
        found.value.as_ref().map(|value| value.interval.times(1e-6))
    }

    /// Whether a quantity follows from several cases rather than from one.
    fn is_derived(&self, quantity: &Quantity) -> bool {
        let line = quantity.is(Base::Time) || quantity.is(Base::Rate);
        let difference = quantity.base == Base::Difference;
        self.run.design.quantity.is_some() && (difference || line && self.run.time != Time::Rate)
    }

    /// Seconds of a unit of so many requests on a connection of its own.
    fn unit_time(&self, requests: u32, levels: &Levels) -> Option<Interval> {
        let wanted = self.design_condition(levels);
        let mut cases = self.design?.cases.iter();
        let case =
            cases.find(|case| fits(&texts(&case.levels), &wanted) && case.load.requests_per_connection == requests)?;
        Some(request_time(case)?.times(f64::from(requests)))
    }

    /// Seconds of a request at a level of the factor that a line goes over.
    fn design_time_at(&self, level: &str, levels: &Levels) -> Option<Interval> {
        let Time::Levels(factor) = &self.run.time else {
            return None;
        };
        let mut wanted = levels.clone();
        wanted.insert(factor.clone(), level.to_owned());
        request_time(self.design_case(&wanted)?)
    }

    /// Seconds of a request by lasthop's design, in one case or of a line through several.
    fn design_time(&self, levels: &IndexMap<String, String>) -> Option<Interval> {
        let per = |levels: &IndexMap<String, String>| request_time(self.design_case(levels)?);
        let Time::Levels(factor) = &self.run.time else {
            return per(levels);
        };
        let cases: Vec<Levels> = self.design?.cases.iter().map(|case| texts(&case.levels)).collect();
        let ends = ends(cases.iter(), factor, levels)?;
        Some(
            per(&ends.1.1)?
                .minus(&per(&ends.0.1)?)
                .times(1.0 / (ends.1.0 - ends.0.0)),
        )
    }

    /// What another of the runs takes from its own: its line where it has one, else the time of its case.
    fn subtracted(&self, levels: &Levels) -> Option<Interval> {
        self.derived(&Quantity::of(Base::Time), levels)
            .or_else(|| self.design_time(levels))
    }

    fn by_design(&self, quantity: &Quantity, levels: &IndexMap<String, String>) -> Option<Interval> {
        if self.is_derived(quantity) {
            let found = self.derived(quantity, levels)?;
            return if quantity.base == Base::Rate {
                inverse(found)
            } else {
                Some(found)
            };
        }
        let metrics = || self.design_case(levels).and_then(|case| case.metrics.as_ref());
        match quantity {
            Quantity { count: Some(count), .. } => self.unit_time(u32::try_from(*count).ok()?, levels),
            Quantity { level: Some(level), .. } => self.design_time_at(level, levels),
            Quantity { base, .. } => match base {
                Base::Rate if matches!(self.run.time, Time::Levels(_)) => inverse(self.design_time(levels)?),
                Base::Rate => metrics().map(|metrics| metrics.throughput.interval),
                Base::LatencyP99 => metrics()?
                    .latency_p99
                    .as_ref()
                    .map(|measured| measured.interval.times(1e-6)),
                Base::LatencyMax => metrics()?.latency_max.map(|value| Interval::exact(value * 1e-6)),
                Base::LatencyMean | Base::Time => self.design_time(levels),
                Base::Difference => Some(
                    self.design_time(levels)?
                        .minus(&self.minus.as_ref()?.design_time(levels)?),
                ),
                Base::Subtracted => self.minus.as_ref()?.subtracted(levels),
                _ => None,
            },
        }
    }

    pub fn ratios(&self, claim: &Claim) -> Ratios {
        Ratios {
            method: self.method_ratio(claim),
            lasthop: self.design_ratio(claim),
            sample: self.sample(claim),
        }
    }

    /// The ratio of a claim by the study's method; where several pairs of conditions fit, their geometric mean.
    fn method_ratio(&self, claim: &Claim) -> Option<f64> {
        let logs: Option<Vec<f64>> = self
            .pairs(&claim.case, &claim.against)
            .iter()
            .map(|(case, against): &(Levels, Levels)| {
                let ratio =
                    self.by_method(&claim.measured, case)? / self.by_method(&claim.against_measured, against)?;
                (ratio.is_finite() && ratio > 0.0).then(|| ratio.ln())
            })
            .collect();
        mean::of(logs?).map(f64::exp)
    }

    /// The ratio of a claim by lasthop's design; where several pairs of conditions fit, their geometric mean. For a rate
    /// it is the comparison within blocks, which is narrower than what the two intervals alone would give.
    fn design_ratio(&self, claim: &Claim) -> Option<Value> {
        let one = |(case, against): &(Levels, Levels)| {
            if claim.against_quantity.is_none()
                && let Some(paired) = self.paired(&claim.measured, case, against)
            {
                return Some(paired);
            }
            self.by_design(&claim.measured, case)?
                .by(&self.by_design(&claim.against_measured, against)?)
                .map(Value::from)
        };
        let ratios: Option<Vec<Value>> = self.pairs(&claim.case, &claim.against).iter().map(one).collect();
        geometric_mean(&ratios?)
    }

    /// How much the ratio of a claim by lasthop's design rests on: where it takes two runs, on the fewer rounds.
    fn sample(&self, claim: &Claim) -> Option<Sample> {
        let of = |summary: &Summary| Sample {
            rounds: summary.rounds,
            blocks: summary.blocks,
        };
        let own = of(self.design?);
        let takes_two = |quantity: &Quantity| quantity.base == Base::Subtracted;
        let other = self.minus.as_ref().and_then(|minus| minus.design).map(of);
        let other = other.filter(|_| takes_two(&claim.measured) || takes_two(&claim.against_measured));
        let sample = other.map_or(own, |other| std::cmp::min_by_key(own, other, |sample| sample.rounds));
        let rounds = if self.of_one_start(claim) { 1 } else { sample.rounds };
        Some(Sample { rounds, ..sample })
    }

    /// Whether the blocks that have both sides of a claim are all of one round, where there were more.
    fn of_one_start(&self, claim: &Claim) -> bool {
        let one_start = |(case, against): &(Levels, Levels)| {
            let [over, under] = [case, against].map(|levels| self.design_case(levels).map(|case| &case.case));
            let mut all = self.design.iter().flat_map(|summary| &summary.comparisons);
            all.any(|one| {
                let of = [Some(&one.case), Some(&one.reference)];
                one.one_start && (of == [over, under] || of == [under, over])
            })
        };
        self.pairs(&claim.case, &claim.against).iter().any(one_start)
    }

    /// Pairs of conditions that differ in what the claim compares and in nothing else.
    fn pairs(&self, case: &Levels, against: &Levels) -> Vec<(Levels, Levels)> {
        if self.run.design.quantity.is_some() {
            return vec![(case.clone(), against.clone())];
        }
        let counted = match &self.run.time {
            Time::Levels(factor) => Some(factor),
            Time::Rate | Time::Slope => None,
        };
        let design = self
            .design
            .iter()
            .flat_map(|summary| &summary.cases)
            .map(|case| texts(&case.levels));
        let mut pairs = Vec::new();
        for mut over in design.filter(|have| fits(have, case)) {
            over.retain(|factor, _| Some(factor) != counted);
            let mut under = over.clone();
            under.extend(against.clone());
            if !pairs.iter().any(|(known, _)| *known == over) {
                pairs.push((over, under));
            }
        }
        pairs
    }

    fn paired(&self, quantity: &Quantity, case: &Levels, against: &Levels) -> Option<Value> {
        use lasthop_analyse::summary::Metric;
        let time = quantity.is(Base::Time) || quantity.is(Base::LatencyMean);
        let plain = matches!(self.run.time, Time::Rate | Time::Slope);
        if !plain || self.is_derived(quantity) || !(time || quantity.is(Base::Rate)) {
            return None;
        }
        let summary = self.design?;
        let over = self.design_case(case)?;
        let under = self.design_case(against)?;
        let find = |one: &str, other: &str| {
            let mut all = summary
                .comparisons
                .iter()
                .filter(|comparison| comparison.metric == Metric::Throughput);
            all.find(|comparison| comparison.case == one && comparison.reference == other)
        };
        let straight = find(&over.case, &under.case).map(|found| found.ratio);
        let turned = || find(&under.case, &over.case).map(|found| found.ratio.inverse());
        let ratio = straight.or_else(turned)?;
        Some(if time { ratio.inverse() } else { ratio }.into())
    }
}

/// One divided by it. An interval that reaches 0 has no inverse.
fn inverse(known: Interval) -> Option<Interval> {
    (known.low > 0.0).then(|| known.inverse())
}

/// Seconds of a request in one case: one divided by the rate of a connection.
fn request_time(case: &CaseSummary) -> Option<Interval> {
    let rate = case.metrics.as_ref()?.throughput.interval;
    Some(inverse(rate)?.times(f64::from(case.load.connections.max(1))))
}

/// On a scale of logarithms; the errors of the parts add up in squares. `None` for no ratio.
fn geometric_mean(ratios: &[Value]) -> Option<Value> {
    if let [only] = ratios {
        return Some(*only);
    }
    let count = ratios.len() as f64;
    let value = mean::of(ratios.iter().map(|ratio| ratio.value.ln()))?.exp();
    let spread = |bound: &dyn Fn(&Value) -> Option<f64>| {
        let parts: Option<Vec<f64>> = ratios
            .iter()
            .map(|ratio| Some((bound(ratio)? / ratio.value).ln().powi(2)))
            .collect();
        Some(parts?.iter().sum::<f64>().sqrt() / count)
    };
    let down = spread(&|ratio| ratio.low);
    let up = spread(&|ratio| ratio.high);
    Some(Value {
        value,
        low: down.map(|log| value * (-log).exp()),
        high: up.map(|log| value * log.exp()),
    })
}

/// A number of a factor, and the levels of its condition.
type End = (f64, IndexMap<String, String>);

/// The least and the highest level of a factor among the conditions that fit, as numbers.
fn ends<'a>(
    cases: impl Iterator<Item = &'a IndexMap<String, String>>,
    factor: &str,
    levels: &IndexMap<String, String>,
) -> Option<(End, End)> {
    let fitting = cases.filter(|have| fits(have, levels));
    let mut numbers: Vec<End> = fitting
        .filter_map(|have| {
            let level = have.get(factor)?;
            let mut wanted = levels.clone();
            wanted.insert(factor.to_owned(), level.clone());
            Some((level.parse::<f64>().ok()?, wanted))
        })
        .collect();
    numbers.sort_by(|one, other| one.0.total_cmp(&other.0));
    let first = numbers.first()?.clone();
    let last = numbers.last()?.clone();
    (last.0 > first.0).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(estimate: f64, low: f64, high: f64) -> Interval {
        Interval { estimate, low, high }
    }

    #[test]
    fn intervals_go_through_arithmetic() {
        assert_eq!(inverse(known(4.0, 2.0, 8.0)), Some(known(0.25, 0.125, 0.5)));
        assert_eq!(inverse(known(1.0, -1.0, 3.0)), None);
        assert_eq!(
            known(10.0, 7.0, 13.0).minus(&known(4.0, 0.0, 8.0)),
            known(6.0, 1.0, 11.0)
        );
        let ratio = known(8.0, 4.0, 16.0).by(&known(2.0, 2.0, 2.0)).unwrap();
        assert!(
            (ratio.estimate - 4.0).abs() < 1e-9 && (ratio.low - 2.0).abs() < 1e-9 && (ratio.high - 8.0).abs() < 1e-9
        );
        let unbounded = known(3.0, 0.5, 4.0).by(&known(1.0, -1.0, 2.0)).unwrap();
        assert_eq!(
            Value::from(unbounded),
            Value {
                value: 3.0,
                low: None,
                high: None
            },
            "undecided, not nothing"
        );
        assert_eq!(known(1.0, 0.5, 2.0).by(&known(-1.0, -2.0, 2.0)), None);
    }

    #[test]
    fn several_pairs_are_one_ratio() {
        let ratio = |value: f64, half: f64| Value {
            value,
            low: Some(value / half),
            high: Some(value * half),
        };
        let all = geometric_mean(&[ratio(2.0, 1.2), ratio(8.0, 1.2)]).unwrap();
        assert!((all.value - 4.0).abs() < 1e-9);
        assert!(
            (all.high.unwrap() / 4.0 - 1.2_f64.powf(0.5_f64.sqrt())).abs() < 1e-9,
            "{all:?}"
        );
        let without = Value {
            value: 2.0,
            low: None,
            high: None,
        };
        assert_eq!(geometric_mean(&[without, ratio(2.0, 1.1)]).unwrap().low, None);
        assert_eq!(
            Value::from(Interval::exact(3.0)),
            Value {
                value: 3.0,
                low: None,
                high: None
            }
        );
    }

    #[test]
    fn a_line_needs_two_levels() {
        let case = |rows: &str| IndexMap::from([("rows".to_owned(), rows.to_owned())]);
        let cases = [case("4000"), case("1000")];
        let ((low, _), (high, _)) = ends(cases.iter(), "rows", &IndexMap::new()).unwrap();
        assert_eq!((low, high), (1000.0, 4000.0));
        assert!(ends(cases[..1].iter(), "rows", &IndexMap::new()).is_none());
    }
}
