//! The objects that a run creates in a cluster, from the templates `*.yaml.j2`.

use std::{fmt::Write as _, io, path::PathBuf, sync::LazyLock, time::Duration};

use lasthop_system::random;
use minijinja::{AutoEscape, Environment, Error, Output, State, UndefinedBehavior, Value};
use serde::Serialize;

use crate::files::Files;

/// Label of all of lasthop's objects in a cluster; its value is the fleet run.
pub const LABEL: &str = "lasthop/fleet";
/// The container that runs lasthop.
pub const DRIVER: &str = "lasthop";
/// Folder of the experiments in a Pod.
pub const EXPERIMENT: &str = "experiment";
/// How long a worker waits for its reader before it ends.
pub const LINGER: Duration = Duration::from_secs(120);
/// The usual maximum of a run's time beyond its budget: calibration, the last round, the report.
const BESIDE_BUDGET: Duration = Duration::from_secs(120);
/// User and group of every process: `nobody`.
pub(crate) const NOBODY: u32 = 65_534;
/// Folder of sockets in every container.
pub(crate) const SOCKETS: &str = "/run/lasthop";
/// The variable with the Pod's own address, which is known only there.
pub(crate) const POD_ADDRESS: &str = "LASTHOP_POD_ADDRESS";

static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    templates.set_trim_blocks(true);
    templates.set_lstrip_blocks(true);
    templates.set_keep_trailing_newline(true);
    // The output of a macro is a part of the template.
    templates.set_auto_escape_callback(|_| AutoEscape::Custom("yaml"));
    templates.set_formatter(write_value);
    templates.add_global("nobody", NOBODY);
    templates.add_global("sockets", SOCKETS);
    templates.add_global("pod_address", POD_ADDRESS);
    let all = [
        (JOB, include_str!("job.yaml.j2")),
        (SERVICE, include_str!("service.yaml.j2")),
    ];
    for (name, text) in all {
        templates.add_template(name, text).expect("a template of lasthop's own");
    }
    templates
});
const JOB: &str = "job.yaml.j2";
pub(crate) const SERVICE: &str = "service.yaml.j2";

/// Writes a value as JSON, which is valid YAML once some characters are escaped.
fn write_value(output: &mut Output<'_>, _: &State<'_, '_>, value: &Value) -> Result<(), Error> {
    if value.is_safe() {
        return Ok(output.write_str(value.as_str().unwrap_or_default())?);
    }
    let json = serde_json::to_string(value).expect("a value of a template");
    for character in json.chars() {
        let is_plain = !character.is_control() && !"\u{2028}\u{2029}\u{feff}\u{fffe}\u{ffff}".contains(character);
        match u32::from(character) {
            _ if is_plain => output.write_char(character)?,
            number => write!(output, "\\u{number:04x}")?,
        }
    }
    Ok(())
}

/// # Panics
///
/// If the template is wrong, which tests exclude.
pub(crate) fn render(template: &str, values: impl Serialize) -> String {
    let template = TEMPLATES.get_template(template).expect("a template of lasthop's own");
    template.render(values).expect("a template of lasthop's own")
}

/// The container of a server.
#[derive(Serialize)]
pub(crate) struct Server {
    pub name: String,
    pub command: Vec<String>,
    pub environment: Vec<(String, String)>,
    /// Folder of the server's sockets, below [`SOCKETS`].
    pub folder: PathBuf,
}

/// Values of a Job for `job.yaml.j2`.
#[derive(Serialize)]
pub(crate) struct Job<'a> {
    fleet: &'a Fleet,
    pub name: String,
    pub deadline: u64,
    operator: &'static str,
    node: Option<&'a str>,
    /// Arguments of lasthop, if a container runs it.
    pub driver: Option<Vec<String>>,
    pub files: &'a Files,
    pub servers: &'a [Server],
}

impl Job<'_> {
    pub fn render(&self) -> String {
        render(JOB, self)
    }
}

/// The common settings of a fleet run's Pods.
#[derive(Clone, Debug, Serialize)]
pub struct Fleet {
    /// A word unique to this run in the cluster.
    pub id: String,
    pub image: String,
    /// Arguments of lasthop in the Pod, beginning with `run`.
    pub arguments: Vec<String>,
    /// An experiment that is not built in, below [`EXPERIMENT`].
    pub files: Files,
    /// CPUs and memory of each container; without CPUs neither is requested.
    pub cpus: u32,
    pub memory: String,
    pub budget: Duration,
    /// The longest time for a Pod to start.
    pub wait: Duration,
    /// How long an ended Job is kept.
    pub keep: Duration,
    /// Whether the experiment asks for root. Pods then run as the user of their image.
    pub root: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAffinity {
    /// The node of this name.
    Node(String),
    /// Any node but this one.
    NotOn(String),
    /// Any node.
    Any,
}

/// A unique word for a new fleet run.
pub fn new_id() -> io::Result<String> {
    Ok(random::secret()?[..10].to_owned())
}

impl Fleet {
    /// The longest time for a Job. The cluster ends it then, even if the client is gone.
    pub fn deadline(&self) -> Duration {
        self.wait + self.budget + self.budget / 2 + BESIDE_BUDGET + LINGER
    }

