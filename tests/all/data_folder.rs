//! The data folder is its owner's alone, and what another account could have put there is neither executed nor believed.

use crate::common;

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use common::{
    BRIEF, Lasthop, Ran, copy, engines::take_environment, have_setup, lacks, may_install, needs, output, shows, words,
};

use crate::other_users::{STRANGER, can_be_somebody_else};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Everything below a folder that somebody else than its owner may write.
fn loose(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let facts = path.symlink_metadata().unwrap();
        if !facts.is_symlink() && facts.mode() & 0o022 != 0 {
            found.push(path.clone());
        }
        if facts.is_dir() {
            found.extend(loose(&path));
        }
    }
    found
}

#[test]
fn the_data_folder_is_its_owners_alone_whatever_the_umask_is() {
    let lasthop = Lasthop::new();
    let home = lasthop.home().join("a/data");
    let with_umask = |arguments: &[&str]| {
        let plain = lasthop.command(arguments);
        let mut command = Command::new("sh");
        command.args(["-c", "umask 000; exec \"$@\"", "sh"]);
        command.arg(plain.get_program()).args(plain.get_args());
        take_environment(&mut command, &plain);
        command.env("LASTHOP_HOME", &home).current_dir(lasthop.home());
        Ran::from(command.output().unwrap()).ok()
    };
    let only = ["--only=transport=unix,tcp", "--only=pattern=echo"];
    with_umask(&[&["run", "sockets"], &BRIEF[..], &only].concat());
    with_umask(&["new", "mine"]);
    for folder in [home.parent().unwrap(), &home, &home.join("runs")] {
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700, "{}", folder.display());
    }
    assert_eq!(loose(&home), [] as [PathBuf; 0]);
    assert_eq!(loose(&lasthop.home().join("mine")), [] as [PathBuf; 0]);

    // That of an earlier version.
    set_mode(&home, 0o777);
    // The group of an ordinary user may have no other member.
    let is_root = rustix::process::geteuid().is_root();
    set_mode(&home.join("runs"), if is_root { 0o775 } else { 0o777 });
    let said = with_umask(&["runs"]).stderr;
    for folder in [&home, &home.join("runs")] {
        shows(&said, [&format!("note: others could write {};", folder.display())]);
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o755);
    }
    assert_eq!(with_umask(&["runs"]).stderr, "");
}

#[test]
fn what_another_account_could_have_put_into_the_data_folder_is_refused() {
    let lasthop = Lasthop::new();
    lasthop.run(["new", "sockets", "--from", "sockets"]).ok();
    let own = |kind: &str| lasthop.home().join(kind);
    for kind in ["experiments", "services", "python"] {
        let _ = fs::remove_file(own(kind));
        fs::create_dir(own(kind)).unwrap();
    }
    fs::rename(lasthop.home().join("sockets"), own("experiments/sockets")).unwrap();
    fs::rename(
        own("experiments/sockets/services/lasthop-serve"),
        own("services/lasthop-serve"),
    )
    .unwrap();
    fs::create_dir_all(own("python/redis/bin")).unwrap();
    fs::write(own("python/redis/bin/python"), "").unwrap();
    let show = |name: &str| lasthop.run(["show", name]);
    show("sockets").ok();
    lasthop.run(["doctor", "redis"]);
    let recipe = own("services/lasthop-serve/recipe.toml");
    let refused = |what: &str| {
        for ran in [show("sockets"), lasthop.run(["run", "sockets"])] {
            ran.fails(2, what);
        }
    };
    for path in [
        &recipe,
        &own("services/lasthop-serve"),
        &own("experiments/sockets/experiment.toml"),
    ] {
        let usual = path.metadata().unwrap().mode() & 0o777;
        set_mode(path, 0o777);
        refused(&format!(
            "other accounts can write {} (mode 0777, group ",
            path.display()
        ));
        set_mode(path, usual);
        if can_be_somebody_else() {
            chown(path, Some(STRANGER), Some(STRANGER)).unwrap();
            refused(&format!(
                "{} belongs to another account (user {STRANGER}, mode ",
                path.display()
            ));
            chown(path, Some(0), Some(0)).unwrap();
        }
    }
    show("sockets").ok();
    let python = own("python/redis/bin/python");
    set_mode(&python, 0o666);
    lasthop.run(["doctor", "redis"]).fails(1, "other accounts can write ");
    lasthop.run(["run", "redis"]).fails(1, "`chmod -R go-w ");
    set_mode(&python, 0o644);
    if can_be_somebody_else() {
        // The whole folder is a stranger's, as with another user's `LASTHOP_HOME`.
        chown(lasthop.home(), Some(STRANGER), Some(STRANGER)).unwrap();
        lasthop
            .run(["run", "redis"])
            .fails(1, &format!("belongs to another account (user {STRANGER}, "));
        chown(lasthop.home(), Some(0), Some(0)).unwrap();
    }
}

