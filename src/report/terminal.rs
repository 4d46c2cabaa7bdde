//! Text for a terminal: wrapped, aligned, in colour only if asked.

use anstyle::{AnsiColor, Style};
use textwrap::core::display_width;

use super::{
    Options, Report,
    content::document,
    document::{Align, Block, Cell, Column, Depth, Document, Row, Section, Table, Text, Tone},
    units::NBSP,
};
use crate::analyse::summary::Summary;

/// Wider lines are hard to read.
const WIDEST: usize = 100;
const NARROWEST: usize = 40;
/// Space before everything but headings.
const INDENT: usize = 2;
const GAP: usize = 2;
/// Names of rows get at least and at most so much room; longer ones stand on a line of their own.
const SHORTEST_NAME: usize = 14;
const LONGEST_NAME: usize = 28;
/// Lines of a log that are shown.
const LOG_LINES: usize = 6;

/// The report for people at a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Terminal {
    color: bool,
    width: usize,
}

impl Terminal {
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self { color: options.color, width: options.width.clamp(NARROWEST, WIDEST) }
    }
}

impl Report for Terminal {
    fn render(&self, summary: &Summary) -> Vec<u8> {
        let mut page = Page { terminal: *self, text: String::new() };
        page.document(&document(summary));
        page.blank();
        let more = format!("lasthop report {} --format markdown", summary.run);
        page.wrapped(&Text::of(Tone::Dim, "More: ").and(Tone::Dim, more), 0, 0);
        page.finish()
    }
}

/// What has been written so far.
pub(super) struct Page {
    terminal: Terminal,
    text: String,
}

impl Page {
    pub(super) fn new(options: &Options) -> Self {
        Self { terminal: Terminal::new(options), text: String::new() }
    }

    /// The bytes; no-break spaces have done their work and become plain ones.
    pub(super) fn finish(self) -> Vec<u8> {
        self.text.replace(NBSP, " ").into_bytes()
    }

    pub(super) fn document(&mut self, document: &Document) {
        self.wrapped(&Text::of(Tone::Strong, &document.title), 0, 0);
        self.wrapped(&document.subtitle, 0, 0);
        for section in document.sections.iter().filter(|section| section.depth != Depth::Detail) {
            self.section(section);
        }
    }

    fn section(&mut self, section: &Section) {
        self.blank();
        if let Some(title) = &section.title {
            self.wrapped(&Text::of(Tone::Strong, title), 0, 0);
        }
        for (place, block) in section.blocks.iter().enumerate() {
            if place > 0 && matches!(block, Block::Table(_)) {
                self.blank();
            }
            self.block(block);
        }
    }

    pub(super) fn block(&mut self, block: &Block) {
        match block {
            Block::Paragraph(text) => self.wrapped(text, INDENT, INDENT),
            Block::Item(text) => self.wrapped(text, INDENT, INDENT + 4),
            Block::SubItem(text) => self.wrapped(text, INDENT + 2, INDENT + 4),
            Block::Table(table) => self.table(table),
            Block::Log(log) => self.log(log),
        }
    }

    pub(super) fn blank(&mut self) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    /// Text between the margins; continued lines are indented by `hanging`.
    pub(super) fn wrapped(&mut self, text: &Text, first: usize, hanging: usize) {
        let styled: String = text.0.iter().map(|(tone, part)| self.terminal.paint(*tone, &clean(part))).collect();
        let (first, hanging) = (" ".repeat(first), " ".repeat(hanging));
        let options = textwrap::Options::new(self.terminal.width)
            .initial_indent(&first)
            .subsequent_indent(&hanging)
            .word_separator(textwrap::WordSeparator::AsciiSpace)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        for line in textwrap::wrap(&styled, options) {
            self.line(&line);
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end_matches(' '));
        self.text.push('\n');
    }

    /// The last lines of a log, cut at the margin, without the control characters of the program that wrote them.
    fn log(&mut self, log: &str) {
        let lines: Vec<&str> = log.lines().collect();
        for line in &lines[lines.len().saturating_sub(LOG_LINES)..] {
            let room = self.terminal.width - INDENT - 4;
            let line = format!("{}  │ {}", " ".repeat(INDENT), shorten(&clean(line), room));
            self.line(&self.terminal.paint(Tone::Dim, &line));
        }
    }

    pub(super) fn table(&mut self, table: &Table) {
        let room = self.terminal.width - INDENT;
        let parts = split(&indented(table), room);
        for (place, part) in parts.iter().enumerate() {
            if place > 0 {
                self.blank();
            }
            self.part(part, room);
        }
    }

    fn part(&mut self, table: &Table, room: usize) {
        let widths = widths(table, room);
        let head: Vec<Cell> = table.columns.iter().map(|column| Cell::new(Tone::Dim, &column.title)).collect();
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
        for (place, ((cell, column), width)) in cells.iter().zip(columns).zip(widths).enumerate() {
            let text = clean(&cell.text);
            if place == 0 && display_width(&text) > *width {
                self.wrapped(&Text::of(cell.tone, text), INDENT, INDENT);
                line.push_str(&" ".repeat(*width));
                continue;
            }
            let gap = if place > 0 { GAP } else { 0 };
            let space = " ".repeat(width.saturating_sub(display_width(&text)));
            line.push_str(&" ".repeat(gap));
            let painted = self.terminal.paint(cell.tone, &text);
            line.push_str(&match column.align {
                Align::Left => painted + &space,
                Align::Right => space + &painted,
            });
        }
        self.line(&line);
    }

