//! What a run chooses among the factors of an experiment.

use std::str::FromStr;

use indexmap::IndexMap;
use lasthop_protocol::spec::Arrivals;
use serde::{Deserialize, Serialize};

use crate::rate::Rate;

/// The factor of the transport of the link, which most experiments compare.
pub const TRANSPORT: &str = "transport";

/// The factor that replaces `transport` if containers decide how the link's bytes travel: published port, bridge, host
/// network, shared volume. `link.transport` says which transport each path has.
pub const PATH: &str = "path";

/// The factor of endpoints that `lasthop compare` was given with names.
pub const ENDPOINT: &str = "endpoint";

/// Name of the factor under comparison: the one that has a reference.
pub fn compared<T>(factors: &IndexMap<String, T>, has_reference: impl Fn(&T) -> bool) -> &str {
    let mut all = factors.iter();
    let named = all
        .find(|(_, factor)| has_reference(factor))
        .map(|(name, _)| name.as_str());
    named.unwrap_or(if factors.contains_key(PATH) { PATH } else { TRANSPORT })
}

/// Whether a factor varies nothing but the way to the server, so that whatever else differs is a flaw.
pub fn is_way(factor: &str) -> bool {
    [TRANSPORT, PATH].contains(&factor)
}

/// The factor of a run with classic tools: which of them drives.
pub const DRIVER: &str = "driver";

/// The level of [`DRIVER`] that is not a tool but the experiment's driver, usually lasthop's load generator.
pub const OWN_DRIVER: &str = "lasthop";

/// Suffix of the second name of a case that is compared with itself.
pub const AGAIN: &str = "-again";

/// What a run selects from the factors of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Run only these of the listed levels.
    pub only: Vec<Choice>,
    /// Use these levels; whole numbers within the factor's range need not be listed.
    pub set: Vec<Choice>,
    /// Run each reference case twice under two names, and nothing else.
    pub aa: bool,
    /// Levels of the factor [`DRIVER`]. If empty, lasthop drives and there is no such factor.
    pub drivers: Vec<String>,
    /// Rate of every case, which overrides the experiment's: an open loop, or with 0 a closed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Arrivals of every open loop, which override the experiment's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// Whether cases are overloaded; the experiment may have levels for that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overload: bool,
}

/// `factor=level,level`
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
