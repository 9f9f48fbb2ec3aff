//! Packs learnt architectures into the tables the decoder reads in place. Equal records are stored once, whatever
//! architecture they come from. The layout is described where it is read, in `src/sass/blob.rs`.

use std::collections::HashMap;

use anyhow::{Result, ensure};

use crate::edit::SLOT;
use crate::effects::{Decision, Node, Number, Question, Step};
use crate::model::{Comp, Input, Literals, Model, Piece, Test};
use crate::slot::{Format, Slot};
use crate::store::{Learnt, format_number};
use crate::text::Kind;
use crate::tree::Tree;

#[derive(Default)]
struct Packer {
    blob: Vec<u8>,
    text: String,
    records: HashMap<Vec<u8>, u32>,
    literals: HashMap<String, u32>,
    /// Where the pool of literals begins in the blob.
    pool: u32,
    /// The number of URZ in the architecture being packed.
    urz: u8,
}

/// (bit, width, shift, negative) runs of a linear number.
fn chunks(bits: &[(u8, i64)]) -> Result<Vec<[u8; 4]>> {
    let mut bits: Vec<(u8, i64)> = bits.iter().copied().filter(|b| b.1 != 0).collect();
    bits.sort_unstable();
    let mut out: Vec<[u8; 4]> = Vec::new();
    for (bit, weight) in bits {
        let size = weight.unsigned_abs();
        // A weight that is no power of two is the sum of several.
        let negative = u8::from(weight < 0);
        for shift in (0..64).filter(|s| size >> s & 1 == 1) {
            if let Some(last) = out.last_mut()
                && last[0] + last[1] == bit
                && bit != 64
                && last[2] + last[1] == shift
                && last[3] == negative
            {
                last[1] += 1;
            } else {
                out.push([bit, 1, shift, negative]);
            }
        }
    }
    ensure!(out.len() < 256, "a number of {} runs", out.len());
    Ok(out)
}

/// The inputs of a component in the order the tables have them: bits first, ascending, so that neighbours form runs.
fn ordered(comp: &Comp) -> Vec<(usize, Input)> {
    let mut order: Vec<(usize, Input)> = comp.inputs.iter().copied().enumerate().collect();
    order.sort_by_key(|&(_, input)| input);
    order
}

/// A value of a component's inputs in the tables' order.
fn place(comp: &Comp, value: u64) -> u32 {
    ordered(comp).iter().enumerate().fold(0u64, |v, (new, (at, _))| v | (value >> at & 1) << new) as u32
}

/// The field a component looks at, where it is one of a few bits: lowest bit and width.
fn field_of(comp: &Comp) -> Option<(u8, u8)> {
    let mut bits = Vec::new();
    for input in &comp.inputs {
        match input {
            Input::Bit(bit) => bits.push(*bit),
            Input::Feature(..) => return None,
        }
    }
    bits.sort_unstable();
    let (&low, &high) = (bits.first()?, bits.last()?);
    let whole = usize::from(high - low) + 1 == bits.len() && (low < 64) == (high < 64);
    (whole && bits.len() <= 6).then_some((low, bits.len() as u8))
}

/// The kind of the guard's register, where a component is the guard as every class has it: `@P0 `, `@!P0 `, `@!PT ` or nothing.
pub fn guard_of(model: &Model, lits: &Literals, comp: &Comp) -> Option<u8> {
    let [Input::Bit(15), Input::Feature(slot, Test::Eq(7))] = *comp.inputs.as_slice() else { return None };
    let register = &model.slots[slot];
    let field = register.bits == [(12, 1), (13, 2), (14, 4)] && register.add == 0 && register.is_register();
    let spelled = |value: u64| -> Option<String> {
        let [site] = comp.variants.get(usize::from(*comp.table.get(&value)?))?.as_slice() else { return None };
        let part = |&t: &u32| match t {
            t if t == SLOT | slot as u32 => Some("#"),
            t if t & SLOT == 0 => Some(lits.get(t)),
            _ => None,
        };
        site.iter().map(part).collect()
    };
    let all: Option<Vec<String>> = (0..4).map(spelled).collect();
    let expected = field && all.is_some_and(|all| all == ["@# ", "@!# ", "", "@!# "]);
    expected.then(|| format_number(register.format))
}

/// Which predicates guard a class's words, as their texts say: 1 P, 2 UP, 0 neither.
fn guard_file(model: &Model, lits: &Literals, urz: u8) -> u8 {
    let mut text = String::new();
    let starts = (0..7u128).find_map(|number| {
        let word = model.base & !(15 << 12) | number << 12;
        let guard = [(format!("@P{number} "), 1), (format!("@UP{number} "), 2)];
        let is_said = model.predict(lits, i64::from(urz), word, &mut text);
        guard.into_iter().find(|(start, _)| is_said && text.starts_with(start.as_str()))
    });
    starts.map_or(0, |(_, file)| file)
}

