#![no_main]

#[path = "../judge/files.rs"]
mod judge;

libfuzzer_sys::fuzz_target!(|data: &[u8]| judge::guard(data));
