//! lasthop in a Pod: a run whose record goes to the log.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use lasthop_system::interrupt;

use crate::wire::Sender;

/// The interval of reading the record: a Pod that dies loses at most this much.
const LOOK: Duration = Duration::from_secs(1);

/// Runs this executable with these arguments and writes the record to standard output. Then waits up to `linger` for
/// the reader, who ends this process: the tail of a log may be lost if the process ends at once. Returns the run's exit
/// code.
pub fn serve(arguments: &[String], runs: &Path, linger: Duration) -> io::Result<u8> {
    let before = folders(runs);
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        // The log is for the record; the run's messages go to standard error.
        .stdout(Stdio::null())
        .spawn()?;
    let mut sender = None;
    let code = loop {
        // Checked first, so that the last output is read after the end.
        let ended = child.try_wait()?;
        if sender.is_none() {
            let made = folders(runs).into_iter().find(|folder| !before.contains(folder));
            let begin = |folder: &PathBuf| {
                let run = folder.file_name().unwrap_or_default().to_string_lossy();
                Sender::begin(&run, folder, io::stdout())
            };
            sender = made.as_ref().map(begin).transpose()?;
        }
        match (ended, &mut sender) {
            (Some(status), _) => break code(status),
            (None, Some(sender)) => sender.advance()?,
            (None, None) => {}
        }
        if !interrupt::pause(LOOK) {
            return end(&mut child);
        }
    };
    let Some(sender) = sender else { return Ok(code) };
    sender.end(code)?;
    interrupt::pause(linger);
    Ok(code)
}

/// The exit code as in shells: a signal counts above 128.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// Asks the run to end in order, like this process.
fn end(child: &mut Child) -> io::Result<u8> {
    // Less than the Pod's grace period, after which the kubelet kills all processes.
    const LONGEST: Duration = Duration::from_secs(8);
    let _ = rustix::process::Pid::from_raw(child.id() as i32)
        .map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
    let _shield = interrupt::shield();
    let begin = Instant::now();
    while begin.elapsed() < LONGEST {
        if let Some(status) = child.try_wait()? {
            return Ok(code(status));
        }
        interrupt::pause(LOOK);
    }
    child.kill()?;
    Ok(code(child.wait()?))
}

/// The present records.
fn folders(runs: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
