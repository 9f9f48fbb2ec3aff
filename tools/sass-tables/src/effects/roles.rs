//! From observations to a decision: what a class's fields do, by the variants of its components.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use ptxinspect::base::{RegFile, RegSet};

use super::restrict;
use crate::edit::SLOT;
use crate::model::{Comp, Literals, Model, Piece, comp_value};
use crate::slot::{Format, Slot};
use crate::store::Learnt;
use crate::text::Kind;

/// A field that numbers a register, and what happens to the registers from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Use {
    pub file: RegFile,
    /// Lowest bit and number of bits, [`INVERTED`] added where the word has the number's complement; no bits where register `pos` is meant whatever
    /// the word says.
    pub pos: u8,
    pub bits: u8,
    pub write: bool,
    pub count: u8,
}

/// Lowest bit of the guard, the first field that may number a predicate.
const GUARD: u8 = 12;

/// Added to the number of bits of a field that holds the complement of a register's number.
const INVERTED: u8 = 0x80;

/// What nvdisasm marked beside a word.
pub struct Observation {
    pub word: u128,
    pub reads: RegSet,
    pub writes: RegSet,
    pub text: String,
}

/// What a class's words do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing was observed.
    Unknown,
    Leaf(Vec<Use>),
    /// By the variant of a component.
    Switch(u8, Vec<Decision>),
    /// By the value of a few bits, lowest bit and number of bits, that the text prints as a number: the mask of a texture fetch.
    Field(u8, u8, Vec<Decision>),
}

impl Decision {
    /// The components it looks at.
    pub fn components(&self) -> BTreeSet<u8> {
        match self {
            Decision::Unknown | Decision::Leaf(_) => BTreeSet::new(),
            Decision::Switch(comp, children) => {
                let below = children.iter().flat_map(Decision::components);
                below.chain([*comp]).collect()
            }
            Decision::Field(_, _, children) => children.iter().flat_map(Decision::components).collect(),
        }
    }
}

/// What a decision may look at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    Component(u8),
    Field(u8, u8),
}

impl Question {
    pub(super) fn answer(self, example: &Example<'_>) -> u16 {
        match self {
            Question::Component(comp) => example.chosen[usize::from(comp)],
            Question::Field(pos, bits) => (example.seen.word >> pos & ((1 << bits) - 1)) as u16,
        }
    }
}

/// The numbers of at most eight bits that a model's texts may print.
pub fn small_numbers(model: &Model) -> impl Iterator<Item = (u8, u8)> + '_ {
    let is_number = |slot: &&Slot| slot.format == Format::Linear(Kind::Hex) && slot.bits.len() <= 8;
    model.slots.iter().filter(is_number).filter_map(field).filter(|(_, bits)| bits & INVERTED == 0)
}

pub fn letters(file: RegFile) -> &'static str {
    match file {
        RegFile::Gpr => "R",
        RegFile::Pred => "P",
        RegFile::Ugpr => "UR",
        RegFile::Upred => "UP",
    }
}

/// The variant of each component; `None` for a word the model does not have.
pub fn chosen(model: &Model, word: u128) -> Option<Vec<u16>> {
    if (word ^ model.base) & model.fixed != 0 {
        return None;
    }
    model.comps.iter().map(|comp| comp.table.get(&comp_value(&model.slots, &comp.inputs, word)).copied()).collect()
}

/// A word's class and variants.
pub fn place(learnt: &Learnt, word: u128) -> Option<(u32, Vec<u16>)> {
    let class = learnt.trees.get(&((word & 0xfff) as u16))?.find(word);
    let model = learnt.models.get(class as usize)?;
    Some((class, chosen(model, word)?))
}

/// The register slots that a text prints, in its order, without repetition.
pub fn printed(model: &Model, chosen: &[u16]) -> Vec<(RegFile, usize)> {
    let mut out: Vec<(RegFile, usize)> = Vec::new();
    for slot in every_print(model, chosen) {
        if !out.contains(&slot) {
            out.push(slot);
        }
    }
    out
}

