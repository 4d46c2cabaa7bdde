//! Text for a terminal: wrapped, aligned, and in colour only on request.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use anstyle::{AnsiColor, Style};
use textwrap::core::display_width;

use super::{
    document::{Align, Block, Cell, Column, Depth, Document, Row, Section, Table, Text, Tone},
    options::Options,
    units::NBSP,
};
use crate::text;

/// The widest line that is easy to read, in columns.
const WIDEST: usize = 100;
const NARROWEST: usize = 40;
/// Indentation of everything except headings.
pub const INDENT: usize = 2;
const GAP: usize = 2;
/// Least and greatest width of the column of names. Longer names get their own line.
const SHORTEST_NAME: usize = 14;
const LONGEST_NAME: usize = 28;
/// Lines of a log that are shown.
const LOG_LINES: usize = 6;
/// Maximum characters of a line of a log.
const LONGEST_LINE: usize = 800;

/// The output so far. Only this type writes control sequences, and only around text without any.
pub struct Page {
    color: bool,
    width: usize,
    verbose: bool,
    unicode: bool,
    /// Paths of logs are relative to this folder.
    folder: PathBuf,
    text: String,
}

impl Page {
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self {
            color: options.color,
            width: options.width.clamp(NARROWEST, WIDEST),
            verbose: options.verbose,
            unicode: options.unicode,
            folder: PathBuf::new(),
            text: String::new(),
        }
    }

    /// A page about a folder.
    #[must_use]
    pub fn about(folder: &Path, options: &Options) -> Self {
        Self {
            folder: folder.to_owned(),
            ..Self::new(options)
        }
    }

    /// Columns available to lines under a heading.
    #[must_use]
    pub fn room(&self) -> usize {
        self.width - INDENT
    }

    /// Lines under a heading, if there are any.
    pub fn plot(&mut self, title: &str, lines: Vec<Text>) {
        if lines.is_empty() {
            return;
        }
        self.blank();
        self.line(&Text::of(Tone::Strong, title));
        for text in lines {
            if display_width(&text.to_string()) + INDENT <= self.width {
                self.line(&Text::from(" ".repeat(INDENT)).join(text));
            } else {
                self.wrapped(&text, INDENT, INDENT);
            }
        }
    }

    /// The bytes, with no-break spaces turned into plain ones.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let text = self.text.replace(NBSP, " ");
        if self.unicode { text } else { text::ascii(&text) }.into_bytes()
    }

    /// Foreign text as one line, in the terminal's characters. Apply before measuring the width.
    fn spelled<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let line = text::line(text);
        if self.unicode { line } else { text::ascii(&line).into() }
    }

    pub fn document(&mut self, document: &Document) {
        self.wrapped(&document.title, 0, INDENT);
        self.wrapped(&document.subtitle, 0, INDENT);
        for section in &document.sections {
            if self.shows(section) {
                self.section(section);
            }
        }
    }

    #[must_use]
    pub fn shows(&self, section: &Section) -> bool {
        match section.depth {
            Depth::Open => true,
            Depth::Brief => !self.verbose,
            Depth::Folded => self.verbose,
            Depth::Detail => false,
        }
    }

    pub fn section(&mut self, section: &Section) {
        self.blank();
        if let Some(title) = &section.title {
            self.wrapped(&Text::of(Tone::Strong, title), 0, INDENT);
        }
        for (place, block) in section.blocks.iter().enumerate() {
            if place > 0 && matches!(block, Block::Table(_)) {
                self.blank();
            }
            self.block(block);
        }
    }

    pub fn block(&mut self, block: &Block) {
        match block {
            Block::Paragraph(text) => self.wrapped(text, INDENT, INDENT),
            Block::Item(text) => self.wrapped(text, INDENT, INDENT + 4),
            Block::SubItem(text) => self.wrapped(text, INDENT + 2, INDENT + 4),
            Block::Rest(text) => self.wrapped(&text.clone().and(Tone::Dim, ": --verbose"), INDENT, INDENT + 4),
            Block::Table(table) => self.table(table),
            Block::Log { tail, file } => self.log(tail, file.as_deref()),
        }
    }

    pub fn blank(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    /// Wraps text between the margins, and indents continuation lines by `hanging`.
    pub fn wrapped(&mut self, text: &Text, first: usize, hanging: usize) {
        let styled = self.styled(text);
        let first = " ".repeat(first);
        let hanging = " ".repeat(hanging);
        let options = textwrap::Options::new(self.width)
            .initial_indent(&first)
            .subsequent_indent(&hanging)
            // A path must stay whole to be copied.
            .break_words(false)
            .word_separator(textwrap::WordSeparator::AsciiSpace)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        for line in textwrap::wrap(&styled, options) {
            self.push(&line);
        }
    }

    /// Writes text as one line of any length.
    pub fn line(&mut self, text: &Text) {
        let styled = self.styled(text);
        self.push(&styled);
    }

    fn push(&mut self, line: &str) {
        self.text.push_str(line.trim_end_matches(' '));
        self.text.push('\n');
    }

    /// Writes the last lines of a log, wrapped at the margin, and the path of the rest.
    fn log(&mut self, tail: &str, file: Option<&Path>) {
        let margin = " ".repeat(INDENT + 2) + "│ ";
        let further = format!("{margin}  ");
        let options = textwrap::Options::new(self.width)
            .initial_indent(&margin)
            .subsequent_indent(&further)
            // The optimal-fit algorithm prefers overlong lines to lines of very different lengths.
            .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit)
            .word_separator(textwrap::WordSeparator::AsciiSpace)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        let lines: Vec<&str> = tail.lines().collect();
        for line in &lines[lines.len().saturating_sub(LOG_LINES)..] {
            let line = line.replace('\t', "    ");
            for part in textwrap::wrap(&shorten(&text::line(&line)), &options) {
                self.push(&self.paint(Tone::Dim, &part));
            }
        }
        if let Some(file) = file {
            let path = self.folder.join(file);
            self.line(&Text::of(Tone::Dim, format!("    whole log: {}", path.display())));
        }
    }

    pub fn table(&mut self, table: &Table) {
        let room = self.width - INDENT;
        let parts = split(&self.indented(table), room);
        for (place, part) in parts.iter().enumerate() {
            if place > 0 {
                self.blank();
            }
            self.part(part, room);
        }
    }

    fn part(&mut self, table: &Table, room: usize) {
        let widths = widths(table, room);
        let titles = table.columns.iter();
        let head: Vec<Cell> = titles.map(|column| Cell::new(Tone::Dim, &column.title)).collect();
        self.row(&head, &table.columns, &widths);
        for row in &table.rows {
            match row {
                Row::Group(name) => self.wrapped(&Text::of(Tone::Strong, name), INDENT, INDENT),
                Row::Cells(cells) => self.row(cells, &table.columns, &widths),
                Row::Note(name, note) => self.note(name, note, widths[0]),
            }
        }
    }

    fn row(&mut self, cells: &[Cell], columns: &[Column], widths: &[usize]) {
        let mut line = " ".repeat(INDENT);
        let mut below = Vec::new();
        for (place, ((cell, column), width)) in cells.iter().zip(columns).zip(widths).enumerate() {
            let text = &cell.text;
            if place == 0 && display_width(text) > *width {
                self.wrapped(&Text::of(cell.tone, text), INDENT, INDENT);
                line.push_str(&" ".repeat(*width));
                continue;
            }
            let gap = if place > 0 { GAP } else { 0 };
            line.push_str(&" ".repeat(gap));
            let mut text: Cow<'_, str> = text.into();
            if place > 0 && place + 1 == cells.len() && display_width(&text) > *width {
                let margin: usize = widths[..place].iter().map(|width| width + GAP).sum();
                let mut lines = textwrap::wrap(&cell.text, *width).into_iter();
                text = lines.next().unwrap_or_default();
                below = lines
                    .map(|words| " ".repeat(INDENT + margin) + &self.paint(cell.tone, &words))
                    .collect();
            }
            let space = " ".repeat(width.saturating_sub(display_width(&text)));
            // After measuring, because control sequences take no room on the screen.
            let painted = self.paint(cell.tone, &text);
            line.push_str(&match column.align {
                Align::Left => painted + &space,
                Align::Right => space + &painted,
            });
        }
        self.push(&line);
        for line in below {
            self.push(&line);
        }
    }

    fn note(&mut self, name: &Cell, note: &Cell, width: usize) {
        let space = " ".repeat(width.saturating_sub(display_width(&name.text)) + GAP);
        let text = Text::of(name.tone, &name.text)
            // No-break spaces, so that the line does not break here.
            .plain(space.replace(' ', "\u{a0}"))
            .and(note.tone, &note.text);
        self.wrapped(&text, INDENT, INDENT + width + GAP);
    }
}

