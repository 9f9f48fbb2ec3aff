//! Source lines inside of inline assembly.
//!
//! LLVM gives each line of the text of an `asm` statement a `.loc` of its own: the line of the statement, one more for each further line of
//! the text. Text that a compiler made (Triton's) has no lines in the source, so that such lines are those of what happens to stand below
//! the statement, or past the end of the file.

use super::Module;
use crate::base::{FastMap, Line};

/// What LLVM writes around the text of an `asm` statement.
const BEGIN: &str = "// begin inline asm";
const END: &str = "// end inline asm";

/// `.loc file line column`, and whether that is all.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Loc {
    file: u32,
    line: u32,
    column: u32,
}

impl Loc {
    fn parse(line: &str) -> Option<Loc> {
        let rest = line.strip_prefix(".loc").filter(|rest| rest.starts_with([' ', '\t']))?;
        let mut words = rest.split([' ', '\t', ',']).filter(|word| !word.is_empty()).map(str::parse);
        let mut number = || words.next()?.ok();
        Some(Loc { file: number()?, line: number()?, column: number()? })
    }
}

/// By line of the PTX, where the source line of its instructions is one that was counted up: that line, and the line of the statement.
pub fn counted_lines(module: &Module<'_>) -> FastMap<Line, (Line, Line)> {
    let mut counted = FastMap::default();
    let mut is_inside = false;
    // The statement's place, and the last line that was counted.
    let mut statement: Option<(Loc, u32)> = None;
    let mut current = None;
    for (number, line) in (1..).zip(module.text().lines()) {
        let line = line.trim_start();
        if line.starts_with(BEGIN) {
            (is_inside, statement) = (true, None);
        } else if line.starts_with(END) {
            (is_inside, statement) = (false, None);
        } else if let Some(loc) = Loc::parse(line) {
            let goes_on = |(first, last): &(Loc, u32)| {
                let next = Loc { line: first.line, ..loc };
                next == *first && last.checked_add(1) == Some(loc.line) && !line.contains("inlined_at")
            };
            match statement.filter(|known| is_inside && goes_on(known)) {
                Some((first, _)) => {
                    statement = Some((first, loc.line));
                    current = Some((Line(loc.line), Line(first.line)));
                }
                None => {
                    statement = is_inside.then_some((loc, loc.line));
                    current = None;
                }
            }
        } else if let Some(found) = current {
            // What follows the text has no `.loc` where it belongs to the same place as the statement.
            counted.insert(module.number_of(Line(number)), found);
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx;

    #[test]
    fn lines_that_are_counted_up_belong_to_the_statement() {
        let text = ".loc 1 116 11\nmov.u32 %r1, 0;\n// begin inline asm\n\t.loc\t1 116 11 // k.py:116:11\nmov.u32 %r1, %r5;\n\
                    .loc 1 117 11\nmov.u32 %r2, %r5;\n.loc 1 118 11\nld.global.v2.b32 {%r1, %r2}, [%rd1];\n\n// end inline asm\n\
                    add.u32 %r1, %r1, 1;\n.loc 1 117 5\nadd.u32 %r2, %r2, 1;\n// begin inline asm\n.loc 1 118 5\nnop;\n// end inline asm\n";
        let counted = counted_lines(&ptx::parse(text));
        let mut found: Vec<(u32, u32, u32)> = counted.iter().map(|(at, (is, of))| (at.0, is.0, of.0)).collect();
        found.sort_unstable();
        assert_eq!(found, [(7, 117, 116), (9, 118, 116), (10, 118, 116), (12, 118, 116)]);
    }
}
