//! Finds the program of a recipe, and its version.

use std::{
    collections::BTreeMap,
    env,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use lasthop_model::{
    manager::LANGUAGES,
    program::{Packages, Program, Version},
};
use lasthop_system::{command, executable::own_executable, files};
use regex::Regex;

use super::{
    home::Home,
    setup::{NEUTRAL, STAMP},
};

/// The longest time for a program to print its version. Python with cold caches needs a second or two.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);

/// The version of a program whose recipe has no way to ask for it.
const UNKNOWN: &str = "of unknown version";

#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    #[error("{} was not found; {remedy} (looked in {})", either(names), places(looked))]
    NotFound {
        names: Vec<String>,
        looked: Vec<PathBuf>,
        remedy: String,
    },
    #[error("cannot find out the version of {path}: {cause}{}", quoted(output))]
    Version {
        path: PathBuf,
        cause: String,
        output: String,
    },
    #[error("{0}")]
    Unusable(String),
}

impl LocateError {
    /// The error in one line: without the folders, and with only the last line of a program's output.
    #[must_use]
    pub fn brief(&self) -> String {
        match self {
            Self::NotFound { names, remedy, .. } => format!("{} was not found; {remedy}", either(names)),
            Self::Version { path, cause, output } => {
                let said = output
                    .lines()
                    .rev()
                    .map(str::trim)
                    .find(|line| !line.is_empty())
                    .unwrap_or(cause);
                format!("cannot find out the version of {}: {said}", path.display())
            }
            other => other.to_string(),
        }
    }
}

fn either(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(" or ")
}

fn places(looked: &[PathBuf]) -> String {
    let looked: Vec<String> = looked.iter().map(|path| path.display().to_string()).collect();
    looked.join(", ")
}

fn quoted(output: &str) -> String {
    let lines = output.trim_end().lines().take(20);
    lines.map(|line| format!("\n    {line}")).collect()
}

/// The first file of this name in a folder of `PATH`.
pub fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// A program with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Absolute path. Symbolic links are kept, because a virtual environment is recognised by the path of its links.
    pub path: PathBuf,
    pub version: String,
}

/// Finds programs and packages.
#[derive(Clone, Debug)]
pub struct Locator {
    /// The experiment, as an argument of `lasthop setup`.
    experiment: String,
    /// Paths that the user gave, by name of a recipe or program.
    given: BTreeMap<String, PathBuf>,
    /// Folders of the packages that `lasthop setup` installs, by language.
    packages: BTreeMap<&'static str, PathBuf>,
    /// lasthop's own environments, then `PATH`.
    folders: Vec<PathBuf>,
}

