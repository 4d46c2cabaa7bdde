//! The specification of a load: endpoint × protocol × reuse × load model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use lasthop_trial::{
    address::Endpoint,
    options::{self, Engine, Model, Reuse, SocketOptions, Timeouts, within},
};

use crate::{
    exchange::Factory,
    kind::{Protocol, Usage},
};

/// Everything a driver needs to put load on one endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub endpoint: Endpoint,
    pub protocol: Protocol,
    #[serde(default)]
    pub socket: SocketOptions,
    #[serde(default)]
    pub reuse: Reuse,
    #[serde(default)]
    pub model: Model,
    #[serde(default)]
    pub engine: Engine,
    /// Connections held at the same time over all threads, 1 to 65,535.
    #[serde(default = "one")]
    pub connections: u32,
    /// Worker threads, 1 to 1,024, no more than connections.
    #[serde(default = "one")]
    pub threads: u32,
    /// Requests sent together on a connection, before any reply is awaited: 1 to 1,024. More than one needs kept
    /// connections, a closed loop, and a protocol that allows it (not hello, stream or HTTP/1.0).
    #[serde(default = "one")]
    pub pipeline: u32,
    /// Requests that a connection carries one after the other before it is closed: 1 to 10 million. More than one needs
    /// `reuse` per request and a closed loop. The unit is then timed as a whole: connect, authentication, all of its
    /// requests; each counts as a request.
    #[serde(default = "one")]
    pub requests_per_connection: u32,
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Nanoseconds that a worker polls for events before it sleeps in the kernel, at most 1 s. `None`:
    /// [`options::SPIN_BEFORE_DUE_NS`] before a request of an open loop is due, otherwise not at all. More than 0 needs
    /// the epoll engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_ns: Option<u64>,
}

fn one() -> u32 {
    1
}

impl Spec {
    /// One kept connection in a closed loop, every option at its default.
    pub fn new(endpoint: Endpoint, protocol: Protocol) -> Self {
        Self {
            endpoint,
            protocol,
            socket: SocketOptions::default(),
            reuse: Reuse::default(),
            model: Model::default(),
            engine: Engine::default(),
            connections: one(),
            threads: one(),
            pipeline: one(),
            requests_per_connection: one(),
            timeouts: Timeouts::default(),
            spin_ns: None,
        }
    }

    /// Checks everything that needs no open socket.
    pub fn validate(&self) -> Result<(), String> {
        within("connections", self.connections.into(), 1, 65_535)?;
        within("threads", self.threads.into(), 1, 1_024)?;
        within(
            "connect timeout in nanoseconds",
            self.timeouts.connect_ns,
            1_000,
            u64::MAX / 4,
        )?;
        within(
            "request timeout in nanoseconds",
            self.timeouts.request_ns,
            1_000,
            u64::MAX / 4,
        )?;
        let Self {
            connections, threads, ..
        } = *self;
        if threads > connections {
            return Err(format!(
                "{threads} threads need at least {threads} connections, not {connections}"
            ));
        }
        within("spin in nanoseconds", self.spin_ns.unwrap_or(0), 0, 1_000_000_000)?;
        if self.engine == Engine::Blocking && self.spins() {
            let text = "the blocking engine leaves waiting to the kernel and cannot spin; use epoll";
            return Err(text.to_owned());
        }
        if self.engine == Engine::Blocking && connections != threads {
            return Err(format!(
                "the blocking engine drives one connection per thread, but there are {connections} for {threads} threads"
            ));
        }
        self.validate_channel()?;
        self.validate_packets()?;
        self.validate_model()?;
        self.validate_pipeline()?;
        self.validate_unit()?;
        self.validate_protocol()
    }

    /// Checks the protocol's parameters, and that this load suits the protocol.
    pub fn validate_protocol(&self) -> Result<(), String> {
        self.protocol.validate(self.usage())
    }

