//! Builds an image without a registry, from the host's packages of the programs and all their dependencies.
//!
//! The container runs byte for byte what runs outside, so a comparison with and without a container compares nothing
//! else. The image is named by a digest of the packages and their versions, and is built only once.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use lasthop_system::{command, digest};

use super::{
    IMAGE_LABEL,
    engine::{Engine, EngineError},
    packages::Installed,
};
use crate::locate::Located;

/// The longest that packing or importing may take.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Increase this if the same packages must result in another image.
const LAYOUT: u32 = 1;
/// Directories that no server needs.
const LEFT_OUT: [&str; 6] = [
    "/usr/share/doc",
    "/usr/share/man",
    "/usr/share/locale",
    "/usr/share/info",
    "/usr/share/lintian",
    "/var/cache",
];
/// Files that no package owns: the links of the merged `/usr`, mount points, names of users, the linker's cache.
const BESIDE: [&str; 17] = [
    "/bin",
    "/lib",
    "/lib64",
    "/sbin",
    "/etc",
    "/dev",
    "/proc",
    "/sys",
    "/tmp",
    "/run",
    "/var",
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/localtime",
];
/// `PATH` in the image.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("cannot build an image from this machine's packages: {0} (this takes Debian or one of its derivatives)")]
    NoPackages(io::Error),
    #[error("cannot list the files of package {package}: {cause}")]
    Files { package: String, cause: io::Error },
    #[error("cannot pack the image's files into {path}: {cause}")]
    Pack { path: PathBuf, cause: String },
    #[error("cannot build the image {name}: {cause}")]
    Engine { name: String, cause: EngineError },
}

/// An image that an engine has, and the files that it lacks, which come from the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub name: String,
    /// Files and folders of the host that are mounted at their own paths, read-only.
    pub mounts: Vec<PathBuf>,
    /// Whether it was built just now.
    pub made: bool,
    pub origin: Origin,
    /// Programs by recipe, if they differ from the host's.
    pub programs: BTreeMap<String, Located>,
}

/// What an image is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This many packages of the host, and the reason why the experiment's Containerfile was not used, if it has one.
    Packages { number: usize, because: Option<String> },
    /// The experiment's Containerfile.
    Containerfile,
}

impl Image {
    /// What it is made of, for the record.
    pub fn describe(&self) -> String {
        match &self.origin {
            Origin::Packages { number, .. } => format!("from {number} packages of this machine"),
            Origin::Containerfile => "from the experiment's Containerfile".to_owned(),
        }
    }
}

/// What must be in an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub programs: BTreeSet<PathBuf>,
    /// Packages besides those that own the programs.
    pub packages: BTreeSet<String>,
}

/// The image with this content. It is built unless the engine already has it. `workshop` is a private directory;
/// `because` says why the experiment's own image is not used, if it has one.
/// Errors: there are no packages, no room, or the engine refuses.
pub fn of_host(
    engine: &Engine,
    content: &Content,
    because: Option<String>,
    workshop: &Path,
) -> Result<Image, ImageError> {
    let installed = Installed::read().map_err(ImageError::NoPackages)?;
    let (roots, mounts) = sort(&installed, content);
    let packages = installed.closure(&roots);
    let digest = digest_of(&packages);
    let name = format!("localhost/lasthop:{digest}");
    let made = !exists(engine, &name);
    if made {
        let archive = workshop.join("image.tar");
        pack(&installed, packages.keys(), &archive)?;
        let imported = import(engine, &archive, &name, &digest);
        let _ = fs::remove_file(&archive);
        imported.map_err(|cause| ImageError::Engine {
            name: name.clone(),
            cause,
        })?;
    }
    let origin = Origin::Packages {
        number: packages.len(),
        because,
    };
    Ok(Image {
        name,
        mounts,
        made,
        origin,
        programs: BTreeMap::new(),
    })
}

