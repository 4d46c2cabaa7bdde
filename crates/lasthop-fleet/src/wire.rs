//! A run record as lines of a log, between other lines.
//!
//! Each line has a number and, in base64, some bytes of one zlib stream. The stream has entries: the name of the run,
//! new parts of its files, and finally the SHA-256 of every file. There is only one stream because rounds have copies
//! of the same files, which then take almost no space.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Component, Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use flate2::{Compression, Decompress, FlushDecompress, Status, write::ZlibEncoder};
use lasthop_model::{record::SEAL, run_name};
use lasthop_system::{date, digest, files};
use serde::{Deserialize, Serialize};

/// The prefix of a record's lines.
const START: &str = "lasthop-record ";
/// Bytes of the stream per line: container runtimes break lines of 16 KiB.
const IN_A_LINE: usize = 9 << 10;
/// Bytes of a file per entry.
const PIECE: u64 = 64 << 10;
/// The longest line of a log, in bytes.
const LONGEST_LINE: u64 = 1 << 20;
/// The longest entry without its piece, in bytes. The last one names all files, with 100 B for each.
const LONGEST_ENTRY: u64 = 16 << 20;
/// The most bytes in the files of a record.
const LARGEST: u64 = 1 << 30;
/// The most path components in names of files, each of which may be a folder.
const MOST_PARTS: usize = 500_000;

/// An entry of the stream, a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Entry {
    /// The first entry: the name of the record.
    Run(String),
    /// Announces `length` bytes of the file from offset `at`. Offset 0 begins the file anew, because some files are
    /// replaced during a run.
    Piece { file: String, at: u64, length: u64 },
    /// The last entry: the exit code of the run, and the SHA-256 of every file.
    End { code: u8, files: BTreeMap<String, String> },
}

/// Why a log yields no record.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    #[error("the log ends before the record does")]
    Ended,
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

/// Writes bytes of the stream as lines.
struct Numbered<W> {
    output: W,
    next: u64,
    bytes: Vec<u8>,
}

impl<W: Write> Write for Numbered<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        for bytes in self.bytes.chunks(IN_A_LINE) {
            writeln!(self.output, "{START}{} {}", self.next, BASE64.encode(bytes))?;
            self.next += 1;
        }
        self.bytes.clear();
        self.output.flush()
    }
}

/// Writes a growing record.
pub struct Sender<W: Write> {
    folder: PathBuf,
    stream: ZlibEncoder<Numbered<W>>,
    /// By name: the inode of the file, and the bytes written so far.
    sent: BTreeMap<String, (u64, u64)>,
}

impl<W: Write> Sender<W> {
    pub fn begin(run: &str, folder: &Path, output: W) -> io::Result<Self> {
        let lines = Numbered {
            output,
            next: 0,
            bytes: Vec::new(),
        };
        let mut sender = Self {
            folder: folder.to_owned(),
            stream: ZlibEncoder::new(lines, Compression::default()),
            sent: BTreeMap::new(),
        };
        sender.entry(&Entry::Run(run.to_owned()), &[])?;
        Ok(sender)
    }

    fn entry(&mut self, entry: &Entry, piece: &[u8]) -> io::Result<()> {
        serde_json::to_writer(&mut self.stream, entry)?;
        self.stream.write_all(b"\n")?;
        self.stream.write_all(piece)
    }

    /// Writes additions since the last call.
    pub fn advance(&mut self) -> io::Result<()> {
        let before = self.stream.total_in();
        for (name, path) in files(&self.folder)? {
            match self.file(&name, &path) {
                // The file was replaced: the next call writes it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                sent => sent?,
            }
        }
        if self.stream.total_in() > before {
            self.stream.flush()?;
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
            let piece = files::first(&mut rest, PIECE)?;
            let length = piece.len() as u64;
            if length > 0 || at == 0 {
                let file = name.to_owned();
                self.entry(&Entry::Piece { file, at, length }, &piece)?;
            }
            at += length;
            if length < PIECE {
                self.sent.insert(name.to_owned(), (facts.ino(), at));
                return Ok(());
            }
        }
    }

    /// Writes the end of a complete record.
    pub fn end(mut self, code: u8) -> io::Result<()> {
        self.advance()?;
        let files = files(&self.folder)?.into_iter();
        let files = files
            .map(|(name, path)| Ok((name, digest::of_file(&path)?)))
            .collect::<io::Result<_>>()?;
        self.entry(&Entry::End { code, files }, &[])?;
        self.finish()
    }

