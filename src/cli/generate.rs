//! What is generated from the code: man page, completions, JSON schemas.

use std::{fs, io, path::Path};

use clap_complete::Shell;

use super::{CliError, command, print};
use crate::{experiment::schema, load, report};

/// Shells with a completion file in the repository.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

pub fn completions(shell: Shell) -> Result<(), CliError> {
    print(&completion(shell))
}

/// Writes everything into a folder.
pub fn all(directory: &Path) -> Result<(), CliError> {
    let write = |name: &str, content: &[u8]| -> io::Result<()> {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap_or(directory))?;
        fs::write(path, content)
    };
    let files = || -> io::Result<()> {
        clap_mangen::generate_to(command(), {
            let man = directory.join("man");
            fs::create_dir_all(&man)?;
            man
        })?;
        for shell in SHELLS {
            write(&format!("completions/lasthop.{shell}"), &completion(shell))?;
        }
        write("schema/experiment.json", &pretty(schema::experiment_schema()))?;
        write("schema/recipe.json", &pretty(schema::recipe_schema()))?;
        write("schema/load.json", &pretty(&load::schema()))?;
        write("schema/result.json", &pretty(&report::schema()))?;
        write("schema/study.json", &pretty(crate::study::catalog::schema()))?;
        write("schema/repro.json", &pretty(&schemars::schema_for!(crate::repro::outcome::Repetition).to_value()))
    };
    files().map_err(|error| CliError::failed(format!("cannot write into {}: {error}", directory.display())))
}

fn completion(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "lasthop", &mut script);
    script
}

fn pretty(value: &serde_json::Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("a JSON value can be written");
    text.push(b'\n');
    text
}
