//! Which of two derived quantities is larger, as the experiment's question may ask.
//!
//! Each has a value for several cases; they are averaged over what distinguishes only the one from the other, within
//! each block.

use std::collections::{BTreeMap, BTreeSet};

use lasthop_model::{level::Levels, quantity::joined, record::DerivedPlan, selection};

use super::{
    derived::{self, ByBlock, is_at_a_rate, mean_in_blocks, time_values},
    summary::Weighed,
    trials::Trials,
};

/// For each combination of the levels that both quantities have; none if nothing was asked.
pub fn weigh(trials: &Trials) -> Vec<Weighed> {
    let Some(quantities) = &trials.data.header.answer.which else {
        return vec![];
    };
    let [ones, others] = quantities.each_ref().map(|name| instances(trials, name));
    let keys = |plans: &[&DerivedPlan]| {
        plans
            .iter()
            .flat_map(|plan| plan.levels.keys().cloned())
            .collect::<BTreeSet<_>>()
    };
    let shared: BTreeSet<String> = keys(&ones)
        .intersection(&keys(&others))
        .filter(|factor| !is_compared(factor))
        .cloned()
        .collect();
    let mut settings: Vec<Levels> = Vec::new();
    for plan in &ones {
        let levels = restricted(&plan.levels, &shared);
        if !settings.contains(&levels) {
            settings.push(levels);
        }
    }
    settings
        .iter()
        .filter_map(|levels| of(trials, quantities, [&ones, &others], levels))
        .collect()
}

fn is_compared(factor: &str) -> bool {
    [selection::PATH, selection::TRANSPORT].contains(&factor)
}

fn instances<'a>(trials: &Trials<'a>, name: &str) -> Vec<&'a DerivedPlan> {
    let plans = trials.data.header.derived.iter();
    plans
        .filter(|plan| plan.quantity == *name && !is_at_a_rate(trials, &plan.from))
        .collect()
}

fn restricted(levels: &Levels, to: &BTreeSet<String>) -> Levels {
    levels
        .iter()
        .filter(|(factor, _)| to.contains(*factor))
        .map(|(factor, level)| (factor.clone(), level.clone()))
        .collect()
}

fn of(trials: &Trials, quantities: &[String; 2], all: [&[&DerivedPlan]; 2], levels: &Levels) -> Option<Weighed> {
    let plans = all.map(|plans| {
        plans
            .iter()
            .filter(|plan| {
                levels
                    .iter()
                    .all(|(factor, level)| plan.levels.get(factor) == Some(level))
            })
            .copied()
            .collect::<Vec<_>>()
    });
    let values = plans.each_ref().map(|plans| averaged(trials, plans));
    let helps = [plans[0].first()?.help.clone(), plans[1].first()?.help.clone()];
    let names = levels.iter().map(|(factor, level)| format!("{factor}={level}"));
    let names = joined(names, "/");
    let mean = |values: &ByBlock<f64>, what: &str| mean_in_blocks(trials, values, &names, what);
    Some(Weighed {
        quantities: quantities.clone(),
        helps,
        levels: levels.clone(),
        values: [mean(&values[0], &quantities[0])?, mean(&values[1], &quantities[1])?],
        difference: mean(&derived::difference(&values[0], &values[1]), "difference")?,
    })
}

/// The mean of all of them, in each block that has all of them.
fn averaged(trials: &Trials, plans: &[&DerivedPlan]) -> ByBlock<f64> {
    let all: Vec<ByBlock<f64>> = plans.iter().map(|plan| time_values(trials, &plan.from)).collect();
    let mut sums: BTreeMap<_, (f64, usize)> = BTreeMap::new();
    for (place, value) in all.iter().flatten() {
        let (sum, count) = sums.entry(*place).or_default();
        *sum += value;
        *count += 1;
    }
    let whole = sums.into_iter().filter(|(_, (_, count))| *count == plans.len());
    whole.map(|(place, (sum, count))| (place, sum / count as f64)).collect()
}
