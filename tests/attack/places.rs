//! Full, read-only and missing places, and small limits.

use std::time::Duration;

use lasthop_stats::random::Draws;

use crate::{
    arena::Arena,
    draw::{between, pick},
    ended::{finish, short},
    kills::{SUBJECTS, Subject, quick},
    tried::{Record, Resumed, Tried},
};

/// The longest time for a run at a bad place, and its report and resumption at a good one, on a busy machine.
const BOUND: Duration = Duration::from_secs(400);

/// Shell code around `lasthop run`, in its own mount namespace. `$N` is drawn.
struct Place {
    name: &'static str,
    between: (u32, u32),
    before: &'static str,
    /// Words before the command.
    prefix: &'static str,
    /// Additional options of the run.
    words: &'static str,
    after: &'static str,
}

const fn place(name: &'static str, between: (u32, u32), before: &'static str, after: &'static str) -> Place {
    Place {
        name,
        between,
        before,
        prefix: "",
        words: "",
        after,
    }
}

const fn limit(name: &'static str, between: (u32, u32), prefix: &'static str) -> Place {
    Place {
        name,
        between,
        before: "",
        prefix,
        words: "",
        after: "",
    }
}

const FEW_PROCESSES: &str = "few processes of another user";
const LOST_NAMESPACE: &str = "the driver's network namespace taken away, ms";

const PLACES: [Place; 17] = [
    place(
        "records on a full disk, kB",
        (8, 400),
        r#"mount -t tmpfs -o size=${N}k tmpfs "$LASTHOP_HOME/runs""#,
        r#"mount -o remount,size=1g "$LASTHOP_HOME/runs""#,
    ),
    place(
        "records where files are few",
        (2, 80),
        r#"mount -t tmpfs -o nr_inodes=$N tmpfs "$LASTHOP_HOME/runs""#,
        r#"mount -o remount,nr_inodes=0 "$LASTHOP_HOME/runs""#,
    ),
    place(
        "read-only records",
        (0, 0),
        r#"mount --bind "$LASTHOP_HOME/runs" "$LASTHOP_HOME/runs"; mount -o remount,bind,ro "$LASTHOP_HOME/runs""#,
        r#"umount "$LASTHOP_HOME/runs""#,
    ),
    place(
        "a sandbox on a full disk, kB",
        (16, 3000),
        r#"mount -t tmpfs -o size=${N}k,mode=711 tmpfs "$LASTHOP_SANDBOX""#,
        r#"mount -o remount,size=1g "$LASTHOP_SANDBOX""#,
    ),
    place(
        "a sandbox where files are few",
        (2, 80),
        r#"mount -t tmpfs -o nr_inodes=$N,mode=711 tmpfs "$LASTHOP_SANDBOX""#,
        r#"mount -o remount,nr_inodes=0 "$LASTHOP_SANDBOX""#,
    ),
    place(
        "a read-only sandbox",
        (0, 0),
        r#"mount --bind "$LASTHOP_SANDBOX" "$LASTHOP_SANDBOX"; mount -o remount,bind,ro "$LASTHOP_SANDBOX""#,
        r#"umount "$LASTHOP_SANDBOX""#,
    ),
    place(
        "a folder that is gone",
        (0, 0),
        "mkdir /tmp/gone; cd /tmp/gone; rmdir /tmp/gone",
        "cd /",
    ),
    place(
        "no folder for temporary files",
        (0, 0),
        "export TMPDIR=/nowhere XDG_RUNTIME_DIR=nowhere",
        "unset TMPDIR XDG_RUNTIME_DIR",
    ),
    place(
        "the sandbox taken away, ms",
        (100, 3000),
        r#"(sleep $(printf '%d.%03d' $((N/1000)) $((N%1000))); rm -rf "$LASTHOP_SANDBOX"/*) & "#,
        "wait",
    ),
    place(
        "the records taken away, ms",
        (100, 3000),
        r#"(sleep $(printf '%d.%03d' $((N/1000)) $((N%1000))); rm -rf "$LASTHOP_HOME"/runs/*) & "#,
        "wait",
    ),
    Place {
        name: LOST_NAMESPACE,
        between: (100, 4000),
        before: "ip netns add lost; ip link add lha type veth peer name lhb netns lost; \
                 ip address add 198.51.100.1/30 dev lha; ip link set lha up; \
                 ip -n lost address add 198.51.100.2/30 dev lhb; ip -n lost link set lhb up; \
                 (sleep $(printf '%d.%03d' $((N/1000)) $((N%1000))); ip netns delete lost; ip link delete lha) &",
        prefix: "",
        words: "--driver-at netns:lost --only transport=tcp",
        after: "wait",
    },
    limit("few open files", (4, 200), "prlimit --nofile=$N:$N"),
    limit("short files, bytes", (100, 60_000), "prlimit --fsize=$N:$N"),
    limit(
        "a small stack, kB",
        (64, 1024),
        "prlimit --stack=$((N * 1024)):$((N * 1024))",
    ),
    limit(
        "little memory, MB",
        (16, 600),
        "prlimit --as=$((N * 1048576)):$((N * 1048576))",
    ),
    limit(
        "no environment",
        (0, 0),
        r#"env -i LASTHOP_HOME="$LASTHOP_HOME" LASTHOP_SANDBOX="$LASTHOP_SANDBOX""#,
    ),
    Place {
        name: FEW_PROCESSES,
        between: (1, 12),
        before: r#"mkdir -p /tmp/other/home/runs /tmp/other/sandboxes; cp "$1" /tmp/other/lasthop
                   chown -R 60124:60124 /tmp/other; export LASTHOP_HOME=/tmp/other/home LASTHOP_SANDBOX=/tmp/other/sandboxes"#,
        prefix: "setpriv --reuid 60124 --regid 60124 --clear-groups prlimit --nproc=$N:$N /tmp/other/lasthop",
        words: "",
        // Another executable would count as another server.
        after: "chown -R 0:0 /tmp/other; lasthop=/tmp/other/lasthop",
    },
];

