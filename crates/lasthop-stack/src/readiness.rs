//! Waits until a server answers, by checks and never by a fixed sleep.

use std::{
    io::{self, Read, Write},
    time::{Duration, Instant},
};

use lasthop_load::transport;
use lasthop_model::service::{Ready, ReadyCheck};
use lasthop_system::{connect, interrupt};
use lasthop_trial::address::{Address, Endpoint, Tls};
use rustls::{ClientConnection, StreamOwned};

use super::{
    exit::Exit,
    guard::{GuardError, GuardedChild},
};

/// The pause after the first check. Later pauses grow up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(50);
/// The longest time for one check.
const QUESTION: Duration = Duration::from_secs(5);
/// The least time for each check, even past the deadline, because a check that is cut off says nothing about the
/// server.
const LEAST_QUESTION: Duration = Duration::from_secs(1);

/// Repeats the check until it succeeds. Before each check, `found` says whether the server is at its address. `run`
/// starts a command of the check.
pub fn wait_until_ready(
    ready: &Ready,
    endpoint: &Endpoint,
    found: &dyn Fn() -> Result<(), String>,
    run: &dyn Fn(&[String]) -> Result<GuardedChild, GuardError>,
    died: impl Fn() -> Option<Exit>,
) -> Result<(), String> {
    let begin = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let left = ready.timeout.saturating_sub(begin.elapsed());
        let answer = match found() {
            Ok(()) => ask(&ready.check, endpoint, run, left.clamp(LEAST_QUESTION, QUESTION))?,
            not_yet => not_yet,
        };
        let Err(last) = answer else { return Ok(()) };
        if let Some(exit) = died() {
            return Err(died_early(exit));
        }
        if begin.elapsed() >= ready.timeout {
            return Err(timed_out(ready.timeout, &last));
        }
        if !interrupt::pause(pause.min(left)) {
            return Err(GuardError::Interrupted.into());
        }
        pause = (pause * 3 / 2).min(LAST_PAUSE);
    }
}

pub(super) fn died_early(exit: Exit) -> String {
    format!("it {exit} before it was ready{}", exit.advice())
}

pub(super) fn timed_out(after: Duration, last: &str) -> String {
    format!(
        "it was not ready within {:.1} s; the last check failed: {last}",
        after.as_secs_f64()
    )
}

/// Performs one check. `Ok(Err(text))` says why the check failed.
fn ask(
    check: &ReadyCheck,
    endpoint: &Endpoint,
    run: &dyn Fn(&[String]) -> Result<GuardedChild, GuardError>,
    timeout: Duration,
) -> Result<Result<(), String>, GuardError> {
    match check {
        ReadyCheck::Connect => {
            let address = endpoint.address.clone();
            patiently(timeout, move || {
                connect(&address, timeout).map(drop).map_err(|error| error.to_string())
            })
        }
        ReadyCheck::Http { path, status } => {
            let endpoint = endpoint.clone();
            let path = path.clone();
            let status = *status;
            patiently(timeout, move || match http_status(&endpoint, &path, timeout) {
                Ok(answered) if answered == status => Ok(()),
                Ok(answered) => Err(format!("GET {path} answered {answered}, not {status}")),
                Err(error) => Err(format!("GET {path}: {error}")),
            })
        }
        ReadyCheck::Command(command) => {
            let child = run(command)?;
            Ok(match child.wait(timeout)? {
                Some(exit) if exit.success() => Ok(()),
                Some(exit) => Err(format!("`{}` {exit}", command.join(" "))),
                None => Err(format!(
                    "`{}` took longer than {:.1} s",
                    command.join(" "),
                    timeout.as_secs_f64()
                )),
            })
        }
    }
}

/// Limits a check's time, because a server may answer slowly, byte by byte.
fn patiently(
    timeout: Duration,
    question: impl FnOnce() -> Result<(), String> + Send + 'static,
) -> Result<Result<(), String>, GuardError> {
    // Longer than the socket's own timeouts, whose errors say what the check was waiting for.
    match interrupt::aside(timeout + LEAST_QUESTION, question) {
        Some(answer) => Ok(answer),
        None if interrupt::heard() => Err(GuardError::Interrupted),
        None => Ok(Err(format!("no answer within {:.1} s", timeout.as_secs_f64()))),
    }
}

/// Whether the address accepts connections.
pub fn answers(address: &Address) -> bool {
    let address = address.clone();
    interrupt::aside(QUESTION, move || connect(&address, QUESTION).is_ok()) == Some(true)
}

/// The status of the answer to `GET path`.
fn http_status(endpoint: &Endpoint, path: &str, timeout: Duration) -> io::Result<u16> {
    let stream = connect(&endpoint.address, timeout)?;
    match &endpoint.tls {
        None => get(stream, path),
        Some(tls) => get(StreamOwned::new(handshake(tls)?, stream), path),
    }
}

fn get(mut stream: impl Read + Write, path: &str) -> io::Result<u16> {
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )?;
    stream.flush()?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    parse_status(&head).ok_or_else(|| {
        let text = String::from_utf8_lossy(&head).into_owned();
        io::Error::new(io::ErrorKind::InvalidData, format!("the reply is not HTTP: {text:?}"))
    })
}

/// The status in the first bytes of a reply, such as `HTTP/1.1 200`.
fn parse_status(head: &[u8; 12]) -> Option<u16> {
    let text = std::str::from_utf8(head).ok()?;
    let (version, status) = text.split_once(' ')?;
    version.starts_with("HTTP/1.").then(|| status.parse().ok())?
}

fn handshake(tls: &Tls) -> io::Result<ClientConnection> {
    let (config, name) = transport::client_config(tls).map_err(io::Error::other)?;
    ClientConnection::new(config, name).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_status_line_has_a_status() {
        assert_eq!(parse_status(b"HTTP/1.0 404"), Some(404));
        assert_eq!(parse_status(b"HTTP/2.0 200"), None);
        assert_eq!(parse_status(b"SSH-2.0-Open"), None);
        assert_eq!(parse_status(b"HTTP/1.1 2x0"), None);
    }
}
