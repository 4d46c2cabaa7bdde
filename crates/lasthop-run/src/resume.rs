//! Resumes a run: what its record already has, and whether anything has changed since.

use std::{collections::BTreeSet, path::Path, time::Duration};

use indexmap::IndexMap;
use lasthop_model::{
    quantity::written,
    record::{
        ComparedEndpoints, Digests, Environment, Origin, ProgramVersion, Resumption, RunHeader, SEAL, Settings,
        Stopped, TrialRecord,
    },
};
use lasthop_observe::environment::host;
use lasthop_plan::{digest, model::Experiment, plan::Plan};
use lasthop_record::{self as record, RunData, Store, Writer, store};
use lasthop_system::{cpus, date, facts::Facts};

use super::{
    Open,
    consent::{self, Consent},
    event::Event,
    job::{Changed, Job, RunError, nanoseconds},
    kept,
};

/// Versions by recipe, or by name of a tool, the engine or the image.
type Versions = IndexMap<String, ProgramVersion>;

/// The least time to start services and measure anything.
const LEAST_BUDGET: Duration = Duration::from_secs(1);

/// The most rounds, far more than any run has and far from an overflow of their numbers.
const MOST_ROUNDS: u32 = 1 << 24;

/// The files that resuming a run writes.
const WRITTEN: [&str; 9] = [
    "lock",
    "trials.jsonl",
    "profiles.jsonl",
    "environment.json",
    "end.json",
    "headline.txt",
    "services",
    "run.json",
    SEAL,
];

/// The locked record of an unfinished run.
pub struct Unfinished {
    writer: Writer,
    data: RunData,
    pub origin: Origin,
    /// Why the record may be somebody else's; `None` if it is proven to be this user's.
    foreign: Option<String>,
}

/// The progress of a record when its run was resumed; zero for a new run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Past {
    /// Running time.
    pub took: Duration,
    /// Number of the first round from now on.
    pub next_round: u32,
    /// Completed rounds.
    pub whole_rounds: u32,
}

impl Unfinished {
    /// Opens a record that can be resumed.
    pub fn open(directory: &Path, own: &Store) -> Result<Self, String> {
        let run = store::header(directory).map_err(|error| error.to_string())?.run;
        let running = || format!("run {run} is still running: there is nothing to resume");
        if let Some(link) = WRITTEN
            .iter()
            .map(|name| directory.join(name))
            .find(|path| path.is_symlink())
        {
            return Err(format!(
                "{} is a link, and lasthop's records contain none: writing to it could change another file; start a new \
                 run instead",
                link.display()
            ));
        }
        if store::state(directory) == store::State::Running {
            return Err(running());
        }
        let reopened = Writer::reopen(directory).map_err(|error| error.to_string())?;
        // Another lasthop may have resumed the run since the check above; only the lock is certain.
        let mut writer = reopened.ok_or_else(running)?;
        let foreign = own.made_here(directory).map(|key| writer.seal_with(key)).err();
        let mut data = store::read(directory).map_err(|error| error.to_string())?;
        // Paths below the home folder of the record's user become paths below this user's.
        data.header = record::in_use(&data.header).unwrap_or(data.header);
        let measured = data.has_measured();
        if let Some(why) = data.end.as_ref().and_then(|end| finished(end.stopped, measured)) {
            return Err(format!(
                "run {run} is finished: {why}. There is nothing to resume; see `lasthop report {run}`"
            ));
        }
        let Some(origin) = data.header.origin.clone() else {
            return Err(format!(
                "run {run} is one of `lasthop selftest` or `lasthop new --check` and cannot be resumed: run its experiment \
                 instead"
            ));
        };
        let opened = Self {
            writer,
            data,
            origin,
            foreign,
        };
        match opened.last_round().filter(|round| *round > MOST_ROUNDS) {
            Some(round) => Err(format!(
                "run {run} has a round number {round}, which no run reaches: its record was changed; start a new run \
                 instead"
            )),
            None => Ok(opened),
        }
    }

