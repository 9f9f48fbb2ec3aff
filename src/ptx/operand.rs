//! Operands, read off the text when asked for.

use super::constant;
use super::lexer::{Kind, Lexer};

/// The items of a list, split at its outer commas: operands, elements, parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Items<'a> {
    lexer: Lexer<'a>,
    done: bool,
}

impl<'a> Items<'a> {
    /// Splits a text without its brackets; a semicolon ends it.
    pub(super) fn new(text: &'a str) -> Self {
        Items::from_lexer(Lexer::new(text))
    }

    /// Goes on where a lexer stands.
    pub(super) fn from_lexer(lexer: Lexer<'a>) -> Self {
        Items { lexer, done: false }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        if self.done {
            return None;
        }
        let first = self.lexer.next();
        let (start, mut end) = (first.start, first.start);
        let mut token = first;
        let mut depth = 0_u32;
        loop {
            match token.kind {
                Kind::OpenParen | Kind::OpenBrace | Kind::OpenBracket => depth += 1,
                Kind::CloseParen | Kind::CloseBrace | Kind::CloseBracket => depth = depth.saturating_sub(1),
                Kind::Comma if depth == 0 => return Some(self.lexer.between(start, end)),
                Kind::Semicolon | Kind::Eof => {
                    self.done = true;
                    let item = self.lexer.between(start, end);
                    return (!item.is_empty()).then_some(item);
                }
                _ => {}
            }
            end = token.end;
            token = self.lexer.next();
        }
    }
}

/// The operands of an instruction, or the elements of a vector, an address or a list.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a> {
    items: Items<'a>,
}

impl<'a> Operands<'a> {
    pub(super) fn new(items: Items<'a>) -> Self {
        Operands { items }
    }
}

impl<'a> Iterator for Operands<'a> {
    type Item = Operand<'a>;

    fn next(&mut self) -> Option<Operand<'a>> {
        self.items.next().map(|text| Operand { text })
    }
}

/// One operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand<'a> {
    text: &'a str,
}

