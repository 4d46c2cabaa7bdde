//! The names of system calls that servers and drivers make; other calls are shown by number.

/// Calls of every architecture, and calls of older architectures only.
macro_rules! names {
    ($($name:ident)*) => { &[$((libc::$name, stringify!($name))),*] };
}

const EVERYWHERE: &[(libc::c_long, &str)] = names! {
    SYS_accept SYS_accept4 SYS_bind SYS_brk SYS_clock_gettime SYS_clock_nanosleep SYS_clone SYS_clone3 SYS_close
    SYS_connect SYS_copy_file_range SYS_dup SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2
    SYS_eventfd2 SYS_execve SYS_exit SYS_exit_group SYS_fallocate SYS_fcntl SYS_fdatasync SYS_fstat SYS_fsync
    SYS_ftruncate SYS_futex SYS_getcwd SYS_getdents64 SYS_getpeername SYS_getpid SYS_getppid SYS_getrandom
    SYS_getrusage SYS_getsockname SYS_getsockopt SYS_gettid SYS_gettimeofday SYS_io_uring_enter SYS_ioctl SYS_kill
    SYS_listen SYS_lseek SYS_madvise SYS_mmap SYS_mprotect SYS_mq_timedreceive SYS_mq_timedsend SYS_mremap SYS_msgrcv
    SYS_msgsnd SYS_munmap SYS_nanosleep SYS_newfstatat SYS_openat SYS_pipe2 SYS_ppoll SYS_prctl SYS_pread64
    SYS_preadv SYS_prlimit64 SYS_pselect6 SYS_pwrite64 SYS_pwritev SYS_read SYS_readlinkat SYS_readv SYS_recvfrom
    SYS_recvmmsg SYS_recvmsg SYS_restart_syscall SYS_rseq SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn
    SYS_sched_yield SYS_sendfile SYS_sendmmsg SYS_sendmsg SYS_sendto SYS_set_robust_list SYS_setsockopt SYS_shutdown
    SYS_socket SYS_socketpair SYS_splice SYS_statx SYS_timerfd_settime SYS_times SYS_tgkill SYS_unlinkat
    SYS_wait4 SYS_write SYS_writev
};

#[cfg(target_arch = "x86_64")]
const HERE: &[(libc::c_long, &str)] = names! {
    SYS_access SYS_alarm SYS_dup2 SYS_epoll_create SYS_epoll_wait SYS_fork SYS_getdents SYS_lstat SYS_open SYS_pause
    SYS_pipe SYS_poll SYS_readlink SYS_select SYS_stat SYS_time SYS_unlink SYS_vfork
};
#[cfg(not(target_arch = "x86_64"))]
const HERE: &[(libc::c_long, &str)] = &[];

/// The name of a call, or its number.
pub(crate) fn name(number: u32) -> String {
    let mut known = EVERYWHERE.iter().chain(HERE);
    let found = known.find(|(call, _)| u32::try_from(*call) == Ok(number));
    match found {
        Some((_, name)) => name.trim_start_matches("SYS_").to_owned(),
        None => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn calls_have_their_names() {
        assert_eq!(name(libc::SYS_sendto as u32), "sendto");
        assert_eq!(name(9_999), "9999");
    }
}
