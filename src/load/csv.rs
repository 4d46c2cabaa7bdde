//! The figures of a load as a row below its header. Columns are the same for every load, so that rows can be put together;
//! what does not apply is empty.

use lasthop_model::quantity::joined;
use lasthop_report::csv::Row;

use super::{
    Figures,
    figures::{Percentiles, SUMMARY},
};

pub fn render(figures: &Figures) -> Vec<u8> {
    let mut row = Row::default();
    row.put("url", &figures.url);
    row.put("seconds", figures.seconds);
    row.put("requests", figures.requests);
    row.put("requests_total", figures.requests_total);
    row.put("errors", figures.errors.values().sum::<u64>());
    let classes = figures.errors.iter().map(|(class, count)| format!("{class}: {count}"));
    row.put("error_classes", joined(classes, "; "));
    row.put("unanswered", figures.unanswered);
    row.put("open_at_end", figures.open_at_end.count);
    row.put("open_at_end_longest_us", figures.open_at_end.longest_ns as f64 / 1e3);
    row.put("throughput_per_s", figures.throughput);
    row.put("bandwidth_bytes_per_s", figures.bytes_per_second);
    let phase = |name: &str| figures.phases_ns.get(name).copied();
    for (name, times) in [
        ("latency", figures.latency_ns),
        ("response", figures.response_ns),
        ("lag", figures.lag_ns),
        ("connect", phase("connect")),
        ("tls", phase("tls")),
        ("auth", phase("auth")),
        ("first_byte", phase("first_byte")),
    ] {
        percentiles(&mut row, name, times);
    }
    let offered = figures.offered;
    row.put_some("rate_per_s", offered.map(|offered| offered.rate));
    row.put_some("scheduled", offered.map(|offered| offered.scheduled));
    row.put_some("sent", offered.map(|offered| offered.sent));
    let one_way = figures.one_way.as_ref();
    row.put_some("lost", one_way.map(|sending| sending.lost));
    row.put_some("dropped", one_way.and_then(|sending| sending.dropped));
    row.put("cpu_driver_us", figures.driver_cpu_ns_per_request / 1e3);
    row.put("driver_system_calls_per_request", figures.system_calls_per_request);
    row.put("connections", figures.connections);
    row.put("connections_opened", figures.connections_opened);
    row.put("slow_connects", figures.slow_connects.count);
    row.put("threads", figures.threads);
    row.put("pipeline", figures.pipeline);
    row.put("requests_per_connection", figures.requests_per_connection);
    row.put("checked", &figures.checked);
    row.put_some("unchecked", figures.unchecked.as_ref());
    let headroom = figures.headroom.as_ref();
    row.put_some("headroom", headroom.and_then(|headroom| headroom.times));
    row.put_some("headroom_low", headroom.and_then(|headroom| headroom.times_low));
    row.put_some("headroom_high", headroom.and_then(|headroom| headroom.times_high));
    row.put("cut_short", figures.cut_short);
    row.put_some("failure", figures.failure.as_ref().map(|failure| &failure.cause));
    row.alone()
}

/// In microseconds.
fn percentiles(row: &mut Row, name: &str, times: Option<Percentiles>) {
    for (column, _, of) in SUMMARY {
        row.put_some(
            format!("{name}_{column}_us"),
            times.as_ref().map(|times| of(times) / 1e3),
        );
    }
}