impl Packer {
    fn put(&mut self, record: Vec<u8>) -> u32 {
        if let Some(&at) = self.records.get(&record) {
            return at;
        }
        let at = self.blob.len() as u32;
        self.blob.extend_from_slice(&record);
        self.records.insert(record, at);
        at
    }

    /// Where a literal stands: in the pool at the head of the blob, shared with longer ones that contain it.
    fn literal(&mut self, text: &str) -> u32 {
        if let Some(&at) = self.literals.get(text) {
            return at;
        }
        let at = self.text.find(text).unwrap_or_else(|| {
            self.text.push_str(text);
            self.text.len() - text.len()
        }) as u32;
        self.literals.insert(text.to_owned(), at + self.pool);
        at + self.pool
    }

    /// The number that a uniform register spells URZ.
    fn zero(&self, slot: &Slot) -> u8 {
        if slot.format == Format::Linear(Kind::Ur) { self.urz } else { 0 }
    }

    fn slot(&mut self, slot: &Slot) -> Result<u32> {
        let runs = chunks(&slot.bits)?;
        let zero = self.zero(slot);
        let mut record = vec![format_number(slot.format), runs.len() as u8, zero, 0];
        record.extend_from_slice(&slot.add.to_le_bytes());
        record.extend(runs.iter().flatten());
        Ok(self.put(record))
    }

    /// The steps of a template, 8 bytes each, the closing one left out.
    fn ops(&mut self, model: &Model, lits: &Literals, comps: &[u32], pieces: &[Piece]) -> Result<Vec<[u8; 8]>> {
        let step = |head: [u8; 4], tail: u32| {
            let mut op = [0; 8];
            op[..4].copy_from_slice(&head);
            op[4..].copy_from_slice(&tail.to_le_bytes());
            op
        };
        let mut out = Vec::new();
        let mut pending = String::new();
        for piece in pieces {
            match *piece {
                Piece::Token(t) if t & SLOT == 0 => pending.push_str(lits.get(t)),
                Piece::Token(t) => {
                    let slot = &model.slots[(t & !SLOT) as usize];
                    let (kind, zero) = (format_number(slot.format), self.zero(slot));
                    match chunks(&slot.bits)?.as_slice() {
                        // One field, as it is: it takes a short text along.
                        &[[bit, width, 0, 0]] if slot.add == 0 && slot.format != Format::Linear(Kind::Target) => {
                            if pending.len() > 3 {
                                self.flush(&mut pending, &mut out);
                            }
                            let mut op = [4, kind | (pending.len() as u8) << 4, bit, width, zero, 0, 0, 0];
                            op[5..5 + pending.len()].copy_from_slice(pending.as_bytes());
                            pending.clear();
                            out.push(op);
                        }
                        _ => {
                            self.flush(&mut pending, &mut out);
                            let slot = self.slot(slot)?;
                            out.push(step([2, 0, 0, 0], slot));
                        }
                    }
                }
                Piece::Site(c, s) => {
                    let comp = &model.comps[c];
                    if let Some(kind) = guard_of(model, lits, comp) {
                        self.flush(&mut pending, &mut out);
                        out.push(step([8, kind, 0, 0], 0));
                        continue;
                    }
                    let Some((bit, width)) = field_of(comp) else {
                        self.flush(&mut pending, &mut out);
                        out.push(step([3, s as u8, 0, 0], comps[c]));
                        continue;
                    };
                    // What it says there for each value of its field.
                    let mut steps = vec![[0; 8]; 1 << width];
                    for (&value, &variant) in &comp.table {
                        steps[place(comp, value) as usize] =
                            self.step(model, lits, &comp.variants[variant as usize][s])?;
                    }
                    self.flush(&mut pending, &mut out);
                    match steps.as_slice() {
                        [[0, ..], [0, ..]] => {}
                        &[[0, ..], [1, len, _, _, a, b, c, d]] => out.push([6, bit, len, 0, a, b, c, d]),
                        _ => {
                            let at = self.put(steps.concat());
                            out.push(step([7, bit, width, 0], at));
                        }
                    }
                }
            }
        }
        self.flush(&mut pending, &mut out);
        Ok(out)
    }

    /// What a component says at a site, as one step.
    fn step(&mut self, model: &Model, lits: &Literals, site: &[u32]) -> Result<[u8; 8]> {
        let pieces: Vec<Piece> = site.iter().map(|&t| Piece::Token(t)).collect();
        Ok(match self.ops(model, lits, &[], &pieces)?.as_slice() {
            [] => [0; 8],
            [one] => *one,
            many => {
                let [a, b, c, d] = self.list(many).to_le_bytes();
                [5, 0, 0, 0, a, b, c, d]
            }
        })
    }

