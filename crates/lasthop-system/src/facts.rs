//! Reads small files of `/proc`, `/sys` and `/etc`; in tests, below another root.

use std::{fs, path::PathBuf};

use crate::files;

/// A tree of system files.
#[derive(Clone, Debug)]
pub struct Facts {
    root: PathBuf,
}

impl Facts {
    /// The files of this machine.
    pub fn here() -> Self {
        Self::below("/")
    }

    /// The files of a tree that imitates a machine.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file's text, trimmed.
    pub fn text(&self, path: &str) -> Option<String> {
        let text = files::text(self.path(path)).ok()?;
        Some(text.trim().to_owned())
    }

    pub fn number(&self, path: &str) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Names in a directory, sorted.
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// Value of the first line `name : value` or `name=value`.
    pub fn field(&self, path: &str, name: &str) -> Option<String> {
        let text = self.text(path)?;
        text.lines().find_map(|line| {
            let (key, value) = line.split_once([':', '='])?;
            (key.trim() == name).then(|| value.trim().trim_matches('"').to_owned())
        })
    }

    /// A kernel setting by its name with dots.
    pub fn sysctl(&self, name: &str) -> Option<String> {
        let text = self.text(&format!("/proc/sys/{}", name.replace('.', "/")))?;
        Some(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// A size of `/proc/meminfo` in bytes.
    pub fn memory(&self, name: &str) -> Option<u64> {
        let value = self.field("/proc/meminfo", name)?;
        value
            .split_ascii_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
            .map(|kibibytes| kibibytes * 1024)
    }

    /// Number of CPUs that are online.
    pub fn cpus(&self) -> u32 {
        let text = self.text("/proc/stat").unwrap_or_default();
        // The first line is the sum of all CPUs.
        text.lines().skip(1).take_while(|line| line.starts_with("cpu")).count() as u32
    }

    /// One-, five- and fifteen-minute load.
    pub fn load_average(&self) -> [f64; 3] {
        let text = self.text("/proc/loadavg").unwrap_or_default();
        let mut numbers = text.split_ascii_whitespace().map_while(|word| word.parse().ok());
        std::array::from_fn(|_| numbers.next().unwrap_or(0.0))
    }
}
