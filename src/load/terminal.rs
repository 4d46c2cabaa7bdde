//! The figures of a load for people.

use anstyle::{AnsiColor, Style as Ansi};
use lasthop_load::spec::{Engine, HttpExpect, PostgresExpect, Protocol, RedisExpect, Reuse};

use super::{Figures, figures::Percentiles};
use crate::report::{
    units::{Bytes, Count, Micros, NBSP, Seconds, Significant, TimeUnit, column},
    wording,
};

/// Whether colours are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub color: bool,
}

impl Style {
    fn paint(self, ansi: Ansi, text: &str) -> String {
        if self.color { format!("{ansi}{text}{ansi:#}") } else { text.to_owned() }
    }

    fn strong(self, text: &str) -> String {
        self.paint(Ansi::new().bold(), text)
    }

    fn bad(self, text: &str) -> String {
        self.paint(Ansi::new().bold().fg_color(Some(AnsiColor::Red.into())), text)
    }
}

/// Share of its time from which on a generator's run delay shows in the figures: a tenth of what makes a 99th percentile.
const WORTH_SAYING: f64 = 0.001;

/// Width of the names that lines begin with.
const NAME: usize = 12;

/// Text for a terminal, in colour only if asked.
#[must_use]
pub fn render(figures: &Figures, style: Style) -> Vec<u8> {
    let mut lines = vec![style.strong(&figures.url), format!("  {}", how(figures)), String::new()];
    lines.extend(rate(figures, style));
    lines.push(String::new());
    lines.extend(latencies(figures));
    lines.push(String::new());
    lines.extend(facts(figures));
    lines.extend(errors(figures, style));
    let mut text = lines.join("\n");
    text.push('\n');
    text.replace(NBSP, " ").into_bytes()
}

fn count_of(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{} {many}", Count(count)) }
}

fn how(figures: &Figures) -> String {
    let reuse = match figures.reuse {
        Reuse::PerRequest if figures.requests_per_connection > 1 => {
            format!("a connection for {} requests each", Count(figures.requests_per_connection.into()))
        }
        Reuse::PerRequest => "a connection per request".to_owned(),
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
        parts.push(format!("{} requests in a pipeline", figures.pipeline));
    }
    match figures.offered {
        Some(offered) => parts.push(format!("open loop at {} requests/s", Significant(offered.rate))),
        None => parts.push("closed loop".to_owned()),
    }
    parts.join(", ")
}

fn rate(figures: &Figures, style: Style) -> Vec<String> {
    let errors: u64 = figures.errors.values().sum();
    let wrong = count_of(errors, "error", "errors");
    let wrong = if errors > 0 { style.bad(&wrong) } else { wrong };
    let rate = style.strong(&format!("{} requests/s", Significant(figures.throughput)));
    let answers = count_of(figures.requests, "right answer", "right answers");
    let mut lines = vec![format!("  {rate}   {answers} in {}, {wrong}", Seconds(figures.seconds))];
    if figures.cut_short {
        lines.push(format!("  {}", style.strong("cut short: the figures are those of the time until then")));
    }
    if let Some(offered) = figures.offered.filter(|offered| !offered.reached) {
        let text = format!(
            "the rate was not reached: {} of {} scheduled requests were sent; the latencies are those of an overload",
            Count(offered.sent),
            Count(offered.scheduled)
        );
        lines.push(format!("  {}", style.bad(&text)));
    }
    lines
}

/// Rows in microseconds or what suits the smallest, all in one unit.
fn latencies(figures: &Figures) -> Vec<String> {
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
    let cells = |row: &Percentiles| [row.p50, row.p90, row.p99, row.p999, row.max].map(|ns| ns as f64 / 1e3);
    let smallest: Vec<f64> = rows.iter().take(1).flat_map(|(_, row)| cells(row)).collect();
    let unit = TimeUnit::of_column(&smallest);
    let head = ["p50", "p90", "p99", "p99.9", "max"].map(|name| format!("{name:>10}")).concat();
    let mut lines = vec![format!("  {:NAME$}{head}", unit.name())];
    for (name, row) in rows {
        let values: Vec<Option<f64>> = cells(&row).iter().map(|us| Some(us / unit.micros())).collect();
        let cells: String = column(&values).iter().map(|cell| format!("{cell:>10}")).collect();
        lines.push(format!("  {name:NAME$}{cells}"));
    }
    lines
}

