//! The chosen levels, and the cases that they make.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use lasthop_model::{
    level::{Level, Levels},
    record::MOST_CASES,
    selection::{AGAIN, Selection, TRANSPORT},
};
use lasthop_trial::address::Transport;

use super::{
    diagnostics::suggest,
    model::{Experiment, Factor, Link},
    template::{self, TemplateError},
};

/// The levels of each factor that a run uses.
pub type Chosen = IndexMap<String, Vec<Level>>;

/// The selected levels, in the order of the factors. A factor without a selection has its default levels.
pub fn choose(experiment: &Experiment, selection: &Selection) -> Result<Chosen, String> {
    let mut chosen: Chosen = experiment
        .factors
        .iter()
        .map(|(name, factor)| (name.clone(), factor.usual().to_vec()))
        .collect();
    if selection.overload {
        chosen.extend(
            experiment
                .overload
                .levels
                .iter()
                .map(|(name, levels)| (name.clone(), levels.clone())),
        );
    }
    let mut seen = BTreeSet::new();
    let choices = selection
        .only
        .iter()
        .map(|choice| (choice, false))
        .chain(selection.set.iter().map(|c| (c, true)));
    for (choice, free) in choices {
        let Some(factor) = experiment.factors.get(&choice.factor) else {
            let known = experiment.factors.keys().map(String::as_str);
            let help = suggest(&choice.factor, known).unwrap_or_default();
            return Err(format!("there is no factor `{}`; {help}", choice.factor));
        };
        if !seen.insert(&choice.factor) {
            return Err(format!(
                "factor `{}` is selected twice: put all of its levels into one option",
                choice.factor
            ));
        }
        let mut levels = Vec::new();
        for text in &choice.levels {
            let level = level(&choice.factor, factor, text, free)?;
            if !levels.contains(&level) {
                levels.push(level);
            }
        }
        // `--only` may name levels in any order. `--set` may have unlisted levels, and keeps its order.
        if !free {
            levels.sort_by_key(|level| factor.levels.iter().position(|listed| listed == level));
        }
        chosen.insert(choice.factor.clone(), levels);
    }
    Ok(chosen)
}

fn level(name: &str, factor: &Factor, text: &str, free: bool) -> Result<Level, String> {
    if let Some(level) = factor.levels.iter().find(|level| level.to_string() == text) {
        return Ok(level.clone());
    }
    if let Some(level) = text
        .parse()
        .ok()
        .map(Level::Int)
        .filter(|level| free && factor.is_in_range(level))
    {
        return Ok(level);
    }
    let known: Vec<String> = factor.levels.iter().map(Level::to_string).collect();
    let mut help = suggest(text, known.iter().map(String::as_str)).unwrap_or_default();
    if text.contains('=') {
        help = "use the option once for each factor".to_owned();
    }
    if let Some([low, high]) = factor.range {
        help.push_str(&format!(" (--set accepts any whole number from {low} to {high})"));
    }
    Err(format!("factor `{name}` has no level `{text}`; {help}"))
}

/// A combination of levels that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excluded {
    pub levels: Levels,
    pub because: String,
}

/// The most combinations to look at. More would take too long, even if most are excluded in the end.
pub(super) const MOST_COMBINATIONS: usize = 10 * MOST_CASES;

/// Every combination of the selected levels, each with the factors that apply to it, and the combinations left out.
pub fn combinations(experiment: &Experiment, chosen: &Chosen) -> Result<(Vec<Levels>, Vec<Excluded>), TemplateError> {
    let mut all = vec![Levels::new()];
    for (name, levels) in chosen {
        let when = experiment.factors.get(name).and_then(|factor| factor.when.as_deref());
        let mut next = Vec::with_capacity(all.len() * levels.len());
        for combination in all {
            // `when` sees only the factors above, for which this combination already has levels.
            let context = template::of_levels(&combination);
            let applies = when.map_or(Ok(true), |when| {
                template::holds(&format!("factors.{name}.when"), when, &context)
            });
            if !applies? {
                next.push(combination);
                continue;
            }
            if next.len() + levels.len() > MOST_COMBINATIONS {
                return Err(TemplateError {
                    place: format!("factors.{name}"),
                    message: format!(
                        "up to this factor there are more than {MOST_COMBINATIONS} combinations of levels"
                    ),
                });
            }
            next.extend(levels.iter().map(|level| {
                let mut longer = combination.clone();
                longer.insert(name.clone(), level.clone());
                longer
            }));
        }
        all = next;
    }
    leave_out(experiment, all)
}

