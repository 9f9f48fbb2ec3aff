//! Liveness and effects against what nvdisasm printed, recorded under `testdata/`.

use std::collections::BTreeMap;
use std::path::Path;

use ptxinspect::base::{RegFile, RegSet};
use ptxinspect::cubin::Image;
use ptxinspect::flow::{Cfg, Layout, Liveness, Program, Rule, SassProgram};
use ptxinspect::registers::code::named_registers;
use ptxinspect::sass::{Decoder, Word};

/// The counts of a `.live` file: section → (index → counts).
fn recorded(text: &str) -> BTreeMap<String, BTreeMap<usize, [u16; 4]>> {
    let mut sections: BTreeMap<String, BTreeMap<usize, [u16; 4]>> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("section ") {
            current = name.to_owned();
            continue;
        }
        let fields: Vec<&str> = line.split(' ').collect();
        let first = usize::from_str_radix(fields[0], 16).unwrap() / 16;
        let count: usize = fields[1].parse().unwrap();
        let counts = [2, 3, 4, 5].map(|i| fields[i].parse().unwrap());
        sections.entry(current.clone()).or_default().extend((first..first + count).map(|index| (index, counts)));
    }
    sections
}

#[test]
fn counts_of_recorded_cubins_equal_nvdisasm() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cubin");
    let mut rows = 0;
    let mut wrong = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for path in files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "live")) {
        let expected = recorded(&std::fs::read_to_string(path).unwrap());
        let bytes = std::fs::read(path.with_extension("cubin")).unwrap();
        let image = Image::parse(&bytes).unwrap();
        let decoder = Decoder::new(image.arch).unwrap();
        let named = named_registers(&image);
        for function in &image.functions {
            let name = image.section(function.section).unwrap().name.to_string();
            let Some(expected) = expected.get(&name) else { continue };
            let program = SassProgram::decode(decoder, function.code);
            let layout = Layout {
                entries: function.parts.iter().map(|part| part.start).collect(),
                indirect: function.branch_targets.iter().map(|b| (b.pc, b.targets.clone())).collect(),
                registers: function.resources.registers.unwrap_or(0) as u16,
                named,
            };
            let cfg = Cfg::build(&program, &layout);
            // A word that the tables do not know makes the counts inexact, and says so.
            if (0..program.len()).any(|index| !program.flow(index).known) {
                continue;
            }
            let counts = Liveness::solve(&program, &cfg, Rule::Nvdisasm).counts(&program, &cfg);
            for (index, theirs) in expected {
                rows += 1;
                let ours = RegFile::ALL.map(|file| counts[*index].get(file));
                if ours != *theirs {
                    wrong.push(format!(
                        "{} {name} {:x}: ours {ours:?}, nvdisasm {theirs:?}",
                        path.display(),
                        index * 16
                    ));
                }
            }
            // What is live never needs more registers than the function is given.
            let sound = Liveness::solve(&program, &cfg, Rule::Sound).counts(&program, &cfg);
            let peak = sound.iter().map(|counts| counts.get(RegFile::Gpr)).max().unwrap_or(0);
            assert!(u32::from(peak) <= function.resources.registers.unwrap_or(255), "{name}: {peak}");
        }
    }
    assert!(rows > 1000, "only {rows} rows; `sass-tables live --record testdata/cubin` writes them");
    assert!(wrong.is_empty(), "{} of {rows} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn set(names: &str) -> RegSet {
    let mut set = RegSet::EMPTY;
    for name in names.split_whitespace().filter(|name| *name != "-") {
        let split = name.find(|c: char| c.is_ascii_digit()).unwrap();
        let file = match &name[..split] {
            "R" => RegFile::Gpr,
            "P" => RegFile::Pred,
            "UR" => RegFile::Ugpr,
            _ => RegFile::Upred,
        };
        set.insert(file, name[split..].parse().unwrap());
    }
    set
}

/// nvdisasm marks UR4 to UR62 only.
fn tracked(mut set: RegSet) -> RegSet {
    (0..4).chain(63..128).for_each(|index| set.remove(RegFile::Ugpr, index));
    set
}

#[test]
fn effects_of_recorded_words_equal_nvdisasm() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/sass");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for path in files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "effects")) {
        let arch = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        let decoder = Decoder::new(arch).unwrap();
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let word = u128::from_str_radix(fields[0], 16).unwrap();
            let inst = decoder.decode(Word { lo: word as u64, hi: (word >> 64) as u64 });
            count += 1;
            // Not known is no error; wrong is.
            let Some(effects) = decoder.effects(&inst) else { continue };
            if tracked(effects.reads) != set(fields[1]) || tracked(effects.writes) != set(fields[2]) {
                wrong.push(format!("{arch} {line}: {effects:?}"));
            }
        }
    }
    assert!(count > 1000, "only {count} cases");
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}
