//! Finds the cases that the quantities of `[derive.…]` follow from.

use std::collections::BTreeSet;

use lasthop_model::{
    level::{Level, Levels},
    record::{CasePlan, Derivation, DerivedPlan},
};

use super::{
    model::{Derive, DeriveKind, Experiment},
    template::{self, TemplateError},
};

/// The quantities of a run. A quantity whose cases were not selected is left out.
/// Errors: an expression cannot be evaluated.
pub fn derive(experiment: &Experiment, cases: &[CasePlan]) -> Result<Vec<DerivedPlan>, TemplateError> {
    let mut all = Vec::new();
    for (name, quantity) in &experiment.derive {
        let of = holding(name, &quantity.of, cases)?;
        let found = match &quantity.kind {
            DeriveKind::Minus(minus) => differences(&of, &holding(name, minus, cases)?, &mentioned(quantity)),
            DeriveKind::Per(factor) => series(&of, factor)
                .into_iter()
                .map(|(levels, points)| {
                    (
                        levels,
                        Derivation::Slope {
                            per: factor.clone(),
                            points,
                        },
                    )
                })
                .collect(),
            DeriveKind::Crossover(factor) => {
                let compared: Vec<&CasePlan> = of.into_iter().filter(|case| case.reference.is_some()).collect();
                series(&compared, factor)
                    .into_iter()
                    .map(|(levels, points)| {
                        (
                            levels,
                            Derivation::Crossover {
                                over: factor.clone(),
                                points,
                            },
                        )
                    })
                    .collect()
            }
        };
        for (levels, from) in found {
            all.push(DerivedPlan {
                quantity: name.clone(),
                help: quantity.help.clone(),
                levels,
                from,
            });
        }
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

/// Factors that distinguish the two kinds of cases of a difference.
fn mentioned(quantity: &Derive) -> BTreeSet<String> {
    let minus = if let DeriveKind::Minus(minus) = &quantity.kind {
        minus
    } else {
        ""
    };
    [&quantity.of, minus]
        .into_iter()
        .filter_map(|text| template::expression_names(text).ok())
        .flatten()
        .collect()
}

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

/// Groups of two or more cases that differ only in this factor, in its order.
fn series(cases: &[&CasePlan], factor: &str) -> Vec<(Levels, Vec<(f64, String)>)> {
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
    all.iter_mut()
        .for_each(|(_, points)| points.sort_by(|one, other| one.0.total_cmp(&other.0)));
    all.retain(|(_, points)| points.len() > 1);
    all
}
