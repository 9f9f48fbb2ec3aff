//! SASS of two builds: which instructions differ once registers are renamed away.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use serde::Serialize;

use super::align::align;
use crate::base::{Line, Pc};
use crate::report::listing::Texts;

/// How many unchanged instructions are shown around a change.
const CONTEXT: usize = 2;

/// How much alike the code of two functions is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Likeness {
    /// Word by word, with what it refers to.
    Identical,
    /// The same instructions with registers renamed: it is proven that each reads what the other's reads. Scheduling may differ.
    Renamed,
    /// The same instructions one by one; what they do may differ: registers, jumps or symbols do, beyond a renaming that could be proven.
    Alike,
    /// Instructions are gone or new.
    Different,
}

/// How two functions' instructions differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SassChange {
    /// How much alike they are.
    pub likeness: Likeness,
    /// Instructions that both have.
    pub same: u64,
    /// Instructions that only the old one has.
    pub gone: u64,
    /// Instructions that only the new one has.
    pub new: u64,
    /// The changes with what is around them.
    pub hunks: Vec<Hunk>,
    /// Instructions that are gone or new and in no hunk: there are too many.
    pub left_out: u64,
}

impl SassChange {
    /// Whether the code may do something else.
    pub fn is_change(&self) -> bool {
        !matches!(self.likeness, Likeness::Identical | Likeness::Renamed)
    }

    /// Of code that is the same, word by word.
    pub fn none(instructions: u64) -> SassChange {
        let likeness = Likeness::Identical;
        SassChange { likeness, same: instructions, gone: 0, new: 0, hunks: Vec::new(), left_out: 0 }
    }
}

/// A change and what is around it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hunk {
    /// Instructions, gone ones before new ones.
    pub lines: Vec<HunkLine>,
}

/// One instruction of a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HunkLine {
    /// Where it was; null for a new one.
    pub before_pc: Option<Pc>,
    /// Where it is; null for one that is gone.
    pub after_pc: Option<Pc>,
    /// Its PTX line, of the new build where it is there.
    pub ptx_line: Option<Line>,
    /// Its text, of the new build where it is there.
    pub text: String,
}

/// Two instructions are the same when these are equal: register numbers, reuse marks and branch targets are left out.
pub fn instruction_key(text: &str) -> String {
    let mut key = String::with_capacity(text.len());
    let jumps = text.split_whitespace().find(|word| !word.starts_with('@')).is_some_and(|opcode| {
        ["BRA", "BSSY", "CALL", "JMP", "BRX", "JMX", "WARPSYNC", "LEPC", "RET"]
            .iter()
            .any(|name| opcode.starts_with(name))
    });
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !is_word(c) {
            key.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after.strip_prefix(".reuse").unwrap_or(after);
        let digits = word.trim_start_matches(|c: char| c.is_ascii_uppercase());
        let file = &word[..word.len() - digits.len()];
        let numbered = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        if numbered && matches!(file, "R" | "UR" | "P" | "UP" | "B" | "SB") {
            key.push_str(file);
        } else if jumps && word.starts_with("0x") {
            key.push('@');
        } else {
            key.push_str(word);
        }
    }
    key
}

/// The instructions of a function, read where they are: nobody keeps the texts of millions.
pub trait Instructions {
    /// Where they are, ascending.
    fn pcs(&self) -> Vec<Pc>;
    /// As nvdisasm prints it; none when it is not decoded.
    fn text(&self, pc: Pc) -> Option<String>;
    /// The 32 digits of its word.
    fn hex(&self, pc: Pc) -> String;
    /// The PTX line it was made of.
    fn ptx_line(&self, pc: Pc) -> Option<Line>;
}

impl Instructions for Texts<'_> {
    fn pcs(&self) -> Vec<Pc> {
        Texts::pcs(self).collect()
    }

    fn text(&self, pc: Pc) -> Option<String> {
        Texts::text(self, pc)
    }

    fn hex(&self, pc: Pc) -> String {
        Texts::hex(self, pc)
    }

    fn ptx_line(&self, pc: Pc) -> Option<Line> {
        Texts::ptx_line(self, pc)
    }
}

