//! Files through the real nginx and the real gunicorn.

use crate::common;

use common::{Lasthop, have, have_python, is_right};

#[test]
fn files_arrive_whole_and_a_crossover_is_looked_for() {
    if !(have("nginx") && have_python("file-transfer")) {
        return;
    }
    let lasthop = Lasthop::new();
    let set = ["--set", "size=1000,100000,8000000", "--set", "sendfile=true,false"];
    let summary = lasthop.brief("file-transfer", &set);
    lasthop.assert_nothing_left();
    is_right(&summary, 12);
    for case in summary["cases"].as_array().unwrap() {
        let size: u64 = case["levels"]["size"].as_str().unwrap().parse().unwrap();
        assert_eq!(case["load"]["bytes"], size, "{case}");
        assert_eq!(case["proof"]["link"]["connections"], 1, "{case}");
        assert!(case["metrics"]["cpu_per_byte"].as_f64().unwrap() > 0.0, "{case}");
        assert!(
            case["metrics"]["bandwidth"]["estimate"].as_f64().unwrap() > 0.0,
            "{case}"
        );
    }
    let derived = summary["derived"].as_array().unwrap();
    let of = |quantity: &str| derived.iter().filter(|d| d["quantity"] == quantity).collect::<Vec<_>>();
    // A slope for each transport, a crossover for each that is compared; both with and without sendfile.
    assert_eq!((of("byte").len(), of("crossover").len()), (4, 2), "{derived:?}");
    for slope in of("byte") {
        let value = &slope["value"];
        assert_eq!(value["unit"], "us");
        assert!(
            value["estimate"].as_f64().unwrap() > 0.0,
            "a larger file takes longer: {slope}"
        );
    }
    for crossover in of("crossover") {
        let found = crossover["value"]["unit"] == "size";
        let outside = ["before", "beyond", "open"]
            .iter()
            .any(|place| crossover["outside"] == *place);
        assert!(found != outside, "{crossover}");
    }
}
