//! The command line as typed. Parsing does no I/O.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::{load::ArrivalsArg, values::program};
use crate::{
    experiment::{
        cases::Choice,
        pace::Rate,
        quantity::{duration, share},
    },
    report::Format,
    run::away::{DriverAt, Remote},
    service::container::{engine::Kind, image::Images},
    tool::ToolChoice,
};

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    a case failed, or a program is missing: the output says which
  2    wrong use: an unknown word, a file with errors
  130  interrupted; what was measured so far is recorded and reported";

/// Measures how two processes on one machine should talk
///
/// Starts the real servers of a stack, drives them over every local transport in turn, and says which transport is
/// faster, by how much, with what confidence, why, and whether it matters. Without a command it runs the embedded
/// default, `lasthop run sockets`.
#[derive(Debug, Parser)]
#[command(name = "lasthop", version, after_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub run: RunOptions,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run an experiment and report its result
    #[command(after_help = EXIT_CODES)]
    Run(Run),
    /// Go on with a run that was interrupted, killed, or ended by its budget
    #[command(after_help = EXIT_CODES)]
    Resume(Resume),
    /// List the experiments
    List,
    /// Show an experiment: its question, services, factors and cases
    Show(Show),
    /// Put load on one endpoint and print its figures
    Load(super::load::LoadArgs),
    /// Report a recorded run again, in any format
    Report(Report),
    /// List the recorded runs
    Runs,
    /// Repeat what others published: their method beside lasthop's, and why the figures differ
    #[command(after_help = EXIT_CODES)]
    Repro(Repro),
    /// Write the winner's configuration for copying, and what must be true for it
    Export(Export),
    /// Say what this machine can run, what is missing, and what makes it noisy
    Doctor(Doctor),
    /// Install what an experiment needs (shows the commands first)
    Setup(Setup),
    /// Start an experiment of your own: a folder of data that runs as it is
    New(New),
    /// Remove what a killed run left behind
    Clean,
    /// Say over which hops a server on this machine is reached: proxies, DNAT, bridges, namespaces
    Path(PathArgs),
    /// Write a completion script for a shell to standard output
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
    /// Run a command in a network namespace
    #[command(hide = true)]
    Enter(EnterArgs),
    /// A server that says one reply for every request, and does nothing else
    #[command(hide = true)]
    Null,
    /// lasthop's own server of the experiment `sockets`
    #[command(hide = true)]
    Serve(super::serve::ServeArgs),
    /// Write man page, completions and schemas into a folder
    #[command(hide = true)]
    Generate { directory: PathBuf },
}

/// Which tool is run in the place of the load generator; not for people.
#[derive(Debug, Args)]
pub struct DriveArgs {
    /// A tool as JSON: choice, program, version, scratch
    #[arg(long, value_name = "JSON")]
    pub foreign: Option<String>,
    /// End at once when nobody can ask any more
    #[arg(long)]
    pub hang_up: bool,
}

/// Which network namespace a command is to run in; not for people.
#[derive(Debug, Args)]
pub struct EnterArgs {
    pub namespace: PathBuf,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub command: Vec<std::ffi::OsString>,
}

/// What lasthop tells its guard; not for people.
#[derive(Debug, Args)]
pub struct GuardArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub struct Run {
    /// Name of an experiment (see `lasthop list`), or the folder of your own
    #[arg(default_value = "sockets")]
    pub experiment: String,
    #[command(flatten)]
    pub options: RunOptions,
}

#[derive(Debug, Args)]
pub struct RunOptions {
    #[command(flatten)]
    pub select: Select,
    #[command(flatten)]
    pub schedule: ScheduleOptions,
    #[command(flatten)]
    pub pace: Pace,
    #[command(flatten)]
    pub drivers: Drivers,
    #[command(flatten)]
    pub programs: Programs,
    #[command(flatten)]
    pub output: OutputOptions,
    #[command(flatten)]
    pub talk: TalkOptions,
}

