//! The links of a survey: client, server, address and traffic.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use lasthop_model::quantity::counted;
use lasthop_system::date;
use lasthop_trial::address::Transport;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    containers,
    processes::{GroupId, ProcessCgroup, Processes},
    saving::Outlook,
    spaces::Unseen,
    watch::{Seen, Server, Traffic},
};

pub const SCHEMA: &str = "lasthop-survey/1";

/// Digits of a container's id, used in place of an unknown name.
const SHORT_ID: usize = 12;
/// The most turns of a short connection with a single request. More turns may include a handshake or a login, which are
/// negligible from [`MANY`] turns on.
const ONE_REQUEST: f64 = 1.2;
const MANY: f64 = 50.0;
/// The ratio of segments from which the rarer direction carries no replies.
const ONE_WAY: f64 = 32.0;
/// The most segments per reply that are recognised, and the tolerance.
const PIECES: f64 = 4.0;
const PIECES_EXACT: f64 = 0.05;

/// The links of one machine during a survey.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Survey {
    /// `lasthop-survey/1`
    pub schema: String,
    /// Version of lasthop.
    pub lasthop: String,
    /// End of the survey, RFC 3339.
    pub ended: String,
    /// Seconds watched.
    pub seconds: f64,
    /// What could not be seen and why, one sentence each.
    pub missing: Vec<String>,
    /// Whether root would have seen more.
    pub root_sees_more: bool,
    /// The links, busiest first.
    pub links: Vec<Link>,
}

/// Connections of one client to one server over one address.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Link {
    /// The processes that connect; absent if they were not found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Party>,
    /// The processes that listen; absent if they were not found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Party>,
    /// `tcp`, `tcp6`, `unix`, `abstract`, `udp` or `udp6`. The kernel does not tell whether TLS is inside.
    pub transport: Transport,
    /// The server's address: `127.0.0.1:6379`, a path, or `@name`.
    pub address: String,
    /// The address that the client connects to, if the packet filter translates it (DNAT), as for the published port of
    /// a container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<String>,
    /// Whether the ends are in different network namespaces, as with containers on a bridge.
    pub crosses: bool,
    /// Connections that are open at the end.
    pub connections: u64,
    /// Connections opened per second.
    pub opened_per_second: f64,
    /// The traffic; absent if the kernel does not count it: it counts only TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<LinkLoad>,
    /// The Unix socket of the same server, if it has one for clients and only one port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub also: Option<String>,
    /// The saving with a Unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlook: Option<Outlook>,
}

/// The processes of one program that are one client or one server.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Party {
    pub name: String,
    /// The container or systemd unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Processes at this end.
    pub processes: u32,
    /// CPU time of the processes per second, for all their work; 1 is one CPU. Absent if all have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Names of the program, for recipes.
    #[serde(skip)]
    pub programs: Vec<String>,
    /// Distinguishes parties of the same name within this survey.
    pub group: GroupId,
}

/// The traffic of a link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LinkLoad {
    pub shape: Shape,
    /// Requests per second, if each is sent and answered by itself: a batch sent at once counts as one. Absent if
    /// segments do not show them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<f64>,
    /// Upper bound of turns of request and reply per second: the segments with data in the direction that has fewer.
    pub turns_per_second_at_most: f64,
    pub to_server: Direction,
    pub to_client: Direction,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Direction {
    pub bytes_per_second: f64,
    /// Segments with data per second, each from one write or several.
    pub segments_per_second: f64,
    /// Mean bytes per segment.
    pub segment_bytes: f64,
}

/// The pattern of traffic on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// No traffic.
    Idle,
    /// A connection for each request.
    PerRequest,
    /// Connections opened and closed during the survey, with several turns each: a handshake, a login, several
    /// requests.
    Sessions,
    /// Requests and replies over kept connections.
    KeepAlive,
    /// Data in one direction.
    Stream,
    /// Data in both directions, without turns that segments show.
    Unclear,
}

impl Survey {
    pub(super) fn of(seen: &Seen, processes: &mut Processes, unseen: BTreeMap<Unseen, usize>) -> Self {
        let mut used: BTreeMap<GroupId, (u32, f64)> = BTreeMap::new();
        for (tree, (count, cpu)) in processes.used() {
            // A group that is new at the end has no link.
            let sum = used.entry(seen.clients.get(tree).copied().unwrap_or(tree)).or_default();
            *sum = (sum.0 + count, sum.1 + cpu);
        }
        let parties = Parties {
            processes,
            used,
            names: containers::names(processes.containers()),
            seconds: seen.seconds,
        };
        let mut links: Vec<Link> = parties
            .tcp(seen)
            .chain(parties.unix(seen))
            .chain(parties.udp(seen))
            .collect();
        links.sort_by_cached_key(|link| {
            let turns = link.load.map_or(0.0, |load| load.turns_per_second_at_most);
            (
                Reverse((turns * 1e3) as u64),
                Reverse(link.connections),
                link.name(),
                link.address.clone(),
            )
        });
        Self {
            schema: SCHEMA.to_owned(),
            lasthop: env!("CARGO_PKG_VERSION").to_owned(),
            ended: date::now().to_string(),
            seconds: seen.seconds,
            root_sees_more: !seen.hears || processes.hides || !processes.hidden.is_empty(),
            missing: missing(seen, processes, unseen),
            links,
        }
    }
}

