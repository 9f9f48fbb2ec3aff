//! An instruction: guard, opcode, modifiers, operands, and the names it reads and writes.

use super::lexer::{Kind, Lexer, Token};
use super::operand::{Items, Operand, Operands};

/// `@%p1` or `@!%p1` before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard<'a> {
    /// The predicate register.
    pub register: &'a str,
    /// Whether it runs when the predicate is false.
    pub negated: bool,
}

/// An instruction over its text. Opcodes newer than this program are instructions like any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction<'a> {
    text: &'a str,
}

impl<'a> Instruction<'a> {
    /// Takes the text of an instruction statement, from its guard to its semicolon.
    pub(super) fn new(text: &'a str) -> Self {
        Instruction { text }
    }

    /// It, as written, guard and semicolon included.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The predicate that guards it.
    pub fn guard(&self) -> Option<Guard<'a>> {
        self.start().0
    }

    /// The guard, the first token of the opcode, and a lexer that stands behind it.
    fn start(&self) -> (Option<Guard<'a>>, Token, Lexer<'a>) {
        let mut lexer = Lexer::new(self.text);
        let mut token = lexer.next();
        if token.kind != Kind::At {
            return (None, token, lexer);
        }
        token = lexer.next();
        let negated = token.kind == Kind::Bang;
        if negated {
            token = lexer.next();
        }
        let guard = Guard { register: lexer.slice(token), negated };
        token = lexer.next();
        (Some(guard), token, lexer)
    }

    /// The opcode without its modifiers: `wgmma` of `wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16`.
    pub fn mnemonic(&self) -> &'a str {
        let (_, mnemonic, lexer) = self.start();
        lexer.slice(mnemonic)
    }

    /// The opcode with its modifiers, as written.
    pub fn opcode(&self) -> &'a str {
        let (_, mnemonic, mut lexer) = self.start();
        let mut end = mnemonic.end;
        loop {
            let token = lexer.next();
            if token.kind != Kind::Dot {
                return lexer.between(mnemonic.start, end);
            }
            end = token.end;
        }
    }

    /// Its modifiers in order, without their dots: `mma_async`, `sync`, `aligned`, …
    pub fn modifiers(&self) -> Modifiers<'a> {
        Modifiers { lexer: self.start().2 }
    }

    /// Whether it has a modifier, named without its dot.
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers().any(|found| found == modifier)
    }

    /// Its operands in order.
    pub fn operands(&self) -> Operands<'a> {
        Operands::new(Items::from_lexer(self.operand_lexer()))
    }

    /// The operand at an index.
    pub fn operand(&self, index: usize) -> Option<Operand<'a>> {
        self.operands().nth(index)
    }

    /// A lexer that stands before the first operand.
    fn operand_lexer(&self) -> Lexer<'a> {
        let mut lexer = self.start().2;
        loop {
            let bookmark = lexer;
            if lexer.next().kind != Kind::Dot {
                return bookmark;
            }
        }
    }

    /// The names that it defines, in order: those that [`Instruction::names`] says so of, without reading the operands after them.
    pub fn definitions(&self) -> Definitions<'a> {
        let mut names = self.names();
        names.guard = None;
        Definitions { names: Some(names).filter(|names| names.effect != Effect::Nothing) }
    }

    /// Every name it mentions in its guard and operands, in order, and whether it defines it.
    ///
    /// Names are registers, special registers, variables, labels and functions alike: [`super::Registers`] tells which
    /// are virtual registers. What is both read and written (the accumulator of `wgmma.mma_async`) comes as a use, then
    /// as a definition. The sink `_` is left out.
    pub fn names(&self) -> Names<'a> {
        let (guard, mnemonic, lexer) = self.start();
        let effect = Effect::of(lexer.slice(mnemonic), *self);
        Names {
            guard,
            lexer: self.operand_lexer(),
            effect,
            operand: 0,
            depth: 0,
            address: 0,
            pending: None,
            last: None,
        }
    }
}

/// The names that an instruction defines, see [`Instruction::definitions`].
#[derive(Clone, Copy, Debug)]
pub struct Definitions<'a> {
    names: Option<Names<'a>>,
}

impl<'a> Iterator for Definitions<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let names = self.names.as_mut()?;
        loop {
            let used = names.next()?;
            if used.is_def {
                return Some(used.name);
            }
            // Destinations come first: the rest of the text need not be read.
            if names.is_past_definitions() {
                return None;
            }
        }
    }
}

/// The modifiers of an instruction, see [`Instruction::modifiers`].
#[derive(Clone, Copy, Debug)]
pub struct Modifiers<'a> {
    lexer: Lexer<'a>,
}

