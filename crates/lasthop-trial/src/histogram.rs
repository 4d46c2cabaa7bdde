//! A mergeable record of durations.

use std::{fmt, ops::Range};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{
    Histogram as Hdr,
    serialization::{Deserializer as HdrDeserializer, Serializer as _, V2Serializer},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer, ser::Error as _};

/// Durations in nanoseconds, kept to three significant digits from 1 ns to one hour.
///
/// JSON holds the base64 text of the HdrHistogram V2 encoding, which other HDR tools read. Memory holds only the bins
/// that are not empty, because a run keeps a histogram for each trial. Histograms are merged, never their percentiles.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(with = "Written")]
pub struct Histogram {
    /// For each bin, ascending: its distance from the previous bin, and its count; both as LEB128.
    packed: Box<[u8]>,
}

const HIGHEST_NS: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;

/// Base-2 logarithm of the number of equal bins per power of two. With three significant digits HDR uses 2048 bins for
/// the lowest range and half as many for each further one.
const HALF_BITS: u32 = 10;
const HALF: usize = 1 << HALF_BITS;
const FULL_MASK: u64 = 2 * HALF as u64 - 1;
const LAST: usize = {
    let power = HIGHEST_NS.ilog2() - HALF_BITS;
    ((power as usize) << HALF_BITS) + (HIGHEST_NS >> power) as usize
};
/// Number of bins.
pub const BINS: usize = LAST + 1;

/// The bin's index for a duration. Zero counts as 1 ns; more than an hour counts as an hour.
#[inline]
pub fn index(nanoseconds: u64) -> usize {
    let nanoseconds = nanoseconds.max(1);
    // The mask gives everything in the lowest range the power 0, without a branch.
    let power = (u64::BITS - 1 - HALF_BITS) - (nanoseconds | FULL_MASK).leading_zeros();
    (((power as usize) << HALF_BITS) + (nanoseconds >> power) as usize).min(LAST)
}

/// The shortest duration of a bin, and how many durations the bin has.
fn durations(index: usize) -> (u64, u64) {
    // The lowest range takes the first two halves, each further one a half.
    let power = (index >> HALF_BITS).saturating_sub(1);
    (((index - (power << HALF_BITS)) as u64) << power, 1 << power)
}

fn longest(index: usize) -> u64 {
    let (shortest, width) = durations(index);
    shortest + (width - 1)
}

fn middle(index: usize) -> u64 {
    let (shortest, width) = durations(index);
    shortest + width / 2
}

impl Histogram {
    pub fn new() -> Self {
        Self::default()
    }

    /// Records one duration. Zero counts as 1 ns; more than an hour counts as an hour.
    pub fn record(&mut self, nanoseconds: u64) {
        self.record_n(nanoseconds, 1);
    }

    /// Records a duration `count` times.
    pub fn record_n(&mut self, nanoseconds: u64, count: u64) {
        self.merge(&Self::of_counts([(index(nanoseconds), count)]));
    }

    pub fn merge(&mut self, other: &Self) {
        let mut all: Vec<(usize, u64)> = self.counts().chain(other.counts()).collect();
        all.sort_by_key(|bin| bin.0);
        *self = Self::of_sorted(all);
    }

    /// The durations recorded since `before`.
    pub fn since(&self, before: &Self) -> Self {
        let mut earlier = before.counts().peekable();
        Self::of_counts(self.counts().map(|(index, count)| {
            let same = earlier.next_if(|bin| bin.0 == index);
            (index, count.saturating_sub(same.map_or(0, |bin| bin.1)))
        }))
    }