/// What was not seen, and why.
fn missing(seen: &Seen, processes: &Processes, unseen: BTreeMap<Unseen, usize>) -> Vec<String> {
    let mut missing = Vec::new();
    if processes.hides {
        missing.push(
            "the processes of other users, which /proc does not list here (hidepid): root sees whose links they are"
                .to_owned(),
        );
    }
    if !processes.hidden.is_empty() {
        missing.push(format!(
            "the sockets of {} processes of other users: root sees whose links they are",
            processes.hidden.len()
        ));
    }
    missing.extend(unseen.into_iter().map(|(why, number)| {
        let namespaces = counted(number as u64, "network namespace");
        format!("the sockets of {namespaces}, such as those of containers: {why}")
    }));
    if seen.cut_short {
        missing.push("some of what there was at the end, because the survey was interrupted".to_owned());
    }
    if !seen.hears {
        missing.push(
            "connections that ended between two looks, and those to ports that the packet filter publishes (DNAT): the \
             kernel tells of them only with CAP_NET_ADMIN"
                .to_owned(),
        );
    } else if !seen.tells_who {
        missing.push(
            "who opened connections that ended between two looks: the kernel tells that only with CAP_PERFMON, and \
             where it has tracepoints"
                .to_owned(),
        );
    }
    if seen.missed {
        missing.push("some of the closed connections, which were more than could be read in time".to_owned());
    }
    if seen.unnamed > 0 {
        missing.push(format!(
            "{} pairs of Unix sockets without a name, which have no server",
            seen.unnamed
        ));
    }
    missing
}

struct Parties<'a> {
    processes: &'a Processes,
    used: BTreeMap<GroupId, (u32, f64)>,
    /// Names of containers by id.
    names: HashMap<String, String>,
    seconds: f64,
}

impl Parties<'_> {
    fn party(&self, group: GroupId) -> Party {
        let known = self.processes.group(group);
        let (processes, cpu) = self.used.get(&group).copied().unwrap_or_default();
        Party {
            name: known.name.clone(),
            place: known.place.as_ref().map(|place| self.place(place)),
            processes,
            cpus: (processes > 0).then_some(cpu / self.seconds),
            programs: known.programs.clone(),
            group,
        }
    }

    /// A place in words: `container web`, `nginx.service`.
    fn place(&self, place: &ProcessCgroup) -> String {
        match place {
            ProcessCgroup::Container(id) => {
                let name = self.names.get(id).map_or(&id[..SHORT_ID], String::as_str);
                format!("container {name}")
            }
            ProcessCgroup::Unit(name) => name.clone(),
        }
    }

    fn tcp<'a>(&'a self, seen: &'a Seen) -> impl Iterator<Item = Link> + 'a {
        seen.tcp.iter().map(|((server, client), traffic)| {
            let Server { address, .. } = server;
            Link {
                client: client.map(|client| self.party(client)),
                server: seen.servers.get(server).map(|server| self.party(*server)),
                transport: if address.is_ipv4() {
                    Transport::Tcp
                } else {
                    Transport::Tcp6
                },
                address: address.to_string(),
                published: traffic.published.map(|address| address.to_string()),
                crosses: traffic.crosses,
                connections: traffic.open,
                opened_per_second: traffic.opened as f64 / seen.seconds,
                load: Some(load(traffic, seen.seconds)),
                also: seen
                    .servers
                    .get(server)
                    .and_then(|group| seen.sockets.get(group))
                    .cloned(),
                outlook: None,
            }
        })
    }

    fn unix<'a>(&'a self, seen: &'a Seen) -> impl Iterator<Item = Link> + 'a {
        seen.unix
            .iter()
            .map(|((address, (client, server)), (open, opened))| Link {
                client: client.map(|client| self.party(client)),
                server: server.map(|server| self.party(server)),
                transport: if address.starts_with('@') {
                    Transport::Abstract
                } else {
                    Transport::Unix
                },
                address: address.clone(),
                published: None,
                crosses: false,
                connections: *open,
                opened_per_second: *opened as f64 / seen.seconds,
                load: None,
                also: None,
                outlook: None,
            })
    }

    fn udp<'a>(&'a self, seen: &'a Seen) -> impl Iterator<Item = Link> + 'a {
        seen.udp.iter().map(|((address, (client, server)), open)| Link {
            client: client.map(|client| self.party(client)),
            server: server.map(|server| self.party(server)),
            transport: if address.is_ipv4() {
                Transport::Udp
            } else {
                Transport::Udp6
            },
            address: address.to_string(),
            published: None,
            crosses: false,
            connections: *open,
            opened_per_second: 0.0,
            load: None,
            also: None,
            outlook: None,
        })
    }
}

