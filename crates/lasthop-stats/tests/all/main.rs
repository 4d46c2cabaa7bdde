//! The tests of this crate in one executable, linked once: `cargo test -p lasthop-stats --test all rounds::` runs one
//! file.

mod coverage;
mod draws;
mod laws;
mod location;
mod moderated;
mod pooled;
mod rounds;

#[test]
fn every_file_of_this_folder_is_a_module() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.trim_end_matches(".rs");
        let known = module == "main" || include_str!("main.rs").contains(&format!("\nmod {module};\n"));
        assert!(known, "{name} is not tested");
    }
}
