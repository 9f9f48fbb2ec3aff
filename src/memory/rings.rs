//! Stages of a ring, told by the places that one instruction touches from pass to pass: the same places again and again, a constant
//! stride apart.

use crate::sync::execute::footprint::Span;

/// Places with a constant stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    /// Where the first stage starts, as far as it is touched.
    pub start: u64,
    /// How many stages were seen.
    pub stages: u64,
    /// From one to the next.
    pub stride: u64,
    /// What is touched of a stage, from `start` on.
    pub width: u64,
}

impl Ring {
    /// Just past the last stage, whole.
    pub fn end(&self) -> u64 {
        self.start + self.stages * self.stride
    }
}

/// The ring that the passes of an instruction go round; none where they touch one place, or no such thing.
pub(super) fn ring(spans: &[Span]) -> Option<Ring> {
    let mut by_warp: Vec<(u32, Vec<(u64, u64)>)> = Vec::new();
    for span in spans {
        match by_warp.iter_mut().find(|(warp, _)| *warp == span.warp) {
            Some((_, places)) => places.push((span.start, span.count)),
            None => by_warp.push((span.warp, vec![(span.start, span.count)])),
        }
    }
    let mut found: Option<Ring> = None;
    for (_, places) in &mut by_warp {
        let here = of_warp(places)?;
        found = Some(match found {
            None => here,
            Some(ring) if (ring.stages, ring.stride) != (here.stages, here.stride) => return None,
            Some(ring) => {
                let start = ring.start.min(here.start);
                let width = (ring.start + ring.width).max(here.start + here.width) - start;
                Ring { start, width, ..ring }
            }
        });
    }
    found.filter(|ring| ring.width <= ring.stride)
}

/// The ring of one warp: stages one by one, or groups of places inside each.
fn of_warp(places: &mut Vec<(u64, u64)>) -> Option<Ring> {
    places.sort_unstable();
    places.dedup_by_key(|(start, _)| *start);
    let (first, _) = *places.first()?;
    let gaps: Vec<u64> = places.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let widest = *gaps.iter().max()?;
    let mut groups: Vec<Vec<(u64, u64)>> = vec![Vec::new()];
    for (at, place) in places.iter().enumerate() {
        if at > 0 && gaps.get(at - 1) == Some(&widest) {
            groups.push(Vec::new());
        }
        groups.last_mut()?.push(*place);
    }
    let offsets = |group: &[(u64, u64)]| -> Vec<u64> {
        let start = group.first().map_or(0, |(start, _)| *start);
        group.iter().map(|(at, _)| at - start).collect()
    };
    let starts: Vec<u64> = groups.iter().filter_map(|group| group.first()).map(|(start, _)| *start).collect();
    let stride = starts.get(1)?.checked_sub(*starts.first()?)?;
    let even = starts.windows(2).all(|pair| pair[1] - pair[0] == stride);
    let first_group = offsets(groups.first()?);
    let alike = groups.iter().all(|group| offsets(group) == first_group);
    let width = groups.iter().flatten().map(|(at, count)| (at - first) % stride + count).max()?;
    (even && alike).then_some(Ring { start: first, stages: groups.len() as u64, stride, width })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::value::Basis;

    fn spans(places: &[(u32, u64, u64)]) -> Vec<Span> {
        let span = |(warp, start, count): &(u32, u64, u64)| {
            let (start, count, warp, basis) = (*start, *count, *warp, Basis::Fact);
            Span { start, count, warp, pass: 0, place: basis, path: basis }
        };
        places.iter().map(span).collect()
    }

    #[test]
    fn stages_are_a_stride_apart() {
        let found = ring(&spans(&[(0, 1024, 16), (0, 9216, 16), (0, 5120, 16)]));
        assert_eq!(found, Some(Ring { start: 1024, stages: 3, stride: 4096, width: 16 }));
        assert_eq!(ring(&spans(&[(0, 0, 16), (0, 64, 16), (0, 256, 16)])), None);
        assert_eq!(ring(&spans(&[(0, 0, 16)])), None);
        // What overlaps is no stage.
        assert_eq!(ring(&spans(&[(0, 0, 128), (0, 64, 128)])), None);
    }

    #[test]
    fn warps_share_a_stage_and_loops_walk_through_it() {
        let by_warps = [(0, 0, 512), (0, 4096, 512), (1, 512, 512), (1, 4608, 512)];
        assert_eq!(ring(&spans(&by_warps)), Some(Ring { start: 0, stages: 2, stride: 4096, width: 1024 }));
        let walked = [(0, 0, 16), (0, 32, 16), (0, 64, 16), (0, 8192, 16), (0, 8224, 16), (0, 8256, 16)];
        assert_eq!(ring(&spans(&walked)), Some(Ring { start: 0, stages: 2, stride: 8192, width: 80 }));
    }
}
