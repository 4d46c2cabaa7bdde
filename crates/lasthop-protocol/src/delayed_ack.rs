//! What replies look like that wait for delayed ACKs: Nagle's algorithm holds the last part of a message back until the
//! part before it has been acknowledged, and the receiver has nothing to send along with that.

use std::ops::Range;

use crate::histogram::Histogram;

/// How long a receiver delays an ACK, give or take: at least 40 ms, and up to a tick of its kernel longer.
pub const WINDOW_NS: Range<u64> = 38_000_000..48_000_000;

/// Whether most replies take as long.
pub fn is_usual(times: &Histogram) -> bool {
    2 * times.within(&WINDOW_NS) > times.count()
}

/// Whether replies begin long before they end, as those of a server that is held back in between.
pub fn begins_early(first_byte: &Histogram, whole: &Histogram) -> bool {
    first_byte.quantile(0.5) < whole.quantile(0.5) / 4
}
