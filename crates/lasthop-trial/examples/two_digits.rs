//! Reads a record's trials and writes them with times of two significant digits instead of three, at half the size.

use std::{
    error::Error,
    io::{self, Write as _},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use lasthop_trial::histogram::Histogram;

/// Beginning of each histogram's base64: the cookie of HdrHistogram V2.
const BEGIN: &str = "HISTEwAA";

fn two_digits(text: &str) -> Result<String, Box<dyn Error>> {
    let all: Histogram = serde_json::from_value(text.into())?;
    let mut fewer = hdrhistogram::Histogram::<u64>::new_with_bounds(1, all.max().max(2), 2)?;
    for (nanoseconds, count) in all.bins() {
        fewer.record_n(nanoseconds, count)?;
    }
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&fewer, &mut bytes)?;
    Ok(STANDARD.encode(bytes))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut to = io::stdout().lock();
    for line in io::stdin().lines() {
        let parts = line?
            .split('"')
            .map(|part| match part.starts_with(BEGIN) {
                true => two_digits(part),
                false => Ok(part.to_owned()),
            })
            .collect::<Result<Vec<_>, _>>()?;
        writeln!(to, "{}", parts.join("\""))?;
    }
    Ok(())
}
