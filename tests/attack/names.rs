//! Folder names that trip up shells, templates and terminals.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::Path,
    time::Duration,
};

use lasthop_stats::random::Draws;

use crate::{arena::Arena, common::copy, draw::pick, ended::finish, kills::quick, tried::Tried};

const BOUND: Duration = Duration::from_secs(200);
const MEMORY: u64 = 500_000_000;
/// A file that a shell creates if it executes a part of a name.
const CANARY: &str = "lasthop-canary";

const NAMES: [&[u8]; 12] = [
    b"two words",
    b"it's",
    b"say \"hi\"",
    b";touch lasthop-canary;",
    b"$(touch lasthop-canary)",
    b"`touch lasthop-canary`",
    b"line\nend",
    b"{{ 7 * 7 }}",
    b"-rf",
    b"esc\x1b[2J\x07",
    b"not \xff UTF-8",
    b"100%s #$HOME;",
];

#[derive(Clone, Copy, Debug)]
enum Place {
    Home,
    Sandboxes,
    Experiment,
    Output,
}

pub fn name(arena: &mut Arena, draws: &mut Draws) -> Vec<Tried> {
    let hostile = OsStr::from_bytes(pick::<&[u8]>(draws, &NAMES));
    let place = *pick(
        draws,
        &[Place::Home, Place::Sandboxes, Place::Experiment, Place::Output],
    );
    let subject = quick(draws);
    let mut tried = Tried::new("name", subject.experiment, format!("{place:?} named {hostile:?}"));
    let top = arena.world.root().join("n");
    let folder = top.join(hostile);
    fs::create_dir_all(&folder).unwrap();
    let mut words: Vec<&OsStr> = subject.words(arena.world.engine).into_iter().map(OsStr::new).collect();
    let (experiment, output) = (folder.join("x"), folder.join("report"));
    match place {
        Place::Experiment => {
            let built_in = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("experiments")
                .join(subject.experiment);
            copy(&built_in, &experiment);
        }
        Place::Home => symlink(arena.world.lasthop.home().join("python"), folder.join("python")).unwrap(),
        _ => {}
    }
    match place {
        Place::Experiment => words[1] = experiment.as_os_str(),
        Place::Output => words.extend([OsStr::new("-o"), output.as_os_str()]),
        _ => {}
    }
    let mut command = arena.world.lasthop(&[]);
    command.args(words);
    match place {
        Place::Home => drop(command.env("LASTHOP_HOME", &folder)),
        Place::Sandboxes => drop(command.env("LASTHOP_SANDBOX", &folder)),
        _ => {}
    }
    open(arena.world.root());
    let ended = finish(&mut command, &arena.world.root().join("said"), BOUND);
    tried.ended = ended.shown();
    ended.judge(&mut tried, MEMORY);
    if matches!(place, Place::Output) && ended.code == Some(0) && !output.exists() {
        tried.wrong("the report is not where it was wanted");
    }
    for place in [
        &top,
        arena.world.lasthop.home(),
        arena.world.lasthop.sandboxes(),
        &arena.at("/"),
        &arena.at("/tmp"),
    ] {
        if has_canary(place, 6) {
            tried.wrong(format!("a shell ran a part of the name, below {}", place.display()));
        }
    }
    if matches!(place, Place::Sandboxes) && fs::read_dir(&folder).unwrap().next().is_some() {
        tried.wrong("left: a sandbox");
    }
    fs::remove_dir_all(&top).unwrap();
    arena
        .world
        .lasthop
        .runs()
        .iter()
        .for_each(|run| fs::remove_dir_all(run).unwrap());
    tried.left(arena.left(false));
    vec![tried]
}

/// Opens the folder to servers that do not run as root.
fn open(root: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(root, fs::Permissions::from_mode(0o711)).unwrap();
}

fn has_canary(folder: &Path, depth: u32) -> bool {
    if folder.join(CANARY).symlink_metadata().is_ok() {
        return true;
    }
    // The canary may be in the root of the file system, but that is not searched further.
    if depth == 0 || folder.ends_with("root") || folder == Path::new("/") {
        return false;
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.into_iter().any(|entry| has_canary(&entry.path(), depth - 1))
}
