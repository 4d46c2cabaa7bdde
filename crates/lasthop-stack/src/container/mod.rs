//! Containers, with the same command line for podman and Docker.
//!
//! A service in a container is a child of the guard like any other. The guard starts `podman run` or `docker run` in
//! the foreground, whose output is the service's log, and which ends with the container. Rendered files and run-time
//! folders are mounted at their own paths, and programs in the image have their own paths, so recipes need not know
//! about containers.
//!
//! Everything that lasthop creates has three labels: the name of the run's sandbox (`lasthop.run`), its path
//! (`lasthop.sandbox`), and its owner (`lasthop.owner`). Only these labels decide about removal.
//!
//! | module | holds |
//! |---|---|
//! | [`dialect`] | differences between engines, as a table |
//! | [`engine`] | finds podman or Docker, and checks that it works |
//! | [`network`] | the bridge network of a run and its addresses |
//! | [`volume`] | a volume of a run, and sockets on it |
//! | [`containerfile`] | an image built from an experiment's Containerfile |
//! | [`launch`] | command lines for one container |
//! | [`site`] | what a run needs for all its containers |
//! | [`supervisor`] | several services in one container |
//! | [`leftovers`] | removes everything when a run ends, however it ends |

pub mod containerfile;
pub mod dialect;
pub mod engine;
pub mod launch;
pub mod leftovers;
pub mod network;
pub mod site;
pub mod supervisor;
pub mod volume;

use std::{fmt::Display, os::unix::fs::MetadataExt, path::Path};

use lasthop_system::{facts::Facts, files};

/// Label of everything that a run creates: the name of its sandbox.
pub const RUN_LABEL: &str = "lasthop.run";
/// Label with the path of the sandbox, which shows whether the run still lives.
pub const SANDBOX_LABEL: &str = "lasthop.sandbox";
/// Label of the owner, who alone can see whether the sandbox exists.
pub const OWNER_LABEL: &str = "lasthop.owner";
/// Label of images: the digest of their content.
pub const IMAGE_LABEL: &str = "lasthop.image";

/// The options that label an object of a run.
fn labels(run: &str, sandbox: impl Display) -> [String; 3] {
    [
        (RUN_LABEL, run),
        (SANDBOX_LABEL, &sandbox.to_string()),
        (OWNER_LABEL, &owner()),
    ]
    .map(|(label, value)| format!("--label={label}={value}"))
}

/// This user, as in a label.
fn owner() -> String {
    owner_seeing(Path::new("/proc/self/ns/mnt"))
}

/// The user of this machine and the mount namespace with its files. Several users, machines and containers may share an
/// engine, and only a process that would see a sandbox can tell whether it is gone.
pub fn owner_seeing(files: &Path) -> String {
    let user = rustix::process::geteuid().as_raw();
    let facts = Facts::here();
    let id = facts.text("/etc/machine-id").filter(|id| !id.is_empty());
    let machine = id.or_else(|| facts.sysctl("kernel.hostname"));
    let files = files::facts_linked(files).map_or(0, |namespace| namespace.ino());
    format!("{user}@{}.{files}", machine.unwrap_or_default())
}
