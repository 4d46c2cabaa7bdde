//! A run record as lines of a log, between other lines.
//!
//! The first line names the run, each further one holds a piece of a file, and the last one has the length and the
//! SHA-256 of every file. Lines are numbered, so a reader whose stream broke begins again and skips what it has. A
//! piece at 0 begins its file anew, because some files are replaced while a run goes on. The pieces are one stream of
//! deflate, flushed after each: rounds have copies of the same files, and take next to nothing.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Component, Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use lasthop_model::{record::SEAL, run_name};
use lasthop_system::{date, digest, files};
use serde::{Deserialize, Serialize};

/// Bytes of a file in one line: container runtimes break lines of 16 KiB.
const PIECE: usize = 8 << 10;
/// What deflate adds at most to a piece that it cannot make smaller, with the mark of a flush.
const MARGIN: usize = 64;
/// How a line begins that belongs to a record.
const START: &[u8] = b"{\"lasthop\":";
/// Bytes of a line of a log. The last one of a record names all files, in 130 B each.
const LONGEST_LINE: usize = 16 << 20;
/// Bytes of the files of a record.
const LARGEST: u64 = 1 << 30;
/// Parts of the names of its files, each of which may be a folder.
const MOST_PARTS: usize = 500_000;

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    lasthop: u64,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum What {
    Begin { run: String },
    Piece { file: String, at: u64, data: String },
    End { code: u8, files: BTreeMap<String, Sum> },
}

/// What a file must turn out to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sum {
    length: u64,
    sha256: String,
}

impl Sum {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            length: files::facts_linked(path)?.len(),
            sha256: digest::of_file(path)?,
        })
    }
}

/// The record did not come back as it was written.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    #[error("line {0} of the record is missing in the log")]
    Gap(u64),
    #[error("{0}")]
    Wrong(String),
}

impl From<String> for WireError {
    fn from(text: String) -> Self {
        Self::Wrong(text)
    }
}

/// Writes a record that still grows.
pub struct Sender<W> {
    folder: PathBuf,
    output: W,
    deflate: Compress,
    next: u64,
    /// By name: the file that was read, by number, and how much of it has been written.
    sent: BTreeMap<String, (u64, u64)>,
}

impl<W: Write> Sender<W> {
    pub fn begin(folder: &Path, output: W) -> io::Result<Self> {
        let run = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let deflate = Compress::new(Compression::default(), false);
        let mut sender = Self {
            folder: folder.to_owned(),
            output,
            deflate,
            next: 0,
            sent: BTreeMap::new(),
        };
        sender.line(What::Begin { run })?;
        Ok(sender)
    }

    fn line(&mut self, what: What) -> io::Result<()> {
        let line = serde_json::to_string(&Line {
            lasthop: self.next,
            what,
        })
        .map_err(io::Error::other)?;
        self.next += 1;
        writeln!(self.output, "{line}")?;
        self.output.flush()
    }

    /// Writes what has been added since the last time.
    pub fn advance(&mut self) -> io::Result<()> {
        for (name, path) in files(&self.folder)? {
            match self.file(&name, &path) {
                // It was replaced, and comes next time.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                sent => sent?,
            }
        }
        Ok(())
    }

    fn file(&mut self, name: &str, path: &Path) -> io::Result<()> {
        let mut file = files::open(path)?;
        let facts = files::facts_of(&file)?;
        let known = self
            .sent
            .get(name)
            .filter(|(number, sent)| *number == facts.ino() && *sent <= facts.len());
        let mut at = match known {
            Some((_, sent)) if *sent == facts.len() => return Ok(()),
            Some((_, sent)) => *sent,
            None => 0,
        };
        file.seek(SeekFrom::Start(at))?;
        let mut rest = file.take(facts.len() - at);
        loop {
            let piece = files::first(&mut rest, PIECE as u64)?;
            let read = piece.len() as u64;
            if read > 0 || at == 0 {
                let data = BASE64.encode(self.deflated(&piece)?);
                self.line(What::Piece {
                    file: name.to_owned(),
                    at,
                    data,
                })?;
            }
            at += read;
            if read < PIECE as u64 {
                self.sent.insert(name.to_owned(), (facts.ino(), at));
                return Ok(());
            }
        }
    }

