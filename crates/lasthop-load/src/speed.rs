//! The CPU's speed at the moment: fixed work, timed. It shows what no counter in a guest does: the clock frequency, a
//! busy neighbour on the same core, a hypervisor that gives less.

use std::hint::black_box;

use lasthop_system::clock;

/// Steps of a reading: about half a millisecond.
const STEPS: u32 = 300_000;
/// Maximum age of a reading to use again, in nanoseconds: a reading after a trial is also the one before the next.
const YOUNG: u64 = 5_000_000;

/// Reads the speed and keeps the last reading.
#[derive(Debug, Default)]
pub struct Speedometer {
    /// When the last reading ended, and its value.
    last: Option<(u64, f64)>,
}

impl Speedometer {
    /// Takes a new reading.
    pub fn read(&mut self) -> f64 {
        let begin = clock::now();
        // Each step needs the one before, and no compiler merges several into one. The multiplier is that of Knuth's
        // MMIX generator; only the length of the chain matters, not its numbers.
        let step = |x: u64, _| (x ^ (x >> 29)).wrapping_mul(6_364_136_223_846_793_005);
        black_box((0..STEPS).fold(black_box(begin), step));
        let end = clock::now();
        let speed = f64::from(STEPS) * 1e3 / (end - begin).max(1) as f64;
        self.last = Some((end, speed));
        speed
    }

    /// The last reading if it is young, otherwise a new one.
    pub fn recent(&mut self) -> f64 {
        match self.last {
            Some((at, speed)) if clock::now() - at < YOUNG => speed,
            _ => self.read(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step takes at least four cycles, so less than a nanosecond is a wrong reading; a microsecond is no CPU.
    #[test]
    fn a_speed_is_that_of_a_cpu_and_is_kept_for_a_moment() {
        let mut speedometer = Speedometer::default();
        let first = speedometer.recent();
        assert!((1.0..2_000.0).contains(&first), "{first}");
        speedometer.last = Some((clock::now(), 7.0));
        assert_eq!(speedometer.recent(), 7.0);
        speedometer.last = Some((clock::now() - YOUNG, 7.0));
        assert!(speedometer.recent() > 7.0);
    }
}
