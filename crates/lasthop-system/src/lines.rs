//! Talks to a child process line by line, with a deadline and a length limit for each line.
//!
//! A child may hang or write without end; the deadline and the limit bound the cost.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::event::PollFlags;

use super::interrupt::{self, Waited};

/// Why there is no line.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    #[error("it did not answer within {0:?}")]
    Silent(Duration),
    #[error("it ended unexpectedly")]
    Ended,
    #[error("it wrote a line of more than {0} bytes")]
    TooLong(usize),
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Io(io::Error),
}

/// A conversation with a child process.
#[derive(Debug)]
pub struct Lines {
    input: Option<File>,
    output: File,
    /// The longest line in bytes.
    longest: usize,
    /// Bytes received after the last line.
    rest: Vec<u8>,
}

impl Lines {
    /// Takes lasthop's ends of a process's standard input and output.
    pub fn new(input: Option<OwnedFd>, output: OwnedFd, longest: usize) -> io::Result<Self> {
        if let Some(input) = &input {
            rustix::io::ioctl_fionbio(input, true)?;
        }
        Ok(Self {
            input: input.map(File::from),
            output: output.into(),
            longest,
            rest: Vec::new(),
        })
    }

    /// Closes the process's input.
    pub fn hang_up(&mut self) {
        self.input = None;
    }

    /// Sends bytes. `limit` is the time for the other side to read them.
    ///
    /// # Errors
    ///
    /// [`LineError`].
    pub fn say(&mut self, mut bytes: &[u8], limit: Duration) -> Result<(), LineError> {
        let input = self.input.as_mut().ok_or(LineError::Ended)?;
        while !bytes.is_empty() {
            wait(input.as_fd(), PollFlags::OUT, limit, Instant::now() + limit)?;
            match input.write(bytes) {
                Ok(0) => return Err(LineError::Ended),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(LineError::Ended),
                Err(error) if is_early(&error) => {}
                Err(error) => return Err(LineError::Io(error)),
            }
        }
        Ok(())
    }

    /// The next line, without its end.
    ///
    /// # Errors
    ///
    /// [`LineError`], also for half a line before the end.
    pub fn hear(&mut self, limit: Duration) -> Result<Vec<u8>, LineError> {
        let deadline = Instant::now() + limit;
        let mut seen = 0;
        loop {
            if let Some(at) = self.rest[seen..].iter().position(|byte| *byte == b'\n') {
                let after = self.rest.split_off(seen + at + 1);
                let mut line = std::mem::replace(&mut self.rest, after);
                line.pop();
                return Ok(line);
            }
            seen = self.rest.len();
            if seen > self.longest {
                return Err(LineError::TooLong(self.longest));
            }
            wait(self.output.as_fd(), PollFlags::IN, limit, deadline)?;
            let mut buffer = [0; 16 << 10];
            match self.output.read(&mut buffer) {
                Ok(0) => return Err(LineError::Ended),
                Ok(read) => self.rest.extend_from_slice(&buffer[..read]),
                Err(error) if is_early(&error) => {}
                Err(error) => return Err(LineError::Io(error)),
            }
        }
    }
}

/// Waits for a descriptor. A descriptor that is always ready must not extend the deadline.
fn wait(
    fd: std::os::fd::BorrowedFd<'_>,
    wanted: PollFlags,
    limit: Duration,
    deadline: Instant,
) -> Result<(), LineError> {
    match interrupt::wait_for(fd, wanted, deadline).map_err(LineError::Io)? {
        Waited::Interrupted => Err(LineError::Interrupted),
        Waited::Ready if Instant::now() < deadline => Ok(()),
        _ => Err(LineError::Silent(limit)),
    }
}

fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn hearing(longest: usize) -> (Lines, io::PipeWriter) {
        let (reader, writer) = io::pipe().unwrap();
        (Lines::new(None, reader.into(), longest).unwrap(), writer)
    }

    #[test]
    fn lines_come_one_by_one_and_half_a_line_is_none() {
        let (mut lines, mut writer) = hearing(100);
        writer.write_all(b"one\n\ntwo\nha").unwrap();
        drop(writer);
        let heard: Vec<Vec<u8>> = (0..3).map(|_| lines.hear(LONG).unwrap()).collect();
        assert_eq!(heard, [&b"one"[..], b"", b"two"]);
        assert!(matches!(lines.hear(LONG), Err(LineError::Ended)));
    }

    #[test]
    fn a_line_without_end_is_given_up_at_its_limit() {
        let (mut lines, mut writer) = hearing(1 << 20);
        thread::spawn(move || while writer.write_all(&[b'x'; 4096]).is_ok() {});
        assert!(matches!(lines.hear(LONG), Err(LineError::TooLong(_))));
        assert!(lines.rest.capacity() < 4 << 20, "{}", lines.rest.capacity());
    }

    #[test]
    fn the_deadline_holds_for_silence_for_drops_and_for_whoever_does_not_read() {
        let soon = Duration::from_millis(20);
        let (mut lines, mut writer) = hearing(1 << 20);
        assert!(matches!(lines.hear(soon), Err(LineError::Silent(_))));
        thread::spawn(move || while writer.write_all(b"x").is_ok() {});
        let dripping = lines.hear(soon);
        assert!(
            matches!(dripping, Err(LineError::Silent(_) | LineError::TooLong(_))),
            "{dripping:?}"
        );
        let ((_unread, input), (output, _writer)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let mut lines = Lines::new(Some(input.into()), output.into(), 1).unwrap();
        assert!(matches!(lines.say(&[0; 1 << 20], soon), Err(LineError::Silent(_))));
    }
}