    /// Job number `number`, whose record has these labels, as YAML.
    pub fn job(&self, number: usize, node: &NodeAffinity, labels: &[(String, String)]) -> String {
        self.driver(number, node, labels).render()
    }

    /// Like [`Self::job`], as a value.
    pub(crate) fn driver<'a>(&'a self, number: usize, node: &'a NodeAffinity, labels: &[(String, String)]) -> Job<'a> {
        let linger = format!("{}s", LINGER.as_secs());
        let words = ["fleet", "worker", "--linger", &linger, "--"].map(str::to_owned);
        let labels = labels
            .iter()
            .flat_map(|(name, value)| ["--label".to_owned(), format!("{name}={value}")]);
        let arguments = words
            .into_iter()
            .chain(self.arguments.iter().cloned())
            .chain(labels)
            .chain(["--no-progress".to_owned()]);
        let (operator, node) = match node {
            NodeAffinity::Any => ("In", None),
            NodeAffinity::Node(name) => ("In", Some(name.as_str())),
            NodeAffinity::NotOn(name) => ("NotIn", Some(name.as_str())),
        };
        Job {
            fleet: self,
            name: self.name(number),
            deadline: self.deadline().as_secs(),
            operator,
            node,
            driver: Some(arguments.collect()),
            files: &self.files,
            servers: &[],
        }
    }

    /// Name of the Job with this number.
    pub fn name(&self, number: usize) -> String {
        format!("lasthop-{}-{number}", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(cpus: u32) -> Fleet {
        Fleet {
            id: new_id().unwrap(),
            image: "i".to_owned(),
            arguments: vec!["run".to_owned(), "x".to_owned()],
            files: Files::default(),
            cpus,
            memory: "1Gi".to_owned(),
            budget: Duration::from_secs(60),
            wait: Duration::from_secs(60),
            keep: Duration::from_secs(600),
            root: false,
        }
    }

    #[test]
    fn a_job_ends_by_itself_and_leaves_nothing() {
        let machine = ("machine".to_owned(), "n1".to_owned());
        let job = fleet(2).job(3, &NodeAffinity::Node("n1".to_owned()), &[machine]);
        for part in [
            &format!("    {LABEL}: "),
            "  backoffLimit: 0\n",
            "  ttlSecondsAfterFinished: 600\n",
            "  activeDeadlineSeconds: 390\n",
            "      restartPolicy: Never\n",
            "      automountServiceAccountToken: false\n",
            "                    operator: \"In\"\n                    values: [\"n1\"]\n",
            "            limits:\n              cpu: 2\n              memory: \"1Gi\"\n",
            "\"--label\",\"machine=n1\"",
        ] {
            assert!(job.contains(part), "{part}: {job}");
        }
        assert!(job.lines().all(|line| !line.trim().is_empty()), "{job}");
        let anywhere = fleet(0).job(0, &NodeAffinity::Any, &[]);
        assert!(
            !anywhere.contains("resources:") && !anywhere.contains("affinity:"),
            "{anywhere}"
        );
    }

    #[test]
    fn a_job_is_one_that_the_restricted_standard_admits_unless_root_is_asked_for() {
        let pod = |root| Fleet { root, ..fleet(0) }.job(0, &NodeAffinity::Any, &[]);
        let restricted = pod(false);
        for part in [
            "runAsNonRoot: true",
            "runAsUser: 65534",
            "type: RuntimeDefault",
            "drop: [ALL]",
        ] {
            assert!(restricted.contains(part), "{part}: {restricted}");
        }
        assert!(!pod(true).contains("securityContext"));
    }

    #[test]
    fn an_experiment_goes_along_with_the_job() {
        let mut files = Files::default();
        let text = "title = \"Mine\"\n\u{7f}\u{85}\u{2028}é";
        let path = std::path::Path::new("experiment/mine/experiment.toml");
        files.add(path, text.as_bytes().to_vec()).unwrap();
        let job = Fleet { files, ..fleet(0) }.job(0, &NodeAffinity::Any, &[]);
        for part in [
            r#"        lasthop/file-0: "title = \"Mine\"\n\u007f\u0085\u2028é""#,
            "              - path: \"experiment/mine/experiment.toml\"\n",
            "fieldPath: metadata.annotations['lasthop/file-0']\n",
            "              mountPath: /etc/lasthop/experiment\n              subPath: experiment\n",
        ] {
            assert!(job.contains(part), "{part}: {job}");
        }
    }

    #[test]
    fn names_are_of_their_fleet() {
        let one = fleet(1);
        let other = fleet(1);
        assert_ne!(one.id, other.id);
        assert!(one.name(0).len() <= 63 && one.name(0).starts_with(&format!("lasthop-{}", one.id)));
    }
}