/// The code of one side: where each instruction is, and what stands for its key. What only fills a section up says nothing.
struct Side<'a, I> {
    texts: &'a I,
    pcs: Vec<Pc>,
    keys: Vec<u128>,
}

impl<'a, I: Instructions> Side<'a, I> {
    fn new(texts: &'a I, [high, low]: &[RandomState; 2]) -> Self {
        let mut pcs = texts.pcs();
        let is_filler = |pc: &Pc| texts.text(*pc).is_some_and(|text| text == "NOP");
        pcs.truncate(pcs.iter().rposition(|pc| !is_filler(pc)).map_or(0, |last| last + 1));
        let key = |pc: &Pc| {
            let key = texts.text(*pc).map_or_else(|| format!("?{}", texts.hex(*pc)), |text| instruction_key(&text));
            // Nobody can make two keys that both hashes, seeded by lot, take for one.
            u128::from(high.hash_one(&key)) << 64 | u128::from(low.hash_one(&key))
        };
        let keys = pcs.iter().map(key).collect();
        Side { texts, pcs, keys }
    }

    fn line(&self, at: usize) -> (Option<Pc>, Option<Line>, String) {
        let Some(&pc) = self.pcs.get(at) else { return (None, None, String::new()) };
        let text = self.texts.text(pc).unwrap_or_else(|| format!("not decoded: {}", self.texts.hex(pc)));
        (Some(pc), self.texts.ptx_line(pc), text)
    }
}

/// Instructions that are not matched, and how many matched ones come before.
struct Gap {
    matched: usize,
    before: Range<usize>,
    after: Range<usize>,
}

