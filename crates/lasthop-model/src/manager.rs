//! Package managers of the system and of languages: two tables.

use super::program::Packages;

/// A package manager.
#[derive(Debug)]
pub struct Manager {
    /// Its key in `packages`.
    pub name: &'static str,
    /// Its programs, all on PATH where it is the one to ask.
    pub programs: &'static [&'static str],
    /// What a name looks like. Managers take more: options, files, groups, `name-` for a removal.
    pub pattern: &'static str,
    /// What a name is, with an example.
    pub expected: &'static str,
    /// Prints a line for each of the packages, whose names follow, that is installed, and complains about the others.
    pub installed: &'static [&'static str],
    /// The name in such a line.
    pub installed_name: fn(&str) -> Option<&str>,
    /// Its lists of packages, if somebody has to update them.
    pub lists: Option<Lists>,
    /// Installs the packages whose names follow, and asks nothing.
    pub install: &'static [&'static str],
    /// The same by hand.
    pub by_hand: &'static str,
    /// Whether installing needs root.
    pub root: bool,
}

/// A package manager of a language, which installs into a folder of the experiment, where that disturbs nothing else.
#[derive(Debug)]
pub struct Language {
    /// Its key in `packages`; its folder in the data folder; its attribute in templates.
    pub name: &'static str,
    pub packages: &'static str,
    /// What a name with its version looks like: no option, no file.
    pub pattern: &'static str,
    pub expected: &'static str,
    /// Ends well where it can install.
    pub works: &'static [&'static str],
    /// The package of the system that it needs for that, as each of `MANAGERS` calls it.
    pub needs: [&'static str; 5],
    /// There are programs in the folder `bin` of its folder, and the machine may have others with packages of their own.
    pub programs: bool,
    /// Installing a package may execute what comes with it: `setup.py` of one without a wheel, `extconf.rb` of a gem.
    pub runs_scripts: bool,
    /// A file in the folder, and the command that makes it.
    pub base: Option<(&'static str, &'static [&'static str])>,
    /// Installs the packages whose names follow. `FOLDER` is the folder.
    pub install: &'static [&'static str],
}

pub static LANGUAGES: [&Language; 5] = [
    &Language {
        name: "python",
        packages: "Python packages",
        pattern: r"^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9][A-Za-z0-9.+!_-]*$",
        expected: "a requirement with its version such as \"flask==3.1.3\"",
        // Debian's python3 has `venv` but not `ensurepip`, which is in the package python3-venv.
        // Isolated (`-I`), or a file of the working directory that is called `venv.py` would be executed.
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
    // No `--`, after which gem expects build flags.
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
    // No program of a package runs.
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
    // Without what an artifact depends on: the experiment names that, too. A file has no version in its name, so that another
    // one replaces it.
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
    // A module that needs the packages, beside all that they need: who builds there asks no network.
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

/// Lists of packages.
#[derive(Debug)]
pub struct Lists {
    /// Prints what they know of the packages whose names follow.
    pub query: &'static [&'static str],
    /// The names of those that they know.
    pub known: fn(&str) -> Vec<&str>,
    pub update: &'static [&'static str],
}

/// A full stop is part of a version and begins no suffix, as of a file.
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
        // Through `env`, because sudo drops the variables of its caller.
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

/// The first that is on the machine is used.
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
        // No `--`, which dnf5 takes only since 5.4.3; no name begins with `-`.
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
    /// The words of a command about these packages.
    pub fn command<'a>(words: &[&str], names: impl IntoIterator<Item = &'a String>) -> Vec<String> {
        words
            .iter()
            .map(ToString::to_string)
            .chain(names.into_iter().cloned())
            .collect()
    }
}

/// What to install by hand, because no name of it is known for this manager.
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
        packages.of(known_by.name).join(", "),
        known_by.name
    ))
}

/// `apt-cache policy` prints a paragraph for each package of the lists, `name:` first, then its candidate.
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
