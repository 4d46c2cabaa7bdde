//! Surveys for tests.

use lasthop_stats::Interval;
use lasthop_trial::address::Transport;

use super::{
    links::{Direction, Link, LinkLoad, Party, SCHEMA, Shape, Survey},
    saving::{Outlook, Saving, Worth},
};

/// A party that is its own group.
fn party(name: &str) -> Option<Party> {
    Some(Party {
        name: name.to_owned(),
        place: None,
        processes: 1,
        cpus: Some(0.25),
        programs: vec![name.to_owned()],
        group: name
            .bytes()
            .fold(7usize, |sum, byte| sum.wrapping_mul(31) ^ usize::from(byte)),
    })
}

/// A link with this many requests per second, if counted.
pub fn link(client: &str, server: &str, transport: Transport, requests: Option<f64>) -> Link {
    let direction = |rate| Direction {
        bytes_per_second: rate * 100.0,
        segments_per_second: rate,
        segment_bytes: 100.0,
    };
    let load = requests.map(|rate| LinkLoad {
        shape: if rate > 0.0 { Shape::KeepAlive } else { Shape::Idle },
        requests_per_second: Some(rate),
        turns_per_second_at_most: rate,
        to_server: direction(rate),
        to_client: direction(rate),
    });
    Link {
        client: party(client),
        server: party(server),
        transport,
        address: format!("at-{server}.{transport}"),
        published: None,
        crosses: false,
        connections: 1,
        opened_per_second: 0.0,
        load,
        also: None,
        outlook: None,
    }
}

/// The link with an outlook: CPU time that a Unix socket would save, in microseconds per request.
pub fn predicted(link: Link, cpu_us: Interval) -> Link {
    let rate = link.load.map_or(0.0, |load| load.turns_per_second_at_most) / 1e6;
    let outlook = Outlook {
        worth: Worth::WorthIt,
        because: "it saves 1 % of a CPU or more".to_owned(),
        experiment: Some("example".to_owned()),
        saving: Some(Saving {
            cpu_us,
            cpus: cpu_us.times(rate),
            response_us: None,
            setting: String::new(),
            from: "your run of a test".to_owned(),
            here: true,
            rate: None,
        }),
        next: Some("lasthop show 20261120-100000-example".to_owned()),
        compare: None,
        ask: None,
    };
    Link {
        outlook: Some(outlook),
        ..link
    }
}

pub fn survey(links: Vec<Link>) -> Survey {
    Survey {
        schema: SCHEMA.to_owned(),
        lasthop: "0.0.0".to_owned(),
        ended: "2026-11-20T10:00:00Z".to_owned(),
        seconds: 10.0,
        missing: vec!["nothing but this".to_owned()],
        root_sees_more: false,
        links,
    }
}
