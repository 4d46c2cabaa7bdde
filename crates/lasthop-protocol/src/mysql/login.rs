//! Login of a client of MySQL and MariaDB: the server's handshake, the client's answer, and the proof that each method
//! of authentication requires.

use lasthop_trial::failure::Failure;
use ring::{
    digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest},
    signature::Ed25519KeyPair,
};

use super::packet::Reader;
use crate::exchange::excerpt;

/// Capabilities of both sides.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/group__group__cs__capabilities__flags.html>
const LONG_PASSWORD: u32 = 1;
const LONG_FLAG: u32 = 1 << 2;
const CONNECT_WITH_DATABASE: u32 = 1 << 3;
const PROTOCOL_41: u32 = 1 << 9;
const TLS: u32 = 1 << 11;
const TRANSACTIONS: u32 = 1 << 13;
const SECURE_CONNECTION: u32 = 1 << 15;
const MULTIPLE_RESULTS: u32 = 1 << 17;
const MULTIPLE_PREPARED_RESULTS: u32 = 1 << 18;
const PLUGINS: u32 = 1 << 19;
const LONG_PLUGIN_DATA: u32 = 1 << 21;
const NO_EOF: u32 = 1 << 24;

/// Capabilities that the client requires. Servers have had them for many years.
const NEEDED: u32 = PROTOCOL_41 | SECURE_CONNECTION | PLUGINS;
const WANTED: u32 = NEEDED
    | LONG_PASSWORD
    | LONG_FLAG
    | CONNECT_WITH_DATABASE
    | TRANSACTIONS
    | MULTIPLE_RESULTS
    | MULTIPLE_PREPARED_RESULTS
    | LONG_PLUGIN_DATA
    | NO_EOF;
/// Longest packet accepted, the maximum of `max_allowed_packet`.
const PACKET_MAX: u32 = 1 << 30;
/// `utf8mb4_general_ci`, which all servers have.
const COLLATION: u8 = 45;

/// The request for TLS: an answer to the handshake that ends before the user, including the packet's header.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_ssl_request.html>
pub static TLS_REQUEST: [u8; 36] = tls_request();

const fn tls_request() -> [u8; 36] {
    let flags = (WANTED | TLS).to_le_bytes();
    let most = PACKET_MAX.to_le_bytes();
    let mut request = [0; 36];
    // A payload of 32 bytes in packet 1; the server's handshake was packet 0.
    request[0] = 32;
    request[3] = 1;
    let mut at = 0;
    while at < 4 {
        request[4 + at] = flags[at];
        request[8 + at] = most[at];
        at += 1;
    }
    request[12] = COLLATION;
    request
}

/// First packet of a null server, which offers everything.
pub const NULL_HANDSHAKE: &[u8] = b"\x49\0\0\0\x0a8.0.0\0\x01\0\0\0abcdefgh\0\xff\xff\x2d\x02\0\xff\xff\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0mysql_native_password\0";

/// The server's first packet.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html>
#[derive(Debug, PartialEq, Eq)]
pub struct Handshake {
    flags: u32,
    pub method: String,
    /// Random bytes on which the client's proof depends.
    pub nonce: Vec<u8>,
}

impl Handshake {
    pub fn read(payload: &[u8]) -> Result<Self, Failure> {
        let none = || Failure::protocol(format!("{} is not the handshake of a MySQL server", excerpt(payload)));
        let handshake = Self::parse(payload).ok_or_else(none)?;
        if handshake.flags & NEEDED != NEEDED {
            return Err(Failure::protocol(
                "the server's protocol is older than that of MySQL 5.5",
            ));
        }
        Ok(handshake)
    }

