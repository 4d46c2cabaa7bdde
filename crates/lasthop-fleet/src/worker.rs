//! What runs in a Pod: lasthop, whose record goes to the log.

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

/// How often the record is looked at, which is what a Pod that dies loses of it.
const LOOK: Duration = Duration::from_secs(1);

/// Runs this executable with these arguments, writes the record that it makes, and then waits for the reader, who ends
/// this process, for no longer than `linger`: the tail of a log may be lost if its process ends at once. Returns the
/// code that the run ended with.
pub fn serve(arguments: &[String], runs: &Path, linger: Duration) -> io::Result<u8> {
    let before = folders(runs);
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        // The log is for the record; what the run says goes to standard error.
        .stdout(Stdio::null())
        .spawn()?;
    let mut sender = None;
    let code = loop {
        // Asked first: what it wrote before it ended is there.
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

/// As shells count: a signal has its number above 128.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// Asks the run to end in order, as this process was asked.
fn end(child: &mut Child) -> io::Result<u8> {
    // Less than the grace period of the Pod, after which the kubelet kills all of it.
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

/// The records that there are.
fn folders(runs: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}
