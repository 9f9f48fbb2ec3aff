//! Adjacency in one vector.

/// Many short lists in one vector.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    offsets: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// Builds lists for `n` keys from pairs in any order; the order of equal keys is kept.
    pub(crate) fn from_pairs(n: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Lists {
        let mut offsets = vec![0u32; n + 1];
        for (key, _) in pairs.clone() {
            offsets[key as usize + 1] += 1;
        }
        for i in 0..n {
            offsets[i + 1] += offsets[i];
        }
        let mut next = offsets.clone();
        let mut items = vec![0u32; offsets[n] as usize];
        for (key, item) in pairs {
            items[next[key as usize] as usize] = item;
            next[key as usize] += 1;
        }
        Lists { offsets, items }
    }

    pub(crate) fn get(&self, key: u32) -> &[u32] {
        match (self.offsets.get(key as usize), self.offsets.get(key as usize + 1)) {
            (Some(&from), Some(&to)) => &self.items[from as usize..to as usize],
            _ => &[],
        }
    }
}
