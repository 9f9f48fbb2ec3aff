//! The PTX as a writer quotes it: by the numbers that ptxas gives lines, whole statements where a writer wants them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::base::Line;
use crate::ptx::{self, LineMarker, Module, Statement, StatementKind};

/// How much of a statement is put together; a writer has less room than this.
const STATEMENT_BYTES: usize = 1000;

/// A text cut into lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PtxText {
    text: String,
    starts: Vec<u32>,
    layout: Layout,
}

/// Where the lines of a text are not what their numbers say: statements over several lines, and `#line` markers, after
/// which ptxas counts anew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// First and last lines of the instructions that have more than one, ascending.
    wrapped: Vec<(Line, Line)>,
    /// The `#line` markers, ascending.
    markers: Vec<Marker>,
    /// The line for each of ptxas's numbers; markers can give two lines one number, and then an instruction's goes first.
    /// Empty where there are no markers.
    renumbered: BTreeMap<Line, Line>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Marker {
    line: Line,
    number: Line,
    file: String,
}

impl Layout {
    /// The layout of a parsed text.
    pub fn of(module: &Module<'_>) -> Self {
        let mut layout = Layout::default();
        let marker = |marker: &LineMarker<'_>| Marker {
            line: marker.line,
            number: Line(marker.number),
            file: marker.file.to_owned(),
        };
        layout.markers = module.line_markers().iter().map(marker).collect();
        let (instructions, others): (Vec<&Statement>, Vec<&Statement>) =
            module.statements().iter().partition(|statement| statement.kind == StatementKind::Instruction);
        let is_wrapped = |statement: &&&Statement| statement.first_line < statement.last_line;
        let wrapped = instructions.iter().filter(is_wrapped);
        layout.wrapped = wrapped.map(|statement| (statement.first_line, statement.last_line)).collect();
        if !layout.markers.is_empty() {
            for statement in instructions.into_iter().chain(others) {
                for line in (statement.first_line.0..=statement.last_line.0).map(Line) {
                    layout.renumbered.entry(module.number_of(line)).or_insert(line);
                }
            }
        }
        layout
    }

    /// The line of the text that ptxas numbers so, 0 if none.
    fn resolve(&self, number: Line) -> Line {
        match self.markers.is_empty() {
            true => number,
            false => self.renumbered.get(&number).copied().unwrap_or(Line(0)),
        }
    }

    /// The line of the text that a `#line` gives this place.
    fn place(&self, file: &str, number: Line) -> Option<Line> {
        let ends = self.markers.iter().skip(1).map(|next| next.line).chain([Line(u32::MAX)]);
        let mut stretches = self.markers.iter().zip(ends).filter(|(marker, _)| marker.file == file);
        stretches.find_map(|(marker, end)| {
            let offset = number.0.checked_sub(marker.number.0)?;
            let line = Line(marker.line.0.checked_add(1)?.checked_add(offset)?);
            (line < end).then_some(line)
        })
    }
}

