//! The experiments and recipes are embedded: a change in them must rebuild the binary. Each experiment is tested by
//! name.

use std::{env, fs, path::Path};

fn main() {
    for folder in ["experiments", "services", "studies", "tools"] {
        watch(Path::new(folder));
    }
    tests();
}

/// Cargo looks at the time stamp of a folder's files only where each is named.
fn watch(path: &Path) {
    println!("cargo:rerun-if-changed={}", path.display());
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        watch(&entry.path());
    }
}

/// Writes a test for each experiment. `tests/all/experiments.rs` includes the file, because cargo finds tests only in
/// Rust.
fn tests() {
    let folders = fs::read_dir("experiments").into_iter().flatten().flatten();
    let names = folders.filter_map(|folder| folder.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| !name.starts_with('_') && Path::new("experiments").join(name).join("experiment.toml").exists())
        .collect();
    names.sort();
    let test = |name: &String| {
        format!(
            "#[test]\nfn {}() {{\n    test(\"{name}\");\n}}\n",
            name.replace('-', "_")
        )
    };
    let tests: String = names.iter().map(test).collect();
    let folder = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&folder).join("experiments.rs"), tests).expect("the folder is there");
}
