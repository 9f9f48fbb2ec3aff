//! The timeline of a kernel, from its PTX alone.

use super::join::block_size;
use super::warp_facts::steps;
use crate::base::work::{self, TooManySteps};
use crate::ptx::Function;
use crate::report::LaunchHints;
use crate::roles::{self, setmaxnreg};
use crate::simt::{self, BlockSize, Warps};
use crate::sync::program::Program;
use crate::sync::{self, timeline::Timeline};

/// Why there is no timeline of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTimeline {
    /// Nothing says how many threads there are.
    #[error("how many threads a block has is not known: it has no .reqntid and no .maxntid; say it with --threads N")]
    NoThreads,
    /// Something says it, and it cannot be.
    #[error("a block of {}×{}×{} threads cannot be launched: expected 1 to {} in all", .0[0], .0[1], .0[2], BlockSize::MAX)]
    Threads([u32; 3]),
    /// There is nothing to draw.
    #[error(
        "nothing in it synchronises: it has no barrier, no mbarrier and no setmaxnreg, so there is nothing to draw"
    )]
    NothingSynchronises,
    /// It cannot be executed at all.
    #[error("it cannot be executed: line {0}: {1}")]
    Refused(crate::base::Line, &'static str),
    /// It is too large.
    #[error("it takes more than {0} steps to evaluate")]
    TooManySteps(u64),
}

/// Draws so many steps of a kernel.
pub fn timeline(function: &Function<'_, '_>, launch: &LaunchHints, most: u64) -> Result<Timeline, NoTimeline> {
    let header = function.header();
    let size = block_size(header.required_threads(), header.max_threads(), launch);
    let size = size.map(|size| simt::shapes(function, size).first().copied().unwrap_or(size));
    let draw = || {
        let warps = Warps::of(function, size);
        // What has nothing to draw needs no number of threads.
        let program = Program::of(function, &warps.graph);
        if !program.synchronises {
            return Err(NoTimeline::NothingSynchronises);
        }
        let size = size.ok_or(NoTimeline::NoThreads)?;
        if size.threads().is_none() {
            return Err(NoTimeline::Threads(size.dimensions));
        }
        if let Some((line, why)) = program.refused {
            return Err(NoTimeline::Refused(function.module().number_of(line), why));
        }
        let roles = roles::roles(&warps, &setmaxnreg::requested(&warps));
        let checked = sync::execute_kernel(function, &warps.graph, size, &roles, launch.effort)
            .ok_or(NoTimeline::NothingSynchronises)?;
        let text = (function.module(), &*warps.graph);
        Ok(sync::timeline::timeline(&checked, function.name(), text, &roles, most))
    };
    work::within(steps(function, false), draw)
        .unwrap_or_else(|TooManySteps { steps }| Err(NoTimeline::TooManySteps(steps)))
}
