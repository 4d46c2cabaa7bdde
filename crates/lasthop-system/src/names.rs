//! Names that identify a machine: the home folder and the host's name. Records are shared, and contain neither.

use std::{borrow::Cow, env, fs, sync::OnceLock};

use crate::facts::Facts;

/// The text that replaces the home folder.
const HOME: &[u8] = b"~";
/// The text that replaces the host's name in logs of servers.
const HOST: &[u8] = b"(host)";
/// The length of the shortest host name to replace. A shorter name, or a name in [`NO_NAMES`], is too likely to be
/// another word.
const LEAST: usize = 4;
const NO_NAMES: [&str; 2] = ["localhost", "(none)"];

/// The names of this user and machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The home folder as set, then its real path if different. Never the root folder.
    homes: Vec<String>,
    host: Option<String>,
}

impl Names {
    /// The names of this process's user and machine.
    pub fn here() -> &'static Self {
        static HERE: OnceLock<Names> = OnceLock::new();
        HERE.get_or_init(|| {
            let home = env::home_dir().and_then(|home| home.to_str().map(str::to_owned));
            Self::of(
                &home.unwrap_or_default(),
                &Facts::here().sysctl("kernel.hostname").unwrap_or_default(),
            )
        })
    }

    /// The names for this home folder, if it is an absolute path, and this host.
    pub fn of(home: &str, host: &str) -> Self {
        let set = home.trim_end_matches('/').to_owned();
        let real = fs::canonicalize(&set)
            .ok()
            .and_then(|path| path.to_str().map(str::to_owned));
        let mut homes: Vec<String> = [Some(set), real].into_iter().flatten().collect();
        homes.retain(|home| home.starts_with('/') && home.len() > 1);
        homes.dedup();
        let is_name = host.len() >= LEAST && !NO_NAMES.contains(&host);
        Self {
            homes,
            host: is_name.then(|| host.to_owned()),
        }
    }

    /// A text with `~` in place of the home folder.
    pub fn without_home<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        self.homes.iter().fold(Cow::Borrowed(text), |text, home| {
            without(text, home.as_bytes(), HOME, is_whole_path)
        })
    }

    /// Like [`Self::without_home`] for JSON, whose strings escape some letters.
    pub fn json_without_home<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let homes = self.homes.iter();
        Self {
            homes: homes
                .map(|home| home.replace('\\', "\\\\").replace('"', "\\\""))
                .collect(),
            host: None,
        }
        .without_home(text)
    }

    /// A log without the home folder and the host's name.
    pub fn without_both<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let text = self.without_home(text);
        match &self.host {
            Some(host) => without(text, host.as_bytes(), HOST, |before, after| {
                !before.last().is_some_and(is_of_word) && !after.first().is_some_and(is_of_word)
            }),
            None => text,
        }
    }

    /// The text with the home folder in place of each `~` from [`Names::without_home`]. A shell does the same with `~`.
    pub fn with_home(&self, text: &str) -> String {
        let Some(home) = self.homes.first() else {
            return text.to_owned();
        };
        let mut parts = text.split('~');
        let mut whole = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let begins = whole.is_empty() || whole.ends_with("://") || !whole.bytes().last().is_some_and(is_in_path);
            whole.push_str(if begins && (part.is_empty() || part.starts_with('/')) {
                home
            } else {
                "~"
            });
            whole.push_str(part);
        }
        whole
    }
}

fn is_of_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') || !byte.is_ascii()
}

fn is_in_path(byte: u8) -> bool {
    is_of_word(&byte) || matches!(byte, b'.' | b'/' | b'~')
}

/// Whether a path between these texts is whole, or continues below.
fn is_whole_path(before: &[u8], after: &[u8]) -> bool {
    let begins = !before.last().is_some_and(|byte| is_of_word(byte) || *byte == b'.');
    let ends = match after {
        // `/home/ann.old` is another folder, but a full stop after `/home/ann` ends a sentence.
        [b'.', next, ..] => !is_of_word(next) && *next != b'.',
        [next, ..] => !is_of_word(next),
        [] => true,
    };
    begins && ends
}

/// A text with a name replaced wherever it is not a part of another word.
fn without<'a>(text: Cow<'a, [u8]>, name: &[u8], by: &[u8], is_whole: impl Fn(&[u8], &[u8]) -> bool) -> Cow<'a, [u8]> {
    let mut replaced = Vec::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = text[at..]
        .windows(name.len())
        .position(|part| part == name)
        .map(|found| at + found)
    {
        at = found + name.len();
        if is_whole(&text[..found], &text[at..]) {
            replaced.extend_from_slice(&text[copied..found]);
            replaced.extend_from_slice(by);
            copied = at;
        }
    }
    if copied == 0 {
        return text;
    }
    replaced.extend_from_slice(&text[copied..]);
    replaced.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hide(text: &str) -> String {
        let names = Names {
            homes: vec!["/home/al".to_owned()],
            host: Some("secret-host".to_owned()),
        };
        String::from_utf8(names.without_both(text.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn a_home_is_a_tilde_and_comes_back() {
        let names = Names::of("/home/al/", "x");
        for (text, folded) in [
            ("/home/al", "~"),
            ("/home/al/x.sock", "~/x.sock"),
            ("http+unix:/home/al/a.sock:/", "http+unix:~/a.sock:/"),
            ("file:///home/al/a", "file://~/a"),
            ("--root=/home/al/a /home/al/b", "--root=~/a ~/b"),
        ] {
            assert_eq!(hide(text), folded);
            assert_eq!(names.with_home(folded), text);
        }
        for same in [
            "/home/alice/x",
            "/home/al.bak/x",
            "/home/al-2",
            "/mnt/home/al",
            "a~/b",
            "awk '$1 ~ /x/'",
            "/a/~/b",
        ] {
            assert_eq!((hide(same), names.with_home(same)), (same.to_owned(), same.to_owned()));
        }
        assert_eq!(hide("in /home/al. (/home/al)"), "in ~. (~)");
        for none in ["", "/", "relative"] {
            assert_eq!(Names::of(none, "").with_home("~/a"), "~/a");
        }
    }

    #[test]
    fn a_host_is_hidden_where_it_is_a_word() {
        assert_eq!(
            hide("on secret-host: [secret-host.example]"),
            "on (host): [(host).example]"
        );
        assert_eq!(hide("secret-hosts, not-secret-host"), "secret-hosts, not-secret-host");
        assert_eq!(
            [Names::of("", "localhost"), Names::of("", "vm")],
            [Names::default(), Names::default()]
        );
    }

    #[test]
    fn letters_that_json_escapes_are_found() {
        let names = Names {
            homes: vec!["/home/a\"b".to_owned()],
            host: None,
        };
        assert_eq!(&*names.json_without_home(br#"["/home/a\"b/c"]"#), b"[\"~/c\"]");
    }
}
