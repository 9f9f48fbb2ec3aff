//! The tables as text for people: one line for each class of words, so that a diff shows what a new toolkit changed.
//!
//! ```text
//! [sm_80 sm_86]
//! 210 @P12 IADD3 {74 -|.X} R16, {72 -}R24{122 .reuse}, …
//! ```
//! A number is its kind and lowest bit (`R16`, `hex32+20` where it has more than the usual bits); braces hold the bits that choose
//! and what they choose from, in the order of their values; `~` says nothing, `!` is illegal. A class is listed under all the
//! architectures that have it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::edit::SLOT;
use crate::model::{Comp, Input, Literals, Model, Piece, Test};
use crate::slot::{Format, Slot};
use crate::store::{Learnt, format_name};
use crate::text::Kind;

/// Choices of more values than this are listed without their values.
const LISTED: usize = 16;

fn number(slot: &Slot) -> String {
    let bit = slot.bits.first().map_or(0, |b| b.0);
    let usual = match slot.format {
        Format::Linear(Kind::R | Kind::Ur) => 8,
        Format::Linear(Kind::P | Kind::Up) => 3,
        Format::F32 | Format::F64High => 32,
        Format::F16 | Format::Bf16 => 16,
        Format::Linear(_) => 0,
    };
    let mut out = format!("{}{bit}", format_name(slot.format));
    if slot.bits.len() != usual {
        let _ = write!(out, "+{}", slot.bits.len());
    }
    // Scaled, or in pieces: the weights of its first and last bits say so.
    if let (Some(first), Some(last)) = (slot.bits.first(), slot.bits.last())
        && (first.1 != 1 || last.1.unsigned_abs().checked_shr(slot.bits.len() as u32 - 1) != Some(1) || last.1 < 0)
    {
        let _ = write!(out, "*{}..{}", first.1, last.1);
    }
    out
}

fn tokens(model: &Model, lits: &Literals, list: &[u32]) -> String {
    let mut out = String::new();
    for &t in list {
        if t & SLOT != 0 {
            let _ = write!(out, "<{}>", number(&model.slots[(t & !SLOT) as usize]));
        } else {
            out.push_str(lits.get(t));
        }
    }
    if out.is_empty() { "~".to_owned() } else { out.replace(' ', "_") }
}

fn inputs(model: &Model, comp: &Comp) -> String {
    let mut out = Vec::new();
    let mut bits: Vec<u8> = Vec::new();
    for input in &comp.inputs {
        match *input {
            Input::Bit(bit) => bits.push(bit),
            Input::Feature(slot, Test::Eq(value)) => out.push(format!("{}={value}", number(&model.slots[slot]))),
            Input::Feature(slot, Test::Pow2) => out.push(format!("{}=2^n", number(&model.slots[slot]))),
        }
    }
    let mut at = 0;
    let mut runs = Vec::new();
    while at < bits.len() {
        let mut end = at;
        while end + 1 < bits.len() && bits[end + 1] == bits[end] + 1 {
            end += 1;
        }
        runs.push(if end > at { format!("{}-{}", bits[at], bits[end]) } else { bits[at].to_string() });
        at = end + 1;
    }
    runs.extend(out);
    runs.join(",")
}

