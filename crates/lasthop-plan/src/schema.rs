//! JSON schemas of experiments and recipes, generated from the types that read them.

use std::sync::LazyLock;

use schemars::{JsonSchema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::{Map, Value};

use super::{
    model::{Experiment, Recipe},
    templated::without_null,
};

static EXPERIMENT: LazyLock<Value> = LazyLock::new(generate::<Experiment>);
static RECIPE: LazyLock<Value> = LazyLock::new(generate::<Recipe>);

/// The published address of a schema: its `$id`.
pub fn id(name: &str) -> String {
    format!("{}/raw/main/docs/schema/{name}.json", env!("CARGO_PKG_REPOSITORY"))
}

/// Keys of `[load]`: those for every protocol, then the protocols.
pub(super) static LOAD_KEYS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let load = EXPERIMENT["properties"]["load"]["properties"].as_object();
    load.into_iter().flat_map(Map::keys).map(String::as_str).collect()
});

/// Schema of `experiment.toml`.
pub fn experiment_schema() -> &'static Value {
    &EXPERIMENT
}

/// Schema of `recipe.toml`.
pub fn recipe_schema() -> &'static Value {
    &RECIPE
}

/// Generates a schema with everything inlined, so that the path of a key in a file leads to its description.
pub fn generate<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.inline_subschemas = true)
        .with_transform(RecursiveTransform(without_null));
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{diagnostics::Diagnostics, document::Document};

    /// Editors must not complain about files that lasthop accepts.
    #[test]
    fn every_built_in_fits_its_schema() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (folder, file, schema) in [
            ("experiments", "experiment.toml", experiment_schema()),
            ("services", "recipe.toml", recipe_schema()),
        ] {
            let validator = jsonschema::validator_for(schema).unwrap();
            let found = std::fs::read_dir(root.join(folder)).unwrap();
            let texts = found.filter_map(|entry| std::fs::read_to_string(entry.unwrap().path().join(file)).ok());
            let mut count = 0;
            for text in texts {
                let tree = Document::parse(file, &text, &mut Diagnostics::default()).tree;
                let errors: Vec<String> = validator.iter_errors(&tree).map(|error| error.to_string()).collect();
                assert!(errors.is_empty(), "{text}\n{errors:?}");
                count += 1;
            }
            assert!(count > 20, "{count} in {folder}");
        }
    }

    #[test]
    fn there_is_no_null_in_toml() {
        for schema in [experiment_schema(), recipe_schema()] {
            // Except for a key of that name.
            let text = schema.to_string().replace("\"null\":{", "").replace("`null`", "");
            assert!(!text.contains("null"), "{schema:#}");
        }
    }
}
