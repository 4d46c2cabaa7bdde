//! A report for people, independent of its format: sections of sentences, tables and logs.
//!
//! The terminal and Markdown render the same document, so they cannot contradict each other.

use std::{fmt, path::PathBuf};

/// A whole report.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub title: Text,
    /// What was measured, in one line.
    pub subtitle: Text,
    pub sections: Vec<Section>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// `None` for the verdict, which needs no heading.
    pub title: Option<String>,
    pub depth: Depth,
    pub blocks: Vec<Block>,
}

/// How prominent a section is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Always shown.
    Open,
    /// Shown if the following sections, which have the details, are hidden or folded.
    Brief,
    /// Folded if the format can fold, otherwise shown only in full output.
    Folded,
    /// Left out if space is short.
    Detail,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    Paragraph(Text),
    /// One entry of a list.
    Item(Text),
    /// An entry below the previous entry.
    SubItem(Text),
    /// An entry that counts what a brief list leaves out.
    Rest(Text),
    Table(Table),
    /// Output of another program or lines of a file, line by line, unchanged.
    Log {
        tail: String,
        file: Option<PathBuf>,
    },
}

impl Block {
    /// An explanation below a table.
    #[must_use]
    pub fn legend(text: impl Into<String>) -> Self {
        Self::Paragraph(Text::of(Tone::Dim, text))
    }
}

/// The meaning of a piece of text. A format may turn it into a colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    Strong,
    Good,
    Bad,
    Warning,
    Dim,
    /// The id of a check, which links to its meaning.
    Check,
    /// The id of a check in the place that explains it.
    Told,
}

/// Text in pieces, each with a tone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(pub Vec<(Tone, String)>);

impl Text {
    #[must_use]
    pub fn of(tone: Tone, text: impl Into<String>) -> Self {
        Self(vec![(tone, text.into())])
    }

    /// Appends a piece.
    #[must_use]
    pub fn and(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.0.push((tone, text.into()));
        self
    }

    #[must_use]
    pub fn plain(self, text: impl Into<String>) -> Self {
        self.and(Tone::Plain, text)
    }

    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

impl<T: Into<String>> From<T> for Text {
    fn from(text: T) -> Self {
        Self::of(Tone::Plain, text)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(_, text)| f.write_str(text))
    }
}

/// A table whose first column names the rows and is left-aligned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub title: String,
    pub align: Align,
    /// Whether the column stays with the previous one when a table is split.
    pub joined: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// Heading of the following rows.
    Group(String),
    /// One cell per column.
    Cells(Vec<Cell>),
    /// A row without figures: its name, and the reason.
    Note(Cell, Cell),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    pub tone: Tone,
    /// The file that the name of a row links to.
    pub link: Option<String>,
}

impl Cell {
    #[must_use]
    pub fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            tone,
            link: None,
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(Tone::Plain, text)
    }
}

impl Column {
    #[must_use]
    pub fn left(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            align: Align::Left,
            joined: false,
        }
    }

    #[must_use]
    pub fn right(title: impl Into<String>) -> Self {
        Self {
            align: Align::Right,
            ..Self::left(title)
        }
    }

    #[must_use]
    pub fn joined(self) -> Self {
        Self { joined: true, ..self }
    }
}
