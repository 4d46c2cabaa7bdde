//! Containers, with the same command line for podman and Docker.
//!
//! A service in a container is a child of the guard like any other. The guard starts `podman run` or `docker run` in
//! the foreground; its output is the service's log, and it ends when the container ends. Rendered files and run-time
//! folders are mounted at their own paths, and the image has the programs at theirs, so a recipe need not know about
//! containers.
//!
//! Everything that lasthop creates has three labels: the run's sandbox by name (`lasthop.run`) and by path
//! (`lasthop.sandbox`), and its owner (`lasthop.owner`). Removal goes by these labels and by nothing else.
//!
//! | module | holds |
//! |---|---|
//! | [`dialect`] | what differs between engines: a table of them |
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
/// Label with the path of the sandbox, which tells whether the run still lives.
pub const SANDBOX_LABEL: &str = "lasthop.sandbox";
/// Label of the owner, for whom the path of the sandbox is valid.
pub const OWNER_LABEL: &str = "lasthop.owner";
/// Label of images: the digest of their content.
pub const IMAGE_LABEL: &str = "lasthop.image";

/// The options that label what a run creates.
fn labels(run: &str, sandbox: impl Display) -> [String; 3] {
    [
        (RUN_LABEL, run),
        (SANDBOX_LABEL, &sandbox.to_string()),
        (OWNER_LABEL, &owner()),
    ]
    .map(|(label, value)| format!("--label={label}={value}"))
}

/// This user, as a label has it.
fn owner() -> String {
    owner_seeing(Path::new("/proc/self/ns/mnt"))
}

/// The user on this machine with a view of its files, which is a mount namespace: several users, machines and
/// containers may share an engine, and whether a sandbox is gone can be told only where it would be visible.
pub fn owner_seeing(files: &Path) -> String {
    let user = rustix::process::geteuid().as_raw();
    let facts = Facts::here();
    let id = facts.text("/etc/machine-id").filter(|id| !id.is_empty());
    let machine = id.or_else(|| facts.sysctl("kernel.hostname"));
    let files = files::facts_linked(files).map_or(0, |namespace| namespace.ino());
    format!("{user}@{}.{files}", machine.unwrap_or_default())
}
