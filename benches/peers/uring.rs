//! Whether io_uring would make a cheaper client: the floor over it beside the floor over epoll, recv and send.

use std::fmt::Write as _;

use lasthop_stats::random::Draws;

use crate::{
    Settings, measure,
    scenario::ring_scenarios,
    server::Servers,
    table::{geometric_mean, ratio, shown},
    tool::Tool,
};

pub fn beside_the_floor(settings: &Settings, servers: &Servers, draws: &mut Draws) -> Result<String, String> {
    let mut text = "| scenario | thousand requests per CPU second: floor | over io_uring | ratio (95 % interval) | \
                    throughput, ratio |\n|---|---|---|---|---|\n"
        .to_owned();
    for scenario in ring_scenarios() {
        let rounds = measure(settings, servers, &scenario, &scenario.tools, draws)?;
        let pair = (Tool::Uring, Tool::Floor);
        let cost = ratio(&rounds, pair, |measured| Some(measured.per_cpu_second));
        let throughput = ratio(&rounds, pair, |measured| Some(measured.throughput));
        let (Some(cost), Some(throughput)) = (cost, throughput) else { continue };
        let thousand = |tool| geometric_mean(&rounds, tool, |measured| measured.per_cpu_second) / 1e3;
        let _ = writeln!(
            text,
            "| {} | {:.1} | {:.1} | {} | {} |",
            scenario.name,
            thousand(Tool::Floor),
            thousand(Tool::Uring),
            shown(&cost),
            shown(&throughput),
        );
    }
    Ok(text)
}