impl Locator {
    /// Looks in the environments of the experiment, then on `PATH`. `given` maps names of recipes or programs to files
    /// to use instead.
    pub fn new(home: &Home, experiment: &str, given: BTreeMap<String, PathBuf>) -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        let packages = LANGUAGES.map(|language| (language.name, home.packages(language.name, experiment)));
        let own = LANGUAGES
            .iter()
            .zip(&packages)
            .filter(|(language, _)| language.programs);
        // A relative folder of `PATH` would depend on the working directory, which differs between servers.
        let folders = own
            .map(|(_, (_, folder))| folder.join("bin"))
            .chain(env::split_paths(&path).filter(|folder| folder.is_absolute()))
            .collect();
        Self {
            experiment: experiment.to_owned(),
            given,
            folders,
            packages: packages.into(),
        }
    }

    /// The folder of the experiment's packages of a language.
    pub fn packages(&self, language: &str) -> PathBuf {
        self.packages[language].clone()
    }

    /// The packages that `lasthop setup` has yet to install, in words.
    pub fn lacks(&self, packages: &Packages) -> Option<String> {
        let mut languages = packages.languages().filter(|language| !language.programs);
        let language = languages.find(|language| {
            let list = files::text(self.packages[language.name].join(STAMP)).unwrap_or_default();
            let mut names = packages.names_for(language.name).iter();
            !names.all(|name| list.lines().any(|line| line == name))
        })?;
        Some(format!(
            "its {} are not installed; `{}` installs them",
            language.packages,
            self.setup()
        ))
    }

    /// Sets the argument of `lasthop setup` in advice: for an experiment in a folder, the path of the folder.
    #[must_use]
    pub fn called(self, experiment: String) -> Self {
        Self { experiment, ..self }
    }

    /// The command that installs an experiment's programs and packages.
    #[must_use]
    pub fn setup(&self) -> String {
        format!("lasthop setup {}", self.experiment)
    }

    /// A locator of classic tools, which `lasthop setup --tools` installs.
    pub fn for_tools(&self) -> Self {
        Self {
            experiment: "--tools".to_owned(),
            ..self.clone()
        }
    }

    /// The program of the recipe of this name.
    pub fn locate(&self, recipe: &str, program: &Program) -> Result<Located, LocateError> {
        if program.lasthop {
            return self.lasthop(recipe);
        }
        let path = self.find(recipe, program)?;
        let version = match &program.version {
            Some(version) => printed_version(Command::new(&path), &path, version)?,
            None => UNKNOWN.to_owned(),
        };
        new_enough(path, version, program, || {
            format!("`{}` may install a newer one", self.setup())
        })
    }

    /// Whether a program exists, in any version.
    pub fn is_there(&self, recipe: &str, program: &Program) -> bool {
        program.lasthop || self.find(recipe, program).is_ok()
    }

    /// The program given for lasthop, or else lasthop's own executable.
    fn lasthop(&self, recipe: &str) -> Result<Located, LocateError> {
        let given = self.given([recipe, "lasthop"].into_iter())?;
        Ok(Located {
            path: given.unwrap_or_else(|| own_executable().unwrap_or_else(|_| "/proc/self/exe".to_owned()).into()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    /// The file given for one of the names, if it is executable.
    fn given<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<Option<PathBuf>, LocateError> {
        for name in names {
            if let Some(path) = self.given.get(name) {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                if is_executable(&path) {
                    return Ok(Some(path));
                }
                return Err(LocateError::Unusable(format!(
                    "{}, given for `{name}`, is not an executable file: correct --program {name}=PATH",
                    path.display()
                )));
            }
        }
        Ok(None)
    }

    fn find(&self, recipe: &str, program: &Program) -> Result<PathBuf, LocateError> {
        let names = &program.names;
        if let Some(path) = self.given(std::iter::once(recipe).chain(names.iter().map(String::as_str)))? {
            return Ok(path);
        }
        let mut looked: Vec<PathBuf> = Vec::new();
        for folder in self.folders.iter().chain(&program.folders) {
            if !looked.contains(folder) {
                looked.push(folder.clone());
            }
        }
        let mut candidates = looked
            .iter()
            .flat_map(|folder| names.iter().map(|name| folder.join(name)));
        if let Some(path) = candidates.find(|path| is_executable(path)) {
            return Ok(path);
        }
        let usual = if program.packages.is_empty() {
            format!("no package of it is known: install it yourself, or name its file with --program {recipe}=PATH")
        } else {
            format!("`{}` installs it", self.setup())
        };
        Err(LocateError::NotFound {
            names: names.clone(),
            looked,
            remedy: program.obtain.clone().unwrap_or(usual),
        })
    }
}

fn new_enough(
    path: PathBuf,
    version: String,
    program: &Program,
    remedy: impl Fn() -> String,
) -> Result<Located, LocateError> {
    let minimum = program.version.as_ref().and_then(|version| version.minimum.as_ref());
    match minimum {
        Some(minimum) if is_older(&version, minimum) => Err(LocateError::Unusable(format!(
            "{} has version {version}, but at least {minimum} is needed; {}",
            path.display(),
            remedy()
        ))),
        _ => Ok(Located { path, version }),
    }
}

/// The program of a recipe in another file system, such as a container's. Looks in `folders`, then in the recipe's own
/// folders, for the first program that prints its version. `start` turns a path into a command.
pub fn within(
    program: &Program,
    folders: &[PathBuf],
    start: &dyn Fn(&Path) -> Command,
) -> Result<Located, LocateError> {
    let mut looked: Vec<PathBuf> = folders.to_vec();
    if program.lasthop {
        return Err(LocateError::NotFound {
            names: vec!["lasthop".to_owned()],
            looked,
            remedy: "lasthop's own server does not run in a container".to_owned(),
        });
    }
    let own = program.folders.iter().filter(|folder| !folders.contains(folder));
    looked.extend(own.cloned());
    for path in looked
        .iter()
        .flat_map(|folder| program.names.iter().map(|name| folder.join(name)))
    {
        if let Some(version) = &program.version
            && let Ok(version) = printed_version(start(&path), &path, version)
        {
            return new_enough(path, version, program, || {
                "add a newer version to the Containerfile".to_owned()
            });
        }
    }
    Err(LocateError::NotFound {
        names: program.names.clone(),
        looked,
        remedy: "add it to the Containerfile".to_owned(),
    })
}

fn is_executable(path: &Path) -> bool {
    files::facts_linked(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// The version that `command` prints with the recipe's version arguments.
fn printed_version(mut command: Command, path: &Path, how: &Version) -> Result<String, LocateError> {
    let refused = |cause: String, output: String| LocateError::Version {
        path: path.to_owned(),
        cause,
        output,
    };
    let pattern = Regex::new(&how.pattern).map_err(|error| refused(error.to_string(), String::new()))?;
    // The recipe's pattern is written for the untranslated output.
    command.args(&how.arguments).env("LC_ALL", "C").current_dir(NEUTRAL);
    let ended = command::run(command, VERSION_TIMEOUT, command::Life::Bound)
        .map_err(|error| refused(error.to_string(), String::new()))?;
    // An engine's message about a program that it cannot start is not a version.
    let printed = ended.text();
    if !matches!(ended.status.code(), Some(125..=127))
        && let Some(version) = pattern.captures(&printed).and_then(|groups| groups.get(1))
    {
        return Ok(version.as_str().to_owned());
    }
    let cause = format!(
        "`{}` ended with {}, and its output does not match `{pattern}`",
        how.arguments.join(" "),
        ended.status
    );
    Err(refused(cause, printed))
}

/// Compares the numbers in two versions from left to right; a missing number counts as 0.
pub fn is_older(version: &str, minimum: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        text.split(|character: char| !character.is_ascii_digit())
            .filter(|word| !word.is_empty())
            // Only digits are left, so parsing fails only for numbers beyond 64 bits.
            .map(|word| word.parse().unwrap_or(u64::MAX))
            .collect()
    };
    let mut have = numbers(version);
    let mut need = numbers(minimum);
    let length = have.len().max(need.len());
    have.resize(length, 0);
    need.resize(length, 0);
    have < need
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn recipe(name: &str, version_arguments: &[&str], pattern: &str, minimum: Option<&str>) -> (String, Program) {
        let program = Program {
            names: vec![name.into()],
            folders: vec!["/usr/sbin".into()],
            version: Some(Version {
                arguments: version_arguments.iter().map(ToString::to_string).collect(),
                pattern: pattern.into(),
                minimum: minimum.map(Into::into),
            }),
            ..Program::default()
        };
        (name.into(), program)
    }

    fn locate(locator: &Locator, (name, program): &(String, Program)) -> Result<Located, LocateError> {
        locator.locate(name, program)
    }

    fn locator(home: &Path) -> Locator {
        Locator {
            folders: vec![home.join("bin")],
            ..Locator::new(&Home::at(home), "exp", BTreeMap::new())
        }
    }

    fn program(folder: &Path, name: &str, script: &str) -> PathBuf {
        let path = folder.join(name);
        fs::create_dir_all(folder).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn nginx_is_found_in_the_folder_of_its_recipe() {
        let home = tempfile::tempdir().unwrap();
        let located = locate(
            &locator(home.path()),
            &recipe("nginx", &["-v"], r"nginx/(\S+)", Some("1.0")),
        )
        .unwrap();
        assert_eq!(located.path, PathBuf::from("/usr/sbin/nginx"));
        assert!(located.version.starts_with("1."), "{}", located.version);
    }

    #[test]
    fn own_environments_come_before_the_path_and_a_given_file_before_all() {
        let home = tempfile::tempdir().unwrap();
        let mut locator = Locator::new(&Home::at(home.path()), "exp", BTreeMap::new());
        let sh = recipe("sh", &["-v"], r"v(\d)", None);
        program(&home.path().join("python/exp/bin"), "sh", "echo v7");
        assert_eq!(locate(&locator, &sh).unwrap().version, "7");
        let given = program(home.path(), "mine", "echo v8");
        locator.given.insert("sh".into(), given.clone());
        assert_eq!(
            locate(&locator, &sh).unwrap(),
            Located {
                path: given,
                version: "8".into()
            }
        );
        locator.given.insert("sh".into(), "/etc/passwd".into());
        let error = locate(&locator, &sh).unwrap_err().to_string();
        assert_eq!(
            error,
            "/etc/passwd, given for `sh`, is not an executable file: correct --program sh=PATH"
        );
    }

    #[test]
    fn a_missing_program_says_where_it_was_looked_for_and_how_to_get_it() {
        let home = tempfile::tempdir().unwrap();
        let mut frobd = recipe("frobd", &[], "", None);
        let error = locate(&locator(home.path()), &frobd).unwrap_err();
        let by_hand = "install it yourself, or name its file with --program frobd=PATH";
        assert_eq!(
            error.brief(),
            format!("`frobd` was not found; no package of it is known: {by_hand}")
        );
        frobd.1.packages = Packages::named([("python", "frobd==1")]);
        let error = locate(&locator(home.path()), &frobd).unwrap_err().to_string();
        let bin = home.path().join("bin");
        let wanted = format!(
            "`frobd` was not found; `lasthop setup exp` installs it (looked in {}, /usr/sbin)",
            bin.display()
        );
        assert_eq!(error, wanted);
    }

    #[test]
    fn a_version_that_cannot_be_read_shows_what_the_program_said() {
        let home = tempfile::tempdir().unwrap();
        let path = program(&home.path().join("bin"), "frobd", "echo usage: frobd; exit 3");
        let error = locate(&locator(home.path()), &recipe("frobd", &["-v"], r"frobd (\d+)", None)).unwrap_err();
        let wanted = format!(
            "cannot find out the version of {}: `-v` ended with exit status: 3, and its output does not match \
             `frobd (\\d+)`\n    usage: frobd",
            path.display()
        );
        assert_eq!(error.to_string(), wanted);
        assert_eq!(
            error.brief(),
            format!("cannot find out the version of {}: usage: frobd", path.display())
        );
    }

    #[test]
    fn an_old_version_is_refused() {
        let home = tempfile::tempdir().unwrap();
        program(&home.path().join("bin"), "frobd", "echo frobd 1.9.3");
        let error = locate(
            &locator(home.path()),
            &recipe("frobd", &[], r"frobd (\S+)", Some("1.10")),
        )
        .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("has version 1.9.3, but at least 1.10 is needed"),
            "{error}"
        );
    }

    #[test]
    fn versions_compare_by_numbers() {
        assert!(is_older("1.9", "1.10") && is_older("1", "1.0.1") && is_older("15.6 (Debian)", "16"));
        assert!(!is_older("1.10", "1.9") && !is_older("1.0.0", "1") && !is_older("9.1p2", "9.1p2"));
    }

    #[test]
    fn lasthop_is_itself() {
        let mut own = recipe("lasthop", &[], "", None);
        own.1.lasthop = true;
        let home = tempfile::tempdir().unwrap();
        assert_eq!(
            locate(&locator(home.path()), &own).unwrap().path,
            env::current_exe().unwrap()
        );
        let given = BTreeMap::from([("lasthop".to_owned(), PathBuf::from("/bin/sh"))]);
        let locator = Locator {
            given,
            ..locator(home.path())
        };
        assert_eq!(locate(&locator, &own).unwrap().path, PathBuf::from("/bin/sh"));
    }
}
