//! The client's side of SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677), as PostgreSQL uses them: no user
//! name, and passwords that are prepared if possible.

use std::num::NonZeroU32;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lasthop_trial::failure::Failure;
use ring::{
    digest::{SHA256, digest},
    hmac::{self, HMAC_SHA256},
    pbkdf2,
    rand::{SecureRandom as _, SystemRandom},
};

use crate::exchange::excerpt;

pub const SHA_256: &str = "SCRAM-SHA-256";
pub const SHA_256_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// Random bytes of the client's nonce: as many as libpq's.
const NONCE_BYTES: usize = 18;
/// Limit of iterations, which the server sets and could use to keep the client busy for minutes. PostgreSQL's default
/// is 4,096.
const MOST_ITERATIONS: u32 = 100_000;

/// Channel binding of the client.
#[derive(Clone, Debug)]
pub enum Binding {
    /// The client cannot bind to the TLS connection.
    Unsupported,
    /// The client can bind, but the server has not offered it.
    NotOffered,
    /// `tls-server-end-point`: a digest of the server's certificate.
    EndPoint(Vec<u8>),
}

impl Binding {
    fn header(&self) -> &'static str {
        match self {
            Self::Unsupported => "n,,",
            Self::NotOffered => "y,,",
            Self::EndPoint(_) => "p=tls-server-end-point,,",
        }
    }

    fn input(&self) -> Vec<u8> {
        let mut input = self.header().as_bytes().to_vec();
        if let Self::EndPoint(digest) = self {
            input.extend_from_slice(digest);
        }
        input
    }
}

fn refused(text: impl std::fmt::Display) -> Failure {
    Failure::refused(format!("authentication: {text}"))
}

fn malformed() -> Failure {
    refused("the server's SCRAM message is malformed")
}

/// The client has sent its first message.
pub struct First {
    binding: Binding,
    nonce: String,
    password: Vec<u8>,
}

impl First {
    pub fn new(password: &str, binding: Binding) -> Result<Self, Failure> {
        let mut nonce = [0; NONCE_BYTES];
        SystemRandom::new()
            .fill(&mut nonce)
            .map_err(|_| refused("the system has no random numbers"))?;
        Ok(Self::with_nonce(password, binding, STANDARD.encode(nonce)))
    }

    fn with_nonce(password: &str, binding: Binding, nonce: String) -> Self {
        // libpq and the server both take a password as it is if it cannot be prepared.
        let password = stringprep::saslprep(password)
            .unwrap_or(password.into())
            .into_owned()
            .into_bytes();
        Self {
            binding,
            nonce,
            password,
        }
    }

    pub fn message(&self) -> String {
        format!("{}{}", self.binding.header(), self.bare())
    }

    /// The message without the channel binding.
    fn bare(&self) -> String {
        format!("n=,r={}", self.nonce)
    }

    pub fn answer(self, server_first: &[u8]) -> Result<Last, Failure> {
        let server_first = std::str::from_utf8(server_first).map_err(|_| malformed())?;
        let (nonce, salt, iterations) = challenge(server_first).ok_or_else(malformed)?;
        // Otherwise the message may answer an earlier conversation (RFC 5802, section 5.1).
        if !nonce.starts_with(&self.nonce) {
            return Err(refused("the server's SCRAM nonce does not continue ours"));
        }
        if iterations.get() > MOST_ITERATIONS {
            return Err(refused(format!(
                "the server asks for more than {MOST_ITERATIONS} SCRAM iterations"
            )));
        }
        let mut salted = [0; 32];
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            iterations,
            &salt,
            &self.password,
            &mut salted,
        );
        let without_proof = format!("c={},r={nonce}", STANDARD.encode(self.binding.input()));
        let conversation = format!("{},{server_first},{without_proof}", self.bare());
        let client_key = sign(&salted, b"Client Key");
        let stored_key = digest(&SHA256, client_key.as_ref());
        let signature = sign(stored_key.as_ref(), conversation.as_bytes());
        let proof: Vec<u8> = client_key
            .as_ref()
            .iter()
            .zip(signature.as_ref())
            .map(|(key, mask)| key ^ mask)
            .collect();
        let message = format!("{without_proof},p={}", STANDARD.encode(proof));
        let server_key = hmac::Key::new(HMAC_SHA256, sign(&salted, b"Server Key").as_ref());
        Ok(Last {
            message,
            conversation,
            server_key,
        })
    }
}

/// The client has sent its last message, with the proof.
pub struct Last {
    message: String,
    conversation: String,
    server_key: hmac::Key,
}

impl Last {
    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn confirm(&self, server_final: &[u8]) -> Result<(), Failure> {
        if let Some(reason) = server_final.strip_prefix(b"e=") {
            return Err(refused(format!("the server ends SCRAM: {}", excerpt(reason))));
        }
        let signature = server_final.strip_prefix(b"v=").ok_or_else(malformed)?;
        let signature = STANDARD.decode(signature).map_err(|_| malformed())?;
        let verified = hmac::verify(&self.server_key, self.conversation.as_bytes(), &signature);
        verified.map_err(|_| refused("the server does not prove that it knows the password"))
    }
}