/// What a component says at one site, by value.
fn choices(model: &Model, lits: &Literals, comp: &Comp, site: usize) -> String {
    let said = |value: u64| comp.table.get(&value).map(|&v| tokens(model, lits, &comp.variants[usize::from(v)][site]));
    let size = 1u64 << comp.inputs.len().min(20);
    if size as usize <= LISTED {
        let list: Vec<String> = (0..size).map(|v| said(v).unwrap_or_else(|| "!".to_owned())).collect();
        if let [off, on] = list.as_slice()
            && off == "~"
        {
            return on.clone();
        }
        return list.join("|");
    }
    let mut all: BTreeSet<String> = BTreeSet::new();
    for &value in comp.table.keys() {
        all.extend(said(value));
    }
    // Of a long list the head, and a sum that changes when any of it does.
    let sum = comp.table.keys().fold(0xcbf2_9ce4_8422_2325u64, |sum, &value| {
        let said = said(value).unwrap_or_default();
        said.bytes().chain(value.to_le_bytes()).fold(sum, |s, b| (s ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
    });
    let head: Vec<String> = all.iter().take(LISTED).cloned().collect();
    let more =
        if all.len() > LISTED { format!("|… {} texts, sum {:08x}", all.len(), sum as u32) } else { String::new() };
    format!("{} of {size}: {}{more}", comp.table.len(), head.join("|"))
}

fn class(model: &Model, lits: &Literals) -> String {
    let mut out = String::new();
    for piece in &model.pieces {
        match *piece {
            Piece::Token(t) if t & SLOT != 0 => out.push_str(&number(&model.slots[(t & !SLOT) as usize])),
            Piece::Token(t) => out.push_str(lits.get(t)),
            Piece::Site(c, s) => {
                let comp = &model.comps[c];
                let _ = match crate::pack::guard_of(model, lits, comp) {
                    Some(3) => write!(out, "@P12 "),
                    Some(_) => write!(out, "@UP12 "),
                    None => write!(out, "{{{} {}}}", inputs(model, comp), choices(model, lits, comp, s)),
                };
            }
        }
    }
    // Components that print nothing only say which words are legal.
    for comp in model.comps.iter().filter(|c| c.variants.first().is_none_or(Vec::is_empty)) {
        let all = 1usize.checked_shl(comp.inputs.len() as u32).unwrap_or(usize::MAX);
        if comp.table.len() < all {
            let _ = write!(out, " where {} is one of {}", inputs(model, comp), comp.table.len());
        }
    }
    if model.fixed != 0 {
        let _ = write!(out, " & {:x}={:x}", model.fixed, model.base & model.fixed);
    }
    out
}

/// The description of all tables.
pub fn describe(all: &[&Learnt], lits: &Literals) -> String {
    let mut by_text: BTreeMap<(u16, String), Vec<usize>> = BTreeMap::new();
    for (at, learnt) in all.iter().enumerate() {
        for (model, &opcode) in learnt.models.iter().zip(&learnt.opcodes) {
            let list = by_text.entry((opcode, class(model, lits))).or_default();
            if list.last() != Some(&at) {
                list.push(at);
            }
        }
    }
    let mut groups: BTreeMap<Vec<usize>, Vec<String>> = BTreeMap::new();
    for ((opcode, text), list) in by_text {
        groups.entry(list).or_default().push(format!("{opcode:03x} {text}"));
    }
    let mut out = String::from(
        "# What sass.bin says, a class of words a line; written by sass-tables pack (docs/sass-tables.md).\n",
    );
    for (list, lines) in groups {
        let names: Vec<String> = list.iter().map(|&i| all[i].arch.replacen("SM", "sm_", 1)).collect();
        let _ = writeln!(out, "\n[{}]", names.join(" "));
        for line in lines {
            out.push_str(&line);
            out.push('\n');
        }
    }
    out
}

/// Lines that only one of two descriptions has, by architecture.
pub fn difference(old: &str, new: &str) -> Vec<(String, Vec<String>)> {
    fn lines(text: &str) -> BTreeSet<(String, String)> {
        let mut out = BTreeSet::new();
        let mut names: Vec<&str> = Vec::new();
        for line in text.lines().filter(|l| !l.is_empty() && !l.starts_with('#')) {
            match line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                Some(list) => names = list.split(' ').collect(),
                None => out.extend(names.iter().map(|name| ((*name).to_owned(), line.to_owned()))),
            }
        }
        out
    }
    let (old, new) = (lines(old), lines(new));
    let mut by_arch: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, line) in old.difference(&new) {
        by_arch.entry(name.clone()).or_default().push(format!("- {line}"));
    }
    for (name, line) in new.difference(&old) {
        by_arch.entry(name.clone()).or_default().push(format!("+ {line}"));
    }
    for lines in by_arch.values_mut() {
        // A class that changed stands next to what it was: same opcode, old before new.
        lines.sort_by_key(|l| (l.get(2..5).unwrap_or("").to_owned(), l.starts_with('+')));
    }
    by_arch.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_is_by_architecture() {
        let old = "# x\n\n[sm_80 sm_86]\n210 IADD3 R16\n\n[sm_80]\n211 OLD\n";
        let new = "# x\n\n[sm_80 sm_86]\n210 IADD3 R16\n\n[sm_86]\n212 NEW\n";
        let expected = vec![
            ("sm_80".to_owned(), vec!["- 211 OLD".to_owned()]),
            ("sm_86".to_owned(), vec!["+ 212 NEW".to_owned()]),
        ];
        assert_eq!(difference(old, new), expected);
        assert!(difference(new, new).is_empty());
    }
}
