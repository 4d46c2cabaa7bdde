//! A mergeable record of durations.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{
    Histogram as Hdr,
    serialization::{Deserializer as HdrDeserializer, Serializer as _, V2Serializer},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};

/// Durations in nanoseconds, kept to three significant digits from 1 ns to one hour.
///
/// In JSON it is the base64 text of the HdrHistogram V2 encoding, which other HDR tools read. Histograms are merged,
/// never their percentiles.
#[derive(Clone, PartialEq)]
pub struct Histogram(Hdr<u64>);

pub(crate) const HIGHEST_NS: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

impl Histogram {
    #[must_use]
    pub fn new() -> Self {
        Self(Hdr::new_with_bounds(1, HIGHEST_NS, DIGITS).expect("the bounds are constants within HDR's limits"))
    }

    /// Records one duration. Zero counts as 1 ns; more than an hour counts as an hour.
    #[inline]
    pub fn record(&mut self, nanoseconds: u64) {
        self.0.saturating_record(nanoseconds.max(1));
    }

    /// Records the same duration `count` times.
    pub fn record_n(&mut self, nanoseconds: u64, count: u64) {
        self.0.saturating_record_n(nanoseconds.max(1), count);
    }

    /// Takes away durations that were recorded before.
    pub(crate) fn take_away(&mut self, other: &Self) {
        self.0.subtract(&other.0).expect("both histograms have the same bounds, and `other` is a part of this one");
    }

    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both histograms have the same bounds");
    }

    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// How many durations were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest recorded bin that at least the fraction `quantile` (0 to 1) of the durations do not exceed, in
    /// nanoseconds; 0 when empty.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }

    #[must_use]
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    #[must_use]
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The bins that hold something: (middle of the bin in nanoseconds, count), rising.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|bin| {
            let value = bin.value_iterated_to();
            (self.0.median_equivalent(value), bin.count_at_value())
        })
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Histogram({} samples, p50 {} ns, max {} ns)", self.count(), self.quantile(0.5), self.max())
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.0, &mut bytes).map_err(S::Error::custom)?;
        serializer.serialize_str(&STANDARD.encode(bytes))
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
        let read: Hdr<u64> = HdrDeserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| D::Error::custom(format!("{error:?}")))?;
        // A foreign histogram may have other bounds; ours must all merge.
        let mut own = Self::new();
        for bin in read.iter_recorded() {
            own.0.saturating_record_n(bin.value_iterated_to().max(1), bin.count_at_value());
        }
        Ok(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_round_trip_keeps_every_bin() {
        let mut histogram = Histogram::new();
        for value in [1, 5, 5, 70, 12_345, 999_999_999] {
            histogram.record(value);
        }
        let text = serde_json::to_string(&histogram).unwrap();
        let back: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!(back.bins().collect::<Vec<_>>(), histogram.bins().collect::<Vec<_>>());
        assert_eq!(back.count(), 6);
    }

    #[test]
    fn out_of_range_durations_are_kept_at_the_edge() {
        let mut histogram = Histogram::new();
        histogram.record(0);
        histogram.record(u64::MAX);
        assert_eq!(histogram.count(), 2);
    }
}