fn leave_out(experiment: &Experiment, all: Vec<Levels>) -> Result<(Vec<Levels>, Vec<Excluded>), TemplateError> {
    let mut kept = Vec::new();
    let mut excluded = Vec::new();
    'next: for levels in all {
        let context = template::of_levels(&levels);
        for exclude in &experiment.exclude {
            if template::holds("exclude.when", &exclude.when, &context)? {
                excluded.push(Excluded {
                    levels,
                    because: exclude.because.clone(),
                });
                continue 'next;
            }
        }
        kept.push(levels);
    }
    Ok((kept, excluded))
}

/// A case before its services are rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCase {
    /// Name of the case: the compared level, then the factors that vary in this run, such as `unix/connections=10`.
    pub id: String,
    pub levels: Levels,
    pub transport: Transport,
    /// Id of the case to compare this one with.
    pub reference: Option<String>,
    /// Whether this is the second name of a case that is compared with itself.
    pub again: bool,
}

/// Names the combinations, and finds the reference of each.
///
/// The reference of a case has the reference transport, and equal levels of all factors that both cases have. If the
/// reference transport was not selected, or that combination is left out, the first remaining transport becomes the
/// reference.
pub fn name_cases(experiment: &Experiment, chosen: &Chosen, combinations: &[Levels]) -> Vec<NamedCase> {
    let compared = experiment.compared();
    let varying: Vec<&String> = chosen
        .keys()
        .filter(|name| *name != compared && varies(name, combinations))
        .collect();
    let references = references(combinations, compared, &preference(experiment, chosen));
    let id = |levels: &Levels| {
        let varied = varying
            .iter()
            .filter_map(|name| Some(format!("/{name}={}", levels.get(*name)?)));
        std::iter::once(levels[compared].to_string())
            .chain(varied)
            .collect::<String>()
    };
    let name = |(levels, reference): (&Levels, &Option<usize>)| NamedCase {
        id: id(levels),
        levels: levels.clone(),
        transport: transport(&experiment.link, levels).expect("checked when the experiment is read"),
        reference: reference.map(|at| id(&combinations[at])),
        again: false,
    };
    combinations.iter().zip(&references).map(name).collect()
}

/// Keeps only the references, and adds to each a second case with equal levels.
pub fn against_themselves(cases: Vec<NamedCase>) -> Vec<NamedCase> {
    let twins = cases
        .into_iter()
        .filter(|case| case.reference.is_none())
        .flat_map(|case| {
            let rest = case.id.find('/').unwrap_or(case.id.len());
            let id = format!("{}{AGAIN}{}", &case.id[..rest], &case.id[rest..]);
            let again = NamedCase {
                id,
                reference: Some(case.id.clone()),
                again: true,
                ..case.clone()
            };
            [case, again]
        });
    twins.collect()
}

fn varies(name: &str, combinations: &[Levels]) -> bool {
    combinations
        .iter()
        .filter_map(|levels| levels.get(name))
        .collect::<BTreeSet<_>>()
        .len()
        > 1
}

/// The chosen transports, the reference first.
fn preference(experiment: &Experiment, chosen: &Chosen) -> Vec<Level> {
    let compared = experiment.compared();
    let reference = experiment.factors[compared].reference.as_ref();
    let mut transports = chosen[compared].clone();
    // The sort is stable, so that the other transports keep their order after the reference.
    transports.sort_by_key(|transport| Some(transport) != reference);
    transports
}

/// The index of each combination's reference; `None` for a reference.
fn references(combinations: &[Levels], compared: &str, preference: &[Level]) -> Vec<Option<usize>> {
    let mut references = vec![None; combinations.len()];
    let mut roots: Vec<usize> = Vec::new();
    for transport in preference {
        // Only references of other transports, because cases of one transport are never compared.
        let earlier = roots.len();
        for (at, levels) in combinations
            .iter()
            .enumerate()
            .filter(|(_, levels)| levels[compared] == *transport)
        {
            references[at] = roots[..earlier]
                .iter()
                .copied()
                .find(|&root| agree(compared, levels, &combinations[root]));
            if references[at].is_none() {
                roots.push(at);
            }
        }
    }
    references
}

