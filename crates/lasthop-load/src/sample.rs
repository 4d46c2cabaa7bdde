//! One reply of an endpoint, byte for byte: a null server repeats it, and later replies are compared with it.

use std::{io, sync::Arc};

use lasthop_protocol::{Exchange, Progress, Protocol, spec::Spec};
use lasthop_system::clock;
use lasthop_trial::{failure::Failure, result::ErrorClass};

use crate::{
    supervisor::supervised,
    transport::{Calls, Connector, Stream, Wait, Watch},
};

/// Error text for a missing end of a reply without a length.
pub const ENDLESS: &str = "the end of the reply, which has no length and ends with the connection";
/// Error text for a reply too long to keep.
pub const TOO_LONG: &str = "the reply is longer than the 64 MiB that can be compared";
/// Maximum bytes kept of a reply.
const REPLY_MAX: usize = 64 << 20;

/// A correct reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The reply as sent over the wire, but decrypted if TLS is used.
    pub reply: Vec<u8>,
    /// Whether the server closes the connection after the reply.
    pub closes: bool,
}

/// Sends one request on a connection of its own and keeps its reply. `spec` must be valid. If `go_on` returns false,
/// the wait ends with a meaningless error.
///
/// # Errors
///
/// Those of a request in a load: a sample is a correct reply.
pub fn take(spec: &Spec, go_on: impl FnMut() -> bool) -> Result<Sample, Failure> {
    converse(spec, go_on, |line| line.ask(&spec.protocol))
}

/// Holds a conversation with the endpoint of `spec`, which must be valid. If `go_on` returns false, the conversation
/// ends with a meaningless error.
pub(crate) fn converse<T: Send>(
    spec: &Spec,
    go_on: impl FnMut() -> bool,
    conversation: impl FnOnce(&mut Line) -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    supervised(spec.timeouts, go_on, |watch| conversation(&mut Line::new(spec, watch)?))?
}

/// Requests sent one after the other, over one connection if the server and the load keep it.
pub(crate) struct Line {
    spec: Spec,
    connector: Connector,
    /// Enforces deadlines: each part has its own, even if bytes only trickle in.
    watch: Arc<Watch>,
    kept: Option<Stream>,
    /// Whether a connection could have carried a second request, as far as tried.
    keeps: bool,
    /// Whether no bytes of replies are kept.
    pub forgets: bool,
}

impl Line {
    fn new(spec: &Spec, watch: Arc<Watch>) -> Result<Self, Failure> {
        Ok(Self {
            connector: Connector::new(spec).map_err(|cause| Failure::new(ErrorClass::Os, cause))?,
            // A single request stands for a pipeline of them.
            spec: Spec {
                pipeline: 1,
                ..spec.clone()
            },
            watch,
            kept: None,
            keeps: false,
            forgets: false,
        })
    }

    /// Whether the server kept a connection.
    pub fn keeps(&self) -> bool {
        self.keeps
    }

    /// Sends a request of `protocol` and keeps its reply.
    pub fn ask(&mut self, protocol: &Protocol) -> Result<Sample, Failure> {
        self.spec.protocol = protocol.clone();
        // A server may end a connection after any reply, which shows only when the next request fails.
        if let Some(mut kept) = self.kept.take()
            && kept.is_quiet()
        {
            match self.ask_over(kept) {
                Err(failure) if !failure.class.is_of_reply() => {}
                answered => {
                    self.keeps = true;
                    return answered;
                }
            }
        }
        let opened = self.connector.open(&Calls::default(), &self.watch)?;
        self.ask_over(opened.stream)
    }

