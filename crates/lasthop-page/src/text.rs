//! Makes text safe before it goes to a terminal, a Markdown page, a spreadsheet or a JSON file.
//!
//! Servers, hosts, drivers, records and other people's files decide the content of their text, but must not decide its
//! effects. There is one function per format:
//!
//! | format | function | foreign text cannot |
//! |---|---|---|
//! | terminal | [`line()`] for one line, [`talk`] for a message, [`screen`] for all output | move, colour, retitle or reorder anything, or imitate lasthop's own lines |
//! | Markdown | [`markdown`], [`fenced`], [`html`] | be markup, a link, a mention or a reference, or end a code block |
//! | CSV | [`csv`] | be a formula |
//! | HTML and SVG | [`markup`], [`embedded`] | be an element or an attribute, end a script, or be hidden |
//! | JSON | [`json`] | affect the terminal that shows it; the value is exact |

use std::{borrow::Cow, fmt::Write as _};

use serde::Serialize;

/// The control sequences that lasthop writes: reset, bold, dim, underlined, red, green, yellow.
const STYLES: [&str; 7] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[4m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
];

/// Renders as nothing, and breaks a mention, a reference or a link between its parts.
const BREAK: &str = "&#8203;";

/// Whether a character is invisible or has an effect: controls (C0, DEL, C1), direction marks, zero-width characters,
/// line and paragraph separators, tags.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
                | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Escapes hidden characters as `\u{1b}`, except those to keep.
fn visible(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let shown = |character| !is_hidden(character) || keep(character);
    if text.chars().all(shown) {
        return text.into();
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if shown(character) {
            clean.push(character);
        } else {
            clean.extend(character.escape_default());
        }
    }
    clean.into()
}

/// Text as one line: line breaks become escapes too.
pub fn line(text: &str) -> Cow<'_, str> {
    visible(text, |_| false)
}

/// A message of several lines. Later lines are indented, so that only lasthop can start a line with `error:`.
pub fn talk(text: &str) -> String {
    let mut lines = text.trim_end_matches('\n').split('\n');
    let mut message = line(lines.next().unwrap_or_default()).into_owned();
    for further in lines {
        let further = line(further);
        let margin = if further.is_empty() || further.starts_with(' ') {
            ""
        } else {
            "  "
        };
        let _ = write!(message, "\n{margin}{further}");
    }
    without_commands(message)
}

/// Breaks commands of CI servers in a log, such as `::error::text`, even if indented. lasthop writes none.
fn without_commands(text: String) -> String {
    let is_command = |line: &str| {
        let word = line.trim_start().strip_prefix("::");
        word.is_some_and(|word| word.contains("::"))
    };
    if !text.contains("::") || !text.lines().any(is_command) {
        return text;
    }
    let broken = |line: &str| {
        if is_command(line) {
            line.replacen("::", "\\::", 1)
        } else {
            line.to_owned()
        }
    };
    text.split_inclusive('\n').map(broken).collect()
}

/// Replacements for lasthop's own signs in ASCII locales. Foreign text stays unchanged.
const SPELLED: [(char, &str); 14] = [
    ('µ', "u"),
    ('→', "->"),
    ('·', "-"),
    ('–', "-"),
    ('−', "-"),
    ('×', "x"),
    ('±', "+-"),
    ('…', "..."),
    ('≈', "~"),
    ('≥', ">="),
    ('≤', "<="),
    ('│', "|"),
    ('ρ', "rho"),
    ('²', "^2"),
];

/// Text whose signs an ASCII terminal can show.
#[must_use]
pub fn ascii(text: &str) -> String {
    let mut spelled = String::with_capacity(text.len());
    for character in text.chars() {
        match SPELLED.iter().find(|(sign, _)| *sign == character) {
            Some((_, word)) => spelled.push_str(word),
            None => spelled.push(character),
        }
    }
    spelled
}

/// Keeps only harmless output: text, line breaks, tabs, and lasthop's own styles.
pub fn screen(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    // A lone carriage return would let text overwrite the beginning of its line.
    while let Some(at) = rest.find(['\u{1b}', '\r']) {
        clean.push_str(&visible(&rest[..at], is_layout));
        rest = &rest[at..];
        let own = STYLES.iter().chain(&["\r\n"]).find(|own| rest.starts_with(**own));
        let length = own.map_or(1, |own| own.len());
        clean.push_str(&own.map_or_else(|| line(&rest[..1]), |own| Cow::Borrowed(*own)));
        rest = &rest[length..];
    }
    clean.push_str(&visible(rest, is_layout));
    without_commands(clean)
}

fn is_layout(character: char) -> bool {
    matches!(character, '\n' | '\t')
}

