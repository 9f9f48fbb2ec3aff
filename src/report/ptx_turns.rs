//! How many turns of the PTX's loop one turn of the machine code's loop does: ptxas unrolls.
//!
//! Every turn repeats the instructions of its lines. A load may be hoisted or shared by two turns, a product cut in two, so that no line alone is
//! believed: of the lines of one loop of the PTX, the surest kind of instruction that it has says its middle count.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::code::Section;
use crate::base::{Line, Pc};
use crate::cost::Turn;
use crate::graph::{BlockId, LoopId};
use crate::ptx::Function;
use crate::registers::code::Code;
use crate::simt::Graph;

/// A loop of the PTX: its place among the loops of the kernel, by their first lines. Edits that move no label leave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PtxLoop(pub u32);

/// What repeats with the turns, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Witness {
    /// Stores, atomics, barriers, copies: as many as the PTX says.
    Effect,
    /// Multiplications of matrices: one may be cut in two.
    Matrix,
    /// Loads and the like: two turns may share one, and one may be hoisted.
    Load,
    /// Arithmetic: shared, hoisted, and folded into another line's.
    Arithmetic,
}

impl Witness {
    fn of(mnemonic: &str) -> Option<Witness> {
        match mnemonic {
            "STG" | "STS" | "STSM" | "LDGSTS" | "ATOM" | "ATOMG" | "ATOMS" | "RED" | "BAR" | "UTMALDG" | "UTMASTG" => {
                Some(Witness::Effect)
            }
            "HMMA" | "IMMA" | "DMMA" | "QMMA" | "HGMMA" | "IGMMA" | "QGMMA" => Some(Witness::Matrix),
            "LDG" | "LDS" | "LDSM" | "SHFL" | "MUFU" => Some(Witness::Load),
            "FFMA" | "FADD" | "FMUL" | "DFMA" | "DADD" | "DMUL" | "HFMA2" | "HADD2" | "HMUL2" => {
                Some(Witness::Arithmetic)
            }
            _ => None,
        }
    }

    /// What lines of one kind say together: what is cut makes more of a line, what is shared fewer.
    fn agree(self, counts: &mut [u32]) -> u32 {
        counts.sort_unstable();
        let middle = match self {
            Witness::Effect | Witness::Matrix => counts.len().saturating_sub(1) / 2,
            Witness::Load | Witness::Arithmetic => counts.len() / 2,
        };
        counts.get(middle).copied().unwrap_or(1)
    }
}

/// Instructions that are as many as the PTX says, or nearly so: what tells loops apart.
pub(super) fn is_anchor(mnemonic: &str) -> bool {
    Witness::of(mnemonic).is_some_and(|witness| witness != Witness::Arithmetic)
}

/// The loops of the PTX, by line.
#[derive(Default)]
struct Lines {
    parents: Vec<Option<PtxLoop>>,
    innermost: BTreeMap<Line, PtxLoop>,
    /// Lines of the branches back.
    back: BTreeMap<Line, PtxLoop>,
}

impl Lines {
    fn new(function: &Function<'_, '_>) -> Lines {
        let graph = Graph::build(function);
        let mut headers: Vec<BlockId> = graph.loop_headers().map(|(block, _)| block).collect();
        headers.sort_unstable();
        headers.dedup();
        let number = |block: BlockId| headers.binary_search(&block).ok().map(|at| PtxLoop(at as u32));
        let parents = headers.iter().map(|&block| graph.loop_headers_around(block).nth(1).and_then(number)).collect();
        let mut lines = Lines { parents, ..Lines::default() };
        for (at, block) in graph.blocks.iter_enumerated() {
            let around: Vec<BlockId> = graph.loop_headers_around(at).collect();
            let Some(inner) = around.first().copied().and_then(number) else { continue };
            for (_, site) in graph.sites_of(at) {
                lines.innermost.insert(site.line(), inner);
            }
            let back = block.successors.iter().filter(|edge| around.contains(&edge.to));
            if let (Some((_, last)), Some(to)) =
                (graph.sites_of(at).last(), back.filter_map(|edge| number(edge.to)).next())
            {
                lines.back.insert(last.line(), to);
            }
        }
        lines
    }

