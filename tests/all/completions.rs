//! A shell completes what only lasthop knows: experiments, their factors and levels, runs.

use crate::common;

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
};

use common::{Lasthop, have};

/// bash at a terminal, where `lasthop` prints what it would have been asked once the line is complete.
struct Typed {
    bash: Child,
    keys: ChildStdin,
    screen: BufReader<Box<dyn Read>>,
}

impl Typed {
    fn new(lasthop: &Lasthop) -> Self {
        let bin = lasthop.home().join("bin");
        fs::create_dir(&bin).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lasthop"), bin.join("lasthop")).unwrap();
        fs::write(
            lasthop.home().join("completions"),
            lasthop.run(["completions", "bash"]).ok().stdout,
        )
        .unwrap();
        let path = std::env::join_paths(
            [bin]
                .into_iter()
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let mut command = Command::new("script");
        command
            .args(["-qec", "bash --norc --noprofile -i", "/dev/null"])
            .env("PATH", path.unwrap());
        command
            .env("LASTHOP_HOME", lasthop.home())
            .env("TERM", "dumb")
            .env("INPUTRC", "/dev/null");
        command.env_remove("LASTHOP_COMPLETE").current_dir(lasthop.home());
        let mut bash = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let keys = bash.stdin.take().unwrap();
        let screen = BufReader::new(Box::new(bash.stdout.take().unwrap()) as Box<dyn Read>);
        let mut typed = Self { bash, keys, screen };
        typed.enters(
            "source completions; lasthop() { echo \"asked: $*.\"; }; echo rea''dy",
            "ready",
        );
        typed
    }

    /// Types a line, and reads until a line begins with this text.
    fn enters(&mut self, line: &str, until: &str) -> String {
        self.keys.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut screen = String::new();
        loop {
            let mut read = String::new();
            assert!(
                self.screen.read_line(&mut read).unwrap() > 0,
                "bash has ended: {screen}"
            );
            if let Some(rest) = read.trim_end().strip_prefix(until) {
                return rest.to_owned();
            }
            screen.push_str(&read);
        }
    }

    #[track_caller]
    fn becomes(&mut self, typed: &str, asked: &str) {
        assert_eq!(self.enters(typed, "asked: "), format!("{asked}."), "after {typed:?}");
    }
}

impl Drop for Typed {
    fn drop(&mut self) {
        let _ = self.keys.write_all(b"exit\n");
        let _ = self.bash.wait();
    }
}

#[test]
fn bash_completes_experiments_factors_levels_runs_and_checks() {
    if !have("script") || !have("bash") {
        return;
    }
    let lasthop = Lasthop::new();
    let run = [
        "run",
        "sockets",
        "--only",
        "pattern=echo",
        "--budget",
        "2s",
        "--rounds",
        "1",
        "--blocks",
        "2",
        "-q",
    ];
    lasthop.run(run).ok();
    let name = lasthop.runs()[0].file_name().unwrap().to_str().unwrap().to_owned();
    lasthop.run(["new", "my-stack"]).ok();
    let mut typed = Typed::new(&lasthop);
    typed.becomes("lasthop show nginx-gunicorn-c\t", "show nginx-gunicorn-containers");
    typed.becomes("lasthop run ./my\t", "run ./my-stack/");
    typed.becomes("lasthop run --only transp\tun\t", "run --only transport=unix");
    typed.becomes(
        "lasthop run pgpool --set aut\ttr\t--bud\t9s",
        "run pgpool --set auth=trust --budget 9s",
    );
    typed.becomes(
        "lasthop run sockets --only=transport=unix,tl\t",
        "run sockets --only=transport=unix,tls",
    );
    typed.becomes(
        "lasthop run ./my-stack --set connections=4,\t",
        "run ./my-stack --set connections=4,1",
    );
    typed.becomes("lasthop report 2\t", &format!("report {name}"));
    typed.becomes("lasthop export las\t", "export last");
    typed.becomes("lasthop repro dr-knz-2020-po\t", "repro dr-knz-2020-postgres");
    typed.becomes("lasthop explain-check little\t", "explain-check littles-law");
}

/// Names of levels, folders and runs may be a stranger's, and what TAB inserts is executed with the next key.
#[test]
fn bash_quotes_what_it_completes() {
    if !have("script") || !have("bash") {
        return;
    }
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine"]).ok();
    let definition = lasthop.home().join("mine/experiment.toml");
    let text = fs::read_to_string(&definition).unwrap();
    let factor =
        "[factors.word]\nhelp = \"x\"\nlevels = [\"plain\", \"$(touch PWNED)\", \"it's; touch PWNED\"]\n\n[services";
    let used = "[load.http]\nheaders = { X-Word = \"{{ word }}\" }";
    fs::write(
        &definition,
        text.replacen("[services", factor, 1).replacen("[load.http]", used, 1),
    )
    .unwrap();
    fs::create_dir_all(lasthop.home().join("runs")).unwrap();
    for name in ["9$(touch${IFS}PWNED)", "8`touch PWNED`", "7;touch PWNED", "6 6"] {
        let run = lasthop.home().join("runs").join(name);
        fs::create_dir(&run).unwrap();
        fs::write(run.join("run.json"), "{}").unwrap();
    }
    fs::create_dir(lasthop.home().join("odd $(touch PWNED)")).unwrap();
    let mut typed = Typed::new(&lasthop);
    typed.becomes(
        "lasthop run ./mine --only word=$\t",
        "run ./mine --only word=$(touch PWNED)",
    );
    typed.becomes(
        "lasthop run ./mine --only word=i\t",
        "run ./mine --only word=it's; touch PWNED",
    );
    typed.becomes("lasthop run ./mine --only word=p\t", "run ./mine --only word=plain");
    typed.becomes("lasthop run ./odd\t", "run ./odd $(touch PWNED)/");
    for name in ["9", "8", "7", "6"] {
        typed.becomes(&format!("lasthop report {name}\t"), &format!("report {name}"));
    }
    assert!(
        !lasthop.home().join("PWNED").exists(),
        "what was completed was executed"
    );
}
