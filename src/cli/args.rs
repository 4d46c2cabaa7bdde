//! The command line as typed. Parsing does no I/O.

use std::{net::IpAddr, path::PathBuf, str::FromStr as _, time::Duration};

use clap::{
    ArgMatches, Args, FromArgMatches, Parser, Subcommand,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use clap_complete::Shell;
use lasthop_analyse::limit::Limit;
use lasthop_fleet::layout::Layout;
use lasthop_model::{
    driver::{DriverAt, Remote, ToolChoice},
    engine::EngineKind,
    quantity::{duration, share},
    rate::Rate,
    selection::Choice,
};
use lasthop_plan::settings::{Overrides, Times};
use lasthop_report::Format;

use super::{
    load,
    values::{ArrivalsArg, NamedUrl, label, named_url, node_label, program},
};

/// Measures how two processes on one machine should talk
///
/// lasthop starts the real servers of a stack and drives them over every local transport in turn. It tells you which
/// transport is faster, by how much, with what confidence, why, and whether it matters. Without a command it runs
/// `lasthop run sockets`, which needs nothing installed.
#[derive(Debug, Parser)]
#[command(name = "lasthop", version, override_usage = "lasthop [COMMAND]", after_long_help = note!("lasthop"))]
#[command(args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub run: RunOptions,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an experiment and report its result
    #[command(after_help = note!("run"))]
    Run(Box<Run>),
    /// Continue a run that was cut off, or that used up its budget
    #[command(after_help = note!("run"))]
    Resume(Resume),
    /// List the experiments
    List(List),
    /// Show an experiment, or how the servers of a run were configured
    Show(Show),
    /// Print what lasthop found on another machine; runs nothing
    Answers(Answers),
    /// Load a single endpoint and print its figures
    Load(Box<load::LoadArgs>),
    /// Compare endpoints that are there already, such as your servers
    Compare(Box<Compare>),
    /// Say who talks to whom here, and what a Unix socket would save
    #[command(after_help = note!("survey"))]
    Survey(Survey),
    /// Print a recorded run in any format, or several runs together
    #[command(after_help = note!("report"))]
    Report(Report),
    /// Show what changed from one run to another, with intervals
    #[command(after_help = note!("diff"))]
    Diff(Diff),
    /// Ask several machines: does the answer depend on the machine?
    #[command(subcommand)]
    Fleet(Fleet),
    /// List the recorded runs with their sizes, or remove some
    #[command(after_help = note!("runs"))]
    Runs(Runs),
    /// Repeat published studies by their own method and by lasthop's
    #[command(after_help = note!("exit-codes"))]
    Repro(Repro),
    /// Compare cases with themselves: what can this machine tell?
    #[command(name = "selftest", after_help = note!("selftest"))]
    SelfTest(SelfTest),
    /// Say what this machine can run, and what makes the rest ready
    Doctor(Doctor),
    /// Install what an experiment needs (shows the commands first)
    Setup(Setup),
    /// Create your own experiment, or check one
    ///
    /// It is a folder of data that runs as it is.
    #[command(after_help = note!("exit-codes"))]
    New(New),
    /// Remove what a killed run left behind
    Clean,
    /// Print a completion script for your shell
    Completions { shell: Shell },
    /// The load generator as a process: JSON lines in, JSON lines out
    #[command(hide = true)]
    Drive(DriveArgs),
    /// The process that starts servers and ends them when lasthop dies
    #[command(hide = true)]
    Guard(GuardArgs),
    /// Hold a new network namespace until the input ends
    #[command(hide = true)]
    Hold,
    /// A server that sends one fixed reply to every request
    #[command(hide = true)]
    Null,
    /// Start lasthop's own server, for echo, hello and stream URLs
    Serve(super::serve::ServeArgs),
}

/// The tool to run instead of the load generator. Internal.
#[derive(Debug, Args)]
pub struct DriveArgs {
    /// A tool as JSON: choice, program, version, scratch
    #[arg(long, value_name = "JSON")]
    pub foreign: Option<String>,
    /// Exit as soon as standard input closes
    #[arg(long)]
    pub hang_up: bool,
}

