//! Which words to try, and their registers far apart.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use anyhow::Result;
use ptxinspect::base::RegFile;

use super::probe::{Marks, Probe};
use super::roles;
use crate::corpus;
use crate::model::{Model, comp_word};
use crate::store::Learnt;
use crate::text::Kind;

/// Words of real code for each text, numbers aside.
const EXAMPLES: u8 = 2;
/// Words of a class on which numbers of a few bits are tried with each value.
const MASKED: u8 = 12;
/// Times each word is tried, its registers in another order.
const TURNS: usize = 4;
/// Values of one component that are tried on a class's base word at most.
const VALUES: usize = 96;

/// A word whose target, if it names one, is the instruction after the next: a target outside the section stops nvdisasm.
fn near(word: u128, sm: u16) -> u128 {
    const LOW: u128 = 0xff << 16;
    const HIGH: u128 = ((1 << 48) - 1) << 34;
    // Low 9 bits of the opcodes with a label: CALL 0x143, 0x144; BSSY 0x145; BRA 0x147; WARPSYNC 0x148; BRX 0x149, JMP 0x14a, JMX 0x14c; RET 0x150.
    match word & 0x1ff {
        // Distances count four bytes; `sass::transfer` says where they are.
        0x145 => word & !(0x3fff_ffff << 34) | 4 << 34,
        0x143 | 0x144 | 0x146..=0x14c | 0x150 if sm >= 90 => word & !(LOW | HIGH) | 4 << 16,
        0x143 | 0x144 | 0x146..=0x14c | 0x150 => word & !HIGH | 4 << 34,
        _ => word,
    }
}

/// Observes a model's words: lines of word, reads, writes, text.
pub fn observe(learnt: &Learnt, paths: &[PathBuf], probe: &mut Probe, log: &mut dyn FnMut(String)) -> Result<String> {
    let sm = crate::learn::sm_of(&learnt.arch);
    let mut seen: HashMap<(u32, Vec<u16>), u8> = HashMap::new();
    let mut words: Vec<u128> = Vec::new();
    let mut add = |word: u128, limit: u8, words: &mut Vec<u128>| {
        let Some((class, chosen)) = roles::place(learnt, word) else { return };
        let count = seen.entry((class, chosen)).or_default();
        if *count < limit {
            *count += 1;
            words.push(word);
        }
    };
    let mut real: Vec<u128> = corpus::every_word(paths, &crate::learn::relatives(sm))?.into_iter().collect();
    real.sort_unstable();
    let distinct = real.len();
    for word in real {
        add(word, EXAMPLES, &mut words);
    }
    let from_code = words.len();
    // Made-up jumps go where there is no code, and one of them spoils a batch: of those, real ones only.
    for model in learnt.models.iter().filter(|model| !super::probe::moves_control(model.base)) {
        add(model.base, EXAMPLES, &mut words);
        for comp in &model.comps {
            let mut variants: HashSet<u16> = HashSet::new();
            for (&value, &variant) in &comp.table {
                if variants.len() < VALUES
                    && variants.insert(variant)
                    && let Some(word) = comp_word(&model.slots, &comp.inputs, model.base, value)
                {
                    add(word, 1, &mut words);
                }
            }
        }
    }
    // Numbers that may be masks: each value, on some words of each class.
    let mut tried: HashMap<u32, u8> = HashMap::new();
    for word in words.clone() {
        let Some((class, _)) = roles::place(learnt, word) else { continue };
        let model = &learnt.models[class as usize];
        let count = tried.entry(class).or_default();
        if *count < MASKED && !super::probe::moves_control(word) {
            *count += 1;
            for (pos, bits) in roles::small_numbers(model) {
                let ones = (1u128 << bits) - 1;
                let numbers: Vec<u128> = if bits <= 4 {
                    (0..=ones).collect()
                } else {
                    (0..bits).flat_map(|bit| [(2 << bit) - 1, 1 << bit, ones & !((1 << bit) - 1)]).collect()
                };
                let values = numbers.into_iter().map(|value| word & !(ones << pos) | value << pos);
                words.extend(values.filter(|word| roles::place(learnt, *word).is_some()));
            }
        }
    }
    log(format!(
        "{distinct} distinct words of code, {from_code} of them and {} made ones to try",
        words.len() - from_code
    ));
    let mut scattered: Vec<u128> = Vec::new();
    for &word in &words {
        let Some((class, chosen)) = roles::place(learnt, word) else { continue };
        let model = &learnt.models[class as usize];
        let calm = near(word, sm);
        for turn in 0..TURNS {
            let moved = scatter(model, &chosen, calm, turn);
            scattered.push(if roles::place(learnt, moved) == Some((class, chosen.clone())) { moved } else { calm });
        }
    }
    scattered.sort_unstable();
    scattered.dedup();
    probe.ask(scattered.iter().copied())?;
    let rows = scattered.iter().filter(|&&word| probe.row(word).is_some()).count();
    log(format!("{} words asked, {rows} rows, {} runs of nvdisasm", scattered.len(), probe.runs));
    let mut lines = String::new();
    for word in scattered {
        if let Some(row) = probe.row(word) {
            lines.push_str(&line(word, &row.marks, &row.text));
        }
    }
    Ok(lines)
}

