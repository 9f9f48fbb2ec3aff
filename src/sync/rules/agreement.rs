//! Whether those that may come to an instruction all do, and with the same operands.

use crate::base::FastMap;
use crate::simt::{SiteId, ThreadSet, Uniformity, Warps};

/// Among whom something agrees.
pub struct Agreement<'w, 'a> {
    /// The kernel.
    pub warps: &'w Warps<'a>,
    threads: FastMap<ThreadSet, Uniformity>,
    lanes: FastMap<ThreadSet, Uniformity>,
    groups: FastMap<ThreadSet, Uniformity>,
    blocks: Option<Uniformity>,
}

impl<'w, 'a> Agreement<'w, 'a> {
    /// Of a kernel.
    pub fn new(warps: &'w Warps<'a>) -> Agreement<'w, 'a> {
        Agreement {
            warps,
            threads: FastMap::default(),
            lanes: FastMap::default(),
            groups: FastMap::default(),
            blocks: None,
        }
    }

    /// Whether all threads that may come to an instruction do, or none: nothing that differs among them and is not known decides it.
    pub fn all_come(&mut self, index: SiteId) -> bool {
        let (warps, here) = (self.warps, self.warps.at(index));
        self.of_threads(here).equally(warps, index)
    }

    /// Among the threads of a set, each for itself.
    pub fn of_threads(&mut self, set: ThreadSet) -> &Uniformity {
        self.threads.entry(set).or_insert_with(|| Uniformity::of_threads(self.warps, set))
    }

    /// Among the lanes of each warp of a set.
    pub fn of_lanes(&mut self, set: ThreadSet) -> &Uniformity {
        self.lanes.entry(set).or_insert_with(|| Uniformity::of_lanes(self.warps, set))
    }

    /// Among the warps of a set.
    pub fn of_warps(&mut self, set: ThreadSet) -> &Uniformity {
        self.groups.entry(set).or_insert_with(|| Uniformity::of(self.warps, set))
    }

    /// Among the blocks of a cluster.
    pub fn of_blocks(&mut self) -> &Uniformity {
        self.blocks.get_or_insert_with(|| Uniformity::of_blocks(self.warps))
    }
}
