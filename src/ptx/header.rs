//! The header of a function: parameters, returned values, performance and cluster directives.

use super::constant;
use super::lexer::{Kind, Lexer, Token};
use super::operand::Items;
use super::variable::Declaration;

/// The header of a function, from its linkage to its brace.
///
/// `.visible .entry k(.param .u64 p) .maxntid 128, 1, 1 .minnctapersm 2`
#[derive(Clone, Copy, Debug)]
pub struct Header<'a> {
    returns: &'a str,
    params: &'a str,
    attribute: Option<&'a str>,
    /// From the first directive after the parameters.
    directives: &'a str,
}

impl<'a> Header<'a> {
    /// Reads the text of a function statement.
    pub(super) fn new(text: &'a str) -> Self {
        let mut header = Header { returns: "", params: "", attribute: None, directives: "" };
        let mut lexer = Lexer::new(text);
        let mut attribute_next = false;
        let mut token = lexer.next();
        // Up to the name: linkage, .entry or .func, .attribute(…), (returned values).
        loop {
            match token.kind {
                Kind::Eof | Kind::Semicolon => return header,
                Kind::Ident => break,
                Kind::OpenParen => {
                    let inside = lexer.group(token);
                    if attribute_next {
                        header.attribute = Some(inside)
                    } else {
                        header.returns = inside
                    }
                    attribute_next = false;
                }
                _ => attribute_next = lexer.slice(token) == ".attribute",
            }
            token = lexer.next();
        }
        token = lexer.next();
        if token.kind == Kind::OpenParen {
            header.params = lexer.group(token);
            token = lexer.next();
        }
        header.directives = text.get(token.start as usize..).unwrap_or("");
        header
    }

    /// Its parameters, in order.
    pub fn params(&self) -> impl Iterator<Item = Declaration<'a>> + use<'a> {
        Items::new(self.params).map(Declaration::new)
    }

    /// The values it returns, in order; none for an entry.
    pub fn returns(&self) -> impl Iterator<Item = Declaration<'a>> + use<'a> {
        Items::new(self.returns).map(Declaration::new)
    }

    /// The text in the parentheses of `.attribute(.unified(…))`.
    pub fn attribute(&self) -> Option<&'a str> {
        self.attribute
    }

    /// The directives after the parameters, in order, unknown ones included.
    pub fn directives(&self) -> Directives<'a> {
        let mut lexer = Lexer::new(self.directives);
        Directives { next: lexer.next(), lexer }
    }

    /// Whether it has a directive, named with its dot.
    pub fn has(&self, name: &str) -> bool {
        self.directives().any(|directive| directive.name == name)
    }

    /// The first number of a directive: 64 for `.maxnreg 64`.
    pub fn value(&self, name: &str) -> Option<u32> {
        self.directives().find(|directive| directive.name == name)?.numbers().next()
    }

    /// The three numbers of a directive, 1 where not given: (128, 1, 1) for `.maxntid 128`.
    fn dimensions(&self, name: &str) -> Option<[u32; 3]> {
        let directive = self.directives().find(|directive| directive.name == name)?;
        let mut dimensions = [1; 3];
        for (dimension, number) in dimensions.iter_mut().zip(directive.numbers()) {
            *dimension = number;
        }
        Some(dimensions)
    }

    /// `.maxntid`: the most threads a block has.
    pub fn max_threads(&self) -> Option<[u32; 3]> {
        self.dimensions(".maxntid")
    }

    /// `.reqntid`: the threads a block has.
    pub fn required_threads(&self) -> Option<[u32; 3]> {
        self.dimensions(".reqntid")
    }

    /// `.minnctapersm`: blocks that shall fit on an SM.
    pub fn min_blocks_per_sm(&self) -> Option<u32> {
        self.value(".minnctapersm")
    }

    /// `.maxnctapersm`: blocks that run on an SM at most.
    pub fn max_blocks_per_sm(&self) -> Option<u32> {
        self.value(".maxnctapersm")
    }

    /// `.maxnreg`: registers of a thread.
    pub fn max_registers(&self) -> Option<u32> {
        self.value(".maxnreg")
    }

    /// `.reqnctapercluster`: the blocks of a cluster.
    pub fn required_cluster(&self) -> Option<[u32; 3]> {
        self.dimensions(".reqnctapercluster")
    }

    /// `.maxclusterrank`: the most blocks of a cluster.
    pub fn max_cluster_rank(&self) -> Option<u32> {
        self.value(".maxclusterrank")
    }
}

/// A directive of a function header with what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderDirective<'a> {
    /// Its name with the dot.
    pub name: &'a str,
    /// What follows, as written.
    pub arguments: &'a str,
}

impl<'a> HeaderDirective<'a> {
    /// The numbers it is given.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + use<'a> {
        Items::new(self.arguments).filter_map(|item| u32::try_from(constant::evaluate(item)?).ok())
    }
}

/// The directives of a header, see [`Header::directives`].
#[derive(Clone, Copy, Debug)]
pub struct Directives<'a> {
    lexer: Lexer<'a>,
    next: Token,
}

impl<'a> Iterator for Directives<'a> {
    type Item = HeaderDirective<'a>;

    fn next(&mut self) -> Option<HeaderDirective<'a>> {
        while self.next.kind != Kind::Dot {
            if self.next.kind == Kind::Eof {
                return None;
            }
            self.next = self.lexer.next();
        }
        let name = self.lexer.slice(self.next);
        let start = self.next.end;
        let mut end = start;
        loop {
            self.next = self.lexer.next();
            if matches!(self.next.kind, Kind::Dot | Kind::Eof | Kind::Semicolon) {
                return Some(HeaderDirective { name, arguments: self.lexer.between(start, end).trim() });
            }
            end = self.next.end;
        }
    }
}