/// The register slots that a text prints, in its order.
fn every_print(model: &Model, chosen: &[u16]) -> Vec<(RegFile, usize)> {
    let mut out = Vec::new();
    let mut token = |t: u32| {
        if t & SLOT == 0 {
            return;
        }
        let slot = (t & !SLOT) as usize;
        if let Format::Linear(kind) = model.slots[slot].format
            && let Some(file) = kind.file()
        {
            out.push((file, slot));
        }
    };
    for piece in &model.pieces {
        match *piece {
            Piece::Token(t) => token(t),
            Piece::Site(comp, site) => {
                model.comps[comp].variants[usize::from(chosen[comp])][site].iter().for_each(|&t| token(t));
            }
        }
    }
    out
}

/// The field of a slot, when it is one run of bits.
fn field(slot: &Slot) -> Option<(u8, u8)> {
    let mut bits = slot.bits.clone();
    bits.sort_unstable();
    let first = bits.first()?.0;
    let runs =
        |sign: i64| bits.iter().enumerate().all(|(i, &(bit, weight))| bit == first + i as u8 && weight == sign << i);
    let count = bits.len() as u8;
    if runs(1) && slot.add == 0 {
        Some((first, count))
    } else if runs(-1) && slot.add == (1 << count) - 1 {
        Some((first, count | INVERTED))
    } else {
        None
    }
}

impl Use {
    /// The first register in a word; `None` for the one that is always zero or true.
    fn register(&self, word: u128) -> Option<u16> {
        if self.bits == 0 {
            return Some(u16::from(self.pos));
        }
        let mask = (1u128 << (self.bits & !INVERTED)) - 1;
        let raw = word >> self.pos & mask;
        let value = if self.bits & INVERTED != 0 { mask - raw } else { raw };
        (value != mask).then_some(value as u16)
    }
}

/// nvdisasm marks R0 to R254 and UR4 to UR62 only.
fn marked(mut set: RegSet) -> RegSet {
    set.remove(RegFile::Gpr, 255);
    (0..4).chain(63..128).for_each(|index| set.remove(RegFile::Ugpr, index));
    set
}

/// What uses do in a word, as far as nvdisasm would mark it.
fn evaluate(uses: &[Use], word: u128) -> (RegSet, RegSet) {
    let (mut reads, mut writes) = (RegSet::EMPTY, RegSet::EMPTY);
    for used in uses {
        if let Some(first) = used.register(word) {
            let set = if used.write { &mut writes } else { &mut reads };
            set.insert_run(used.file, first, u16::from(used.count));
        }
    }
    (marked(reads), marked(writes))
}

/// Reads lines of word, reads, writes, text.
pub fn parse(text: &str) -> Result<Vec<Observation>> {
    let set = |names: &str| -> Result<RegSet> {
        let mut set = RegSet::EMPTY;
        for name in names.split_whitespace().filter(|name| *name != "-") {
            let at = name.find(|c: char| c.is_ascii_digit()).context("a register without a number")?;
            let file = RegFile::ALL.into_iter().find(|file| letters(*file) == &name[..at]).context("a register")?;
            set.insert(file, name[at..].parse()?);
        }
        Ok(set)
    };
    let mut out = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [word, reads, writes, text] = fields[..] else { bail!("'{line}' has not four fields") };
        let word = u128::from_str_radix(word, 16)?;
        let (mut reads, mut writes) = (set(reads)?, set(writes)?);
        // A call's row marks the calling convention, which flow knows; only its operands are its own.
        if matches!(word & 0x1ff, 0x143 | 0x144) {
            writes = RegSet::EMPTY;
            reads.remove(RegFile::Gpr, 0);
            reads.remove(RegFile::Gpr, 1);
        }
        out.push(Observation { word, reads, writes, text: text.to_owned() });
    }
    Ok(out)
}

