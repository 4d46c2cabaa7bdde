//! Plans and runs the commands of `lasthop setup EXPERIMENT`. Planning runs nothing, so the user can see the commands
//! first.
//!
//! Packages of the system's package manager are installed into the system, those of a language into a folder of the
//! experiment, where they do not affect other software.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use lasthop_model::{
    manager::{LANGUAGES, Language, MANAGERS, Manager, unnamed},
    program::Packages,
};
use lasthop_system::{command, files, owner};
use rustix::fs::Mode;

use super::{home::Home, locate};

/// The working directory of package managers and programs. Some of them execute files in it, so the user's working
/// directory, which may belong to a stranger, is not used.
pub(super) const NEUTRAL: &str = "/";
/// The longest time for a query to a package manager.
const QUESTION: Duration = Duration::from_secs(60);
/// File in a language's folder that lists the packages installed there.
pub(super) const STAMP: &str = "lasthop-requirements";

/// Why nothing can be installed, in words.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("{0}")]
    NoRoot(String),
    #[error("{0}")]
    NoTool(String),
}

/// The needs of one service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Name of the recipe or service.
    pub of: String,
    /// The program is already installed, possibly from elsewhere, so no system packages are needed.
    pub located: bool,
    pub packages: Packages,
}

/// A command of a set-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupStep {
    pub why: String,
    /// The program, then its arguments.
    pub command: Vec<String>,
    /// File to write after the command has succeeded: path and text.
    stamp: Option<(PathBuf, String)>,
}

/// The state of the machine that a plan depends on.
#[derive(Clone, Debug, Default)]
pub struct System {
    pub root: bool,
    pub sudo: bool,
    pub manager: Option<&'static Manager>,
    /// Wanted packages that are installed.
    pub installed: BTreeSet<String>,
    /// Wanted packages that the package lists know.
    pub listed: BTreeSet<String>,
    /// The languages whose package manager can install.
    pub working: BTreeSet<&'static str>,
}

impl System {
    /// Reads the state of this machine.
    pub fn look(needs: &[Need]) -> Self {
        let manager = manager();
        let working = languages(needs)
            .filter(|language| answers(language.works[0], &language.works[1..]))
            .map(|language| language.name);
        let mut system = Self {
            root: rustix::process::geteuid().is_root(),
            sudo: on_path("sudo"),
            manager,
            working: working.collect(),
            ..Self::default()
        };
        if let Some(manager) = manager {
            let wanted = names(manager, &with_tools(needs, &system));
            system.installed = installed(manager, &wanted);
            system.listed = listed(manager, &wanted);
        }
        system
    }
}

/// The commands that install missing packages, in order.
pub fn plan(experiment: &str, needs: &[Need], home: &Home, system: &System) -> Result<Vec<SetupStep>, SetupError> {
    let mut steps = system_steps(&with_tools(needs, system), system)?;
    for language in languages(needs) {
        if system.manager.is_none() && !system.working.contains(language.name) {
            return Err(no_tool(language));
        }
        let names = needs
            .iter()
            .flat_map(|need| need.packages.names_for(language.name))
            .collect();
        add_language(&mut steps, language, &home.packages(language.name, experiment), &names);
    }
    Ok(steps)
}

fn languages(needs: &[Need]) -> impl Iterator<Item = &'static Language> {
    LANGUAGES.into_iter().filter(|language| {
        needs
            .iter()
            .any(|need| !need.packages.names_for(language.name).is_empty())
    })
}

fn no_tool(language: &Language) -> SetupError {
    SetupError::NoTool(format!(
        "{} cannot be installed, because `{}` fails; install {} (as {} calls it)",
        language.packages,
        language.works.join(" "),
        language.needs[0],
        MANAGERS[0].name
    ))
}

/// The package manager of this machine.
pub fn manager() -> Option<&'static Manager> {
    MANAGERS
        .into_iter()
        .find(|manager| manager.programs.iter().all(|program| on_path(program)))
}

/// Needs that the user must install, because they have no known name in this machine's package manager.
pub fn by_hand(needs: &[Need], system: &System) -> Vec<String> {
    let needs = with_tools(needs, system);
    let wanted = needs.iter().filter(|need| !need.located);
    wanted
        .filter_map(|need| Some(format!("{}: {}", need.of, unnamed(&need.packages, system.manager)?)))
        .collect()
}

