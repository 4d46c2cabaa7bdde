//! Removes shared memory that a killed PostgreSQL left behind. It outlives processes and files, so it must be removed
//! before the files that tell whose it is.
//!
//! Each cluster has one small System V segment, which prevents two servers from using the same directory.
//! `postmaster.pid` holds its number. Its header holds the device and the inode of the directory, so that it cannot be
//! confused with another cluster's. It also holds the name of the first POSIX segment, if there is one, which lists the
//! others.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// File in the directory of a cluster whose server runs, or was killed.
const PID_FILE: &str = "postmaster.pid";
/// What every directory of a cluster has.
const VERSION_FILE: &str = "PG_VERSION";
/// Where POSIX segments are files.
const POSIX: &str = "/dev/shm";
/// `PGShmemMagic`.
const MAGIC: i32 = 679_834_894;
/// `PG_DYNSHMEM_CONTROL_MAGIC`.
const CONTROL_MAGIC: u32 = 0x9a50_3d32;

/// What `postmaster.pid` says.
#[derive(Debug, PartialEq, Eq)]
struct PidFile {
    /// Negative for a server of one session.
    pid: i32,
    key: i32,
    segment: i32,
}

/// The beginning of the System V segment, `PGShmemHeader`: the same from PostgreSQL 9.4 on.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    magic: i32,
    creator: i32,
    total_size: usize,
    free_offset: usize,
    /// Number of the POSIX segment that lists the others; 0 for none.
    control: u32,
    index: usize,
    device: u64,
    inode: u64,
}

/// Removes what servers of the clusters in a sandbox left behind.
pub(super) fn release(sandbox: &Path) {
    for cluster in clusters(sandbox) {
        release_one(&cluster);
    }
}

/// Directories of clusters with a server that has not ended in order.
fn clusters(folder: &Path) -> Vec<PathBuf> {
    if folder.join(VERSION_FILE).exists() {
        return if folder.join(PID_FILE).exists() { vec![folder.to_owned()] } else { Vec::new() };
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter(is_folder).flat_map(|entry| clusters(&entry.path())).collect()
}

/// `None` if there is no segment that certainly belongs to this cluster and is not in use.
fn release_one(cluster: &Path) -> Option<()> {
    let directory = cluster.metadata().ok()?;
    let text = fs::read_to_string(cluster.join(PID_FILE)).ok()?;
    let noted = PidFile::parse(&text).or_else(|| PidFile::unfinished(&text))?;
    let state = state(noted.segment)?;
    let is_noted = state.shm_perm.__key == noted.key && state.shm_cpid == noted.pid.abs();
    let is_dead = state.shm_nattch == 0;
    if !is_noted || !is_dead || state.shm_perm.cuid != directory.uid() || state.shm_segsz < size_of::<Header>() {
        return None;
    }
    let header = header(noted.segment)?;
    // A server that was killed before it wrote the header chose the inode as the segment's key.
    let is_empty = header.magic == 0 && noted.key == directory.ino() as i32;
    let is_its = header.magic == MAGIC && (header.device, header.inode) == (directory.dev(), directory.ino());
    if !is_its && !is_empty {
        return None;
    }
    if header.control != 0 {
        let control = posix_segment(header.control);
        let listed = fs::read(&control).map(|bytes| listed(&bytes, version(cluster))).unwrap_or_default();
        for path in listed.into_iter().map(posix_segment).chain([control]) {
            if path.symlink_metadata().is_ok_and(|found| found.is_file() && found.uid() == directory.uid()) {
                let _ = fs::remove_file(path);
            }
        }
    }
    // SAFETY: IPC_RMID takes no buffer; the segment was shown to be this cluster's.
    unsafe { libc::shmctl(noted.segment, libc::IPC_RMID, std::ptr::null_mut()) };
    Some(())
}

impl PidFile {
    /// The number of the process is in line 1, key and number of the segment in line 7.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let pid = lines.next()?.trim().parse().ok()?;
        let mut words = lines.nth(5)?.split_ascii_whitespace();
        // PostgreSQL writes the key without its sign.
        let key = words.next()?.parse::<u32>().ok()?.cast_signed();
        Some(Self { pid, key, segment: words.next()?.parse().ok()? })
    }

    /// Of a server that was killed after it made its segment and before it noted it: the kernel knows who made which.
    fn unfinished(text: &str) -> Option<Self> {
        let pid: i32 = text.lines().next()?.trim().parse().ok()?;
        let segments = fs::read_to_string("/proc/sysvipc/shm").ok()?;
        // The columns are key, shmid, perms, size, cpid, and others.
        segments.lines().skip(1).find_map(|line| {
            let columns: Vec<i32> = line.split_ascii_whitespace().take(5).map_while(|word| word.parse().ok()).collect();
            let [key, segment, _, _, creator] = columns[..] else { return None };
            (creator == pid.abs()).then_some(Self { pid, key, segment })
        })
    }
}

fn state(segment: i32) -> Option<libc::shmid_ds> {
    // SAFETY: shmid_ds is plain data, which IPC_STAT fills; it is read only when the call has succeeded.
    unsafe {
        let mut state = std::mem::zeroed();
        (libc::shmctl(segment, libc::IPC_STAT, &mut state) == 0).then_some(state)
    }
}

/// Reads the header of a segment that is at least as long.
fn header(segment: i32) -> Option<Header> {
    // SAFETY: shmat yields the address of the whole segment or -1; the header is plain data, and copied before it is detached.
    unsafe {
        let address = libc::shmat(segment, std::ptr::null(), libc::SHM_RDONLY);
        if address as isize == -1 {
            return None;
        }
        let header = address.cast::<Header>().read();
        libc::shmdt(address);
        Some(header)
    }
}

