//! Any text as ptxas's log: read without a panic, and every line is accounted for at most once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxinspect::toolchain::log;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let lines = text.lines().count() as u64;
    let log = log::parse(&text);
    assert!(log.unknown.len() as u64 <= log.unknown_lines);
    assert!(log.unknown_lines + log.messages.len() as u64 + log.functions.len() as u64 <= lines);
    assert!(log.messages.iter().all(|message| u64::from(message.log_line.0) <= lines));
});
