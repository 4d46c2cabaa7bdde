//! The configurations of a run: the commands and files that started its servers, the winner's first, and the conditions
//! for using them.

mod conditions;

use std::{
    cell::Cell,
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use lasthop_analyse::summary::{Comparison, Summary, Verdict};
use lasthop_model::{
    binding::{APP, service_of},
    quantity::joined,
    record::{CasePlan, CaseProof},
    service::stays_inside,
    started::{PLACE, StartedService},
};
use lasthop_record::RunData;
use lasthop_system::{files, names::Names};

use crate::text;

/// Bytes of the longest shown file, and of all shown files together.
const LONGEST: u64 = 1 << 20;
const ROOM: u64 = 64 << 20;

/// Replaces the password of the run.
const PASSWORD: &str = "YOUR_PASSWORD";

/// A heading and its text.
pub type HeadedText = (String, String);

/// The parts of a record that show configurations.
struct Configurations<'a> {
    record: &'a Path,
    data: &'a RunData,
    /// Bytes of files that may still be read.
    room: Cell<u64>,
}

/// A service that ran.
struct Served {
    name: String,
    started: StartedService,
    /// The service's folder in the record.
    folder: PathBuf,
}

/// All configurations of a run, the winner's first.
pub fn shown(record: &Path, data: &RunData, summary: &Summary) -> Result<String, String> {
    if data.header.experiment.services.is_empty() {
        return Err("lasthop started no server in this run, so there is no configuration".to_owned());
    }
    let winner = winner(summary);
    let has_won = |plan: &CasePlan| Some(plan.case.as_str()) == winner;
    let mut stacks: IndexMap<usize, Vec<&CasePlan>> = IndexMap::new();
    for plan in &data.header.cases {
        stacks.entry(plan.stack).or_default().push(plan);
    }
    stacks.sort_by_cached_key(|_, cases| !cases.iter().any(|plan| has_won(plan)));
    let configurations = Configurations::of(record, data);
    let mut shown = Vec::new();
    for cases in stacks.values_mut() {
        cases.sort_by_key(|plan| !has_won(plan));
        let names = joined(cases.iter().map(|plan| plan.case.as_str()), ", ");
        shown.push(format!("# {}", text::line(&names)));
        match cases.iter().find_map(|plan| configurations.of_case(plan)) {
            None => shown.push("It never worked in this run.".to_owned()),
            Some(parts) => {
                for (heading, body) in parts? {
                    shown.extend([format!("## {}", text::line(&heading)), body.trim_end().to_owned()]);
                }
            }
        }
    }
    Ok(shown.join("\n\n") + "\n")
}

/// The winner's configuration; empty if nothing won, or the record is incomplete.
pub fn of_winner(record: &Path, data: &RunData, summary: &Summary) -> Vec<HeadedText> {
    let plan = winner(summary).and_then(|case| data.header.cases.iter().find(|plan| plan.case == case));
    let parts = plan.and_then(|plan| Configurations::of(record, data).of_case(plan));
    parts.and_then(Result::ok).unwrap_or_default()
}

/// The case with the largest gain over its reference. Without a faster case the reference wins, because a change
/// without a gain is not worth the trouble.
fn winner(summary: &Summary) -> Option<&str> {
    let comparisons = summary.cases.iter().filter_map(|case| summary.declared(case));
    let usable = comparisons.filter(|one| summary.invalid(&one.case, &one.reference).is_none());
    let faster = usable.filter(|one| one.verdict == Verdict::Faster);
    // The distance of a case from its reference, whether more or less is better.
    let gain = |one: &Comparison| one.ratio.estimate.ln().abs();
    if let Some(best) = faster.max_by(|one, other| gain(one).total_cmp(&gain(other))) {
        return Some(&best.case);
    }
    let works = || summary.cases.iter().filter(|case| case.metrics.is_some());
    let kept = works().find(|case| case.reference).or_else(|| works().next())?;
    Some(&kept.case)
}

impl<'a> Configurations<'a> {
    fn of(record: &'a Path, data: &'a RunData) -> Self {
        let room = Cell::new(ROOM);
        Self { record, data, room }
    }

    /// The configuration of a case's last successful trial; `None` if every trial failed.
    fn of_case(&self, plan: &CasePlan) -> Option<Result<Vec<HeadedText>, String>> {
        let rounds = self.data.rounds();
        let up = rounds.filter_map(|round| Some((round.round, round.cases.get(&plan.case)?)));
        let (round, proof) = up.last()?;
        let stack = PathBuf::from(format!("services/{round}/{}", plan.stack));
        Some(self.served(&stack).and_then(|served| self.parts(plan, proof, &served)))
    }

    /// The conditions, then commands and files.
    fn parts(&self, plan: &CasePlan, proof: &CaseProof, served: &[Served]) -> Result<Vec<HeadedText>, String> {
        let conditions = conditions::all(&self.data.header.experiment, plan, proof, served);
        let conditions = conditions
            .iter()
            .map(|condition| format!("- {}", text::line(condition)));
        let mut parts = vec![("What must be true".to_owned(), joined(conditions, "\n"))];
        for one in served {
            let mut add = |what: &str, text: String| parts.push((format!("{}: {what}", one.name), text));
            add("command", command(&one.started));
            for path in &one.started.files {
                add(&path.to_string_lossy(), self.text(&one.folder.join(path))?);
            }
            let app = self.record.join(&one.folder).join(APP);
            if app.is_dir() {
                add("application", app.display().to_string());
            }
        }
        for (_, text) in &mut parts {
            let secrets = served.iter().map(|one| &one.started.secret);
            for secret in secrets.filter(|secret| !secret.is_empty()) {
                *text = text.replace(secret, PASSWORD);
            }
        }
        Ok(parts)
    }

