//! The tests that run the program, in one executable: it is linked once, and all of them share the test threads.
//! `LASTHOP_TEST=servers cargo test --test all killed::` runs one file with its servers. What needs a process or a name
//! of its own is beside this folder.
//!
//! `script/test` runs tests with `container` in their path beside all others: those of an engine exclude each other.

#[path = "../common/mod.rs"]
mod common;

mod both_sides_count;
mod clean;
mod compare;
mod compare_misbehaving;
mod compare_raw;
mod compare_servers;
mod completions;
mod container_crash;
mod container_errors;
mod container_images;
mod container_redis;
mod container_rootless;
mod container_trouble;
mod containers;
mod cpus;
mod data_folder;
mod diff;
mod driver_at;
mod errors;
mod experiments;
mod explain;
mod fleet;
mod foreign;
mod formats;
mod killed;
mod load_not_over_link;
mod load_own_server;
mod load_peers;
mod loopback;
mod materiality;
mod other_users;
mod outside;
mod page;
mod pages;
mod passed_on;
mod release;
mod repro;
mod resume;
mod run_at_a_rate;
mod run_overload;
mod selftest;
mod service_stack;
mod show_run;
mod studies;
mod survey;
mod survey_measure;
mod survey_programs;
mod survey_strangers;
mod tools;
mod trust;
mod waits;
mod your_own_driver;
mod your_own_stack;
