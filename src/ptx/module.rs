//! A parsed module: a flat list of statements over the text, and the functions as ranges of that list.

use std::borrow::Cow;
use std::ops::Range;

use super::constant;
use super::error::SyntaxError;
use super::header::Header;
use super::instruction::Instruction;
use super::operand::Items;
use super::registers::Registers;
use super::statement::{File, LineMarker, Loc, Statement, StatementKind};
use super::variable::{Declaration, Linkage, StateSpace};
use crate::base::{FastMap, Line};

/// The longest `L<n>` in a list of targets that is spelled out.
const MAX_RANGE: i64 = 1 << 16;

/// Index of a statement in [`Module::statements`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StatementId(pub u32);

/// Whether a function is launched or called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    /// `.entry`: a kernel.
    Entry,
    /// `.func`: a device function.
    Func,
}

/// A function as the parser found it; [`Function`] is the view that people use.
#[derive(Clone, Copy, Debug)]
pub(super) struct FunctionRecord {
    pub(super) kind: FunctionKind,
    pub(super) linkage: Option<Linkage>,
    /// Offsets of the name.
    pub(super) name: (u32, u32),
    /// The header statement.
    pub(super) header: u32,
    /// The statements of the body, both braces included; empty for a declaration.
    pub(super) body: (u32, u32),
}

impl FunctionRecord {
    fn is_definition(&self) -> bool {
        self.body.0 < self.body.1
    }
}

/// A PTX module over the text it was parsed from.
///
/// Compact: 20 bytes a statement. Operands, parameters and initialisers are read off the text when asked for.
#[derive(Clone, Debug)]
pub struct Module<'a> {
    pub(super) text: &'a str,
    pub(super) statements: Vec<Statement>,
    pub(super) functions: Vec<FunctionRecord>,
    pub(super) line_markers: Vec<LineMarker<'a>>,
    /// Where the text is not PTX, in order; at most [`Module::MAX_ERRORS`].
    pub errors: Vec<SyntaxError>,
    /// How many more errors there were than `errors` has room for.
    pub errors_left_out: u32,
    /// Found once: a module may have thousands of functions, each of which asks.
    pub(super) outside: Outside<'a>,
}

/// What names stand for outside of functions.
#[derive(Clone, Debug, Default)]
pub(super) struct Outside<'a> {
    /// Where variables are declared, in order.
    variables: Vec<u32>,
    /// Where shared ones are, by name.
    shared: FastMap<&'a str, u32>,
    /// Functions by name: the definition if there is one, else the first declaration.
    functions: FastMap<&'a str, u32>,
}

impl<'a> Module<'a> {
    /// The most errors that are listed; the rest are counted.
    pub const MAX_ERRORS: usize = 1000;

