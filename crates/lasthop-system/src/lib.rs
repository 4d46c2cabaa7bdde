//! What lasthop asks of the operating system, whatever it is for: commands, processes, sockets, files, waits that end.
//! No word of an experiment or of a run is known here; what a run records of the machine is in `lasthop-observe`.
//!
//! | module | holds |
//! |---|---|
//! | [`command`] | runs a command within a deadline |
//! | [`process`], [`listener`] | which processes run, and which one listens where |
//! | [`cpus`], [`clock`], [`date`] | the CPUs of this process; monotonic time, CPU time of a thread; the time of day |
//! | [`fn@connect`], [`udp`] | a blocking connection to any address; who is bound to a UDP port, and what was dropped there |
//! | [`sock_diag`], [`conntrack`] | connected sockets with their counters, and sockets that are destroyed; connections with a translated destination |
//! | [`loopback`] | what TCP on loopback meets |
//! | [`limits`], [`run_delay`] | how many files a process may open; what the scheduler counts of a thread |
//! | [`files`] | files and folders that somebody else may have made; files that nobody else can read |
//! | [`mod@named`] | files that the user names, to be written |
//! | [`owner`] | which files another account could have made or changed |
//! | [`seal`] | a secret key, and what was sealed with it |
//! | [`facts`], [`digest`] | small files of `/proc` and `/sys`; digests of files |
//! | [`interrupt`], [`lines`], [`mod@bounded`] | bounds: interrupts, deadlines, limits; on memory and time of work |
//! | [`namespace`] | enters network namespaces and sets them up |
//! | [`executable`], [`shell`] | lasthop's own executable; quoting |
//! | [`random`] | passwords |
//! | [`names`] | what no record tells: the home folder, the name of the host |

pub mod bounded;
pub mod clock;
pub mod command;
mod connect;
pub mod conntrack;
pub mod cpus;
pub mod date;
pub mod digest;
pub mod executable;
pub mod facts;
pub mod files;
pub mod interrupt;
pub mod limits;
pub mod lines;
pub mod listener;
pub mod loopback;
pub mod named;
pub mod names;
pub mod namespace;
mod netlink;
pub mod owner;
pub mod process;
pub mod random;
mod schedstat;
pub mod seal;
pub mod shell;
pub mod sock_diag;
pub mod topology;
pub mod udp;

pub use connect::{connect, listening_user, own_address_towards};
pub use schedstat::run_delay;