/// What lasthop passes to its guard. Internal.
#[derive(Debug, Args)]
pub struct GuardArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub struct Run {
    /// An experiment (`lasthop list`), or the folder of your own
    ///
    /// With --again a run: its name or part of its name, its directory, or `last`, which is the default.
    #[arg(value_name = "EXPERIMENT|RUN")]
    #[arg(
        default_value = "sockets",
        default_value_if("again", "true", "last"),
        hide_default_value = true
    )]
    pub experiment: String,
    /// Make a recorded run again, with its cases and settings
    ///
    /// With --explain, to see why its cases differ.
    #[arg(long, conflicts_with_all = ["Select", "OpenLoop", "Pace", "Drivers", "Programs", "labels"])]
    #[arg(conflicts_with_all = ["precision", "margin", "trial", "warm_up", "settle", "blocks", "seed"])]
    #[arg(conflicts_with_all = ["no_headroom", "rounds", "placement"])]
    pub again: bool,
    #[command(flatten)]
    pub options: RunOptions,
}

#[derive(Debug, Args)]
pub struct RunOptions {
    #[command(flatten)]
    pub select: Select,
    #[command(flatten)]
    pub overrides: Overrides,
    #[command(flatten)]
    pub pace: Pace,
    #[command(flatten)]
    pub drivers: Drivers,
    #[command(flatten)]
    pub layers: LayerOptions,
    #[command(flatten)]
    pub programs: Programs,
    #[command(flatten)]
    pub output: OutputOptions,
    /// Say in the record what machine this is, for `report` of several runs: `machine=NAME` names it, other labels are
    /// its kind (`instance=m7g.large`)
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label, help_heading = "Output")]
    pub labels: Vec<(String, String)>,
    #[command(flatten)]
    pub talk: TalkOptions,
}

#[derive(Debug, Args, Clone)]
#[command(next_help_heading = "Cases")]
pub struct Select {
    /// Run only these of a factor's default levels
    ///
    /// Repeat the option for a further factor.
    #[arg(long, value_name = "FACTOR=LEVEL,…", value_parser = clap::value_parser!(Choice))]
    pub only: Vec<Choice>,
    /// Run these levels, also ones off by default
    ///
    /// Repeat the option for a further factor.
    #[arg(long, value_name = "FACTOR=LEVEL,…", value_parser = clap::value_parser!(Choice))]
    pub set: Vec<Choice>,
    /// Compare each reference case with itself
    ///
    /// To see the smallest difference that this machine can resolve.
    #[arg(long)]
    pub aa: bool,
}

#[derive(Debug, Args, Clone)]
#[command(next_help_heading = "Rate")]
pub struct OpenLoop {
    /// Open loop: requests per second for each case
    ///
    /// Response times are then compared instead of throughput. 0 restores the closed loop.
    #[arg(long, value_name = "PER_SECOND", allow_negative_numbers = true)]
    pub rate: Option<Rate>,
    /// Spacing of an open loop's requests [default: the experiment's, else constant]
    #[arg(long, value_enum, requires = "rate")]
    pub arrivals: Option<ArrivalsArg>,
}

#[derive(Debug, Args, Clone)]
#[command(next_help_heading = "Rate")]
pub struct Pace {
    #[command(flatten)]
    pub open: OpenLoop,
    /// Offer each case multiples of its capacity
    ///
    /// The capacity is measured first. Reports correct replies, errors, and how long it takes to recover. Without a
    /// value: 0.5,0.75,1,1.5,2,3
    #[arg(long, value_name = "TIMES,…", value_parser = Times::from_str, num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = Times::USUAL)]
    #[arg(conflicts_with_all = ["aa", "rate", "precision", "blocks", "fail_if", "driver", "cross_check", "explain"])]
    pub overload: Option<Times>,
}

#[derive(Debug, Args, Clone, Default)]
#[command(next_help_heading = "Driver")]
pub struct Drivers {
    /// Drive with a classic tool instead: wrk, ab, httperf, h2load, psql, pgbench, sysbench or redis-benchmark. You can
    /// add flags for the tool (`'wrk -t2 -c10 -d5s'`). Trials then last whole seconds
    #[arg(long, value_name = "TOOL", value_parser = lasthop_classic::choice)]
    pub driver: Option<ToolChoice>,
    /// Measure every case with this classic tool too, and report whether it agrees with lasthop's load generator
    #[arg(long, value_name = "TOOL", value_parser = lasthop_classic::choice, conflicts_with = "driver")]
    pub cross_check: Vec<ToolChoice>,
    /// Run the driver elsewhere: `netns:new` (a network namespace that lasthop creates), `netns:NAME`, or
    /// `ssh:[USER@]HOST[:PORT]` (lasthop copies itself there and removes the copy afterwards)
    #[arg(long, value_name = "PLACE")]
    pub driver_at: Option<DriverAt>,
    /// Option for ssh (`-o`), such as `IdentityFile=…`
    #[arg(long, value_name = "KEY=VALUE")]
    pub ssh_option: Vec<String>,
    /// Configuration file for ssh (`-F`)
    #[arg(long, value_name = "FILE")]
    pub ssh_config: Option<PathBuf>,
    /// Path to lasthop on the remote host, used instead of copying this executable. It must be the same version; needed
    /// for another architecture
    #[arg(long, value_name = "PATH")]
    pub driver_program: Option<String>,
    /// Address of this machine on which services listen for a driver on another host
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<IpAddr>,
}

