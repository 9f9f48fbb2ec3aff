//! Parts of an entry, decompressed on demand.
//!
//! An LZ4 block is a list of runs: literals, then bytes copied from at most 64 KiB before. Where each run lies follows from
//! the lengths alone, so that one walk over them, which copies nothing, makes any part of the block readable: its literals are
//! at hand, and what it copies is a part as well. A cubin is mostly code; who wants the rest pays for the rest.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use memmap2::MmapMut;

use super::error::Problem;

/// Runs between two places that are remembered.
const STRIDE: usize = 16;
/// Copies of copies are followed this deep; then everything is decompressed.
const MAX_DEPTH: u32 = 256;
/// Runs that may be looked at for each run of the block before it is cheaper to decompress everything.
const EFFORT: usize = 4;
/// The shortest copy.
const MIN_MATCH: usize = 4;

/// A part takes more work than decompressing everything.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooDear;

/// An LZ4 block and what of it has been decompressed.
#[derive(Debug)]
pub(super) struct LazyBlock<'a> {
    packed: Cow<'a, [u8]>,
    /// Where every [`STRIDE`]th run starts: in the packed bytes, in the block.
    marks: Vec<(usize, usize)>,
    /// The block; zeros where nothing was asked for.
    bytes: MmapMut,
    /// Its size.
    len: usize,
    /// What of it is there: start → end, never touching.
    filled: BTreeMap<usize, usize>,
    effort: usize,
}

/// One run: literals, then a copy.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// Where the literals are.
    literals: usize,
    literal_bytes: usize,
    /// How far back the copy is taken from; 0 for the last run, which has none.
    offset: usize,
    copy_bytes: usize,
    /// Where the next run starts.
    next: usize,
}

/// Reads a length that goes on in further bytes while they are 255.
#[inline]
fn length(packed: &[u8], at: &mut usize, nibble: usize) -> Option<usize> {
    let mut length = nibble;
    if nibble == 15 {
        loop {
            let byte = *packed.get(*at)?;
            *at += 1;
            length += usize::from(byte);
            if byte != 255 {
                break;
            }
        }
    }
    Some(length)
}

#[inline]
fn run(packed: &[u8], at: usize) -> Option<Run> {
    let token = *packed.get(at)?;
    let mut at = at + 1;
    let literal_bytes = length(packed, &mut at, usize::from(token >> 4))?;
    let literals = at;
    at = at.checked_add(literal_bytes)?;
    if at >= packed.len() {
        return (at == packed.len()).then_some(Run { literals, literal_bytes, offset: 0, copy_bytes: 0, next: at });
    }
    let offset = usize::from(u16::from_le_bytes([*packed.get(at)?, *packed.get(at + 1)?]));
    at += 2;
    let copy_bytes = length(packed, &mut at, usize::from(token & 15))? + MIN_MATCH;
    Some(Run { literals, literal_bytes, offset, copy_bytes, next: at })
}

impl<'a> LazyBlock<'a> {
    /// Walks over the runs of a block that should have `bytes` bytes.
    pub fn new(packed: Cow<'a, [u8]>, bytes: usize) -> Result<Self, Problem> {
        let damaged = |detail: String| Problem::Damaged { method: "LZ4", detail };
        let mut marks = Vec::with_capacity(packed.len() / 256);
        let (mut at, mut place, mut count) = (0, 0_usize, 0_usize);
        while at < packed.len() {
            if count.is_multiple_of(STRIDE) {
                marks.push((at, place));
            }
            let Some(found) = run(&packed, at) else {
                return Err(damaged(format!("it ends inside the run at {at:#x}")));
            };
            place += found.literal_bytes;
            let ends = found.next >= packed.len() && found.copy_bytes == 0;
            if !ends && (found.offset == 0 || found.offset > place) {
                return Err(damaged(format!("the run at {at:#x} copies from outside")));
            }
            place += found.copy_bytes;
            if place > bytes {
                let declared = bytes as u64;
                return Err(Problem::WrongSize { method: "LZ4", declared, found: format!("more than {declared}") });
            }
            at = found.next;
            count += 1;
        }
        if place != bytes {
            return Err(Problem::WrongSize { method: "LZ4", declared: bytes as u64, found: place.to_string() });
        }
        // Pages that nothing writes to cost no memory; an allocator would fill them with zeros.
        let bytes = MmapMut::map_anon(bytes.max(1)).map_err(|error| Problem::Io(error.to_string()))?;
        Ok(LazyBlock { packed, marks, bytes, len: place, filled: BTreeMap::new(), effort: count * EFFORT + 4096 })
    }