    fn note(&mut self, name: &Cell, note: &Cell, width: usize) {
        let space = " ".repeat(width.saturating_sub(display_width(&name.text)) + GAP);
        let text = Text::of(name.tone, &name.text).plain(space.replace(' ', "\u{a0}")).and(note.tone, &note.text);
        self.wrapped(&text, INDENT, INDENT + width + GAP);
    }
}

impl Terminal {
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
        Tone::Strong => Style::new().bold(),
        Tone::Good => AnsiColor::Green.on_default().bold(),
        Tone::Bad => AnsiColor::Red.on_default().bold(),
        Tone::Warning => AnsiColor::Yellow.on_default().bold(),
        Tone::Dim => Style::new().dimmed(),
    }
}

/// The table with the names of rows set in under the headings of their groups.
fn indented(table: &Table) -> Table {
    let mut table = table.clone();
    if table.rows.iter().any(|row| matches!(row, Row::Group(_))) {
        for row in &mut table.rows {
            match row {
                Row::Group(_) => {}
                Row::Cells(cells) => cells[0].text.insert_str(0, "  "),
                Row::Note(name, _) => name.text.insert_str(0, "  "),
            }
        }
    }
    table
}

/// Width of each column. A name for which there is no room does not count: it gets a line of its own.
fn widths(table: &Table, room: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = table.columns.iter().map(|column| display_width(&column.title)).collect();
    for row in &table.rows {
        if let Row::Cells(cells) = row {
            for (width, cell) in widths.iter_mut().zip(cells).skip(1) {
                *width = (*width).max(display_width(&cell.text));
            }
        }
    }
    let others: usize = widths.iter().skip(1).map(|width| width + GAP).sum();
    let limit = room.saturating_sub(others).clamp(SHORTEST_NAME, LONGEST_NAME);
    let names = table.rows.iter().filter_map(|row| match row {
        Row::Group(_) => None,
        Row::Cells(cells) => cells.first(),
        Row::Note(name, _) => Some(name),
    });
    let longest = names.map(|name| display_width(&name.text)).filter(|width| *width <= limit).max();
    if let (Some(width), Some(longest)) = (widths.first_mut(), longest) {
        *width = (*width).max(longest);
    }
    widths
}

/// A table that is too wide becomes several, each with the names of the rows.
fn split(table: &Table, room: usize) -> Vec<Table> {
    let widths = widths(table, room);
    let mut parts: Vec<Vec<usize>> = vec![vec![0]];
    let mut used = widths.first().copied().unwrap_or(0);
    for (place, width) in widths.iter().enumerate().skip(1) {
        if used + GAP + width > room && parts[parts.len() - 1].len() > 1 {
            parts.push(vec![0]);
            used = widths[0];
        }
        used += GAP + width;
        let last = parts.len() - 1;
        parts[last].push(place);
    }
    parts.iter().map(|places| pick(table, places)).collect()
}

fn pick(table: &Table, places: &[usize]) -> Table {
    let columns = places.iter().map(|&place| table.columns[place].clone()).collect();
    let row = |row: &Row| match row {
        Row::Cells(cells) => Row::Cells(places.iter().map(|&place| cells[place].clone()).collect()),
        other => other.clone(),
    };
    Table { columns, rows: table.rows.iter().map(row).collect() }
}

/// Foreign text without escape sequences and control characters: a log must not colour, clear or retitle a terminal.
pub(super) fn clean(text: &str) -> String {
    let mut rest = text.chars().peekable();
    let mut cleaned = String::with_capacity(text.len());
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => skip_escape(&mut rest),
            '\t' => cleaned.push_str("    "),
            '\n' => cleaned.push(' '),
            other if other.is_control() => {}
            other => cleaned.push(other),
        }
    }
    cleaned
}

/// After the escape character: a control sequence up to its final byte, an operating-system command up to its end, or
/// one further character (ECMA-48 §5.4, §8.3.89).
fn skip_escape(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match rest.next() {
        Some('[') => {
            rest.find(|character| ('@'..='~').contains(character));
        }
        Some(']') => {
            rest.find(|character| matches!(character, '\u{7}' | '\u{1b}' | '\u{9c}'));
        }
        _ => {}
    }
}

fn shorten(text: &str, room: usize) -> String {
    if display_width(text) <= room {
        return text.to_owned();
    }
    let mut short = String::new();
    for character in text.chars() {
        if display_width(&short) + display_width(character.encode_utf8(&mut [0; 4])) + 1 > room {
            break;
        }
        short.push(character);
    }
    short + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_loses_its_escapes() {
        assert_eq!(clean("\u{1b}[31mred\u{1b}[0m\u{7}\ttab\u{1b}]0;title\u{7}end"), "red    tabend");
        assert_eq!(clean("\u{1b}"), "");
    }

    #[test]
    fn long_lines_are_cut_by_display_width() {
        assert_eq!(shorten("界界界界", 5), "界界…");
        assert_eq!(shorten("short", 5), "short");
    }

    #[test]
    fn wide_tables_are_split_and_keep_their_names() {
        let columns = ["case", "one", "two", "three"].map(Column::right).to_vec();
        let cells = ["a", "1111111111", "2222222222", "3333333333"].map(Cell::from).to_vec();
        let parts = split(&Table { columns, rows: vec![Row::Cells(cells)] }, 30);
        let titles: Vec<Vec<&str>> =
            parts.iter().map(|part| part.columns.iter().map(|column| column.title.as_str()).collect()).collect();
        assert_eq!(titles, [vec!["case", "one", "two"], vec!["case", "three"]]);
    }
}
