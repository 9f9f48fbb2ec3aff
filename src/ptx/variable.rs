//! Declarations: variables, registers and parameters, in every state space.

use super::constant;
use super::lexer::{Kind, Lexer, Token};

/// Who sees a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Linkage {
    /// `.extern`: defined elsewhere.
    Extern,
    /// `.visible`: seen by other modules.
    Visible,
    /// `.weak`: gives way to another definition.
    Weak,
    /// `.common`: merged with others of its name.
    Common,
}

impl Linkage {
    /// The linkage that a directive such as `.visible` names.
    pub(super) fn of(directive: &str) -> Option<Linkage> {
        Some(match directive {
            ".extern" => Linkage::Extern,
            ".visible" => Linkage::Visible,
            ".weak" => Linkage::Weak,
            ".common" => Linkage::Common,
            _ => return None,
        })
    }
}

/// Where a variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateSpace {
    /// `.reg`: virtual registers.
    Reg,
    /// `.sreg`: special registers.
    Sreg,
    /// `.const`
    Const,
    /// `.global`
    Global,
    /// `.local`
    Local,
    /// `.param`
    Param,
    /// `.shared`
    Shared,
    /// `.tex` (deprecated)
    Tex,
    /// `.surf`, never in use
    Surf,
}

impl StateSpace {
    /// The state space that a directive such as `.shared::cta` names.
    pub(super) fn of(directive: &str) -> Option<StateSpace> {
        let name = directive.split("::").next().unwrap_or(directive);
        Some(match name {
            ".reg" => StateSpace::Reg,
            ".sreg" => StateSpace::Sreg,
            ".const" => StateSpace::Const,
            ".global" => StateSpace::Global,
            ".local" => StateSpace::Local,
            ".param" => StateSpace::Param,
            ".shared" => StateSpace::Shared,
            ".tex" => StateSpace::Tex,
            ".surf" => StateSpace::Surf,
            _ => return None,
        })
    }
}

/// Bits of a fundamental type, named without its dot: 32 for `f32`, 1 for `pred`, 64 for a texture reference.
pub fn type_bits(name: &str) -> Option<u32> {
    Some(match name {
        "pred" => 1,
        "b8" | "u8" | "s8" => 8,
        "b16" | "u16" | "s16" | "f16" | "bf16" => 16,
        "b32" | "u32" | "s32" | "f32" | "f16x2" | "bf16x2" | "tf32" => 32,
        "b64" | "u64" | "s64" | "f64" | "texref" | "samplerref" | "surfref" => 64,
        "b128" => 128,
        _ => return None,
    })
}

/// `.ptr .global .align 16`: what a kernel parameter points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// The state space pointed to; generic if none.
    pub space: Option<StateSpace>,
    /// Alignment of what is pointed to, in bytes.
    pub align: Option<u32>,
}

/// A declaration: one type, any number of names. `.reg .b32 %r<100>, x;`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration<'a> {
    /// `.visible`, `.extern`, …, or none.
    pub linkage: Option<Linkage>,
    /// Where it lives.
    pub space: StateSpace,
    /// Number of the constant bank in `.const[2]`.
    pub bank: Option<u32>,
    /// `.align`, in bytes.
    pub align: Option<u32>,
    /// Elements of a vector type: 2 for `.v2`; 1 for a scalar.
    pub vector: u32,
    /// The type, without its dot; empty if there is none.
    pub ty: &'a str,
    /// `.ptr` of a kernel parameter.
    pub pointer: Option<Pointer>,
    /// The text in the parentheses of `.attribute(.managed)`.
    pub attribute: Option<&'a str>,
    /// From the first name to the end.
    names: &'a str,
}

impl<'a> Declaration<'a> {
    /// Reads the text of a variable statement or of one parameter.
    pub(super) fn new(text: &'a str) -> Self {
        let mut lexer = Lexer::new(text);
        let mut declaration = Declaration {
            linkage: None,
            space: StateSpace::Param,
            bank: None,
            align: None,
            vector: 1,
            ty: "",
            pointer: None,
            attribute: None,
            names: "",
        };
        let mut seen_space = false;
        loop {
            let token = lexer.next();
            match token.kind {
                Kind::Dot => declaration.modifier(&mut lexer, token, &mut seen_space),
                Kind::OpenBracket => {
                    let bank = lexer.next();
                    declaration.bank = small(lexer.slice(bank));
                }
                Kind::CloseBracket => {}
                _ => {
                    declaration.names = text.get(token.start as usize..).unwrap_or("");
                    return declaration;
                }
            }
        }
    }

