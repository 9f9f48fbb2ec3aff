//! Boxes of tensor maps, which are not in the PTX: what a phase of an mbarrier waits for, held against what is read of its copies and
//! what their slots have room for.
//!
//! In: copies of a phase and what was read of where they go, of an execution. A box lies in one piece: where its last byte is read, all
//! of it has come; and the slots of a ring do not overlap.

use std::collections::BTreeSet;

use crate::base::FastMap;
use crate::ptx::descriptor::{MmaKind, Swizzle};
use crate::sync::DataTouched;
use crate::sync::execute::footprint::{Copied, MemoryKind, OBJECT, Span, Together, Touched};
use crate::sync::multiply::{Multiplication, Place, Tile};
use crate::sync::program::{Access, DataOp, InstrId, Op, Stream};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;
use crate::sync::value::Basis;

/// Rows of a core matrix.
const ROWS: u64 = 8;
/// Bytes of a row of a core matrix.
const ROW: u64 = 16;
/// Rows of A that one warp of a warpgroup multiplies.
const OWN_ROWS: u64 = 16;

/// A phase that waits for other bytes than its copies bring.
pub fn check(touched: &DataTouched, multiplied: impl FnOnce() -> Vec<Multiplication>) -> Option<Finding> {
    let by_maps = |phase: &&Together| phase.copies.iter().any(|copy| copy.bytes.is_none());
    let phases: Vec<&Together> = touched.phases.iter().filter(by_maps).collect();
    if phases.is_empty() {
        return None;
    }
    let slots = Slots::of(touched, multiplied());
    phases.into_iter().find_map(|phase| slots.broken(phase))
}

/// Whether elements of fewer than eight bits may lie in eight each, as these kinds read them: a tensor map spreads them on the way, and what is
/// announced are the bytes before that.
fn may_be_padded(multiplication: &Multiplication) -> bool {
    let [_, factors @ ..] = &multiplication.types;
    let is_whole = |name: &Option<&str>| matches!(name, Some("e4m3" | "e5m2"));
    matches!(multiplication.kind, Some(MmaKind::F8f6f4 | MmaKind::Mxf8f6f4)) && !factors.iter().all(is_whole)
}

/// Where copies go, and what else is done there.
struct Slots<'t> {
    touched: &'t DataTouched,
    /// Where copies go, all of them.
    starts: BTreeSet<u64>,
    /// By copying instruction: from one of its slots to the next.
    strides: FastMap<InstrId, u64>,
    multiplications: Vec<Multiplication>,
}

fn is_shared(touched: &&Touched) -> bool {
    touched.memory == MemoryKind::Shared && touched.operand != OBJECT.0
}

