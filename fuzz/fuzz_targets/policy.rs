//! Any text as a policy: read, or an error that says why.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxinspect::gate::Policy;

fuzz_target!(|data: &[u8]| {
    if let Err(error) = Policy::parse(&String::from_utf8_lossy(data)) {
        assert!(!error.to_string().is_empty());
    }
});
