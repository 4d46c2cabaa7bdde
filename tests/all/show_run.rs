//! `lasthop show` of a run: the configurations of its servers.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::common::{Lasthop, have, have_python, needs};

/// What stands below a heading, up to the next one.
fn below<'a>(text: &'a str, heading: &str) -> &'a str {
    let (_, rest) = text
        .split_once(&format!("{heading}\n\n"))
        .unwrap_or_else(|| panic!("no `{heading}` in {text}"));
    rest.split_once("\n\n#").map_or(rest, |(part, _)| part)
}

#[test]
fn a_configuration_that_is_shown_is_accepted() {
    needs!(have("nginx"), have_python("nginx-gunicorn"));
    let lasthop = Lasthop::new();
    let run = "run nginx-gunicorn --only connections=1 --budget 8s --rounds 1 --blocks 2 -q";
    lasthop.run(run.split(' ')).ok();
    let name = lasthop.runs().pop().unwrap();
    let name = name.file_name().unwrap().to_str().unwrap();
    let text = lasthop.run(["show", name]).ok().stdout;
    assert_eq!(lasthop.run(["show", "last"]).ok().stdout, text);
    let unix = &text[text.find("# unix").unwrap()..];
    let command = below(unix, "## gunicorn: command");
    assert!(command.contains("gunicorn --bind unix:/"), "{command}");
    for part in ["RuntimeDirectory=gunicorn", "nginx -s reload"] {
        assert!(below(unix, "## What must be true").contains(part), "{part}: {text}");
    }
    assert!(text.contains("\n# tcp\n") || text.starts_with("# tcp\n"), "{text}");

    let configuration = below(unix, "## nginx: nginx.conf");
    let runtime = configuration.lines().find_map(|line| line.trim().strip_prefix("pid "));
    let runtime = Path::new(runtime.unwrap()).parent().unwrap();
    fs::create_dir_all(runtime).unwrap();
    let file = lasthop.home().join("nginx.conf");
    fs::write(&file, configuration).unwrap();
    let mut check = Command::new("nginx");
    let checked = check
        .arg("-t")
        .arg("-c")
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{checked:?}");
    for sandbox in fs::read_dir(lasthop.sandboxes()).unwrap() {
        fs::remove_dir_all(sandbox.unwrap().path()).unwrap();
    }

    lasthop
        .run(["show", "last", "--only", "connections=1"])
        .fails(2, "choose cases of an experiment");
}
