//! Any text as the PTX of a recorded cubin: its threads are evaluated, its barriers checked, and everything is joined.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxinspect::cubin::Image;
use ptxinspect::ptx;

const CUBIN: &[u8] = include_bytes!("../../testdata/cubin/hopper-13.4-sm_90a.cubin");

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let module = ptx::parse(&text);
    let image = Image::parse(CUBIN).unwrap();
    let (unit, _) = ptxinspect_fuzz::unit(&image, Some(&module), &text);
    let again = ptxinspect_fuzz::unit(&image, Some(&module), &text).0;
    assert_eq!(format!("{unit:?}"), format!("{again:?}"), "the same twice");
});
