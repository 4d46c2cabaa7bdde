//! The private directory of a run, and the addresses in it: sockets, ports, names.

use std::{
    collections::HashSet,
    env, fs,
    fs::{DirBuilder, File},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use indexmap::IndexMap;
use lasthop_load::spec::{Address, Transport};
use rustix::fs::FlockOperation;

use super::{
    account,
    bindings::{Account, Bindings, SOCKET, ServiceBinding, TlsFiles},
    tls,
};

/// Beginning of a sandbox's name; six random characters follow.
const PREFIX: &str = "lasthop-";
/// Name of the file that lasthop and its guard keep locked.
pub(super) const LOCK: &str = "lock";
/// The longest path of a Unix socket in bytes: `sun_path` has 108, the last of them NUL.
pub const SOCKET_PATH_LIMIT: usize = 107;
/// The directory for sandboxes, where it is set.
pub const SANDBOX_VARIABLE: &str = "LASTHOP_SANDBOX";
/// Longer parents would leave too little room for socket paths.
const PARENT_LIMIT: usize = 40;

/// Why a sandbox or an address in it cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error(
        "cannot make a private directory in {parent}: {cause} (set LASTHOP_SANDBOX to a directory that can be written)"
    )]
    Create { parent: PathBuf, cause: io::Error },
    #[error(
        "the socket path {path} has {length} bytes, but the kernel allows {SOCKET_PATH_LIMIT}: \
         set TMPDIR or LASTHOP_SANDBOX to a shorter directory"
    )]
    SocketPathTooLong { path: PathBuf, length: usize },
    #[error("the abstract socket name `{name}` has {length} bytes, but the kernel allows {SOCKET_PATH_LIMIT}")]
    NameTooLong { name: String, length: usize },
    #[error("this machine has no IPv6 loopback address ::1: {0}")]
    NoIpv6(io::Error),
    #[error("no free port was found on {address} between {low} and {high}: {cause}")]
    NoPort { address: IpAddr, low: u16, high: u16, cause: io::Error },
    #[error("cannot make {path}: {cause}")]
    Directory { path: PathBuf, cause: io::Error },
    #[error(
        "the account `{user}`, which a server runs as, cannot enter {path}: set LASTHOP_SANDBOX to a directory that \
         everybody can enter, such as /tmp, or run lasthop as another user than root"
    )]
    Closed { user: String, path: PathBuf },
    #[error(transparent)]
    Account(#[from] account::NoAccount),
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
}

/// A directory that only this user can enter (0700), with a short path, removed on drop.
///
/// Its lock file is locked as long as lasthop or its guard lives; [`super::guard::sweep`] removes those that nobody
/// locks.
#[derive(Debug)]
pub struct Sandbox {
    path: PathBuf,
    lock: File,
    tls: TlsFiles,
}

/// What a service needs an address for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub name: String,
    pub transport: Transport,
    /// Absolute path of its executable.
    pub program: PathBuf,
    /// Name of its recipe.
    pub recipe: String,
    /// File name of its Unix socket.
    pub socket: String,
    /// It refuses to run as root.
    pub unprivileged: bool,
    /// What clients trust, below its folder in the sandbox, where it is not the authority of the run.
    pub authority: Option<PathBuf>,
}

impl Wanted {
    #[must_use]
    pub fn new(name: &str, transport: Transport, program: impl Into<PathBuf>) -> Self {
        let (name, recipe, socket) = (name.to_owned(), name.to_owned(), SOCKET.to_owned());
        Self { name, transport, program: program.into(), recipe, socket, unprivileged: false, authority: None }
    }
}

