//! Access for a server's account to files in folders that are closed to it, without opening these to others.
//!
//! Root's home is closed to `nobody`, but often contains lasthop itself and the environments that `lasthop setup`
//! makes. A server that needs them gets its own mount namespace. There, an empty folder lies over each closed folder
//! and contains only what the server needs, at its own path.

use std::{
    collections::BTreeSet,
    ffi::{CString, OsStr},
    fs,
    io::{self, Read as _},
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Path, PathBuf},
};

use lasthop_system::files;
use rustix::{
    fs::{CWD, Mode, OFlags},
    mount::{MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags},
    thread::{CapabilitySet, UnshareFlags, unshare_unsafe},
};

use super::setup::STAMP;

/// Bytes of a script's first line that count, as in the kernel.
const FIRST_LINE: usize = 256;

/// The mode of folders that others may pass but not list.
pub const PASS: u32 = 0o711;

/// The outermost folder above a file that an account cannot enter.
pub fn closed_folder(path: &Path, ids: (u32, u32)) -> Option<&Path> {
    path.ancestors()
        .skip(1)
        .filter(|folder| folder.exists() && !lets_pass(folder, ids))
        .last()
}

/// Whether a folder's mode lets an account pass.
fn lets_pass(folder: &Path, (user, group): (u32, u32)) -> bool {
    let Ok(metadata) = files::facts_linked(folder) else {
        return false;
    };
    let shift = match metadata {
        _ if metadata.uid() == user => 6,
        _ if metadata.gid() == group => 3,
        _ => 0,
    };
    metadata.mode() >> shift & 1 == 1
}

/// Paths that a program needs and that an account cannot reach. A program in an environment of `lasthop setup` needs
/// the whole environment and the Python it was made from; lasthop needs its executable; any other needs the outermost
/// folder below the closed one, presumably its installation. A link that leads out of an environment adds its target,
/// and a script its interpreter. Empty if the file does not exist, as with programs in a container's image.
pub fn needed_for(program: &Path, ids: (u32, u32)) -> BTreeSet<PathBuf> {
    let Ok(itself) = program.canonicalize() else {
        return BTreeSet::new();
    };
    let folder = program.parent().and_then(|folder| folder.canonicalize().ok());
    let link = folder.map(|folder| folder.join(program.file_name().unwrap_or_default()));
    let own = fs::canonicalize("/proc/self/exe").ok();
    let mut needed = BTreeSet::new();
    for path in [Some(itself), link].into_iter().flatten() {
        if let Some(environment) = path.ancestors().find(|folder| folder.join(STAMP).is_file()) {
            needed.extend(base_of_python(environment));
            needed.insert(environment.to_owned());
        } else if own.as_ref() == Some(&path) {
            needed.insert(path);
        } else if let Some(closed) = closed_folder(&path, ids) {
            needed.extend(
                path.ancestors()
                    .take_while(|folder| *folder != closed)
                    .last()
                    .map(Path::to_owned),
            );
        }
    }
    // As in the kernel, an interpreter is not itself a script.
    needed.extend(
        interpreter(program)
            .into_iter()
            .flat_map(|program| needed_for(&program, ids)),
    );
    // Paths that the account can reach need no mount.
    needed.retain(|path| closed_folder(path, ids).is_some());
    needed
}

/// The interpreter in a script's first line.
pub fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut begin = [0; FIRST_LINE];
    let length = files::open_linked(script).ok()?.read(&mut begin).ok()?;
    let line = begin[..length]
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let word = line.trim_ascii().split(u8::is_ascii_whitespace).next()?;
    Some(OsStr::from_bytes(word).into()).filter(|path: &PathBuf| path.is_absolute() && path != script)
}

/// The installation of the Python that a virtual environment was made from.
fn base_of_python(environment: &Path) -> Option<PathBuf> {
    let text = String::from_utf8(files::read(&environment.join("pyvenv.cfg"), files::SHORT).ok()?).ok()?;
    // `home` is the folder of the interpreter (PEP 405), so the installation is its parent.
    let bin = text.lines().find_map(|line| line.strip_prefix("home = "))?;
    Path::new(bin).canonicalize().ok()?.parent().map(Path::to_owned)
}

/// Whether this process may open a passage.
pub fn is_possible() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Access to files in closed folders, with all memory allocated in advance, so that a child can open the passage
/// between fork and exec.
#[derive(Debug, Default)]
pub struct Passage {
    closed: BTreeSet<CString>,
    targets: Vec<Target>,
}

#[derive(Debug)]
struct Target {
    path: CString,
    is_folder: bool,
    /// Folders between the closed folder and the target, outermost first.
    folders: Vec<CString>,
    mount: Option<OwnedFd>,
}

impl Passage {
    /// A passage to files and folders whose paths contain no links.
    pub fn to(targets: &[PathBuf], ids: (u32, u32)) -> io::Result<Self> {
        let text = |path: &Path| Ok::<_, io::Error>(CString::new(path.as_os_str().as_bytes())?);
        let mut passage = Self::default();
        for path in targets {
            let Some(closed) = closed_folder(path, ids) else {
                continue;
            };
            passage.closed.insert(text(closed)?);
            let between = path.ancestors().skip(1).take_while(|folder| *folder != closed);
            let mut folders = between.map(text).collect::<Result<Vec<_>, _>>()?;
            folders.reverse();
            passage.targets.push(Target {
                path: text(path)?,
                is_folder: path.is_dir(),
                folders,
                mount: None,
            });
        }
        Ok(passage)
    }

