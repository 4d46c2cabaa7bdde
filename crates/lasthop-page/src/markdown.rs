//! GitHub-flavoured Markdown to paste into an issue: the main sections open, the rest folded.

use std::fmt::Write;

use lasthop_model::quantity::joined;

use super::document::{Align, Block, Cell, Column, Depth, Document, Row, Section, Table, Text, Tone};
use crate::text::{self, fenced, html, markdown as escape};

/// Any document, below a heading of the second level.
#[must_use]
pub fn page(document: &Document) -> String {
    let mut page = format!(
        "## {}\n\n{}\n",
        escape(&document.title.to_string()),
        escape(&document.subtitle.to_string())
    );
    page.push_str(&sections(&document.sections));
    page
}

/// Sections without a page's title.
#[must_use]
pub fn sections(sections: &[Section]) -> String {
    let mut text = String::new();
    sections.iter().for_each(|part| section(&mut text, part));
    text
}

fn section(page: &mut String, section: &Section) {
    let folded = !matches!(section.depth, Depth::Open | Depth::Brief);
    match (&section.title, folded) {
        (Some(title), true) => {
            let _ = write!(page, "\n<details><summary>{}</summary>\n", html(title));
        }
        (Some(title), false) => {
            let _ = write!(page, "\n### {}\n", escape(title));
        }
        (None, _) => {}
    }
    let mut in_list = false;
    for block in &section.blocks {
        let item = matches!(block, Block::Item(_) | Block::SubItem(_) | Block::Rest(_));
        if !(item && in_list) {
            page.push('\n');
        }
        in_list = item;
        page.push_str(&self::block(block));
    }
    if folded && section.title.is_some() {
        page.push_str("\n</details>\n");
    }
}

fn block(block: &Block) -> String {
    match block {
        Block::Paragraph(text) => format!("{}\n", begun(text)),
        Block::Item(text) | Block::Rest(text) => format!("- {}\n", begun(text)),
        Block::SubItem(text) => format!("  - {}\n", begun(text)),
        Block::Table(table) => self::table(table),
        Block::Log { tail, file } => {
            // Indented as a whole, which renders alike (CommonMark §4.5): no line of the log then begins a line of the
            // output.
            fenced("text", tail.trim_end())
                .replace('\n', "\n  ")
                .replacen("", "  ", 1)
                + "\n"
                + &file
                    .as_ref()
                    .map(|file| {
                        format!(
                            "\nWhole log: {}, in the folder of the run.\n",
                            escape(&file.to_string_lossy())
                        )
                    })
                    .unwrap_or_default()
        }
    }
}

/// Escapes markup at the beginning of a block.
fn begun(text: &Text) -> String {
    text::block(&inline(text)).into_owned()
}

/// Emphasises text that the terminal would colour.
fn inline(text: &Text) -> String {
    let part = |(tone, text): &(Tone, String)| {
        let shown = escape(text);
        match tone {
            Tone::Plain | Tone::Dim => shown,
            Tone::Check | Tone::Told => format!("[{shown}]({})", address_of_check(text)),
            _ => emphasised(&shown),
        }
    };
    text.0.iter().map(part).collect()
}

/// The address of a check's explanation.
#[must_use]
pub fn address_of_check(id: &str) -> String {
    format!("{}/blob/main/docs/checks.md#{id}", env!("CARGO_PKG_REPOSITORY"))
}

/// Keeps spaces at the ends outside the asterisks, because `** bold**` is not bold.
fn emphasised(text: &str) -> String {
    let core = text.trim();
    if core.is_empty() {
        return text.to_owned();
    }
    let start = text.len() - text.trim_start().len();
    format!("{}**{core}**{}", &text[..start], &text[start + core.len()..])
}

fn table(table: &Table) -> String {
    let mut lines = vec![line(table.columns.iter().map(|column| escape(&column.title)))];
    lines.push(line(table.columns.iter().map(rule)));
    let width = table.columns.len();
    for row in &table.rows {
        lines.push(match row {
            Row::Group(name) => line(padded(vec![emphasised(&escape(name))], width)),
            Row::Cells(cells) => line(cells.iter().map(cell)),
            Row::Note(name, note) => line(padded(vec![cell(name), cell(note)], width)),
        });
    }
    lines.concat()
}

fn rule(column: &Column) -> String {
    match column.align {
        Align::Left => ":--".to_owned(),
        Align::Right => "--:".to_owned(),
    }
}

fn cell(cell: &Cell) -> String {
    let text = escape(&cell.text);
    if matches!(cell.tone, Tone::Good | Tone::Bad | Tone::Warning) {
        emphasised(&text)
    } else {
        text
    }
}

fn padded(mut cells: Vec<String>, width: usize) -> Vec<String> {
    cells.resize(width.max(cells.len()), String::new());
    cells
}

fn line(cells: impl IntoIterator<Item = String>) -> String {
    format!("| {} |\n", joined(cells, " | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_a_log_begins_one_of_the_page() {
        let log = block(&Block::Log {
            tail: "x\nerror: forged".into(),
            file: None,
        });
        assert_eq!(log, "  ```text\n  x\n  error: forged\n  ```\n");
    }

    #[test]
    fn spaces_are_not_emphasised() {
        assert_eq!(emphasised(" word "), " **word** ");
    }
}
