//! What one observation says about each field of its word.

use ptxinspect::base::{RegFile, RegSet};

use super::decision::{Answers, Question};
use super::fields::{self, Observation, Use, every_print, field, printed};
use crate::model::Model;
use crate::slot::Slot;

/// The fewest and the most registers that a field may mean; most is [`ANY`] where another field's registers hide the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) least: u8,
    pub(super) most: u8,
}

const ANY: u8 = u8::MAX;

impl Span {
    /// Of a field that numbers the register that is always zero.
    pub(super) const NOTHING: Span = Span { least: 0, most: ANY };

    pub(super) fn exactly(count: u8) -> Span {
        Span { least: count, most: count }
    }

    pub(super) fn and(self, other: Span) -> Span {
        Span { least: self.least.max(other.least), most: self.most.min(other.most) }
    }

    /// The number of registers, where there can be one.
    pub(super) fn count(self) -> Option<u8> {
        (self.least <= self.most).then_some(if self.most == ANY { self.least } else { self.most })
    }
}

/// One word of a class.
pub(super) struct Example<'a> {
    pub(super) answers: Answers,
    /// The fields that its text prints and the registers they number.
    pub(super) fields: Vec<(Use, u16)>,
    /// Of these, the registers that the text names once more than its fields do.
    twice: Vec<(RegFile, u16)>,
    pub(super) seen: &'a Observation,
}

/// A field of a class and which of its marks are meant; its `count` says nothing.
pub(super) type Key = Use;

pub(super) fn marks<'a>(key: &Key, seen: &'a Observation) -> &'a RegSet {
    if key.write { &seen.writes } else { &seen.reads }
}

/// What an example says about a field; nothing where that cannot be told.
pub(super) fn span(key: &Key, example: &Example<'_>) -> Option<Span> {
    let Some(first) = key.register(example.seen.word) else { return Some(Span::NOTHING) };
    // nvdisasm marks UR4 to UR62 only.
    if key.file == RegFile::Ugpr && !(4..=62).contains(&first) {
        return None;
    }
    let marks = marks(key, example.seen);
    let is_marked = |index: u16| marks.contains(key.file, index);
    if key.bits == 0 {
        return Some(Span::exactly(u8::from(is_marked(first))));
    }
    let is_here = |other: &Use| (other.pos, other.bits) == (key.pos, key.bits);
    let others = || example.fields.iter().filter(|(other, _)| other.file == key.file && !is_here(other));
    let is_printed = example.fields.iter().any(|(other, _)| other.file == key.file && is_here(other));
    if !is_marked(first) {
        return Some(Span::exactly(0));
    }
    // Whose mark is it? A field with the same number may have left it, or one that reaches here.
    if !is_printed || example.twice.contains(&(key.file, first)) {
        return None;
    }
    if matches!(key.file, RegFile::Pred | RegFile::Upred) {
        return Some(Span::exactly(1));
    }
    let limit = if key.file == RegFile::Gpr { 255 } else { 63 };
    let end = others().map(|(_, number)| *number).filter(|number| *number > first).min().unwrap_or(limit).min(limit);
    let count = (first..end).take_while(|&index| is_marked(index)).count();
    let is_whole = first + (count as u16) < end;
    let is_after_another = first > 0 && is_marked(first - 1) && others().any(|(_, number)| *number < first);
    Some(Span { least: if is_after_another { 0 } else { count as u8 }, most: if is_whole { count as u8 } else { ANY } })
}

/// A word of a class, with the answers to the class's questions.
pub(super) fn example<'a>(model: &Model, questions: &[Question], chosen: &[u16], seen: &'a Observation) -> Example<'a> {
    let answer = |question: &Question| match *question {
        Question::Component(comp) => chosen[usize::from(comp)],
        Question::Number(number) => number.get(seen.word),
    };
    let number = |(file, slot): (RegFile, usize)| {
        // A number that is made in another way, `idesc[UR40]` being one more than `tmem[UR39]`, shows in what its neighbours do.
        let slot: &Slot = &model.slots[slot];
        let (pos, bits) = field(slot)?;
        let used = Use { file, pos, bits, write: false, count: 1 };
        used.register(seen.word).map(|first| (used, first))
    };
    let fields: Vec<(Use, u16)> = printed(model, chosen).into_iter().filter_map(number).collect();
    // Which of two that a text names alike is read, which written, cannot be told.
    let prints = every_print(model, chosen);
    let is_twice = |(used, first): &&(Use, u16)| {
        let name = format!("{}{first}", fields::letters(used.file));
        let names = seen.text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| *part == name).count();
        let is_field = |(file, slot): &&(RegFile, usize)| {
            *file == used.file && field(&model.slots[*slot]) == Some((used.pos, used.bits))
        };
        names > prints.iter().filter(is_field).count()
    };
    let twice = fields.iter().filter(is_twice).map(|(used, first)| (used.file, *first)).collect();
    Example { answers: questions.iter().map(answer).collect(), fields, twice, seen }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_that_exclude_each_other_have_no_count() {
        let hidden = Span { least: 2, most: ANY };
        assert_eq!(hidden.count(), Some(2));
        assert_eq!(hidden.and(Span::exactly(4)).count(), Some(4));
        assert_eq!(hidden.and(Span::exactly(1)).count(), None);
        assert_eq!(Span::NOTHING.and(Span::exactly(3)).count(), Some(3));
    }
}