    fn finish(self) -> io::Result<()> {
        self.stream.finish()?.flush()
    }
}

/// The files below a folder by relative name, without links, files that are still being written, and the seal, which
/// would prove nothing elsewhere.
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

/// The next whole line of a log, without its end. A Pod may write anything, so a line is bytes, and limited.
fn next_line(log: &mut impl BufRead) -> Result<Option<Vec<u8>>, WireError> {
    let mut line = Vec::new();
    let read = log.take(LONGEST_LINE).read_until(b'\n', &mut line);
    read.map_err(|error| format!("cannot read the log: {error}"))?;
    match line.pop() {
        Some(b'\n') => Ok(Some(line)),
        _ if line.len() as u64 + 1 == LONGEST_LINE => {
            Err(format!("a line of the log is longer than {} KiB", LONGEST_LINE >> 10).into())
        }
        _ => Ok(None),
    }
}

/// A message from the reader of a log.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A line that is not part of the record.
    Line(Vec<u8>),
    /// The record has begun, in this folder.
    Begun(PathBuf),
}

/// A received record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub folder: PathBuf,
    /// The exit code of the run.
    pub code: u8,
}

/// Builds a record from a log, below the existing folder `runs`. It replaces `part`, left by an earlier reading of the
/// log.
///
/// # Errors
///
/// The log ends early or a line is missing: it may be read again. Or a line is invalid, the record is too large or
/// cannot be written, or it differs from the Pod's.
pub fn receive(
    log: impl BufRead,
    runs: &Path,
    part: Option<&Path>,
    hear: &mut dyn FnMut(Heard),
) -> Result<Received, WireError> {
    let mut entries = BufReader::new(Stream {
        log,
        hear,
        lines: 0,
        bytes: Vec::new(),
        inflate: Decompress::new(true),
    });
    let received = unpack(&mut entries, runs, part);
    received.map_err(|error| match error.downcast() {
        Ok(own) => own,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => WireError::Ended,
        Err(error) if error.raw_os_error().is_some() => WireError::Wrong(format!("cannot write the record: {error}")),
        Err(_) => {
            let number = entries.get_ref().lines.saturating_sub(1);
            WireError::Wrong(format!("line {number} of the record is not one that lasthop writes"))
        }
    })
}

/// The stream of a record, decoded from its lines.
struct Stream<'a, L> {
    log: L,
    hear: &'a mut dyn FnMut(Heard),
    /// Lines read so far.
    lines: u64,
    /// Bytes of the last line, not yet inflated.
    bytes: Vec<u8>,
    inflate: Decompress,
}

impl<L: BufRead> Stream<'_, L> {
    /// The bytes of the stream's next line; `None` at the end of the log.
    fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        while let Some(line) = next_line(&mut self.log).map_err(io::Error::other)? {
            let Some(numbered) = line.strip_prefix(START.as_bytes()) else {
                (self.hear)(Heard::Line(line));
                continue;
            };
            let expected = self.lines;
            self.lines += 1;
            let (number, bytes) = number_and_bytes(numbered).ok_or_else(malformed)?;
            if number != expected {
                return Err(io::Error::other(WireError::Gap(expected)));
            }
            return Ok(Some(bytes));
        }
        Ok(None)
    }
}

impl<L: BufRead> Read for Stream<'_, L> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            // Even without new bytes: output that did not fit into the last buffer comes before the next line, which
            // may take long.
            let before = (self.inflate.total_in(), self.inflate.total_out());
            let status = self.inflate.decompress(&self.bytes, buffer, FlushDecompress::Sync)?;
            self.bytes.drain(..(self.inflate.total_in() - before.0) as usize);
            let inflated = (self.inflate.total_out() - before.1) as usize;
            if inflated > 0 || buffer.is_empty() || status == Status::StreamEnd {
                return Ok(inflated);
            }
            match self.line()? {
                Some(bytes) => self.bytes.extend(bytes),
                None => return Ok(0),
            }
        }
    }
}