    /// The settings of the run, with `more` time from now on, or with the rest of its own budget.
    pub fn settings(&self, more: Option<Duration>) -> Result<Settings, String> {
        let header = &self.data.header;
        let used = self.data.took_ns();
        let budget_ns = more.map_or(self.data.budget_ns(), |more| used.saturating_add(nanoseconds(more)));
        let by_budget = self.data.end.as_ref().is_some_and(|end| end.stopped == Stopped::Budget);
        if more.is_none() && (by_budget || budget_ns < used.saturating_add(nanoseconds(LEAST_BUDGET))) {
            let budget = written(Duration::from_nanos(header.settings.budget_ns));
            return Err(format!(
                "the budget of run {run} is used up: give it more time, for example `lasthop resume {run} --budget {budget}`",
                run = header.run
            ));
        }
        Ok(Settings {
            budget_ns,
            ..header.settings.clone()
        })
    }

    /// The endpoints of a comparison.
    pub fn given(&self) -> Option<&ComparedEndpoints> {
        self.data.header.given.as_ref()
    }

    /// What resuming executes and connects to because the record says so; `None` if the record is proven to be this
    /// user's.
    pub fn to_confirm(&self, settings: &Settings, experiment: &Experiment) -> Option<Consent> {
        let header = &self.data.header;
        let because = self.foreign.clone()?;
        let executed = consent::executed(&self.origin, settings, header.given.as_ref(), experiment);
        Some(Consent {
            run: header.run.clone(),
            because,
            executed,
        })
    }

    pub fn same_experiment(&self, experiment: &Experiment) -> Result<(), Changed> {
        let mut differences = Vec::new();
        compare(
            &mut differences,
            "lasthop",
            &self.data.header.lasthop,
            env!("CARGO_PKG_VERSION"),
        );
        differences.extend(changed_files(&self.origin.files, &digest::of_experiment(experiment)));
        self.unchanged(differences)
    }

    pub fn same_plan(&self, plan: &Plan) -> Result<(), Changed> {
        let header = &self.data.header;
        // In the form of the record, with `~` for the home folder.
        let then = record::recorded(&(header.cases.clone(), header.factors.clone()));
        let same = then == record::recorded(&(plan.cases.clone(), plan.factors.clone()));
        self.unchanged(if same {
            Vec::new()
        } else {
            vec!["its cases would be different".to_owned()]
        })
    }

    fn same_machine(&self, now: &Environment, executables: &Digests) -> Result<(), Changed> {
        let mut differences = Vec::new();
        let then = self.data.environment.as_ref();
        let now = &record::recorded(now);
        match then {
            Some(then) => compare_machines(&mut differences, then, now),
            None if self.data.has_measured() => {
                differences.push(
                    "its environment.json is missing, so the machine on which it was measured is unknown".to_owned(),
                );
            }
            // The run ended before it measured anything.
            None => {}
        }
        let programs = then.map(|then| &then.programs);
        compare_programs(
            &mut differences,
            (programs, &self.origin.executables),
            (&now.programs, executables),
        );
        let cpus = cpus::allowed();
        let used: BTreeSet<u32> = self.data.header.settings.placement.cpus().into_iter().collect();
        let missing = used.into_iter().filter(|cpu| !cpus.contains(cpu));
        differences.extend(missing.map(|cpu| format!("it used CPU {cpu}, which this process may not use")));
        self.unchanged(differences)
    }

    fn unchanged(&self, differences: Vec<String>) -> Result<(), Changed> {
        let RunHeader { run, command, .. } = &self.data.header;
        let words = command.get(1..).unwrap_or_default().iter().map(String::as_str);
        let again = shlex::try_join(words).map_or_else(|_| "it".to_owned(), |words| format!("`lasthop {words}`"));
        if differences.is_empty() {
            Ok(())
        } else {
            Err(Changed {
                run: run.clone(),
                differences,
                again,
            })
        }
    }

    /// The highest number of a round, complete or not.
    fn last_round(&self) -> Option<u32> {
        let folders = std::fs::read_dir(self.writer.services())
            .into_iter()
            .flatten()
            .flatten();
        // A round that was cut short before its row was written has only a folder.
        let started = folders.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        self.data.rounds().map(|round| round.round).chain(started).max()
    }

    /// The progress so far. An incomplete round and its folder stay unchanged; the next round gets a new number.
    fn past(&self) -> Past {
        Past {
            took: Duration::from_nanos(self.data.took_ns()),
            next_round: self.last_round().map_or(0, |last| last + 1),
            whole_rounds: self.data.whole_rounds(),
        }
    }