impl Page {
    fn styled(&self, text: &Text) -> String {
        let parts = text.0.iter();
        parts
            .map(|(tone, part)| self.paint(*tone, &self.spelled(part)))
            .collect()
    }

    /// The table with clean cells, and with names of rows indented below group headings.
    fn indented(&self, table: &Table) -> Table {
        let mut table = table.clone();
        let has_groups = table.rows.iter().any(|row| matches!(row, Row::Group(_)));
        let margin = if has_groups { "  " } else { "" };
        for column in &mut table.columns {
            column.title = self.spelled(&column.title).into_owned();
        }
        for row in &mut table.rows {
            let cells: Vec<&mut Cell> = match row {
                Row::Group(_) => continue,
                Row::Cells(cells) => cells.iter_mut().collect(),
                Row::Note(name, note) => vec![name, note],
            };
            for (place, cell) in cells.into_iter().enumerate() {
                let margin = if place == 0 { margin } else { "" };
                cell.text = format!("{margin}{}", self.spelled(&cell.text));
            }
        }
        table
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        let style = style(tone);
        if self.color && style != Style::new() && !text.is_empty() {
            format!("{}{text}{}", style.render(), style.render_reset())
        } else {
            text.to_owned()
        }
    }
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Strong | Tone::Told => Style::new().bold(),
        Tone::Good => AnsiColor::Green.on_default().bold(),
        Tone::Bad => AnsiColor::Red.on_default().bold(),
        Tone::Warning => AnsiColor::Yellow.on_default().bold(),
        Tone::Dim | Tone::Check => Style::new().dimmed(),
    }
}

