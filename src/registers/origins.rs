//! Where the value of a register comes from and where it goes, through what only moves it.
//!
//! A copy, a spill and its refill change the register that holds a value, not the value. In: a place (a register before an instruction). Out: the
//! instructions whose result it is, and those that read it, wherever it was moved in between. A walk that would cost too much is not made, and the
//! answer says that it is not complete.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::base::{FastMap, Pc, RegFile, RegSet};
use crate::flow::Program;
use crate::graph::BlockId;
use crate::registers::code::Code;
use crate::registers::spills::{Basis, SpillAccess, access};
use crate::sass::{Operand, OperandKind, parts};

/// A register of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The file.
    pub file: RegFile,
    /// The register.
    pub index: u16,
}

/// What a value is the result of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// An instruction that computes or loads it, and where it put it.
    Made(Pc, Place),
    /// An instruction that sets a number.
    Constant(Pc),
    /// Before the function's first instruction.
    Start,
    /// It cannot be told.
    Unknown,
}

impl Origin {
    /// The instruction that computes or loads it.
    pub fn made(self) -> Option<(Pc, Place)> {
        match self {
            Origin::Made(pc, place) => Some((pc, place)),
            _ => None,
        }
    }
}

/// The instructions that read a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Those that compute with it or store it, and the register that they read, ascending.
    pub at: Vec<(Pc, Place)>,
    /// Whether there are no others.
    pub is_complete: bool,
}

/// What an instruction does for a register that it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Copy(Place),
    /// It brings back this word of the stack.
    Refill(i64),
    Constant,
    Makes,
}

/// Walks over the code of one question: each is at worst as long as the code.
const WALKS: u32 = 2048;
/// Instructions that walks may see altogether.
const SEEN: u64 = 1 << 26;

/// Follows values of one section.
pub struct Origins<'c> {
    code: &'c Code,
    /// The spills and refills, ascending.
    spills: &'c [Pc],
    by_block: OnceCell<BTreeMap<u32, Vec<SpillAccess>>>,
    /// What instructions move, as far as somebody asked: their texts say it.
    moves: RefCell<FastMap<Pc, Moves>>,
    /// The registers that matrix instructions add to, as far as somebody asked.
    sums: RefCell<FastMap<Pc, Option<Range<u16>>>>,
    walks: Cell<u32>,
}

/// What an instruction that is no spill moves.
#[derive(Clone, Copy, Debug)]
enum Moves {
    /// One register, or several in a row, to where its result starts.
    Registers { to: Option<Place>, from: Place },
    /// A number.
    Number,
    /// Nothing: it makes what it writes.
    Nothing,
}

