//! Which words to try.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use anyhow::Result;

use super::probe::{Marks, Probe};
use super::{arrange, roles};
use crate::corpus;
use crate::model::{Literals, Model, comp_word};
use crate::store::Learnt;

/// Words of real code for each text, numbers aside.
const EXAMPLES: u8 = 2;
/// Words of a class on which numbers of a few bits are tried with each value.
const MASKED: u8 = 12;
/// Values of one component that are tried on a class's base word at most.
const VALUES: usize = 1024;
/// Times that what the observations so far leave open is looked for.
const ROUNDS: usize = 3;
/// Combinations of modifiers of a class that are tried at most.
const COMBINATIONS: usize = 4096;

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
pub fn observe(
    learnt: &Learnt,
    literals: &Literals,
    paths: &[PathBuf],
    probe: &mut Probe,
    log: &mut dyn FnMut(String),
) -> Result<String> {
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
    let calm = |model: &Model| !super::probe::moves_control(model.base);
    for (class, model) in (0..).zip(&learnt.models).filter(|(_, model)| calm(model)) {
        add(model.base, EXAMPLES, &mut words);
        for comp in &model.comps {
            // A value may be one that the base word cannot take: a variant counts once a word shows it.
            let mut variants: HashSet<u16> = HashSet::new();
            let mut values: Vec<_> = comp.table.iter().map(|(&value, &variant)| (value, variant)).collect();
            values.sort_unstable();
            for (value, variant) in values {
                if variants.contains(&variant) || variants.len() == VALUES {
                    continue;
                }
                let word = comp_word(&model.slots, &comp.inputs, model.base, value);
                let is_here = |word: &u128| roles::place(learnt, *word).is_some_and(|(found, _)| found == class);
                if let Some(word) = word.filter(is_here) {
                    variants.insert(variant);
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
    let mut observed: BTreeSet<u128> = BTreeSet::new();
    for round in 0..=ROUNDS {
        let apart: Vec<u128> = words.iter().flat_map(|&word| arrange::apart(learnt, near(word, sm))).collect();
        probe.ask(apart.iter().copied())?;
        let is_crowded =
            |word: &u128| probe.row(*word).is_some_and(|row| arrange::is_crowded(learnt, *word, &row.marks));
        let tight: Vec<u128> =
            apart.iter().copied().filter(is_crowded).flat_map(|word| arrange::tight(learnt, word)).collect();
        probe.ask(tight.iter().copied())?;
        observed.extend(apart.into_iter().chain(tight));
        if round == ROUNDS {
            break;
        }
        // What several modifiers decide together is seen together.
        let decisions = roles::decide(learnt, literals, &lines(&observed, probe))?;
        words.clear();
        for &word in decisions.gaps.iter().filter(|&&word| !super::probe::moves_control(word)) {
            add(word, 1, &mut words);
        }
        for (model, decision) in learnt.models.iter().zip(&decisions.classes) {
            if calm(model) {
                for word in combinations(model, &decision.components()) {
                    add(word, 1, &mut words);
                }
            }
        }
        if words.is_empty() {
            break;
        }
        log(format!("{} more, by modifiers that decide together", words.len()));
    }
    let lines = lines(&observed, probe);
    log(format!("{} words asked, {} rows, {} runs of nvdisasm", observed.len(), lines.lines().count(), probe.runs));
    Ok(lines)
}

/// The words of a class's base with every combination of the variants of some components, or of every two of them where there are too many.
fn combinations(model: &Model, components: &BTreeSet<u8>) -> Vec<u128> {
    let variants = |comp: &u8| model.comps[usize::from(*comp)].variants.len();
    let all: Vec<u8> = components.iter().copied().collect();
    if all.len() < 2 {
        return Vec::new();
    }
    if all.iter().map(variants).product::<usize>() <= COMBINATIONS {
        return product(model, &all);
    }
    let pairs = all.iter().enumerate().flat_map(|(i, &a)| all[i + 1..].iter().map(move |&b| [a, b]));
    let few = pairs.filter(|pair| pair.iter().map(variants).product::<usize>() <= COMBINATIONS);
    few.flat_map(|pair| product(model, &pair)).collect()
}

/// The words of a class's base with every combination of the variants of some components.
fn product(model: &Model, components: &[u8]) -> Vec<u128> {
    let mut words = vec![model.base];
    for &comp in components {
        let comp = &model.comps[usize::from(comp)];
        let mut next = Vec::new();
        for &word in &words {
            let mut shown: HashSet<u16> = HashSet::new();
            for (&value, &variant) in &comp.table {
                if !shown.contains(&variant)
                    && let Some(made) = comp_word(&model.slots, &comp.inputs, word, value)
                    && roles::chosen(model, made).is_some()
                {
                    shown.insert(variant);
                    next.push(made);
                }
            }
        }
        words = next;
    }
    words
}

fn lines(words: &BTreeSet<u128>, probe: &Probe) -> String {
    let rows = words.iter().filter_map(|&word| Some((word, probe.row(word)?)));
    rows.map(|(word, row)| line(word, &row.marks, &row.text)).collect()
}

fn line(word: u128, marks: &Marks, text: &str) -> String {
    let list = |set: &ptxinspect::base::RegSet| {
        let names: Vec<String> =
            set.iter_all().map(|(file, index)| format!("{}{index}", roles::letters(file))).collect();
        if names.is_empty() { "-".to_owned() } else { names.join(" ") }
    };
    format!("{word:032x}\t{}\t{}\t{text}\n", list(&marks.reads), list(&marks.writes))
}
