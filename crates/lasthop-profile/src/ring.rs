//! Perf events, and the rings through which the kernel delivers their records.

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

/// An event on one CPU, for all processes; disabled at first.
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

    /// The number of this event in its records.
    pub(crate) fn id(&self) -> io::Result<u64> {
        let mut id = 0;
        // SAFETY: the kernel writes one number.
        done(unsafe { ioctls::ID(self.0.as_raw_fd(), &mut id) })?;
        Ok(id)
    }

    /// Redirects this event's records to the ring of another event on the same CPU.
    pub(crate) fn write_to(&self, other: &Self) -> io::Result<()> {
        // SAFETY: both descriptors are open, and no memory is involved.
        done(unsafe { ioctls::SET_OUTPUT(self.0.as_raw_fd(), other.0.as_raw_fd()) })
    }

    /// Restricts the event to records whose tracepoint fields meet a condition.
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

/// Memory shared by an event and the kernel: a page of positions, then a circular buffer of records.
#[derive(Debug)]
pub(crate) struct Ring {
    base: *mut c_void,
    /// Bytes of the circular buffer, a power of two.
    size: usize,
    tail: u64,
}

// SAFETY: the ring's owner is its only reader, in whichever thread; the kernel writes from any CPU.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring of at most `most` bytes, a power of two; fewer if the kernel does not let this user lock as many.
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
        // SAFETY: the kernel chooses a free address.
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

    /// Appends all complete records, and gives their room back to the kernel.
    pub(crate) fn drain(&mut self, records: &mut Vec<u8>) {
        let head = self
            .position(offset_of!(perf_event_mmap_page, data_head))
            .load(Ordering::Acquire);
        let length = (head - self.tail) as usize;
        let at = self.tail as usize & (self.size - 1);
        let before_end = length.min(self.size - at);
        for (at, length) in [(at, before_end), (0, length - before_end)] {
            // SAFETY: the kernel has written the bytes below the head, and does not write there again before the tail
            // moves on.
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
        // SAFETY: the first page is mapped as long as the ring lives; its positions are aligned, and both sides access
        // each with a single read or write.
        unsafe { AtomicU64::from_ptr(self.base.byte_add(offset).cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping, and no reference into it is left.
        let _ = unsafe { munmap(self.base, page_size() + self.size) };
    }
}
