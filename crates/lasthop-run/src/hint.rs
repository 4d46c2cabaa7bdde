//! Recognises the usual causes of failures in messages of servers, and gives advice.

use std::path::Path;

use lasthop_model::{binding::Account, record::Failure};
use lasthop_stack::{passage, sandbox::SANDBOX_VARIABLE};
use lasthop_trial::address::UNIX_NAME_MAX;

/// Advice if a connection for HTTP ends without a reply.
pub const NO_REPLY: &str = "name the host that the server serves (`-H 'Host: NAME'`), or correct the URL: the server may also \
                            expect TLS, HTTP/2, the PROXY protocol or FastCGI here";

/// Advice for a TLS failure by its message; rustls prints names of alerts and of its own errors.
pub fn tls(said: &str) -> Option<&'static str> {
    const CAUSES: [(&[&str], &str); 9] = [
        (
            &["does not offer TLS"],
            "turn TLS on in the server, or ask for a connection without it",
        ),
        (
            &["received corrupt message of type"],
            "the server does not speak TLS there: use the URL without TLS (`http://`), or correct the address",
        ),
        (
            &["alert: CertificateRequired", "alert: BadCertificate"],
            "the server wants a client certificate; client certificates are not supported",
        ),
        (
            &["alert: NoApplicationProtocol"],
            "the server does not speak HTTP/2 there: leave out `--http2`, or turn HTTP/2 on in the server (gRPC needs it)",
        ),
        (
            &["alert: ProtocolVersion", "ServerDoesNotSupportTls12Or13"],
            "allow TLS 1.2 or 1.3 in the server; lasthop speaks no older version",
        ),
        (
            &["alert: HandshakeFailure", "peer is incompatible"],
            "allow TLS 1.3, or a cipher with ECDHE, in the server; if it wants a client certificate, that is not supported",
        ),
        (
            &[
                "Expired",
                "certificate expired",
                "NotValidYet",
                "certificate not valid yet",
            ],
            "renew the server's certificate, or correct this machine's clock; on this machine, `--insecure` accepts any",
        ),
        (
            &["NotValidForName", "certificate not valid for name"],
            "name the host that it was issued for (`--server-name`); on this machine, `--insecure` accepts any",
        ),
        (
            &["certificate"],
            "name who signed it (`--authority`, which may be the certificate itself); on this machine, `--insecure` \
             accepts any",
        ),
    ];
    let mut causes = CAUSES.iter();
    let found = causes.find(|(words, _)| words.iter().any(|word| said.contains(word)));
    found.map(|(_, advice)| *advice)
}

/// Advice for a failure of servers that run as this account.
pub fn advice(failure: &Failure, account: Option<&Account>) -> Option<String> {
    let said = format!("{}\n{}", failure.cause, failure.log).to_lowercase();
    // lasthop's own error about a long path already advises to set the variable.
    if is_too_long(&said) && !failure.cause.contains(SANDBOX_VARIABLE) {
        return Some(format!(
            "the path of a Unix socket may have {UNIX_NAME_MAX} bytes: keep sockets in `{{{{ runtime }}}}`, and set \
             {SANDBOX_VARIABLE} or TMPDIR to a directory with a shorter path"
        ));
    }
    if let Some(program) = unseen(&failure.cause) {
        let interpreter = passage::interpreter(Path::new(program));
        let interpreter = interpreter.map_or_else(String::new, |path| format!(" (`{}`)", path.display()));
        let who = account.map_or_else(String::new, |account| {
            format!(", or `{}`, as whom it runs, cannot see it", account.user)
        });
        return Some(format!(
            "`{program}` is there, but not what it starts with{interpreter}{who}: install it where everybody can reach it"
        ));
    }
    let account = account.filter(|_| is_denied(&said))?;
    Some(format!(
        "the server runs as `{}`, who was not allowed to: keep its files and sockets in `{{{{ directory }}}}` or \
         `{{{{ runtime }}}}`, and if its configuration names an account, write `user {{{{ user }}}} {{{{ group }}}};`",
        account.user
    ))
}