fn line(word: u128, marks: &Marks, text: &str) -> String {
    let list = |set: &ptxinspect::base::RegSet| {
        let names: Vec<String> =
            set.iter_all().map(|(file, index)| format!("{}{index}", roles::letters(file))).collect();
        if names.is_empty() { "-".to_owned() } else { names.join(" ") }
    };
    format!("{word:032x}\t{}\t{}\t{text}\n", list(&marks.reads), list(&marks.writes))
}

/// Gives the registers of a word numbers far from each other, as long as its text stays what it is. `turn` says in which order.
fn scatter(model: &Model, chosen: &[u16], word: u128, turn: usize) -> u128 {
    let printed = roles::printed(model, chosen);
    let mut out = word;
    for file in RegFile::ALL {
        let slots: Vec<usize> = printed.iter().filter(|(f, _)| *f == file).map(|(_, slot)| *slot).collect();
        let count = slots.len().max(1) as i64;
        let (first, step) = match file {
            RegFile::Gpr => (8, (240 / count) & !7),
            // nvdisasm marks UR4 to UR62.
            RegFile::Ugpr => (8, ((54 / count) & !3).max(4)),
            RegFile::Pred | RegFile::Upred => (0, 1),
        };
        for (i, &slot) in slots.iter().enumerate() {
            let place = if turn.is_multiple_of(2) { i } else { slots.len() - 1 - i } as i64;
            let home = first + step * place;
            let values: Vec<i64> = match file {
                RegFile::Gpr | RegFile::Ugpr => vec![home, home + 16, home + 4],
                RegFile::Pred | RegFile::Upred => (0..7).map(|i| (home + i + 2 * turn as i64) % 7).collect(),
            };
            let is_taken =
                |word: u128, value: i64| slots.iter().take(i).any(|&other| model.slots[other].eval(word) == value);
            for value in values {
                if is_taken(out, value) {
                    continue;
                }
                if let Some(moved) = model.slots[slot].set(out, value)
                    && roles::chosen(model, moved).as_deref() == Some(chosen)
                {
                    out = moved;
                    break;
                }
            }
        }
    }
    out
}

impl Kind {
    /// The register file of a slot's kind.
    pub fn file(self) -> Option<RegFile> {
        match self {
            Kind::R => Some(RegFile::Gpr),
            Kind::Ur => Some(RegFile::Ugpr),
            Kind::P => Some(RegFile::Pred),
            Kind::Up => Some(RegFile::Upred),
            _ => None,
        }
    }
}