impl Sandbox {
    /// Makes a sandbox in the first fitting place: `$LASTHOP_SANDBOX`, `$XDG_RUNTIME_DIR` if its path is short, or
    /// the directory for temporary files.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn create() -> Result<Self, SandboxError> {
        Self::create_in(&parents()[0])
    }

    /// As [`Sandbox::create`], in this directory.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn create_in(parent: &Path) -> Result<Self, SandboxError> {
        let refused = |cause| SandboxError::Create { parent: parent.to_owned(), cause };
        let parent = parent.canonicalize().map_err(refused)?;
        let (path, lock) = make_locked(&parent).map_err(refused)?;
        match tls::make(&path.join("tls")) {
            Ok(tls) => Ok(Self { path, lock, tls }),
            Err(error) => {
                let _ = fs::remove_dir_all(&path);
                Err(error.into())
            }
        }
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The locked file. Who holds a copy keeps the sandbox alive.
    #[must_use]
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    /// The certificate authority of the run, and a certificate for servers.
    #[must_use]
    pub fn tls(&self) -> &TlsFiles {
        &self.tls
    }

    /// Gives each service of a stack its directories and its address, and makes the directories.
    ///
    /// `services_record` is the folder `services` of the run record.
    ///
    /// # Errors
    /// A socket path is too long, no port is free, or a directory cannot be made.
    pub fn bind(
        &self,
        services_record: &Path,
        round: u32,
        stack: usize,
        wanted: &[Wanted],
    ) -> Result<Bindings, SandboxError> {
        let mut services = IndexMap::new();
        for service in wanted {
            let record = services_record.join(round.to_string()).join(stack.to_string()).join(&service.name);
            services.insert(service.name.clone(), self.bind_service(record, round, stack, service)?);
        }
        Ok(Bindings { round, stack, services, account: account::current(), cpus: Vec::new() })
    }

    fn bind_service(
        &self,
        record: PathBuf,
        round: u32,
        stack: usize,
        service: &Wanted,
    ) -> Result<ServiceBinding, SandboxError> {
        let runtime = self.path.join(format!("{round}.{stack}")).join(&service.name);
        let cache = self.path.join("cache").join(&service.recipe);
        let address = self.address(&runtime, service, &format!("{round}.{stack}.{}", service.name))?;
        make_directory(&record, 0o755)?;
        make_directory(&runtime, 0o700)?;
        make_directory(&cache, 0o700)?;
        let record = std::path::absolute(&record).unwrap_or(record);
        let mut binding = ServiceBinding {
            name: service.name.clone(),
            directory: record.clone(),
            record,
            account: None,
            cache,
            runtime,
            transport: service.transport,
            listen: address.clone(),
            address,
            tls: service.transport.is_tls().then(|| self.tls.clone()),
            program: service.program.clone(),
            spare_port: free_port(Ipv4Addr::LOCALHOST.into())?.port(),
        };
        if let (Some(tls), Some(authority)) = (&mut binding.tls, &service.authority) {
            tls.authority = binding.runtime.join(authority);
        }
        let own = account::current();
        if service.unprivileged && own.is_root {
            self.hand_over(&mut binding, account::unprivileged()?)?;
        }
        Ok(binding)
    }

    /// Gives a service's folders to another account, with files and keys of its own. The way there is opened, which
    /// lets others pass and not look: every folder on it stays private by its own mode.
    fn hand_over(&self, binding: &mut ServiceBinding, account: Account) -> Result<(), SandboxError> {
        let on_the_way = [binding.runtime.parent(), binding.cache.parent(), Some(&self.path)];
        for folder in on_the_way.into_iter().flatten() {
            set_mode(folder, 0o711)?;
        }
        let closed = self.path.ancestors().find(|folder| !lets_pass(folder, account.ids));
        if let Some(path) = closed {
            return Err(SandboxError::Closed { user: account.user, path: path.to_owned() });
        }
        give(&binding.cache, account.ids)?;
        give(&binding.runtime, account.ids)?;
        binding.directory = binding.runtime.join("files");
        make_directory(&binding.directory, 0o755)?;
        if let Some(files) = &mut binding.tls {
            *files = copied_tls(files, &binding.runtime.join("tls"), account.ids)?;
        }
        binding.account = Some(account);
        Ok(())
    }

    fn address(&self, runtime: &Path, service: &Wanted, name: &str) -> Result<Address, SandboxError> {
        match service.transport {
            Transport::Unix | Transport::TlsUnix => socket_path(runtime.join(&service.socket)).map(Address::Unix),
            Transport::Abstract => {
                let sandbox = self.path.file_name().unwrap_or_default().to_string_lossy();
                abstract_name(format!("{sandbox}.{name}")).map(Address::Abstract)
            }
            Transport::Tcp | Transport::Tls => free_port(Ipv4Addr::LOCALHOST.into()).map(Address::Tcp),
            Transport::Tcp6 => free_port(Ipv6Addr::LOCALHOST.into()).map(Address::Tcp),
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // The guard removes it too, and last; here it is for runs that had none.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Directories where sandboxes are made (the first) or may have been made, each once.
#[must_use]
pub(super) fn parents() -> Vec<PathBuf> {
    let mut runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| is_short_and_ours(path));
    // Root's is closed to the account that servers run as which refuse to run as root.
    let last = if rustix::process::geteuid().is_root() { runtime.take() } else { None };
    let chosen = env::var_os(SANDBOX_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let mut parents = Vec::new();
    for parent in chosen.into_iter().chain(runtime).chain([env::temp_dir(), PathBuf::from("/tmp")]).chain(last) {
        if !parents.contains(&parent) {
            parents.push(parent);
        }
    }
    parents
}

fn is_short_and_ours(path: &Path) -> bool {
    let ours = |metadata: fs::Metadata| metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
    path.is_absolute() && path.as_os_str().len() <= PARENT_LIMIT && path.metadata().is_ok_and(ours)
}

/// Sandboxes of this user in a directory, dead or alive.
pub(super) fn found_in(parent: &Path) -> Vec<PathBuf> {
    ours_in(parent, PREFIX).into_iter().map(|(path, _)| path).collect()
}

/// Sandboxes of this user that were never finished: their maker died within the milliseconds that this takes.
pub(super) fn unfinished_in(parent: &Path) -> Vec<PathBuf> {
    const LONG_AGO: Duration = Duration::from_secs(60);
    let is_old = |made: &SystemTime| made.elapsed().is_ok_and(|age| age > LONG_AGO);
    ours_in(parent, &format!(".{PREFIX}")).into_iter().filter(|(_, made)| is_old(made)).map(|(path, _)| path).collect()
}

fn ours_in(parent: &Path, prefix: &str) -> Vec<(PathBuf, SystemTime)> {
    let uid = rustix::process::geteuid().as_raw();
    let ours = |entry: fs::DirEntry| {
        entry.file_name().to_str()?.starts_with(prefix).then_some(())?;
        let metadata = entry.path().symlink_metadata().ok()?;
        (metadata.is_dir() && metadata.uid() == uid).then(|| Some((entry.path(), metadata.modified().ok()?)))?
    };
    fs::read_dir(parent).into_iter().flatten().flatten().filter_map(ours).collect()
}

/// The directory gets its name only when its lock is held, so that a sweep never takes a new one for a dead one.
fn make_locked(parent: &Path) -> io::Result<(PathBuf, File)> {
    let (name, hidden) = loop {
        let name = format!("{PREFIX}{}", random_word()?);
        let hidden = parent.join(format!(".{name}"));
        match DirBuilder::new().mode(0o700).create(&hidden) {
            Ok(()) => break (name, hidden),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    };
    let path = parent.join(name);
    let locked = File::create_new(hidden.join(LOCK)).and_then(|lock| {
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&hidden, &path)?;
        Ok(lock)
    });
    locked.inspect_err(|_| drop(fs::remove_dir_all(&hidden))).map(|lock| (path, lock))
}

fn random_word() -> io::Result<String> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bytes = [0_u8; 6];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect())
}

