//! What a protocol says in plain before a TLS handshake, if it does not begin with one.

use crate::failure::Failure;

/// Both sides' words in plain. The server says its own unasked (`server_first`), or as the answer to the request.
#[derive(Clone, Copy)]
pub struct TlsRequest {
    /// Asks for TLS.
    pub request: &'static [u8],
    pub server_first: bool,
    /// How many bytes are missing after those that the server has said; 0 when its words are whole.
    pub missing: fn(&[u8]) -> Result<usize, Failure>,
    /// What a null server says.
    pub granted: &'static [u8],
}