/// What one observation says about the fields of its word; nothing where it cannot be told.
fn uses(model: &Model, chosen: &[u16], seen: &Observation) -> Vec<Use> {
    let mut fields: Vec<(RegFile, u8, u8, u16)> = Vec::new();
    for (file, slot) in printed(model, chosen) {
        // A number that is made in another way, `idesc[UR40]` being one more than `tmem[UR39]`, shows in what its neighbours do.
        let Some((pos, bits)) = field(&model.slots[slot]) else { continue };
        let probe = Use { file, pos, bits, write: false, count: 1 };
        if let Some(first) = probe.register(seen.word) {
            fields.push((file, pos, bits, first));
        }
    }
    // A register that the text names twice: which of the two is read, which written, cannot be told.
    let names = |name: &str| seen.text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| *part == name).count();
    let prints = every_print(model, chosen);
    let printed_by = |f: &(RegFile, u8, u8, u16)| {
        prints.iter().filter(|(file, slot)| *file == f.0 && field(&model.slots[*slot]) == Some((f.1, f.2))).count()
    };
    if fields.iter().any(|f| names(&format!("{}{}", letters(f.0), f.3)) > printed_by(f)) {
        return Vec::new();
    }
    let mut out = Vec::new();
    for (write, marks) in [(false, &seen.reads), (true, &seen.writes)] {
        for &(file, pos, bits, first) in &fields {
            // Another field's registers begin where it begins.
            let most = if matches!(file, RegFile::Pred | RegFile::Upred) { 1 } else { 255 };
            let end = fields.iter().filter(|f| f.0 == file && f.3 > first).map(|f| f.3).min().unwrap_or(256);
            let count = (first..end).take(most).take_while(|&index| marks.contains(file, index)).count();
            if count > 0 {
                out.push(Use { file, pos, bits, write, count: count as u8 });
            }
        }
    }
    out.sort_unstable();
    out
}

/// One word of a class: its variants, what it does, and the observation.
pub struct Example<'a> {
    pub(super) chosen: Vec<u16>,
    uses: Vec<Use>,
    pub(super) seen: &'a Observation,
}