/// Copies of the TLS files that belong to another account.
fn copied_tls(files: &TlsFiles, folder: &Path, ids: (u32, u32)) -> Result<TlsFiles, SandboxError> {
    make_directory(folder, 0o700)?;
    let copied = |from: &Path| {
        let to = folder.join(from.file_name().unwrap_or_default());
        fs::copy(from, &to).map_err(|cause| SandboxError::Directory { path: to.clone(), cause })?;
        give(&to, ids)?;
        Ok::<_, SandboxError>(to)
    };
    let copy = TlsFiles {
        authority: copied(&files.authority)?,
        certificate: copied(&files.certificate)?,
        key: copied(&files.key)?,
    };
    give(folder, ids)?;
    Ok(copy)
}

fn give(path: &Path, (user, group): (u32, u32)) -> Result<(), SandboxError> {
    let given = std::os::unix::fs::chown(path, Some(user), Some(group));
    given.map_err(|cause| SandboxError::Directory { path: path.to_owned(), cause })
}

fn set_mode(path: &Path, mode: u32) -> Result<(), SandboxError> {
    let set = fs::set_permissions(path, fs::Permissions::from_mode(mode));
    set.map_err(|cause| SandboxError::Directory { path: path.to_owned(), cause })
}

/// Whether an account may pass through a folder, by its mode.
fn lets_pass(folder: &Path, (user, group): (u32, u32)) -> bool {
    let Ok(metadata) = folder.metadata() else { return false };
    let shift = match metadata {
        _ if metadata.uid() == user => 6,
        _ if metadata.gid() == group => 3,
        _ => 0,
    };
    metadata.mode() >> shift & 1 == 1
}

