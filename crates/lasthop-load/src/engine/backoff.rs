//! The pause before a failed connection is reopened, so that a dead server does not make the driver spin.

const FIRST_NS: u64 = 100_000;
const LONGEST_NS: u64 = 100_000_000;

/// A pause that doubles with every consecutive failure, from 0.1 ms to 0.1 s.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Nanoseconds to wait after one more failure.
    pub fn next(&mut self) -> u64 {
        // Twenty doublings are far beyond the longest pause, and the shift stays within 64 bits.
        let pause = FIRST_NS.saturating_mul(1 << self.failures.min(20)).min(LONGEST_NS);
        self.failures = self.failures.saturating_add(1);
        pause
    }

    #[inline]
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}
