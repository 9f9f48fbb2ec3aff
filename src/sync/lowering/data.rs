//! What of an instruction matters to data in shared memory: which bytes it touches, and by what it completes.

use super::{Lowering, space_of};
use crate::ptx::{
    Bulk, ClusterBarrierAction, CpAsync, Instruction, MbarrierAction, Operand, Operation, Shape, StatementId, Tcgen05,
    Wgmma, type_bits,
};
use crate::simt::{Site, SiteId};
use crate::sync::execute::footprint::{MemoryKind, OBJECT};
use crate::sync::program::*;

/// Bytes of a row of `ldmatrix` and `stmatrix`.
const ROW: u32 = 16;
/// Bytes of a granule of shared memory: of what has no known extent, the first is looked at.
const FIRST: u32 = 16;

/// Whether a `wgmma.mma_async` of A in shared memory takes it transposed: after D, A, B and whether D is added to come the signs of A
/// and B. Metadata and its selector stand before these where A is sparse.
fn transposes_a(instruction: Instruction<'_>) -> bool {
    let at = if instruction.has("sp") { 8 } else { 6 };
    let has_it = instruction.modifiers().any(|word| matches!(word, "f16" | "bf16"));
    has_it && instruction.operand(at).and_then(|operand| operand.value()) == Some(1)
}

/// What an instruction does to data, its operands not resolved yet.
#[derive(Clone, Copy)]
enum What {
    Touch { access: Access, space: Space, bytes: u32, lanes: u32 },
    CopyAsync { bytes: u32 },
    BulkStore { tensor: bool },
    Matrices(Stream),
    Columns { access: Access, stream: Stream, count: u32, lanes: TensorLanes },
    CommitGroup(Stream),
    WaitGroup(Stream, Option<u32>),
    ProxyFence,
    Fence,
    Meet,
}

/// An instruction that does something to data, and the operands that decide where.
pub(super) struct DataSite<'a> {
    what: What,
    operands: [Option<Operand<'a>>; 5],
}

