//! Reads a record's trials, and writes them with times of two significant digits instead of three: half as large.

use std::{
    error::Error,
    io::{self, Write as _},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer as _, V2Serializer},
};

/// How the base64 of each histogram begins: with the cookie of HdrHistogram V2.
const BEGIN: &str = "HISTEwAA";

fn two_digits(text: &str) -> Result<String, Box<dyn Error>> {
    let all: Histogram<u64> = Deserializer::new().deserialize(&mut STANDARD.decode(text)?.as_slice())?;
    let mut fewer = Histogram::new_with_bounds(1, all.max().max(2), 2)?;
    for bin in all.iter_recorded() {
        fewer.record_n(all.median_equivalent(bin.value_iterated_to()), bin.count_at_value())?;
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