/// Width of each column. Names that are too long do not count: they get their own line. Words in the last column wrap
/// if the table would not fit otherwise.
fn widths(table: &Table, room: usize) -> Vec<usize> {
    let titles = table.columns.iter();
    let mut widths: Vec<usize> = titles.map(|column| display_width(&column.title)).collect();
    for row in &table.rows {
        if let Row::Cells(cells) = row {
            for (width, cell) in widths.iter_mut().zip(cells).skip(1) {
                *width = (*width).max(display_width(&cell.text));
            }
        }
    }
    let others: usize = widths.iter().skip(1).map(|width| width + GAP).sum();
    let name = names(table).map(display_width).max().unwrap_or_default();
    let excess = (others + name.clamp(INDENT, SHORTEST_NAME)).saturating_sub(room);
    let others = others - narrow_last(table, &mut widths, excess, room.saturating_sub(INDENT));
    let left = room.saturating_sub(others);
    // Names on their own lines are better than a table in two parts.
    let shortest = if left >= INDENT { INDENT } else { SHORTEST_NAME };
    let limit = left.clamp(shortest, LONGEST_NAME);
    let lengths = names(table).map(display_width).chain(widths.first().copied());
    let longest = lengths.filter(|width| *width <= limit).max();
    if let Some(width) = widths.first_mut() {
        *width = longest.unwrap_or(INDENT);
    }
    widths
}

