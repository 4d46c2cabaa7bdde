//! The median round trip of 64 B over TCP, beside sockperf. sockperf needs its own server and protocol, so each client
//! runs with its own server, on equal CPUs.

use std::{net::TcpListener, process::Child};

use crate::{
    Settings,
    page::RoundTrip,
    server::Servers,
    special, table,
    tool::{self, command, find, number_after},
};

struct Own(Child);

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn beside_sockperf(settings: &Settings, servers: &Servers) -> Result<Vec<RoundTrip>, String> {
    let Some(program) = find("sockperf") else {
        return Ok(Vec::new());
    };
    let mut rows = Vec::new();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.map_err(|error| error.to_string())?.port().to_string();
    let mut server = command(&program, &format!("server -i 127.0.0.1 -p {port} --tcp"));
    let _server = Own(crate::server::launch(&mut server).map_err(|error| format!("sockperf: {error}"))?);
    crate::server::wait_for(&mut [], || {
        std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok()
    })
    .map_err(|error| format!("sockperf: {error}"))?;
    let url = special::echo_url(servers);
    for (cpu, place) in [(1, "two cores"), (0, "same core")] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..settings.rounds {
            ours.push(special::median_us(settings, &url, cpu)?);
            let line = format!("ping-pong -i 127.0.0.1 -p {port} --tcp -m 64 -t 1 --full-rtt");
            let ran = tool::run(&mut command(&program, &line), cpu)?;
            let median = number_after(&ran.output, "percentile 50.000 =");
            theirs.push(median.ok_or_else(|| format!("sockperf: cannot read\n{}", ran.output))?);
        }
        let [lasthop, sockperf] = [ours, theirs].map(|values| table::median(&values).unwrap_or(f64::NAN));
        rows.push(RoundTrip {
            place: place.to_owned(),
            lasthop,
            sockperf,
        });
    }
    Ok(rows)
}
