//! Errors in files: every one of a file at once, each with its place and what was expected there.

use std::{collections::BTreeSet, fmt, ops::Range};

/// One error and its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The file as the user knows it.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong: a lower-case fragment.
    pub message: String,
    /// What to do about it, if that can be said.
    pub help: Option<String>,
    /// The line of the file, without its end.
    pub source: String,
    /// Characters that are marked, 1 or more.
    pub width: usize,
}

impl Diagnostic {
    /// An error at a byte range of a text. A range over several lines is marked on its first.
    #[must_use]
    pub fn new(file: &str, text: &str, range: Range<usize>, message: impl Into<String>) -> Self {
        let start = floor_boundary(text, range.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let marked = &text[start..floor_boundary(text, range.end).clamp(start, line_end)];
        Self {
            file: file.to_owned(),
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            message: message.into(),
            help: None,
            source: text[line_start..line_end].trim_end_matches('\r').to_owned(),
            width: marked.trim_end().chars().count().max(1),
        }
    }

    /// The same place with something else to say.
    #[must_use]
    pub fn saying(&self, message: impl Into<String>, help: Option<String>) -> Self {
        Self { message: message.into(), help, ..self.clone() }
    }

    #[must_use]
    pub fn with_help(mut self, help: Option<String>) -> Self {
        self.help = help;
        self
    }
}

/// The nearest character boundary at or below a byte offset.
fn floor_boundary(text: &str, offset: usize) -> usize {
    (0..=offset.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message, source, width, .. } = self;
        let margin = line.to_string().len();
        writeln!(f, "{file}:{line}:{column}: {message}")?;
        writeln!(f, " {line} | {}", source.replace('\t', " "))?;
        write!(f, " {:margin$} | {:indent$}{}", "", "", "^".repeat(*width), indent = column - 1)?;
        match &self.help {
            Some(help) => writeln!(f, " {help}"),
            None => writeln!(f),
        }
    }
}

/// All errors of an experiment's files, in order of file and place. Never empty when it is an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(BTreeSet<Diagnostic>);

impl Diagnostics {
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.insert(diagnostic);
    }

    pub fn extend(&mut self, others: impl IntoIterator<Item = Diagnostic>) {
        self.0.extend(others);
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(single: Diagnostic) -> Self {
        Self(BTreeSet::from([single]))
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::collections::btree_set::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, diagnostic) in self.0.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// The known word that was probably meant.
#[must_use]
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count().max(word.chars().count()) / 3).max(1))
        .min()
        .map(|(_, candidate)| candidate)
}

/// `did you mean …?` where a known word is near, otherwise the list of what is known.
#[must_use]
pub fn suggest<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Option<String> {
    if let Some(near) = closest(word, known.clone()) {
        return Some(format!("did you mean `{near}`?"));
    }
    let list: Vec<&str> = known.into_iter().collect();
    if list.is_empty() { None } else { Some(format!("known: {}", list.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_characters_not_bytes() {
        let text = "a = 1\nß = \"ü\"\n";
        let at = text.find('"').unwrap();
        let diagnostic = Diagnostic::new("f.toml", text, at..at + 4, "wrong");
        assert_eq!((diagnostic.line, diagnostic.column, diagnostic.width), (2, 5, 3));
        assert_eq!(diagnostic.to_string(), "f.toml:2:5: wrong\n 2 | ß = \"ü\"\n   |     ^^^\n");
    }

    #[test]
    fn survives_any_range() {
        let text = "ß";
        for range in [0..0, 1..1, 2..2, 5..9, 1..5] {
            assert_eq!(Diagnostic::new("f", text, range, "m").line, 1);
        }
    }

    #[test]
    fn suggests_what_is_near_and_lists_otherwise() {
        assert_eq!(suggest("recipie", ["recipe", "needs"]).unwrap(), "did you mean `recipe`?");
        assert_eq!(suggest("zzzz", ["recipe", "needs"]).unwrap(), "known: recipe, needs");
        assert_eq!(closest("tpc", ["tcp", "tcp6"]), Some("tcp"));
        assert_eq!(closest("x", ["tcp", "tls"]), None);
    }
}
