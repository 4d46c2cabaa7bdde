//! Connections that pause after an error, ordered by when their pause ends.

use std::{cmp::Reverse, collections::BinaryHeap};

/// A heap: the cost per turn of the loop depends on how many pauses end, not on how many connections pause.
#[derive(Debug)]
pub struct Pauses(BinaryHeap<Reverse<(u64, usize)>>);

impl Pauses {
    /// Reserves room for all connections, so that no error allocates.
    pub fn of(connections: usize) -> Self {
        Self(BinaryHeap::with_capacity(connections))
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Pauses a connection until `until`.
    pub fn begin(&mut self, connection: usize, until: u64) {
        self.0.push(Reverse((until, connection)));
    }

    /// Nanoseconds until the first pause ends; `None` if no connection pauses.
    pub fn left(&self, now: u64) -> Option<u64> {
        self.0.peek().map(|Reverse((until, _))| until.saturating_sub(now))
    }

    /// Removes the connection whose pause ended first.
    pub fn end_due(&mut self, now: u64) -> Option<usize> {
        self.0.peek().filter(|Reverse((until, _))| *until <= now)?;
        self.end_any()
    }

    /// Removes the first connection, whether or not its pause has ended.
    pub fn end_any(&mut self) -> Option<usize> {
        self.0.pop().map(|Reverse((_, connection))| connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_end_in_the_order_of_their_time() {
        let mut pauses = Pauses::of(4);
        assert_eq!((pauses.left(0), pauses.end_due(u64::MAX)), (None, None));
        for (connection, until) in [(0, 300), (1, 100), (2, 200), (3, 100)] {
            pauses.begin(connection, until);
        }
        assert_eq!(pauses.left(40), Some(60));
        assert_eq!(pauses.end_due(99), None, "not a nanosecond too early");
        assert_eq!(pauses.end_due(100), Some(1));
        assert_eq!(pauses.end_due(100), Some(3));
        assert_eq!(pauses.end_due(199), None);
        assert_eq!(pauses.left(250), Some(0), "it is over, and nobody has looked yet");
        pauses.begin(1, 150);
        assert_eq!(
            [pauses.end_due(250), pauses.end_due(250), pauses.end_due(250)],
            [Some(1), Some(2), None]
        );
        assert_eq!(
            (pauses.end_any(), pauses.end_any(), pauses.is_empty()),
            (Some(0), None, true)
        );
    }

    /// A walk over all connections must find the same ones at the same times.
    #[test]
    fn as_many_as_a_walk_over_all_would_find() {
        let mut until = [None; 50];
        let mut pauses = Pauses::of(until.len());
        let mut random = 1_u64;
        for now in 0..20_000_u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let connection = (random >> 33) as usize % until.len();
            if until[connection].is_none() {
                let end = now + (random >> 40) % 500;
                until[connection] = Some(end);
                pauses.begin(connection, end);
            }
            let mut walked: Vec<usize> = (0..until.len())
                .filter(|at| until[*at].is_some_and(|end| end <= now))
                .collect();
            walked.sort_by_key(|at| (until[*at], *at));
            let ended: Vec<usize> = std::iter::from_fn(|| pauses.end_due(now)).collect();
            assert_eq!(ended, walked, "at {now}");
            ended.iter().for_each(|at| until[*at] = None);
            assert_eq!(pauses.left(now), until.iter().flatten().min().map(|end| end - now));
        }
    }
}