/// The number and the decoded bytes of a line.
fn number_and_bytes(line: &[u8]) -> Option<(u64, Vec<u8>)> {
    let (number, bytes) = str::from_utf8(line).ok()?.split_once(' ')?;
    Some((number.parse().ok()?, BASE64.decode(bytes.trim_end()).ok()?))
}

fn wrong(text: String) -> io::Error {
    io::Error::other(WireError::Wrong(text))
}

fn malformed() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

/// Unpacks the entries of a record.
fn unpack(entries: &mut BufReader<Stream<'_, impl BufRead>>, runs: &Path, part: Option<&Path>) -> io::Result<Received> {
    let mut record = None;
    loop {
        let mut line = Vec::new();
        entries.by_ref().take(LONGEST_ENTRY).read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") && (line.len() as u64) < LONGEST_ENTRY {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let entry: Entry = serde_json::from_slice(&line).map_err(|_| malformed())?;
        match (entry, &mut record) {
            (Entry::Run(name), None) => {
                let begun = Record::begin(&name, runs, part)?;
                (entries.get_mut().hear)(Heard::Begun(begun.folder.clone()));
                record = Some(begun);
            }
            (Entry::Piece { file, at, length }, Some(record)) => {
                let mut file = record.piece(&file, at, length)?;
                if io::copy(&mut entries.by_ref().take(length), &mut file)? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            (Entry::End { code, files }, Some(record)) => {
                record.verify(&files)?;
                let folder = record.folder.clone();
                return Ok(Received { folder, code });
            }
            _ => return Err(malformed()),
        }
    }
}

/// A growing record.
struct Record {
    folder: PathBuf,
    /// Marks the record as growing.
    _lock: File,
    /// Present lengths of the files.
    lengths: BTreeMap<PathBuf, u64>,
    /// Remaining bytes, and remaining path components.
    room: u64,
    parts: usize,
}

impl Record {
    fn begin(run: &str, runs: &Path, part: Option<&Path>) -> io::Result<Self> {
        if !run_name::is_valid(run) || run_name::is_of_the_future(run, date::now()) {
            return Err(wrong(format!(
                "`{}` cannot be the name of a run of now: letters, digits, `.`, `_` and `-`, not `last`, not beyond tomorrow",
                run.escape_debug()
            )));
        }
        let folder = runs.join(run);
        if part == Some(&folder) {
            fs::remove_dir_all(&folder).map_err(|error| unwritten(&folder, &error))?;
        }
        let made = DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => wrong(format!("there is a record {} already", folder.display())),
            _ => unwritten(&folder, &error),
        })?;
        let path = folder.join("lock");
        let lock = private().open(&path).and_then(|lock| lock.lock().map(|()| lock));
        Ok(Self {
            _lock: lock.map_err(|error| unwritten(&path, &error))?,
            folder,
            lengths: BTreeMap::new(),
            room: LARGEST,
            parts: MOST_PARTS,
        })
    }

    /// Opens the file of a piece, positioned at its offset.
    fn piece(&mut self, file: &str, at: u64, length: u64) -> io::Result<File> {
        let name = Path::new(file);
        // The name must stay inside the folder: a Pod is not trusted.
        let is_inside = !file.is_empty() && name.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || name == Path::new(SEAL) {
            return Err(malformed());
        }
        self.grow(name, at, length)?;
        let path = self.folder.join(name);
        let open = || {
            let parent = path.parent().unwrap_or(&self.folder);
            DirBuilder::new().mode(0o700).recursive(true).create(parent)?;
            let mut file = private().truncate(at == 0).open(&path)?;
            file.seek(SeekFrom::Start(at))?;
            Ok(file)
        };
        open().map_err(|error| unwritten(&path, &error))
    }

    /// Counts a piece: the next of its file, or the first of a replacement.
    fn grow(&mut self, name: &Path, at: u64, length: u64) -> io::Result<()> {
        let known = self.lengths.get(name).copied();
        if at != 0 && known != Some(at) {
            return Err(malformed());
        }
        let parts = if known.is_none() { name.components().count() } else { 0 };
        let replaced = known.filter(|_| at == 0).unwrap_or(0);
        let left = (self.parts.checked_sub(parts)).zip((self.room + replaced).checked_sub(length));
        (self.parts, self.room) = left.ok_or_else(|| {
            wrong(format!(
                "the record has more than {} GiB, or more files and folders than {MOST_PARTS}",
                LARGEST >> 30
            ))
        })?;
        self.lengths.insert(name.to_owned(), at + length);
        Ok(())
    }

    fn verify(&self, expected: &BTreeMap<String, String>) -> io::Result<()> {
        let found = files(&self.folder).map_err(|error| unwritten(&self.folder, &error))?;
        for file in found.keys().chain(expected.keys()) {
            let sum = found.get(file).map(|path| digest::of_file(path)).transpose();
            let sum = sum.map_err(|error| unwritten(&self.folder.join(file), &error))?;
            if sum.as_ref() != expected.get(file) {
                let shown = |sum: Option<&String>| sum.map_or("nothing".to_owned(), |sum| format!("SHA-256 {sum}"));
                return Err(wrong(format!(
                    "{file} of the record differs from what the Pod wrote ({} instead of {})",
                    shown(sum.as_ref()),
                    shown(expected.get(file))
                )));
            }
        }
        Ok(())
    }
}

