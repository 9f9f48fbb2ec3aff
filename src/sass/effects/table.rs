use super::{EffectTable, FieldUse, Leaf, Node};
pub(super) static NODES: &[Node] = &[];
pub(super) static LEAVES: &[Leaf] = &[];
pub(super) static USES: &[FieldUse] = &[];
pub(super) static TABLES: &[EffectTable] = &[];