/// A program that exists but that the kernel reports as missing: its interpreter or loader is missing.
fn unseen(cause: &str) -> Option<&str> {
    let (_, rest) = cause.split_once("cannot start `")?;
    let (program, why) = rest.split_once('`')?;
    (why.contains("No such file") && Path::new(program).exists()).then_some(program)
}

/// Whether access was denied. Databases use some of these words for roles too.
fn is_denied(said: &str) -> bool {
    said.split("permission denied")
        .skip(1)
        .any(|after| !after.starts_with(" for ") && !after.starts_with(" to "))
}

fn is_too_long(said: &str) -> bool {
    said.lines()
        .any(|line| line.contains("too long") && (line.contains("path") || line.contains("file name")))
}

#[cfg(test)]
mod tests {
    use lasthop_model::record::Stage;

    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn tls_fails_for_other_reasons_than_its_certificate() {
        for (said, advice) in [
            (
                "received corrupt message of type InvalidContentType",
                "does not speak TLS",
            ),
            (
                "received fatal alert: CertificateRequired",
                "client certificates are not supported",
            ),
            ("received fatal alert: HandshakeFailure", "a cipher with ECDHE"),
            ("received fatal alert: ProtocolVersion", "TLS 1.2 or 1.3"),
            ("received fatal alert: NoApplicationProtocol", "`--http2`"),
        ] {
            let text = tls(&format!("TLS handshake: {said}")).unwrap();
            assert!(text.contains(advice) && !text.contains("--authority"), "{said}: {text}");
        }
        let of = |error: &str| tls(&format!("TLS handshake: invalid peer certificate: {error}")).unwrap();
        assert!(of("certificate expired: verification time 9 (UNIX)").starts_with("renew"));
        assert!(of("Expired").starts_with("renew"));
        assert!(of("certificate not valid for name \"a\"; certificate is").contains("--server-name"));
        assert!(of("UnknownIssuer").contains("--authority"));
        assert_eq!(tls("TLS handshake: peer misbehaved: TooMuchEarlyData"), None);
    }

    #[test]
    fn the_usual_causes_are_recognised() {
        let account = Account {
            user: "nobody".into(),
            group: "nogroup".into(),
            is_root: false,
            ids: (65534, 65534),
        };
        let hint = |cause: &str, log: &str| {
            let stage = Stage::Ready;
            let case = "unix".to_owned();
            let cause = cause.to_owned();
            let log = log.to_owned();
            advice(
                &Failure {
                    round: 0,
                    block: None,
                    case,
                    stage,
                    cause,
                    log,
                    log_file: None,
                    hint: None,
                    requests: 0,
                    errors: BTreeMap::new(),
                },
                Some(&account),
            )
        };
        for log in [
            "connect() to unix:/tmp/x failed (13: Permission denied) while connecting to upstream",
            "PermissionError: [Errno 13] Permission denied: '/root/app.sock'",
        ] {
            assert!(
                hint("status 502, expected 200", log).is_some_and(|hint| hint.contains("runs as `nobody`")),
                "{log}"
            );
        }
        for log in [
            "OSError: AF_UNIX path too long",
            "Unix-domain socket path \"/x\" is too long (maximum 107 bytes)",
            "bind: File name too long",
        ] {
            assert!(
                hint("service `app` exited", log).is_some_and(|hint| hint.contains("107 bytes")),
                "{log}"
            );
        }
        // The kernel's error for a script with a missing interpreter.
        let script = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(script.path(), "#!/nonexistent/python3 -u\n").unwrap();
        let shown = script.path().display();
        let cause = format!("cannot start `{shown}`: No such file or directory (os error 2)");
        assert_eq!(
            hint(&cause, "").unwrap(),
            format!(
                "`{shown}` is there, but not what it starts with (`/nonexistent/python3`), or `nobody`, as whom it runs, \
                 cannot see it: install it where everybody can reach it"
            )
        );
        for (cause, log) in [
            (
                "cannot start `/nonexistent/x`: No such file or directory (os error 2)",
                "",
            ),
            ("the server says: permission denied for table accounts", ""),
            ("the socket path /x has 110 bytes, too long: set LASTHOP_SANDBOX", ""),
            ("took too long", "listening"),
        ] {
            assert_eq!(hint(cause, log), None, "{cause}");
        }
    }
}
