//! Creates a service's files, supervisor program and log before any service of the stack runs. Then the folder is
//! handed over, and lasthop makes nothing there any more: a process of the new owner, or root in a container, could
//! redirect it.

use std::{
    fs::File,
    io::{self, Write as _},
    os::unix::net::UnixListener,
    path::{Component, Path, PathBuf},
};

use lasthop_model::{
    binding::{APP, LOG, ServiceBinding},
    service::RenderedService,
    started::{PLACE, StartedService},
};
use lasthop_system::{
    files::{self, Folder},
    names::Names,
};

use crate::{container::site::Housing, guard::Guard, sandbox};

/// A service whose folders are ready.
pub(super) struct Ground<'a> {
    pub guard: &'a Guard,
    /// CPUs that the service may run on; empty means all.
    pub cpus: &'a [u32],
    pub binding: &'a ServiceBinding,
    pub service: &'a RenderedService,
    pub housing: Option<&'a Housing>,
    /// The log for the output of the service and its preparation.
    pub log: File,
}

impl<'a> Ground<'a> {
    /// Writes the service's files, and hands its folder over.
    pub fn lay(
        guard: &'a Guard,
        cpus: &'a [u32],
        binding: &'a ServiceBinding,
        service: &'a RenderedService,
        housing: Option<&'a Housing>,
    ) -> Result<Self, String> {
        let log = create(&binding.record, Path::new(LOG), 0o644)?;
        let ground = Self {
            guard,
            cpus,
            binding,
            service,
            housing,
            log,
        };
        ground.write_files()?;
        if let Some(Housing::Inside(supervisor)) = housing {
            supervisor.write(service, &binding.directory, &binding.record.join(LOG))?;
        }
        ground.holds_sockets()?;
        sandbox::hand_over(binding)?;
        Ok(ground)
    }

    fn write_files(&self) -> Result<(), String> {
        let Self { binding, service, .. } = self;
        let mut folders = vec![&binding.directory, &binding.record];
        folders.dedup();
        for (name, content) in &service.files {
            if !name.components().all(|part| matches!(part, Component::Normal(_))) {
                let name = name.display();
                return Err(format!("the file name {name} is outside the service's directory"));
            }
            for folder in &folders {
                write(folder, name, content, self.others_read(folder))?;
            }
            // The driver runs from this folder.
            if let (Some(outside), true) = (&binding.outside, name.starts_with(APP)) {
                write(outside, name, content, true)?;
            }
        }
        let container = self.housing.map(|housing| housing.container().as_recorded());
        let started = serde_json::to_vec_pretty(&StartedService::of(service, container));
        let started = started.expect("plain data with text keys");
        write(
            &binding.record,
            Path::new(PLACE),
            &Names::here().json_without_home(&started),
            false,
        )
    }

    /// Whether another account may have to read a folder: in a container, or by a server that drops root's rights.
    /// Otherwise it stays private, because rendered files may hold passwords.
    fn others_read(&self, folder: &Path) -> bool {
        let by_another = self.housing.is_some() || rustix::process::geteuid().is_root();
        by_another && folder == self.binding.directory
    }

    /// Checks that the folder can hold the socket. Some file systems cannot, and some engines show the host's folder
    /// changed.
    fn holds_sockets(&self) -> Result<(), String> {
        let Some(path) = self.binding.listen.path() else {
            return Ok(());
        };
        let folder = path.parent().unwrap_or(path);
        let volume = self.housing.and_then(|housing| housing.container().volume.as_ref());
        try_socket(folder).map_err(|cause| {
            let remedy = if volume.is_some_and(|volume| path.starts_with(&volume.folder)) {
                "let the engine keep its volumes on a local file system"
            } else {
                "set LASTHOP_SANDBOX to a directory on a local file system such as /tmp"
            };
            format!(
                "the folder {} cannot hold a Unix socket: {cause} (file system: {}); {remedy}",
                folder.display(),
                kind_of_file_system(folder)
            )
        })
    }
}

/// Writes a file. Scripts and programs become executable.
fn write(folder: &Path, name: &Path, content: &[u8], others_read: bool) -> Result<(), String> {
    let runs = content.starts_with(b"#!") || content.starts_with(b"\x7fELF");
    let mode = if runs { 0o755 } else { 0o644 };
    let mut file = create(folder, name, if others_read { mode } else { mode & 0o700 })?;
    file.write_all(content)
        .map_err(|cause| cannot_write(&folder.join(name), &cause))
}

/// Creates a file below a folder that only lasthop has written in so far.
fn create(folder: &Path, name: &Path, mode: u32) -> Result<File, String> {
    let create = || {
        let folder = Folder::open(folder)?;
        folder.make(name.parent().unwrap_or(Path::new("")), 0o755)?;
        folder.create(name, mode)
    };
    create().map_err(|cause| cannot_write(&folder.join(name), &cause))
}

pub(super) fn cannot_write(path: &Path, cause: &io::Error) -> String {
    format!("cannot write {}: {cause}", path.display())
}

/// Creates and removes a socket without following links: containers of earlier rounds can reach a folder on a volume.
fn try_socket(folder: &Path) -> io::Result<()> {
    let above = Folder::open(folder.parent().unwrap_or(folder))?;
    let folder = above.at(Path::new(folder.file_name().unwrap_or_default()))?;
    // One letter, because the service's own socket may already use every byte of the longest path.
    let probe = Path::new("p");
    UnixListener::bind(folder.path().join(probe))?;
    folder.remove(probe)
}

/// File system of a folder's mount, by the kernel's name.
fn kind_of_file_system(folder: &Path) -> String {
    let mounts = files::text("/proc/self/mounts").unwrap_or_default();
    let around = mounts
        .lines()
        .filter_map(|line| -> Option<(PathBuf, String)> {
            let mut columns = line.split(' ').skip(1);
            Some((PathBuf::from(columns.next()?), columns.next()?.to_owned()))
        })
        .filter(|(at, _)| folder.starts_with(at));
    // Of two mounts at the same place, the later one is on top.
    around
        .max_by_key(|(at, _)| at.components().count())
        .map_or_else(|| "unknown".to_owned(), |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    #[test]
    fn only_who_must_can_read_a_file_and_programs_stay_programs() {
        let folder = tempfile::TempDir::new().unwrap();
        let mode = |content: &[u8], others_read| {
            let path = folder.path().join("file");
            write(folder.path(), Path::new("file"), content, others_read).unwrap();
            assert_eq!(fs::read(&path).unwrap(), content);
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            fs::remove_file(path).unwrap();
            mode
        };
        assert_eq!((mode(b"password", false), mode(b"password", true)), (0o600, 0o644));
        assert_eq!(
            (mode(b"#!/bin/sh\n", false), mode(b"#!/bin/sh\n", true)),
            (0o700, 0o755)
        );
        assert_eq!(
            (mode(b"\x7fELF\x02", false), mode(b"\x7fELF\x02", true)),
            (0o700, 0o755)
        );
    }
}