/// `run`, then the steps that a user takes next. Exit codes go to standard output, messages to files.
const SCRIPT: &str = r#"
lasthop=$1
say() { echo "$1 $2"; echo "--- $1"; tail -c 600 "$SAID.err"; echo "---"; }
BEFORE
PREFIX COMMAND >"$SAID.out" 2>"$SAID.err"; say run $?
{ :; AFTER
} >/dev/null 2>&1
for begun in "$LASTHOP_HOME"/runs/*/trials.jsonl; do [ -e "$begun" ] || exit 0; done
"$lasthop" report last --format json >"$SAID.out" 2>"$SAID.err"; say report $?
"$lasthop" resume last --format json -q >"$SAID.out" 2>"$SAID.err"; say resume $?
grep -q '"stopped": *"rounds"' "$SAID.out" && echo "complete 0"
"$lasthop" report last --format json >"$SAID.out" 2>"$SAID.err"; say again $?
"#;

pub fn put(arena: &mut Arena, draws: &mut Draws) -> Vec<Tried> {
    let place = pick(draws, &PLACES);
    let number = between(draws, place.between.0, place.between.1);
    let is_for_sockets = place.name == LOST_NAMESPACE || place.name == FEW_PROCESSES;
    let subject = if is_for_sockets { &SUBJECTS[0] } else { quick(draws) };
    vec![put_at(arena, place, number, subject)]
}

fn put_at(arena: &mut Arena, place: &Place, number: u32, subject: &Subject) -> Tried {
    let mut tried = Tried::new("place", subject.name(), format!("{} {number}", place.name));
    let said = arena.world.root().join("said");
    let program = if place.prefix.ends_with("/lasthop") {
        ""
    } else {
        "\"$lasthop\""
    };
    let words = words(subject, arena, place);
    let run = format!("{program} {words}");
    let text = SCRIPT
        .replace("BEFORE", place.before)
        .replace("PREFIX", place.prefix)
        .replace("COMMAND", &run)
        .replace("AFTER", place.after);
    let mut command = arena.script("unshare --mount sh -c \"$2\" place \"$1\"");
    command.arg(text).env("N", number.to_string()).env("SAID", &said);
    let ended = finish(&mut command, &arena.world.root().join("script"), BOUND);
    judge(&mut tried, &String::from_utf8_lossy(&ended.stdout), ended.code, place);
    if ended.code != Some(0) {
        tried.wrong(format!("the script: {}, {}", ended.shown(), short(&ended.stderr)));
    }
    tidy(arena);
    tried.left(arena.left(false));
    tried
}

/// Words of a short run. The user's own network namespace has only TCP.
fn words(subject: &Subject, arena: &Arena, place: &Place) -> String {
    let words = subject.words(arena.world.engine);
    let words = words
        .into_iter()
        .filter(|word| place.words.is_empty() || !word.starts_with("transport="));
    let mut words: Vec<&str> = words.collect();
    if !place.words.is_empty() {
        words.retain(|word| *word != "--only" && !word.starts_with("pattern="));
    }
    format!("{} {}", words.join(" "), place.words)
}

fn judge(tried: &mut Tried, said: &str, script: Option<i32>, place: &Place) {
    let code = |of: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(of)?.strip_prefix(' '));
        line.and_then(|code| code.parse::<i32>().ok())
    };
    let what = |of: &str| {
        let begin = said.find(&format!("--- {of}\n")).unwrap_or_default();
        short(said[begin..].split("\n---\n").next().unwrap_or_default().as_bytes())
    };
    tried.ended = code("run").map_or_else(|| format!("script {script:?}"), |code| format!("exit {code}"));
    // The kernel kills a process that writes beyond the limit of a file's size.
    let is_ended_by_limit = place.prefix.contains("--fsize") && code("run") == Some(128 + libc::SIGXFSZ);
    if !(matches!(code("run"), Some(0..=2 | 130)) || is_ended_by_limit) || said.contains("panicked") {
        tried.wrong(format!("run: {}", what("run")));
    }
    let Some(report) = code("report") else { return };
    tried.record = if report == 0 && code("again") == Some(0) {
        Record::Readable
    } else {
        Record::Broken
    };
    if tried.record == Record::Broken {
        tried.wrong(format!("report: {}; after resume: {}", what("report"), what("again")));
    }
    tried.resumed = match (code("resume"), code("complete")) {
        (Some(0 | 1), Some(0)) => Resumed::Complete,
        (Some(2), _) if what("resume").contains("is finished") => Resumed::None,
        _ => Resumed::Refused,
    };
    if tried.resumed == Resumed::Refused {
        tried.wrong(format!("resume: {}", what("resume")));
    }
}

/// Removes what the script made, and restores what it removed.
fn tidy(arena: &Arena) {
    let clear = r#"rm -rf /tmp/other "$LASTHOP_HOME"/runs/*; ip netns delete lost; ip link delete lha"#;
    let _ = arena.script(clear).output().unwrap();
    let _ = std::fs::create_dir(arena.world.lasthop.home().join("runs"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::{engines::have_engine, needs};

    #[test]
    fn where_no_thread_is_to_be_had_it_is_said() {
        needs!(have_engine("podman"));
        let mut arena = Arena::new("podman");
        let place = PLACES.iter().find(|place| place.name == FEW_PROCESSES).unwrap();
        for number in 1..=10 {
            let tried = put_at(&mut arena, place, number, &SUBJECTS[0]);
            assert_eq!(tried.wrong, "", "{}", tried.line());
        }
    }
}
