//! The Debian packages installed on this machine: which package owns a file, its dependencies, its files.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

/// The database of dpkg.
#[derive(Debug)]
pub struct Installed {
    info: PathBuf,
    packages: HashMap<String, Package>,
    /// Packages by the names that they provide.
    provided: HashMap<String, Vec<String>>,
}

#[derive(Debug, Default)]
struct Package {
    version: String,
    architecture: String,
    /// Alternatives of each dependency.
    needs: Vec<Vec<String>>,
}

impl Installed {
    /// Reads `/var/lib/dpkg`.
    /// Errors: this is not a Debian system, or the database cannot be read.
    pub fn read() -> io::Result<Self> {
        let status = fs::read_to_string("/var/lib/dpkg/status")?;
        Ok(Self::parse(&status, PathBuf::from("/var/lib/dpkg/info")))
    }

    fn parse(status: &str, info: PathBuf) -> Self {
        let mut installed = Self {
            info,
            packages: HashMap::new(),
            provided: HashMap::new(),
        };
        for paragraph in status.split("\n\n") {
            let field = |name: &str| {
                paragraph
                    .lines()
                    .find_map(|line| line.strip_prefix(name))
                    .map(str::trim)
            };
            let (Some(name), Some(state)) = (field("Package:"), field("Status:")) else {
                continue;
            };
            if !state.ends_with(" installed") {
                continue;
            }
            for virtual_name in names(field("Provides:").unwrap_or_default()).into_iter().flatten() {
                installed
                    .provided
                    .entry(virtual_name)
                    .or_default()
                    .push(name.to_owned());
            }
            let mut needs = names(field("Pre-Depends:").unwrap_or_default());
            needs.extend(names(field("Depends:").unwrap_or_default()));
            let text = |name: &str| field(name).unwrap_or_default().to_owned();
            let package = Package {
                version: text("Version:"),
                architecture: text("Architecture:"),
                needs,
            };
            installed.packages.insert(name.to_owned(), package);
        }
        installed
    }

    pub fn has(&self, package: &str) -> bool {
        self.packages.contains_key(package)
    }

    /// The package that owns a file.
    pub fn owner(&self, file: &Path) -> Option<String> {
        self.owners(&[file.to_owned()]).pop_first()
    }

    /// The packages that own these files. A package may list a file with or without `/usr` in front.
    pub fn owners(&self, files: &[PathBuf]) -> BTreeSet<String> {
        let names = files.iter().filter_map(|file| file.to_str());
        let wanted: HashSet<&str> = names
            .flat_map(|name| [name, name.strip_prefix("/usr").unwrap_or(name)])
            .collect();
        let owns = |name: &&String| {
            fs::read_to_string(self.list(name)).is_ok_and(|text| text.lines().any(|line| wanted.contains(line)))
        };
        self.packages.keys().filter(owns).cloned().collect()
    }

    /// These packages and all their installed dependencies, each with its version.
    pub fn closure(&self, roots: &BTreeSet<String>) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let mut next: Vec<&str> = roots.iter().map(String::as_str).collect();
        while let Some(name) = next.pop() {
            for name in std::iter::once(name).chain(self.provided.get(name).into_iter().flatten().map(String::as_str)) {
                let Some(package) = self.packages.get(name) else {
                    continue;
                };
                if found.insert(name.to_owned(), package.version.clone()).is_none() {
                    next.extend(package.needs.iter().flatten().map(String::as_str));
                }
            }
        }
        found
    }

    /// The files of a package, directories included, as dpkg lists them.
    /// Errors: the list cannot be read.
    pub fn files(&self, package: &str) -> io::Result<Vec<PathBuf>> {
        let text = fs::read_to_string(self.list(package))?;
        Ok(text
            .lines()
            .filter(|line| line.starts_with('/') && *line != "/.")
            .map(PathBuf::from)
            .collect())
    }

    fn list(&self, package: &str) -> PathBuf {
        let architecture = self
            .packages
            .get(package)
            .map_or("", |package| package.architecture.as_str());
        let qualified = self.info.join(format!("{package}:{architecture}.list"));
        if qualified.exists() {
            qualified
        } else {
            self.info.join(format!("{package}.list"))
        }
    }
}

/// `a (>= 1), b:any | c` as `[[a], [b, c]]`.
fn names(field: &str) -> Vec<Vec<String>> {
    let name = |text: &str| {
        let text = text.split('(').next().unwrap_or_default().trim();
        text.split(':').next().unwrap_or_default().to_owned()
    };
    field
        .split(',')
        .map(|alternatives| {
            alternatives
                .split('|')
                .map(name)
                .filter(|name| !name.is_empty())
                .collect::<Vec<_>>()
        })
        .filter(|alternatives| !alternatives.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "\
Package: app\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\nDepends: lib (>= 2), shell | other:any\n
Package: lib\nStatus: install ok installed\nVersion: 2\nDepends: gone\n
Package: dash\nStatus: install ok installed\nVersion: 3\nProvides: shell (= 1)\n
Package: gone\nStatus: deinstall ok config-files\nVersion: 4\n
Package: aside\nStatus: install ok installed\nVersion: 5\n";

    #[test]
    fn the_closure_follows_alternatives_and_virtual_names_of_what_is_installed() {
        let installed = Installed::parse(STATUS, PathBuf::from("/nowhere"));
        let closure = installed.closure(&BTreeSet::from(["app".to_owned()]));
        assert_eq!(closure.keys().collect::<Vec<_>>(), ["app", "dash", "lib"]);
        assert_eq!(closure["lib"], "2");
    }
}
