//! The figures of a load for people.

use lasthop_analyse::name_of;
use lasthop_page::{
    Options, Page,
    columns::Columns,
    document::{Table, Text, Tone},
    units::{Bytes, Count, Micros, NBSP, Seconds, Significant, TimeUnit, percent},
};
use lasthop_trial::{
    options::{Engine, Reuse},
    result::{ErrorClass, Longest},
};

use super::{
    Figures,
    figures::{OneWayFigures, Percentiles, SUMMARY},
};

/// The smallest share of a generator's run delay that is shown: a tenth of what shows in a 99th percentile.
const WORTH_SAYING: f64 = 0.001;

/// The smallest age, in nanoseconds, at which requests open at the end are mentioned, if the age is also [`OLDER`]
/// times the 99th percentile.
const OLD_NS: u64 = 100_000_000;
const OLDER: u64 = 2;

/// Width of the names at the beginning of lines.
const NAME: usize = 12;

/// Text for a terminal, in colour only if asked.
pub fn render(figures: &Figures, options: &Options) -> Vec<u8> {
    let mut lines = vec![
        headline(figures),
        Text::of(
            Tone::Dim,
            format!("  {} · {} · {}", figures.url, how(figures), replies(figures)),
        ),
    ];
    lines.extend(besides(figures).map(|line| Text::from("  ").join(line)));
    let mut page = Page::new(options);
    lines.iter().for_each(|line| page.line(line));
    page.blank();
    page.table(&latencies(figures));
    page.blank();
    let lines = facts(figures).into_iter().chain(errors(figures));
    lines.for_each(|line| page.line(&line));
    page.finish()
}

fn count_of(count: u64, one: &str, many: &str) -> String {
    if count == 1 {
        format!("1 {one}")
    } else {
        format!("{} {many}", Count(count))
    }
}

fn how(figures: &Figures) -> String {
    let reuse = match figures.reuse {
        Reuse::PerRequest if figures.requests_per_connection > 1 => {
            format!(
                "{} requests per connection",
                Count(figures.requests_per_connection.into())
            )
        }
        Reuse::PerRequest if figures.server_closes => "closed by the server after each reply".to_owned(),
        Reuse::PerRequest => "a connection per request".to_owned(),
        Reuse::KeepAlive if figures.proof.as_ref().is_some_and(|proof| !proof.reused) => {
            "closed by the server after each reply".to_owned()
        }
        Reuse::KeepAlive => "kept alive".to_owned(),
    };
    let engine = match figures.engine {
        Engine::Blocking => "blocking",
        Engine::Epoll => "epoll",
        Engine::Auto => "auto",
    };
    let mut parts = vec![
        count_of(figures.connections.into(), "connection", "connections"),
        reuse,
        count_of(figures.threads.into(), "thread", "threads"),
        engine.to_owned(),
    ];
    if figures.pipeline > 1 {
        parts.push(format!("pipeline of {} requests", figures.pipeline));
    }
    match figures.offered {
        Some(offered) => parts.push(format!("open loop at {} requests/s", Significant(offered.rate))),
        None => parts.push("closed loop".to_owned()),
    }
    parts.join(", ")
}

/// The headline: `12,300 requests/s, no errors.`
fn headline(figures: &Figures) -> Text {
    let errors: u64 = figures.errors.values().sum();
    let (tone, errors) = match errors {
        0 => (Tone::Plain, "no errors".to_owned()),
        errors => (Tone::Bad, count_of(errors, "error", "errors")),
    };
    Text::of(Tone::Strong, format!("{} requests/s", Significant(figures.throughput)))
        .plain(", ")
        .and(tone, errors)
        .plain(".")
}

/// The replies in words: `36,900 correct replies in 3.0 s`
fn replies(figures: &Figures) -> String {
    let (one, many) = if figures.one_way.is_some() {
        ("received", "received")
    } else {
        ("correct reply", "correct replies")
    };
    let replies = count_of(figures.requests, one, many);
    format!("{replies} in {}", Seconds(figures.seconds))
}

/// Warnings to read before the figures below.
fn besides(figures: &Figures) -> impl Iterator<Item = Text> {
    let cut_short = figures
        .cut_short
        .then(|| Text::of(Tone::Strong, "interrupted: the figures cover the time until then"));
    let asked = figures.requests_asked.filter(|asked| figures.sent() < *asked);
    let too_few = asked.map(|asked| {
        format!(
            "only {} of {} requests were sent in the time of --duration",
            Count(figures.sent()),
            Count(asked)
        )
    });
    let behind = figures.offered.filter(|offered| !offered.reached).map(|offered| {
        format!(
            "the rate was not reached: only {} of {} scheduled requests were sent, so the latencies are those of an overload",
            Count(offered.sent),
            Count(offered.scheduled)
        )
    });
    let wrong = [
        figures.delayed_acks.clone(),
        figures.few_at_once.clone(),
        too_few,
        timed_out(figures),
        unseen(figures),
        figures.unsteady.clone(),
        behind,
    ];
    let wrong = wrong.into_iter().flatten().map(|text| Text::of(Tone::Bad, text));
    figures
        .one_way
        .as_ref()
        .map(sending)
        .into_iter()
        .chain(cut_short)
        .chain(wrong)
}

