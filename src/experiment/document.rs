//! A TOML file with the place of everything in it, checked against the schema of its kind.

use std::{collections::BTreeMap, ops::Range};

use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::{Map, Value};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::diagnostics::{Diagnostic, Diagnostics, closest, suggest};

/// A file that was read, and where its parts are.
pub(crate) struct Document {
    /// The file as the user knows it.
    pub name: String,
    pub text: String,
    /// The content; keys in the order of the file.
    pub tree: Value,
    /// By JSON pointer.
    places: BTreeMap<String, Place>,
    /// Where values were wrong or missing, and the tree holds another or none.
    replaced: Vec<String>,
}

/// Byte ranges of a value and its key.
#[derive(Clone)]
struct Place {
    key: Option<Range<usize>>,
    value: Range<usize>,
}

impl Document {
    /// Reads what can be read and reports every syntax error.
    pub(crate) fn parse(name: &str, text: &str, found: &mut Diagnostics) -> Self {
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let range = error.span().unwrap_or(0..0);
            found.push(Diagnostic::new(name, text, range, error.message().replace('\n', "; ")));
        }
        let mut places = BTreeMap::new();
        places.insert(String::new(), Place { key: None, value: 0..0 });
        let tree = read_table(table.get_ref(), "", &mut places);
        Self { name: name.to_owned(), text: text.to_owned(), tree, places, replaced: Vec::new() }
    }

    /// An error at the value that the pointer leads to, or at its nearest ancestor that was written.
    pub(crate) fn at_value(&self, pointer: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&self.name, &self.text, self.place(pointer).value.clone(), message)
    }

    /// An error at the key of that value.
    pub(crate) fn at_key(&self, pointer: &str, message: impl Into<String>) -> Diagnostic {
        let place = self.place(pointer);
        let range = place.key.clone().unwrap_or_else(|| place.value.clone());
        Diagnostic::new(&self.name, &self.text, range, message)
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

    /// Checks the tree against a schema and reports every error. What is wrong is then taken out of the tree, and a key is
    /// renamed when it is plain what was meant, so that further checks see the rest.
    pub(crate) fn check(&mut self, schema: &Value, broken: bool, found: &mut Diagnostics) {
        let validator = jsonschema::validator_for(schema).expect("a generated schema is a schema");
        self.mend_keys(schema, &validator, found);
        let mut repairs = Vec::new();
        for error in validator.iter_errors(&self.tree) {
            found.extend(self.explain(schema, &error, broken));
            repairs.extend(repair(schema, &error));
        }
        repairs.into_iter().for_each(|(pointer, value)| self.replace(&pointer, value));
    }

    /// Whether a finding at this pointer may only be the echo of a value that was wrong and is gone.
    pub(crate) fn is_echo(&self, pointer: &str) -> bool {
        self.replaced.iter().any(|wrong| wrong == pointer || wrong[..wrong.rfind('/').unwrap_or(0)] == *pointer)
    }

    /// Puts another value, or none, in the place of a wrong one; of a list the whole is removed, because the places of its
    /// other items would shift.
    fn replace(&mut self, pointer: &str, value: Option<Value>) {
        let Some(at) = pointer.rfind('/') else { return };
        let (parent, key) = (&pointer[..at], unescape(&pointer[at + 1..]));
        match (self.tree.pointer_mut(parent), value) {
            (Some(Value::Object(table)), Some(value)) => drop(table.insert(key, value)),
            (Some(Value::Object(table)), None) => drop(table.shift_remove(&key)),
            (Some(Value::Array(_)), _) => return self.replace(parent, None),
            _ => return,
        }
        self.replaced.push(pointer.to_owned());
    }

    /// Reports unknown keys, renames or removes them.
    fn mend_keys(&mut self, schema: &Value, validator: &jsonschema::Validator, found: &mut Diagnostics) {
        let mut mends = Vec::new();
        for error in validator.iter_errors(&self.tree) {
            let Kind::AdditionalProperties { unexpected } = error.kind() else { continue };
            let known = known_keys(schema, error.schema_path().as_str());
            for key in unexpected {
                let parent = error.instance_path().as_str().to_owned();
                let pointer = join(&parent, key);
                let diagnostic = self.at_key(&pointer, format!("unknown key `{key}`"));
                found.push(diagnostic.with_help(suggest(key, known.iter().map(String::as_str))));
                let meant = closest(key, known.iter().map(String::as_str)).map(str::to_owned);
                mends.push((parent, key.clone(), meant));
            }
        }
        for (parent, key, meant) in mends {
            self.mend(&parent, &key, meant);
        }
    }

    fn mend(&mut self, parent: &str, key: &str, meant: Option<String>) {
        let Some(table) = self.tree.pointer_mut(parent).and_then(Value::as_object_mut) else { return };
        let Some(value) = table.shift_remove(key) else { return };
        let Some(meant) = meant.filter(|meant| !table.contains_key(meant)) else { return };
        table.insert(meant.clone(), value);
        let (old, new) = (join(parent, key), join(parent, &meant));
        let moved: Vec<_> = self
            .places
            .iter()
            .filter_map(|(pointer, place)| Some((rebase(pointer, &old, &new)?, place.clone())))
            .collect();
        self.places.extend(moved);
    }

    /// An error of the schema in words. With `broken` syntax, what is missing may only have been unreadable.
    fn explain(&self, schema: &Value, error: &jsonschema::ValidationError<'_>, broken: bool) -> Option<Diagnostic> {
        let pointer = error.instance_path().as_str();
        let expected = || expectation(schema, error.schema_path().as_str());
        let diagnostic = match error.kind() {
            Kind::Required { .. } if broken => return None,
            Kind::AdditionalProperties { .. } => return None,
            Kind::Required { property } => {
                let key = property.as_str().unwrap_or_default();
                let help = description(schema, error.schema_path().as_str(), key);
                self.at_key(pointer, format!("`{key}` is missing{}", within(pointer))).with_help(help)
            }
            Kind::Enum { .. } | Kind::OneOfNotValid { .. } => {
                let known = options(schema, error.schema_path().as_str());
                let written = plain(error.instance());
                let near = closest(&written, known.iter().map(String::as_str));
                self.at_value(pointer, format!("`{written}` is not one of {}", known.join(", ")))
                    .with_help(near.map(|near| format!("did you mean `{near}`?")))
            }
            Kind::Type { .. } | Kind::Pattern { .. } => {
                self.at_value(pointer, format!("expected {}, found {}", expected(), kind_of(error.instance())))
            }
            _ => self.at_value(pointer, error.to_string()),
        };
        Some(diagnostic)
    }
}

