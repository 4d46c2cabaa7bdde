//! Values by round and block.

/// What a block may hold.
pub trait BlockValue {
    /// Whether every number in it can be reckoned with.
    fn is_valid(&self) -> bool;
}

impl BlockValue for f64 {
    fn is_valid(&self) -> bool {
        self.is_finite()
    }
}

/// Rounds → blocks → one value. There is at least one round, every round has at least one block, every value is valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouped<T>(Vec<Vec<T>>);

/// The values cannot be grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupedError {
    #[error("there is no round")]
    NoRound,
    #[error("round {round} has no block (leave it out)")]
    NoBlock { round: usize },
    #[error("the value of round {round}, block {block} is not usable (not finite, negative or empty)")]
    Invalid { round: usize, block: usize },
}

impl<T: BlockValue> Grouped<T> {
    /// Checks the invariants. Rounds and blocks are counted from 0 in errors.
    ///
    /// # Errors
    /// No round, a round without a block, or a value that is not valid (not finite, for instance).
    pub fn new(rounds: Vec<Vec<T>>) -> Result<Self, GroupedError> {
        if rounds.is_empty() {
            return Err(GroupedError::NoRound);
        }
        for (round, blocks) in rounds.iter().enumerate() {
            if blocks.is_empty() {
                return Err(GroupedError::NoBlock { round });
            }
            if let Some(block) = blocks.iter().position(|value| !value.is_valid()) {
                return Err(GroupedError::Invalid { round, block });
            }
        }
        Ok(Self(rounds))
    }

    /// The units that are resampled whole: the rounds; where there is one round only, its blocks.
    #[must_use]
    pub fn units(&self) -> Vec<&[T]> {
        match self.0.as_slice() {
            [only] => only.chunks(1).collect(),
            rounds => rounds.iter().map(Vec::as_slice).collect(),
        }
    }

    /// Blocks of each unit.
    #[must_use]
    pub fn sizes(&self) -> Vec<usize> {
        self.units().iter().map(|unit| unit.len()).collect()
    }

    #[must_use]
    pub fn rounds(&self) -> usize {
        self.0.len()
    }

    /// Blocks over all rounds.
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
    fn what_cannot_be_grouped_is_named() {
        assert_eq!(Grouped::<f64>::new(vec![]).unwrap_err(), GroupedError::NoRound);
        assert_eq!(
            Grouped::new(vec![vec![1.0], vec![]]).unwrap_err(),
            GroupedError::NoBlock { round: 1 }
        );
        let error = Grouped::new(vec![vec![1.0, f64::NAN]]).unwrap_err();
        assert_eq!(error, GroupedError::Invalid { round: 0, block: 1 });
        assert!(error.to_string().contains("round 0, block 1"));
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
