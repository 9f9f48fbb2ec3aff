//! PTX lines of two builds of a kernel: what each holds alive and spills, before and after.

use std::collections::BTreeMap;

use serde::Serialize;

use super::align::align;
use crate::base::{Line, work};
use crate::report::{Kernel, PtxText};

/// What happened at a PTX line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineChange {
    /// Its number before; null for a new line.
    pub before_line: Option<Line>,
    /// Its number now; null for a line that is gone.
    pub after_line: Option<Line>,
    /// Its text.
    pub text: String,
    /// Its text before, where that is another.
    #[serde(skip)]
    pub before_text: Option<String>,
    /// The most live registers before.
    pub live_before: Option<u32>,
    /// The most live registers now.
    pub live_after: Option<u32>,
    /// Spill instructions before; null where they cannot be told.
    pub spills_before: Option<u32>,
    /// Spill instructions now; null where they cannot be told.
    pub spills_after: Option<u32>,
    /// Instructions before.
    pub instructions_before: u32,
    /// Instructions now.
    pub instructions_after: u32,
}

impl LineChange {
    /// Whether anything but the line's number moved.
    pub fn moved(&self) -> bool {
        self.before_line.is_none()
            || self.after_line.is_none()
            || self.live_before != self.live_after
            || self.spills_before != self.spills_after
    }

    /// By how much the spills grew.
    pub fn spills_gained(&self) -> i64 {
        i64::from(self.spills_after.unwrap_or(0)) - i64::from(self.spills_before.unwrap_or(0))
    }

    /// By how much the live registers grew, where both are known.
    pub fn live_gained(&self) -> i64 {
        match (self.live_before, self.live_after) {
            (Some(before), Some(after)) => i64::from(after) - i64::from(before),
            _ => 0,
        }
    }
}

/// Two lines are the same statement when these are equal: comments, white space, numbered registers and labels are left out.
/// None for a line without code: blank, a comment, `.loc`.
pub fn statement_key(line: &str) -> Option<String> {
    let code = line.split("//").next().unwrap_or_default().trim();
    if code.is_empty() || code.starts_with(".loc") || code.starts_with(".file") || code.starts_with("/*") {
        return None;
    }
    let mut key = String::with_capacity(code.len());
    let mut chars = code.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '%' | '$' => {
                let mut name = String::new();
                while let Some(next) = chars.next_if(|next| next.is_ascii_alphanumeric() || matches!(next, '_' | '$')) {
                    name.push(next);
                }
                key.push(c);
                // %r12 is whichever register, %tid is itself.
                if c == '%' && !name.ends_with(|last: char| last.is_ascii_digit()) {
                    key.push_str(&name);
                }
            }
            c if c.is_whitespace() => {
                if !key.ends_with(' ') {
                    key.push(' ');
                }
            }
            c => key.push(c),
        }
    }
    Some(key)
}

struct Facts {
    live: Option<u32>,
    spills: Option<u32>,
    instructions: u32,
}

/// How many lines may still be compared. Kernels whose code is all over the text would each take all of it.
pub struct Room(usize);

impl Room {
    const LEAST: usize = 1 << 21;
    const FOR_EACH: usize = 4;

    /// For all kernels of two builds.
    pub fn of(before: &PtxText, after: &PtxText) -> Room {
        let lines = before.line_count() as usize + after.line_count() as usize;
        Room(Room::LEAST.saturating_add(lines.saturating_mul(Room::FOR_EACH)))
    }
}

/// One build of a kernel: its lines with code, and what each became.
struct Side<'a> {
    numbers: Vec<Line>,
    keys: Vec<String>,
    facts: BTreeMap<Line, Facts>,
    ptx: &'a PtxText,
    spills_known: bool,
}

impl<'a> Side<'a> {
    fn new(kernel: &Kernel, ptx: &'a PtxText, room: &mut Room) -> Option<Self> {
        let mut facts: BTreeMap<Line, Facts> = BTreeMap::new();
        let spills_known = kernel.spills.is_some();
        for line in &kernel.lines {
            let instructions = u32::try_from(line.pcs.len()).unwrap_or(u32::MAX).saturating_sub(line.padding);
            let spills = spills_known.then_some(0);
            facts.insert(line.ptx_line, Facts { live: line.live_gpr_max, spills, instructions });
        }
        for line in kernel.spills.iter().flatten().filter_map(|spill| spill.ptx_line) {
            if let Some(facts) = facts.get_mut(&line) {
                facts.spills = facts.spills.map(|count| count + 1);
            }
        }
        let first = facts.keys().next().copied().into_iter().chain(kernel.ptx_line).min();
        let last = facts.keys().next_back().copied();
        let (mut numbers, mut keys) = (Vec::new(), Vec::new());
        if let (Some(first), Some(last)) = (first, last) {
            for number in ptx.numbers(first, last) {
                work::tick();
                room.0 = room.0.checked_sub(1)?;
                if let Some(key) = ptx.line(number).and_then(statement_key) {
                    numbers.push(number);
                    keys.push(key);
                }
            }
        }
        Some(Side { numbers, keys, facts, ptx, spills_known })
    }

    fn text(&self, line: Line) -> String {
        self.ptx.line(line).unwrap_or_default().to_owned()
    }
}

