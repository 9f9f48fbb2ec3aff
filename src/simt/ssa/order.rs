//! Definitions in the order in which they are evaluated.

use super::construct::{Phi, ValueId};
use super::lowering::Step;

/// What defines values.
#[derive(Clone, Copy)]
pub(in crate::simt) enum Definition<'s> {
    /// Where values meet.
    Phi(&'s Phi),
    /// An instruction.
    Step(&'s Step),
}

impl Definition<'_> {
    /// Whether one of the values that it reads is as asked.
    pub fn reads_any(&self, is: impl Fn(ValueId) -> bool) -> bool {
        match self {
            Definition::Phi(phi) => phi.from.iter().any(|(.., id)| is(*id)),
            Definition::Step(step) => step.reads.iter().any(|id| is(*id)),
        }
    }
}

/// Block by block: what meets at its start, then its instructions. Both come in the order of their blocks.
pub(in crate::simt) fn in_order<'s>(
    steps: impl Iterator<Item = &'s Step>,
    phis: impl Iterator<Item = &'s Phi>,
) -> impl Iterator<Item = Definition<'s>> {
    let (mut steps, mut phis) = (steps.peekable(), phis.peekable());
    std::iter::from_fn(move || {
        let until = steps.peek().map(|step| step.block);
        let phi = phis.next_if(|phi| until.is_none_or(|until| phi.block <= until)).map(Definition::Phi);
        phi.or_else(|| steps.next().map(Definition::Step))
    })
}