fn unwritten(path: &Path, error: &io::Error) -> io::Error {
    wrong(format!("cannot write the record {}: {error}", path.display()))
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

    const RUN: &str = "20261122T140000-x-1";

    /// A growing record with replaced files, as lines of its log.
    fn lines(source: &Path) -> Vec<String> {
        let folder = source.join(RUN);
        fs::create_dir_all(folder.join("services/0")).unwrap();
        fs::write(folder.join("lock"), "").unwrap();
        fs::write(folder.join("trials.jsonl"), "one\n").unwrap();
        let mut output = Vec::new();
        let mut sender = Sender::begin(RUN, &folder, &mut output).unwrap();
        sender.advance().unwrap();
        fs::write(folder.join("services/0/log"), noise(3 * PIECE as usize)).unwrap();
        fs::write(folder.join("run.json.part"), "not yet").unwrap();
        let mut trials = OpenOptions::new()
            .append(true)
            .open(folder.join("trials.jsonl"))
            .unwrap();
        trials.write_all(b"two\n").unwrap();
        sender.advance().unwrap();
        sender.advance().unwrap();
        fs::write(folder.join("new"), "replaced").unwrap();
        fs::rename(folder.join("new"), folder.join("services/0/log")).unwrap();
        sender.end(1).unwrap();
        String::from_utf8(output).unwrap().lines().map(str::to_owned).collect()
    }

    /// Bytes that deflate cannot compress.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut byte = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..length).map(|_| byte()).collect()
    }

    /// Lines with these entries and their pieces.
    fn lines_of(entries: &[(Entry, &[u8])]) -> Vec<String> {
        let mut output = Vec::new();
        let mut sender = Sender::begin(RUN, Path::new("nowhere"), &mut output).unwrap();
        for (entry, piece) in entries {
            sender.entry(entry, piece).unwrap();
        }
        sender.finish().unwrap();
        String::from_utf8(output).unwrap().lines().map(str::to_owned).collect()
    }

    /// The result of these lines, with other lines in between.
    fn received(runs: &Path, part: Option<&Path>, lines: &[String]) -> (Result<Received, WireError>, Vec<Heard>) {
        let log: String = lines.iter().map(|line| format!("{line}\nsaid\n")).collect();
        let mut heard = Vec::new();
        let received = receive(log.as_bytes(), runs, part, &mut |one| heard.push(one));
        (received, heard)
    }

    /// Why these lines are refused.
    fn refused(lines: &[String]) -> String {
        let home = TempDir::new().unwrap();
        received(home.path(), None, lines).0.unwrap_err().to_string()
    }

    fn piece(file: &str, at: u64, length: u64) -> Entry {
        Entry::Piece {
            file: file.to_owned(),
            at,
            length,
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was_also_if_the_log_is_read_twice() {
        let source = TempDir::new().unwrap();
        let home = TempDir::new().unwrap();
        let lines = lines(source.path());
        let is_short = |line: &String| line.len() < 16 << 10;
        assert!(lines.iter().all(is_short), "runtimes break longer lines");
        let folder = home.path().join(RUN);
        let (half, _) = lines.split_at(lines.len() / 2);
        let (broken, heard) = received(home.path(), None, half);
        assert!(matches!(broken, Err(WireError::Ended)), "{broken:?}");
        assert!(heard.contains(&Heard::Begun(folder.clone())) && heard.contains(&Heard::Line(b"said".to_vec())));
        assert_eq!(
            fs::read(folder.join("trials.jsonl")).unwrap(),
            b"one\n",
            "the part is kept"
        );
        let (received, _) = received(home.path(), Some(&folder), &lines);
        let received = received.unwrap();
        let read = |file: &str| fs::read(received.folder.join(file)).unwrap();
        assert_eq!((received.code, read("services/0/log")), (1, b"replaced".to_vec()));
        assert_eq!(read("trials.jsonl"), b"one\ntwo\n");
        assert!(!received.folder.join("run.json.part").exists() && received.folder.join("lock").exists());
    }

    #[test]
    fn copies_take_next_to_nothing() {
        let source = TempDir::new().unwrap();
        let noise = noise(16 << 10);
        for round in 0..9 {
            fs::write(source.path().join(format!("copy-{round}")), &noise).unwrap();
        }
        let mut output = Vec::new();
        Sender::begin(RUN, source.path(), &mut output).unwrap().end(0).unwrap();
        assert!(output.len() < 2 * noise.len(), "{} B of log", output.len());
    }

    #[test]
    fn what_is_missing_altered_or_leads_elsewhere_is_refused() {
        let source = TempDir::new().unwrap();
        let lines = lines(source.path());
        let without = [&lines[..2], &lines[3..]].concat();
        assert!(refused(&without).contains("line 2 of the record is missing"));
        for altered in ["lasthop-record 0 AAAA", "lasthop-record 0 !", "lasthop-record x AAAA"] {
            let said = refused(&[altered.to_owned()]);
            assert!(
                said.contains("line 0 of the record is not one that lasthop writes"),
                "{said}"
            );
        }
        // Beyond the present length, a sparse file would grow and take hours to verify.
        for entry in [
            piece("log", 8_796_093_022_208, 1),
            piece("log", 3, 1),
            piece("../log", 0, 1),
            piece("/log", 0, 1),
            piece(SEAL, 0, 1),
            Entry::Run(RUN.to_owned()),
        ] {
            let said = refused(&lines_of(&[(piece("log", 0, 4), b"text"), (entry, b"!")]));
            assert!(said.contains("is not one that lasthop writes"), "{said}");
        }
        let sum = digest::of_bytes(b"tuxt");
        for files in [BTreeMap::from([("log".to_owned(), sum)]), BTreeMap::new()] {
            let said = refused(&lines_of(&[
                (piece("log", 0, 4), b"text"),
                (Entry::End { code: 0, files }, b""),
            ]));
            assert!(
                said.contains("log of the record differs") || said.contains("lock of the record"),
                "{said}"
            );
        }
        let twice = TempDir::new().unwrap();
        let again = || {
            received(twice.path(), None, &lines)
                .0
                .map_err(|error| error.to_string())
        };
        assert_eq!(again().unwrap().code, 1);
        assert!(again().unwrap_err().contains("there is a record"));
    }

    #[test]
    fn a_record_that_grows_without_end_is_given_up() {
        let take = |limit: &dyn Fn(&mut Record)| {
            let home = TempDir::new().unwrap();
            let mut record = Record::begin(RUN, home.path(), None).unwrap();
            limit(&mut record);
            // The first file is replaced by the second.
            let pieces = [
                ("services/0/log", 0, 9),
                ("services/0/log", 0, 4),
                ("trials", 0, 4),
                ("trials", 4, 4),
            ];
            pieces
                .iter()
                .all(|(file, at, length)| record.piece(file, *at, *length).is_ok())
        };
        assert!(take(&|record| record.room = 12) && !take(&|record| record.room = 11));
        assert!(take(&|record| record.parts = 4) && !take(&|record| record.parts = 3));
    }

    #[test]
    fn a_log_is_bytes_in_lines_of_limited_length() {
        let mut log = &b"one\n\ntwo\xff\nhalf"[..];
        let lines: Vec<Vec<u8>> = std::iter::from_fn(|| next_line(&mut log).unwrap()).collect();
        assert_eq!(lines, [&b"one"[..], b"", b"two\xff"]);
        let said = next_line(&mut io::BufReader::new(io::repeat(b'x')))
            .unwrap_err()
            .to_string();
        assert_eq!(said, "a line of the log is longer than 1024 KiB");
    }
}
