//! Stacks whose load goes another way than their probes: a cache answers, or the proxy asks another address. The run
//! says so.

use crate::common;

use std::{fs, net::TcpListener, path::Path};

use common::{Lasthop, copy, have_setup, list, needs, shows};

/// Changes an experiment so that the load of its Unix case does not cross the link, though every probe does. Each text
/// is replaced where a file has it, which is once. Returns the evidence of the check, and the report.
fn planted(changes: &[(&str, &str, &str)]) -> (String, String) {
    let lasthop = Lasthop::new();
    let folder = lasthop.own_copy("nginx-gunicorn");
    fs::create_dir(folder.join("services")).unwrap();
    let recipe = Path::new(env!("CARGO_MANIFEST_DIR")).join("services/gunicorn");
    copy(&recipe, &folder.join("services/gunicorn"));
    for (file, from, to) in changes {
        let text = fs::read_to_string(folder.join(file)).unwrap();
        assert_eq!(text.matches(from).count(), 1, "{from} in {file}");
        fs::write(folder.join(file), text.replace(from, to)).unwrap();
    }
    let choices = "--only connections=1 --rounds 2 --blocks 2 --budget 60s --no-headroom --format json";
    let run = lasthop.run(["run", "nginx-gunicorn"].into_iter().chain(choices.split(' ')));
    let summary = run.ok().json();
    let mut cases = list(&summary["cases"]).iter();
    let unix = cases.find(|case| case["transport"] == "unix").unwrap();
    assert_eq!(
        unix["proof"]["link"]["family"], "unix",
        "the probe sees nothing: {unix}"
    );
    for comparison in list(&summary["comparisons"]) {
        assert_eq!(comparison["verdict"], "undecided", "{comparison}");
    }
    let checks = &summary["checks"];
    let mut found = checks.as_array().unwrap().iter();
    let found = found.find(|check| check["id"] == "load-not-over-link");
    let found = found.unwrap_or_else(|| panic!("{checks}"));
    assert_eq!(found["severity"], "invalid", "{found}");
    assert_eq!(found["case"], unix["case"], "{found}");
    let report = lasthop.run(["report", "--format", "markdown"]).ok().stdout;
    assert!(report.contains("## No answer."), "{report}");
    (found["evidence"].as_str().unwrap().to_owned(), report)
}

#[test]
fn a_cache_in_front_of_one_link_is_no_faster_link() {
    needs!(have_setup("nginx-gunicorn"));
    let cache = "http {\n    proxy_cache_path {{ runtime }}/cache keys_zone=all:1m;\n    proxy_cache all;";
    // No Unix socket has a remote address.
    let only_there = "headers = {} if request.environ[\"REMOTE_ADDR\"] else {\"Cache-Control\": \"max-age=600\"}";
    let answer = format!("def hello():\n    {only_there}\n    return \"Hello there!\", 200, headers");
    let (evidence, report) = planted(&[
        ("nginx.conf.j2", "http {", cache),
        (
            "app/application.py",
            "def hello():\n    return \"Hello there!\"",
            &answer,
        ),
    ]);
    assert!(
        evidence.starts_with("for each answer gunicorn took ") && evidence.contains(", against "),
        "{evidence}"
    );
    assert!(
        evidence.ends_with(": most answers did not come through the link"),
        "{evidence}"
    );
    assert!(
        !report.contains("CPU per request than"),
        "0 µs in gunicorn are no reason: {report}"
    );
}

/// In the Unix case gunicorn listens at a TCP port besides, and nginx asks it there: always, or every other time.
fn by_another_path(servers: &str) {
    needs!(have_setup("nginx-gunicorn"));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let bound = "[\"--bind\", \"unix:{{ listen.path }}\"";
    let servers = servers.replace("OTHER", &format!("server {port};"));
    let group = format!(
        "    upstream other {{\n{{% if 'unix:' in gunicorn.address %}}{servers}{{% else %}}server {{{{ gunicorn.address }}}};\
         {{% endif %}}\n    }}\n\n    upstream application {{"
    );
    let root = "        location = / {\n            proxy_pass http://other;\n        }\n\n        location / {";
    let (evidence, _) = planted(&[
        (
            "services/gunicorn/recipe.toml",
            bound,
            &format!("{bound}, \"--bind\", \"{port}\""),
        ),
        ("nginx.conf.j2", "    upstream application {", &group),
        ("nginx.conf.j2", "        location / {", root),
    ]);
    shows(&evidence, [&format!("at {port}, which is not the link")]);
}

#[test]
fn a_load_by_another_transport_is_seen() {
    by_another_path("OTHER");
}

#[test]
fn half_of_a_load_by_another_transport_is_seen() {
    by_another_path("OTHER server {{ gunicorn.address }};");
}
