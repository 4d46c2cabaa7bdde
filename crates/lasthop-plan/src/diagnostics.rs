//! Errors in files. All errors of a file are reported at once, each with its place and the expected value.

use std::{collections::BTreeSet, fmt, ops::Range};

/// Bytes of a line shown before the place of an error. After it, half as many.
const AROUND: usize = 200;
/// The most errors shown at once.
pub(super) const MOST_SHOWN: usize = 50;
/// The most known words listed.
const MOST_KNOWN: usize = 30;

/// An error and its place.
// `Ord` follows the order of the fields: first the file, then the place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The file, by the name that the user knows.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The message: a lower-case fragment.
    pub message: String,
    /// Advice, if there is any.
    pub help: Option<String>,
    /// The line of the file without its line break. Of a long line, only the part around the place.
    pub source: String,
    /// Characters of `source` before the marked ones.
    pub indent: usize,
    /// Marked characters, at least 1.
    pub width: usize,
}

impl Diagnostic {
    /// An error at a byte range of a text. A range over several lines is marked only on its first line.
    pub fn new(file: &str, text: &str, range: Range<usize>, message: impl Into<String>) -> Self {
        let start = floor_boundary(text, range.start);
        let line = text[..start].matches('\n').count() + 1;
        Self::on_line(line, file, text, range, message)
    }

    /// An error on a known line, without a search for the line from the beginning of the text.
    pub fn on_line(line: usize, file: &str, text: &str, range: Range<usize>, message: impl Into<String>) -> Self {
        let start = floor_boundary(text, range.start);
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let marked_end = floor_boundary(text, range.end).clamp(start, line_end);
        let shown_start = floor_boundary(text, line_start.max(start.saturating_sub(AROUND)));
        let shown_end = floor_boundary(text, line_end.min(start + 2 * AROUND)).max(start);
        let characters = |range: Range<usize>| text[range].trim_end().chars().count();
        Self {
            file: file.to_owned(),
            line,
            column: text[line_start..start].chars().count() + 1,
            message: message.into(),
            help: None,
            source: text[shown_start..shown_end].trim_end_matches('\r').to_owned(),
            indent: text[shown_start..start].chars().count(),
            width: characters(start..marked_end.min(shown_end)).max(1),
        }
    }

    /// A copy with another message.
    pub fn saying(&self, message: impl Into<String>, help: Option<String>) -> Self {
        Self {
            message: message.into(),
            help,
            ..self.clone()
        }
    }

    pub fn with_help(mut self, help: Option<String>) -> Self {
        self.help = help;
        self
    }
}

/// The nearest character boundary at or before a byte offset.
fn floor_boundary(text: &str, offset: usize) -> usize {
    (0..=offset.min(text.len()))
        .rev()
        .find(|&at| text.is_char_boundary(at))
        .unwrap_or(0)
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            column,
            message,
            source,
            indent,
            width,
            ..
        } = self;
        let margin = line.to_string().len();
        writeln!(f, "{file}:{line}:{column}: {message}")?;
        // A tab becomes one blank, so that the marks in the next line are below the marked characters.
        writeln!(f, " {line} | {}", source.replace('\t', " "))?;
        write!(f, " {:margin$} | {:indent$}{}", "", "", "^".repeat(*width))?;
        match &self.help {
            Some(help) => writeln!(f, " {help}"),
            None => writeln!(f),
        }
    }
}

/// All errors in an experiment's files, ordered by file and place. Not empty if returned as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(BTreeSet<Diagnostic>);

impl Diagnostics {
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.insert(diagnostic);
    }

    pub fn extend(&mut self, others: impl IntoIterator<Item = Diagnostic>) {
        self.0.extend(others);
    }

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
        for (at, diagnostic) in self.0.iter().take(MOST_SHOWN).enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{diagnostic}")?;
        }
        match self.0.len().saturating_sub(MOST_SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Diagnostics {}

/// The known word that was probably meant, if one is similar.
pub fn closest<T: AsRef<str>>(word: &str, known: impl IntoIterator<Item = T>) -> Option<T> {
    let lower = word.to_lowercase();
    known
        .into_iter()
        .filter_map(|candidate| {
            let text = candidate.as_ref();
            let distance = strsim::damerau_levenshtein(&lower, &text.to_lowercase());
            // A typo for every three letters; one in a short word.
            let most = (text.chars().count().max(word.chars().count()) / 3).max(1);
            (distance <= most).then_some((distance, candidate))
        })
        .min_by(|(one, this), (other, that)| (one, this.as_ref()).cmp(&(other, that.as_ref())))
        .map(|(_, candidate)| candidate)
}

/// Advice: `did you mean …?` if a known word is similar, otherwise where to find all.
pub fn meant<T: AsRef<str>>(word: &str, known: impl IntoIterator<Item = T>, otherwise: &str) -> String {
    let near = closest(word, known).map(|near| format!("did you mean `{}`?", near.as_ref()));
    near.unwrap_or_else(|| otherwise.to_owned())
}

/// Advice: `did you mean …?` if a known word is similar, otherwise the list of known words.
pub fn suggest<T: AsRef<str>>(word: &str, known: impl IntoIterator<Item = T>) -> Option<String> {
    let known: Vec<T> = known.into_iter().collect();
    let list: Vec<&str> = known.iter().take(MOST_KNOWN).map(AsRef::as_ref).collect();
    let more = if known.len() > MOST_KNOWN { ", …" } else { "" };
    let all = format!("known: {}{more}", list.join(", "));
    (!known.is_empty()).then(|| meant(word, &known, &all))
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
        assert_eq!(
            diagnostic.to_string(),
            "f.toml:2:5: wrong\n 2 | ß = \"ü\"\n   |     ^^^\n"
        );
    }

    #[test]
    fn of_many_errors_and_long_lines_a_part_is_shown() {
        let text = format!("a = \"{}\"\n", "ü".repeat(1_000_000));
        let mut all = Diagnostics::default();
        (0..1_000).for_each(|at| all.push(Diagnostic::new("f.toml", &text, at * 1_000..2_000_000, "wrong")));
        let shown = all.to_string();
        assert!(
            shown.ends_with("\nand 950 more\n") && shown.len() < 200_000,
            "{} bytes",
            shown.len()
        );
        let lines = [4..5, 600..602].map(|range| Diagnostic::new("f.toml", &text, range, "wrong").to_string());
        for line in lines {
            let [source, marks] = line.lines().skip(1).collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let place = marks.chars().position(|c| c == '^').unwrap();
            assert!(matches!(source.chars().nth(place), Some('"' | 'ü')), "{line}");
        }
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
        assert_eq!(
            suggest("recipie", ["recipe", "needs"]).unwrap(),
            "did you mean `recipe`?"
        );
        assert_eq!(suggest("zzzz", ["recipe", "needs"]).unwrap(), "known: recipe, needs");
        assert_eq!(closest("tpc", ["tcp", "tcp6"]), Some("tcp"));
        assert_eq!(closest("x", ["tcp", "tls"]), None);
    }
}
