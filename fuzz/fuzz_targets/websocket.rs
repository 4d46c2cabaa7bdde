#![no_main]

#[path = "../judge/wire.rs"]
mod judge;

libfuzzer_sys::fuzz_target!(|data: &[u8]| judge::websocket(data));