    fn parse(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader(payload);
        if reader.number(1)? != 10 {
            return None;
        }
        let _version = reader.until_nul();
        let _connection = reader.bytes(4)?;
        let mut nonce = reader.bytes(8)?.to_vec();
        let _filler = reader.bytes(1)?;
        let low = reader.number(2)?;
        let _collation_and_status = reader.bytes(3)?;
        let flags = (reader.number(2)? << 16 | low) as u32;
        let length = reader.number(1)? as usize;
        let _reserved = reader.bytes(10)?;
        // At least 13 bytes, whatever the stated length, and the last is a NUL: so the protocol has it.
        nonce.extend_from_slice(reader.bytes(length.saturating_sub(8).max(13))?);
        let method = String::from_utf8_lossy(reader.until_nul()).into_owned();
        Some(Self { flags, method, nonce })
    }

    pub fn offers_tls(&self) -> bool {
        self.flags & TLS > 0
    }

    /// Whether the server omits the EOF packets that once ended each part of a reply.
    pub fn leaves_out_ends(&self) -> bool {
        // The client always offers it (`WANTED`), so the server decides.
        self.flags & NO_EOF > 0
    }
}

/// The client's answer to the handshake, with the method's proof.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_response.html>
pub fn response(user: &str, database: &str, encrypted: bool, method: &str, answer: &[u8]) -> Vec<u8> {
    let flags = if encrypted { WANTED | TLS } else { WANTED };
    let mut response = [
        &flags.to_le_bytes()[..],
        &PACKET_MAX.to_le_bytes(),
        &[COLLATION],
        &[0; 23],
    ]
    .concat();
    for text in [user.as_bytes(), &[0]] {
        response.extend_from_slice(text);
    }
    response.extend(super::packet::length_encoded(answer.len()));
    for text in [answer, database.as_bytes(), &[0], method.as_bytes(), &[0]] {
        response.extend_from_slice(text);
    }
    response
}

/// The client, and the privacy of its connection.
pub struct Client<'a> {
    pub password: &'a str,
    /// Whether no third party can listen: TLS, or a Unix socket.
    pub is_private: bool,
    /// Whether the client may send the password itself to a server that asks for it: TLS has proven the server's
    /// identity, or the user trusts it.
    pub says_clear: bool,
}

