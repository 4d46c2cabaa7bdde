//! The values that the stages of lasthop pass to each other. Plain data: no I/O, no clock.
//!
//! | module | holds |
//! |---|---|
//! | [`level`], [`selection`], [`rate`] | factors, and what a run selects from them |
//! | [`program`], [`manager`] | an executable: how to find and install it |
//! | [`binding`] | the directories and addresses that a run gives to its services |
//! | [`service`], [`container`] | a service with everything filled in |
//! | [`started`] | how and where a service was started |
//! | [`quantity`] | durations and shares as people write them |
//! | [`engine`] | container engines |
//! | [`driver`] | the driver: lasthop or a classic tool, and where it runs |
//! | [`observation`] | readings of the machine during a trial |
//! | [`profile`] | where CPU time went in a profile trial |
//! | [`record`], [`run_name`] | the files of a run record, and its name |

pub mod binding;
pub mod container;
pub mod driver;
pub mod engine;
pub mod level;
pub mod manager;
pub mod observation;
pub mod profile;
pub mod program;
pub mod quantity;
pub mod rate;
pub mod record;
pub mod run_name;
pub mod selection;
pub mod service;
pub mod started;
