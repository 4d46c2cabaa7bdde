//! The command `lasthop`.

use std::{process::ExitCode, sync::atomic::Ordering};

use lasthop::cli::OUTPUT_IS_CLOSED;
use lasthop_system::bounded::Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    resolve_without_plugins();
    lasthop::cli::main()
}

/// Runs before Rust's own start, which opens closed standard streams.
#[used]
// SAFETY: the C library calls each function in this section once, before `main`; this one neither allocates nor
// unwinds.
#[unsafe(link_section = ".init_array")]
static BEFORE_START: extern "C" fn() = look_at_output;

extern "C" fn look_at_output() {
    // SAFETY: the call only reads the flags of a number, which may be no descriptor.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    OUTPUT_IS_CLOSED.store(flags < 0, Ordering::Relaxed);
}

/// Resolves names of hosts from /etc/hosts and DNS only. Other sources in /etc/nsswitch.conf are libraries of the
/// machine's glibc, and a static executable that loads libraries of another version may crash.
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
fn resolve_without_plugins() {
    use std::ffi::{CStr, c_char, c_int};
    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, sources: *const c_char) -> c_int;
    }
    let [database, sources]: [&CStr; 2] = [c"hosts", c"files dns"];
    // SAFETY: both texts end with a zero and outlive the call, which copies them; no other thread runs yet.
    let failed = unsafe { __nss_configure_lookup(database.as_ptr(), sources.as_ptr()) };
    debug_assert_eq!(failed, 0);
}
