//! A protocol that only an experiment's own driver speaks. lasthop passes its parameters on without knowing them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    exchange::Factory,
    kind::{ProtocolKind, ProtocolSpec, Usage},
};

pub static KIND: ProtocolKind =
    ProtocolKind::of::<Custom>("custom", "a protocol of your own", |_| Err(DRIVER_ONLY.to_owned()));

const DRIVER_ONLY: &str = "`custom` is for a driver of your own (`[load] driver`), and lasthop's own driver was asked";

/// Any parameters of your driver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Custom(Map<String, Value>);

impl ProtocolSpec for Custom {
    fn kind(&self) -> &'static ProtocolKind {
        &KIND
    }

    fn validate(&self, _usage: Usage) -> Result<(), String> {
        Err(DRIVER_ONLY.to_owned())
    }

    fn factory(&self, _usage: Usage) -> Factory {
        unreachable!("it is never valid")
    }

    fn checked(&self, _size: &dyn Fn(u64) -> String) -> String {
        "what the driver checks".to_owned()
    }
}
