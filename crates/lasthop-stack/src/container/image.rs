//! Builds an image without a registry, from the host's packages of the programs and all their dependencies.
//!
//! The container runs byte for byte what runs outside, so a comparison with and without a container compares nothing
//! else. The image is named by a digest of the packages and their versions, and is built only once.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use lasthop_system::{command, digest, files};

use super::{
    IMAGE_LABEL,
    engine::Engine,
    packages::{self, Installed},
};
use crate::locate::Located;

/// The longest that a question to dpkg, packing or importing may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(300);
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

/// An image that an engine has, and the files that it lacks, which come from the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub name: String,
    /// What it is made of, for the record.
    pub origin: String,
    pub from_containerfile: bool,
    /// Why the experiment's Containerfile was not used, if it has one.
    pub because: Option<String>,
    /// Files and folders of the host that are mounted at their own paths, read-only.
    pub mounts: Vec<PathBuf>,
    /// Programs by recipe, if they differ from the host's.
    pub programs: BTreeMap<String, Located>,
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
pub fn of_host(engine: &Engine, content: &Content, because: Option<String>, workshop: &Path) -> Result<Image, String> {
    let installed = Installed::read()?;
    let (roots, mounts) = sort(&installed, content);
    let packages = installed.closure(&roots);
    let digest = digest_of(&packages);
    let name = format!("localhost/lasthop:{digest}");
    if !exists(engine, &name) {
        let archive = workshop.join("image.tar");
        pack(installed.files(packages.keys())?, &archive)?;
        let path = format!("--change=ENV PATH={PATH}");
        let label = format!("--change=LABEL {IMAGE_LABEL}={digest}");
        let file = archive.display().to_string();
        let imported = engine.carry_out(["import", &path, &label, &file, &name], TIMEOUT);
        let _ = fs::remove_file(&archive);
        imported.map_err(|cause| format!("cannot build the image {name}: {cause}"))?;
    }
    Ok(Image {
        name,
        origin: format!("from {} packages of this machine", packages.len()),
        from_containerfile: false,
        because,
        mounts,
        programs: BTreeMap::new(),
    })
}

/// Packages that own the programs, and what no package owns: a virtual environment as a whole, or the file itself.
fn sort(installed: &Installed, content: &Content) -> (BTreeSet<String>, Vec<PathBuf>) {
    let own = content.packages.iter().filter(|name| installed.has(name));
    let mut roots: BTreeSet<String> = own.cloned().collect();
    let mut mounts = BTreeSet::new();
    for program in &content.programs {
        let real = program.canonicalize().unwrap_or_else(|_| program.clone());
        if let Some(environment) = virtual_environment(program) {
            // Its scripts contain the path of their interpreter.
            mounts.extend(environment.canonicalize());
            mounts.insert(environment);
            let interpreter = program.with_file_name("python");
            let interpreter = interpreter.canonicalize().unwrap_or(interpreter);
            let owners = packages::owners(std::slice::from_ref(&interpreter));
            if !owners.is_empty() {
                roots.extend(owners);
                // On Debian the interpreter is in python3.N-minimal, and most of the standard library is not.
                roots.insert("python3".to_owned());
            } else if let Some(prefix) = interpreter.parent().and_then(Path::parent) {
                // pyenv, or a build of one's own: its folder, and the packages of its libraries.
                mounts.insert(prefix.to_owned());
                let versions = contents(&prefix.join("lib")).into_iter();
                let modules: Vec<PathBuf> = versions
                    .flat_map(|version| contents(&version.join("lib-dynload")))
                    .collect();
                roots.extend(libraries(&interpreter, &modules));
            }
            continue;
        }
        let owners = packages::owners(std::slice::from_ref(&real));
        if owners.is_empty() {
            mounts.insert(program.clone());
            roots.extend(libraries(&real, &[]));
        }
        roots.extend(owners);
    }
    (roots, mounts.into_iter().collect())
}

