//! Prints plain values as YAML.

use serde_json::Value;

/// A document for each value.
pub fn documents(values: &[Value]) -> String {
    values.iter().map(|value| format!("---\n{}", block(value, 0))).collect()
}

/// A value as lines that are indented by so many spaces.
fn block(value: &Value, indent: usize) -> String {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(entries) if !entries.is_empty() => entries
            .iter()
            .map(|(key, value)| format!("{pad}{}:{}", key_of(key), after(value, indent + 2)))
            .collect(),
        Value::Array(items) if !items.is_empty() => items
            .iter()
            .map(|item| {
                let item = block(item, indent + 2);
                format!("{pad}- {}", item.trim_start_matches(' '))
            })
            .collect(),
        // A JSON text is a YAML text.
        plain => format!("{pad}{plain}\n"),
    }
}

/// What follows a colon: on the same line if it is plain, else on lines of its own.
fn after(value: &Value, indent: usize) -> String {
    match value {
        Value::Object(entries) if !entries.is_empty() => format!("\n{}", block(value, indent)),
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            format!("\n{}", block(value, indent))
        }
        plain => format!(" {plain}\n"),
    }
}

fn key_of(key: &str) -> String {
    let plain = key
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "-_./".contains(letter));
    if plain && key.starts_with(char::is_alphabetic) {
        key.to_owned()
    } else {
        Value::from(key).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_printed_as_people_write_them() {
        let spec = json!({ "args": ["run", "a: b"], "empty": {}, "ports": [{ "name": "x", "port": 1 }] });
        let text = documents(&[json!({ "8/x y": true, "kind": "Job", "spec": spec })]);
        let lines = [
            "---",
            "\"8/x y\": true",
            "kind: \"Job\"",
            "spec:",
            "  args: [\"run\",\"a: b\"]",
            "  empty: {}",
            "  ports:",
            "    - name: \"x\"",
            "      port: 1",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }
}