    /// From counts by bin, ascending; a bin may occur several times in a row.
    fn of_sorted(mut bins: Vec<(usize, u64)>) -> Self {
        bins.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 = if same { kept.1.saturating_add(next.1) } else { kept.1 };
            same
        });
        Self::of_counts(bins)
    }

    /// From counts by bin, ascending; each bin occurs once.
    pub fn of_counts(bins: impl IntoIterator<Item = (usize, u64)>) -> Self {
        let mut packed = Vec::new();
        let mut before = 0;
        for (index, count) in bins.into_iter().filter(|bin| bin.1 > 0) {
            pack(&mut packed, (index - before) as u64);
            pack(&mut packed, count);
            before = index;
        }
        Self {
            packed: packed.into_boxed_slice(),
        }
    }

    /// Counts by bin, ascending.
    fn counts(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let mut rest = &*self.packed;
        let mut index = 0;
        std::iter::from_fn(move || {
            index += unpack(&mut rest)? as usize;
            Some((index, unpack(&mut rest)?))
        })
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.counts().map(|bin| bin.1).fold(0, u64::saturating_add)
    }

    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// The smallest bin that at least the fraction `quantile` (0 to 1) of the durations do not exceed, in nanoseconds;
    /// 0 when empty.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let rank = ((quantile.min(1.0) * self.count() as f64).ceil() as u64).max(1);
        let mut below: u64 = 0;
        let reached = self.counts().find(|bin| {
            below = below.saturating_add(bin.1);
            below >= rank
        });
        reached.map_or(0, |(index, _)| {
            // As in HdrHistogram: the lowest value of the bin for the quantile 0, otherwise its highest.
            if quantile == 0.0 {
                durations(index).0
            } else {
                longest(index)
            }
        })
    }

    pub fn max(&self) -> u64 {
        self.counts().last().map_or(0, |(index, _)| longest(index))
    }

    pub fn mean(&self) -> f64 {
        let total = self.count();
        self.bins()
            .map(|(value, count): (u64, u64)| value as f64 * count as f64 / total as f64)
            .sum()
    }

    /// The standard deviation in nanoseconds; 0 when empty.
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let squares = self
            .bins()
            .map(|(value, count)| (value as f64 - mean).powi(2) * count as f64);
        (squares.sum::<f64>() / self.count().max(1) as f64).sqrt()
    }

    /// The sum of all durations, in nanoseconds.
    pub fn sum(&self) -> f64 {
        self.bins().map(|(value, count)| value as f64 * count as f64).sum()
    }

    /// The longest duration that, together with longer ones, makes up this `share` of the sum; 0 when empty.
    pub fn heavy(&self, share: f64) -> u64 {
        let mut lighter = self.sum() * (1.0 - share);
        let reached = self.bins().find(|(value, count)| {
            lighter -= *value as f64 * *count as f64;
            lighter <= 0.0
        });
        reached.map_or(0, |(value, _)| value)
    }

    /// The number of durations in a range.
    pub fn within(&self, range: &Range<u64>) -> u64 {
        let bins = self.bins().filter(|(value, _)| range.contains(value));
        bins.map(|(_, count)| count).sum()
    }

    /// The bins that are not empty, ascending: (middle of the bin in nanoseconds, count).
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts().map(|(index, count)| (middle(index), count))
    }
}

impl<'a> FromIterator<&'a Histogram> for Histogram {
    /// Merges all histograms.
    fn from_iter<T: IntoIterator<Item = &'a Histogram>>(histograms: T) -> Self {
        // Dense here: `merge` would sort all bins again for each histogram.
        let mut counts = vec![0_u64; BINS];
        for (index, count) in histograms.into_iter().flat_map(Histogram::counts) {
            counts[index] = counts[index].saturating_add(count);
        }
        Self::of_counts(counts.into_iter().enumerate())
    }
}

fn pack(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn unpack(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            break;
        }
    }
    Some(value)
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Histogram({} samples, p50 {} ns, max {} ns)",
            self.count(),
            self.quantile(0.5),
            self.max()
        )
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Readers reserve and scan all bins up to this bound. The format requires at least twice the lower one.
        let highest = self.max().max(2);
        let mut dense: Hdr<u64> = Hdr::new_with_bounds(1, highest, DIGITS).map_err(S::Error::custom)?;
        self.counts()
            .for_each(|(index, count)| dense.saturating_record_n(durations(index).0, count));
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&dense, &mut bytes)
            .map_err(S::Error::custom)?;
        serializer.serialize_str(&STANDARD.encode(bytes))
    }
}

/// Whether the length in the header is true. A reader reserves the claimed length, and decompresses, before it has seen
/// as many bytes.
fn is_as_long_as_it_says(bytes: &[u8]) -> bool {
    // V2 without compression; a compressed histogram has another cookie and is refused.
    const COOKIE: [u8; 4] = 0x1c84_9313_u32.to_be_bytes();
    const HEADER: usize = 40;
    let Some((&cookie, rest)) = bytes.split_first_chunk() else {
        return false;
    };
    let payload = rest.first_chunk().map(|length| u32::from_be_bytes(*length) as usize);
    cookie == COOKIE && payload.is_some_and(|payload| HEADER.checked_add(payload) == Some(bytes.len()))
}