impl Drivers {
    pub fn tools(&self) -> impl Iterator<Item = &ToolChoice> {
        self.driver.iter().chain(&self.cross_check)
    }

    pub fn remote(&self) -> Remote {
        Remote {
            options: self.ssh_option.clone(),
            config: self.ssh_config.clone(),
            program: self.driver_program.clone(),
            listen: self.listen,
        }
    }
}

#[derive(Debug, Default, Args, Clone)]
#[command(next_help_heading = "Explanation")]
pub struct LayerOptions {
    /// Also say where the CPU time goes
    ///
    /// Each round ends with profile trials, which the kernel samples and which are in no other figure.
    #[arg(long)]
    pub explain: bool,
    /// Your own layers, or lines of layers for functions that have none: a file like lasthop's `layers.toml`
    #[arg(long, value_name = "FILE", requires = "explain")]
    pub layers: Option<PathBuf>,
}

#[derive(Debug, Default, Args, Clone)]
#[command(next_help_heading = "Programs")]
pub struct Programs {
    /// Use this executable for a recipe
    #[arg(long = "program", value_name = "RECIPE=PATH", value_parser = program)]
    pub programs: Vec<(String, PathBuf)>,
    /// Container engine [default: the first that works]
    #[arg(long, value_parser = engine())]
    pub engine: Option<EngineKind>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputOptions {
    /// Format: json, html, …
    #[arg(long, value_parser = format(), default_value = "terminal")]
    pub format: Format,
    /// Write the report to a file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also show costs, reasons and the environment
    ///
    /// And each verdict in words.
    #[arg(short, long)]
    pub verbose: bool,
    /// Exit with 3 beyond a limit ('unix slower > 5%')
    ///
    /// If the whole interval of a case is beyond it: against its reference, or for `diff` against what it was before.
    /// Exit with 4 if there is no ratio that can be held against it.
    /// CASES slower|faster > SHARE, where CASES is a case, a level, FACTOR=LEVEL, several of these joined by a slash, or
    /// `any`.
    #[arg(long, value_name = "LIMIT")]
    pub fail_if: Vec<Limit>,
}

/// What a run prints while it goes on.
#[derive(Debug, Args)]
pub struct TalkOptions {
    /// Show warnings but no progress
    #[arg(short, long)]
    pub quiet: bool,
    /// Print a line every ten seconds instead of one that replaces itself
    #[arg(long)]
    pub no_progress: bool,
}

#[derive(Debug, Args)]
pub struct List {
    /// Also show experiments that are not ready, and what they miss
    #[arg(long)]
    pub all: bool,
    /// Also ask each program for its version, which takes a second: without this, one that is too old counts as there
    #[arg(long)]
    pub versions: bool,
}

#[derive(Debug, Args)]
pub struct Answers {
    /// An experiment, a server or a group: `redis`, `nginx`, `databases`; all in a line or two each without it
    #[arg(value_name = "STACK")]
    pub stack: Option<String>,
    /// Format: terminal, json, csv or markdown
    #[arg(long, value_parser = format(), hide_possible_values = true, default_value = "terminal")]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Runs {
    /// Format of the list: terminal, json, csv, markdown, or html, which also says where each run was made and what
    /// changed since the one before
    #[arg(long, value_parser = format(), hide_possible_values = true, default_value = "terminal")]
    pub format: Format,
    /// Write the list to a file instead of standard output; as html to a folder, with the page of each run beside it
    #[arg(short, long, value_name = "FILE", conflicts_with = "remove")]
    pub output: Option<PathBuf>,
    /// Remove these runs for good: names, parts of names, or `last`
    #[arg(long, value_name = "RUN", num_args = 1.., conflicts_with = "format")]
    pub remove: Vec<String>,
    /// Remove without asking
    #[arg(short, long, requires = "remove")]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub struct Show {
    /// Name of an experiment, or the folder of your own experiment. Or a run, as for `report`: its configurations, the
    /// winner's first, and what must be true to use them
    #[arg(value_name = "EXPERIMENT|RUN")]
    pub subject: String,
    #[command(flatten)]
    pub select: Select,
    /// List its files and those of its recipes instead, or print one (`--files nginx.conf.j2`)
    #[arg(long, value_name = "FILE", num_args = 0.., conflicts_with_all = ["only", "set", "aa"])]
    pub files: Option<Vec<PathBuf>>,
}

#[derive(Debug, Args)]
pub struct Report {
    /// A run: its name or part of its name, its directory, or `last`. Several runs are reported together
    #[arg(value_name = "RUN", default_value = "last")]
    pub runs: Vec<String>,
    /// Several runs: what makes a kind of machine: architecture, cpu, size (by the number of CPUs), kernel, cpus,
    /// distribution, virtualization, or labels [default: the first four and all labels, where they differ]
    #[arg(long, value_name = "FACT,…", value_delimiter = ',')]
    pub by: Vec<String>,
    /// Say instead what a check means and what to do about it, by the id that reports print in brackets
    /// (`driver-kept-off`); without an id, list all checks
    #[arg(long, value_name = "ID", conflicts_with_all = ["runs", "by", "OutputOptions"])]
    pub check: Option<Option<String>>,
    #[command(flatten)]
    pub output: OutputOptions,
}

#[derive(Debug, Args)]
pub struct Diff {
    /// The run before: its name or part of its name, or its directory
    pub old: String,
    /// The run after
    #[arg(default_value = "last")]
    pub new: String,
    #[command(flatten)]
    pub output: OutputOptions,
}

#[derive(Debug, Subcommand)]
pub enum Fleet {
    /// Run an experiment on nodes of a Kubernetes cluster, and report it
    ///
    /// The runs are reported together. Nothing stays there.
    #[command(after_help = note!("fleet-run"))]
    Run(Box<FleetRun>),
    /// Print the Job that `fleet run` would make
    ///
    /// For those who apply it by other means.
    #[command(after_help = note!("fleet-export"))]
    Export(Box<FleetExport>),
    /// Make a record of a Pod's log
    ///
    /// `kubectl logs POD | lasthop fleet collect`
    Collect(FleetCollect),
    /// What a Pod of a fleet run executes. Internal
    #[command(hide = true)]
    Worker(FleetWorker),
    /// What it executes to compare layouts of Pods. Internal
    #[command(hide = true)]
    Drive(Box<FleetDrive>),
}

#[derive(Debug, Args)]
pub struct FleetRun {
    /// An experiment (`lasthop list`), or the folder of your own
    #[arg(default_value = "sockets")]
    pub experiment: String,
    /// Run on the ready nodes with these labels
    ///
    /// Such as `pool=bench,!spot` [default: on every ready node].
    #[arg(long, value_name = "SELECTOR", help_heading = "Nodes")]
    pub nodes: Option<String>,
    /// Run on this node, which need not be listed
    #[arg(long, value_name = "NAME", conflicts_with = "nodes", help_heading = "Nodes")]
    pub node: Vec<String>,
    /// Runs on each node
    ///
    /// One after the other.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[arg(help_heading = "Nodes")]
    pub per_node: u32,
    /// Label of the nodes for the record, or NAME=VALUE
    ///
    /// Without what is before its slash: `topology.kubernetes.io/zone` becomes `zone`. [default: the instance type, if
    /// the nodes have it]
    #[arg(long = "label", value_name = "LABEL", value_parser = node_label)]
    #[arg(help_heading = "Nodes")]
    pub labels: Vec<(String, Option<String>)>,
    #[command(flatten)]
    pub pods: FleetPods,
    /// Longest time until a Pod has started
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2m", help_heading = "Pods")]
    pub wait: Duration,
    #[command(flatten)]
    pub cluster: FleetCluster,
    #[command(flatten)]
    pub run: Passed<FleetRunOptions>,
    /// What makes a kind of machine, as for `report`
    #[arg(long, value_name = "FACT,…", value_delimiter = ',', help_heading = "Output")]
    pub by: Vec<String>,
    #[command(flatten)]
    pub output: OutputOptions,
    /// Show warnings but no progress
    #[arg(short, long, help_heading = "Output")]
    pub quiet: bool,
}

/// Options of `lasthop run` that a Pod takes.
#[derive(Debug, Args, Clone)]
pub struct FleetRunOptions {
    #[command(flatten)]
    pub select: Select,
    #[command(flatten)]
    pub overrides: Overrides,
    #[command(flatten)]
    pub open: OpenLoop,
}

/// What Pods are like.
#[derive(Debug, Args, Clone)]
#[command(next_help_heading = "Pods")]
pub struct FleetPods {
    /// Image with lasthop and the servers of the experiment
    ///
    /// Its entry point is lasthop.
    #[arg(long, default_value = concat!("localhost/lasthop:", env!("CARGO_PKG_VERSION")))]
    pub image: String,
    /// Whole CPUs for each Pod
    ///
    /// Nobody else has them if the node's CPU manager is static; 0 requests nothing [default: 2, or what a node has].
    #[arg(long, value_name = "N")]
    pub cpus: Option<u32>,
    /// Memory for each Pod
    #[arg(long, value_name = "QUANTITY", default_value = "1Gi")]
    pub memory: String,
    /// Compare layouts of Pods: tcp, unix, …
    ///
    /// The services of the experiment are then containers, which reach each other over TCP and over a Unix socket in
    /// one Pod (tcp, unix), over a Service on the same node (service), and from Pod to Pod across nodes (other-node).
    /// Without a value: all of them. --cpus then counts for each container [default: 0].
    #[arg(long, value_name = "LAYOUT,…", value_delimiter = ',', num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "tcp,unix,service,other-node", value_parser = layout())]
    pub pods: Option<Vec<Layout>>,
}

fn layout() -> impl TypedValueParser<Value = Layout> {
    named(Layout::ALL.map(|layout| (layout, PossibleValue::new(layout.name()))))
}

/// Which cluster.
#[derive(Debug, Args, Clone)]
#[command(next_help_heading = "Cluster")]
pub struct FleetCluster {
    /// Context of the kubeconfig [default: its current one]
    #[arg(long)]
    pub context: Option<String>,
    /// Namespace [default: the context's]
    #[arg(short, long)]
    pub namespace: Option<String>,
}

#[derive(Debug, Args)]
pub struct FleetExport {
    /// An experiment (`lasthop list`), or the folder of your own
    #[arg(default_value = "sockets")]
    pub experiment: String,
    /// A Job for the node of this name [default: one Job, for any node]
    #[arg(long, value_name = "NAME", help_heading = "Nodes")]
    pub node: Vec<String>,
    /// Label for the record
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label, help_heading = "Nodes")]
    pub labels: Vec<(String, String)>,
    #[command(flatten)]
    pub pods: FleetPods,
    #[command(flatten)]
    pub run: Passed<FleetRunOptions>,
}

