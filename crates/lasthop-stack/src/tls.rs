//! The private certificate authority of a run. Its key is never written to disk, so nobody can sign with it once the
//! certificate is made.

use std::{
    fs::{DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use lasthop_model::binding::{SERVER_NAME, TlsFiles};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// Creates an authority and a server certificate for `localhost`, `127.0.0.1` and `::1` (ECDSA P-256), and writes them
/// to a new directory.
pub fn make(directory: &Path) -> Result<TlsFiles, String> {
    let [authority, certificate, key] =
        texts().map_err(|error| format!("cannot create the certificates of the run: {error}"))?;
    let files = TlsFiles {
        authority: directory.join("authority.pem"),
        certificate: directory.join("certificate.pem"),
        key: directory.join("key.pem"),
    };
    let write = || {
        DirBuilder::new().mode(0o700).create(directory)?;
        write(&files.authority, &authority, 0o644)?;
        write(&files.certificate, &certificate, 0o644)?;
        write(&files.key, &key, 0o600)
    };
    write().map_err(|cause| format!("cannot write to {}: {cause}", directory.display()))?;
    Ok(files)
}

/// The certificates of the authority and the server, and the server's key.
fn texts() -> Result<[String; 3], rcgen::Error> {
    let issuer = CertifiedIssuer::self_signed(authority(), KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let certificate = server()?.signed_by(&key, &issuer)?;
    Ok([issuer.pem(), certificate.pem(), key.serialize_pem()])
}

fn authority() -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = named("lasthop certificate authority of one run");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    parameters
}

fn server() -> Result<CertificateParams, rcgen::Error> {
    let names = [SERVER_NAME, "127.0.0.1", "::1"].map(str::to_owned);
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name = named(SERVER_NAME);
    parameters.is_ca = IsCa::ExplicitNoCa;
    parameters.use_authority_key_identifier_extension = true;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(parameters)
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    options.open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn openssl_verifies_the_certificate_for_each_name() {
        let directory = tempfile::tempdir().unwrap();
        let files = make(&directory.path().join("tls")).unwrap();
        let verify = |option: &str, name: &str| {
            let mut command = Command::new("openssl");
            command.args([
                "verify",
                "-x509_strict",
                "-purpose",
                "sslserver",
                option,
                name,
                "-CAfile",
            ]);
            command.arg(&files.authority).arg(&files.certificate).output().unwrap()
        };
        for (option, name) in [
            ("-verify_ip", "127.0.0.1"),
            ("-verify_ip", "::1"),
            ("-verify_hostname", "localhost"),
        ] {
            let output = verify(option, name);
            assert!(
                output.status.success(),
                "{name}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        assert!(!verify("-verify_hostname", "example.org").status.success());
    }
}
