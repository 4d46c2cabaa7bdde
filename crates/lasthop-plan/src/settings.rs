//! The settings of a run: the experiment's, unless overridden by options.

use std::{
    hash::{BuildHasher, Hasher},
    str::FromStr,
    time::Duration,
};

use lasthop_model::{
    driver::{DriverAt, ToolChoice},
    quantity::{duration, share},
    record::{ExplainSettings, OverloadSettings, Placement, Settings},
};
use lasthop_stats::random::{Draws, seed_for};
use lasthop_system::{
    cpus,
    facts::Facts,
    topology::{Groups, Topology},
};

use super::{
    model::Defaults,
    plan::Plan,
    written::{Share, Time},
};

/// The shortest warm-up. Shorter trials do not settle sooner.
const LEAST_WARM_UP: Duration = Duration::from_millis(10);

/// What a run does differently from its experiment's defaults. These are options of `lasthop run`.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Duration and precision")]
pub struct Overrides {
    /// Stop once every interval is this narrow
    ///
    /// Half its width, as a share of the ratio. With `--fail-if`, at most half of the smallest limit unless you say so.
    #[arg(long, value_name = "SHARE", value_parser = share, allow_hyphen_values = true)]
    pub precision: Option<f64>,
    /// Time for the whole run (`60s`, `5m`)
    ///
    /// It includes the starts of services.
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub budget: Option<Duration>,
    /// Treat cases that differ by less than this share as equivalent
    #[arg(long, value_name = "SHARE", value_parser = share, allow_hyphen_values = true)]
    pub margin: Option<f64>,
    /// Length of one trial [default: the experiment's, mostly 50 ms, or longer for slow replies]
    ///
    /// By default, cases whose replies take longer than a third of a trial get trials and warm-ups long enough for
    /// them. Shorter trials give narrower intervals. But right after another case's turn, ratios are not always what
    /// they are 50 ms later.
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub trial: Option<Duration>,
    /// Length of the warm-up before each trial [default: a tenth of the trial, at least 10 ms and two slow replies]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub warm_up: Option<Duration>,
    /// Time to load the servers after each start, before anything is measured [default: the experiment's, mostly none]
    ///
    /// For servers that get faster while they run, because they compile or fill caches. All cases of a server share it.
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub settle: Option<Duration>,
    /// Blocks per round; services restart after each round [default: chosen by what a start costs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub blocks: Option<u32>,
    /// Seed for the order of cases and for the bootstrap [default: random, and recorded]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Skip the calibration of the load generator against a server that does nothing
    #[arg(long)]
    pub no_headroom: bool,
    /// Stop after this many rounds; each round starts all services afresh
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// CPUs that the driver and the services may use
    #[arg(long, value_enum, default_value_t)]
    pub placement: PlacementChoice,
    #[arg(skip)]
    pub overload: Option<Times>,
    #[arg(skip)]
    pub aa: bool,
    #[arg(skip)]
    pub driver_at: Option<DriverAt>,
    #[arg(skip)]
    pub tools: Vec<ToolChoice>,
    #[arg(skip)]
    pub explain: Option<ExplainSettings>,
}

/// Offered loads as multiples of capacity, ascending.
#[derive(Clone, Debug, PartialEq)]
pub struct Times(Vec<f64>);

impl Times {
    /// The default, as an option's text.
    pub const USUAL: &str = "0.5,0.75,1,1.5,2,3";
}

impl FromStr for Times {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = |word: &str| word.trim().parse().ok().filter(|times| (0.1..=20.0).contains(times));
        let mut times: Vec<f64> = text.split(',').map(read).collect::<Option<_>>().ok_or_else(|| {
            format!(
                "`{text}` are not multiples of capacity: write numbers from 0.1 to 20, for example {}",
                Self::USUAL
            )
        })?;
        times.sort_by(f64::total_cmp);
        times.dedup();
        Ok(Self(times))
    }
}

/// The longest trial chosen automatically for a low rate; longer trials would be too few.
const LONGEST_TRIAL: Duration = Duration::from_secs(1);
/// Lengths of trials with overload: the part that counts, and the time before it for queues to fill.
const OVERLOAD_TRIAL: Duration = Duration::from_secs(2);
const OVERLOAD_FILL: Duration = Duration::from_millis(1_500);
/// Lengths of the usual load, before and after an overload.
const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(3);
/// Repetitions of each load.
const OVERLOAD_ROUNDS: u32 = 3;
/// Usual maximum time that a round of one case takes besides its trials, and that a trial takes besides its stages.
const START: Duration = Duration::from_secs(5);
const DRAIN: Duration = Duration::from_secs(3);
/// The most threads of the driver that are chosen automatically.
pub const MOST_THREADS: u32 = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PlacementChoice {
    /// Neighbouring CPUs, one for each process of a case, different ones in each round; free with too few CPUs
    // With too few CPUs, services would share some, and the scheduler would move the services among them.
    #[default]
    Auto,
    /// The driver on its own CPU, the services on the others
    Apart,
    /// Driver and services on one CPU
    Same,
    /// Any CPU, as the scheduler decides
    Free,
}

