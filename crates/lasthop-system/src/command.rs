//! Runs short commands with a deadline, such as version checks.

use std::{
    fs::File,
    io::{self, Seek as _},
    os::unix::process::CommandExt,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

use super::{files, interrupt};

/// The most bytes kept of standard output.
const OUTPUT: u64 = 16 << 20;
/// The most bytes kept of standard error.
const ERRORS: u64 = 64 << 10;

/// The result of a command.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// Standard output, at most 16 MiB.
    pub output: String,
    /// Standard error, at most 64 KiB. Empty with [`Life::LeavesChildren`]: `output` then has both, together at most 64
    /// KiB.
    pub errors: String,
}

impl Ended {
    /// All that the command printed: standard output, then standard error.
    pub fn text(&self) -> String {
        format!("{}{}", self.output, self.errors)
    }
}

/// How long a command and its children may live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The command dies with this thread, and its children are killed when it ends.
    Bound,
    /// The command outlives this process and is not interrupted, for work that must not stop half-way.
    ToItsEnd,
    /// The command dies with this thread, but its children live on.
    LeavesChildren,
}

/// Runs a command without input. It is killed with its group at the timeout or, unless it runs to its end, at an
/// interrupt.
///
/// # Errors
///
/// The command cannot be started, does not end in time (`ErrorKind::TimedOut`), or is interrupted.
pub fn run(mut command: Command, timeout: Duration, life: Life) -> io::Result<Ended> {
    if life == Life::LeavesChildren {
        // A file without a name: with a pipe, SIGPIPE would end children that still write when this process no longer
        // reads.
        let mut file = tempfile::tempfile()?;
        let status = run_into(command, &file, timeout, life)?;
        file.rewind()?;
        let bytes = files::first(file, ERRORS)?;
        return Ok(Ended {
            status,
            output: String::from_utf8_lossy(&bytes).into_owned(),
            errors: String::new(),
        });
    }
    let (output, writer) = io::pipe()?;
    let (errors, error_writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer).stderr(error_writer);
    let output = read_aside(output, OUTPUT)?;
    let errors = read_aside(errors, ERRORS)?;
    let status = run_with_streams(command, timeout, life)?;
    Ok(Ended {
        status,
        output: arrived(&output),
        errors: arrived(&errors),
    })
}

/// Like [`run`], with both streams in a file, which can be read after an error too.
pub fn run_into(mut command: Command, file: &File, timeout: Duration, life: Life) -> io::Result<ExitStatus> {
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file.try_clone()?);
    run_with_streams(command, timeout, life)
}

fn read_aside(reader: io::PipeReader, limit: u64) -> io::Result<Receiver<String>> {
    let (sender, text) = std::sync::mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        let bytes = files::first(reader, limit).unwrap_or_default();
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    })?;
    Ok(text)
}

/// The text, unless a process that left the group holds the pipe.
fn arrived(text: &Receiver<String>) -> String {
    text.recv_timeout(Duration::from_secs(1)).unwrap_or_default()
}

/// Makes the kernel kill the command's process when the thread that starts it ends.
pub fn dies_with_us(command: &mut Command) {
    // SAFETY: the closure makes one system call; it takes no lock and allocates nothing.
    unsafe { command.pre_exec(|| Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)) };
}

/// Like [`run`], for a command whose streams are set.
pub fn run_with_streams(mut command: Command, timeout: Duration, life: Life) -> io::Result<ExitStatus> {
    // A group of its own, so that all of it can be killed at once, and Ctrl-C in the terminal reaches only lasthop.
    command.process_group(0);
    if life != Life::ToItsEnd {
        dies_with_us(&mut command);
    }
    let mut child = command.spawn()?;
    let group = Pid::from_raw(child.id() as i32);
    // The command also holds the writing ends, which must be closed for the reader to see the end.
    drop(command);
    let _shield = (life == Life::ToItsEnd).then(interrupt::shield);
    let deadline = Instant::now() + timeout;
    let mut pause = Duration::from_micros(500);
    let error = loop {
        if let Some(status) = child.try_wait()? {
            if life != Life::LeavesChildren {
                // Children may still hold the pipe.
                kill(group);
            }
            return Ok(status);
        }
        if interrupt::heard() {
            break io::Error::other("interrupted");
        }
        if Instant::now() >= deadline {
            break io::Error::new(io::ErrorKind::TimedOut, format!("it did not end within {timeout:?}"));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    kill(group);
    let _ = child.wait();
    Err(error)
}

fn kill(group: Option<Pid>) {
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_outputs_and_the_status_are_kept() {
        let ended = run(
            shell("echo out; echo err >&2; exit 4"),
            Duration::from_secs(20),
            Life::Bound,
        )
        .unwrap();
        assert_eq!(
            (ended.status.code(), ended.output.as_str(), ended.errors.as_str()),
            (Some(4), "out\n", "err\n")
        );
        assert_eq!(ended.text(), "out\nerr\n");
    }

    #[test]
    fn what_a_command_leaves_running_goes_on_and_may_write() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said");
        let script = format!(
            "echo out; (read word <{0}.go; echo word; echo $? >{0}) & echo $!; exit 4",
            file.display()
        );
        assert!(
            Command::new("mkfifo")
                .arg(file.with_extension("go"))
                .status()
                .unwrap()
                .success()
        );
        let ended = run(shell(&script), Duration::from_secs(20), Life::LeavesChildren).unwrap();
        assert_eq!(
            (ended.status.code(), ended.output.lines().next()),
            (Some(4), Some("out"))
        );
        std::fs::write(file.with_extension("go"), "go\n").unwrap();
        while std::fs::read_to_string(&file).unwrap_or_default() != "0\n" {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_command_that_hangs_is_killed_with_its_children() {
        let begin = Instant::now();
        let error = run(shell("sleep 1000 & sleep 1000"), Duration::from_millis(50), Life::Bound).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() < Duration::from_secs(100));
    }
}
