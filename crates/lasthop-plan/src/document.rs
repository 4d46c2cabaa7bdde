//! A TOML file that knows the place of each of its values, and is read into a type.

use std::{
    collections::{BTreeMap, HashSet},
    ops::Range,
};

use lasthop_protocol::ReadError;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::{Path, Segment};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::diagnostics::{Diagnostic, Diagnostics, MOST_SHOWN, closest, suggest};

/// A parsed file, with the places of its parts.
#[derive(Clone)]
pub struct Document {
    /// The file, by the name that the user knows.
    pub name: String,
    pub text: String,
    /// The content, with keys in the order of the file.
    pub tree: Value,
    /// Byte offsets of the lines.
    lines: Vec<usize>,
    /// Spans by JSON pointer.
    spans: BTreeMap<String, Spans>,
    /// Whether there is a syntax error, so that the tree is incomplete.
    is_broken: bool,
    /// Pointers to wrong values that were removed from the tree, and to their tables.
    wrong: HashSet<String>,
}

/// Byte ranges of a value and its key.
#[derive(Clone)]
struct Spans {
    key: Option<Range<usize>>,
    value: Range<usize>,
}

impl Document {
    /// Parses as much as possible, and reports every syntax error.
    pub fn parse(name: &str, text: &str, found: &mut Diagnostics) -> Self {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut reading = Reading::default();
        // The root has a span, so that `span` finds one for every pointer.
        reading.spans.insert(String::new(), Spans { key: None, value: 0..0 });
        let tree = reading.table(table.get_ref(), "");
        let lines = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        let document = Self {
            name: name.to_owned(),
            text: text.to_owned(),
            tree,
            lines,
            spans: reading.spans,
            is_broken: !errors.is_empty() || !reading.unreadable.is_empty(),
            wrong: HashSet::new(),
        };
        for error in &errors {
            found.push(document.at(error.span().unwrap_or(0..0), error.message().replace('\n', "; ")));
        }
        for range in reading.unreadable {
            found.push(document.at(range, "this number is out of range"));
        }
        document
    }

    fn at(&self, range: Range<usize>, message: impl Into<String>) -> Diagnostic {
        let line = self.lines.partition_point(|begin| *begin <= range.start);
        Diagnostic::on_line(line, &self.name, &self.text, range, message)
    }

    /// An error at the value of a pointer, or at its nearest ancestor in the file.
    pub fn at_value(&self, pointer: &str, message: impl Into<String>) -> Diagnostic {
        self.at(self.range(pointer), message)
    }

    /// An error at the key of a value.
    pub fn at_key(&self, pointer: &str, message: impl Into<String>) -> Diagnostic {
        let span = self.span(pointer);
        let range = span.key.clone().unwrap_or_else(|| span.value.clone());
        self.at(range, message)
    }

    /// The place of a value, or of its nearest ancestor in the file.
    pub fn range(&self, pointer: &str) -> Range<usize> {
        self.span(pointer).value.clone()
    }

    fn span(&self, pointer: &str) -> &Spans {
        let mut pointer = pointer;
        loop {
            if let Some(span) = self.spans.get(pointer) {
                return span;
            }
            pointer = parent(pointer);
        }
    }

    /// Reads the file as a `T`, and reports all errors: of each table, missing keys first.
    pub fn read<T: DeserializeOwned>(&mut self, schema: &Value, found: &mut Diagnostics) -> Option<T> {
        let content = self.table("", schema, |tree| serde_path_to_error::deserialize(tree), found);
        content.filter(|_| !self.is_broken)
    }

    /// Reads the table at a pointer. serde stops at its first error, so the wrong value is removed from the tree and
    /// the rest is read again. `None` if a table lacks a required key.
    pub fn table<T>(
        &mut self,
        table: &str,
        schema: &Value,
        read: impl Fn(&Value) -> Result<T, ReadError>,
        found: &mut Diagnostics,
    ) -> Option<T> {
        let mut is_whole = true;
        for _ in 0..MOST_SHOWN {
            let error = match read(self.tree.pointer(table)?) {
                Ok(content) => return is_whole.then_some(content),
                Err(error) => error,
            };
            let why = error.inner().to_string();
            is_whole &= !why.starts_with("missing");
            let pointer = self.pointer(table, error.path(), &why);
            // In a protocol's table, a template may replace any value. Its result is known only in a case.
            let is_template = |value: &Value| value.as_str().is_some_and(|text| text.contains("{{"));
            if table.is_empty() || !self.tree.pointer(&pointer).is_some_and(is_template) {
                found.extend(self.explain(&pointer, schema, &why));
            }
            if pointer == table {
                break;
            }
            self.take_out(&pointer);
        }
        None
    }

