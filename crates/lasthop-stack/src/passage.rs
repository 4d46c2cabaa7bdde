//! How a server's account reaches what it needs in folders that are closed to it, without anybody else getting there.
//!
//! Root's home is closed to `nobody`, and often has lasthop itself in it, and the environments that `lasthop setup`
//! makes. A server that needs them gets a mount namespace of its own. There an empty folder lies over each closed one,
//! and in it, at its own path, only what the server needs.

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

/// So much of a script's first line counts, as in the kernel.
const FIRST_LINE: usize = 256;

/// Others may pass, and not look.
pub const PASS: u32 = 0o711;

/// The outermost folder on the way to a file that an account cannot enter.
pub fn closed_folder(path: &Path, ids: (u32, u32)) -> Option<&Path> {
    path.ancestors()
        .skip(1)
        .filter(|folder| folder.exists() && !lets_pass(folder, ids))
        .last()
}

/// Whether an account may pass through a folder, by its mode.
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

/// What a program needs and an account cannot reach: for a program in an environment of `lasthop setup`, all of that
/// and the Python that it was made from; for lasthop, the executable; for any other, the outermost folder below the
/// closed one, which is taken for its installation. A link in an environment may lead out of it; then both ends count. So
/// does the interpreter of a script. Nothing if there is no such file, as with the program of a container's image.
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
    // An interpreter is no script itself, as the kernel has it.
    needed.extend(
        interpreter(program)
            .into_iter()
            .flat_map(|program| needed_for(&program, ids)),
    );
    // What the account can reach anyway needs no mount.
    needed.retain(|path| closed_folder(path, ids).is_some());
    needed
}

/// What a script names in its first line.
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

/// Where the Python is installed that a virtual environment was made of.
fn base_of_python(environment: &Path) -> Option<PathBuf> {
    let text = String::from_utf8(files::read(&environment.join("pyvenv.cfg"), files::SHORT).ok()?).ok()?;
    // `home` is the folder of the interpreter (PEP 405), so the installation is the folder above it.
    let bin = text.lines().find_map(|line| line.strip_prefix("home = "))?;
    Path::new(bin).canonicalize().ok()?.parent().map(Path::to_owned)
}

/// Whether this process may make one.
pub fn is_possible() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Everything that is allocated for it, so that a child can make it between fork and exec.
#[derive(Debug, Default)]
pub struct Passage {
    closed: BTreeSet<CString>,
    targets: Vec<Target>,
}

#[derive(Debug)]
struct Target {
    path: CString,
    is_folder: bool,
    /// From below the closed folder to above the target.
    folders: Vec<CString>,
    mount: Option<OwnedFd>,
}

impl Passage {
    /// To these files and folders, whose paths have no links in them.
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

    /// Moves this process into a mount namespace where the targets can be reached; nothing where all of them can be
    /// anyway. It makes system calls only.
    pub fn open(&mut self) -> io::Result<()> {
        if self.targets.is_empty() {
            return Ok(());
        }
        // SAFETY: unshare has no memory effects.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
        // What is unmounted elsewhere is unmounted here, and nothing the other way round.
        rustix::mount::mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
        // All targets are opened first: once an empty folder lies over a closed one, paths no longer lead to them.
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
            // Only a mount point: the modes that count are those of the file mounted over it.
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

/// That others may pass, whatever the umask is.
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

    /// `outer/middle/inner/program`, with these modes of the folders.
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
