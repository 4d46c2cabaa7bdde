//! A driver that ends at once when its caller is gone, also in the middle of a trial: over ssh no signal says so.

use std::{io, os::fd::BorrowedFd};

use rustix::event::{PollFd, PollFlags};

/// Watches for the end of an input beside whoever reads it, and then ends this process.
///
/// # Errors
/// The input cannot be watched.
#[expect(clippy::exit, reason = "a trial under way cannot be asked to end, and nobody waits for its result")]
pub fn watch(input: BorrowedFd<'_>) -> io::Result<()> {
    let input = input.try_clone_to_owned()?;
    let wait = move || {
        loop {
            // Hang-up and error are always reported; RDHUP is how a socket says the same.
            let mut polled = [PollFd::new(&input, PollFlags::RDHUP)];
            let ended = rustix::event::poll(&mut polled, None).is_ok();
            let flags = polled[0].revents();
            if ended && flags.intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR) {
                std::process::exit(0);
            }
        }
    };
    std::thread::Builder::new().name("hang-up".to_owned()).spawn(wait).map(drop)
}
