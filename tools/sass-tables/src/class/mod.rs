//! Learning one class of encodings: an opcode and the words nvdisasm groups with each other under it.
//!
//! In: some words of the class. Out: a [`Model`] that predicts the text of every word of the class, made of literals,
//! number slots, and components: small sets of bits (and tests of slots) that choose a piece of text together.

mod adopt;
mod discover;
mod inputs;
mod refine;

use std::collections::BTreeSet;

use crate::edit::SLOT;
use crate::lot::Lot;
use crate::model::{Input, Literals, Model, Piece};
use crate::oracle::{Oracle, Pending};
use crate::slot::{Format, Slot};
use crate::text::{Kind, Token, split_guard, tokens};

pub struct Cx<'a> {
    pub oracle: &'a mut Oracle,
    pub lits: &'a mut Literals,
    pub urz: i64,
}

/// Bits a probe may flip: all but the opcode and the scheduling control.
pub fn free_bits() -> impl Iterator<Item = u8> {
    (12..105).chain(122..128)
}

pub struct Class {
    pub label: u32,
    pub opcode: u16,
    /// Words of the class seen in real code.
    pub corpus: Vec<u128>,
    /// Legal words of the class that draws by lot found.
    explored: Vec<u128>,
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
    lot: Lot,
    stale: usize,
    spreads: usize,
    /// The model is a relative's and not verified yet.
    adopted: bool,
    /// The relative's model, where words did not bear it out.
    refused: Option<Model>,
}

const MAX_STRUCTURES: usize = 24;
const MAX_DENSE: usize = 13;
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
            Token::Lit(s) if s.starts_with('.') || matches!(s.as_str(), "-" | "~" | "!" | "|") => {}
            Token::Lit(s) => out.push_str(s),
            Token::Num(kind, _) => out.push_str(&format!("<{kind:?}>")),
            Token::Float(_) => out.push_str("<F>"),
        }
    }
    out
}

impl Class {
    pub fn new(label: u32, opcode: u16, corpus: Vec<u128>, extra: &[u128], explored: &[u128]) -> Class {
        let queue: Vec<u128> = corpus.iter().chain(extra).chain(explored).copied().collect();
        Class {
            label,
            opcode,
            lot: Lot::new(queue.first().map_or(1, |w| (*w as u64) ^ (*w >> 64) as u64)),
            corpus,
            explored: explored.to_vec(),
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
            spreads: 0,
            adopted: false,
            refused: None,
        }
    }

    pub fn done(&self) -> bool {
        self.stage >= 5 || self.dead.is_some()
    }

    /// How many structures to look at: fewer for classes that real code does not have.
    fn limit(&self) -> usize {
        if self.corpus.is_empty() { 8 } else { MAX_STRUCTURES }
    }

    /// At how many bases to try pairs.
    fn depth(&self) -> usize {
        if self.corpus.is_empty() { 1 } else { 2 }
    }

    /// Goes on until an answer is missing or the class is learnt.
    pub fn step(&mut self, cx: &mut Cx<'_>) -> Result<(), Pending> {
        while !self.done() {
            match self.stage {
                4 if self.adopted => self.verify(cx)?,
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
        Some(self.attribute(cx, word, &tokens, &vec![None; tokens.len()]))
    }

    /// Like [`canon`](Self::canon), with the slots of a base text in the places they have there. Numbers that are equal by
    /// chance (or by being RZ or PT both) are told apart by where they stand.
    fn canon_against(&self, cx: &mut Cx<'_>, base: &[u32], word: u128) -> Option<Vec<u32>> {
        let text = cx.oracle.known(word)??;
        let (tokens, _) = all_tokens(text, cx.urz);
        let matched = crate::edit::align(base, tokens.len(), |b, t| match &tokens[t] {
            Token::Lit(s) => b & SLOT == 0 && cx.lits.get(b) == s,
            number => b & SLOT != 0 && self.slots[(b & !SLOT) as usize].explains(word, number, cx.urz),
        });
        Some(self.attribute(cx, word, &tokens, &matched))
    }

    /// Gives every number that is not matched yet a slot that explains it; a literal where none does.
    fn attribute(&self, cx: &mut Cx<'_>, word: u128, tokens: &[Token], matched: &[Option<u32>]) -> Vec<u32> {
        let mut out = Vec::with_capacity(tokens.len());
        let mut used = 0u64;
        for &slot in matched.iter().flatten().filter(|t| **t & SLOT != 0) {
            used |= 1 << (slot & 63);
        }
        let mut last = 0usize;
        for (token, matched) in tokens.iter().zip(matched) {
            if let Some(known) = *matched {
                if known & SLOT != 0 {
                    last = (known & !SLOT) as usize;
                }
                out.push(known);
                continue;
            }
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
        out
    }

    /// What tokens of a canonical text print for a word.
    fn reads(&self, cx: &Cx<'_>, tokens: &[u32], word: u128) -> String {
        let mut out = String::new();
        for &t in tokens {
            if t & SLOT != 0 {
                self.slots[(t & !SLOT) as usize].spell(word, cx.urz, &mut out);
            } else {
                out.push_str(cx.lits.get(t));
            }
        }
        out
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
