//! `lasthop serve`: the server of the experiment `sockets`, started by its recipe.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{ArgGroup, Args, ValueEnum};
use lasthop_load::serve::{self, Pattern, ServeSpec, ServeTls};
use lasthop_model::quantity::duration_or_none;
use lasthop_trial::address::{Address, Transport};

use super::output::{CliError, OrExit};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("address").required(true))]
#[command(override_usage = "lasthop serve [OPTIONS] --pattern <PATTERN> (--unix|--tcp|…) <WHERE>")]
pub struct ServeArgs {
    /// What to do on a connection: echo, hello, stream, …
    #[arg(long, value_enum)]
    pattern: PatternArg,
    /// Path of a Unix socket
    #[arg(long, group = "address", value_name = "PATH")]
    unix: Option<PathBuf>,
    /// Hand out pipe, socketpair, shm or shm-spin
    ///
    /// To each client of the Unix socket, instead of using the socket itself.
    #[arg(long, requires = "unix", value_parser = channel, value_name = "CHANNEL")]
    channel: Option<Transport>,
    /// Name of an abstract Unix socket
    #[arg(long = "abstract", group = "address", value_name = "NAME")]
    abstract_name: Option<String>,
    /// Address and port
    #[arg(long, group = "address", value_name = "ADDRESS:PORT")]
    tcp: Option<SocketAddr>,
    /// Path of a Unix datagram socket
    #[arg(long, group = "address", value_name = "PATH")]
    unixgram: Option<PathBuf>,
    /// Path of a Unix socket that keeps the boundaries of messages
    #[arg(long, group = "address", value_name = "PATH")]
    seqpacket: Option<PathBuf>,
    /// Address and port for UDP
    #[arg(long, group = "address", value_name = "ADDRESS:PORT")]
    udp: Option<SocketAddr>,
    /// Where to tell by HTTP how many metrics were received (pattern statsd)
    #[arg(long, value_name = "ADDRESS:PORT")]
    counter: Option<SocketAddr>,
    /// How long to sleep after each message (pattern statsd), such as 1ms
    #[arg(long, default_value = "0", value_parser = duration_or_none, value_name = "TIME")]
    pause: Duration,
    /// PEM file of the certificate; makes the server speak TLS
    #[arg(long, requires = "key", value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// PEM file of its private key
    #[arg(long, requires = "certificate", value_name = "FILE")]
    key: Option<PathBuf>,
    /// TCP_NODELAY on accepted connections
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    nodelay: bool,
    /// Length of the accept queue
    #[arg(long, default_value_t = 511)]
    backlog: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PatternArg {
    /// Says a text and closes it
    Hello,
    /// Says every message again
    Echo,
    /// Sends as many bytes as it is asked for
    Stream,
    /// Counts the metrics in whole messages and says nothing
    Statsd,
}

impl From<PatternArg> for Pattern {
    fn from(pattern: PatternArg) -> Self {
        match pattern {
            PatternArg::Hello => Self::Hello,
            PatternArg::Echo => Self::Echo,
            PatternArg::Stream => Self::Stream,
            PatternArg::Statsd => Self::Statsd,
        }
    }
}

fn channel(word: &str) -> Result<Transport, String> {
    let known = Transport::CHANNELS;
    let found = known.into_iter().find(|channel| channel.name() == word);
    found.ok_or_else(|| format!("known: {}", known.map(Transport::name).join(", ")))
}

/// Serves until it is killed.
pub fn serve(arguments: ServeArgs) -> Result<(), CliError> {
    let given = [
        arguments.unix.map(|path| match arguments.channel {
            Some(channel) => Address::Channel(channel, path),
            None => Address::Unix(path),
        }),
        arguments.abstract_name.map(Address::Abstract),
        arguments.tcp.map(Address::Tcp),
        arguments
            .unixgram
            .map(|path| Address::Packets(Transport::Unixgram, path)),
        arguments
            .seqpacket
            .map(|path| Address::Packets(Transport::Seqpacket, path)),
        arguments.udp.map(Address::Udp),
    ];
    let address = given.into_iter().flatten().next();
    let address = address.ok_or_else(|| CliError::usage("an address such as --unix, --tcp or --udp is required"))?;
    let tls = arguments
        .certificate
        .zip(arguments.key)
        .map(|(certificate, key)| ServeTls { certificate, key });
    let spec = ServeSpec {
        pattern: arguments.pattern.into(),
        address,
        tls,
        nodelay: arguments.nodelay,
        backlog: arguments.backlog,
        pause_ns: u64::try_from(arguments.pause.as_nanos()).unwrap_or(u64::MAX),
        counter: arguments.counter,
    };
    serve::run(&spec).or_failed()
}
