//! `lasthop fleet`: runs in a cluster, and their records.

use std::{
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use lasthop_analyse::limit::{self, Limit};
use lasthop_fleet::{
    client::{self, Event, Nodes, Outcome, Where},
    files::{FOLDER, Files},
    layout::{Addresses, GIVEN, Layouts},
    manifest::{EXPERIMENT, Fleet, LABEL, NodeAffinity, new_id},
    wire::{self, Heard, Received, WireError},
    worker,
};
use lasthop_model::{record::ComparedEndpoints, selection::Selection};
use lasthop_plan::{
    given::NAME,
    model::{RunAs, Source},
    plan::Plan,
    settings::{Overrides, PlacementChoice},
};
use lasthop_run::{Job, compare};
use lasthop_stack::{locate::Locator, sandbox::Sandbox};
use lasthop_system::{files, limits::lift_descriptors};

use super::{
    args::{self, FleetRunOptions, Passed},
    compare::origin,
    context::{catalog, command_line, home},
    limits,
    output::{CliError, DONE, Exit, FAILED, INTERRUPTED, OrExit, counted, print, talk, writable},
    report,
    run::{carry_out, selection, sweep},
    signals::{watch_signals, watch_signals_until},
};

/// How long an ended Job is kept for users who read its log by hand.
const KEEP_EXPORTED: Duration = Duration::from_secs(24 * 60 * 60);
/// The longest wait of an exported Job's Pod for a node.
const WAIT_EXPORTED: Duration = Duration::from_secs(60 * 60);
/// The time for the servers of a Pod to become ready.
const READY: Duration = Duration::from_secs(60);
/// CPUs of a Pod, if the node has as many.
const CPUS: u32 = 2;

/// How long an ended Job is kept if its client was killed.
const KEEP: Duration = Duration::from_secs(300);
/// The label that most clouds give to nodes for their type of machine.
const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The most nodes with a line each; more are only counted.
const FEW: usize = 8;

pub fn fleet(command: args::Fleet) -> Exit {
    match command {
        args::Fleet::Run(arguments) => run(&arguments),
        args::Fleet::Export(arguments) => export(&arguments).map(|()| DONE),
        args::Fleet::Collect(arguments) => collect(&arguments).map(|()| DONE),
        args::Fleet::Worker(arguments) => work(&arguments),
        args::Fleet::Drive(arguments) => drive(&arguments),
    }
}

/// The Pods that run an experiment with these options, and their layouts if these are compared. Each limit must name a
/// case.
fn planned(
    experiment: &str,
    pods: &args::FleetPods,
    run: &Passed<FleetRunOptions>,
    limits: &[Limit],
) -> Result<(Fleet, Option<Layouts>), CliError> {
    let FleetRunOptions {
        select,
        overrides,
        open,
    } = &run.options;
    let catalog = catalog()?;
    let loaded = catalog.load(experiment).or_usage()?;
    let brought = (loaded.source != Source::BuiltIn).then(|| Path::new(EXPERIMENT).join(&loaded.name));
    let wanted = Selection {
        rate: open.rate,
        arrivals: open.arrivals.map(Into::into),
        ..selection(select)
    };
    let plan = Plan::new(loaded, &wanted).or_usage()?;
    // The Pod decides the number of CPUs.
    let overrides = Overrides {
        placement: PlacementChoice::Free,
        aa: select.aa,
        ..overrides.clone()
    };
    let settings = plan.settings(overrides).or_usage()?;
    let root = settings.driver_at.is_some()
        || plan
            .experiment
            .recipes
            .values()
            .any(|recipe| recipe.start.run_as == Some(RunAs::Own));
    let mut compared = limit::of_plan(&plan.cases);
    let layouts = pods
        .pods
        .as_ref()
        .map(|chosen| Layouts::new(plan, chosen))
        .transpose()
        .or_usage()?;
    if let Some(layouts) = &layouts {
        let given = layouts.given(&Addresses::new()).or_usage()?;
        compared = limit::of_plan(&Plan::of_given(given).or_usage()?.cases);
    }
    limits::check(limits, &compared)?;
    // Layouts are rendered here. A Pod that runs the experiment itself has only the experiments built into its lasthop.
    let mut files = Files::default();
    let words = match (&layouts, brought) {
        (Some(_), _) => vec!["fleet".to_owned(), "drive".to_owned(), format!("{FOLDER}/{GIVEN}")],
        (None, None) => vec!["run".to_owned(), experiment.to_owned()],
        (None, Some(folder)) => {
            for (path, content) in catalog.files(experiment).or_usage()? {
                files.add(&folder.join(path), content).or_usage()?;
            }
            vec!["run".to_owned(), format!("{FOLDER}/{}", folder.display())]
        }
    };
    let fleet = Fleet {
        id: new_id().or_failed()?,
        image: pods.image.clone(),
        arguments: words.into_iter().chain(run.words.iter().cloned()).collect(),
        files,
        cpus: pods.cpus.unwrap_or(if layouts.is_some() { 0 } else { CPUS }),
        memory: pods.memory.clone(),
        budget: Duration::from_nanos(settings.budget_ns),
        wait: WAIT_EXPORTED,
        keep: KEEP_EXPORTED,
        root: root && layouts.is_none(),
    };
    Ok((fleet, layouts))
}

fn export(arguments: &args::FleetExport) -> Result<(), CliError> {
    let (fleet, layouts) = planned(&arguments.experiment, &arguments.pods, &arguments.run, &[])?;
    if let Some(apart) = layouts
        .iter()
        .flat_map(|layouts| &layouts.chosen)
        .find(|layout| layout.is_apart())
    {
        return Err(CliError::usage(format!(
            "the layout `{}` needs addresses that only `lasthop fleet run` learns: use --pods=tcp,unix",
            apart.name()
        )));
    }
    let job = |(number, node): (usize, Option<&String>)| {
        let machine = node.map(|node| ("machine".to_owned(), node.clone()));
        let labels: Vec<(String, String)> = machine.into_iter().chain(arguments.labels.iter().cloned()).collect();
        let affinity = node.cloned().map_or_else(|| NodeAffinity::Any, NodeAffinity::Node);
        match &layouts {
            None => Ok(fleet.job(number, &affinity, &labels)),
            Some(layouts) => layouts.job(&fleet, number, &affinity, &labels, &Default::default()),
        }
    };
    let nodes = match &arguments.node[..] {
        [] => vec![None],
        named => named.iter().map(Some).collect(),
    };
    let jobs: Result<String, String> = nodes.into_iter().enumerate().map(job).collect();
    print(jobs.or_usage()?.as_bytes())
}

fn collect(arguments: &args::FleetCollect) -> Result<(), CliError> {
    let runs = home()?.writable("runs").or_failed()?;
    if arguments.logs.is_empty() {
        return collected("standard input", io::stdin().lock(), &runs);
    }
    arguments.logs.iter().try_for_each(|path| {
        let shown = path.display().to_string();
        let file =
            files::open_named(path).map_err(|error| CliError::failed(format!("cannot read {shown}: {error}")))?;
        collected(&shown, file, &runs)
    })
}

fn collected(shown: &str, log: impl Read, runs: &Path) -> Result<(), CliError> {
    // A text saved by a shell lacks the end of its last line.
    let log = BufReader::new(log.chain(&b"\n"[..]));
    let mut part = None;
    let received = wire::receive(log, runs, None, &mut |heard| {
        if let Heard::Begun(folder) = heard {
            part = Some(folder);
        }
    });
    match (received, part) {
        (Ok(Received { folder, .. }), _) => {
            talk(&format!("{}, complete and verified", record_name(&folder)));
            Ok(())
        }
        (Err(WireError::Ended), Some(part)) => Err(CliError::failed(format!(
            "{shown} ends before the record does; what there is was kept as {}",
            record_name(&part)
        ))),
        (Err(WireError::Ended), None) => Err(CliError::failed(format!(
            "there is no record in {shown}: collect the whole log of a Pod that ran `lasthop fleet worker`"
        ))),
        (Err(error), _) => Err(CliError::failed(format!("{shown}: {error}"))),
    }
}

fn record_name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn work(arguments: &args::FleetWorker) -> Exit {
    watch_signals()?;
    let runs = home()?.writable("runs").or_failed()?;
    worker::serve(&arguments.arguments, &runs, arguments.linger).or_failed()
}

/// Compares the layouts of a Pod once their servers are ready.
fn drive(arguments: &args::FleetDrive) -> Exit {
    let shown = arguments.given.display();
    let text = files::named(&arguments.given, files::SHORT)
        .map_err(|error| CliError::failed(format!("cannot read {shown}: {error}")))?;
    let given: ComparedEndpoints =
        serde_json::from_slice(&text).map_err(|error| CliError::usage(format!("{shown}: {error}")))?;
    watch_signals()?;
    for (name, endpoint) in &given.endpoints {
        compare::await_answer(&endpoint.spec, READY)
            .map_err(|failure| CliError::failed(format!("the layout {name} does not answer: {}", failure.message)))?;
    }
    let plan = Plan::of_given(given).or_usage()?;
    let overrides = Overrides {
        placement: PlacementChoice::Free,
        ..arguments.run.overrides.clone()
    };
    let settings = plan.settings(overrides).or_usage()?;
    let home = home()?;
    let locator = Locator::new(&home, NAME, Default::default());
    let labels = arguments.labels.iter().cloned().collect();
    let job = Job {
        labels,
        ..Job::new(&plan, settings, &locator, &home, command_line()).with_origin(origin())
    };
    carry_out(&job, None, &arguments.talk, &arguments.output)
}

fn run(arguments: &args::FleetRun) -> Exit {
    writable(arguments.output.output.as_deref())?;
    let limits = &arguments.output.fail_if;
    let (fleet, layouts) = planned(&arguments.experiment, &arguments.pods, &arguments.run, limits)?;
    let fleet = Fleet {
        wait: arguments.wait,
        keep: KEEP,
        ..fleet
    };
    let usual = || vec![(INSTANCE_TYPE.to_owned(), None)];
    let nodes = Nodes {
        selector: arguments.nodes.clone(),
        names: arguments.node.clone(),
        per_node: arguments.per_node,
        labels: if arguments.labels.is_empty() {
            usual()
        } else {
            arguments.labels.clone()
        },
        exact_cpus: arguments.pods.cpus.is_some(),
    };
    let runs = home()?.writable("runs").or_failed()?;
    // The second signal ends the wait for the cluster, which has then been asked to remove everything.
    watch_signals_until(3)?;
    // The log of each node is a connection.
    lift_descriptors();
    let mut teller = Teller {
        id: &fleet.id,
        quiet: arguments.quiet,
        nodes: 0,
    };
    sweep();
    // The sandbox holds kubectl's cache, which a later `clean` removes if this process is killed.
    let sandbox = Sandbox::create().or_failed()?;
    let args::FleetCluster { context, namespace } = arguments.cluster.clone();
    let place = Where {
        context,
        namespace,
        folder: sandbox.path().to_owned(),
    };
    let tell = &mut |event: &Event<'_>| teller.tell(event);
    let outcome = client::run(&place, &nodes, &fleet, layouts.as_ref(), &runs, tell);
    conclude(&outcome.or_failed()?, arguments)
}

/// Reports records, and nodes without a record.
fn conclude(outcome: &Outcome, arguments: &args::FleetRun) -> Exit {
    let folders: Vec<PathBuf> = outcome
        .received
        .iter()
        .map(|received| received.folder.clone())
        .collect();
    let reported = match &folders[..] {
        [] => DONE,
        received => report::recorded(received, &arguments.by, &arguments.output)?,
    };
    for failure in &outcome.failures {
        let part = failure.part.as_ref();
        let part = part.map(|part| format!("; what came of its record is {}", record_name(part)));
        talk(&format!(
            "{} failed: {}{}",
            failure.node,
            failure.why,
            part.unwrap_or_default()
        ));
    }
    for one in &outcome.left {
        talk(&format!(
            "not removed: {one}; later: `kubectl delete jobs,pods -l {LABEL}`"
        ));
    }
    Ok(match () {
        () if outcome.interrupted => {
            let removed = if outcome.left.is_empty() {
                "; what was in the cluster has been removed"
            } else {
                ""
            };
            talk(&format!("interrupted{removed}"));
            INTERRUPTED
        }
        () if !outcome.failures.is_empty() || !outcome.left.is_empty() => FAILED,
        () if outcome.received.iter().any(|received| received.code != 0) => FAILED,
        () => reported,
    })
}

/// Prints events, by node.
struct Teller<'a> {
    id: &'a str,
    quiet: bool,
    nodes: usize,
}

impl Teller<'_> {
    fn tell(&mut self, event: &Event<'_>) {
        match event {
            // Repeated at the end, together with the records of other nodes.
            Event::Failed { node, why } if !self.quiet => talk(&format!("{node} failed: {why}")),
            _ if self.quiet => {}
            Event::Chosen { namespace, nodes } => {
                self.nodes = *nodes;
                let nodes = counted(*nodes, "node");
                talk(&format!(
                    "fleet run {} on {nodes}, in the namespace {namespace}",
                    self.id
                ));
            }
            Event::Phase { node, phase: line } | Event::Says { node, line } if self.nodes <= FEW => {
                talk(&format!("{node}: {line}"));
            }
            Event::Phase { .. } | Event::Says { .. } | Event::Failed { .. } => {}
            Event::Received { node, folder, done, of } => {
                talk(&format!(
                    "{node}: {} is here, complete and verified ({done} of {of})",
                    record_name(folder)
                ));
            }
            Event::Removing => talk("removing what the run made in the cluster"),
        }
    }
}
