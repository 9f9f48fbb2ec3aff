//! First steps: choose seeds, flip their bits, find the number slots, move to numbers that are not special.

use std::collections::{BTreeMap, HashMap};

use super::{Class, Cx, all_tokens, free_bits, structure};
use crate::oracle::Pending;
use crate::slot::{Format, Slot};
use crate::text::{Kind, Token};

impl Class {
    pub(super) fn choose_seeds(&mut self, cx: &mut Cx<'_>) -> Result<(), Pending> {
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
        // And the plainest word of each: with the fewest modifiers, numbers are numbers.
        let mut plain: BTreeMap<&str, (usize, u128)> = BTreeMap::new();
        for &word in &words {
            let Some(Some(text)) = cx.oracle.known(word) else { continue };
            let (tokens, guard) = all_tokens(text, cx.urz);
            let name = structure(&tokens, guard);
            if let Some((name, _)) = list.iter().find(|(n, _)| *n == name) {
                let entry = plain.entry(name.as_str()).or_insert((usize::MAX, word));
                if (tokens.len(), word) < *entry {
                    *entry = (tokens.len(), word);
                }
            }
        }
        let plain: Vec<(String, (usize, u128))> = plain.into_iter().map(|(n, p)| (n.to_owned(), p)).collect();
        list.extend(plain);
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
        for (name, (_, word)) in list {
            self.structures.insert(name);
            if !self.queue.contains(&word) {
                self.queue.push(word);
            }
        }
        Ok(())
    }

    pub(super) fn flips(word: u128) -> Vec<u128> {
        std::iter::once(word).chain(free_bits().map(|bit| word ^ 1 << bit)).collect()
    }

