//! Registers that wgmma reads its matrix A from: a fence comes between what writes them and the multiplication.
//!
//! Compilers move copies and arithmetic about as they like, for they know of no fence. A load of memory that others may write stays where
//! it is: behind a fence, what is computed from it is written behind the fence, too.

use crate::base::{FastMap, FastSet, work};
use crate::ptx::{Instruction, Operand, Operation, Register, Shape, Wgmma};
use crate::simt::{BlockId, Graph, Site, dataflow};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::groups::{FENCED, OPEN, States, along};
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

/// The first multiplication with registers of its matrix A that were loaded since the last fence, or computed from what was.
pub fn unfenced(graph: &Graph<'_>) -> Option<Finding> {
    let operands: FastSet<Register> =
        graph.sites.iter().filter(|site| is_mma(site)).flat_map(|site| matrix(graph, site)).collect();
    if operands.is_empty() {
        return None;
    }
    let found = of_loads(graph, &operands).or_else(|| of_copies(graph, &operands))?;
    Some(Finding {
        rule: Rule::WgmmaFenced,
        confidence: Confidence::Likely,
        line: found.line(),
        message: "wgmma.mma_async with no wgmma.fence since the registers of A were loaded".to_owned(),
        reasoning: "wgmma.fence comes between writing registers and the multiplications that have them".to_owned(),
    })
}

/// The first one that a path leads to from a load that its matrix is computed from, with no fence between.
fn of_loads<'g, 'a>(graph: &'g Graph<'a>, operands: &FastSet<Register>) -> Option<&'g Site<'a>> {
    let sources = sources(graph, operands)?;
    type Loaded = FastSet<Register>;
    let step = |site: &Site<'_>, loaded: &mut Loaded| {
        work::spend(1);
        match site.operation {
            Operation::Wgmma(Wgmma::Fence) if site.guard.is_none() => return loaded.clear(),
            Operation::Wgmma(_) => return,
            _ => {}
        }
        let instruction = &site.located.instruction;
        let reads_loaded =
            || graph.registers.of(&site.located).any(|used| !used.is_def && loaded.contains(&used.register));
        let is_load = matches!(instruction.mnemonic(), "ld" | "ldmatrix");
        let is_loaded = if is_load { stays(instruction) } else { reads_loaded() };
        let written: Vec<Register> =
            graph.registers.written_by(&site.located).filter(|to| sources.contains(to)).collect();
        for to in written {
            if is_loaded {
                loaded.insert(to);
            } else if site.guard.is_none() {
                loaded.remove(&to);
            }
        }
    };
    let through = |block: BlockId, mut loaded: Loaded| {
        graph.sites_of(block).for_each(|(_, site)| step(site, &mut loaded));
        loaded
    };
    let join = |there: &mut Loaded, coming: Loaded| {
        let before = there.len();
        there.extend(coming);
        there.len() > before
    };
    let before = dataflow::forward(graph, Loaded::default(), through, |_, _, loaded| Some(loaded.clone()), join);
    before.into_iter_enumerated().find_map(|(block, loaded)| {
        let mut loaded = loaded?;
        graph.sites_of(block).find_map(|(_, site)| {
            if is_mma(site) && matrix(graph, site).iter().any(|register| loaded.contains(register)) {
                return Some(site);
            }
            step(site, &mut loaded);
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

/// The first one that no path brings a fence to from where registers of its matrix were set by a load or a copy.
fn of_copies<'g, 'a>(graph: &'g Graph<'a>, operands: &FastSet<Register>) -> Option<&'g Site<'a>> {
    let states = along(graph, |site| match site.operation {
        Operation::Wgmma(Wgmma::Fence) => Some(FENCED),
        Operation::Wgmma(_) => None,
        _ if !matches!(site.located.instruction.mnemonic(), "ld" | "ldmatrix" | "mov") => None,
        _ => graph.registers.written_by(&site.located).any(|to| operands.contains(&to)).then_some(OPEN),
    });
    let bare =
        |(site, state): &(&Site<'_>, &States)| is_mma(site) && **state == OPEN && !matrix(graph, site).is_empty();
    graph.sites.iter().zip(&states).find(bare).map(|(site, _)| site)
}
