//! Failure of a request: a class to count by, and a message for the first of its kind.

use std::io;

use crate::result::ErrorClass;

/// One failed request or connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub class: ErrorClass,
    /// What happened, as a lower-case fragment.
    pub message: String,
    /// The server's status, in protocols that number them.
    pub status: Option<u16>,
}

impl Failure {
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            status: None,
        }
    }

    /// A system error of a connect. `EAGAIN` means that a Unix socket's backlog stayed full.
    pub fn connect(error: &io::Error) -> Self {
        let class = match error.raw_os_error() {
            Some(libc::EAGAIN) => ErrorClass::BacklogFull,
            // Error of a blocking connect after `SO_SNDTIMEO` (socket(7)).
            Some(libc::EINPROGRESS) => ErrorClass::Timeout,
            // An unbound Unix socket has no file, where TCP would refuse the connection.
            Some(libc::ENOENT) => ErrorClass::Refused,
            _ => class_of(error),
        };
        let text = match class {
            ErrorClass::BacklogFull => "connect: the listener's backlog is full".to_owned(),
            ErrorClass::NoPort => "connect: no local port is left (EADDRNOTAVAIL)".to_owned(),
            ErrorClass::Timeout => "connect: timed out".to_owned(),
            _ => format!("connect: {error}"),
        };
        Self::new(class, text)
    }

    /// A system error on an established connection. `WouldBlock` means a timeout.
    pub fn io(during: &str, error: &io::Error) -> Self {
        match class_of(error) {
            ErrorClass::Timeout => Self::timeout(during),
            class => Self::new(class, format!("{during}: {error}")),
        }
    }

    pub fn timeout(during: &str) -> Self {
        Self::new(ErrorClass::Timeout, format!("{during}: timed out"))
    }

    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Protocol, message)
    }

    /// The connection ended too early.
    pub fn reset(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Reset, message)
    }

    /// The server refuses the request.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::WrongStatus, message)
    }

    pub fn content(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::WrongContent, message)
    }
}

fn class_of(error: &io::Error) -> ErrorClass {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => ErrorClass::Refused,
        Some(libc::EADDRNOTAVAIL) => ErrorClass::NoPort,
        Some(libc::ETIMEDOUT) => ErrorClass::Timeout,
        Some(libc::ECONNRESET | libc::EPIPE | libc::ENOTCONN | libc::ECONNABORTED) => ErrorClass::Reset,
        _ => match error.kind() {
            io::ErrorKind::WouldBlock => ErrorClass::Timeout,
            // The errors of a TLS stream have two kinds: TLS was violated, or it ended without `close_notify`.
            io::ErrorKind::InvalidData => ErrorClass::Tls,
            io::ErrorKind::UnexpectedEof => ErrorClass::Reset,
            _ => ErrorClass::Os,
        },
    }
}
