//! Runs short commands with a deadline, such as version checks.

use std::{
    fs::File,
    io::{self, Read, Seek as _},
    os::unix::process::CommandExt,
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};

use super::interrupt;

/// The result of a command.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// Standard output and standard error interleaved, at most 64 KiB.
    pub text: String,
}

/// The result of a command, with standard output and standard error apart.
#[derive(Debug)]
pub struct EndedApart {
    pub status: ExitStatus,
    /// At most 16 MiB.
    pub output: String,
    /// At most 64 KiB.
    pub errors: String,
}

/// As [`run`], with standard output and standard error apart.
/// Errors: as [`run`].
pub fn run_apart(mut command: Command, timeout: Duration) -> io::Result<EndedApart> {
    let (output, writer) = io::pipe()?;
    let (errors, error_writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer).stderr(error_writer);
    let output = read_aside(output, 16 << 20)?;
    let errors = read_aside(errors, 64 << 10)?;
    let status = wait(command, timeout, true)?;
    Ok(EndedApart { status, output: arrived(&output), errors: arrived(&errors) })
}

/// Like [`run`], but the command outlives this process and is not interrupted: for work that must not stop half-way.
/// Errors: as [`run`].
pub fn run_through(mut command: Command, timeout: Duration) -> io::Result<Ended> {
    let (reader, writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let text = read_aside(reader, 64 << 10)?;
    let status = wait(command, timeout, false)?;
    Ok(Ended { status, text: arrived(&text) })
}

/// Like [`run_through`], with both outputs in a file, for commands that print more than fits.
/// Errors: as [`run`].
pub fn run_through_into(mut command: Command, file: File, timeout: Duration) -> io::Result<ExitStatus> {
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    wait(command, timeout, false)
}

/// Runs a command without input. It is killed with its group when the time is over or the run is interrupted, and it
/// dies with this thread.
/// Errors: it cannot be started, did not end in time (`ErrorKind::TimedOut`), or was interrupted.
pub fn run(mut command: Command, timeout: Duration) -> io::Result<Ended> {
    let (reader, writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let text = read_aside(reader, 64 << 10)?;
    let status = wait(command, timeout, true)?;
    Ok(Ended { status, text: arrived(&text) })
}

/// Like [`run`], but what the command leaves running when it ends goes on. Its output goes to a file without a name, so that who
/// keeps writing to it is not ended by that.
/// Errors: as [`run`].
pub fn run_and_leave(mut command: Command, timeout: Duration) -> io::Result<Ended> {
    let mut output = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
    let (status, _) = ended(command, timeout, true)?;
    let mut bytes = Vec::new();
    output.rewind()?;
    output.take(64 << 10).read_to_end(&mut bytes)?;
    Ok(Ended { status, text: String::from_utf8_lossy(&bytes).into_owned() })
}

fn read_aside(reader: io::PipeReader, limit: u64) -> io::Result<Receiver<String>> {
    let (sender, text) = std::sync::mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        let mut bytes = Vec::new();
        let _ = reader.take(limit).read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    })?;
    Ok(text)
}

/// A process that left the group may hold the pipe for ever.
fn arrived(text: &Receiver<String>) -> String {
    text.recv_timeout(Duration::from_secs(1)).unwrap_or_default()
}

/// Starts a command whose streams are set, waits for its end, and kills what remains of its group.
fn wait(command: Command, timeout: Duration, die_with_us: bool) -> io::Result<ExitStatus> {
    let (status, group) = ended(command, timeout, die_with_us)?;
    // They may still hold the pipe.
    kill(group);
    Ok(status)
}

/// How a command ended, and its group, which is killed with it if it does not end by itself.
fn ended(mut command: Command, timeout: Duration, die_with_us: bool) -> io::Result<(ExitStatus, Option<Pid>)> {
    command.process_group(0);
    let signal = die_with_us.then_some(Signal::KILL);
    let prepare = move || Ok(rustix::process::set_parent_process_death_signal(signal)?);
    // SAFETY: the closure makes one system call; it takes no lock and allocates nothing.
    unsafe { command.pre_exec(prepare) };
    let mut child = command.spawn()?;
    let group = Pid::from_raw(child.id() as i32);
    // The command holds the writing end too; ours must go for the reader to see the end.
    drop(command);
    let _shield = (!die_with_us).then(interrupt::shield);
    let deadline = Instant::now() + timeout;
    let mut pause = Duration::from_micros(500);
    let error = loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, group));
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
        let ended = run(shell("echo out; echo err >&2; exit 4"), Duration::from_secs(20)).unwrap();
        assert_eq!((ended.status.code(), ended.text.as_str()), (Some(4), "out\nerr\n"));
    }

    #[test]
    fn what_a_command_leaves_running_goes_on_and_may_write() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said");
        let script =
            format!("echo out; (read word <{0}.go; echo word; echo $? >{0}) & echo $!; exit 4", file.display());
        assert!(Command::new("mkfifo").arg(file.with_extension("go")).status().unwrap().success());
        let ended = run_and_leave(shell(&script), Duration::from_secs(20)).unwrap();
        assert_eq!((ended.status.code(), ended.text.lines().next()), (Some(4), Some("out")));
        std::fs::write(file.with_extension("go"), "go\n").unwrap();
        while std::fs::read_to_string(&file).unwrap_or_default() != "0\n" {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_command_that_hangs_is_killed_with_its_children() {
        let begin = Instant::now();
        let error = run(shell("sleep 1000 & sleep 1000"), Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begin.elapsed() < Duration::from_secs(100));
    }
}
