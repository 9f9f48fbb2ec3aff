//! What the turns of a loop are for: a loop that only asks whether it may go on has none that cost anything, and one in which ptxas serves the lanes
//! of a warp one after the other has one where one lane is there.
//!
//! A loop gets on by what it carries from turn to turn: a register that is live where a turn starts and whose new value is computed from its old one
//! (a counter, a pointer, a sum). A loop that carries nothing and changes nothing outside of registers does the same in every turn, so that only others
//! can end it: it waits. One that carries something and still waits asks, changes nothing, and leaves nothing of what it carries behind: a wait with a
//! counter for its patience.

use std::collections::BTreeSet;

use crate::base::{IndexVec, Pc, RegFile, RegSet};
use crate::flow::Program;
use crate::graph::{BlockId, LoopId};
use crate::registers::code::Code;

/// What the turns of a loop are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It asks until others let it go on.
    Waits,
    /// What it does is done once: it carries nothing that would get on.
    Once,
    /// Each turn does something new.
    Repeats,
}

/// Instructions of a loop that are looked at: a longer one repeats.
const LOOKED_AT: usize = 512;

/// What each loop's turns are for.
pub fn progress(code: &Code) -> IndexVec<LoopId, Progress> {
    let mut blocks: IndexVec<LoopId, Vec<BlockId>> = IndexVec::filled(Vec::new(), code.loops().loops.len());
    for block in (0..code.cfg.blocks.len() as u32).map(BlockId) {
        for id in code.loops().around(block) {
            if let Some(blocks) = blocks.get_mut(id) {
                blocks.push(block);
            }
        }
    }
    let mut found = IndexVec::filled(Progress::Repeats, code.loops().loops.len());
    for (id, blocks) in blocks.iter_enumerated() {
        if let (Some(found), Some(told)) = (found.get_mut(id), of(code, id, blocks)) {
            *found = told;
        }
    }
    found
}

/// What the turns of a loop of these blocks are for; none where that is not looked at.
fn of(code: &Code, id: LoopId, blocks: &[BlockId]) -> Option<Progress> {
    let header = code.loops().loops.get(id)?.header;
    let ranges: Vec<(u32, u32)> =
        blocks.iter().filter_map(|block| code.cfg.blocks.get(block.0 as usize)).map(|b| (b.start, b.end)).collect();
    let size: u32 = ranges.iter().map(|(start, end)| end - start).sum();
    if size as usize > LOOKED_AT {
        return None;
    }
    let mut body = Body::default();
    for index in ranges.iter().flat_map(|&(start, end)| start..end) {
        body.add(code, index)?;
    }
    let live = |block: BlockId| {
        let start = code.cfg.blocks.get(block.0 as usize)?.start;
        Some(code.liveness.row(code.program(), &code.cfg, Pc(start * 16))?.before)
    };
    let carried = body.carried(&live(header)?);
    // An atomic whose answer is read is an attempt, as long as there is nothing that gets on with each.
    let changes_memory = body.changes_memory || body.attempts && !carried.is_empty();
    if !changes_memory && !body.may_carry_in_memory {
        let left = || {
            let exits = blocks.iter().flat_map(|block| code.cfg.successors(*block)).filter(|to| !blocks.contains(to));
            exits.filter_map(live).any(|live| live.intersects(&carried))
        };
        if carried.is_empty() || body.asks && !left() {
            return Some(Progress::Waits);
        }
    }
    Some(if carried.is_empty() && !body.may_carry_in_memory { Progress::Once } else { Progress::Repeats })
}

/// What the instructions of a loop do.
#[derive(Default)]
struct Body {
    /// What each reads and writes.
    steps: Vec<(RegSet, RegSet)>,
    written: RegSet,
    /// Something else than registers is another afterwards, or other threads are told.
    changes_memory: bool,
    /// An atomic's answer is read.
    attempts: bool,
    /// Local memory is read and written: a counter may be there.
    may_carry_in_memory: bool,
    /// It reads what others write.
    asks: bool,
}

