//! What people repeat about transports, held against runs. A [`Belief`] is data: what would have to be seen in which
//! cases. The verdict on it follows from one interval.

use indexmap::IndexMap;
use lasthop_model::record::CasePlan;
use lasthop_record::data::RunData;
use lasthop_stats::totals::Whole;
use serde::Deserialize;

use super::{
    checks::driver::mark_lower_bounds,
    comparisons,
    explained::Between,
    summary::{Measured, Metric, Summary},
    trials::Trials,
};

/// The check by which layers miss a part of the CPU time.
const INCOMPLETE: &str = "layers-do-not-add-up";

/// A file of beliefs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beliefs {
    /// Command lines of the runs that answer them, by name.
    pub runs: IndexMap<String, String>,
    #[serde(rename = "belief")]
    pub beliefs: Vec<Belief>,
}

/// A sentence that people repeat.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Belief {
    pub sentence: String,
    /// Name of the run.
    pub run: String,
    /// Levels that one case of the run has, and no other.
    pub case: IndexMap<String, String>,
    /// Those of what it is held against; its own reference if left out.
    pub against: Option<IndexMap<String, String>>,
    pub measure: Measure,
    /// It holds if what is measured is at least this.
    pub least: Option<f64>,
    /// It holds if what is measured is at most this.
    pub most: Option<f64>,
}

/// What decides. Layers go by their ids.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// The part of these layers in all CPU time that the case saves (or costs).
    ShareOfSaving(Vec<String>),
    /// What the case saves in these layers, as a share of all CPU time of the other.
    ShareOfCpu(Vec<String>),
    /// CPU time in these layers divided by that of the other.
    Times(Vec<String>),
    /// Events per request divided by those of the other. `*` at the end stands for anything.
    Events(Vec<String>),
    /// The ratio of two cases.
    Ratio(Metric),
}

/// What a run says of a belief.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Names of the cases.
    pub case: String,
    pub against: String,
    /// What decides; `None` if the run has no interval of it.
    pub by: Option<Measured>,
    /// Microseconds per request that the case saves in these layers, and in all, where the measure is of layers.
    pub saved: Option<[Measured; 2]>,
    /// Whether the layers of these cases do not add up to their CPU time, which leaves what decides by layers undecided.
    pub incomplete: bool,
    pub word: Word,
}

/// The verdict on a belief.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// All of the interval agrees with it.
    Holds,
    /// All of the interval contradicts it.
    Refuted,
    Undecided,
}

impl Measure {
    /// Ids of the layers that it is about.
    #[must_use]
    pub fn layers(&self) -> &[String] {
        match self {
            Self::ShareOfSaving(layers) | Self::ShareOfCpu(layers) | Self::Times(layers) => layers,
            Self::Events(_) | Self::Ratio(_) => &[],
        }
    }
}

impl Belief {
    /// What a run says of it.
    ///
    /// # Errors
    /// In words: the run has no such case, or several.
    pub fn judge(&self, data: &RunData, summary: &Summary) -> Result<Judged, String> {
        let (case, against) = self.cases(&data.header.cases)?;
        let trials = Trials::new(data);
        let between = Between::of(&trials, case, &against.case);
        let usable = summary.invalid(&case.case, &against.case).is_none();
        let layers = self.measure.layers();
        let saved = || Some([between.saved_in(layers)?, between.saved()?]);
        let is_of_them = |name: &str| name == case.case || name == against.case;
        let incomplete = !layers.is_empty()
            && summary
                .checks
                .iter()
                .any(|check| check.id == INCOMPLETE && check.case.as_deref().is_none_or(is_of_them));
        let by = usable
            .then(|| self.measured(&trials, case, against, &between))
            .flatten();
        Ok(Judged {
            case: case.case.clone(),
            against: against.case.clone(),
            saved: (usable && !layers.is_empty()).then(saved).flatten(),
            word: by
                .as_ref()
                .filter(|_| !incomplete)
                .map_or(Word::Undecided, |by| self.word(by)),
            incomplete,
            by,
        })
    }

