//! The real nginx, and lighttpd, in front of the real PHP-FPM.

use crate::common;

use std::fs;

use common::{Lasthop, have, have_setup};

#[test]
fn both_links_answer_are_proven_and_keep_connections_if_asked() {
    if !have_setup("php-fpm") {
        return;
    }
    let lasthop = Lasthop::new();
    let choices = [
        "--set",
        "reuse=per-request,keep-alive",
        "--set",
        "workers=10",
        "--no-headroom",
    ];
    let summary = lasthop.brief("php-fpm", &choices);
    assert_eq!(summary["failures"], serde_json::json!([]));
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 8, "{cases:?}");
    for case in cases {
        let link = &case["proof"]["link"];
        assert_eq!(
            link["family"],
            if case["transport"] == "unix" { "unix" } else { "inet" },
            "{case}"
        );
        let [seen, requests] = ["connections", "requests"].map(|key| link[key].as_u64().unwrap());
        let kept = case["levels"]["reuse"] == "keep-alive";
        assert!(
            !kept || seen * 2 <= requests,
            "most requests use a connection that is open: {case}"
        );
        let roles = case["metrics"]["cpu_per_request"]["roles"].as_object().unwrap();
        assert!(
            roles["nginx"].as_f64().unwrap() > 0.0 && roles["php"].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    let fired = summary["checks"].to_string();
    for check in [
        "config-differs",
        "transport-not-as-asked",
        "reuse-not-as-asked",
        "link-not-proven",
    ] {
        assert!(!fired.contains(check), "{fired}");
    }
    lasthop.assert_nothing_left();
}

const EXPERIMENT: &str = r#"
title = "lighttpd"
question = "Should lighttpd reach PHP-FPM over a Unix socket or over TCP?"

[link]
from = "lighttpd"
to = "php"

[factors.transport]
help = "how lighttpd reaches PHP-FPM"
levels = ["unix", "tcp"]
reference = "tcp"

[services.php]
recipe = "php-fpm"
app = "app"

[services.lighttpd]
command = ["lighttpd", "-D", "-f", "lighttpd.conf"]
listen = "tcp"
needs = ["php"]
config = { "lighttpd.conf" = "lighttpd.conf.j2" }
connect.unix = '"socket" => "{{ path }}"'
connect.tcp = '"host" => "{{ host }}", "port" => {{ port }}'

[load]
target = "lighttpd"
protocol = "http"

[load.http]
path = "/index.php"
expect = { status = 200, body = "Hello there!" }
"#;

const CONFIGURATION: &str = r#"
server.modules = ("mod_fastcgi")
server.bind = "{{ listen.host }}"
server.port = {{ listen.port }}
server.document-root = "{{ php.directory }}/app"
fastcgi.server = (".php" => (({{ php.address }})))
"#;

#[test]
fn a_server_without_a_recipe_writes_addresses_its_own_way() {
    if !have_setup("php-fpm") || !have("lighttpd") {
        return;
    }
    let lasthop = Lasthop::new();
    lasthop.run(["new", "mine", "--from", "php-fpm"]).ok();
    for (file, text) in [("experiment.toml", EXPERIMENT), ("lighttpd.conf.j2", CONFIGURATION)] {
        fs::write(lasthop.home().join("mine").join(file), text).unwrap();
    }
    let summary = lasthop.brief("./mine", &["--no-headroom"]);
    assert_eq!(summary["failures"], serde_json::json!([]));
    for case in summary["cases"].as_array().unwrap() {
        let family = if case["transport"] == "unix" { "unix" } else { "inet" };
        assert_eq!(case["proof"]["link"]["family"], family, "{case}");
    }
    assert!(!summary["checks"].to_string().contains("config-differs"));
    lasthop.assert_nothing_left();
}
