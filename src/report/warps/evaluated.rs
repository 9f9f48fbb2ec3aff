//! The threads of every kernel of a PTX, evaluated once for all its builds: what a thread does, the PTX alone decides.

use std::collections::HashMap;

use super::join::block_size;
use super::of_ptx::OfPtx;
use crate::analysis::threads::BlockSize;
use crate::ptx::{Function, FunctionKind, Module};
use crate::report::LaunchHints;

/// Kernels by name, with the size of a block that they were evaluated for.
#[derive(Default)]
pub struct Evaluated<'a>(HashMap<String, (Option<BlockSize>, OfPtx<'a>)>);

impl<'a> Evaluated<'a> {
    /// Evaluates the kernels that have a body, until there is no more time for it. Those that are left are evaluated where they are
    /// needed, several at once.
    pub fn new(module: &Module<'a>, launch: &LaunchHints, is_time: impl Fn() -> bool) -> Self {
        let kernels =
            module.functions().filter(|function| function.is_definition() && function.kind() == FunctionKind::Entry);
        let evaluated = kernels.take_while(|_| is_time()).map(|function| {
            let header = function.header();
            let size = block_size(header.required_threads(), header.max_threads(), launch);
            (function.name().to_owned(), (size, OfPtx::new(&function, size)))
        });
        Evaluated(evaluated.collect())
    }

    /// A kernel's threads, where they were evaluated for blocks of this size.
    pub(super) fn get(&self, function: &Function<'_, '_>, size: Option<BlockSize>) -> Option<&OfPtx<'a>> {
        self.0.get(function.name()).filter(|(of, _)| *of == size).map(|(_, of_ptx)| of_ptx)
    }
}
