//! Which registers of PTX are read later: the backward problem of the textbooks, over blocks, with sets of bits.

use super::{BlockId, Graph};
use crate::base::{FastMap, Id, IndexVec, work};
use crate::ptx::Register;

/// Words of bits that sets take at most: beyond that nobody is told anything.
const MOST_WORDS: usize = 1 << 24;

/// Numbers for the registers that a kernel names, and those that are alive at the end of each block.
pub struct LiveRegisters {
    numbers: FastMap<Register, u32>,
    words: usize,
    /// A row of words for each block.
    ends: Vec<u64>,
}

impl LiveRegisters {
    /// Solves it; none where the kernel is too large.
    pub fn solve(graph: &Graph<'_>) -> Option<LiveRegisters> {
        let mut numbers: FastMap<Register, u32> = FastMap::default();
        for used in graph.sites.iter().flat_map(|site| graph.registers.of(&site.located)) {
            work::spend(1);
            let next = u32::try_from(numbers.len()).ok()?;
            numbers.entry(used.register).or_insert(next);
        }
        let words = numbers.len().div_ceil(64);
        let all = graph.blocks.len().checked_mul(words).filter(|all| *all <= MOST_WORDS)?;
        work::spend_on(all);
        // What a block reads before it writes it, and what it writes in any case.
        let (mut reads, mut writes) = (vec![0u64; all], vec![0u64; all]);
        for (site, at) in graph.sites.iter().map(|site| (site, site.block.index() * words)) {
            let row = |set: &mut [u64], number: u32, mask: u64| -> bool {
                let Some(word) = set.get_mut(at + number as usize / 64) else { return false };
                let was = *word >> (number % 64) & 1 == 1;
                *word |= mask << (number % 64);
                was
            };
            for used in graph.registers.of(&site.located).filter(|used| !used.is_def) {
                let number = *numbers.get(&used.register)?;
                if !row(&mut writes, number, 0) {
                    row(&mut reads, number, 1);
                }
            }
            for register in graph.registers.written_by(&site.located).filter(|_| site.guard.is_none()) {
                row(&mut writes, *numbers.get(&register)?, 1);
            }
        }
        let mut solved = LiveRegisters { numbers, words, ends: vec![0; all] };
        solved.spread(graph, &reads, &writes);
        Some(solved)
    }

    /// From every block to those before it, until nothing is new.
    fn spread(&mut self, graph: &Graph<'_>, reads: &[u64], writes: &[u64]) {
        let words = self.words;
        let before = graph.predecessors();
        let mut open: Vec<BlockId> = graph.blocks.ids().collect();
        let mut waits = IndexVec::filled(true, graph.blocks.len());
        let mut start = vec![0u64; words];
        while let Some(block) = open.pop() {
            if let Some(waits) = waits.get_mut(block) {
                *waits = false;
            }
            work::spend_on(words);
            let row = row_of(block, words);
            let (Some(end), Some(reads), Some(writes)) =
                (self.ends.get(row.clone()), reads.get(row.clone()), writes.get(row))
            else {
                continue;
            };
            for (((start, end), reads), writes) in start.iter_mut().zip(end).zip(reads).zip(writes) {
                *start = reads | (end & !writes);
            }
            for &earlier in before.get(block).map_or(&[][..], Vec::as_slice) {
                let row = row_of(earlier, words);
                let mut is_more = false;
                for (end, start) in self.ends.get_mut(row).unwrap_or_default().iter_mut().zip(&start) {
                    is_more |= start & !*end != 0;
                    *end |= start;
                }
                if is_more && waits.get_mut(earlier).is_some_and(|waits| !std::mem::replace(waits, true)) {
                    open.push(earlier);
                }
            }
        }
    }

    /// Whether a register is read after a block before it is written again.
    pub fn is_live_after(&self, block: BlockId, register: Register) -> bool {
        let Some(number) = self.numbers.get(&register) else { return false };
        let word = self.ends.get(block.index() * self.words + *number as usize / 64);
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

/// A block's row of words.
fn row_of(block: BlockId, words: usize) -> std::ops::Range<usize> {
    let start = block.index() * words;
    start..start + words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx;

    #[test]
    fn a_register_lives_until_its_last_reader_and_around_loops() {
        let text = "\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{
	.reg .pred %p<2>;
	.reg .b32 %r<6>;
	mov.u32 %r1, 0;
	mov.u32 %r2, 7;
	mov.u32 %r3, 9;
$L:
	add.u32 %r1, %r1, %r2;
	mov.u32 %r4, %r1;
	@%p1 mov.u32 %r5, 1;
	setp.lt.u32 %p1, %r4, 100;
	@%p1 bra $L;
	add.u32 %r1, %r3, %r5;
	ret;
}
";
        let module = ptx::parse(text);
        let kernel = module.functions().next().unwrap();
        let graph = Graph::build(&kernel);
        let live = LiveRegisters::solve(&graph).unwrap();
        let after = |line: u32| {
            let site = graph.sites.iter().find(|site| site.line().0 == line).unwrap();
            let named =
                |name: &str| live.is_live_after(site.block, graph.registers.resolve(name, site.located.id).unwrap());
            ["%r1", "%r2", "%r3", "%r4", "%r5", "%p1"].into_iter().filter(|name| named(name)).collect::<Vec<_>>()
        };
        // A write under a guard leaves what was there, and so it is read; the guard as well.
        assert_eq!(after(8), ["%r1", "%r2", "%r3", "%r5", "%p1"]);
        assert_eq!(after(12), ["%r1", "%r2", "%r3", "%r5", "%p1"]);
        assert_eq!(after(17), Vec::<&str>::new());
    }
}