    /// Records that the run was resumed.
    ///
    /// # Errors
    /// [`RunError::Changed`] if the machine or a program has changed. The record is then left unchanged.
    pub(super) fn go_on(
        mut self,
        job: &Job<'_>,
        now: &Environment,
        executables: &Digests,
        tell: &mut dyn FnMut(&Event<'_>),
    ) -> Result<Open, RunError> {
        self.same_machine(now, executables)?;
        let past = self.past();
        // A run that was killed has not done this.
        kept::hide_names(&self.writer.services());
        let at = date::now();
        let resumption = Resumption {
            at,
            command: job.command.clone(),
            at_ns: nanoseconds(past.took),
            // 0 if the clock was set back meanwhile.
            pause_ns: u64::try_from(at.duration_since(self.data.last_seen()).as_nanos()).unwrap_or(0),
            budget_ns: job.settings.budget_ns,
            ended: self.data.end.take().map(|end| end.stopped),
        };
        self.writer.resume(&resumption)?;
        tell(&Event::Resumed {
            run: &self.data.header.run,
            resumption: &resumption,
        });
        self.data.records.push(TrialRecord::Resumed(Box::new(resumption)));
        Ok(Open {
            writer: self.writer,
            data: self.data,
            past,
        })
    }
}

/// Why a run that ended like this has nothing left to do. If some cases work, the others get another chance.
fn finished(stopped: Stopped, measured: bool) -> Option<&'static str> {
    match stopped {
        Stopped::Precision => Some("every interval is as narrow as you asked"),
        Stopped::Rounds => Some("it has as many rounds as you asked for"),
        Stopped::Failed if !measured => Some("none of its cases works"),
        Stopped::Failed | Stopped::Budget | Stopped::Interrupted => None,
    }
}

fn compare(differences: &mut Vec<String>, what: &str, then: &str, now: &str) {
    if then != now {
        differences.push(format!("{what}: was {then}, is now {now}"));
    }
}

pub(super) fn changed_files(then: &Digests, now: &Digests) -> Vec<String> {
    let gone = then
        .keys()
        .filter(|file| !now.contains_key(*file))
        .map(|file| format!("{file} is gone"));
    let other = now.iter().filter_map(|(file, digest)| match then.get(file) {
        None => Some(format!("{file} is new")),
        Some(before) => (before != digest).then(|| format!("{file} has changed")),
    });
    gone.chain(other).collect()
}

/// Ignores kernel settings that only one of the two has: they belong to a module that was loaded meanwhile, often by
/// the run itself. Ignores memory and load too, which change with every boot and every minute.
fn compare_machines(differences: &mut Vec<String>, then: &Environment, now: &Environment) {
    let none = || "none".to_owned();
    let driver = |environment: &Environment| environment.driver.as_ref().map_or_else(none, |one| one.place.clone());
    // An older record has the name of the host.
    let machines = if then.machine.is_empty() {
        (then.host.clone(), host(&Facts::here()))
    } else {
        (then.machine.clone(), now.machine.clone())
    };
    for (what, then, now) in [
        ("machine", &machines.0, &machines.1),
        ("CPU model", &then.cpu_model, &now.cpu_model),
        ("number of CPUs", &then.cpus.to_string(), &now.cpus.to_string()),
        ("kernel", &then.kernel, &now.kernel),
        ("architecture", &then.architecture, &now.architecture),
        ("distribution", &then.distribution, &now.distribution),
        ("virtualization", &then.virtualization, &now.virtualization),
        (
            "governor",
            &then.governor.clone().unwrap_or_else(none),
            &now.governor.clone().unwrap_or_else(none),
        ),
        ("place of the driver", &driver(then), &driver(now)),
    ] {
        compare(differences, what, then, now);
    }
    for (name, before) in &then.sysctl {
        if let Some(after) = now.sysctl.get(name) {
            compare(differences, name, before, after);
        }
    }
}

