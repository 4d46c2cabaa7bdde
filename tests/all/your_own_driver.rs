//! `docs/your-own-driver.md` is true, and its drivers keep to the schema with a real server.

use crate::{
    common::{BRIEF, Lasthop, have, list, needs},
    your_own_stack::{fenced, follow},
};

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use lasthop_protocol::wire;
use serde_json::{Map, Value};

const PAGE: &str = "docs/your-own-driver.md";

fn repository(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// What the lines are called; each is one that lasthop or a driver may write.
fn judged(lines: &str) -> Vec<String> {
    let schema = jsonschema::validator_for(&wire::schema()).unwrap();
    let judge = |line| {
        let value: Map<String, Value> = serde_json::from_str(line).unwrap();
        let name = value.keys().next().unwrap().clone();
        assert!(schema.is_valid(&value.into()), "{line}");
        name
    };
    lines.lines().map(judge).collect()
}

#[test]
fn the_page_of_drivers_is_what_happens() {
    needs!(have("node"), have("python3"), have("redis-server"));
    let lasthop = Lasthop::new();
    assert_eq!(follow(PAGE, &lasthop), 7, "commands");
}

#[test]
fn the_page_shows_a_part_of_the_driver_and_every_line() {
    let page = repository(PAGE);
    let blocks = fenced(&page);
    let block = |language: &str| blocks.iter().find(|block| block.language == language).unwrap().text;
    assert!(repository("experiments/_driver/app/driver.py").contains(block("python")));
    let names = [
        "hello", "prepare", "prepared", "trial", "trial", "failed", "close", "closed",
    ];
    assert_eq!(judged(block("json")), names);
}

#[test]
fn a_template_has_sixty_lines_of_code() {
    for name in ["driver.py", "driver.mjs"] {
        let text = repository(&format!("experiments/_driver/app/{name}"));
        let code = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with(['/', '"']));
        assert!(code.count() <= 60, "{name}");
    }
}

#[test]
fn both_drivers_keep_to_the_schema_with_a_real_server() {
    needs!(have("node"), have("python3"), have("redis-server"));
    let page = repository(PAGE);
    let blocks = fenced(&page);
    let redis = blocks.iter().find(|block| block.language == "toml").unwrap().text;
    for (program, file) in [("python3", "driver.py"), ("node", "driver.mjs")] {
        let lasthop = Lasthop::new();
        lasthop.run(["new", "mine", "--driver"]).ok();
        // The driver as it is, with a copy of what goes in and of what comes out: each stack has a driver of its own.
        // Root's driver runs as another account.
        let folder = tempfile::tempdir().unwrap();
        let copies = folder.path();
        fs::set_permissions(copies, fs::Permissions::from_mode(0o777)).unwrap();
        let own = format!("{program} {{{{ server.directory }}}}/app/{file}");
        let command = format!(
            r#"driver = ["sh", "-c", "cd {} && tee $$.asked | {own} | tee $$.answered"]"#,
            copies.display()
        );
        let toml: Vec<&str> = redis
            .lines()
            .map(|line| if line.starts_with("driver = ") { &command } else { line })
            .collect();
        fs::write(lasthop.home().join("mine/experiment.toml"), toml.join("\n")).unwrap();
        let longer = BRIEF.map(|word| if word == "30ms" { "300ms" } else { word });
        let report = lasthop.run([&["run", "./mine"], &longer[..]].concat()).ok().json();
        for case in list(&report["cases"]) {
            assert!(case["requests"].as_u64() > Some(10), "{file}: {case}");
            let p50 = &case["metrics"]["latency_p50"]["estimate"];
            assert!(p50.as_f64() > Some(1.0), "{file}: {case}");
        }
        let copies: Vec<_> = fs::read_dir(copies)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(copies.len(), 4, "{copies:?}");
        for copy in copies {
            let names = judged(&fs::read_to_string(copy).unwrap());
            let trials = names.iter().filter(|name| *name == "trial").count();
            assert!(trials > 2, "{names:?}");
        }
    }
}
