//! Schemas of tables whose values may be templates.

use schemars::{
    Schema,
    transform::{RecursiveTransform, Transform as _},
};
use serde_json::{Map, Value, json};

/// Pattern of a text with at least one minijinja expression.
pub(super) const TEMPLATE: &str = r"\{\{.*\}\}";

/// Removes null from a schema, because TOML lacks null: an optional value is present or absent.
pub(super) fn without_null(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if object.get("default") == Some(&Value::Null) {
        object.remove("default");
    }
    if let Some(Value::Object(keys)) = object.get_mut("default") {
        keys.retain(|_, value| !value.is_null());
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(options)) = object.get_mut("enum") {
        options.retain(|option| !option.is_null());
    }
    let Some(Value::Array(choices)) = object.get_mut("anyOf") else {
        return;
    };
    choices.retain(|choice| *choice != json!({ "type": "null" }));
    let [Value::Object(only)] = &choices[..] else { return };
    let only = only.clone();
    object.remove("anyOf");
    for (key, value) in only {
        object.entry(key).or_insert(value);
    }
}

/// Allows a template for every value of a table.
pub(super) fn or_templates(table: &mut Schema) {
    RecursiveTransform(without_null).transform(table);
    if let Some(table) = table.as_object_mut() {
        each_inner(table, or_template);
    }
}

fn each_inner(schema: &mut Map<String, Value>, change: fn(&mut Map<String, Value>)) {
    let named = schema
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .into_iter()
        .flat_map(Map::values_mut);
    named.filter_map(Value::as_object_mut).for_each(change);
    for key in ["items", "additionalProperties"] {
        schema
            .get_mut(key)
            .and_then(Value::as_object_mut)
            .into_iter()
            .for_each(change);
    }
}

fn or_template(schema: &mut Map<String, Value>) {
    schema.remove("default");
    let any_text = takes_any_text(schema);
    let words = merge_choices(schema);
    each_inner(schema, or_template);
    if any_text {
        schema.insert("type".to_owned(), json!(["object", "string"]));
        return;
    }
    let kind = schema.get("type").cloned().unwrap_or_else(|| "string".into());
    if kind == "string" && words.is_empty() {
        return;
    }
    let words = words.iter().map(|word| format!("^{}$|", regex::escape(word)));
    // Not anchored, because an expression may have text around it.
    let pattern = words.collect::<String>() + TEMPLATE;
    let kinds = match kind.as_str() {
        Some("string") | None => kind,
        Some(other) => json!([other, "string"]),
    };
    schema.extend([("type".to_owned(), kinds), ("pattern".to_owned(), pattern.into())]);
}

/// Whether one of the choices is any text, which includes templates.
fn takes_any_text(schema: &Map<String, Value>) -> bool {
    let choices = schema.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    let mut tables = choices.filter_map(Value::as_object);
    tables.any(|choice| choice.get("type") == Some(&json!("string")) && choice.keys().all(|key| key == "type"))
}

/// Merges the choices of an enumeration into one table, and returns the words that may replace the table.
fn merge_choices(schema: &mut Map<String, Value>) -> Vec<String> {
    let Some(Value::Array(choices)) = schema.remove("oneOf").or_else(|| schema.remove("anyOf")) else {
        return words(schema.remove("enum"));
    };
    let mut found = Vec::new();
    let mut keys = Map::new();
    for mut choice in choices {
        found.extend(words(choice.get_mut("enum").map(Value::take)));
        found.extend(words(choice.get("const").map(|word| json!([word]))));
        if let Some(Value::Object(own)) = choice.get_mut("properties").map(Value::take) {
            let help = choice["description"].take();
            keys.extend(own.into_iter().map(|(key, mut value)| {
                value["description"] = help.clone();
                (key, value)
            }));
        }
    }
    schema.insert(
        "type".to_owned(),
        if keys.is_empty() { "string" } else { "object" }.into(),
    );
    if !keys.is_empty() {
        schema.extend([
            ("properties".to_owned(), keys.into()),
            ("additionalProperties".to_owned(), false.into()),
        ]);
    }
    found
}

fn words(listed: Option<Value>) -> Vec<String> {
    let listed = listed.as_ref().and_then(Value::as_array).into_iter().flatten();
    listed.filter_map(|word| Some(word.as_str()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::experiment_schema;

    #[test]
    fn a_template_may_stand_for_any_value_of_a_protocol() {
        let load = &experiment_schema()["properties"]["load"];
        assert_eq!(load["additionalProperties"], false);
        let redis = &load["properties"]["redis"]["properties"];
        assert_eq!(redis["command"]["type"], json!(["array", "string"]));
        assert_eq!(redis["database"]["type"], json!(["integer", "string"]));
        assert_eq!(redis["expect"]["type"], json!(["object", "string"]));
        assert_eq!(redis["expect"]["pattern"], r"^success$|^nil$|\{\{.*\}\}");
        assert_eq!(
            redis["expect"]["properties"]["length"]["type"],
            json!(["integer", "string"])
        );
        let body = &load["properties"]["http"]["properties"]["expect"]["properties"]["body"];
        assert_eq!(
            (&body["type"], &body["pattern"]),
            (&json!(["object", "string"]), &Value::Null),
            "{body}"
        );
        assert_eq!(redis["password"]["type"], "string");
        assert_eq!(redis["password"]["pattern"], Value::Null);
        let mode = &load["properties"]["postgres"]["properties"]["mode"];
        assert_eq!(mode["pattern"], r"^simple$|^extended$|^prepared$|\{\{.*\}\}");
    }

    #[test]
    fn what_is_no_parameter_is_refused() {
        let schema = jsonschema::validator_for(&experiment_schema()["properties"]["load"]).unwrap();
        let load = |redis: Value| json!({ "target": "s", "protocol": "redis", "redis": redis });
        for right in [
            json!({ "command": ["GET", "k"], "expect": { "bulk": "x" } }),
            json!({ "command": "{{ words }}", "expect": "{{ right }}", "database": "{{ n }}" }),
            json!({ "command": ["PING"], "expect": "success" }),
        ] {
            assert!(schema.is_valid(&load(right.clone())), "{right}");
        }
        for wrong in [
            json!({ "command": 3 }),
            json!({ "command": "GET" }),
            json!({ "command": ["PING"], "expect": "succes" }),
            json!({ "command": ["PING"], "expect": { "bulky": "x" } }),
            json!({ "command": ["PING"], "database": "two" }),
            json!({ "command": ["PING"], "colour": 1 }),
        ] {
            assert!(!schema.is_valid(&load(wrong.clone())), "{wrong}");
        }
    }
}