    fn list(&mut self, ops: &[[u8; 8]]) -> u32 {
        let mut record: Vec<u8> = ops.iter().flatten().copied().collect();
        record.extend_from_slice(&[0; 8]);
        self.put(record)
    }

    fn flush(&mut self, pending: &mut String, out: &mut Vec<[u8; 8]>) {
        let mut rest = pending.as_str();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(200));
            let [a, b, c, d] = self.literal(now).to_le_bytes();
            out.push([1, now.len() as u8, 0, 0, a, b, c, d]);
            rest = later;
        }
        pending.clear();
    }

    fn comp(&mut self, model: &Model, lits: &Literals, comp: &Comp) -> Result<u32> {
        let order = ordered(comp);
        let mut runs: Vec<[u8; 4]> = Vec::new();
        let mut tests = Vec::new();
        for (new, (_, input)) in order.iter().enumerate() {
            match *input {
                Input::Bit(bit) => {
                    if let Some(last) = runs.last_mut()
                        && last[0] + last[1] == bit
                        && bit != 64
                        && usize::from(last[2] + last[1]) == new
                    {
                        last[1] += 1;
                    } else {
                        runs.push([bit, 1, new as u8, 0]);
                    }
                }
                Input::Feature(slot, test) => {
                    let slot = &model.slots[slot];
                    let (kind, value, bit, width) = match (test, chunks(&slot.bits)?.as_slice()) {
                        (Test::Eq(value), &[[bit, width, 0, 0]]) if slot.add == 0 => (2u8, value, bit, width),
                        (Test::Eq(value), _) => (0, value, 0, 0),
                        (Test::Pow2, _) => (1, 0, 0, 0),
                    };
                    tests.extend_from_slice(&self.slot(slot)?.to_le_bytes());
                    tests.extend_from_slice(&[kind, new as u8, bit, width]);
                    tests.extend_from_slice(&value.to_le_bytes());
                }
            }
        }
        let mut table: Vec<(u32, u32)> = comp.table.iter().map(|(&k, &v)| (place(comp, k), u32::from(v))).collect();
        table.sort_unstable();
        let size = 1usize.checked_shl(comp.inputs.len() as u32).unwrap_or(usize::MAX);
        let narrow = comp.variants.len() < 255;
        let dense_bytes = size.saturating_mul(if narrow { 1 } else { 2 });
        let (form, entries, bytes) = if comp.inputs.len() <= 16 && dense_bytes <= (table.len() * 8).max(64) {
            let mut bytes = vec![0xffu8; dense_bytes];
            for &(index, variant) in &table {
                if narrow {
                    bytes[index as usize] = variant as u8;
                } else {
                    bytes[2 * index as usize..][..2].copy_from_slice(&(variant as u16).to_le_bytes());
                }
            }
            (u8::from(!narrow), size as u32, bytes)
        } else {
            let bytes = table.iter().flat_map(|(k, v)| [k.to_le_bytes(), v.to_le_bytes()]).flatten().collect();
            (2, table.len() as u32, bytes)
        };
        let table = self.put(bytes);
        let sites = comp.variants.first().map_or(0, Vec::len);
        let mut variants = Vec::new();
        for variant in &comp.variants {
            for site in variant {
                variants.extend_from_slice(&self.step(model, lits, site)?);
            }
        }
        let variants = if variants.is_empty() { 0 } else { self.put(variants) };
        let mut record = vec![runs.len() as u8, (tests.len() / 16) as u8, sites as u8, form];
        for number in [table, entries, variants] {
            record.extend_from_slice(&number.to_le_bytes());
        }
        record.extend(runs.iter().flatten());
        record.extend_from_slice(&tests);
        Ok(self.put(record))
    }

    /// What a class's words do to registers. Zero: not known.
    fn decision(&mut self, decision: &Decision, node: Node, done: &mut HashMap<Node, u32>) -> u32 {
        if let Some(&at) = done.get(&node) {
            return at;
        }
        let record = match decision.step(node) {
            Step::Unknown => return 0,
            Step::Leaf(uses) => {
                let mut record = vec![1, uses.len() as u8];
                for used in uses {
                    record.extend_from_slice(&[used.file as u8, used.pos, used.bits, u8::from(used.write), used.count]);
                }
                record
            }
            Step::Ask(question, children) => {
                let mut record = match *question {
                    Question::Number(Number { low, high }) => vec![3, low.0, low.1 | high.1 << 4, high.0],
                    Question::Component(comp) => {
                        let [low, high] = (children.len() as u16).to_le_bytes();
                        vec![2, comp, low, high]
                    }
                };
                for &child in children {
                    record.extend_from_slice(&self.decision(decision, child, done).to_le_bytes());
                }
                record
            }
        };
        let at = self.put(record);
        done.insert(node, at);
        at
    }

    fn class(&mut self, model: &Model, lits: &Literals, decision: &Decision) -> Result<u32> {
        let mut comps = Vec::new();
        for comp in &model.comps {
            comps.push(self.comp(model, lits, comp)?);
        }
        let ops = self.ops(model, lits, &comps, &model.pieces)?;
        let template = self.list(&ops);
        // Components that call some words illegal: the decoder looks at no other.
        let mut partial = 0u16;
        for (i, comp) in model.comps.iter().enumerate().take(16) {
            partial |= u16::from(comp.inputs.len() > 16 || comp.table.len() < 1 << comp.inputs.len()) << i;
        }
        let value = model.base & model.fixed;
        let mut record = Vec::new();
        for half in [model.fixed as u64, (model.fixed >> 64) as u64, value as u64, (value >> 64) as u64] {
            record.extend_from_slice(&half.to_le_bytes());
        }
        record.extend_from_slice(&template.to_le_bytes());
        record.extend_from_slice(&[guard_file(model, lits, self.urz), comps.len() as u8]);
        record.extend_from_slice(&partial.to_le_bytes());
        let effects = self.decision(decision, decision.root(), &mut HashMap::new());
        record.extend_from_slice(&effects.to_le_bytes());
        for comp in comps {
            record.extend_from_slice(&comp.to_le_bytes());
        }
        Ok(self.put(record))
    }

    fn tree(&mut self, tree: &Tree, classes: &[u32]) -> u32 {
        let record = match tree {
            Tree::Leaf(label) => {
                let Some(class) = classes.get(*label as usize) else { return 0 };
                let mut record = vec![1, 0, 0, 0];
                record.extend_from_slice(&class.to_le_bytes());
                record
            }
            Tree::Bit(bit, no, yes) => {
                let mut record = vec![2, *bit, 0, 0];
                for child in [no, yes] {
                    record.extend_from_slice(&self.tree(child, classes).to_le_bytes());
                }
                record
            }
            Tree::Equal(mask, value, no, yes) => {
                let mut record = vec![3, 0, 0, 0];
                for child in [no, yes] {
                    record.extend_from_slice(&self.tree(child, classes).to_le_bytes());
                }
                for number in [mask, value] {
                    record.extend_from_slice(&number.to_le_bytes());
                }
                record
            }
        };
        self.put(record)
    }
}