#[test]
fn root_is_warned_of_a_folder_that_another_account_may_change() {
    needs!(can_be_somebody_else());
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine"]).ok();
    let doctor = || lasthop.run(["doctor", "./mine"]).stderr;
    assert_eq!(doctor(), "");
    chown(lasthop.home().join("mine"), Some(STRANGER), Some(STRANGER)).unwrap();
    let said = doctor();
    shows(&said, ["warning: you are root, and another account may change what "]);
    lasthop.run(["list"]).ok();
}

#[test]
fn two_experiments_of_one_name_disturb_neither_each_others_packages_nor_records() {
    needs!(may_install());
    let lasthop = Lasthop::new();
    let folder = |name: &str| lasthop.home().join(name).join("sockets");
    for name in ["a", "b"] {
        fs::create_dir(lasthop.home().join(name)).unwrap();
        lasthop.run(["new", "sockets", "--from", "sockets"]).ok();
        fs::rename(lasthop.home().join("sockets"), folder(name)).unwrap();
        let path = folder(name).join("experiment.toml");
        let text = fs::read_to_string(&path).unwrap();
        let own = format!("[services.server]\npackages = {{ npm = [\"{name}@1.0.0\"] }}");
        assert!(text.contains("[services.server]"));
        fs::write(path, text.replace("[services.server]", &own)).unwrap();
    }
    let places = ["a/sockets", "b/sockets"].map(|name| {
        let planned = lasthop.run(["setup", &format!("./{name}"), "--dry-run"]);
        let place = planned.stdout.split("/npm/").nth(1).unwrap_or_default();
        place.split(' ').next().unwrap().to_owned()
    });
    assert!(places.iter().all(|place| place.starts_with("sockets-")), "{places:?}");
    assert_ne!(places[0], places[1]);

    // Each has a record; what asks for the newest of an experiment gets its own.
    for name in ["a", "b"] {
        let path = folder(name).join("experiment.toml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(
            &path,
            text.replace(&format!("packages = {{ npm = [\"{name}@1.0.0\"] }}"), ""),
        )
        .unwrap();
        let only = ["--only=transport=unix,tcp", "--only=pattern=echo"];
        let path = format!("./{name}/sockets");
        lasthop.run([&["run", &path], &BRIEF[..], &only].concat()).ok();
    }
    let [first, second] = &lasthop.runs()[..] else {
        panic!("no two runs")
    };
    let name = |record: &Path| record.file_name().unwrap().to_str().unwrap().to_owned();
    for (folder, own) in [("a", first), ("b", second)] {
        let shown = lasthop.run([
            "show",
            &format!("./{folder}/sockets"),
            "--only=transport=unix,tcp",
            "--only=pattern=echo",
        ]);
        let going_by = common::one_line(&shown.ok().stdout);
        let other = if own == first { second } else { first };
        assert!(!going_by.contains(&name(other)), "{going_by}");
    }
    lasthop.run(["runs", "--format", "html", "-o", "pages/"]).ok();
    let index = fs::read_to_string(lasthop.home().join("pages/index.html")).unwrap();
    shows(&index, [&name(second)]);
    lacks(&index, ["no change", "changed"]);
}

