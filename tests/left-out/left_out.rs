//! What the tests of this `cargo test` left out, and the command that runs it.

#![expect(clippy::print_stdout, reason = "the list is for the person at the terminal")]

use std::{collections::BTreeMap, fs, path::Path};

fn main() {
    let list = format!("left-out.{}", std::os::unix::process::parent_id());
    let list = Path::new(env!("CARGO_TARGET_TMPDIR")).join(list);
    let text = fs::read_to_string(&list).unwrap_or_default();
    let mut reasons = BTreeMap::<&str, usize>::new();
    for reason in text.lines() {
        *reasons.entry(reason).or_default() += 1;
    }
    if reasons.is_empty() {
        return;
    }
    println!("Left out:");
    for (reason, tests) in reasons {
        println!("{tests:5}  {reason}");
    }
    if std::env::var_os("LASTHOP_TEST").is_none() {
        println!("script/test installs what these need and runs them, too (as root, in an hour).");
    }
    // A list without this program's end stays until `cargo clean`.
    let _ = fs::remove_file(list);
}