/// Packages that own the programs, and what no package owns: a virtual environment as a whole, or the file itself.
fn sort(installed: &Installed, content: &Content) -> (BTreeSet<String>, Vec<PathBuf>) {
    let mut roots: BTreeSet<String> = content
        .packages
        .iter()
        .filter(|name| installed.has(name))
        .cloned()
        .collect();
    let mut mounts = BTreeSet::new();
    for program in &content.programs {
        let real = program.canonicalize().unwrap_or_else(|_| program.clone());
        if let Some(environment) = virtual_environment(program) {
            // Its scripts contain the path of their interpreter.
            mounts.extend(environment.canonicalize());
            mounts.insert(environment);
            match installed.owner(&real_interpreter(program)) {
                Some(owner) => roots.extend([owner, "python3".to_owned()]),
                None => add_foreign(installed, &real_interpreter(program), &mut roots, &mut mounts),
            }
        } else if let Some(owner) = installed.owner(&real) {
            roots.insert(owner);
        } else {
            mounts.insert(program.clone());
            roots.extend(libraries(installed, &real, &[]));
        }
    }
    (roots, mounts.into_iter().collect())
}

/// The interpreter that the links of a virtual environment lead to.
fn real_interpreter(program: &Path) -> PathBuf {
    let link = program.with_file_name("python");
    link.canonicalize().unwrap_or(link)
}

/// For an interpreter that no package owns (pyenv, your own build): mounts its folder, and adds the packages of its
/// libraries.
fn add_foreign(
    installed: &Installed,
    interpreter: &Path,
    roots: &mut BTreeSet<String>,
    mounts: &mut BTreeSet<PathBuf>,
) {
    let Some(prefix) = interpreter.parent().and_then(Path::parent) else {
        return;
    };
    mounts.insert(prefix.to_owned());
    let modules: Vec<PathBuf> = contents(prefix.join("lib"))
        .iter()
        .flat_map(|version| contents(version.join("lib-dynload")))
        .collect();
    roots.extend(libraries(installed, interpreter, &modules));
}

/// Packages of the libraries that a program and its modules link to.
fn libraries(installed: &Installed, program: &Path, modules: &[PathBuf]) -> BTreeSet<String> {
    let listed = |command: &Path, arguments: &[&OsStr]| {
        let mut command = Command::new(command);
        command.args(arguments);
        command::run(command, TIMEOUT, command::Life::Bound)
            .map(|ended| ended.output)
            .unwrap_or_default()
    };
    let mut output = listed(Path::new("ldd"), &[program.as_os_str()]);
    // ldd starts the loader three times for each file; the loader itself lists all of them at once.
    if let (Some(loader), false) = (loader(&output), modules.is_empty()) {
        let modules = modules
            .iter()
            .map(|module| module.as_os_str())
            .collect::<Vec<_>>()
            .join(OsStr::new(":"));
        output = listed(
            &loader,
            &["--list".as_ref(), "--preload".as_ref(), &modules, program.as_os_str()],
        );
    }
    let paths: Vec<PathBuf> = output
        .lines()
        .filter_map(|line| {
            line.split_ascii_whitespace()
                .find(|word| word.starts_with('/') && !word.ends_with(':'))
        })
        .map(Path::new)
        .filter(|path| !modules.iter().any(|module| module == path))
        .filter_map(|path| path.canonicalize().ok())
        .collect();
    installed.owners(&paths)
}

/// The only path in ldd's output that was not searched for.
fn loader(output: &str) -> Option<PathBuf> {
    let words = output.lines().filter_map(|line| line.split_ascii_whitespace().next());
    words.filter(|word| word.starts_with('/')).map(PathBuf::from).next()
}

/// The folder of a Python or Ruby environment that a program in its `bin` belongs to.
fn virtual_environment(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?.parent()?;
    folder.join("pyvenv.cfg").is_file().then(|| folder.to_owned())
}

pub(super) fn exists(engine: &Engine, name: &str) -> bool {
    engine.ask(["image", "inspect", "--format", "{{.Id}}", name]).is_ok()
}

fn digest_of(packages: &BTreeMap<String, String>) -> String {
    let text: String = packages
        .iter()
        .map(|(name, version)| format!("{name} {version}\n"))
        .collect();
    short_digest(format!("{LAYOUT}\n{text}").as_bytes())
}

/// Enough of a digest to identify the content.
pub(super) fn short_digest(content: &[u8]) -> String {
    let mut digest = digest::of_bytes(content);
    digest.truncate(16);
    digest
}

