//! Special registers by name.

use crate::simt::eval::number::Comparison;
use crate::sync::program::*;

/// The special register that a name stands for.
pub(super) fn special(name: &str, component: Option<&str>) -> Source {
    let axis = match component {
        Some("y") => 1,
        Some("z") => 2,
        _ => 0,
    };
    Source::Special(match name {
        "WARP_SZ" => return Source::Number(32),
        "%tid" => Special::Tid(axis),
        "%ntid" => Special::Ntid(axis),
        "%ctaid" => Special::Ctaid(axis),
        "%nctaid" => Special::Nctaid(axis),
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%lanemask_eq" => Special::LaneMask(Comparison::Equal),
        "%lanemask_lt" => Special::LaneMask(Comparison::Less),
        "%lanemask_le" => Special::LaneMask(Comparison::LessOrEqual),
        "%lanemask_gt" => Special::LaneMask(Comparison::Greater),
        "%lanemask_ge" => Special::LaneMask(Comparison::GreaterOrEqual),
        "%cluster_ctarank" => Special::ClusterRank,
        "%cluster_nctarank" => Special::ClusterSize,
        "%cluster_ctaid" => Special::ClusterCtaid(axis),
        "%cluster_nctaid" => Special::ClusterNctaid(axis),
        "%clusterid" => Special::ClusterId(axis),
        "%nclusterid" => Special::NclusterId(axis),
        _ => Special::Other,
    })
}