impl Plan {
    pub fn settings(&self, overrides: Overrides) -> Result<Settings, String> {
        let Defaults {
            trial: Time(trial),
            budget: Time(budget),
            precision: Share(precision),
            margin: Share(margin),
            blocks,
        } = self.experiment.defaults;
        let overload = overrides.overload.map(|times| OverloadSettings {
            times: times.0,
            before_ns: BEFORE.as_nanos() as u64,
            after_ns: AFTER.as_nanos() as u64,
        });
        let usual = match (&overload, self.shortest_trial()) {
            (Some(_), _) => OVERLOAD_TRIAL,
            // `check_trial` then refuses the rate, with the length that the rate needs.
            (None, at_the_rate) if at_the_rate > LONGEST_TRIAL => trial,
            (None, at_the_rate) => trial.max(at_the_rate),
        };
        let trial = overrides.trial.unwrap_or(usual);
        if overload.is_none() {
            self.check_trial(trial)?;
        }
        let services = self.stacks.iter().map(|stack| stack.services.len()).max().unwrap_or(1);
        let seed = overrides.seed.unwrap_or_else(random_seed);
        let placement = match (&overrides.driver_at, overrides.placement) {
            // The driver uses the other host's CPUs, so that the services may use all CPUs of this machine.
            (Some(DriverAt::Host(_)), PlacementChoice::Auto) => Placement::Free,
            (Some(DriverAt::Host(_)), PlacementChoice::Apart | PlacementChoice::Same) => {
                return Err(
                    "--placement cannot be used with a driver on another host, which has its own CPUs".to_owned(),
                );
            }
            (_, choice) => {
                let allowed = cpus::allowed();
                let compact = (choice == PlacementChoice::Auto)
                    .then(|| self.compact(&Topology::of(&Facts::here(), &allowed), allowed.len(), seed));
                match compact.flatten() {
                    Some(compact) => compact,
                    None => place(choice, &allowed, services)?,
                }
            }
        };
        // Long enough for caches and the scheduler to settle after another case's turn.
        let usual = if overload.is_some() {
            OVERLOAD_FILL
        } else {
            (trial / 10).max(LEAST_WARM_UP)
        };
        let warm_up = overrides.warm_up.unwrap_or(usual);
        let warmest = self
            .experiment
            .services
            .values()
            .filter_map(|service| service.warm)
            .map(|warm| warm.0)
            .max()
            .unwrap_or_default();
        let rounds = overrides.rounds.or_else(|| overload.as_ref().map(|_| OVERLOAD_ROUNDS));
        let budget = match &overload {
            Some(overload) => self.overload_budget(overload, trial + warm_up) * rounds.unwrap_or(OVERLOAD_ROUNDS),
            None => budget,
        };
        let budget = overrides.budget.unwrap_or(budget);
        if overload.is_none() && overrides.trial.is_some() {
            self.check_budget(trial + warm_up, overrides.blocks.or(blocks), budget)?;
        }
        Ok(Settings {
            seed,
            precision: overrides.precision.unwrap_or(precision),
            budget_ns: budget.as_nanos() as u64,
            margin: overrides.margin.unwrap_or(margin),
            trial_ns: trial.as_nanos() as u64,
            // A requested length is not changed.
            lengthens: overrides.trial.is_none() && overload.is_none(),
            warm_up_ns: warm_up.as_nanos() as u64,
            settle_ns: overrides.settle.unwrap_or(warmest).as_nanos() as u64,
            blocks: overrides.blocks.or(blocks),
            aa: overrides.aa,
            placement,
            headroom: !overrides.no_headroom && overload.is_none(),
            rounds,
            tools: overrides.tools,
            driver_at: overrides.driver_at,
            overload,
            explain: overrides.explain,
        })
    }

    /// Groups of neighbouring CPUs for the processes of a case and the driver's threads. `None` if a group would take
    /// all CPUs, or if lasthop starts no service.
    fn compact(&self, topology: &Topology, cpus: usize, seed: u64) -> Option<Placement> {
        let stacks = self.stacks.iter().map(|stack| stack.services.values());
        let processes = stacks.map(|services| services.map(|service| service.workers as usize).sum::<usize>());
        let processes = processes.max().filter(|processes| *processes > 0)?;
        let connections = self.cases.iter().map(|case| case.load.connections).max().unwrap_or(1);
        let free = cpus.checked_sub(processes + 1).filter(|free| *free > 0)?;
        let groups = |driver: u32| topology.groups(processes + driver as usize);
        let nearest = groups(1)?.share;
        // At most half of the free CPUs, because other rounds need other CPUs, and only CPUs that are equally near.
        let most = connections.clamp(1, MOST_THREADS).min(1 + free as u32 / 2);
        let (driver, Groups { mut cpus, .. }) = (1..=most)
            .rev()
            .filter_map(|driver| Some((driver, groups(driver)?)))
            .find(|(_, groups)| groups.share == nearest)?;
        Draws::new(seed_for(seed, &["cpus"])).shuffle(&mut cpus);
        Some(Placement::Compact { groups: cpus, driver })
    }