#[derive(Debug, Args, Clone)]
#[command(next_help_heading = "Which cases")]
pub struct Select {
    /// Keep only these levels of a factor
    #[arg(long, value_name = "FACTOR=LEVEL,…", value_parser = clap::value_parser!(Choice))]
    pub only: Vec<Choice>,
    /// Run a factor at these levels, also at such that are not run by default
    #[arg(long, value_name = "FACTOR=LEVEL,…", value_parser = clap::value_parser!(Choice))]
    pub set: Vec<Choice>,
    /// Compare each reference case with itself: the spread is what this machine can resolve
    #[arg(long)]
    pub aa: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "How long and how exactly")]
pub struct ScheduleOptions {
    /// Stop when every interval is this narrow: half its width as a share of the ratio
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub precision: Option<f64>,
    /// Time for the whole run, starts included (`60s`, `5m`)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub budget: Option<Duration>,
    /// Differences within this share count as none
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub margin: Option<f64>,
    /// Length of one trial
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub trial: Option<Duration>,
    /// Blocks between two restarts of the services
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub blocks: Option<u32>,
    /// Seed of the order of cases and of the bootstrap; drawn and recorded if not given
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Do not calibrate the load generator against a server that does nothing
    #[arg(long)]
    pub no_headroom: bool,
    /// Stop after so many rounds (starts of all services)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// Which CPUs driver and services may use
    #[arg(long, value_enum, default_value_t = PlacementChoice::Auto)]
    pub placement: PlacementChoice,
}