#[derive(Debug, Args)]
pub struct FleetCollect {
    /// Saved logs [default: standard input]
    #[arg(value_name = "LOG")]
    pub logs: Vec<PathBuf>,
}

/// What a Pod executes. Internal.
#[derive(Debug, Args)]
pub struct FleetWorker {
    /// How long to wait for the reader of the log
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1ms")]
    pub linger: Duration,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub arguments: Vec<String>,
}

/// What a Pod executes to compare layouts. Internal.
#[derive(Debug, Args)]
pub struct FleetDrive {
    /// The endpoints, as JSON
    pub given: PathBuf,
    #[command(flatten)]
    pub run: FleetRunOptions,
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    pub labels: Vec<(String, String)>,
    #[command(flatten)]
    pub output: OutputOptions,
    #[command(flatten)]
    pub talk: TalkOptions,
}

/// Options with their text as typed, to be passed to another lasthop.
#[derive(Debug, Clone)]
pub struct Passed<T> {
    pub options: T,
    pub words: Vec<String>,
}

impl<T: Args> Args for Passed<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        T::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        T::augment_args_for_update(command)
    }
}

impl<T: Args> FromArgMatches for Passed<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let options = T::augment_args(clap::Command::new("lasthop"));
        let words = options
            .get_arguments()
            .flat_map(|option| typed(option, matches))
            .collect();
        Ok(Self {
            options: T::from_arg_matches(matches)?,
            words,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// An option's text as typed.
fn typed(option: &clap::Arg, matches: &ArgMatches) -> Vec<String> {
    let id = option.get_id().as_str();
    let name = option.get_long().unwrap_or_default();
    // The other lasthop has the same defaults.
    if matches.value_source(id) != Some(clap::parser::ValueSource::CommandLine) {
        return Vec::new();
    }
    if !option.get_action().takes_values() {
        return vec![format!("--{name}")];
    }
    let values = matches.get_raw(id).into_iter().flatten();
    values
        // Joined by `=`, because a value may begin with a dash.
        .map(|value| format!("--{name}={}", value.to_string_lossy()))
        .collect()
}

#[derive(Debug, Args)]
pub struct Resume {
    /// A run: its name or part of its name, its directory, or `last`
    #[arg(default_value = "last")]
    pub run: String,
    /// More time for the run, including the starts of services [default: the rest of its budget]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub budget: Option<Duration>,
    /// Execute what the record names (hosts, ssh commands, programs, its experiment's folder) without asking, even if
    /// the record is not proven to be your own
    #[arg(long)]
    pub trust_record: bool,
    /// Put load on other machines again; of a comparison only
    #[arg(long)]
    pub remote: bool,
    #[command(flatten)]
    pub output: OutputOptions,
    #[command(flatten)]
    pub talk: TalkOptions,
}

#[derive(Debug, Args)]
pub struct Repro {
    /// Name of a study; leave it out to list the studies
    pub study: Option<String>,
    /// Repeat every study that is not finished, and write a book of all of them as Markdown and JSON
    #[arg(long, conflicts_with = "study")]
    pub all: bool,
    /// Repeat finished studies too
    #[arg(long, requires = "all")]
    pub again: bool,
    /// Time to measure a study by lasthop's method. The study's parts share it, and each gets at least one whole round.
    /// The study's own method is shortened to take about as long at most
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub budget: Option<Duration>,
    /// Also say by which layers of CPU time the conditions of a study differ
    #[arg(long)]
    pub explain: bool,
    /// Folder for records, results and the book [default: lasthop's data folder]
    #[arg(long, value_name = "FOLDER")]
    pub into: Option<PathBuf>,
    /// Seed for the order of cases and for the bootstrap
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Format of the table of one study: terminal, markdown, html or json
    #[arg(long, value_parser = format(), hide_possible_values = true, default_value = "terminal", conflicts_with = "all")]
    pub format: Format,
    #[command(flatten)]
    pub programs: Programs,
    /// Show warnings but no progress
    #[arg(short, long)]
    pub quiet: bool,
}

impl SelfTest {
    /// The default experiment, which needs no server.
    pub const EXPERIMENT: &str = "sockets";
}

#[derive(Debug, Args)]
pub struct SelfTest {
    /// Name of an experiment, or the folder of your own experiment
    #[arg(default_value = SelfTest::EXPERIMENT)]
    pub experiment: String,
    /// Run only these of a factor's default levels
    ///
    /// Repeat the option for a further factor.
    #[arg(long, value_name = "FACTOR=LEVEL,…", value_parser = clap::value_parser!(Choice))]
    pub only: Vec<Choice>,
    /// Run these levels, also ones off by default
    ///
    /// Repeat the option for a further factor.
    #[arg(long, value_name = "FACTOR=LEVEL,…", value_parser = clap::value_parser!(Choice))]
    pub set: Vec<Choice>,
    /// Number of runs
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: u32,
    /// Time for all runs together [default: 2m]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub budget: Option<Duration>,
    /// Cost to plant in a second reading of each run, as a share of a request
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "5%")]
    pub plant: f64,
    /// Format of the result: terminal, markdown, html or json
    #[arg(long, value_parser = format(), hide_possible_values = true, default_value = "terminal")]
    pub format: Format,
    /// Show warnings but no progress
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = load::urls() + "\n" + note!("compare"))]
pub struct Compare {
    /// Endpoints to compare; the first is the reference
    ///
    /// See URLs below. NAME= in front of one is what reports and limits call it: old=http://127.0.0.1:8001/
    #[arg(value_name = "[NAME=]URL", required = true, num_args = 2.., value_parser = named_url)]
    pub endpoints: Vec<NamedUrl>,
    /// Command that restarts the servers between rounds
    ///
    /// It is given to a shell. It must end within a minute and what is left of the budget, and leave the servers
    /// running, which may be its own background processes.
    #[arg(long, value_name = "COMMAND")]
    pub restart: Option<String>,
    /// Measure the CPU time of this process and those that it started, where lasthop cannot find the server by itself
    #[arg(long = "pid", value_name = "ROLE=PID", value_parser = role)]
    pub pids: Vec<(String, i32)>,
    /// Compare endpoints that do not answer alike
    #[arg(long)]
    pub differing: bool,
    /// Put load on other machines, too
    #[arg(long)]
    pub remote: bool,
    #[command(flatten)]
    pub requests: load::RequestArgs,
    #[command(flatten)]
    pub overrides: Overrides,
    #[command(flatten)]
    pub layers: LayerOptions,
    #[command(flatten)]
    pub output: OutputOptions,
    #[command(flatten)]
    pub talk: TalkOptions,
}

