//! Two rings in shared memory, one for each direction, with one writer and one reader each. A side that has to wait
//! sleeps on a futex, after spinning for a while if asked to; a side that changes something wakes the other only if
//! that side sleeps.

use std::{
    cell::UnsafeCell,
    fmt, hint, io,
    ops::Deref,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    ptr::{self, NonNull},
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

use lasthop_system::clock;
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create},
    mm::{MapFlags, ProtFlags, mmap, munmap},
    thread::futex,
};

use crate::transport::socket::{Ready, Wait};

/// Bytes of a ring: as many as in a pipe. Divides 2³², where the counters of a ring wrap, so no position jumps.
const CAPACITY: u32 = 64 * 1024;
/// How long a side of `shm-spin` spins before it sleeps: longer than a reply takes on another CPU, and short enough
/// that a server without clients takes no CPU from others.
const SPIN_NS: u64 = 100_000;
/// Checks of the ring between two readings of the clock.
const LOOKS: u32 = 64;

/// What a sleeping side waits for.
const DATA: u32 = 1;
const ROOM: u32 = 2;

/// A word in a cache line of its own.
#[repr(C, align(64))]
struct CachePadded(AtomicU32);

impl Deref for CachePadded {
    type Target = AtomicU32;

    #[inline]
    fn deref(&self) -> &AtomicU32 {
        &self.0
    }
}

#[repr(C)]
struct Ring {
    /// Total bytes written and read, modulo 2³².
    written: CachePadded,
    read: CachePadded,
    /// Not 0 once the writer or the reader has ended.
    ended: CachePadded,
    bytes: UnsafeCell<[u8; CAPACITY as usize]>,
}

/// Where one side sleeps.
#[repr(C)]
struct Bed {
    /// Changes at each wake-up.
    bell: CachePadded,
    /// What the side waits for; 0 while awake.
    wants: CachePadded,
}

/// Initially all zero. The server is side 0: it writes the first ring and sleeps in the first bed.
#[repr(C)]
struct SharedRings {
    rings: [Ring; 2],
    beds: [Bed; 2],
}

pub struct Memory {
    file: OwnedFd,
    shared: NonNull<SharedRings>,
    side: usize,
    spins: bool,
    /// Whether this side's watch has given up. Not shared.
    is_over: AtomicBool,
    /// System calls not yet reported.
    calls: AtomicU64,
}

// SAFETY: the mapping lives as long as this value. Words are atomic; bytes are written only by the one writer of their
// ring before it publishes them, and read only afterwards.
unsafe impl Send for Memory {}
// SAFETY: as above; only one thread sends or receives, others only set flags and wake.
unsafe impl Sync for Memory {}

impl Memory {
    /// The server's side, and the file for the client.
    pub fn create(spins: bool) -> io::Result<(Self, OwnedFd)> {
        let file = memfd_create("lasthop", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, size_of::<SharedRings>() as u64)?;
        fcntl_add_seals(&file, sealed())?;
        let theirs = file.try_clone()?;
        Ok((Self::map(file, 0, spins)?, theirs))
    }

