//! Messages of lasthop that need nothing but files and arguments, whole, on pages that a person reads.
//!
//! A page is a document of this folder. A shell runs the commands of its blocks one after the other in an empty data
//! folder. Below a command stand the exit code that is not 0 and the output: `? 2`, or `? 2 with output` if the command
//! wrote to standard output, too.
//!
//! `LASTHOP_GENERATE=1 cargo test --test messages` writes what lasthop prints now into the pages.

#[path = "../common/mod.rs"]
mod common;

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

use common::Lasthop;
use similar::TextDiff;

/// Programs beside lasthop on the PATH of a page, which has no server and no package manager.
const TOOLS: [&str; 6] = ["cat", "chmod", "cp", "mkdir", "rm", "sed"];

/// Seconds after which a command is ended, with exit code 124.
const LONGEST: &str = "120";

fn pages() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = files.filter(|path| path.extension() == Some("md".as_ref())).collect();
    pages.sort();
    assert!(!pages.is_empty());
    pages
}

/// Runs the commands of a page. Returns the page with the output of today, and the commands whose output differs.
fn played(page: &Path, kept: &str) -> (String, String) {
    let lasthop = Lasthop::without_environments();
    let bin = lasthop.home().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_lasthop"), bin.join("lasthop")).unwrap();
    for tool in TOOLS {
        symlink(Path::new("/bin").join(tool), bin.join(tool)).unwrap();
    }
    let (mut today, mut different) = (String::new(), String::new());
    let mut in_block = false;
    let mut lines = kept.lines().zip(1..).peekable();
    while let Some((line, number)) = lines.next() {
        today += &format!("{line}\n");
        in_block ^= line.starts_with("```");
        let Some(command) = line.strip_prefix("$ ").filter(|_| in_block) else {
            continue;
        };
        let mut shown = String::new();
        while let Some((line, _)) = lines.next_if(|(line, _)| !line.starts_with("$ ") && !line.starts_with("```")) {
            shown += &format!("{line}\n");
        }
        let printed = printed(&lasthop, command);
        if shown != printed {
            let diff = TextDiff::from_lines(&shown, &printed).unified_diff().to_string();
            different += &format!("{}:{number}: $ {command}\n{diff}\n", page.display());
        }
        today += &printed;
    }
    (today, different)
}

/// The exit code of a command that is not 0, and everything that the command prints.
fn printed(lasthop: &Lasthop, command: &str) -> String {
    // lasthop says more about files that other accounts can write.
    let command = format!("umask 022; {command}");
    let home = lasthop.home().canonicalize().unwrap().display().to_string();
    let output = Command::new("/usr/bin/timeout")
        .args([LONGEST, "/bin/sh", "-c", &command])
        .current_dir(&home)
        .env_clear()
        .env("LASTHOP_HOME", &home)
        .env("LASTHOP_SANDBOX", lasthop.sandboxes())
        .env("LC_ALL", "C.UTF-8")
        .env("NO_COLOR", "1")
        .env("PATH", format!("{home}/bin"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let code = match output.status.code() {
        Some(0) => String::new(),
        Some(code) if output.stdout.is_empty() => format!("? {code}\n"),
        code => format!("? {} with output\n", code.unwrap_or(-1)),
    };
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (code + &stdout + &stderr).replace(&home, "[HOME]")
}

#[test]
fn every_message_is_the_one_that_its_page_shows() {
    let compared = |page: &PathBuf| {
        let kept = fs::read_to_string(page).unwrap();
        let (today, different) = played(page, &kept);
        if env::var_os("LASTHOP_GENERATE").is_none() {
            return different;
        }
        fs::write(page, today).unwrap();
        String::new()
    };
    let pages = pages();
    let different: String = thread::scope(|scope| {
        let running: Vec<_> = pages.iter().map(|page| scope.spawn(|| compared(page))).collect();
        running.into_iter().map(|page| page.join().unwrap()).collect()
    });
    assert!(different.is_empty(), "{different}");
}
