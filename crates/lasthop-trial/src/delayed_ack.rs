//! Signs of replies that wait for delayed ACKs: Nagle's algorithm holds the last part of a message back until the part
//! before is acknowledged, and the receiver has no data to carry the ACK.

use std::ops::Range;

use crate::histogram::Histogram;

/// How long a receiver delays an ACK: about 40 ms at least, and up to a tick of its kernel longer.
pub const WINDOW_NS: Range<u64> = 38_000_000..48_000_000;

/// Whether most replies take about as long as a delayed ACK.
pub fn is_usual(times: &Histogram) -> bool {
    2 * times.within(&WINDOW_NS) > times.count()
}

/// Whether replies begin long before they end, as when a server is held back in between.
pub fn begins_early(first_byte: &Histogram, whole: &Histogram) -> bool {
    first_byte.quantile(0.5) < whole.quantile(0.5) / 4
}
