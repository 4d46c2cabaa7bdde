//! A TOML file that knows the place of everything in it, checked against its schema.

use std::{
    collections::{BTreeMap, HashSet},
    ops::Range,
};

use serde_json::{Map, Value};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    diagnostics::{Diagnostic, Diagnostics, closest, suggest},
    shape::{self, Kind, Violation, join},
    templated::type_in_words,
};

/// A parsed file, and the places of its parts.
pub struct Document {
    /// The file, by the name that the user knows.
    pub name: String,
    pub text: String,
    /// The content; keys in the order of the file.
    pub tree: Value,
    /// Where its lines begin.
    lines: Vec<usize>,
    /// By JSON pointer.
    places: BTreeMap<String, Place>,
    /// Where values were wrong or missing, so that the tree has a placeholder or nothing; and their parents.
    replaced: HashSet<String>,
}

/// Byte ranges of a value and its key.
#[derive(Clone)]
struct Place {
    key: Option<Range<usize>>,
    value: Range<usize>,
}

impl Document {
    /// Reads what can be read, and reports every syntax error.
    pub fn parse(name: &str, text: &str, found: &mut Diagnostics) -> Self {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut places = BTreeMap::new();
        // The root has a place, so `place` finds one for every pointer.
        places.insert(String::new(), Place { key: None, value: 0..0 });
        let tree = read_table(table.get_ref(), "", &mut places);
        let lines = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        let document = Self {
            name: name.to_owned(),
            text: text.to_owned(),
            tree,
            lines,
            places,
            replaced: HashSet::new(),
        };
        for error in &errors {
            found.push(document.at(error.span().unwrap_or(0..0), error.message().replace('\n', "; ")));
        }
        document
    }

    fn at(&self, range: Range<usize>, message: impl Into<String>) -> Diagnostic {
        let line = self.lines.partition_point(|begin| *begin <= range.start);
        Diagnostic::on_line(line, &self.name, &self.text, range, message)
    }

    /// An error at the value that the pointer leads to, or at its nearest ancestor that was written.
    pub fn at_value(&self, pointer: &str, message: impl Into<String>) -> Diagnostic {
        self.at(self.range(pointer), message)
    }

    /// An error at the key of that value.
    pub fn at_key(&self, pointer: &str, message: impl Into<String>) -> Diagnostic {
        let place = self.place(pointer);
        let range = place.key.clone().unwrap_or_else(|| place.value.clone());
        self.at(range, message)
    }

    /// Where the value is, or its nearest ancestor that was written.
    pub fn range(&self, pointer: &str) -> Range<usize> {
        self.place(pointer).value.clone()
    }

    fn place(&self, pointer: &str) -> &Place {
        let mut pointer = pointer;
        loop {
            if let Some(place) = self.places.get(pointer) {
                return place;
            }
            pointer = &pointer[..pointer.rfind('/').unwrap_or(0)];
        }
    }

    /// Checks the tree against a schema and reports every error. Then removes what is wrong from the tree, and renames
    /// a key if its meaning is clear, so that later checks see the rest.
    pub fn check(&mut self, schema: &Value, broken: bool, found: &mut Diagnostics) {
        // First, because a key that was only misspelt is not missing.
        self.mend_keys(schema, found);
        let mut repairs = Vec::new();
        for violation in shape::violations(schema, &self.tree) {
            found.extend(self.explain(&violation, broken));
            repairs.extend(repair(&violation));
        }
        let mut gone = BTreeMap::new();
        repairs
            .into_iter()
            .for_each(|(pointer, value)| self.replace(&pointer, value, &mut gone));
        self.remove(&gone);
    }

    /// Removes keys from tables, all keys of a table at once, because one by one would take quadratic time.
    fn remove(&mut self, gone: &BTreeMap<String, HashSet<String>>) {
        for (parent, keys) in gone {
            if let Some(table) = self.tree.pointer_mut(parent).and_then(Value::as_object_mut) {
                table.retain(|key, _| !keys.contains(key));
            }
        }
    }

    /// Whether an error at this pointer may only be the consequence of a wrong value that was removed.
    pub fn is_echo(&self, pointer: &str) -> bool {
        self.replaced.contains(pointer)
    }

