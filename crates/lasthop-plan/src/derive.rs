//! Finds the cases for the quantities of `[derive.…]`.

use std::collections::BTreeSet;

use lasthop_model::{
    level::{Level, Levels},
    record::{CasePlan, Derivation, DerivedPlan},
};

use super::{
    model::Experiment,
    template::{self, TemplateError},
};

/// The derived quantities of a run. A quantity whose cases were not selected is left out.
pub fn derive(experiment: &Experiment, cases: &[CasePlan]) -> Result<Vec<DerivedPlan>, TemplateError> {
    let mut all = Vec::new();
    for (name, quantity) in &experiment.derive {
        let mut of = holding(name, &quantity.of, cases)?;
        let found = if let Some(minus) = &quantity.minus {
            let minus_cases = holding(name, minus, cases)?;
            let mentioned = [&quantity.of, minus].map(|text| template::expression_names(text).unwrap_or_default());
            differences(&of, &minus_cases, &mentioned.into_iter().flatten().collect())
        } else if let Some(per) = &quantity.per {
            series(&of, per, |points| Derivation::Slope {
                per: per.clone(),
                points,
            })
        } else if let Some(over) = &quantity.crossover {
            of.retain(|case| case.reference.is_some());
            series(&of, over, |points| Derivation::Crossover {
                over: over.clone(),
                points,
            })
        } else {
            Vec::new()
        };
        all.extend(found.into_iter().map(|(levels, from)| DerivedPlan {
            quantity: name.clone(),
            help: quantity.help.clone(),
            levels,
            from,
        }));
    }
    Ok(all)
}

fn holding<'a>(name: &str, expression: &str, cases: &'a [CasePlan]) -> Result<Vec<&'a CasePlan>, TemplateError> {
    let place = format!("derive.{name}");
    let mut kept = Vec::new();
    for case in cases {
        let context = template::of_levels(&case.levels);
        if template::holds(&place, expression, &context)? {
            kept.push(case);
        }
    }
    Ok(kept)
}

/// Pairs of cases for differences: all factors that are not mentioned have equal levels in a pair.
fn differences(of: &[&CasePlan], minus: &[&CasePlan], mentioned: &BTreeSet<String>) -> Vec<(Levels, Derivation)> {
    let agree = |one: &CasePlan, other: &CasePlan| {
        one.levels.iter().all(|(factor, level)| {
            mentioned.contains(factor) || other.levels.get(factor).is_none_or(|theirs| theirs == level)
        })
    };
    let pair = |one: &&CasePlan| {
        let other = minus.iter().find(|other| other.case != one.case && agree(one, other))?;
        let from = Derivation::Difference {
            of: one.case.clone(),
            minus: other.case.clone(),
        };
        Some((one.levels.clone(), from))
    };
    of.iter().filter_map(pair).collect()
}

/// Groups of two or more cases that differ only in this factor, in the order of its levels.
fn series(
    cases: &[&CasePlan],
    factor: &str,
    made: impl Fn(Vec<(f64, String)>) -> Derivation,
) -> Vec<(Levels, Derivation)> {
    let mut all: Vec<(Levels, Vec<(f64, String)>)> = Vec::new();
    for case in cases {
        let mut levels = case.levels.clone();
        let Some(Level::Int(at)) = levels.shift_remove(factor) else {
            continue;
        };
        let point = (at as f64, case.case.clone());
        match all.iter_mut().find(|(known, _)| *known == levels) {
            Some((_, points)) => points.push(point),
            None => all.push((levels, vec![point])),
        }
    }
    all.retain(|(_, points)| points.len() > 1);
    all.into_iter()
        .map(|(levels, mut points)| {
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            (levels, made(points))
        })
        .collect()
}
