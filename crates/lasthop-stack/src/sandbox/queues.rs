//! Takes away the name of a message queue whose server was killed in the moment between making it and doing that
//! itself. A queue outlives processes and files; its name follows from the path of the server's socket.

use std::{fs, os::unix::fs::FileTypeExt as _, path::Path};

use lasthop_load::transport;

/// Folders between a sandbox and the sockets in it: `ROUND.STACK/SERVICE`.
const DEPTH: usize = 2;

/// Forgets the queues of all servers of a sandbox.
pub(super) fn release(sandbox: &Path) {
    release_below(sandbox, DEPTH);
}

fn release_below(folder: &Path, depth: usize) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => release_below(&entry.path(), depth - 1),
            Ok(kind) if kind.is_socket() => transport::forget_queue(&entry.path()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::CString, os::unix::net::UnixListener};

    use super::*;

    #[test]
    fn a_queue_that_was_left_loses_its_name() {
        let sandbox = tempfile::tempdir().unwrap();
        let folder = sandbox.path().join("0.0/server");
        fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let name = CString::new(format!("/{}", socket.display().to_string().replace('/', "."))).unwrap();
        let open = |flags: libc::c_int| {
            let nothing = std::ptr::null_mut::<libc::mq_attr>();
            // SAFETY: `name` ends with a NUL, and no attributes are given.
            unsafe { libc::mq_open(name.as_ptr(), flags, 0o600 as libc::mode_t, nothing) }
        };
        let left = open(libc::O_RDWR | libc::O_CREAT | libc::O_EXCL);
        assert!(left >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: opened just now.
        unsafe { libc::close(left) };
        release(sandbox.path());
        assert_eq!(open(libc::O_RDWR), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOENT));
    }
}
