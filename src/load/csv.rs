//! The figures of a load as a row below a header. All loads have the same columns, so that rows can be put together;
//! columns that do not apply are empty.

use std::slice;

use lasthop_model::quantity::joined;
use lasthop_page::columns::Columns;

use super::{
    Figures,
    figures::{Percentiles, SUMMARY},
};

pub fn render(figures: &Figures) -> Vec<u8> {
    let classes = figures.errors.iter().map(|(class, count)| format!("{class}: {count}"));
    let mut columns = Columns::of(slice::from_ref(figures))
        .data("url", |one| &one.url)
        .data("seconds", |one| one.seconds)
        .data("requests", |one| one.requests)
        .data("requests_total", |one| one.requests_total)
        .data("errors", |one| one.errors.values().sum::<u64>())
        .data("error_classes", |_| joined(classes.clone(), "; "))
        .data("unanswered", |one| one.unanswered)
        .data("sent_again", |one| one.sent_again)
        .data("open_at_end", |one| one.open_at_end.count)
        .data("open_at_end_longest_us", |one| one.open_at_end.longest_ns as f64 / 1e3)
        .data("throughput_per_s", |one| one.throughput)
        .data("bandwidth_bytes_per_s", |one| one.bytes_per_second);
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
        columns = percentiles(columns, name, times);
    }
    columns
        .known("rate_per_s", |one| Some(one.offered?.rate))
        .known("scheduled", |one| Some(one.offered?.scheduled))
        .known("sent", |one| Some(one.offered?.sent))
        .known("lost", |one| Some(one.one_way.as_ref()?.lost))
        .known("dropped", |one| one.one_way.as_ref()?.dropped)
        .data("cpu_driver_us", |one| one.driver_cpu_ns_per_request / 1e3)
        .data("driver_system_calls_per_request", |one| one.system_calls_per_request)
        .data("connections", |one| one.connections)
        .data("connections_opened", |one| one.connections_opened)
        .data("slow_connects", |one| one.slow_connects.count)
        .data("threads", |one| one.threads)
        .data("pipeline", |one| one.pipeline)
        .data("requests_per_connection", |one| one.requests_per_connection)
        .data("checked", |one| &one.checked)
        .known("unchecked", |one| one.unchecked.as_ref())
        .known("headroom", |one| one.headroom.as_ref()?.times)
        .known("headroom_low", |one| one.headroom.as_ref()?.times_low)
        .known("headroom_high", |one| one.headroom.as_ref()?.times_high)
        .data("cut_short", |one| one.cut_short)
        .known("failure", |one| Some(&one.failure.as_ref()?.cause))
        .csv()
}

/// Adds percentiles in microseconds.
fn percentiles<'a>(mut columns: Columns<'a, Figures>, name: &str, times: Option<Percentiles>) -> Columns<'a, Figures> {
    for (column, _, of) in SUMMARY {
        columns = columns.known(format!("{name}_{column}_us"), |_| Some(of(times.as_ref()?) / 1e3));
    }
    columns
}