/// What an operand looks like.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'a> {
    /// `%r1`, `%tid.x`, `%v.b0`, `$L__BB0_2`, `buffer`, `_`: a register, a variable, a function, a label or the sink.
    Name {
        /// The name itself.
        name: &'a str,
        /// `x` in `%tid.x`, `unified` and the like.
        component: Option<&'a str>,
    },
    /// `!%p1`
    Not(Operand<'a>),
    /// `-%r1`
    Minus(Operand<'a>),
    /// `12`, `-1`, `0x1fU`, `0f3F800000`, `1.5`: one number, with its sign.
    Number(&'a str),
    /// `{%f1, %f2}`
    Vector(Operands<'a>),
    /// `[%rd1+16]`, `[map, {%r1, %r2}]`
    Address(Operands<'a>),
    /// `(param0, param1)`
    List(Operands<'a>),
    /// `%p1|%p2`
    Pair(Operand<'a>, Operand<'a>),
    /// Anything else: `buffer+4`, `table[2]`, `(1<<4)|3`, `a:b`.
    Expression,
}

impl<'a> Operand<'a> {
    /// It, as written.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// What it looks like.
    pub fn shape(&self) -> Shape<'a> {
        let mut lexer = Lexer::new(self.text);
        let first = lexer.next();
        let after_first = lexer;
        let rest = Operand { text: self.text.get(first.end as usize..).unwrap_or("").trim_start() };
        match first.kind {
            Kind::Bang if rest.name().is_some() => Shape::Not(rest),
            Kind::Minus if rest.name().is_some() => Shape::Minus(rest),
            Kind::Minus | Kind::Plus => {
                let number = lexer.next();
                let alone = number.kind == Kind::Number && lexer.next().kind == Kind::Eof;
                if alone { Shape::Number(self.text) } else { Shape::Expression }
            }
            Kind::Number if lexer.next().kind == Kind::Eof => Shape::Number(self.text),
            Kind::OpenBrace | Kind::OpenBracket | Kind::OpenParen => {
                let inside = Operands::new(Items::new(lexer.group(first)));
                let mut next = lexer.next();
                let end = next.start;
                while next.kind == Kind::Dot {
                    // `[%rd1].unified`
                    next = lexer.next();
                }
                match (first.kind, next.kind) {
                    (Kind::OpenBrace, Kind::Eof) => Shape::Vector(inside),
                    (Kind::OpenBracket, Kind::Eof) => Shape::Address(inside),
                    (Kind::OpenParen, Kind::Eof) => Shape::List(inside),
                    (Kind::OpenBrace, Kind::Pipe) => self.pair(end, next.end),
                    _ => Shape::Expression,
                }
            }
            Kind::Ident => {
                let mut next = after_first;
                let mut token = next.next();
                let component = (token.kind == Kind::Dot).then(|| next.slice(token).trim_start_matches('.'));
                if component.is_some() {
                    token = next.next();
                }
                match token.kind {
                    Kind::Eof => Shape::Name { name: lexer.slice(first), component },
                    Kind::Pipe => self.pair(token.start, token.end),
                    _ => Shape::Expression,
                }
            }
            _ => Shape::Expression,
        }
    }

    fn pair(&self, left_end: u32, right_start: u32) -> Shape<'a> {
        let left = self.text.get(..left_end as usize).unwrap_or("").trim_end();
        let right = self.text.get(right_start as usize..).unwrap_or("").trim_start();
        Shape::Pair(Operand { text: left }, Operand { text: right })
    }

    /// The name, if it is one, without its component.
    pub fn name(&self) -> Option<&'a str> {
        let mut lexer = Lexer::new(self.text);
        let name = lexer.next();
        let mut next = lexer.next();
        if next.kind == Kind::Dot {
            next = lexer.next();
        }
        (name.kind == Kind::Ident && next.kind == Kind::Eof).then(|| lexer.slice(name))
    }

    /// The value, if it is an integer constant expression.
    pub fn value(&self) -> Option<i64> {
        constant::evaluate(self.text)
    }

    /// The bits of a float that is written by them: `0f3F800000`, `0d3FF0000000000000`.
    pub fn float_bits(&self) -> Option<u64> {
        let text = self.text.trim();
        let (start, digits) = text.split_at_checked(2)?;
        let bits = match start {
            "0f" | "0F" if digits.len() == 8 => digits,
            "0d" | "0D" if digits.len() == 16 => digits,
            _ => return None,
        };
        u64::from_str_radix(bits, 16).ok()
    }

    /// The base, the byte offset and what else is between the brackets, if it is an address.
    pub fn address(&self) -> Option<Address<'a>> {
        let Shape::Address(mut inside) = self.shape() else { return None };
        let first = inside.next()?.text;
        let mut lexer = Lexer::new(first);
        let base = lexer.next();
        if base.kind != Kind::Ident {
            return Some(Address { base: None, offset: constant::evaluate(first), rest: inside });
        }
        let sign = lexer.next();
        let offset = match sign.kind {
            Kind::Eof => Some(0),
            // The sign belongs to the expression: `[%rd1-16]`, `[%rd1+-16]`.
            Kind::Plus | Kind::Minus => constant::evaluate(lexer.between(sign.start, first.len() as u32)),
            _ => None,
        };
        Some(Address { base: Some(lexer.slice(base)), offset, rest: inside })
    }
}

/// An address operand.
#[derive(Clone, Copy, Debug)]
pub struct Address<'a> {
    /// The register or variable it starts from; none for an absolute address.
    pub base: Option<&'a str>,
    /// Bytes added to it; none if it is no plain constant.
    pub offset: Option<i64>,
    /// What follows a comma: tensor coordinates, a sampler.
    pub rest: Operands<'a>,
}
