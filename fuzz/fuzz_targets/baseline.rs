//! Any text as a baseline: what is read is written so that it reads back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxinspect::gate::Baseline;

fuzz_target!(|data: &[u8]| {
    let Ok(baseline) = Baseline::parse(&String::from_utf8_lossy(data)) else { return };
    let text = baseline.to_text();
    let again = Baseline::parse(&text).expect("what we write we read");
    assert_eq!(text, again.to_text());
});
