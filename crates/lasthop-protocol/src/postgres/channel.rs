//! Binds an authentication to its TLS connection: `tls-server-end-point` (RFC 5929, section 4) is a digest of the
//! server's certificate. A man in the middle with another certificate cannot pass the proof on.

use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};

/// Tags of DER (X.690).
const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;
const CONTEXT_0: u8 = 0xa0;

/// Object identifiers without their last part: RSA with a digest (RFC 8017, A.2), ECDSA with a digest of the family
/// SHA-2 (RFC 5758, 3.2) and with SHA-1, and these digests themselves (RFC 8017, B.1).
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];
const SHA2: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];

/// The digest of a certificate (DER) by the hash function of its signature; SHA-256 in place of MD5 and SHA-1. `None`
/// if the signature has no such function (Ed25519), or an obsolete one (SHA-224).
pub fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let algorithm = signature_digest(certificate)?;
    Some(digest(algorithm, certificate).as_ref().to_vec())
}

/// `Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm, signatureValue }` (RFC 5280, 4.1).
fn signature_digest(certificate: &[u8]) -> Option<&'static Algorithm> {
    let (body, _) = element(certificate, SEQUENCE)?;
    let (_, rest) = element(body, SEQUENCE)?;
    let (algorithm, _) = element(rest, SEQUENCE)?;
    let (identifier, parameters) = element(algorithm, OBJECT_IDENTIFIER)?;
    let (last, family) = identifier.split_last()?;
    match (family, *last) {
        _ if identifier == ECDSA_SHA1 => Some(&SHA256),
        // MD5 and SHA-1.
        (RSA, 4 | 5) => Some(&SHA256),
        (RSA, 10) => pss_digest(parameters),
        (RSA, 11) | (ECDSA, 2) => Some(&SHA256),
        (RSA, 12) | (ECDSA, 3) => Some(&SHA384),
        (RSA, 13) | (ECDSA, 4) => Some(&SHA512),
        _ => None,
    }
}

/// `RSASSA-PSS-params ::= SEQUENCE { hashAlgorithm [0] DEFAULT sha1, … }` (RFC 8017, A.2.3).
fn pss_digest(parameters: &[u8]) -> Option<&'static Algorithm> {
    let (parameters, _) = element(parameters, SEQUENCE)?;
    let Some((hash, _)) = element(parameters, CONTEXT_0) else {
        // The default is SHA-1, which RFC 5929 replaces by SHA-256.
        return Some(&SHA256);
    };
    let (algorithm, _) = element(hash, SEQUENCE)?;
    let (identifier, _) = element(algorithm, OBJECT_IDENTIFIER)?;
    match identifier.split_last()? {
        (1, SHA2) => Some(&SHA256),
        (2, SHA2) => Some(&SHA384),
        (3, SHA2) => Some(&SHA512),
        _ => None,
    }
}

/// The content of the element that `bytes` begin with, if it has this tag, and the rest.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = bytes.split_first_chunk::<2>()?;
    // Up to 127 the length itself; otherwise the number of bytes that hold the length.
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    (found == tag).then(|| rest.split_at_checked(length))?
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An element with a content of up to 64 KiB.
    fn encode(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = match content.len() {
            short @ 0..=127 => vec![short as u8],
            long => vec![0x82, (long >> 8) as u8, long as u8],
        };
        [&[tag], &length[..], content].concat()
    }

    fn certificate(algorithm: &[u8]) -> Vec<u8> {
        let signed = encode(SEQUENCE, &[7; 300]);
        encode(
            SEQUENCE,
            &[signed, encode(SEQUENCE, algorithm), encode(3, &[0; 65])].concat(),
        )
    }

    fn identifier(family: &[u8], last: &[u8]) -> Vec<u8> {
        encode(OBJECT_IDENTIFIER, &[family, last].concat())
    }

    #[test]
    fn the_digest_is_that_of_the_signature() {
        let pss = |hash: Option<u8>| {
            let algorithm = |last| encode(SEQUENCE, &identifier(SHA2, &[last]));
            let parameters = hash.map(|last| encode(CONTEXT_0, &algorithm(last))).unwrap_or_default();
            [identifier(RSA, &[10]), encode(SEQUENCE, &parameters)].concat()
        };
        for (algorithm, length) in [
            (identifier(RSA, &[4]), Some(32)),
            (identifier(RSA, &[5]), Some(32)),
            (identifier(RSA, &[11]), Some(32)),
            (identifier(RSA, &[12]), Some(48)),
            (identifier(RSA, &[13]), Some(64)),
            (identifier(RSA, &[14]), None),
            (identifier(ECDSA_SHA1, &[]), Some(32)),
            (identifier(ECDSA, &[2]), Some(32)),
            (identifier(ECDSA, &[3]), Some(48)),
            (identifier(ECDSA, &[4]), Some(64)),
            (pss(None), Some(32)),
            (pss(Some(2)), Some(48)),
            (pss(Some(3)), Some(64)),
            // Ed25519.
            (identifier(&[0x2b, 0x65], &[0x70]), None),
        ] {
            let found = server_end_point(&certificate(&algorithm)).map(|digest| digest.len());
            assert_eq!(found, length, "{algorithm:02x?}");
        }
    }

    #[test]
    fn a_real_certificate_has_the_digest_that_openssl_computes() {
        // `openssl x509 -outform der | openssl dgst -sha384` of the same file, whose signature is ecdsa-with-SHA384.
        let pem = include_str!("channel-test.pem");
        let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let der = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, base64).unwrap();
        let digest: String = server_end_point(&der)
            .unwrap()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let openssl = concat!(
            "198a997aa49c638b2e170c4f3e878131a5ba6d60eab3abe4",
            "1a8e21603335eb81f8df5a53ec1a934fb5932ffea421cf4f"
        );
        assert_eq!(digest, openssl);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_certificate_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = server_end_point(&bytes);
        }

        #[test]
        fn a_cut_certificate_has_no_digest(at in 0usize..300) {
            let whole = certificate(&identifier(RSA, &[11]));
            prop_assert!(server_end_point(&whole[..at]).is_none());
        }
    }
}