    /// The pointer to an error, including an unknown key. A path also has steps for variants of enumerations, which the
    /// tree lacks.
    fn pointer(&self, table: &str, path: &Path, why: &str) -> String {
        let mut steps: Vec<String> = path
            .iter()
            .map(|step| match step {
                Segment::Seq { index } => index.to_string(),
                other => other.to_string(),
            })
            .collect();
        let unknown = quoted(why).next().filter(|_| why.starts_with("unknown"));
        // Some paths already end in the key.
        let unknown = unknown.filter(|key| steps.last().is_none_or(|last| last != key));
        steps.extend(unknown.map(str::to_owned));
        let mut pointer = table.to_owned();
        for step in steps {
            let inner = join(&pointer, &step);
            if self.tree.pointer(&inner).is_some() {
                pointer = inner;
            }
        }
        pointer
    }

    /// serde's error in our words. `None` for a missing value that was removed or unreadable.
    fn explain(&mut self, pointer: &str, schema: &Value, why: &str) -> Option<Diagnostic> {
        let value = self.tree.pointer(pointer)?;
        let (what, expected) = why.rsplit_once(", expected ").unwrap_or((why, ""));
        let word = quoted(what).next().unwrap_or_default();
        let known: Vec<&str> = quoted(expected).collect();
        if what.starts_with("missing field") {
            let inner = join(pointer, word);
            // `[load]` also has the tables of protocols, and serde reports its unknown keys last.
            let known = schema_at(schema, pointer).and_then(|wanted| wanted.get("properties")?.as_object());
            let unknown = |key: &&String| known.is_some_and(|known| !known.contains_key(*key));
            let written = value.as_object().into_iter().flat_map(Map::keys);
            if let Some(misspelt) = closest(word, written.filter(unknown)) {
                let unknown = self.at_key(&join(pointer, misspelt), format!("unknown key `{misspelt}`"));
                return Some(unknown.with_help(Some(format!("did you mean `{word}`?"))));
            }
            let is_known = self.is_broken || self.wrong.contains(&inner);
            let missing = self.at_key(pointer, format!("`{word}` is missing{}", within(pointer)));
            return (!is_known).then(|| missing.with_help(description(schema, &inner)));
        }
        if what.starts_with("unknown") && value != word {
            let unknown = self.at_key(pointer, format!("unknown key `{word}`"));
            if let Some(meant) = closest(word, &known) {
                self.rename(pointer, meant);
            }
            let help = elsewhere(parent(pointer), word).or_else(|| suggest(word, known));
            return Some(unknown.with_help(help));
        }
        if what.starts_with("unknown") {
            let near = closest(word, &known).map(|near| format!("did you mean `{near}`?"));
            let message = format!("`{word}` is not one of {}", known.join(", "));
            return Some(self.at_value(pointer, message).with_help(near));
        }
        if what.starts_with("invalid") {
            let message = format!("expected {}, found {}", type_in_words(expected), kind_of(value));
            return (!value.is_null()).then(|| self.at_value(pointer, message));
        }
        Some(self.at_value(pointer, why))
    }

    /// Moves a value to the key that was meant, which is then no longer missing.
    fn rename(&mut self, pointer: &str, meant: &str) {
        let value = self.tree.pointer_mut(pointer).map(Value::take);
        let table = self.tree.pointer_mut(parent(pointer)).and_then(Value::as_object_mut);
        if let (Some(table), Some(value)) = (table, value) {
            table.entry(meant).or_insert(value);
        }
    }

    /// Removes a wrong value from the tree. A list is removed as a whole, because the places of its other items would
    /// shift.
    fn take_out(&mut self, pointer: &str) {
        let table = parent(pointer);
        match self.tree.pointer_mut(table) {
            Some(Value::Object(entries)) => drop(entries.shift_remove(&unescape(&pointer[table.len() + 1..]))),
            _ => return self.take_out(table),
        }
        self.wrong.extend([pointer, table].map(str::to_owned));
    }