/// Makes the first answer of a method from the client and the server's nonce.
type Answer = fn(&Client<'_>, &[u8]) -> Result<Vec<u8>, Failure>;

const METHODS: &[(&str, Answer)] = &[
    ("mysql_native_password", |client, nonce| {
        Ok(native(client.password, nonce))
    }),
    ("caching_sha2_password", |client, nonce| {
        Ok(caching_sha2(client.password, nonce))
    }),
    ("client_ed25519", |client, nonce| ed25519(client.password, nonce)),
    ("mysql_clear_password", |client, _| clear(client)),
    // The kernel tells the server who the client is.
    ("unix_socket", |_, _| Ok(Vec::new())),
    ("auth_socket", |_, _| Ok(Vec::new())),
];

/// The method of the first answer if the server's method is unknown. The server may then ask for the account's method.
const DEFAULT: &str = "mysql_native_password";

pub fn known_or_default(method: &str) -> &str {
    if METHODS.iter().any(|(name, _)| *name == method) {
        method
    } else {
        DEFAULT
    }
}

pub fn answer(method: &str, client: &Client<'_>, nonce: &[u8]) -> Result<Vec<u8>, Failure> {
    let found = METHODS.iter().find(|(name, _)| *name == method);
    let known = || METHODS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found
        .ok_or_else(|| {
            refused(format!(
                "the server asks for `{method}`, which is not supported (known: {})",
                known()
            ))
        })?
        .1(client, nonce)
}

/// The client's next step after the first answer of a method.
pub enum More {
    Say(Vec<u8>),
    Wait,
}

/// Continues `caching_sha2_password`: the server found the proof in its cache (3), or asks for the password itself (4).
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html>
pub fn go_on(method: &str, client: &Client<'_>, data: &[u8]) -> Result<More, Failure> {
    match (method, data) {
        ("caching_sha2_password", [3]) => Ok(More::Wait),
        ("caching_sha2_password", [4]) => clear(client).map(More::Say),
        _ => Err(Failure::protocol(format!(
            "authentication: {} was not expected by `{method}`",
            excerpt(data)
        ))),
    }
}

pub fn refused(text: impl std::fmt::Display) -> Failure {
    Failure::refused(format!("authentication: {text}"))
}

/// The password itself, if no third party can listen. Over a Unix socket only the path tells who receives it.
fn clear(client: &Client<'_>) -> Result<Vec<u8>, Failure> {
    let why = match client {
        Client { is_private: false, .. } => {
            "which lasthop does not send in plain and cannot encrypt with the server's RSA key: use TLS or a Unix socket, or log \
             in by one of them first, so that the server has the password in its cache"
        }
        Client { says_clear: false, .. } => {
            "which whoever listens at this socket would get: use TLS, or say that you trust it with `cleartext=true` (in an \
             experiment `cleartext = true`)"
        }
        _ => return Ok([client.password.as_bytes(), &[0]].concat()),
    };
    Err(refused(format!("the server asks for the password itself, {why}")))
}

fn hash(algorithm: &'static Algorithm, parts: &[&[u8]]) -> Vec<u8> {
    digest(algorithm, &parts.concat()).as_ref().to_vec()
}

fn mixed(left: &[u8], right: &[u8]) -> Vec<u8> {
    left.iter().zip(right).map(|(left, right)| left ^ right).collect()
}

/// The 20 random bytes of a nonce, without the NUL that may follow them.
fn random(nonce: &[u8]) -> &[u8] {
    &nonce[..nonce.len().min(20)]
}

/// `SHA1(password) XOR SHA1(nonce, SHA1(SHA1(password)))`; empty without a password.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_authentication_methods_native_password_authentication.html>
fn native(password: &str, nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = hash(&SHA1_FOR_LEGACY_USE_ONLY, &[password.as_bytes()]);
    let twice = hash(&SHA1_FOR_LEGACY_USE_ONLY, &[&once]);
    mixed(&once, &hash(&SHA1_FOR_LEGACY_USE_ONLY, &[random(nonce), &twice]))
}

/// `SHA256(password) XOR SHA256(SHA256(SHA256(password)), nonce)`; empty without a password.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html>
fn caching_sha2(password: &str, nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = hash(&SHA256, &[password.as_bytes()]);
    let twice = hash(&SHA256, &[&once]);
    mixed(&once, &hash(&SHA256, &[&twice, random(nonce)]))
}

/// The signature of the nonce, with the password as the key's seed. ring takes seeds of 32 bytes, as in RFC 8032.
/// <https://mariadb.com/kb/en/authentication-plugin-ed25519/>
fn ed25519(password: &str, nonce: &[u8]) -> Result<Vec<u8>, Failure> {
    if password.is_empty() {
        return Err(refused("the server wants a password, none is given"));
    }
    let key = Ed25519KeyPair::from_seed_unchecked(password.as_bytes()).map_err(|_| {
        refused(
            "the server asks for `client_ed25519`, which lasthop can answer with passwords of 32 bytes only: give the account \
             one, or another method (MariaDB may ask so, too, if it does not know the account)",
        )
    })?;
    Ok(key.sign(&nonce[..nonce.len().min(32)]).as_ref().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nonces and proofs of real servers, from the tests of another implementation: go-sql-driver/mysql,
    /// `auth_test.go`.
    #[test]
    fn proofs_are_those_of_another_client() {
        let nonce = [
            10, 47, 74, 111, 75, 73, 34, 48, 88, 76, 114, 74, 37, 13, 3, 80, 82, 2, 23, 21,
        ];
        let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        for (password, proof) in [
            (
                "secret",
                "f490e76f66d9d86665ce54d98c78d0acfe2fb0b08b423da807144873d30b312c",
            ),
            (
                "secret2",
                "abc3934a012cf342e876071c8ee202de51785b430258a7a0138bc79c4d800bc6",
            ),
        ] {
            assert_eq!(hex(caching_sha2(password, &nonce)), proof);
            // A NUL follows the nonce on the wire.
            assert_eq!(hex(caching_sha2(password, &[&nonce[..], &[0]].concat())), proof);
        }
        let nonce = [
            70, 114, 92, 94, 1, 38, 11, 116, 63, 114, 23, 101, 126, 103, 26, 95, 81, 17, 24, 21,
        ];
        let proof = [
            53, 177, 140, 159, 251, 189, 127, 53, 109, 252, 172, 50, 211, 192, 240, 164, 26, 48, 207, 45,
        ];
        assert_eq!(native("secret", &nonce), proof);
        assert_eq!((native("", &nonce), caching_sha2("", &nonce)), (vec![], vec![]));
    }

    #[test]
    fn a_nonce_is_signed_by_the_key_that_the_password_is() {
        use ring::signature::{ED25519, KeyPair as _, UnparsedPublicKey};

        let password: String = ('a'..='z').chain('0'..='5').collect();
        let signature = ed25519(&password, &[&[7; 32][..], &[0]].concat()).unwrap();
        let key = Ed25519KeyPair::from_seed_unchecked(password.as_bytes()).unwrap();
        UnparsedPublicKey::new(&ED25519, key.public_key())
            .verify(&[7; 32], &signature)
            .unwrap();
        assert!(
            ed25519("short", &[7; 32])
                .unwrap_err()
                .message
                .contains("32 bytes only")
        );
        assert!(ed25519("", &[7; 32]).unwrap_err().message.contains("none is given"));
    }

    #[test]
    fn a_handshake_is_read_and_what_is_none_is_refused() {
        let handshake = Handshake::read(&NULL_HANDSHAKE[4..]).unwrap();
        assert_eq!(
            (&*handshake.method, &handshake.nonce[..]),
            ("mysql_native_password", &b"abcdefghijklmnopqrst\0"[..])
        );
        assert_eq!(super::super::packet::missing(NULL_HANDSHAKE), 0);
        assert!(handshake.offers_tls() && handshake.leaves_out_ends());
        for at in 4..NULL_HANDSHAKE.len() - 22 {
            assert!(Handshake::read(&NULL_HANDSHAKE[4..at]).is_err(), "{at}");
        }
        let old = Handshake::read(b"\x0a5.1\0\0\0\0\0abcdefgh\0\0\x82\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0")
            .unwrap_err();
        assert!(old.message.contains("older than that of MySQL 5.5"), "{old}");
    }

    #[test]
    fn a_password_is_said_only_where_nobody_listens() {
        let client = |is_private, says_clear| Client {
            password: "secret",
            is_private,
            says_clear,
        };
        for method in ["mysql_clear_password", "caching_sha2_password"] {
            let say = |is_private, says_clear| match method {
                "caching_sha2_password" => match go_on(method, &client(is_private, says_clear), &[4])? {
                    More::Say(words) => Ok(words),
                    More::Wait => panic!("it must say something"),
                },
                _ => answer(method, &client(is_private, says_clear), &[]),
            };
            assert_eq!(say(true, true).unwrap(), b"secret\0", "{method}");
            for says_clear in [false, true] {
                let refused = say(false, says_clear).unwrap_err().message;
                assert!(refused.contains("use TLS or a Unix socket"), "{method}: {refused}");
            }
            let refused = say(true, false).unwrap_err().message;
            assert!(refused.contains("`cleartext=true`"), "{method}: {refused}");
        }
        assert!(matches!(
            go_on("caching_sha2_password", &client(false, false), &[3]),
            Ok(More::Wait)
        ));
        assert_eq!(answer("unix_socket", &client(false, false), &[]), Ok(vec![]));
        let unknown = answer("dialog", &client(true, true), &[]).unwrap_err().message;
        assert!(
            unknown.contains("`dialog`, which is not supported (known: mysql_native_password"),
            "{unknown}"
        );
    }
}
