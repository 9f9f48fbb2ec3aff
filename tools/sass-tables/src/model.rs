//! The model of a class: literals, number slots, and components that choose pieces of text.

use std::collections::{BTreeMap, HashMap};

use crate::edit::{Edit, SLOT};
use crate::slot::{Format, Slot};
use crate::text::Kind;

/// Literals by number.
#[derive(Default)]
pub struct Literals {
    list: Vec<String>,
    map: HashMap<String, u32>,
}

impl Literals {
    pub fn id(&mut self, text: &str) -> u32 {
        if let Some(&id) = self.map.get(text) {
            return id;
        }
        let id = self.list.len() as u32;
        self.list.push(text.to_owned());
        self.map.insert(text.to_owned(), id);
        id
    }
    pub fn get(&self, id: u32) -> &str {
        &self.list[id as usize]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Test {
    Eq(i64),
    Pow2,
}

/// What a component looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Input {
    Bit(u8),
    /// A test of a slot's value.
    Feature(usize, Test),
}

#[derive(Clone, Debug)]
pub struct Comp {
    pub inputs: Vec<Input>,
    /// Value of the inputs → number of the variant; what is absent is illegal.
    pub table: BTreeMap<u64, u16>,
    /// For each variant, for each site, the tokens printed there.
    pub variants: Vec<Vec<Vec<u32>>>,
    /// Ranges of the base text that this component decides.
    pub sites: Vec<(usize, usize)>,
}

/// Part of the final text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Token(u32),
    Site(usize, usize),
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub base: u128,
    pub fixed: u128,
    pub slots: Vec<Slot>,
    pub comps: Vec<Comp>,
    pub pieces: Vec<Piece>,
}

pub fn input_value(slots: &[Slot], input: Input, word: u128) -> bool {
    match input {
        Input::Bit(bit) => word >> bit & 1 == 1,
        Input::Feature(slot, Test::Eq(value)) => slots[slot].eval(word) == value,
        Input::Feature(slot, Test::Pow2) => {
            let value = slots[slot].eval(word);
            value > 0 && value & (value - 1) == 0
        }
    }
}

pub fn comp_value(slots: &[Slot], inputs: &[Input], word: u128) -> u64 {
    inputs.iter().enumerate().fold(0, |v, (i, &input)| v | u64::from(input_value(slots, input, word)) << i)
}

/// Raw bits for a slot that are not special and give a number that no slot of its kind has in this word.
pub fn neutral(slots: &[Slot], slot: usize, word: u128) -> u128 {
    let mine = &slots[slot];
    let bits = mine.bits.len() as u32;
    let (first, step, count) = match mine.format {
        Format::Linear(Kind::R) => (8, 24, 9),
        Format::Linear(Kind::Ur) => (4, 4, 12),
        Format::Linear(Kind::P | Kind::Up) => (1, 1, 6),
        Format::Linear(Kind::Hex) if bits > 6 => (0x14, 0x18, 4),
        _ => (3, 1, 4),
    };
    let mask = (1 << bits.min(100)) - 1;
    let candidates = (0..count).map(|i| (first + step * i) & mask);
    let taken = |raw: &u128| {
        let value = mine.eval(mine.put(word, *raw));
        slots.iter().enumerate().any(|(i, s)| i != slot && s.format == mine.format && s.eval(word) == value)
    };
    candidates.clone().find(|raw| !taken(raw)).or_else(|| candidates.clone().next()).unwrap_or(3)
}

/// A word in which the inputs have this value; `None` when no word has.
pub fn comp_word(slots: &[Slot], inputs: &[Input], base: u128, value: u64) -> Option<u128> {
    let mut word = base;
    for pass in 0..4 {
        for (i, &input) in inputs.iter().enumerate() {
            let on = value >> i & 1 == 1;
            match (input, pass) {
                // Out of the special value first: the base itself may have it.
                (Input::Feature(slot, _), 0) if !on && input_value(slots, input, word) => {
                    word = slots[slot].put(word, neutral(slots, slot, word));
                }
                (Input::Feature(slot, Test::Pow2), 1) if on => word = slots[slot].set(word, 16)?,
                (Input::Feature(slot, Test::Eq(v)), 2) if on => word = slots[slot].set(word, v)?,
                (Input::Bit(bit), 3) => word = word & !(1 << bit) | u128::from(on) << bit,
                _ => {}
            }
        }
    }
    (comp_value(slots, inputs, word) == value).then_some(word)
}

impl Model {
    /// The text the model gives a word; `None` where it calls the word illegal.
    pub fn predict(&self, lits: &Literals, urz: i64, word: u128, out: &mut String) -> bool {
        out.clear();
        if (word ^ self.base) & self.fixed != 0 {
            return false;
        }
        let mut chosen = Vec::with_capacity(self.comps.len());
        for comp in &self.comps {
            match comp.table.get(&comp_value(&self.slots, &comp.inputs, word)) {
                Some(&variant) => chosen.push(variant as usize),
                None => return false,
            }
        }
        let token = |t: u32, out: &mut String| {
            if t & SLOT != 0 {
                self.slots[(t & !SLOT) as usize].spell(word, urz, out);
            } else {
                out.push_str(lits.get(t));
            }
        };
        for piece in &self.pieces {
            match *piece {
                Piece::Token(t) => token(t, out),
                Piece::Site(comp, site) => {
                    for &t in &self.comps[comp].variants[chosen[comp]][site] {
                        token(t, out);
                    }
                }
            }
        }
        true
    }
}

/// A component from what each of its values does to the text.
pub fn make_comp(inputs: Vec<Input>, canon: &[u32], found: Vec<(u64, Vec<Edit>)>) -> Comp {
    // The union of all edited ranges, overlapping and touching ones joined.
    let mut ranges: Vec<(usize, usize)> =
        found.iter().flat_map(|(_, edits)| edits.iter().map(|e| (e.start, e.end))).collect();
    ranges.sort_unstable();
    ranges.dedup();
    let mut sites: Vec<(usize, usize)> = Vec::new();
    for range in ranges {
        match sites.last_mut() {
            Some(last) if range.0 <= last.1 => last.1 = last.1.max(range.1),
            _ => sites.push(range),
        }
    }
    let mut variants: Vec<Vec<Vec<u32>>> = Vec::new();
    let mut index: HashMap<Vec<Vec<u32>>, u16> = HashMap::new();
    let mut table = BTreeMap::new();
    for (value, edits) in found {
        let mut texts = Vec::with_capacity(sites.len());
        for &(start, end) in &sites {
            let mut text = Vec::new();
            let mut at = start;
            for edit in edits.iter().filter(|e| e.start >= start && e.end <= end) {
                text.extend_from_slice(&canon[at..edit.start.max(at)]);
                text.extend_from_slice(&edit.new);
                at = at.max(edit.end);
            }
            text.extend_from_slice(&canon[at..end]);
            texts.push(text);
        }
        let next = variants.len() as u16;
        let id = *index.entry(texts.clone()).or_insert(next);
        if id == next {
            variants.push(texts);
        }
        table.insert(value, id);
    }
    Comp { inputs, table, variants, sites }
}
