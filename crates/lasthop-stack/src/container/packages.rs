//! The Debian packages installed on this machine, as dpkg tells: which package owns a file, its dependencies, its
//! files.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::OsStr,
    path::PathBuf,
    process::Command,
};

use lasthop_system::command;

use super::image::TIMEOUT;

/// The fields of a package, with tabs between them.
const FIELDS: &str =
    "${db:Status-Status}\t${Package}\t${binary:Package}\t${Version}\t${Provides}\t${Pre-Depends},${Depends}\n";

/// What is installed.
#[derive(Debug)]
pub struct Installed {
    packages: HashMap<String, Package>,
    /// Packages by the names that they provide.
    provided: HashMap<String, Vec<String>>,
}

#[derive(Debug)]
struct Package {
    /// Its name, with its architecture where several can be installed.
    qualified: String,
    version: String,
    /// All alternatives of all dependencies.
    needs: Vec<String>,
}

impl Installed {
    pub fn read() -> Result<Self, String> {
        Ok(Self::parse(&dpkg(["--show", "--showformat", FIELDS])?))
    }

    fn parse(lines: &str) -> Self {
        let mut installed = Self {
            packages: HashMap::new(),
            provided: HashMap::new(),
        };
        for line in lines.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let ["installed", name, qualified, version, provides, needs] = fields[..] else {
                continue;
            };
            for other in names(provides) {
                installed.provided.entry(other).or_default().push(name.to_owned());
            }
            let package = Package {
                qualified: qualified.to_owned(),
                version: version.to_owned(),
                needs: names(needs),
            };
            installed.packages.insert(name.to_owned(), package);
        }
        installed
    }

    pub fn has(&self, package: &str) -> bool {
        self.packages.contains_key(package)
    }

    /// These packages and all their installed dependencies, each with its version.
    pub fn closure(&self, roots: &BTreeSet<String>) -> BTreeMap<String, String> {
        let mut closure = BTreeMap::new();
        let mut next: Vec<&str> = roots.iter().map(String::as_str).collect();
        while let Some(name) = next.pop() {
            let providers = self.provided.get(name).into_iter().flatten().map(String::as_str);
            for name in providers.chain([name]) {
                let Some(package) = self.packages.get(name) else {
                    continue;
                };
                if closure.insert(name.to_owned(), package.version.clone()).is_none() {
                    next.extend(package.needs.iter().map(String::as_str));
                }
            }
        }
        closure
    }

    /// The files of packages, directories included.
    pub fn files<'a>(&self, packages: impl Iterator<Item = &'a String>) -> Result<Vec<PathBuf>, String> {
        let qualified = packages.filter_map(|name| Some(self.packages.get(name)?.qualified.as_str()));
        let text = dpkg(["--listfiles"].into_iter().chain(qualified))?;
        // `/.` is how dpkg lists the root itself.
        let files = text.lines().filter(|line| line.starts_with('/') && *line != "/.");
        Ok(files.map(PathBuf::from).collect())
    }
}

/// The packages that own these files. A package may list a file with or without `/usr` in front.
pub fn owners(files: &[PathBuf]) -> BTreeSet<String> {
    let both = files.iter().flat_map(|file| {
        let bare = file
            .strip_prefix("/usr")
            .ok()
            .map(|below| PathBuf::from("/").join(below));
        [Some(file.clone()), bare]
    });
    let both = both.flatten().map(PathBuf::into_os_string);
    let text = dpkg(["--search".into()].into_iter().chain(both)).unwrap_or_default();
    // `diversion by PACKAGE from: PATH` names who diverts a file, not who owns it.
    let owners = text.lines().filter(|line| !line.starts_with("diversion by "));
    owners
        .filter_map(|line| line.split_once(": /"))
        .flat_map(|(owners, _)| names(owners))
        .collect()
}

/// What dpkg answers, also where it does not know all that it is asked for.
fn dpkg<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Result<String, String> {
    let mut command = Command::new("dpkg-query");
    command.args(arguments).env("LC_ALL", "C");
    match command::run(command, TIMEOUT, command::Life::Bound) {
        Ok(ended) => Ok(ended.output),
        Err(error) => Err(format!(
            "cannot build an image from this machine's packages: dpkg-query: {error} (this takes Debian or one of its \
             derivatives)"
        )),
    }
}

/// `a (>= 1), b:any | c` as `[a, b, c]`.
fn names(field: &str) -> Vec<String> {
    let name = |text: &str| text.split(['(', ':']).next().unwrap_or_default().trim().to_owned();
    field
        .split([',', '|'])
        .map(name)
        .filter(|name| !name.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
        installed\tapp\tapp\t1\t\t,lib (>= 2), shell | other:any\n\
        installed\tlib\tlib:amd64\t2\t\t,gone\n\
        installed\tdash\tdash\t3\tshell (= 1)\t,\n\
        config-files\tgone\tgone\t4\t\t,\n\
        installed\taside\taside\t5\t\t,\n";

    #[test]
    fn the_closure_follows_alternatives_and_virtual_names_of_what_is_installed() {
        let closure = Installed::parse(LINES).closure(&BTreeSet::from(["app".to_owned()]));
        assert_eq!(closure.keys().collect::<Vec<_>>(), ["app", "dash", "lib"]);
        assert_eq!(closure["lib"], "2");
    }
}
