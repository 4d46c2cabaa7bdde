//! Whether a value has the shape that a schema describes, by the part of JSON Schema (draft 2020-12) that lasthop's own
//! schemas use. A full implementation judges the same in the tests; as a dependency it would be a fifth of the build.

use std::collections::BTreeMap;

use lasthop_model::quantity;
use regex::Regex;
use serde_json::{Map, Value};

/// A place where a value does not have the wanted shape.
pub(super) struct Violation<'a> {
    /// JSON pointer to the value.
    pub pointer: String,
    pub value: &'a Value,
    /// What the schema wants at that place.
    pub wanted: &'a Value,
    /// Whether the table that holds the value cannot do without it.
    pub required: bool,
    pub kind: Kind<'a>,
}

pub(super) enum Kind<'a> {
    Type,
    Pattern,
    /// Not one of the listed values.
    Choice,
    /// None of the alternatives has room for a value of this type.
    Alternatives,
    /// A number below the limit.
    Minimum(&'a Value),
    /// A number above the limit.
    Maximum(&'a Value),
    /// A list with fewer items.
    MinItems(u64),
    /// A list with more items.
    MaxItems(u64),
    /// A text that is no duration or share, and why.
    Quantity(String),
    Missing(&'a str),
    Unknown(&'a str),
}

/// Every violation.
pub(super) fn violations<'a>(schema: &'a Value, value: &'a Value) -> Vec<Violation<'a>> {
    let mut judge = Judge::default();
    judge.value(schema, value, "", false);
    judge.found
}

#[derive(Default)]
struct Judge<'a> {
    found: Vec<Violation<'a>>,
    patterns: BTreeMap<&'a str, Regex>,
}

impl<'a> Judge<'a> {
    /// Each keyword is judged by itself, as the standard has it: a value can violate several.
    fn value(&mut self, wanted: &'a Value, value: &'a Value, pointer: &str, required: bool) {
        let Some(keywords) = wanted.as_object() else { return };
        for (keyword, argument) in keywords {
            for kind in self.keyword(keyword, argument, value) {
                self.found.push(Violation {
                    pointer: pointer.to_owned(),
                    value,
                    wanted,
                    required,
                    kind,
                });
            }
        }
        if let Some(alternatives) = wanted.get("anyOf").and_then(Value::as_array) {
            self.alternatives(wanted, alternatives, value, pointer, required);
        }
        match value {
            Value::Object(table) => self.table(wanted, table, pointer),
            Value::Array(items) => {
                let Some(wanted) = wanted.get("items") else { return };
                for (at, item) in items.iter().enumerate() {
                    self.value(wanted, item, &join(pointer, &at.to_string()), false);
                }
            }
            _ => {}
        }
    }

    /// How a keyword is violated by the value itself; what it holds has its own turn.
    fn keyword(&mut self, keyword: &str, argument: &'a Value, value: &'a Value) -> Vec<Kind<'a>> {
        let items = value.as_array().map(|items| items.len() as u64);
        let list = argument.as_array().map_or(&[][..], Vec::as_slice);
        let violation = match keyword {
            "type" => (!has_type(argument, value)).then_some(Kind::Type),
            "pattern" => (!self.matches(argument, value)).then_some(Kind::Pattern),
            "enum" => (!list.contains(value)).then_some(Kind::Choice),
            "const" => (argument != value).then_some(Kind::Choice),
            "oneOf" => (fitting(list, value) != 1).then_some(Kind::Choice),
            // `None` is not less than `None`: what is no number has no limits, and `type` reports it.
            "minimum" => (value.as_f64() < value.as_f64().and(argument.as_f64())).then_some(Kind::Minimum(argument)),
            "maximum" => (value.as_f64() > value.as_f64().and(argument.as_f64())).then_some(Kind::Maximum(argument)),
            "minItems" => argument
                .as_u64()
                .filter(|least| items.is_some_and(|items| items < *least))
                .map(Kind::MinItems),
            "maxItems" => argument
                .as_u64()
                .filter(|most| items.is_some_and(|items| items > *most))
                .map(Kind::MaxItems),
            "x-quantity" => value
                .as_str()
                .and_then(|text| match argument.as_str() {
                    Some("share") => quantity::share(text).err(),
                    _ => quantity::duration(text).err(),
                })
                .map(Kind::Quantity),
            "required" => {
                let Some(table) = value.as_object() else {
                    return Vec::new();
                };
                let keys = list.iter().filter_map(Value::as_str);
                return keys
                    .filter(|key| !table.contains_key(*key))
                    .map(Kind::Missing)
                    .collect();
            }
            _ => None,
        };
        violation.into_iter().collect()
    }

    fn matches(&mut self, pattern: &'a Value, value: &Value) -> bool {
        let (Some(pattern), Some(text)) = (pattern.as_str(), value.as_str()) else {
            return true;
        };
        let known = self.patterns.entry(pattern);
        known
            .or_insert_with(|| Regex::new(pattern).expect("patterns of our own schemas are right"))
            .is_match(text)
    }

    /// What is wrong with the alternative that has room for a value of this type, if any has.
    fn alternatives(&mut self, wanted: &'a Value, all: &'a [Value], value: &'a Value, pointer: &str, required: bool) {
        if fitting(all, value) > 0 {
            return;
        }
        match all
            .iter()
            .find(|one| one.get("type").is_some_and(|types| has_type(types, value)))
        {
            Some(meant) => self.value(meant, value, pointer, required),
            None => {
                let pointer = pointer.to_owned();
                self.found.push(Violation {
                    pointer,
                    value,
                    wanted,
                    required,
                    kind: Kind::Alternatives,
                });
            }
        }
    }

    fn table(&mut self, wanted: &'a Value, table: &'a Map<String, Value>, pointer: &str) {
        let others = wanted.get("additionalProperties");
        let required = wanted.get("required").and_then(Value::as_array);
        for (key, value) in table {
            let inner = join(pointer, key);
            let known = wanted.get("properties").and_then(|known| known.get(key));
            match (known, others) {
                (Some(known), _) => {
                    let required = required.is_some_and(|keys| keys.iter().any(|name| name == key));
                    self.value(known, value, &inner, required);
                }
                (None, Some(Value::Bool(false))) => {
                    let pointer = pointer.to_owned();
                    self.found.push(Violation {
                        pointer,
                        value,
                        wanted,
                        required: false,
                        kind: Kind::Unknown(key),
                    });
                }
                (None, Some(others)) => self.value(others, value, &inner, false),
                (None, None) => {}
            }
        }
    }
}

/// How many of the schemas a value fits.
fn fitting(schemas: &[Value], value: &Value) -> usize {
    schemas
        .iter()
        .filter(|schema| violations(schema, value).is_empty())
        .count()
}

/// TOML tells `1.0` from `1`, and so does this: only the second is an integer.
fn has_type(types: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        _ => false,
    };
    types.as_array().map_or_else(|| is(types), |names| names.iter().any(is))
}

