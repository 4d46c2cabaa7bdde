//! What lasthop asks of the machine: commands, processes, listeners, files of `/proc`, waits that end.
//!
//! | module | holds |
//! |---|---|
//! | [`command`] | runs a command within a deadline |
//! | [`process`], [`account`], [`listener`] | which processes run, as whom, and which one listens where |
//! | [`cpus`], [`clock`] | the CPUs of this process; the time of day |
//! | [`private`], [`folder`] | files that nobody else can read; folders that others cannot lead out of |
//! | [`beneath`], [`seal`] | files that somebody else may have made; a secret key, and what was sealed with it |
//! | [`facts`], [`digest`] | small files of `/proc` and `/sys`; digests of files |
//! | [`interrupt`], [`lines`] | bounds on waiting: interrupts, deadlines, limits |
//! | [`namespace`] | enters network namespaces and sets them up |
//! | [`executable`], [`shell`] | lasthop's own executable; quoting |
//! | [`random`] | passwords |

pub mod account;
pub mod beneath;
pub mod clock;
pub mod command;
pub mod cpus;
pub mod digest;
pub mod executable;
pub mod facts;
pub mod folder;
pub mod interrupt;
pub mod lines;
pub mod listener;
pub mod namespace;
pub mod private;
pub mod process;
pub mod random;
pub mod seal;
pub mod shell;