impl<'c> Origins<'c> {
    /// The spills, ascending, say which accesses of the stack move registers: those of a local array do not.
    pub fn new(code: &'c Code, spills: &'c [Pc]) -> Origins<'c> {
        let walks = (SEEN / u64::from(code.cfg.instructions.max(1))).min(u64::from(WALKS)) as u32;
        Origins {
            code,
            spills,
            by_block: OnceCell::new(),
            moves: RefCell::default(),
            sums: RefCell::default(),
            walks: Cell::new(walks),
        }
    }

    /// Takes one walk of those that are left.
    fn walk(&self) -> Option<()> {
        self.walks.set(self.walks.get().checked_sub(1)?);
        Some(())
    }

    /// The text of an instruction.
    pub fn text(&self, pc: Pc) -> String {
        let mut text = String::new();
        if let Some(instruction) = self.code.instruction(pc) {
            self.code.decoder().text(&instruction, pc, &mut text);
        }
        text
    }

    fn is_spill(&self, pc: Pc) -> bool {
        self.spills.binary_search(&pc).is_ok()
    }

    /// Whether an instruction reads a register.
    fn reads(&self, pc: Pc, place: Place) -> bool {
        let mut runs = self.code.program().runs(pc.0 as usize / 16);
        runs.any(|run| {
            !run.is_write() && run.file() == place.file && run.registers().any(|register| register == place.index)
        })
    }

    /// Whether an instruction writes a register.
    fn writes(&self, pc: Pc, place: Place) -> bool {
        let mut runs = self.code.program().runs(pc.0 as usize / 16);
        runs.any(|run| {
            run.is_write() && run.file() == place.file && run.registers().any(|register| register == place.index)
        })
    }

    fn step(&self, pc: Pc, place: Place) -> Step {
        if self.is_spill(pc) {
            let moved = access(Some(self.code), pc, Basis::Marked);
            let word = moved.slot.zip(moved.register).filter(|_| moved.bytes >= Some(4));
            return match word {
                Some((slot, first)) if moved.is_store == Some(false) && place.index >= first => {
                    Step::Refill(slot + 4 * i64::from(place.index - first))
                }
                _ => Step::Makes,
            };
        }
        match self.moves(pc) {
            Moves::Number => Step::Constant,
            Moves::Nothing => Step::Makes,
            Moves::Registers { to, from } => {
                let first = to.filter(|to| to.file == place.file);
                let Some(within) = first.and_then(|first| place.index.checked_sub(first.index)) else {
                    return Step::Makes;
                };
                let moved = Place { file: from.file, index: from.index + within };
                // RZ is a register that nobody reads.
                if self.reads(pc, moved) {
                    Step::Copy(moved)
                } else if self.reads(pc, from) {
                    Step::Makes
                } else {
                    Step::Constant
                }
            }
        }
    }

    fn moves(&self, pc: Pc) -> Moves {
        *self.moves.borrow_mut().entry(pc).or_insert_with(|| self.read_moves(pc))
    }

    fn read_moves(&self, pc: Pc) -> Moves {
        let text = self.text(pc);
        let parts = parts(&text);
        let is_zero = |at: usize| parts.operands.get(at).is_some_and(|factor| matches!(factor.text, "RZ" | "URZ"));
        // `IMAD.U32 R10, RZ, RZ, UR14`; with a carry there is one operand more.
        let adds_nothing = parts.operands.len() == 4 && is_zero(1) && is_zero(2);
        let moves = match parts.mnemonic {
            "MOV" | "UMOV" | "R2UR" => parts.operands.get(1),
            "IMAD" | "UIMAD" if parts.modifiers.contains(&"MOV") || adds_nothing => parts.operands.get(3),
            "CS2R" if parts.operands.get(1).is_some_and(|read| read.text == "SRZ") => return Moves::Number,
            _ => None,
        };
        let Some(moved) = moves else { return self.number(pc, &parts) };
        let register = |operand: &Operand<'_>| match operand.kind {
            OperandKind::Reg(reg) => Some(Place { file: reg.file, index: reg.index }),
            _ => None,
        };
        match &moved.kind {
            OperandKind::Int(_) | OperandKind::Float(_) => Moves::Number,
            OperandKind::Reg(reg) if !moved.negated && !moved.absolute && !moved.inverted => {
                let from = Place { file: reg.file, index: reg.index };
                Moves::Registers { to: parts.operands.first().and_then(register), from }
            }
            _ => Moves::Nothing,
        }
    }

    /// Whether an instruction that is no move sets a number all the same: `HFMA2 R4, -RZ, RZ, 0, 0` reads nothing.
    fn number(&self, pc: Pc, parts: &crate::sass::Parts<'_>) -> Moves {
        const ARITHMETIC: &[&str] = &[
            "HFMA2", "IMAD", "UIMAD", "IADD3", "UIADD3", "VIADD", "LOP3", "ULOP3", "FADD", "PRMT", "SHF", "LEA",
            "MOV32I",
        ];
        let reads = self.code.program().runs(pc.0 as usize / 16).any(|run| !run.is_write());
        let is_number = |kind: &OperandKind<'_>| !matches!(kind, OperandKind::Memory { .. });
        let is_plain = parts.operands.iter().all(|operand| is_number(&operand.kind));
        if ARITHMETIC.contains(&parts.mnemonic) && !reads && is_plain { Moves::Number } else { Moves::Nothing }
    }

    /// The instructions that may have put what a register holds before an instruction there; none where too much was asked.
    pub fn definitions(&self, at: Pc, place: Place) -> Option<Vec<Pc>> {
        let program = self.code.program();
        let block = self.code.cfg.block_at(at).and_then(|block| self.code.cfg.blocks.get(block.0 as usize))?;
        let mut found = Vec::new();
        for index in (block.start..at.0 / 16).rev() {
            let mut written = program.runs(index as usize).filter(|run| run.is_write() && run.file() == place.file);
            if !written.any(|run| run.registers().any(|register| register == place.index)) {
                continue;
            }
            let flow = program.flow(index as usize);
            if flow.never() {
                continue;
            }
            found.push(Pc(index * 16));
            if flow.guard.is_none() {
                return Some(found);
            }
        }
        self.walk()?;
        let mut wanted = RegSet::EMPTY;
        wanted.insert(place.file, place.index);
        let all = self.code.liveness.definitions(program, &self.code.cfg, at, &wanted);
        Some(all.into_iter().map(|definition| definition.pc).collect())
    }

    /// What the value is the result of that a register holds before an instruction, sorted.
    pub fn of(&self, at: Pc, place: Place) -> Vec<Origin> {
        match self.definitions(at, place) {
            Some(made) => self.of_definitions(place, &made),
            None => vec![Origin::Unknown],
        }
    }

    /// What the values are the results of that some instructions put into a register, sorted.
    pub fn of_definitions(&self, place: Place, definitions: &[Pc]) -> Vec<Origin> {
        let mut found: BTreeSet<Origin> = BTreeSet::new();
        let mut seen: BTreeSet<(Pc, Place)> = definitions.iter().map(|pc| (*pc, place)).collect();
        let mut open: Vec<(Pc, Place)> = seen.iter().copied().collect();
        if open.is_empty() {
            found.insert(Origin::Start);
        }
        while let Some((pc, place)) = open.pop() {
            let before = match self.step(pc, place) {
                Step::Makes => {
                    found.insert(Origin::Made(pc, place));
                    continue;
                }
                Step::Constant => {
                    found.insert(Origin::Constant(pc));
                    continue;
                }
                Step::Copy(from) => {
                    self.definitions(pc, from).map(|made| made.into_iter().map(|pc| (pc, from)).collect::<Vec<_>>())
                }
                Step::Refill(word) => self.stores_before(pc, word).map(|stores| {
                    let mut before = Vec::new();
                    for (store, register) in stores {
                        // RZ is stored: a constant.
                        let Some(index) = register else {
                            found.insert(Origin::Constant(store));
                            continue;
                        };
                        let from = Place { file: RegFile::Gpr, index };
                        match self.definitions(store, from) {
                            Some(made) => before.extend(made.into_iter().map(|pc| (pc, from))),
                            None => _ = found.insert(Origin::Unknown),
                        }
                    }
                    before
                }),
            };
            match before {
                None => _ = found.insert(Origin::Unknown),
                Some(before) if before.is_empty() && found.is_empty() && open.is_empty() => {
                    found.insert(Origin::Start);
                }
                Some(before) => open.extend(before.into_iter().filter(|node| seen.insert(*node))),
            }
        }
        found.into_iter().collect()
    }

    /// The spills and refills of each block, in order.
    fn by_block(&self) -> &BTreeMap<u32, Vec<SpillAccess>> {
        self.by_block.get_or_init(|| {
            let mut all: BTreeMap<u32, Vec<SpillAccess>> = BTreeMap::new();
            for &pc in self.spills {
                if let Some(block) = self.code.cfg.block_at(pc) {
                    all.entry(block.0).or_default().push(access(Some(self.code), pc, Basis::Marked));
                }
            }
            all
        })
    }

    /// The spill stores that may have filled a word of the stack, each with its register; none where too much was asked.
    fn stores_before(&self, at: Pc, word: i64) -> Option<Vec<(Pc, Option<u16>)>> {
        self.walk()?;
        let home = self.code.cfg.block_at(at)?;
        let mut found = Vec::new();
        let mut seen: BTreeSet<BlockId> = BTreeSet::new();
        let mut open = vec![(home, at)];
        while let Some((block, end)) = open.pop() {
            let spills = self.by_block().get(&block.0).map_or(&[][..], Vec::as_slice);
            let mut is_filled = false;
            for spill in spills.iter().rev().filter(|spill| spill.pc < end && spill.is_store == Some(true)) {
                let Some(within) = within(spill, word) else { continue };
                found.push((spill.pc, spill.register.map(|first| first + within)));
                if self.code.program().flow(spill.pc.0 as usize / 16).guard.is_none() {
                    is_filled = true;
                    break;
                }
            }
            if !is_filled {
                let before = self.code.cfg.predecessors(block);
                open.extend(before.filter(|block| seen.insert(*block)).map(|block| (block, Pc(u32::MAX))));
            }
        }
        Some(found)
    }

    /// The refills that may bring back what a spill store puts into a word of the stack, each with its register.
    fn refills_after(&self, at: Pc, word: i64) -> Option<Vec<(Pc, u16)>> {
        self.walk()?;
        let home = self.code.cfg.block_at(at)?;
        let mut found = Vec::new();
        let mut seen: BTreeSet<BlockId> = BTreeSet::new();
        let mut open = vec![(home, Some(at))];
        while let Some((block, after)) = open.pop() {
            let spills = self.by_block().get(&block.0).map_or(&[][..], Vec::as_slice);
            let mut is_overwritten = false;
            for spill in spills.iter().filter(|spill| after.is_none_or(|after| spill.pc > after)) {
                let Some(within) = within(spill, word) else { continue };
                if spill.is_store == Some(false) {
                    found.extend(spill.register.map(|first| (spill.pc, first + within)));
                } else if self.code.program().flow(spill.pc.0 as usize / 16).guard.is_none() {
                    is_overwritten = true;
                    break;
                }
            }
            if !is_overwritten {
                let next = self.code.cfg.successors(block);
                open.extend(next.filter(|block| seen.insert(*block)).map(|block| (block, None)));
            }
        }
        Some(found)
    }

    /// Where a read moves a value to, as what then holds it and from where on; none where it is a read like any other.
    fn moved(&self, at: Pc, place: Place) -> Option<Option<Vec<(Pc, Place)>>> {
        let next = |pc: Pc| Pc(pc.0 + 16);
        if self.is_spill(at) {
            let spill = access(Some(self.code), at, Basis::Marked);
            let (slot, first) = spill.slot.zip(spill.register)?;
            let stored = spill.is_store == Some(true) && spill.bytes >= Some(4) && place.file == RegFile::Gpr;
            let within = place.index.checked_sub(first).filter(|_| stored)?;
            let refills = self.refills_after(at, slot + 4 * i64::from(within));
            let held = |(pc, index)| (next(pc), Place { file: RegFile::Gpr, index });
            return Some(refills.map(|refills| refills.into_iter().map(held).collect()));
        }
        let written: Vec<Place> = self
            .code
            .program()
            .runs(at.0 as usize / 16)
            .filter(|run| run.is_write())
            .flat_map(|run| run.registers().map(move |index| Place { file: run.file(), index }))
            .collect();
        let copies: Vec<(Pc, Place)> =
            written.into_iter().filter(|to| self.step(at, *to) == Step::Copy(place)).map(|to| (next(at), to)).collect();
        (!copies.is_empty()).then_some(Some(copies))
    }

    /// The instructions that read what a register holds before an instruction, `first` being those that do so before it is moved.
    pub fn uses(&self, place: Place, first: &[Pc]) -> Uses {
        let mut uses: BTreeSet<(Pc, Place)> = BTreeSet::new();
        let mut is_complete = true;
        let mut seen: BTreeSet<(Pc, Place)> = BTreeSet::new();
        let mut open: Vec<(Place, Vec<Pc>)> = vec![(place, first.to_vec())];
        while let Some((place, reads)) = open.pop() {
            for at in reads {
                let moved = self.moved(at, place);
                // A sum that a matrix instruction adds to in place goes on in its register.
                let goes_on = moved.is_none() && self.accumulates(at, place) && self.writes(at, place);
                let moved = match moved {
                    Some(moved) => moved,
                    None => {
                        uses.insert((at, place));
                        if !goes_on {
                            continue;
                        }
                        Some(vec![(Pc(at.0 + 16), place)])
                    }
                };
                for (from, to) in moved.unwrap_or_else(|| {
                    is_complete = false;
                    Vec::new()
                }) {
                    if !seen.insert((from, to)) {
                        continue;
                    }
                    match self.reads_after(from, to) {
                        Some(reads) => open.push((to, reads)),
                        None => is_complete = false,
                    }
                }
            }
        }
        Uses { at: uses.into_iter().collect(), is_complete }
    }

    /// The instructions that read what a register holds before an instruction; none where too much was asked.
    pub fn reads_after(&self, at: Pc, place: Place) -> Option<Vec<Pc>> {
        self.walk()?;
        let mut wanted = RegSet::EMPTY;
        wanted.insert(place.file, place.index);
        let uses = self.code.liveness.uses(self.code.program(), &self.code.cfg, at, &wanted);
        Some(uses.into_iter().map(|used| used.pc).collect())
    }

    /// Whether a matrix instruction adds to what a register holds that it reads.
    pub fn accumulates(&self, at: Pc, place: Place) -> bool {
        let mut known = self.sums.borrow_mut();
        let sum = known.entry(at).or_insert_with(|| self.sum_of(at));
        place.file == RegFile::Gpr && sum.as_ref().is_some_and(|sum| sum.contains(&place.index))
    }

    /// The registers that a matrix instruction adds to.
    fn sum_of(&self, at: Pc) -> Option<Range<u16>> {
        if !self.is_matrix(at) {
            return None;
        }
        let text = self.text(at);
        let parts = parts(&text);
        let vector = |operand: &Operand<'_>| match operand.kind {
            OperandKind::Reg(reg) if reg.file == RegFile::Gpr => Some(reg.index),
            _ => None,
        };
        let result = parts.operands.first().and_then(vector);
        let read = || parts.operands.iter().skip(1).filter_map(vector);
        // A sum in place; else it is the last one: metadata comes after it, and only where the sum is in place.
        let tied = result.filter(|result| read().any(|register| register == *result));
        let first = tied.or_else(|| read().next_back())?;
        let program = self.code.program();
        let made = program.runs(at.0 as usize / 16).filter(|run| run.is_write() && run.file() == RegFile::Gpr);
        let width: u16 = made.map(|run| u16::from(run.count())).sum();
        Some(first..first + width)
    }

    /// Whether an instruction multiplies matrices for a warpgroup, and runs on while others do.
    pub fn is_warpgroup_matrix(&self, pc: Pc) -> bool {
        self.code.instruction(pc).is_some_and(|found| self.code.decoder().mnemonic(&found).ends_with("GMMA"))
    }

    /// Whether an instruction multiplies matrices.
    pub fn is_matrix(&self, pc: Pc) -> bool {
        self.code.instruction(pc).is_some_and(|found| self.code.decoder().mnemonic(&found).ends_with("MMA"))
    }
}

