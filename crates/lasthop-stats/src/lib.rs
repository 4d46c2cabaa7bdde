//! The statistics of lasthop. Pure mathematics: no I/O, no clock; equal input and seed give equal results.
//!
//! A run is a list of *rounds* (the services started afresh), and a round is a list of *blocks* (every case once, in
//! random order). Comparisons are within blocks. Resampling is over rounds, because the luck of a process start is
//! shared by all blocks of a round. [`bootstrap`] gives the reasons, and the treatment of few rounds.
//!
//! | module | purpose |
//! |---|---|
//! | [`grouped`] | values by round and block, checked |
//! | [`location`] | log ratios, some of which are disturbed |
//! | [`mean`] | paired differences |
//! | [`totals`] | quantities per request: CPU time, elapsed time |
//! | [`quantile`] | percentiles of merged histograms, their ratio and their difference |
//! | [`mod@line`] | slope and intercept of a straight line |
//! | [`mod@crossing`] | the size at which an effect falls below a threshold |
//! | [`bootstrap`], [`interval`], [`student`] | from a statistic to its interval |
//! | [`verdict`], [`stopping`], [`holm`] | from an interval to a decision |
//! | [`rank`] | drift |
//! | [`pooled`] | several machines together, and kinds of machines |
//! | [`moderated`] | predictions for another machine, from few values of each of many quantities |
//! | [`variance`], [`serial`], [`states`] | differences between rounds: beyond their blocks, in series, in two groups |
//! | [`random`] | reproducible draws |

pub mod bootstrap;
pub mod crossing;
pub mod grouped;
pub mod holm;
pub mod interval;
pub mod line;
pub mod location;
pub mod mean;
pub mod moderated;
pub mod pooled;
pub mod quantile;
pub mod random;
pub mod rank;
pub mod serial;
pub mod states;
pub mod stopping;
pub mod student;
pub mod totals;
pub mod variance;
pub mod verdict;

pub use bootstrap::{Resampling, standard_deviation};
pub use grouped::Grouped;
pub use interval::{AsRatio, Estimate, Interval};
pub use verdict::{Better, Verdict};

/// The middle value, the larger of two; `None` without values.
pub fn middle(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// Default confidence level of intervals.
pub const CONFIDENCE: f64 = 0.95;
