//! Words near known ones, with modifiers drawn by lot: classes and settings that no real code has shown and no flip of one
//! bit reaches (`F2F.BF16.F16` differs from `F2F.F16.F32` in two fields at once).

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::lot::Lot;
use crate::oracle::Oracle;

/// Draws of each kind around one word.
const DRAWS: usize = 100;
/// Words of one class whose texts are asked for, and those that are kept.
const ASKED: usize = 150;
const KEPT: usize = 60;
/// How often classes that were found serve as the start for the next draws.
const ROUNDS: usize = 2;

/// An opcode and the number of the group that nvdisasm puts its word into.
pub type Key = (u16, u32);

/// Finds legal words of classes around `bases`, a few for each way to spell their modifiers.
pub fn explore(oracle: &mut Oracle, bases: &[u128]) -> Result<BTreeMap<Key, Vec<u128>>> {
    let mut lot = Lot::new(0x9e37_79b9_7f4a_7c15);
    let mut found: BTreeMap<Key, Vec<u128>> = BTreeMap::new();
    let mut seeds = bases.to_vec();
    for _ in 0..ROUNDS {
        let words: Vec<u128> = seeds.iter().flat_map(|&base| near(base, &mut lot)).collect();
        while oracle.labels(&words).is_err() {
            oracle.settle()?;
        }
        let mut fresh: BTreeMap<Key, u128> = BTreeMap::new();
        for &word in &words {
            let Some(label) = oracle.label(word) else { continue };
            let key = (word as u16 & 0xfff, label);
            let list = found.entry(key).or_default();
            if list.is_empty() {
                fresh.insert(key, word);
            }
            list.push(word);
        }
        seeds = fresh.into_values().collect();
    }
    for list in found.values_mut() {
        let step = (list.len() / ASKED).max(1);
        *list = list.iter().copied().step_by(step).take(ASKED).collect();
    }
    let asked: Vec<u128> = found.values().flatten().copied().collect();
    while oracle.texts(&asked).is_err() {
        oracle.settle()?;
    }
    for list in found.values_mut() {
        let mut seen: BTreeSet<String> = BTreeSet::new();
        list.retain(|&word| oracle.known(word).flatten().is_some_and(|text| seen.insert(mnemonic(text))));
        list.truncate(KEPT);
    }
    found.retain(|_, list| !list.is_empty());
    Ok(found)
}

/// `@P0 F2F.F16.F32 R1, R2` → `F2F.F16.F32`
fn mnemonic(text: &str) -> String {
    text.split(' ').find(|part| !part.starts_with('@')).unwrap_or(text).to_owned()
}

/// Words that differ from one in the form of its second and third operand, or in modifiers: any of them, a few bits, a few
/// fields.
fn near(base: u128, lot: &mut Lot) -> Vec<u128> {
    // Bit 91 says that an operand is a uniform register.
    let mut out: Vec<u128> = (0..16u128).map(|n| base & !(0xe00 | 1 << 91) | (n & 7) << 9 | (n >> 3) << 91).collect();
    // The upper bits are the better mixed ones.
    let mut draw = || lot.draw() >> 16;
    for _ in 0..DRAWS {
        let any = u128::from(draw()) & 0xf_ffff;
        let few = any & u128::from(draw()) & u128::from(draw());
        let mut fields = 0;
        for _ in 0..1 + draw() % 3 {
            let (at, width) = (54 + draw() % 38, 1 + draw() % 5);
            fields |= (u128::from(draw()) & ((1 << width) - 1)) << at;
        }
        out.extend([base ^ any << 72, base ^ few << 72, base ^ fields]);
    }
    out
}
