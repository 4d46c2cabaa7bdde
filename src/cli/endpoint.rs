//! The local parts of an endpoint's URL: which address of the host accepts connections, and where a relative path
//! begins.

use std::{
    env,
    path::{self, Path, PathBuf},
};

use lasthop_load::reach;
use lasthop_trial::address::{Address, Endpoint, UNIX_NAME_MAX};

use lasthop_system::listener;

use super::output::{CliError, talk};

/// The first address of a host that accepts connections. Prints the choice unless it is the host's first address. For
/// `UrlOptions::choose`.
pub fn choose(host: &str, addresses: &[Address]) -> Address {
    let (found, failed) = reach::first(addresses);
    let failed: Vec<String> = failed
        .iter()
        .map(|(address, error)| format!("{address} ({error})"))
        .collect();
    let failed = failed.join(", ");
    match found {
        Some(address) if failed.is_empty() => address.clone(),
        Some(address) => {
            talk(&format!("`{host}` is {address} here: no connection to {failed}"));
            address.clone()
        }
        None => {
            talk(&format!(
                "`{host}` accepts no connection at any of its addresses: {failed}"
            ));
            addresses[0].clone()
        }
    }
}

/// An endpoint with an absolute path. Refuses a path that leads through a socket.
pub fn settled(endpoint: Endpoint) -> Result<Endpoint, CliError> {
    let endpoint = rooted(endpoint)?;
    let path = endpoint.address.path();
    if let Some((path, socket)) = path.and_then(|path| Some((path, socket_within(path)?))) {
        return Err(CliError::usage(format!(
            "`{}` is no path: `{socket}` is a socket. What is asked of its server comes behind a colon: `{socket}:/…`",
            path.display(),
            socket = socket.display()
        )));
    }
    Ok(endpoint)
}

/// The socket that a path uses like a folder, if any.
fn socket_within(path: &Path) -> Option<&Path> {
    let is_socket = |path: &Path| !listener::inodes(&Address::Unix(path.to_owned())).is_empty();
    // Usually the path itself is a socket.
    let mut above = path.ancestors().skip(1).filter(|_| !is_socket(path));
    above.find(|folder| is_socket(folder))
}

/// An endpoint with an absolute path, even if typed relative to the current folder or the home. A path that would
/// become too long for the kernel stays as it is. An abstract name is padded if only HAProxy's padding makes it lead to
/// a socket.
fn rooted(mut endpoint: Endpoint) -> Result<Endpoint, CliError> {
    if let Address::Abstract(name) = &endpoint.address
        && let Some(padded) = Address::named(&format!("abns@{name}"))
        && listener::inodes(&endpoint.address).is_empty()
        && !listener::inodes(&padded).is_empty()
    {
        talk(&format!(
            "`@{name}` is `abns@{name}` here: padded with NUL, as HAProxy does it"
        ));
        endpoint.address = padded;
    }
    let Some(path) = endpoint.address.path().filter(|path| !path.is_absolute()) else {
        return Ok(endpoint);
    };
    let whole = match path.strip_prefix("~") {
        Ok(below) => match env::home_dir() {
            Some(home) => home.join(below),
            None => return Err(CliError::usage(format!("{}: there is no home folder", path.display()))),
        },
        Err(_) => match whole(path) {
            whole if whole.as_os_str().len() > UNIX_NAME_MAX => return Ok(endpoint),
            whole => whole,
        },
    };
    endpoint.address = endpoint.address.at(whole, "", 0);
    Ok(endpoint)
}

/// A path with its folder resolved, if that exists, as the kernel lists the path.
fn whole(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let inside = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name));
    inside
        .or_else(|| path::absolute(path).ok())
        .unwrap_or_else(|| path.to_owned())
}