    /// Whether an error at this pointer may only be a consequence of a removed value.
    pub fn is_echo(&self, pointer: &str) -> bool {
        self.wrong.contains(pointer)
    }
}

/// Advice for keys that are known from other tools.
fn elsewhere(parent: &str, key: &str) -> Option<String> {
    let is_service = parent
        .strip_prefix("/services/")
        .is_some_and(|name| !name.contains('/'));
    let text =
        "write `command = [\"env\", \"PORT={{ listen.port }}\", …]`; a recipe has `environment` in its `[start]`";
    (is_service && matches!(key, "env" | "environment")).then(|| text.to_owned())
}

/// Collected while a file's content is read.
#[derive(Default)]
struct Reading {
    spans: BTreeMap<String, Spans>,
    /// Numbers too large for any type. They become null in the tree, which TOML does not have.
    unreadable: Vec<Range<usize>>,
}

impl Reading {
    fn table(&mut self, table: &DeTable<'_>, pointer: &str) -> Value {
        let mut entries: Vec<_> = table.iter().collect();
        // Errors and services follow the order of the file, not that of the parser's table.
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut map = Map::new();
        for (key, value) in entries {
            let inner = join(pointer, key.get_ref());
            map.insert(key.get_ref().to_string(), self.value(Some(key.span()), value, &inner));
        }
        Value::Object(map)
    }

    fn value(&mut self, key: Option<Range<usize>>, value: &Spanned<DeValue<'_>>, pointer: &str) -> Value {
        let span = Spans {
            key,
            value: value.span(),
        };
        self.spans.insert(pointer.to_owned(), span);
        let read = match value.get_ref() {
            DeValue::String(text) => Value::String(text.to_string()),
            DeValue::Boolean(value) => Value::Bool(*value),
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from)
            }
            DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, Value::from),
            DeValue::Datetime(time) => Value::String(time.to_string()),
            DeValue::Table(table) => self.table(table, pointer),
            DeValue::Array(items) => {
                let items = items.iter().enumerate();
                items
                    .map(|(at, item)| self.value(None, item, &join(pointer, &at.to_string())))
                    .collect()
            }
        };
        if read.is_null() {
            self.unreadable.push(value.span());
        }
        read
    }
}

/// Extends a JSON pointer by a key.
pub fn join(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn parent(pointer: &str) -> &str {
    &pointer[..pointer.rfind('/').unwrap_or(0)]
}

fn unescape(key: &str) -> String {
    // In this order (RFC 6901, section 4), so that `~01` becomes `~1`.
    key.replace("~1", "/").replace("~0", "~")
}

/// The parts of a message between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn schema_at<'a>(schema: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(schema, |schema, step| {
        let named = schema.get("properties").and_then(|keys| keys.get(unescape(step)));
        named.or_else(|| {
            ["additionalProperties", "items"]
                .iter()
                .find_map(|others| schema.get(others))
        })
    })
}

/// The schema's description of a key: its first sentence.
fn description(schema: &Value, pointer: &str) -> Option<String> {
    let text = schema_at(schema, pointer)?.get("description")?.as_str()?;
    let sentence = text.split_once(". ").map_or(text, |(first, _)| first);
    Some(sentence.trim_end_matches('.').replace('\n', " "))
}

/// serde's expectation in usual words.
fn type_in_words(expected: &str) -> String {
    let (name, more) = expected.split_at(expected.find(',').unwrap_or(expected.len()));
    let words = match name {
        "a string" | "path string" => "text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "an array of length 2" => "a list of 2",
        "string or map" => "text or a table",
        "i64" => "a whole number",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" => "a whole number from 0",
        "f64" => "a number",
        _ if name == "a map" || name.starts_with("struct ") => "a table",
        _ => name,
    };
    format!("{words}{more}")
}

fn kind_of(value: &Value) -> String {
    match value {
        Value::Object(_) => "a table".to_owned(),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::String(text) => format!("the text `{text}`"),
        other => format!("`{other}`"),
    }
}

fn within(pointer: &str) -> String {
    if pointer.is_empty() {
        String::new()
    } else {
        format!(" in `{}`", pointer[1..].replace('/', ".").replace("~1", "/"))
    }
}