    /// Moves this process into a mount namespace where the targets can be reached, unless all can be reached already.
    /// Makes system calls only.
    pub fn open(&mut self) -> io::Result<()> {
        if self.targets.is_empty() {
            return Ok(());
        }
        // SAFETY: unshare has no memory effects.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
        // Unmounts elsewhere propagate here, but not the reverse.
        rustix::mount::mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
        // All targets are opened first, because an empty folder over a closed one hides their paths.
        for target in &mut self.targets {
            let copy = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
            target.mount = Some(rustix::mount::open_tree(CWD, &target.path, copy)?);
        }
        for closed in &self.closed {
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            rustix::mount::mount(c"lasthop", closed, c"tmpfs", flags, c"mode=0711,size=1m")?;
        }
        self.targets.iter().try_for_each(Target::place)
    }
}

impl Target {
    fn place(&self) -> io::Result<()> {
        for folder in &self.folders {
            make_folder(folder)?;
        }
        if self.is_folder {
            make_folder(&self.path)?;
        } else {
            // A mere mount point: the mode that counts is that of the file mounted over it.
            rustix::fs::open(&self.path, OFlags::CREATE | OFlags::CLOEXEC, Mode::empty())?;
        }
        let Some(mount) = &self.mount else { return Ok(()) };
        Ok(rustix::mount::move_mount(
            mount,
            c"",
            CWD,
            &self.path,
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
        )?)
    }
}

/// Makes a folder that others may pass, whatever the umask is.
fn make_folder(path: &CString) -> io::Result<()> {
    match rustix::fs::mkdir(path, Mode::empty()) {
        Err(rustix::io::Errno::EXIST) => Ok(()),
        made => Ok(made.and_then(|()| rustix::fs::chmod(path, Mode::from_raw_mode(PASS)))?),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOBODY: (u32, u32) = (65_534, 65_534);

    /// Folders `outer/middle/inner` with these modes, and a `program` inside.
    fn folders(modes: [u32; 3]) -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        mode(root.path(), 0o755);
        let mut path = root.path().canonicalize().unwrap();
        for (name, bits) in ["outer", "middle", "inner"].into_iter().zip(modes) {
            path.push(name);
            fs::create_dir(&path).unwrap();
            mode(&path, bits);
        }
        path.push("program");
        fs::write(&path, "").unwrap();
        (root, path)
    }

    #[test]
    fn the_outermost_closed_folder_is_found() {
        let (root, path) = folders([0o711, 0o700, 0o750]);
        let root = root.path().canonicalize().unwrap();
        assert_eq!(closed_folder(&path, NOBODY), Some(root.join("outer/middle").as_path()));
        let owner = fs::metadata(&path).unwrap();
        assert_eq!(closed_folder(&path, (owner.uid(), owner.gid())), None);
        let (_root, path) = folders([0o755, 0o711, 0o701]);
        assert_eq!(closed_folder(&path, NOBODY), None);
        assert!(Passage::to(&[path], NOBODY).unwrap().targets.is_empty());
    }

    #[test]
    fn a_program_needs_its_installation_and_nothing_beside_it() {
        let (_root, program) = folders([0o755, 0o700, 0o755]);
        let inner = program.parent().unwrap();
        assert_eq!(needed_for(&program, NOBODY), BTreeSet::from([inner.to_owned()]));
        // A script needs its interpreter, too.
        let (_other, script) = folders([0o755, 0o700, 0o755]);
        fs::write(&script, format!("#! {} -x\nprint()\n", program.display())).unwrap();
        let both = BTreeSet::from([inner.to_owned(), script.parent().unwrap().to_owned()]);
        assert_eq!(needed_for(&script, NOBODY), both);
        assert_eq!(interpreter(&program), None);
        fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert_eq!(interpreter(&script), None, "it would never end");
        let (_root, program) = folders([0o755, 0o755, 0o700]);
        assert_eq!(needed_for(&program, NOBODY), BTreeSet::from([program]));
        for open in ["/bin/sh", "/nonexistent/program"] {
            assert_eq!(needed_for(Path::new(open), NOBODY), BTreeSet::new());
        }
    }

    #[test]
    fn a_program_of_an_environment_needs_all_of_it_and_the_python_that_it_is_of() {
        let (_root, program) = folders([0o700, 0o755, 0o755]);
        let inner = program.parent().unwrap();
        let link = inner.join("python");
        std::os::unix::fs::symlink("/bin/sh", &link).unwrap();
        fs::write(inner.join(STAMP), "").unwrap();
        let environment = inner.to_owned();
        assert_eq!(needed_for(&program, NOBODY), BTreeSet::from([environment.clone()]));
        assert_eq!(needed_for(&link, NOBODY), BTreeSet::from([environment.clone()]));
        let (_other, python) = folders([0o700, 0o755, 0o755]);
        let bin = python.parent().unwrap();
        fs::write(
            inner.join("pyvenv.cfg"),
            format!("home = {}\nversion = 3.11\n", bin.display()),
        )
        .unwrap();
        let base = bin.parent().unwrap().to_owned();
        assert_eq!(needed_for(&program, NOBODY), BTreeSet::from([environment, base]));
    }
}
