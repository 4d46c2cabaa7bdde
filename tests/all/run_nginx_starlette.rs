//! The real nginx with TLS in front of gunicorn with a uvicorn worker.

use crate::common;

use common::{Lasthop, have, have_python};

#[test]
fn tls_ends_at_nginx_and_the_link_is_proven() {
    if !(have("nginx") && have_python("nginx-starlette")) {
        return;
    }
    let lasthop = Lasthop::new();
    let mut arguments = vec!["run", "nginx-starlette", "--set", "reuse=per-request,keep-alive", "--budget", "12s"];
    arguments.extend(["--trial", "30ms", "--blocks", "2", "--format", "json"]);
    let summary = lasthop.run(arguments).ok().json();
    let cases = summary["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 8, "{cases:?}");
    for case in cases {
        assert_eq!(case["proof"]["tls_version"], "TLSv1.3", "{case}");
        assert_eq!(case["proof"]["reused"], case["levels"]["client"] == "keep-alive", "{case}");
        let link = &case["proof"]["link"];
        assert_eq!(link["family"], if case["transport"] == "unix" { "unix" } else { "inet" }, "{case}");
        let kept = case["levels"]["reuse"] == "keep-alive";
        assert_eq!(link["connections"], if kept { 1 } else { 8 }, "{case}");
    }
    let checks = summary["checks"].as_array().unwrap();
    let wrong = ["config-differs", "reuse-not-as-asked", "transport-not-as-asked"];
    assert!(!checks.iter().any(|check| wrong.contains(&check["id"].as_str().unwrap())), "{checks:?}");
    assert!(summary["failures"].as_array().unwrap().is_empty(), "{}", summary["failures"]);
    lasthop.assert_nothing_left();
}
