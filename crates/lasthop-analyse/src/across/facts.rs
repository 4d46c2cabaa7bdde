//! Facts about the machines and settings of runs, from their records, and differences in these facts.

use indexmap::{IndexMap, IndexSet};
use lasthop_model::{quantity::joined, record::Settings};
use lasthop_record::data::RunData;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Facts that are left out, because they differ between any two runs.
const ALWAYS: [&str; 3] = ["load average", "seed", "programs"];
/// Characters shown of a digest.
const DIGITS: usize = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename = "Kind", rename_all = "snake_case")]
pub enum FactKind {
    /// The machine, its kernel and its settings.
    Environment,
    /// Versions and digests of what was started.
    Program,
    /// How the run was made: times, levels, placement, load.
    Setting,
    /// Digests of the files of the experiment and its recipes.
    File,
}

/// Something that is not the same in every run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Differing {
    pub kind: FactKind,
    pub name: String,
    /// The fact in each run; `null` where the run has no such fact, or where the record does not keep it.
    pub values: Vec<Option<String>>,
}

type Facts = IndexMap<(FactKind, String), String>;

/// Facts that differ between the runs, those of the environment first.
#[must_use]
pub fn differing(runs: &[&RunData]) -> Vec<Differing> {
    let has = |run: &RunData, case: &str| run.header.cases.iter().any(|plan| plan.case == case);
    let facts: Vec<Facts> = runs
        .iter()
        .map(|run| facts_of(run, |case| runs.iter().all(|run| has(run, case))))
        .collect();
    let keys: IndexSet<&(FactKind, String)> = facts.iter().flat_map(IndexMap::keys).collect();
    let one = |key: &(FactKind, String)| {
        let values: Vec<Option<String>> = facts.iter().map(|facts| facts.get(key).cloned()).collect();
        let differs = values.iter().any(|value| *value != values[0]);
        differs.then(|| Differing {
            kind: key.0,
            name: key.1.clone(),
            values,
        })
    };
    let mut found: Vec<Differing> = keys.into_iter().filter_map(one).collect();
    found.sort_by_key(|one| one.kind as u8);
    found
}

/// Facts of one run, including those of the cases that all runs have.
fn facts_of(run: &RunData, is_shared: impl Fn(&str) -> bool) -> Facts {
    let header = &run.header;
    let mut facts = Facts::new();
    fields(&mut facts, FactKind::Environment, "", &run.environment);
    facts.insert((FactKind::Program, "lasthop".to_owned()), header.lasthop.clone());
    for (name, program) in run.environment.iter().flat_map(|environment| &environment.programs) {
        facts.insert((FactKind::Program, name.clone()), program.version.clone());
    }
    settings(&mut facts, &header.settings);
    fields(&mut facts, FactKind::Setting, "recipe of", &header.experiment.services);
    for (name, factor) in &header.factors {
        let levels = factor.levels.iter().map(ToString::to_string);
        facts.insert((FactKind::Setting, format!("levels of {name}")), joined(levels, ", "));
    }
    for case in header.cases.iter().filter(|plan| is_shared(&plan.case)) {
        fields(&mut facts, FactKind::Setting, &case.case, &case.load);
    }
    for (case, endpoint) in header.given.iter().flat_map(|given| &given.endpoints) {
        facts.insert((FactKind::Setting, format!("{case} URL")), endpoint.url.clone());
        if let Some(server) = &endpoint.server {
            facts.insert((FactKind::Program, format!("{case} server")), server.clone());
        }
    }
    let Some(origin) = &header.origin else { return facts };
    fields(&mut facts, FactKind::Setting, "engine", &origin.engine);
    let short = |digest: &String| digest.chars().take(DIGITS).collect();
    for (of, digest) in &origin.executables {
        facts.insert((FactKind::Program, format!("executable of {of}")), short(digest));
    }
    for (of, digest) in &origin.files {
        facts.insert((FactKind::File, of.clone()), short(digest));
    }
    facts
}

fn settings(facts: &mut Facts, settings: &Settings) {
    fields(facts, FactKind::Setting, "", settings);
    // The placement in words, below, tells more than numbers of CPUs field by field.
    facts.retain(|(_, name), _| !name.starts_with("placement "));
    let percent = |share: f64| format!("{} %", share * 100.0);
    let words = [
        ("placement", settings.placement.to_string()),
        ("precision", percent(settings.precision)),
        ("margin", percent(settings.margin)),
    ];
    facts.extend(words.map(|(name, text)| ((FactKind::Setting, name.to_owned()), text)));
}

/// Adds every field of a value as text, by its name in words.
fn fields(facts: &mut Facts, kind: FactKind, place: &str, value: &impl Serialize) {
    let value = serde_json::to_value(value).unwrap_or_default();
    flatten(facts, kind, place, &value);
}