/// How a histogram is written.
#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected times in nanoseconds, each alone or as [nanoseconds, how many], or the base64 of a HdrHistogram"
)]
enum Written {
    /// Every duration, in any order.
    Plain(Vec<Times>),
    /// Base64 of an uncompressed HdrHistogram V2 of nanoseconds, as lasthop writes it.
    Packed(String),
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Times {
    /// Nanoseconds.
    Once(f64),
    /// Nanoseconds, and how often they occurred.
    Often(f64, u64),
}

fn unpacked(text: &str) -> Result<Vec<(usize, u64)>, String> {
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    if !is_as_long_as_it_says(&bytes) {
        return Err("not an uncompressed HdrHistogram V2 of the length that it says".to_owned());
    }
    let read: Hdr<u64> = HdrDeserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| format!("{error:?}"))?;
    // A foreign histogram may have other bounds; all of lasthop's must merge.
    Ok(read
        .iter_recorded()
        .map(|bin| {
            (
                index(read.median_equivalent(bin.value_iterated_to())),
                bin.count_at_value(),
            )
        })
        .collect())
}

impl TryFrom<Written> for Histogram {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let mut bins = match written {
            Written::Packed(text) => unpacked(&text)?,
            Written::Plain(all) => {
                let pairs = all.into_iter().map(|times| match times {
                    Times::Once(nanoseconds) => (nanoseconds, 1),
                    Times::Often(nanoseconds, count) => (nanoseconds, count),
                });
                pairs
                    .map(|(nanoseconds, count)| match nanoseconds {
                        0.0.. => Ok((index(nanoseconds as u64), count)),
                        _ => Err(format!("a request took {nanoseconds} ns")),
                    })
                    .collect::<Result<_, _>>()?
            }
        };
        bins.sort_unstable_by_key(|bin| bin.0);
        // Counts are signed in the format, and several of its bins may be one here: the sum must not overflow.
        let counted = bins
            .iter()
            .try_fold(0_i64, |sum, bin| sum.checked_add(i64::try_from(bin.1).ok()?));
        counted.ok_or("a histogram of more than 2^63 durations")?;
        Ok(Self::of_sorted(bins))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_came_later_is_what_is_left() {
        let mut before = Histogram::new();
        before.record_n(100, 3);
        before.record_n(5_000, 1);
        let mut after = before.clone();
        after.record_n(100, 2);
        after.record_n(900_000, 4);
        let mut later = Histogram::new();
        later.record_n(100, 2);
        later.record_n(900_000, 4);
        assert_eq!(after.since(&before), later);
        assert!(after.since(&after).is_empty());
    }