impl PtxText {
    /// Takes a text whose lines end in `\n`, with or without `\r`. One of 4 GiB or more is kept as empty.
    pub fn new(text: String) -> Self {
        if u32::try_from(text.len()).is_err() {
            return PtxText::default();
        }
        let breaks = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at as u32 + 1)).collect();
        PtxText { text, starts, layout: Layout::default() }
    }

    /// The same with what its parser found.
    pub fn with(self, layout: Layout) -> Self {
        PtxText { layout, ..self }
    }

    /// The same with the layout read off the text.
    pub fn parse(text: String) -> Self {
        let layout = Layout::of(&ptx::parse(&text));
        PtxText::new(text).with(layout)
    }

    /// The text of the line that ptxas gives this number, without its end and the white space around it.
    pub fn line(&self, number: Line) -> Option<&str> {
        self.own_line(self.layout.resolve(number))
    }

    /// The numbers that ptxas gives lines of this text, from one to another, ascending.
    pub fn numbers(&self, first: Line, last: Line) -> impl Iterator<Item = Line> {
        let is_plain = self.layout.markers.is_empty();
        let plain = if is_plain { first.0..last.0.min(self.line_count()).saturating_add(1) } else { 0..0 };
        let last = last.max(first);
        plain.map(Line).chain(self.layout.renumbered.range(first..=last).map(|(number, _)| *number))
    }

    /// The statement around the line that ptxas gives this number: where it has several lines all of them, put together.
    pub fn statement(&self, number: Line) -> Option<Cow<'_, str>> {
        let line = self.layout.resolve(number);
        let after = self.layout.wrapped.partition_point(|(first, _)| *first <= line);
        let wrapped = after.checked_sub(1).and_then(|at| self.layout.wrapped.get(at));
        let Some(&(first, last)) = wrapped.filter(|(_, last)| line <= *last) else {
            return self.own_line(line).map(Cow::Borrowed);
        };
        let mut statement = String::new();
        for line in (first.0..=last.0).map_while(|line| self.own_line(Line(line))) {
            for word in without_comment(line).split_whitespace() {
                if !statement.is_empty() {
                    statement.push(' ');
                }
                statement.push_str(word);
            }
            if statement.len() > STATEMENT_BYTES {
                break;
            }
        }
        Some(Cow::Owned(statement))
    }

    /// The line of the text that a `#line` in it gives this place.
    pub fn place(&self, file: &str, number: Line) -> Option<Line> {
        self.layout.place(file, number)
    }

    /// A line by its own number, without its end and the white space around it.
    pub fn own_line(&self, line: Line) -> Option<&str> {
        self.raw_line(line).map(str::trim)
    }

    /// A line by its own number as it is written, its end included.
    pub fn raw_line(&self, line: Line) -> Option<&str> {
        let index = (line.0 as usize).checked_sub(1)?;
        let start = *self.starts.get(index)? as usize;
        let end = self.starts.get(index + 1).map_or(self.text.len(), |&next| next as usize);
        self.text.get(start..end)
    }

    /// How many lines there are; what follows the last line's end counts when there is something.
    pub fn line_count(&self) -> u32 {
        let ended = self.starts.last().is_some_and(|&last| last as usize == self.text.len());
        u32::try_from(self.starts.len()).unwrap_or(u32::MAX) - u32::from(ended)
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn without_comment(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(ptx: &str) -> PtxText {
        PtxText::parse(ptx.to_owned())
    }

    #[test]
    fn a_statement_is_quoted_from_its_first_line() {
        let text = text(
            ".version 8.0\n.target sm_80\n.entry k()\n{\n  call.uni (r), // the callee\n    f,\n    (p);\n  ret;\n}\n",
        );
        for line in 5..=7 {
            assert_eq!(text.statement(Line(line)).unwrap(), "call.uni (r), f, (p);", "line {line}");
        }
        assert_eq!(text.line(Line(6)), Some("f,"));
        assert_eq!(text.statement(Line(8)).unwrap(), "ret;");
        assert_eq!(text.statement(Line(40)), None);
    }

    /// ptxas 13.4 numbers the `add` 500 and the `st` 5, and says `ptxas b.h, line 5; error` of the latter.
    #[test]
    fn line_markers_renumber() {
        let text = text(concat!(
            ".version 8.0\n.target sm_80\n.entry k()\n{\n  .reg .f32 %f<2>;\n#line 500 \"a.h\"\n",
            "  add.f32\n %f1, %f1, %f1;\n# 5 \"b.h\"\n  st.f32 [0], %f1;\n  ret;\n}\n"
        ));
        assert_eq!(text.line(Line(4)), Some("{"));
        assert_eq!(text.statement(Line(500)).unwrap(), "add.f32 %f1, %f1, %f1;");
        assert_eq!(text.statement(Line(501)).unwrap(), "add.f32 %f1, %f1, %f1;");
        assert_eq!(text.line(Line(5)), Some("st.f32 [0], %f1;"));
        assert_eq!(text.line(Line(6)), Some("ret;"));
        assert_eq!(text.line(Line(503)), None);
        assert_eq!(text.place("b.h", Line(5)), Some(Line(10)));
        assert_eq!(text.place("a.h", Line(5)), None);
        assert_eq!(text.place("a.h", Line(502)), None);
    }
}
