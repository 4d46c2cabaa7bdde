//! JSON schemas of the two kinds of files, generated from the types that read them.

use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::{Value, json};

use super::definition::{ExperimentFile, RecipeFile};

static EXPERIMENT: LazyLock<Value> = LazyLock::new(generate::<ExperimentFile>);
static RECIPE: LazyLock<Value> = LazyLock::new(generate::<RecipeFile>);

/// Schema of `experiment.toml`.
#[must_use]
pub fn experiment_schema() -> &'static Value {
    &EXPERIMENT
}

/// Schema of `recipe.toml`.
#[must_use]
pub fn recipe_schema() -> &'static Value {
    &RECIPE
}

/// Inlines everything, so that the place of an error in the schema leads straight to what was expected there.
pub fn generate<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .with_transform(RecursiveTransform(without_null));
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// TOML has no null. An optional value is there or not.
pub(super) fn without_null(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if object.get("default") == Some(&Value::Null) {
        object.remove("default");
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
    let Some(Value::Array(choices)) = object.get_mut("anyOf") else { return };
    choices.retain(|choice| *choice != json!({ "type": "null" }));
    let [Value::Object(only)] = &choices[..] else { return };
    let only = only.clone();
    object.remove("anyOf");
    for (key, value) in only {
        object.entry(key).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_null_in_toml() {
        for schema in [experiment_schema(), recipe_schema()] {
            assert!(!schema.to_string().contains("null"), "{schema:#}");
        }
    }
}
