//! The configuration of a case, to copy. It comes from the files and commands with which its servers were started.
//! Private folders and ports of the run are replaced by usual ones. The conditions under which it works are listed.

mod blocks;
mod conditions;
mod winner;
mod write;

use std::{
    cell::Cell,
    collections::{BTreeSet, HashMap},
    ffi::OsString,
    path::{Path, PathBuf},
    rc::Rc,
};

use lasthop_analyse::summary::Summary;
use lasthop_model::{
    binding::{SOCKET, service_of},
    place::{PLACE, Place},
    quantity::joined,
    record::{CasePlan, CaseProof},
    service::stays_inside,
};
use lasthop_protocol::spec::Address;
use lasthop_record::RunData;
use lasthop_system::{files, names::Names};
use regex::{Captures, Regex};

pub use self::{
    winner::{Winner, winner},
    write::write,
};
use crate::text;

/// A file of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Name of the file in a folder.
    pub name: String,
    pub text: String,
}

/// One service as it ran.
struct Served {
    name: String,
    place: Place,
    record: PathBuf,
    /// Its folder in the record.
    below: PathBuf,
    /// How many bytes of files may still be read, of all services.
    room: Rc<Cell<u64>>,
}

impl Served {
    fn folder(&self) -> PathBuf {
        self.record.join(&self.below)
    }

    /// A file that it was started with. It counts towards the limit for all.
    ///
    /// # Errors
    ///
    /// It cannot be read, is no text, or is larger than configurations are.
    fn file(&self, file: &Path) -> Result<String, String> {
        let below = self.below.join(file);
        let failed = |cause: String| incomplete(&self.record.join(&below), &cause);
        let most = self.room.get().min(LONGEST);
        let bytes = files::read_below(&self.record, &below, most).map_err(|error| failed(error.to_string()))?;
        // An empty one takes room, too.
        self.room.set(self.room.get().saturating_sub(bytes.len() as u64 + 1));
        // Those of a run that still goes on, or was killed, name the home folder.
        let bytes = Names::here().without_home(&bytes).into_owned();
        String::from_utf8(bytes).map_err(|_| failed("it is not text".to_owned()))
    }
}

/// Bytes of the longest file of a record that is exported.
const LONGEST: u64 = 1 << 20;

/// Bytes of all files of an export.
const ROOM: u64 = 64 << 20;

/// Exports the configuration of `case`, or of the winner.
///
/// # Errors
///
/// There is no such case, it never worked, or the record is incomplete.
pub fn export(record: &Path, data: &RunData, summary: &Summary, case: Option<&str>) -> Result<Vec<Exported>, String> {
    let won = winner(summary);
    let Chosen { plan, proof, served } = choose(record, data, won.as_ref(), case)?;
    let mut exported = vec![Exported {
        name: "README.md".to_owned(),
        text: readme(summary, plan, proof, &served, won.as_ref()),
    }];
    let replaced = Replacements::new(&served);
    for one in &served {
        exported.extend(files(one, &replaced)?);
        exported.extend(application(one, &replaced));
    }
    exported.extend(dsn(proof, data, plan, &replaced));
    exported[0].text = replaced.apply(&exported[0].text);
    if exported.iter().any(|one| one.text.contains(PASSWORD)) {
        exported[0]
            .text
            .push_str(&format!("- you put your own password in the place of {PASSWORD}\n"));
    }
    Ok(exported)
}

/// A case and how its services ran.
struct Chosen<'a> {
    plan: &'a CasePlan,
    proof: &'a CaseProof,
    served: Vec<Served>,
}

/// The case that was named, or the winner.
fn choose<'a>(
    record: &Path,
    data: &'a RunData,
    won: Option<&Winner>,
    case: Option<&str>,
) -> Result<Chosen<'a>, String> {
    let cases = &data.header.cases;
    let name = case.or_else(|| won.map(|won| won.case.as_str()));
    let name = name.ok_or(if data.header.settings.overload.is_some() {
        "a run with overload has no winner; name another run, or choose a case with --case"
    } else {
        "no case of the run has a result, so there is no winner; choose a case with --case"
    })?;
    let plan = cases.iter().find(|plan| plan.case == name).ok_or_else(|| {
        let known = joined(cases.iter().map(|plan| plan.case.as_str()), ", ");
        format!("the run has no case `{name}`; its cases: {known}")
    })?;
    let up = data
        .rounds()
        .filter_map(|round| Some((round.round, round.cases.get(name)?)));
    let (round, proof) = up
        .last()
        .ok_or_else(|| format!("case `{name}` never worked in that run, so there is no configuration"))?;
    let stack = PathBuf::from(format!("services/{round}/{}", plan.stack));
    Ok(Chosen {
        plan,
        proof,
        served: served(record, data, &stack)?,
    })
}

fn incomplete(path: &Path, cause: &str) -> String {
    let why = "the record was made by an older lasthop, or is incomplete";
    format!("{} is missing or cannot be read ({cause}): {why}", path.display())
}

