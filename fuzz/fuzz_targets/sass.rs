//! Any bytes decode to instructions or unknown words, and all of them have a text; a speller puts the same together.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ptxinspect::base::Pc;
use ptxinspect::sass::{Decoder, Speller, Text, parts};

fuzz_target!(|data: &[u8]| {
    let mut text = String::new();
    for arch in Decoder::architectures() {
        let Some(decoder) = Decoder::new(arch) else { continue };
        let (mut speller, mut spelt) = (Speller::new(decoder), Text::default());
        for (i, inst) in decoder.decode_all(data).enumerate() {
            text.clear();
            let pc = Pc((i as u32).wrapping_mul(16));
            decoder.text(&inst, pc, &mut text);
            assert!(!text.is_empty());
            spelt.clear();
            assert_eq!(speller.text(inst.word, pc, &mut spelt), !inst.is_unknown());
            assert!(inst.is_unknown() || spelt.as_str() == text);
            let _ = (decoder.guard(&inst), decoder.target(&inst, pc), inst.control(), parts(&text));
            decoder.registers(&inst, |_| {});
        }
    }
});
