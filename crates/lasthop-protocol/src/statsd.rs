//! StatsD: lines of metrics, several in a datagram. There are no replies, so the server must tell what it received.

use lasthop_trial::{
    address::Endpoint,
    failure::Failure,
    options::{Reuse, within},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    exchange::{Done, Exchange, Factory, Progress, excerpt},
    kind::{Protocol, ProtocolKind, ProtocolSpec, Receipt, Usage},
};
use crate::location::{Location, pairs, unknown_parameter, without_secrets};

pub static KIND: ProtocolKind = ProtocolKind {
    own: true,
    schemes: &["statsd"],
    urls: &[
        (
            "statsd+udp://127.0.0.1:8125?counter=http://127.0.0.1:9102/metrics&counts=NAME",
            "StatsD, one way; the counter NAME there tells what the server received",
        ),
        (
            "statsd+unixgram:/run/statsd.sock?counter=…&counts=NAME&metrics=20",
            "the same by Unix datagram socket, 20 metrics in each; also +seqpacket, +unix",
        ),
    ],
    ..ProtocolKind::of::<Statsd>("statsd", "StatsD", from_url)
};

/// Parameters of the URL.
const KNOWN: &str = "counter, counts, metrics";

fn from_url(location: &Location<'_>) -> Result<(Endpoint, Protocol), String> {
    let (rest, parameters) = location.rest.split_once('?').unwrap_or((location.rest, ""));
    let mut statsd = Statsd {
        metrics: one(),
        counter: String::new(),
        counts: String::new(),
    };
    for (key, value) in pairs(parameters)? {
        match key {
            "counter" => statsd.counter = value,
            "counts" => statsd.counts = value,
            "metrics" => {
                let wrong = || format!("`{value}` is not a number of metrics");
                statsd.metrics = value.parse().map_err(|_| wrong())?;
            }
            _ => return Err(unknown_parameter(key, KNOWN)),
        }
    }
    Ok((Location { rest, ..*location }.endpoint(Some(8125))?, statsd.into()))
}

/// StatsD: counters, one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Statsd {
    /// Metrics in each datagram, 1 to 1,000.
    #[serde(default = "one")]
    pub metrics: u32,
    /// URL of the page where the server tells how many metrics it has received, in the text format of Prometheus.
    pub counter: String,
    /// Name of the counter on that page.
    pub counts: String,
}

fn one() -> u32 {
    1
}

/// One metric: a counter that goes up by 1.
const METRIC: &str = "lasthop.load:1|c";

impl ProtocolSpec for Statsd {
    fn kind(&self) -> &'static ProtocolKind {
        &KIND
    }

    fn validate(&self, usage: Usage) -> Result<(), String> {
        usage.without_pipeline("nothing comes back; pack several metrics into a datagram (`metrics`) instead")?;
        if usage.reuse == Reuse::PerRequest {
            return Err("StatsD needs a kept socket: without replies, closing it may lose what was sent".to_owned());
        }
        if self.counter.is_empty() || self.counts.is_empty() {
            return Err(
                "nothing comes back over StatsD: say where the server tells how many metrics it has received, for \
                 example `?counter=http://127.0.0.1:9102/metrics&counts=NAME`"
                    .to_owned(),
            );
        }
        within("number of metrics in a datagram", self.metrics.into(), 1, 1_000)
    }

    fn factory(&self, usage: Usage) -> Factory {
        // The boundary ends the last line of a datagram; in a stream a line needs a line end.
        let end = if usage.keeps_boundaries { "" } else { "\n" };
        let text = [METRIC].repeat(self.metrics as usize).join("\n") + end;
        Factory::new(move || StatsdExchange {
            datagram: text.clone().into_bytes(),
        })
    }

    fn checked(&self, _: &dyn Fn(u64) -> String) -> String {
        format!("what the server counts as received ({})", self.counts)
    }

    fn hide_secrets(&mut self) -> bool {
        let counter = without_secrets(&self.counter);
        let found = counter != self.counter;
        self.counter = counter;
        found
    }

    fn fits_packets(&self) -> bool {
        true
    }

    fn receipt(&self) -> Option<Receipt> {
        Some(Receipt {
            url: self.counter.clone(),
            counter: self.counts.clone(),
            each: self.metrics,
        })
    }
}

pub struct StatsdExchange {
    datagram: Vec<u8>,
}

impl Exchange for StatsdExchange {
    fn begin(&mut self) {}

    fn request(&self) -> &[u8] {
        &self.datagram
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        Err(Failure::protocol(format!(
            "the server answers, which no StatsD server does: {}",
            excerpt(bytes)
        )))
    }

    fn end(&mut self) -> Result<Done, Failure> {
        Err(Failure::reset("the peer closed the connection"))
    }
}

#[cfg(test)]
mod tests {
    use lasthop_trial::result::ErrorClass;

    use super::*;
    use crate::{spec::Spec, url};

    const WHERE: &str = "counter=http://127.0.0.1:9102/metrics&counts=lines_total&metrics=3";

    fn read(url: &str) -> Result<(Endpoint, Protocol), String> {
        url::parse(url, &url::UrlOptions::default())
    }

    #[test]
    fn a_url_is_read_and_written_again() {
        for place in [
            "statsd+udp://127.0.0.1:8125",
            "statsd+unixgram:/run/s",
            "statsd+seqpacket:/run/s",
            "statsd://[::1]:8125",
        ] {
            let url = format!("{place}?{WHERE}");
            let (_, protocol) = read(&url).unwrap();
            let receipt = protocol.receipt().unwrap();
            assert_eq!((receipt.counter.as_str(), receipt.each), ("lines_total", 3));
        }
        assert_eq!(
            read("statsd+udp://127.0.0.1").unwrap().0.address.to_string(),
            "udp:127.0.0.1:8125"
        );
        for (url, text) in [
            ("statsd+udp://127.0.0.1?metrics=x", "`x` is not a number of metrics"),
            (
                "statsd+udp://127.0.0.1?port=1",
                "unknown parameter `port` (known: counter, counts, metrics)",
            ),
        ] {
            assert_eq!(read(url).map(drop).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn a_counter_with_a_secret_is_neither_kept_nor_shown() {
        let url = "statsd+udp://127.0.0.1:9?counts=n&counter=http://127.0.0.1:1/m?token=s3cret";
        let (_, mut protocol) = read(url).unwrap();
        assert!(protocol.hide_secrets());
        assert!(!format!("{protocol:?}").contains("s3cret"), "{protocol:?}");
    }

    #[test]
    fn only_a_stream_needs_the_end_of_the_last_line() {
        for (place, end) in [
            ("statsd+udp://127.0.0.1:9", ""),
            ("statsd+seqpacket:/s", ""),
            ("statsd+unix:/s", "\n"),
        ] {
            let (endpoint, protocol) = read(&format!("{place}?{WHERE}")).unwrap();
            let exchange = Spec::new(endpoint, protocol).factory().exchange();
            let text = format!("{METRIC}\n{METRIC}\n{METRIC}{end}");
            assert_eq!(exchange.request(), text.as_bytes(), "{place}");
        }
    }

    #[test]
    fn an_answer_is_an_error() {
        let (endpoint, protocol) = read(&format!("statsd+udp://127.0.0.1:9?{WHERE}")).unwrap();
        let mut exchange = Spec::new(endpoint, protocol).factory().exchange();
        assert_eq!(exchange.receive(b"ok").unwrap_err().class, ErrorClass::Protocol);
        assert_eq!(exchange.end().unwrap_err().class, ErrorClass::Reset);
    }
}