    /// Flips every bit of every seed; numbers that change give slots, new structures give seeds.
    pub(super) fn discover(&mut self, cx: &mut Cx<'_>) -> Result<(), Pending> {
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
                if self.structures.len() < self.limit() && self.same_class(cx, flip) && self.structures.insert(name) {
                    self.queue.push(flip);
                }
            }
        }
        Ok(())
    }

    /// Learns slots from the flips of one word, whose texts are all known.
    pub(super) fn absorb(&mut self, cx: &Cx<'_>, word: u128) {
        let Some(Some(text)) = cx.oracle.known(word) else { return };
        let (base, _) = all_tokens(text, cx.urz);
        let mut weights: Vec<Vec<(u8, i64)>> = vec![Vec::new(); base.len()];
        let mut floats: Vec<Vec<(u8, String)>> = vec![Vec::new(); base.len()];
        let mut loose: Vec<Vec<(u8, i64)>> = vec![Vec::new(); base.len()];
        let mut kinds: Vec<Option<Kind>> = vec![None; base.len()];
        let bones: Vec<usize> = (0..base.len()).filter(|&i| !is_modifier(&base[i])).collect();
        for bit in free_bits() {
            let flip = word ^ 1 << bit;
            let Some(Some(text)) = cx.oracle.known(flip) else { continue };
            let (other, _) = all_tokens(text, cx.urz);
            let alike = |a: &Token, b: &Token| match (a, b) {
                (Token::Num(x, _), Token::Num(y, _)) => x.same_as(*y),
                (Token::Float(_), Token::Float(_)) => true,
                _ => a == b,
            };
            if other.len() != base.len() || !base.iter().zip(&other).all(|(a, b)| alike(a, b)) {
                // `IMAD.SHL R0, R1, 0x8` and `IMAD R0, R1, 0x9`: modifiers aside, one number has moved.
                let theirs: Vec<&Token> = other.iter().filter(|t| !is_modifier(t)).collect();
                if theirs.len() == bones.len() && bones.iter().zip(&theirs).all(|(&i, b)| alike(&base[i], b)) {
                    let mut moved = bones.iter().zip(&theirs).filter(|&(&i, b)| base[i] != **b);
                    if let (Some((&i, Token::Num(kind, b))), None) = (moved.next(), moved.next())
                        && let Token::Num(_, a) = &base[i]
                    {
                        let delta = b.wrapping_sub(*a);
                        kinds[i] = kinds[i].or(Some(*kind).filter(|k| *k == Kind::Wide));
                        loose[i].push((bit, if flip >> bit & 1 == 1 { delta } else { delta.wrapping_neg() }));
                    }
                }
                continue;
            }
            let changed: Vec<usize> = (0..base.len()).filter(|&i| base[i] != other[i]).collect();
            // A bit that moves many numbers at once is a modifier (of a float format, say), not part of a number; unless it
            // moves them alike: `tmem[UR32], idesc[UR33]`.
            let delta = |i: usize| match (&base[i], &other[i]) {
                (Token::Num(kind, a), Token::Num(_, b)) => Some((kind.plain(), b.wrapping_sub(*a))),
                _ => None,
            };
            if changed.len() > 1 && changed.iter().any(|&i| delta(i).is_none() || delta(i) != delta(changed[0])) {
                continue;
            }
            for &i in &changed {
                match (&base[i], &other[i]) {
                    (Token::Num(_, a), Token::Num(kind, b)) => {
                        let delta = b.wrapping_sub(*a);
                        kinds[i] = kinds[i].or(Some(*kind).filter(|k| *k == Kind::Wide));
                        weights[i].push((bit, if flip >> bit & 1 == 1 { delta } else { delta.wrapping_neg() }));
                    }
                    (Token::Float(_), Token::Float(b)) => floats[i].push((bit, b.clone())),
                    _ => {}
                }
            }
        }
        for (i, token) in base.iter().enumerate() {
            match token {
                Token::Num(kind, value) if !weights[i].is_empty() || loose[i].len() > 1 => {
                    let bits = join_runs(&weights[i], &loose[i]);
                    if bits.is_empty() {
                        continue;
                    }
                    let mut slot = Slot { format: Format::Linear(kinds[i].unwrap_or(*kind)), bits, add: 0 };
                    slot.add = value.wrapping_sub(slot.eval(word));
                    self.add_slot(slot, word, *value);
                }
                Token::Float(text) if !floats[i].is_empty() => {
                    let Some(slot) = float_slot(word, text, &floats[i], cx.urz) else { continue };
                    // A modifier may turn halves into bfloats, floats into doubles: keep the other reading at hand.
                    let twin = match slot.format {
                        Format::F16 => Some(Format::Bf16),
                        Format::Bf16 => Some(Format::F16),
                        Format::F32 => Some(Format::F64High),
                        Format::F64High => Some(Format::F32),
                        Format::Linear(_) => None,
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

    pub(super) fn add_slot(&mut self, slot: Slot, word: u128, value: i64) {
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

    pub(super) fn spread_value(&self, slot: usize, rank: usize, narrow: bool) -> u128 {
        let bits = self.slots[slot].bits.len() as u32;
        if self.slots[slot].is_register() && bits < 3 {
            // A bit is missing that hid the number: keep away from all ones.
            return 1;
        }
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
    pub(super) fn spread_bases(&mut self, cx: &mut Cx<'_>) -> Result<(), Pending> {
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
}

fn is_modifier(token: &Token) -> bool {
    matches!(token, Token::Lit(s) if s.starts_with('.'))
}

/// Adds to the bits of a number those that also moved a modifier, as far as they go on with its runs of bits.
fn join_runs(sure: &[(u8, i64)], loose: &[(u8, i64)]) -> Vec<(u8, i64)> {
    let next = |low: &(u8, i64), high: &(u8, i64)| {
        low.0 + 1 == high.0 && low.1.unsigned_abs().checked_mul(2) == Some(high.1.unsigned_abs())
    };
    let mut out = sure.to_vec();
    if out.is_empty() {
        // All of them must be one run, and the only number.
        if loose.len() < 2 || !loose.windows(2).all(|w| next(&w[0], &w[1])) {
            return out;
        }
        return loose.to_vec();
    }
    let mut rest = loose.to_vec();
    let goes_on = |out: &[(u8, i64)], new: &(u8, i64)| out.iter().any(|old| next(old, new) || next(new, old));
    while let Some(at) = rest.iter().position(|new| goes_on(&out, new)) {
        out.push(rest.remove(at));
    }
    out.sort_unstable();
    out
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
