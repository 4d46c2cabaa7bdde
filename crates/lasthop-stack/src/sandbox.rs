//! The private directory of a run, and its addresses: sockets, ports, names.

mod found;
mod ports;

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fs::{self, DirBuilder, File},
    io,
    net::Ipv4Addr,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{DirBuilderExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use lasthop_model::binding::{Account, Bindings, ServiceBinding, TlsFiles};
use lasthop_trial::address::{Address, Transport, UNIX_NAME_MAX};
use rustix::fs::FlockOperation;

pub(super) use self::found::{Candidate, candidates_in, remove, remove_unfinished};
pub use self::{found::Doubtful, ports::free_port};
use crate::account;
use lasthop_system::{
    files::{self, Folder},
    owner, random,
};

use super::{
    passage::{self, PASS},
    setup::STAMP,
    tls,
};

/// Prefix of a sandbox's name. A random word follows.
const PREFIX: &str = "lasthop-";
/// Letters of the random word, and its length.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const WORD: usize = 6;
/// Name of the file that lasthop and its guard keep locked.
const LOCK: &str = "lock";
/// Environment variable with the directory for sandboxes.
pub const SANDBOX_VARIABLE: &str = "LASTHOP_SANDBOX";
/// Folder in a service's `runtime` for its files, if it cannot use those in the record.
const FILES: &str = "files";
/// Folder in the sandbox for what root's clients of services use, by stack and service.
const OUTSIDE: &str = "at";
/// Cache folders in the sandbox, shared by the services of a recipe: one for services of another account, one for
/// services of lasthop's own account, and one for containers. No service executes files from another of these folders.
const CACHE: &str = "cache";
const OWN_CACHE: &str = "own-cache";
const CONTAINER_CACHE: &str = "container-cache";
/// The longest parent path that leaves enough room for socket paths, in bytes.
const PARENT_LIMIT: usize = 40;

/// A directory with a short path that only this user can enter (0700). It is removed on drop.
///
/// Its lock file is locked as long as lasthop or its guard lives. [`super::guard::sweep`] removes unlocked sandboxes.
#[derive(Debug)]
pub struct Sandbox {
    path: PathBuf,
    lock: File,
    tls: TlsFiles,
    secret: String,
}

/// The properties of a service that determine its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub name: String,
    pub transport: Transport,
    /// Absolute path of the executable.
    pub program: PathBuf,
    /// Name of the recipe.
    pub recipe: String,
    /// Folders of the service's packages, by language.
    pub packages: BTreeMap<&'static str, PathBuf>,
    /// File name of the Unix socket.
    pub socket: String,
    /// The service does not run as root.
    pub unprivileged: bool,
    pub in_container: bool,
    /// lasthop builds files for the service in the folder that services of its recipe share.
    pub is_built: bool,
    /// The authority that clients trust, as a path below the service's folder in the sandbox, if not the authority of
    /// the run.
    pub authority: Option<PathBuf>,
}

impl Sandbox {
    /// Creates a sandbox in the first suitable place: `$LASTHOP_SANDBOX`, `$XDG_RUNTIME_DIR` if its path is short, the
    /// directory for temporary files, or `/tmp`.
    pub fn create() -> Result<Self, String> {
        let parent = wanted_parent().or_else(|| parents().into_iter().find(|parent| is_plain(parent)));
        Self::create_in(&parent.expect("/tmp is one of them"))
    }