    #[test]
    fn the_deviation_is_that_of_the_durations() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.deviation(), 0.0);
        [2, 4, 4, 4, 5, 5, 7, 9]
            .into_iter()
            .for_each(|one| histogram.record(one * 100));
        assert!((histogram.deviation() - 200.0).abs() < 1.0, "{}", histogram.deviation());
    }

    #[test]
    fn a_length_that_is_claimed_is_not_reserved() {
        let text = serde_json::to_string(&Histogram::default()).unwrap();
        let mut bytes = STANDARD.decode(text.trim_matches('"')).unwrap();
        bytes[4] = 0xfb;
        let claimed = serde_json::from_value::<Histogram>(STANDARD.encode(bytes).into()).unwrap_err();
        assert!(claimed.to_string().contains("of the length that it says"), "{claimed}");
    }

    #[test]
    fn counts_that_do_not_fit_together_are_refused() {
        let mut dense: Hdr<u64> = Hdr::new_with_bounds(1, HIGHEST_NS, 4).unwrap();
        let half = i64::MAX as u64 / 2 + 1;
        for value in [100_000, 100_010] {
            dense.record_n(value, half).unwrap();
        }
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&dense, &mut bytes).unwrap();
        let refused = serde_json::from_value::<Histogram>(STANDARD.encode(bytes).into()).unwrap_err();
        assert!(refused.to_string().contains("more than 2^63"), "{refused}");
    }

    fn dense() -> Hdr<u64> {
        Hdr::new_with_bounds(1, HIGHEST_NS, DIGITS).unwrap()
    }

    fn duration() -> impl Strategy<Value = u64> {
        prop_oneof![0_u64..5_000, 0..=HIGHEST_NS, Just(u64::MAX)]
    }

    proptest! {
        #[test]
        fn its_figures_are_those_of_a_dense_histogram(
            recorded in proptest::collection::vec((duration(), 1_u64..1_000_000), 0..60),
            quantile in 0.0..=1.0_f64,
        ) {
            let mut dense = dense();
            let mut sparse = Histogram::new();
            for &(duration, count) in &recorded {
                dense.saturating_record_n(duration.clamp(1, HIGHEST_NS), count);
                sparse.record_n(duration, count);
            }
            let bins = dense.iter_recorded().map(|bin| {
                (dense.median_equivalent(bin.value_iterated_to()), bin.count_at_value())
            });
            prop_assert_eq!(sparse.bins().collect::<Vec<_>>(), bins.collect::<Vec<_>>());
            prop_assert_eq!((sparse.count(), sparse.max()), (dense.len(), dense.max()));
            for quantile in [quantile, 0.0, 0.5, 0.99, 1.0] {
                prop_assert_eq!(sparse.quantile(quantile), dense.value_at_quantile(quantile), "{}", quantile);
            }
            prop_assert!((sparse.mean() - dense.mean()).abs() <= 1e-9 * dense.mean());
            let text = serde_json::to_string(&sparse).unwrap();
            prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), sparse);
        }

        #[test]
        fn merged_is_recorded_together(parts in proptest::collection::vec(proptest::collection::vec(duration(), 0..20), 0..6)) {
            let part = |durations: &Vec<u64>| {
                let mut histogram = Histogram::new();
                durations.iter().for_each(|duration| histogram.record(*duration));
                histogram
            };
            let parts_of: Vec<Histogram> = parts.iter().map(part).collect();
            let together = part(&parts.concat());
            prop_assert_eq!(&parts_of.iter().collect::<Histogram>(), &together);
            let mut one_by_one = Histogram::new();
            parts_of.iter().for_each(|part| one_by_one.merge(part));
            prop_assert_eq!(one_by_one, together);
        }
    }

    #[test]
    fn a_histogram_with_other_bounds_is_read() {
        let mut foreign: Hdr<u64> = Hdr::new_with_bounds(1, u64::MAX / 2, 5).unwrap();
        foreign.record_n(1_000_001, 2).unwrap();
        foreign.record_n(1_000_002, 3).unwrap();
        foreign.record(u64::MAX / 2).unwrap();
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&foreign, &mut bytes).unwrap();
        let text = format!("\"{}\"", STANDARD.encode(bytes));
        let read: Histogram = serde_json::from_str(&text).unwrap();
        let counts: Vec<u64> = read.bins().map(|bin| bin.1).collect();
        assert_eq!(counts, [5, 1]);
        assert!(read.max() >= HIGHEST_NS && read.max() < HIGHEST_NS + HIGHEST_NS / 1_000);
    }

    /// Stored records contain such histograms.
    #[test]
    fn times_of_two_digits_are_read_at_the_middle_of_their_bins() {
        let mut coarse: Hdr<u64> = Hdr::new_with_bounds(1, 1_000_000, 2).unwrap();
        let times: Vec<u64> = (0..90_000).step_by(7).map(|more| 10_000 + more).collect();
        times.iter().for_each(|time| coarse.record(*time).unwrap());
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&coarse, &mut bytes).unwrap();
        let read: Histogram = serde_json::from_str(&format!("\"{}\"", STANDARD.encode(bytes))).unwrap();
        assert_eq!(read.count(), times.len() as u64);
        let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
        assert!((read.mean() / mean - 1.0).abs() < 0.001, "{} for {mean}", read.mean());
        for share in [0.01, 0.5, 0.99] {
            let exact = times[(share * times.len() as f64) as usize] as f64;
            let off = read.quantile(share) as f64 / exact - 1.0;
            assert!(off.abs() < 0.005, "{share}: {off}");
        }
    }

    #[test]
    fn plain_times_are_read() {
        let mut recorded = Histogram::new();
        recorded.record_n(1_500, 3);
        recorded.record(70_000);
        let read = serde_json::from_str::<Histogram>;
        assert_eq!(read("[1500, [1500.4, 2], 70000]").unwrap(), recorded);
        assert_eq!(read("[]").unwrap(), Histogram::new());
        for (wrong, why) in [
            ("[-1]", "a request took -1 ns"),
            (r#"["1 ms"]"#, "expected times in nanoseconds, each alone"),
            ("[[1, -2]]", "expected times in nanoseconds, each alone"),
            ("[[1, 9223372036854775808]]", "more than 2^63"),
        ] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_histogram_of_a_trial_is_small() {
        let mut histogram = Histogram::new();
        (0..200).for_each(|i| histogram.record(50_000 + 997 * i));
        assert!(histogram.packed.len() < 600, "{} bytes", histogram.packed.len());
    }
}