#[derive(Debug, Args, Clone)]
#[command(next_help_heading = "At which rate")]
pub struct Pace {
    /// Every case at this rate, in requests per second over all its connections, whether or not replies came (open loop):
    /// response times are compared then, and not throughput. 0: a closed loop, the next request after the reply
    #[arg(long, value_name = "PER_SECOND", allow_negative_numbers = true)]
    pub rate: Option<Rate>,
    /// How the requests of an open loop are spread over time; `constant` if neither this nor the experiment says
    #[arg(long, value_enum, requires = "rate")]
    pub arrivals: Option<ArrivalsArg>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlacementChoice {
    /// Apart where there is a CPU for each process of the case, else free
    Auto,
    /// The driver on a CPU of its own, the services on the others
    Apart,
    /// Driver and services on one CPU
    Same,
    /// The scheduler decides
    Free,
}

#[derive(Debug, Args, Clone, Default)]
#[command(next_help_heading = "Who drives")]
pub struct Drivers {
    /// Make the load with a classic tool: wrk, ab, httperf, h2load, psql, pgbench or redis-benchmark, with flags of its own
    /// if they are given (`'wrk -t2 -c10 -d5s'`). Its trials last whole seconds
    #[arg(long, value_name = "TOOL")]
    pub driver: Option<ToolChoice>,
    /// Let a classic tool take its turn beside lasthop's load generator, and say whether they agree
    #[arg(long, value_name = "TOOL", conflicts_with = "driver")]
    pub cross_check: Vec<ToolChoice>,
    /// Put the driver elsewhere: `netns:new` (a network namespace of lasthop's own making), `netns:NAME`, or
    /// `ssh:[USER@]HOST[:PORT]` (lasthop is copied there, and removed again)
    #[arg(long, value_name = "PLACE")]
    pub driver_at: Option<DriverAt>,
    /// An option of ssh (`-o`), such as `IdentityFile=…`
    #[arg(long, value_name = "KEY=VALUE")]
    pub ssh_option: Vec<String>,
    /// Configuration file of ssh (`-F`)
    #[arg(long, value_name = "FILE")]
    pub ssh_config: Option<PathBuf>,
    /// lasthop on the other host, in the place of a copy: the same version, for another architecture
    #[arg(long, value_name = "PATH")]
    pub driver_program: Option<String>,
    /// Address of this machine at which services listen for a driver on another host
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<IpAddr>,
}

impl Drivers {
    #[must_use]
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
#[command(next_help_heading = "Which programs")]
pub struct Programs {
    /// Use this executable for a recipe
    #[arg(long = "program", value_name = "RECIPE=PATH", value_parser = program)]
    pub programs: Vec<(String, PathBuf)>,
    /// Run containers with this engine; the first that can be used if not given
    #[arg(long, value_enum)]
    pub engine: Option<Kind>,
    /// How the images of containers are made
    #[arg(long, value_enum, default_value_t)]
    pub images: Images,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What comes out")]
pub struct OutputOptions {
    /// Form of the report
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    pub format: Format,
    /// Write the report into a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What is said on the way.
#[derive(Debug, Args)]
pub struct TalkOptions {
    /// Do not show progress; warnings stay
    #[arg(short, long)]
    pub quiet: bool,
    /// Show no progress line even on a terminal
    #[arg(long)]
    pub no_progress: bool,
}

#[derive(Debug, Args)]
pub struct Show {
    /// Name of an experiment, or the folder of your own
    pub experiment: String,
    #[command(flatten)]
    pub select: Select,
}

#[derive(Debug, Args)]
pub struct Report {
    /// A run: its name or a part of it, its directory, or `last`
    #[arg(default_value = "last")]
    pub run: String,
    #[command(flatten)]
    pub output: OutputOptions,
}

#[derive(Debug, Args)]
pub struct Resume {
    /// A run: its name or a part of it, its directory, or `last`
    #[arg(default_value = "last")]
    pub run: String,
    /// Further time that it may take, starts included; what is left of its own if not given
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub budget: Option<Duration>,
    #[command(flatten)]
    pub output: OutputOptions,
    #[command(flatten)]
    pub talk: TalkOptions,
}

#[derive(Debug, Args)]
pub struct Repro {
    /// Name of a study; without it the studies are listed
    pub study: Option<String>,
    /// Every study, as a book: one Markdown file and one JSON file. Finished studies are not repeated
    #[arg(long, conflicts_with = "study")]
    pub all: bool,
    /// Repeat finished studies, too
    #[arg(long, requires = "all")]
    pub again: bool,
    /// Time for lasthop's own design of a study, shared by its parts, of which each has one whole round even where that takes
    /// longer; the study's own method is shortened to take about as long at most
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub budget: Option<Duration>,
    /// Let the study's tool take its turn beside lasthop's load generator (pgbench for psql), and say whether they agree within
    /// 5 %; takes as long again as lasthop's own design
    #[arg(long)]
    pub cross_check: bool,
    /// Folder for records, results and the book; lasthop's data folder if not given
    #[arg(long, value_name = "FOLDER")]
    pub into: Option<PathBuf>,
    /// Seed of the order of cases and of the bootstrap
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Form of the table of one study
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    pub format: Format,
    #[command(flatten)]
    pub programs: Programs,
    /// Do not show progress; warnings stay
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct Export {
    /// A run (its name or a part of it, its directory, or `last`), or an experiment: its last run
    #[arg(default_value = "last")]
    pub run: String,
    /// This case instead of the winner
    #[arg(long)]
    pub case: Option<String>,
    /// Write files into a folder instead of standard output
    #[arg(long, value_name = "FOLDER")]
    pub into: Option<PathBuf>,
    /// Write the Pod of a case whose services all ran in containers, as YAML for `podman kube play` and Kubernetes
    #[arg(long)]
    pub kubernetes: bool,
}

#[derive(Debug, Args)]
pub struct PathArgs {
    /// `127.0.0.1:8080`, `8080`, a URL, `unix:/run/app.sock` or `unix:@name`
    pub address: String,
}

#[derive(Debug, Args)]
pub struct Doctor {
    /// Only what this experiment needs
    pub experiment: Option<String>,
    #[command(flatten)]
    pub programs: Programs,
}

#[derive(Debug, Args)]
pub struct Setup {
    /// Name of an experiment, or the folder of your own
    #[arg(required_unless_present_any = ["all", "tools"])]
    pub experiment: Option<String>,
    /// Every built-in experiment, and the classic tools
    #[arg(long, conflicts_with = "experiment")]
    pub all: bool,
    /// The classic tools that can drive: wrk, ab, httperf, h2load, psql, pgbench, redis-benchmark
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
pub struct New {
    /// Name of the experiment and of the folder that is made
    pub name: String,
}