    /// Decompresses a part.
    pub fn ensure(&mut self, range: Range<usize>) -> Result<&[u8], TooDear> {
        let end = range.end.min(self.len);
        let start = range.start.min(end);
        self.fill(start, end, 0)?;
        Ok(self.bytes.get(start..end).unwrap_or(&[]))
    }

    /// The packed bytes.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// The block with the parts that were asked for.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    /// The next stretch of a range that is not there yet.
    fn gap(&self, start: usize, end: usize) -> Option<Range<usize>> {
        let mut from = start;
        if let Some((_, &known)) = self.filled.range(..=start).next_back() {
            from = from.max(known);
        }
        let to = self.filled.range(from..).next().map_or(end, |(&next, _)| next.min(end));
        if from < to {
            return Some(from..to);
        }
        // A stretch that is there starts at `from`: what follows it may be missing.
        (from < end).then(|| self.gap(from.max(to), end)).flatten()
    }

    fn mark(&mut self, start: usize, end: usize) {
        let (mut start, mut end) = (start, end);
        if let Some((&first, &known)) = self.filled.range(..=start).next_back()
            && known >= start
        {
            start = first;
            end = end.max(known);
        }
        while let Some((&next, &known)) = self.filled.range(start..).next() {
            if next > end {
                break;
            }
            end = end.max(known);
            self.filled.remove(&next);
        }
        self.filled.insert(start, end);
    }

    fn fill(&mut self, start: usize, end: usize, depth: u32) -> Result<(), TooDear> {
        if depth > MAX_DEPTH {
            return Err(TooDear);
        }
        while let Some(gap) = self.gap(start, end) {
            self.walk(gap, depth)?;
        }
        Ok(())
    }

    /// Fills a stretch of which nothing is there.
    fn walk(&mut self, gap: Range<usize>, depth: u32) -> Result<(), TooDear> {
        let mark = self.marks.partition_point(|&(_, place)| place <= gap.start).saturating_sub(1);
        let Some(&(mut at, mut place)) = self.marks.get(mark) else { return Err(TooDear) };
        while place < gap.end {
            self.effort = self.effort.checked_sub(1).ok_or(TooDear)?;
            let found = run(&self.packed, at).ok_or(TooDear)?;
            let literals = place..place + found.literal_bytes;
            let wanted = literals.start.max(gap.start)..literals.end.min(gap.end);
            if wanted.start < wanted.end {
                let from = found.literals + (wanted.start - literals.start);
                let source = self.packed.get(from..from + wanted.len()).ok_or(TooDear)?;
                self.bytes.get_mut(wanted).ok_or(TooDear)?.copy_from_slice(source);
            }
            let copy = literals.end..literals.end + found.copy_bytes;
            let wanted = copy.start.max(gap.start)..copy.end.min(gap.end);
            if wanted.start < wanted.end {
                self.copy(wanted, copy.start, found.offset, gap.start, depth)?;
            }
            place = copy.end;
            at = found.next;
        }
        self.mark(gap.start, gap.end);
        Ok(())
    }

