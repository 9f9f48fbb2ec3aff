//! SASS of two builds: which instructions differ once registers are renamed away.

use serde::Serialize;

use super::align::align;
use crate::base::{Line, Pc};
use crate::report::listing::{ListedFunction, ListedInstruction};

/// How many unchanged instructions are shown around a change.
const CONTEXT: usize = 2;

/// How two functions' instructions differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SassChange {
    /// Instructions that both have.
    pub same: u64,
    /// Instructions that only the old one has.
    pub gone: u64,
    /// Instructions that only the new one has.
    pub new: u64,
    /// The changes with what is around them.
    pub hunks: Vec<Hunk>,
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

fn key(instruction: &ListedInstruction) -> String {
    instruction.text.as_deref().map_or_else(|| format!("?{}", instruction.hex), instruction_key)
}

/// What only fills a section up says nothing.
fn code(function: &ListedFunction) -> &[ListedInstruction] {
    let is_filler = |instruction: &ListedInstruction| instruction.text.as_deref().is_some_and(|text| text == "NOP");
    let end = function.instructions.iter().rposition(|instruction| !is_filler(instruction)).map_or(0, |last| last + 1);
    &function.instructions[..end]
}

/// Compares two functions.
pub fn sass_changes(before: &ListedFunction, after: &ListedFunction) -> SassChange {
    let (old, new) = (code(before), code(after));
    let keys = |side: &[ListedInstruction]| side.iter().map(key).collect::<Vec<_>>();
    let pairs = align(&keys(old), &keys(new));
    let same = pairs.len() as u64;
    // All of both, matched ones together.
    let mut all: Vec<(Option<usize>, Option<usize>)> = Vec::with_capacity(old.len() + new.len());
    let (mut b, mut a) = (0, 0);
    for (next_b, next_a) in pairs.into_iter().chain([(old.len(), new.len())]) {
        all.extend((b..next_b).map(|at| (Some(at), None)));
        all.extend((a..next_a).map(|at| (None, Some(at))));
        if next_b < old.len() && next_a < new.len() {
            all.push((Some(next_b), Some(next_a)));
        }
        (b, a) = (next_b + 1, next_a + 1);
    }
    let changed: Vec<usize> = (0..all.len()).filter(|at| all[*at].0.is_none() || all[*at].1.is_none()).collect();
    let mut hunks: Vec<Hunk> = Vec::new();
    for group in changed.chunk_by(|a, b| b - a <= 2 * CONTEXT + 1) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let range = first.saturating_sub(CONTEXT)..(last + CONTEXT + 1).min(all.len());
        let line = |(b, a): &(Option<usize>, Option<usize>)| {
            let (was, is) = (b.and_then(|at| old.get(at)), a.and_then(|at| new.get(at)));
            let shown = is.or(was)?;
            Some(HunkLine {
                before_pc: was.map(|instruction| instruction.pc),
                after_pc: is.map(|instruction| instruction.pc),
                ptx_line: shown.ptx_line,
                text: shown.text.clone().unwrap_or_else(|| format!("not decoded: {}", shown.hex)),
            })
        };
        hunks.push(Hunk { lines: all[range].iter().filter_map(line).collect() });
    }
    let gone = all.iter().filter(|(_, after)| after.is_none()).count() as u64;
    let new = all.iter().filter(|(before, _)| before.is_none()).count() as u64;
    SassChange { same, gone, new, hunks }
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

    fn function(texts: &[&str]) -> ListedFunction {
        let instruction = |(at, text): (usize, &&str)| ListedInstruction {
            pc: Pc(at as u32 * 16),
            hex: String::new(),
            text: Some(text.to_string()),
            live: None,
            ptx_line: None,
            source: None,
            reads: None,
            writes: None,
            spill: None,
            control: None,
            live_registers: None,
        };
        let instructions = texts.iter().enumerate().map(instruction).collect();
        ListedFunction { name: "k".to_owned(), kernel: "k".to_owned(), instructions }
    }

    #[test]
    fn only_real_differences_show() {
        let before = function(&["MOV R1, RZ", "FADD R2, R1, R3", "STG [R4], R2", "EXIT", "NOP", "NOP"]);
        let renamed = function(&["MOV R7, RZ", "FADD R8, R7, R9", "STG [R6], R8", "EXIT", "NOP"]);
        let change = sass_changes(&before, &renamed);
        assert_eq!((change.same, change.gone, change.new, change.hunks.len()), (4, 0, 0, 0));
        let other = function(&["MOV R7, RZ", "FMUL R8, R7, R9", "STG [R6], R8", "EXIT"]);
        let change = sass_changes(&before, &other);
        assert_eq!((change.same, change.gone, change.new, change.hunks.len()), (3, 1, 1, 1));
        assert_eq!(change.hunks[0].lines.len(), 5);
    }
}