/// Which of a spill's registers a word of the stack belongs to.
fn within(spill: &SpillAccess, word: i64) -> Option<u16> {
    let within = word - spill.slot?;
    let is_in = within >= 0 && within % 4 == 0 && within < i64::from(spill.bytes?);
    is_in.then_some(u16::try_from(within / 4).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Layout, Rule};
    use crate::sass::Decoder;

    #[test]
    fn a_product_of_nothing_only_moves_what_it_adds() {
        // `UMOV UR25, 0x400`, `IMAD.U32 R8, RZ, RZ, UR25`, `EXIT` as ptxas 13.4 makes them for sm_90a.
        let words: [[u64; 2]; 3] = [
            [0x0000_0400_0019_7882, 0x000f_e400_0000_0000],
            [0x0000_0019_ff08_7e24, 0x000f_e200_0f8e_00ff],
            [0x0000_0000_0000_794d, 0x000f_ea00_0380_0000],
        ];
        let code: Vec<u8> = words.as_flattened().iter().flat_map(|word| word.to_le_bytes()).collect();
        let layout = Layout { entries: vec![Pc(0)], ..Layout::default() };
        let code = Code::solve(Decoder::new("sm_90a".parse().unwrap()).unwrap(), &code, &layout, Rule::Sound);
        let origins = Origins::new(&code, &[]);
        assert_eq!(origins.text(Pc(16)), "IMAD.U32 R8, RZ, RZ, UR25");
        assert_eq!(origins.of(Pc(32), Place { file: RegFile::Gpr, index: 8 }), [Origin::Constant(Pc(0))]);
    }
}
