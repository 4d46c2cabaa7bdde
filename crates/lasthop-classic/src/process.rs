//! Runs a tool once: its output, its duration, and its CPU time.

use std::{
    io,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use lasthop_system::files;
use lasthop_trial::result::DriverCost;
use rustix::process::{Pid, Signal};

/// The most bytes of a tool's output, more than any successful trial prints.
const LONGEST_OUTPUT: u64 = 1 << 20;

/// The result of a tool's run.
#[derive(Debug)]
pub struct Finished {
    /// Standard error and standard output, interleaved.
    pub output: String,
    /// Exit status, or 128 + the signal.
    pub code: i32,
    /// Time from start to end.
    pub elapsed_ns: u64,
    pub cost: DriverCost,
}

/// Runs a program to its end, or kills it after `limit`. It dies with this process.
///
/// # Errors
/// The program cannot be started, or does not end in time ([`io::ErrorKind::TimedOut`]).
pub fn run(
    program: &Path,
    arguments: &[String],
    environment: &[(String, String)],
    folder: &Path,
    limit: Duration,
) -> io::Result<Finished> {
    let (reader, writer) = io::pipe()?;
    // In the locale C, because patterns know only English words and decimal points.
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(folder)
        .env("LC_ALL", "C")
        .envs(environment.iter().cloned());
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    lasthop_system::command::dies_with_us(&mut command);
    let (sender, output) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        // Beyond the limit the pipe is closed, which ends a tool that writes endlessly (SIGPIPE).
        let bytes = files::first(reader, LONGEST_OUTPUT).unwrap_or_default();
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    })?;
    let begun = Instant::now();
    let child = command.spawn()?;
    // The command holds the writing ends, which must be closed for the reader to see the end.
    drop(command);
    // The tool has ended, or is about to end and has closed its output.
    let output = output.recv_timeout(limit);
    if output.is_err() {
        kill(&child);
    }
    let (code, cost) = wait(&child)?;
    let elapsed_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    match output {
        Ok(output) => Ok(Finished {
            output,
            code,
            elapsed_ns,
            cost,
        }),
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("it did not end within {limit:?}"),
        )),
    }
}

fn kill(child: &Child) {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        // The process has not been waited for, so the pid is still its own.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// Waits for a child and returns its CPU time, which `std` does not.
fn wait(child: &Child) -> io::Result<(i32, DriverCost)> {
    let mut status = 0;
    // SAFETY: an all-zero rusage is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to locals that outlive the call.
        let waited = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
        if waited >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let code = if libc::WIFEXITED(status) {
        libc::WEXITSTATUS(status)
    } else {
        128 + libc::WTERMSIG(status)
    };
    let nanoseconds = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    let cost = DriverCost {
        user_ns: nanoseconds(usage.ru_utime),
        system_ns: nanoseconds(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
        ..DriverCost::default()
    };
    Ok((code, cost))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> io::Result<Finished> {
        run(
            Path::new("/bin/sh"),
            &["-c".to_owned(), script.to_owned()],
            &[],
            Path::new("/"),
            limit,
        )
    }

    #[test]
    fn output_status_and_cost_are_kept() {
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo out; echo err >&2; exit 3";
        let ended = shell(script, Duration::from_secs(30)).unwrap();
        assert_eq!((ended.code, ended.output.as_str()), (3, "out\nerr\n"));
        assert!(ended.cost.cpu_ns() > 0 && ended.elapsed_ns > 0, "{ended:?}");
    }

    #[test]
    fn a_signal_is_a_status_and_a_hang_is_an_end() {
        assert_eq!(
            shell("kill -SEGV $$", Duration::from_secs(30)).unwrap().code,
            128 + libc::SIGSEGV
        );
        let error = shell("exec sleep 1000", Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