    fn deflated(&mut self, piece: &[u8]) -> io::Result<Vec<u8>> {
        // `compress_vec` never grows the vector: what does not fit would be lost.
        let mut deflated = Vec::with_capacity(PIECE + MARGIN);
        self.deflate.compress_vec(piece, &mut deflated, FlushCompress::Sync)?;
        Ok(deflated)
    }

    /// Ends a record that no longer grows.
    pub fn end(mut self, code: u8) -> io::Result<()> {
        self.advance()?;
        let files = files(&self.folder)?.into_iter();
        let files = files
            .map(|(name, path)| Ok((name, Sum::of(&path)?)))
            .collect::<io::Result<_>>()?;
        self.line(What::End { code, files })
    }
}

/// The files below a folder by their name there. Links are none, and neither is what is still being written or would
/// prove nothing elsewhere.
fn files(folder: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let (entry, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
            let kind = entry?;
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_none_or(|extension| extension != "part") {
                let name = path
                    .strip_prefix(folder)
                    .unwrap_or(&path)
                    .to_string_lossy()
                    .into_owned();
                if name != SEAL {
                    found.insert(name, path);
                }
            }
        }
    }
    Ok(found)
}

/// Cuts a log into its lines. A Pod writes what it likes, so a line is bytes, and has a limit.
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    /// Where the next line begins, and from where on there may be its end.
    begin: usize,
    seen: usize,
}

impl Lines {
    /// Takes what has come of the log.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.begin);
        self.seen -= self.begin;
        self.begin = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next line without its end, once all of it has come.
    pub fn take(&mut self) -> Result<Option<Vec<u8>>, WireError> {
        let Some(end) = self.bytes[self.seen..].iter().position(|byte| *byte == b'\n') else {
            self.seen = self.bytes.len();
            if self.seen - self.begin > LONGEST_LINE {
                return Err(format!("a line of the log is longer than {} MiB", LONGEST_LINE >> 20).into());
            }
            return Ok(None);
        };
        let line = self.bytes[self.begin..self.seen + end].to_vec();
        self.seen += end + 1;
        self.begin = self.seen;
        Ok(Some(line))
    }
}

/// What a line of a log was.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// Not a line of the record.
    Other,
    /// A part of the record.
    Part,
    /// Its end: the record is complete and verified.
    End,
}

/// A record that has come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub folder: PathBuf,
    /// With what code the run ended.
    pub code: u8,
}

/// Writes a record anew from the lines of a log.
#[derive(Debug)]
pub struct Receiver {
    runs: PathBuf,
    inflate: Decompress,
    folder: Option<PathBuf>,
    /// Shows others that the record still grows.
    _lock: Option<File>,
    next: u64,
    code: Option<u8>,
    /// Lengths of the files so far.
    lengths: BTreeMap<PathBuf, u64>,
    /// Bytes that may still come, and parts of names.
    room: u64,
    parts: usize,
}

impl Receiver {
    /// Below this folder, which exists.
    pub fn new(runs: &Path) -> Self {
        Self {
            runs: runs.to_owned(),
            inflate: Decompress::new(false),
            folder: None,
            _lock: None,
            next: 0,
            code: None,
            lengths: BTreeMap::new(),
            room: LARGEST,
            parts: MOST_PARTS,
        }
    }

    /// The record so far, if it has begun.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The whole record, once it has been verified.
    pub fn received(&self) -> Option<Received> {
        Some(Received {
            folder: self.folder.clone()?,
            code: self.code?,
        })
    }