/// Whether two combinations have equal levels of all factors that both have, except the compared factor.
fn agree(compared: &str, one: &Levels, other: &Levels) -> bool {
    one.iter()
        .all(|(name, level)| name == compared || other.get(name).is_none_or(|theirs| theirs == level))
}

/// The transport of the link in a combination.
///
/// # Errors
///
/// `link.transport` cannot be rendered or is not the name of a transport. A valid experiment has no such
/// combination.
pub fn transport(link: &Link, levels: &Levels) -> Result<Transport, TemplateError> {
    let place = "link.transport";
    let name = match &link.transport {
        Some(text) => template::render(place, text, &template::of_levels(levels))?,
        None => levels[TRANSPORT].to_string(),
    };
    name.trim().parse().map_err(|_| TemplateError {
        place: place.to_owned(),
        message: format!("there is no transport `{}`", name.trim()),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalog::Catalog;

    /// A random choice of levels for each factor of an experiment, in random order.
    fn some_levels(experiment: &Experiment) -> impl Strategy<Value = Chosen> + use<> {
        let factor = |(name, factor): (&String, &Factor)| {
            let count = factor.levels.len();
            let levels = proptest::sample::subsequence(factor.levels.clone(), 1..=count).prop_shuffle();
            (Just(name.clone()), levels)
        };
        let factors: Vec<_> = experiment.factors.iter().map(factor).collect();
        factors.prop_map(|pairs| pairs.into_iter().collect())
    }

    fn sockets() -> Experiment {
        Catalog::default().load("sockets").unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn ids_are_unique_and_references_are_sound(chosen in some_levels(&sockets())) {
            let experiment = sockets();
            let (kept, excluded) = combinations(&experiment, &chosen).unwrap();
            let cases = name_cases(&experiment, &chosen, &kept);
            let ids: BTreeSet<&String> = cases.iter().map(|case| &case.id).collect();
            prop_assert_eq!(ids.len(), cases.len());
            let all: BTreeSet<String> = kept.iter().chain(excluded.iter().map(|e| &e.levels)).map(|l| format!("{l:?}")).collect();
            prop_assert_eq!(all.len(), kept.len() + excluded.len());
            for case in &cases {
                let Some(reference) = &case.reference else { continue };
                let reference = cases.iter().find(|other| other.id == *reference).unwrap();
                prop_assert_eq!(&reference.reference, &None);
                prop_assert!(agree(TRANSPORT, &case.levels, &reference.levels));
                prop_assert_ne!(case.transport, reference.transport);
            }
            let wanted = experiment.factors[TRANSPORT].reference.as_ref().unwrap();
            for case in cases.iter().filter(|case| case.levels[TRANSPORT] == *wanted) {
                prop_assert_eq!(&case.reference, &None);
            }
        }

        #[test]
        fn a_case_without_a_reference_has_no_partner_among_the_references(chosen in some_levels(&sockets())) {
            let experiment = sockets();
            let (kept, _) = combinations(&experiment, &chosen).unwrap();
            let cases = name_cases(&experiment, &chosen, &kept);
            let roots: Vec<&NamedCase> = cases.iter().filter(|case| case.reference.is_none()).collect();
            for (one, other) in roots.iter().flat_map(|one| roots.iter().map(move |other| (one, other))) {
                prop_assert!(one.transport == other.transport || !agree(TRANSPORT, &one.levels, &other.levels), "{} {}", one.id, other.id);
            }
        }

        #[test]
        fn only_factors_that_apply_have_a_level(chosen in some_levels(&sockets())) {
            let experiment = sockets();
            for levels in combinations(&experiment, &chosen).unwrap().0 {
                let is = |name: &str, text: &str| levels[name].to_string() == text;
                prop_assert_eq!(levels.contains_key("size"), is("pattern", "echo"));
                prop_assert_eq!(levels.contains_key("chunk"), is("pattern", "stream"));
                prop_assert!(!(is("implementation", "python") && is("transport", "tls")));
                prop_assert!(!(levels.contains_key("nodelay") && transport(&experiment.link, &levels).unwrap().is_unix()));
            }
        }
    }
}
