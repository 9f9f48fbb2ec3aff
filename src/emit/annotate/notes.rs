//! What is known of a line of PTX itself, whatever it became.

use std::collections::BTreeMap;

use crate::base::Line;
use crate::emit::matrices;
use crate::report::Unit;
use crate::report::annotation::{By, Document, View};

/// Sentences by line of PTX.
pub(super) struct Notes {
    by_line: BTreeMap<Line, Vec<String>>,
}

impl Notes {
    /// Of all kernels of a unit; none where the lines are not those of one PTX.
    pub fn of_unit(unit: &Unit, view: &View<'_>) -> Notes {
        let mut by_line: BTreeMap<Line, Vec<String>> = BTreeMap::new();
        let is_ptx = view.by == By::Ptx && view.annotation.texts.len() == 1;
        let kernels = unit.kernels.iter().filter(|_| is_ptx);
        for found in kernels.flat_map(|kernel| &kernel.multiplications) {
            by_line.entry(found.ptx_line).or_default().extend(matrices::multiplication(found));
        }
        Notes { by_line }
    }

    /// What is known of a line of a document.
    pub fn of(&self, document: &Document<'_>, line: Line) -> &[String] {
        self.by_line.get(&line).filter(|_| document.text.is_some()).map(Vec::as_slice).unwrap_or_default()
    }
}
