//! A volume of a run. The engine creates it, and containers mount it at its path on the host, so that a socket on it
//! has one path everywhere.

use std::{
    io,
    path::{Path, PathBuf},
};

use lasthop_system::files::Folder;
use lasthop_trial::address::UNIX_NAME_MAX;

use super::{engine::Engine, labels};

/// A volume of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Unique on the machine.
    pub name: String,
    /// The volume's path on the host and in containers.
    pub folder: PathBuf,
}

impl Volume {
    /// Creates the volume `name` with the labels of the run.
    pub fn create(engine: &Engine, run: &str, sandbox: &str, name: &str) -> Result<Self, String> {
        let name = format!("{run}-{name}");
        let create = ["volume", "create"].map(str::to_owned).into_iter();
        engine.ask(create.chain(labels(run, sandbox)).chain([name.clone()]))?;
        let answer = engine.ask(["volume", "inspect", "--format", "{{.Mountpoint}}", &name])?;
        let folder = PathBuf::from(answer.trim());
        if folder.is_absolute() {
            // The path may contain links of the user's own.
            let folder = folder.canonicalize().unwrap_or(folder);
            return Ok(Self { name, folder });
        }
        let said = format!("the engine reports the mount point `{}`", answer.trim());
        Err(engine.failed(&format!("volume inspect {name}"), &said).into())
    }

    /// The path of a socket in a new folder, which belongs to the server's account.
    pub fn socket(&self, folder: &str, file: &Path, account: Option<(u32, u32)>) -> Result<PathBuf, String> {
        let path = short(self.folder.join(folder).join(file))?;
        let make = || {
            // Containers of earlier rounds may write to the volume as root.
            let made = Folder::open(&self.folder)?.make(Path::new(folder), 0o700)?;
            account.map_or(Ok(()), |(user, group)| made.give(Some(user), Some(group)))
        };
        make().map_err(|cause| self.closed(&cause))?;
        Ok(path)
    }

    /// A second path of that socket, outside the part of the volume that containers see. The engine removes it with the
    /// volume.
    pub fn outside(&self, folder: &str, file: &Path) -> Result<PathBuf, String> {
        let beside = self.folder.parent().unwrap_or(&self.folder);
        let made = Folder::open(beside).and_then(|beside| beside.make(Path::new(folder), 0o700));
        made.map_err(|cause| self.closed(&cause))?;
        short(beside.join(folder).join(file))
    }

    fn closed(&self, cause: &io::Error) -> String {
        format!(
            "the volume {} is at {}, where this user cannot create a folder: {cause}; use rootless podman, or run lasthop \
             as root",
            self.name,
            self.folder.display()
        )
    }
}

fn short(path: PathBuf) -> Result<PathBuf, String> {
    let length = path.as_os_str().len();
    if length <= UNIX_NAME_MAX {
        return Ok(path);
    }
    Err(format!(
        "the socket {} on a volume has {length} bytes, but the kernel allows {UNIX_NAME_MAX}: let the engine keep its \
         volumes in a shorter folder",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_has_a_folder_of_its_own_on_the_volume() {
        let place = tempfile::tempdir().unwrap();
        let volume = Volume {
            name: "run-app".into(),
            folder: place.path().to_owned(),
        };
        let path = volume.socket("0.1.app", Path::new("socket"), None).unwrap();
        assert_eq!(path, place.path().join("0.1.app/socket"));
        std::os::unix::net::UnixListener::bind(&path).unwrap();
        let long = volume
            .socket(&"long".repeat(30), Path::new("socket"), None)
            .unwrap_err()
            .to_string();
        assert!(long.contains("the kernel allows 107"), "{long}");
        let nowhere = Volume {
            folder: place.path().join("nowhere"),
            ..volume
        };
        let closed = nowhere
            .socket("0.1.app", Path::new("socket"), None)
            .unwrap_err()
            .to_string();
        assert!(
            closed.contains("the volume run-app is at") && closed.contains("rootless podman"),
            "{closed}"
        );
    }
}