#[derive(Debug, Args)]
pub struct Survey {
    /// How long to watch
    #[arg(long = "for", value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub watch: Duration,
    /// How often to look at the open connections
    ///
    /// With very many it takes longer, so that looking takes at most 2 % of a CPU, besides the first look and the last.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub interval: Duration,
    /// Only links with this in a name or address
    ///
    /// In the name of a process, its container or unit, or in the address. Repeat the option for more.
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Run the experiments that would tell more of these links
    ///
    /// Those that you have not run yet, as `lasthop run` does: with servers that lasthop starts, beside those that run
    /// already. It is said what they are.
    #[arg(long)]
    pub measure: bool,
    /// Time for each run of --measure [default: the experiment's]
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "measure")]
    pub budget: Option<Duration>,
    /// Format of the result: terminal, json, csv, markdown or html.
    #[arg(long, value_parser = format(), hide_possible_values = true, default_value = "terminal")]
    pub format: Format,
    /// Write the result to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also list links that nothing or little went over
    #[arg(short, long)]
    pub verbose: bool,
    /// Do not say how long it takes, and show no progress
    #[arg(short, long)]
    pub quiet: bool,
}

/// Parses `ROLE=PID`.
fn role(text: &str) -> Result<(String, i32), String> {
    let pid = text
        .split_once('=')
        .and_then(|(role, pid)| Some((role, pid.parse().ok().filter(|pid| *pid > 1)?)));
    let (role, pid) = pid
        .filter(|(role, _)| !role.is_empty())
        .ok_or("expected ROLE=PID, for example app=4711")?;
    Ok((role.to_owned(), pid))
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Check only what this experiment needs
    pub experiment: Option<String>,
    /// Also measure for a dozen seconds which differences this machine can see: a short selftest of the experiment,
    /// or of `sockets`
    #[arg(long)]
    pub measure: bool,
    #[command(flatten)]
    pub programs: Programs,
}

