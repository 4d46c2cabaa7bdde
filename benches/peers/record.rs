//! Prints the tables and, with `--save`, keeps them as data beside a description of the machine.

use std::{fs, path::PathBuf, process::Command};

use crate::{
    Settings,
    page::{self, Row},
    table,
};

pub struct Record {
    /// `benches/record/DATE`, if the figures are saved.
    folder: Option<PathBuf>,
}

impl Record {
    /// Describes the machine first, before the load of the measurement.
    pub fn new(settings: &Settings) -> Result<Self, String> {
        let machine = machine();
        println!("{machine}");
        if !settings.save {
            return Ok(Self { folder: None });
        }
        let folder = root().join("benches/record").join(printed("date", &["+%F"]).trim());
        let file = folder.join("machine.txt");
        let made = fs::create_dir_all(&folder).and_then(|()| fs::write(&file, machine));
        made.map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Self { folder: Some(folder) })
    }

    /// Adds a table. A table without rows was not measured.
    pub fn add<R: Row>(&mut self, rows: &[R]) -> Result<(), String> {
        if rows.is_empty() {
            return Ok(());
        }
        println!("{}", page::table(rows));
        let Some(folder) = &self.folder else { return Ok(()) };
        let file = folder.join(R::NAME).with_extension("csv");
        let write = || {
            let mut writer = csv::Writer::from_path(&file)?;
            rows.iter().try_for_each(|row| writer.serialize(row))?;
            writer.flush().map_err(csv::Error::from)
        };
        write().map_err(|error| format!("{}: {error}", file.display()))
    }

    pub fn finish(self) -> Result<(), String> {
        if self.folder.is_none() {
            return Ok(());
        }
        let file = root().join("docs/performance.md");
        let told = |error| format!("{}: {error}", file.display());
        let old = fs::read_to_string(&file).map_err(told)?;
        fs::write(&file, page::page(&old, &root().join("benches/record"))?).map_err(told)
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Facts about the machine that a reader needs to judge the figures.
fn machine() -> String {
    let programs = [
        ("nginx", "-v"),
        ("/usr/lib/postgresql/15/bin/postgres", "--version"),
        ("mariadbd", "--version"),
        ("redis-server", "--version"),
        ("wrk", "--version"),
        ("h2load", "--version"),
        ("oha", "--version"),
        ("vegeta", "-version"),
        ("sockperf", "--version"),
    ];
    let versions = programs.into_iter().filter_map(|(program, option)| {
        let text = printed(program, &[option]);
        text.lines()
            .find(|line| !line.trim().is_empty())
            .map(|line| format!("{}\n", line.trim()))
    });
    let commit = printed("git", &["rev-parse", "--short", "HEAD"]);
    format!(
        "{}\nlasthop {}\n{}",
        table::environment(),
        commit.trim(),
        versions.collect::<String>()
    )
}

/// The output of a program; empty if there is no such program.
fn printed(program: &str, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else {
        return String::new();
    };
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}
