//! Which bytes of shared memory, and which columns of tensor memory, each instruction touched in an execution.
//!
//! In: what `data.rs` and `step.rs` see touched. Out: for each instruction and operand the places, one for each pass of a warp that
//! differs from those before, in the order of the passes: the stages of a ring show as places with a constant stride.

use crate::base::{FastMap, FastSet, Line};
use crate::sync::machine::SharedAddress;
use crate::sync::program::{Access, InstrId};
use crate::sync::value::Basis;

/// Places of one instruction that are told apart; the others only widen the last one.
const MOST_SPANS: usize = 192;

/// The operand that an mbarrier is counted as, and its bytes.
pub const OBJECT: (u8, u64) = (u8::MAX, 8);

/// A memory of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryKind {
    /// Shared memory, in bytes.
    Shared,
    /// Tensor memory, in columns.
    Tensor,
}

/// Bytes, or columns, that one pass of a warp touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub start: u64,
    /// How many, up to the last.
    pub count: u64,
    /// The warp of its block.
    pub warp: u32,
    /// How often the warp had run the instruction before.
    pub pass: u32,
    /// What the place rests on.
    pub place: Basis,
    /// What the way there rests on.
    pub path: Basis,
}

impl Span {
    /// The first that is not touched any more.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.count)
    }
}

/// What one operand of an instruction touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The instruction of the skeleton.
    pub pc: InstrId,
    /// Which of several operands that do the same.
    pub operand: u8,
    /// Of which memory.
    pub memory: MemoryKind,
    /// What it does there.
    pub access: Access,
    /// Warps of a block that did, a bit for each.
    pub warps: u32,
    /// Where.
    pub spans: Vec<Span>,
    /// Whether the spans are all of it, or only where it starts.
    pub is_whole: bool,
    /// Whether a warp came back to the first place that it had touched.
    pub returned: bool,
    /// Passes whose place is not known.
    pub unknown: u32,
    /// Of copies whose size is not in the PTX: the fewest bytes that one brings, and the most that all of a phase bring together, where
    /// what is announced tells.
    pub announced: Option<Announced>,
}

/// What the announcement of a phase tells of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Bytes of the copy at least.
    pub least: u64,
    /// Bytes of all copies of the phase.
    pub phase: u64,
}

/// Copies that one phase of an mbarrier waits for, all of them to the block that it is in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Together {
    /// Bytes that are announced, by constants.
    pub announced: u64,
    /// Where they are first.
    pub by: Line,
    /// The copies.
    pub copies: Vec<Copied>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Copied {
    /// The instruction.
    pub pc: InstrId,
    /// Where to.
    pub start: u64,
    /// How many bytes; none where a tensor map says it.
    pub bytes: Option<u64>,
}

/// Phases that are kept.
const MOST_PHASES: usize = 256;

/// Copies that one phase of an mbarrier waits for.
#[derive(Clone, Debug, Default)]
struct Phase {
    announced: u64,
    by: Option<Line>,
    /// Which instruction, and where to.
    copies: Vec<(usize, u64)>,
    /// How many bytes each brings; none where a tensor map says it.
    bytes: Vec<Option<u64>>,
    /// Whether some of it is told by no constant, or goes to another block's memory.
    is_loose: bool,
    /// Whether it was over in the end: all its copies were issued.
    is_over: bool,
}

/// What one execution touched.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    touched: Vec<Touched>,
    index: FastMap<(InstrId, u8, MemoryKind, Access), usize>,
    seen: FastSet<(usize, u32, u64, u64)>,
    /// By instruction and warp: passes so far, and the first place.
    passes: FastMap<(usize, u32), (u32, Option<u64>)>,
    phases: FastMap<(SharedAddress, u64), Phase>,
    /// Columns of tensor memory that a block held at once, at most.
    pub columns_held: u64,
    /// Whether something but constants says how many bytes are announced.
    pub(super) is_loose: bool,
}

/// A pass of a warp over an operand.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    pub pc: InstrId,
    pub operand: u8,
    pub memory: MemoryKind,
    pub access: Access,
    pub warp: u32,
    pub path: Basis,
}

impl Footprint {
    /// What was touched, in the order in which it first was, and the columns that a block held at once.
    pub fn into_touched(mut self) -> (Vec<Touched>, u64, Vec<Together>) {
        let phases: Vec<Phase> = self.phases.drain().map(|(_, phase)| phase).collect();
        let mut together: Vec<Together> = phases.iter().filter_map(|phase| self.together(phase)).collect();
        together.sort_unstable();
        together.dedup();
        together.truncate(MOST_PHASES);
        phases.into_iter().for_each(|phase| self.settle(phase));
        (self.touched, self.columns_held, together)
    }

    /// The copies of a phase, where constants say how many bytes it waits for.
    fn together(&self, phase: &Phase) -> Option<Together> {
        let by = phase.by.filter(|_| phase.is_over && !phase.is_loose && !self.is_loose)?;
        let copied = |(&(slot, start), &bytes): (&(usize, u64), &Option<u64>)| {
            Some(Copied { pc: self.touched.get(slot)?.pc, start, bytes })
        };
        let mut copies: Vec<Copied> = phase.copies.iter().zip(&phase.bytes).map(copied).collect::<Option<_>>()?;
        copies.sort_unstable();
        (!copies.is_empty()).then_some(Together { announced: phase.announced, by, copies })
    }