    /// Replaces a wrong value, or marks it for removal. A list is removed as a whole, because the places of its other
    /// items would shift.
    fn replace(&mut self, pointer: &str, value: Option<Value>, gone: &mut BTreeMap<String, HashSet<String>>) {
        let Some(at) = pointer.rfind('/') else { return };
        let parent = &pointer[..at];
        let key = unescape(&pointer[at + 1..]);
        match (self.tree.pointer_mut(parent), value) {
            (Some(Value::Object(table)), Some(value)) => drop(table.insert(key, value)),
            (Some(Value::Object(_)), None) => drop(gone.entry(parent.to_owned()).or_default().insert(key)),
            (Some(Value::Array(_)), _) => return self.replace(parent, None, gone),
            _ => return,
        }
        self.replaced.extend([pointer, parent].map(str::to_owned));
    }

    /// Reports unknown keys, renames or removes them.
    fn mend_keys(&mut self, schema: &Value, found: &mut Diagnostics) {
        let mut mends = Vec::new();
        for Violation {
            pointer: parent,
            wanted,
            kind,
            ..
        } in shape::violations(schema, &self.tree)
        {
            let Kind::Unknown(key) = kind else { continue };
            let known = known_keys(wanted);
            let diagnostic = self.at_key(&join(&parent, key), format!("unknown key `{key}`"));
            found.push(diagnostic.with_help(elsewhere(&parent, key).or_else(|| suggest(key, known.clone()))));
            mends.push((parent, key.to_owned(), closest(key, known).map(str::to_owned)));
        }
        let mut gone = BTreeMap::<_, HashSet<_>>::new();
        for (parent, key, meant) in mends {
            self.mend(&parent, &key, meant);
            gone.entry(parent).or_default().insert(key);
        }
        self.remove(&gone);
    }

    /// Moves the value of an unknown key to the key that was meant, unless that exists.
    fn mend(&mut self, parent: &str, key: &str, meant: Option<String>) {
        let Some(table) = self.tree.pointer_mut(parent).and_then(Value::as_object_mut) else {
            return;
        };
        let Some(meant) = meant.filter(|meant| !table.contains_key(meant)) else {
            return;
        };
        let Some(value) = table.get(key).cloned() else { return };
        table.insert(meant.clone(), value);
        let old = join(parent, key);
        let new = join(parent, &meant);
        let moved: Vec<_> = self
            .places
            .iter()
            .filter_map(|(pointer, place)| Some((rebase(pointer, &old, &new)?, place.clone())))
            .collect();
        self.places.extend(moved);
    }

    /// What is wrong in words. With `broken` syntax, what is missing may only have been unreadable.
    fn explain(&self, violation: &Violation<'_>, broken: bool) -> Option<Diagnostic> {
        let Violation {
            pointer,
            value,
            wanted,
            kind,
            ..
        } = violation;
        let diagnostic = match kind {
            Kind::Missing(_) if broken => return None,
            // `mend_keys` has reported it.
            Kind::Unknown(_) => return None,
            Kind::Missing(key) => self
                .at_key(pointer, format!("`{key}` is missing{}", within(pointer)))
                .with_help(description(wanted, key)),
            Kind::Choice => {
                let known = options(wanted);
                let written = plain(value);
                let near = closest(&written, known.iter().map(String::as_str));
                self.at_value(pointer, format!("`{written}` is not one of {}", known.join(", ")))
                    .with_help(near.map(|near| format!("did you mean `{near}`?")))
            }
            Kind::Type | Kind::Pattern | Kind::Alternatives => self.at_value(
                pointer,
                format!("expected {}, found {}", expectation(wanted), kind_of(value)),
            ),
            Kind::Minimum(limit) => self.at_value(pointer, format!("{value} is less than the minimum of {limit}")),
            Kind::Maximum(limit) => self.at_value(pointer, format!("{value} is greater than the maximum of {limit}")),
            Kind::MinItems(least) => self.at_value(pointer, format!("expected a list of {least} or more")),
            Kind::Quantity(why) => self.at_value(pointer, why),
            Kind::MaxItems(most) => self.at_value(pointer, format!("expected a list of {most} or fewer")),
        };
        Some(diagnostic)
    }
}

/// How to say what other tools have this key for.
fn elsewhere(parent: &str, key: &str) -> Option<String> {
    let is_service = parent
        .strip_prefix("/services/")
        .is_some_and(|name| !name.contains('/'));
    let text =
        "write `command = [\"env\", \"PORT={{ listen.port }}\", …]`; a recipe has `environment` in its `[start]`";
    (is_service && matches!(key, "env" | "environment")).then(|| text.to_owned())
}