impl<'a> DataSite<'a> {
    /// What an instruction does; none where it touches no shared memory by itself.
    pub(super) fn of(site: &Site<'a>) -> Option<DataSite<'a>> {
        let instruction = site.located.instruction;
        let (what, operands) = match site.operation {
            Operation::CpAsync(CpAsync::Copy) => {
                let bytes = instruction.operand(2)?.value().and_then(|bytes| u32::try_from(bytes).ok())?;
                (What::CopyAsync { bytes }, [instruction.operand(0), instruction.operand(3), None, None, None])
            }
            Operation::CpAsync(CpAsync::CommitGroup) => (What::CommitGroup(Stream::CpAsync), [None; 5]),
            Operation::CpAsync(CpAsync::WaitGroup(pending)) => {
                (What::WaitGroup(Stream::CpAsync, Some(pending?)), [None; 5])
            }
            Operation::CpAsync(CpAsync::WaitAll) => (What::WaitGroup(Stream::CpAsync, None), [None; 5]),
            Operation::Bulk(Bulk::Copy { tensor } | Bulk::Reduce { tensor }) if instruction.has("bulk_group") => {
                let from_shared = instruction.modifiers().any(|word| word.starts_with("shared"));
                let size = instruction.operand(2).filter(|_| !tensor);
                (
                    What::BulkStore { tensor },
                    [Some(instruction.operand(1).filter(|_| from_shared)?), size, None, None, None],
                )
            }
            Operation::Bulk(Bulk::CommitGroup) => (What::CommitGroup(Stream::Bulk), [None; 5]),
            Operation::Bulk(Bulk::WaitGroup { pending, .. }) => {
                (What::WaitGroup(Stream::Bulk, Some(pending?)), [None; 5])
            }
            Operation::Wgmma(Wgmma::MmaAsync) => {
                (What::Matrices(Stream::Wgmma), [instruction.operand(1), instruction.operand(2), None, None, None])
            }
            Operation::Wgmma(Wgmma::CommitGroup) => (What::CommitGroup(Stream::Wgmma), [None; 5]),
            Operation::Wgmma(Wgmma::WaitGroup(pending)) => (What::WaitGroup(Stream::Wgmma, Some(pending?)), [None; 5]),
            Operation::Tcgen05 { action: Tcgen05::Mma, .. } => {
                // `[d], a, b, idesc, …`; sparse ones have the address of their metadata before the descriptor.
                let plain = |at: usize| instruction.operand(at).filter(|operand| operand.address().is_none());
                let operand = |at: usize| instruction.operand(at);
                let instruction_descriptor = plain(3).or_else(|| plain(4));
                let operands = [operand(1), operand(2), operand(0), instruction_descriptor, accumulates(instruction)];
                (What::Matrices(Stream::Tcgen05), operands)
            }
            Operation::Tcgen05 { action: Tcgen05::Cp, .. } => {
                let count = if instruction.modifiers().any(|word| word.ends_with("x256b")) { 8 } else { 4 };
                let operands = [instruction.operand(0), instruction.operand(1), None, None, None];
                let (access, stream, lanes) = (Access::Write, Stream::Tcgen05, TensorLanes::All);
                (What::Columns { access, stream, count, lanes }, operands)
            }
            Operation::Tcgen05 { action: Tcgen05::Ld, .. } => {
                let (access, stream) = (Access::Read, Stream::TensorLoad);
                let (count, lanes) = columns(instruction)?;
                (What::Columns { access, stream, count, lanes }, [instruction.operand(1), None, None, None, None])
            }
            Operation::Tcgen05 { action: Tcgen05::St, .. } => {
                let (access, stream) = (Access::Write, Stream::TensorStore);
                let (count, lanes) = columns(instruction)?;
                (What::Columns { access, stream, count, lanes }, [instruction.operand(0), None, None, None, None])
            }
            Operation::Tcgen05 { action: Tcgen05::Wait, .. } => {
                let stores = instruction.modifiers().any(|word| word == "wait::st");
                let stream = if stores { Stream::TensorStore } else { Stream::TensorLoad };
                (What::WaitGroup(stream, None), [None; 5])
            }
            Operation::Fence { proxy: true } => (fence(instruction)?, [None; 5]),
            Operation::Fence { proxy: false } if !instruction.has("mbarrier_init") => (What::Fence, [None; 5]),
            Operation::Other if matches!(instruction.mnemonic(), "mma" | "wmma") => (What::Meet, [None; 5]),
            Operation::Other => touch(instruction)?,
            _ => return None,
        };
        Some(DataSite { what, operands })
    }

    /// Whether it reads or writes bytes.
    pub(super) fn touches(&self) -> bool {
        matches!(
            self.what,
            What::Touch { .. }
                | What::CopyAsync { .. }
                | What::BulkStore { .. }
                | What::Matrices(_)
                | What::Columns { .. }
        )
    }

    /// The names that decide where.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.operands.into_iter().flatten().filter_map(|operand| base(&operand))
    }
}

/// The operand of a `tcgen05.mma` that says whether the product is added to what is there: the second that is no address and no list,
/// behind the matrices.
pub fn accumulates<'a>(instruction: Instruction<'a>) -> Option<Operand<'a>> {
    let is_plain = |operand: &Operand<'_>| matches!(operand.shape(), Shape::Name { .. } | Shape::Number(_));
    instruction.operands().skip(3).filter(is_plain).nth(1)
}

/// Whether an access is no weak one.
pub(super) fn is_strong(site: &Site<'_>) -> bool {
    let instruction = site.located.instruction;
    let word = |word: &str| matches!(word, "volatile" | "relaxed" | "acquire" | "release" | "acq_rel" | "mmio" | "sc");
    match instruction.mnemonic() {
        "atom" | "red" => true,
        "ld" | "st" => instruction.modifiers().any(word),
        _ => false,
    }
}

