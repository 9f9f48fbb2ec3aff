//! The threads of every kernel of a PTX, evaluated once for all its builds: what a thread does, the PTX alone decides.

use std::collections::HashMap;

use super::join::block_size;
use super::warp_facts::{self, WarpFacts};
use crate::base::work::{self, TooManySteps};
use crate::ptx::{Function, FunctionKind, Module};
use crate::registers::cap;
use crate::report::{LaunchHints, Wanted};
use crate::roles::setmaxnreg;
use crate::simt::BlockSize;

/// Kernels by where they are defined, with the size of a block that they were evaluated for. Not by name: a name may be defined twice,
/// and how many are evaluated is a matter of time.
#[derive(Default)]
pub struct Evaluated(HashMap<u32, (Option<BlockSize>, Result<WarpFacts, TooManySteps>)>);

impl Evaluated {
    /// Evaluates the kernels that have a body, until there is no more time for it. Those that are left are evaluated where they are
    /// needed, several at once.
    pub fn new(module: &Module<'_>, launch: &LaunchHints, wanted: Wanted, is_time: impl Fn() -> bool) -> Self {
        let kernels =
            module.functions().filter(|function| function.is_definition() && function.kind() == FunctionKind::Entry);
        let evaluated = kernels.take_while(|_| is_time()).map(|function| {
            let header = function.header();
            let size = block_size(header.required_threads(), header.max_threads(), launch);
            let steps = warp_facts::steps(&function, false);
            let evaluate = if wanted.timelines { WarpFacts::drawn } else { WarpFacts::new };
            let mut warp_facts = evaluate(&function, size, launch.effort, steps);
            if let Ok(WarpFacts { courses: Some(courses), .. }) = &mut warp_facts
                && let Some(threads) = size.and_then(|size| size.threads())
            {
                let entry = cap::by_directives(header.max_registers(), threads, header.min_blocks_per_sm());
                // Whoever asks later walks again, under a limit of its own.
                let _ = work::within(steps, || courses.expect(entry.next_multiple_of(setmaxnreg::STEP)));
            }
            (function.body_range().start, (size, warp_facts))
        });
        Evaluated(evaluated.collect())
    }

    /// A kernel's threads, where they were evaluated for blocks of this size.
    pub(super) fn get(
        &self,
        function: &Function<'_, '_>,
        size: Option<BlockSize>,
    ) -> Option<&Result<WarpFacts, TooManySteps>> {
        self.0.get(&function.body_range().start).filter(|(of, _)| *of == size).map(|(_, warp_facts)| warp_facts)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::sync::register_schedule::RoleTraces;

    #[test]
    fn a_kernel_defined_twice_is_not_taken_for_the_other() {
        let kernel = ".visible .entry k() .reqntid 32 { ret; }\n";
        let text = format!(".version 8.0\n.target sm_90\n.address_size 64\n{kernel}{kernel}");
        let module = crate::ptx::parse(&text);
        // There is time for one of them only.
        let left = Cell::new(1);
        let evaluated =
            Evaluated::new(&module, &LaunchHints::default(), Wanted::ALL, || left.replace(left.get() - 1) > 0);
        let found: Vec<bool> = module
            .functions()
            .map(|function| {
                let header = function.header();
                let size = block_size(header.required_threads(), header.max_threads(), &LaunchHints::default());
                evaluated.get(&function, size).is_some()
            })
            .collect();
        assert_eq!(found, [true, false]);
    }

    #[test]
    fn what_was_walked_before_takes_as_many_steps_as_what_was_not() {
        let module = crate::ptx::parse(include_str!("../../../testdata/ptx/hopper_warp_specialised.ptx"));
        let launch = LaunchHints::default();
        let early = Evaluated::new(&module, &launch, Wanted::ALL, || true);
        let mut walked = 0;
        for function in module.functions() {
            let header = function.header();
            let size = block_size(header.required_threads(), header.max_threads(), &launch);
            let late = WarpFacts::new(&function, size, launch.effort, u64::MAX / 2);
            let (Some(Ok(early)), Ok(late)) = (early.get(&function, size), &late) else { continue };
            let (Some(early), Some(late)) = (&early.courses, &late.courses) else { continue };
            let threads = size.and_then(|size| size.threads()).expect("a size");
            let entry = cap::by_directives(header.max_registers(), threads, header.min_blocks_per_sm());
            let entry = entry.next_multiple_of(setmaxnreg::STEP);
            let steps = |courses: &RoleTraces| {
                work::within(1 << 40, || work::counted(|| courses.walk(entry)).1).expect("steps enough")
            };
            assert_eq!(steps(early), steps(late));
            walked += steps(early);
        }
        assert!(walked > 0, "the kernel is one whose roles share out registers");
    }
}