/// The services of a stack, whose folder in the record this is.
fn served(record: &Path, data: &RunData, stack: &Path) -> Result<Vec<Served>, String> {
    let failed = |path: &Path, cause: String| incomplete(&record.join(path), &cause);
    let mut names = files::names_below(record, stack).map_err(|error| failed(stack, error.to_string()))?;
    names.sort();
    let room = Rc::new(Cell::new(ROOM));
    let mut served = Vec::new();
    for service in data.header.experiment.services.keys() {
        // A service with several servers has a folder for each, numbered.
        let names = names.iter().filter_map(|name| name.to_str());
        for name in names.filter(|name| service_of(name) == service) {
            let path = stack.join(name).join(PLACE);
            let text = files::read_below(record, &path, LONGEST).map_err(|error| failed(&path, error.to_string()))?;
            let place: Place = serde_json::from_slice(&text).map_err(|error| failed(&path, error.to_string()))?;
            if let Some(outside) = place.files.iter().find(|file| !stays_inside(file)) {
                return Err(failed(&path, format!("`{}` is outside the record", outside.display())));
            }
            served.push(Served {
                name: name.to_owned(),
                place,
                record: record.to_owned(),
                below: stack.join(name),
                room: room.clone(),
            });
        }
    }
    if served.is_empty() {
        return Err(failed(stack, "no service is recorded there".to_owned()));
    }
    Ok(served)
}

/// What stands in a run's private places, and what is put there instead.
struct Replacements {
    by_private: HashMap<String, String>,
    /// Any of them, the longest first.
    any: Regex,
}

/// Stands for the password of the run.
const PASSWORD: &str = "YOUR_PASSWORD";

/// The port of a server that has none of its own.
const PORT: u16 = 8000;

impl Replacements {
    fn new(served: &[Served]) -> Self {
        let mut pairs: Vec<(String, String)> = Vec::new();
        let mut taken = BTreeSet::new();
        for one in served {
            let Served { name, place, .. } = one;
            match &place.endpoint.address {
                Address::Unix(path) | Address::Channel(_, path) | Address::Packets(_, path) => {
                    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    // Database clients know the socket by its name in a folder; others may have any name.
                    let file = if file == SOCKET { format!("{name}.sock") } else { file };
                    for path in [Some(path), place.listen.as_ref()].into_iter().flatten() {
                        pairs.push((path.display().to_string(), format!("/run/{name}/{file}")));
                        let folder = path.parent().unwrap_or(path).display().to_string();
                        pairs.push((folder, format!("/run/{name}")));
                    }
                }
                Address::Abstract(given) => pairs.push((given.clone(), name.clone())),
                Address::Tcp(address) | Address::Udp(address) => {
                    let usual = place.export.port.unwrap_or(PORT);
                    // Two servers of one kind get different ports.
                    let port = (usual..).find(|port| taken.insert(*port)).unwrap_or(usual);
                    pairs.push((address.port().to_string(), port.to_string()));
                    // That of a container, of a network of the run or of this host: a name stands for it.
                    if !address.ip().is_loopback() {
                        pairs.push((address.ip().to_string(), name.clone()));
                    }
                }
            }
            let mut replace = |private: &Path, common: String| pairs.push((private.display().to_string(), common));
            replace(&place.directory, format!("/srv/{name}"));
            let folder = one.folder();
            let told = Names::here()
                .without_home(folder.as_os_str().as_encoded_bytes())
                .into_owned();
            let told = PathBuf::from(String::from_utf8(told).unwrap_or_default());
            replace(&told, format!("/srv/{name}"));
            replace(&folder, format!("/srv/{name}"));
            replace(&place.runtime, format!("/run/{name}"));
            if let Some([certificate, key]) = &place.tls {
                replace(certificate, format!("/etc/ssl/{name}.pem"));
                replace(key, format!("/etc/ssl/private/{name}.key"));
            }
            if let Some(authority) = place.endpoint.tls.as_ref().and_then(|tls| tls.authority.as_ref()) {
                replace(authority, "/etc/ssl/authority.pem".to_owned());
            }
            if !place.secret.is_empty() {
                pairs.push((place.secret.clone(), PASSWORD.to_owned()));
            }
        }
        Self::of(pairs)
    }

    /// A number (a port, an address) is replaced where it stands alone: after a host as well as by itself.
    fn of(mut pairs: Vec<(String, String)>) -> Self {
        // A regular expression takes the first alternative that fits, and a folder is the beginning of its files'
        // paths.
        pairs.sort_by_key(|(private, _)| std::cmp::Reverse(private.len()));
        let alone = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let pattern = |(private, _): &(String, String)| {
            let text = regex::escape(private);
            if alone(private) { format!(r"\b{text}\b") } else { text }
        };
        let any = joined(pairs.iter().map(pattern), "|");
        let any = Regex::new(&any).expect("texts that are escaped make a pattern");
        // Of two for the same place the first counts.
        Self {
            by_private: pairs.into_iter().rev().collect(),
            any,
        }
    }