/// Every line of both builds that became code on either side, in the order of the new one, lines that are gone where they were.
/// Without PTX on a side the lines are matched by their numbers. None where there is no room for it.
pub fn line_changes(
    before: (&Kernel, &PtxText),
    after: (&Kernel, &PtxText),
    room: &mut Room,
) -> Option<Vec<LineChange>> {
    let (old, new) = (Side::new(before.0, before.1, room)?, Side::new(after.0, after.1, room)?);
    let pairs: Vec<(Option<Line>, Option<Line>)> = if old.keys.is_empty() || new.keys.is_empty() {
        let all: std::collections::BTreeSet<Line> = old.facts.keys().chain(new.facts.keys()).copied().collect();
        all.into_iter().map(|line| (Some(line), Some(line))).collect()
    } else {
        merged(&old, &new)
    };
    let change = |(b, a): (Option<Line>, Option<Line>)| {
        let was = b.and_then(|line| old.facts.get(&line));
        let is = a.and_then(|line| new.facts.get(&line));
        if was.is_none() && is.is_none() {
            return None;
        }
        let none = |side: &Side<'_>| side.spills_known.then_some(0);
        let text = a.map(|line| new.text(line)).or(b.map(|line| old.text(line))).unwrap_or_default();
        Some(LineChange {
            before_line: b,
            after_line: a,
            before_text: b.map(|line| old.text(line)).filter(|before| *before != text),
            text,
            live_before: was.and_then(|facts| facts.live),
            live_after: is.and_then(|facts| facts.live),
            spills_before: was.map_or_else(|| none(&old), |facts| facts.spills),
            spills_after: is.map_or_else(|| none(&new), |facts| facts.spills),
            instructions_before: was.map_or(0, |facts| facts.instructions),
            instructions_after: is.map_or(0, |facts| facts.instructions),
        })
    };
    Some(pairs.into_iter().filter_map(change).collect())
}

/// The lines that tell most about why it got worse, at most so many, in their order: new spills, new lines, more alive.
pub fn culprits(lines: Vec<LineChange>, most: usize) -> Vec<LineChange> {
    let peak = lines.iter().filter_map(|line| line.live_after).max().unwrap_or(0);
    let weight = |line: &LineChange| {
        let is_new = line.before_line.is_none() && line.instructions_after > 0;
        let gained = line.live_gained().max(0);
        let at_peak = gained > 0 && line.live_after == Some(peak);
        line.spills_gained().max(0) * 1000 + i64::from(is_new) * 500 + i64::from(at_peak) * 200 + gained
    };
    let mut ranked: Vec<(i64, usize)> =
        lines.iter().enumerate().map(|(at, line)| (-weight(line), at)).filter(|(weight, _)| *weight < 0).collect();
    ranked.sort_unstable();
    ranked.truncate(most);
    let mut chosen: Vec<usize> = ranked.into_iter().map(|(_, at)| at).collect();
    chosen.sort_unstable();
    let mut lines: Vec<Option<LineChange>> = lines.into_iter().map(Some).collect();
    chosen.into_iter().filter_map(|at| lines.get_mut(at)?.take()).collect()
}

/// All lines of both, matched ones together.
fn merged(old: &Side<'_>, new: &Side<'_>) -> Vec<(Option<Line>, Option<Line>)> {
    let mut all = Vec::with_capacity(old.numbers.len().max(new.numbers.len()));
    let (mut b, mut a) = (0, 0);
    let end = (old.numbers.len(), new.numbers.len());
    for (next_b, next_a) in align(&old.keys, &new.keys).into_iter().chain([end]) {
        all.extend(old.numbers[b..next_b].iter().map(|line| (Some(*line), None)));
        all.extend(new.numbers[a..next_a].iter().map(|line| (None, Some(*line))));
        if let (Some(before), Some(after)) = (old.numbers.get(next_b), new.numbers.get(next_a)) {
            all.push((Some(*before), Some(*after)));
        }
        (b, a) = (next_b + 1, next_a + 1);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_registers_and_labels_do_not_matter() {
        let key = |line: &str| statement_key(line);
        assert_eq!(key("  add.f32 \t%f1, %f2, %f30; // sum"), key("add.f32 %value7, %value8, %value9;"));
        assert_eq!(key("@%p1 bra $L__BB0_2;"), key("@%p9 bra $L_other;"));
        assert_ne!(key("mov.u32 %r1, %tid.x;"), key("mov.u32 %r1, %ctaid.x;"));
        assert_ne!(key("add.f32 %f1, %f2, %f3;"), key("mul.f32 %f1, %f2, %f3;"));
        assert_ne!(key("ld.global.f32 %f1, [%rd1+4];"), key("ld.global.f32 %f1, [%rd1+8];"));
        assert_eq!((key("// only a comment"), key(""), key("\t.loc 1 2 3")), (None, None, None));
    }

    #[test]
    fn lines_that_no_text_has_take_no_time_and_too_many_are_left_out() {
        let line = |number: u32| crate::report::LineFacts {
            ptx_line: Line(number),
            pcs: Vec::new(),
            padding: 0,
            live_gpr_max: Some(number % 7),
            spill_stores: None,
            spill_loads: None,
        };
        let kernel = Kernel { lines: vec![line(1), line(u32::MAX)], ..Kernel::default() };
        let other = Kernel { lines: vec![line(2), line(u32::MAX)], ..Kernel::default() };
        // By their own numbers, and by those that a marker gives them.
        for text in ["add.u32 %r1, %r1, 1;\nret;\n", "# 4294967290 \"a\"\nadd.u32 %r1, %r1, 1;\nret;\n"] {
            let ptx = PtxText::parse(text.to_owned());
            let mut room = Room(20);
            let changes = line_changes((&kernel, &ptx), (&other, &ptx), &mut room);
            assert!(changes.is_some_and(|changes| !changes.is_empty()), "{text}");
            assert!(room.0 > 0, "{text}");
        }
        let ptx = PtxText::parse("ret;\nret;\nret;\n".to_owned());
        assert!(line_changes((&kernel, &ptx), (&kernel, &ptx), &mut Room(5)).is_none());
    }
}
