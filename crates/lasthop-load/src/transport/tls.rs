//! TLS 1.2 and 1.3 over any socket, by rustls.

use std::{
    fmt::Display,
    fs,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use lasthop_system::files;
use lasthop_trial::{address::Tls, failure::Failure, result::ErrorClass};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct, HandshakeKind, RootCertStore,
    ServerConfig, ServerConnection, SignatureScheme,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    server::ParsedCertificate,
};

use super::Socket;

/// Maximum bytes of one receive from the socket: four full records.
const INCOMING: usize = 64 * 1024 + 512;
/// Maximum bytes received in a row in records without content, such as session tickets.
const EMPTY_MAX: usize = 1024 * 1024;

/// Files with the trusted authorities of distributions, in search order.
const SYSTEM_AUTHORITIES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

fn no_session(error: rustls::Error) -> Failure {
    Failure::new(ErrorClass::Tls, format!("TLS: {error}"))
}

fn unusable(error: rustls::Error) -> String {
    format!("TLS configuration: {error}")
}

/// Configuration and server name for the client's side.
pub fn client_config(tls: &Tls) -> Result<(Arc<ClientConfig>, ServerName<'static>), String> {
    let judge = if tls.insecure {
        None
    } else {
        Some(Authorities::of(tls)?)
    };
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier(judge)))
        .with_no_client_auth();
    if !tls.resumption {
        config.resumption = Resumption::disabled();
    }
    let name = ServerName::try_from(tls.server_name.clone());
    Ok((
        Arc::new(config),
        name.map_err(|_| format!("`{}` is not a name that a certificate can have", tls.server_name))?,
    ))
}

/// The authorities whose certificates are accepted.
#[derive(Debug)]
struct Authorities {
    signed: Arc<WebPkiServerVerifier>,
    /// Given certificates, which may be the server's own: `openssl req -x509` makes one that is also an authority.
    given: Vec<CertificateDer<'static>>,
}

impl Authorities {
    fn of(tls: &Tls) -> Result<Self, String> {
        let all = certificates(&authority(tls)?)?;
        let mut roots = RootCertStore::empty();
        for certificate in &all {
            roots.add(certificate.clone()).map_err(unusable)?;
        }
        let signed = WebPkiServerVerifier::builder_with_provider(roots.into(), provider()).build();
        Ok(Self {
            signed: signed.map_err(|error| format!("TLS configuration: {error}"))?,
            given: if tls.authority.is_some() { all } else { Vec::new() },
        })
    }
}

/// Verifies a server's certificate; without authorities it accepts any. That the server has its key is always verified.
#[derive(Debug)]
struct Verifier(Option<Authorities>);

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(Authorities { signed, given }) = &self.0 else {
            return Ok(ServerCertVerified::assertion());
        };
        match signed.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The dates have already been found valid.
            Err(error) if is_authority(&error) && given.iter().any(|one| one.as_ref() == end_entity.as_ref()) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signed,
            &provider().signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signed,
            &provider().signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Whether a certificate was refused because it belongs to an authority.
fn is_authority(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidCertificate(CertificateError::Other(other))
        if other.to_string() == "CaUsedAsEndEntity")
}

/// Configuration for the server's side from PEM files.
pub fn server_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, String> {
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| format!("cannot read the private key `{}`: {error}", key.display()))?;
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(certificates(certificate)?, private)
        .map_err(unusable)?;
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn authority(tls: &Tls) -> Result<PathBuf, String> {
    if let Some(path) = &tls.authority {
        return Ok(path.clone());
    }
    // Some distributions link one to the other, and `files` opens no link.
    SYSTEM_AUTHORITIES
        .iter()
        .find_map(|path| fs::canonicalize(path).ok())
        .ok_or_else(|| {
            format!(
                "found no certificate authorities of the system (looked for {SYSTEM_AUTHORITIES:?}); pass an authority"
            )
        })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let unreadable = |cause: &dyn Display| format!("cannot read certificates from `{}`: {cause}", path.display());
    let text = files::read(path, files::SHORT).map_err(|error| unreadable(&error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| unreadable(&error))?;
    if found.is_empty() {
        return Err(format!("`{}` contains no certificate", path.display()));
    }
    Ok(found)
}

/// The state of a handshake: that of TLS, or a protocol's greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handshake {
    Done,
    /// Something arrived; continue.
    Progress,
    WantsRead,
    WantsWrite,
}

/// A TLS session over a socket, for either side.
pub struct TlsStream {
    session: Connection,
    socket: Socket,
    /// Encrypted bytes received and not yet handed to the session: `incoming[taken..filled]`.
    incoming: Box<[u8]>,
    taken: usize,
    filled: usize,
    /// The server's plaintext before TLS.
    heard: Vec<u8>,
}