    fn apply(&self, text: &str) -> String {
        self.any
            .replace_all(text, |found: &Captures<'_>| {
                self.by_private.get(&found[0]).cloned().unwrap_or_default()
            })
            .into_owned()
    }
}

/// The files of a service and its command, or what its recipe says instead.
fn files(served: &Served, replaced: &Replacements) -> Result<Vec<Exported>, String> {
    let Served { name, place, .. } = served;
    let exported = |file: &str, text: &str| Exported {
        name: format!("{name}/{file}"),
        text: replaced.apply(text),
    };
    if !place.export.files.is_empty() {
        let files = place.export.files.iter();
        return Ok(files.map(|(file, text)| exported(file, text)).collect());
    }
    let mut all = Vec::new();
    for path in &place.files {
        let mut text = served.file(path)?;
        if !place.export.blocks.is_empty() {
            text = blocks::excerpt(&text, &place.export.blocks);
        }
        all.push(exported(&path.file_name().unwrap_or_default().to_string_lossy(), &text));
    }
    if !place.export.is_excerpt() {
        all.push(exported("command.sh", &command(place)));
    }
    Ok(all)
}

/// The files of an application that say where others are. What says nothing of the kind, is no text or is too long to be
/// a configuration is the experiment's own.
fn application(served: &Served, replaced: &Replacements) -> Vec<Exported> {
    let names = files::names_below(&served.record, &served.below.join("app")).unwrap_or_default();
    let exported = |name: &OsString| {
        let path = Path::new("app").join(name);
        let own = served.file(&path).ok()?;
        let text = replaced.apply(&own);
        let name = format!("{}/{}", served.name, path.display());
        (text != own).then_some(Exported { name, text })
    };
    let mut all: Vec<Exported> = names.iter().filter_map(exported).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// A shell line; the program by its name, environment before it.
fn command(place: &Place) -> String {
    // A quoted NAME=value would be a command.
    let quoted = |value: &str| shlex::try_quote(value).map_or_else(|_| value.to_owned(), |text| text.into_owned());
    let environment = place.environment.iter();
    let environment: String = environment
        .map(|(key, value)| format!("{key}={} ", quoted(value)))
        .collect();
    let mut words = place.command.clone();
    if let Some(program) = words.first_mut() {
        let name = Path::new(&*program).file_name().unwrap_or_default();
        *program = name.to_string_lossy().into_owned();
    }
    let line = shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "));
    format!("{environment}{line}\n")
}

/// How clients name the server, where they reach it over the link itself.
fn dsn(proof: &CaseProof, data: &RunData, plan: &CasePlan, replaced: &Replacements) -> Option<Exported> {
    (data.header.experiment.from == "driver").then_some(())?;
    let text = proof.spec.protocol.data_source(&proof.spec.endpoint);
    Some(Exported {
        name: format!("{}.dsn", plan.load.target),
        text: format!("{}\n", replaced.apply(&text)),
    })
}

/// What was found, and what must be true.
fn readme(summary: &Summary, plan: &CasePlan, proof: &CaseProof, served: &[Served], won: Option<&Winner>) -> String {
    let mut text = format!(
        "# {}\n\n",
        text::line(&format!("{}: {}", summary.experiment, plan.case))
    );
    let won = won.filter(|won| won.case == plan.case);
    text.push_str(
        &won.map_or("You chose this case; it is not the winner of the run.".into(), |won| {
            text::line(&won.sentence)
        }),
    );
    let from = format!("From run {} of {}.", summary.run, summary.started);
    text.push_str(&format!("\n\n{}\n\nWhat must be true:\n\n", text::line(&from)));
    for condition in conditions::all(summary, plan, proof, served) {
        text.push_str(&format!("- {}\n", text::line(&condition)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_the_same_wherever_it_stands() {
        let pairs = [
            ("27047", "8000"),
            ("8000", "8001"),
            ("/tmp/run", "/run/app"),
            ("/tmp/run/socket", "/run/app/app.sock"),
            ("10.89.0.1", "app"),
        ];
        let replaced = Replacements::of(
            pairs
                .map(|(private, common)| (private.to_owned(), common.to_owned()))
                .into(),
        );
        for (text, wanted) in [
            ("--tcp 127.0.0.1 27047", "--tcp 127.0.0.1 8000"),
            (
                "http://127.0.0.1:27047/ [::1]:27047",
                "http://127.0.0.1:8000/ [::1]:8000",
            ),
            ("port='27047'; size 270470; 8000", "port='8000'; size 270470; 8001"),
            ("server 10.89.0.1:27047; 10.89.0.18", "server app:8000; 10.89.0.18"),
            ("unix:/tmp/run/socket /tmp/run", "unix:/run/app/app.sock /run/app"),
        ] {
            assert_eq!(replaced.apply(text), wanted);
        }
    }
}
