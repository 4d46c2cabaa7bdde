//! Names of runs. A name becomes a folder and a word in a shell, and may come from a stranger.

use jiff::{SignedDuration, Timestamp};

/// Format of the time at the beginning of lasthop's own names.
const TIME: &str = "%Y%m%dT%H%M%S";

/// Maximum bytes of a name; file systems allow 255 for a folder.
const LONGEST: usize = 200;

/// Maximum characters of each word in a name.
const WORD: usize = 50;

/// The word for the newest run, which no run may have as its name.
pub const LAST: &str = "last";

/// Whether a text can be the name of a run: letters, digits, `.`, `_` and `-`, beginning with neither a dot nor a dash,
/// and not the word for the newest run.
#[must_use]
pub fn is_valid(name: &str) -> bool {
    (1..=LONGEST).contains(&name.len())
        && name
            .bytes()
            .all(|byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
        && !name.starts_with(['.', '-'])
        && name != LAST
}

/// Whether a name sorts after those of all runs begun by now, with a day's tolerance between clocks.
#[must_use]
pub fn is_of_the_future(name: &str, now: Timestamp) -> bool {
    let tomorrow = now
        .saturating_add(SignedDuration::from_hours(24))
        .unwrap_or(Timestamp::MAX);
    let tomorrow = tomorrow.strftime(TIME).to_string();
    // Times of fixed width sort like their texts.
    name.starts_with(|first: char| first.is_ascii_digit()) && name.bytes().take(tomorrow.len()).gt(tomorrow.bytes())
}

/// The name of a run that starts now: the time, by which names sort, then these words.
#[must_use]
pub fn made(started: Timestamp, words: &[&str]) -> String {
    let mut name = started.strftime(TIME).to_string();
    for word in words {
        name.push('-');
        name.extend(
            word.chars()
                .take(WORD)
                .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }),
        );
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_plain_letters() {
        let long = "x".repeat(201);
        for good in ["20261122T140000-sockets-1234", "a", "A.b_c-9", &long[..200]] {
            assert!(is_valid(good), "{good}");
        }
        let bad = [
            "",
            ".",
            "..",
            ".a",
            "-a",
            "a/b",
            "a b",
            "a\n",
            "$(touch${IFS}x)",
            "é",
            "a'b",
            "a;b",
            LAST,
            &long,
        ];
        for bad in bad {
            assert!(!is_valid(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_name_beyond_tomorrow_is_of_the_future() {
        let now: Timestamp = "2026-11-22T14:00:00Z".parse().unwrap();
        for past in [
            "20261122T140001-x-1",
            "20261123T140000-x-1",
            "20261123T140000",
            "0",
            "sockets",
            "x9999",
        ] {
            assert!(!is_of_the_future(past, now), "{past}");
        }
        for future in ["20261123T140001-x-1", "20991231T235959-x", "99999999", "3"] {
            assert!(is_of_the_future(future, now), "{future}");
        }
        let last = made(Timestamp::MAX, &["x"]);
        assert!(
            !is_of_the_future(&last, Timestamp::MAX) && is_of_the_future(&last, now),
            "{last}"
        );
    }

    #[test]
    fn what_is_made_is_valid() {
        let now: Timestamp = "2026-11-22T14:00:00Z".parse().unwrap();
        let name = made(now, &["my stack/ü", "ci.1", "77"]);
        assert_eq!(name, "20261122T140000-my-stack---ci-1-77");
        assert!(is_valid(&name) && !is_of_the_future(&name, now));
        assert!(is_valid(&made(now, &["x".repeat(300).as_str(); 3])));
    }
}