impl Link {
    /// The name of a link: `nginx → gunicorn`.
    #[must_use]
    pub fn name(&self) -> String {
        let client = called(self.client.as_ref());
        match (&self.client, &self.server) {
            (Some(one), Some(other)) if one.group == other.group => format!("{client} → itself"),
            _ => format!("{client} → {}", called(self.server.as_ref())),
        }
    }

    /// Whether the link's name or address contains this text.
    #[must_use]
    pub fn has(&self, text: &str) -> bool {
        let parties = [&self.client, &self.server].into_iter().flatten();
        let addresses = [Some(&self.address), self.published.as_ref()].into_iter().flatten();
        addresses
            .chain(parties.flat_map(|party| party.place.iter().chain([&party.name])))
            .any(|name| name.contains(text))
    }
}

/// The name of a party: `redis-server`, `redis-server (container cache)`; a unit is added if its name differs.
fn called(party: Option<&Party>) -> String {
    let Some(Party { name, place, .. }) = party else {
        return "unknown".to_owned();
    };
    match place.as_ref().filter(|place| !place.starts_with(name.as_str())) {
        Some(place) => format!("{name} ({place})"),
        None => name.clone(),
    }
}

/// The traffic of a link, per second.
fn load(traffic: &Traffic, seconds: f64) -> LinkLoad {
    let Traffic { counted, .. } = traffic;
    let direction = |bytes: u64, segments: u64| Direction {
        bytes_per_second: bytes as f64 / seconds,
        segments_per_second: segments as f64 / seconds,
        segment_bytes: bytes as f64 / segments.max(1) as f64,
    };
    let shape = shape(traffic);
    let turns = traffic.turns as f64 / seconds;
    LinkLoad {
        shape,
        requests_per_second: matches!(shape, Shape::KeepAlive | Shape::PerRequest | Shape::Idle).then_some(turns),
        turns_per_second_at_most: turns,
        to_server: direction(counted.bytes_sent, counted.segments_sent),
        to_client: direction(counted.bytes_received, counted.segments_received),
    }
}

fn shape(traffic: &Traffic) -> Shape {
    let [less, more] = {
        let mut segments = [traffic.counted.segments_sent, traffic.counted.segments_received];
        segments.sort_unstable();
        segments.map(|segments| segments as f64)
    };
    if traffic.short > 0 && traffic.short_turns * 2 >= traffic.turns {
        match traffic.short_turns as f64 / traffic.short as f64 {
            turns if turns <= ONE_REQUEST => return Shape::PerRequest,
            turns if turns < MANY => return Shape::Sessions,
            _ => {}
        }
    }
    if more == 0.0 {
        return Shape::Idle;
    }
    let pieces = more / less;
    if pieces >= ONE_WAY {
        Shape::Stream
    } else if pieces <= PIECES && (pieces - pieces.round()).abs() <= PIECES_EXACT {
        Shape::KeepAlive
    } else {
        Shape::Unclear
    }
}

#[cfg(test)]
mod tests {
    use lasthop_system::sock_diag::Counters;

    use super::*;

    fn traffic(sent: u64, received: u64, short: u64, short_turns: u64) -> Traffic {
        Traffic {
            counted: Counters {
                segments_sent: sent,
                segments_received: received,
                ..Counters::default()
            },
            turns: sent.min(received),
            short,
            short_turns,
            ..Traffic::default()
        }
    }

    #[test]
    fn shapes_are_told_apart() {
        for (traffic, wanted) in [
            (traffic(0, 0, 0, 0), Shape::Idle),
            (traffic(1000, 1000, 0, 0), Shape::KeepAlive),
            (traffic(1000, 2003, 0, 0), Shape::KeepAlive),
            (traffic(1000, 1500, 0, 0), Shape::Unclear),
            (traffic(1000, 9000, 0, 0), Shape::Unclear),
            (traffic(0, 9000, 0, 0), Shape::Stream),
            (traffic(9000, 20, 0, 0), Shape::Stream),
            (traffic(1000, 2000, 1000, 1000), Shape::PerRequest),
            (traffic(9000, 9000, 1000, 9000), Shape::Sessions),
            (traffic(9000, 9000, 10, 10), Shape::KeepAlive),
            (traffic(9000, 9000, 3, 9000), Shape::KeepAlive),
            (traffic(0, 0, 10, 0), Shape::PerRequest),
        ] {
            assert_eq!(shape(&traffic), wanted, "{traffic:?}");
        }
    }

    #[test]
    fn requests_are_said_where_segments_tell() {
        let of = |traffic| load(&traffic, 10.0);
        assert_eq!(of(traffic(1000, 1000, 0, 0)).requests_per_second, Some(100.0));
        let unclear = of(traffic(1000, 1500, 0, 0));
        assert_eq!(
            (unclear.requests_per_second, unclear.turns_per_second_at_most),
            (None, 100.0)
        );
    }
}
