//! Adjacency in one vector.

use std::marker::PhantomData;

use crate::base::Id;

/// Many short lists in one vector, one for each id.
#[derive(Clone, Debug)]
pub(crate) struct Lists<K, T> {
    offsets: Vec<u32>,
    items: Vec<T>,
    keys: PhantomData<fn(K)>,
}

impl<K, T> Default for Lists<K, T> {
    fn default() -> Self {
        Lists { offsets: Vec::new(), items: Vec::new(), keys: PhantomData }
    }
}

impl<K: Id, T: Copy> Lists<K, T> {
    /// Builds lists for `n` keys from pairs in any order; the order of equal keys is kept.
    pub(crate) fn from_pairs(n: usize, pairs: impl Iterator<Item = (K, T)> + Clone) -> Lists<K, T> {
        let mut offsets = vec![0u32; n + 1];
        for (key, _) in pairs.clone() {
            offsets[key.index() + 1] += 1;
        }
        for i in 0..n {
            offsets[i + 1] += offsets[i];
        }
        let mut next = offsets.clone();
        // Any item will do until its own comes.
        let mut items = pairs.clone().next().map_or_else(Vec::new, |(_, any)| vec![any; offsets[n] as usize]);
        for (key, item) in pairs {
            items[next[key.index()] as usize] = item;
            next[key.index()] += 1;
        }
        Lists { offsets, items, keys: PhantomData }
    }

    pub(crate) fn get(&self, key: K) -> &[T] {
        match (self.offsets.get(key.index()), self.offsets.get(key.index() + 1)) {
            (Some(&from), Some(&to)) => &self.items[from as usize..to as usize],
            _ => &[],
        }
    }
}