    /// The budget of a run with overload, usually sufficient, because a round is to end with its trials, not with the
    /// budget.
    fn overload_budget(&self, overload: &OverloadSettings, trial: Duration) -> Duration {
        let of = |times: &f64| {
            let after = if *times > 1.0 {
                Duration::from_nanos(overload.after_ns)
            } else {
                Duration::ZERO
            };
            Duration::from_nanos(overload.before_ns) + trial + after + DRAIN
        };
        // Two trials more for the capacity, which is measured twice in a round.
        (overload.times.iter().map(of).sum::<Duration>() + trial * 2 + START) * self.cases.len() as u32
    }
}

/// Chooses the CPUs of the driver and of `services` services per case among those that this process may use.
///
/// Placement affects the ratio itself, because two processes on one core wake each other without an interrupt between
/// cores. So all cases of a round have equal placement, which is recorded.
fn place(choice: PlacementChoice, allowed: &[u32], services: usize) -> Result<Placement, String> {
    let (last, others) = allowed
        .split_last()
        .expect("a running process is allowed at least one CPU");
    match choice {
        PlacementChoice::Apart if others.is_empty() => Err(format!(
            "cannot place driver and services apart: this process may use only {} CPU; use --placement same or free",
            allowed.len()
        )),
        PlacementChoice::Auto if others.len() < services.max(1) => Ok(Placement::Free),
        PlacementChoice::Auto | PlacementChoice::Apart => Ok(Placement::Apart {
            driver: vec![*last],
            services: others.to_vec(),
        }),
        PlacementChoice::Same => Ok(Placement::Same { cpu: allowed[0] }),
        PlacementChoice::Free => Ok(Placement::Free),
    }
}

/// A random seed, which is recorded; short, because that is easier to type again.
fn random_seed() -> u64 {
    std::hash::RandomState::new().build_hasher().finish() % 1_000_000
}

#[cfg(test)]
mod tests {
    use lasthop_model::{record::Cpus, selection::Selection};

    use super::*;
    use crate::catalog::Catalog;

    #[test]
    fn auto_places_apart_only_where_each_process_has_a_cpu() {
        let auto = |allowed: &[u32], services| place(PlacementChoice::Auto, allowed, services).unwrap();
        assert_eq!(
            auto(&[0, 1], 1),
            Placement::Apart {
                driver: vec![1],
                services: vec![0]
            }
        );
        assert_eq!(auto(&[0, 1], 2), Placement::Free);
        assert_eq!(
            auto(&[0, 2, 4, 6], 2),
            Placement::Apart {
                driver: vec![6],
                services: vec![0, 2, 4]
            }
        );
    }

    #[test]
    fn each_round_has_a_group_of_cpus() {
        let placement = Placement::Compact {
            groups: vec![vec![4, 5, 6, 7], vec![0, 1, 2, 3]],
            driver: 2,
        };
        let of = |round, threads| {
            let Cpus { driver, services } = placement.in_round(round, threads);
            (driver.to_vec(), services.to_vec())
        };
        assert_eq!(of(0, 1), (vec![6], vec![4, 5]));
        assert_eq!(of(0, 2), (vec![6, 7], vec![4, 5]));
        assert_eq!(of(1, 1), (vec![2], vec![0, 1]));
        assert_eq!(of(2, 4), of(0, 2));
        assert_eq!(placement.cpus(), [4, 5, 6, 7, 0, 1, 2, 3]);
    }

    #[test]
    fn a_case_has_a_cpu_for_each_process_and_its_driver_some_of_the_others() {
        let compact = |name: &str, changes: &[&str], cpus: u32| {
            let selection = Selection {
                set: changes.iter().map(|change| change.parse().unwrap()).collect(),
                ..Selection::default()
            };
            let plan = Plan::new(Catalog::default().load(name).unwrap(), &selection).unwrap();
            let allowed: Vec<u32> = (0..cpus).collect();
            let topology = Topology::of(&Facts::below("/nowhere"), &allowed);
            match plan.compact(&topology, allowed.len(), 1)? {
                Placement::Compact { groups, driver } => Some((groups.len(), groups[0].len(), driver)),
                other => panic!("{other:?}"),
            }
        };
        // nginx, a worker of gunicorn, and the driver.
        assert_eq!(compact("nginx-gunicorn", &["connections=1"], 16), Some((14, 3, 1)));
        assert_eq!(compact("nginx-gunicorn", &["connections=10"], 16), Some((11, 6, 4)));
        assert_eq!(
            compact("nginx-uwsgi", &["workers=4", "connections=1"], 16),
            Some((11, 6, 1))
        );
        assert_eq!(compact("redis", &["connections=10"], 4), Some((2, 3, 2)));
        assert_eq!(compact("redis", &[], 2), None, "as it was");
        assert_eq!(compact("nginx-gunicorn", &[], 3), None);
    }

    #[test]
    fn apart_needs_two_cpus() {
        assert!(
            place(PlacementChoice::Apart, &[3], 1)
                .unwrap_err()
                .to_string()
                .contains("--placement")
        );
        assert_eq!(
            place(PlacementChoice::Same, &[3], 1).unwrap(),
            Placement::Same { cpu: 3 }
        );
    }
}
