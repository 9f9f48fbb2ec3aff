//! What the ABI and the syntax ask for and no assembler refuses: parameters of functions, memory of the stack, offsets in addresses.

use std::collections::BTreeSet;

use crate::base::{Line, work};
use crate::ptx::{Function, Operation, Shape, StateSpace, type_bits};
use crate::simt::{Graph, Paths, Site, SiteId, Warps};
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// Bits of a parameter in a register, at least.
const LEAST_BITS: u32 = 32;
/// What a parameter of a function is aligned to, at most.
const MOST_ALIGNED: u32 = 16;

/// Checks what a kernel hands to functions, what it takes of the stack, and its offsets.
pub fn check(warps: &Warps<'_>, function: &Function<'_, '_>) -> Vec<Finding> {
    let graph = &warps.graph;
    let mut checks: Vec<Finding> = Vec::new();
    let mut add = |found: Option<Finding>| {
        if let Some(found) = found.filter(|found| !checks.iter().any(|known: &Finding| known.rule == found.rule)) {
            checks.push(found);
        }
    };
    for (index, site) in graph.sites.iter_enumerated() {
        match (site.operation, site.located.instruction.mnemonic()) {
            (Operation::Call, _) => {
                add(parameters(function, site));
                add(handed_over(graph, (index, site)));
            }
            (_, "alloca") => add(unrestored(warps, (index, site))),
            (_, "ld" | "st" | "atom" | "red") => add(offset(site)),
            _ => {}
        }
    }
    checks
}

fn finding(rule: Rule, site: &Site<'_>, message: String, reasoning: &str) -> Finding {
    Finding { rule, confidence: Confidence::Likely, line: site.line(), message, reasoning: reasoning.to_owned() }
}

/// Parameters of the function that is called: too narrow for a register, or aligned to more than the ABI has.
fn parameters(function: &Function<'_, '_>, site: &Site<'_>) -> Option<Finding> {
    let callee = function.module().function(site.located.instruction.call().callee?)?;
    let header = callee.header();
    header.params().chain(header.returns()).find_map(|declared| {
        let bits = type_bits(declared.ty)?;
        let message = match declared.space {
            StateSpace::Reg if bits < LEAST_BITS && bits > 1 => {
                format!("{} hands over {bits} bits in a register", callee.name())
            }
            StateSpace::Param if declared.align.unwrap_or(1) > MOST_ALIGNED => {
                let align = declared.align.unwrap_or(1);
                format!("a parameter of {} is aligned to {align} bytes", callee.name())
            }
            _ => return None,
        };
        let is_declared = |text: &&(usize, &str)| match declared.align {
            Some(align) if declared.space == StateSpace::Param => text.1.contains(&format!(".align {align}")),
            _ => false,
        };
        let (first, last) = callee.lines();
        let text = function.module().text().lines().enumerate();
        let within = text.skip(first.0.saturating_sub(1) as usize).take((last.0 - first.0 + 1) as usize);
        let line = within.collect::<Vec<_>>().iter().find(is_declared).map_or(first, |(at, _)| Line(*at as u32 + 1));
        let message = format!("{message}, and is handed over at line {}", site.line());
        let reasoning = "a parameter of a function in a register has 32 bits or more, and one in .param memory is aligned to \
                         16 bytes at most";
        let found = finding(Rule::AsTheAbi, site, message, reasoning);
        // Where it is declared is what is wrong.
        Some(Finding { line, ..found })
    })
}

/// An argument that is stored before a branch or a label, and handed over behind it.
fn handed_over(graph: &Graph<'_>, (index, site): (SiteId, &Site<'_>)) -> Option<Finding> {
    let arguments = match site.located.instruction.call().arguments?.shape() {
        Shape::List(parts) => parts.filter_map(|part| part.name()).collect::<Vec<&str>>(),
        _ => return None,
    };
    let stores = |other: &Site<'_>| {
        let instruction = other.located.instruction;
        let to = instruction.operand(0).and_then(|to| to.address()).and_then(|to| to.base);
        instruction.mnemonic() == "st"
            && instruction.modifiers().any(|word| word.starts_with("param"))
            && to.is_some_and(|to| arguments.contains(&to))
    };
    let parts = |other: &Site<'_>| {
        matches!(other.operation, Operation::Branch { .. } | Operation::IndexedBranch { .. } | Operation::Return)
    };
    // Since the call before it, which may have arguments of the same names.
    let before = graph.sites.range(SiteId::FIRST..index);
    let since = before.iter().rposition(|other| {
        work::spend(1);
        matches!(other.operation, Operation::Call)
    });
    let before = before.get(since.map_or(0, |at| at + 1)..)?;
    let at = before.iter().position(stores)?;
    let stored = before.get(at)?;
    before.get(at..)?.iter().any(parts).then(|| {
        let message = format!("line {} stores an argument of this call, and a branch comes between", stored.line());
        let reasoning = "st.param and ld.param stand next to their call: no branch comes between";
        finding(Rule::AsTheAbi, site, message, reasoning)
    })
}

/// Memory of the stack that every turn of a loop takes and none gives back.
fn unrestored(warps: &Warps<'_>, (index, site): (SiteId, &Site<'_>)) -> Option<Finding> {
    let graph = &warps.graph;
    let restores: BTreeSet<SiteId> = graph
        .sites
        .iter_enumerated()
        .filter(|(_, other)| other.located.instruction.mnemonic() == "stackrestore")
        .map(|(at, _)| at)
        .collect();
    let own = BTreeSet::from([index]);
    let comes_back = Paths::new(warps).first(index, false, &[&own, &restores]).contains(&index);
    comes_back.then(|| {
        let message = "every turn of this loop takes memory of the stack, and none gives it back".to_owned();
        finding(
            Rule::AsTheAbi,
            site,
            message,
            "what alloca gives is given back by stackrestore alone: stacksave before it",
        )
    })
}

/// An offset from a register that does not fit.
fn offset(site: &Site<'_>) -> Option<Finding> {
    let address = site.located.instruction.operands().find_map(|operand| operand.address())?;
    let offset = address.offset.filter(|_| address.base.is_some())?;
    i32::try_from(offset).is_err().then(|| {
        let message = format!("the offset {offset} does not fit into 32 bits with a sign");
        finding(
            Rule::OffsetFits,
            site,
            message,
            "an offset in an address is a number of 32 bits with a sign: another one is added first",
        )
    })
}