impl<'t> Slots<'t> {
    fn of(touched: &'t DataTouched, multiplications: Vec<Multiplication>) -> Slots<'t> {
        let mut by_copy: FastMap<InstrId, BTreeSet<u64>> = FastMap::default();
        for copy in touched.phases.iter().flat_map(|phase| &phase.copies) {
            by_copy.entry(copy.pc).or_default().insert(copy.start);
        }
        let stride =
            |starts: &BTreeSet<u64>| starts.iter().zip(starts.iter().skip(1)).map(|(at, next)| next - at).min();
        let strides = by_copy.iter().filter_map(|(pc, starts)| Some((*pc, stride(starts)?))).collect();
        let mut slots = Slots { touched, starts: by_copy.into_values().flatten().collect(), strides, multiplications };
        let copies = slots.places(true).map(|(_, span)| span.start).collect::<Vec<_>>();
        slots.starts.extend(copies);
        slots
    }

    /// What writes shared memory, by copies or otherwise.
    fn places(&self, by_copies: bool) -> impl Iterator<Item = (&'t Touched, &'t Span)> {
        let writes = move |touched: &&Touched| {
            let op = self.touched.program.code.get(touched.pc).map(|instr| &instr.op);
            touched.access.writes() && matches!(op, Some(Op::Copy { .. })) == by_copies
        };
        let all: Vec<&'t Touched> = self.touched.touched.iter().filter(is_shared).filter(writes).collect();
        all.into_iter().flat_map(|touched| touched.spans.iter().map(move |span| (touched, span)))
    }

    fn broken(&self, phase: &Together) -> Option<Finding> {
        let rooms: Vec<Option<u64>> = phase.copies.iter().map(|copy| self.room(phase, copy)).collect();
        let count = phase.copies.len();
        let copies = if count == 1 { "a copy".to_owned() } else { format!("{count} copies") };
        let line = phase.by;
        let told = |message: String, reasoning: &str| Finding {
            rule: Rule::EqualBytes,
            confidence: Confidence::Likely,
            line,
            message,
            reasoning: reasoning.to_owned(),
        };
        let announced = phase.announced;
        if let Some(room) = rooms.iter().copied().sum::<Option<u64>>()
            && room < announced
        {
            let message = format!("{announced} bytes are announced for {copies}, whose slots have room for {room}");
            return Some(told(
                message,
                "the phase ends when as many bytes have come as are announced: those of the boxes",
            ));
        }
        if self.multiplications.iter().any(may_be_padded) {
            return None;
        }
        let read: Vec<u64> = phase.copies.iter().zip(&rooms).map(|(copy, room)| self.read(copy, *room)).collect();
        let least: u64 = read.iter().sum();
        (least > announced).then(|| {
            let lines: BTreeSet<_> = phase.copies.iter().filter_map(|copy| self.line(copy.pc)).collect();
            let lines: Vec<String> = lines.iter().map(|line| line.to_string()).collect();
            let message = format!(
                "{announced} bytes are announced for {copies} (line {}), and at least {least} of what they bring are read",
                lines.join(", ")
            );
            told(message, "a box lies in one piece, and all of its bytes are announced: the phase never ends, or ends too early")
        })
    }

    fn line(&self, pc: InstrId) -> Option<crate::base::Line> {
        self.touched.program.code.get(pc).map(|instr| instr.line)
    }

    /// Bytes that a copy can bring at most: up to the next of its phase, and to the next slot of its ring.
    fn room(&self, phase: &Together, copy: &Copied) -> Option<u64> {
        if copy.bytes.is_some() {
            return copy.bytes;
        }
        let next = phase.copies.iter().map(|other| other.start).filter(|start| *start > copy.start).min();
        let stride = self.strides.get(&copy.pc).copied();
        [next.map(|next| next - copy.start), stride].into_iter().flatten().min()
    }

    /// Bytes that a copy brings at least, by what is read of them.
    fn read(&self, copy: &Copied, room: Option<u64>) -> u64 {
        if let Some(bytes) = copy.bytes {
            return bytes;
        }
        let variable =
            self.touched.program.variables.iter().find(|it| {
                it.bytes.is_some_and(|bytes| (it.start..it.start.saturating_add(bytes)).contains(&copy.start))
            });
        let declared = variable.and_then(|it| Some(it.start + it.bytes? - copy.start));
        let Some(room) = room.or(declared).or_else(|| self.gap(copy.start)) else { return 0 };
        let end = copy.start.saturating_add(room);
        // Behind the next place that is copied to, another copy may have brought it: what is read before that is enough.
        let end = self.starts.range(copy.start + 1..end).next().copied().unwrap_or(end);
        // What others leave there is not told apart.
        let is_shared_with_others = self.places(false).any(|(_, span)| span.start < end && span.end() > copy.start);
        if is_shared_with_others {
            return 0;
        }
        let reads = self.touched.touched.iter().filter(is_shared).filter(|touched| touched.access == Access::Read);
        let spans = reads.flat_map(|touched| touched.spans.iter().map(move |span| (touched, span)));
        // How far a loop goes is for its input to say.
        let first = |span: &Span| span.place == Basis::Fact && (span.path == Basis::Fact || span.pass == 0);
        let within = spans.filter(|(_, span)| first(span) && (copy.start..end).contains(&span.start));
        let ends = within.map(|(touched, span)| span.start.saturating_add(self.reach(touched, span)));
        ends.filter(|reached| *reached <= end).max().map_or(0, |reached| reached - copy.start)
    }

    /// From a place to the next one that is copied to, written, or an mbarrier.
    fn gap(&self, from: u64) -> Option<u64> {
        let objects = self.touched.touched.iter().filter(|touched| touched.operand == OBJECT.0);
        let objects = objects.flat_map(|touched| touched.spans.iter().map(|span| span.start));
        let written = self.places(false).map(|(_, span)| span.start);
        let next = objects.chain(written).chain(self.starts.iter().copied()).filter(|start| *start > from).min();
        next.map(|next| next - from)
    }

    /// Bytes from the start of what an instruction reads to the last of them that is known to be read.
    fn reach(&self, touched: &Touched, span: &Span) -> u64 {
        let op = self.touched.program.code.get(touched.pc).map(|instr| &instr.op);
        let Some(Op::Data(DataOp::Matrices { stream, .. })) = op else {
            return if touched.is_whole { span.count } else { 1 };
        };
        let line = self.line(touched.pc);
        let mut found = self.multiplications.iter().filter(|it| Some(it.line) == line);
        let (Some(multiplication), None) = (found.next(), found.next()) else { return 1 };
        let rows = match touched.operand {
            0 if *stream == Stream::Wgmma => Some(OWN_ROWS),
            0 => multiplication.m.map(u64::from),
            _ => multiplication.n.map(u64::from),
        };
        let factor = multiplication.factors.get(usize::from(touched.operand));
        match factor.map(|factor| (&factor.place, factor.is_transposed)) {
            Some((Place::Shared(tile), Some(false))) => {
                rows.and_then(|rows| last_row(tile, rows, span.start)).unwrap_or(1)
            }
            _ => 1,
        }
    }
}

/// From the start of a matrix of so many rows, which run along K, into the last of them: how it is swizzled decides where in its row a
/// step along K lies.
fn last_row(tile: &Tile, rows: u64, start: u64) -> Option<u64> {
    let groups = (rows / ROWS).checked_sub(1)?.saturating_mul(tile.stride_bytes?);
    let (row, within) = match tile.swizzle? {
        Swizzle::None => (ROW, 0),
        swizzle => swizzle.repeat().map(|(row, _)| (row, start % row))?,
    };
    (groups + (ROWS - 1) * row + ROW).checked_sub(within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Line;
    use crate::ptx::descriptor::MatrixFormat;
    use crate::sync::multiply::Factor;

    #[test]
    fn elements_of_few_bits_are_spread() {
        let factor = || Factor { place: Place::Registers, is_transposed: None, is_negated: None };
        let of = |kind, types| Multiplication {
            line: Line(1),
            format: MatrixFormat::Tcgen05,
            kind: Some(kind),
            m: None,
            n: None,
            k: None,
            types,
            is_sparse: false,
            factors: [factor(), factor()],
            descriptor: None,
        };
        let types = |a, b| [Some("f32"), a, b];
        assert!(may_be_padded(&of(MmaKind::Mxf8f6f4, types(Some("e4m3"), Some("e2m1")))));
        assert!(may_be_padded(&of(MmaKind::F8f6f4, types(None, Some("e4m3")))));
        assert!(!may_be_padded(&of(MmaKind::F8f6f4, types(Some("e5m2"), Some("e4m3")))));
        // Four bits are packed where all are.
        assert!(!may_be_padded(&of(MmaKind::Mxf4, types(Some("e2m1"), Some("e2m1")))));
    }
}