    fn validate_channel(&self) -> Result<(), String> {
        let Some(channel) = self.endpoint.address.channel() else {
            return Ok(());
        };
        let possible = self.is_plain() && self.endpoint.tls.is_none();
        if possible {
            return Ok(());
        }
        Err(format!(
            "a channel ({}) is driven like a plain program does: a connection for each thread, a closed loop, no TLS, and \
             no epoll",
            channel.name()
        ))
    }

    /// Whether the blocking engine can drive this load.
    fn is_plain(&self) -> bool {
        let is_plain = self.connections == self.threads && self.model == Model::Closed && !self.spins();
        is_plain && self.engine != Engine::Epoll
    }

    fn validate_packets(&self) -> Result<(), String> {
        let name = self.protocol.kind().title;
        if self.protocol.receipt().is_some() && !self.is_plain() {
            return Err(format!(
                "a protocol without replies ({name}) is driven like a plain program does: a connection for each thread, a \
                 closed loop, and no epoll"
            ));
        }
        if !self.endpoint.address.keeps_boundaries() {
            return Ok(());
        }
        if self.endpoint.tls.is_some() {
            return Err("there is no TLS over sockets that carry whole messages".to_owned());
        }
        if !self.protocol.fits_packets() {
            return Err(format!(
                "{name} needs a socket that carries a stream of bytes, not whole messages"
            ));
        }
        Ok(())
    }

    fn validate_model(&self) -> Result<(), String> {
        let Model::Open(open) = self.model else { return Ok(()) };
        if self.engine == Engine::Blocking {
            let text = "the open loop needs the epoll engine; the blocking one cannot send while it waits for a reply";
            return Err(text.to_owned());
        }
        options::possible_rate(open.rate)
    }

    /// Whether workers busy-poll, beyond what an open loop does by itself.
    pub fn spins(&self) -> bool {
        self.spin_ns.is_some_and(|spin| spin > 0)
    }

    pub fn validate_unit(&self) -> Result<(), String> {
        let requests = self.requests_per_connection;
        within("requests for each connection", requests.into(), 1, 10_000_000)?;
        if requests == 1 {
            return Ok(());
        }
        let why = if self.reuse == Reuse::KeepAlive {
            "kept connections are not closed after a number of requests"
        } else if self.model != Model::Closed {
            "an open loop releases requests one by one"
        } else if self.protocol.closes_each_time() {
            "the server closes after its first word"
        } else {
            return Ok(());
        };
        Err(format!("{requests} requests for each connection: {why}"))
    }

    pub fn validate_pipeline(&self) -> Result<(), String> {
        within("depth of the pipeline", self.pipeline.into(), 1, 1024)?;
        if self.pipeline == 1 {
            return Ok(());
        }
        let why = if self.reuse == Reuse::PerRequest {
            "a connection for each request has room for one only"
        } else if self.model != Model::Closed {
            "an open loop releases requests one by one"
        } else if self.protocol.closes_each_time() {
            "the server closes after its first word"
        } else {
            return Ok(());
        };
        Err(options::pipelined(self.pipeline, why))
    }

    fn usage(&self) -> Usage {
        // The client closes a connection that carries several requests: the server is told to keep it.
        let reuse = if self.requests_per_connection > 1 {
            Reuse::KeepAlive
        } else {
            self.reuse
        };
        let is_local = self.endpoint.address.ip().is_none();
        let keeps_boundaries = self.endpoint.address.keeps_boundaries();
        Usage {
            reuse,
            pipeline: self.pipeline,
            encrypted: self.endpoint.tls.is_some(),
            is_local,
            keeps_boundaries,
        }
    }

    /// The factory of one thread's exchanges. `self` must be valid.
    pub fn factory(&self) -> Factory {
        self.protocol.factory(self.usage())
    }

    /// Whether a connection is closed after each reply, or after each unit of requests.
    pub fn closes_each_time(&self) -> bool {
        self.reuse == Reuse::PerRequest || self.protocol.closes_each_time()
    }

    /// Whether the server closes after each reply because the request tells it to.
    pub fn tells_to_close(&self) -> bool {
        self.usage().reuse == Reuse::PerRequest && self.protocol.can_tell_to_close()
    }
}