/// Compares two functions. Hunks take lines of `room`, and end where there is none left.
pub fn sass_changes<I: Instructions>(before: &I, after: &I, room: &mut usize) -> SassChange {
    let seeds = [RandomState::new(), RandomState::new()];
    let (old, new) = (Side::new(before, &seeds), Side::new(after, &seeds));
    let pairs = align(&old.keys, &new.keys);
    let mut gaps: Vec<Gap> = Vec::new();
    let (mut b, mut a) = (0, 0);
    for (matched, &(next_b, next_a)) in pairs.iter().chain([&(old.pcs.len(), new.pcs.len())]).enumerate() {
        if b < next_b || a < next_a {
            gaps.push(Gap { matched, before: b..next_b, after: a..next_a });
        }
        (b, a) = (next_b + 1, next_a + 1);
    }
    let is_gone = |at: usize| {
        let (pc, ptx_line, text) = old.line(at);
        HunkLine { before_pc: pc, after_pc: None, ptx_line, text }
    };
    let is_new = |at: usize| {
        let (pc, ptx_line, text) = new.line(at);
        HunkLine { before_pc: None, after_pc: pc, ptx_line, text }
    };
    let is_same = |&(b, a): &(usize, usize)| HunkLine { before_pc: old.pcs.get(b).copied(), ..is_new(a) };
    let mut hunks: Vec<Hunk> = Vec::new();
    let mut left_out = 0;
    // Between two changes there is less than what is shown around each.
    for group in gaps.chunk_by(|one, next| next.matched - one.matched <= 2 * CONTEXT) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let mut lines: Vec<HunkLine> = Vec::new();
        let mut next = first.matched.saturating_sub(CONTEXT);
        for gap in group {
            lines.extend(pairs[next..gap.matched].iter().map(is_same));
            next = gap.matched;
            let taken = |range: &Range<usize>, lines: &[HunkLine]| {
                range.start..range.end.min(range.start + room.saturating_sub(lines.len()))
            };
            let gone = taken(&gap.before, &lines);
            lines.extend(gone.clone().map(is_gone));
            let come = taken(&gap.after, &lines);
            lines.extend(come.clone().map(is_new));
            left_out += (gap.before.len() - gone.len() + gap.after.len() - come.len()) as u64;
        }
        lines.extend(pairs[next..(last.matched + CONTEXT).min(pairs.len())].iter().map(is_same));
        let is_change = |line: &HunkLine| line.before_pc.is_none() || line.after_pc.is_none();
        if lines.iter().any(is_change) {
            *room = room.saturating_sub(lines.len());
            hunks.push(Hunk { lines });
        }
    }
    let count = |of: fn(&Gap) -> &Range<usize>| gaps.iter().map(|gap| of(gap).len() as u64).sum();
    SassChange {
        likeness: if gaps.is_empty() { Likeness::Alike } else { Likeness::Different },
        same: pairs.len() as u64,
        gone: count(|gap| &gap.before),
        new: count(|gap| &gap.after),
        hunks,
        left_out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_renamed_away_and_nothing_else() {
        let same = |a: &str, b: &str| instruction_key(a) == instruction_key(b);
        assert!(same("FFMA R4, R5.reuse, R6, R7", "FFMA R14, R15, R16.reuse, R17"));
        assert!(same("@!P0 BRA 0x1230", "@!P3 BRA 0x4560"));
        assert!(same("LDG.E R2, desc[UR4][R2.64+0x10]", "LDG.E R8, desc[UR6][R12.64+0x10]"));
        assert!(!same("LDG.E R2, desc[UR4][R2.64+0x10]", "LDG.E R2, desc[UR4][R2.64+0x20]"));
        assert!(!same("FFMA R4, R5, R6, R7", "FFMA R4, R5, R6, RZ"));
        assert!(!same("FFMA R4, R5, R6, R7", "FFMA R4, -R5, R6, R7"));
        assert!(!same("@P0 EXIT", "@!P0 EXIT"));
        assert!(!same("MOV R1, c[0x0][0x28]", "MOV R1, c[0x0][0x30]"));
        assert!(!same("SHF.R.S32 R1, R2, 0x1, RZ", "SHF.R.S32 R1, R2, 0x2, RZ"));
        assert!(!same("S2R R0, SR_TID.X", "S2R R0, SR_CTAID.X"));
    }

    struct Listed<'a>(&'a [&'a str]);

    impl Instructions for Listed<'_> {
        fn pcs(&self) -> Vec<Pc> {
            (0..self.0.len()).map(|at| Pc(at as u32 * 16)).collect()
        }

        fn text(&self, pc: Pc) -> Option<String> {
            self.0.get(pc.0 as usize / 16).map(|text| text.to_string())
        }

        fn hex(&self, _: Pc) -> String {
            String::new()
        }

        fn ptx_line(&self, _: Pc) -> Option<Line> {
            None
        }
    }

    #[test]
    fn only_real_differences_show() {
        let before = Listed(&["MOV R1, RZ", "FADD R2, R1, R3", "STG [R4], R2", "EXIT", "NOP", "NOP"]);
        let renamed = Listed(&["MOV R7, RZ", "FADD R8, R7, R9", "STG [R6], R8", "EXIT", "NOP"]);
        let change = sass_changes(&before, &renamed, &mut 100);
        assert_eq!((change.same, change.gone, change.new, change.hunks.len()), (4, 0, 0, 0));
        let other = Listed(&["MOV R7, RZ", "FMUL R8, R7, R9", "STG [R6], R8", "EXIT"]);
        let change = sass_changes(&before, &other, &mut 100);
        assert_eq!((change.same, change.gone, change.new, change.hunks.len()), (3, 1, 1, 1));
        assert_eq!(change.hunks[0].lines.len(), 5);
    }

    #[test]
    fn what_there_is_no_room_for_is_counted() {
        let (before, after) = (Listed(&["FADD R1, R1, 0x1"; 50]), Listed(&["FMUL R1, R1, 0x2"; 60]));
        let mut room = 70;
        let change = sass_changes(&before, &after, &mut room);
        assert_eq!((change.same, change.gone, change.new, change.left_out, room), (0, 50, 60, 40, 0));
        assert_eq!(change.hunks.iter().map(|hunk| hunk.lines.len()).sum::<usize>(), 70);
        let change = sass_changes(&before, &after, &mut room);
        assert_eq!((change.gone, change.new, change.left_out, change.hunks.len()), (50, 60, 110, 0));
    }
}