/// Escapes text within a line of Markdown (GitHub flavour), so that it reads unchanged. Words between backticks become
/// code, which has no markup.
pub fn markdown(text: &str) -> String {
    let text = line(text);
    let mut escaped = String::with_capacity(text.len());
    let mut code_until = 0;
    for (at, character) in text.char_indices() {
        let before = &text[..at];
        let after = &text[at + character.len_utf8()..];
        if character == '`' && at >= code_until {
            code_until = at + code(after).map_or(0, |code| code.len() + 2);
        }
        if at < code_until {
            escaped.push(character);
            continue;
        }
        if matches!(
            character,
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '&' | '$'
        ) {
            escaped.push('\\');
        }
        escaped.push(character);
        if is_reference(before, character, after) {
            escaped.push_str(BREAK);
        }
    }
    escaped
}

/// Plain words up to the next backtick.
pub(crate) fn code(text: &str) -> Option<&str> {
    let (code, _) = text.split_once('`')?;
    (!code.is_empty()
        && code.trim() == code
        && code
            .chars()
            .all(|character: char| character.is_ascii_alphanumeric() || " -_./=%+,:".contains(character)))
    .then_some(code)
}

/// Whether a mention, an issue reference or a link continues after a character.
fn is_reference(before: &str, character: char, after: &str) -> bool {
    let ends_with = |word: &str| {
        let tail = before.len().checked_sub(word.len()).and_then(|at| before.get(at..));
        tail.is_some_and(|tail| tail.eq_ignore_ascii_case(word))
    };
    let digit = after.starts_with(|next: char| next.is_ascii_digit());
    match character {
        '@' => after.starts_with(char::is_alphanumeric),
        '#' => digit,
        '-' => digit && ends_with("gh"),
        ':' => after.starts_with("//"),
        'w' | 'W' => after.starts_with('.') && ends_with("ww"),
        _ => false,
    }
}

/// Escapes the beginning of a Markdown block, so that it is no list, rule, heading or code.
pub fn block(markdown: &str) -> Cow<'_, str> {
    let text = markdown.trim_start();
    let number = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let at = text.len() - number.len();
    let is_mark = match at {
        0 => text.starts_with(['-', '+', '=']),
        _ => number.starts_with(['.', ')']) && matches!(number.as_bytes().get(1), None | Some(b' ')),
    };
    if is_mark {
        format!("{}\\{number}", &text[..at]).into()
    } else {
        text.into()
    }
}

/// Escapes text within HTML.
pub fn html(text: &str) -> String {
    let text = line(text);
    let mut escaped = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            other => escaped.push(other),
        }
        if is_reference(&text[..at], character, &text[at + character.len_utf8()..]) {
            escaped.push_str(BREAK);
        }
    }
    escaped
}

/// Escapes text in an element or attribute of HTML or SVG. Layout and no-break spaces are kept. A line break becomes a
/// reference, so that the text begins no line of the output.
pub fn markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in visible(text, is_layout).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{a0}' => escaped.push_str("&#160;"),
            '\n' => escaped.push_str("&#10;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// JSON on one line for a script element, which no text in it can end. Markup and hidden characters become `\uXXXX`.
///
/// # Panics
/// Never, for types whose maps have text as keys.
pub fn embedded(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).expect("its maps have text as keys");
    without(&text, |character| {
        is_hidden(character) || matches!(character, '<' | '>' | '&' | '\u{a0}')
    })
}

/// A code block whose fence is longer than any run of backticks in it (CommonMark §4.5).
pub fn fenced(language: &str, text: &str) -> String {
    let text = visible(text, is_layout);
    let runs = text.split(|character| character != '`');
    let longest = runs.map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{text}\n{fence}")
}

