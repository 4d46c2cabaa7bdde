//! A server's count of received requests, for protocols without replies: the value of a counter on a page in the text
//! format of Prometheus.

use lasthop_protocol::{
    Receipt,
    http::{Http, HttpVersion},
    spec::Spec,
    url::{self, UrlOptions},
};
use lasthop_system::{clock, udp};
use lasthop_trial::{
    address::Address,
    failure::Failure,
    options::{Reuse, Timeouts},
};

use crate::{reach, sample};

/// How long the count may stand still with requests unaccounted for before they count as lost.
const PATIENCE_NS: u64 = 1_000_000_000;
/// Interval between two readings of an unfinished count.
const PAUSE_NS: u64 = 1_000_000;

/// Reads a server's counter.
pub struct Receipts {
    page: Spec,
    counter: String,
    /// By how much a request raises the counter.
    each: u64,
    /// The address for which the kernel may drop requests.
    server: Address,
}

/// A counter reading, in requests, and the requests that the kernel has dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterReading {
    pub received: u64,
    pub dropped: Option<u64>,
    /// Monotonic nanoseconds.
    pub at: u64,
}

impl CounterReading {
    /// Requests received and dropped since an earlier reading.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            received: self.received.saturating_sub(before.received),
            dropped: self
                .dropped
                .zip(before.dropped)
                .map(|(now, then)| now.saturating_sub(then)),
            at: self.at,
        }
    }

    /// Requests that reached the server's socket.
    #[must_use]
    pub fn accounted(self) -> u64 {
        self.received + self.dropped.unwrap_or(0)
    }
}

impl Receipts {
    pub fn new(receipt: &Receipt, server: &Address, timeouts: Timeouts) -> Result<Self, String> {
        let wrong = |why: String| format!("the counter `{}`: {why}", url::redacted(&receipt.url));
        let options = UrlOptions {
            choose: reach::choose,
            ..UrlOptions::default()
        };
        let (endpoint, protocol) = url::parse(&receipt.url, &options).map_err(wrong)?;
        let Some(http) = protocol.get::<Http>() else {
            return Err(wrong("it must be a URL of HTTP".to_owned()));
        };
        // HTTP/1.0: no chunks, and the reply ends when the server closes.
        let http = Http {
            version: HttpVersion::V10,
            ..http.clone()
        };
        let page = Spec {
            timeouts,
            reuse: Reuse::PerRequest,
            ..Spec::new(endpoint, http.into())
        };
        Ok(Self {
            page,
            counter: receipt.counter.clone(),
            each: receipt.each.into(),
            server: server.clone(),
        })
    }

    /// # Errors
    ///
    /// The page request fails, as any request may, or the page lacks the counter.
    pub fn read(&self, go_on: impl FnMut() -> bool) -> Result<CounterReading, Failure> {
        let page = sample::take(&self.page, go_on);
        let page = page.map_err(|failure| Failure {
            message: format!("the server's counter: {failure}"),
            ..failure
        })?;
        let total = total(&page.reply, &self.counter)
            .ok_or_else(|| Failure::content(format!("the page of the server's counter has no `{}`", self.counter)))?;
        let dropped = if let Address::Udp(at) = self.server {
            udp::drops(at)
        } else {
            None
        };
        Ok(CounterReading {
            received: total / self.each,
            dropped,
            at: clock::now(),
        })
    }

    /// Waits until the server has taken all `sent` requests since `before`, or takes no more.
    pub fn settle(
        &self,
        before: CounterReading,
        sent: u64,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<CounterReading, Failure> {
        let mut last = self.read(&mut go_on)?.since(before);
        let mut moved = last.at;
        while last.accounted() < sent && last.at < moved.saturating_add(PATIENCE_NS) && go_on() {
            clock::sleep(PAUSE_NS);
            let now = self.read(&mut go_on)?.since(before);
            moved = if now.accounted() > last.accounted() {
                now.at
            } else {
                moved
            };
            last = now;
        }
        Ok(last)
    }
}

/// The sum of a counter over all its labels on an HTTP reply in the text format of Prometheus; `None` without the
/// counter.
pub fn total(reply: &[u8], counter: &str) -> Option<u64> {
    let head = memchr::memmem::find(reply, b"\r\n\r\n")?;
    let text = std::str::from_utf8(&reply[head + 4..]).ok()?;
    text.lines()
        .filter_map(|line| value(line, counter))
        .reduce(u64::saturating_add)
}

/// `NAME 12` or `NAME{label="value"} 1.2e+06 1700000000000`: the value of a line of this counter.
fn value(line: &str, counter: &str) -> Option<u64> {
    let rest = line.strip_prefix(counter)?;
    let rest = match rest.strip_prefix('{') {
        // The last brace, because the value of a label may have braces of its own.
        Some(labels) => labels.rsplit_once('}')?.1,
        None => rest.strip_prefix(' ')?,
    };
    let value: f64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    (value >= 0.0 && value.is_finite()).then_some(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(body: &str) -> Vec<u8> {
        format!("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n{body}").into_bytes()
    }

    #[test]
    fn a_counter_is_found_with_and_without_labels() {
        for (body, found) in [
            ("# HELP lines Lines.\n# TYPE lines counter\nlines 12\n", Some(12)),
            ("lines_total 3\nlines 1.234567e+06\n", Some(1_234_567)),
            (
                "lines{type=\"counter\"} 5\nlines{type=\"a } b\"} 7 1700000000000\n",
                Some(12),
            ),
            ("lines_total 3\n", None),
            ("lines -1\nlines NaN\nlines\nlines x\n", None),
            ("", None),
        ] {
            assert_eq!(total(&page(body), "lines"), found, "{body}");
        }
        assert_eq!(total(b"lines 12\n", "lines"), None, "a reply without a head");
    }

    #[test]
    fn a_page_of_another_protocol_is_refused() {
        let server = Address::Udp("127.0.0.1:9".parse().unwrap());
        let refused = |url: &str| {
            let receipt = Receipt {
                url: url.to_owned(),
                counter: "x".into(),
                each: 1,
            };
            Receipts::new(&receipt, &server, Timeouts::default())
                .map(drop)
                .unwrap_err()
        };
        assert_eq!(
            refused("redis://127.0.0.1"),
            "the counter `redis://127.0.0.1`: it must be a URL of HTTP"
        );
        let error = refused("ftp://127.0.0.1:1/m?token=s3cret");
        assert!(!error.contains("s3cret"), "{error}");
    }
}
