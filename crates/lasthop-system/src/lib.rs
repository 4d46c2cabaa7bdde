//! General services of the operating system: commands, processes, sockets, files, waits that end. Nothing here knows of
//! experiments or runs; `lasthop-observe` has what a run records of the machine.
//!
//! | module | holds |
//! |---|---|
//! | [`command`] | runs a command within a deadline |
//! | [`process`], [`listener`] | processes, and which one listens where |
//! | [`cpus`], [`clock`], [`date`] | the CPUs of this process; monotonic time, CPU time of a thread; the time of day |
//! | [`fn@connect`], [`udp`] | a blocking connection to any address; sockets bound to a UDP port, and their drops |
//! | [`sock_diag`], [`conntrack`] | connected sockets with their counters, destroyed sockets; translated connections |
//! | [`local_ports`] | the ports that connections may use, and how many sockets hold some |
//! | [`loopback`] | packet size and packet filter of TCP on loopback |
//! | [`limits`], [`run_delay`] | the limit of open files; run delay of a thread |
//! | [`files`] | files and folders that others may have made; files that nobody else can read |
//! | [`mod@named`] | files that the user names, to be written |
//! | [`owner`] | files that another account could have made or changed |
//! | [`seal`] | a secret key, and seals made with it |
//! | [`facts`], [`digest`] | small files of `/proc` and `/sys`; digests of files |
//! | [`interrupt`], [`lines`], [`mod@bounded`] | bounds: interrupts, deadlines, limits; on memory and time of work |
//! | [`namespace`] | enters network namespaces and sets them up |
//! | [`executable`], [`shell`] | lasthop's own executable; quoting |
//! | [`random`] | passwords |
//! | [`names`] | names that records leave out: the home folder, the host |

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
pub mod local_ports;
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
