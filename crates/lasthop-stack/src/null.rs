//! Starts a null server on the transport of a real one, to measure the headroom of the load generator.

use std::{
    net::IpAddr,
    os::unix::fs::lchown,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use lasthop_load::{
    null::{NullSpec, Script},
    sample,
};
use lasthop_model::binding::{Account, SERVER_NAME};
use lasthop_protocol::spec::Spec;
use lasthop_system::executable::own_executable;
use lasthop_trial::address::{Endpoint, Tls, Transport};

use super::{
    guard::{Guard, GuardedChild, SpawnRequest},
    sandbox::{Sandbox, free_address},
};

/// The line that the null server prints when it listens.
pub const LISTENING: &str = "listening";
/// The longest time for the null server to start.
const START: Duration = Duration::from_secs(10);
/// The longest line of the null server, in bytes.
const WORD: usize = 64 << 10;

/// A running null server. It ends with the guard at the latest.
#[derive(Debug)]
pub struct Null {
    pub process: GuardedChild,
    /// The load of the real endpoint, directed at the null server.
    pub spec: Spec,
}

/// Whether to calibrate this load against a null server. lasthop's own server already is a null server.
pub fn is_possible(spec: &Spec) -> bool {
    !spec.protocol.kind().own
}

/// Gets a reply from the real endpoint of `spec`, and starts a server that repeats the reply on an address of the same
/// kind. A driver of the account `driver`, lasthop's own if `None`, can reach the address. Waiting for the reply ends
/// when `go_on` returns false.
pub fn start(
    guard: &Guard,
    sandbox: &Sandbox,
    spec: &Spec,
    cpus: &[u32],
    driver: Option<&Account>,
    go_on: impl FnMut() -> bool,
) -> Result<Null, String> {
    if spec.protocol.receipt().is_some() || spec.endpoint.address.keeps_boundaries() {
        return Err("a null server needs replies and a socket that carries a stream of bytes".to_owned());
    }
    let sample = sample::take(spec, go_on).map_err(|failure| failure.to_string())?;
    let mut spec = spec.clone();
    // The null server verifies no password, so it has no replies for that exchange.
    spec.protocol.let_anybody_in();
    let script = Script::learn(&spec, &sample).map_err(|failure| failure.to_string())?;
    spec.endpoint = endpoint(sandbox, &spec.endpoint)?;
    let files = sandbox.tls();
    let null = NullSpec {
        address: spec.endpoint.address.clone(),
        tls: spec
            .endpoint
            .tls
            .as_ref()
            .map(|_| (files.certificate.clone(), files.key.clone())),
        nodelay: true,
        script,
        threads: spec.threads,
    };
    let process = spawn(guard, &null, cpus)?;
    if let (Some(path), Some(Account { ids: (user, group), .. })) = (spec.endpoint.address.path(), driver) {
        // Only lasthop writes in the sandbox itself.
        lchown(path, Some(*user), Some(*group))
            .map_err(|cause| format!("cannot give {} away: {cause}", path.display()))?;
    }
    Ok(Null { process, spec })
}

/// An address of the same kind as the real one, in the sandbox.
fn endpoint(sandbox: &Sandbox, real: &Endpoint) -> Result<Endpoint, String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = sandbox.path().join(format!("null{number}"));
    let like = match real.address.ip() {
        Some(ip) if !is_own(ip) && ip.is_ipv6() => Transport::Tcp6.address(),
        Some(ip) if !is_own(ip) => Transport::Tcp.address(),
        // An address that the driver reaches: not loopback if it is in another network namespace or on another host.
        _ => real.address.clone(),
    };
    let name = path.display().to_string();
    let address = free_address(&like, path, name)?;
    let authority: PathBuf = sandbox.tls().authority.clone();
    let tls = real.tls.as_ref().map(|real| Tls {
        authority: Some(authority),
        server_name: SERVER_NAME.to_owned(),
        resumption: real.resumption,
        insecure: false,
    });
    Ok(Endpoint { address, tls })
}

/// Whether this machine has the address, rather than a container, for example.
fn is_own(ip: IpAddr) -> bool {
    std::net::TcpListener::bind((ip, 0)).is_ok()
}

fn spawn(guard: &Guard, null: &NullSpec, cpus: &[u32]) -> Result<GuardedChild, String> {
    let request = SpawnRequest {
        cpus: cpus.to_vec(),
        ..SpawnRequest::of([&*own_executable()?, "null"])
    };
    let (process, mut lines) = guard.spawn_with_lines(request, None, WORD)?;
    let mut line = serde_json::to_vec(null).expect("it holds no maps");
    line.push(b'\n');
    // The null server reads its specification and prints one line.
    let mut answer = || {
        lines.say(&line, START)?;
        lines.hang_up();
        lines.hear(START)
    };
    let word = match answer() {
        Ok(word) => String::from_utf8_lossy(&word).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    if word == LISTENING {
        Ok(process)
    } else {
        Err(format!("the null server did not start: {word}"))
    }
}