fn pack<'a>(
    installed: &Installed,
    packages: impl Iterator<Item = &'a String>,
    archive: &Path,
) -> Result<(), ImageError> {
    let mut files: BTreeSet<PathBuf> = BESIDE.iter().map(PathBuf::from).collect();
    files.extend(contents("/etc/alternatives".into()));
    for package in packages {
        let listed = installed.files(package);
        let listed = listed.map_err(|cause| ImageError::Files {
            package: package.clone(),
            cause,
        })?;
        let wanted = |file: &PathBuf| !LEFT_OUT.iter().any(|folder| file.starts_with(folder));
        files.extend(
            listed
                .into_iter()
                .filter(wanted)
                .filter_map(|file| in_merged_usr(&file)),
        );
    }
    let names: String = files
        .iter()
        .filter(|file| exists_itself(file))
        .map(|file| relative(file))
        .collect();
    let list = archive.with_extension("list");
    let refused = |cause: String| ImageError::Pack {
        path: archive.to_owned(),
        cause,
    };
    fs::write(&list, names).map_err(|error| refused(error.to_string()))?;
    let mut command = Command::new("tar");
    command
        .args(["--create", "--no-recursion", "--directory=/", "--file"])
        .arg(archive)
        .arg("--files-from")
        .arg(&list);
    // Unreadable files, such as keys of the host's services, do not belong in an image.
    command.arg("--ignore-failed-read");
    let ended = command::run(command, TIMEOUT, command::Life::Bound).map_err(|error| refused(error.to_string()))?;
    let _ = fs::remove_file(&list);
    if ended.status.success() {
        Ok(())
    } else {
        Err(refused(ended.text()))
    }
}

fn contents(folder: PathBuf) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect()
}

/// If `/bin` is a link, `/bin/sh` becomes `/usr/bin/sh`. Otherwise the link would become a folder in the image.
fn in_merged_usr(file: &Path) -> Option<PathBuf> {
    let parent = file.parent()?.canonicalize().ok()?;
    Some(parent.join(file.file_name()?))
}

fn exists_itself(file: &Path) -> bool {
    file.symlink_metadata()
        .is_ok_and(|metadata| metadata.is_file() || metadata.is_dir() || metadata.is_symlink())
}

fn relative(file: &Path) -> String {
    format!("{}\n", file.display().to_string().trim_start_matches('/'))
}

fn import(engine: &Engine, archive: &Path, name: &str, digest: &str) -> Result<(), EngineError> {
    let path = format!("--change=ENV PATH={PATH}");
    let label = format!("--change=LABEL {IMAGE_LABEL}={digest}");
    let archive = archive.display().to_string();
    engine
        .carry_out(["import", &path, &label, &archive, name], TIMEOUT)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_another_image() {
        let packages = |version: &str| digest_of(&BTreeMap::from([("nginx".to_owned(), version.to_owned())]));
        assert_eq!(packages("1"), packages("1"));
        assert_ne!(packages("1"), packages("2"));
    }

    #[test]
    fn a_shell_is_found_in_a_package_and_a_stranger_is_mounted() {
        let Ok(installed) = Installed::read() else { return };
        let stranger = std::env::current_exe().unwrap();
        let programs = BTreeSet::from([PathBuf::from("/bin/sh"), stranger.clone()]);
        let (roots, mounts) = sort(
            &installed,
            &Content {
                programs,
                ..Content::default()
            },
        );
        assert!(roots.contains("dash") && roots.contains("libc6"), "{roots:?}");
        assert_eq!(mounts, [stranger]);
    }

    #[test]
    fn modules_listed_at_once_need_what_each_needs_alone() {
        let Ok(installed) = Installed::read() else { return };
        let versions = contents("/usr/lib".into())
            .into_iter()
            .map(|version| version.join("lib-dynload"));
        let modules: Vec<PathBuf> = versions.flat_map(contents).take(6).collect();
        let shell = Path::new("/bin/sh");
        let mut alone: BTreeSet<String> = libraries(&installed, shell, &[]);
        alone.extend(modules.iter().flat_map(|module| libraries(&installed, module, &[])));
        assert_eq!(libraries(&installed, shell, &modules), alone);
        assert!(modules.is_empty() || alone.len() > 1, "{alone:?}");
    }
}
