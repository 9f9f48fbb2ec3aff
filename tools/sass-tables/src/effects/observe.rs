//! Which words to try.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use anyhow::Result;

use super::probe::{Marks, Probe};
use super::{arrange, decide, fields};
use crate::corpus;
use crate::model::{Literals, Model, comp_word};
use crate::oracle::moves_control;
use crate::store::Learnt;

/// Words of real code for each text, numbers aside.
const EXAMPLES: u8 = 2;
/// Words of a class on which numbers of a few bits are tried: with each value of up to four bits, of more on the first word.
const MASKED: u8 = 12;
/// Values of one component that are tried on a class's base word at most.
const VALUES: usize = 1024;
/// Times that what the observations so far leave open is looked for.
const ROUNDS: usize = 3;
/// Combinations of modifiers of a class that are tried at most.
const COMBINATIONS: usize = 4096;
/// Words with modifiers drawn by lot, for each class.
const DRAWN: u64 = 48;
/// As many more, in each round, for a class in which modifiers make a difference.
const DRAWN_MORE: u64 = 400;

/// How nvdisasm spells a modifier that means nothing.
pub(super) const INVALID: &str = "INVALID";

/// A class's base word with other variants where its text calls one invalid, as far as there are.
fn valid_base(model: &Model, literals: &Literals) -> u128 {
    let mut text = String::new();
    let mut invalid = |word: u128| {
        let is_legal = model.predict(literals, 0, word, &mut text);
        if is_legal { text.matches(INVALID).count() } else { usize::MAX }
    };
    let (mut word, mut left) = (model.base, invalid(model.base));
    for comp in &model.comps {
        for &value in comp.table.keys() {
            if left == 0 {
                return word;
            }
            if let Some(made) = comp_word(&model.slots, &comp.inputs, word, value)
                && let count = invalid(made)
                && count < left
            {
                (word, left) = (made, count);
            }
        }
    }
    word
}

/// Whether a word means something. No compiler makes words that nvdisasm calls invalid, and what they do says nothing about others.
fn is_valid(learnt: &Learnt, literals: &Literals, word: u128) -> bool {
    let mut text = String::new();
    let model = fields::place(learnt, word).and_then(|(class, _)| learnt.models.get(class as usize));
    model.is_some_and(|model| model.predict(literals, 0, word, &mut text)) && !text.contains(INVALID)
}

/// A word with variants of every component drawn by lot, numbers of a few bits too.
fn drawn_word(model: &Model, base: u128, dice: &mut Dice) -> Option<u128> {
    let mut word = base;
    for comp in &model.comps {
        // Half of the components stay as they are: words with everything at once are often invalid.
        if dice.below(2) == 0 {
            continue;
        }
        let variant = dice.below(comp.variants.len()) as u16;
        let mut values = comp.table.iter().filter(|(_, found)| **found == variant).map(|(value, _)| *value);
        let made = values.find_map(|value| comp_word(&model.slots, &comp.inputs, word, value));
        word = made.filter(|&made| fields::chosen(model, made).is_some()).unwrap_or(word);
    }
    for number in fields::small_numbers(model) {
        let made = number.put(word, dice.below(number.count()) as u16);
        word = if fields::chosen(model, made).is_some() { made } else { word };
    }
    fields::chosen(model, word).map(|_| word)
}

/// Numbers by lot, the same in every run.
struct Dice(u64);

impl Dice {
    fn new(class: u64, number: u64) -> Dice {
        Dice(class << 32 | number)
    }

