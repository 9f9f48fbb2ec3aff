//! `.pragma "nounroll"` in the first block of a loop (PTX ISA, "Pragma Strings: nounroll").

use super::{Refused, Splice};
use crate::ptx::{Function, Statement, StatementKind};
use crate::simt::Graph;

/// A loop whose first block starts with a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopHeader {
    /// The line of the label.
    pub line: u32,
    /// 1 for an outermost loop.
    pub depth: u32,
    /// Where a pragma can stand: behind the label.
    after: usize,
}

/// The loops of a kernel that are not told to stay as they are, in the order of the text.
pub fn headers(kernel: &Function<'_, '_>) -> Vec<LoopHeader> {
    let graph = Graph::build(kernel);
    let body = kernel.body();
    let first = kernel.body_range().start;
    let mut found: Vec<LoopHeader> = graph
        .loop_headers()
        .filter_map(|(block, depth)| {
            let block = graph.blocks.get(block)?;
            let site = graph.sites.get(block.start)?;
            let at = (site.located.id.0.checked_sub(first)?) as usize;
            let label = label_before(body, at)?;
            let pragma = body.get(label..at)?.iter().any(|statement| statement.kind == StatementKind::Pragma);
            let statement = body.get(label).filter(|_| !pragma)?;
            Some(LoopHeader { line: statement.first_line.0, depth, after: statement.span().end })
        })
        .collect();
    found.sort_by_key(|header| header.line);
    found.dedup_by_key(|header| header.line);
    found
}

/// The first label of those that stand right before a statement.
fn label_before(body: &[Statement], at: usize) -> Option<usize> {
    let mut found = None;
    for index in (0..at).rev() {
        match body.get(index)?.kind {
            StatementKind::Label => found = Some(index),
            StatementKind::Loc | StatementKind::Pragma => {}
            _ => break,
        }
    }
    found
}

pub(super) fn splices(kernel: &Function<'_, '_>, line: u32) -> Result<Vec<Splice>, Refused> {
    let header = headers(kernel).into_iter().find(|header| header.line == line).ok_or(Refused::NoLoop(line))?;
    Ok(vec![Splice::insert(header.after, "\n\t.pragma \"nounroll\";")])
}
