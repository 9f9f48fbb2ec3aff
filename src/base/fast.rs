//! Maps for keys that come by the thousand. Seeded for each process, so that no input can be made to collide; nothing may depend on
//! their order.

use std::collections::{HashMap, HashSet};

/// A map that hashes faster than the standard one.
pub type FastMap<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// The set to go with it.
pub type FastSet<K> = HashSet<K, foldhash::fast::RandomState>;
