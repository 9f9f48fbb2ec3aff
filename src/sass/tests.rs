//! The tables against recorded texts of nvdisasm, one case a line, and against words nobody has seen.

use std::path::PathBuf;

use super::*;
use crate::base::{Arch, Variant};

fn recorded() -> Vec<(Arch, String)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/sass");
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir).expect("testdata/sass").flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == "cases") {
            let arch = path.file_stem().and_then(|s| s.to_str()).expect("a name").parse().expect("an architecture");
            out.push((arch, std::fs::read_to_string(&path).expect("a text file")));
        }
    }
    out.sort_by_key(|case| case.0);
    out
}

fn word(hex: &str) -> Word {
    let (hi, lo) = hex.split_at(16);
    let half = |text| u64::from_str_radix(text, 16).expect("16 hex digits");
    Word { lo: half(lo), hi: half(hi) }
}

/// A recorded word is never decoded to something else; a few may be unknown, which is a value.
#[test]
fn recorded_texts() {
    let files = recorded();
    assert!(files.len() >= 6, "{} architectures recorded", files.len());
    for (arch, text) in files {
        let decoder = Decoder::new(arch).expect("tables for every recorded architecture");
        let mut wrong = Vec::new();
        let (mut cases, mut unknown) = (0, 0);
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let (hex, expected) = line.split_once(' ').expect("hex and text");
            let inst = decoder.decode(word(hex));
            cases += 1;
            if inst.is_unknown() {
                unknown += 1;
                continue;
            }
            let mut mine = String::new();
            decoder.text(&inst, Pc(0), &mut mine);
            if mine != expected {
                wrong.push(format!("{hex}\n  nvdisasm {expected}\n  ours     {mine}"));
            }
        }
        assert!(cases > 300, "{arch}: {cases} cases");
        assert!(unknown * 200 <= cases, "{arch}: {unknown} of {cases} unknown");
        assert!(wrong.is_empty(), "{arch}: {} of {cases} differ\n{}", wrong.len(), wrong.join("\n"));
    }
}

#[test]
fn registers_are_those_of_the_text() {
    for (arch, text) in recorded() {
        let decoder = Decoder::new(arch).expect("tables");
        for line in text.lines().filter(|l| !l.starts_with('#')).step_by(7) {
            let (hex, expected) = line.split_once(' ').expect("hex and text");
            let inst = decoder.decode(word(hex));
            decoder.registers(&inst, |reg| {
                let name = match (reg.file, reg.index) {
                    (RegFile::Gpr, 255) => "RZ".to_owned(),
                    (RegFile::Gpr, n) => format!("R{n}"),
                    (RegFile::Ugpr, n) if n == 255 || (n == 63 && arch.sm < 100) => "URZ".to_owned(),
                    (RegFile::Ugpr, n) => format!("UR{n}"),
                    (RegFile::Pred, 7) => "PT".to_owned(),
                    (RegFile::Pred, n) => format!("P{n}"),
                    (RegFile::Upred, 7) => "UPT".to_owned(),
                    (RegFile::Upred, n) => format!("UP{n}"),
                };
                assert!(expected.contains(&name), "{arch} {hex}: {name} is not in {expected}");
            });
        }
    }
}

#[test]
fn every_word_decodes_to_something() {
    // A xorshift generator: the same words in every run.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut text = String::new();
    for arch in Decoder::architectures() {
        let decoder = Decoder::new(arch).expect("tables");
        for i in 0..20_000u32 {
            let word = Word { lo: next(), hi: next() };
            let inst = decoder.decode(word);
            text.clear();
            decoder.text(&inst, Pc(i.wrapping_mul(16)), &mut text);
            assert!(!text.is_empty());
            assert_eq!(inst.is_unknown(), text.starts_with(".word"));
            let _ = (decoder.guard(&inst), decoder.target(&inst, Pc(0)), parts(&text));
        }
    }
}

/// Texts that are put together from what words have in common are those that the tables are walked for: recorded words, and the
/// same with bits changed, in an order that mixes them.
#[test]
fn spelt_as_walked() {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = |most: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % most
    };
    for (arch, text) in recorded() {
        let decoder = Decoder::new(arch).expect("tables");
        let words: Vec<Word> =
            text.lines().filter(|l| !l.starts_with('#')).filter_map(|l| Some(word(l.split_once(' ')?.0))).collect();
        let mut speller = Speller::new(decoder);
        let (mut mine, mut theirs, mut known) = (Text::default(), String::new(), 0);
        for at in 0..20 * words.len() {
            let mut word = words[next(words.len() as u64) as usize];
            for _ in 0..at % 4 {
                let bit = next(128);
                let half = if bit < 64 { &mut word.lo } else { &mut word.hi };
                *half ^= 1 << (bit % 64);
            }
            let (inst, pc) = (decoder.decode(word), Pc(16 * at as u32));
            mine.clear();
            theirs.clear();
            let is_known = speller.text(word, pc, &mut mine);
            assert_eq!(is_known, !inst.is_unknown(), "{arch} {word:x?}");
            if is_known {
                known += 1;
                decoder.text(&inst, pc, &mut theirs);
                assert_eq!(mine.as_str(), theirs, "{arch} {word:x?}");
            }
        }
        assert!(known > 5 * words.len(), "{arch}: {known} known");
    }
}

#[test]
fn unknown_is_a_value() {
    let decoder = Decoder::new(Arch::new(100)).expect("tables");
    let inst = decoder.decode(Word { lo: u64::MAX, hi: u64::MAX });
    assert!(inst.is_unknown());
    let mut text = String::new();
    decoder.text(&inst, Pc(0), &mut text);
    assert_eq!(text, format!(".word 0x{}", "f".repeat(32)));
    assert!(Decoder::new(Arch::new(70)).is_none());
}

#[test]
fn variants_share_the_richest_tables() {
    for variant in [Variant::Base, Variant::Family, Variant::Accelerated] {
        assert!(Decoder::new(Arch::new(100).with_variant(variant)).is_some());
    }
}

#[test]
fn labels_replace_targets() {
    let decoder = Decoder::new(Arch::new(90)).expect("tables");
    // BRA to itself.
    let inst = decoder.decode(word("000fc0000383fffffffffffc00fc7947"));
    let mut text = String::new();
    if let Some(target) = decoder.target(&inst, Pc(0x40)) {
        assert_eq!(target, 0x40);
        decoder.text_with(&inst, Pc(0x40), &mut text, |address, out| {
            assert_eq!(address, target);
            out.push_str("`(.L_x_0)");
            true
        });
        assert!(text.ends_with("`(.L_x_0)"));
    }
}

#[test]
fn control_fields() {
    let word = Word { lo: 0, hi: 0x000f_ce00_0000_0000 };
    let control = word.control();
    assert_eq!((control.stall, control.yields, control.wait_mask, control.reuse), (7, true, 0, 0));
    assert_eq!((control.write_barrier, control.read_barrier), (None, None));
}
