//! Containers: one dialect of the command line for podman and Docker.
//!
//! A service in a container is a child of the guard like any other: what the guard starts is `podman run` or `docker run` in
//! the foreground, whose output is the service's log and whose end is the container's. The rendered files and the run-time
//! folder are mounted at their own paths, and the image has the programs at theirs, so that a recipe need not know.
//!
//! Everything that is made carries two labels: the run's sandbox by name (`lasthop.run`) and by path (`lasthop.sandbox`).
//! What is to be removed is found by them and by nothing else.
//!
//! | module | holds |
//! |---|---|
//! | [`engine`] | podman or Docker: found, asked, usable |
//! | [`network`] | the bridge network of a run and its addresses |
//! | [`volume`] | a volume of a run, and sockets on it |
//! | [`packages`], [`image`] | an image made of the host's own packages, without any registry |
//! | [`containerfile`] | an image by an experiment's own Containerfile |
//! | [`launch`] | the command lines of one container |
//! | [`site`] | what a run needs for all of its containers |
//! | [`supervisor`] | several services in one container |
//! | [`leftovers`] | what is removed when a run ends, however it ends |

pub mod containerfile;
pub mod engine;
pub mod image;
pub mod launch;
pub mod leftovers;
pub mod network;
pub mod packages;
pub mod site;
pub mod supervisor;
pub mod volume;

/// Label of everything that a run makes: name of its sandbox.
pub const RUN_LABEL: &str = "lasthop.run";
/// Label of the same things: path of the sandbox, by which one knows whether the run still lives.
pub const SANDBOX_LABEL: &str = "lasthop.sandbox";
/// Label of images: the digest of what they are made of.
pub const IMAGE_LABEL: &str = "lasthop.image";