fn sign(key: &[u8], text: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(HMAC_SHA256, key), text)
}

/// Reads `r=NONCE,s=SALT,i=ITERATIONS`: PostgreSQL has no extensions.
fn challenge(message: &str) -> Option<(&str, Vec<u8>, NonZeroU32)> {
    let (nonce, rest) = message.strip_prefix("r=")?.split_once(",s=")?;
    let (salt, iterations) = rest.split_once(",i=")?;
    let digits = iterations.bytes().all(|byte| byte.is_ascii_digit());
    let printable = nonce.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
    if !digits || !printable {
        return None;
    }
    Some((nonce, STANDARD.decode(salt).ok()?, iterations.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A conversation of psql with a server, for the password `foobar`.
    const NONCE: &str = "9IZ2O01zb9IgiIZ1WJ/zgpJB";
    const SERVER_FIRST: &str = "r=9IZ2O01zb9IgiIZ1WJ/zgpJBjx/oIRLs02gGSHcw1KEty3eY,s=fs3IXBy7U7+IvVjZ,i=4096";
    const CLIENT_FINAL: &str =
        "c=biws,r=9IZ2O01zb9IgiIZ1WJ/zgpJBjx/oIRLs02gGSHcw1KEty3eY,p=AmNKosjJzS31NTlQYNs5BTeQjdHdk7lOflDo5re2an8=";
    const SERVER_FINAL: &str = "v=U+ppxD5XUKtradnv8e2MkeupiA8FU87Sg8CXzXHDAzw=";

    fn first(password: &str) -> First {
        First::with_nonce(password, Binding::Unsupported, NONCE.to_owned())
    }

    /// Why a server's first message is refused; empty if it is accepted.
    fn why(server_first: &str) -> String {
        first("foobar")
            .answer(server_first.as_bytes())
            .err()
            .map(|failure| failure.message)
            .unwrap_or_default()
    }

    #[test]
    fn it_says_what_psql_said() {
        let client = first("foobar");
        assert_eq!(client.message(), format!("n,,n=,r={NONCE}"));
        let client = client.answer(SERVER_FIRST.as_bytes()).ok().unwrap();
        assert_eq!(client.message(), CLIENT_FINAL);
        assert_eq!(client.confirm(SERVER_FINAL.as_bytes()), Ok(()));
        for (last, text) in [
            (&b"e=invalid-proof"[..], "the server ends SCRAM: \"invalid-proof\""),
            (b"U+ppxD5X", "is malformed"),
            (b"v=AAAA", "does not prove that it knows the password"),
        ] {
            let failure = client.confirm(last).unwrap_err();
            assert!(failure.message.ends_with(text), "{failure}");
        }
    }

    #[test]
    fn a_server_first_message_that_is_none_is_refused() {
        let with = |rest: &str| why(&format!("r={NONCE}{rest}"));
        assert_eq!(with("more,s=c2FsdA==,i=4096"), "");
        assert_eq!(with("more,s=c2FsdA==,i=100000"), "");
        assert!(with("more,s=c2FsdA==,i=100001").ends_with("more than 100000 SCRAM iterations"));
        for malformed in [
            "more,s=c2FsdA==",
            "more,s=c2FsdA==,i=0",
            "more,s=c2FsdA==,i=+1",
            "more,s=c2FsdA==,i=",
            "more,s=c2FsdA==,i=4096,x=y",
            "more,s=c2FsdA,i=4096",
            "mo re,s=c2FsdA==,i=4096",
            "more,i=4096,s=c2FsdA==",
        ] {
            assert!(with(malformed).ends_with("is malformed"), "{malformed}");
        }
        assert!(why("r=another,s=c2FsdA==,i=4096").ends_with("does not continue ours"));
    }

    #[test]
    fn two_clients_have_different_nonces() {
        let message = || First::new("foobar", Binding::NotOffered).unwrap().message();
        assert_ne!(message(), message());
    }

    /// SASLprep (RFC 4013) as in libpq: a password with forbidden characters stays as it is.
    #[test]
    fn passwords_are_prepared() {
        let prepared = |password: &str| String::from_utf8(first(password).password).unwrap();
        assert_eq!(prepared("pencil"), "pencil");
        assert_eq!(prepared("I\u{ad}X"), "IX");
        assert_eq!(prepared("\u{aa}"), "a");
        assert_eq!(prepared("\u{2168}"), "IX");
        assert_eq!(prepared("a\u{a0}b"), "a b");
        assert_eq!(prepared("bell\u{7}"), "bell\u{7}");
        assert_eq!(prepared("\u{627}1"), "\u{627}1");
    }
}
