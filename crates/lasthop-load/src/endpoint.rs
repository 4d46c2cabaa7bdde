//! Addresses as the kernel wants them, and the limits that they have.

use std::{os::unix::ffi::OsStrExt, path::Path};

use socket2::{Domain, SockAddr};

use crate::spec::Address;

/// Most bytes of a Unix socket's path or abstract name: `sun_path` has 108, one is the NUL.
pub const UNIX_NAME_MAX: usize = 107;

/// The address cannot name a socket.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    #[error("the socket path `{path}` has {length} bytes, more than the {UNIX_NAME_MAX} that the kernel allows")]
    PathTooLong { path: String, length: usize },
    #[error(
        "the abstract socket name `{name}` has {length} bytes, more than the {UNIX_NAME_MAX} that the kernel allows"
    )]
    NameTooLong { name: String, length: usize },
    #[error("the name of the Unix socket is empty")]
    Empty,
    #[error("the address `{0}` is refused by the socket library: {1}")]
    Invalid(String, std::io::Error),
}

/// The kernel's form of `address`.
///
/// # Errors
/// The name of a Unix socket is empty or longer than [`UNIX_NAME_MAX`].
pub fn resolve(address: &Address) -> Result<SockAddr, AddressError> {
    match address {
        Address::Tcp(tcp) => Ok(SockAddr::from(*tcp)),
        Address::Unix(path) => unix(path),
        Address::Abstract(name) => abstract_unix(name),
    }
}

/// `AF_UNIX`, `AF_INET` or `AF_INET6`.
#[must_use]
pub fn domain(address: &Address) -> Domain {
    match address {
        Address::Tcp(tcp) if tcp.is_ipv6() => Domain::IPV6,
        Address::Tcp(_) => Domain::IPV4,
        Address::Unix(_) | Address::Abstract(_) => Domain::UNIX,
    }
}

fn unix(path: &Path) -> Result<SockAddr, AddressError> {
    let length = path.as_os_str().as_bytes().len();
    if length == 0 {
        return Err(AddressError::Empty);
    }
    if length > UNIX_NAME_MAX {
        return Err(AddressError::PathTooLong { path: path.display().to_string(), length });
    }
    SockAddr::unix(path).map_err(|error| AddressError::Invalid(path.display().to_string(), error))
}

fn abstract_unix(name: &str) -> Result<SockAddr, AddressError> {
    if name.is_empty() {
        return Err(AddressError::Empty);
    }
    if name.len() > UNIX_NAME_MAX {
        return Err(AddressError::NameTooLong { name: name.to_owned(), length: name.len() });
    }
    SockAddr::unix(format!("\0{name}")).map_err(|error| AddressError::Invalid(name.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_107_bytes_is_the_longest() {
        assert!(resolve(&Address::Unix("x".repeat(107).into())).is_ok());
        let error = resolve(&Address::Unix("x".repeat(108).into())).unwrap_err();
        assert!(error.to_string().contains("108 bytes"), "{error}");
    }

    #[test]
    fn an_abstract_name_is_not_a_path() {
        let address = resolve(&Address::Abstract("lasthop-test".into())).unwrap();
        assert_eq!(address.as_abstract_namespace(), Some(b"lasthop-test".as_slice()));
    }
}
