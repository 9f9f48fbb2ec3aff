//! A squarified treemap (Bruls, Huizing and van Wijk, 2000): areas by size, as near to squares as they come.

/// A part of the picture, in percent of the whole.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rect {
    pub left: f64,
    pub top: f64,
    pub width: f64,
    pub height: f64,
}

/// Areas for these sizes, largest first; `aspect` is the whole picture's width by its height. The areas fill `within`.
pub fn squarify(sizes: &[u64], within: Rect, aspect: f64) -> Vec<Rect> {
    // Percent across are wider than percent down.
    let (x, y) = (aspect, 1.0);
    let (mut left, mut top) = (within.left * x, within.top * y);
    let (mut width, mut height) = (within.width * x, within.height * y);
    let mut rest: f64 = sizes.iter().map(|size| *size as f64).sum();
    let mut found = Vec::with_capacity(sizes.len());
    let mut sizes = sizes;
    while !sizes.is_empty() && rest > 0.0 {
        let scale = width * height / rest;
        let side = width.min(height);
        // A row takes one more as long as its worst area gets no longer.
        let (mut taken, mut sum, mut best) = (0, 0.0, f64::INFINITY);
        for size in sizes {
            let longer = sum + *size as f64 * scale;
            // The first is the largest, the last the smallest: one of them is the worst.
            let of = |size: u64| elongation(size as f64 * scale, longer, side);
            let worst = sizes.first().map_or(0.0, |first| of(*first)).max(of(*size));
            if taken > 0 && worst > best {
                break;
            }
            (taken, sum, best) = (taken + 1, longer, worst);
        }
        let (row, after) = sizes.split_at(taken);
        let thickness = if side > 0.0 { sum / side } else { 0.0 };
        let mut along = 0.0;
        for size in row {
            let length = if sum > 0.0 { *size as f64 * scale / sum * side } else { 0.0 };
            found.push(match width >= height {
                true => Rect { left, top: top + along, width: thickness, height: length },
                false => Rect { left: left + along, top, width: length, height: thickness },
            });
            along += length;
        }
        match width >= height {
            true => (left, width) = (left + thickness, (width - thickness).max(0.0)),
            false => (top, height) = (top + thickness, (height - thickness).max(0.0)),
        }
        rest -= row.iter().map(|size| *size as f64).sum::<f64>();
        sizes = after;
    }
    let back =
        |rect: Rect| Rect { left: rect.left / x, top: rect.top / y, width: rect.width / x, height: rect.height / y };
    found.into_iter().map(back).collect()
}

/// How much longer than wide an area is, in a row of this area along a side.
fn elongation(area: f64, row: f64, side: f64) -> f64 {
    if area <= 0.0 || row <= 0.0 || side <= 0.0 {
        return f64::INFINITY;
    }
    let (a, b) = (side * side * area / (row * row), row * row / (side * side * area));
    a.max(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Rect = Rect { left: 0.0, top: 0.0, width: 100.0, height: 100.0 };

    /// The example of the paper: 6, 6, 4, 3, 2, 2, 1 in a rectangle of 6 by 4.
    #[test]
    fn the_papers_example() {
        let found = squarify(&[6, 6, 4, 3, 2, 2, 1], WHOLE, 1.5);
        let at = |rect: &Rect| ((rect.width * 0.06 * 1000.0).round(), (rect.height * 0.04 * 1000.0).round());
        assert_eq!(
            found.iter().map(at).collect::<Vec<_>>()[..3],
            [(3000.0, 2000.0), (3000.0, 2000.0), (1714.0, 2333.0)]
        );
    }

    #[test]
    fn areas_are_in_proportion_and_inside() {
        let sizes: Vec<u64> = (1..200).rev().map(|n| n * n).collect();
        let total: u64 = sizes.iter().sum();
        let found = squarify(&sizes, WHOLE, 16.0 / 9.0);
        assert_eq!(found.len(), sizes.len());
        for (size, rect) in sizes.iter().zip(&found) {
            assert!((rect.width * rect.height / 10_000.0 - *size as f64 / total as f64).abs() < 1e-9);
            assert!(rect.left >= -1e-9 && rect.left + rect.width <= 100.0 + 1e-6);
            assert!(rect.top >= -1e-9 && rect.top + rect.height <= 100.0 + 1e-6);
        }
        assert!(squarify(&[], WHOLE, 1.0).is_empty() && squarify(&[0], WHOLE, 1.0).is_empty());
    }
}