    /// The client's side.
    ///
    /// # Errors
    ///
    /// `InvalidData` if the file is no such memory, or could still shrink below the mapping.
    pub fn open(file: OwnedFd, spins: bool) -> io::Result<Self> {
        let is_right =
            fcntl_get_seals(&file)?.contains(sealed()) && fstat(&file)?.st_size == size_of::<SharedRings>() as i64;
        if is_right {
            Self::map(file, 1, spins)
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    fn map(file: OwnedFd, side: usize, spins: bool) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice, of a file that is large enough and stays so.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                size_of::<SharedRings>(),
                protection,
                MapFlags::SHARED,
                &file,
                0,
            )
        }?;
        let shared = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self {
            file,
            shared,
            side,
            spins,
            is_over: AtomicBool::new(false),
            calls: AtomicU64::new(0),
        })
    }

    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// System calls since the last call of this method.
    pub fn take_calls(&self) -> u64 {
        match self.calls.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.calls.swap(0, Ordering::Relaxed),
        }
    }

    fn shared(&self) -> &SharedRings {
        // SAFETY: mapped for as long as `self` lives; only atomic words and an `UnsafeCell` are in it.
        unsafe { self.shared.as_ref() }
    }

    fn inbound(&self) -> &Ring {
        &self.shared().rings[1 - self.side]
    }

    fn outbound(&self) -> &Ring {
        &self.shared().rings[self.side]
    }

    /// Writes as many bytes as there is room for, possibly none.
    ///
    /// # Errors
    ///
    /// `BrokenPipe` if the peer has ended, `InvalidData` if it has broken the ring.
    #[inline]
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        let ring = self.outbound();
        if self.is_over.load(Ordering::Acquire) || ring.ended.load(Ordering::Acquire) != 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = CAPACITY - ring.filled()?;
        let count = bytes.len().min(room as usize);
        if count > 0 {
            ring.write(&bytes[..count]);
            self.wake_peer(DATA);
        }
        Ok(count)
    }

    /// Waits for bytes; 0 is the end of the stream.
    ///
    /// # Errors
    ///
    /// `InvalidData` if the peer has broken the ring.
    #[inline]
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // Checked before the ring: this finds all bytes written before the end.
            let is_last = self.has_ended();
            let filled = self.inbound().filled()?;
            if filled > 0 {
                let count = buffer.len().min(filled as usize);
                self.inbound().read(&mut buffer[..count]);
                self.wake_peer(ROOM);
                return Ok(count);
            }
            if is_last {
                return Ok(0);
            }
            self.sleep(DATA);
        }
    }

    /// # Errors
    ///
    /// `InvalidData` if the peer has broken the ring.
    pub fn wait(&self, what: Wait) -> io::Result<Ready> {
        let wants = if what == Wait::Write { ROOM } else { DATA | ROOM };
        while !self.is_ready(wants) {
            self.sleep(wants);
        }
        let writable = self.has_ended() || self.outbound().filled()? < CAPACITY;
        Ok(Ready {
            readable: self.is_readable(),
            writable,
        })
    }

    pub fn is_readable(&self) -> bool {
        self.is_ready(DATA)
    }

    /// Tells the peer that no more bytes follow.
    pub fn end(&self) {
        self.outbound().ended.store(1, Ordering::SeqCst);
        self.wake_peer(DATA);
    }

    /// Ends every wait of this side.
    pub fn hang_up(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.shared().beds[self.side].wake();
    }

    fn has_ended(&self) -> bool {
        self.is_over.load(Ordering::Acquire) || self.inbound().ended.load(Ordering::Acquire) != 0
    }

    /// Whether a wait for `wants` would end. A broken ring is ready, so that its error is found.
    #[inline]
    fn is_ready(&self, wants: u32) -> bool {
        let is_empty = || self.inbound().filled().is_ok_and(|filled| filled == 0);
        let is_full = || self.outbound().filled().is_ok_and(|filled| filled == CAPACITY);
        (wants & DATA != 0 && !is_empty()) || (wants & ROOM != 0 && !is_full()) || self.has_ended()
    }

    fn sleep(&self, wants: u32) {
        if self.spins && self.spin(wants) {
            return;
        }
        let bed = &self.shared().beds[self.side];
        // The order closes every gap: a peer that writes from now on sees `wants`; `is_ready` finds bytes written
        // before; and if the peer rings in between, the bell differs from `rung` and the futex does not sleep.
        let rung = bed.bell.load(Ordering::SeqCst);
        bed.wants.store(wants, Ordering::SeqCst);
        if !self.is_ready(wants) {
            self.calls.fetch_add(1, Ordering::Relaxed);
            // Woken, interrupted or too late: the caller checks again in any case.
            let _ = futex::wait(&bed.bell, futex::Flags::empty(), rung, None);
        }
        bed.wants.store(0, Ordering::SeqCst);
    }

    /// Whether the wait ended while spinning.
    fn spin(&self, wants: u32) -> bool {
        let until = clock::now() + SPIN_NS;
        while clock::now() < until {
            for _ in 0..LOOKS {
                if self.is_ready(wants) {
                    return true;
                }
                hint::spin_loop();
            }
        }
        false
    }

    #[inline]
    fn wake_peer(&self, has: u32) {
        let bed = &self.shared().beds[1 - self.side];
        if bed.wants.load(Ordering::SeqCst) & has != 0 {
            self.calls.fetch_add(1, Ordering::Relaxed);
            bed.wake();
        }
    }
}

impl Bed {
    fn wake(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        // Not a private futex: the sleeper may be in another process.
        let _ = futex::wake(&self.bell, futex::Flags::empty(), 1);
    }
}