/// Names of rows.
fn names(table: &Table) -> impl Iterator<Item = &str> {
    let names = table.rows.iter().filter_map(|row| match row {
        Row::Group(_) => None,
        Row::Cells(cells) => cells.first(),
        Row::Note(name, _) => Some(name),
    });
    names.map(|name| name.text.as_str())
}

/// Takes up to `excess` columns from a last column of words, if the columns except names then fit into `room`.
fn narrow_last(table: &Table, widths: &mut [usize], excess: usize, room: usize) -> usize {
    let others: usize = widths.iter().skip(1).map(|width| width + GAP).sum();
    let ([_, .., column], [_, .., width]) = (&table.columns[..], widths) else {
        return 0;
    };
    if column.align == Align::Right || others <= room {
        return 0;
    }
    let cells = table.rows.iter().filter_map(|row| match row {
        Row::Cells(cells) => cells.last(),
        Row::Group(_) | Row::Note(..) => None,
    });
    let words = cells.flat_map(|cell| cell.text.split_whitespace()).map(display_width);
    let longest = words.chain([display_width(&column.title)]).max().unwrap_or(*width);
    let taken = excess.min(width.saturating_sub(longest));
    if others - taken > room {
        return 0;
    }
    *width -= taken;
    taken
}

/// Splits a table that is too wide into several, each with the names of rows. Joined columns stay together if they fit
/// into one line.
fn split(table: &Table, room: usize) -> Vec<Table> {
    let widths = widths(table, room);
    let used = |places: &[usize]| places.iter().map(|&place| widths[place] + GAP).sum::<usize>();
    let mut parts = Vec::new();
    let mut part = vec![0];
    for (place, width) in widths.iter().enumerate().skip(1) {
        if used(&part) + width > room && part.len() > 1 {
            let so_far = table.columns[..=place].iter().rev();
            let joined = so_far.take_while(|column| column.joined).count();
            let kept = part.len().saturating_sub(joined).max(1);
            let mut next = vec![0];
            if kept > 1 && used(&next) + used(&part[kept..]) + width <= room {
                next.extend(part.split_off(kept));
            }
            parts.push(std::mem::replace(&mut part, next));
        }
        part.push(place);
    }
    parts.push(part);
    parts.iter().map(|places| pick(table, places)).collect()
}

fn pick(table: &Table, places: &[usize]) -> Table {
    let columns = places.iter().map(|&place| table.columns[place].clone()).collect();
    Table {
        columns,
        rows: table
            .rows
            .iter()
            .map(|row| match row {
                Row::Cells(cells) => Row::Cells(places.iter().map(|&place| cells[place].clone()).collect()),
                other => other.clone(),
            })
            .collect(),
    }
}

