//! Accesses of memory of the PTX, joined with the instructions that ptxas made of them.

use crate::access::{AccessFacts, AccessKind, AccessSpace};
use crate::base::{FastMap, FastSet, Line, Pc};
use crate::cost::Wavefronts;
use crate::registers::code::Code;
use crate::sass;

/// What is known of the accesses of memory of a section.
#[derive(Clone, Debug, Default)]
pub(super) struct Accesses {
    /// Wavefronts and lines of those that are decided.
    pub wavefronts: Wavefronts,
    /// Those of shared memory that take more wavefronts than the same lanes must.
    pub conflicts: FastSet<Pc>,
    /// Those of shared memory whose wavefronts are not known.
    pub unknown: FastSet<Pc>,
}

/// What is decided of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Decided {
    bytes: u32,
    wavefronts: u32,
    ideal: u32,
}

impl Decided {
    /// Lanes of a warp.
    const LANES: u32 = 32;

    /// Lines of global memory that are copied to shared memory: what meets in a bank there takes as long again, line by line where lanes
    /// of several lines meet; each lane alone at most. As 93 copies were seen to take on an H200.
    fn beside(self, written: Option<Decided>) -> Decided {
        let Some(written) = written else { return self };
        let ways = written.wavefronts.div_ceil(written.ideal.max(1));
        let together = self.wavefronts + written.wavefronts.saturating_sub(written.ideal);
        let apart =
            Decided::LANES.saturating_sub(Decided::LANES * Decided::LANES / 2 / (self.wavefronts * ways).max(1));
        let wavefronts = if self.wavefronts * ways > Decided::LANES { together.max(apart) } else { together };
        Decided { wavefronts: wavefronts.min(Decided::LANES.max(self.wavefronts)), ..self }
    }
}

impl Accesses {
    /// An instruction is joined with the access of its line that does the same to as many bytes. What ptxas put together of several accesses is
    /// not known.
    pub fn new(code: &Code, line: impl Fn(Pc) -> Option<Line>, facts: Option<&AccessFacts>) -> Accesses {
        let mut decided: FastMap<(Line, AccessKind, AccessSpace), Option<Decided>> = FastMap::default();
        for access in facts.iter().flat_map(|facts| &facts.accesses) {
            let bytes = access.bytes;
            let known = match (access.space, access.is_decided(), access.most, access.ideal, access.lines) {
                (AccessSpace::Shared, true, Some(wavefronts), Some(ideal), _) => {
                    Some(Decided { bytes, wavefronts, ideal })
                }
                (AccessSpace::Global, _, _, _, Some(lines)) => Some(Decided { bytes, wavefronts: lines, ideal: lines }),
                _ => None,
            };
            let entry = decided.entry((access.ptx_line, access.kind, access.space)).or_insert(known);
            if *entry != known {
                *entry = None;
            }
        }
        let mut found = Accesses::default();
        let decoder = code.program().decoder();
        let mut text = String::new();
        for (index, inst) in (0u32..).zip(code.instructions()) {
            let Some((space, kind)) = kind(decoder.mnemonic(inst)) else { continue };
            let pc = Pc(index * 16);
            text.clear();
            decoder.text(inst, pc, &mut text);
            let access = line(pc).and_then(|line| decided.get(&(line, kind, space)).copied().flatten());
            let access = access.map(|access| match kind {
                AccessKind::Copy => {
                    access.beside(line(pc).and_then(|line| *decided.get(&(line, kind, AccessSpace::Shared))?))
                }
                _ => access,
            });
            let is_whole = matches!(kind, AccessKind::LoadMatrix | AccessKind::StoreMatrix);
            match access.filter(|access| is_whole || access.bytes == bytes(&text)) {
                None if space == AccessSpace::Shared => {
                    found.unknown.insert(pc);
                }
                None => {}
                Some(access) => {
                    found.wavefronts.set(pc, u16::try_from(access.wavefronts).unwrap_or(u16::MAX));
                    if access.wavefronts > access.ideal {
                        found.conflicts.insert(pc);
                    }
                }
            }
        }
        found
    }
}

/// What an instruction does to which memory.
fn kind(mnemonic: &str) -> Option<(AccessSpace, AccessKind)> {
    Some(match mnemonic {
        "LDS" => (AccessSpace::Shared, AccessKind::Load),
        "STS" => (AccessSpace::Shared, AccessKind::Store),
        "LDSM" => (AccessSpace::Shared, AccessKind::LoadMatrix),
        "STSM" => (AccessSpace::Shared, AccessKind::StoreMatrix),
        "ATOMS" => (AccessSpace::Shared, AccessKind::Atomic),
        "LDG" => (AccessSpace::Global, AccessKind::Load),
        "STG" => (AccessSpace::Global, AccessKind::Store),
        "LDGSTS" => (AccessSpace::Global, AccessKind::Copy),
        _ => return None,
    })
}

/// Bytes of a thread, by the modifiers of an instruction.
fn bytes(text: &str) -> u32 {
    let sized = sass::parts(text).modifiers.into_iter().find_map(|modifier| match modifier {
        "128" => Some(16),
        "64" => Some(8),
        "U16" | "S16" | "16" => Some(2),
        "U8" | "S8" | "8" => Some(1),
        _ => None,
    });
    sized.unwrap_or(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_take_lines_and_banks() {
        // Of 4, 8 and 16 bytes: lines and ways, and the cycles that an H200 was seen to take, less the one of the copy itself.
        let seen = [
            (4, 1, 1, 1),
            (4, 1, 8, 8),
            (4, 4, 8, 11),
            (4, 16, 1, 16),
            (4, 16, 2, 17),
            (4, 8, 8, 24),
            (4, 16, 16, 32),
            (4, 32, 32, 32),
            (8, 8, 4, 14),
            (16, 4, 4, 16),
            (16, 8, 4, 20),
            (16, 16, 2, 20),
        ];
        for (bytes, lines, ways, cycles) in seen {
            let words = bytes / 4;
            let from = Decided { bytes, wavefronts: lines, ideal: lines };
            let to = Decided { bytes, wavefronts: words * ways, ideal: words };
            let told = from.beside(Some(to)).wavefronts;
            assert!(told.abs_diff(cycles) <= 4, "{bytes} bytes, {lines} lines, {ways} ways: {told}, seen {cycles}");
        }
    }
}