    /// The text that was parsed.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// All statements, in the order of the text. Every token of the text is inside exactly one.
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }

    /// One statement.
    pub fn statement(&self, id: StatementId) -> Option<&Statement> {
        self.statements.get(id.0 as usize)
    }

    /// What a `.loc` says; none for another statement.
    pub fn loc(&self, id: StatementId) -> Option<Loc<'a>> {
        self.statement(id)?.loc(self.text)
    }

    /// The statements that cover this line, in order.
    pub fn statements_at(&self, line: Line) -> &[Statement] {
        let from = self.statements.partition_point(|statement| statement.last_line < line);
        let rest = self.statements.get(from..).unwrap_or(&[]);
        let to = rest.partition_point(|statement| statement.first_line <= line);
        rest.get(..to).unwrap_or(&[])
    }

    /// The `#line` markers, in order. Lines of this module are those of the text; ptxas counts anew after each marker, in
    /// its messages and in its line table.
    pub fn line_markers(&self) -> &[LineMarker<'a>] {
        &self.line_markers
    }

    /// The lines of the text that ptxas gives this number. One, unless there are `#line` markers.
    pub fn lines_numbered(&self, number: Line) -> impl Iterator<Item = Line> + '_ {
        let first = Some((0, 1));
        let starts = first.into_iter().chain(self.line_markers.iter().map(|marker| (marker.line.0, marker.number)));
        let ends = self.line_markers.iter().map(|marker| marker.line.0).chain([u32::MAX]);
        starts.zip(ends).filter_map(move |((marker_line, start), end)| {
            let line = number.0.checked_sub(start)?.checked_add(marker_line)?.checked_add(1)?;
            (line <= end).then_some(Line(line))
        })
    }

    /// The number that ptxas gives a line of the text.
    pub fn number_of(&self, line: Line) -> Line {
        let after = self.line_markers.partition_point(|marker| marker.line < line);
        match after.checked_sub(1).and_then(|index| self.line_markers.get(index)) {
            Some(marker) => Line((line.0 - marker.line.0 - 1).saturating_add(marker.number)),
            None => line,
        }
    }

    /// Where in its line a part of the text begins, in characters from 1; none for what is no part of it.
    pub fn column_of(&self, part: &str) -> Option<u32> {
        let at = (part.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize)?;
        let before = self.text.get(..at)?;
        let line = before.rsplit('\n').next().unwrap_or(before);
        u32::try_from(line.chars().count() + 1).ok()
    }

    /// The two numbers of the first `.version`: (8, 5) for `.version 8.5`.
    pub fn version(&self) -> Option<(u32, u32)> {
        self.first(StatementKind::Version)?.version(self.text)
    }

    /// What the `.target` directives name, in order: `sm_90a`, `debug`.
    pub fn targets(&self) -> impl Iterator<Item = &'a str> + '_ {
        self.statements
            .iter()
            .filter(|statement| statement.kind == StatementKind::Target)
            .flat_map(|statement| statement.words(self.text))
    }

    /// The number of the first `.address_size`.
    pub fn address_size(&self) -> Option<u32> {
        self.first(StatementKind::AddressSize)?.words(self.text).next()?.parse().ok()
    }

    fn first(&self, kind: StatementKind) -> Option<&Statement> {
        self.statements.iter().find(|statement| statement.kind == kind)
    }

    /// What `.file` directives declare, in order.
    pub fn files(&self) -> impl Iterator<Item = File<'a>> + '_ {
        self.statements.iter().filter_map(|statement| statement.file(self.text))
    }

    /// The functions, declarations included, in order.
    pub fn functions(&self) -> impl ExactSizeIterator<Item = Function<'_, 'a>> {
        self.functions.iter().map(|record| Function { module: self, record })
    }

    /// The function with this name; its definition if there is one, else its first declaration.
    pub fn function(&self, name: &str) -> Option<Function<'_, 'a>> {
        let record = self.functions.get(*self.outside.functions.get(name)? as usize)?;
        Some(Function { module: self, record })
    }

    /// The function whose header or body covers this line, a definition before a declaration.
    pub fn function_at(&self, line: Line) -> Option<Function<'_, 'a>> {
        let index = self.functions.partition_point(|record| {
            self.statements.get(record.header as usize).is_some_and(|header| header.first_line <= line)
        });
        // Declarations may stand inside a body: the last function that begins before the line need not cover it.
        let before = self.functions.get(..index)?.iter().rev().map(|record| Function { module: self, record });
        let mut declaration = None;
        for function in before {
            let covers = function.lines().1 >= line;
            if function.is_definition() {
                return if covers { Some(function) } else { declaration };
            }
            if covers {
                declaration = declaration.or(Some(function));
            }
        }
        declaration
    }

    /// The variables declared outside of any function: `.global`, `.const`, `.shared`, `.tex` and so on.
    pub fn variables(&self) -> impl Iterator<Item = Declaration<'a>> + '_ {
        let statements = self.outside.variables.iter().filter_map(|at| self.statements.get(*at as usize));
        statements.filter_map(|statement| statement.declaration(self.text))
    }

    /// How many names `.shared` variables have that are declared outside of any function.
    pub fn shared_names(&self) -> usize {
        self.outside.shared.len()
    }

    /// Where a `.shared` variable is declared outside of any function.
    pub fn shared(&self, name: &str) -> Option<StatementId> {
        self.outside.shared.get(name).copied().map(StatementId)
    }

    /// Finds what names stand for, when all is parsed.
    pub(super) fn find_names(&mut self) {
        let mut names = Outside::default();
        let mut bodies = self.functions.iter().filter(|record| record.is_definition()).peekable();
        for (at, statement) in (0u32..).zip(&self.statements) {
            while bodies.next_if(|record| record.body.1 <= at).is_some() {}
            if bodies.peek().is_some_and(|record| record.body.0 <= at) {
                continue;
            }
            let Some(declaration) = statement.declaration(self.text) else { continue };
            names.variables.push(at);
            for declarator in declaration.names().filter(|_| declaration.space == StateSpace::Shared) {
                names.shared.entry(declarator.name).or_insert(at);
            }
        }
        for (at, function) in (0u32..).zip(self.functions()) {
            let known = names.functions.entry(function.name()).or_insert(at);
            let is_declaration = self.functions.get(*known as usize).is_some_and(|record| !record.is_definition());
            if is_declaration && function.is_definition() {
                *known = at;
            }
        }
        self.outside = names;
    }
}

/// A function of a module.
#[derive(Clone, Copy, Debug)]
pub struct Function<'m, 'a> {
    pub(super) module: &'m Module<'a>,
    pub(super) record: &'m FunctionRecord,
}