#[test]
fn pages_replace_pages_of_lasthop_only_and_follow_no_link() {
    let lasthop = Lasthop::new();
    let only = ["--only=transport=unix,tcp", "--only=pattern=echo"];
    lasthop.run([&["run", "sockets"], &BRIEF[..], &only].concat()).ok();
    let run = &lasthop.runs()[0];
    // A run with the name of the page of all runs.
    copy(run, &run.with_file_name("index"));
    let pages = lasthop.home().join("pages");
    let write = || lasthop.run(["runs", "--format", "html", "-o", "pages/"]);
    write().ok();
    write().ok();
    let read = |name: &str| fs::read_to_string(pages.join(name)).unwrap();
    assert!(read("index.html").contains("href=\"index~.html\"") && read("index~.html").contains("<h1>"));
    let victim = lasthop.home().join("victim");
    fs::write(&victim, "mine").unwrap();
    let of_run = format!("{}.html", run.file_name().unwrap().to_str().unwrap());
    for name in ["index.html", &of_run] {
        let page = read(name);
        fs::remove_file(pages.join(name)).unwrap();
        symlink(&victim, pages.join(name)).unwrap();
        write().fails(1, "it is a link, which lasthop does not follow");
        fs::remove_file(pages.join(name)).unwrap();
        fs::write(pages.join(name), "my notes").unwrap();
        write().fails(1, "lasthop did not make the file that is there");
        assert_eq!(read(name), "my notes");
        fs::write(pages.join(name), page).unwrap();
    }
    write().ok();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    // A file that is named is the user's choice, and a link to it as well, where nobody else could have made it.
    symlink(&victim, lasthop.home().join("link.html")).unwrap();
    lasthop
        .run(["report", "last", "--format", "html", "-o", "link.html"])
        .ok();
    assert!(fs::read_to_string(&victim).unwrap().contains("<!doctype html>"));
    fs::write(&victim, "mine").unwrap();
    let shared = lasthop.home().join("shared");
    fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o777);
    symlink(&victim, shared.join("link.html")).unwrap();
    for command in [
        "report last --format html",
        "runs --format html",
        "survey --for 10ms --format html",
    ] {
        let words = command.split(' ').chain(["-o", "shared/link.html"]);
        lasthop
            .run(words)
            .fails(1, "it is a link, and other accounts can write shared");
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
}

/// What Go keeps below a folder, file by file.
fn objects(folder: &Path) -> BTreeSet<String> {
    let folders = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
    files.map(|file| file.file_name().into_string().unwrap()).collect()
}

#[test]
fn go_compiles_its_library_once_and_only_where_nobody_else_can_write() {
    needs!(have_setup("nginx-go"));
    let lasthop = Lasthop::new();
    let [open, own] = ["open", "cache/go"].map(|name| lasthop.home().join(name));
    fs::create_dir(&open).unwrap();
    set_mode(&open, 0o777);
    let run = || {
        let one = words("--only connections=1 --only reuse=keep-alive --rounds 1 --blocks 2");
        let shortly = words("run nginx-go --trial 20ms --budget 600s --no-headroom -q");
        output(lasthop.command([shortly, one].concat()).env("GOCACHE", &open));
        objects(&own)
    };
    let first = run();
    assert!(first.len() > 100, "the library is kept: {first:?}");
    assert!(objects(&open).is_empty(), "a folder that others can write to is used");
    // The server itself may be compiled anew, in another folder.
    let second = run();
    assert!(
        second.difference(&first).count() < 10 && first.is_subset(&second),
        "{:?}",
        second.difference(&first)
    );
}
