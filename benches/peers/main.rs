//! `script/bench`: lasthop against the floor (`benches/floor`) and its peers, on the same real servers, with the same
//! placement: servers on the first CPU, clients on the second, in short runs that take turns in random order.
//!
//! The compared quantity is requests per CPU second of the client: user and system time that the kernel charges to the
//! whole process, including start-up, for every tool. Prints Markdown; `--save` keeps the figures as data and renders
//! docs/performance.md, which explains them.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for developers, whose output is its purpose"
)]

mod disturbance;
mod paced;
mod page;
mod record;
mod roundtrip;
mod scenario;
mod server;
mod special;
mod table;
mod tool;
mod uring;

use std::{env, process::ExitCode};

use lasthop_stats::random::Draws;
use record::Record;
use scenario::{Scenario, scenarios};
use server::Servers;
use tool::Tool;

/// Options of `script/bench`.
#[derive(Clone, Debug)]
struct Settings {
    rounds: usize,
    seconds: u32,
    /// Measure only scenarios whose names contain one of these texts.
    only: Vec<String>,
    /// The compiled `benches/floor/floor.c`.
    floor: String,
    lasthop: String,
    seed: u64,
    /// Keep the figures in `benches/record` and render the page.
    save: bool,
}

impl Settings {
    /// Whether the measurement of this name is selected.
    fn is_wanted(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|text| name.contains(text.as_str()))
    }
}

/// Measurements besides the scenarios, by their names for `--only`.
const SPECIAL: [&str; 4] = ["open", "sockperf", "held", "uring"];

const USAGE: &str = "options: --quick | --rounds N, --seconds N, --seed N, --only TEXT (several), --floor PATH, --save";

fn settings() -> Result<Settings, String> {
    let mut settings = Settings {
        rounds: 10,
        seconds: 1,
        only: Vec::new(),
        floor: "target/floor".to_owned(),
        lasthop: env!("CARGO_BIN_EXE_lasthop").to_owned(),
        seed: 1,
        save: false,
    };
    let mut arguments = env::args().skip(1);
    while let Some(word) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{word} needs a value; {USAGE}"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("`{text}` is not a number"));
        match word.as_str() {
            // cargo adds this option.
            "--bench" => {}
            "--quick" => settings.rounds = 3,
            "--rounds" => settings.rounds = number(value()?)?.max(2) as usize,
            "--seconds" => settings.seconds = number(value()?)?.max(1) as u32,
            "--seed" => settings.seed = number(value()?)?,
            "--only" => settings.only.push(value()?),
            "--floor" => settings.floor = value()?,
            "--save" => settings.save = true,
            _ => return Err(format!("unknown option `{word}`; {USAGE}")),
        }
    }
    // A saved table must be complete.
    if settings.save && settings.only.iter().any(|only| !SPECIAL.contains(&only.as_str())) {
        return Err(format!(
            "--save keeps whole tables: leave out --only, or choose among {}",
            SPECIAL.join(", ")
        ));
    }
    Ok(settings)
}

fn main() -> ExitCode {
    match settings().and_then(|settings| run(&settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("script/bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(settings: &Settings) -> Result<(), String> {
    let wanted = |name: &str| settings.is_wanted(name);
    let chosen: Vec<Scenario> = scenarios()
        .into_iter()
        .filter(|scenario| wanted(&scenario.name))
        .collect();
    let servers = Servers::start(settings, &chosen)?;
    let mut saved = Record::new(settings)?;
    let mut draws = Draws::new(settings.seed);
    let (mut costs, mut agreements) = (Vec::new(), Vec::new());
    for scenario in chosen {
        let tools: Vec<Tool> = scenario.tools.iter().copied().filter(|tool| tool.is_here()).collect();
        let rounds = measure(settings, &servers, &scenario, &tools, &mut draws)?;
        costs.extend(table::costs(&scenario, &rounds));
        agreements.extend(table::agreement(&scenario, &rounds));
    }
    saved.add(&costs)?;
    saved.add(&agreements)?;
    // Only if selected by name, because io_uring is not part of lasthop.
    if settings.only.iter().any(|text| text == "uring") {
        saved.add(&uring::beside_the_floor(settings, &servers, &mut draws)?)?;
    }
    if wanted("open") {
        println!(
            "Time stolen from the virtual machine is read {}.\n",
            disturbance::source()
        );
        let (lags, peers) = paced::open_loop(settings, &servers, &mut draws)?;
        saved.add(&lags)?;
        saved.add(&peers)?;
    }
    if wanted("sockperf") {
        saved.add(&roundtrip::beside_sockperf(settings, &servers)?)?;
    }
    if wanted("held") {
        saved.add(&special::held(settings, &servers)?)?;
    }
    saved.finish()
}

/// Runs every tool once in each round, in random order. A first run of each tool warms the servers up and is not
/// counted.
fn measure(
    settings: &Settings,
    servers: &Servers,
    scenario: &Scenario,
    tools: &[Tool],
    draws: &mut Draws,
) -> Result<table::Series, String> {
    let warm = Tool::Lasthop.measure(settings, servers, scenario, 10_000.0)?;
    let mut rounds = Vec::new();
    for _ in 0..settings.rounds {
        let mut order = tools.to_vec();
        draws.shuffle(&mut order);
        let mut round = Vec::new();
        for tool in order {
            round.push((tool, tool.measure(settings, servers, scenario, warm.throughput)?));
        }
        rounds.push(round);
    }
    Ok(rounds)
}
