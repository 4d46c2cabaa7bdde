//! A TOML file with the place of everything in it, checked against the schema of its kind.

use std::{collections::BTreeMap, ops::Range};

use serde_json::{Map, Value};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::diagnostics::{Diagnostic, Diagnostics, closest, suggest};

/// A file that was read, and where its parts are.
pub(super) struct Document {
    /// The file as the user knows it.
    pub name: String,
    pub text: String,
    /// The content; keys in the order of the file.
    pub tree: Value,
    /// By JSON pointer.
    places: BTreeMap<String, Place>,
}

/// Byte ranges of a value and its key.
#[derive(Clone)]
struct Place {
    key: Option<Range<usize>>,
    value: Range<usize>,
}

impl Document {
    /// Reads what can be read and reports every syntax error.
    pub(super) fn parse(name: &str, text: &str, found: &mut Diagnostics) -> Self {
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in &errors {
            let range = error.span().unwrap_or(0..0);
            found.push(Diagnostic::new(name, text, range, error.message().replace('\n', "; ")));
        }
        let mut places = BTreeMap::new();
        places.insert(String::new(), Place { key: None, value: 0..0 });
        let tree = read_table(table.get_ref(), "", &mut places);
        Self { name: name.to_owned(), text: text.to_owned(), tree, places }
    }

    /// An error at the value that the pointer leads to, or at its nearest ancestor that was written.
    pub(super) fn at_value(&self, pointer: &str, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&self.name, &self.text, self.place(pointer).value.clone(), message)
    }

    /// An error at the key of that value.
    pub(super) fn at_key(&self, pointer: &str, message: impl Into<String>) -> Diagnostic {
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

    /// Checks the tree against a schema and reports every error. Keys that are unknown are then taken out of the tree, or
    /// renamed when it is plain what was meant, so that further checks see the rest.
    pub(super) fn check(&mut self, schema: &Value, broken: bool, found: &mut Diagnostics) {
        let validator = jsonschema::validator_for(schema).expect("a generated schema is a schema");
        self.mend_keys(schema, &validator, found);
        let errors: Vec<_> =
            validator.iter_errors(&self.tree).filter_map(|error| self.explain(schema, &error, broken)).collect();
        found.extend(errors);
    }

    /// Reports unknown keys, renames or removes them.
    fn mend_keys(&mut self, schema: &Value, validator: &jsonschema::Validator, found: &mut Diagnostics) {
        let mut mends = Vec::new();
        for error in validator.iter_errors(&self.tree) {
            let jsonschema::error::ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() else {
                continue;
            };
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
        use jsonschema::error::ValidationErrorKind as Kind;
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
            Kind::Enum { options } => {
                let known: Vec<String> = options.as_array().into_iter().flatten().map(plain).collect();
                let written = plain(error.instance());
                self.at_value(pointer, format!("`{written}` is not one of {}", known.join(", "))).with_help(
                    closest(&written, known.iter().map(String::as_str)).map(|near| format!("did you mean `{near}`?")),
                )
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
pub(super) fn join(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
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
