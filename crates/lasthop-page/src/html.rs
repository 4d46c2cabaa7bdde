//! Documents in HTML: sections, tables and logs, and the frame of a page that loads nothing.

use std::fmt::Write as _;

use super::document::{Align, Block, Cell, Column, Depth, Document, Row, Section, Table, Text, Tone};
use crate::text::{code, markup as escape};

/// Draws the plots of a run. `script/web` writes this and the next scripts from `web/src`.
pub const SCRIPT: &str = include_str!("../../../web/dist/page.js");
/// Sorts and filters long tables, on every page.
const TABLES: &str = include_str!("../../../web/dist/tables.js");
const STYLE: &str = include_str!("../../../web/dist/page.css");

/// SHA-256 of each script, in base64.
const DIGESTS: [&str; 2] = [
    include_str!("../../../web/dist/page.sha256"),
    include_str!("../../../web/dist/tables.sha256"),
];

/// Marks each page as made by lasthop.
const GENERATOR: &str = "<meta name=\"generator\" content=\"lasthop\">";

/// Whether the first bytes are those of lasthop's pages.
#[must_use]
pub fn is_page(head: &[u8]) -> bool {
    String::from_utf8_lossy(head).contains(GENERATOR)
}

/// A whole page. `body` is HTML. Whatever text it contains, only lasthop's scripts may run and nothing may be loaded.
#[must_use]
pub fn frame(title: &str, body: &str) -> Vec<u8> {
    let [plots, tables] = DIGESTS;
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-{plots}' \
         'sha256-{tables}'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n{GENERATOR}\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n<script>{TABLES}</script>\n</body>\n</html>\n",
        escape(title)
    )
    .into_bytes()
}

/// A document as a page without plots.
#[must_use]
pub fn document(document: &Document) -> Vec<u8> {
    document_with(document, "")
}

/// Like [`document()`], with a picture in HTML before the first section.
#[must_use]
pub fn document_with(document: &Document, picture: &str) -> Vec<u8> {
    let sections: String = document.sections.iter().map(section).collect();
    let head = format!(
        "<h1>{}</h1>\n<p class=\"sub\">{}</p>\n",
        inline(&document.title),
        inline(&document.subtitle)
    );
    frame(&document.title.to_string(), &(head + picture + &sections))
}

/// A section with its heading, folded according to its depth.
#[must_use]
pub fn section(section: &Section) -> String {
    let blocks = blocks(&section.blocks);
    match (&section.title, section.depth) {
        (None, _) => blocks,
        (Some(title), Depth::Open | Depth::Brief) => {
            format!("<section>\n<h2>{}</h2>\n{blocks}</section>\n", escape(title))
        }
        (Some(title), _) => {
            format!(
                "<details>\n<summary><h2>{}</h2></summary>\n{blocks}</details>\n",
                escape(title)
            )
        }
    }
}

#[must_use]
pub fn blocks(blocks: &[Block]) -> String {
    let mut html = String::new();
    // The number of open lists.
    let mut depth = 0;
    for block in blocks {
        let wanted = match block {
            Block::Item(_) | Block::Rest(_) => 1,
            Block::SubItem(_) => 2,
            _ => 0,
        };
        lists(&mut html, &mut depth, wanted);
        html.push_str(&self::block(block));
    }
    lists(&mut html, &mut depth, 0);
    html
}

/// Opens or closes lists. A nested list is part of the previous entry.
fn lists(html: &mut String, depth: &mut usize, wanted: usize) {
    while *depth > wanted {
        html.push_str("</li>\n</ul>\n");
        *depth -= 1;
    }
    if *depth == wanted && wanted > 0 {
        html.push_str("</li>\n");
    }
    while *depth < wanted {
        html.push_str("<ul>\n");
        *depth += 1;
        if *depth < wanted {
            html.push_str("<li>");
        }
    }
}

fn block(block: &Block) -> String {
    match block {
        Block::Paragraph(text) => format!("<p>{}</p>\n", inline(text)),
        Block::Item(text) | Block::SubItem(text) | Block::Rest(text) => format!("<li>{}", inline(text)),
        Block::Table(table) => self::table(table),
        Block::Log { tail, file } => {
            log(tail.trim_end(), "log")
                + &file
                    .as_ref()
                    .map(|file| {
                        format!(
                            "<p class=\"dim\">Whole log: {}, in the folder of the run.</p>\n",
                            escape(&file.to_string_lossy())
                        )
                    })
                    .unwrap_or_default()
        }
    }
}

/// Unchanged text in a box that the keyboard can scroll.
#[must_use]
pub fn log(text: &str, name: &str) -> String {
    format!(
        "<pre tabindex=\"0\" role=\"region\" aria-label=\"{}\">{}</pre>\n",
        escape(name),
        escape(text)
    )
}

#[must_use]
pub fn inline(text: &Text) -> String {
    text.0.iter().map(|(tone, text)| toned(*tone, text)).collect()
}

/// Renders plain words between backticks as code, as in Markdown.
fn coded(text: &str) -> String {
    let mut html = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('`') {
        html.push_str(&escape(&rest[..at]));
        rest = &rest[at + 1..];
        match code(rest) {
            Some(words) => {
                let _ = write!(html, "<code>{}</code>", escape(words));
                rest = &rest[words.len() + 1..];
            }
            None => html.push('`'),
        }
    }
    html + &escape(rest)
}

