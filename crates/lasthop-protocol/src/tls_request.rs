//! The plaintext of a protocol before a TLS handshake, if it does not begin with one.

use lasthop_trial::failure::Failure;

/// Both sides' plaintext before TLS. The server sends its part unasked (`server_first`), or in reply to the request.
#[derive(Clone, Copy)]
pub struct TlsRequest {
    /// The request for TLS.
    pub request: &'static [u8],
    pub server_first: bool,
    /// Bytes missing after those received from the server; 0 when its plaintext is complete.
    pub missing: fn(&[u8]) -> Result<usize, Failure>,
    /// A null server's plaintext.
    pub granted: &'static [u8],
}
