//! Replays what the fuzz targets have found worth keeping, and what they once found.

#[path = "../fuzz/judge/files.rs"]
mod files;
#[path = "../fuzz/judge/wire.rs"]
mod wire;

use std::{fs, path::Path};

#[test]
fn the_corpus_of_every_target_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, judge) in wire::TARGETS.into_iter().chain(files::TARGETS) {
        let files: Vec<_> = fs::read_dir(corpus.join(name))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert!(files.len() > 5, "the corpus of {name} is lost");
        for file in files {
            let data = fs::read(&file).unwrap();
            std::panic::catch_unwind(|| judge(&data)).unwrap_or_else(|_| panic!("{name}: {}", file.display()));
        }
    }
}