    fn modifier(&mut self, lexer: &mut Lexer<'a>, token: Token, seen_space: &mut bool) {
        let word = lexer.slice(token);
        if let Some(linkage) = Linkage::of(word) {
            self.linkage = Some(linkage);
        } else if let Some(space) = StateSpace::of(word) {
            match &mut self.pointer {
                Some(pointer) if *seen_space => pointer.space = Some(space),
                _ => self.space = space,
            }
            *seen_space = true;
        } else if word == ".align" {
            let bytes = lexer.next();
            let bytes = small(lexer.slice(bytes));
            match &mut self.pointer {
                Some(pointer) => pointer.align = bytes,
                None => self.align = bytes,
            }
        } else if word == ".ptr" {
            self.pointer = Some(Pointer { space: None, align: None });
        } else if word == ".attribute" {
            let open = lexer.next();
            self.attribute = (open.kind == Kind::OpenParen).then(|| lexer.group(open));
        } else if let Some(length) = word.strip_prefix(".v").and_then(small) {
            self.vector = length;
        } else {
            self.ty = word.get(1..).unwrap_or("");
        }
    }

    /// The names it declares, in order.
    pub fn names(&self) -> Declarators<'a> {
        Declarators { lexer: Lexer::new(self.names) }
    }

    /// Its first name; of a parameter, its only one.
    pub fn name(&self) -> Option<&'a str> {
        self.names().next().map(|declarator| declarator.name)
    }

    /// Bytes of one scalar or vector of its type.
    pub fn element_bytes(&self) -> Option<u64> {
        Some(u64::from(type_bits(self.ty)?.div_ceil(8)) * u64::from(self.vector))
    }

    /// Bytes that one of its names takes; none if its size is open (`[]`) or not known.
    pub fn bytes(&self, declarator: &Declarator<'a>) -> Option<u64> {
        self.element_bytes()?.checked_mul(declarator.elements()?)
    }
}

fn small(word: &str) -> Option<u32> {
    u32::try_from(constant::literal(word)?).ok()
}

/// One name of a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declarator<'a> {
    /// The name; the common prefix of a range.
    pub name: &'a str,
    /// 100 in `%r<100>`: the names are `%r0` to `%r99`.
    pub range: Option<u32>,
    /// `[4][2]`, brackets included; empty for a scalar.
    pub dimensions: &'a str,
    /// What follows `=`, as written.
    pub initializer: Option<&'a str>,
}

impl Declarator<'_> {
    /// Elements of the array; 1 for a scalar; none if a dimension is open or no constant.
    pub fn elements(&self) -> Option<u64> {
        let mut elements = 1_u64;
        let mut rest = self.dimensions.trim();
        while let Some(inner) = rest.strip_prefix('[') {
            let (size, after) = inner.split_once(']')?;
            elements = elements.checked_mul(u64::try_from(constant::evaluate(size)?).ok()?)?;
            rest = after.trim_start();
        }
        Some(elements)
    }
}

/// The names of a declaration, see [`Declaration::names`].
#[derive(Clone, Copy, Debug)]
pub struct Declarators<'a> {
    lexer: Lexer<'a>,
}

impl<'a> Iterator for Declarators<'a> {
    type Item = Declarator<'a>;

    fn next(&mut self) -> Option<Declarator<'a>> {
        let lexer = &mut self.lexer;
        let name = lexer.next();
        if name.kind != Kind::Ident {
            return None;
        }
        let mut declarator = Declarator { name: lexer.slice(name), range: None, dimensions: "", initializer: None };
        let mut token = lexer.next();
        if token.kind == Kind::Less {
            let count = lexer.next();
            declarator.range = small(lexer.slice(count));
            lexer.next();
            token = lexer.next();
        }
        let (start, mut end) = (token.start, token.start);
        // Dimensions are constant expressions, so a comma or an equals sign ends them at any depth.
        while !matches!(token.kind, Kind::Comma | Kind::Equals | Kind::Semicolon | Kind::Eof) {
            end = token.end;
            token = lexer.next();
        }
        declarator.dimensions = lexer.between(start, end);
        if token.kind == Kind::Equals {
            let start = token.end;
            let mut depth = 0_u32;
            loop {
                end = token.end;
                token = lexer.next();
                match token.kind {
                    Kind::OpenBrace | Kind::OpenParen => depth += 1,
                    Kind::CloseBrace | Kind::CloseParen => depth = depth.saturating_sub(1),
                    Kind::Comma if depth > 0 => {}
                    Kind::Comma | Kind::Semicolon | Kind::Eof => break,
                    _ => {}
                }
            }
            declarator.initializer = Some(lexer.between(start, end).trim());
        }
        Some(declarator)
    }
}
