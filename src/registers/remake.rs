//! Whether a value could be made again where it is read next, from what is still there: so that it need not be held in between.
//!
//! What an instruction reads must be unchanged on every way from it to that read, and a vector register among it must be live at the place whose
//! registers count: else holding the operand would take the register that holding the result takes. What is not there may be made again itself, a few
//! instructions deep.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::iter::successors;
use std::ops::Range;

use crate::base::{FastMap, FastSet, Pc, RegFile, RegSet};
use crate::flow::Program;
use crate::graph::BlockId;
use crate::registers::code::Code;
use crate::registers::origins::{Origin, Origins, Place};
use crate::sass::parts;

/// How a value could be had again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Again {
    /// From memory that nothing may have changed.
    Load,
    /// By arithmetic.
    Compute,
}

/// Different instructions that making a value again may take.
const INSTRUCTIONS: usize = 16;
/// Instructions that are looked at for one value.
const LOOKED_AT: u64 = 1 << 16;

/// The instructions that are run again, each with the registers that are changed since its result was used.
type Remade = BTreeMap<Pc, RegSet>;

/// What an instruction takes its result from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Arithmetic,
    /// A special register that does not change.
    Special,
    /// Memory that the kernel cannot write, parameters among it.
    ReadOnly,
    /// Memory.
    Memory,
    /// It does more than make a value, or another value each time.
    Other,
}

/// Asks about the values that are live at one place.
pub struct Remake<'c> {
    /// The code.
    pub code: &'c Code,
    /// Where values come from.
    pub origins: &'c Origins<'c>,
    /// What is live at the place.
    pub live: &'c RegSet,
    /// What each 64 instructions in a row write, as far as somebody asked.
    written: RefCell<FastMap<usize, RegSet>>,
}

