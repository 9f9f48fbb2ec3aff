//! What is told of the accesses of a kernel.

use serde::{Deserialize, Serialize};

use crate::base::Line;

/// A memory whose accesses are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessSpace {
    /// Counted in wavefronts: what the banks give in a cycle.
    Shared,
    /// Counted in sectors of 32 bytes.
    Global,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    /// `ld`
    Load,
    /// `st`
    Store,
    /// `atom`, `red`
    Atomic,
    /// `ldmatrix`
    LoadMatrix,
    /// `stmatrix`
    StoreMatrix,
    /// `cp.async`, the side that is read or written.
    Copy,
}

impl AccessKind {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            AccessKind::Load => "load",
            AccessKind::Store => "store",
            AccessKind::Atomic => "atomic",
            AccessKind::LoadMatrix => "ldmatrix",
            AccessKind::StoreMatrix => "stmatrix",
            AccessKind::Copy => "cp.async",
        }
    }
}

/// All accesses of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessFacts {
    /// Accesses of shared memory.
    pub shared_total: u32,
    /// Those whose wavefronts are decided.
    pub shared_decided: u32,
    /// Those of the decided ones that take more than they must.
    pub shared_conflicts: u32,
    /// Accesses of global memory.
    pub global_total: u32,
    /// Those whose sectors are decided.
    pub global_decided: u32,
    /// Those of the decided ones that ask for more than they must.
    pub global_scattered: u32,
    /// Whether every access was decided and none takes more than it must.
    pub clean: bool,
    /// Each, in the order of the text.
    pub accesses: Vec<AccessFact>,
    /// What would mend conflicts, by array.
    pub mends: Vec<ArrayMend>,
}

impl AccessFacts {
    /// Counts accesses.
    pub(super) fn summed(accesses: Vec<AccessFact>, mends: Vec<ArrayMend>) -> AccessFacts {
        let count = |space: AccessSpace, of: &dyn Fn(&AccessFact) -> bool| {
            accesses.iter().filter(|access| access.space == space && of(access)).count() as u32
        };
        use AccessSpace::{Global, Shared};
        AccessFacts {
            shared_total: count(Shared, &|_| true),
            shared_decided: count(Shared, &AccessFact::is_decided),
            shared_conflicts: count(Shared, &AccessFact::is_worse),
            global_total: count(Global, &|_| true),
            global_decided: count(Global, &AccessFact::is_decided),
            global_scattered: count(Global, &AccessFact::is_worse),
            clean: accesses.iter().all(|access| access.is_decided() && !access.is_worse()),
            accesses,
            mends,
        }
    }

    /// Whether any access is decided.
    pub fn decides(&self) -> bool {
        self.accesses.iter().any(AccessFact::is_decided)
    }

    /// Keeps what holds for blocks of another shape, too.
    pub fn agree_with(&mut self, other: &AccessFacts) {
        let mut differ = false;
        for (at, access) in self.accesses.iter_mut().enumerate() {
            let figures = |of: &AccessFact| (of.least, of.most, of.ideal, of.ways, of.lines);
            if Some(figures(access)) != other.accesses.get(at).map(figures) {
                access.forget(Undecided { why: Reason::BlockShape, ptx_line: None });
                differ = true;
            }
        }
        if differ {
            self.mends.clear();
        }
        *self = AccessFacts::summed(std::mem::take(&mut self.accesses), std::mem::take(&mut self.mends));
    }
}

/// An access of a warp to memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessFact {
    /// Its line.
    pub ptx_line: Line,
    /// Which memory.
    pub space: AccessSpace,
    /// What it does.
    pub kind: AccessKind,
    /// Bytes of a thread; of a matrix, those of a row.
    pub bytes: u32,
    /// The variable, where that is known.
    pub variable: Option<String>,
    /// Warps that may come to it.
    pub warps: u32,
    /// The fewest wavefronts or sectors that a warp takes, over warps and turns; null where nothing is known.
    pub least: Option<u32>,
    /// The most.
    pub most: Option<u32>,
    /// As many as the same lanes would take at best.
    pub ideal: Option<u32>,
    /// Of shared memory: the most words that one bank has to give at once.
    pub ways: Option<u32>,
    /// That bank.
    pub bank: Option<u32>,
    /// The threads that meet there.
    pub threads: Vec<u32>,
    /// Of global memory: the most sectors where the base that all lanes share is no multiple of 32; null where that makes no difference.
    pub misaligned: Option<u32>,
    /// Of global memory: the most lines of the first cache that a warp touches, with the base of all lanes at the start of one; an estimate where
    /// the access is not decided.
    #[serde(skip)]
    pub lines: Option<u32>,
    /// Why it is not decided; null where it is.
    pub undecided: Option<Undecided>,
}

impl AccessFact {
    /// Whether it is decided.
    pub fn is_decided(&self) -> bool {
        self.undecided.is_none()
    }

    /// Leaves what the text says alone.
    fn forget(&mut self, why: Undecided) {
        (self.least, self.most, self.ideal, self.ways, self.bank) = (None, None, None, None, None);
        (self.misaligned, self.lines) = (None, None);
        self.threads.clear();
        self.undecided = Some(why);
    }

    /// Whether it is decided that it takes more than it must.
    pub fn is_worse(&self) -> bool {
        self.is_decided() && self.most > self.ideal
    }
}

/// Why an access is not decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undecided {
    /// Why.
    pub why: Reason,
    /// The line that decides.
    pub ptx_line: Option<Line>,
}

/// Why an access is not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// How many threads a block has is not known.
    BlockSize,
    /// How many of them stand along each axis is not known, and it matters.
    BlockShape,
    /// Lanes have addresses that differ by what is not known.
    Address,
    /// Who comes to it is not known, and it matters.
    Lanes,
    /// Where in a sector or word it starts is not known, and it matters.
    Alignment,
    /// Its size, or its form, is not known.
    Form,
}

/// What would mend the conflicts of one array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayMend {
    /// The variable.
    pub variable: String,
    /// Accesses of it that have conflicts.
    pub lines: Vec<Line>,
    /// Accesses that the mend was proven for: all of the array, in every warp.
    pub proven: u32,
    /// Rows with a gap between them.
    pub padding: Option<Padding>,
    /// A swizzle of the elements.
    pub swizzle: Option<Swizzle>,
    /// Why there is none, where there is none.
    pub refused: Option<Refusal>,
}

/// Why no mend of an array was looked for, or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// An access of the array is not decided.
    Undecided,
    /// Something else than threads reads or writes it: copies, matrix instructions, other functions.
    Others,
    /// None of those that were tried holds for every access.
    NoneHolds,
}

/// Rows of an array, with a gap after each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Padding {
    /// Bytes of a row as it is.
    pub row_bytes: u32,
    /// Bytes of the gap.
    pub gap_bytes: u32,
}

/// `Swizzle<B, M, S>` as CuTe writes it, on the index of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swizzle {
    /// Bits that are exchanged.
    pub bits: u32,
    /// Lower bits of the index that stay.
    pub base: u32,
    /// How far apart the bits are.
    pub shift: u32,
    /// Bytes of an element.
    pub element_bytes: u32,
}
