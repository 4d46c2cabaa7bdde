//! Package managers of the system and of languages: two tables.

use super::program::Packages;

/// A package manager of the system.
#[derive(Debug)]
pub struct Manager {
    /// The manager's key in `packages`.
    pub name: &'static str,
    /// The manager's programs. If all are on PATH, this manager is used.
    pub programs: &'static [&'static str],
    /// Pattern of a package name. Managers accept more, which must be refused: options, files, groups, `name-` for a
    /// removal.
    pub pattern: &'static str,
    /// A package name in words, with an example.
    pub expected: &'static str,
    /// Command to which package names are appended: prints a line for each that is installed, and complains about the
    /// others.
    pub installed: &'static [&'static str],
    /// Extracts the package's name from a line that `installed` prints.
    pub installed_name: fn(&str) -> Option<&str>,
    /// The lists of packages, if they need an update before an installation.
    pub lists: Option<Lists>,
    /// Command to which package names are appended: installs them without questions.
    pub install: &'static [&'static str],
    /// The command for an installation by hand.
    pub by_hand: &'static str,
    /// Whether installing needs root.
    pub root: bool,
}

/// A package manager of a language. It installs into a folder of the experiment, where packages disturb nothing else.
#[derive(Debug)]
pub struct Language {
    /// The language's key in `packages`, folder in the data folder, and attribute in templates.
    pub name: &'static str,
    pub packages: &'static str,
    /// Pattern of a name with its version: no option, no file.
    pub pattern: &'static str,
    pub expected: &'static str,
    /// Command that succeeds if the language's packages can be installed on this machine.
    pub works: &'static [&'static str],
    /// The package of the system that `works` needs, by its name for each of `MANAGERS`.
    pub needs: [&'static str; 5],
    /// Whether packages put programs into the folder's `bin`. Such a program elsewhere on the machine would not use the
    /// folder's packages.
    pub programs: bool,
    /// Whether an installation may execute code of a package: `setup.py` of a package without a wheel, `extconf.rb` of
    /// a gem.
    pub runs_scripts: bool,
    /// A file of the folder, and the command that creates it.
    pub base: Option<(&'static str, &'static [&'static str])>,
    /// Command to which package names are appended: installs them into `FOLDER`, which stands for the folder.
    pub install: &'static [&'static str],
}

pub static LANGUAGES: [&Language; 5] = [
    &Language {
        name: "python",
        packages: "Python packages",
        pattern: r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9][A-Za-z0-9.+!_-]*$",
        expected: "a requirement with its version such as \"flask==3.1.3\"",
        // Debian's python3 has `venv` but not `ensurepip`, which is in the package python3-venv.
        // Isolated (`-I`), because a `venv.py` in the working directory would be executed otherwise.
        works: &["python3", "-I", "-c", "import ensurepip, venv"],
        needs: ["python3-venv", "python3", "python3", "python", "python3"],
        programs: true,
        runs_scripts: true,
        base: Some(("bin/python", &["python3", "-I", "-m", "venv", "FOLDER"])),
        install: &[
            "FOLDER/bin/python",
            "-I",
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-input",
            "--",
        ],
    },
    // Without `--`, after which gem expects build flags.
    &Language {
        name: "gems",
        packages: "Ruby gems",
        pattern: r"^[A-Za-z0-9][A-Za-z0-9._-]*:[0-9][A-Za-z0-9.-]*$",
        expected: "a gem with its version such as \"rack:3.1.8\"",
        works: &["gem", "--version"],
        needs: ["ruby"; 5],
        programs: true,
        runs_scripts: true,
        base: None,
        install: &[
            "gem",
            "install",
            "--no-document",
            "--install-dir",
            "FOLDER",
            "--bindir",
            "FOLDER/bin",
        ],
    },
    // `--ignore-scripts`, so that no code of a package runs.
    &Language {
        name: "npm",
        packages: "npm packages",
        pattern: r"^(@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*@[0-9][A-Za-z0-9.+-]*$",
        expected: "an npm package with its version such as \"express@5.1.0\"",
        works: &["npm", "--version"],
        needs: ["npm", "nodejs-npm", "npm", "npm", "node"],
        programs: false,
        runs_scripts: false,
        base: None,
        install: &[
            "npm",
            "install",
            "--prefix",
            "FOLDER",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--",
        ],
    },
    // Dependencies of an artifact are not installed: the experiment must name them too. Names of files have no version,
    // so that a new version replaces the old one.
    &Language {
        name: "maven",
        packages: "Maven artifacts",
        pattern: r"^[A-Za-z0-9][A-Za-z0-9._-]*:[A-Za-z0-9][A-Za-z0-9._-]*:[0-9][A-Za-z0-9.-]*$",
        expected: "a Maven artifact with its version such as \"org.postgresql:postgresql:42.7.7\"",
        works: &["mvn", "--version"],
        needs: ["maven"; 5],
        programs: false,
        runs_scripts: false,
        base: None,
        install: &[
            "sh",
            "-ec",
            "for artifact; do mvn --batch-mode --quiet org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
             -Dmdep.stripVersion=true -DoutputDirectory=\"$0\" -Dartifact=\"$artifact\"; done",
            "FOLDER",
        ],
    },
    // A module that requires the packages and all their dependencies, so that a build needs no network.
    &Language {
        name: "go",
        packages: "Go packages",
        pattern: r"^[A-Za-z0-9][A-Za-z0-9._~/-]*@v[0-9][A-Za-z0-9.+-]*$",
        expected: "a Go package with its version such as \"github.com/jackc/pgx/v5/pgxpool@v5.5.5\"",
        works: &["go", "version"],
        needs: ["golang-go", "golang", "go", "go", "go"],
        programs: false,
        runs_scripts: false,
        base: None,
        install: &[
            "sh",
            "-ec",
            "mkdir -p \"$0\"; cd \"$0\"; export GOMODCACHE=\"$0/cache\" GOFLAGS=-modcacherw GOTOOLCHAIN=local; \
             [ -e go.mod ] || go mod init lasthop; go get -- \"$@\"",
            "FOLDER",
        ],
    },
];

