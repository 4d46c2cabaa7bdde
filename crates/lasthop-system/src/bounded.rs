//! Bounds the memory and the time of work on others' input.
//!
//! A template language can bound the steps of a template, but not the length of a result. So an allocator counts the
//! memory of the working thread, and ends the process with a message when there is too much.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    io::{self, Write as _},
    ptr,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

/// The rest of a thread's allowance.
struct Bound<'a> {
    left: Cell<i64>,
    /// The message if the thread exceeds the allowance.
    message: &'a str,
}

thread_local! {
    /// The thread's bound; null without one. The pointer needs no drop, so an allocator may read it at any time.
    static BOUND: Cell<*const Bound<'static>> = const { Cell::new(ptr::null()) };
}

/// The system's allocator, which counts for [`bounded`]. Without it as the global allocator, only time is bounded.
#[derive(Debug)]
pub struct Allocator;

// SAFETY: this is the system's allocator; around its calls only numbers of this thread change.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        charge(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        charge(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        charge(size as i64 - layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        charge(-(layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(old, layout) }
    }
}

fn charge(bytes: i64) {
    let bound = BOUND.get();
    if bound.is_null() {
        return;
    }
    // SAFETY: `bounded` points it at a value on its stack, and restores it before it returns or unwinds.
    let bound = unsafe { &*bound };
    bound.left.set(bound.left.get() - bytes);
    if bound.left.get() < 0 {
        end(bound.message);
    }
}

/// Ends the process without allocating.
fn end(message: &str) -> ! {
    let _ = io::stderr().write_all(message.as_bytes());
    // SAFETY: `_exit` has no preconditions. `exit` might need memory.
    unsafe { libc::_exit(1) }
}

/// Restores the previous bound.
struct Restored(*const Bound<'static>);

impl Drop for Restored {
    fn drop(&mut self) {
        BOUND.set(self.0);
    }
}

/// Runs some work. Ends this process with exit code 1 if the work takes more than `bytes` of memory or longer than
/// `time`. The message has `what`, the work, such as `planning x`, and `advice`.
pub fn bounded<T>(what: &str, advice: &str, bytes: u64, time: Duration, work: impl FnOnce() -> T) -> T {
    let message = format!(
        "error: {what} takes more than {} MiB of memory: {advice}\n",
        bytes >> 20
    );
    let late = format!("error: {what} takes longer than {} s: {advice}\n", time.as_secs());
    let bound = Bound {
        left: Cell::new(i64::try_from(bytes).unwrap_or(i64::MAX)),
        message: &message,
    };
    thread::scope(|scope| {
        // Dropped at the end of the work, which wakes the other thread.
        let (_done, waits) = mpsc::channel::<()>();
        let clock = thread::Builder::new().name("deadline".to_owned());
        // Without a thread there is no deadline, but still Ctrl-C.
        let _ = clock.spawn_scoped(scope, move || {
            if waits.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                end(&late);
            }
        });
        let _restored = Restored(BOUND.get());
        BOUND.set(ptr::from_ref(&bound).cast());
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_within_its_bounds_is_not_noticed() {
        let made = bounded("a test", "end it", 1 << 20, Duration::from_secs(60), || {
            assert!(!BOUND.get().is_null());
            (0..10).map(|_| vec![0_u8; 1 << 19].len()).sum::<usize>()
        });
        assert_eq!(made, 10 << 19);
        assert!(BOUND.get().is_null());
    }
}
