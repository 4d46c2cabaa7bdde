//! Spellings of the previous version.

use std::ffi::OsString;

/// Old spellings of commands, and their present ones. The next version drops them.
const OLD: [(&str, &str); 4] = [
    ("check", "new --check"),
    ("explain", "run --again --explain"),
    ("explain-check", "report --check"),
    ("fleet report", "report"),
];

/// A command line in the present spelling, and a note if it had an old one.
pub fn today(mut words: Vec<OsString>) -> (Vec<OsString>, Option<String>) {
    let Some((old, new)) = OLD.iter().find(|(old, _)| {
        let mut typed = words.iter().skip(1);
        old.split(' ')
            .all(|word| typed.next().is_some_and(|typed| typed == word))
    }) else {
        return (words, None);
    };
    let hint = format!("`{old}` is now `{new}`; this spelling goes in the next version");
    words.splice(1..=old.split(' ').count(), new.split(' ').map(OsString::from));
    (words, Some(hint))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn what_was_accepted_is_accepted() {
        for (typed, now) in [
            (
                "check ./mine --no-run --only a=b",
                "new --check ./mine --no-run --only a=b",
            ),
            (
                "explain --layers mine.toml last -q",
                "run --again --explain --layers mine.toml last -q",
            ),
            ("explain", "run --again --explain"),
            ("explain-check few-requests", "report --check few-requests"),
            ("explain-check", "report --check"),
            ("fleet report one two --by kernel", "report one two --by kernel"),
        ] {
            let words = |text: &str| format!("lasthop {text}").split(' ').map(OsString::from).collect();
            let (words_now, hint) = today(words(typed));
            assert_eq!((&words_now, hint.is_some()), (&words(now), true), "{typed}");
            assert!(Cli::try_parse_from(words_now).is_ok(), "{now}");
            assert_eq!(today(words(now)), (words(now), None));
        }
    }
}
