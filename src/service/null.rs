//! A null server on the transport of a real one, for the headroom of the load generator.

use std::{
    io::{BufRead, BufReader, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

use lasthop_load::{
    null::{NullSpec, Script, has_null_server},
    sample,
    spec::{Address, ChannelBinding, Endpoint, Protocol, Spec, Tls},
};

use super::{
    bindings::SERVER_NAME,
    guard::{Guard, GuardedChild, Input, Output, Spawn},
    sandbox::{Sandbox, free_port, socket_path},
};

/// What the null server says once it listens.
pub const LISTENING: &str = "listening";

/// A running null server; it ends with its guard at the latest.
#[derive(Debug)]
pub struct Null {
    pub process: GuardedChild,
    /// The load of the real endpoint, turned to this server.
    pub spec: Spec,
}

/// Whether a load's generator is to be held against a null server in a run: lasthop's own server is one already.
#[must_use]
pub fn is_possible(spec: &Spec) -> bool {
    has_null_server(&spec.protocol)
}

/// Takes a reply of the real endpoint of `spec`, and starts a server that says it again on an address of the same kind.
///
/// # Errors
/// In words, why there is none: no headroom is known then, and nothing else is wrong.
pub fn start(guard: &Guard, sandbox: &Sandbox, spec: &Spec, cpus: &[u32]) -> Result<Null, String> {
    let sample = sample::take(spec).map_err(|failure| failure.to_string())?;
    let mut spec = spec.clone();
    let_anybody_in(&mut spec.protocol);
    let script = Script::learn(&spec, &sample).map_err(|failure| failure.to_string())?;
    spec.endpoint = endpoint(sandbox, &spec.endpoint)?;
    let files = sandbox.tls();
    let null = NullSpec {
        address: spec.endpoint.address.clone(),
        tls: spec.endpoint.tls.as_ref().map(|_| (files.certificate.clone(), files.key.clone())),
        nodelay: true,
        script,
    };
    let process = spawn(guard, &null, cpus)?;
    Ok(Null { process, spec })
}

/// A null server verifies nobody; a name without a password would be refused by the greeting's own rules nowhere.
fn let_anybody_in(protocol: &mut Protocol) {
    if let Protocol::Postgres(postgres) = protocol {
        postgres.password = None;
        postgres.channel_binding = ChannelBinding::Disable;
    }
}

/// An address of the same kind as the real one, in the sandbox.
fn endpoint(sandbox: &Sandbox, real: &Endpoint) -> Result<Endpoint, String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = sandbox.path().join(format!("null{number}"));
    let tcp = |ip| free_port(ip).map(Address::Tcp).map_err(|error| error.to_string());
    let address = match &real.address {
        Address::Unix(_) => Address::Unix(socket_path(path).map_err(|error| error.to_string())?),
        Address::Abstract(_) => Address::Abstract(path.display().to_string()),
        // Where the driver reaches it: not loopback if it is in another network namespace or on another host.
        Address::Tcp(real) if is_own(real.ip()) => tcp(real.ip())?,
        Address::Tcp(real) if real.is_ipv6() => tcp(IpAddr::V6(Ipv6Addr::LOCALHOST))?,
        Address::Tcp(_) => tcp(IpAddr::V4(Ipv4Addr::LOCALHOST))?,
    };
    let authority: PathBuf = sandbox.tls().authority.clone();
    let tls = real.tls.as_ref().map(|real| Tls {
        authority: Some(authority),
        server_name: SERVER_NAME.to_owned(),
        resumption: real.resumption,
    });
    Ok(Endpoint { address, tls })
}

/// Whether it is an address of this machine and not, say, that of a container.
fn is_own(ip: IpAddr) -> bool {
    std::net::TcpListener::bind((ip, 0)).is_ok()
}

fn spawn(guard: &Guard, null: &NullSpec, cpus: &[u32]) -> Result<GuardedChild, String> {
    let executable = std::env::current_exe().map_err(|error| error.to_string())?;
    let spawn = Spawn::new([executable.display().to_string(), "null".to_owned()])
        .stdin(Input::Pipe)
        .stdout(Output::Pipe)
        .stderr(Output::Same)
        .cpus(cpus.iter().map(|cpu| *cpu as usize));
    let mut process = guard.spawn(spawn).map_err(|error| error.to_string())?;
    let mut input = process.stdin.take().expect("asked for");
    let line = serde_json::to_vec(null).expect("it holds no maps");
    // A server that has died at once is noticed by its silence.
    let _ = input.write_all(&line).and_then(|()| input.write_all(b"\n"));
    drop(input);
    let mut word = String::new();
    let output = process.stdout.take().expect("asked for");
    BufReader::new(output).read_line(&mut word).map_err(|error| error.to_string())?;
    if word.trim() == LISTENING { Ok(process) } else { Err(format!("the null server did not start: {}", word.trim())) }
}