impl Ring {
    #[inline]
    fn filled(&self) -> io::Result<u32> {
        let filled = self
            .written
            .load(Ordering::SeqCst)
            .wrapping_sub(self.read.load(Ordering::SeqCst));
        if filled <= CAPACITY {
            Ok(filled)
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    /// Writes `bytes`, for which there must be room.
    fn write(&self, bytes: &[u8]) {
        let written = self.written.load(Ordering::Relaxed);
        let (first, second) = bytes.split_at(bytes.len().min(left(written)));
        // SAFETY: both parts end within the ring, and the reader does not look at them before they are published.
        unsafe {
            ptr::copy_nonoverlapping(first.as_ptr(), self.at(written), first.len());
            ptr::copy_nonoverlapping(second.as_ptr(), self.at(0), second.len());
        }
        self.written
            .store(written.wrapping_add(bytes.len() as u32), Ordering::SeqCst);
    }

    /// Fills `buffer`; the ring must hold as many bytes.
    fn read(&self, buffer: &mut [u8]) {
        let read = self.read.load(Ordering::Relaxed);
        let (first, second) = buffer.split_at_mut(buffer.len().min(left(read)));
        // SAFETY: both parts end within the ring, and the writer does not touch them before they are given back.
        unsafe {
            ptr::copy_nonoverlapping(self.at(read), first.as_mut_ptr(), first.len());
            ptr::copy_nonoverlapping(self.at(0), second.as_mut_ptr(), second.len());
        }
        self.read
            .store(read.wrapping_add(buffer.len() as u32), Ordering::SeqCst);
    }

    fn at(&self, position: u32) -> *mut u8 {
        // SAFETY: the remainder is within the ring.
        unsafe { self.bytes.get().cast::<u8>().add((position % CAPACITY) as usize) }
    }
}

/// Bytes from a position to the end of the ring.
fn left(position: u32) -> usize {
    (CAPACITY - position % CAPACITY) as usize
}

fn sealed() -> SealFlags {
    // A file that shrinks below a mapping turns the next access into a SIGBUS; the last seal makes the others
    // permanent.
    SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("side", &self.side)
            .finish_non_exhaustive()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this size, and nothing refers to it any more.
        let _ = unsafe { munmap(self.shared.as_ptr().cast(), size_of::<SharedRings>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Memory, Memory) {
        let (server, file) = Memory::create(false).unwrap();
        (server, Memory::open(file, false).unwrap())
    }

    #[test]
    fn bytes_come_in_their_order_around_the_end_of_the_ring() {
        let (server, client) = pair();
        let bytes: Vec<u8> = (0..50_000_u32).map(|at| (at % 251) as u8).collect();
        let mut received = vec![0; bytes.len()];
        for _ in 0..5 {
            assert_eq!(server.send(&bytes).unwrap(), bytes.len());
            assert_eq!(
                server.send(&bytes).unwrap(),
                CAPACITY as usize - bytes.len(),
                "no more than there is room for"
            );
            assert_eq!(client.receive(&mut received).unwrap(), bytes.len());
            assert_eq!(received, bytes);
            let rest = client.receive(&mut received).unwrap();
            assert_eq!(
                (rest, &received[..rest]),
                (CAPACITY as usize - bytes.len(), &bytes[..rest])
            );
        }
        server.end();
        assert_eq!(client.receive(&mut received).unwrap(), 0);
    }

    #[test]
    fn a_peer_that_breaks_the_ring_is_found() {
        let (server, client) = pair();
        server.outbound().written.store(CAPACITY + 1, Ordering::SeqCst);
        assert_eq!(
            client.receive(&mut [0; 8]).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        assert!(
            client.wait(Wait::ReadOrWrite).unwrap().readable,
            "so that the error is found"
        );
        server.inbound().read.store(1, Ordering::SeqCst);
        assert_eq!(client.send(b"x").unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn only_memory_that_cannot_shrink_is_taken() {
        let open = memfd_create("lasthop", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&open, size_of::<SharedRings>() as u64).unwrap();
        assert_eq!(
            Memory::open(open, false).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        let small = memfd_create("lasthop", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        fcntl_add_seals(&small, sealed()).unwrap();
        assert_eq!(
            Memory::open(small, false).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(Memory::open(file.into(), false).is_err(), "no memory at all");
    }
}
