//! The end, the output and the resources of a command, and checks for results that must never occur.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::tried::Tried;

#[derive(Debug, Default)]
pub struct Ended {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Peak memory in bytes.
    pub peak: u64,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

/// Runs a command, and kills it after `bound`. Its output goes to files at `scratch`, so that the command never waits
/// for a reader.
#[expect(clippy::zombie_processes, reason = "wait4 waits for it, and tells what it needed")]
pub fn finish(command: &mut Command, scratch: &Path, bound: Duration) -> Ended {
    let paths = ["out", "err"].map(|end| scratch.with_extension(end));
    let [stdout, stderr] = paths.each_ref().map(|path| fs::File::create(path).unwrap());
    let child = command
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .unwrap();
    let mut ended = wait(child.id() as i32, bound);
    [ended.stdout, ended.stderr] = paths.each_ref().map(|path| fs::read(path).unwrap());
    paths.iter().for_each(|path| fs::remove_file(path).unwrap());
    ended
}

/// Waits for a process. A process that had to be killed has neither code nor signal.
fn wait(pid: i32, bound: Duration) -> Ended {
    let deadline = Instant::now() + bound;
    let (mut status, mut is_over) = (0, false);
    // SAFETY: all-zero is a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: the child is ours and waited for here only; both places are valid for the call.
        let waited = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) };
        if waited == pid {
            break;
        }
        if !is_over && Instant::now() > deadline {
            is_over = true;
            // SAFETY: the child is ours and not yet waited for, so its pid cannot have been reused.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ended {
        code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: (libc::WIFSIGNALED(status) && !is_over).then(|| libc::WTERMSIG(status)),
        peak: usage.ru_maxrss as u64 * 1024,
        ..Ended::default()
    }
}

impl Ended {
    pub fn shown(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "did not end".to_owned(),
        }
    }

    /// Checks that time and memory stayed within bounds, that the exit code is documented, and that the terminal gets
    /// no raw text.
    pub fn judge(&self, tried: &mut Tried, memory: u64) {
        if !matches!(self.code, Some(0..=2 | 130)) {
            tried.wrong(format!("{}: {}", self.shown(), short(&self.stderr)));
        }
        if self.peak > memory {
            tried.wrong(format!("{} bytes of memory", self.peak));
        }
        for (name, text) in [("standard output", &self.stdout), ("standard error", &self.stderr)] {
            if let Some(at) = raw(text) {
                tried.wrong(format!(
                    "a control character on {name}: {:?}",
                    String::from_utf8_lossy(&text[at..])
                        .chars()
                        .take(40)
                        .collect::<String>()
                ));
            }
        }
    }
}

/// The position of a control character in text for a terminal. Lines of CSV end with both CR and LF.
fn raw(text: &[u8]) -> Option<usize> {
    let lossy = String::from_utf8_lossy(text).replace("\r\n", "\n\n");
    let is_raw = |character: char| {
        (character.is_control() && !matches!(character, '\n' | '\t'))
            || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
    };
    let at = lossy
        .char_indices()
        .find(|(_, character)| is_raw(*character))
        .map(|(at, _)| at)?;
    Some(at.min(text.len()))
}

/// The beginning and the end of an output.
pub fn short(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let characters: Vec<char> = text.trim().chars().collect();
    match characters.len() {
        0..=600 => characters.into_iter().collect(),
        length => characters[..300]
            .iter()
            .chain(&[' ', '…', ' '])
            .chain(&characters[length - 300..])
            .collect(),
    }
}