/// Packages of the libraries that a program and its modules link to.
fn libraries(program: &Path, modules: &[PathBuf]) -> BTreeSet<String> {
    let listed = |command: &Path, arguments: &[&OsStr]| {
        let mut command = Command::new(command);
        command.args(arguments);
        command::run(command, TIMEOUT, command::Life::Bound).map_or_else(|_| String::new(), |ended| ended.output)
    };
    let mut output = listed(Path::new("ldd"), &[program.as_os_str()]);
    // The loader is the only path in ldd's output that was not searched for.
    let loader = output.lines().filter_map(|line| line.split_ascii_whitespace().next());
    let loader = loader.filter(|word| word.starts_with('/')).map(PathBuf::from).next();
    // ldd starts the loader three times for each file; the loader itself lists all of them at once.
    if let Some(loader) = loader.filter(|_| !modules.is_empty()) {
        let modules: Vec<&OsStr> = modules.iter().map(|module| module.as_os_str()).collect();
        let preload = modules.join(OsStr::new(":"));
        let [list, with] = ["--list", "--preload"].map(OsStr::new);
        output = listed(&loader, &[list, with, &preload, program.as_os_str()]);
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
    packages::owners(&paths)
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
    let lines = packages.iter().map(|(name, version)| format!("{name} {version}\n"));
    short_digest(format!("{LAYOUT}\n{}", lines.collect::<String>()).as_bytes())
}

/// Enough of a digest to identify the content.
pub(super) fn short_digest(content: &[u8]) -> String {
    let mut digest = digest::of_bytes(content);
    digest.truncate(16);
    digest
}

fn pack(listed: Vec<PathBuf>, archive: &Path) -> Result<(), String> {
    let mut files: BTreeSet<PathBuf> = BESIDE.iter().map(PathBuf::from).collect();
    files.extend(contents(Path::new("/etc/alternatives")));
    for file in listed {
        // If `/bin` is a link, `/bin/sh` becomes `/usr/bin/sh`. Otherwise the link would become a folder in the image.
        if !LEFT_OUT.iter().any(|folder| file.starts_with(folder))
            && let (Some(parent), Some(name)) = (file.parent(), file.file_name())
            && let Ok(parent) = parent.canonicalize()
        {
            files.insert(parent.join(name));
        }
    }
    files.retain(|file| {
        files::facts(file).is_ok_and(|metadata| metadata.is_file() || metadata.is_dir() || metadata.is_symlink())
    });
    let list = archive.with_extension("list");
    let refused = |cause: String| format!("cannot pack the image's files into {}: {cause}", archive.display());
    fs::write(
        &list,
        files
            .iter()
            .map(|file| format!("{}\n", file.display().to_string().trim_start_matches('/')))
            .collect::<String>(),
    )
    .map_err(|error| refused(error.to_string()))?;
    let mut command = Command::new("tar");
    // Unreadable files, such as keys of the host's services, do not belong in an image.
    command
        // dpkg lists folders, too, and tar would pack everything that is in them on this machine.
        .args(["--create", "--no-recursion", "--ignore-failed-read", "--directory=/"])
        .arg("--file")
        .arg(archive)
        .arg("--files-from")
        .arg(&list);
    let ended = command::run(command, TIMEOUT, command::Life::Bound).map_err(|error| refused(error.to_string()))?;
    let _ = fs::remove_file(&list);
    if ended.status.success() {
        Ok(())
    } else {
        Err(refused(ended.text()))
    }
}

fn contents(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
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
        if Installed::read().is_err() {
            return;
        }
        let versions = contents(Path::new("/usr/lib"))
            .into_iter()
            .map(|version| version.join("lib-dynload"));
        let modules: Vec<PathBuf> = versions.flat_map(|version| contents(&version)).take(6).collect();
        let shell = Path::new("/bin/sh");
        let mut alone: BTreeSet<String> = libraries(shell, &[]);
        alone.extend(modules.iter().flat_map(|module| libraries(module, &[])));
        assert_eq!(libraries(shell, &modules), alone);
        assert!(modules.is_empty() || alone.len() > 1, "{alone:?}");
    }
}
