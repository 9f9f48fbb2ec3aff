//! Any bytes as a container: every entry is listed and read, with and without a search of host files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxinspect::container::{Container, Options};

fuzz_target!(|bytes: &[u8]| {
    for scan in [false, true] {
        let container = Container::from_bytes("fuzz", bytes.to_vec(), Options { scan, ..Options::default() });
        for entry in container.entries().flatten() {
            let whole = entry.read();
            let again = entry.with_bytes(|bytes| whole.as_deref().is_ok_and(|whole| whole == bytes));
            assert_eq!(again.unwrap_or(false), whole.is_ok(), "memory that is used again gives the same bytes");
        }
        let _ = container.parts().len();
    }
});