    /// A number below `count`.
    fn below(&mut self, count: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % count.max(1) as u64) as usize
    }
}

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
        let Some((class, chosen)) = fields::place(learnt, word) else { return };
        if !is_valid(learnt, literals, word) {
            return;
        }
        let count = seen.entry((class, chosen)).or_default();
        if *count < limit {
            *count += 1;
            words.push(word);
        }
    };
    let mut real: Vec<u128> = corpus::every_word(paths, &crate::learn::relatives(sm))?.into_iter().collect();
    real.sort_unstable();
    let distinct = real.len();
    // What each class's words are made from: one of real code, and one that the model itself was learnt from.
    let mut bases: Vec<Vec<u128>> = learnt.models.iter().map(|model| vec![valid_base(model, literals)]).collect();
    for word in real {
        if let Some((class, _)) = fields::place(learnt, word)
            && let bases = &mut bases[class as usize]
            && bases.len() < 2
        {
            bases.push(word);
        }
        add(word, EXAMPLES, &mut words);
    }
    let from_code = words.len();
    // Made-up jumps go where there is no code, and one of them spoils a batch: of those, real ones with one modifier changed.
    let calm = |model: &Model| !moves_control(model.base);
    for (class, model) in (0..).zip(&learnt.models) {
        for &base in bases[class as usize].iter().skip(usize::from(!calm(model))) {
            add(base, EXAMPLES, &mut words);
            for comp in &model.comps {
                // A value may be one that the base word cannot take: a variant counts once a word shows it.
                let mut variants: HashSet<u16> = HashSet::new();
                let mut values: Vec<_> = comp.table.iter().map(|(&value, &variant)| (value, variant)).collect();
                values.sort_unstable();
                for (value, variant) in values {
                    if variants.contains(&variant) || variants.len() == VALUES {
                        continue;
                    }
                    let word = comp_word(&model.slots, &comp.inputs, base, value);
                    let is_here = |word: &u128| fields::place(learnt, *word).is_some_and(|(found, _)| found == class);
                    if let Some(word) = word.filter(is_here) {
                        variants.insert(variant);
                        add(word, 1, &mut words);
                    }
                }
            }
        }
    }
    // Modifiers may make a difference only beside others: of their combinations, some by lot.
    let mut drawn: Vec<u128> = Vec::new();
    let lot = |class: u32, model: &Model, bases: &[u128], numbers: std::ops::Range<u64>, drawn: &mut Vec<u128>| {
        for number in numbers {
            let mut dice = Dice::new(u64::from(class), number);
            let base = bases[dice.below(bases.len())];
            drawn.extend(drawn_word(model, base, &mut dice).filter(|word| is_valid(learnt, literals, *word)));
        }
    };
    for ((class, model), bases) in (0..).zip(&learnt.models).zip(&bases).filter(|((_, model), _)| calm(model)) {
        lot(class, model, bases, 0..DRAWN, &mut drawn);
    }
    // Numbers that may be masks: each value, on some words of each class.
    let mut tried: HashMap<u32, u8> = HashMap::new();
    for word in words.clone() {
        let Some((class, _)) = fields::place(learnt, word) else { continue };
        let model = &learnt.models[class as usize];
        let count = tried.entry(class).or_default();
        if *count < MASKED && !moves_control(word) {
            *count += 1;
            for number in fields::small_numbers(model) {
                let last = (number.count() - 1) as u16;
                let bits = last.count_ones();
                let values: Vec<u16> = if bits <= 4 || *count == 1 {
                    (0..=last).collect()
                } else {
                    (0..bits).flat_map(|bit| [(2 << bit) - 1, 1 << bit, last & !((1 << bit) - 1)]).collect()
                };
                let made = values.into_iter().map(|value| number.put(word, value));
                words.extend(made.filter(|word| fields::place(learnt, *word).is_some()));
            }
        }
    }
    log(format!(
        "{distinct} distinct words of code, {from_code} of them and {} made ones to try",
        words.len() - from_code
    ));
    let mut observed: BTreeSet<u128> = BTreeSet::new();
    for round in 0..=ROUNDS {
        let mut apart: Vec<u128> = words.iter().flat_map(|&word| arrange::apart(learnt, near(word, sm))).collect();
        // One order of the registers each.
        for (i, word) in drawn.drain(..).enumerate() {
            let orders = arrange::apart(learnt, word);
            apart.extend(orders.get(i % orders.len().max(1)));
        }
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
        let decisions = decide::decide(learnt, literals, &lines(&observed, probe))?;
        words.clear();
        for (((class, model), open), bases) in (0..).zip(&learnt.models).zip(&decisions.open).zip(&bases) {
            open.gaps.iter().filter(|&&word| !moves_control(word)).for_each(|&word| add(word, 1, &mut words));
            if !calm(model) || open.together.iter().all(Vec::is_empty) {
                continue;
            }
            for (components, &base) in open.together.iter().flat_map(|set| bases.iter().map(move |base| (set, base))) {
                combinations(model, base, components).into_iter().for_each(|word| add(word, 1, &mut drawn));
            }
            let first = DRAWN + round as u64 * DRAWN_MORE;
            lot(class, model, bases, first..first + DRAWN_MORE, &mut drawn);
        }
        if words.is_empty() && drawn.is_empty() {
            break;
        }
        log(format!(
            "{} more that are not decided, {} by modifiers that decide together and by lot",
            words.len(),
            drawn.len()
        ));
    }
    let lines = lines(&observed, probe);
    log(format!("{} words asked, {} rows, {} runs of nvdisasm", observed.len(), lines.lines().count(), probe.runs));
    Ok(lines)
}

/// A word with every combination of the variants of some components, or of every two of them where there are too many.
fn combinations(model: &Model, base: u128, components: &[u8]) -> Vec<u128> {
    let variants = |comp: &u8| model.comps[usize::from(*comp)].variants.len();
    if components.len() < 2 {
        return Vec::new();
    }
    if components.iter().map(variants).product::<usize>() <= COMBINATIONS {
        return product(model, base, components);
    }
    let pairs = components.iter().enumerate().flat_map(|(i, &a)| components[i + 1..].iter().map(move |&b| [a, b]));
    let few = pairs.filter(|pair| pair.iter().map(variants).product::<usize>() <= COMBINATIONS);
    few.flat_map(|pair| product(model, base, &pair)).collect()
}

/// A word with every combination of the variants of some components.
fn product(model: &Model, base: u128, components: &[u8]) -> Vec<u128> {
    let mut words = vec![base];
    for &comp in components {
        let comp = &model.comps[usize::from(comp)];
        let mut next = Vec::new();
        for &word in &words {
            let mut shown: HashSet<u16> = HashSet::new();
            for (&value, &variant) in &comp.table {
                if !shown.contains(&variant)
                    && let Some(made) = comp_word(&model.slots, &comp.inputs, word, value)
                    && fields::chosen(model, made).is_some()
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
            set.iter_all().map(|(file, index)| format!("{}{index}", fields::letters(file))).collect();
        if names.is_empty() { "-".to_owned() } else { names.join(" ") }
    };
    format!("{word:032x}\t{}\t{}\t{text}\n", list(&marks.reads), list(&marks.writes))
}