    /// The services of a stack, from the stack's folder in the record.
    fn served(&self, stack: &Path) -> Result<Vec<Served>, String> {
        let services = &self.data.header.experiment.services;
        let names = files::names_below(self.record, stack).map_err(|cause| self.incomplete(stack, cause))?;
        let names = names.into_iter().filter_map(|name| name.into_string().ok());
        let mut names: Vec<String> = names.filter(|name| services.contains_key(service_of(name))).collect();
        // In start order. A service with several servers has a numbered folder for each.
        names.sort_by_cached_key(|name| (services.get_index_of(service_of(name)), name.clone()));
        let one = |name: String| {
            let folder = stack.join(&name);
            let path = folder.join(PLACE);
            let started = serde_json::from_str(&self.text(&path)?);
            let started: StartedService = started.map_err(|cause| self.incomplete(&path, cause))?;
            match started.files.iter().find(|file| !stays_inside(file)) {
                Some(outside) => Err(self.incomplete(&path, format!("`{}` is outside the record", outside.display()))),
                None => Ok(Served { name, started, folder }),
            }
        };
        names.into_iter().map(one).collect()
    }

    /// The text of a file in the record.
    fn text(&self, below: &Path) -> Result<String, String> {
        let most = self.room.get().min(LONGEST);
        let bytes = files::read_below(self.record, below, most).map_err(|cause| self.incomplete(below, cause))?;
        // An extra byte, so that empty files are limited too.
        self.room.set(self.room.get().saturating_sub(bytes.len() as u64 + 1));
        // Files of an unfinished or killed run still contain the home folder.
        let bytes = Names::here().without_home(&bytes).into_owned();
        String::from_utf8(bytes).map_err(|_| self.incomplete(below, "it is not text"))
    }

    fn incomplete(&self, below: &Path, cause: impl ToString) -> String {
        let (path, cause) = (self.record.join(below), cause.to_string());
        let why = "the record was made by an older lasthop, or is incomplete";
        format!("{} is missing or cannot be read ({cause}): {why}", path.display())
    }
}

/// A shell command line, beginning with the environment.
fn command(started: &StartedService) -> String {
    // A fully quoted NAME=value would be a command.
    let quoted = |value: &str| shlex::try_quote(value).map_or_else(|_| value.to_owned(), |text| text.into_owned());
    let environment = started.environment.iter();
    let environment: String = environment
        .map(|(key, value)| format!("{key}={} ", quoted(value)))
        .collect();
    let words = started.command.iter().map(String::as_str);
    environment + &shlex::try_join(words).unwrap_or_else(|_| started.command.join(" "))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use lasthop_analyse::{summarise, testing};
    use serde_json::{Value, json};

    use super::*;

    /// A record whose newest round has a `place.json` for each of two stacks.
    fn record(places: [Value; 2]) -> (tempfile::TempDir, RunData) {
        let data = testing::healthy();
        let folder = tempfile::tempdir().unwrap();
        let round = data.rounds().map(|round| round.round).max().unwrap();
        for (stack, started) in places.iter().enumerate() {
            let service = folder.path().join(format!("services/{round}/{stack}/server"));
            fs::create_dir_all(&service).unwrap();
            fs::write(service.join(PLACE), started.to_string()).unwrap();
            fs::write(service.join("server.conf"), format!("# {stack}\npassword s3cret\n")).unwrap();
        }
        (folder, data)
    }

    fn started(address: Value) -> Value {
        json!({
            "command": ["/usr/sbin/server", "--name", "two words"],
            "environment": [["HOME", "/tmp/a b"]],
            "endpoint": {"address": address},
            "files": ["server.conf"],
            "secret": "s3cret",
        })
    }

    #[test]
    fn the_winner_comes_first_in_a_record_of_any_version() {
        let mut earlier = started(json!({"tcp": "127.0.0.1:27047"}));
        earlier["directory"] = "/tmp/run/server".into();
        earlier["runtime"] = "/tmp/run/server".into();
        earlier["tls"] = Value::Null;
        earlier["export"] = json!({"port": 80, "blocks": [], "files": {}, "conditions": ["it restarts"]});
        let mut now = started(json!({"unix": "/tmp/run/server.sock"}));
        now["conditions"] = json!(["it restarts, \u{202e}too"]);
        let (folder, data) = record([earlier, now]);
        let summary = summarise(&data);
        insta::assert_snapshot!("configurations", shown(folder.path(), &data, &summary).unwrap());
        let winner = of_winner(folder.path(), &data, &summary);
        let headings: Vec<&str> = winner.iter().map(|(heading, _)| heading.as_str()).collect();
        assert_eq!(
            headings,
            ["What must be true", "server: command", "server: server.conf"]
        );
    }

    #[test]
    fn what_a_record_lacks_is_said() {
        let mut outside = started(json!({"tcp": "127.0.0.1:27047"}));
        outside["files"] = json!(["../../run.json"]);
        let (folder, data) = record([outside.clone(), outside]);
        let summary = summarise(&data);
        let error = shown(folder.path(), &data, &summary).unwrap_err();
        assert!(error.contains("`../../run.json` is outside the record"), "{error}");
        fs::remove_dir_all(folder.path().join("services")).unwrap();
        let error = shown(folder.path(), &data, &summary).unwrap_err();
        assert!(error.contains("is missing or cannot be read"), "{error}");
        assert_eq!(of_winner(folder.path(), &data, &summary), []);
    }
}
