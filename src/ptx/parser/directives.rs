//! Statements that begin with a dot: directives, variables and functions.

use super::{Parser, Skip};
use crate::ptx::lexer::{Kind, Token};
use crate::ptx::module::{FunctionKind, FunctionRecord};
use crate::ptx::statement::StatementKind;
use crate::ptx::variable::{Linkage, StateSpace};

impl Parser<'_> {
    pub(super) fn directive(&mut self, first: Token) -> Result<(), Skip> {
        let name = self.lexer.slice(first);
        let kind = match name {
            ".loc" => {
                self.bump();
                self.loc()?;
                StatementKind::Loc
            }
            ".version" => {
                self.bump();
                self.expect(Kind::Number, "a version such as 8.5")?;
                StatementKind::Version
            }
            ".target" => {
                self.bump();
                self.expect(Kind::Ident, "an architecture such as sm_90a")?;
                while self.eat(Kind::Comma) {
                    self.expect(Kind::Ident, "a target or an option such as debug")?;
                }
                StatementKind::Target
            }
            ".address_size" => {
                self.bump();
                self.expect(Kind::Number, "32 or 64")?;
                StatementKind::AddressSize
            }
            ".file" => {
                self.bump();
                self.expect(Kind::Number, "the number of the file")?;
                self.expect(Kind::String, "the path of the file in quotes")?;
                while self.eat(Kind::Comma) {
                    self.expect(Kind::Number, "a time stamp or a size")?;
                }
                StatementKind::File
            }
            ".section" => {
                self.bump();
                self.section()?;
                StatementKind::Section
            }
            ".pragma" => {
                self.bump();
                self.strings()?;
                self.semicolon("',' or ';'")?;
                StatementKind::Pragma
            }
            ".alias" => {
                self.bump();
                self.names()?;
                self.semicolon("',' or ';'")?;
                StatementKind::Alias
            }
            ".branchtargets" | ".calltargets" => {
                self.bump();
                self.names()?;
                self.semicolon("',' or ';'")?;
                if name == ".branchtargets" { StatementKind::BranchTargets } else { StatementKind::CallTargets }
            }
            ".callprototype" => {
                self.bump();
                self.signature(&mut (0, 0))?;
                self.header_directives()?;
                self.semicolon("';' after a prototype")?;
                StatementKind::CallPrototype
            }
            ".entry" | ".func" | ".align" | ".attribute" => return self.declaration(first),
            _ if StateSpace::of(name).is_some() || Linkage::of(name).is_some() => return self.declaration(first),
            _ => {
                self.unknown_directive();
                StatementKind::Directive
            }
        };
        self.push(first, kind);
        Ok(())
    }

    /// `.loc 1 12 3, function_name $L__info_string0+4, inlined_at 1 30 5`; nothing ends it.
    fn loc(&mut self) -> Result<(), Skip> {
        self.expect(Kind::Number, "the number of a file")?;
        self.expect(Kind::Number, "a line")?;
        // A number at the start of a line cannot begin a statement, so it is the column wherever it stands.
        self.eat(Kind::Number);
        while self.eat(Kind::Comma) {
            self.expect(Kind::Ident, "function_name or inlined_at")?;
            if self.eat(Kind::Ident) {
                if self.eat(Kind::Plus) {
                    self.expect(Kind::Number, "an offset")?;
                }
            } else {
                while self.eat(Kind::Number) {}
            }
        }
        Ok(())
    }

    /// `.section .debug_info { .b32 1 … }`: the contents are DWARF for somebody else.
    fn section(&mut self) -> Result<(), Skip> {
        if !self.eat(Kind::Ident) {
            self.expect(Kind::Dot, "the name of the section")?;
        }
        self.expect(Kind::OpenBrace, "'{'")?;
        while !self.at(Kind::CloseBrace) {
            match self.token.kind {
                Kind::Eof | Kind::OpenBrace | Kind::OpenComment | Kind::OpenString | Kind::Unknown => {
                    return Err(self.wrong("data or '}'"));
                }
                _ => self.bump(),
            };
        }
        self.bump();
        Ok(())
    }

    fn strings(&mut self) -> Result<(), Skip> {
        self.expect(Kind::String, "a string")?;
        while self.eat(Kind::Comma) {
            self.expect(Kind::String, "a string")?;
        }
        Ok(())
    }

    /// `a, b, c<4>`
    fn names(&mut self) -> Result<(), Skip> {
        loop {
            self.expect(Kind::Ident, "a name")?;
            self.range()?;
            if !self.eat(Kind::Comma) {
                return Ok(());
            }
        }
    }

    /// `<100>`, if it is there.
    fn range(&mut self) -> Result<(), Skip> {
        if self.eat(Kind::Less) {
            self.expect(Kind::Number, "the size of the range")?;
            self.expect(Kind::Greater, "'>'")?;
        }
        Ok(())
    }

    /// Whatever a newer PTX may bring: up to a semicolon, or to the end of the line.
    fn unknown_directive(&mut self) {
        self.bump();
        let mut braces = 0_u32;
        loop {
            let continues = self.token.line == self.last_line || braces > 0;
            match self.token.kind {
                Kind::Eof | Kind::OpenComment | Kind::OpenString | Kind::Unknown => {
                    if braces > 0 {
                        self.note("'}'");
                    }
                    return;
                }
                Kind::Semicolon if braces == 0 => {
                    self.bump();
                    return;
                }
                Kind::OpenBrace if continues || self.depth == 0 => braces += 1,
                Kind::CloseBrace if braces == 0 => return,
                Kind::CloseBrace => {
                    braces -= 1;
                    if braces == 0 && self.depth == 0 {
                        self.bump();
                        return;
                    }
                }
                _ if continues => {}
                Kind::Comma => {}
                _ if self.after_comma() => {}
                _ => return,
            }
            self.bump();
        }
    }

    fn after_comma(&self) -> bool {
        let before = self.lexer.between(self.last_end.saturating_sub(1), self.last_end);
        before == ","
    }

    /// A variable or a function, whose specifiers come in many orders.
    fn declaration(&mut self, first: Token) -> Result<(), Skip> {
        let mut linkage = None;
        while self.at(Kind::Dot) {
            let word = self.lexer.slice(self.token);
            match word {
                ".entry" => return self.function(first, FunctionKind::Entry, linkage),
                ".func" => return self.function(first, FunctionKind::Func, linkage),
                _ => {
                    linkage = Linkage::of(word).or(linkage);
                    self.specifier()?;
                }
            }
        }
        loop {
            self.expect(Kind::Ident, "a type or a name")?;
            self.range()?;
            self.dimensions()?;
            if self.eat(Kind::Equals) {
                self.values(false)?;
            }
            if !self.eat(Kind::Comma) {
                break;
            }
        }
        self.semicolon("',' or ';' after a declaration")?;
        self.push(first, StatementKind::Variable);
        Ok(())
    }

    /// `.global`, `.align 16`, `.attribute(.managed)`, `.const[2]`, `.v4`, `.f32`, `.ptr`
    fn specifier(&mut self) -> Result<(), Skip> {
        let token = self.bump();
        match self.lexer.slice(token) {
            ".align" => {
                self.expect(Kind::Number, "an alignment in bytes")?;
            }
            ".attribute" => self.attribute()?,
            ".const" if self.eat(Kind::OpenBracket) => {
                self.expect(Kind::Number, "the number of a bank")?;
                self.expect(Kind::CloseBracket, "']'")?;
            }
            _ => {}
        }
        Ok(())
    }

    /// `(.unified(1, 2), .managed)` after `.attribute`.
    fn attribute(&mut self) -> Result<(), Skip> {
        self.expect(Kind::OpenParen, "'('")?;
        let mut depth = 1_u32;
        while depth > 0 {
            match self.token.kind {
                Kind::OpenParen => depth += 1,
                Kind::CloseParen => depth -= 1,
                Kind::Dot | Kind::Number | Kind::Comma | Kind::Ident => {}
                _ => return Err(self.wrong("an attribute or ')'")),
            }
            self.bump();
        }
        Ok(())
    }

    /// `[4][2]`, `[]`
    fn dimensions(&mut self) -> Result<(), Skip> {
        while self.eat(Kind::OpenBracket) {
            if !self.at(Kind::CloseBracket) {
                self.values(false)?;
            }
            self.expect(Kind::CloseBracket, "']'")?;
        }
        Ok(())
    }

    fn function(&mut self, first: Token, kind: FunctionKind, linkage: Option<Linkage>) -> Result<(), Skip> {
        self.bump();
        let mut name = (first.start, first.start);
        if self.signature(&mut name).and_then(|()| self.header_directives()).is_err() {
            self.skip_header();
        }
        let has_body = self.at(Kind::OpenBrace);
        if has_body && self.depth > 0 {
            self.note_at(first, "'}' before the next function");
            self.close_function();
        }
        if !has_body {
            // `.extern .func f()` without a semicolon is fine with ptxas.
            self.eat(Kind::Semicolon);
        }
        let header = self.next_id();
        self.push(first, StatementKind::Function);
        let body = self.next_id();
        self.module.functions.push(FunctionRecord { kind, linkage, name, header, body: (body, body) });
        if has_body {
            self.stray = false;
            self.function = Some(self.module.functions.len() - 1);
            let brace = self.token;
            self.open(brace);
        }
        Ok(())
    }

    /// `.attribute(…) (returned values) name (parameters)`; leaves the offsets of the name.
    fn signature(&mut self, name: &mut (u32, u32)) -> Result<(), Skip> {
        while self.at(Kind::Dot) {
            self.specifier()?;
        }
        if self.at(Kind::OpenParen) {
            self.parameters()?;
        }
        let token = self.expect(Kind::Ident, "the name of a function")?;
        *name = (token.start, token.end);
        if self.at(Kind::OpenParen) {
            self.parameters()?;
        }
        Ok(())
    }

    fn parameters(&mut self) -> Result<(), Skip> {
        self.bump();
        if self.eat(Kind::CloseParen) {
            return Ok(());
        }
        loop {
            if !self.at(Kind::Dot) {
                return Err(self.wrong("a parameter"));
            }
            while self.at(Kind::Dot) {
                self.specifier()?;
            }
            self.expect(Kind::Ident, "a type or the name of a parameter")?;
            self.dimensions()?;
            if self.eat(Kind::CloseParen) {
                return Ok(());
            }
            self.expect(Kind::Comma, "',' or ')'")?;
        }
    }

    /// `.maxntid 128, 1, 1 .pragma "nounroll"; .minnctapersm 2`, and those not known yet.
    fn header_directives(&mut self) -> Result<(), Skip> {
        while self.at(Kind::Dot) {
            let name = self.lexer.slice(self.token);
            // What can begin a statement does: a declaration without semicolon has ended.
            if matches!(name, ".entry" | ".func" | ".file" | ".section" | ".alias" | ".loc")
                || StateSpace::of(name).is_some()
                || Linkage::of(name).is_some()
            {
                return Ok(());
            }
            if name == ".attribute" {
                self.specifier()?;
                continue;
            }
            self.bump();
            if name == ".pragma" {
                self.strings()?;
                // It belongs to the pragma if the header goes on.
                if self.at(Kind::Semicolon) {
                    self.bump();
                }
                continue;
            }
            if matches!(self.token.kind, Kind::Number | Kind::Ident | Kind::String) {
                loop {
                    if !matches!(self.token.kind, Kind::Number | Kind::Ident | Kind::String) {
                        return Err(self.wrong("an argument"));
                    }
                    self.bump();
                    if !self.eat(Kind::Comma) {
                        break;
                    }
                }
            }
        }
        if matches!(self.token.kind, Kind::OpenBrace | Kind::Semicolon | Kind::Eof) {
            return Ok(());
        }
        // A declaration without semicolon ends where a line does.
        if self.token.line > self.last_line { Ok(()) } else { Err(self.wrong("a directive, '{' or ';'")) }
    }
}
