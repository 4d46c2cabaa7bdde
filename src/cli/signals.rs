//! Signals with which the user ends lasthop.

use lasthop_system::interrupt;
use libc::{SIGHUP, SIGINT, SIGTERM};

use super::output::{CliError, INTERRUPTED};

/// The first signal asks for an orderly end. The second ends lasthop at once, and its guard ends everything else.
pub fn watch_signals() -> Result<(), CliError> {
    watch_signals_until(2)
}

/// The first signal asks for an orderly end, and the `last`-th signal ends lasthop at once.
pub fn watch_signals_until(last: usize) -> Result<(), CliError> {
    interrupt::listen(&[SIGINT, SIGTERM, SIGHUP], last, INTERRUPTED.into())
        .map_err(|error| CliError::failed(format!("cannot watch for signals: {error}")))
}
