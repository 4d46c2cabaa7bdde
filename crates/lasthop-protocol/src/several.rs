//! Several requests of one protocol to one server, in order or at random. Each reply is checked against its own
//! request's expectation.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use lasthop_trial::{failure::Failure, options::within, random::SplitMix};
use serde::Serialize;

use super::{
    exchange::{Done, Exchange, Factory, Progress, Run},
    kind::{Protocol, ProtocolKind, ProtocolSpec, Repeats, Usage},
};

/// Maximum number of requests of one load.
pub const REQUESTS_MAX: usize = 100_000;

/// The requests, at least one, and their order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Several {
    pub requests: Vec<Weighted>,
    pub order: Order,
}

/// A request with a weight: how often it is sent for each request of weight 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Weighted {
    /// The request's name in messages.
    pub name: String,
    pub protocol: Protocol,
    pub weight: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Order {
    /// All connections of a thread go through the list together, repeatedly.
    Given,
    /// Each request is drawn at random, by its weight.
    Random { seed: u64 },
}

impl Weighted {
    /// A failure of this request.
    pub fn failed(name: &str, failure: Failure) -> Failure {
        Failure {
            message: format!("{name}: {}", failure.message),
            ..failure
        }
    }
}

impl Several {
    fn protocols(&self) -> impl Iterator<Item = &Protocol> {
        self.requests.iter().map(|request| &request.protocol)
    }

    fn first(&self) -> &Protocol {
        &self.requests[0].protocol
    }
}

impl ProtocolSpec for Several {
    fn kind(&self) -> &'static ProtocolKind {
        self.first().kind()
    }

    fn validate(&self, usage: Usage) -> Result<(), String> {
        usage.without_pipeline("a pipeline repeats one request, and there are several")?;
        if self.greets() || self.receipt().is_some() {
            let title = self.kind().title;
            return Err(format!(
                "{title} cannot send several requests where a connection begins with a greeting, or nothing is answered"
            ));
        }
        within("number of requests", self.requests.len() as u64, 1, REQUESTS_MAX as u64)?;
        self.requests.iter().try_for_each(|request| {
            let valid = request.protocol.validate(usage);
            valid.map_err(|error| format!("{}: {error}", request.name))
        })
    }

    fn factory(&self, usage: Usage) -> Factory {
        let ends = self.requests.iter().scan(0, |sum, request| {
            *sum += u64::from(request.weight);
            Some(*sum)
        });
        let shared = Rc::new(Shared {
            names: self.requests.iter().map(|request| request.name.clone()).collect(),
            factories: self.protocols().map(|protocol| protocol.factory(usage)).collect(),
            idle: RefCell::new(self.requests.iter().map(|_| Vec::new()).collect()),
            ends: ends.collect(),
            order: self.order,
            state: Cell::new(match self.order {
                Order::Given => 0,
                Order::Random { seed } => seed,
            }),
        });
        Factory::new(move || Varied {
            current: 0,
            exchange: shared.exchange_for(0),
            shared: Rc::clone(&shared),
        })
    }

    /// The ways in which the requests are checked, each once.
    fn checked(&self, size: &dyn Fn(u64) -> String) -> String {
        let mut ways: Vec<String> = self.protocols().map(|protocol| protocol.checked(size)).collect();
        let all = ways.len();
        ways.sort();
        ways.dedup();
        let more = ways.len().saturating_sub(WAYS_SHOWN);
        ways.truncate(WAYS_SHOWN);
        let rest = if more > 0 {
            format!("; and {more} more")
        } else {
            String::new()
        };
        format!("{all} requests, each by itself: {}{rest}", ways.join("; "))
    }

    fn hide_secrets(&mut self) -> bool {
        let hidden = self.requests.iter_mut().map(|request| request.protocol.hide_secrets());
        hidden.fold(false, |found, one| found | one)
    }

    fn closes_each_time(&self) -> bool {
        self.first().closes_each_time()
    }

    fn can_tell_to_close(&self) -> bool {
        self.first().can_tell_to_close()
    }

    fn greets(&self) -> bool {
        self.first().greets()
    }

    fn repeats(&self) -> Repeats {
        self.protocols()
            .map(|protocol| protocol.repeats())
            .min()
            .unwrap_or_default()
    }
}

/// Maximum ways of checking that are shown.
const WAYS_SHOWN: usize = 3;

/// State shared by all connections of a thread.
struct Shared {
    names: Vec<String>,
    factories: Vec<Factory>,
    /// Idle exchanges of each request. They are reused, so there are as many as are in use at once.
    idle: RefCell<Vec<Vec<Box<dyn Exchange>>>>,
    /// Cumulative weights.
    ends: Vec<u64>,
    order: Order,
    /// The number of requests sent in order, or the state of the random numbers.
    state: Cell<u64>,
}

impl Shared {
    fn exchange_for(&self, request: usize) -> Box<dyn Exchange> {
        let idle = self.idle.borrow_mut()[request].pop();
        idle.unwrap_or_else(|| self.factories[request].exchange())
    }

    /// The index of the next request.
    fn draw(&self) -> usize {
        let state = self.state.get();
        let (place, next) = match self.order {
            Order::Given => (state, state + 1),
            Order::Random { .. } => {
                let mut random = SplitMix(state);
                (random.bits(), random.0)
            }
        };
        self.state.set(next);
        let place = place % self.ends.last().copied().unwrap_or(1);
        self.ends.partition_point(|end| *end <= place)
    }
}

/// A connection with different requests.
struct Varied {
    current: usize,
    exchange: Box<dyn Exchange>,
    shared: Rc<Shared>,
}

impl Varied {
    fn named(&self, failure: Failure) -> Failure {
        Weighted::failed(&self.shared.names[self.current], failure)
    }

    fn named_fault(&self, done: Done) -> Done {
        Done {
            fault: done.fault.map(|fault| Box::new(self.named(*fault))),
            ..done
        }
    }
}

impl Exchange for Varied {
    fn reset(&mut self) {
        self.exchange.reset();
    }

    fn begin(&mut self) {
        let next = self.shared.draw();
        if next != self.current {
            let before = std::mem::replace(&mut self.exchange, self.shared.exchange_for(next));
            self.shared.idle.borrow_mut()[self.current].push(before);
            self.current = next;
        }
        self.exchange.begin();
    }

    fn request(&self) -> &[u8] {
        self.exchange.request()
    }

    fn is_endless(&self) -> bool {
        self.exchange.is_endless()
    }

    /// Prepares the current request again, instead of drawing the next one.
    fn begin_again(&mut self, left: u32, depth: u32) -> usize {
        self.exchange.begin_again(left, depth)
    }

    fn declined(&self, outstanding: u32) -> u32 {
        self.exchange.declined(outstanding)
    }

    fn next_reply(&mut self) {
        self.exchange.next_reply();
    }

    fn recognise(&mut self, bytes: &[u8], most: u32) -> Option<Run> {
        self.exchange.recognise(bytes, most)
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<Progress, Failure> {
        match self.exchange.receive(bytes) {
            Ok(Progress::Done(done)) => Ok(Progress::Done(self.named_fault(done))),
            other => other.map_err(|failure| self.named(failure)),
        }
    }

    fn end(&mut self) -> Result<Done, Failure> {
        let ended = self.exchange.end();
        ended
            .map(|done| self.named_fault(done))
            .map_err(|failure| self.named(failure))
    }
}