/// The needs, plus those of the languages' package managers.
fn with_tools(needs: &[Need], system: &System) -> Vec<Need> {
    let lacking = languages(needs).filter(|language| !system.working.contains(language.name));
    let tools = lacking.map(|language| Need {
        of: language.packages.to_owned(),
        located: false,
        packages: Packages::named(MANAGERS.iter().map(|manager| manager.name).zip(language.needs)),
    });
    needs.iter().cloned().chain(tools).collect()
}

fn names(manager: &Manager, needs: &[Need]) -> BTreeSet<String> {
    let wanted = needs.iter().filter(|need| !need.located);
    wanted
        .flat_map(|need| need.packages.names_for(manager.name))
        .cloned()
        .collect()
}

fn system_steps(needs: &[Need], system: &System) -> Result<Vec<SetupStep>, SetupError> {
    let Some(manager) = system.manager else {
        return Ok(Vec::new());
    };
    let missing = &names(manager, needs) - &system.installed;
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let sudo: &[&str] = match (manager.root && !system.root, system.sudo) {
        (false, _) => &[],
        (true, true) => &["sudo"],
        (true, false) => {
            let names: Vec<String> = missing.into_iter().collect();
            return Err(SetupError::NoRoot(format!(
                "installing packages needs root or sudo; as root, run: {} {}",
                manager.by_hand,
                names.join(" ")
            )));
        }
    };
    let step = |why: String, words: &[&str], names: &BTreeSet<String>| SetupStep {
        why,
        command: Manager::command(&[sudo, words].concat(), names),
        stamp: None,
    };
    let mut steps = Vec::new();
    let unlisted: Vec<&str> = missing.difference(&system.listed).map(String::as_str).collect();
    if let Some(lists) = manager.lists.as_ref().filter(|_| !unlisted.is_empty()) {
        let why = format!("update the package lists, which do not contain {}", unlisted.join(", "));
        steps.push(step(why, lists.update, &BTreeSet::new()));
    }
    let lacks = |need: &&Need| {
        !need.located
            && need
                .packages
                .names_for(manager.name)
                .iter()
                .any(|name| missing.contains(name))
    };
    let users: Vec<&str> = needs.iter().filter(lacks).map(|need| need.of.as_str()).collect();
    steps.push(step(
        format!("packages of the system for {}", users.join(", ")),
        manager.install,
        &missing,
    ));
    Ok(steps)
}

/// Adds the steps that install a language's packages. The last one writes the list of packages into the folder.
fn add_language(steps: &mut Vec<SetupStep>, language: &Language, folder: &Path, names: &BTreeSet<&String>) {
    let list: String = names.iter().map(|name| format!("{name}\n")).collect();
    let stamp = folder.join(STAMP);
    let is_made = language.base.is_none_or(|(file, _)| folder.join(file).exists());
    if is_made && files::text(&stamp).is_ok_and(|text| text == list) {
        return;
    }
    let directory = folder.display().to_string();
    let mut step = |words: &[&str], names: &BTreeSet<&String>, stamp| {
        let own = words.iter().map(|word| word.replace("FOLDER", &directory));
        steps.push(SetupStep {
            why: format!(
                "{} of the experiment, in a folder of its own{}",
                language.packages,
                if language.runs_scripts {
                    "; a package may bring scripts that this executes"
                } else {
                    ""
                }
            ),
            command: own.chain(names.iter().map(ToString::to_string)).collect(),
            stamp,
        });
    };
    if let Some((_, command)) = language.base.filter(|_| !is_made) {
        step(command, &BTreeSet::new(), None);
    }
    step(language.install, names, Some((stamp, list)));
}

