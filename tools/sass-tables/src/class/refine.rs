//! Build the model, test it on real and random words, and mend what the tests show, until none fails.

use std::collections::BTreeSet;

use super::{Class, Cx, MAX_DENSE, MAX_LOOPS, free_bits};
use crate::edit::{Edit, edits};
use crate::model::{Input, Model, Piece, Test, comp_value, comp_word, input_value, make_comp, neutral};
use crate::oracle::Pending;

impl Class {
    /// Observed values of an over-large group of inputs.
    pub(super) fn observed(&self, cx: &Cx<'_>, inputs: &[Input], base: u128) -> Vec<u64> {
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
    pub(super) fn build(&mut self, cx: &mut Cx<'_>) -> Result<(), Pending> {
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
                if let Some(text) = self.canon_against(cx, &canon, word) {
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

    pub(super) fn join_groups(&mut self, which: &[usize]) {
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
    pub(super) fn random_words(&mut self, count: usize, urz: i64) -> Vec<u128> {
        let model = self.model.clone();
        let mut loud = model.fixed;
        for slot in &model.slots {
            loud |= slot.mask();
        }
        for input in model.comps.iter().flat_map(|c| &c.inputs) {
            if let Input::Bit(bit) = input {
                loud |= 1 << bit;
            }
        }
        let quiet: Vec<u8> = free_bits().filter(|bit| loud >> bit & 1 == 0).collect();
        let mut out = Vec::new();
        for _ in 0..count {
            let mut word = model.base;
            for (i, slot) in model.slots.iter().enumerate() {
                let raw = u128::from(self.lot.draw());
                if raw & 7 < 2 {
                    let special = self.features(i, urz);
                    if let Some(&input) = special.get((raw >> 3) as usize % special.len().max(1)) {
                        // One power of two may be spelled as no other is: `IMAD.U32 R0, R0, 0x10000, RZ`.
                        word = match input {
                            Input::Feature(slot, Test::Pow2) => {
                                model.slots[slot].set(word, 1 << ((raw >> 16) % 31)).unwrap_or(word)
                            }
                            _ => self.apply(input, word),
                        };
                        continue;
                    }
                }
                word = slot.put(word, raw >> 3);
            }
            for comp in &model.comps {
                let pick = self.lot.draw() as usize;
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
            // A bit that seems to mean nothing may mean something here.
            let pick = self.lot.draw();
            if pick & 1 == 1
                && let Some(&bit) = quiet.get((pick >> 1) as usize % quiet.len().max(1))
            {
                word ^= 1 << bit;
            }
            out.push(word);
        }
        out
    }

    pub(super) fn wrong(&self, cx: &Cx<'_>, word: u128, buf: &mut String) -> bool {
        let legal = self.model.predict(cx.lits, cx.urz, word, buf);
        match cx.oracle.known(word).flatten() {
            Some(text) => self.same_class(cx, word) && (!legal || buf != text),
            None => false,
        }
    }

    /// One round: build, test, and mend what the tests show.
    pub(super) fn refine(&mut self, cx: &mut Cx<'_>) -> Result<(), Pending> {
        self.build(cx)?;
        let batch = if self.corpus.is_empty() { 120 } else { 300 };
        if self.tests.len() < batch * (1 + self.loops / 4) {
            let more = self.random_words(batch, cx.urz);
            self.tests.extend(more);
        }
        let tests = self.tests.clone();
        self.ask(cx, &tests)?;
        let legal: Vec<u128> = tests.iter().copied().filter(|w| cx.oracle.known(*w).flatten().is_some()).collect();
        let mut buf = String::new();
        let words: Vec<u128> = self.corpus.iter().chain(&self.explored).copied().chain(legal).collect();
        let failures: Vec<u128> = words.into_iter().filter(|&w| self.wrong(cx, w, &mut buf)).collect();
        if failures.is_empty() || self.loops >= if self.corpus.is_empty() { 12 } else { MAX_LOOPS } {
            self.give_up(cx, failures);
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
                self.give_up(cx, failures);
            } else {
                let more = self.random_words(60, cx.urz);
                self.tests.extend(more);
            }
        }
        Ok(())
    }

    /// Ends learning. Where the model says something wrong about a word it shall say nothing: of the choices that make up the
    /// word the one that the fewest words of real code make is taken out.
    fn give_up(&mut self, cx: &Cx<'_>, failures: Vec<u128>) {
        let mut buf = String::new();
        let mut known: Vec<u128> = self.corpus.clone();
        known.extend(&self.explored);
        known.extend(self.tests.iter().copied().filter(|w| cx.oracle.known(*w).flatten().is_some()));
        for &word in &failures {
            if !self.wrong(cx, word, &mut buf) || !self.model.predict(cx.lits, cx.urz, word, &mut buf) {
                continue;
            }
            let cost = |c: usize| {
                let comp = &self.model.comps[c];
                let value = comp_value(&self.model.slots, &comp.inputs, word);
                let at_base = comp_value(&self.model.slots, &comp.inputs, self.model.base) == value;
                let hurt = known.iter().filter(|w| comp_value(&self.model.slots, &comp.inputs, **w) == value).count();
                (at_base, hurt)
            };
            if let Some(worst) = (0..self.model.comps.len()).min_by_key(|&c| cost(c)) {
                let comp = &mut self.model.comps[worst];
                let value = comp_value(&self.model.slots, &comp.inputs, word);
                comp.table.remove(&value);
            }
        }
        self.failures = failures;
        self.stage = 5;
    }

    pub(super) fn mend(&mut self, mend: Mend) {
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
    pub(super) fn explain(&self, cx: &mut Cx<'_>, word: u128) -> Result<Mend, Pending> {
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
                // No register is special but the zero and the true one.
                None if used < 4 && !self.slots[slot].is_register() => {
                    inputs.push(Input::Feature(slot, Test::Eq(value)))
                }
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

pub(super) struct Mend {
    inputs: Vec<Input>,
    join: bool,
}