impl TlsStream {
    /// The client's side, after the server's plaintext `heard`.
    pub fn client(
        socket: Socket,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        heard: Vec<u8>,
    ) -> Result<Self, Failure> {
        let session = ClientConnection::new(config, name).map_err(no_session)?;
        Ok(Self {
            heard,
            ..Self::new(socket, session.into())
        })
    }

    pub fn server(socket: Socket, config: Arc<ServerConfig>) -> Result<Self, Failure> {
        let session = ServerConnection::new(config).map_err(no_session)?;
        Ok(Self::new(socket, session.into()))
    }

    fn new(socket: Socket, session: Connection) -> Self {
        Self {
            session,
            socket,
            incoming: vec![0; INCOMING].into(),
            taken: 0,
            filled: 0,
            heard: Vec::new(),
        }
    }

    pub fn heard(&self) -> &[u8] {
        &self.heard
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    pub fn session(&self) -> &Connection {
        &self.session
    }

    /// Whether the handshake resumed an earlier session, without certificates and signatures.
    pub fn is_resumed(&self) -> bool {
        self.session.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Takes the handshake one step further. The first call starts it.
    ///
    /// # Errors
    ///
    /// Class `Tls` if the certificate or the protocol is not accepted, `Reset` if the peer hangs up.
    pub fn handshake(&mut self) -> Result<Handshake, Failure> {
        if !self.flush().map_err(|error| tls_failure(&error))? {
            return Ok(Handshake::WantsWrite);
        }
        if !self.session.is_handshaking() {
            return Ok(Handshake::Done);
        }
        match self.pull(false) {
            Ok(0) => Err(Failure::reset("TLS handshake: the peer closed the connection")),
            Ok(_) => Ok(Handshake::Progress),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Handshake::WantsRead),
            Err(error) => {
                // The alert tells the peer why; it need not arrive.
                let _ = self.flush();
                Err(tls_failure(&error))
            }
        }
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut accepted = 0;
        while accepted < bytes.len() {
            accepted += self.session.writer().write(&bytes[accepted..])?;
            if !self.flush()? {
                break;
            }
        }
        Ok(accepted)
    }

    /// # Errors
    ///
    /// The error of the system call; never `WouldBlock`.
    pub fn flush(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut Outgoing(&self.socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// # Errors
    ///
    /// The error of a system call; `InvalidData` if TLS is violated, `UnexpectedEof` if the peer closes without a
    /// notice.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive_with(buffer, false)
    }

    pub fn receive_now(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive_with(buffer, true)
    }

    fn receive_with(&mut self, buffer: &mut [u8], now: bool) -> io::Result<usize> {
        let mut pulled = 0;
        while pulled < EMPTY_MAX {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            // Even after the end of the socket: the session then tells a proper end of TLS (0) from a truncated one
            // (`UnexpectedEof`).
            pulled += self.pull(now)?;
        }
        let text = "the peer sends TLS records without content, and no end of them";
        Err(io::Error::new(io::ErrorKind::InvalidData, text))
    }

    /// Passes received bytes to the session, after a receive if none are left. 0 means the end of the stream.
    fn pull(&mut self, now: bool) -> io::Result<usize> {
        if self.taken == self.filled {
            self.taken = 0;
            self.filled = 0;
            self.filled = if now {
                self.socket.receive_now(&mut self.incoming)?
            } else {
                self.socket.receive(&mut self.incoming)?
            };
        }
        let mut rest = &self.incoming[self.taken..self.filled];
        let before = rest.len();
        let mut pulled = 0;
        // The session takes about 4 KiB at a time. Give it everything before asking for plaintext.
        loop {
            let step = self.session.read_tls(&mut rest)?;
            pulled += step;
            let state = self.session.process_new_packets();
            let state = state.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if rest.is_empty() || step == 0 || state.plaintext_bytes_to_read() > 0 {
                break;
            }
        }
        self.taken += before - rest.len();
        Ok(pulled)
    }

    /// Whether the session has all received bytes and has handed out their content.
    pub fn is_drained(&self) -> bool {
        self.taken == self.filled
    }

    /// Whether an idle session is open and silent. Late session tickets from the server do not count.
    pub fn is_quiet(&mut self) -> bool {
        let spoken = self.receive_now(&mut [0]);
        matches!(spoken, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    pub fn farewell(&mut self) {
        self.session.send_close_notify();
        let _ = self.flush();
    }
}

fn tls_failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::InvalidData => Failure::new(ErrorClass::Tls, format!("TLS handshake: {}", in_words(error))),
        _ => Failure::io("TLS handshake", error),
    }
}

/// Explains an error that rustls does not explain and that is common with test servers: `openssl req -x509` creates
/// such certificates.
fn in_words(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    if cause.is_some_and(is_authority) {
        "the server's certificate is that of a certificate authority, and not one that you trust".to_owned()
    } else {
        error.to_string()
    }
}

/// A writer to the socket for rustls.
struct Outgoing<'a>(&'a Socket);

impl io::Write for Outgoing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.send_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