/// One list of uses that explains all examples, if there is one.
fn merge(examples: &[&Example<'_>]) -> Option<Vec<Use>> {
    // A run may look too short where another field's registers follow, too long where they touch.
    let widest = || explain(examples, widths(examples, u8::max));
    let narrowest = || explain(examples, widths(examples, u8::min));
    widest().or_else(narrowest).or_else(|| explain(examples, marked_widths(examples)))
}

/// The fields that examples show and how many registers each means, where examples differ as `pick` says.
fn widths(examples: &[&Example<'_>], pick: fn(u8, u8) -> u8) -> Vec<Use> {
    let mut counts: BTreeMap<(RegFile, u8, u8, bool), u8> = BTreeMap::new();
    for example in examples {
        for used in &example.uses {
            let count = counts.entry((used.file, used.pos, used.bits, used.write)).or_insert(used.count);
            *count = pick(*count, used.count);
        }
    }
    counts.into_iter().map(|((file, pos, bits, write), count)| Use { file, pos, bits, write, count }).collect()
}

/// The fields that examples show, each with as many registers as are marked from its first on in every example.
fn marked_widths(examples: &[&Example<'_>]) -> Vec<Use> {
    let run = |used: &Use, example: &Example<'_>| {
        let marks = if used.write { &example.seen.writes } else { &example.seen.reads };
        let first = used.register(example.seen.word)?;
        let count = (first..255).take_while(|&index| marks.contains(used.file, index)).count();
        // A run to the end of the file may be of any width.
        (usize::from(first) + count < 255).then_some(count)
    };
    let mut fields = widths(examples, u8::max);
    for used in &mut fields {
        if used.file == RegFile::Gpr {
            let narrowest = examples.iter().filter_map(|example| run(used, example)).min();
            used.count = narrowest.and_then(|count| u8::try_from(count).ok()).unwrap_or(used.count);
        }
    }
    fields.retain(|used| used.count > 0);
    fields
}

/// The uses, and what else it takes to explain all examples, if anything does.
fn explain(examples: &[&Example<'_>], mut uses: Vec<Use>) -> Option<Vec<Use>> {
    // Where two fields had the same number, one of them may have been taken for the other: true is what holds in every word.
    uses.retain(|used| {
        examples.iter().all(|example| {
            let marks = if used.write { &example.seen.writes } else { &example.seen.reads };
            let is_marked = |first| used.file == RegFile::Ugpr || marks.contains(used.file, first);
            used.register(example.seen.word).is_none_or(is_marked)
        })
    });
    let left = |uses: &[Use], example: &Example<'_>| {
        let (reads, writes) = evaluate(uses, example.seen.word);
        let is_told =
            reads.difference(&example.seen.reads).is_empty() && writes.difference(&example.seen.writes).is_empty();
        is_told.then(|| (example.seen.reads.difference(&reads), example.seen.writes.difference(&writes)))
    };
    let rest: Vec<(RegSet, RegSet)> = examples.iter().map(|example| left(&uses, example)).collect::<Option<_>>()?;
    if rest.iter().all(|(reads, writes)| reads.is_empty() && writes.is_empty()) {
        return Some(uses);
    }
    // Predicates that a text spells out, not as a number: the field is where each word has the number that is marked.
    for file in [RegFile::Pred, RegFile::Upred] {
        for write in [false, true] {
            while let Some(found) = predicate_field(examples, &uses, file, write) {
                uses.push(found);
            }
        }
    }
    // What is left is a register that is always meant.
    let rest: Vec<(RegSet, RegSet)> = examples.iter().map(|example| left(&uses, example)).collect::<Option<_>>()?;
    let &(reads, writes) = rest.first()?;
    for (write, set) in [(false, reads), (true, writes)] {
        uses.extend(set.iter_all().map(|(file, index)| Use { file, pos: index as u8, bits: 0, write, count: 1 }));
    }
    uses.sort_unstable();
    rest.iter().all(|one| *one == (reads, writes)).then_some(uses)
}

/// A field of three bits that numbers a marked predicate in every word, or 7, and explains a mark that nothing else does.
fn predicate_field(examples: &[&Example<'_>], uses: &[Use], file: RegFile, write: bool) -> Option<Use> {
    let marks = |example: &Example<'_>| if write { example.seen.writes } else { example.seen.reads };
    let unexplained: Vec<RegSet> = examples
        .iter()
        .map(|example| {
            let (reads, writes) = evaluate(uses, example.seen.word);
            marks(example).difference(if write { &writes } else { &reads })
        })
        .collect();
    if unexplained.iter().all(|set| set.count(file) == 0) {
        return None;
    }
    let candidates =
        (GUARD..103u8).flat_map(|pos| [3, 3 | INVERTED].map(|bits| Use { file, pos, bits, write, count: 1 }));
    let explained = |used: Use| -> Option<usize> {
        let mut count = 0;
        for (example, left) in examples.iter().zip(&unexplained) {
            if let Some(index) = used.register(example.seen.word) {
                if !marks(example).contains(file, index) {
                    return None;
                }
                count += usize::from(left.contains(file, index));
            }
        }
        (count > 0).then_some(count)
    };
    candidates
        .filter_map(|used| Some((explained(used)?, used)))
        .max_by_key(|(count, used)| (*count, std::cmp::Reverse(*used)))
        .map(|(_, used)| used)
}

/// Examples of a part that questions are compared by: with all of them, thousands in some classes, it takes minutes.
const SAMPLE: usize = 200;

/// Some examples of many, from all over.
fn sample<'a, 'b>(part: &[&'a Example<'b>]) -> Vec<&'a Example<'b>> {
    part.iter().step_by(part.len().div_ceil(SAMPLE).max(1)).copied().collect()
}

/// Decides by as few components as possible.
fn grow(examples: &[&Example<'_>], model: &Model, spelt: &[bool], depth: usize, lost: &mut Vec<String>) -> Decision {
    if examples.is_empty() {
        return Decision::Unknown;
    }
    if let Some(uses) = merge(examples) {
        return Decision::Leaf(uses);
    }
    let split = |question: Question| -> BTreeMap<u16, Vec<&Example<'_>>> {
        let mut parts: BTreeMap<u16, Vec<&Example<'_>>> = BTreeMap::new();
        for &example in examples {
            parts.entry(question.answer(example)).or_default().push(example);
        }
        parts
    };
    let mut best: Option<(bool, usize, usize, Question)> = None;
    if depth < 8 {
        let components = (0..model.comps.len()).map(|comp| Question::Component(comp as u8));
        for question in components.chain(small_numbers(model).map(|(pos, bits)| Question::Field(pos, bits))) {
            let parts = split(question);
            if parts.len() < 2 {
                continue;
            }
            let mut leaves: Vec<Option<Vec<Use>>> = parts.values().map(|part| merge(&sample(part))).collect();
            let left: usize =
                parts.values().zip(&leaves).filter(|(_, leaf)| leaf.is_none()).map(|(part, _)| part.len()).sum();
            leaves.sort();
            leaves.dedup();
            // Which predicate is named says nothing about what is done with it: last resort.
            let is_spelt =
                matches!(question, Question::Component(comp) if spelt[usize::from(comp)]) || left == examples.len();
            let key = (is_spelt, left, leaves.len(), question);
            if best.is_none_or(|best| key < best) {
                best = Some(key);
            }
        }
    }
    let Some((_, _, _, question)) = best else {
        // Rows that contradict each other: what most of them say is not enough.
        lost.extend(examples.iter().map(|example| example.seen.text.clone()));
        return Decision::Unknown;
    };
    let parts = split(question);
    let count = match question {
        Question::Component(comp) => model.comps[usize::from(comp)].variants.len(),
        Question::Field(_, bits) => 1 << bits,
    };
    let children = (0..count)
        .map(|answer| {
            parts.get(&(answer as u16)).map_or(Decision::Unknown, |part| grow(part, model, spelt, depth + 1, lost))
        })
        .collect();
    match question {
        Question::Component(comp) => Decision::Switch(comp, children),
        Question::Field(pos, bits) => Decision::Field(pos, bits, children),
    }
}

/// One line of each class, calls aside: their rows mark the calling convention.
pub fn cases(learnt: &Learnt, observations: &str) -> Result<String> {
    let mut seen = std::collections::HashSet::new();
    let mut out = String::new();
    for line in observations.lines().filter(|line| !line.contains("INVALID")) {
        let word = u128::from_str_radix(line.split('\t').next().unwrap_or(""), 16)?;
        if matches!(word & 0x1ff, 0x143 | 0x144) {
            continue;
        }
        if place(learnt, word).is_some_and(|(class, _)| seen.insert(class)) {
            out.push_str(line);
            out.push('\n');
        }
    }
    Ok(out)
}

/// Whether a component's variants spell the numbers of predicates out: `P3`, `!UP0`.
fn spells_predicates(comp: &Comp, literals: &Literals) -> bool {
    let texts = comp.variants.iter().flatten().flatten().filter(|t| *t & SLOT == 0).map(|&t| literals.get(t));
    let mut words = texts.flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric()));
    words.any(|word| {
        let number = word.strip_prefix("UP").or_else(|| word.strip_prefix('P'));
        number.is_some_and(|number| number.len() == 1 && number.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// What observations say.
pub struct Decisions {
    /// By class.
    pub classes: Vec<Decision>,
    /// The texts whose rows contradict each other.
    pub lost: Vec<String>,
    /// Words whose effects the decisions leave open.
    pub gaps: Vec<u128>,
}

/// Decides what the words of each class do.
pub fn decide(learnt: &Learnt, literals: &Literals, observations: &str) -> Result<Decisions> {
    let observations = parse(observations)?;
    let mut by_class: Vec<Vec<Example<'_>>> = learnt.models.iter().map(|_| Vec::new()).collect();
    for seen in &observations {
        let Some((class, chosen)) = place(learnt, seen.word) else { continue };
        let Some(model) = learnt.models.get(class as usize) else { continue };
        let uses = uses(model, &chosen, seen);
        by_class[class as usize].push(Example { chosen, uses, seen });
    }
    let (mut lost, mut gaps) = (Vec::new(), Vec::new());
    let classes = learnt
        .models
        .iter()
        .zip(&by_class)
        .map(|(model, examples)| {
            let spelt: Vec<bool> = model.comps.iter().map(|comp| spells_predicates(comp, literals)).collect();
            let examples: Vec<&Example<'_>> = examples.iter().collect();
            let decision = grow(&examples, model, &spelt, 0, &mut lost);
            restrict::restrict(decision, &examples, model, &spelt, &mut gaps)
        })
        .collect();
    Ok(Decisions { classes, lost, gaps })
}