/// Whether an arrival, or a write that others wait for, tells nothing of what came before it.
pub(super) fn is_relaxed(site: &Site<'_>) -> bool {
    let instruction = site.located.instruction;
    if matches!(instruction.mnemonic(), "st" | "red" | "atom") {
        return is_strong(site) && !instruction.has("release") && !instruction.has("acq_rel");
    }
    let arrives = match site.operation {
        Operation::ClusterBarrier { action, .. } => action == ClusterBarrierAction::Arrive,
        Operation::Mbarrier(mbarrier) => matches!(
            mbarrier.action,
            MbarrierAction::Arrive | MbarrierAction::ArriveExpectTx | MbarrierAction::ArriveDrop
        ),
        _ => false,
    };
    arrives && site.located.instruction.has("relaxed")
}

/// The register or variable of an operand.
fn base<'a>(operand: &Operand<'a>) -> Option<&'a str> {
    operand.address().and_then(|address| address.base).or_else(|| operand.name())
}

/// Columns of tensor memory that `tcgen05.ld` or `tcgen05.st` touches, and in which lanes: `.16x64b.x4` has eight.
fn columns(instruction: Instruction<'_>) -> Option<(u32, TensorLanes)> {
    let words = || instruction.modifiers();
    let times: u32 = words().find_map(|word| word.strip_prefix('x')?.parse().ok())?;
    let (width, lanes) = words().find_map(|word| match word {
        "32x32b" => Some((1, TensorLanes::Quarter)),
        "16x32bx2" => Some((1, TensorLanes::Split)),
        "16x64b" => Some((2, TensorLanes::Half)),
        "16x128b" => Some((4, TensorLanes::Half)),
        "16x256b" => Some((8, TensorLanes::Half)),
        _ => None,
    })?;
    Some((width * times, lanes))
}

fn fence(instruction: Instruction<'_>) -> Option<What> {
    let is_async = instruction.modifiers().any(|word| word.starts_with("async"));
    let of_shared = !instruction.has("global");
    (is_async && of_shared).then_some(What::ProxyFence)
}

/// Loads, stores and atomics of shared memory, by lanes.
fn touch<'a>(instruction: Instruction<'a>) -> Option<(What, [Option<Operand<'a>>; 5])> {
    let mnemonic = instruction.mnemonic();
    let (access, at) = match mnemonic {
        "ld" | "ldu" => (Access::Read, 1),
        "ldmatrix" => (Access::Read, 1),
        "st" => (Access::Write, 0),
        "stmatrix" => (Access::Write, 0),
        "atom" => (Access::Atomic, 1),
        "red" => (Access::Atomic, 0),
        _ => return None,
    };
    let space = space_of(instruction.modifiers());
    if !matches!(space, Space::Shared | Space::Generic) || instruction.has("async") || instruction.has("bulk") {
        return None;
    }
    let address = instruction.operand(at)?;
    let (bytes, lanes) = if mnemonic.ends_with("matrix") {
        // Rows of other shapes are not as long.
        let rows = if instruction.has("x4") {
            32
        } else if instruction.has("x2") {
            16
        } else {
            8
        };
        if !instruction.has("m8n8") {
            return None;
        }
        (ROW, if rows == 32 { u32::MAX } else { (1 << rows) - 1 })
    } else {
        let bits = instruction.modifiers().filter_map(type_bits).last()?;
        let parts = instruction.modifiers().find_map(|word| match word {
            "v2" => Some(2),
            "v4" => Some(4),
            "v8" => Some(8),
            _ => None,
        });
        (bits / 8 * parts.unwrap_or(1), u32::MAX)
    };
    Some((What::Touch { access, space, bytes, lanes }, [Some(address), None, None, None, None]))
}

/// Whether a copy that completes on an mbarrier comes from shared memory.
fn is_from_shared(instruction: Instruction<'_>) -> bool {
    instruction.modifiers().filter(|word| word.starts_with("shared")).count() > 1
}

/// The names that say where a copy that completes on an mbarrier goes, and where in shared memory it comes from.
pub(super) fn names_of_ends<'a>(instruction: Instruction<'a>) -> impl Iterator<Item = &'a str> {
    let is_bulk = instruction.mnemonic() == "cp";
    let from = instruction.operand(1).filter(|_| is_bulk && is_from_shared(instruction));
    [instruction.operand(0), from].into_iter().flatten().filter_map(|operand| base(&operand))
}

