//! What an endpoint's URL leaves to the place where it is typed: which address of its host answers, and where a path begins.

use std::{
    env,
    path::{self, Path, PathBuf},
};

use lasthop_load::reach;
use lasthop_protocol::{
    address::{Address, UNIX_NAME_MAX},
    spec::Endpoint,
};

use lasthop_system::listener;

use super::output::{CliError, talk};

/// The address of a host that accepts connections, said wherever it is not the first: for `UrlOptions::choose`.
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

/// An endpoint as this machine knows it, whose path leads through no socket.
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

/// The socket that a path leads through, as through a folder.
fn socket_within(path: &Path) -> Option<&Path> {
    let is_socket = |path: &Path| !listener::inodes(&Address::Unix(path.to_owned())).is_empty();
    // Usually the path itself is one.
    let mut above = path.ancestors().skip(1).filter(|_| !is_socket(path));
    above.find(|folder| is_socket(folder))
}

/// An endpoint whose path begins at the root, also where it was typed below the current folder or the home. One that is too
/// long for the kernel that way stays as it is.
/// An abstract name that only HAProxy's padding leads to a socket is padded.
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

/// A path below the current folder, as the kernel lists it where its folder is there.
fn whole(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let inside = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name));
    inside
        .or_else(|| path::absolute(path).ok())
        .unwrap_or_else(|| path.to_owned())
}
