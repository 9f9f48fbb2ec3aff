//! Tokens to statements: one pass, one token of lookahead, no recursion.
//!
//! A statement is checked for its shape only and kept as a span; the views read it again when asked.

mod directives;

use super::error::SyntaxError;
use super::lexer::{Kind, Lexer, Token};
use super::module::{Module, Outside};
use super::statement::{LineMarker, Statement, StatementKind};
use super::variable::{Linkage, StateSpace};
use crate::base::{Line, work};

/// Bytes of a token that an error shows.
const SHOWN: usize = 40;

/// Parses the text of a module. Total: what is not PTX is listed in [`Module::errors`], and the rest is parsed.
pub fn parse(text: &str) -> Module<'_> {
    // Offsets are 32 bits wide. What lies behind is not looked at, and said to be missing.
    let mut length = text.len().min(u32::MAX as usize - 1);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    let mut parser = Parser::new(text.get(..length).unwrap_or(""));
    while parser.token.kind != Kind::Eof {
        work::tick();
        parser.statement();
    }
    parser.end(length < text.len())
}

/// A statement that is not PTX: the error has been noted, the tokens up to the next statement are to be skipped.
struct Skip;

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token that comes next.
    token: Token,
    /// End of the token before it.
    last_end: u32,
    /// Line of the last byte of the token before it.
    last_line: u32,
    /// Whole lines that were passed since the last statement ended.
    lines: Vec<Token>,
    /// Brackets that are open within the statement.
    brackets: Vec<Kind>,
    /// Braces that are open around the statement.
    depth: u32,
    /// The function whose body is open.
    function: Option<usize>,
    /// Whether an instruction outside of any function has been noted since the last function.
    stray: bool,
    module: Module<'a>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        let module = Module {
            text,
            statements: Vec::new(),
            functions: Vec::new(),
            line_markers: Vec::new(),
            errors: Vec::new(),
            errors_left_out: 0,
            outside: Outside::default(),
        };
        let mut parser = Parser {
            lexer: Lexer::new(text),
            token: Token { kind: Kind::Eof, start: 0, end: 0, line: 1, line_start: 0 },
            last_end: 0,
            last_line: 1,
            lines: Vec::new(),
            brackets: Vec::new(),
            depth: 0,
            function: None,
            stray: false,
            module,
        };
        parser.fetch();
        parser.flush_lines();
        parser
    }

    fn end(mut self, cut: bool) -> Module<'a> {
        if cut {
            self.note("a text below 4 GiB");
        } else if self.depth > 0 {
            self.note("'}'");
        }
        self.close_function();
        self.module.statements.shrink_to_fit();
        self.module.find_names();
        self.module
    }

    // Tokens.

    #[inline]
    fn fetch(&mut self) {
        self.token = self.lexer.next_or_line();
        while self.token.kind == Kind::WholeLine {
            self.lines.push(self.token);
            let marker = LineMarker::new(self.lexer.slice(self.token), Line(self.token.line));
            self.module.line_markers.extend(marker);
            self.token = self.lexer.next_or_line();
        }
    }

    /// Takes the token that comes next.
    #[inline]
    fn bump(&mut self) -> Token {
        let token = self.token;
        self.last_end = token.end;
        self.last_line = token.line;
        if matches!(token.kind, Kind::String | Kind::OpenComment) {
            let newlines = self.lexer.slice(token).bytes().filter(|&byte| byte == b'\n').count();
            self.last_line += newlines as u32;
        }
        self.fetch();
        token
    }

    #[inline]
    fn at(&self, kind: Kind) -> bool {
        self.token.kind == kind
    }

    /// Takes the token that comes next if it is of this kind.
    fn eat(&mut self, kind: Kind) -> bool {
        let is = self.at(kind);
        if is {
            self.bump();
        }
        is
    }

    fn expect(&mut self, kind: Kind, expected: &'static str) -> Result<Token, Skip> {
        if self.at(kind) { Ok(self.bump()) } else { Err(self.wrong(expected)) }
    }

    /// The semicolon that ends a statement. When the next token begins a line it is only the semicolon that is missing,
    /// and the statement after it is whole.
    fn semicolon(&mut self, expected: &'static str) -> Result<(), Skip> {
        if self.eat(Kind::Semicolon) {
            return Ok(());
        }
        let skip = self.wrong(expected);
        let begins_line = self.token.line > self.last_line;
        if begins_line && matches!(self.token.kind, Kind::Ident | Kind::Dot | Kind::At | Kind::CloseBrace) {
            return Ok(());
        }
        Err(skip)
    }

    // Statements.

    #[inline]
    fn push(&mut self, first: Token, kind: StatementKind) {
        self.module.statements.push(Statement {
            start: first.start,
            end: self.last_end,
            first_line: Line(first.line),
            last_line: Line(self.last_line),
            kind,
        });
        if !self.lines.is_empty() {
            self.flush_lines();
        }
    }

    /// Whole lines behind the last statement become statements of their own; those within it belong to it.
    fn flush_lines(&mut self) {
        let mut lines = std::mem::take(&mut self.lines);
        for line in lines.drain(..).filter(|line| line.start >= self.last_end) {
            self.module.statements.push(Statement {
                start: line.start,
                end: line.end,
                first_line: Line(line.line),
                last_line: Line(line.line),
                kind: StatementKind::WholeLine,
            });
        }
        self.lines = lines;
    }

    fn next_id(&self) -> u32 {
        self.module.statements.len() as u32
    }

    fn statement(&mut self) {
        let first = self.token;
        self.brackets.clear();
        let parsed = match first.kind {
            Kind::Ident => {
                self.bump();
                if self.at(Kind::Colon) {
                    self.bump();
                    self.check_inside(first);
                    self.push(first, StatementKind::Label);
                    return;
                }
                self.check_inside(first);
                self.instruction(first)
            }
            Kind::At => {
                self.check_inside(first);
                self.guarded(first)
            }
            Kind::Dot => self.directive(first),
            Kind::OpenBrace => {
                if self.depth == 0 {
                    self.note("a directive of the module");
                }
                self.open(first);
                Ok(())
            }
            Kind::CloseBrace => {
                self.close(first);
                Ok(())
            }
            _ => Err(self.wrong("a statement")),
        };
        if parsed.is_err() {
            self.skip();
            self.push(first, StatementKind::Invalid);
        }
    }

    /// Notes the first instruction or label outside of any function.
    fn check_inside(&mut self, first: Token) {
        if self.depth == 0 && !self.stray {
            self.stray = true;
            self.note_at(first, "a directive of the module");
        }
    }

    fn open(&mut self, first: Token) {
        self.bump();
        self.depth = self.depth.saturating_add(1);
        self.push(first, StatementKind::ScopeOpen);
    }

    fn close(&mut self, first: Token) {
        if self.depth == 0 {
            self.note("a directive of the module");
        }
        self.bump();
        // The body ends with this very statement, before any whole line that follows it.
        let body_end = self.next_id() + 1;
        self.push(first, StatementKind::ScopeClose);
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0 {
            self.end_function(body_end);
        }
    }

    fn close_function(&mut self) {
        let body_end = self.next_id();
        self.end_function(body_end);
        self.depth = 0;
    }

    fn end_function(&mut self, body_end: u32) {
        if let Some(record) = self.function.take().and_then(|index| self.module.functions.get_mut(index)) {
            record.body.1 = body_end;
        }
    }

    fn guarded(&mut self, first: Token) -> Result<(), Skip> {
        self.bump();
        self.eat(Kind::Bang);
        self.expect(Kind::Ident, "a predicate register after '@'")?;
        self.expect(Kind::Ident, "an opcode after the guard")?;
        self.instruction(first)
    }

    /// An instruction whose opcode has been taken.
    fn instruction(&mut self, first: Token) -> Result<(), Skip> {
        while self.at(Kind::Dot) {
            self.bump();
        }
        if !self.at(Kind::Semicolon) {
            self.values(true)?;
        }
        self.semicolon("',' or ';' after an operand")?;
        self.push(first, StatementKind::Instruction);
        Ok(())
    }

    /// Operands or an initialiser: values and operators in turn, brackets of all kinds balanced. Stops before what cannot
    /// go on outside of any bracket. Keeps its own stack, so that nesting costs memory of its own size and no more.
    fn values(&mut self, commas: bool) -> Result<(), Skip> {
        self.brackets.clear();
        loop {
            // A value is due: signs and negations, then a name, a number or a bracket.
            match self.token.kind {
                Kind::Ident | Kind::Number => {
                    self.bump();
                }
                Kind::Minus | Kind::Plus | Kind::Bang | Kind::Tilde => {
                    self.bump();
                    continue;
                }
                kind @ (Kind::OpenBracket | Kind::OpenBrace | Kind::OpenParen) => {
                    self.bump();
                    if kind == Kind::OpenParen && self.at(Kind::Dot) && !self.at_fraction() {
                        // A cast: `(.u64) 5`.
                        self.bump();
                        self.expect(Kind::CloseParen, "')' after a type")?;
                        continue;
                    }
                    self.brackets.push(kind);
                    // `()` and `{}` may be empty, an address may not.
                    if kind == Kind::OpenBracket || !self.closes() {
                        continue;
                    }
                }
                // `.5`
                Kind::Dot if self.at_fraction() => {
                    self.bump();
                }
                _ => return Err(self.wrong("an operand")),
            }
            // A value is done: components, closing brackets, then an operator, a comma or the end.
            loop {
                match self.token.kind {
                    Kind::Comma if commas || !self.brackets.is_empty() => {
                        self.bump();
                        break;
                    }
                    Kind::Semicolon if self.brackets.is_empty() => return Ok(()),
                    Kind::Dot => {
                        self.bump();
                    }
                    Kind::CloseBracket | Kind::CloseBrace | Kind::CloseParen if self.closes() => {
                        self.bump();
                        self.brackets.pop();
                    }
                    // `table[2]`, `generic(x)`, `0xFF(x)`
                    kind @ (Kind::OpenBracket | Kind::OpenParen) => {
                        self.bump();
                        self.brackets.push(kind);
                        break;
                    }
                    Kind::Plus
                    | Kind::Minus
                    | Kind::Pipe
                    | Kind::Less
                    | Kind::Greater
                    | Kind::AddressSlice
                    | Kind::Colon
                    | Kind::Equals
                    | Kind::Binary => {
                        self.bump();
                        break;
                    }
                    _ => {
                        return match self.brackets.last() {
                            None => Ok(()),
                            Some(Kind::OpenBracket) => Err(self.wrong("',' or ']'")),
                            Some(Kind::OpenParen) => Err(self.wrong("',' or ')'")),
                            Some(_) => Err(self.wrong("',' or '}'")),
                        };
                    }
                }
            }
        }
    }

    /// Whether the token that comes next closes the innermost bracket.
    fn closes(&self) -> bool {
        matches!(
            (self.brackets.last(), self.token.kind),
            (Some(Kind::OpenBracket), Kind::CloseBracket)
                | (Some(Kind::OpenBrace), Kind::CloseBrace)
                | (Some(Kind::OpenParen), Kind::CloseParen)
        )
    }

    /// Whether the dotted word that comes next is a number such as `.5`.
    fn at_fraction(&self) -> bool {
        self.at(Kind::Dot) && self.lexer.slice(self.token).as_bytes().get(1).is_some_and(u8::is_ascii_digit)
    }

    // Errors.

    /// Notes that the token that comes next is not what was expected.
    fn wrong(&mut self, expected: &'static str) -> Skip {
        self.note(expected);
        Skip
    }

    fn note(&mut self, expected: &'static str) {
        self.note_at(self.token, expected);
    }

    fn note_at(&mut self, token: Token, expected: &'static str) {
        if self.module.errors.len() >= Module::MAX_ERRORS {
            self.module.errors_left_out = self.module.errors_left_out.saturating_add(1);
            return;
        }
        let text = self.lexer.slice(token);
        let (expected, found) = match token.kind {
            Kind::Eof => (expected, "end of file".into()),
            Kind::OpenComment => ("'*/' to end the comment", "end of file".into()),
            Kind::OpenString => ("'\"' to end the string", "end of file".into()),
            _ => (expected, shown(text)),
        };
        let column = token.start.saturating_sub(token.line_start).saturating_add(1);
        self.module.errors.push(SyntaxError { line: Line(token.line), column, expected, found });
    }

    /// Goes on to the next statement: behind a semicolon, or before a brace, a guard or a directive that begins a line.
    fn skip(&mut self) {
        let mut braces = self.brackets.iter().filter(|&&kind| kind == Kind::OpenBrace).count();
        let start = self.last_end;
        loop {
            let moved = self.last_end > start;
            match self.token.kind {
                Kind::Eof => return,
                Kind::Semicolon => {
                    self.bump();
                    return;
                }
                Kind::OpenBrace => braces += 1,
                Kind::CloseBrace if braces > 0 => braces -= 1,
                Kind::CloseBrace if self.depth > 0 && !self.brace_in_statement() => return,
                Kind::At | Kind::Dot if moved && self.token.line > self.last_line && self.begins_statement() => return,
                _ => {}
            }
            self.bump();
        }
    }

    /// Whether the brace that comes next closes a vector rather than a scope: the statement goes on behind it.
    fn brace_in_statement(&self) -> bool {
        let mut ahead = self.lexer;
        self.token.line == self.last_line && matches!(ahead.next().kind, Kind::Comma | Kind::Semicolon)
    }

    fn begins_statement(&self) -> bool {
        let word = self.lexer.slice(self.token);
        self.at(Kind::At)
            || matches!(word, ".entry" | ".func" | ".file" | ".section" | ".alias" | ".loc" | ".pragma" | ".version")
            || matches!(word, ".target" | ".address_size")
            || Linkage::of(word).is_some()
            || (StateSpace::of(word).is_some() && !word.contains("::"))
    }

    /// Goes on to the body or the end of a function header.
    fn skip_header(&mut self) {
        while !matches!(self.token.kind, Kind::OpenBrace | Kind::Semicolon | Kind::CloseBrace | Kind::Eof) {
            self.bump();
        }
    }
}

/// A token as an error shows it: in quotes, cut where it is long, without line breaks.
fn shown(text: &str) -> Box<str> {
    let mut end = text.len().min(SHOWN);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let more = if end < text.len() { "…" } else { "" };
    let start = text.get(..end).unwrap_or("").chars().map(|c| if c.is_control() { ' ' } else { c });
    format!("'{}{more}'", start.collect::<String>()).into_boxed_str()
}

#[cfg(test)]
mod tests;