impl<'a> Iterator for Modifiers<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let token = self.lexer.next();
        (token.kind == Kind::Dot).then(|| self.lexer.slice(token).trim_start_matches('.'))
    }
}

/// Which operands an instruction writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// None of them.
    Nothing,
    /// The first ones.
    First(u32),
    /// The first one, which it reads too.
    Accumulates,
    /// The first one if it is a list: `call (%r1), f, (%r2)`.
    Call,
}

impl Effect {
    /// The rule of the ISA is that the destination comes first. An address in its place is read, not written, which
    /// covers `st`, `red`, `cp.async`, `mbarrier.init`, `tcgen05.mma` and whatever else writes memory; what is left are
    /// the instructions that have no destination at all.
    fn of(mnemonic: &str, instruction: Instruction<'_>) -> Effect {
        let second = || instruction.modifiers().next().unwrap_or("");
        match mnemonic {
            "bra" | "brx" | "ret" | "exit" | "trap" | "brkpt" | "nanosleep" | "setmaxnreg" | "pmevent" | "membar"
            | "fence" | "griddepcontrol" | "cp" | "stackrestore" | "st" | "red" | "prefetch" | "prefetchu"
            | "discard" | "applypriority" => Effect::Nothing,
            "bar" | "barrier" if !instruction.has("red") => Effect::Nothing,
            "call" => Effect::Call,
            "wgmma" if second() == "mma_async" => Effect::Accumulates,
            "wgmma" => Effect::Nothing,
            "tcgen05" if second() != "ld" => Effect::Nothing,
            // tcgen05.ld.red gives the loaded registers and the reduced value.
            "tcgen05" if instruction.has("red") => Effect::First(2),
            _ => Effect::First(1),
        }
    }
}

/// A name that an instruction mentions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameUse<'a> {
    /// The name, without its component (`%tid` of `%tid.x`).
    pub name: &'a str,
    /// Whether the instruction writes it.
    pub is_def: bool,
}

/// The names of an instruction, see [`Instruction::names`].
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    guard: Option<Guard<'a>>,
    lexer: Lexer<'a>,
    effect: Effect,
    /// Index of the operand.
    operand: u32,
    /// Brackets of any kind that are open.
    depth: u32,
    /// Of these, how many from the first square one on.
    address: u32,
    /// The definition that follows a use of the same name.
    pending: Option<NameUse<'a>>,
    /// The bracket that the first operand starts with.
    last: Option<Kind>,
}

impl<'a> Names<'a> {
    /// Whether no operand from here on can be a destination.
    fn is_past_definitions(&self) -> bool {
        match self.effect {
            Effect::Nothing => true,
            Effect::First(count) => self.operand >= count,
            Effect::Accumulates | Effect::Call => self.operand >= 1,
        }
    }

    fn is_def(&self) -> bool {
        if self.address > 0 {
            return false;
        }
        match self.effect {
            Effect::Nothing => false,
            Effect::First(count) => self.operand < count,
            Effect::Accumulates => self.operand == 0,
            Effect::Call => self.operand == 0 && self.last == Some(Kind::OpenParen),
        }
    }
}

impl<'a> Iterator for Names<'a> {
    type Item = NameUse<'a>;

    fn next(&mut self) -> Option<NameUse<'a>> {
        if let Some(guard) = self.guard.take() {
            return Some(NameUse { name: guard.register, is_def: false });
        }
        if let Some(pending) = self.pending.take() {
            return Some(pending);
        }
        loop {
            let token = self.lexer.next();
            if self.operand == 0 && self.last.is_none() {
                self.last = Some(token.kind);
            }
            match token.kind {
                Kind::Eof | Kind::Semicolon => return None,
                Kind::Comma if self.depth == 0 => self.operand += 1,
                Kind::OpenBracket => {
                    self.depth += 1;
                    self.address += 1;
                }
                Kind::OpenBrace | Kind::OpenParen => {
                    self.depth += 1;
                    self.address += u32::from(self.address > 0);
                }
                Kind::CloseBracket | Kind::CloseBrace | Kind::CloseParen => {
                    self.depth = self.depth.saturating_sub(1);
                    self.address = self.address.saturating_sub(1);
                }
                Kind::Ident => {
                    let name = self.lexer.slice(token);
                    if name == "_" || name == "WARP_SZ" {
                        continue;
                    }
                    let is_def = self.is_def();
                    if is_def && self.effect == Effect::Accumulates {
                        self.pending = Some(NameUse { name, is_def: true });
                        return Some(NameUse { name, is_def: false });
                    }
                    return Some(NameUse { name, is_def });
                }
                _ => {}
            }
        }
    }
}
