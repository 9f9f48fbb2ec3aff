//! Registers that wgmma reads its matrix A from: a fence comes between what writes them and the multiplication.
//!
//! Compilers move copies and arithmetic about as they like, for they know of no fence. A load of memory that others may write stays where
//! it is: behind a fence, what is computed from it is written behind the fence, too. So is a register that a multiplication behind the
//! fence has read before it is written.

use crate::base::{FastMap, FastSet, work};
use crate::ptx::{Instruction, Operand, Operation, Register, Shape, Wgmma};
use crate::simt::{BlockId, Graph, Site, dataflow};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// Registers that matrices are computed from, at most.
const MOST: usize = 2_048;

fn is_mma(site: &Site<'_>) -> bool {
    matches!(site.operation, Operation::Wgmma(Wgmma::MmaAsync))
}

/// The registers of a multiplication's matrix A.
fn matrix(graph: &Graph<'_>, site: &Site<'_>) -> Vec<Register> {
    let Some(operand) = site.located.instruction.operand(1) else { return Vec::new() };
    let Shape::Vector(parts) = operand.shape() else { return Vec::new() };
    let resolve = |part: Operand<'_>| graph.registers.resolve(part.name()?, site.located.id);
    parts.filter_map(resolve).collect()
}

/// Whether it loads what others may have written, and stays behind a fence that it stands behind.
fn stays(instruction: &Instruction<'_>) -> bool {
    let moves = |word: &str| matches!(word, "nc" | "param" | "const" | "param::entry" | "param::func");
    matches!(instruction.mnemonic(), "ld" | "ldmatrix") && !instruction.modifiers().any(moves)
}

/// The first multiplication with registers of its matrix A that were written since the last fence on a path that leads to it.
pub fn unfenced(graph: &Graph<'_>) -> Option<Finding> {
    let operands: FastSet<Register> =
        graph.sites.iter().filter(|site| is_mma(site)).flat_map(|site| matrix(graph, site)).collect();
    if operands.is_empty() {
        return None;
    }
    let found = written_late(graph, &operands)?;
    Some(Finding {
        rule: Rule::WgmmaFenced,
        confidence: Confidence::Likely,
        line: found.line(),
        message: "wgmma.mma_async with no wgmma.fence since the registers of A were written".to_owned(),
        reasoning: "wgmma.fence comes between writing registers and the multiplications that have them".to_owned(),
    })
}

/// What a path has done to registers since the last fence.
#[derive(Clone, Default)]
struct Since {
    /// Loaded, or computed from what was, or written when a multiplication had read them.
    written: FastSet<Register>,
    /// Read by multiplications.
    used: FastSet<Register>,
}

fn written_late<'g, 'a>(graph: &'g Graph<'a>, operands: &FastSet<Register>) -> Option<&'g Site<'a>> {
    let sources = sources(graph, operands)?;
    let step = |site: &Site<'_>, since: &mut Since| {
        work::spend(1);
        match site.operation {
            Operation::Wgmma(Wgmma::Fence) if site.guard.is_none() => return *since = Since::default(),
            Operation::Wgmma(Wgmma::MmaAsync) => return since.used.extend(matrix(graph, site)),
            Operation::Wgmma(_) => return,
            _ => {}
        }
        let instruction = &site.located.instruction;
        let mut read = graph.registers.of(&site.located).filter(|used| !used.is_def).map(|used| used.register);
        let is_late = match instruction.mnemonic() {
            "ld" | "ldmatrix" => stays(instruction),
            _ => read.any(|register| since.written.contains(&register)),
        };
        for to in graph.registers.written_by(&site.located).filter(|to| sources.contains(to)) {
            if is_late || since.used.contains(&to) {
                since.written.insert(to);
            } else if site.guard.is_none() {
                since.written.remove(&to);
            }
        }
    };
    let through = |block: BlockId, mut since: Since| {
        graph.sites_of(block).for_each(|(_, site)| step(site, &mut since));
        since
    };
    let join = |there: &mut Since, coming: Since| {
        let before = there.written.len() + there.used.len();
        there.written.extend(coming.written);
        there.used.extend(coming.used);
        there.written.len() + there.used.len() > before
    };
    let before = dataflow::forward(graph, Since::default(), through, |_, _, since| Some(since.clone()), join);
    before.into_iter_enumerated().find_map(|(block, since)| {
        let mut since = since?;
        graph.sites_of(block).find_map(|(_, site)| {
            if is_mma(site) && matrix(graph, site).iter().any(|register| since.written.contains(register)) {
                return Some(site);
            }
            step(site, &mut since);
            None
        })
    })
}

/// The registers that some are computed from, themselves included; none where these are too many.
fn sources(graph: &Graph<'_>, operands: &FastSet<Register>) -> Option<FastSet<Register>> {
    let mut writers: FastMap<Register, Vec<&Site<'_>>> = FastMap::default();
    for site in graph.sites.iter().filter(|site| !matches!(site.operation, Operation::Wgmma(_))) {
        work::spend(1);
        for register in graph.registers.written_by(&site.located) {
            writers.entry(register).or_default().push(site);
        }
    }
    let mut found = operands.clone();
    let mut open: Vec<Register> = operands.iter().copied().collect();
    while let Some(register) = open.pop() {
        for site in writers.get(&register).into_iter().flatten() {
            work::spend(1);
            if matches!(site.located.instruction.mnemonic(), "ld" | "ldmatrix") {
                continue;
            }
            let read = graph.registers.of(&site.located).filter(|used| !used.is_def).map(|used| used.register);
            open.extend(read.filter(|register| found.insert(*register)));
        }
        if found.len() > MOST {
            return None;
        }
    }
    Some(found)
}
