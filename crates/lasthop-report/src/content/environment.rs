//! The machine, the programs and the settings of a run.

use lasthop_analyse::summary::{Resumed, Summary, TimeUse};
use lasthop_model::{
    quantity::joined,
    record::{CpuTopology, Environment, Stopped},
};

use super::parts;
use crate::{
    document::{Block, Depth, Section, Text, Tone},
    units::{Bytes, Count, NBSP, Seconds, plural},
    wording::margin,
};

pub fn section(summary: &Summary) -> Option<Section> {
    let mut lines: Vec<String> = Vec::new();
    if let Some(environment) = &summary.environment {
        lines.push(machine(environment));
        lines.push(programs(summary, environment));
        lines.extend(driver(environment));
    }
    lines.push(run(summary));
    lines.extend(headroom(summary));
    let blocks = lines.into_iter().map(Block::legend).collect();
    parts::section("Environment", Depth::Folded, blocks)
}

/// Place and time of the measurement.
pub fn origin(summary: &Summary) -> Text {
    let machine = summary.environment.as_ref().map(machine);
    let minute = summary.started.get(..16);
    let when = minute.map(|minute| minute.replace('T', " ") + " UTC");
    Text::of(Tone::Dim, joined(machine.into_iter().chain(when), " · "))
}

/// The conditions that decide the cost of TCP on loopback in any experiment:
/// `TCP: cubic, MTU 65,536; packet filter: none`. `None` if the record has neither.
pub fn conditions(environment: &Environment) -> Option<String> {
    let congestion = environment.sysctl.get("net.ipv4.tcp_congestion_control").cloned();
    let mtu = environment.loopback_mtu;
    let mtu = mtu.map(|bytes| format!("MTU{NBSP}{}", Count(u64::from(bytes))));
    let tcp = joined(congestion.into_iter().chain(mtu), ", ");
    let passed = environment.packet_filter.as_ref();
    let passed = passed.map_or_else(|| "not recorded".to_owned(), ToString::to_string);
    (!tcp.is_empty()).then(|| format!("TCP: {tcp}; packet filter: {passed}"))
}

/// The range of headroom over the calibrated cases.
fn headroom(summary: &Summary) -> Option<String> {
    let times = || summary.cases.iter().filter_map(|case| case.headroom);
    let least = times().fold(f64::INFINITY, f64::min);
    let most = times().fold(0.0, f64::max);
    let range = if least < 0.95 * most {
        format!("{least:.1} to {most:.1}")
    } else {
        format!("{least:.1}")
    };
    (most > 0.0)
        .then(|| format!("headroom: against a server that does nothing, this load reached {range} times as much"))
}

fn driver(environment: &Environment) -> Option<String> {
    let driver = environment.driver.as_ref()?;
    Some(format!(
        "driver {}; services reached at {}",
        driver.place, driver.reaches
    ))
}

fn machine(environment: &Environment) -> String {
    let virtualization = match environment.virtualization.as_str() {
        "" | "none" => String::new(),
        kind => format!(", under {kind}"),
    };
    format!(
        "{}, {}, {} memory, {}, Linux{NBSP}{}{NBSP}{}{virtualization}",
        environment.cpu_model,
        plural(u64::from(environment.cpus), "CPU"),
        Bytes(environment.memory),
        environment.distribution,
        environment.kernel,
        environment.architecture
    )
}

fn programs(summary: &Summary, environment: &Environment) -> String {
    let started = environment.programs.iter();
    let mut all: Vec<String> = started
        .map(|(name, program)| format!("{name} {}", program.version))
        .collect();
    if !environment.programs.contains_key("lasthop") {
        all.insert(0, format!("lasthop {}", summary.lasthop));
    }
    let threads = summary.cases.iter().map(|case| case.load.threads).max().unwrap_or(1);
    let driver = match threads {
        0 | 1 => String::new(),
        threads => format!(", {threads} threads of the driver"),
    };
    format!("{}; {}{driver}", all.join(", "), summary.settings.placement)
}

fn run(summary: &Summary) -> String {
    let precision = margin(summary.settings.precision);
    let ended = match summary.stopped {
        _ if summary.running => "still running".to_owned(),
        _ if !summary.complete => "cut off".to_owned(),
        Stopped::Precision => format!("stopped: every interval within ±{precision}"),
        Stopped::Budget => {
            format!("stopped: budget of {} spent", Seconds(summary.settings.budget_seconds))
        }
        Stopped::Rounds => format!("stopped after {}", plural(u64::from(summary.rounds), "round")),
        Stopped::Interrupted => "interrupted".to_owned(),
        Stopped::Failed if summary.cases.iter().any(|case| case.metrics.is_some()) => {
            "stopped: nothing was left to compare".to_owned()
        }
        Stopped::Failed => "stopped: no case worked".to_owned(),
    };
    let resumed = |one: &Resumed| format!("; resumed {} after a pause of {}", one.at, Seconds(one.pause_seconds));
    let resumed: String = summary.resumed.iter().map(resumed).collect();
    format!("run {}, seed {}, {ended}{resumed}", summary.run, summary.seed)
}

/// The lengths of trials.
fn trials(summary: &Summary) -> String {
    let usual = format!("trials of {}", Seconds(summary.settings.trial_seconds));
    joined(
        std::iter::once(usual).chain(
            summary
                .cases
                .iter()
                .filter_map(|case| Some(format!("{} for {}", Seconds(case.trial_seconds?), case.case))),
        ),
        ", ",
    )
}

/// How the run's time was spent.
fn time(time: &TimeUse) -> String {
    let parts = [
        (time.measured, "measuring"),
        (time.warm_up, "warming up"),
        (time.between, "between trials"),
        (time.starting, "starting services"),
        (time.verifying, "verifying cases"),
    ];
    let shares = parts.map(|(share, what)| format!("{:.0}{NBSP}% {what}", share * 100.0));
    format!("time: {}", shares.join(", "))
}

/// All other facts about the machine and the settings.
pub fn detail(summary: &Summary) -> Option<Section> {
    let environment = summary.environment.as_ref()?;
    let mut items = vec![
        format!(
            "started {}, {}",
            summary.started,
            plural(u64::from(summary.blocks), "block")
        ),
        trials(summary),
    ];
    items.extend(summary.time.as_ref().map(time));
    items.extend([
        format!(
            "load average before: {}",
            environment.load_average.map(|load| format!("{load:.2}")).join(", ")
        ),
        format!(
            "governor: {}",
            environment.governor.as_deref().unwrap_or("not shown by the kernel")
        ),
    ]);
    let programs = environment.programs.iter();
    items.extend(programs.map(|(name, program)| format!("{name}: {}", program.path)));
    let caches = environment.caches.iter();
    items.extend(caches.map(|(cpus, size)| format!("cache: {size} {cpus}")));
    let shared = environment.topology.iter().flat_map(|topology| {
        let CpuTopology { sockets, nodes, cores } = topology;
        [("sockets", sockets), ("NUMA nodes", nodes), ("cores", cores)]
    });
    items.extend(shared.map(|(what, cpus)| format!("CPUs of {what}: {}", cpus.join(" | "))));
    let mitigations = environment.mitigations.iter();
    items.extend(mitigations.map(|(name, state)| format!("{name}: {state}")));
    let sysctl = environment.sysctl.iter();
    items.extend(sysctl.map(|(name, value)| format!("{name} = {value}")));
    let blocks = items.into_iter().map(|item| Block::Item(item.into())).collect();
    parts::section("Settings and kernel", Depth::Detail, blocks)
}