#[cfg(test)]
mod tests {
    use lasthop_trial::{
        address::{Address, Transport},
        options::{Arrivals, OpenLoop},
    };

    use super::*;
    use crate::{
        echo::Echo,
        http::{Http, HttpExpect, HttpVersion},
    };

    /// A specification of the first version of the wire protocol: later fields have defaults.
    const OLD: &str = r#"{"endpoint": {"address": {"unix": "/s"}}, "protocol": {"echo": {"size": 64}}}"#;

    fn spec() -> Spec {
        serde_json::from_str(OLD).unwrap()
    }

    #[test]
    fn an_old_specification_is_still_understood() {
        let spec = spec();
        assert_eq!((spec.connections, spec.threads, spec.pipeline), (1, 1, 1));
        assert_eq!(spec.requests_per_connection, 1);
        assert_eq!(
            (spec.reuse, spec.model, spec.engine),
            (Reuse::KeepAlive, Model::Closed, Engine::Auto)
        );
        spec.validate().unwrap();
        assert_eq!(spec, Spec::new(spec.endpoint.clone(), spec.protocol.clone()));
        let again: Spec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
        assert_eq!(again, spec);
    }

    #[test]
    fn the_open_loop_is_written_plainly() {
        let model: Model = serde_json::from_str(r#"{"open": {"rate": 500, "arrivals": "poisson"}}"#).unwrap();
        assert_eq!(
            model,
            Model::Open(OpenLoop {
                rate: 500.0,
                arrivals: Arrivals::Poisson,
                seed: 0
            })
        );
    }

    #[test]
    fn what_cannot_be_carried_out_is_refused() {
        let open = Model::Open(OpenLoop {
            rate: f64::NAN,
            arrivals: Arrivals::Constant,
            seed: 0,
        });
        let header = |value: &str| {
            Protocol::from(Http {
                method: "GET".into(),
                path: "/".into(),
                host: "h".into(),
                headers: vec![("A".into(), value.into())],
                hidden: vec![],
                body: Default::default(),
                version: HttpVersion::V11,
                expect: HttpExpect {
                    status: 200,
                    ..HttpExpect::default()
                },
            })
        };
        let base = spec();
        let piped = || Endpoint::plain(Address::Channel(Transport::Pipe, "/s".into()));
        for (spec, text) in [
            (
                Spec {
                    engine: Engine::Blocking,
                    connections: 2,
                    ..base.clone()
                },
                "the blocking engine drives one",
            ),
            (
                Spec {
                    protocol: Echo { size: 7 }.into(),
                    ..base.clone()
                },
                "size of a message must be 8 to",
            ),
            (
                Spec {
                    model: open,
                    ..base.clone()
                },
                "the rate must be 0.001 to 100,000,000 requests per second, not NaN",
            ),
            (
                Spec {
                    engine: Engine::Blocking,
                    spin_ns: Some(1),
                    ..base.clone()
                },
                "the blocking engine leaves waiting",
            ),
            (
                Spec {
                    spin_ns: Some(2_000_000_000),
                    ..base.clone()
                },
                "spin in nanoseconds must be 0 to 1000000000, not 2000000000",
            ),
            (
                Spec {
                    endpoint: piped(),
                    connections: 2,
                    ..base.clone()
                },
                "a channel (pipe) is driven like",
            ),
            (
                Spec {
                    endpoint: piped(),
                    engine: Engine::Epoll,
                    ..base.clone()
                },
                "a channel (pipe) is driven like",
            ),
            (
                Spec {
                    pipeline: 4,
                    reuse: Reuse::PerRequest,
                    ..base.clone()
                },
                "4 requests in a pipeline",
            ),
            (
                Spec {
                    requests_per_connection: 0,
                    ..base.clone()
                },
                "requests for each connection must be 1 to",
            ),
            (
                Spec {
                    requests_per_connection: 2,
                    ..base.clone()
                },
                "2 requests for each connection: kept connections",
            ),
            (
                Spec {
                    protocol: header("x\r\nB: c"),
                    ..base
                },
                "the header value",
            ),
        ] {
            let error = spec.validate().unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
