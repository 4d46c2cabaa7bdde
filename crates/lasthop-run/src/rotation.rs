//! The cases that take turns: those that work and that a comparison still needs.
//!
//! Cases leave when their intervals are as narrow as asked, which leaves time for others. The width decides, never the
//! verdict. Cases leave together: a reference with all that refer to it, and cases tied by a derived quantity.

use std::collections::BTreeSet;

/// A case without results in this many consecutive rounds is given up.
const GIVE_UP_AFTER: u32 = 2;

#[derive(Debug)]
pub struct Rotation {
    /// Indices of cases that leave together.
    units: Vec<BTreeSet<usize>>,
    left: BTreeSet<usize>,
    /// Consecutive rounds in which each case had no result.
    failing: Vec<u32>,
}

impl Rotation {
    /// A rotation of `cases` cases; `ties` are compared with each other or make a derived quantity.
    pub fn new(cases: usize, ties: impl IntoIterator<Item = Vec<usize>>) -> Self {
        let mut units: Vec<BTreeSet<usize>> = (0..cases).map(|case| BTreeSet::from([case])).collect();
        for tie in ties {
            let (tied, apart): (Vec<_>, Vec<_>) = units
                .into_iter()
                .partition(|unit| tie.iter().any(|case| unit.contains(case)));
            units = apart;
            units.push(tied.into_iter().flatten().collect());
        }
        Self {
            units,
            left: BTreeSet::new(),
            failing: vec![0; cases],
        }
    }

    /// Whether a case is started and driven.
    pub fn has(&self, case: usize) -> bool {
        !self.left.contains(&case) && !self.given_up(case)
    }

    pub fn given_up(&self, case: usize) -> bool {
        self.failing[case] >= GIVE_UP_AFTER
    }

    /// Cases that left.
    pub fn left(&self) -> impl Iterator<Item = usize> + '_ {
        self.left.iter().copied()
    }

    /// Whether no case works.
    pub fn all_failed(&self) -> bool {
        (0..self.failing.len()).all(|case| self.given_up(case))
    }

    /// Counts the consecutive rounds in which a case had no result.
    pub fn count_failures(&mut self, measured: impl Fn(usize) -> bool) {
        for case in 0..self.failing.len() {
            if !self.left.contains(&case) {
                self.failing[case] = if measured(case) { 0 } else { self.failing[case] + 1 };
            }
        }
    }

    /// Releases groups of cases whose comparisons are all precise. `precise` says whether a case's comparison with its
    /// reference is precise; `None` if it has no reference or never worked.
    pub fn let_go(&mut self, precise: impl Fn(usize) -> Option<bool>) {
        for unit in &self.units {
            let mut known = unit.iter().filter_map(|case| precise(*case)).peekable();
            if known.peek().is_some() && known.all(|precise| precise) {
                self.left.extend(unit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_leave_with_all_that_they_are_tied_to() {
        // 1 and 2 refer to 0, 4 to 3, 6 to 5; a derived quantity ties 1 and 4. 7 is alone.
        let ties = [vec![0, 1], vec![0, 2], vec![3, 4], vec![5, 6], vec![1, 4]];
        let mut rotation = Rotation::new(8, ties);
        let now = |rotation: &Rotation| (0..8).filter(|case| rotation.has(*case)).collect::<Vec<_>>();
        let precise =
            |narrow: &'static [usize]| move |case: usize| [1, 2, 4, 6].contains(&case).then(|| narrow.contains(&case));
        rotation.let_go(precise(&[1, 2]));
        assert_eq!(now(&rotation).len(), 8, "4 is not precise");
        rotation.let_go(precise(&[6]));
        assert_eq!(now(&rotation), [0, 1, 2, 3, 4, 7]);
        rotation.let_go(precise(&[1, 2, 4]));
        assert_eq!(now(&rotation), [7], "who left does not come back");
        assert_eq!(rotation.left().count(), 7);
    }

    #[test]
    fn a_comparison_that_never_worked_keeps_nobody() {
        let mut rotation = Rotation::new(3, [vec![0, 1], vec![0, 2]]);
        rotation.let_go(|case| (case == 1).then_some(true));
        assert!(!rotation.has(0));
    }

    #[test]
    fn two_rounds_without_a_result_are_enough() {
        let mut rotation = Rotation::new(2, []);
        rotation.count_failures(|case| case == 0);
        assert!(rotation.has(1));
        rotation.count_failures(|case| case == 0);
        assert!(!rotation.has(1) && rotation.has(0) && !rotation.all_failed());
        (0..2).for_each(|_| rotation.count_failures(|_| false));
        assert!(rotation.all_failed());
    }
}
