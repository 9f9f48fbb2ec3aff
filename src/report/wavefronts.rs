//! Accesses of shared memory of the PTX, joined with the instructions that ptxas made of them.

use crate::access::{AccessFacts, AccessKind, AccessSpace};
use crate::base::{FastMap, FastSet, Line, Pc};
use crate::cost::Wavefronts;
use crate::registers::code::Code;
use crate::sass;

/// What is known of the accesses of shared memory of a section.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedAccesses {
    /// Wavefronts of those that are decided.
    pub wavefronts: Wavefronts,
    /// Those that take more wavefronts than the same lanes must.
    pub conflicts: FastSet<Pc>,
    /// Those whose wavefronts are not known.
    pub unknown: FastSet<Pc>,
}

/// What is decided of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Decided {
    bytes: u32,
    wavefronts: u32,
    ideal: u32,
}

impl SharedAccesses {
    /// An instruction is joined with the access of its line that does the same to as many bytes. What ptxas put together of several accesses is
    /// not known.
    pub fn new(code: &Code, line: impl Fn(Pc) -> Option<Line>, facts: Option<&AccessFacts>) -> SharedAccesses {
        let mut decided: FastMap<(Line, AccessKind), Option<Decided>> = FastMap::default();
        let shared = facts.iter().flat_map(|facts| &facts.accesses);
        for access in shared.filter(|access| access.space == AccessSpace::Shared) {
            let known = match (access.is_decided(), access.most, access.ideal) {
                (true, Some(wavefronts), Some(ideal)) => Some(Decided { bytes: access.bytes, wavefronts, ideal }),
                _ => None,
            };
            let entry = decided.entry((access.ptx_line, access.kind)).or_insert(known);
            if *entry != known {
                *entry = None;
            }
        }
        let mut found = SharedAccesses::default();
        let decoder = code.program().decoder();
        let mut text = String::new();
        for (index, inst) in (0u32..).zip(code.instructions()) {
            let Some(kind) = kind(decoder.mnemonic(inst)) else { continue };
            let pc = Pc(index * 16);
            text.clear();
            decoder.text(inst, pc, &mut text);
            let access = line(pc).and_then(|line| decided.get(&(line, kind)).copied().flatten());
            let is_whole = matches!(kind, AccessKind::LoadMatrix | AccessKind::StoreMatrix);
            match access.filter(|access| is_whole || access.bytes == bytes(&text)) {
                None => {
                    found.unknown.insert(pc);
                }
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

/// What an instruction does to shared memory.
fn kind(mnemonic: &str) -> Option<AccessKind> {
    Some(match mnemonic {
        "LDS" => AccessKind::Load,
        "STS" => AccessKind::Store,
        "LDSM" => AccessKind::LoadMatrix,
        "STSM" => AccessKind::StoreMatrix,
        "ATOMS" => AccessKind::Atomic,
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
