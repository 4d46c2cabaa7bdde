//! Files for a Pod: annotations of the Pod, which a volume turns into files. A ConfigMap would need one more right in
//! the cluster, and a removal.

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;

/// The folder of the files in every container.
pub const FOLDER: &str = "/etc/lasthop";
/// The most bytes in all. An API server takes 256 KiB of annotations, including names and those of others.
const LARGEST: usize = 200_000;

/// Names of files that hold secrets, and extensions.
const PRIVATE: [&str; 8] = [
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "credentials",
    "kubeconfig",
    "netrc",
    "htpasswd",
];
const PRIVATE_ENDS: [&str; 6] = ["key", "env", "pgpass", "keytab", "ppk", "ovpn"];
/// Marks of private keys: PEM of any kind, and PuTTY's format.
const KEYS: [&str; 2] = ["PRIVATE KEY-----", "PuTTY-User-Key-File-"];

/// Why a file seems private, in words.
fn looks_private(path: &Path, text: &str) -> Option<String> {
    if KEYS.iter().any(|mark| text.contains(mark)) {
        return Some("it holds a private key".to_owned());
    }
    let name = path.file_name()?.to_str()?.to_lowercase();
    let (stem, end) = name.split_once('.').unwrap_or((&name, ""));
    // `id_ed25519.pub` is no secret.
    let by_name = PRIVATE.contains(&stem) && end != "pub";
    let by_end = name
        .rsplit_once('.')
        .is_some_and(|(_, end)| PRIVATE_ENDS.contains(&end));
    (by_name || by_end).then(|| format!("files called `{name}` hold secrets"))
}

/// Texts, by path below [`FOLDER`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct Files(BTreeMap<String, String>);

impl Files {
    pub fn add(&mut self, path: &Path, content: Vec<u8>) -> Result<(), String> {
        let shown = path.display().to_string();
        let Ok(text) = String::from_utf8(content) else {
            return Err(format!(
                "{shown} is not text, and a Pod can be given only text: move it out of the folder"
            ));
        };
        if let Some(why) = looks_private(path, &text) {
            return Err(format!(
                "{shown} looks private, because {why}, and anyone who can read the Pods could read it: move it out of the \
                 folder"
            ));
        }
        self.0.insert(shown.clone(), text);
        if self.0.values().map(String::len).sum::<usize>() > LARGEST {
            return Err(format!(
                "with {shown}, the files are larger than {LARGEST} bytes, the most that a Pod can be given: move some out of \
                 the folder"
            ));
        }
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pod_cannot_be_given_is_named() {
        let mut files = Files::default();
        let add = |files: &mut Files, path: &str, content: &[u8]| {
            files
                .add(Path::new(path), content.to_vec())
                .err()
                .map(|error| error.to_string())
        };
        assert_eq!(
            (add(&mut files, "a", b"text"), add(&mut files, "b", &[b'x'; 100_000])),
            (None, None)
        );
        for (path, text) in [
            ("app/id_rsa", "anything"),
            ("notes", "a\n-----BEGIN OPENSSH PRIVATE KEY-----\nb"),
            ("cert.pem", "-----BEGIN PRIVATE KEY-----"),
            ("credentials.json", "{}"),
            ("production.env", "A=b"),
            ("server.key", ""),
        ] {
            let refused = add(&mut files, path, text.as_bytes()).unwrap();
            assert!(refused.starts_with(&format!("{path} looks private")), "{refused}");
        }
        for (path, text) in [
            ("id_rsa.pub", "ssh-rsa A"),
            ("app/key.py", "key"),
            ("ca.pem", "-----BEGIN CERTIFICATE-----"),
        ] {
            assert_eq!(add(&mut files, path, text.as_bytes()), None);
        }
        assert!(
            add(&mut files, "image.png", b"\x89PNG")
                .unwrap()
                .starts_with("image.png is not text")
        );
        assert!(
            add(&mut files, "c", &[b'x'; 100_000])
                .unwrap()
                .starts_with("with c, the files are larger than")
        );
    }
}