    /// What the announcement of a phase leaves for the copy that lies last: no copy reaches into the next of its phase, nor into the next
    /// stage of its own.
    fn settle(&mut self, mut phase: Phase) {
        if phase.is_loose || phase.announced == 0 {
            return;
        }
        phase.copies.sort_unstable_by_key(|(slot, start)| (*start, *slot));
        let Some(((last, at), others)) = phase.copies.split_last() else { return };
        let mut left = phase.announced;
        for (index, (slot, start)) in others.iter().enumerate() {
            let beside = others.get(index + 1).map_or(*at, |(_, next)| *next);
            let spans = self.touched.get(*slot).map_or(&[][..], |touched| &touched.spans);
            let next = spans.iter().map(|span| span.start).filter(|next| next > start).min();
            left = left.saturating_sub(next.unwrap_or(beside).min(beside) - start);
        }
        for (slot, _) in others {
            self.announce_to(*slot, Announced { least: 0, phase: phase.announced });
        }
        self.announce_to(*last, Announced { least: left, phase: phase.announced });
    }

    fn announce_to(&mut self, slot: usize, found: Announced) {
        let Some(touched) = self.touched.get_mut(slot) else { return };
        touched.announced = Some(match touched.announced {
            Some(known) => Announced { least: known.least.min(found.least), phase: known.phase.max(found.phase) },
            None => found,
        });
    }

    /// Bytes are announced for a phase of an mbarrier.
    pub(super) fn announce(&mut self, phase: (SharedAddress, u64), bytes: i64, basis: Basis, line: Line) {
        self.is_loose |= basis != Basis::Fact;
        let phase = self.phases.entry(phase).or_default();
        phase.by.get_or_insert(line);
        match u64::try_from(bytes) {
            Ok(bytes) if basis == Basis::Fact => phase.announced = phase.announced.saturating_add(bytes),
            _ => phase.is_loose = true,
        }
    }

    /// A pass copies for a phase of an mbarrier; `is_there` where its bytes go to the block that the mbarrier is in.
    pub(super) fn copies(
        &mut self,
        pass: Pass,
        phase: (SharedAddress, u64),
        (start, bytes): (u64, Option<u64>),
        is_there: bool,
    ) {
        let slot = self.slot(&pass);
        let phase = self.phases.entry(phase).or_default();
        phase.is_loose |= !is_there;
        phase.copies.push((slot, start));
        phase.bytes.push(bytes);
    }

    /// The execution has ended: how many phases of each mbarrier are over.
    pub(super) fn ends(&mut self, over: impl Fn(SharedAddress) -> u64) {
        for ((at, number), phase) in &mut self.phases {
            phase.is_over = over(*at) > *number;
        }
    }

    /// A copy for a phase of an mbarrier whose place is not known.
    pub(super) fn loses(&mut self, phase: (SharedAddress, u64)) {
        self.phases.entry(phase).or_default().is_loose = true;
    }

    fn slot(&mut self, pass: &Pass) -> usize {
        let Pass { pc, operand, memory, access, .. } = *pass;
        let next = self.touched.len();
        let slot = *self.index.entry((pc, operand, memory, access)).or_insert(next);
        if slot == next {
            self.touched.push(Touched {
                pc,
                operand,
                memory,
                access,
                warps: 0,
                spans: Vec::new(),
                is_whole: true,
                returned: false,
                unknown: 0,
                announced: None,
            });
        }
        slot
    }

    /// A pass touches a place; `is_whole` where all of it is known.
    pub(super) fn touch(&mut self, pass: Pass, (start, count): (u64, u64), is_whole: bool, place: Basis) {
        let slot = self.slot(&pass);
        let (passes, first) = self.passes.entry((slot, pass.warp)).or_default();
        let number = *passes;
        *passes = passes.saturating_add(1);
        let returns = *first.get_or_insert(start) == start && number > 0;
        let Some(touched) = self.touched.get_mut(slot) else { return };
        touched.warps |= 1 << (pass.warp % u32::BITS);
        touched.is_whole &= is_whole;
        if !self.seen.insert((slot, pass.warp, start, count)) {
            touched.returned |= returns && touched.spans.len() > 1;
            return;
        }
        if touched.spans.len() < MOST_SPANS {
            touched.spans.push(Span { start, count, warp: pass.warp, pass: number, place, path: pass.path });
        } else if let Some(last) = touched.spans.last_mut() {
            let end = last.end().max(start.saturating_add(count));
            last.start = last.start.min(start);
            last.count = end - last.start;
            last.place = last.place.max(place);
            last.path = last.path.max(pass.path);
        }
    }

    /// A pass whose place is not known.
    pub(super) fn miss(&mut self, pass: Pass) {
        let slot = self.slot(&pass);
        if let Some(touched) = self.touched.get_mut(slot) {
            touched.unknown = touched.unknown.saturating_add(1);
            touched.warps |= 1 << (pass.warp % u32::BITS);
        }
    }
}