    /// Like [`Sandbox::create`], in this directory.
    pub fn create_in(parent: &Path) -> Result<Self, String> {
        let refused = |cause: io::Error| {
            let parent = parent.display();
            format!(
                "cannot create a private directory in {parent}: {cause}; set LASTHOP_SANDBOX to a writable directory"
            )
        };
        // The tag holds the whole path, and a sweep compares it with the canonical path.
        let plain = parent.canonicalize().map_err(refused)?;
        if !is_plain(&plain) {
            return Err(format!(
                "configuration files and scripts contain the path {}, and some of its characters have a special meaning \
                 there: set LASTHOP_SANDBOX to a directory with only letters, digits and . _ - + @ = in its path, such \
                 as /tmp",
                plain.display()
            ));
        }
        // In a user namespace, the owner of the root folder is unknown.
        let is_known = account::current().is_root && owner::exchangeable(Path::new("/")).is_none();
        if let Some(foreign) = owner::exchangeable(&plain).filter(|_| is_known) {
            return Err(format!(
                "{foreign}, and could exchange what root runs there: set LASTHOP_SANDBOX to a directory that only root can \
                 change, or to one like /tmp"
            ));
        }
        let secret = random::secret().map_err(refused)?;
        let (path, lock) = make_locked(&plain).map_err(refused)?;
        let tls = tls::make(&path.join("tls")).inspect_err(|_| drop(remove(&path)))?;
        Ok(Self {
            path,
            lock,
            tls,
            secret,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The locked file. A copy of its descriptor keeps the sandbox alive.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// The certificate authority of the run, and a certificate for servers.
    pub fn tls(&self) -> &TlsFiles {
        &self.tls
    }

    /// Gives each service of a stack its directories and its address, and makes the directories.
    ///
    /// `services_record` is the folder `services` of the run record.
    pub fn bind(
        &self,
        services_record: &Path,
        round: u32,
        stack: usize,
        wanted: &[Wanted],
    ) -> Result<Bindings, String> {
        let records = std::path::absolute(services_record).unwrap_or_else(|_| services_record.to_owned());
        let stack_of = PathBuf::from(round.to_string()).join(stack.to_string());
        let mut services = IndexMap::new();
        for service in wanted {
            // Path components from the parent on are not trusted: the record may be somebody else's.
            let run = records.parent().unwrap_or(&records);
            let below = Path::new(records.file_name().unwrap_or_default()).join(&stack_of);
            let record = make(run, &below.join(&service.name), 0o755)?;
            services.insert(service.name.clone(), self.bind_service(record, round, stack, service)?);
        }
        Ok(Bindings {
            round,
            stack,
            services,
            account: account::current(),
            secret: self.secret.clone(),
            cpus: Vec::new(),
        })
    }

    /// Makes a service's directories and chooses its address. The folders and their contents stay lasthop's own until
    /// [`hand_over`].
    fn bind_service(
        &self,
        record: PathBuf,
        round: u32,
        stack: usize,
        service: &Wanted,
    ) -> Result<ServiceBinding, String> {
        let place = format!("{round}.{stack}");
        let runtime = self.path.join(&place).join(&service.name);
        let kind = match service {
            Wanted { in_container: true, .. } => CONTAINER_CACHE,
            Wanted { unprivileged: true, .. } => CACHE,
            _ => OWN_CACHE,
        };
        let cache = self.path.join(kind).join(&service.recipe);
        let sandbox = self.path.file_name().unwrap_or_default().to_string_lossy();
        let listen = free_address(
            &service.transport.address(),
            runtime.join(&service.socket),
            format!("{sandbox}.{place}.{}", service.name),
        )?;
        let own = account::current();
        let outside = own
            .is_root
            .then(|| self.path.join(OUTSIDE).join(&place).join(&service.name));
        let address = match (&outside, listen.path()) {
            (Some(outside), Some(_)) => listen.at(socket_path(outside.join(&service.socket))?, "", 0),
            _ => listen.clone(),
        };
        for folder in [&runtime, &cache].into_iter().chain(&outside) {
            make(&self.path, folder, 0o700)?;
        }
        let mut binding = ServiceBinding {
            name: service.name.clone(),
            // Templates write this path into files, where a space or a quote would need quoting.
            directory: if is_plain(&record) {
                record.clone()
            } else {
                runtime.join(FILES)
            },
            record,
            account: None,
            needed: Vec::new(),
            packages: service.packages.clone(),
            cache,
            runtime,
            outside,
            in_container: service.in_container,
            transport: service.transport,
            listen,
            address,
            tls: service.transport.is_tls().then(|| self.tls.clone()),
            own_authority: None,
            program: service.program.clone(),
            spare_port: free_port(Ipv4Addr::LOCALHOST.into()),
        };
        if let (Some(tls), Some(authority)) = (&mut binding.tls, &service.authority) {
            binding.own_authority = Some(binding.runtime.join(authority));
            tls.authority = self.tls_folder().join(format!("{place}.{}.pem", service.name));
        }
        if service.unprivileged && own.is_root {
            self.open_for(&mut binding, account::unprivileged()?, service.is_built)?;
        }
        if binding.directory != binding.record {
            make(&binding.runtime, Path::new(FILES), 0o755)?;
        }
        Ok(binding)
    }

    /// Lets another account pass to a service's folders, and gives it the key of the run. Others can pass but not list
    /// the folders above. lasthop keeps folders that it builds in.
    fn open_for(&self, binding: &mut ServiceBinding, account: Account, is_built: bool) -> Result<(), String> {
        let (user, group) = account.ids;
        let outside = binding.outside.as_deref();
        let above = outside.iter().flat_map(|outside| outside.ancestors().skip(1).take(2));
        let on_the_way = [binding.runtime.parent(), binding.cache.parent(), Some(&self.path)];
        for folder in on_the_way.into_iter().flatten().chain(above) {
            given(folder, |folder| folder.set_mode(PASS))?;
        }
        // The group can open files by name, but can neither list the folder nor write in it.
        let for_group = |folder: &Folder| {
            folder.give(None, Some(group))?;
            folder.set_mode(0o710)
        };
        outside.map_or(Ok(()), |outside| given(outside, for_group))?;
        let stamps = binding.packages.values().map(|folder| folder.join(STAMP));
        binding.needed = self.needed([binding.program.clone()].into_iter().chain(stamps), &account)?;
        given(&binding.cache, |cache| {
            if is_built {
                cache.set_mode(0o755)
            } else {
                cache.give(Some(user), Some(group))
            }
        })?;
        if binding.tls.is_some() {
            given(self.tls_folder(), for_group)?;
            // The mode stays 0600, which PostgreSQL, for one, requires of a key owned by its user.
            std::os::unix::fs::lchown(&self.tls.key, Some(user), Some(group))
                .map_err(|cause| not_given(&self.tls.key, &cause))?;
        }
        binding.directory = binding.runtime.join(FILES);
        binding.account = Some(account);
        Ok(())
    }

    /// The folder of TLS files, where only lasthop's own account writes.
    fn tls_folder(&self) -> &Path {
        self.tls.key.parent().expect("it is in the sandbox")
    }

    /// Paths that a process of an account needs and the account cannot enter: this sandbox, and these files. The first
    /// file is the program.
    pub fn needed(&self, files: impl IntoIterator<Item = PathBuf>, account: &Account) -> Result<Vec<PathBuf>, String> {
        let Account { ids, user, .. } = account;
        let ids = *ids;
        let mut files = files.into_iter().peekable();
        let program = files.peek().cloned().unwrap_or_default();
        let sandbox = passage::closed_folder(&self.path, ids).map(|_| self.path.clone());
        let needed: BTreeSet<PathBuf> = files.flat_map(|file| passage::needed_for(&file, ids)).collect();
        let needed: Vec<PathBuf> = sandbox.into_iter().chain(needed).collect();
        match needed.first().filter(|_| !passage::is_possible()) {
            None => Ok(needed),
            Some(path) if *path == self.path => Err(format!(
                "the account `{user}`, which servers and drivers run as, cannot reach {}: set LASTHOP_SANDBOX to a \
                 directory that everybody can enter, such as /tmp, or run lasthop as another user than root",
                path.display()
            )),
            Some(path) => Err(format!(
                "the account `{user}`, which {} would run as, cannot reach {}: install the program where everybody can \
                 reach it, or run lasthop as another user than root",
                program.display(),
                path.display()
            )),
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // The guard removes the sandbox too, at the very end. This is for runs without a guard.
        let _ = remove(&self.path);
    }
}

/// Directories where sandboxes are created (the first one) or may have been created, without duplicates.
pub(super) fn parents() -> Vec<PathBuf> {
    let mut runtime = env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| is_short_and_ours(path));
    // Root's runtime directory is closed to the account of servers.
    let last = runtime.take_if(|_| rustix::process::geteuid().is_root());
    let all = [
        wanted_parent(),
        runtime,
        Some(env::temp_dir()),
        Some("/tmp".into()),
        last,
    ];
    let mut parents = Vec::new();
    for parent in all.into_iter().flatten() {
        if !parents.contains(&parent) {
            parents.push(parent);
        }
    }
    parents
}

/// The directory for sandboxes that the user set.
fn wanted_parent() -> Option<PathBuf> {
    env::var_os(SANDBOX_VARIABLE)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// Whether a path needs no quoting in any shell, configuration file or address. Templates write paths into files of
/// many languages with different quoting rules, so only plain paths are allowed.
fn is_plain(path: &Path) -> bool {
    path.to_str().is_some_and(|text| {
        text.chars()
            .all(|character| character.is_alphanumeric() || "/._-+@=".contains(character))
    })
}

fn is_short_and_ours(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let is_short = path.is_absolute() && path.as_os_str().len() <= PARENT_LIMIT;
    is_short && files::facts_linked(path).is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == user)
}

/// Renames the directory to its final name only after its lock is held and its tag is written, so that a sweep never
/// takes a new sandbox for a dead one.
fn make_locked(parent: &Path) -> io::Result<(PathBuf, File)> {
    let (name, hidden) = loop {
        let mut bytes = [0_u8; WORD];
        rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
        // 256 is a multiple of the 32 letters, so each is equally likely.
        let word = bytes.map(|byte| char::from(LETTERS[usize::from(byte) % LETTERS.len()]));
        let name = format!("{PREFIX}{}", String::from_iter(word));
        let hidden = parent.join(format!(".{name}"));
        match DirBuilder::new().mode(0o700).create(&hidden) {
            Ok(()) => break (name, hidden),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    };
    let path = parent.join(name);
    let locked = files::create_new_private(&hidden.join(LOCK)).and_then(|file| {
        lock(&file)?;
        found::write_tag(&hidden, &path)?;
        fs::rename(&hidden, &path)?;
        Ok(file)
    });
    locked
        .inspect_err(|_| drop(remove_unfinished(&hidden)))
        .map(|file| (path, file))
}

/// Locks the file of a sandbox. Fails if another process holds the lock: the sandbox is in use.
pub(super) fn lock(file: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)?)
}

/// Makes a folder, with its parents, below a folder of lasthop's own.
fn make(own: &Path, below: &Path, mode: u32) -> Result<PathBuf, String> {
    let path = own.join(below);
    let below = path.strip_prefix(own).expect("it is below");
    match Folder::open(own).and_then(|own| own.make(below, mode)) {
        Ok(_) => Ok(path),
        Err(cause) => Err(format!("cannot create {}: {cause}", path.display())),
    }
}

/// Changes a folder in a parent where only lasthop's own account can rename.
fn given(path: &Path, change: impl FnOnce(&Folder) -> io::Result<()>) -> Result<(), String> {
    let parent = path.parent().unwrap_or(path);
    let folder = Folder::open(parent).and_then(|parent| parent.at(Path::new(path.file_name().unwrap_or_default())));
    folder
        .and_then(|folder| change(&folder))
        .map_err(|cause| not_given(path, &cause))
}

fn not_given(path: &Path, cause: &io::Error) -> String {
    format!(
        "cannot give {} to the account that a server runs as: {cause}; set LASTHOP_SANDBOX to a directory on a local file \
         system such as /tmp",
        path.display()
    )
}

/// Gives a service's folder to the service's account. From here on lasthop makes nothing in it, and opens nothing in it
/// by name.
pub(super) fn hand_over(binding: &ServiceBinding) -> Result<(), String> {
    let Some((user, group)) = binding.account.as_ref().map(|account| account.ids) else {
        return Ok(());
    };
    given(&binding.runtime, |folder| folder.give(Some(user), Some(group)))
}

/// Returns the path if the kernel accepts its length for a Unix socket.
pub fn socket_path(path: PathBuf) -> Result<PathBuf, String> {
    let length = path.as_os_str().len();
    if length <= UNIX_NAME_MAX {
        return Ok(path);
    }
    Err(format!(
        "the socket path {} has {length} bytes, but the kernel allows {UNIX_NAME_MAX}: set TMPDIR or LASTHOP_SANDBOX to a \
         directory with a shorter path",
        path.display()
    ))
}

/// A free address of the kind of `like`: the path `path`, the abstract name `name`, or a port of the same host.
pub fn free_address(like: &Address, path: PathBuf, name: String) -> Result<Address, String> {
    match like.ip() {
        // A port that is free for TCP is hardly ever taken for UDP; otherwise the start fails.
        Some(ip) => Ok(like.at("", "", free_port(ip)?)),
        None if like.path().is_some() => Ok(like.at(socket_path(path)?, "", 0)),
        None if name.len() <= UNIX_NAME_MAX => Ok(like.at("", name, 0)),
        None => Err(format!(
            "the abstract socket name `{name}` has {} bytes, but the kernel allows {UNIX_NAME_MAX}",
            name.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use lasthop_model::binding::SOCKET;

    use super::*;

    fn wanted(name: &str, transport: Transport) -> Wanted {
        Wanted {
            name: name.to_owned(),
            transport,
            program: "/bin/true".into(),
            recipe: name.to_owned(),
            packages: BTreeMap::new(),
            socket: SOCKET.to_owned(),
            unprivileged: false,
            in_container: false,
            is_built: false,
            authority: None,
        }
    }

    #[test]
    fn a_sandbox_is_private_short_and_leaves_nothing() {
        let sandbox = Sandbox::create().unwrap();
        let path = sandbox.path().to_owned();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(path.as_os_str().len() <= PARENT_LIMIT + 16, "{}", path.display());
        assert_eq!(
            sandbox.tls().key.metadata().unwrap().permissions().mode() & 0o777,
            0o600
        );
        drop(sandbox);
        assert!(!path.exists());
    }

    #[test]
    fn each_service_gets_the_address_of_its_transport() {
        let sandbox = Sandbox::create().unwrap();
        let record = tempfile::tempdir().unwrap();
        let all: Vec<_> = Transport::ALL
            .iter()
            .map(|transport| wanted(transport.name(), *transport))
            .collect();
        let bindings = sandbox.bind(record.path(), 1, 2, &all).unwrap();
        assert_eq!(bindings.services["unix"].directory, record.path().join("1/2/unix"));
        for transport in Transport::ALL {
            let service = &bindings.services[transport.name()];
            assert!(service.directory.is_dir() && service.runtime.is_dir());
            assert_eq!(service.tls.is_some(), transport.is_tls());
            assert_eq!(service.endpoint().tls.is_some(), transport.is_tls());
            match (&service.address, transport.is_unix()) {
                (Address::Unix(path) | Address::Channel(_, path) | Address::Packets(_, path), true) => {
                    assert!(path.starts_with(sandbox.path()));
                }
                (Address::Abstract(name), true) => assert!(name.starts_with("lasthop-")),
                (Address::Tcp(address) | Address::Udp(address), false) => assert!(address.ip().is_loopback()),
                (address, _) => panic!("{transport}: {address:?}"),
            }
        }
    }

    #[test]
    fn templates_get_only_paths_that_need_no_quotes() {
        let parent = tempfile::tempdir().unwrap();
        let odd = parent.path().join("a 'b\";>c;$(d)");
        fs::create_dir(&odd).unwrap();
        let error = Sandbox::create_in(&odd).unwrap_err().to_string();
        assert!(
            error.contains("c;$(d)") && error.contains("set LASTHOP_SANDBOX"),
            "{error}"
        );
        assert_eq!(fs::read_dir(&odd).unwrap().count(), 0);
        let sandbox = Sandbox::create().unwrap();
        let service = sandbox
            .bind(&odd, 0, 0, &[wanted("app", Transport::Unix)])
            .unwrap()
            .services["app"]
            .clone();
        assert!(service.directory.starts_with(sandbox.path()) && service.directory.is_dir());
        assert_eq!(service.record, odd.join("0/0/app"));
    }

    #[test]
    fn root_has_no_sandbox_where_others_could_exchange_it() {
        let parent = tempfile::tempdir().unwrap();
        let create = |mode| {
            fs::set_permissions(parent.path(), fs::Permissions::from_mode(mode)).unwrap();
            Sandbox::create_in(parent.path()).map(drop)
        };
        assert_eq!(create(0o1777), Ok(()));
        let refused = create(0o777);
        if account::current().is_root {
            let said = refused.unwrap_err();
            assert!(said.starts_with("other accounts can write "), "{said}");
            assert!(said.contains("set LASTHOP_SANDBOX"), "{said}");
        } else {
            assert_eq!(refused, Ok(()));
        }
    }

    #[test]
    fn what_is_made_while_a_sandbox_is_removed_goes_with_it() {
        let sandbox = Sandbox::create().unwrap();
        let path = sandbox.path().to_owned();
        let late = Folder::open(&path).unwrap();
        let hidden = path.with_file_name(format!(".{}", path.file_name().unwrap().to_str().unwrap()));
        // Like the guard's removal, interrupted by a start of lasthop.
        fs::rename(&path, &hidden).unwrap();
        for file in ["sandbox.tag", LOCK] {
            fs::remove_file(hidden.join(file)).unwrap();
        }
        late.make(Path::new("0.0/service"), 0o755).unwrap();
        drop(sandbox);
        assert!(!hidden.exists());
    }

    #[test]
    fn a_socket_path_that_is_too_long_says_how_to_shorten_it() {
        let parent = tempfile::tempdir().unwrap();
        let deep = parent.path().join("d".repeat(90));
        fs::create_dir(&deep).unwrap();
        let sandbox = Sandbox::create_in(&deep).unwrap();
        let error = sandbox
            .bind(parent.path(), 0, 0, &[wanted("app", Transport::Unix)])
            .unwrap_err()
            .to_string();
        let path = sandbox.path().join("0.0/app/socket");
        let expected = format!(
            "the socket path {} has {} bytes, but the kernel allows 107: set TMPDIR or LASTHOP_SANDBOX to a \
             directory with a shorter path",
            path.display(),
            path.as_os_str().len()
        );
        assert_eq!(error, expected);
        assert!(
            sandbox
                .bind(parent.path(), 0, 0, &[wanted("app", Transport::Tcp)])
                .is_ok()
        );
        assert_eq!(
            socket_path(PathBuf::from("x".repeat(107))).unwrap().as_os_str().len(),
            107
        );
        assert!(socket_path(PathBuf::from("x".repeat(108))).is_err());
    }

    #[test]
    fn a_parent_that_is_missing_names_the_remedy() {
        let error = Sandbox::create_in(Path::new("/nowhere/at/all"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("/nowhere/at/all") && error.contains("LASTHOP_SANDBOX"),
            "{error}"
        );
    }
}