    fn ask_over(&mut self, mut stream: Stream) -> Result<Sample, Failure> {
        let spec = &self.spec;
        let mut exchange = spec.factory().exchange();
        exchange.reset();
        if spec.protocol.greets() {
            greet(spec.protocol.greeting_name(), exchange.as_mut(), &mut stream)?;
        }
        self.watch
            .expect_by(clock::now().saturating_add(spec.timeouts.request_ns));
        exchange.begin();
        if spec.protocol.receipt().is_some() {
            stream.send_all(exchange.request())?;
            return Ok(Sample {
                reply: Vec::new(),
                closes: false,
            });
        }
        let (reply, keep) = reply(exchange.as_mut(), &mut stream, self.forgets)?;
        self.watch.rest();
        // A protocol with a greeting would greet again, so its connections are not reused.
        self.keeps |= keep && spec.protocol.greets();
        if keep && !spec.closes_each_time() && !spec.protocol.greets() {
            self.kept = Some(stream);
        } else {
            stream.farewell();
        }
        let closes = !keep || spec.tells_to_close();
        Ok(Sample { reply, closes })
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.farewell();
        }
    }
}

fn greet(name: &str, exchange: &mut dyn Exchange, stream: &mut Stream) -> Result<(), Failure> {
    if let Some((certificate, heard)) = stream.secured() {
        exchange.secured(certificate, heard);
    }
    let mut buffer = vec![0; 16 * 1024];
    let mut received = 0;
    loop {
        let mut output = Vec::new();
        let is_over = exchange.greet(&buffer[..received], &mut output)?;
        if !output.is_empty() {
            stream.send_all(&output)?;
        }
        if is_over {
            return Ok(());
        }
        received = stream.receive(&mut buffer).map_err(|error| Failure::io(name, &error))?;
        if received == 0 {
            return Err(Failure::reset(format!("{name}: the peer closed the connection")));
        }
    }
}

/// Sends the request, which may grow meanwhile, and keeps the reply, which may come before the whole request is sent.
fn reply(exchange: &mut dyn Exchange, stream: &mut Stream, forgets: bool) -> Result<(Vec<u8>, bool), Failure> {
    let mut kept = Vec::new();
    let mut came = 0;
    let mut buffer = vec![0; 64 * 1024];
    let mut sent = 0;
    let mut broken = None;
    loop {
        let is_sent = broken.is_none()
            && send(stream, exchange.request(), &mut sent).unwrap_or_else(|error| {
                broken = Some(Failure::io("send", &error));
                false
            });
        if stream.socket().is_overdue() {
            return Err(Failure::timeout(if is_sent { "reply" } else { "send" }));
        }
        let received = if is_sent {
            stream.receive(&mut buffer)
        } else {
            stream.receive_now(&mut buffer)
        };
        let received = match received {
            Err(error) if !is_sent && error.kind() == io::ErrorKind::WouldBlock => match broken {
                Some(failure) => return Err(failure),
                None => continue,
            },
            Err(error) if came > 0 && stream.has_said_all(&error) => 0,
            received => received.map_err(|error| {
                let during = match came {
                    0 => "reply".to_owned(),
                    _ if exchange.is_endless() => ENDLESS.to_owned(),
                    some => format!("the end of the reply, of which {some} bytes came"),
                };
                Failure::io(&during, &error)
            })?,
        };
        came += received;
        let done = if received == 0 {
            exchange.end()?
        } else {
            match exchange.receive(&buffer[..received])? {
                Progress::Done(done) => {
                    if !forgets {
                        kept.extend_from_slice(&buffer[..done.used]);
                    }
                    done
                }
                Progress::More if came > REPLY_MAX && !forgets => return Err(Failure::protocol(TOO_LONG)),
                Progress::More => {
                    if !forgets {
                        kept.extend_from_slice(&buffer[..received]);
                    }
                    continue;
                }
            }
        };
        return match done.fault {
            Some(fault) => Err(*fault),
            None => Ok((kept, done.keep && received > 0 && is_sent)),
        };
    }
}

/// Sends the rest of a request until the server answers. Returns whether nothing is left.
fn send(stream: &mut Stream, request: &[u8], sent: &mut usize) -> io::Result<bool> {
    loop {
        // A server that speaks first may have closed already.
        if *sent < request.len() {
            *sent += stream.send(&request[*sent..])?;
        }
        if *sent == request.len() && stream.flush()? {
            return Ok(true);
        }
        if stream.wait(Wait::ReadOrWrite, None)?.readable {
            return Ok(false);
        }
    }
}
