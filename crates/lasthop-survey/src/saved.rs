//! The record of a survey: its JSON. Somebody else may have made it, and it is only shown.

use serde::Deserialize;

use super::links::{SCHEMA, Survey};

/// The most bytes that a record has: some hundred thousand links.
pub const LONGEST: u64 = 256 << 20;

#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// The survey that `lasthop survey --format json` wrote.
///
/// # Errors
///
/// It is none, or one of another version of lasthop; the message says which.
pub fn read(json: &[u8]) -> Result<Survey, String> {
    let form = "`lasthop survey --format json` writes what can be read again";
    let head: Head = serde_json::from_slice(json).map_err(|error| format!("it is no survey ({error}); {form}"))?;
    if head.schema != SCHEMA {
        return Err(format!("it is `{}`, and this lasthop reads `{SCHEMA}`", head.schema));
    }
    serde_json::from_slice(json).map_err(|error| format!("it is no whole survey: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_survey_is_refused() {
        for (text, wanted) in [
            ("", "it is no survey (EOF"),
            ("[]", "it is no survey ("),
            (r#"{"schema": "lasthop-diff/1"}"#, "it is `lasthop-diff/1`"),
            (r#"{"schema": "lasthop-survey/1", "links": 3}"#, "it is no whole survey"),
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
