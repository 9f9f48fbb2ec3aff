//! Which bits and tests of numbers change the text, and which of them only together.

use std::collections::{BTreeMap, BTreeSet};

use super::{Class, Cx, free_bits};
use crate::edit::{Edit, Merged, SLOT, edits, merge};
use crate::model::{Input, Test};
use crate::oracle::Pending;
use crate::slot::Format;
use crate::text::Kind;

impl Class {
    pub(super) fn features(&self, slot: usize, urz: i64) -> Vec<Input> {
        let Format::Linear(kind) = self.slots[slot].format else { return Vec::new() };
        let tests: &[Test] = match kind {
            Kind::R => &[Test::Eq(255)],
            Kind::Ur => &[Test::Eq(if urz == 63 { 63 } else { 255 })],
            Kind::P | Kind::Up => &[Test::Eq(7)],
            Kind::Hex if self.slots[slot].bits.len() == 32 => {
                &[Test::Eq(0), Test::Eq(1), Test::Eq(0x1_0000), Test::Pow2]
            }
            Kind::Hex | Kind::Wide => &[Test::Eq(0)],
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

    pub(super) fn apply(&self, input: Input, word: u128) -> u128 {
        match input {
            Input::Bit(bit) => word ^ 1 << bit,
            Input::Feature(slot, Test::Eq(value)) => self.slots[slot].set(word, value).unwrap_or(word),
            Input::Feature(slot, Test::Pow2) => self.slots[slot].set(word, 16).unwrap_or(word),
        }
    }

    /// Which bits and tests change the text, and which of them only together.
    pub(super) fn find_inputs(&mut self, cx: &mut Cx<'_>) -> Result<(), Pending> {
        let spread = self.spread.clone();
        let mut wait = Ok(());
        for &word in &spread {
            wait = wait.and(cx.oracle.texts(&Self::flips(word)));
        }
        wait?;
        let before = self.slots.clone();
        for &word in &spread {
            self.absorb(cx, word);
        }
        if self.slots != before && self.spreads < 3 {
            // A number turned out to have more bits: choose the bases anew.
            self.spreads += 1;
            self.stage = 1;
            return Ok(());
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

        // Pairs at a few bases. What leaves the class says nothing about it.
        let mut wait = Ok(());
        for &base in bases.iter().take(self.depth()) {
            let mut words: Vec<u128> = inputs.iter().map(|&i| self.apply(i, base)).collect();
            for (i, &a) in inputs.iter().enumerate() {
                for &b in &inputs[i + 1..] {
                    words.push(self.apply(b, self.apply(a, base)));
                }
            }
            wait = wait.and(cx.oracle.texts(&words));
            words.retain(|w| cx.oracle.known(*w).flatten().is_some());
            wait = wait.and(cx.oracle.labels(&words));
        }
        wait?;
        let mut union = UnionFind::new(inputs.len());
        let mut effect = vec![false; inputs.len()];
        let mut before: BTreeSet<(Input, Input)> = BTreeSet::new();
        let mut soft: Vec<(usize, usize)> = Vec::new();
        let mut doubtful: Vec<(usize, usize, u128)> = Vec::new();
        for (rank, &base) in bases.iter().take(self.depth()).enumerate() {
            let Some(canon) = self.canon(cx, base) else { continue };
            let mut single: Vec<Option<Vec<Edit>>> = Vec::with_capacity(inputs.len());
            for &input in &inputs {
                let word = self.apply(input, base);
                let text = self.same_class(cx, word).then(|| self.canon_against(cx, &canon, word)).flatten();
                single.push(text.map(|c| edits(&canon, &c)));
            }
            for (i, e) in single.iter().enumerate() {
                if e.as_ref().is_none_or(|e| !e.is_empty()) {
                    effect[i] = true;
                }
            }
            for i in 0..inputs.len() {
                for j in i + 1..inputs.len() {
                    let both = self.apply(inputs[j], self.apply(inputs[i], base));
                    let seen = cx.oracle.known(both).flatten().filter(|_| self.same_class(cx, both));
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
                        Merged::One(text) if self.reads(cx, &text, both) == seen => {}
                        Merged::Either(x, _) if self.reads(cx, &x, both) == seen => {
                            if rank == 0 {
                                before.insert((inputs[i], inputs[j]));
                            }
                        }
                        Merged::Either(_, y) if self.reads(cx, &y, both) == seen => {
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
        self.inputs = kept;
        self.groups = groups.into_values().collect();
        Ok(())
    }
}

struct UnionFind(Vec<usize>);

impl UnionFind {
    pub(super) fn new(n: usize) -> Self {
        UnionFind((0..n).collect())
    }
    pub(super) fn find(&self, mut i: usize) -> usize {
        while self.0[i] != i {
            i = self.0[i];
        }
        i
    }
    pub(super) fn join(&mut self, i: usize, j: usize) {
        let (a, b) = (self.find(i), self.find(j));
        self.0[a.max(b)] = a.min(b);
    }
    pub(super) fn size(&self, i: usize) -> usize {
        let root = self.find(i);
        (0..self.0.len()).filter(|&k| self.find(k) == root).count()
    }
}
