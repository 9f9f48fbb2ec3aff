//! Any text as nvdisasm's listing: read without a panic, at most one row a line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxinspect::toolchain::nvdisasm::Listing;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let listing = Listing::parse(&text);
    let rows: usize = listing.sections().values().map(|rows| rows.len()).sum();
    assert!(rows <= text.lines().count());
});