/// Requests that are missing in the latencies, if any of them took long: those without a reply at the end, and those
/// that began in the warm-up.
fn unseen(figures: &Figures) -> Option<String> {
    let Figures {
        open_at_end: open,
        untimed,
        ..
    } = figures;
    let times = figures.response_ns.or(figures.latency_ns);
    let usual = times.map_or(0, |times| times.p99.saturating_mul(OLDER));
    let is_old = |some: &Longest| some.count > 0 && some.longest_ns >= usual.max(OLD_NS);
    let longest = |some: &Longest| Micros(some.longest_ns as f64 / 1e3);
    let unseen = if times.is_some_and(|times| times.max >= open.longest_ns) {
        ""
    } else {
        ", which no figure below includes"
    };
    if is_old(open) || figures.unanswered > 0 {
        let had = count_of(open.count, "request had", "requests had");
        Some(format!(
            "at the end {had} no reply yet, the oldest for {}{unseen}",
            longest(open)
        ))
    } else if is_old(untimed) {
        let took = longest(untimed);
        Some(format!(
            "a request that began in the warm-up took {took}, which no figure below includes"
        ))
    } else {
        None
    }
}

/// Requests that took longer than all times below.
fn timed_out(figures: &Figures) -> Option<String> {
    let count = *figures.errors.get(&name_of(ErrorClass::Timeout))?;
    let share = percent(count as f64 / figures.sent().max(1) as f64, 2);
    figures.latency_ns.map(|_| {
        format!(
            "{} ({share}) timed out: no latency below includes them, and they took {} or longer",
            count_of(count, "request", "requests"),
            Micros(figures.timeout_ns as f64 / 1e3)
        )
    })
}

/// Messages sent, received and lost.
fn sending(sending: &OneWayFigures) -> Text {
    let lost = match sending.dropped.filter(|dropped| *dropped > 0) {
        Some(dropped) if dropped >= sending.lost => format!("{} lost, all dropped by the kernel", Count(sending.lost)),
        Some(dropped) => format!(
            "{} lost, of which the kernel dropped {}",
            Count(sending.lost),
            Count(dropped)
        ),
        None => format!("{} lost", Count(sending.lost)),
    };
    let tone = if sending.lost > 0 { Tone::Bad } else { Tone::Plain };
    Text::from(format!("{} sent with the warm-up, ", Count(sending.sent)))
        .and(tone, lost)
        .plain(format!(", {} waited for room", Count(sending.waited)))
}

/// The rows of latencies, all in one unit, chosen by the smallest time of the first row.
fn latencies(figures: &Figures) -> Table {
    let phase = |name: &str| figures.phases_ns.get(name).copied();
    let rows: Vec<(&str, Percentiles)> = [
        ("service time", figures.latency_ns),
        ("response", figures.response_ns),
        ("lag", figures.lag_ns),
        ("first byte", phase("first_byte")),
        ("connect", phase("connect")),
        ("TLS", phase("tls")),
        ("authenticate", phase("auth")),
    ]
    .into_iter()
    .filter_map(|(name, row)| Some((name, row?)))
    .collect();
    let shown = SUMMARY.iter().filter(|(_, title, _)| !title.is_empty());
    let cells = |row: &Percentiles| -> Vec<f64> { shown.clone().map(|(_, _, of)| of(row) / 1e3).collect() };
    // Only the first row chooses the unit: the lag is often far shorter, and would put all rows in microseconds.
    let smallest: Vec<f64> = rows.iter().take(1).flat_map(|(_, row)| cells(row)).collect();
    let unit = TimeUnit::of_column(&smallest);
    let rows: Vec<(&str, Vec<String>)> = rows
        .iter()
        .map(|(name, row)| {
            (
                *name,
                unit.column(&cells(row).into_iter().map(Some).collect::<Vec<_>>()),
            )
        })
        .collect();
    let columns = Columns::of(&rows).left(unit.name(), |(name, _)| *name);
    let titles = shown.map(|(_, title, _)| *title).enumerate();
    titles
        .fold(columns, |columns, (place, title)| {
            columns.right(title, |(_, cells)| &cells[place])
        })
        .table()
}

fn facts(figures: &Figures) -> Vec<Text> {
    let mut facts = vec![("proven", proven(figures)), ("checked", figures.checked.clone())];
    facts.extend(figures.unchecked.iter().map(|text| ("doubt", text.clone())));
    facts.extend(slow_connects(figures).map(|text| ("doubt", text)));
    facts.extend(sent_again(figures).map(|text| ("sent again", text)));
    if figures.bytes_per_second > 0.0 {
        facts.push((
            "received",
            format!("{}/s of payload", Bytes(figures.bytes_per_second as u64)),
        ));
    }
    facts.push(("generator", own_cost(figures)));
    if let Some(text) = headroom(figures) {
        facts.push(("headroom", text));
    }
    facts
        .into_iter()
        .map(|(name, text)| format!("  {name:NAME$}  {text}").into())
        .collect()
}