/// A manager's lists of packages.
#[derive(Debug)]
pub struct Lists {
    /// Command to which package names are appended: prints their entries in the lists.
    pub query: &'static [&'static str],
    /// Extracts from the output of `query` the names of the packages that the lists contain.
    pub known: fn(&str) -> Vec<&str>,
    pub update: &'static [&'static str],
}

/// Pattern of a package name. A digit must follow a full stop, as in a version, so that file names are refused.
const PATTERN: &str = r"^[A-Za-z0-9_]([A-Za-z0-9_+-]|\.[0-9])*$";

pub static APT: Manager = Manager {
    name: "apt",
    programs: &["apt-get", "dpkg-query"],
    pattern: r"^[a-z0-9][a-z0-9.+-]*[a-z0-9.+]$",
    expected: "the name of a Debian package such as \"python3-venv\"",
    installed: &["dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\\n", "--"],
    installed_name: |line| line.strip_suffix(" installed"),
    lists: Some(Lists {
        query: &["apt-cache", "policy", "--"],
        known: policy,
        // Through `env`, because sudo drops its caller's variables.
        update: &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "update"],
    }),
    install: &[
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "install",
        "--yes",
        "--no-install-recommends",
        "--",
    ],
    by_hand: "apt-get install --no-install-recommends",
    root: true,
};

/// All managers of the system. The first that is on the machine is used.
pub static MANAGERS: [&Manager; 5] = [
    &APT,
    &Manager {
        name: "dnf",
        programs: &["dnf", "rpm"],
        pattern: PATTERN,
        expected: "the name of an RPM package such as \"python3-pip\"",
        installed: &["rpm", "-q", "--queryformat", "%{NAME}\\n", "--"],
        installed_name: |line| Some(line.trim_end()),
        lists: None,
        // Without `--`, which dnf5 accepts only since 5.4.3; no name begins with `-`.
        install: &["dnf", "install", "--assumeyes", "--setopt=install_weak_deps=False"],
        by_hand: "dnf install",
        root: true,
    },
    &Manager {
        name: "apk",
        programs: &["apk"],
        pattern: PATTERN,
        expected: "the name of an Alpine package such as \"py3-pip\"",
        installed: &["apk", "info", "--installed", "--"],
        installed_name: |line| Some(line.trim_end()),
        lists: None,
        install: &["apk", "add", "--update-cache", "--"],
        by_hand: "apk add",
        root: true,
    },
    &Manager {
        name: "pacman",
        programs: &["pacman"],
        pattern: PATTERN,
        expected: "the name of an Arch package such as \"python-pip\"",
        installed: &["pacman", "-Qq", "--"],
        installed_name: |line| Some(line.trim_end()),
        lists: None,
        install: &["pacman", "-S", "--needed", "--noconfirm", "--"],
        by_hand: "pacman -S",
        root: true,
    },
    &Manager {
        name: "brew",
        programs: &["brew"],
        pattern: r"^[a-z0-9]([a-z0-9_+@-]|\.[0-9])*$",
        expected: "the name of a Homebrew formula such as \"python@3.13\"",
        installed: &["brew", "list", "--versions", "--"],
        installed_name: |line| line.split_once(' ').map(|(name, _)| name),
        lists: None,
        install: &["brew", "install", "--formula", "--"],
        by_hand: "brew install",
        root: false,
    },
];