fn read_table(table: &DeTable<'_>, pointer: &str, places: &mut BTreeMap<String, Place>) -> Value {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let mut map = Map::new();
    for (key, value) in entries {
        let inner = join(pointer, key.get_ref());
        places.insert(inner.clone(), Place { key: Some(key.span()), value: value.span() });
        map.insert(key.get_ref().to_string(), read_value(value, &inner, places));
    }
    Value::Object(map)
}

fn read_value(value: &Spanned<DeValue<'_>>, pointer: &str, places: &mut BTreeMap<String, Place>) -> Value {
    match value.get_ref() {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Null, Value::from)
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or(Value::Null, Value::from),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Table(table) => read_table(table, pointer, places),
        DeValue::Array(items) => {
            let read = |(at, item): (usize, &Spanned<DeValue<'_>>)| {
                let inner = join(pointer, &at.to_string());
                places.insert(inner.clone(), Place { key: None, value: item.span() });
                read_value(item, &inner, places)
            };
            Value::Array(items.iter().enumerate().map(read).collect())
        }
    }
}

/// A JSON pointer one step further.
pub(crate) fn join(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Keys whose text only people read: further checks can do without it.
const PROSE: [&str; 5] = ["title", "question", "help", "because", "summary"];

/// What to put in the place of a value that the schema refuses, so that the rest can be checked: the pointer, and a value
/// of the right kind where the key must be there.
fn repair(schema: &Value, error: &jsonschema::ValidationError<'_>) -> Option<(String, Option<Value>)> {
    let pointer = error.instance_path().as_str();
    match error.kind() {
        Kind::AdditionalProperties { .. } => None,
        Kind::Required { property } => {
            let key = property.as_str().filter(|key| PROSE.contains(key))?;
            Some((join(pointer, key), Some(Value::from(""))))
        }
        Kind::Maximum { limit } | Kind::Minimum { limit } => Some((pointer.to_owned(), Some(limit.clone()))),
        _ => {
            let path = error.schema_path().as_str();
            let key = unescape(&pointer[pointer.rfind('/')? + 1..]);
            // …/properties/KEY/KEYWORD
            let mut steps = path.rmatch_indices('/');
            let table = steps.nth(2).and_then(|(at, _)| schema.pointer(&path[..at]));
            let required = table.and_then(|table| table.get("required")).and_then(Value::as_array);
            let required = required.is_some_and(|keys| keys.contains(&Value::from(key)));
            let value = required.then(|| holder(schema, path).and_then(neutral)).flatten();
            Some((pointer.to_owned(), value))
        }
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
    key.replace("~1", "/").replace("~0", "~")
}

fn rebase(pointer: &str, old: &str, new: &str) -> Option<String> {
    let rest = pointer.strip_prefix(old)?;
    (rest.is_empty() || rest.starts_with('/')).then(|| format!("{new}{rest}"))
}

/// The part of the schema that holds the keyword which a schema path leads to.
fn holder<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    schema.pointer(&path[..path.rfind('/')?])
}

fn known_keys(schema: &Value, path: &str) -> Vec<String> {
    let properties = holder(schema, path).and_then(|holder| holder.get("properties")).and_then(Value::as_object);
    properties.map(|map| map.keys().cloned().collect()).unwrap_or_default()
}

/// The words that may stand at a place: an `enum`, or a `oneOf` of constants where each has a description.
fn options(schema: &Value, path: &str) -> Vec<String> {
    fn words(holder: &Value) -> Vec<String> {
        let listed = holder.get("enum").and_then(Value::as_array).into_iter().flatten().chain(holder.get("const"));
        let choices = holder.get("oneOf").and_then(Value::as_array).into_iter().flatten();
        listed.map(plain).chain(choices.flat_map(words)).collect()
    }
    holder(schema, path).map(words).unwrap_or_default()
}

/// What the schema says of a key that is missing: the first sentence of its description.
fn description(schema: &Value, path: &str, key: &str) -> Option<String> {
    let text = holder(schema, path)?.get("properties")?.get(key)?.get("description")?.as_str()?;
    let sentence = text.split_once(". ").map_or(text, |(first, _)| first);
    Some(sentence.trim_end_matches('.').replace('\n', " "))
}

fn expectation(schema: &Value, path: &str) -> String {
    let holder = holder(schema, path);
    if let Some(words) = holder.and_then(|holder| holder.get("x-expected")).and_then(Value::as_str) {
        return words.to_owned();
    }
    let name = |name: &Value| match name.as_str() {
        Some("object") => "a table",
        Some("array") => "a list",
        Some("string") => "text",
        Some("integer") => "a whole number",
        Some("boolean") => "true or false",
        _ => "a number",
    };
    match holder.and_then(|holder| holder.get("type")) {
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
