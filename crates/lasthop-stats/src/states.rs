//! Two states: rounds that fall into two groups.

use crate::{grouped::Grouped, location, mean::centred, variance};

/// The smallest group that is a state rather than a disturbed round.
const LEAST_OF_GROUP: usize = 2;
/// The fewest rounds; among fewer, chance makes groups.
const LEAST_ROUNDS: usize = 8;
/// The distance between the groups' means, in standard deviations within groups. 2.4 % of sets of eight normal rounds
/// have such a distance, and 0.4 % of sets of twelve.
const APART: f64 = 6.0;
/// The level at which rounds must differ by more than their blocks.
const DIFFER: f64 = 0.001;

/// The rounds on one side of a gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    pub mean: f64,
    pub size: usize,
}

impl Group {
    fn of(values: &[f64]) -> Self {
        Self {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            size: values.len(),
        }
    }
}

/// The two groups of rounds, the lower first, if they are clearly apart.
#[must_use]
pub fn two_states(blocks: &Grouped<f64>) -> Option<[Group; 2]> {
    let differ = variance::components(blocks)?.p_value < DIFFER;
    two_groups(&location::locate(blocks)?.units).filter(|_| differ)
}

/// The split into two groups within which values scatter least.
fn two_groups(values: &[f64]) -> Option<[Group; 2]> {
    if values.len() < LEAST_ROUNDS {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let splits = LEAST_OF_GROUP..=sorted.len() - LEAST_OF_GROUP;
    let (left, parts) = splits
        .map(|place| sorted.split_at(place))
        .map(|(low, high)| (centred(low).1 + centred(high).1, [low, high]))
        .min_by(|one, other| one.0.total_cmp(&other.0))?;
    let groups = parts.map(Group::of);
    let within = (left / (values.len() - 2) as f64).sqrt();
    (groups[1].mean - groups[0].mean > APART * within).then_some(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_groups_are_found_and_an_outlier_is_none() {
        let low = [0.00, 0.01, -0.01, 0.02, 0.00, -0.02];
        let of = |high: &[f64]| two_groups(&[&low[..], high].concat());
        let [first, second] = of(&[0.25, 0.27]).unwrap();
        assert_eq!((first.size, second.size), (6, 2));
        assert!(first.mean.abs() < 1e-12 && (second.mean - 0.26).abs() < 1e-12);
        assert_eq!(of(&[0.01, 0.26]), None);
        assert_eq!(of(&[0.26]), None, "too few");
    }
}
