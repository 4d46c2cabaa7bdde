//! What another user of the machine can do to `lasthop survey`.

use std::{
    collections::HashSet,
    fs, io,
    net::{TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use lasthop_system::process::{descendants, kill_descendants};
use serde_json::Value;

use crate::{
    common::{Lasthop, Ran, engines::take_environment, skip},
    compare::folder,
    driver_at::have_namespaces,
    other_users::{STRANGER, can_be_somebody_else},
    survey::{links_of, the_only},
};

/// A connection of this process, and the survey that shows it.
fn survey_of(lasthop: &Lasthop, address: &str) -> Command {
    lasthop.command([
        "survey", "--for", "100ms", "--quiet", "--format", "json", "--only", address,
    ])
}

#[track_caller]
fn seen(command: &mut Command) -> (Value, Vec<String>) {
    let seen = Ran::from(command.output().unwrap()).ok().json();
    let missing = seen["missing"].as_array().unwrap().iter();
    let missing = missing.map(|sentence| sentence.as_str().unwrap().to_owned()).collect();
    (seen, missing)
}

/// More than are looked into, and more than there are files for.
#[test]
fn a_user_with_many_network_namespaces_hides_no_link_of_others() {
    const MANY: usize = 70;
    const FILES: u64 = 200;
    if !can_be_somebody_else() || !have_namespaces() {
        return;
    }
    let each = "unshare --user --net sleep 1000 &".repeat(MANY);
    let mut stranger = Command::new("sh")
        .args(["-c", &format!("{each} wait")])
        .uid(STRANGER)
        .gid(STRANGER)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = stranger.id() as i32;
    let deadline = Instant::now() + Duration::from_secs(60);
    let namespaces = || {
        let all = descendants(pid).into_iter();
        all.filter_map(|pid| fs::read_link(format!("/proc/{pid}/ns/net")).ok())
            .collect::<HashSet<_>>()
            .len()
    };
    // With the one that all share.
    while namespaces() <= MANY && !descendants(pid).is_empty() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(10));
    }
    let has_all = namespaces() == MANY + 1 || namespaces() == MANY;
    if has_all {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _client = (TcpStream::connect(address).unwrap(), listener.accept().unwrap());
        let (lasthop, address) = (Lasthop::new(), address.to_string());
        let limited = |files: u64| {
            let mut command = survey_of(&lasthop, &address);
            let limit = libc::rlimit {
                rlim_cur: files,
                rlim_max: files,
            };
            let limits = move || match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            };
            // SAFETY: the closure makes one system call; it takes no lock and allocates nothing.
            unsafe { command.pre_exec(limits) };
            command
        };
        for (files, why) in [
            (
                4096,
                format!("user {STRANGER} has made more than the 64 that lasthop looks into"),
            ),
            (FILES, format!("lasthop may open no more than {FILES} files")),
        ] {
            let (seen, missing) = seen(&mut limited(files));
            let links = links_of(&seen);
            let link = &the_only(&links).link;
            assert!(
                link["client"]["name"].is_string() && link["server"]["name"].is_string(),
                "{link:#}"
            );
            assert!(missing.iter().any(|sentence| sentence.contains(&why)), "{missing:#?}");
        }
    }
    kill_descendants(pid);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    if !has_all {
        skip("this machine lets no user make network namespaces");
    }
}

/// A mount option of `/proc`.
#[test]
fn processes_that_are_not_even_listed_are_said_to_be_missing() {
    if !can_be_somebody_else() || !have_namespaces() {
        return;
    }
    let (lasthop, place) = (Lasthop::new(), folder());
    let program = place.path().join("lasthop");
    fs::copy(env!("CARGO_BIN_EXE_lasthop"), &program).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let wanted = survey_of(&lasthop, "no such name");
    let survey = |options: &str| {
        let as_stranger = format!(
            "mount -t proc -o {options} proc /proc && setpriv --reuid={STRANGER} --regid={STRANGER} --clear-groups \"$@\""
        );
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--fork", "sh", "-c", &as_stranger, "sh"])
            .arg(&program)
            .args(["survey", "--for", "100ms", "--quiet", "--format", "json"]);
        take_environment(&mut command, &wanted);
        command.current_dir("/");
        let (_, missing) = seen(&mut command);
        missing.iter().any(|sentence| sentence.contains("hidepid"))
    };
    assert!(survey("hidepid=2"));
    assert!(!survey("hidepid=0"));
}