fn flatten(facts: &mut Facts, kind: FactKind, place: &str, value: &Value) {
    if ALWAYS.contains(&place) {
        return;
    }
    let text = match value {
        Value::Null => return,
        Value::Object(object) => {
            for (name, value) in object {
                // The name of a sysctl is not changed.
                let name = if name.contains('.') {
                    name.clone()
                } else {
                    name.replace('_', " ")
                };
                flatten(facts, kind, format!("{place} {name}").trim_start(), value);
            }
            return;
        }
        Value::String(text) => text.clone(),
        Value::Array(list) if list.iter().all(Value::is_string) => joined(list.iter().filter_map(Value::as_str), ", "),
        other => other.to_string(),
    };
    match (place.strip_suffix(" ns"), value.as_u64()) {
        (Some(place), Some(nanoseconds)) => {
            let time = lasthop_model::quantity::written(std::time::Duration::from_nanos(nanoseconds));
            facts.insert((kind, place.to_owned()), time)
        }
        _ => facts.insert((kind, place.to_owned()), text),
    };
}

#[cfg(test)]
mod tests {
    use lasthop_model::record::{PacketFilter, Placement, ProgramVersion};

    use super::*;
    use crate::testing::healthy;

    #[test]
    fn only_what_differs_is_named() {
        let old = healthy();
        assert_eq!(differing(&[&old, &old.clone()]), []);
        let mut new = old.clone();
        let environment = new.environment.as_mut().unwrap();
        environment.kernel = "6.19".to_owned();
        environment.load_average = [9.0; 3];
        environment
            .sysctl
            .insert("net.core.somaxconn".to_owned(), "128".to_owned());
        let nginx = ProgramVersion {
            path: "/usr/sbin/nginx".to_owned(),
            version: "1.26".to_owned(),
        };
        environment.programs.insert("nginx".to_owned(), nginx);
        new.header.settings.seed = 77;
        new.header.settings.trial_ns = 50_000_000;
        new.header.settings.placement = Placement::Same { cpu: 1 };
        new.header.settings.margin = 0.05;
        new.header.cases[0].load.connections = 4;
        let found = differing(&[&old, &new]);
        let shown: Vec<String> = found
            .iter()
            .map(|one| {
                let values: Vec<&str> = one
                    .values
                    .iter()
                    .map(|value| value.as_deref().unwrap_or("none"))
                    .collect();
                format!("{:?} {}: {}", one.kind, one.name, values.join(" → "))
            })
            .collect();
        let expected = [
            "Environment kernel: 6.18 → 6.19",
            "Environment sysctl net.core.somaxconn: none → 128",
            "Program nginx: none → 1.26",
            "Setting margin: 2 % → 5 %",
            "Setting trial: 100ms → 50ms",
            "Setting placement: CPUs chosen by the scheduler → driver and services on CPU 1",
            "Setting tcp connections: 1 → 4",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn conditions_that_change_an_answer_are_named() {
        let with = |congestion: &str, mtu, tracking| {
            let mut data = healthy();
            let environment = data.environment.as_mut().unwrap();
            let name = "net.ipv4.tcp_congestion_control".to_owned();
            environment.sysctl.insert(name, congestion.to_owned());
            environment.loopback_mtu = mtu;
            environment.packet_filter = Some(PacketFilter {
                chains: Some(6),
                rules: Some(5),
                hooks: IndexMap::new(),
                iptables: vec![],
                tracking: Some(tracking),
            });
            environment.caches.insert("L3 of 0-1".to_owned(), "32768K".to_owned());
            data
        };
        let found = differing(&[&with("bbr", None, true), &with("cubic", Some(65_536), false)]);
        let named: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        let expected = [
            "sysctl net.ipv4.tcp_congestion_control",
            "packet filter tracking",
            "loopback mtu",
        ];
        assert_eq!(named, expected);
        assert_eq!(found[2].values, [None, Some("65536".to_owned())]);
    }

    #[test]
    fn digests_of_files_tell_which_one_changed() {
        let mut old = healthy();
        old.header.origin = serde_json::from_value(serde_json::json!({
            "experiment": "x", "selection": {"only": [], "set": [], "aa": false, "drivers": []}, "programs": {},
            "engine": null, "remote": {"options": [], "config": null, "program": null, "listen": null},
            "files": {"experiment.toml": "a".repeat(64)}, "executables": {"lasthop": "b".repeat(64)}
        }))
        .unwrap();
        let mut new = old.clone();
        new.header
            .origin
            .as_mut()
            .unwrap()
            .files
            .insert("experiment.toml".to_owned(), "c".repeat(64));
        let found = differing(&[&old, &new]);
        assert_eq!(
            (found.len(), found[0].kind, &*found[0].name),
            (1, FactKind::File, "experiment.toml")
        );
        assert_eq!(found[0].values, [Some("a".repeat(DIGITS)), Some("c".repeat(DIGITS))]);
    }
}
