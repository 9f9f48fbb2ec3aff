//! The functions of one cubin as one side of a comparison. Instructions are read only where the code is not the same.

use std::collections::HashMap;
use std::ops::Range;

use super::library::{digest, proven};
use crate::base::Pc;
use crate::compare::{SassChange, sass_changes};
use crate::cubin::lines::LineTable;
use crate::cubin::{Function, Image};
use crate::report::listing::Texts;

/// A cubin with its functions by name.
pub struct Functions<'a> {
    image: &'a Image<'a>,
    lines: &'a LineTable<'a>,
    by_name: HashMap<&'a str, Place<'a>>,
}

/// Where a function is: the section, and the part of it that is its own where it is not all.
#[derive(Clone)]
struct Place<'a> {
    function: &'a Function<'a>,
    range: Range<Pc>,
    instructions: u64,
}

impl<'a> Functions<'a> {
    /// Finds them; of several with one name the first.
    pub fn new(image: &'a Image<'a>, lines: &'a LineTable<'a>) -> Self {
        let mut by_name = HashMap::new();
        for function in &image.functions {
            let code = Pc(u32::try_from(function.code.len()).unwrap_or(u32::MAX));
            let place = |range: Range<Pc>, inside: u32| Place {
                function,
                instructions: u64::from((range.end.0 - range.start.0).saturating_sub(inside) / 16),
                range,
            };
            let inside = function.parts.iter().map(|part| part.end.0.saturating_sub(part.start.0));
            let inside = inside.fold(0, u32::saturating_add);
            by_name.entry(&*function.name).or_insert_with(|| place(Pc(0)..code, inside));
            for part in &function.parts {
                by_name.entry(part.callee()).or_insert_with(|| place(part.start..part.end.max(part.start), 0));
            }
        }
        Functions { image, lines, by_name }
    }

    /// How the code of a function differs from another's; none where one of them has no such function.
    pub fn changes(&self, name: &str, other: &Functions<'_>, other_name: &str, room: &mut usize) -> Option<SassChange> {
        let (old, new) = (self.by_name.get(name)?, other.by_name.get(other_name)?);
        if digest(self.image, old.function, old.range.clone()) == digest(other.image, new.function, new.range.clone()) {
            return Some(SassChange::none(new.instructions));
        }
        let texts = Texts::of(self.image, self.lines, old.function, name)?;
        let other_texts = Texts::of(other.image, other.lines, new.function, other_name)?;
        let change = sass_changes(&texts, &other_texts, room);
        Some(proven(change, (self.image, old.function), (other.image, new.function)))
    }
}
