//! One statement: its kind, its place, and what the simple directives say.

use super::constant;
use super::instruction::Instruction;
use super::lexer::{Kind, Lexer};
use super::variable::Declaration;
use crate::base::Line;

/// What a statement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum StatementKind {
    /// `.version 8.5`
    Version,
    /// `.target sm_90a, debug`
    Target,
    /// `.address_size 64`
    AddressSize,
    /// `.file 1 "kernel.cu"`
    File,
    /// `.loc 1 12 3, function_name $L__info_string0, inlined_at 1 30 5`
    Loc,
    /// `.section .debug_info { … }`, its contents included.
    Section,
    /// `.pragma "nounroll";`
    Pragma,
    /// `.alias f, g;`
    Alias,
    /// `.visible .entry k(…) .maxntid 128` up to its brace, or a declaration with its semicolon.
    Function,
    /// `{`
    ScopeOpen,
    /// `}`
    ScopeClose,
    /// A declaration in any state space, `.reg` included.
    Variable,
    /// `$L__BB0_2:`
    Label,
    /// An instruction with its guard.
    Instruction,
    /// `.branchtargets a, b;` (its label is the statement before).
    BranchTargets,
    /// `.calltargets f, g;` (its label is the statement before).
    CallTargets,
    /// `.callprototype (…) _ (…);` (its label is the statement before).
    CallPrototype,
    /// A directive that this parser does not know.
    Directive,
    /// `#line 3 "x.cu"`, `@@DWARF …`: a line that is kept as it is. See [`super::Module::line_markers`].
    WholeLine,
    /// What was skipped after a syntax error.
    Invalid,
}

/// A statement: its kind, the bytes it covers and its lines. Views take the text of the module it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    pub(super) start: u32,
    pub(super) end: u32,
    /// The line of its first token.
    pub first_line: Line,
    /// The line of its last token.
    pub last_line: Line,
    /// What it is.
    pub kind: StatementKind,
}

impl Statement {
    /// The bytes of the text that it covers.
    pub fn span(&self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Its text, terminator included.
    pub fn text<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.span()).unwrap_or("")
    }

    /// The identifiers and numbers it names, directive keywords and punctuation left out.
    pub fn words<'a>(&self, text: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut lexer = Lexer::new(self.text(text));
        std::iter::from_fn(move || {
            loop {
                let token = lexer.next();
                match token.kind {
                    Kind::Eof => return None,
                    Kind::Ident | Kind::Number => return Some(lexer.slice(token)),
                    _ => {}
                }
            }
        })
    }

    /// The strings it holds, without their quotes: those of `.pragma`.
    pub fn strings<'a>(&self, text: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut lexer = Lexer::new(self.text(text));
        std::iter::from_fn(move || {
            loop {
                let token = lexer.next();
                match token.kind {
                    Kind::Eof => return None,
                    Kind::String => return Some(lexer.slice(token).trim_matches('"')),
                    _ => {}
                }
            }
        })
    }

    /// The instruction, if it is one.
    pub fn instruction<'a>(&self, text: &'a str) -> Option<Instruction<'a>> {
        (self.kind == StatementKind::Instruction).then(|| Instruction::new(self.text(text)))
    }

    /// The declaration, if it is one.
    pub fn declaration<'a>(&self, text: &'a str) -> Option<Declaration<'a>> {
        (self.kind == StatementKind::Variable).then(|| Declaration::new(self.text(text)))
    }

    /// The name of the label, if it is one.
    pub fn label<'a>(&self, text: &'a str) -> Option<&'a str> {
        if self.kind != StatementKind::Label {
            return None;
        }
        self.words(text).next()
    }

    /// The numbers of a `.version`.
    pub fn version(&self, text: &str) -> Option<(u32, u32)> {
        if self.kind != StatementKind::Version {
            return None;
        }
        let (major, minor) = self.words(text).next()?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }

    /// The `.file`, if it is one.
    pub fn file<'a>(&self, text: &'a str) -> Option<File<'a>> {
        if self.kind != StatementKind::File {
            return None;
        }
        Some(File { index: number(self.words(text).next())?, name: self.strings(text).next()? })
    }

    /// The `.loc`, if it is one.
    pub fn loc<'a>(&self, text: &'a str) -> Option<Loc<'a>> {
        if self.kind != StatementKind::Loc {
            return None;
        }
        let mut words = self.words(text);
        let mut loc = Loc {
            position: Position {
                file: number(words.next())?,
                line: number(words.next())?,
                column: number(words.next()).unwrap_or(0),
            },
            function_name: None,
            inlined_at: None,
        };
        while let Some(word) = words.next() {
            match word {
                "function_name" => loc.function_name = words.next(),
                "inlined_at" => {
                    loc.inlined_at = Some(Position {
                        file: number(words.next())?,
                        line: number(words.next())?,
                        column: number(words.next()).unwrap_or(0),
                    });
                }
                _ => {}
            }
        }
        Some(loc)
    }
}

fn number(word: Option<&str>) -> Option<u32> {
    u32::try_from(constant::literal(word?)?).ok()
}

/// What a `.file` directive declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File<'a> {
    /// The number that `.loc` refers to.
    pub index: u32,
    /// Its path, as written, without the quotes.
    pub name: &'a str,
}

/// `#line 500 "kernel.cu"` or `# 500 "kernel.cu"`: from the line after it on, ptxas counts from 500.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineMarker<'a> {
    /// The line that the marker stands on.
    pub line: Line,
    /// The number that the line after it has for ptxas.
    pub number: u32,
    /// The file that ptxas then names in its messages.
    pub file: &'a str,
}

impl<'a> LineMarker<'a> {
    /// Reads a whole line; none if it is no marker.
    pub(super) fn new(text: &'a str, line: Line) -> Option<Self> {
        let rest = text.strip_prefix('#')?.trim_start();
        let rest = rest.strip_prefix("line").unwrap_or(rest).trim_start();
        let (number, file) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let file = file.trim_start().strip_prefix('"')?.split_once('"')?.0;
        Some(LineMarker { line, number: number.parse().ok()?, file })
    }
}

/// A place in a source of the front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// Number of the `.file`.
    pub file: u32,
    /// Line in it; 0 means that the compiler made it up.
    pub line: u32,
    /// Column in it; 0 when not known.
    pub column: u32,
}

/// A `.loc`: where the instructions after it come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loc<'a> {
    /// The place itself.
    pub position: Position,
    /// Label of the name of the function it was inlined from, in `.debug_str`.
    pub function_name: Option<&'a str>,
    /// Where that function was called.
    pub inlined_at: Option<Position>,
}
