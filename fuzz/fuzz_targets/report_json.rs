//! Any text as a report that `diff` compares with itself: no difference, however odd it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxinspect::compare::differences;
use ptxinspect::emit::clean::Form;
use ptxinspect::emit::text;
use ptxinspect::report::Report;
use ptxinspect_fuzz::leaves_clean;

fuzz_target!(|data: &[u8]| {
    let Ok(report) = serde_json::from_slice::<Report>(data) else { return };
    for unit in &report.units {
        let difference = differences(unit, unit, &|_| None, &|_| None);
        assert!(difference.kernels.iter().all(|kernel| kernel.is_empty()), "no unit differs from itself");
        leaves_clean(Form::Text, |out| text::write_unit_error(unit, out));
    }
    leaves_clean(Form::Text, |out| {
        text::write(&report, &text::Options { verbose: true, top: 5, width: 80, pictures: true, links: None }, out)
    });
});
