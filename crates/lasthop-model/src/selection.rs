//! The selection of a run from the factors of an experiment.

use std::str::FromStr;

use indexmap::IndexMap;
use lasthop_trial::options::Arrivals;
use serde::{Deserialize, Serialize};

use crate::rate::Rate;

/// The factor of the transport of the link, which most experiments compare.
pub const TRANSPORT: &str = "transport";

/// The factor that replaces `transport` if containers decide how the link's bytes travel: published port, bridge, host
/// network, shared volume. `link.transport` gives the transport of each path.
pub const PATH: &str = "path";

/// The factor of named endpoints for `lasthop compare`.
pub const ENDPOINT: &str = "endpoint";

/// Name of the compared factor: the one with a reference.
pub fn compared<T>(factors: &IndexMap<String, T>, has_reference: impl Fn(&T) -> bool) -> &str {
    let mut all = factors.iter();
    let named = all
        .find(|(_, factor)| has_reference(factor))
        .map(|(name, _)| name.as_str());
    named.unwrap_or(if factors.contains_key(PATH) { PATH } else { TRANSPORT })
}

/// Whether a factor varies only the way to the server. Then any other difference is a flaw.
pub fn is_way(factor: &str) -> bool {
    [TRANSPORT, PATH].contains(&factor)
}

/// The factor of the driver, in a run with classic tools.
pub const DRIVER: &str = "driver";

/// The level of [`DRIVER`] for the experiment's own driver, usually lasthop's load generator.
pub const OWN_DRIVER: &str = "lasthop";

/// Suffix of a case's second name when the case is compared with itself.
pub const AGAIN: &str = "-again";

/// The selection of a run from the factors of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Run only these of the listed levels.
    pub only: Vec<Choice>,
    /// Use these levels; a whole number in the factor's range need not be listed.
    pub set: Vec<Choice>,
    /// Run only reference cases, each twice under two names.
    pub aa: bool,
    /// Levels of the factor [`DRIVER`]. If empty, lasthop drives and the factor does not exist.
    pub drivers: Vec<String>,
    /// The rate of every case, which overrides the experiment's; 0 is a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The arrivals of every open loop, which override the experiment's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// Whether cases are overloaded; the experiment may have levels for overload.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overload: bool,
}

/// A choice of levels: `factor=level,level`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    pub factor: String,
    pub levels: Vec<String>,
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` does not select levels: write factor=level,level, for example transport=unix,tcp");
        let (factor, levels) = text.split_once('=').ok_or_else(wrong)?;
        let levels: Vec<String> = levels.split(',').map(|level| level.trim().to_owned()).collect();
        if factor.trim().is_empty() || levels.iter().any(String::is_empty) {
            return Err(wrong());
        }
        Ok(Self {
            factor: factor.trim().to_owned(),
            levels,
        })
    }
}
