//! What executions are tried with: what parameters are taken to be, and what memory brings.

use super::super::execute::{Brought, Input};

/// What parameters are taken to be, in turn: trip counts around the sizes of rings (1 to 4 stages: less, as many, one more, twice
/// and one); then, while there are barriers that nobody has come to, extents that kernels divide into tiles, and mixed numbers.
pub(super) const INPUTS: [Input; 10] = [
    Input::All(5),
    Input::All(9),
    Input::All(1),
    Input::All(2),
    Input::All(3),
    Input::All(384),
    Input::All(640),
    Input::All(1152),
    Input::Mixed(1),
    Input::Mixed(2),
];
/// Phases of an mbarrier in which an arrival too few, or too many, of one round is seen to count in another.
pub(super) const ROUNDS: u64 = 3;
/// What memory is taken to bring: a condition goes one way and the other.
pub(super) const MEMORY: [Brought; 2] = [Brought::All(0), Brought::All(1)];
/// Problems whose sizes lie in memory: tried while there are barriers that nobody has come to.
pub(super) const PROBLEMS: &[Input] = &[
    Input::Small(1),
    Input::Small(2),
    Input::Small(3),
    Input::Small(4),
    Input::Small(5),
    Input::Small(6),
    Input::Small(7),
    Input::Small(8),
    Input::Small(9),
    Input::Small(10),
    Input::Small(11),
    Input::Small(12),
    Input::Wide(1),
    Input::Wide(2),
    Input::Wide(3),
    Input::Wide(4),
];
/// Those that are tried with short problems, too.
pub(super) const SHORT_PROBLEMS: usize = 12;
/// Sizes of problems that memory brings, and what parameters are with them: short ones, and long ones of several tiles each, where
/// kernels divide them into tiles of 64 to 256.
pub const SIZES: [(Brought, &[Input]); 2] =
    [(Brought::Growing { by: 1 }, PROBLEMS.split_at(SHORT_PROBLEMS).0), (Brought::Growing { by: 640 }, PROBLEMS)];
/// What is tried, in turn.
pub(super) const TRIED: [(Brought, &[Input]); 4] = [(MEMORY[0], &INPUTS), SIZES[0], SIZES[1], (MEMORY[1], &INPUTS)];

/// Inputs that a fault is tried with once more, to see whether it hangs on those that it was found with.
pub(super) const AGAIN: [Input; 6] =
    [Input::All(5), SEVERAL_TILES, Input::Mixed(1), Input::All(9), Input::Mixed(2), Input::All(1152)];
/// Counts that the blocks of a cluster share evenly, one of up to eight blocks each of them: the first has least work. Then an extent of
/// as many tiles, where a ring has to turn.
pub(super) const EVENLY: [Input; 4] = [Input::All(8), Input::All(16), Input::All(32), Input::All(512)];
/// What is tried of a kernel whose blocks must share their work evenly.
pub(super) const EVEN: Choice = Choice {
    is_even: true,
    counts: 3,
    tried: &[(MEMORY[0], &EVENLY), (MEMORY[1], &EVENLY)],
    again: &[EVENLY[0], EVENLY[1], EVENLY[2], Input::Mixed(1), Input::Mixed(2)],
};
/// What is tried of every other kernel.
pub(super) const ANY: Choice = Choice { is_even: false, counts: 5, tried: &TRIED, again: &AGAIN };

/// Inputs to choose from.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    /// Whether it is of counts that blocks share evenly.
    pub(super) is_even: bool,
    /// The first of each list that are counts of trips.
    pub(super) counts: usize,
    /// What is tried, in turn.
    pub(super) tried: &'static [(Brought, &'static [Input])],
    /// What a fault is tried with once more.
    pub(super) again: &'static [Input],
}

/// Lots by which parameters are drawn once more where none of those came to what was found with extents.
pub(super) const MORE_LOTS: std::ops::Range<u64> = 3..11;
/// Counts below a tile that are tried before a fault is taken for one of too little work: some of them are even, some whole rounds of a ring.
pub(super) const FEW: [Input; 7] =
    [Input::All(8), Input::All(4), Input::All(3), Input::All(2), Input::All(7), Input::All(6), Input::All(1)];
/// Numbers of those from which on they are extents of several tiles.
pub(super) const TILES: u64 = 256;
/// The first of them.
pub(super) const SEVERAL_TILES: Input = Input::All(384);