impl<'m, 'a> Function<'m, 'a> {
    /// Its name, as written.
    pub fn name(&self) -> &'a str {
        self.module.text.get(self.record.name.0 as usize..self.record.name.1 as usize).unwrap_or("")
    }

    /// Entry or device function.
    pub fn kind(&self) -> FunctionKind {
        self.record.kind
    }

    /// `.visible`, `.extern`, `.weak`, or none.
    pub fn linkage(&self) -> Option<Linkage> {
        self.record.linkage
    }

    /// Whether it has a body.
    pub fn is_definition(&self) -> bool {
        self.record.is_definition()
    }

    /// The module it belongs to.
    pub fn module(&self) -> &'m Module<'a> {
        self.module
    }

    /// Parameters, returned values, performance and cluster directives.
    pub fn header(&self) -> Header<'a> {
        let statement = self.module.statements.get(self.record.header as usize);
        Header::new(statement.map_or("", |statement| statement.text(self.module.text)))
    }

    /// First line of the header and last line of the body.
    pub fn lines(&self) -> (Line, Line) {
        let header = self.module.statements.get(self.record.header as usize);
        let last = self.body().last().or(header);
        (header.map_or(Line(1), |header| header.first_line), last.map_or(Line(1), |last| last.last_line))
    }

    /// Where the statements of its body are in [`Module::statements`], both braces included; empty for a declaration.
    pub fn body_range(&self) -> Range<u32> {
        self.record.body.0..self.record.body.1
    }

    /// The statements of its body.
    pub fn body(&self) -> &'m [Statement] {
        self.module.statements.get(self.record.body.0 as usize..self.record.body.1 as usize).unwrap_or(&[])
    }

    /// Its instructions in order, each with its place in the statement list and the `.loc` in force.
    pub fn instructions(&self) -> Instructions<'m, 'a> {
        Instructions { text: self.module.text, id: self.record.body.0, rest: self.body().iter(), loc: None }
    }

    /// Its declarations of one state space, nested scopes included, in order, each with its place.
    pub fn declarations(&self, space: StateSpace) -> impl Iterator<Item = (StatementId, Declaration<'a>)> + 'm {
        let text = self.module.text;
        (self.record.body.0..).zip(self.body()).filter_map(move |(id, statement)| {
            let declaration = statement.declaration(text)?;
            (declaration.space == space).then_some((StatementId(id), declaration))
        })
    }

    /// Its `.branchtargets`, `.calltargets` and `.callprototype` directives, each with its label, in order.
    pub fn tables(&self) -> impl Iterator<Item = Table<'m, 'a>> + use<'m, 'a> {
        let text = self.module.text;
        self.body().windows(2).filter_map(move |pair| {
            let [label, statement] = pair else { return None };
            let kinds = [StatementKind::BranchTargets, StatementKind::CallTargets, StatementKind::CallPrototype];
            if !kinds.contains(&statement.kind) {
                return None;
            }
            Some(Table { text, label: label.label(text)?, statement })
        })
    }

    /// The virtual registers it declares, ready to be looked up by name.
    pub fn registers(&self) -> Registers<'a> {
        Registers::new(self)
    }
}

/// A `.branchtargets`, `.calltargets` or `.callprototype` directive.
#[derive(Clone, Copy, Debug)]
pub struct Table<'m, 'a> {
    text: &'a str,
    /// The name that `brx.idx` or `call` refers to.
    pub label: &'a str,
    /// The directive.
    pub statement: &'m Statement,
}

impl<'a> Table<'_, 'a> {
    /// The labels or functions that it lists, in order; `L<2>` stands for `L0` and `L1`.
    pub fn targets(&self) -> impl Iterator<Item = Cow<'a, str>> + use<'a> {
        let items = match self.statement.text(self.text).split_once("targets") {
            Some((_, list)) => Items::new(list),
            None => Items::new(""),
        };
        items.flat_map(|item| {
            let (name, range) = match item.split_once('<') {
                Some((name, range)) => (name.trim_end(), range.split('>').next().unwrap_or("")),
                None => (item, ""),
            };
            // A range longer than the text could name is not followed: ptxas refuses it too.
            let count = constant::literal(range.trim()).filter(|&count| (0..=MAX_RANGE).contains(&count));
            let single = count.is_none().then_some(Cow::Borrowed(name));
            let several = (0..count.unwrap_or(0)).map(move |number| Cow::Owned(format!("{name}{number}")));
            single.into_iter().chain(several)
        })
    }
}

/// An instruction with what surrounds it.
#[derive(Clone, Copy, Debug)]
pub struct Located<'a> {
    /// Its place in [`Module::statements`].
    pub id: StatementId,
    /// Its first line.
    pub line: Line,
    /// Its last line.
    pub last_line: Line,
    /// The instruction itself.
    pub instruction: Instruction<'a>,
    /// The `.loc` in force, see [`Module::loc`].
    pub loc: Option<StatementId>,
}

/// The instructions of a function, see [`Function::instructions`].
#[derive(Clone, Debug)]
pub struct Instructions<'m, 'a> {
    text: &'a str,
    id: u32,
    rest: std::slice::Iter<'m, Statement>,
    loc: Option<StatementId>,
}

impl<'a> Iterator for Instructions<'_, 'a> {
    type Item = Located<'a>;

    fn next(&mut self) -> Option<Located<'a>> {
        loop {
            let statement = self.rest.next()?;
            let id = StatementId(self.id);
            self.id += 1;
            match statement.kind {
                StatementKind::Loc => self.loc = Some(id),
                StatementKind::Instruction => {
                    return Some(Located {
                        id,
                        line: statement.first_line,
                        last_line: statement.last_line,
                        instruction: Instruction::new(statement.text(self.text)),
                        loc: self.loc,
                    });
                }
                _ => {}
            }
        }
    }
}