    /// Copies a part of a run that starts at `start`; its source may have to be made first. `known` is where the stretch being
    /// filled starts: from there on everything before the part is there.
    fn copy(
        &mut self,
        wanted: Range<usize>,
        start: usize,
        offset: usize,
        known: usize,
        depth: u32,
    ) -> Result<(), TooDear> {
        // A copy that overlaps itself repeats the bytes before the run; in its middle they are counted from its start.
        let repeats = wanted.start > start && offset < wanted.end - start;
        let first = if repeats { start } else { wanted.start };
        let source = first.checked_sub(offset).ok_or(TooDear)?;
        let source_end = if repeats { start } else { (wanted.end - offset).min(wanted.start) };
        if source < known {
            if known < wanted.start {
                self.mark(known, wanted.start);
            }
            self.fill(source, source_end.min(known), depth + 1)?;
        }
        let len = wanted.len();
        if !repeats && offset >= len {
            self.bytes.copy_within(source..source + len, wanted.start);
            return Ok(());
        }
        let ahead = wanted.start - first;
        for at in 0..len {
            let from = source + (ahead + at) % offset;
            let byte = self.bytes.get(from).copied().ok_or(TooDear)?;
            *self.bytes.get_mut(wanted.start + at).ok_or(TooDear)? = byte;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Something like a cubin: names, records that repeat, runs of one byte, noise.
    fn sample(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed | 1;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut bytes = Vec::new();
        while bytes.len() < len {
            match next() % 5 {
                0 => bytes.extend(std::iter::repeat_n((next() % 3) as u8, (next() % 5000) as usize)),
                1 => bytes.extend(b".nv.info._Z6kernelPfS_S_i".repeat((next() % 40) as usize)),
                2 => bytes.extend(next().to_le_bytes()),
                3 if bytes.len() > 200 => {
                    let at = next() as usize % (bytes.len() - 100);
                    let again = bytes[at..at + 100].to_vec();
                    bytes.extend(again);
                }
                _ => bytes.extend((0..next() % 300).map(|i| (i as u8).wrapping_mul(next() as u8 % 4))),
            }
        }
        bytes.truncate(len);
        bytes
    }

    #[test]
    fn parts_equal_the_whole() {
        for seed in 1..40_u64 {
            let whole = sample(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), 1 + seed as usize * 9_001);
            let packed = lz4_flex::block::compress(&whole);
            let mut lazy = LazyBlock::new(Cow::Borrowed(&packed), whole.len()).unwrap();
            let parts = [0..64, whole.len() * 9 / 10..whole.len(), whole.len() / 3..whole.len() / 2, 10..11, 5..5];
            for part in parts {
                let part = part.start.min(whole.len())..part.end.min(whole.len());
                match lazy.ensure(part.clone()) {
                    Ok(found) => assert_eq!(found, &whole[part.clone()], "seed {seed}, {part:?}"),
                    Err(refusal) => assert_eq!(refusal, TooDear, "seed {seed}"),
                }
            }
            let mut all = LazyBlock::new(Cow::Borrowed(&packed), whole.len()).unwrap();
            assert_eq!(all.ensure(0..whole.len()).unwrap(), &whole[..], "seed {seed}");
        }
    }

    #[test]
    fn damage_is_refused() {
        let whole = sample(7, 20_000);
        let packed = lz4_flex::block::compress(&whole);
        for bytes in [0, 19_999, 20_001] {
            assert!(matches!(LazyBlock::new(Cow::Borrowed(&packed), bytes), Err(Problem::WrongSize { .. })), "{bytes}");
        }
        for at in (0..packed.len()).step_by(7) {
            // A block that is cut or changed is refused, or read as something of the declared size: never a panic.
            let _ = LazyBlock::new(Cow::Borrowed(&packed[..at]), whole.len());
            let mut changed = packed.clone();
            changed[at] ^= 0x55;
            if let Ok(mut lazy) = LazyBlock::new(Cow::Borrowed(&changed), whole.len()) {
                let _ = lazy.ensure(0..whole.len());
            }
        }
    }
}