/// Runs the steps. Each line of output goes to `output` at once.
pub fn execute(
    steps: &[SetupStep],
    started: &mut dyn FnMut(&SetupStep),
    output: &mut dyn FnMut(&str),
) -> Result<(), String> {
    // Other accounts must not write files that are executed later.
    let others_write = Mode::WGRP | Mode::WOTH;
    let umask = rustix::process::umask(others_write);
    if !rustix::process::geteuid().is_root() {
        // Root's servers run as another account, which must be able to read installed files.
        rustix::process::umask(umask | others_write);
    }
    for step in steps {
        started(step);
        let shown = step.shown();
        let status = run(&step.command, output).map_err(|cause| format!("cannot start `{shown}`: {cause}"))?;
        if !status.success() {
            return Err(format!("`{shown}` ended with {status}; see its output above"));
        }
        // Written last, so that an interrupted installation is repeated.
        if let Some((path, text)) = &step.stamp {
            let made = path.parent().map_or(Ok(()), fs::create_dir_all);
            made.and_then(|()| fs::write(path, text))
                // Some packages set the modes of their files.
                .and_then(|()| owner::tighten_below(path.parent().unwrap_or(path)))
                .map_err(|cause| format!("cannot write {}: {cause}", path.display()))?;
        }
    }
    Ok(())
}

impl SetupStep {
    /// The command, quoted for a shell.
    pub fn shown(&self) -> String {
        self.command
            .iter()
            .map(|word| quoted(word))
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Quotes a word for a shell, if necessary.
fn quoted(word: &str) -> std::borrow::Cow<'_, str> {
    let mut bytes = word.bytes();
    if bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&byte)) && !word.is_empty() {
        word.into()
    } else {
        shlex::try_quote(word).unwrap_or_else(|_| word.into())
    }
}

/// Runs a command. Standard output and error share a pipe, which keeps their order. Standard input stays the terminal,
/// for sudo.
fn run(command: &[String], output: &mut dyn FnMut(&str)) -> io::Result<ExitStatus> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(program);
    command.args(arguments).stdout(writer.try_clone()?).stderr(writer);
    command.current_dir(NEUTRAL);
    let mut child = command.spawn()?;
    // The command holds the pipe's writing ends; the loop below would never see the end of the output.
    drop(command);
    for line in BufReader::new(reader).split(b'\n') {
        output(String::from_utf8_lossy(&line?).trim_end_matches('\r'));
    }
    child.wait()
}

fn on_path(program: &str) -> bool {
    locate::on_path(program).is_some()
}

fn ask(program: &str, arguments: &[&str]) -> Option<command::Ended> {
    let mut command = Command::new(program);
    command.args(arguments).env("LC_ALL", "C").stdin(Stdio::null());
    command.current_dir(NEUTRAL);
    command::run(command, QUESTION, command::Life::Bound).ok()
}

fn answers(program: &str, arguments: &[&str]) -> bool {
    ask(program, arguments).is_some_and(|ended| ended.status.success())
}

/// A package manager's answer about these packages.
fn about(question: &[&str], wanted: &BTreeSet<String>) -> String {
    let words: Vec<&str> = question
        .iter()
        .copied()
        .chain(wanted.iter().map(String::as_str))
        .collect();
    ask(words[0], &words[1..]).map(|ended| ended.text()).unwrap_or_default()
}

fn installed(manager: &Manager, wanted: &BTreeSet<String>) -> BTreeSet<String> {
    let text = about(manager.installed, wanted);
    let found: BTreeSet<String> = text
        .lines()
        .filter_map(manager.installed_name)
        .map(str::to_owned)
        .collect();
    &found & wanted
}

