//! JSON schemas of the two kinds of files, generated from the types that read them.

use std::sync::LazyLock;

use schemars::{JsonSchema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::Value;

use super::{
    model::{Experiment, Recipe},
    templated::without_null,
};

static EXPERIMENT: LazyLock<Value> = LazyLock::new(generate::<Experiment>);
static RECIPE: LazyLock<Value> = LazyLock::new(generate::<Recipe>);

/// Where the schema of this name is published: its `$id`.
pub fn id(name: &str) -> String {
    format!("{}/raw/main/docs/schema/{name}.json", env!("CARGO_PKG_REPOSITORY"))
}

/// Schema of `experiment.toml`.
pub fn experiment_schema() -> &'static Value {
    &EXPERIMENT
}

/// Schema of `recipe.toml`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_null_in_toml() {
        for schema in [experiment_schema(), recipe_schema()] {
            // But for a key of that name.
            let text = schema.to_string().replace("\"null\":{", "").replace("`null`", "");
            assert!(!text.contains("null"), "{schema:#}");
        }
    }
}
