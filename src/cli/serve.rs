//! `lasthop serve`: the server of the experiment `sockets`, started by its recipe.

use std::{net::SocketAddr, path::PathBuf};

use clap::{ArgGroup, Args, ValueEnum};
use lasthop_load::{
    serve::{self, Pattern, ServeSpec, ServeTls},
    spec::{Address, Channel},
};

use super::output::CliError;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("address").required(true))]
pub struct ServeArgs {
    #[arg(long, value_enum)]
    pattern: PatternArg,
    /// Path of a Unix socket
    #[arg(long, group = "address", value_name = "PATH")]
    unix: Option<PathBuf>,
    /// Hand this out to each client of the Unix socket, instead of using the socket itself: pipe, socketpair, mqueue, shm
    /// or shm-spin
    #[arg(long, requires = "unix", value_parser = channel, value_name = "CHANNEL")]
    channel: Option<Channel>,
    /// Name of an abstract Unix socket
    #[arg(long = "abstract", group = "address", value_name = "NAME")]
    abstract_name: Option<String>,
    /// Address and port
    #[arg(long, group = "address", value_name = "ADDRESS:PORT")]
    tcp: Option<SocketAddr>,
    /// PEM file of the certificate; makes the server speak TLS
    #[arg(long, requires = "key")]
    certificate: Option<PathBuf>,
    #[arg(long, requires = "certificate")]
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
    Hello,
    Echo,
    Stream,
}

impl From<PatternArg> for Pattern {
    fn from(pattern: PatternArg) -> Self {
        match pattern {
            PatternArg::Hello => Self::Hello,
            PatternArg::Echo => Self::Echo,
            PatternArg::Stream => Self::Stream,
        }
    }
}

fn channel(word: &str) -> Result<Channel, String> {
    Channel::named(word).ok_or_else(|| format!("known: {}", Channel::ALL.map(Channel::name).join(", ")))
}

/// Serves until it is killed.
pub fn serve(arguments: ServeArgs) -> Result<(), CliError> {
    let address = match (arguments.unix, arguments.abstract_name, arguments.tcp) {
        (Some(path), _, _) => arguments.channel.map_or(Address::Unix(path.clone()), |it| Address::Channel(it, path)),
        (_, Some(name), _) => Address::Abstract(name),
        (_, _, Some(address)) => Address::Tcp(address),
        _ => return Err(CliError::usage("one of --unix, --abstract or --tcp is required")),
    };
    let tls = arguments.certificate.zip(arguments.key).map(|(certificate, key)| ServeTls { certificate, key });
    let spec = ServeSpec {
        pattern: arguments.pattern.into(),
        address,
        tls,
        nodelay: arguments.nodelay,
        backlog: arguments.backlog,
    };
    serve::run(&spec).map_err(CliError::failed)
}
