//! The real nginx with TLS in front of gunicorn with a uvicorn worker.

use crate::common;

use common::{Lasthop, have, have_python, is_right};

#[test]
fn tls_ends_at_nginx_and_the_link_is_proven() {
    if !(have("nginx") && have_python("nginx-starlette")) {
        return;
    }
    let lasthop = Lasthop::new();
    let summary = lasthop.brief("nginx-starlette", &["--set", "reuse=per-request,keep-alive"]);
    is_right(&summary, 8);
    for case in summary["cases"].as_array().unwrap() {
        assert_eq!(case["proof"]["tls_version"], "TLSv1.3", "{case}");
        assert_eq!(
            case["proof"]["reused"],
            case["levels"]["client"] == "keep-alive",
            "{case}"
        );
        let link = &case["proof"]["link"];
        assert_eq!(
            link["family"],
            if case["transport"] == "unix" { "unix" } else { "inet" },
            "{case}"
        );
        let kept = case["levels"]["reuse"] == "keep-alive";
        assert_eq!(link["connections"], if kept { 1 } else { 8 }, "{case}");
    }
    lasthop.assert_nothing_left();
}