    /// Takes a line of the log. What it has already is skipped.
    ///
    /// # Errors
    ///
    /// A line is missing or not lasthop's, the record is too large or cannot be written, or it differs from the
    /// Pod's. After a gap the log may be read again from its beginning.
    pub fn line(&mut self, line: &[u8]) -> Result<Heard, WireError> {
        if !line.starts_with(START) {
            return Ok(Heard::Other);
        }
        let line: Line = serde_json::from_slice(line).map_err(|_| self.malformed())?;
        if line.lasthop > self.next {
            return Err(WireError::Gap(self.next));
        }
        if line.lasthop == self.next {
            match line.what {
                What::Begin { run } => self.begin(&run)?,
                What::Piece { file, at, data } => self.piece(&file, at, &data)?,
                What::End { code, files } => self.end(code, &files)?,
            }
            self.next += 1;
        }
        Ok(if self.code.is_some() { Heard::End } else { Heard::Part })
    }

    fn malformed(&self) -> String {
        format!("line {} of the record is not one that lasthop writes", self.next)
    }

    fn begin(&mut self, run: &str) -> Result<(), String> {
        if !run_name::is_valid(run) || run_name::is_of_the_future(run, date::now()) {
            return Err(format!(
                "`{}` cannot be the name of a run of now: letters, digits, `.`, `_` and `-`, not `last`, not beyond tomorrow",
                run.escape_debug()
            ));
        }
        let folder = self.runs.join(run);
        let made = DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => format!("there is a record {} already", folder.display()),
            _ => unwritten(&folder, &error),
        })?;
        let path = folder.join("lock");
        let lock = private().open(&path).and_then(|lock| lock.lock().map(|()| lock));
        self._lock = Some(lock.map_err(|error| unwritten(&path, &error))?);
        self.folder = Some(folder);
        Ok(())
    }

    /// The bytes of a piece; `None` if it is no deflate, or longer than a sender's.
    fn inflated(&mut self, data: &str) -> Option<Vec<u8>> {
        let deflated = BASE64.decode(data).ok()?;
        let before = self.inflate.total_in();
        let mut piece = Vec::with_capacity(PIECE + MARGIN);
        self.inflate
            .decompress_vec(&deflated, &mut piece, FlushDecompress::Sync)
            .ok()?;
        // What finds no room in the vector stays in the input: it inflates to more than a piece.
        (self.inflate.total_in() - before == deflated.len() as u64 && piece.len() <= PIECE).then_some(piece)
    }

    fn piece(&mut self, file: &str, at: u64, data: &str) -> Result<(), String> {
        let bytes = self.inflated(data).ok_or_else(|| self.malformed())?;
        let name = Path::new(file);
        // A name that leads nowhere else: a Pod is not trusted.
        let is_inside = !file.is_empty() && name.components().all(|part| matches!(part, Component::Normal(_)));
        let Some(folder) = self.folder.clone().filter(|_| is_inside && name != Path::new(SEAL)) else {
            return Err(self.malformed());
        };
        self.grow(name, at, bytes.len() as u64)?;
        let path = folder.join(name);
        let write = || {
            DirBuilder::new()
                .mode(0o700)
                .recursive(true)
                .create(path.parent().unwrap_or(&folder))?;
            private().truncate(at == 0).open(&path)?.write_all_at(&bytes, at)
        };
        write().map_err(|error| unwritten(&path, &error))
    }

    /// Counts a piece: the next of its file, or the first of one that takes its place.
    fn grow(&mut self, name: &Path, at: u64, bytes: u64) -> Result<(), String> {
        let known = self.lengths.get(name).copied();
        if at != 0 && known != Some(at) {
            return Err(self.malformed());
        }
        let parts = if known.is_none() { name.components().count() } else { 0 };
        let replaced = known.filter(|_| at == 0).unwrap_or(0);
        let left = (self.parts.checked_sub(parts)).zip((self.room + replaced).checked_sub(bytes));
        (self.parts, self.room) = left.ok_or_else(|| {
            format!(
                "the record has more than {} GiB, or more files and folders than {MOST_PARTS}",
                LARGEST >> 30
            )
        })?;
        self.lengths.insert(name.to_owned(), at + bytes);
        Ok(())
    }

    fn end(&mut self, code: u8, expected: &BTreeMap<String, Sum>) -> Result<(), String> {
        let folder = self.folder.as_ref().ok_or_else(|| self.malformed())?;
        let found = files(folder).map_err(|error| unwritten(folder, &error))?;
        for file in found.keys().chain(expected.keys()) {
            let sum = found.get(file).map(|path| Sum::of(path)).transpose();
            let sum = sum.map_err(|error| unwritten(&folder.join(file), &error))?;
            if sum.as_ref() != expected.get(file) {
                let shown = |sum: Option<&Sum>| {
                    sum.map_or("nothing".to_owned(), |sum| {
                        format!("{} B, SHA-256 {}", sum.length, sum.sha256)
                    })
                };
                return Err(format!(
                    "{file} of the record differs from what the Pod wrote ({} instead of {})",
                    shown(sum.as_ref()),
                    shown(expected.get(file))
                ));
            }
        }
        self.code = Some(code);
        self._lock = None;
        Ok(())
    }
}

