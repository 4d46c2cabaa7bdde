//! The tests of this crate in one executable, linked once: `cargo test -p lasthop-stats --test all rounds::` runs one
//! file.

mod coverage;
mod draws;
mod laws;
mod location;
mod moderated;
mod pooled;
mod rounds;
