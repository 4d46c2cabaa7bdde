//! One reply of an endpoint, byte for byte: what a null server says again, and what later replies can be held against.

use crate::{
    clock,
    failure::Failure,
    protocol::{Exchange, Factory, Greeting, Progress, greets, said_reuse, tls_request},
    result::ErrorClass,
    spec::{Protocol, Reuse, Spec},
    transport::{Calls, Connector, Stream},
};

/// Most bytes of a reply that are kept.
const REPLY_MAX: usize = 64 << 20;

/// A right reply and what led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Bytes of one request.
    pub request: usize,
    /// The reply as it came over the wire; within TLS, as it was encrypted.
    pub reply: Vec<u8>,
    /// Whether the server closes the connection after it.
    pub closes: bool,
}

/// Sends one request on a connection of its own and keeps its reply. `spec` is valid.
///
/// # Errors
/// By class, as in a load: a sample is a right answer.
pub fn take(spec: &Spec) -> Result<Sample, Failure> {
    let spec = Spec { pipeline: 1, ..spec.clone() };
    let unusable = |cause: String| Failure::new(ErrorClass::Os, cause);
    let connector = Connector::new(&spec.endpoint, &spec.socket, spec.timeouts);
    let connector = connector.map_err(|error| unusable(error.to_string()))?.asking_for_tls(tls_request(&spec));
    let mut exchange = Factory::new(&spec).map_err(|error| unusable(error.to_string()))?.exchange();
    let mut stream = connector.open_unwatched(&Calls::default())?.stream;
    exchange.reset();
    if greets(&spec) {
        greet(exchange.as_mut(), &mut stream)?;
    }
    exchange.begin();
    let request = exchange.request().len();
    // A server that speaks first may have closed already.
    if request > 0 {
        stream.send_all(exchange.request())?;
    }
    let deadline = clock::now().saturating_add(spec.timeouts.request_ns);
    let (reply, keep) = reply(exchange.as_mut(), &mut stream, deadline)?;
    stream.farewell();
    let closes = !keep || (said_reuse(&spec) == Reuse::PerRequest && matches!(spec.protocol, Protocol::Http(_)));
    Ok(Sample { request, reply, closes })
}

fn greet(exchange: &mut dyn Exchange, stream: &mut Stream) -> Result<(), Failure> {
    if let Some(certificate) = stream.certificate() {
        exchange.secured(certificate);
    }
    let mut buffer = vec![0; 16 * 1024];
    let mut received = 0;
    loop {
        let mut output = Vec::new();
        let greeting = exchange.greet(&buffer[..received], &mut output)?;
        stream.send_all(&output)?;
        if greeting == Greeting::Done {
            return Ok(());
        }
        received = receive(stream, &mut buffer)?;
        if received == 0 {
            return Err(Failure::new(ErrorClass::Reset, "the peer closed the connection during the greeting"));
        }
    }
}

fn reply(exchange: &mut dyn Exchange, stream: &mut Stream, deadline: u64) -> Result<(Vec<u8>, bool), Failure> {
    let mut kept = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let received = receive(stream, &mut buffer)?;
        let done = if received == 0 {
            exchange.end()?
        } else {
            match exchange.receive(&buffer[..received])? {
                Progress::Done(done) => {
                    kept.extend_from_slice(&buffer[..done.used]);
                    done
                }
                Progress::More if clock::now() >= deadline => return Err(Failure::timeout("reply")),
                Progress::More if kept.len() + received > REPLY_MAX => {
                    return Err(Failure::protocol(format!("the reply is longer than {REPLY_MAX} bytes")));
                }
                Progress::More => {
                    kept.extend_from_slice(&buffer[..received]);
                    continue;
                }
            }
        };
        return match done.fault {
            Some(fault) => Err(*fault),
            None => Ok((kept, done.keep && received > 0)),
        };
    }
}

fn receive(stream: &mut Stream, buffer: &mut [u8]) -> Result<usize, Failure> {
    stream.receive(buffer).map_err(|error| Failure::io("reply", &error))
}
