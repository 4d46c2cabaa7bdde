//! Ends a driver as soon as its caller is gone, even in the middle of a trial. Over ssh the driver gets no signal.

use std::{io, os::fd::BorrowedFd};

use rustix::event::{PollFd, PollFlags};

/// Ends this process when an input closes. Another thread may read that input meanwhile.
#[expect(
    clippy::exit,
    reason = "a trial in progress cannot be asked to end, and nobody waits for its result"
)]
pub fn watch(input: BorrowedFd<'_>) -> io::Result<()> {
    let input = input.try_clone_to_owned()?;
    let wait = move || {
        loop {
            // poll always reports hang-up and error. RDHUP is the equivalent for a socket.
            let mut polled = [PollFd::new(&input, PollFlags::RDHUP)];
            let ended = rustix::event::poll(&mut polled, None).is_ok();
            let flags = polled[0].revents();
            if ended && flags.intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR) {
                std::process::exit(0);
            }
        }
    };
    std::thread::Builder::new()
        .name("hang-up".to_owned())
        .spawn(wait)
        .map(drop)
}