fn read_table(table: &DeTable<'_>, pointer: &str, places: &mut BTreeMap<String, Place>) -> Value {
    let mut entries: Vec<_> = table.iter().collect();
    // Errors and services come in the order of the file, whatever that of the parser's table is.
    entries.sort_by_key(|(key, _)| key.span().start);
    let mut map = Map::new();
    for (key, value) in entries {
        let inner = join(pointer, key.get_ref());
        places.insert(
            inner.clone(),
            Place {
                key: Some(key.span()),
                value: value.span(),
            },
        );
        map.insert(key.get_ref().to_string(), read_value(value, &inner, places));
    }
    Value::Object(map)
}

fn read_value(value: &Spanned<DeValue<'_>>, pointer: &str, places: &mut BTreeMap<String, Place>) -> Value {
    match value.get_ref() {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Integer(number) => {
            // Null, which TOML does not have, stands for a number that is too large.
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from)
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, Value::from),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Table(table) => read_table(table, pointer, places),
        DeValue::Array(items) => {
            let mut values = Vec::new();
            for (at, item) in items.iter().enumerate() {
                let inner = join(pointer, &at.to_string());
                places.insert(
                    inner.clone(),
                    Place {
                        key: None,
                        value: item.span(),
                    },
                );
                values.push(read_value(item, &inner, places));
            }
            Value::Array(values)
        }
    }
}

/// Keys whose text is only for people, so later checks do not need it.
const PROSE: [&str; 6] = ["title", "question", "group", "help", "because", "summary"];

/// A replacement for a value that the schema refuses, so that the rest can be checked: the pointer, and a value of the
/// right type if the key is required.
fn repair(violation: &Violation<'_>) -> Option<(String, Option<Value>)> {
    let pointer = violation.pointer.clone();
    match violation.kind {
        Kind::Unknown(_) => None,
        Kind::Missing(key) => PROSE
            .contains(&key)
            .then(|| (join(&pointer, key), Some(Value::from("")))),
        Kind::Maximum(limit) | Kind::Minimum(limit) => Some((pointer, Some(limit.clone()))),
        _ if violation.required => Some((pointer, neutral(violation.wanted))),
        _ => Some((pointer, None)),
    }
}

/// A value of the first type that a schema allows.
fn neutral(schema: &Value) -> Option<Value> {
    let kind = schema.get("type")?;
    match kind.get(0).unwrap_or(kind).as_str()? {
        "string" => Some(Value::from("")),
        "integer" => Some(Value::from(1)),
        "boolean" => Some(Value::from(false)),
        "array" => Some(Value::Array(Vec::new())),
        _ => None,
    }
}

fn unescape(key: &str) -> String {
    // In this order (RFC 6901, section 4), so that `~01` becomes `~1`.
    key.replace("~1", "/").replace("~0", "~")
}

fn rebase(pointer: &str, old: &str, new: &str) -> Option<String> {
    let rest = pointer.strip_prefix(old)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| format!("{new}{rest}"))
}

fn known_keys(schema: &Value) -> impl Iterator<Item = &str> + Clone {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .into_iter()
        .flat_map(|properties| properties.keys().map(String::as_str))
}

/// The words allowed at a place: an `enum`, or a `oneOf` of constants with descriptions.
fn options(schema: &Value) -> Vec<String> {
    let listed = schema
        .get("enum")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .chain(schema.get("const"));
    let choices = schema.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    listed.map(plain).chain(choices.flat_map(options)).collect()
}

/// What the schema says about a missing key: the first sentence of its description.
fn description(schema: &Value, key: &str) -> Option<String> {
    let text = schema.get("properties")?.get(key)?.get("description")?.as_str()?;
    let sentence = text.split_once(". ").map_or(text, |(first, _)| first);
    Some(sentence.trim_end_matches('.').replace('\n', " "))
}

fn expectation(schema: &Value) -> String {
    if let Some(words) = schema.get("x-expected").and_then(Value::as_str) {
        return words.to_owned();
    }
    if let Some(alternatives) = schema.get("anyOf").and_then(Value::as_array) {
        return alternatives.iter().map(expectation).collect::<Vec<_>>().join(" or ");
    }
    let name = |name: &Value| type_in_words(name.as_str().unwrap_or_default());
    match schema.get("type") {
        Some(Value::Array(names)) => names.iter().map(name).collect::<Vec<_>>().join(" or "),
        Some(single) => name(single).to_owned(),
        None => "something else".to_owned(),
    }
}

fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "an unreadable value".to_owned(),
        Value::Object(_) => "a table".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(text) => format!("the text `{text}`"),
        other => format!("`{other}`"),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn within(pointer: &str) -> String {
    if pointer.is_empty() {
        String::new()
    } else {
        format!(" in `{}`", pointer[1..].replace('/', ".").replace("~1", "/"))
    }
}
