//! Packs learnt architectures into the tables the decoder reads in place. Equal records are stored once, whatever
//! architecture they come from. The layout is described where it is read, in `src/sass/blob.rs`.

use std::collections::HashMap;

use anyhow::{Result, ensure};

use crate::edit::SLOT;
use crate::effects::Decision;
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

    fn literal(&mut self, text: &str) -> u32 {
        if let Some(&at) = self.literals.get(text) {
            return at;
        }
        let at = self.text.find(text).unwrap_or_else(|| {
            self.text.push_str(text);
            self.text.len() - text.len()
        }) as u32;
        self.literals.insert(text.to_owned(), at);
        at
    }

    fn slot(&mut self, slot: &Slot) -> Result<u32> {
        let runs = chunks(&slot.bits)?;
        let zero = if slot.format == Format::Linear(Kind::Ur) { self.urz } else { 0 };
        let mut record = vec![format_number(slot.format), runs.len() as u8, zero, 0];
        record.extend_from_slice(&slot.add.to_le_bytes());
        record.extend(runs.iter().flatten());
        Ok(self.put(record))
    }

    fn template(&mut self, model: &Model, lits: &Literals, pieces: &[Piece]) -> Result<u32> {
        let mut record = Vec::new();
        let mut pending = String::new();
        for piece in pieces {
            if let Piece::Token(t) = piece
                && t & SLOT == 0
            {
                pending.push_str(lits.get(*t));
                continue;
            }
            self.flush(&mut pending, &mut record);
            match *piece {
                Piece::Token(t) => {
                    record.push(2);
                    let slot = self.slot(&model.slots[(t & !SLOT) as usize])?;
                    record.extend_from_slice(&slot.to_le_bytes());
                }
                Piece::Site(c, s) => record.extend_from_slice(&[3, c as u8, s as u8]),
            }
        }
        self.flush(&mut pending, &mut record);
        record.push(0);
        Ok(self.put(record))
    }

    fn flush(&mut self, pending: &mut String, record: &mut Vec<u8>) {
        let mut rest = pending.as_str();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(200));
            record.extend_from_slice(&[1, now.len() as u8]);
            record.extend_from_slice(&self.literal(now).to_le_bytes());
            rest = later;
        }
        pending.clear();
    }

    fn comp(&mut self, model: &Model, lits: &Literals, comp: &Comp) -> Result<u32> {
        // Bits first, ascending, so that neighbours form runs; then tests.
        let mut order: Vec<(usize, Input)> = comp.inputs.iter().copied().enumerate().collect();
        order.sort_by_key(|&(_, input)| input);
        let place =
            |old: u64| order.iter().enumerate().fold(0u64, |v, (new, (at, _))| v | (old >> at & 1) << new) as u32;
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
                    let (kind, value) = match test {
                        Test::Eq(value) => (0u8, value),
                        Test::Pow2 => (1, 0),
                    };
                    tests.extend_from_slice(&self.slot(&model.slots[slot])?.to_le_bytes());
                    tests.extend_from_slice(&[kind, new as u8, 0, 0]);
                    tests.extend_from_slice(&value.to_le_bytes());
                }
            }
        }
        let mut table: Vec<(u32, u32)> = comp.table.iter().map(|(&k, &v)| (place(k), u32::from(v))).collect();
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
                let pieces: Vec<Piece> = site.iter().map(|&t| Piece::Token(t)).collect();
                variants.extend_from_slice(&self.template(model, lits, &pieces)?.to_le_bytes());
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
    fn decision(&mut self, decision: &Decision) -> u32 {
        let record = match decision {
            Decision::Unknown => return 0,
            Decision::Leaf(uses) => {
                let mut record = vec![1, uses.len() as u8];
                for used in uses {
                    record.extend_from_slice(&[used.file as u8, used.pos, used.bits, u8::from(used.write), used.count]);
                }
                record
            }
            Decision::Switch(..) | Decision::Field(..) => {
                let (mut record, children) = match decision {
                    Decision::Field(pos, bits, children) => (vec![3, *pos, *bits, 0], children),
                    Decision::Switch(comp, children) => {
                        let [low, high] = (children.len() as u16).to_le_bytes();
                        (vec![2, *comp, low, high], children)
                    }
                    _ => return 0,
                };
                for child in children {
                    record.extend_from_slice(&self.decision(child).to_le_bytes());
                }
                record
            }
        };
        self.put(record)
    }

    fn class(&mut self, model: &Model, lits: &Literals, decision: &Decision) -> Result<u32> {
        let mut comps = Vec::new();
        for comp in &model.comps {
            comps.push(self.comp(model, lits, comp)?);
        }
        let template = self.template(model, lits, &model.pieces)?;
        let value = model.base & model.fixed;
        let mut record = Vec::new();
        for half in [model.fixed as u64, (model.fixed >> 64) as u64, value as u64, (value >> 64) as u64] {
            record.extend_from_slice(&half.to_le_bytes());
        }
        let guard = model.slots.iter().find_map(|slot| match (slot.format, slot.bits.first()) {
            (Format::Linear(Kind::P), Some((12, 1))) => Some(1),
            (Format::Linear(Kind::Up), Some((12, 1))) => Some(2),
            _ => None,
        });
        record.extend_from_slice(&template.to_le_bytes());
        record.extend_from_slice(&[guard.unwrap_or(0), comps.len() as u8, 0, 0]);
        record.extend_from_slice(&self.decision(decision).to_le_bytes());
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

/// The two tables: binary and text.
pub fn pack(all: &[(Learnt, Vec<Decision>)], lits: &Literals) -> Result<(Vec<u8>, String)> {
    let mut packer = Packer::default();
    packer.blob.extend_from_slice(b"PTXSASS2");
    packer.blob.extend_from_slice(&(all.len() as u32).to_le_bytes());
    packer.blob.resize(12 + 8 * all.len(), 0);
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
    Ok((packer.blob, packer.text))
}
