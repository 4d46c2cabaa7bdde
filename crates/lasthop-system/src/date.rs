//! The time of day. Durations come from a monotonic clock instead.

use std::time::SystemTime;

use jiff::Timestamp;

/// The time, for a record; at most the last year that a record can hold.
#[must_use]
pub fn now() -> Timestamp {
    at(SystemTime::now())
}

fn at(clock: SystemTime) -> Timestamp {
    Timestamp::try_from(clock).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_beyond_the_year_9999_stands_still() {
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(400_000_000_000);
        assert_eq!(at(far), Timestamp::MAX);
        assert!(at(SystemTime::UNIX_EPOCH) < now() && now() < Timestamp::MAX);
    }
}
