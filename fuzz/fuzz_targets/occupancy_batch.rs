#![no_main]
//! Launches as JSON lines: whatever comes in, a line goes out for each line that is not blank.

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut out = Vec::new();
    let summary = ptxinspect::emit::occupancy::batch(data, &mut out).unwrap();
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count() as u64, summary.lines);
});