/// A field of a CSV file (RFC 4180). A field that a spreadsheet would read as a formula gets an apostrophe, which marks
/// text.
pub fn csv(field: &str) -> String {
    const FORMULA: [char; 11] = ['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠'];
    // A negative number begins with a minus, but is no formula. A CI command at the beginning of a line needs the
    // apostrophe too.
    let apostrophe = if (field.starts_with(FORMULA) && field.parse::<f64>().is_err()) || field.starts_with("::") {
        "'"
    } else {
        ""
    };
    let text = format!("{apostrophe}{}", line(field));
    // Quoted, so that no line of the file begins like lasthop's errors.
    if text.contains([',', ';', '"']) || text.starts_with("error:") {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// JSON with line breaks, with hidden characters escaped.
///
/// # Panics
/// Never, for types whose maps have text as keys.
pub fn json(value: &impl Serialize) -> Vec<u8> {
    let text = serde_json::to_string_pretty(value).expect("its maps have text as keys");
    // Outside strings, the only hidden characters of this JSON are its line breaks.
    let mut clean = without(&text, |character| is_hidden(character) && character != '\n');
    clean.push('\n');
    clean.into_bytes()
}

/// JSON with some characters, which occur only in strings, as `\uXXXX`.
fn without(json: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut clean = String::with_capacity(json.len() + 1);
    for character in json.chars() {
        if !is_escaped(character) {
            clean.push(character);
            continue;
        }
        // JSON escapes UTF-16 (RFC 8259, section 7): a character beyond 16 bits takes two.
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(clean, "\\u{unit:04x}");
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOSTILE: &str = "\u{1b}]0;PWNED\u{7}\u{9b}2J\u{202e}x\nerror: fake\r\u{85}\u{2028}y";

    #[test]
    fn what_is_hidden_is_shown() {
        let shown = "\\u{1b}]0;PWNED\\u{7}\\u{9b}2J\\u{202e}x\\nerror: fake\\r\\u{85}\\u{2028}y";
        assert_eq!(line(HOSTILE), shown);
        assert!(matches!(line("plain é 界 🙂"), Cow::Borrowed(_)));
    }

    #[test]
    fn only_the_first_line_of_a_message_begins_at_the_margin() {
        assert_eq!(
            talk("error: a\nerror: fake\n  set in\n\nb\n"),
            "error: a\n  error: fake\n  set in\n\n  b"
        );
        assert_eq!(talk("  ::error::x\n::a::b\n::1"), "  \\::error::x\n  \\::a::b\n  ::1");
        assert_eq!(
            talk("error: a\r\u{1b}[1merror: fake"),
            "error: a\\r\\u{1b}[1merror: fake"
        );
    }

    #[test]
    fn the_screen_gets_text_and_our_own_styles() {
        let own = "\u{1b}[1m\u{1b}[31mred\u{1b}[0m\ta\r\nb\n";
        assert_eq!(screen(own), own);
        assert_eq!(
            screen("\u{1b}[8mx\u{1b}[2Jy\rz\u{9b}0m\u{1b}"),
            "\\u{1b}[8mx\\u{1b}[2Jy\\rz\\u{9b}0m\\u{1b}"
        );
        assert_eq!(screen("a\n ::error::x\n::1\n"), "a\n \\::error::x\n::1\n");
    }

    #[test]
    fn markup_in_foreign_text_is_text() {
        assert_eq!(markdown("a|b <i>*x*"), "a\\|b \\<i\\>\\*x\\*");
        assert_eq!(markdown("&#64;me [x](y) $a$"), "\\&\\#&#8203;64;me \\[x\\](y) \\$a\\$");
        assert_eq!(markdown("@me a@b.c"), "@&#8203;me a@&#8203;b.c");
        assert_eq!(markdown("o/r#1 # GH-2"), "o/r\\#&#8203;1 \\# GH-&#8203;2");
        assert_eq!(
            markdown("https://x www.x.y a: b"),
            "https:&#8203;//x www&#8203;.x.y a: b"
        );
        assert_eq!(
            markdown("see `my_file.toml`, `` and `<b>`"),
            "see `my_file.toml`, \\`\\` and \\`\\<b\\>\\`"
        );
        assert_eq!(html("<b>&@me"), "&lt;b&gt;&amp;@&#8203;me");
        assert_eq!(fenced("text", "a ``` b\n@me"), "````text\na ``` b\n@me\n````");
    }

    #[test]
    fn a_block_begins_as_text() {
        for (text, expected) in [
            ("- x", "\\- x"),
            ("12. x", "12\\. x"),
            ("    x", "x"),
            ("1.5 times", "1.5 times"),
            ("x - y", "x - y"),
        ] {
            assert_eq!(block(text), expected);
        }
    }

    #[test]
    fn fields_are_quoted_when_they_must_be_and_never_computed() {
        assert_eq!(csv("plain"), "plain");
        assert_eq!(csv("a,b"), "\"a,b\"");
        assert_eq!(csv("say \"x\"\n"), "\"say \"\"x\"\"\\n\"");
        assert_eq!(csv("a;=1+1"), "\"a;=1+1\"");
        assert_eq!(csv("error: x"), "\"error: x\"");
        assert_eq!(csv("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        for (formula, field) in [
            ("-1+cmd|x", "'-1+cmd|x"),
            ("@SUM(1)", "'@SUM(1)"),
            ("\t=1", "'\\t=1"),
            ("::a::b", "'::a::b"),
        ] {
            assert_eq!(csv(formula), field);
        }
        for number in ["-1.5", "+3", "-1e-7", "0.2"] {
            assert_eq!(csv(number), number);
        }
    }

    #[test]
    fn json_is_exact_and_shows_everything() {
        let text = String::from_utf8(json(&[HOSTILE, "\u{e0041}é"])).unwrap();
        assert!(
            text.contains("\\u202ex") && text.contains("\\u009b2J") && text.contains("\\udb40\\udc41é"),
            "{text}"
        );
        assert_eq!(
            serde_json::from_str::<Vec<String>>(&text).unwrap(),
            [HOSTILE, "\u{e0041}é"]
        );
    }

    /// Any text, rich in dangerous characters.
    fn strange() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            "[\\x00-\\x1f\\x7f-\\u{9f}\\u{61c}\\u{200b}-\\u{200f}\\u{2028}-\\u{202e}\\u{2060}-\\u{206f}]",
            "[-=+@#`*_<>&|\\\\\\[\\]:/.~$!\"',; 0-9]{1,3}",
            "(error: |warning: |https://|www\\.|GH-1|@me|#1|```|\\x1b\\[1m|\\x1b\\[2J|</summary>)",
            any::<char>().prop_map(String::from),
        ];
        proptest::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
    }

    fn hidden(text: &str) -> Option<char> {
        text.chars()
            .find(|character| is_hidden(*character) && *character != '\n')
    }

    proptest! {
        #[test]
        fn no_text_does_anything_to_a_terminal(text in strange()) {
            prop_assert!(line(&text).chars().all(|character| !is_hidden(character)));
            let message = talk(&format!("error: {text}"));
            prop_assert_eq!(hidden(&message), None);
            prop_assert!(message.split('\n').skip(1).all(|line| line.is_empty() || line.starts_with(' ')), "{}", message);
            let mut shown = screen(&text).replace("\r\n", "\n").replace('\t', " ");
            STYLES.iter().for_each(|own| shown = shown.replace(own, ""));
            prop_assert_eq!(hidden(&shown), None);
            prop_assert_eq!(screen(&shown), shown);
        }

        #[test]
        fn no_text_is_markup(text in strange()) {
            // Code has no markup.
            let escaped = regex::Regex::new("`[A-Za-z0-9_./=%+,: -]+`").unwrap();
            let escaped = escaped.replace_all(&markdown(&text), "").into_owned();
            prop_assert!(escaped.chars().all(|character| !is_hidden(character)), "{}", escaped);
            let lower = escaped.to_lowercase();
            for forbidden in ["@m", "#1", "gh-1", "://", "www."] {
                prop_assert!(!lower.contains(forbidden), "{}", escaped);
            }
            // An escaped character is text; no other may begin markup.
            let mut characters = escaped.chars();
            while let Some(character) = characters.next() {
                match character {
                    '\\' => prop_assert!(characters.next().is_some_and(|next| next.is_ascii_punctuation())),
                    '&' => {
                        prop_assert!(characters.as_str().starts_with("#8203;"), "{}", escaped);
                        characters.nth(5);
                    }
                    other => prop_assert!(!"`*_[]<>|~$#".contains(other), "{}", escaped),
                }
            }
            let html = html(&text);
            prop_assert!(html.chars().all(|character| !is_hidden(character) && !"<>".contains(character)), "{}", html);
        }

        #[test]
        fn no_text_is_an_element_or_ends_a_script(text in strange()) {
            let shown = markup(&text);
            prop_assert!(shown.chars().all(|character| !"<>\"'\u{a0}".contains(character)), "{}", shown);
            prop_assert_eq!(hidden(&shown.replace('\t', " ")), None);
            prop_assert!(!shown.contains('\n'), "{}", shown);
            let shown = embedded(&text);
            prop_assert!(shown.chars().all(|character| !"<>&\u{a0}".contains(character)), "{}", shown);
            prop_assert_eq!(hidden(&shown), None);
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }

        #[test]
        fn no_text_ends_a_code_block(text in strange()) {
            let code = fenced("text", &text);
            let fence = code.split("text\n").next().unwrap().to_owned();
            prop_assert_eq!(code.matches(&fence).count(), 2, "{}", code);
            prop_assert_eq!(hidden(&code.replace('\t', " ")), None);
        }

        #[test]
        fn no_text_is_a_formula(text in strange()) {
            let field = csv(&text);
            prop_assert!(field.chars().all(|character| !is_hidden(character)));
            // The value in a spreadsheet: one pair of quotes belongs to the file.
            let value = field.strip_prefix('"').map_or_else(|| field.clone(), |rest| rest.replace("\"\"", "\""));
            let first = value.chars().next();
            prop_assert!(!first.is_some_and(|first| "=+-@".contains(first)) || text.parse::<f64>().is_ok(), "{}", field);
        }

        #[test]
        fn every_text_comes_back_from_json(text in strange()) {
            let shown = String::from_utf8(json(&text)).unwrap();
            prop_assert_eq!(hidden(&shown), None);
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }
    }
}