impl<'a> Lowering<'_, '_, 'a> {
    /// Whether an operand is a register of 32 bits: behind the size of a copy may stand a predicate or a cache policy, too.
    fn is_number(&self, operand: &Operand<'a>, at: StatementId) -> bool {
        let register = operand.name().and_then(|name| self.resolve(name, at));
        let declared = register.and_then(|register| self.graph.registers.declaration(register));
        declared.is_some_and(|declared| type_bits(declared.ty) == Some(32))
    }

    /// Where the bytes of a copy that completes on an mbarrier lie, where data is looked at.
    pub(super) fn ends_of_copy(&mut self, instruction: Instruction<'a>, at: StatementId) -> Option<CopyEnds> {
        if !self.with_data {
            return None;
        }
        let to = self.address(instruction.operand(0)?, at)?;
        let from = instruction.operand(1).filter(|_| instruction.mnemonic() == "cp" && is_from_shared(instruction));
        let by = match instruction.mnemonic() {
            "st" => Sends::Store,
            "red" => Sends::Reduction,
            _ => Sends::Copy,
        };
        Some(CopyEnds { to, from: from.and_then(|from| self.address(from, at)), by })
    }

    /// What an instruction does to data, resolved.
    pub(super) fn data(&mut self, index: SiteId) -> Option<Op> {
        let site = self.graph.sites.get(index)?;
        let at = site.located.id;
        let DataSite { what, operands: [first, second, third, fourth, fifth] } = DataSite::of(site)?;
        let pair = site.located.instruction.has("cta_group::2");
        Some(Op::Data(match what {
            What::Touch { access, space, bytes, lanes } => {
                let together = site.located.instruction.has("sync");
                DataOp::Touch { access, space, at: self.address(first?, at)?, bytes, lanes, together }
            }
            What::CopyAsync { bytes } => {
                let from = second.filter(|size| self.is_number(size, at)).map(|size| self.source(size, at));
                DataOp::CopyAsync { to: self.address(first?, at)?, bytes, from }
            }
            What::BulkStore { tensor } => {
                let bytes = match second {
                    Some(size) if !tensor => Bytes::Number(self.source(size, at)),
                    _ => Bytes::Number(Source::Number(u64::from(FIRST))),
                };
                DataOp::BulkStore { from: self.address(first?, at)?, bytes }
            }
            What::Matrices(stream) => {
                let mut descriptor = |operand: Option<Operand<'a>>| {
                    let operand = operand.filter(|operand| matches!(operand.shape(), Shape::Name { .. }))?;
                    Some(self.source(operand, at))
                };
                let descriptors = [descriptor(first), descriptor(second)];
                let instruction = fourth.map(|operand| self.source(operand, at));
                let a = first.and_then(|operand| self.address(operand, at));
                let to = third.and_then(|operand| self.address(operand, at));
                let adds = fifth.map(|operand| self.source(operand, at));
                let by_rows = !site.located.instruction.has("ws");
                let accumulates = to.map(|to| Accumulates { to, a, instruction, adds, pair, by_rows });
                let transposes_a = stream == Stream::Wgmma && transposes_a(site.located.instruction);
                DataOp::Matrices { stream, descriptors, transposes_a, accumulates }
            }
            What::Columns { access, stream, count, lanes } => {
                let descriptor = second.map(|operand| self.source(operand, at));
                DataOp::Columns { access, stream, at: self.address(first?, at)?, count, lanes, pair, descriptor }
            }
            What::CommitGroup(stream) => DataOp::CommitGroup(stream),
            What::WaitGroup(stream, pending) => DataOp::WaitGroup(stream, pending),
            What::ProxyFence => DataOp::ProxyFence,
            What::Fence => DataOp::Fence,
            What::Meet => DataOp::Meet,
        }))
    }
}