fn unwritten(path: &Path, error: &io::Error) -> String {
    format!("cannot write the record {}: {error}", path.display())
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A record that grows and whose files are replaced, as the lines of its log.
    fn lines(source: &Path) -> Vec<String> {
        let folder = source.join("20261122T140000-x-1");
        fs::create_dir_all(folder.join("services/0")).unwrap();
        fs::write(folder.join("lock"), "").unwrap();
        fs::write(folder.join("trials.jsonl"), "one\n").unwrap();
        let mut output = Vec::new();
        let mut sender = Sender::begin(&folder, &mut output).unwrap();
        sender.advance().unwrap();
        fs::write(folder.join("services/0/log"), vec![7; 3 * PIECE]).unwrap();
        fs::write(folder.join("run.json.part"), "not yet").unwrap();
        OpenOptions::new()
            .append(true)
            .open(folder.join("trials.jsonl"))
            .unwrap()
            .write_all(b"two\n")
            .unwrap();
        sender.advance().unwrap();
        fs::write(folder.join("new"), "replaced").unwrap();
        fs::rename(folder.join("new"), folder.join("services/0/log")).unwrap();
        sender.end(1).unwrap();
        String::from_utf8(output).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_record_comes_back_as_it_was_also_if_the_log_is_read_twice() {
        let source = TempDir::new().unwrap();
        let home = TempDir::new().unwrap();
        let lines = lines(source.path());
        assert!(
            lines.iter().all(|line| line.len() < 16 << 10),
            "runtimes break longer lines"
        );
        let mut receiver = Receiver::new(home.path());
        let half = lines.len() / 2;
        let first = ["round 1 done", &lines[0]]
            .into_iter()
            .chain(lines[1..half].iter().map(String::as_str));
        for line in first {
            receiver.line(line.as_bytes()).unwrap();
        }
        assert_eq!(receiver.received(), None);
        let heard: Vec<Heard> = lines
            .iter()
            .map(|line| receiver.line(line.as_bytes()).unwrap())
            .collect();
        assert_eq!(heard.last(), Some(&Heard::End));
        let received = receiver.received().unwrap();
        assert_eq!(
            (received.code, fs::read(received.folder.join("services/0/log")).unwrap()),
            (1, b"replaced".to_vec())
        );
        assert_eq!(fs::read(received.folder.join("trials.jsonl")).unwrap(), b"one\ntwo\n");
        assert!(!received.folder.join("run.json.part").exists() && received.folder.join("lock").exists());
    }

    #[test]
    fn copies_take_next_to_nothing_and_noise_fits_into_lines() {
        let source = TempDir::new().unwrap();
        let home = TempDir::new().unwrap();
        let folder = source.path().join("run");
        fs::create_dir(&folder).unwrap();
        let mut state = 1_u64;
        let mut noise = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        let noise: Vec<u8> = (0..2 * PIECE).map(|_| noise()).collect();
        for round in 0..9 {
            fs::write(folder.join(format!("copy-{round}")), &noise).unwrap();
        }
        fs::write(folder.join("lock"), "").unwrap();
        let mut output = Vec::new();
        Sender::begin(&folder, &mut output).unwrap().end(0).unwrap();
        assert!(output.len() < 2 * noise.len(), "{} B of log", output.len());
        let mut receiver = Receiver::new(home.path());
        for line in str::from_utf8(&output).unwrap().lines() {
            assert!(line.len() < 16 << 10, "runtimes break longer lines");
            receiver.line(line.as_bytes()).unwrap();
        }
        let received = receiver.received().unwrap().folder;
        assert_eq!(fs::read(received.join("copy-8")).unwrap(), noise);
    }

    #[test]
    fn what_is_missing_altered_or_leads_elsewhere_is_refused() {
        let source = TempDir::new().unwrap();
        let lines = lines(source.path());
        let take = |lines: &[String]| {
            let home = TempDir::new().unwrap();
            let mut receiver = Receiver::new(home.path());
            lines
                .iter()
                .find_map(|line| receiver.line(line.as_bytes()).err())
                .unwrap()
                .to_string()
        };
        let without = [&lines[..2], &lines[3..]].concat();
        assert!(take(&without).contains("line 2 of the record is missing"));
        let altered = |from: &str, to: &str| take(&lines.iter().map(|line| line.replace(from, to)).collect::<Vec<_>>());
        // Beyond the length so far a sparse file would grow, which would take hours to verify.
        for at in ["3", "5", "8796093022208"] {
            assert!(altered("\"at\":4", &format!("\"at\":{at}")).contains("is not one that lasthop writes"));
        }
        assert!(altered("\"length\":8,", "\"length\":7,").contains("log of the record differs"));
        assert!(altered("\"data\":\"", "\"data\":\"////").contains("is not one that lasthop writes"));
        assert!(altered("trials.jsonl", "../trials.jsonl").contains("is not one that lasthop writes"));
        assert!(altered("20261122T140000-x-1", "..").contains("cannot be the name of a run"));
        let twice = TempDir::new().unwrap();
        Receiver::new(twice.path()).line(lines[0].as_bytes()).unwrap();
        let again = Receiver::new(twice.path()).line(lines[0].as_bytes()).unwrap_err();
        assert!(again.to_string().contains("there is a record"), "{again}");
    }

    #[test]
    fn a_record_that_grows_without_end_is_given_up() {
        let source = TempDir::new().unwrap();
        let lines = lines(source.path());
        let take = |limit: &dyn Fn(&mut Receiver)| {
            let home = TempDir::new().unwrap();
            let mut receiver = Receiver::new(home.path());
            limit(&mut receiver);
            lines
                .iter()
                .map(|line| receiver.line(line.as_bytes()))
                .find_map(Result::err)
        };
        // Both files at their largest: `services/0/log`, which is then replaced, and `trials.jsonl`.
        let most = 3 * PIECE as u64 + 8;
        assert!(take(&|receiver| receiver.room = most).is_none());
        assert!(take(&|receiver| receiver.room = most - 1).is_some());
        assert!(take(&|receiver| receiver.parts = 5).is_none());
        assert!(take(&|receiver| receiver.parts = 4).is_some());
    }

    #[test]
    fn a_log_is_bytes_in_lines_of_limited_length() {
        let mut lines = Lines::default();
        let mut taken = Vec::new();
        for piece in [&b"one\n\ntw"[..], b"o\xff\nha", b"lf"] {
            lines.add(piece);
            taken.extend(std::iter::from_fn(|| lines.take().unwrap()));
        }
        assert_eq!(taken, [&b"one"[..], b"", b"two\xff"]);
        assert_eq!(Receiver::new(Path::new("/")).line(&taken[2]).unwrap(), Heard::Other);
        let mut pieces = 0;
        while lines.take().is_ok() {
            lines.add(&[b'x'; 1 << 20]);
            pieces += 1;
        }
        assert_eq!(pieces, 16, "MiB after what there was");
    }
}