impl<'c> Remake<'c> {
    /// Asks about what is live at one place.
    pub fn new(code: &'c Code, origins: &'c Origins<'c>, live: &'c RegSet) -> Remake<'c> {
        Remake { code, origins, live, written: RefCell::default() }
    }

    /// How what an instruction makes could be had again before some reads of it.
    pub fn again(&self, maker: Pc, reads: &[Pc]) -> Option<Again> {
        self.can(maker, reads, &RegSet::EMPTY, &mut Remade::new())?;
        Some(match self.kind(maker) {
            Kind::Arithmetic | Kind::Special => Again::Compute,
            _ => Again::Load,
        })
    }

    /// Whether an instruction could be run again before the reads, where some registers are changed already since its result was used.
    fn can(&self, maker: Pc, reads: &[Pc], since: &RegSet, remade: &mut Remade) -> Option<()> {
        let known = remade.get(&maker).copied();
        if known.is_some_and(|known| since.difference(&known).is_empty()) {
            return Some(());
        }
        remade.insert(maker, known.unwrap_or(RegSet::EMPTY).union(since));
        if remade.len() > INSTRUCTIONS {
            return None;
        }
        let program = self.code.program();
        let index = maker.0 as usize / 16;
        if program.flow(index).guard.is_some() {
            return None;
        }
        let kind = self.kind(maker);
        if kind == Kind::Other {
            return None;
        }
        let between = self.between(maker, reads)?;
        if kind == Kind::Memory && between.iter().any(|pc| self.may_write(pc)) {
            return None;
        }
        let mut changed = *since;
        self.add_writes(&between, &mut changed);
        for (file, register) in program.effects(index).reads.iter_all() {
            let is_kept = !changed.contains(file, register) && !self.overwrites(maker, file, register);
            let is_free = file != RegFile::Gpr || register == 1 || self.live.contains(file, register);
            if is_kept && is_free {
                continue;
            }
            match self.origins.of(maker, Place { file, index: register })[..] {
                [Origin::Made(pc, _)] => self.can(pc, reads, &changed, remade)?,
                [Origin::Constant(_)] => {}
                _ => return None,
            }
        }
        Some(())
    }

    /// Adds what some instructions write.
    fn add_writes(&self, some: &Stretches, changed: &mut RegSet) {
        let program = self.code.program();
        let written = |index: usize| program.effects(index).writes;
        for (at, &word) in some.words.iter().enumerate() {
            if word == u64::MAX {
                let mut known = self.written.borrow_mut();
                changed.union_with(known.entry(at).or_insert_with(|| {
                    (at * 64..at * 64 + 64).map(written).fold(RegSet::EMPTY, |all, writes| all.union(&writes))
                }));
            } else {
                for index in bits(at, word) {
                    changed.union_with(&written(index));
                }
            }
        }
    }

    fn overwrites(&self, pc: Pc, file: RegFile, register: u16) -> bool {
        self.code.program().effects(pc.0 as usize / 16).writes.contains(file, register)
    }

    fn kind(&self, pc: Pc) -> Kind {
        let text = self.origins.text(pc);
        let parts = parts(&text);
        const ARITHMETIC: &[&str] = &[
            "IADD",
            "IMAD",
            "IMNMX",
            "IABS",
            "VIADD",
            "VIMNMX",
            "VIADDMNMX",
            "IADD3",
            "LEA",
            "LOP",
            "LOP3",
            "PLOP3",
            "SHF",
            "SHL",
            "SHR",
            "SEL",
            "FSEL",
            "PRMT",
            "BREV",
            "POPC",
            "FLO",
            "SGXT",
            "BMSK",
            "I2F",
            "I2FP",
            "F2F",
            "F2FP",
            "F2I",
            "I2I",
            "FADD",
            "FMUL",
            "FFMA",
            "FMNMX",
            "HADD2",
            "HMUL2",
            "HFMA2",
            "ISETP",
            "FSETP",
            "UIADD3",
            "UIMAD",
            "ULEA",
            "ULOP3",
            "USHF",
            "USEL",
            "USGXT",
            "UPRMT",
            "UISETP",
            "MOV",
            "UMOV",
            "R2UR",
            "P2R",
        ];
        const FIXED: &[&str] = &["SR_TID", "SR_CTAID", "SR_LANEID", "SR_NTID", "SR_NCTAID", "SR_CgaCtaId"];
        match parts.mnemonic {
            "S2R" | "S2UR" | "CS2R" => {
                let read = parts.operands.get(1).map_or("", |operand| operand.text);
                if FIXED.iter().any(|name| read.starts_with(name)) { Kind::Special } else { Kind::Other }
            }
            "LDC" | "ULDC" | "LDCU" => Kind::ReadOnly,
            "LDG" if parts.modifiers.contains(&"CONSTANT") => Kind::ReadOnly,
            "LDG" | "LDS" => Kind::Memory,
            mnemonic if ARITHMETIC.contains(&mnemonic) => Kind::Arithmetic,
            _ => Kind::Other,
        }
    }

    /// Whether memory may be another after an instruction: it writes some, or lets others do so.
    fn may_write(&self, pc: Pc) -> bool {
        const HARMLESS: &[&str] = &["LDG", "LDS", "LDC", "LDL", "STL", "ULDC", "LDCU"];
        let Some(instruction) = self.code.instruction(pc) else { return true };
        let mnemonic = self.code.decoder().mnemonic(&instruction);
        let touches = [
            "ST", "LD", "ATOM", "RED", "BAR", "UT", "UBLK", "SYNCS", "MEMBAR", "FENCE", "CALL", "UCGABAR", "DEPBAR",
            "SU", "UST",
        ];
        touches.iter().any(|start| mnemonic.starts_with(start)) && !HARMLESS.contains(&mnemonic)
    }

    /// The instructions on the ways from one to some others on which it is not run again, neither counted; none where they are too many.
    fn between(&self, from: Pc, to: &[Pc]) -> Option<Stretches> {
        let mut budget = LOOKED_AT;
        let instructions = self.code.cfg.instructions;
        let mut ahead = Stretches::none_of(instructions);
        self.reached(from, &mut budget, &mut ahead)?;
        let mut found = Stretches::none_of(instructions);
        for &end in to {
            self.reaching(end, from, &mut budget, &mut found)?;
        }
        found.keep(&ahead);
        Some(found)
    }

    /// Adds what can be run after an instruction before it is run again.
    fn reached(&self, from: Pc, budget: &mut u64, found: &mut Stretches) -> Option<()> {
        let cfg = &self.code.cfg;
        let mut seen: FastSet<BlockId> = FastSet::default();
        let mut open = vec![(cfg.block_at(from)?, from.0 / 16 + 1)];
        while let Some((block, start)) = open.pop() {
            let end = cfg.blocks.get(block.0 as usize)?.end;
            let stop = (start..end).find(|index| *index == from.0 / 16);
            let until = stop.unwrap_or(end);
            *budget = budget.checked_sub(u64::from(until.saturating_sub(start)))?;
            found.add(start..until);
            if stop.is_none() {
                for next in cfg.successors(block).filter(|next| seen.insert(*next)) {
                    open.push((next, cfg.blocks.get(next.0 as usize)?.start));
                }
            }
        }
        Some(())
    }

    /// Adds what can be run before an instruction without running another in between.
    fn reaching(&self, to: Pc, avoided: Pc, budget: &mut u64, found: &mut Stretches) -> Option<()> {
        let cfg = &self.code.cfg;
        let mut seen: FastSet<BlockId> = FastSet::default();
        let mut open = vec![(cfg.block_at(to)?, to.0 / 16)];
        while let Some((block, end)) = open.pop() {
            let start = cfg.blocks.get(block.0 as usize)?.start;
            let stop = (start..end).rev().find(|index| *index == avoided.0 / 16);
            let from = stop.map_or(start, |index| index + 1);
            *budget = budget.checked_sub(u64::from(end.saturating_sub(from)))?;
            found.add(from..end);
            if stop.is_none() {
                for before in cfg.predecessors(block).filter(|before| seen.insert(*before)) {
                    open.push((before, cfg.blocks.get(before.0 as usize)?.end));
                }
            }
        }
        Some(())
    }
}