/// Compares path, version and content, because a rebuilt package keeps the first two. A program that was missing before
/// must not appear now, because cases that were left out for it would then be measured. If the run ended before it
/// wrote its environment, only digests tell what it had.
fn compare_programs(differences: &mut Vec<String>, then: (Option<&Versions>, &Digests), now: (&Versions, &Digests)) {
    let nothing = Versions::new();
    let known = then.0.unwrap_or(&nothing);
    let mut told = BTreeSet::new();
    for (name, program) in known {
        let before = differences.len();
        match now.0.get(name) {
            None => differences.push(format!("{name}: was {}, is now missing", program.path)),
            Some(found) => {
                compare(differences, name, &program.path, &found.path);
                compare(differences, name, &program.version, &found.version);
            }
        }
        // Another path or version explains another digest.
        if differences.len() > before {
            told.insert(name);
        }
    }
    for (name, program) in now.0 {
        let had = if then.0.is_some() {
            known.contains_key(name)
        } else {
            then.1.contains_key(name)
        };
        if !had && (then.0.is_some() || now.1.contains_key(name)) {
            differences.push(format!(
                "{name}: was missing, is now {} ({})",
                program.version, program.path
            ));
        }
    }
    for name in then
        .1
        .keys()
        .filter(|name| !known.contains_key(*name) && !now.1.contains_key(*name))
    {
        differences.push(format!("{name}: its executable is now missing"));
    }
    for (name, digest) in now.1.iter().filter(|(name, _)| !told.contains(name)) {
        if then.1.get(name).is_some_and(|before| before != digest) {
            differences.push(format!("{name}: its executable has changed"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn digests(pairs: &[(&str, &str)]) -> Digests {
        pairs
            .iter()
            .map(|(name, digest)| ((*name).to_owned(), (*digest).to_owned()))
            .collect::<BTreeMap<_, _>>()
    }

    #[test]
    fn each_file_that_differs_is_named() {
        let then = digests(&[("app/a.py", "1"), ("experiment.toml", "2"), ("nginx.conf", "3")]);
        let now = digests(&[("experiment.toml", "2"), ("nginx.conf", "4"), ("app/b.py", "1")]);
        assert_eq!(
            changed_files(&then, &now),
            ["app/a.py is gone", "app/b.py is new", "nginx.conf has changed"]
        );
        assert_eq!(changed_files(&then, &then), [""; 0]);
    }

    #[test]
    fn a_program_differs_by_path_version_or_content() {
        let programs = |version: &str| {
            let program = ProgramVersion {
                path: "/usr/sbin/nginx".to_owned(),
                version: version.to_owned(),
            };
            IndexMap::from([("nginx".to_owned(), program)])
        };
        let lines = |version: &str, digest: &str| {
            let mut found = Vec::new();
            let digest = digests(&[("nginx", digest)]);
            compare_programs(
                &mut found,
                (Some(&programs("1.22")), &digests(&[("nginx", "a")])),
                (&programs(version), &digest),
            );
            found
        };
        assert_eq!(lines("1.22", "a"), [""; 0]);
        assert_eq!(lines("1.26", "b"), ["nginx: was 1.22, is now 1.26"]);
        assert_eq!(lines("1.22", "b"), ["nginx: its executable has changed"]);
    }

    #[test]
    fn a_program_that_was_missing_is_a_difference() {
        let programs = |names: &[&str]| {
            let one = |name: &&str| {
                let program = ProgramVersion {
                    path: format!("/usr/bin/{name}"),
                    version: "1.22".to_owned(),
                };
                ((*name).to_owned(), program)
            };
            names.iter().map(one).collect::<Versions>()
        };
        let all = digests(&[("lasthop", "l"), ("nginx", "n"), ("thin", "t")]);
        let some = digests(&[("lasthop", "l"), ("nginx", "n")]);
        let lines = |then: (Option<&[&str]>, &Digests), now: (&[&str], &Digests)| {
            let mut found = Vec::new();
            let then_programs = then.0.map(programs);
            compare_programs(&mut found, (then_programs.as_ref(), then.1), (&programs(now.0), now.1));
            found
        };
        let new = "thin: was missing, is now 1.22 (/usr/bin/thin)";
        assert_eq!(lines((Some(&["nginx"]), &some), (&["nginx", "thin"], &all)), [new]);
        assert_eq!(
            lines((None, &some), (&["nginx", "thin"], &all)),
            [new],
            "it ended before it wrote its environment"
        );
        assert_eq!(
            lines((Some(&["nginx", "thin"]), &all), (&["nginx"], &some)),
            ["thin: was /usr/bin/thin, is now missing"]
        );
        assert_eq!(
            lines((None, &all), (&["nginx"], &some)),
            ["thin: its executable is now missing"]
        );
        assert_eq!(lines((Some(&["nginx"]), &some), (&["nginx"], &some)), [""; 0]);
        // The engine and the image have no digest here.
        assert_eq!(lines((None, &some), (&["nginx", "podman"], &some)), [""; 0]);
        assert_eq!(
            lines((Some(&["nginx"]), &some), (&["nginx", "podman"], &some)),
            ["podman: was missing, is now 1.22 (/usr/bin/podman)"]
        );
    }
}
