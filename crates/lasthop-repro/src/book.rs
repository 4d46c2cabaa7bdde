//! A folder of all studies.
//!
//! ```text
//! FOLDER/STUDY/result.json    a finished repetition; if present, the study is not repeated
//! FOLDER/STUDY/runs/…         its records, as of any run; an interrupted repetition continues with them
//! FOLDER/book.md, book.json   rewritten after each study
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use lasthop_page::text::json;
use lasthop_system::{files, named};

use super::{outcome::Repetition, page};
use crate::study::model::Study;

/// The beginning of the book's Markdown.
const HEADING: &str = "# The studies, repeated\n\n";

/// The folder of a book.
#[derive(Clone, Debug)]
pub struct Book(PathBuf);

/// A file of the book cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {cause}", path = path.display())]
pub struct BookError {
    pub path: PathBuf,
    pub cause: io::Error,
}

impl Book {
    pub fn at(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// The folder of a study's records and result.
    pub fn folder(&self, study: &str) -> PathBuf {
        self.0.join(study)
    }

    /// The finished repetition of a study; `None` if the format is that of an older lasthop.
    pub fn finished(&self, study: &Study) -> Option<Repetition> {
        let text = files::text(self.folder(&study.name).join("result.json")).ok()?;
        Repetition::read(&text, study).ok()
    }

    /// The time when a study's result was last written; the epoch if never.
    pub fn kept(&self, study: &str) -> SystemTime {
        let result = files::facts(self.folder(study).join("result.json"));
        result
            .and_then(|file| file.modified())
            .unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Writes a finished repetition.
    pub fn keep(&self, result: &Repetition) -> Result<(), BookError> {
        write(&self.folder(&result.study).join("result.json"), &json(result), is_json)
    }

    /// Writes the book of these repetitions. Returns the paths of its two files.
    pub fn write(&self, results: &[Repetition]) -> Result<[PathBuf; 2], BookError> {
        let mut text = HEADING.as_bytes().to_vec();
        for result in results {
            text.extend(lasthop_page::document_markdown(&page::document(result)));
            text.push(b'\n');
        }
        let files = [self.0.join("book.md"), self.0.join("book.json")];
        write(&files[0], &text, |head| head.starts_with(HEADING.as_bytes()))?;
        write(&files[1], &json(&results), is_json)?;
        Ok(files)
    }
}

/// Whether a file begins like a repetition or a list of repetitions.
fn is_json(head: &[u8]) -> bool {
    head.starts_with(b"[]") || String::from_utf8_lossy(head).contains("\"lasthop-repro/")
}

/// Writes a file. Overwrites an existing file only if `is_made` recognizes its beginning as lasthop's own.
fn write(path: &Path, bytes: &[u8], is_made: fn(&[u8]) -> bool) -> Result<(), BookError> {
    let failed = |cause| BookError {
        path: path.to_owned(),
        cause,
    };
    fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    named::replace(path, bytes, is_made).map_err(failed)
}
