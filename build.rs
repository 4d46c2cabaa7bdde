//! The experiments and recipes are embedded: a change in them must rebuild the binary.

fn main() {
    for folder in ["experiments", "services", "studies", "tools"] {
        watch(std::path::Path::new(folder));
    }
}

/// Cargo looks at the time stamp of a folder's files only where each is named.
fn watch(path: &std::path::Path) {
    println!("cargo:rerun-if-changed={}", path.display());
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        watch(&entry.path());
    }
}