fn listed(manager: &Manager, wanted: &BTreeSet<String>) -> BTreeSet<String> {
    let Some(lists) = &manager.lists else {
        return BTreeSet::new();
    };
    (lists.known)(&about(lists.query, wanted))
        .into_iter()
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use lasthop_model::manager::APT;

    use super::*;

    fn need(of: &str, debian: &[&str], python: &[&str], gems: &[&str]) -> Need {
        let named = [("apt", debian), ("python", python), ("gems", gems)].into_iter();
        let packages = named
            .filter(|(_, names)| !names.is_empty())
            .map(|(manager, names)| (manager.to_owned(), names.iter().map(ToString::to_string).collect()));
        Need {
            of: of.into(),
            located: false,
            packages: Packages(packages.collect()),
        }
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    fn debian() -> System {
        System {
            root: true,
            manager: Some(&APT),
            working: LANGUAGES.map(|language| language.name).into(),
            ..System::default()
        }
    }

    fn shown(steps: &[SetupStep]) -> Vec<String> {
        steps.iter().map(SetupStep::shown).collect()
    }

    #[test]
    fn what_is_missing_is_installed_and_lists_are_fetched_only_where_needed() {
        let needs = [
            need("nginx", &["nginx"], &[], &[]),
            need("redis", &["redis-server"], &[], &[]),
        ];
        let home = Home::at("/data");
        let mut system = System {
            listed: set(&["nginx", "redis-server"]),
            ..debian()
        };
        let install = "env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends --";
        let steps = plan("exp", &needs, &home, &system).unwrap();
        assert_eq!(shown(&steps), [format!("{install} nginx redis-server")]);
        assert_eq!(steps[0].why, "packages of the system for nginx, redis");

        system.installed = set(&["nginx"]);
        assert_eq!(
            shown(&plan("exp", &needs, &home, &system).unwrap()),
            [format!("{install} redis-server")]
        );

        system = System {
            listed: set(&[]),
            root: false,
            sudo: true,
            ..system
        };
        let steps = plan("exp", &needs, &home, &system).unwrap();
        assert_eq!(
            shown(&steps)[0],
            "sudo env DEBIAN_FRONTEND=noninteractive apt-get update"
        );
        assert_eq!(shown(&steps)[1], format!("sudo {install} redis-server"));

        system.installed = set(&["nginx", "redis-server"]);
        assert_eq!(shown(&plan("exp", &needs, &home, &system).unwrap()), [""; 0]);
    }

    #[test]
    fn a_program_from_elsewhere_is_left_alone() {
        let needs = [Need {
            located: true,
            ..need("nginx", &["nginx"], &[], &[])
        }];
        assert_eq!(plan("exp", &needs, &Home::at("/data"), &debian()).unwrap(), []);
    }

    #[test]
    fn elsewhere_the_names_are_said() {
        let needs = [need("nginx", &["nginx"], &[], &[])];
        let system = System {
            manager: None,
            ..debian()
        };
        assert_eq!(plan("exp", &needs, &Home::at("/data"), &system).unwrap(), []);
        assert!(by_hand(&needs, &system)[0].ends_with(": install nginx yourself (as apt calls it)"));
        let python = [need("app", &[], &["flask==3.1.0"], &[])];
        let said = by_hand(&python, &System::default());
        assert!(
            said[0].starts_with("Python packages: no package manager was found"),
            "{said:?}"
        );
        assert_eq!(by_hand(&needs, &debian()), [""; 0]);
        let system = System {
            root: false,
            sudo: false,
            ..debian()
        };
        let error = plan("exp", &needs, &Home::at("/data"), &system)
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("as root, run: apt-get install --no-install-recommends nginx"),
            "{error}"
        );
    }

    #[test]
    fn python_and_gems_go_into_folders_of_the_experiment_once() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        let needs = [need("app", &[], &["flask==3.1.0", "gunicorn==23.0.0"], &["thin:1.8.2"])];
        let root = folder.path().display();
        let steps = plan("exp", &needs, &home, &debian()).unwrap();
        let pip = "bin/python -I -m pip install --disable-pip-version-check --no-input --";
        let gem = format!("gem install --no-document --install-dir {root}/gems/exp --bindir {root}/gems/exp/bin");
        let wanted = [
            format!("python3 -I -m venv {root}/python/exp"),
            format!("{root}/python/exp/{pip} flask==3.1.0 gunicorn==23.0.0"),
            format!("{gem} thin:1.8.2"),
        ];
        assert_eq!(shown(&steps), wanted);

        fs::create_dir_all(home.packages("python", "exp").join("bin")).unwrap();
        fs::write(home.packages("python", "exp").join("bin/python"), "").unwrap();
        fs::write(
            home.packages("python", "exp").join(STAMP),
            "flask==3.1.0\ngunicorn==23.0.0\n",
        )
        .unwrap();
        assert_eq!(shown(&plan("exp", &needs, &home, &debian()).unwrap()).len(), 1);
        fs::write(home.packages("python", "exp").join(STAMP), "flask==3.0.0\n").unwrap();
        assert_eq!(shown(&plan("exp", &needs, &home, &debian()).unwrap()).len(), 2);
    }

    #[test]
    fn each_language_has_a_folder_of_the_experiment() {
        let names = [
            ("npm", "express@5.1.0"),
            ("maven", "a.b:c:1.2"),
            ("go", "a.b/c/v5@v5.5.5"),
        ];
        let needs = [Need {
            of: "app".into(),
            located: true,
            packages: Packages::named(names),
        }];
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path());
        let steps = plan("exp", &needs, &home, &debian()).unwrap();
        assert_eq!(steps.len(), names.len());
        for ((language, name), step) in names.iter().zip(&steps) {
            let folder = home.packages(language, "exp");
            assert!(step.command.contains(&folder.display().to_string()), "{step:?}");
            assert_eq!(step.command.last().unwrap(), name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(STAMP), format!("{name}\n")).unwrap();
        }
        assert_eq!(plan("exp", &needs, &home, &debian()).unwrap(), []);
        let system = System {
            working: BTreeSet::new(),
            ..debian()
        };
        let install = &shown(&plan("exp", &needs, &home, &system).unwrap())[1];
        assert!(install.ends_with(" -- golang-go maven npm"), "{install}");
    }

    #[test]
    fn every_manager_gets_its_own_command_line() {
        let commands = MANAGERS.map(|manager| {
            let packages = Packages([(manager.name.to_owned(), vec!["a".to_owned(), "b".to_owned()])].into());
            let needs = [Need {
                of: "a".into(),
                located: false,
                packages,
            }];
            let system = System {
                root: false,
                sudo: true,
                manager: Some(manager),
                listed: set(&["a", "b"]),
                ..debian()
            };
            shown(&plan("exp", &needs, &Home::at("/data"), &system).unwrap()).join("; ")
        });
        assert_eq!(
            commands,
            [
                "sudo env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends -- a b",
                "sudo dnf install --assumeyes --setopt=install_weak_deps=False a b",
                "sudo apk add --update-cache -- a b",
                "sudo pacman -S --needed --noconfirm -- a b",
                "brew install --formula -- a b",
            ]
        );
    }

    #[test]
    fn debian_keeps_venv_in_a_package_of_its_own() {
        let needs = [need("app", &[], &["flask==3.1.0"], &[])];
        let system = System {
            working: BTreeSet::new(),
            listed: set(&["python3-venv"]),
            ..debian()
        };
        assert!(shown(&plan("exp", &needs, &Home::at("/data"), &system).unwrap())[0].ends_with(" python3-venv"));
        let needs = [need("app", &[], &[], &["thin:1"])];
        let error = plan("exp", &needs, &Home::at("/data"), &System::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Ruby gems cannot be installed, because `gem --version` fails; install ruby (as apt calls it)"
        );
    }

    #[test]
    fn steps_stream_their_output_stamp_their_success_and_stop_at_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let stamp = folder.path().join("made/stamp");
        let step = |script: &str| SetupStep {
            why: String::new(),
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            stamp: Some((stamp.clone(), script.to_owned())),
        };
        let run = |steps: &[SetupStep]| {
            let mut lines = Vec::new();
            let mut count = 0;
            let result = execute(steps, &mut |_| count += 1, &mut |line| lines.push(line.to_owned()));
            (result, lines, count)
        };
        let (result, lines, count) = run(&[step("echo a; echo b >&2")]);
        assert_eq!(
            (result, lines, count),
            (Ok(()), vec!["a".to_owned(), "b".to_owned()], 1)
        );
        assert_eq!(fs::read_to_string(&stamp).unwrap(), "echo a; echo b >&2");
        let (result, lines, _) = run(&[step("echo x; exit 9"), step("echo never")]);
        assert_eq!(lines, ["x"]);
        assert!(result.unwrap_err().contains("ended with exit status: 9"));
        assert_eq!(fs::read_to_string(&stamp).unwrap(), "echo a; echo b >&2");
    }

    #[test]
    fn the_package_manager_of_this_machine_is_understood() {
        let system = System::look(&[need("base", &["dpkg", "no-such-package-as-this"], &[], &[])]);
        if system.manager.is_some_and(|manager| manager.name == APT.name) {
            assert!(system.installed.contains("dpkg") && !system.installed.contains("no-such-package-as-this"));
            assert!(!system.listed.contains("no-such-package-as-this"));
        }
    }
}