fn sent_again(figures: &Figures) -> Option<String> {
    let count = figures.sent_again;
    let share = percent(count as f64 / figures.sent().max(1) as f64, 2);
    (count > 0).then(|| {
        let requests = count_of(count, "request", "requests");
        format!("{requests} ({share}), which the server did not take before it ended their connection")
    })
}

fn slow_connects(figures: &Figures) -> Option<String> {
    let Longest { count, longest_ns } = figures.slow_connects;
    let is_tcp = figures
        .proof
        .as_ref()
        .is_some_and(|proof| proof.family.starts_with("inet"));
    let why = if is_tcp {
        "the server's accept queue was full, or a packet was lost, and the kernel repeats a SYN only after 1 s"
    } else {
        "the server accepts late"
    };
    (count > 0).then(|| {
        let connects = count_of(count, "connect", "connects");
        format!(
            "{connects} took 1 s or longer, the longest {}: {why}",
            Micros(longest_ns as f64 / 1e3)
        )
    })
}

fn proven(figures: &Figures) -> String {
    let Some(proof) = &figures.proof else {
        return "nothing: there was no connection".to_owned();
    };
    let family = match proof.family.as_str() {
        "unix" => "Unix socket",
        "inet" => "TCP over IPv4",
        "inet6" => "TCP over IPv6",
        other => other,
    };
    let tls = match (&proof.tls_version, &proof.tls_cipher) {
        (Some(version), Some(cipher)) => format!(", {version} with {cipher}"),
        (Some(version), None) => format!(", {version}"),
        _ => String::new(),
    };
    let insecure = if proof.tls_insecure {
        ", its certificate not verified"
    } else {
        ""
    };
    let reuse = if proof.reused {
        "connections are reused"
    } else {
        "each request has its own connection"
    };
    format!("{family} to {}{tls}{insecure}; {reuse}", proof.peer)
}

fn own_cost(figures: &Figures) -> String {
    let time = figures.seconds * f64::from(figures.threads);
    format!(
        "{} of CPU time and {:.1} system calls per request; {:.0}{NBSP}% CPU per thread{}",
        Micros(figures.driver_cpu_ns_per_request / 1e3),
        figures.system_calls_per_request,
        100.0 * figures.driver_cpu_seconds / time,
        figures
            .driver_run_delay_seconds
            .map_or_else(String::new, |delay| kept_off(delay / time)),
    )
}

/// The generator's run delay, if it is worth reporting.
fn kept_off(share: f64) -> String {
    if share >= WORTH_SAYING {
        format!("; waited for a CPU {} of the time", percent(share, 1))
    } else {
        String::new()
    }
}

fn headroom(figures: &Figures) -> Option<String> {
    let headroom = figures.headroom.as_ref()?;
    if let Some(why) = &headroom.unknown {
        return Some(format!("unknown: {why}"));
    }
    Some(format!(
        "{:.1} to {:.1} times: against a server that does nothing, this load reached {} requests/s ({} takes in turn)",
        headroom.times_low?,
        headroom.times_high?,
        Significant(headroom.null_throughput?),
        headroom.takes,
    ))
}

fn errors(figures: &Figures) -> Vec<Text> {
    if figures.errors.is_empty() {
        return Vec::new();
    }
    let row = |(class, count): (&String, &u64)| {
        let first = figures.first_errors.get(class).map_or("", String::as_str);
        let name = format!("  {:NAME$}", "error");
        Text::of(Tone::Bad, name).plain(format!("  {} × {class}; the first: {first}", Count(*count)))
    };
    // A single error is shown as the first.
    let are_many = figures.server_errors.len() > 1;
    let said = figures.server_errors.iter().filter(|_| are_many);
    let said = said.map(|error| format!("  {:NAME$}  {} × {}", "", Count(error.count), error.text).into());
    std::iter::once(Text::default())
        .chain(figures.errors.iter().map(row))
        .chain(said)
        .chain(
            figures
                .advice
                .iter()
                .map(|text| format!("  {:NAME$}  {text}", "advice").into()),
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_timed_out_are_said_to_be_in_no_latency() {
        let mut figures = Figures {
            requests_total: 190,
            timeout_ns: 300_000_000,
            ..Figures::default()
        };
        figures.errors.insert("timeout".to_owned(), 10);
        assert_eq!(timed_out(&figures), None, "there are no latencies");
        figures.latency_ns = Some(Percentiles::default());
        assert_eq!(
            timed_out(&figures).unwrap().replace(NBSP, " "),
            "10 requests (5.00 %) timed out: no latency below includes them, and they took 300 ms or longer"
        );
        figures.errors.clear();
        assert_eq!(timed_out(&figures), None);
    }

    #[test]
    fn a_run_delay_shows_from_a_thousandth_on() {
        assert_eq!(kept_off(0.0009), "");
        assert_eq!(
            kept_off(0.0124).replace(NBSP, " "),
            "; waited for a CPU 1.2 % of the time"
        );
    }
}