    /// The two cases that it is about.
    ///
    /// # Errors
    /// In words: there is no such case, or there are several.
    pub fn cases<'a>(&self, all: &'a [CasePlan]) -> Result<(&'a CasePlan, &'a CasePlan), String> {
        let case = the_one(all, &self.case)?;
        let against = match (&self.against, &case.reference) {
            (Some(levels), _) => the_one(all, levels)?,
            (None, Some(name)) => all
                .iter()
                .find(|other| other.case == *name)
                .ok_or_else(|| format!("there is no case {name}"))?,
            (None, None) => return Err(format!("{} has no reference", case.case)),
        };
        Ok((case, against))
    }

    fn measured(
        &self,
        trials: &Trials,
        case: &CasePlan,
        against: &CasePlan,
        between: &Between<'_>,
    ) -> Option<Measured> {
        match &self.measure {
            // Of a difference that may be none, no share is known.
            Measure::ShareOfSaving(layers) => between
                .saved()
                .filter(|all| all.low > 0.0 || all.high < 0.0)
                .and_then(|_| between.share(layers, Whole::Difference)),
            Measure::ShareOfCpu(layers) => between.share(layers, Whole::Reference),
            Measure::Times(layers) => between.times(layers),
            Measure::Events(events) => between.events(events),
            Measure::Ratio(metric) => ratio(trials, case, against, *metric),
        }
    }

    fn word(&self, by: &Measured) -> Word {
        let agrees = self.least.is_none_or(|least| by.low >= least) && self.most.is_none_or(|most| by.high <= most);
        let contradicts =
            self.least.is_some_and(|least| by.high < least) || self.most.is_some_and(|most| by.low > most);
        match (agrees, contradicts) {
            (true, _) => Word::Holds,
            (_, true) => Word::Refuted,
            _ => Word::Undecided,
        }
    }
}

/// The only case with these levels.
fn the_one<'a>(all: &'a [CasePlan], levels: &IndexMap<String, String>) -> Result<&'a CasePlan, String> {
    let has = |case: &&CasePlan| {
        let level = |factor: &String| case.levels.get(factor).map(ToString::to_string);
        levels
            .iter()
            .all(|(factor, wanted)| level(factor).as_ref() == Some(wanted))
    };
    let mut found = all.iter().filter(has);
    match (found.next(), found.next()) {
        (Some(case), None) => Ok(case),
        (None, _) => Err(format!("no case has the levels {levels:?}")),
        (Some(one), Some(other)) => Err(format!("{} and {} have the levels {levels:?}", one.case, other.case)),
    }
}

