//! Tests that a machine cannot run. `cargo test` alone starts no server but lasthop's own, and leaves out what the machine
//! lacks; `script/test` sets `LASTHOP_TEST`, which makes a test that cannot run a failure. `tests/left-out` says what was
//! left out.

use std::{io::Write as _, path::Path};

/// Whether tests may start the servers of others: only under `script/test`, which has installed them.
#[must_use]
pub fn servers() -> bool {
    under_script_test() || skip("cargo test starts no server but lasthop's own")
}

/// Whether a test may take tens of seconds: only under `script/test`, for which nobody waits.
#[must_use]
pub fn slow() -> bool {
    under_script_test() || skip("cargo test leaves out what takes tens of seconds")
}

fn under_script_test() -> bool {
    std::env::var_os("LASTHOP_TEST").is_some()
}

/// Whether a test that needs this program can run here.
#[must_use]
pub fn installed(program: &str) -> bool {
    let found = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path)
            .chain([Path::new("/usr/sbin").to_owned()])
            .any(|folder| folder.join(program).is_file())
    });
    found || skip(&format!("{program} is not installed; script/setup installs it"))
}

/// Leaves a test out: says why and is false. Under `script/test` only `LASTHOP_ALLOW_SKIP` permits that.
pub fn skip(reason: &str) -> bool {
    assert!(
        !under_script_test() || std::env::var_os("LASTHOP_ALLOW_SKIP").is_some(),
        "{reason} (or set LASTHOP_ALLOW_SKIP=1)"
    );
    leave_out(reason)
}

/// Like [`skip`], for what no machine needs to have.
pub fn leave_out(reason: &str) -> bool {
    // One list for each `cargo test`, whose child every test program is.
    let list = format!("left-out.{}", std::os::unix::process::parent_id());
    let list = Path::new(env!("CARGO_TARGET_TMPDIR")).join(list);
    let mut list = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(list)
        .unwrap();
    // One write, because other tests append beside this one.
    list.write_all(format!("{reason}\n").as_bytes()).unwrap();
    false
}