/// The table that the decoder reads.
pub fn pack(all: &[(Learnt, Vec<Decision>)], lits: &Literals) -> Result<Vec<u8>> {
    // Twice: the first time finds out which literals there are.
    let pool = pack_with(all, lits, String::new())?.text;
    Ok(pack_with(all, lits, pool)?.blob)
}

fn pack_with(all: &[(Learnt, Vec<Decision>)], lits: &Literals, pool: String) -> Result<Packer> {
    let mut packer = Packer { text: pool, ..Packer::default() };
    packer.blob.extend_from_slice(b"PTXSASS3");
    packer.blob.extend_from_slice(&(all.len() as u32).to_le_bytes());
    packer.blob.resize(12 + 8 * all.len(), 0);
    packer.pool = packer.blob.len() as u32;
    packer.blob.extend_from_slice(packer.text.as_bytes());
    for (i, (learnt, decisions)) in all.iter().enumerate() {
        packer.urz = if crate::learn::sm_of(&learnt.arch) >= 100 { 255 } else { 63 };
        let mut classes = Vec::new();
        for (model, decision) in learnt.models.iter().zip(decisions) {
            classes.push(packer.class(model, lits, decision)?);
        }
        let mut pages = Vec::new();
        for page in 0..64u16 {
            let mut record = Vec::new();
            for slot in 0..64u16 {
                let node = learnt.trees.get(&(page * 64 + slot)).map_or(0, |tree| packer.tree(tree, &classes));
                record.extend_from_slice(&node.to_le_bytes());
            }
            pages.extend_from_slice(&packer.put(record).to_le_bytes());
        }
        let at = packer.put(pages);
        let sm = crate::learn::sm_of(&learnt.arch);
        let variant: u16 = match learnt.arch.as_bytes().last() {
            Some(b'a') => 2,
            Some(b'f') => 1,
            _ => 0,
        };
        let head = &mut packer.blob[12 + 8 * i..][..8];
        head[..2].copy_from_slice(&sm.to_le_bytes());
        head[2..4].copy_from_slice(&variant.to_le_bytes());
        head[4..].copy_from_slice(&at.to_le_bytes());
    }
    // The reader of a literal takes sixteen bytes at a time.
    packer.blob.extend_from_slice(&[0; 16]);
    Ok(packer)
}