fn make_directory(path: &Path, mode: u32) -> Result<(), SandboxError> {
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path)
        .map_err(|cause| SandboxError::Directory { path: path.to_owned(), cause })
}

/// Checks a path against the kernel's limit.
///
/// # Errors
/// It has more than [`SOCKET_PATH_LIMIT`] bytes.
pub fn socket_path(path: PathBuf) -> Result<PathBuf, SandboxError> {
    match path.as_os_str().len() {
        length if length > SOCKET_PATH_LIMIT => Err(SandboxError::SocketPathTooLong { path, length }),
        _ => Ok(path),
    }
}

fn abstract_name(name: String) -> Result<String, SandboxError> {
    match name.len() {
        length if length > SOCKET_PATH_LIMIT => Err(SandboxError::NameTooLong { name, length }),
        _ => Ok(name),
    }
}

/// Ports that this process has given out.
static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);

/// A port that nobody listens on, outside of the range that the kernel takes the ports of outgoing connections from:
/// otherwise a client could hold it at the moment when the server starts. No port is given out twice.
///
/// # Errors
/// The address does not exist here, or no port is free.
pub fn free_port(address: IpAddr) -> Result<SocketAddr, SandboxError> {
    let (low, high) = listening_ports(outgoing_ports());
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let given = given.get_or_insert_default();
    let mut last = io::Error::other("all are given out");
    for _ in 0..10_000 {
        let port = random_port(low, high).map_err(|cause| SandboxError::NoPort { address, low, high, cause })?;
        if given.contains(&port) {
            continue;
        }
        match TcpListener::bind((address, port)) {
            Ok(_) => {
                given.insert(port);
                return Ok(SocketAddr::new(address, port));
            }
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && address.is_ipv6() => {
                return Err(SandboxError::NoIpv6(error));
            }
            Err(error) => last = error,
        }
    }
    Err(SandboxError::NoPort { address, low, high, cause: last })
}

fn random_port(low: u16, high: u16) -> io::Result<u16> {
    let mut bytes = [0_u8; 4];
    rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    let span = u32::from(high - low) + 1;
    Ok(low + (u32::from_le_bytes(bytes) % span) as u16)
}

/// First and last port of outgoing connections.
fn outgoing_ports() -> (u16, u16) {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut words = text.split_ascii_whitespace().filter_map(|word| word.parse().ok());
    (words.next().unwrap_or(32768), words.next().unwrap_or(60999))
}