impl Manager {
    /// Appends package names to the words of a command.
    pub fn command<'a>(words: &[&str], names: impl IntoIterator<Item = &'a String>) -> Vec<String> {
        words
            .iter()
            .map(ToString::to_string)
            .chain(names.into_iter().cloned())
            .collect()
    }
}

/// Advice to install packages by hand, if they have no known name for this manager.
pub fn unnamed(packages: &Packages, manager: Option<&Manager>) -> Option<String> {
    let named = |manager: &&Manager| packages.0.contains_key(manager.name);
    let known_by = MANAGERS
        .into_iter()
        .find(named)
        .filter(|_| !manager.as_ref().is_some_and(named))?;
    let lacking = manager.map_or_else(
        || {
            format!(
                "no package manager was found ({})",
                MANAGERS.map(|manager| manager.name).join(", ")
            )
        },
        |manager| format!("no package name for {} is known", manager.name),
    );
    Some(format!(
        "{lacking}: install {} yourself (as {} calls it)",
        packages.names_for(known_by.name).join(", "),
        known_by.name
    ))
}

/// Names of the packages that `apt-cache policy` knows. It prints a paragraph for each: `name:`, then its candidate.
fn policy(text: &str) -> Vec<&str> {
    let mut name = "";
    let mut known = Vec::new();
    for line in text.lines() {
        match line.trim_start().strip_prefix("Candidate: ") {
            Some(candidate) if candidate != "(none)" => known.push(name),
            Some(_) => {}
            None if !line.starts_with(' ') => name = line.trim_end_matches(':'),
            None => {}
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_manager_takes_a_name_for_an_option() {
        for manager in MANAGERS {
            let ends = |words: &[&str]| words.last() == Some(&"--");
            assert!(ends(manager.installed), "{manager:?}");
            assert!(
                manager.lists.as_ref().is_none_or(|lists| ends(lists.query)),
                "{manager:?}"
            );
            assert!(ends(manager.install) || manager.name == "dnf", "{manager:?}");
            let first = manager
                .pattern
                .strip_prefix("^[")
                .and_then(|rest| rest.split_once(']'))
                .unwrap()
                .0;
            assert!(["a-z0-9", "A-Za-z0-9_"].contains(&first), "{manager:?}");
            assert!(manager.pattern.ends_with('$'), "{manager:?}");
        }
    }

    #[test]
    fn what_is_installed_is_read() {
        let read = |name: &str, line: &'static str| {
            let manager = MANAGERS.into_iter().find(|manager| manager.name == name).unwrap();
            (manager.installed_name)(line)
        };
        assert_eq!(read("apt", "nginx installed"), Some("nginx"));
        assert_eq!(read("apt", "nginx config-files"), None);
        assert_eq!(read("dnf", "nginx"), Some("nginx"));
        assert_eq!(read("brew", "python@3.13 3.13.2 3.13.1"), Some("python@3.13"));
        assert_eq!(
            policy("a:\n  Installed: (none)\n  Candidate: 1.2\nb:\n  Candidate: (none)\n"),
            ["a"]
        );
    }

    #[test]
    fn what_has_no_name_is_said() {
        let packages = Packages::named([("apt", "redis-server")]);
        assert_eq!(unnamed(&packages, Some(&APT)), None);
        assert_eq!(
            unnamed(&packages, Some(MANAGERS[1])).unwrap(),
            "no package name for dnf is known: install redis-server yourself (as apt calls it)"
        );
        assert!(
            unnamed(&packages, None)
                .unwrap()
                .starts_with("no package manager was found (apt, dnf, ")
        );
        assert_eq!(unnamed(&Packages::default(), None), None);
    }
}
