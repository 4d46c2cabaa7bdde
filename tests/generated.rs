//! What is generated from the code and kept in the repository is not stale.

mod common;

use std::{collections::BTreeMap, fs, path::Path};

use common::Lasthop;

fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn man_pages_completions_and_schemas_are_those_of_the_code() {
    let lasthop = Lasthop::new();
    let fresh = lasthop.home().join("generated");
    lasthop.run(["generate", fresh.to_str().unwrap()]).ok();
    let (fresh, docs) = (files(&fresh), Path::new(env!("CARGO_MANIFEST_DIR")).join("docs"));
    let generated = ["man", "completions", "schema"];
    let kept: BTreeMap<String, String> = generated
        .iter()
        .flat_map(|part| files(&docs.join(part)).into_iter().map(move |(name, text)| (format!("{part}/{name}"), text)))
        .collect();
    let stale: Vec<&String> =
        fresh.keys().chain(kept.keys()).filter(|name| fresh.get(*name) != kept.get(*name)).collect();
    assert!(stale.is_empty(), "stale: {stale:?}; run script/generate");
    assert!(fresh.contains_key("man/lasthop.1") && fresh.contains_key("schema/result.json"), "{:?}", fresh.keys());
}