/// The larger part of the unprivileged ports from 10,000 on that outgoing connections do not use; all of them where
/// there is no such part.
fn listening_ports((first, last): (u16, u16)) -> (u16, u16) {
    const LOWEST: u16 = 10_000;
    let below = first.saturating_sub(LOWEST);
    let above = u16::MAX - last.max(LOWEST);
    match below.max(above) {
        0..500 => (LOWEST, u16::MAX),
        _ if below >= above => (LOWEST, first - 1),
        _ => (last.max(LOWEST) + 1, u16::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(name: &str, transport: Transport) -> Wanted {
        Wanted::new(name, transport, "/bin/true")
    }

    #[test]
    fn a_sandbox_is_private_short_and_leaves_nothing() {
        let sandbox = Sandbox::create().unwrap();
        let path = sandbox.path().to_owned();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(path.as_os_str().len() <= PARENT_LIMIT + 16, "{}", path.display());
        assert_eq!(sandbox.tls().key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(sandbox);
        assert!(!path.exists());
    }

    #[test]
    fn each_service_gets_the_address_of_its_transport() {
        let sandbox = Sandbox::create().unwrap();
        let record = tempfile::tempdir().unwrap();
        let all: Vec<_> = Transport::ALL.iter().map(|transport| wanted(transport.name(), *transport)).collect();
        let bindings = sandbox.bind(record.path(), 1, 2, &all).unwrap();
        assert_eq!(bindings.services["unix"].directory, record.path().join("1/2/unix"));
        for transport in Transport::ALL {
            let service = &bindings.services[transport.name()];
            assert!(service.directory.is_dir() && service.runtime.is_dir());
            assert_eq!(service.tls.is_some(), transport.is_tls());
            assert_eq!(service.endpoint().tls.is_some(), transport.is_tls());
            match (&service.address, transport.is_unix()) {
                (Address::Unix(path), true) => assert!(path.starts_with(sandbox.path())),
                (Address::Abstract(name), true) => assert!(name.starts_with("lasthop-")),
                (Address::Tcp(address), false) => assert!(address.ip().is_loopback()),
                (address, _) => panic!("{transport}: {address:?}"),
            }
        }
    }

    #[test]
    fn a_socket_path_that_is_too_long_says_how_to_shorten_it() {
        let parent = tempfile::tempdir().unwrap();
        let deep = parent.path().join("d".repeat(90));
        fs::create_dir(&deep).unwrap();
        let sandbox = Sandbox::create_in(&deep).unwrap();
        let error = sandbox.bind(parent.path(), 0, 0, &[wanted("app", Transport::Unix)]).unwrap_err().to_string();
        let path = sandbox.path().join("0.0/app/socket");
        let expected = format!(
            "the socket path {} has {} bytes, but the kernel allows 107: set TMPDIR or LASTHOP_SANDBOX to a shorter directory",
            path.display(),
            path.as_os_str().len()
        );
        assert_eq!(error, expected);
        assert!(sandbox.bind(parent.path(), 0, 0, &[wanted("app", Transport::Tcp)]).is_ok());
        assert_eq!(socket_path(PathBuf::from("x".repeat(107))).unwrap().as_os_str().len(), 107);
        assert!(socket_path(PathBuf::from("x".repeat(108))).is_err());
    }

    #[test]
    fn ports_are_free_different_and_never_those_of_outgoing_connections() {
        let (first, last) = outgoing_ports();
        let mut seen = HashSet::new();
        for _ in 0..200 {
            let address = free_port(Ipv4Addr::LOCALHOST.into()).unwrap();
            assert!(!(first..=last).contains(&address.port()), "{address}");
            assert!(seen.insert(address.port()));
            TcpListener::bind(address).unwrap();
        }
    }

    #[test]
    fn the_larger_free_part_of_the_ports_is_taken() {
        assert_eq!(listening_ports((32768, 60999)), (10_000, 32767));
        assert_eq!(listening_ports((10_240, 40_000)), (40_001, 65535));
        assert_eq!(listening_ports((1024, 65535)), (10_000, 65535));
        assert_eq!(listening_ports((1024, 5000)), (10_001, 65535));
    }

    #[test]
    fn a_parent_that_is_missing_names_the_remedy() {
        let error = Sandbox::create_in(Path::new("/nowhere/at/all")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/at/all") && error.contains("LASTHOP_SANDBOX"), "{error}");
    }
}