    fn depth(&self, found: PtxLoop) -> usize {
        let mut depth = 1;
        let mut at = found;
        while let Some(Some(parent)) = self.parents.get(at.0 as usize).filter(|_| depth <= self.parents.len()) {
            (at, depth) = (*parent, depth + 1);
        }
        depth
    }
}

/// How often lines stand in a turn, by the loop of the PTX that they are in.
pub(super) type Copies = BTreeMap<Option<PtxLoop>, u32>;

/// The loops of a kernel's PTX and of its code, side by side.
pub(super) struct PtxTurns<'a> {
    section: &'a Section<'a>,
    code: &'a Code,
    function: Option<&'a Function<'a, 'a>>,
    /// Made when something is there more than once.
    lines: OnceCell<Lines>,
}

impl<'a> PtxTurns<'a> {
    pub(super) fn new(
        section: &'a Section<'a>,
        code: &'a Code,
        function: Option<&'a Function<'a, 'a>>,
    ) -> PtxTurns<'a> {
        PtxTurns { section, code, function, lines: OnceCell::new() }
    }

    /// The loop around each loop of the PTX.
    pub(super) fn loops(&self) -> &[Option<PtxLoop>] {
        &self.lines().parents
    }

    /// The innermost loop of the PTX that a line is in.
    pub(super) fn loop_of_line(&self, line: Line) -> Option<PtxLoop> {
        self.lines().innermost.get(&line).copied()
    }

    /// Turns of the PTX's loop that a turn of a loop does; none where no line says so.
    pub(super) fn of(&self, id: LoopId, turn: &Turn) -> Option<u32> {
        let counts = self.counts(turn);
        if counts.values().all(|count| *count == 1) {
            return (!counts.is_empty()).then_some(1);
        }
        let copies = self.by_loop(&counts);
        // Where all lines are those of inner loops that are no loops any more, nothing says how often this one was repeated.
        copies.get(&self.ptx_loop(id, &copies)).copied()
    }

    /// The loop of the PTX that a loop of the code is made of: by its branch back, or the outermost of those that its instructions are in.
    pub(super) fn ptx_loop(&self, id: LoopId, copies: &Copies) -> Option<PtxLoop> {
        let header = self.code.loops().loops.get(id)?.header;
        let latches =
            self.code.cfg.predecessors(header).filter(|&block| self.code.loops().around(block).any(|of| of == id));
        let by_branch = latches.filter_map(|block| {
            let end = self.code.cfg.blocks.get(block.0 as usize)?.end.checked_sub(1)?;
            self.lines().back.get(&self.section.ptx_line(Pc(end * 16))?).copied()
        });
        let outermost = || copies.keys().filter_map(|of| *of).min_by_key(|of| self.lines().depth(*of));
        by_branch.min_by_key(|of| self.lines().depth(*of)).or_else(outermost)
    }

    /// How often the lines of each loop of the PTX stand in a turn.
    pub(super) fn copies(&self, turn: &Turn) -> Copies {
        self.by_loop(&self.counts(turn))
    }

    fn lines(&self) -> &Lines {
        self.lines.get_or_init(|| self.function.map(Lines::new).unwrap_or_default())
    }

    fn counts(&self, turn: &Turn) -> BTreeMap<(Line, &str), u32> {
        let decoder = self.code.program().decoder();
        let mut counts = BTreeMap::new();
        for &(index, _) in &turn.instructions {
            let Some(inst) = self.code.instructions().get(index as usize) else { continue };
            let mnemonic = decoder.mnemonic(inst);
            if Witness::of(mnemonic).is_some()
                && let Some(line) = self.section.ptx_line(Pc(index * 16))
            {
                *counts.entry((line, mnemonic)).or_default() += 1;
            }
        }
        counts
    }

    fn by_loop(&self, counts: &BTreeMap<(Line, &str), u32>) -> Copies {
        let mut told: BTreeMap<(Option<PtxLoop>, Witness), Vec<u32>> = BTreeMap::new();
        for (&(line, mnemonic), &count) in counts {
            let Some(witness) = Witness::of(mnemonic) else { continue };
            told.entry((self.lines().innermost.get(&line).copied(), witness)).or_default().push(count);
        }
        let mut copies = Copies::new();
        for ((of, witness), mut counts) in told {
            copies.entry(of).or_insert_with(|| witness.agree(&mut counts));
        }
        copies
    }
}