/// Where the driver or the machine was the limit, the true ratio may lie farther from 1.
fn ratio(trials: &Trials, case: &CasePlan, against: &CasePlan, metric: Metric) -> Option<Measured> {
    let mut found = [comparisons::between(trials, case, against, metric)?];
    mark_lower_bounds(trials, &mut found);
    let [found] = found;
    let (low, high) = match (found.lower_bound, found.ratio > 1.0) {
        (false, _) => (found.low, found.high),
        (true, true) => (found.low, f64::INFINITY),
        (true, false) => (0.0, found.high),
    };
    Some(Measured {
        unit: "ratio".to_owned(),
        estimate: found.ratio,
        low,
        high,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        summarise,
        testing::{Layers, count, healthy, profile},
    };

    /// The Unix socket saves 8 µs in one layer and 4 in another, and costs 2 in a third; it is 1.3 times as fast.
    fn run() -> RunData {
        let of = |case, layers| Layers {
            case,
            layers,
            without: 0.0,
        };
        let mut data = healthy();
        let tcp = of("tcp", &[("tcp", 8_000.0), ("loopback", 4_000.0), ("memory", 1_000.0)]);
        let unix = of("unix", &[("unix", 2_000.0), ("memory", 1_000.0)]);
        profile(&mut data, &[tcp, unix], 1);
        data
    }

    fn belief(measure: Measure, least: Option<f64>, most: Option<f64>) -> Belief {
        Belief {
            sentence: "They say so".to_owned(),
            run: "run".to_owned(),
            case: IndexMap::from([("transport".to_owned(), "unix".to_owned())]),
            against: None,
            measure,
            least,
            most,
        }
    }

    fn judged(measure: Measure, least: Option<f64>, most: Option<f64>) -> Judged {
        let data = run();
        belief(measure, least, most).judge(&data, &summarise(&data)).unwrap()
    }

    fn layers(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_share_of_what_is_saved_decides() {
        let of = |least, most| judged(Measure::ShareOfSaving(layers(&["tcp"])), least, most);
        let found = of(Some(0.5), None);
        // 8 of 10 µs.
        let by = found.by.as_ref().unwrap();
        assert!((by.estimate - 0.8).abs() < 0.02 && by.low < by.estimate, "{by:?}");
        let [part, all] = found.saved.as_ref().unwrap();
        assert!(
            (part.estimate - 8.0).abs() < 0.2 && (all.estimate - 10.0).abs() < 0.4,
            "{part:?} of {all:?}"
        );
        assert_eq!(found.word, Word::Holds);
        assert_eq!(of(Some(0.9), None).word, Word::Refuted);
        assert_eq!(of(None, Some(0.5)).word, Word::Refuted);
        assert_eq!(of(Some(by.estimate), None).word, Word::Undecided);
        assert_eq!(of(Some(0.5), Some(0.9)).word, Word::Holds);
    }

    #[test]
    fn so_do_a_share_of_all_and_times_of_a_layer() {
        let share = judged(Measure::ShareOfCpu(layers(&["tcp", "loopback"])), Some(0.1), None);
        // 12 of 13 µs of the server and 10 of the driver.
        let by = share.by.unwrap();
        assert!(
            (by.estimate - 12.0 / 23.0).abs() < 0.02 && share.word == Word::Holds,
            "{by:?}"
        );
        let same = judged(Measure::Times(layers(&["memory"])), Some(0.9), Some(1.1));
        assert_eq!(same.word, Word::Holds, "{same:?}");
        let never = judged(Measure::Times(layers(&["unix"])), Some(0.9), None);
        assert_eq!((never.by, never.word), (None, Word::Undecided), "nothing to divide by");
    }

    #[test]
    fn so_do_ratios_and_counted_events() {
        let metric = Measure::Ratio(Metric::Throughput);
        assert_eq!(judged(metric.clone(), Some(1.2), Some(1.4)).word, Word::Holds);
        assert_eq!(judged(metric.clone(), None, Some(1.02)).word, Word::Refuted);
        assert_eq!(judged(metric.clone(), None, Some(1.02)).saved, None);
        let uncounted = judged(Measure::Events(layers(&["syscalls:*"])), Some(1.0), None);
        assert_eq!((uncounted.by, uncounted.word), (None, Word::Undecided));

        let mut data = run();
        for (case, reads) in [("tcp", 2), ("unix", 1)] {
            count(&mut data, case, "syscalls:read", reads);
            count(&mut data, case, "switches", 1);
        }
        let of = |event: &str| {
            let belief = belief(Measure::Events(layers(&[event])), None, Some(0.9));
            let found = belief.judge(&data, &summarise(&data)).unwrap();
            (found.by.unwrap().estimate, found.word)
        };
        assert_eq!(of("syscalls:*"), (0.5, Word::Holds));
        assert_eq!(of("switches"), (1.0, Word::Refuted));
    }

    #[test]
    fn a_belief_is_about_one_case_and_another() {
        let data = run();
        let summary = summarise(&data);
        let levels = |level: &str| IndexMap::from([("transport".to_owned(), level.to_owned())]);
        let of = |case, against| {
            let belief = Belief {
                case,
                against,
                ..belief(Measure::Ratio(Metric::Throughput), Some(1.2), None)
            };
            belief.judge(&data, &summary)
        };
        let found = of(levels("tcp"), Some(levels("unix"))).unwrap();
        assert_eq!((found.case.as_str(), found.word), ("tcp", Word::Refuted));
        assert!(of(levels("pigeon"), None).unwrap_err().contains("no case has"));
        assert!(of(IndexMap::new(), None).unwrap_err().contains(" and "));
        assert!(of(levels("tcp"), None).unwrap_err().contains("has no reference"));
    }
}