/// A JSON pointer one step further.
pub fn join(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{diagnostics::Diagnostics, document::Document, schema};

    /// Keywords that say nothing of a value's shape, beside those that are judged.
    const ANNOTATIONS: [&str; 7] = [
        "$schema",
        "$id",
        "title",
        "description",
        "default",
        "format",
        "x-expected",
    ];
    const JUDGED: [&str; 15] = [
        "type",
        "pattern",
        "enum",
        "const",
        "oneOf",
        "anyOf",
        "minimum",
        "maximum",
        "minItems",
        "maxItems",
        "required",
        "properties",
        "additionalProperties",
        "items",
        "x-quantity",
    ];

    fn schemas() -> [Value; 3] {
        let study = include_str!("../../../docs/schema/study.json");
        [
            schema::experiment_schema().clone(),
            schema::recipe_schema().clone(),
            serde_json::from_str(study).unwrap(),
        ]
    }

    fn unknown_keywords(schema: &Value, found: &mut Vec<String>) {
        let Some(keywords) = schema.as_object() else { return };
        for (keyword, argument) in keywords {
            match keyword.as_str() {
                "properties" => argument
                    .as_object()
                    .unwrap()
                    .values()
                    .for_each(|inner| unknown_keywords(inner, found)),
                "oneOf" | "anyOf" => argument
                    .as_array()
                    .unwrap()
                    .iter()
                    .for_each(|inner| unknown_keywords(inner, found)),
                "items" | "additionalProperties" => unknown_keywords(argument, found),
                known if JUDGED.contains(&known) || ANNOTATIONS.contains(&known) => {}
                unknown => found.push(unknown.to_owned()),
            }
        }
    }

    #[test]
    fn every_keyword_of_the_schemas_is_judged() {
        let mut found = Vec::new();
        schemas().iter().for_each(|schema| unknown_keywords(schema, &mut found));
        assert_eq!(found, Vec::<String>::new());
    }

    /// Every TOML file of the repository's data and of the fuzzers' corpus.
    fn documents() -> Vec<Value> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut folders = ["experiments", "services", "studies", "fuzz/corpus"]
            .map(|name| root.join(name))
            .to_vec();
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(text) = std::fs::read_to_string(&path) {
                    found.push(Document::parse("it", &text, &mut Diagnostics::default()).tree);
                }
            }
        }
        found
    }

    fn pointers(value: &Value, pointer: &str, found: &mut Vec<String>) {
        found.push(pointer.to_owned());
        match value {
            Value::Object(table) => table
                .iter()
                .for_each(|(key, inner)| pointers(inner, &join(pointer, key), found)),
            Value::Array(items) => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(at, inner)| pointers(inner, &join(pointer, &at.to_string()), found));
            }
            _ => {}
        }
    }

    fn validators() -> [(Value, jsonschema::Validator); 3] {
        schemas().map(|schema| {
            let validator = jsonschema::validator_for(&schema).unwrap();
            (schema, validator)
        })
    }

    /// The same places are wrong; within alternatives this one says more exactly where.
    fn same(value: &Value, judges: &[(Value, jsonschema::Validator)]) -> Result<(), TestCaseError> {
        for (schema, validator) in judges {
            let mut ours = violations(schema, value);
            // A keyword of our own.
            ours.retain(|violation| !matches!(violation.kind, Kind::Quantity(_)));
            let theirs: Vec<String> = validator
                .iter_errors(value)
                .map(|error| error.instance_path().as_str().to_owned())
                .collect();
            prop_assert_eq!(ours.is_empty(), theirs.is_empty(), "{} {:?}", value, theirs);
            for violation in &ours {
                let near = theirs
                    .iter()
                    .any(|theirs| violation.pointer.starts_with(theirs.as_str()));
                prop_assert!(near, "{} is wrong for us, of {value} {theirs:?}", violation.pointer);
            }
            for place in &theirs {
                prop_assert!(
                    ours.iter().any(|ours| ours.pointer.starts_with(place.as_str())),
                    "{place} of {value}"
                );
            }
        }
        Ok(())
    }

    #[test]
    fn files_are_judged_as_by_a_full_implementation() {
        let judges = validators();
        let documents = documents();
        assert!(documents.len() > 40, "{} files", documents.len());
        documents.iter().for_each(|document| same(document, &judges).unwrap());
        let valid = |(schema, _): &(Value, _)| documents.iter().any(|document| violations(schema, document).is_empty());
        assert!(judges.iter().all(valid));
    }

    fn replacement() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (0u32..1000).prop_map(Value::from),
            // A whole number with a fraction is not told from one without by JSON Schema.
            (-1000i32..1000).prop_map(|number| Value::from(f64::from(number) + 0.5)),
            "[a-z{}/: .0-9]{0,12}".prop_map(Value::from),
            proptest::sample::select(vec![
                json!({}),
                json!([]),
                json!([1]),
                json!(["a", 1, {}]),
                json!({ "x": 1 }),
                json!("{{ listen.path }}"),
                json!("unix"),
                json!("connect"),
                json!({ "integer": 1 }),
            ]),
        ]
    }

    proptest! {
        #[test]
        fn a_wrong_value_is_found_where_a_full_implementation_finds_it(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), replacement()), 8),
        ) {
            thread_local! {
                static MATERIAL: (Vec<Value>, [(Value, jsonschema::Validator); 3]) = (documents(), validators());
            }
            MATERIAL.with(|(documents, judges)| {
                for (which, place, value) in changes {
                    let mut document = documents[which.index(documents.len())].clone();
                    let mut places = Vec::new();
                    pointers(&document, "", &mut places);
                    *document.pointer_mut(&places[place.index(places.len())]).unwrap() = value;
                    same(&document, judges)?;
                }
                Ok::<(), TestCaseError>(())
            })?;
        }
    }
}