impl Body {
    /// Takes an instruction; none where nobody knows what it does.
    fn add(&mut self, code: &Code, index: u32) -> Option<()> {
        let program = code.program();
        let flow = program.flow(index as usize);
        let inst = code.instruction(Pc(index * 16))?;
        if !flow.known || inst.is_unknown() {
            return None;
        }
        let effects = program.effects(index as usize);
        let mut reads = effects.reads;
        if let Some(guard) = flow.guard {
            reads.insert(guard.file, u16::from(guard.index));
        }
        self.written.union_with(&effects.writes);
        self.steps.push((reads, effects.writes));
        let mnemonic = code.decoder().mnemonic(&inst);
        match mnemonic {
            // Local memory is the thread's own: a store there alone tells nobody.
            "STL" => self.may_carry_in_memory = true,
            "NANOSLEEP" => self.asks = true,
            _ if may_poll(mnemonic) => {
                let mut text = String::new();
                code.decoder().text(&inst, Pc(index * 16), &mut text);
                if polls(&text) {
                    self.asks = true;
                } else if mnemonic.starts_with("ATOM") && !effects.writes.is_empty() {
                    self.attempts = true;
                } else {
                    self.changes_memory |= changes(mnemonic);
                }
            }
            _ => self.changes_memory |= changes(mnemonic),
        }
        Some(())
    }

    /// The registers that get on from turn to turn, of those that are live where one starts.
    fn carried(&self, live: &RegSet) -> RegSet {
        let mut carried = RegSet::EMPTY;
        let alive = live.intersection(&self.written);
        // A predicate that is asked for again says which lanes are left, or that there was no answer.
        for (file, index) in alive.iter_all().filter(|(file, _)| matches!(file, RegFile::Gpr | RegFile::Ugpr)) {
            if self.depends_on_itself(file, index) {
                carried.insert(file, index);
            }
        }
        carried
    }

    /// Whether what a register is set to is computed from what it was.
    fn depends_on_itself(&self, file: RegFile, index: u16) -> bool {
        let mut reached = RegSet::EMPTY;
        let mut from = RegSet::EMPTY;
        from.insert(file, index);
        let mut open: BTreeSet<usize> = (0..self.steps.len()).collect();
        loop {
            let used: Vec<usize> = open
                .iter()
                .copied()
                .filter(|at| self.steps.get(*at).is_some_and(|(reads, _)| reads.intersects(&from)))
                .collect();
            if used.is_empty() {
                return false;
            }
            for at in used {
                open.remove(&at);
                if let Some((_, writes)) = self.steps.get(at) {
                    reached.union_with(writes);
                }
            }
            if reached.contains(file, index) {
                return true;
            }
            from = reached;
        }
    }
}

/// Whether an instruction of this name may only ask, which its text tells.
fn may_poll(mnemonic: &str) -> bool {
    matches!(mnemonic, "SYNCS" | "USYNCS" | "LD" | "LDG" | "LDS" | "ATOM" | "ATOMG" | "ATOMS" | "USETMAXREG")
}

/// Whether an instruction asks for what others change, and changes nothing where the answer is no.
fn polls(text: &str) -> bool {
    ["PHASECHK", ".STRONG", ".CAS", ".TRY_ALLOC"].iter().any(|word| text.contains(word))
}

/// Whether something else than a register is another after an instruction of this name, or other threads wait for it.
fn changes(mnemonic: &str) -> bool {
    const STARTS: &[&str] = &[
        "ST",
        "RED",
        "ATOM",
        "BAR",
        "SYNCS",
        "USYNCS",
        "ARRIVES",
        "UT",
        "UBLK",
        "LDGSTS",
        "LDGDEPBAR",
        "SUST",
        "SUATOM",
        "SURED",
        "UCGABAR",
        "UREDGR",
        "USTGR",
        "USETMAXREG",
        "CALL",
        "JMP",
        "BRX",
        "OUT",
        "AST",
        "SETLMEMBASE",
        "SETCTAID",
        "UMEMSETS",
        "UGETNEXTWORKID",
        "ENDCOLLECTIVE",
        "UVIRTCOUNT",
    ];
    STARTS.iter().any(|start| mnemonic.starts_with(start)) || mnemonic.ends_with("GMMA")
}

#[cfg(test)]
mod tests;
