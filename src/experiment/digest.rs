//! Digests of what a run is made from: how `lasthop resume` knows that it is still the same.

use std::{collections::BTreeMap, fs, io, path::Path};

use super::{model::Experiment, validate::Files};

/// Digests by what they are of.
pub type Digests = BTreeMap<String, String>;

/// Of some bytes: SHA-256 in hexadecimal digits.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of a file's content, links followed.
///
/// # Errors
/// When the file cannot be read.
pub fn of_file(path: &Path) -> io::Result<String> {
    fs::read(path).map(|bytes| of_bytes(&bytes))
}

/// Of the files of a folder, by path. What people read changes nothing that is measured.
pub(super) fn of_files(files: &Files) -> Digests {
    let part = |path: &Path| path != Path::new("README.md");
    let digest = |(path, bytes): (&std::path::PathBuf, &Vec<u8>)| (path.display().to_string(), of_bytes(bytes));
    files.iter().filter(|(path, _)| part(path)).map(digest).collect()
}

/// Every file of an experiment and of each recipe that its cases may use.
#[must_use]
pub fn of_experiment(experiment: &Experiment) -> Digests {
    let of_recipe =
        |(name, file, digest): (&String, &String, &String)| (format!("recipe {name}: {file}"), digest.clone());
    let recipes = experiment.recipes.iter();
    let recipes =
        recipes.flat_map(|(name, recipe)| recipe.digests.iter().map(move |(file, digest)| (name, file, digest)));
    experiment.digests.clone().into_iter().chain(recipes.map(of_recipe)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::catalog::Catalog;

    #[test]
    fn a_digest_is_the_usual_one() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of_bytes(b"abc"), abc);
    }

    #[test]
    fn every_file_that_decides_has_one() {
        let digests = of_experiment(&Catalog::default().load("nginx-gunicorn").unwrap());
        for file in ["experiment.toml", "nginx.conf.j2", "app/application.py", "recipe nginx: recipe.toml"] {
            assert!(digests.contains_key(file), "{file} in {:?}", digests.keys());
        }
        assert!(!digests.contains_key("README.md"));
    }
}