fn posix_segment(handle: u32) -> PathBuf {
    Path::new(POSIX).join(format!("PostgreSQL.{handle}"))
}

/// Major version of a cluster.
fn version(cluster: &Path) -> u32 {
    let text = fs::read_to_string(cluster.join(VERSION_FILE)).unwrap_or_default();
    text.trim().parse().unwrap_or_default()
}

/// Numbers of the segments that a control segment lists: magic, number of items, room, and the items, each of which begins with
/// the segment's number and how many use it. Odd numbers are in the main memory and have no segment of their own.
fn listed(control: &[u8], version: u32) -> Vec<u32> {
    let number = |at: usize| control.get(at..at + 4).map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("four")));
    if number(0) != Some(CONTROL_MAGIC) {
        return Vec::new();
    }
    let (begin, size) = if version < 14 { (16, 24) } else { (16, 40) };
    let items = (0..number(4).unwrap_or(0) as usize).map_while(|item| {
        let at = begin + item * size;
        Some((number(at)?, number(at + 4)?))
    });
    items.filter(|(handle, users)| handle % 2 == 0 && *users > 0).map(|(handle, _)| handle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_server_is_read() {
        let text = "-28645\n/tmp/x/data\n1795300428\n5432\n/tmp/x\n\n4294967295        14\nready   \n";
        assert_eq!(PidFile::parse(text), Some(PidFile { pid: -28645, key: -1, segment: 14 }));
        assert_eq!(PidFile::parse("28645\n/tmp/x/data\n1795300428\n5432\n"), None, "the server had no segment yet");
    }

    /// A segment as a server would have made it, until the test ends.
    struct Segment(i32);

    impl Segment {
        fn new(header: Header) -> Self {
            // SAFETY: the segment is new, as long as a header, and detached after it is written.
            unsafe {
                let id = libc::shmget(libc::IPC_PRIVATE, size_of::<Header>(), 0o600);
                assert_ne!(id, -1);
                let address = libc::shmat(id, std::ptr::null(), 0);
                address.cast::<Header>().write(header);
                libc::shmdt(address);
                Self(id)
            }
        }

        fn is_there(&self) -> bool {
            state(self.0).is_some()
        }
    }

    impl Drop for Segment {
        fn drop(&mut self) {
            // SAFETY: IPC_RMID takes no buffer; the segment is this test's.
            unsafe { libc::shmctl(self.0, libc::IPC_RMID, std::ptr::null_mut()) };
        }
    }

    fn control(handles: &[(u32, u32)]) -> Vec<u8> {
        let mut bytes: Vec<u8> = [CONTROL_MAGIC, handles.len() as u32, 100, 0].map(u32::to_ne_bytes).concat();
        for (handle, users) in handles {
            bytes.extend([*handle, *users].map(u32::to_ne_bytes).concat());
            bytes.resize(bytes.len() + 32, 0xff);
        }
        bytes
    }

    #[test]
    fn only_segments_of_the_cluster_itself_are_removed() {
        let sandbox = tempfile::tempdir().unwrap();
        let cluster = sandbox.path().join("0.0/postgres/data");
        fs::create_dir_all(&cluster).unwrap();
        fs::write(cluster.join(VERSION_FILE), "15\n").unwrap();
        let directory = cluster.metadata().unwrap();
        let me = std::process::id().cast_signed();
        // Numbers that no server draws while this test runs, but by one chance in a billion.
        let [first, listed, unused] =
            [me.cast_unsigned() * 8 + 2, me.cast_unsigned() * 8 + 4, me.cast_unsigned() * 8 + 6];
        let own = Header {
            magic: MAGIC,
            creator: me,
            total_size: 0,
            free_offset: 0,
            control: first,
            index: 0,
            device: directory.dev(),
            inode: directory.ino(),
        };
        let note = |segment: &Segment, pid: i32| {
            fs::write(cluster.join(PID_FILE), format!("{pid}\n\n\n\n\n\n 0 {}\n", segment.0)).unwrap();
            release(sandbox.path());
            segment.is_there()
        };
        assert!(note(&Segment::new(Header { inode: own.inode + 1, ..own }), me), "another cluster's");
        assert!(note(&Segment::new(Header { magic: 1, ..own }), me), "another program's");
        let segment = Segment::new(own);
        assert!(note(&segment, me + 1), "another process made it");
        // SAFETY: the segment is attached for a moment, and nothing is read.
        let address = unsafe { libc::shmat(segment.0, std::ptr::null(), libc::SHM_RDONLY) };
        assert!(note(&segment, me), "it is in use");
        // SAFETY: the address is that of the segment.
        unsafe { libc::shmdt(address) };
        let files = [first, listed, unused].map(posix_segment);
        fs::write(&files[0], control(&[(listed, 2), (unused, 0), (listed + 1, 1)])).unwrap();
        files[1..].iter().for_each(|path| fs::write(path, "").unwrap());
        assert!(!note(&segment, -me));
        assert_eq!(files.each_ref().map(|path| path.exists()), [false, false, true]);
        fs::remove_file(&files[2]).unwrap();
        drop(segment);
        let unnoted = Segment::new(Header { control: 0, ..own });
        fs::write(cluster.join(PID_FILE), format!("{me}\n/x\n")).unwrap();
        release(sandbox.path());
        assert!(!unnoted.is_there(), "the server was killed before it noted it");
    }
}
