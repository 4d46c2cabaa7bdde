//! Perf events, and the rings through which the kernel hands over what they saw.

use std::{
    ffi::{CStr, c_void},
    io,
    mem::offset_of,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicU64, Ordering},
};

use perf_event_open_sys::{
    self as sys,
    bindings::{PERF_FLAG_FD_CLOEXEC, perf_event_attr, perf_event_mmap_page},
    ioctls,
};
use rustix::{
    mm::{MapFlags, ProtFlags, mmap, munmap},
    param::page_size,
};

/// An event on one CPU, for all processes. It is disabled at first.
#[derive(Debug)]
pub(crate) struct Event(OwnedFd);

impl Event {
    pub(crate) fn open(mut attr: perf_event_attr, cpu: u32) -> io::Result<Self> {
        attr.size = size_of::<perf_event_attr>() as u32;
        attr.set_disabled(1);
        // SAFETY: the attributes are whole and outlive the call; the kernel checks them.
        let fd = unsafe { sys::perf_event_open(&mut attr, -1, cpu as i32, -1, PERF_FLAG_FD_CLOEXEC.into()) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// The number by which its records name it.
    pub(crate) fn id(&self) -> io::Result<u64> {
        let mut id = 0;
        // SAFETY: the kernel writes one number.
        done(unsafe { ioctls::ID(self.0.as_raw_fd(), &mut id) })?;
        Ok(id)
    }

    /// Writes what it sees into the ring of another event of the same CPU.
    pub(crate) fn write_to(&self, other: &Self) -> io::Result<()> {
        // SAFETY: both descriptors are open, and no memory is involved.
        done(unsafe { ioctls::SET_OUTPUT(self.0.as_raw_fd(), other.0.as_raw_fd()) })
    }

    /// Lets it see only what this condition on the fields of its tracepoint holds for.
    pub(crate) fn only(&self, condition: &CStr) -> io::Result<()> {
        // SAFETY: the kernel reads the text and does not write to it.
        done(unsafe { ioctls::SET_FILTER(self.0.as_raw_fd(), condition.as_ptr().cast_mut()) })
    }

    pub(crate) fn enable(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open, and no memory is involved.
        done(unsafe { ioctls::ENABLE(self.0.as_raw_fd(), 0) })
    }

    pub(crate) fn disable(&self) -> io::Result<()> {
        // SAFETY: as above.
        done(unsafe { ioctls::DISABLE(self.0.as_raw_fd(), 0) })
    }
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The memory that an event shares with the kernel: a page of positions, then records one after the other, in a circle.
#[derive(Debug)]
pub(crate) struct Ring {
    base: *mut c_void,
    /// Bytes of the circle, a power of two.
    size: usize,
    tail: u64,
}

// SAFETY: whoever owns the ring is its only reader, whichever thread it is in; the kernel writes from any CPU.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring of at most so many bytes, a power of two: fewer where the kernel does not let this user lock as many.
    pub(crate) fn of(event: &Event, most: usize) -> io::Result<Self> {
        let mut size = most;
        loop {
            match Self::map(event, size) {
                Err(error) if error.raw_os_error() == Some(libc::EPERM) && size > page_size() => size /= 2,
                ring => return ring,
            }
        }
    }

    fn map(event: &Event, size: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses where, so that nothing else is there.
        let base = unsafe {
            mmap(
                ptr::null_mut(),
                page_size() + size,
                protection,
                MapFlags::SHARED,
                &event.0,
                0,
            )?
        };
        Ok(Self { base, size, tail: 0 })
    }

    /// Appends all whole records that are there, and gives their room back to the kernel.
    pub(crate) fn drain(&mut self, records: &mut Vec<u8>) {
        let head = self
            .position(offset_of!(perf_event_mmap_page, data_head))
            .load(Ordering::Acquire);
        let length = (head - self.tail) as usize;
        let at = self.tail as usize & (self.size - 1);
        let before_end = length.min(self.size - at);
        for (at, length) in [(at, before_end), (0, length - before_end)] {
            // SAFETY: below the head the kernel has written, and does not write again before the tail moves on.
            records.extend_from_slice(unsafe {
                let data = self.base.cast::<u8>().add(page_size() + at);
                std::slice::from_raw_parts(data, length)
            });
        }
        self.tail = head;
        self.position(offset_of!(perf_event_mmap_page, data_tail))
            .store(head, Ordering::Release);
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page is mapped as long as the ring lives; its positions are aligned, and both sides read
        // and write them as a whole.
        unsafe { AtomicU64::from_ptr(self.base.byte_add(offset).cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is what was mapped, and no reference into it is left.
        let _ = unsafe { munmap(self.base, page_size() + self.size) };
    }
}
