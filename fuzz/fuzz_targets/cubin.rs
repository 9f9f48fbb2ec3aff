#![no_main]
//! Any bytes as a cubin: an image or an error, and everything that the image hands out stays inside the file.

use libfuzzer_sys::fuzz_target;
use ptxinspect::cubin::{Attribute, Image};

fuzz_target!(|data: &[u8]| {
    let Ok(image) = Image::parse(data) else { return };
    let bytes = data.as_ptr_range();
    let mut words = image.attributes.iter().chain(&image.compat).flat_map(Attribute::words).count();
    for function in &image.functions {
        let code = function.code.as_ptr_range();
        assert!(code.is_empty() || (bytes.start <= code.start && code.end <= bytes.end));
        assert!(function.parts.iter().all(|part| part.end.0 as usize <= function.code.len()));
        words += function.attributes.iter().flat_map(Attribute::words).count();
    }
    assert!(image.code_bytes() <= data.len() as u64);
    assert!(words * 4 <= data.len());
});