fn toned(tone: Tone, text: &str) -> String {
    wrapped(tone, coded(text))
}

fn wrapped(tone: Tone, text: String) -> String {
    match tone {
        Tone::Plain => text,
        Tone::Strong => format!("<strong>{text}</strong>"),
        Tone::Good => format!("<strong class=\"good\">{text}</strong>"),
        Tone::Bad => format!("<strong class=\"bad\">{text}</strong>"),
        Tone::Warning => format!("<strong class=\"warning\">{text}</strong>"),
        Tone::Dim => format!("<span class=\"dim\">{text}</span>"),
        Tone::Check => format!("<a href=\"#check-{text}\">{text}</a>"),
        Tone::Told => format!("<strong id=\"check-{text}\">{text}</strong>"),
    }
}

/// Every cell repeats its column's title, because on a phone each row becomes a list.
fn table(table: &Table) -> String {
    let mut html = "<table>\n<thead><tr>".to_owned();
    for column in &table.columns {
        let _ = write!(
            html,
            "<th scope=\"col\"{}>{}</th>",
            aligned(column),
            escape(&column.title)
        );
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        html.push_str(&self::row(row, &table.columns));
    }
    html + "</tbody>\n</table>\n"
}

fn row(row: &Row, columns: &[Column]) -> String {
    let width = columns.len();
    match row {
        Row::Group(name) => {
            format!(
                "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{width}\">{}</th></tr>\n",
                escape(name)
            )
        }
        Row::Note(name, note) => {
            let rest = width.saturating_sub(1).max(1);
            format!(
                "<tr>{}<td colspan=\"{rest}\">{}</td></tr>\n",
                head(name),
                toned(note.tone, &note.text)
            )
        }
        Row::Cells(cells) => {
            let Some((name, rest)) = cells.split_first() else {
                return String::new();
            };
            let rest = rest.iter().zip(&columns[1..]);
            let rest: String = rest.map(|(cell, column)| self::cell(cell, column)).collect();
            format!("<tr>{}{rest}</tr>\n", head(name))
        }
    }
}

fn head(name: &Cell) -> String {
    let text = escape(&name.text);
    let text = match &name.link {
        Some(file) => format!("<a href=\"{}\">{text}</a>", escape(file)),
        None => text,
    };
    format!("<th scope=\"row\">{text}</th>")
}

fn cell(cell: &Cell, column: &Column) -> String {
    let empty = if cell.text.is_empty() { " class=\"empty\"" } else { "" };
    let label = escape(&column.title);
    format!(
        // In a box, with the label beside it on a phone.
        "<td{}{empty} data-label=\"{label}\"><div>{}</div></td>",
        aligned(column),
        // A name, possibly foreign, or a figure: not a sentence with code.
        wrapped(cell.tone, escape(&cell.text))
    )
}

fn aligned(column: &Column) -> &'static str {
    if column.align == Align::Right {
        " data-number"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_part_of_the_entry_above_it() {
        let item = |text: &str| Block::Item(text.into());
        let sub = |text: &str| Block::SubItem(text.into());
        let html = blocks(&[
            item("a"),
            sub("b"),
            sub("c"),
            item("d"),
            Block::Paragraph("e".into()),
            sub("f"),
        ]);
        let html = html.replace('\n', "");
        assert_eq!(
            html,
            "<ul><li>a<ul><li>b</li><li>c</li></ul></li><li>d</li></ul><p>e</p><ul><li><ul><li>f</li></ul></li></ul>"
        );
    }

    #[test]
    fn words_between_backticks_are_code() {
        assert_eq!(
            coded("see `perf x`, `y`, `<z>`"),
            "see <code>perf x</code>, <code>y</code>, `&lt;z&gt;`"
        );
        assert_eq!(coded("a ` alone"), "a ` alone");
    }

    #[test]
    fn foreign_text_is_no_markup() {
        let cell = Cell::new(Tone::Plain, "<img src=x>");
        let column = Column::right("\" onclick=\"x");
        let table = Table {
            columns: vec![column.clone(), column],
            rows: vec![Row::Cells(vec![cell.clone(), cell])],
        };
        let html = block(&Block::Table(table));
        assert!(!html.contains("<img") && !html.contains("\" onclick"), "{html}");
        let log = block(&Block::Log {
            tail: "</pre><script>".into(),
            file: Some("</p><b>".into()),
        });
        assert!(!log.contains("<script") && !log.contains("<b>"), "{log}");
        let forged = "x\nerror: forged\n::error::x `code`";
        let shown = [
            block(&Block::Paragraph(forged.into())),
            super::log(forged, forged),
            self::row(
                &Row::Cells(vec![Cell::new(Tone::Plain, forged); 2]),
                &vec![Column::right(forged); 2],
            ),
        ];
        for html in shown {
            let begins = |line: &str| line.starts_with("error:") || line.starts_with("::");
            assert!(!html.lines().any(begins), "{html}");
            assert!(html.contains("x&#10;error: forged&#10;::error::x"), "{html}");
        }
        assert!(!self::cell(&Cell::new(Tone::Plain, forged), &Column::right("")).contains("<code>"));
    }
}
