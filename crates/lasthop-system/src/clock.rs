//! Clocks in nanoseconds: monotonic time, and the CPU time of the calling thread.

/// Monotonic nanoseconds since an arbitrary point (`CLOCK_MONOTONIC`, read without a system call where the kernel
/// offers that).
#[inline]
pub fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, user and system, in nanoseconds.
pub fn thread_cpu() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds that the machine has slept since boot, which monotonic time does not include.
pub fn slept() -> u64 {
    read(libc::CLOCK_BOOTTIME).saturating_sub(now())
}

/// Nanoseconds of a tick, the unit of times in `/proc`.
pub fn tick() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to fill; these clocks exist on every supported kernel.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps for at least `nanoseconds`; signals do not shorten it.
pub fn sleep(nanoseconds: u64) {
    std::thread::sleep(std::time::Duration::from_nanos(nanoseconds));
}
