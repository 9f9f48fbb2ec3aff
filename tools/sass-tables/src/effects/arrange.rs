//! The registers of a word, so placed that the marks beside its row tell its operands from each other.

use ptxinspect::base::RegFile;

use super::fields;
use super::probe::Marks;
use crate::model::Model;
use crate::store::Learnt;
use crate::text::Kind;

/// Times each word is tried, its registers in another order.
const TURNS: usize = 4;

/// A word with its registers far apart, in several orders.
pub fn apart(learnt: &Learnt, word: u128) -> Vec<u128> {
    let place = |file: RegFile, turn: usize, i: usize, count: usize| -> Vec<i64> {
        let at = if turn.is_multiple_of(2) { i } else { count - 1 - i } as i64;
        let count = count.max(1) as i64;
        let (first, step) = match file {
            RegFile::Gpr => (8, (240 / count) & !7),
            // nvdisasm marks UR4 to UR62.
            RegFile::Ugpr => (8, ((54 / count) & !3).max(4)),
            RegFile::Pred | RegFile::Upred => (0, 1),
        };
        let home = first + step * at;
        match file {
            RegFile::Gpr | RegFile::Ugpr => vec![home, home + 16, home + 4],
            RegFile::Pred | RegFile::Upred => (0..7).map(|i| (home + i + 2 * turn as i64) % 7).collect(),
        }
    };
    let Some((class, chosen)) = fields::place(learnt, word) else { return Vec::new() };
    let moved = (0..TURNS).map(|turn| scatter(learnt, class, &chosen, word, &|file, i, n| place(file, turn, i, n)));
    moved.map(|moved| moved.unwrap_or(word)).collect()
}

/// A word with its vector registers close together at the low end, each operand the last of them once: wide ones show their whole width.
pub fn tight(learnt: &Learnt, word: u128) -> Vec<u128> {
    let Some((class, chosen)) = fields::place(learnt, word) else { return Vec::new() };
    let count = vector_slots(&learnt.models[class as usize], &chosen).len();
    let place = |file: RegFile, turn: usize, i: usize, count: usize| match file {
        RegFile::Gpr => vec![8 + 8 * ((i + turn) % count) as i64],
        _ => Vec::new(),
    };
    (0..count).filter_map(|turn| scatter(learnt, class, &chosen, word, &|file, i, n| place(file, turn, i, n))).collect()
}

/// Whether the registers of an operand run into another one's, or to the end of the file.
pub fn is_crowded(learnt: &Learnt, word: u128, marks: &Marks) -> bool {
    let Some((class, chosen)) = fields::place(learnt, word) else { return false };
    let model = &learnt.models[class as usize];
    let firsts: Vec<i64> = vector_slots(model, &chosen).iter().map(|&slot| model.slots[slot].eval(word)).collect();
    let is_marked = |set: &ptxinspect::base::RegSet, index: i64| {
        u16::try_from(index).is_ok_and(|index| set.contains(RegFile::Gpr, index))
    };
    [&marks.reads, &marks.writes].into_iter().any(|set| {
        let runs_into = |&&first: &&i64| first > 0 && is_marked(set, first - 1) && !firsts.contains(&(first - 1));
        is_marked(set, 254) && !firsts.contains(&254) || firsts.iter().any(|first| runs_into(&first))
    })
}

/// The slots of vector registers that a text prints.
fn vector_slots(model: &Model, chosen: &[u16]) -> Vec<usize> {
    fields::printed(model, chosen).iter().filter(|(file, _)| *file == RegFile::Gpr).map(|(_, slot)| *slot).collect()
}

/// Gives the registers of a word the first numbers that `places` proposes for a file's i-th of n and that leave its text what it is, no two alike.
fn scatter(
    learnt: &Learnt,
    class: u32,
    chosen: &[u16],
    word: u128,
    places: &dyn Fn(RegFile, usize, usize) -> Vec<i64>,
) -> Option<u128> {
    let model = &learnt.models[class as usize];
    let printed = fields::printed(model, chosen);
    let mut out = word;
    for file in RegFile::ALL {
        let slots: Vec<usize> = printed.iter().filter(|(f, _)| *f == file).map(|(_, slot)| *slot).collect();
        for (i, &slot) in slots.iter().enumerate() {
            let is_taken =
                |word: u128, value: i64| slots.iter().take(i).any(|&other| model.slots[other].eval(word) == value);
            for value in places(file, i, slots.len()) {
                if is_taken(out, value) {
                    continue;
                }
                if let Some(moved) = model.slots[slot].set(out, value)
                    && fields::chosen(model, moved).as_deref() == Some(chosen)
                {
                    out = moved;
                    break;
                }
            }
        }
    }
    fields::place(learnt, out).is_some_and(|found| found.0 == class && found.1 == chosen).then_some(out)
}

impl Kind {
    /// The register file of a slot's kind.
    pub fn file(self) -> Option<RegFile> {
        match self {
            Kind::R => Some(RegFile::Gpr),
            Kind::Ur => Some(RegFile::Ugpr),
            Kind::P => Some(RegFile::Pred),
            Kind::Up => Some(RegFile::Upred),
            _ => None,
        }
    }
}