/// Cuts out the middle of a very long line, because its end says what happened.
fn shorten(line: &str) -> Cow<'_, str> {
    let characters: Vec<char> = line.chars().collect();
    if characters.len() <= LONGEST_LINE {
        return line.into();
    }
    let start = &characters[..LONGEST_LINE / 4];
    let end = &characters[characters.len() - LONGEST_LINE * 3 / 4..];
    let all = start.iter().chain(&[' ', '…', ' ']).chain(end);
    all.collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_last_column_go_on_below() {
        let column = |title: &str, align| Column {
            title: title.to_owned(),
            align,
            joined: false,
        };
        let table = |last: &str| Table {
            columns: vec![
                column("case", Align::Left),
                column("Unix/s", Align::Right),
                column("sure?", Align::Left),
            ],
            rows: vec![Row::Cells(
                ["query", "12,345", last]
                    .map(|text| Cell::new(Tone::Plain, text))
                    .to_vec(),
            )],
        };
        let shown = |last| {
            let mut page = Page::new(&Options {
                width: 40,
                ..Options::default()
            });
            page.table(&table(last));
            String::from_utf8(page.finish()).unwrap()
        };
        assert_eq!(
            shown("perhaps: one of a great many cases"),
            "  case   Unix/s  sure?\n  query  12,345  perhaps: one of a great\n                 many cases\n"
        );
        let word = "w".repeat(31);
        assert!(shown(&word).contains(&word), "a word stays whole");
    }

    #[test]
    fn a_line_of_a_log_keeps_its_end() {
        let shown = |line: &str| {
            let mut page = Page::new(&Options {
                width: 40,
                ..Options::default()
            });
            page.log(line, Some(Path::new("services/0/0/app/log")));
            String::from_utf8(page.finish()).unwrap()
        };
        let long = format!(
            "2026/11/22 02:50:46 [crit] connect() to unix:/tmp/{} failed (13: Permission denied)",
            "界".repeat(40)
        );
        let wrapped = shown(&long);
        assert!(wrapped.lines().all(|line| display_width(line) <= 40), "{wrapped}");
        let whole = wrapped.replace("\n    │   ", "").replace(' ', "");
        assert!(whole.contains(&long.replace(' ', "")), "{whole}");
        assert!(
            wrapped.ends_with("\n    whole log: services/0/0/app/log\n"),
            "{wrapped}"
        );
        let endless = shown(&("x".repeat(100_000) + "(13: Permission denied)"));
        assert!(
            endless.len() < 2_000 && endless.replace("\n    │   ", "").contains("(13: Permission denied)"),
            "{endless}"
        );
    }

    #[test]
    fn a_terminal_of_ascii_gets_ascii_in_columns_that_fit() {
        let mut page = Page::new(&Options {
            unicode: false,
            ..Options::default()
        });
        page.line(&"driver → server · 5 ± 1 µs, 2 × …".into());
        let columns = ["case", "±"].map(Column::right).to_vec();
        let row = |cells: [&str; 2]| Row::Cells(cells.map(Cell::from).to_vec());
        page.table(&Table {
            columns,
            rows: vec![row(["a → b", "17 µs"]), row(["a", "1"])],
        });
        let shown = String::from_utf8(page.finish()).unwrap();
        assert!(shown.starts_with("driver -> server - 5 +- 1 us, 2 x ...\n"), "{shown}");
        let ends: Vec<usize> = shown.lines().skip(1).map(str::len).collect();
        assert!(shown.is_ascii() && ends == [ends[0]; 3], "{shown}");
    }

    #[test]
    fn wide_tables_are_split_and_keep_their_names() {
        let columns = ["case", "one", "two", "three"].map(Column::right).to_vec();
        let cells = ["a", "1111111111", "2222222222", "3333333333"].map(Cell::from).to_vec();
        let parts = split(
            &Table {
                columns,
                rows: vec![Row::Cells(cells)],
            },
            30,
        );
        let titles: Vec<Vec<&str>> = parts
            .iter()
            .map(|part| part.columns.iter().map(|column| column.title.as_str()).collect())
            .collect();
        assert_eq!(titles, [vec!["case", "one", "two"], vec!["case", "three"]]);
    }

    #[test]
    fn joined_columns_stay_together_where_they_fit() {
        let mut columns = ["case", "one", "two", "three"].map(Column::right).to_vec();
        columns[3].joined = true;
        let cells = ["a", "1111111111", "2222222222", "3333333333"].map(Cell::from).to_vec();
        let table = Table {
            columns,
            rows: vec![Row::Cells(cells)],
        };
        let widths = |room| {
            split(&table, room)
                .iter()
                .map(|part| part.columns.len())
                .collect::<Vec<_>>()
        };
        assert_eq!(widths(30), [2, 3]);
        assert_eq!(widths(24), [2, 2, 2], "not even these two fit");
    }
}