/// Some of the instructions of a section: a bit each.
struct Stretches {
    words: Vec<u64>,
}

impl Stretches {
    fn none_of(instructions: u32) -> Stretches {
        Stretches { words: vec![0; (instructions as usize).div_ceil(64)] }
    }

    fn add(&mut self, range: Range<u32>) {
        let (start, end) = (range.start as usize, range.end as usize);
        for at in start / 64..end.div_ceil(64).min(self.words.len()) {
            let from = u64::MAX << start.saturating_sub(at * 64).min(63);
            let until = u64::MAX >> (64 - (end - at * 64).min(64));
            if start < end {
                self.words[at] |= from & until;
            }
        }
    }

    fn keep(&mut self, others: &Stretches) {
        for (word, other) in self.words.iter_mut().zip(&others.words) {
            *word &= other;
        }
    }

    fn iter(&self) -> impl Iterator<Item = Pc> + '_ {
        self.words.iter().enumerate().flat_map(|(at, &word)| bits(at, word)).map(|index| Pc(index as u32 * 16))
    }
}

/// The bits that are set in a word at a place, counted from the first word on.
fn bits(at: usize, word: u64) -> impl Iterator<Item = usize> {
    let rest = |left: &u64| Some(left & (left - 1)).filter(|left| *left != 0);
    successors(Some(word).filter(|word| *word != 0), rest).map(move |left| at * 64 + left.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_have_what_was_added() {
        let mut found = Stretches::none_of(200);
        for range in [0..1, 62..66, 127..128, 128..192, 199..200, 50..50] {
            found.add(range);
        }
        let expected = [0..1, 62..66, 127..192, 199..200].into_iter().flatten();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected.map(|at| Pc(at * 16)).collect::<Vec<_>>());
        let mut others = Stretches::none_of(200);
        others.add(64..130);
        found.keep(&others);
        assert_eq!(found.iter().map(|pc| pc.0 / 16).collect::<Vec<_>>(), [64, 65, 127, 128, 129]);
    }
}
