//! The way to the cluster: `kubectl proxy` on a Unix socket in a folder of the client's own. It knows every kind of kubeconfig, and
//! every way to log in.

use std::{
    io::{self, Read, Write as _},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt as _},
    },
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use lasthop_protocol::address::Address;
use lasthop_system::{command, connect, files};
use serde::Deserialize;

use super::Where;

/// How long the cluster may take to answer, and kubectl to start.
const ANSWER: Duration = Duration::from_secs(20);
/// How often a wait looks whether it is given up.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes of an answer; that of 5,000 Pods has a third of it.
const LIMIT: usize = 256 << 20;
/// What kubectl prints, beside the socket.
const SAID: &str = "said";
const IN_A_POD: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// A running `kubectl proxy`, which ends with this.
pub struct Proxy {
    socket: PathBuf,
    child: Child,
}

/// Why there is no answer.
#[derive(Debug, Deserialize)]
pub struct Refusal {
    /// HTTP's; 0 if the cluster did not answer.
    #[serde(default)]
    pub code: u16,
    /// In the cluster's own words, where it has any.
    pub message: String,
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self {
            code: 0,
            message: format!("the cluster does not answer: {error}"),
        }
    }
}

fn kubectl(place: &Where) -> Command {
    let mut command = Command::new("kubectl");
    command.args(place.context.iter().flat_map(|context| ["--context", context]));
    command
}

/// The context's namespace, if it has one.
pub fn namespace(place: &Where) -> String {
    let mut asked = kubectl(place);
    asked.args(["config", "view", "--minify", "--output", "jsonpath={..namespace}"]);
    let said = command::run(asked, ANSWER, command::Life::Bound)
        .ok()
        .filter(|ended| ended.status.success());
    let named = said
        .map(|ended| ended.output)
        .filter(|name| !name.is_empty())
        .or_else(|| files::text(IN_A_POD).ok());
    named.map_or_else(|| "default".to_owned(), |name| name.trim().to_owned())
}

impl Proxy {
    pub fn start(place: &Where) -> Result<Self, String> {
        let failed = |error| format!("cannot run kubectl, through which lasthop reaches the cluster: {error}");
        let mut proxy = Self::spawn(place).map_err(failed)?;
        let deadline = Instant::now() + ANSWER;
        while proxy.stream().is_err() {
            if proxy.child.try_wait().map_err(failed)?.is_some() || Instant::now() > deadline {
                let said = files::end_of_log(&proxy.socket.with_file_name(SAID));
                let said = said.trim().trim_start_matches("error: ");
                return Err(format!("cannot use the kubeconfig: {said}"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(proxy)
    }

    fn spawn(place: &Where) -> io::Result<Self> {
        let socket = place.folder.join("kubectl");
        let mut kubectl = kubectl(place);
        kubectl.arg("proxy").arg(format!("--unix-socket={}", socket.display()));
        kubectl
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(files::create_private(&place.folder.join(SAID))?);
        // A Ctrl-C in the terminal is not for it: what is in the cluster has to be removed through it.
        kubectl.process_group(0);
        command::dies_with_us(&mut kubectl);
        Ok(Self {
            child: kubectl.spawn()?,
            socket,
        })
    }

    fn stream(&self) -> io::Result<UnixStream> {
        let stream = UnixStream::from(OwnedFd::from(connect(&Address::Unix(self.socket.clone()), ANSWER)?));
        // A log may be silent for any time.
        stream.set_read_timeout(None)?;
        Ok(stream)
    }

    /// Sends a request. The answer ends where the stream does, because this is HTTP 1.0.
    pub fn send(&self, method: &str, path: &str, body: &[u8]) -> io::Result<UnixStream> {
        let mut stream = self.stream()?;
        let length = body.len();
        write!(
            stream,
            // By default, `kubectl proxy` refuses requests for hosts other than this machine (`--accept-hosts`).
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nAccept: application/json\r\n"
        )?;
        write!(
            stream,
            "Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        )?;
        stream.write_all(body)?;
        Ok(stream)
    }

    /// The body of the answer.
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
        is_given_up: impl Fn() -> bool,
    ) -> Result<Vec<u8>, Refusal> {
        let mut stream = self.send(method, path, body)?;
        stream.set_read_timeout(Some(LOOK))?;
        let mut answer = Vec::new();
        let mut piece = vec![0; 64 << 10];
        let mut heard = Instant::now();
        loop {
            match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => {
                    answer.extend_from_slice(&piece[..read]);
                    heard = Instant::now();
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(error) => return Err(error.into()),
            }
            if is_given_up() {
                return Err(io::Error::other("interrupted").into());
            }
            // Since the last piece: the list of a large cluster may take longer as a whole.
            if heard.elapsed() > ANSWER {
                return Err(io::Error::other(format!("nothing within {ANSWER:?}")).into());
            }
            if answer.len() > LIMIT {
                return Err(io::Error::other(format!("more than {LIMIT} bytes")).into());
            }
        }
        let (code, head) = head(&answer).ok_or_else(|| io::Error::other("no answer of HTTP"))?;
        let body = answer.split_off(head);
        if code < 300 {
            Ok(body)
        } else {
            Err(refusal(code, &body))
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The status of an answer, and how long its head is, once it is there.
pub fn head(answer: &[u8]) -> Option<(u16, usize)> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let status = std::str::from_utf8(&answer[..end])
        .ok()?
        .split_ascii_whitespace()
        .nth(1)?;
    Some((status.parse().ok()?, end))
}

/// What a cluster says in a `Status`, and a proxy as it likes.
fn refusal(code: u16, body: &[u8]) -> Refusal {
    let status = serde_json::from_slice::<Refusal>(body)
        .ok()
        .filter(|status| !status.message.is_empty());
    let message = status.map_or_else(
        || String::from_utf8_lossy(body).trim().to_owned(),
        |status| status.message,
    );
    Refusal { code, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_in_the_words_of_whoever_refuses() {
        let status = br#"{"kind":"Status","code":403,"reason":"Forbidden","message":"jobs.batch is forbidden"}"#;
        let refused = refusal(403, status);
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (403, "jobs.batch is forbidden")
        );
        assert_eq!(
            refusal(502, b"dial tcp: connection refused\n").message,
            "dial tcp: connection refused"
        );
        assert_eq!(head(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\n{}"), Some((200, 25)));
        assert_eq!(head(b"HTTP/1.0 200 OK\r\nA: b\r\n"), None);
    }
}