fn facts(figures: &Figures) -> Vec<String> {
    let mut facts = vec![("proven", proven(figures)), ("checked", figures.checked.clone())];
    if figures.bytes_per_second > 0.0 {
        facts.push(("received", format!("{}/s of content", Bytes(figures.bytes_per_second as u64))));
    }
    facts.push(("generator", own_cost(figures)));
    if let Some(text) = headroom(figures) {
        facts.push(("headroom", text));
    }
    facts.into_iter().map(|(name, text)| format!("  {name:NAME$}  {text}")).collect()
}

fn proven(figures: &Figures) -> String {
    let Some(proof) = &figures.proof else { return "nothing: no connection stood".to_owned() };
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
    let reuse = if proof.reused { "connections are reused" } else { "each request has its own connection" };
    format!("{family} to {}{tls}; {reuse}", proof.peer)
}

fn own_cost(figures: &Figures) -> String {
    let time = figures.seconds * f64::from(figures.threads);
    format!(
        "{} of CPU and {:.1} system calls a request; {:.0}{NBSP}% of a core per thread{}",
        Micros(figures.driver_cpu_ns_per_request / 1e3),
        figures.system_calls_per_request,
        100.0 * figures.driver_cpu_seconds / time,
        figures.driver_run_delay_seconds.map_or_else(String::new, |delay| kept_off(delay / time)),
    )
}

/// What a generator's run delay comes to, if it is worth saying.
fn kept_off(share: f64) -> String {
    match share >= WORTH_SAYING {
        true => format!(", kept from it for {}", wording::percent(share, 1)),
        false => String::new(),
    }
}

fn headroom(figures: &Figures) -> Option<String> {
    let headroom = figures.headroom.as_ref()?;
    Some(match (headroom.times, headroom.null_throughput, &headroom.unknown) {
        (Some(times), Some(rate), _) => format!(
            "{times:.1} times: against a server that does nothing this load reached {} requests/s",
            Significant(rate)
        ),
        (_, _, Some(why)) => format!("not known: {why}"),
        _ => return None,
    })
}

fn errors(figures: &Figures, style: Style) -> Vec<String> {
    if figures.errors.is_empty() {
        return Vec::new();
    }
    let row = |(class, count): (&String, &u64)| {
        let first = figures.first_errors.get(class).map_or("", String::as_str);
        format!("  {:NAME$}  {} × {class}; the first: {first}", style.bad("error"), Count(*count))
    };
    std::iter::once(String::new()).chain(figures.errors.iter().map(row)).collect()
}

/// What every reply is held against, in words.
#[must_use]
pub fn checked(protocol: &Protocol) -> String {
    match protocol {
        Protocol::Hello(hello) => format!("the text `{}`", hello.expect),
        Protocol::Echo(echo) => format!("all {} of each message", Bytes(echo.size.into())),
        Protocol::Stream(stream) => format!("all {} of each transfer", Bytes(stream.size)),
        Protocol::Http(http) => http_expectation(&http.expect),
        Protocol::Redis(redis) => redis_expectation(&redis.expect),
        Protocol::Postgres(postgres) => postgres_expectation(&postgres.expect),
    }
}

fn http_expectation(expect: &HttpExpect) -> String {
    let body = match (&expect.body, expect.length) {
        (Some(body), _) => format!(" and a body of {}, byte for byte", Bytes(body.len() as u64)),
        (None, Some(length)) => format!(" and {} of body", Bytes(length)),
        (None, None) => " alone".to_owned(),
    };
    format!("status {}{body}", expect.status)
}

fn redis_expectation(expect: &RedisExpect) -> String {
    let short = |text: &str| text.chars().take(40).collect::<String>().escape_debug().to_string();
    match expect {
        RedisExpect::Success => "no reply is an error".to_owned(),
        RedisExpect::Simple(text) => format!("the reply `{}`", short(text)),
        RedisExpect::Bulk(text) => format!("a value of {}, byte for byte", Bytes(text.len() as u64)),
        RedisExpect::Integer(number) => format!("the number {number}"),
        RedisExpect::Nil => "no value".to_owned(),
        RedisExpect::Length(length) => format!("a value of {}", Bytes(*length)),
    }
}

fn postgres_expectation(expect: &PostgresExpect) -> String {
    let mut parts = Vec::new();
    parts.extend(expect.rows.map(|rows| count_of(rows, "row", "rows")));
    parts.extend(expect.first.as_ref().map(|text| format!("the first being `{}`", text.escape_debug())));
    parts.extend(expect.tag.as_ref().map(|tag| format!("the tag `{tag}`")));
    if parts.is_empty() { "no error".to_owned() } else { parts.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_delay_shows_from_a_thousandth_on() {
        assert_eq!(kept_off(0.0009), "");
        assert_eq!(kept_off(0.0124).replace(NBSP, " "), ", kept from it for 1.2 %");
    }
}
