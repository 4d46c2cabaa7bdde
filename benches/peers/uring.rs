//! Whether io_uring would make a cheaper client: the floor with io_uring beside the floor with epoll, recv and send.

use lasthop_stats::random::Draws;

use crate::{
    Settings, measure,
    page::Ring,
    scenario::ring_scenarios,
    server::Servers,
    table::{geometric_mean, ratio},
    tool::Tool,
};

pub fn beside_the_floor(settings: &Settings, servers: &Servers, draws: &mut Draws) -> Result<Vec<Ring>, String> {
    let mut rows = Vec::new();
    for scenario in ring_scenarios() {
        let rounds = measure(settings, servers, &scenario, &scenario.tools, draws)?;
        let pair = (Tool::Uring, Tool::Floor);
        let cost = ratio(&rounds, pair, |measured| Some(measured.per_cpu_second));
        let throughput = ratio(&rounds, pair, |measured| Some(measured.throughput));
        let (Some(cost), Some(throughput)) = (cost, throughput) else {
            continue;
        };
        let mean = |tool| geometric_mean(&rounds, tool, |measured| measured.per_cpu_second);
        rows.push(Ring {
            floor: mean(Tool::Floor),
            uring: mean(Tool::Uring),
            scenario: scenario.name,
            ratio: cost.estimate,
            low: cost.low,
            high: cost.high,
            throughput: throughput.estimate,
            throughput_low: throughput.low,
            throughput_high: throughput.high,
        });
    }
    Ok(rows)
}