/// An operand that says where an instruction reads or writes shared or tensor memory.
#[derive(Clone, Copy)]
pub struct Accessed<'a> {
    /// Which memory; of generic addresses shared memory.
    pub memory: MemoryKind,
    /// What it does there.
    pub access: Access,
    /// Where.
    pub operand: Operand<'a>,
    /// Which of several operands that do the same, as footprints count.
    pub number: u8,
    /// Bytes or columns; none where they are not known.
    pub count: Option<u64>,
    /// Whether the operand is a matrix descriptor.
    pub is_descriptor: bool,
    /// Whether the address may be one of another memory.
    pub is_generic: bool,
}

/// What an instruction touches by the operands that its text has.
pub fn accessed<'a>(site: &Site<'a>) -> Vec<Accessed<'a>> {
    let instruction = site.located.instruction;
    let plain = |memory, access, operand: Option<Operand<'a>>, number, count| {
        let operand = operand?;
        Some(Accessed { memory, access, operand, number, count, is_descriptor: false, is_generic: false })
    };
    let shared = |access, operand, count| plain(MemoryKind::Shared, access, operand, 0, count);
    let tensor = |access, operand, count| plain(MemoryKind::Tensor, access, operand, 0, count);
    let described = |operand: Option<Operand<'a>>, number| {
        let operand = operand.filter(|operand| matches!(operand.shape(), Shape::Name { .. }));
        let found = plain(MemoryKind::Shared, Access::Read, operand, number, None)?;
        Some(Accessed { is_descriptor: true, ..found })
    };
    let completes = || instruction.modifiers().any(|word| word.starts_with("mbarrier::complete_tx"));
    let found: Vec<Option<Accessed<'a>>> = match (DataSite::of(site), site.operation) {
        (_, Operation::Mbarrier(mbarrier)) => {
            let (number, bytes) = OBJECT;
            vec![plain(MemoryKind::Shared, Access::Atomic, mbarrier.address, number, Some(bytes))]
        }
        (_, Operation::Tcgen05 { action: Tcgen05::Alloc, .. }) => {
            vec![shared(Access::Write, instruction.operand(0), Some(4))]
        }
        (_, Operation::Bulk(Bulk::Copy { .. } | Bulk::Reduce { .. })) if completes() => {
            let from = instruction.operand(1).filter(|_| is_from_shared(instruction));
            vec![shared(Access::Write, instruction.operand(0), None), shared(Access::Read, from, None)]
        }
        (None, _) => Vec::new(),
        (Some(DataSite { what, operands: [first, second, third, ..] }), _) => match what {
            What::Touch { access, space, bytes, .. } => {
                let found = shared(access, first, Some(u64::from(bytes)));
                vec![found.map(|found| Accessed { is_generic: space == Space::Generic, ..found })]
            }
            What::CopyAsync { bytes } => vec![shared(Access::Write, first, Some(u64::from(bytes)))],
            What::BulkStore { .. } => {
                let bytes = second.and_then(|size| size.value()).and_then(|size| u64::try_from(size).ok());
                vec![shared(Access::Read, first, bytes)]
            }
            What::Matrices(Stream::Wgmma) => vec![described(first, 0), described(second, 1)],
            What::Matrices(_) => {
                let in_tensor = first.filter(|operand| operand.address().is_some());
                vec![
                    described(first, 0),
                    described(second, 1),
                    tensor(Access::Read, in_tensor, None),
                    tensor(Access::Write, third, None),
                ]
            }
            What::Columns { access, count, .. } => {
                vec![tensor(access, first, Some(u64::from(count))), described(second, 0)]
            }
            _ => Vec::new(),
        },
    };
    found.into_iter().flatten().collect()
}
