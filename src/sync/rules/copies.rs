//! What copies on mbarriers move: bytes that the instruction says, or boxes of a tensor map, told apart by where the map comes from.

use crate::ptx::{Operand, Register};
use crate::simt::Warps;
use crate::sync::rules::mbarriers::MbarrierSite;

/// Instructions between a parameter and a copy that has its address.
const MAX_MOVES: usize = 16;

/// What a copy moves each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Moved<'a> {
    /// So many bytes.
    Bytes(u64),
    /// What a tensor map says, by an instruction of this kind.
    Box(&'a str, Map<'a>),
}

/// Where a tensor map is: so many bytes from what a name stands for, which may be the memory that a parameter points to, or from an
/// address in a register that is written once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Map<'a> {
    Named { name: &'a str, inside: Option<i64>, offset: i64 },
    Held { register: Register, offset: i64 },
}

/// Where registers are written.
pub(super) struct Copies<'w, 'a> {
    warps: &'w Warps<'a>,
    /// Registers and instructions that write them, sorted.
    writes: Vec<(Register, u32)>,
}

impl<'w, 'a> Copies<'w, 'a> {
    pub(super) fn new(warps: &'w Warps<'a>) -> Copies<'w, 'a> {
        let mut writes: Vec<(Register, u32)> = Vec::new();
        for (index, site) in (0u32..).zip(&warps.graph.sites) {
            writes.extend(warps.graph.registers.written_by(&site.located).map(|register| (register, index)));
        }
        writes.sort_unstable();
        Copies { warps, writes }
    }

    /// The instruction that alone writes a register.
    fn writer(&self, register: Register) -> Option<usize> {
        let from = self.writes.partition_point(|(other, _)| *other < register);
        let mut writes = self.writes.get(from..)?.iter().take_while(|(other, _)| *other == register);
        match (writes.next(), writes.next()) {
            (Some((_, only)), None) => Some(*only as usize),
            _ => None,
        }
    }

    /// What a copy moves, where that can be told.
    pub(super) fn moved(&self, copy: &MbarrierSite) -> Option<Moved<'a>> {
        let instruction = self.warps.graph.sites.get(copy.index)?.located.instruction;
        let opcode = instruction.opcode();
        if let Some(bytes) = copy.bytes {
            return Some(Moved::Bytes(bytes));
        }
        if opcode.starts_with("st.async") {
            return stored(opcode).map(Moved::Bytes);
        }
        let map = instruction.operand(1).filter(|_| opcode.starts_with("cp.async.bulk.tensor."))?;
        Some(Moved::Box(opcode, self.map(copy.index, map)?))
    }

    fn map(&self, index: usize, operand: Operand<'a>) -> Option<Map<'a>> {
        let address = operand.address()?;
        let (mut name, mut offset, mut index) = (address.base?, address.offset?, index);
        for _ in 0..MAX_MOVES {
            let id = self.warps.graph.sites.get(index)?.located.id;
            let Some(register) = self.warps.graph.registers.resolve(name, id) else {
                return Some(Map::Named { name, inside: None, offset });
            };
            // What is written again may be something else each time.
            let writer = self.writer(register)?;
            let held = Map::Held { register, offset };
            let Some(site) = self.warps.graph.sites.get(writer) else { return Some(held) };
            let instruction = site.located.instruction;
            let opcode = instruction.opcode();
            let Some(from) = instruction.operand(1) else { return Some(held) };
            if opcode.starts_with("ld.param.") {
                let from = from.address()?;
                return Some(Map::Named { name: from.base?, inside: Some(from.offset?), offset });
            }
            let added = match opcode.split('.').next() {
                Some("mov" | "cvta") => Some(0),
                Some("add") => instruction.operand(2).and_then(|number| number.value()),
                _ => None,
            };
            let (Some(next), Some(added)) = (from.name(), added) else { return Some(held) };
            (name, offset, index) = (next, offset.checked_add(added)?, writer);
        }
        None
    }
}

/// Bytes that an `st.async` stores: `.v4.b32` sixteen.
fn stored(opcode: &str) -> Option<u64> {
    let mut parts = opcode.rsplit('.');
    let bits: u64 = parts.next()?.trim_start_matches(|letter: char| letter.is_ascii_alphabetic()).parse().ok()?;
    let several = match parts.next()? {
        "v2" => 2,
        "v4" => 4,
        _ => 1,
    };
    Some(bits / 8 * several)
}
