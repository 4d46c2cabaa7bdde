//! Attacks by another user of the machine on `lasthop survey`.

use std::{
    collections::HashSet,
    fs, io,
    net::{TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use lasthop_system::process::{descendants, kill_descendants};
use serde_json::Value;

use crate::{
    common::{Lasthop, Ran, engines::take_environment, list, needs, skip},
    compare::folder,
    driver_at::have_namespaces,
    other_users::{STRANGER, can_be_somebody_else},
    survey::{links_of, the_only},
};

/// A survey that shows a connection of this process.
fn survey_of(lasthop: &Lasthop, address: &str) -> Command {
    lasthop.command([
        "survey", "--for", "100ms", "--quiet", "--format", "json", "--only", address,
    ])
}

#[track_caller]
fn seen(command: &mut Command) -> (Value, Vec<String>) {
    let seen = Ran::from(command.output().unwrap()).ok().json();
    let missing = list(&seen["missing"]).iter();
    let missing = missing.map(|sentence| sentence.as_str().unwrap().to_owned()).collect();
    (seen, missing)
}

/// Another user's processes, each in its own network namespace.
struct Namespaces(Child);

impl Namespaces {
    /// Starts the processes; `None` if users cannot make namespaces on this machine.
    fn start(many: usize) -> Option<Self> {
        let each = "unshare --user --net sleep 1000 &".repeat(many);
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("{each} wait")])
            .uid(STRANGER)
            .gid(STRANGER);
        let mut stranger = Self(command.stderr(Stdio::null()).spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        while stranger.count() < many && stranger.0.try_wait().unwrap().is_none() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        (stranger.count() == many).then_some(stranger)
    }

    fn count(&self) -> usize {
        let all = descendants(self.0.id() as i32).into_iter();
        let namespaces: HashSet<_> = all
            .filter_map(|pid| fs::read_link(format!("/proc/{pid}/ns/net")).ok())
            .collect();
        namespaces.len()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        kill_descendants(self.0.id() as i32);
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// More namespaces than a survey looks into, and more than it can open files.
#[test]
fn a_user_with_many_network_namespaces_hides_no_link_of_others() {
    const FILES: u64 = 120;
    needs!(can_be_somebody_else(), have_namespaces());
    let Some(_stranger) = Namespaces::start(40) else {
        skip("this machine lets no user make network namespaces");
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let _ends = (TcpStream::connect(address).unwrap(), listener.accept().unwrap());
    let (lasthop, address) = (Lasthop::new(), address.to_string());
    let limited = |files: u64| {
        let mut command = survey_of(&lasthop, &address);
        let limit = libc::rlimit {
            rlim_cur: files,
            rlim_max: files,
        };
        // SAFETY: the call reads the limit, which lives as long as the closure.
        let set = move || match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        // SAFETY: the closure makes one system call; it takes no lock and allocates nothing.
        unsafe { command.pre_exec(set) };
        command
    };
    for (files, why) in [
        (
            4096,
            format!("user {STRANGER} has made more than the 32 that lasthop looks into"),
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

/// With the mount option of `/proc` that hides other users' processes.
#[test]
fn processes_that_are_not_even_listed_are_said_to_be_missing() {
    needs!(can_be_somebody_else(), have_namespaces());
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
