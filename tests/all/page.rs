//! The page of a run in a browser: real runs, made by this executable, opened in Chromium by `web/test.mjs`. And the
//! bundle that is embedded is that of `web/src`.

use crate::common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use common::{Lasthop, copy, have, have_setup, needs, skip, words};

const HOSTILE: &str = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1>";

fn web() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("web")
}

pub fn have_web() -> bool {
    let installed =
        web().join("node_modules").is_dir() || skip("web/node_modules is missing; script/setup installs it");
    installed && have("node") && have("chromium")
}

/// Runs a program of `web` to its end.
#[track_caller]
pub fn node(arguments: &[&str]) {
    let output = Command::new("timeout")
        .args(["300", "node"])
        .args(arguments)
        .current_dir(web())
        .output()
        .unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{arguments:?}:\n{}{}",
        said(&output.stdout),
        said(&output.stderr)
    );
}

/// The page of a run, in the home of its run.
fn page(lasthop: &Lasthop, name: &str, arguments: &[&str]) -> String {
    let path = lasthop.home().join(format!("{name}.html"));
    let path = path.to_str().unwrap().to_owned();
    let ran = lasthop.run(
        ["run"]
            .iter()
            .chain(arguments)
            .chain(&["--format", "html", "--output", &path]),
    );
    assert!(Path::new(&path).exists(), "{name} has no page: {}", ran.stderr);
    let printed = lasthop.run(["report", "last", "--format", "html"]).stdout;
    let policed = |page: &str| page.find("<script>").map(|at| page[at..].to_owned());
    let kept = fs::read_to_string(&path).unwrap();
    assert!(
        policed(&printed) == policed(&kept),
        "{name}: printed, its script is another"
    );
    path
}

#[test]
fn the_bundle_is_that_of_its_source() {
    needs!(have_web());
    let fresh = tempfile::tempdir().unwrap();
    node(&["build.mjs", fresh.path().to_str().unwrap()]);
    node(&["node_modules/.bin/tsc"]);
    for name in ["page.js", "page.css", "page.sha256", "tables.js", "tables.sha256"] {
        let read = |folder: &Path| fs::read_to_string(folder.join(name)).unwrap();
        assert!(
            read(fresh.path()) == read(&web().join("dist")),
            "web/dist/{name} is stale: run script/web"
        );
    }
}

#[test]
fn the_pages_of_real_runs_work() {
    needs!(have_web(), have_setup("postgres"));
    let lasthop = Lasthop::new();
    let page_of = |run: &str| {
        let run = format!("{run} --rounds 2 --blocks 2 --trial 100ms --budget 60s");
        let words: Vec<&str> = run.split(' ').collect();
        page(&lasthop, words[0], &words)
    };
    let [sockets, postgres] = ["sockets", "postgres --only work=query"].map(page_of);
    node(&["test.mjs", "plots", &sockets, &postgres]);
    // Whether a busy machine keeps the schedule, and so what is compared, is not this test's business.
    let rate = words("sockets --only pattern=echo --rate 500 --trial 100ms --budget 8s");
    node(&["test.mjs", "drawn", &page(&lasthop, "open", &rate)]);
}

#[test]
fn the_page_of_findings_works() {
    if have_web() {
        node(&["test.mjs", "findings", "../docs/findings.html"]);
    }
}

#[test]
fn the_page_of_an_explained_run_shows_layers() {
    if !have_web() || lasthop_profile::Profiler::available().is_err() {
        return;
    }
    let lasthop = Lasthop::new();
    let run = "sockets --only transport=unix,tcp --only pattern=echo --explain --rounds 2 --blocks 2 --budget 60s";
    let words: Vec<&str> = run.split(' ').collect();
    node(&["test.mjs", "layers", &page(&lasthop, "explained", &words)]);
}

/// Two runs, ten copies of the first, which are foreign, and a record that cannot be read.
#[test]
fn all_runs_have_a_page() {
    needs!(have_web());
    let lasthop = Lasthop::new();
    let short = "run sockets --only transport=unix,tcp --set pattern=echo --budget 4s --trial 10ms --blocks 2 --quiet";
    (0..2).for_each(|_| drop(lasthop.run(short.split(' ')).ok()));
    let [old, new] = &lasthop.runs()[..] else {
        panic!("no two runs")
    };
    let name = |record: &Path| record.file_name().unwrap().to_str().unwrap().to_owned();
    for number in 0..10 {
        copy(old, &old.with_file_name(format!("{}-copy-{number}", name(old))));
    }
    let broken = old.with_file_name("20260101T000000-broken-1");
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join("run.json"), "{}").unwrap();

    let pages = lasthop.home().join("pages");
    let index = pages.join("index.html");
    let write = |file: &str| lasthop.run(["runs", "--format", "html", "-o", file]).ok();
    write("pages/");
    node(&["test.mjs", "runs", index.to_str().unwrap()]);
    let of = |record: &Path| pages.join(format!("{}.html", name(record)));
    node(&["test.mjs", "text", of(old).to_str().unwrap()]);
    assert!(!of(&broken).exists());

    // Only what is missing is made again.
    let kept = fs::read_to_string(of(old)).unwrap() + "kept";
    fs::write(of(old), &kept).unwrap();
    fs::remove_file(of(new)).unwrap();
    write("pages");
    assert_eq!(fs::read_to_string(of(old)).unwrap(), kept);
    assert!(of(new).exists());

    let links = |page: &str| page.matches("<a href=").count();
    write("alone.html");
    assert_eq!(
        links(&fs::read_to_string(lasthop.home().join("alone.html")).unwrap()),
        0
    );
    assert_eq!(links(&fs::read_to_string(index).unwrap()), 12);
}

#[test]
fn what_servers_and_files_say_does_nothing() {
    needs!(have_web(), have("python3"));
    let lasthop = Lasthop::new();
    lasthop.run(["new", "hostile"]).ok();
    let edit = |name: &str, changes: &[(&str, String)]| {
        let path = lasthop.home().join("hostile").join(name);
        changes.iter().for_each(|(from, to)| common::edit(&path, from, to));
    };
    edit(
        "experiment.toml",
        &[
            ("title = \"hostile\"", format!("title = \"{HOSTILE}\"")),
            ("question = \"Should", format!("question = \"{HOSTILE} Should")),
            (
                "help = \"how clients",
                format!("labels = {{ unix = \"{HOSTILE}\" }}\nhelp = \"how clients"),
            ),
        ],
    );
    // By Unix socket the answer is wrong, which ends in the report with the log.
    edit(
        "app/server.py",
        &[
            ("import socket\n", format!("import socket\nimport sys\n\nHOSTILE = {HOSTILE:?}\n")),
            ("    protocol_version", "    server_version = HOSTILE\n    protocol_version".to_owned()),
            (
                "        self.send_response",
                "        if self.server.address_family == socket.AF_UNIX:\n            body = HOSTILE.encode()\n            \
                 print(HOSTILE, file=sys.stderr, flush=True)\n        self.send_response"
                    .to_owned(),
            ),
        ],
    );
    let page = page(&lasthop, "page", &["./hostile", "--budget", "2s", "--trial", "20ms"]);
    node(&["test.mjs", "hostile", &page]);
}