#[derive(Debug, Args)]
pub struct Setup {
    /// Name of an experiment, or the folder of your own experiment
    #[arg(required_unless_present_any = ["all", "tools"])]
    pub experiment: Option<String>,
    /// Install what the built-in experiments need, and the classic tools
    #[arg(long, conflicts_with = "experiment")]
    pub all: bool,
    /// Install the classic tools: wrk, ab, httperf, h2load, psql, pgbench, sysbench, redis-benchmark
    #[arg(long)]
    pub tools: bool,
    /// Run the commands without asking
    #[arg(short, long)]
    pub yes: bool,
    /// Show the commands and stop
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
#[command(mut_group("Select", |group| group.requires("check")))]
#[command(mut_group("Programs", |group| group.requires("check")))]
pub struct New {
    /// Name of the experiment, and of the folder to create; with --check, of an experiment or the folder of your own
    pub name: String,
    /// Copy this experiment, with the recipes that it uses, instead of the smallest one
    #[arg(long, value_name = "EXPERIMENT")]
    pub from: Option<String>,
    /// Make one with a driver of your own, in Python and in Node, for a protocol that lasthop does not speak
    #[arg(long, conflicts_with = "from")]
    pub driver: bool,
    /// Report all errors of an experiment, then ask each of its cases for two seconds
    #[arg(long, conflicts_with_all = ["from", "driver"])]
    pub check: bool,
    /// Check only the files, and start nothing
    #[arg(long, requires = "check")]
    pub no_run: bool,
    #[command(flatten)]
    pub select: Select,
    #[command(flatten)]
    pub programs: Programs,
}

fn engine() -> impl TypedValueParser<Value = EngineKind> {
    named(EngineKind::ALL.map(|kind| (kind, PossibleValue::new(kind.name()))))
}

fn format() -> impl TypedValueParser<Value = Format> {
    named(Format::ALL.map(|(format, name, help)| {
        let alias = (format == Format::Terminal).then_some("text");
        (format, PossibleValue::new(name).aliases(alias).help(help))
    }))
}

/// A parser of these values by name. Value types are independent of the command line.
fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    values: [(T, PossibleValue); N],
) -> impl TypedValueParser<Value = T> {
    let shown = values.clone().map(|(_, value)| value);
    PossibleValuesParser::new(shown).map(move |word| {
        let mut values = values.iter();
        let found = values.find(|(_, value)| value.matches(&word, false));
        found.expect("the parser takes no other word").0
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// The command lines in a document's code blocks.
    fn command_lines(text: &str) -> Vec<String> {
        let of_lasthop = regex::Regex::new(r"^(?:\$ )?(lasthop .*)$").unwrap();
        let blocks = text.split("```").skip(1).step_by(2);
        blocks
            .flat_map(str::lines)
            .filter_map(|line| Some(of_lasthop.captures(line)?[1].to_owned()))
            .collect()
    }

    fn documents(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Pages of messages show command lines that are refused.
            if path.is_dir() && !["target", "messages"].contains(&&*name) && !name.starts_with('.') {
                documents(&path, found);
            } else if name.ends_with(".md") || name.ends_with(".toml") {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_command_line_in_the_documents_is_accepted() {
        let mut paths = Vec::new();
        documents(Path::new(env!("CARGO_MANIFEST_DIR")), &mut paths);
        let advised = regex::Regex::new(r#"--(?:budget|trial)[ =]+([0-9][^\s)`",;]*)"#).unwrap();
        let mut lines = 0;
        let mut timed = 0;
        for path in paths {
            let text = fs::read_to_string(&path).unwrap();
            for found in advised.captures_iter(&text) {
                assert!(duration(&found[1]).is_ok(), "{}: {}", path.display(), &found[0]);
                timed += 1;
            }
            for line in command_lines(&text) {
                let words = shlex::split(&line).unwrap_or_else(|| panic!("{}: {line}", path.display()));
                let words = words
                    .into_iter()
                    .take_while(|word| !["|", ">"].contains(&word.as_str()))
                    // A reader has the file; here any file will do.
                    .map(|word| {
                        if word.starts_with('@') {
                            "@Cargo.toml".to_owned()
                        } else {
                            word
                        }
                    });
                let parsed = Cli::try_parse_from(words);
                assert!(parsed.is_ok(), "{}: {line}\n{}", path.display(), parsed.unwrap_err());
                lines += 1;
            }
        }
        assert!(
            lines >= 30 && timed >= 10,
            "only {lines} command lines and {timed} times were found"
        );
    }

    #[test]
    fn every_time_in_the_help_is_accepted() {
        let mut command = <Cli as clap::CommandFactory>::command();
        command.build();
        let example = regex::Regex::new(r"\b([0-9.]+(?:h|m|min|s|ms|us|ns))\b").unwrap();
        let mut examples = 0;
        for argument in command.get_subcommands().flat_map(clap::Command::get_arguments) {
            let Some("TIME") = argument
                .get_value_names()
                .and_then(|names| names.first())
                .map(|name| name.as_str())
            else {
                continue;
            };
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            for found in example.captures_iter(&help) {
                assert!(duration(&found[1]).is_ok(), "{}: {help}", argument.get_id());
                examples += 1;
            }
        }
        assert!(examples >= 2, "the help of `--budget` has examples");
    }

    #[test]
    fn text_after_the_options_is_wrapped_once() {
        let mut all = vec![<Cli as clap::CommandFactory>::command()];
        while let Some(command) = all.pop() {
            all.extend(command.get_subcommands().cloned());
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            // A line that another line of the paragraph follows was wrapped by hand, and a terminal would wrap it
            // again.
            let by_hand = lines
                .windows(2)
                .find(|pair| pair.iter().all(|line| !line.is_empty() && !line.starts_with(' ')) && pair[0].len() > 70);
            assert_eq!(by_hand, None, "{}", command.get_name());
        }
    }

    #[test]
    fn a_time_or_share_that_is_refused_says_why() {
        let refused = |arguments: &[&str]| Cli::try_parse_from(arguments).unwrap_err().to_string();
        assert!(
            refused(&["lasthop", "run", "--budget", "-5s"])
                .contains("`-5s` is out of range: it must be more than zero")
        );
        assert!(refused(&["lasthop", "run", "--precision", "150%"]).contains("`150%` is more than 100%"));
        assert!(refused(&["lasthop", "load", "http://x/", "-d", "0s"]).contains("must be more than zero"));
        assert!(refused(&["lasthop", "resume", "--budget", "60"]).contains("write 60s, 60m"));
        assert!(Cli::try_parse_from(["lasthop", "load", "http://x/", "--spin", "0", "-d", "5m"]).is_ok());
    }
}
