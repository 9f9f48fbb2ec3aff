#![no_main]
//! Line tables of any cubin: every pc has a line or none.

use libfuzzer_sys::fuzz_target;
use ptxinspect::base::Pc;
use ptxinspect::cubin::Image;
use ptxinspect::cubin::lines::LineTable;

fuzz_target!(|data: &[u8]| {
    let Ok(image) = Image::parse(data) else { return };
    let table = LineTable::parse(&image);
    for function in &image.functions {
        let Some(lines) = table.function(function) else { continue };
        for pc in (0..function.resources.code_bytes).step_by(16).map(Pc) {
            assert_ne!(lines.ptx_line(pc).map(|line| line.0), Some(0));
            let _ = lines.source_at(pc).map(|at| at.inlined_at.len());
        }
        let _ = lines.ptx_text().map(|text| text.lines().count());
    }
});
