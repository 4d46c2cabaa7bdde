//! Digests of the files of a run, by which `lasthop resume` checks that nothing has changed.

use std::path::Path;

use lasthop_model::record::Digests;
use lasthop_system::digest::of_bytes;

use super::{files::Files, model::Experiment};

/// Digests of the files of a folder by path, except pages for people, which do not affect a measurement.
pub(super) fn of_files(files: &Files) -> Digests {
    let deciding = files
        .iter()
        .filter(|(path, _)| path.as_path() != Path::new("README.md"));
    deciding
        .map(|(path, bytes)| (path.display().to_string(), of_bytes(bytes)))
        .collect()
}

/// Digests of all files of an experiment and of the recipes that its cases may use.
pub fn of_experiment(experiment: &Experiment) -> Digests {
    let mut all = experiment.digests.clone();
    for (name, recipe) in &experiment.recipes {
        all.extend(
            recipe
                .digests
                .iter()
                .map(|(file, digest)| (format!("recipe {name}: {file}"), digest.clone())),
        );
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Catalog;

    #[test]
    fn every_file_that_decides_has_one() {
        let digests = of_experiment(&Catalog::default().load("nginx-gunicorn").unwrap());
        for file in [
            "experiment.toml",
            "nginx.conf.j2",
            "app/application.py",
            "recipe nginx: recipe.toml",
        ] {
            assert!(digests.contains_key(file), "{file} in {:?}", digests.keys());
        }
        assert!(!digests.contains_key("README.md"));
    }
}
