//! The place of a run's ratios in the kept answer's ranges for other machines.

use lasthop_model::record::LoadSummary;
use lasthop_stats::Interval;

use super::{Answer, Setting};
use crate::{
    groups::{Group, compared_level, groups},
    summary::{CaseSummary, Metric, Summary},
};

/// Gives each comparison the range for the ratio of another machine, if the answer has this comparison.
pub fn place(summary: &mut Summary, answer: &Answer) {
    let of_group = |group: &Group<'_>| {
        let setting = setting(group, answer);
        let ranges = group.cases.iter().filter_map(|case| next(group, case, setting?));
        ranges.collect::<Vec<_>>()
    };
    let found: Vec<(String, Metric, Interval)> = groups(summary).iter().flat_map(of_group).collect();
    for one in &mut summary.comparisons {
        let mut ranges = found.iter();
        let range = ranges.find(|(case, metric, _)| (case, *metric) == (&one.case, one.metric));
        one.published = range.map(|(.., range)| *range);
    }
}

/// The setting with equal levels and load, for any number of threads, because the threads that suffice depend on the
/// machine.
fn setting<'a>(group: &Group<'_>, answer: &'a Answer) -> Option<&'a Setting> {
    let head = group.head();
    let levels = group.setting_levels();
    answer.settings.iter().find(|setting| {
        let load = LoadSummary {
            threads: head.load.threads,
            ..setting.load.clone()
        };
        setting.levels == levels && load == head.load
    })
}

/// The range of a case, and the metric of its ratio.
fn next(group: &Group<'_>, case: &CaseSummary, setting: &Setting) -> Option<(String, Metric, Interval)> {
    let declared = group.declared(case)?;
    let level = compared_level(group.summary(), case)?.to_string();
    let mut compared = setting.compared();
    let (_, against) = compared.find(|(known, against)| known.level == level && against.metric == declared.metric)?;
    Some((case.case.clone(), against.metric, against.pooled.as_ref()?.next))
}
