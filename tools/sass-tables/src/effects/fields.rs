//! Observations, and the fields of a word that number registers.

use anyhow::{Context, Result, bail};
use ptxinspect::base::{RegFile, RegSet};

use crate::edit::SLOT;
use crate::model::{Model, Piece, comp_value};
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

/// Added to the number of bits of a field that holds the complement of a register's number.
pub const INVERTED: u8 = 0x80;

/// What nvdisasm marked beside a word.
pub struct Observation {
    pub word: u128,
    pub reads: RegSet,
    pub writes: RegSet,
    pub text: String,
}

/// A number of a few bits that a text prints, in one run of bits or two: the mask of a texture fetch, of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Number {
    /// Lowest bit and number of bits of its low part.
    pub low: (u8, u8),
    /// The same of the part above; no bits where there is none.
    pub high: (u8, u8),
}

impl Number {
    fn of(slot: &Slot) -> Option<Number> {
        if slot.format != Format::Linear(Kind::Hex) || slot.bits.len() > 8 || slot.add != 0 {
            return None;
        }
        let is_next = |pair: &[(u8, i64)]| pair[1].0 == pair[0].0 + 1;
        let split = slot.bits.windows(2).position(|pair| !is_next(pair)).map_or(slot.bits.len(), |at| at + 1);
        let (low, high) = slot.bits.split_at(split);
        let is_number = slot.bits.iter().enumerate().all(|(i, &(_, weight))| weight == 1 << i);
        let run = |bits: &[(u8, i64)]| (bits.first().map_or(0, |bit| bit.0), bits.len() as u8);
        (is_number && high.windows(2).all(is_next)).then(|| Number { low: run(low), high: run(high) })
    }

    /// How many values it has.
    pub fn count(self) -> usize {
        1 << (self.low.1 + self.high.1)
    }

    pub fn get(self, word: u128) -> u16 {
        let part = |(pos, bits): (u8, u8)| word >> pos & ((1 << bits) - 1);
        (part(self.low) | part(self.high) << self.low.1) as u16
    }

    pub fn put(self, word: u128, value: u16) -> u128 {
        let part = |word: u128, (pos, bits): (u8, u8), value: u16| {
            let ones = (1u128 << bits) - 1;
            word & !(ones << pos) | (u128::from(value) & ones) << pos
        };
        part(part(word, self.low, value), self.high, value >> self.low.1)
    }
}

/// The numbers of at most eight bits that a model's texts may print.
pub fn small_numbers(model: &Model) -> impl Iterator<Item = Number> + '_ {
    model.slots.iter().filter_map(Number::of)
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
pub fn every_print(model: &Model, chosen: &[u16]) -> Vec<(RegFile, usize)> {
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
pub fn field(slot: &Slot) -> Option<(u8, u8)> {
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
    pub fn register(&self, word: u128) -> Option<u16> {
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
pub fn marked(mut set: RegSet) -> RegSet {
    set.remove(RegFile::Gpr, 255);
    (0..4).chain(63..128).for_each(|index| set.remove(RegFile::Ugpr, index));
    set
}

/// What uses do in a word, as far as nvdisasm would mark it.
pub fn evaluate(uses: &[Use], word: u128) -> (RegSet, RegSet) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_in_two_places_is_put_where_it_is_got() {
        let bits = [59, 60, 61, 62, 63, 88, 89, 90].into_iter().zip((0..8).map(|i| 1 << i)).collect();
        let number = Number::of(&Slot { format: Format::Linear(Kind::Hex), bits, add: 0 }).unwrap();
        assert_eq!((number.low, number.high, number.count()), ((59, 5), (88, 3), 256));
        assert_eq!(number.put(0, 0xa1), 1 << 59 | 0b101 << 88);
        assert!((0..256).all(|value| number.get(number.put(u128::MAX, value)) == value));
    }
}
