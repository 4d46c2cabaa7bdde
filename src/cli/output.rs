//! The outputs of lasthop: results to standard output or a file, messages to standard error, an exit code.

use std::{
    fs,
    io::{self, BufRead, ErrorKind, IsTerminal, Write},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use lasthop_model::quantity;
use lasthop_page::{document::Document, text};
use lasthop_report::Format;
use lasthop_system::{files, named};
use serde::Serialize;

/// The exit code of a command.
pub type Exit = Result<u8, CliError>;

/// Success.
pub const DONE: u8 = 0;

/// A case failed or a program is missing.
pub const FAILED: u8 = 1;

/// Wrong use.
pub const USAGE: u8 = 2;

/// A result is beyond a limit of `--fail-if`.
pub const LIMIT: u8 = 3;

/// A limit of `--fail-if` could not be judged for any case.
pub const UNJUDGED: u8 = 4;

/// Ended by a signal; shells use this code for SIGINT.
pub const INTERRUPTED: u8 = 130;

/// The exit code of a measurement.
pub fn exit_code(interrupted: bool, failed: bool) -> u8 {
    match (interrupted, failed) {
        (true, _) => INTERRUPTED,
        (false, true) => FAILED,
        (false, false) => DONE,
    }
}

/// Width of files, and of a terminal whose width is unknown.
const WIDTH: usize = 80;

/// A number with its noun: `1 case`, `2 cases`
pub fn counted(count: usize, word: &str) -> String {
    quantity::counted(count as u64, word)
}

/// An error that ends lasthop with an exit code other than 0.
#[derive(Debug)]
pub struct CliError {
    pub code: u8,
    pub text: String,
}

impl CliError {
    pub fn failed(cause: impl ToString) -> Self {
        Self {
            code: FAILED,
            text: cause.to_string(),
        }
    }

    pub fn usage(cause: impl ToString) -> Self {
        Self {
            code: USAGE,
            text: cause.to_string(),
        }
    }

    pub fn interrupted(cause: impl ToString) -> Self {
        Self {
            code: INTERRUPTED,
            text: cause.to_string(),
        }
    }
}

/// Assigns an exit code to an error of another crate.
pub trait OrExit<T> {
    /// Ends lasthop with [`FAILED`].
    fn or_failed(self) -> Result<T, CliError>;

    /// Ends lasthop with [`USAGE`].
    fn or_usage(self) -> Result<T, CliError>;
}

impl<T, E: ToString> OrExit<T> for Result<T, E> {
    fn or_failed(self) -> Result<T, CliError> {
        self.map_err(CliError::failed)
    }

    fn or_usage(self) -> Result<T, CliError> {
        self.map_err(CliError::usage)
    }
}

/// Colours and width for standard output.
pub fn terminal() -> lasthop_page::Options {
    lasthop_page::Options {
        color: is_styled(&io::stdout()),
        width: width(),
        verbose: false,
        unicode: speaks_unicode(),
    }
}

/// Whether the locale uses UTF-8, by the first of its variables that is set.
fn speaks_unicode() -> bool {
    // In the order of POSIX: an earlier variable overrides later ones.
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
        .unwrap_or_default();
    let locale = locale.to_string_lossy().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Whether to colour a stream, by `NO_COLOR` and by whether the stream is a terminal.
pub fn is_styled(stream: &impl anstream::stream::RawStream) -> bool {
    anstream::AutoStream::choice(stream) != anstream::ColorChoice::Never
}

/// Columns of the terminal: at least 40, for tables, and at most 110, for readable lines.
pub fn width() -> usize {
    if !io::stdout().is_terminal() {
        return WIDTH;
    }
    rustix::termios::tcgetwinsize(io::stdout())
        .map_or(WIDTH, |size| usize::from(size.ws_col))
        .clamp(40, 110)
}

/// Whether lasthop began with a closed standard output. Rust opens `/dev/null` in its place, where a result would be
/// lost silently.
pub static OUTPUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Writes to standard output, with control characters removed. A reader that closes early (`| head`) is no error.
pub fn print(bytes: &[u8]) -> Result<(), CliError> {
    if OUTPUT_IS_CLOSED.load(Ordering::Relaxed) {
        return Err(CliError::failed("cannot write the result: standard output is closed"));
    }
    let text = text::screen(&String::from_utf8_lossy(bytes));
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CliError::failed(format!("cannot write the result: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a message to standard error, with control characters removed. Errors are ignored, because there is nobody to
/// tell.
pub fn talk(text: &str) {
    let text = text::talk(text);
    let _ = writeln!(
        io::stderr(),
        "{}",
        if speaks_unicode() { text } else { text::ascii(&text) }
    );
}

/// Whether there is a user to ask.
pub fn can_ask() -> bool {
    io::stdin().is_terminal()
}

/// Asks a yes-or-no question. An empty answer means no.
pub fn agreed(question: &str) -> bool {
    talk(question);
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}

/// Checks that a result can be written to the requested file, before anything is started for it.
pub fn writable(file: Option<&Path>) -> Result<(), CliError> {
    let Some(path) = file else { return Ok(()) };
    let there = files::facts(path);
    // Opening a pipe would wait for its reader.
    if there.as_ref().is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return Ok(());
    }
    // Opened without truncation: an older report stays until there is a new one.
    named::open(path).map_err(|error| not_written(path, &error))?;
    match there {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::remove_file(path).map_err(|error| not_written(path, &error))
        }
        _ => Ok(()),
    }
}

/// Writes the output of `bytes` to a file, or to standard output.
pub fn deliver_bytes(
    file: Option<&Path>,
    verbose: bool,
    bytes: impl Fn(&lasthop_page::Options) -> Vec<u8>,
) -> Result<(), CliError> {
    let Some(path) = file else {
        return print(&bytes(&lasthop_page::Options { verbose, ..terminal() }));
    };
    let plain = lasthop_page::Options {
        verbose,
        ..lasthop_page::Options::default()
    };
    named::write(path, &bytes(&plain)).map_err(|error| not_written(path, &error))
}

pub fn not_written(path: &Path, error: &std::io::Error) -> CliError {
    CliError::failed(format!("cannot write {}: {error}", path.display()))
}

/// The formats of a result that is no run.
pub const OF_DOCUMENTS: [Format; 4] = [Format::Terminal, Format::Markdown, Format::Html, Format::Json];
/// The formats of a result that has rows, but no trials of one run.
pub const OF_ROWS: [Format; 5] = [
    Format::Terminal,
    Format::Markdown,
    Format::Html,
    Format::Json,
    Format::Csv,
];

/// Checks that a result can be written in a format.
pub fn is_a_format(what: &str, format: Format, known: &[Format]) -> Result<(), CliError> {
    if known.contains(&format) {
        return Ok(());
    }
    let names = |formats: &[Format]| {
        let named = Format::ALL.into_iter().filter(|(format, ..)| formats.contains(format));
        quantity::joined(named.map(|(_, name, _)| name), ", ")
    };
    let (wanted, known) = (names(&[format]), names(known));
    Err(CliError::usage(format!(
        "{what} has no format `{wanted}`; use one of {known}"
    )))
}

/// Prints a result that is no run, as a document or as its own JSON.
pub fn print_document(
    result: &impl Serialize,
    document: &Document,
    format: Format,
    verbose: bool,
) -> Result<(), CliError> {
    let options = lasthop_page::Options { verbose, ..terminal() };
    print(&document_bytes(result, document, format, &options))
}

/// A result that is no run, as a document or as its own JSON.
pub fn document_bytes(
    result: &impl Serialize,
    document: &Document,
    format: Format,
    options: &lasthop_page::Options,
) -> Vec<u8> {
    match format {
        Format::Json => text::json(result),
        Format::Markdown => lasthop_page::document_markdown(document),
        Format::Html => lasthop_page::html::document(document),
        _ => lasthop_page::document_terminal(document, options),
    }
}
