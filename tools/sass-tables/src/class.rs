//! Learning one class of encodings: an opcode and the words nvdisasm groups with each other under it.
//!
//! In: some words of the class. Out: a [`Model`] that predicts the text of every word of the class, made of literals,
//! number slots, and components: small sets of bits (and tests of slots) that choose a piece of text together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::edit::{Edit, Merged, SLOT, edits, merge};
use crate::oracle::{Oracle, Pending};
use crate::slot::{Format, Slot};
use crate::text::{Kind, Token, split_guard, tokens};

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

pub struct Cx<'a> {
    pub oracle: &'a mut Oracle,
    pub lits: &'a mut Literals,
    pub urz: i64,
}

/// Bits a probe may flip: all but the opcode and the scheduling control.
pub fn free_bits() -> impl Iterator<Item = u8> {
    (12..105).chain(122..128)
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
fn neutral(slots: &[Slot], slot: usize, word: u128) -> u128 {
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
fn comp_word(slots: &[Slot], inputs: &[Input], base: u128, value: u64) -> Option<u128> {
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

pub struct Class {
    pub label: u32,
    pub opcode: u16,
    /// Words of the class seen in real code.
    pub corpus: Vec<u128>,
    queue: Vec<u128>,
    structures: BTreeSet<String>,
    next: usize,
    spread: Vec<u128>,
    pub slots: Vec<Slot>,
    samples: Vec<(u128, i64)>,
    bases: Vec<u128>,
    inputs: Vec<Input>,
    groups: Vec<Vec<usize>>,
    before: BTreeSet<(Input, Input)>,
    fixed: u128,
    pub model: Model,
    pub stage: u8,
    tests: Vec<u128>,
    pub loops: usize,
    pub failures: Vec<u128>,
    pub dead: Option<&'static str>,
    rng: u64,
    stale: usize,
}

const MAX_STRUCTURES: usize = 8;
const MAX_DENSE: usize = 12;
const MAX_LOOPS: usize = 24;

fn all_tokens(text: &str, urz: i64) -> (Vec<Token>, usize) {
    let (guard, rest) = split_guard(text);
    let mut out = Vec::new();
    if let Some(body) = guard.strip_prefix('@') {
        out.push(Token::Lit("@".into()));
        let body = body.trim_end();
        let (negate, name) = body.strip_prefix('!').map_or((false, body), |n| (true, n));
        if negate {
            out.push(Token::Lit("!".into()));
        }
        let (kind, number) = name.strip_prefix("UP").map_or((Kind::P, name.trim_start_matches('P')), |n| (Kind::Up, n));
        let value = if number == "T" { 7 } else { number.parse().unwrap_or(7) };
        out.push(Token::Num(kind, value));
        out.push(Token::Lit(" ".into()));
    }
    let guard_len = out.len();
    out.extend(tokens(rest, urz));
    (out, guard_len)
}

fn structure(tokens: &[Token], guard: usize) -> String {
    let mut out = String::new();
    for token in &tokens[guard..] {
        match token {
            Token::Lit(s) if s.starts_with('.') => {}
            Token::Lit(s) => out.push_str(s),
            Token::Num(kind, _) => out.push_str(&format!("<{kind:?}>")),
            Token::Float(_) => out.push_str("<F>"),
        }
    }
    out
}

impl Class {
    pub fn new(label: u32, opcode: u16, corpus: Vec<u128>, extra: &[u128]) -> Class {
        let queue: Vec<u128> = corpus.iter().chain(extra).copied().collect();
        Class {
            label,
            opcode,
            rng: queue.first().map_or(1, |w| (*w as u64) ^ (*w >> 64) as u64 | 1),
            corpus,
            queue,
            structures: BTreeSet::new(),
            next: 0,
            spread: Vec::new(),
            slots: Vec::new(),
            samples: Vec::new(),
            bases: Vec::new(),
            inputs: Vec::new(),
            groups: Vec::new(),
            before: BTreeSet::new(),
            fixed: 0,
            model: Model::default(),
            stage: 0,
            tests: Vec::new(),
            loops: 0,
            failures: Vec::new(),
            dead: None,
            stale: 0,
        }
    }

    pub fn done(&self) -> bool {
        self.stage >= 5 || self.dead.is_some()
    }

    /// How many structures to look at: fewer for classes that real code does not have.
    fn limit(&self) -> usize {
        if self.corpus.is_empty() { 3 } else { MAX_STRUCTURES }
    }

    /// At how many bases to try pairs.
    fn depth(&self) -> usize {
        if self.corpus.is_empty() { 1 } else { 2 }
    }

    fn random(&mut self) -> u64 {
        self.rng ^= self.rng << 13;
        self.rng ^= self.rng >> 7;
        self.rng ^= self.rng << 17;
        self.rng.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Goes on until an answer is missing or the class is learnt.
    pub fn step(&mut self, cx: &mut Cx<'_>) -> Result<(), Pending> {
        while !self.done() {
            match self.stage {
                0 => self.choose_seeds(cx)?,
                1 => self.discover(cx)?,
                2 => self.spread_bases(cx)?,
                3 => self.find_inputs(cx)?,
                _ => self.refine(cx)?,
            }
            if self.stage < 4 || self.dead.is_some() {
                self.stage += 1;
            }
        }
        Ok(())
    }

    fn same_class(&self, cx: &Cx<'_>, word: u128) -> bool {
        word as u16 & 0xfff == self.opcode && cx.oracle.label(word) == Some(self.label)
    }

    fn choose_seeds(&mut self, cx: &mut Cx<'_>) -> Result<(), Pending> {
        let words = std::mem::take(&mut self.queue);
        let words_ok = cx.oracle.texts(&words);
        if words_ok.is_err() {
            self.queue = words;
            return Err(Pending);
        }
        let mut best: BTreeMap<String, (usize, u128)> = BTreeMap::new();
        for &word in &words {
            let Some(Some(text)) = cx.oracle.known(word) else { continue };
            let (tokens, guard) = all_tokens(text, cx.urz);
            let name = structure(&tokens, guard);
            // Prefer the word with the fewest special numbers.
            let special = tokens
                .iter()
                .filter(|t| matches!(t, Token::Num(Kind::R, 255) | Token::Num(Kind::P, 7) | Token::Num(Kind::Hex, 0)))
                .count();
            let score = 1000 + tokens.len() - 20 * special.min(40);
            let entry = best.entry(name).or_insert((0, word));
            if score > entry.0 {
                *entry = (score, word);
            }
        }
        if best.is_empty() {
            self.dead = Some("no legal word");
            return Ok(());
        }
        let mut list: Vec<(String, (usize, u128))> = best.into_iter().collect();
        list.sort_by_key(|(_, (score, word))| (std::cmp::Reverse(*score), *word));
        list.truncate(self.limit());
        // The same words with a guard, so that its slot is seen even where real code has none.
        let guarded: Vec<u128> = list.iter().take(3).map(|(_, (_, w))| w & !(0xf << 12) | 1 << 12).collect();
        if self.ask(cx, &guarded).is_err() {
            self.queue = words;
            return Err(Pending);
        }
        for word in guarded {
            if cx.oracle.known(word).flatten().is_some() && self.same_class(cx, word) {
                self.queue.push(word);
            }
        }
        for (name, (_, word)) in list.into_iter().take(self.limit()) {
            self.structures.insert(name);
            self.queue.push(word);
        }
        Ok(())
    }

    fn flips(word: u128) -> Vec<u128> {
        std::iter::once(word).chain(free_bits().map(|bit| word ^ 1 << bit)).collect()
    }

    /// Flips every bit of every seed; numbers that change give slots, new structures give seeds.
    fn discover(&mut self, cx: &mut Cx<'_>) -> Result<(), Pending> {
        while self.next < self.queue.len() {
            let mut wait = Ok(());
            for &word in &self.queue[self.next..] {
                wait = wait.and(cx.oracle.texts(&Self::flips(word)));
            }
            wait?;
            let mut wait = Ok(());
            let batch: Vec<u128> = self.queue[self.next..].to_vec();
            let mut fresh: Vec<(String, u128)> = Vec::new();
            for &word in &batch {
                for flip in Self::flips(word) {
                    let Some(Some(text)) = cx.oracle.known(flip) else { continue };
                    let (tokens, guard) = all_tokens(text, cx.urz);
                    let name = structure(&tokens, guard);
                    if !self.structures.contains(&name) {
                        wait = wait.and(cx.oracle.labels(&[flip]));
                        fresh.push((name, flip));
                    }
                }
            }
            wait?;
            for &word in &batch {
                self.absorb(cx, word);
            }
            self.next = self.queue.len();
            for (name, flip) in fresh {
                if self.queue.len() < self.limit() && self.same_class(cx, flip) && self.structures.insert(name) {
                    self.queue.push(flip);
                }
            }
        }
        Ok(())
    }

    /// Learns slots from the flips of one word, whose texts are all known.
    fn absorb(&mut self, cx: &Cx<'_>, word: u128) {
        let Some(Some(text)) = cx.oracle.known(word) else { return };
        let (base, _) = all_tokens(text, cx.urz);
        let mut weights: Vec<Vec<(u8, i64)>> = vec![Vec::new(); base.len()];
        let mut floats: Vec<Vec<(u8, String)>> = vec![Vec::new(); base.len()];
        for bit in free_bits() {
            let flip = word ^ 1 << bit;
            let Some(Some(text)) = cx.oracle.known(flip) else { continue };
            let (other, _) = all_tokens(text, cx.urz);
            if other.len() != base.len() {
                continue;
            }
            let same = base.iter().zip(&other).all(|(a, b)| match (a, b) {
                (Token::Num(x, _), Token::Num(y, _)) => x == y,
                (Token::Float(_), Token::Float(_)) => true,
                _ => a == b,
            });
            if !same {
                continue;
            }
            let changed: Vec<usize> = (0..base.len()).filter(|&i| base[i] != other[i]).collect();
            // A bit that moves many numbers at once is a modifier (of a float format, say), not part of a number; unless it
            // moves them alike: `tmem[UR32], idesc[UR33]`.
            let delta = |i: usize| match (&base[i], &other[i]) {
                (Token::Num(kind, a), Token::Num(_, b)) => Some((*kind, b.wrapping_sub(*a))),
                _ => None,
            };
            if changed.len() > 1 && changed.iter().any(|&i| delta(i).is_none() || delta(i) != delta(changed[0])) {
                continue;
            }
            for &i in &changed {
                match (&base[i], &other[i]) {
                    (Token::Num(_, a), Token::Num(_, b)) => {
                        let delta = b.wrapping_sub(*a);
                        weights[i].push((bit, if flip >> bit & 1 == 1 { delta } else { delta.wrapping_neg() }));
                    }
                    (Token::Float(_), Token::Float(b)) => floats[i].push((bit, b.clone())),
                    _ => {}
                }
            }
        }
        for (i, token) in base.iter().enumerate() {
            match token {
                Token::Num(kind, value) if !weights[i].is_empty() => {
                    let mut slot = Slot { format: Format::Linear(*kind), bits: weights[i].clone(), add: 0 };
                    slot.add = value.wrapping_sub(slot.eval(word));
                    self.add_slot(slot, word, *value);
                }
                Token::Float(text) if !floats[i].is_empty() => {
                    let Some(slot) = float_slot(word, text, &floats[i], cx.urz) else { continue };
                    // A modifier may turn halves into bfloats: keep the other reading at hand.
                    let twin = match slot.format {
                        Format::F16 => Some(Format::Bf16),
                        Format::Bf16 => Some(Format::F16),
                        _ => None,
                    };
                    let twin = twin.map(|format| Slot { format, ..slot.clone() });
                    for slot in [Some(slot), twin].into_iter().flatten() {
                        if !self.slots.contains(&slot) {
                            self.slots.push(slot);
                            self.samples.push((word, 0));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn add_slot(&mut self, slot: Slot, word: u128, value: i64) {
        // Weights of one number are distinct; a bit that alone gives an odd jump is a modifier.
        for (mine, sample) in self.slots.iter_mut().zip(&self.samples) {
            if mine.format != slot.format {
                continue;
            }
            let shared: Vec<bool> = slot
                .bits
                .iter()
                .filter_map(|(bit, w)| mine.bits.iter().find(|(b, _)| b == bit).map(|(_, x)| x == w))
                .collect();
            if shared.is_empty() || shared.contains(&false) {
                continue;
            }
            let mut union = mine.clone();
            for &(bit, weight) in &slot.bits {
                if !union.bits.iter().any(|(b, _)| *b == bit) {
                    union.bits.push((bit, weight));
                }
            }
            union.bits.sort_unstable();
            union.add = 0;
            let add = value.wrapping_sub(union.eval(word));
            if add == sample.1.wrapping_sub(union.eval(sample.0)) {
                union.add = add;
                *mine = union;
                return;
            }
        }
        self.slots.push(slot);
        self.samples.push((word, value));
    }

    /// The slots that print something in a word.
    fn visible(&self, cx: &mut Cx<'_>, word: u128) -> Vec<usize> {
        self.canon(cx, word)
            .unwrap_or_default()
            .iter()
            .filter(|t| **t & SLOT != 0)
            .map(|t| (t & !SLOT) as usize)
            .collect()
    }

    /// The text of a word with each number replaced by the slot that explains it.
    fn canon(&self, cx: &mut Cx<'_>, word: u128) -> Option<Vec<u32>> {
        let text = cx.oracle.known(word)??;
        let (tokens, _) = all_tokens(text, cx.urz);
        let mut out = Vec::with_capacity(tokens.len());
        let mut used = 0u64;
        let mut last = 0usize;
        for token in &tokens {
            if let Token::Lit(s) = token {
                out.push(cx.lits.id(s));
                continue;
            }
            // Prefer slots in the order of their appearance so far: equal numbers are told apart by place.
            let mut found = None;
            let mut again = None;
            for (i, slot) in self.slots.iter().enumerate() {
                if !slot.explains(word, token, cx.urz) {
                    continue;
                }
                if used >> i & 1 == 1 {
                    again = again.or(Some(i));
                } else if i >= last {
                    found = Some(i);
                    break;
                } else {
                    found = found.or(Some(i));
                }
            }
            let found = found.or(again);
            match found {
                Some(i) => {
                    used |= 1 << i;
                    last = i;
                    out.push(SLOT | i as u32);
                }
                None => {
                    let mut text = String::new();
                    match token {
                        Token::Num(kind, value) => {
                            Slot { format: Format::Linear(*kind), bits: Vec::new(), add: *value }
                                .spell(0, cx.urz, &mut text);
                        }
                        Token::Float(s) | Token::Lit(s) => text.push_str(s),
                    }
                    out.push(cx.lits.id(&text));
                }
            }
        }
        Some(out)
    }

    fn spread_value(&self, slot: usize, rank: usize, narrow: bool) -> u128 {
        let bits = self.slots[slot].bits.len() as u32;
        let rank = rank as u128;
        let value = match self.slots[slot].format {
            Format::Linear(Kind::R) => 8 + rank * if narrow { 8 } else { 24 },
            Format::Linear(Kind::Ur) => 4 + 4 * rank,
            Format::Linear(Kind::P | Kind::Up) => (rank + 1) % 7,
            Format::Linear(Kind::B | Kind::Sb) => 1 + rank,
            Format::Linear(Kind::Hex) if bits > 6 => 0x14 + 0x18 * rank,
            Format::Linear(Kind::Target) => 0x50,
            Format::Linear(_) => 3 + rank,
            Format::F32 => 0x3dcc_cccd + (rank << 20),
            Format::F64High => 0x3fb9_9999 + (rank << 16),
            Format::F16 => 0x2e66 + (rank << 9),
            Format::Bf16 => 0x3dcd + (rank << 6),
        };
        value & ((1 << bits.min(100)) - 1)
    }

    /// Moves each seed to numbers that are distinct and not special, where such a word is legal.
    fn spread_bases(&mut self, cx: &mut Cx<'_>) -> Result<(), Pending> {
        let seeds = self.queue.clone();
        let mut wait = Ok(());
        let mut plans: Vec<(u128, Vec<u128>)> = Vec::new();
        for &seed in &seeds {
            let visible = self.visible(cx, seed);
            let mut candidates = Vec::new();
            for attempt in 0..3u32 {
                let mut word = seed;
                let mut ranks: HashMap<Format, usize> = HashMap::new();
                for &slot in &visible {
                    let rank = ranks.entry(self.slots[slot].format).or_default();
                    let raw = self.spread_value(slot, *rank, attempt == 1);
                    *rank += 1;
                    let is_float = !matches!(self.slots[slot].format, Format::Linear(_));
                    let is_hex = matches!(self.slots[slot].format, Format::Linear(Kind::Hex | Kind::Set));
                    if attempt == 2 && (is_float || is_hex) {
                        continue;
                    }
                    word = self.slots[slot].put(word, raw);
                }
                candidates.push(word);
            }
            // One slot at a time, for seeds that bear no more.
            let mut single = seed;
            for &slot in &visible {
                let rank = visible.iter().position(|s| *s == slot).unwrap_or(0);
                let moved = self.slots[slot].put(single, self.spread_value(slot, rank, true));
                wait = wait.and(cx.oracle.texts(&[moved])).and(cx.oracle.labels(&[moved]));
                if cx.oracle.known(moved).flatten().is_some() && self.same_class(cx, moved) {
                    single = moved;
                }
            }
            candidates.push(single);
            candidates.push(seed);
            wait = wait.and(cx.oracle.texts(&candidates)).and(cx.oracle.labels(&candidates));
            plans.push((seed, candidates));
        }
        wait?;
        self.spread.clear();
        for (_, candidates) in plans {
            let good =
                candidates.into_iter().find(|&w| cx.oracle.known(w).flatten().is_some() && self.same_class(cx, w));
            if let Some(word) = good
                && !self.spread.contains(&word)
            {
                self.spread.push(word);
            }
        }
        if self.spread.is_empty() {
            self.dead = Some("no base");
        }
        Ok(())
    }

    fn features(&self, slot: usize, urz: i64) -> Vec<Input> {
        let Format::Linear(kind) = self.slots[slot].format else { return Vec::new() };
        let tests: &[Test] = match kind {
            Kind::R => &[Test::Eq(255)],
            Kind::Ur => &[Test::Eq(if urz == 63 { 63 } else { 255 })],
            Kind::P | Kind::Up => &[Test::Eq(7)],
            Kind::Hex if self.slots[slot].bits.len() == 32 => &[Test::Eq(0), Test::Eq(1), Test::Pow2],
            Kind::Hex => &[Test::Eq(0)],
            Kind::Set => &[Test::Eq(0)],
            Kind::B | Kind::Sb | Kind::Target => &[],
        };
        let can = |t: &Test| {
            let value = match t {
                Test::Eq(v) => *v,
                Test::Pow2 => 16,
            };
            self.slots[slot].set(0, value).is_some()
        };
        tests.iter().filter(|t| can(t)).map(|t| Input::Feature(slot, *t)).collect()
    }

    fn apply(&self, input: Input, word: u128) -> u128 {
        match input {
            Input::Bit(bit) => word ^ 1 << bit,
            Input::Feature(slot, Test::Eq(value)) => self.slots[slot].set(word, value).unwrap_or(word),
            Input::Feature(slot, Test::Pow2) => self.slots[slot].set(word, 16).unwrap_or(word),
        }
    }

    /// Which bits and tests change the text, and which of them only together.
    fn find_inputs(&mut self, cx: &mut Cx<'_>) -> Result<(), Pending> {
        let spread = self.spread.clone();
        let mut wait = Ok(());
        for &word in &spread {
            wait = wait.and(cx.oracle.texts(&Self::flips(word)));
        }
        wait?;
        for &word in &spread {
            self.absorb(cx, word);
        }
        if self.slots.len() > 60 {
            self.slots.truncate(60);
            self.samples.truncate(60);
        }
        // The richest word is the base.
        let mut order: Vec<(usize, usize, u128)> = Vec::new();
        for &word in &spread {
            let canon = self.canon(cx, word).unwrap_or_default();
            order.push((canon.iter().filter(|t| **t & SLOT != 0).count(), canon.len(), word));
        }
        order.sort_by_key(|&(slots, len, word)| (std::cmp::Reverse((slots, len)), word));
        self.bases = order.into_iter().map(|(_, _, word)| word).collect();

        let mut slot_bits = 0u128;
        for slot in &self.slots {
            slot_bits |= slot.mask();
        }
        let bases = self.bases.clone();
        let mut bits: BTreeSet<u8> = BTreeSet::new();
        let mut quiet: BTreeSet<u8> = BTreeSet::new();
        let mut ask = Vec::new();
        for &base in &bases {
            let canon = self.canon(cx, base);
            for bit in free_bits() {
                let flip = base ^ 1 << bit;
                if let Some(other) = self.canon(cx, flip)
                    && Some(&other) != canon.as_ref()
                {
                    ask.push(flip);
                }
            }
        }
        cx.oracle.labels(&ask)?;
        for &base in &bases {
            let canon = self.canon(cx, base);
            for bit in free_bits() {
                let flip = base ^ 1 << bit;
                let Some(other) = self.canon(cx, flip) else { continue };
                let in_slot = |text: &[u32]| {
                    text.iter().any(|t| t & SLOT != 0 && self.slots[(t & !SLOT) as usize].mask() >> bit & 1 == 1)
                };
                let number = slot_bits >> bit & 1 == 1 && (in_slot(&other) || canon.as_deref().is_some_and(in_slot));
                if Some(&other) == canon.as_ref() {
                    quiet.insert(bit);
                } else if !number && self.same_class(cx, flip) {
                    bits.insert(bit);
                }
            }
        }
        // Bits that real words of the class have both ways are inputs even where one flip is illegal.
        let mut ones = 0u128;
        let mut zeros = 0u128;
        for &word in self.corpus.iter().chain(&self.queue) {
            ones |= word;
            zeros |= !word;
        }
        for bit in free_bits() {
            let both = ones >> bit & zeros >> bit & 1 == 1;
            if both && slot_bits >> bit & 1 == 0 && !quiet.contains(&bit) {
                bits.insert(bit);
            }
        }
        // Bits whose flip alone is illegal may be legal together with another.
        let shy: Vec<u8> = free_bits()
            .filter(|bit| !bits.contains(bit) && !quiet.contains(bit) && slot_bits >> bit & 1 == 0)
            .collect();
        let others: Vec<u8> = shy.iter().chain(&bits).copied().collect();
        let mut couples: Vec<(u8, u8, u128)> = Vec::new();
        for (i, &a) in shy.iter().enumerate() {
            for &b in &others[i + 1..] {
                couples.push((a, b, bases[0] ^ 1 << a ^ 1 << b));
            }
        }
        let words: Vec<u128> = couples.iter().map(|c| c.2).collect();
        cx.oracle.texts(&words)?;
        couples.retain(|c| cx.oracle.known(c.2).flatten().is_some());
        let words: Vec<u128> = couples.iter().map(|c| c.2).collect();
        cx.oracle.labels(&words)?;
        for (a, b, word) in couples {
            if self.same_class(cx, word) {
                bits.extend([a, b]);
            }
        }
        self.fixed = 0;
        for bit in free_bits() {
            if !bits.contains(&bit) && !quiet.contains(&bit) && slot_bits >> bit & 1 == 0 {
                self.fixed |= 1 << bit;
            }
        }
        let mut features: BTreeSet<Input> = BTreeSet::new();
        for &base in &bases {
            for slot in self.visible(cx, base) {
                features.extend(self.features(slot, cx.urz));
            }
        }
        let inputs: Vec<Input> = bits.iter().map(|&b| Input::Bit(b)).chain(features).collect();

        // Pairs at a few bases.
        let mut wait = Ok(());
        for &base in bases.iter().take(self.depth()) {
            let singles: Vec<u128> = inputs.iter().map(|&i| self.apply(i, base)).collect();
            wait = wait.and(cx.oracle.texts(&singles));
            let mut words = Vec::new();
            for (i, &a) in inputs.iter().enumerate() {
                for &b in &inputs[i + 1..] {
                    words.push(self.apply(b, self.apply(a, base)));
                }
            }
            wait = wait.and(cx.oracle.texts(&words));
        }
        wait?;
        let mut union = UnionFind::new(inputs.len());
        let mut effect = vec![false; inputs.len()];
        let mut before: BTreeSet<(Input, Input)> = BTreeSet::new();
        let mut soft: Vec<(usize, usize)> = Vec::new();
        let mut doubtful: Vec<(usize, usize, u128)> = Vec::new();
        for (rank, &base) in bases.iter().take(self.depth()).enumerate() {
            let Some(canon) = self.canon(cx, base) else { continue };
            let single: Vec<Option<Vec<Edit>>> =
                inputs.iter().map(|&i| self.canon(cx, self.apply(i, base)).map(|c| edits(&canon, &c))).collect();
            for (i, e) in single.iter().enumerate() {
                if e.as_ref().is_none_or(|e| !e.is_empty()) {
                    effect[i] = true;
                }
            }
            for i in 0..inputs.len() {
                for j in i + 1..inputs.len() {
                    let both = self.apply(inputs[j], self.apply(inputs[i], base));
                    let seen = self.canon(cx, both);
                    let (Some(a), Some(b)) = (&single[i], &single[j]) else {
                        if seen.is_some() {
                            doubtful.push((i, j, both));
                        }
                        continue;
                    };
                    let Some(seen) = seen else {
                        soft.push((i, j));
                        continue;
                    };
                    match merge(&canon, a, b) {
                        Merged::One(text) if text == seen => {}
                        Merged::Either(x, _) if x == seen => {
                            if rank == 0 {
                                before.insert((inputs[i], inputs[j]));
                            }
                        }
                        Merged::Either(_, y) if y == seen => {
                            if rank == 0 {
                                before.insert((inputs[j], inputs[i]));
                            }
                        }
                        _ => doubtful.push((i, j, both)),
                    }
                }
            }
        }
        let words: Vec<u128> = doubtful.iter().map(|d| d.2).collect();
        cx.oracle.labels(&words)?;
        for (i, j, word) in doubtful {
            if self.same_class(cx, word) && (union.find(i) == union.find(j) || union.size(i) + union.size(j) <= 60) {
                union.join(i, j);
                effect[i] = true;
                effect[j] = true;
            }
        }
        for (i, j) in soft {
            if effect[i] && effect[j] && union.size(i) + union.size(j) <= 8 && union.find(i) != union.find(j) {
                union.join(i, j);
            }
        }
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut kept: Vec<Input> = Vec::new();
        for (i, &input) in inputs.iter().enumerate() {
            if effect[i] {
                groups.entry(union.find(i)).or_default().push(kept.len());
                kept.push(input);
            }
        }
        self.before = before;
        if std::env::var_os("SASS_DEBUG").is_some() {
            for g in groups.values().filter(|g| g.len() > MAX_DENSE) {
                let list: Vec<Input> = g.iter().map(|&i| kept[i]).collect();
                eprintln!("large: {:03x} {} {list:?}", self.opcode, cx.oracle.name(self.label));
            }
        }
        self.inputs = kept;
        self.groups = groups.into_values().collect();
        Ok(())
    }

    /// Observed values of an over-large group of inputs.
    fn observed(&self, cx: &Cx<'_>, inputs: &[Input], base: u128) -> Vec<u64> {
        let mut values: BTreeSet<u64> = BTreeSet::new();
        let mine = self.corpus.iter().chain(&self.queue).chain(&self.spread).chain(&self.tests);
        for &word in mine {
            if cx.oracle.known(word).flatten().is_some() {
                values.insert(comp_value(&self.slots, inputs, word));
            }
        }
        let start = comp_value(&self.slots, inputs, base);
        values.insert(start);
        for i in 0..inputs.len() {
            values.insert(start ^ 1 << i);
        }
        values.into_iter().take(6000).collect()
    }

    /// Enumerates every component at the base and lays the text out.
    fn build(&mut self, cx: &mut Cx<'_>) -> Result<(), Pending> {
        let base = self.bases[0];
        // The inputs of each component, and the words that try every value of them.
        type Plan = (Vec<Input>, Vec<(u64, u128)>);
        let mut plans: Vec<Plan> = Vec::new();
        let mut wait = Ok(());
        for group in &self.groups {
            let inputs: Vec<Input> = group.iter().map(|&i| self.inputs[i]).collect();
            let dense = inputs.len() <= MAX_DENSE;
            let values: Vec<u64> =
                if dense { (0..1u64 << inputs.len()).collect() } else { self.observed(cx, &inputs, base) };
            let words: Vec<(u64, u128)> =
                values.into_iter().filter_map(|v| Some((v, comp_word(&self.slots, &inputs, base, v)?))).collect();
            let list: Vec<u128> = words.iter().map(|w| w.1).collect();
            wait = wait.and(cx.oracle.texts(&list));
            plans.push((inputs, words));
        }
        wait?;
        let mut wait = Ok(());
        for (_, words) in &plans {
            let legal: Vec<u128> =
                words.iter().map(|w| w.1).filter(|w| cx.oracle.known(*w).flatten().is_some()).collect();
            wait = wait.and(cx.oracle.labels(&legal));
        }
        wait?;
        let canon = self.canon(cx, base).unwrap_or_default();
        let mut comps = Vec::new();
        for (inputs, words) in plans {
            let mut found: Vec<(u64, Vec<Edit>)> = Vec::new();
            for (value, word) in words {
                if !self.same_class(cx, word) {
                    continue;
                }
                if let Some(text) = self.canon(cx, word) {
                    found.push((value, edits(&canon, &text)));
                }
            }
            comps.push(make_comp(inputs, &canon, found));
        }
        // Sites of different components that overlap: those components belong together.
        for i in 0..comps.len() {
            for j in i + 1..comps.len() {
                let clash = comps[i].sites.iter().any(|x| {
                    comps[j].sites.iter().any(|y| {
                        x.0 < y.1 && y.0 < x.1
                            || (x.0 == x.1 && y.0 < x.0 && x.0 < y.1)
                            || (y.0 == y.1 && x.0 < y.0 && y.0 < x.1)
                    })
                });
                if clash && comps[i].inputs.len() + comps[j].inputs.len() <= 60 {
                    self.join_groups(&[i, j]);
                    return self.build(cx);
                }
            }
        }
        let mut sites: Vec<(usize, usize, usize, usize)> = Vec::new();
        for (c, comp) in comps.iter().enumerate() {
            for (s, site) in comp.sites.iter().enumerate() {
                sites.push((site.0, site.1, c, s));
            }
        }
        sites.sort_unstable();
        // Several insertions at one place: in the order seen.
        let mut at = 0;
        while at < sites.len() {
            let mut end = at + 1;
            while end < sites.len()
                && sites[end].0 == sites[at].0
                && sites[end].1 == sites[at].0
                && sites[at].1 == sites[at].0
            {
                end += 1;
            }
            let precedes = |x: usize, y: usize| {
                let (mut yes, mut no) = (0, 0);
                for &a in &comps[x].inputs {
                    for &b in &comps[y].inputs {
                        yes += usize::from(self.before.contains(&(a, b)));
                        no += usize::from(self.before.contains(&(b, a)));
                    }
                }
                yes > no
            };
            for _ in at..end {
                for k in at..end.saturating_sub(1) {
                    if precedes(sites[k + 1].2, sites[k].2) {
                        sites.swap(k, k + 1);
                    }
                }
            }
            at = end;
        }
        let mut pieces = Vec::new();
        let mut at = 0;
        for (start, end, comp, site) in sites {
            while at < start {
                pieces.push(Piece::Token(canon[at]));
                at += 1;
            }
            pieces.push(Piece::Site(comp, site));
            at = at.max(end);
        }
        pieces.extend(canon[at..].iter().map(|&t| Piece::Token(t)));
        self.model = Model { base, fixed: self.fixed, slots: self.slots.clone(), comps, pieces };
        Ok(())
    }

    fn join_groups(&mut self, which: &[usize]) {
        let mut which = which.to_vec();
        which.sort_unstable();
        which.dedup();
        let mut all = Vec::new();
        for &g in which.iter().rev() {
            all.extend(self.groups.remove(g));
        }
        all.sort_unstable();
        self.groups.push(all);
    }

    /// Random words of the class: all numbers and all components anew.
    fn random_words(&mut self, count: usize, urz: i64) -> Vec<u128> {
        let model = self.model.clone();
        let mut out = Vec::new();
        for _ in 0..count {
            let mut word = model.base;
            for (i, slot) in model.slots.iter().enumerate() {
                let raw = u128::from(self.random());
                if raw & 7 < 2 {
                    let special = self.features(i, urz);
                    if let Some(&input) = special.get((raw >> 3) as usize % special.len().max(1)) {
                        word = self.apply(input, word);
                        continue;
                    }
                }
                word = slot.put(word, raw >> 3);
            }
            for comp in &model.comps {
                let pick = self.random() as usize;
                let keys: Vec<u64> = comp.table.keys().copied().collect();
                if keys.is_empty() || pick & 3 == 0 {
                    continue;
                }
                let value = keys[(pick >> 2) % keys.len()];
                for (i, &input) in comp.inputs.iter().enumerate() {
                    let on = value >> i & 1 == 1;
                    match input {
                        Input::Bit(bit) => word = word & !(1 << bit) | u128::from(on) << bit,
                        Input::Feature(..) if on => word = self.apply(input, word),
                        Input::Feature(slot, _) if input_value(&model.slots, input, word) => {
                            word = model.slots[slot].put(word, neutral(&model.slots, slot, word));
                        }
                        Input::Feature(..) => {}
                    }
                }
            }
            out.push(word);
        }
        out
    }

    fn wrong(&self, cx: &Cx<'_>, word: u128, buf: &mut String) -> bool {
        let legal = self.model.predict(cx.lits, cx.urz, word, buf);
        match cx.oracle.known(word).flatten() {
            Some(text) => self.same_class(cx, word) && (!legal || buf != text),
            None => false,
        }
    }

    /// One round: build, test, and mend what the tests show.
    fn refine(&mut self, cx: &mut Cx<'_>) -> Result<(), Pending> {
        self.build(cx)?;
        if self.tests.len() < 120 * (1 + self.loops / 4) {
            let more = self.random_words(120, cx.urz);
            self.tests.extend(more);
        }
        let tests = self.tests.clone();
        self.ask(cx, &tests)?;
        let legal: Vec<u128> = tests.iter().copied().filter(|w| cx.oracle.known(*w).flatten().is_some()).collect();
        let mut buf = String::new();
        let words: Vec<u128> = self.corpus.iter().copied().chain(legal).collect();
        let failures: Vec<u128> = words.into_iter().filter(|&w| self.wrong(cx, w, &mut buf)).collect();
        if failures.is_empty() || self.loops >= if self.corpus.is_empty() { 12 } else { MAX_LOOPS } {
            self.failures = failures;
            self.stage = 5;
            return Ok(());
        }
        let before = (self.groups.clone(), self.inputs.len(), self.fixed);
        let step = (failures.len() / 6).max(1);
        let culprits: Vec<u128> = failures.iter().copied().step_by(step).take(6).collect();
        let mut wait = Ok(());
        let mut mends = Vec::new();
        for word in culprits {
            match self.explain(cx, word) {
                Ok(mend) => mends.push(mend),
                Err(Pending) => wait = Err(Pending),
            }
        }
        wait?;
        for mend in mends {
            self.mend(mend);
        }
        self.loops += 1;
        if (self.groups.clone(), self.inputs.len(), self.fixed) == before {
            self.stale += 1;
            if self.stale > 3 {
                self.failures = failures;
                self.stage = 5;
            } else {
                let more = self.random_words(60, cx.urz);
                self.tests.extend(more);
            }
        }
        Ok(())
    }

    fn mend(&mut self, mend: Mend) {
        let mut groups: BTreeSet<usize> = BTreeSet::new();
        for input in mend.inputs {
            let at = match self.inputs.iter().position(|i| *i == input) {
                Some(at) => at,
                None => {
                    if let Input::Bit(bit) = input {
                        self.fixed &= !(1 << bit);
                    }
                    self.inputs.push(input);
                    self.groups.push(vec![self.inputs.len() - 1]);
                    self.inputs.len() - 1
                }
            };
            if let Some(g) = self.groups.iter().position(|g| g.contains(&at)) {
                groups.insert(g);
            }
        }
        let list: Vec<usize> = groups.into_iter().collect();
        let size: usize = list.iter().map(|&g| self.groups[g].len()).sum();
        if list.len() > 1 && mend.join && size <= 60 {
            self.join_groups(&list);
        }
    }

    /// Finds a smallest set of inputs in which a failing word differs from the base and still fails.
    fn explain(&self, cx: &mut Cx<'_>, word: u128) -> Result<Mend, Pending> {
        let model = &self.model;
        let mut buf = String::new();
        let odd = (word ^ model.base) & model.fixed;
        if odd != 0 {
            let inputs = free_bits().filter(|b| odd >> b & 1 == 1).map(Input::Bit).collect();
            return Ok(Mend { inputs, join: false });
        }
        let differing: Vec<usize> = (0..model.comps.len())
            .filter(|&c| {
                let inputs = &model.comps[c].inputs;
                comp_value(&model.slots, inputs, word) != comp_value(&model.slots, inputs, model.base)
            })
            .collect();
        let project = |set: &[usize]| {
            let mut out = model.base;
            for &c in set {
                for &input in &model.comps[c].inputs {
                    if let Input::Feature(slot, _) = input
                        && input_value(&model.slots, input, word) != input_value(&model.slots, input, model.base)
                    {
                        out = model.slots[slot].put(out, model.slots[slot].raw(word));
                    }
                }
            }
            for &c in set {
                for &input in &model.comps[c].inputs {
                    if let Input::Bit(bit) = input {
                        out = out & !(1 << bit) | (word >> bit & 1) << bit;
                    }
                }
            }
            out
        };
        let full = project(&differing);
        self.ask(cx, &[full])?;
        if self.wrong(cx, full, &mut buf) {
            for size in 1..=3 {
                let sets = subsets(&differing, size);
                let words: Vec<u128> = sets.iter().map(|set| project(set)).collect();
                self.ask(cx, &words)?;
                if let Some(at) = words.iter().position(|&w| self.wrong(cx, w, &mut buf)) {
                    let mut inputs: Vec<Input> =
                        sets[at].iter().flat_map(|&c| model.comps[c].inputs.iter().copied()).collect();
                    if size == 1 {
                        // One component alone was enumerated right: a test of it is too coarse for this very number.
                        let coarse = inputs.iter().find_map(|&i| match i {
                            Input::Feature(slot, Test::Pow2) if input_value(&model.slots, i, word) => Some(slot),
                            _ => None,
                        });
                        inputs.extend(coarse.map(|slot| Input::Feature(slot, Test::Eq(model.slots[slot].eval(word)))));
                    }
                    return Ok(Mend { inputs, join: true });
                }
            }
            // More than three at once: leave out one after the other.
            let mut set = differing;
            let mut i = 0;
            while i < set.len() {
                let mut fewer = set.clone();
                fewer.remove(i);
                let probe = project(&fewer);
                self.ask(cx, &[probe])?;
                if self.wrong(cx, probe, &mut buf) {
                    set = fewer;
                } else {
                    i += 1;
                }
            }
            let inputs = set.iter().flat_map(|&c| model.comps[c].inputs.iter().copied()).collect();
            return Ok(Mend { inputs, join: true });
        }
        // The numbers themselves matter: which one, or which two, make the projected word fail?
        let moved: Vec<usize> =
            (0..model.slots.len()).filter(|&i| model.slots[i].raw(word) != model.slots[i].raw(model.base)).collect();
        let carry = |from: u128, set: &[usize]| {
            set.iter().fold(from, |out, &i| model.slots[i].put(out, model.slots[i].raw(word)))
        };
        let mut guilty: Vec<usize> = moved.clone();
        for size in 1..=2 {
            let sets = subsets(&moved, size);
            let words: Vec<u128> = sets.iter().map(|set| carry(full, set)).collect();
            self.ask(cx, &words)?;
            if let Some(at) = words.iter().position(|&w| self.wrong(cx, w, &mut buf)) {
                guilty.clone_from(&sets[at]);
                break;
            }
        }
        if guilty.len() > 3 {
            return Ok(Mend { inputs: Vec::new(), join: false });
        }
        let mut inputs: Vec<Input> = Vec::new();
        for &slot in &guilty {
            // A test that is there already does not explain the failure: a single value does then.
            let known = self.features(slot, cx.urz).into_iter().find(|&f| {
                input_value(&model.slots, f, word) != input_value(&model.slots, f, model.base)
                    && !self.inputs.contains(&f)
            });
            let value = model.slots[slot].eval(word);
            let used = self.inputs.iter().filter(|i| matches!(i, Input::Feature(s, _) if *s == slot)).count();
            match known {
                Some(feature) => inputs.push(feature),
                None if used < 4 => inputs.push(Input::Feature(slot, Test::Eq(value))),
                None => {}
            }
        }
        // Which components take part with them?
        for size in 0..=2 {
            let sets = subsets(&differing, size);
            let words: Vec<u128> = sets.iter().map(|set| carry(project(set), &guilty)).collect();
            self.ask(cx, &words)?;
            if let Some(at) = words.iter().position(|&w| self.wrong(cx, w, &mut buf)) {
                inputs.extend(sets[at].iter().flat_map(|&c| model.comps[c].inputs.iter().copied()));
                break;
            }
        }
        inputs.sort_unstable();
        inputs.dedup();
        Ok(Mend { inputs, join: true })
    }

    fn ask(&self, cx: &mut Cx<'_>, words: &[u128]) -> Result<(), Pending> {
        let texts = cx.oracle.texts(words);
        cx.oracle.labels(words).and(texts)
    }

    /// Words of the class to remember: those of real code, or random ones where there is none.
    pub fn sample(&self) -> Vec<u128> {
        if self.corpus.is_empty() { self.tests.clone() } else { self.corpus.clone() }
    }

    /// What the components are, for a person.
    pub fn describe(&self, lits: &Literals) -> String {
        use std::fmt::Write;
        let mut out = String::new();
        for piece in &self.model.pieces {
            match *piece {
                Piece::Token(t) if t & SLOT != 0 => {
                    let slot = &self.model.slots[(t & !SLOT) as usize];
                    let _ = write!(out, "<{:?}@{}+{}>", slot.format, slot.bits[0].0, slot.bits.len());
                }
                Piece::Token(t) => out.push_str(lits.get(t)),
                Piece::Site(c, s) => {
                    let _ = write!(out, "{{{c}.{s}}}");
                }
            }
        }
        for (c, comp) in self.model.comps.iter().enumerate() {
            let _ = write!(
                out,
                "\n    {c}: {:?} {} of {} legal, {} variants",
                comp.inputs,
                comp.table.len(),
                1u64 << comp.inputs.len().min(63),
                comp.variants.len()
            );
        }
        out
    }
}

/// All subsets of one size.
fn subsets(list: &[usize], size: usize) -> Vec<Vec<usize>> {
    match size {
        0 => vec![Vec::new()],
        1 => list.iter().map(|&i| vec![i]).collect(),
        _ => {
            let mut out = Vec::new();
            for (at, &first) in list.iter().enumerate() {
                for mut rest in subsets(&list[at + 1..], size - 1) {
                    rest.insert(0, first);
                    out.push(rest);
                }
            }
            out
        }
    }
}

struct Mend {
    inputs: Vec<Input>,
    join: bool,
}

fn make_comp(inputs: Vec<Input>, canon: &[u32], found: Vec<(u64, Vec<Edit>)>) -> Comp {
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

/// Finds the float format that explains a number and its flips.
fn float_slot(word: u128, text: &str, flips: &[(u8, String)], urz: i64) -> Option<Slot> {
    let low = flips.iter().map(|f| f.0).min()?;
    let high = flips.iter().map(|f| f.0).max()?;
    let mut best: Option<(usize, Slot)> = None;
    for (format, width) in [(Format::F32, 32u8), (Format::F64High, 32), (Format::F16, 16), (Format::Bf16, 16)] {
        // The low bits of a float may not show; fields start at multiples of 8 and end at their highest bit.
        let top = high;
        let start = (top + 1).checked_sub(width)?;
        if start > low {
            continue;
        }
        let slot = Slot { format, bits: (0..width).map(|i| (start + i, 1i64 << i)).collect(), add: 0 };
        let mut spelled = String::new();
        slot.spell(word, urz, &mut spelled);
        let mut good = usize::from(spelled == text);
        for (bit, expected) in flips {
            spelled.clear();
            slot.spell(word ^ 1 << bit, urz, &mut spelled);
            good += usize::from(spelled == *expected);
        }
        if good * 10 >= (flips.len() + 1) * 8 && best.as_ref().is_none_or(|b| b.0 < good) {
            best = Some((good, slot));
        }
    }
    best.map(|b| b.1)
}

struct UnionFind(Vec<usize>);

impl UnionFind {
    fn new(n: usize) -> Self {
        UnionFind((0..n).collect())
    }
    fn find(&self, mut i: usize) -> usize {
        while self.0[i] != i {
            i = self.0[i];
        }
        i
    }
    fn join(&mut self, i: usize, j: usize) {
        let (a, b) = (self.find(i), self.find(j));
        self.0[a.max(b)] = a.min(b);
    }
    fn size(&self, i: usize) -> usize {
        let root = self.find(i);
        (0..self.0.len()).filter(|&k| self.find(k) == root).count()
    }
}
