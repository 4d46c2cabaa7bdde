//! Values by round and block.

/// The value of a block.
pub trait BlockValue {
    /// Whether the value has only numbers that can be calculated with.
    fn is_valid(&self) -> bool;
}

impl BlockValue for f64 {
    fn is_valid(&self) -> bool {
        self.is_finite()
    }
}

/// Several numbers of a block.
impl BlockValue for Vec<f64> {
    fn is_valid(&self) -> bool {
        !self.is_empty() && self.iter().all(f64::is_valid)
    }
}

/// Two cases in the same block, which are drawn together.
impl<T: BlockValue> BlockValue for [T; 2] {
    fn is_valid(&self) -> bool {
        self.iter().all(T::is_valid)
    }
}

/// Rounds → blocks → one value. There is at least one round, every round has at least one block, and all values are
/// valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouped<T>(Vec<Vec<T>>);

impl<T: BlockValue> Grouped<T> {
    /// `None` without rounds, if a round has no blocks, or if a value is invalid.
    #[must_use]
    pub fn new(rounds: Vec<Vec<T>>) -> Option<Self> {
        (!rounds.is_empty()
            && rounds
                .iter()
                .all(|round| !round.is_empty() && round.iter().all(T::is_valid)))
        .then_some(Self(rounds))
    }

    /// The units of resampling: the rounds, or the blocks if there is only one round.
    #[must_use]
    pub fn units(&self) -> Vec<&[T]> {
        match self.0.as_slice() {
            [only] => only.chunks(1).collect(),
            rounds => rounds.iter().map(Vec::as_slice).collect(),
        }
    }

    /// Number of blocks in each unit.
    #[must_use]
    pub fn sizes(&self) -> Vec<usize> {
        self.units().iter().map(|unit| unit.len()).collect()
    }

    #[must_use]
    pub fn rounds(&self) -> usize {
        self.0.len()
    }

    /// Number of blocks in all rounds.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// All values, round by round.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_blocks_and_every_value_is_valid() {
        assert_eq!(Grouped::<f64>::new(vec![]), None);
        assert_eq!(Grouped::new(vec![vec![1.0], vec![]]), None);
        assert_eq!(Grouped::new(vec![vec![1.0, f64::NAN]]), None);
    }

    #[test]
    fn rounds_are_the_units_unless_there_is_one() {
        let many = Grouped::new(vec![vec![1.0, 2.0], vec![3.0]]).unwrap();
        assert_eq!(many.sizes(), [2, 1]);
        let one = Grouped::new(vec![vec![1.0, 2.0, 3.0]]).unwrap();
        assert_eq!(one.sizes(), [1, 1, 1]);
        assert_eq!((one.rounds(), one.blocks()), (1, 3));
    }
}
