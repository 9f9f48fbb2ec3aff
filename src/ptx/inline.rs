//! A kernel with the functions that it calls in the places of the calls, for questions that are about one function.
//!
//! In: a function, and which of those that it calls are wanted. Out: a text in which each wanted call is the body of what it calls, on the line of
//! the call, so that every line keeps its number. Names of the body get a number of their own; parameters become registers, those in `.param` one
//! for each place and width. What cannot be done so (a recursion, a call by a register, an address of a parameter, a variable of the callee) is
//! refused, and nothing is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::iter::repeat_n;

use memchr::memchr_iter;

use super::instruction::Instruction;
use super::lexer::{Kind, Lexer};
use super::module::{Function, FunctionKind, Module};
use super::operand::Shape;
use super::operation::{Call, Operation};
use super::statement::{Statement, StatementKind};
use super::variable::{Declaration, StateSpace, type_bits};
use crate::base::work;

/// Statements that the text may grow by.
const MOST_STATEMENTS: usize = 20_000;
/// Calls inside one another.
const DEEPEST: usize = 16;
/// Bytes that are written for all functions of a text, each of which gets one of its own.
const MOST_BYTES: u64 = 1 << 28;

/// The text with a kernel's wanted calls replaced; none where there is none, or one that cannot be.
pub fn inlined(function: &Function<'_, '_>, is_wanted: &dyn Fn(&str) -> bool) -> Option<String> {
    let module = function.module();
    let (first, last) = (function.body().first()?, function.body().last()?);
    let is_small = module.functions().len() as u64 * module.text().len() as u64 <= MOST_BYTES;
    if !is_small || !module.text().get(first.span().start..last.span().end)?.contains("call") {
        return None;
    }
    let mut inliner = Inliner { module, is_wanted, bodies: 0, statements: 0, slots: BTreeMap::new() };
    let body = inliner.kernel(function)?;
    if inliner.bodies == 0 {
        return None;
    }
    // Other kernels are nothing to this one: of them the lines are left.
    let mut text = String::with_capacity(module.text().len() + body.len());
    let mut at = 0;
    for other in module.functions().filter(|other| other.is_definition() && other.kind() == FunctionKind::Entry) {
        let (Some(header), Some(last)) = (module.statements().get(other.record.header as usize), other.body().last())
        else {
            return None;
        };
        let (start, end) = (header.span().start, last.span().end);
        text.push_str(module.text().get(at..start)?);
        if other.body_range() == function.body_range() {
            text.push_str(header.text(module.text()));
            text.push_str(module.text().get(header.span().end..other.body().first()?.span().start)?);
            text.push_str(&body);
        } else {
            text.extend(lines(module.text().get(start..end)?));
        }
        at = end;
    }
    text.push_str(module.text().get(at..)?);
    Some(text)
}

/// As many ends of lines as a text has.
fn lines(text: &str) -> impl Iterator<Item = char> {
    repeat_n('\n', memchr_iter(b'\n', text.as_bytes()).count())
}

/// A place of a `.param` variable: whose, where in it, and how wide.
type Slot = (String, i64, u32);

/// Names of one body as they are called in the text that comes out.
#[derive(Default)]
struct Names<'a> {
    /// The number of the body; none for the kernel, whose names stay.
    body: Option<usize>,
    /// Registers and labels.
    single: BTreeSet<&'a str>,
    /// What ranges of registers begin with.
    ranges: BTreeSet<&'a str>,
    /// Variables in `.param`, formal parameters among them.
    params: BTreeSet<&'a str>,
}

impl<'a> Names<'a> {
    fn of(function: &Function<'_, 'a>, body: Option<usize>) -> Option<Names<'a>> {
        let text = function.module().text();
        let mut names = Names { body, ..Names::default() };
        let header = function.header();
        if body.is_some() {
            header.returns().chain(header.params()).try_for_each(|declaration| names.declare(&declaration))?;
        }
        for statement in function.body() {
            match statement.kind {
                StatementKind::Variable => {
                    let declaration = statement.declaration(text)?;
                    // A variable of a callee is one for all calls.
                    let is_own = matches!(declaration.space, StateSpace::Reg | StateSpace::Param);
                    if is_own {
                        names.declare(&declaration)?;
                    } else if body.is_some() {
                        return None;
                    }
                }
                StatementKind::Label => names.single.extend(statement.label(text)),
                _ => {}
            }
        }
        Some(names)
    }

    fn declare(&mut self, declaration: &Declaration<'a>) -> Option<()> {
        for name in declaration.names() {
            match (declaration.space, name.range) {
                (StateSpace::Param, _) => self.params.insert(name.name),
                (StateSpace::Reg, None) => self.single.insert(name.name),
                (StateSpace::Reg, Some(_)) => self.ranges.insert(name.name),
                _ => return None,
            };
        }
        Some(())
    }

    /// What a word is called in the text that comes out, if it is one of these names.
    fn renamed(&self, word: &str) -> Option<String> {
        let body = self.body?;
        let base = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
        if self.single.contains(word) || base.len() < word.len() && self.ranges.contains(base) {
            return Some(named(body, word));
        }
        self.ranges.contains(word).then(|| named(body, word))
    }

    /// The register that stands for a place of a variable in `.param`.
    fn slot(&self, slot: &(&str, i64, u32)) -> Slot {
        let body = self.body.map_or_else(String::new, |body| body.to_string());
        (format!("{body}${}", slot.0), slot.1, slot.2)
    }
}

/// A name of a body: what begins with `%` still does.
fn named(body: usize, word: &str) -> String {
    match word.strip_prefix('%') {
        Some(rest) => format!("%inl${body}${rest}"),
        None => format!("inl${body}${word}"),
    }
}

fn slot_name((variable, offset, bits): &Slot) -> String {
    format!("%arg${}${}${bits}", variable.replace('%', "_"), offset.to_string().replace('-', "m"))
}

struct Inliner<'m, 'a, 'w> {
    module: &'m Module<'a>,
    is_wanted: &'w dyn Fn(&str) -> bool,
    bodies: usize,
    statements: usize,
    /// The places of variables in `.param` that are stored to somewhere, or read.
    slots: BTreeMap<Slot, bool>,
}

impl<'m, 'a> Inliner<'m, 'a, '_> {
    /// The body of the kernel, with every line where it was.
    fn kernel(&mut self, function: &Function<'m, 'a>) -> Option<String> {
        let text = self.module.text();
        let names = Names::of(function, None)?;
        let mut out = String::new();
        let mut at = function.body().first()?.span().start;
        for statement in function.body() {
            let span = statement.span();
            out.push_str(text.get(at..span.start)?);
            at = span.end;
            match self.replaced(statement, &names, &mut vec![function.name()])? {
                None => out.push_str(statement.text(text)),
                Some(other) => {
                    out.push_str(&other);
                    out.extend(lines(statement.text(text)));
                }
            }
        }
        let declared: String = self.slots.keys().fold(String::new(), |mut all, slot| {
            let _ = write!(all, " .reg .b{} {};", slot.2, slot_name(slot));
            all
        });
        // Behind the brace that the body begins with.
        out.insert_str(1, &declared);
        Some(out)
    }

    /// What a statement becomes, where it does not stay as it is; none where it cannot be done.
    fn replaced(
        &mut self,
        statement: &Statement,
        names: &Names<'a>,
        within: &mut Vec<&'a str>,
    ) -> Option<Option<String>> {
        let text = self.module.text();
        match statement.kind {
            StatementKind::Variable => {
                let declaration = statement.declaration(text)?;
                return Some((declaration.space == StateSpace::Param).then(String::new));
            }
            StatementKind::Instruction => {}
            _ => return Some(None),
        }
        let instruction = statement.instruction(text)?;
        match instruction.operation() {
            Operation::Call => {
                let call = instruction.call();
                let callee = call.callee?;
                if (self.is_wanted)(callee) {
                    return Some(Some(self.call(&instruction, callee, &call, names, within)?));
                }
                // What is passed to one that stays has to stay, too.
                let passes = call.arguments.into_iter().chain(call.returns);
                let is_param = passes.flat_map(|list| words(list.text())).any(|word| names.params.contains(word));
                if is_param { None } else { Some(None) }
            }
            _ => match self.param(&instruction, names) {
                Some(moves) => Some(Some(moves)),
                None if words(instruction.text()).any(|word| names.params.contains(word)) => None,
                None => Some(None),
            },
        }
    }

    /// A load or store of a variable in `.param`, as moves of registers.
    fn param(&mut self, instruction: &Instruction<'a>, names: &Names<'a>) -> Option<String> {
        let access = Access::of(instruction, names)?;
        let mut out = String::new();
        for (at, register) in (0i64..).zip(&access.registers) {
            let slot = names.slot(&(access.variable, access.offset + at * i64::from(access.bits / 8), access.bits));
            let place = slot_name(&slot);
            let register = self.words(register, names);
            let (to, from) = if access.is_store { (&place, &register) } else { (&register, &place) };
            let _ = write!(out, "{}mov.b{} {to}, {from}; ", self.guard(instruction, names), access.bits);
            *self.slots.entry(slot).or_default() |= access.is_store;
        }
        Some(out)
    }

    fn guard(&self, instruction: &Instruction<'a>, names: &Names<'a>) -> String {
        instruction.guard().map_or_else(String::new, |guard| {
            let register = names.renamed(guard.register).unwrap_or_else(|| guard.register.to_owned());
            format!("@{}{register} ", if guard.negated { "!" } else { "" })
        })
    }

    /// The body of a callee, with what is passed to it and comes back.
    fn call(
        &mut self,
        instruction: &Instruction<'a>,
        callee: &'a str,
        call: &Call<'a>,
        names: &Names<'a>,
        within: &mut Vec<&'a str>,
    ) -> Option<String> {
        let function = self.module.function(callee).filter(Function::is_definition)?;
        if within.contains(&callee) || within.len() > DEEPEST {
            return None;
        }
        self.statements += function.body().len();
        if self.statements > MOST_STATEMENTS {
            return None;
        }
        let body = self.bodies;
        self.bodies += 1;
        let inside = Names::of(&function, Some(body))?;
        let mut out = String::from("{ ");
        let end = format!("inl${body}$end");
        if let Some(guard) = instruction.guard() {
            let register = names.renamed(guard.register).unwrap_or_else(|| guard.register.to_owned());
            let _ = write!(out, "@{}{register} bra {end}; ", if guard.negated { "" } else { "!" });
        }
        let header = function.header();
        let given = |list: Option<super::Operand<'a>>| -> Vec<&'a str> {
            match list.map(|list| list.shape()) {
                Some(Shape::List(items)) => items.map(|item| item.text()).collect(),
                _ => Vec::new(),
            }
        };
        let accesses: Vec<Access<'a>> =
            function.instructions().filter_map(|located| Access::of(&located.instruction, &inside)).collect();
        let mut after = String::new();
        let (arguments, returns) = (given(call.arguments), given(call.returns));
        let formal = |declaration: Declaration<'a>| {
            let name = declaration.name()?;
            let is_scalar = declaration.vector == 1;
            Some((declaration.space, declaration.ty, name)).filter(|_| is_scalar)
        };
        let params: Vec<_> = header.params().map(formal).collect::<Option<_>>()?;
        let results: Vec<_> = header.returns().map(formal).collect::<Option<_>>()?;
        if params.len() != arguments.len() || results.len() != returns.len() {
            return None;
        }
        for (formals, given, goes_in) in [(&params, &arguments, true), (&results, &returns, false)] {
            for (&(space, ty, name), actual) in formals.iter().zip(given.iter()) {
                let mut pass = |to: &str, from: &str, ty: &str| {
                    let out = if goes_in { &mut out } else { &mut after };
                    let _ = write!(out, "mov.{ty} {to}, {from}; ");
                };
                if space == StateSpace::Reg {
                    let inner = named(body, name);
                    let outer = self.words(actual, names);
                    let (to, from) = if goes_in { (&inner, &outer) } else { (&outer, &inner) };
                    pass(to, from, ty);
                    continue;
                }
                if !names.params.contains(actual.trim()) {
                    return None;
                }
                let wanted: BTreeSet<(i64, u32)> = accesses
                    .iter()
                    .filter(|access| access.variable == name && access.is_store != goes_in)
                    .flat_map(|access| {
                        let each = |at| (access.offset + at * i64::from(access.bits / 8), access.bits);
                        (0..access.registers.len() as i64).map(each)
                    })
                    .collect();
                for (offset, bits) in wanted {
                    let inner = inside.slot(&(name, offset, bits));
                    let outer = names.slot(&(actual.trim(), offset, bits));
                    let (to, from) = if goes_in { (&inner, &outer) } else { (&outer, &inner) };
                    pass(&slot_name(to), &slot_name(from), &format!("b{bits}"));
                    // What nobody has stored in this width is not known.
                    if goes_in && self.slots.get(&outer) != Some(&true) {
                        return None;
                    }
                    self.slots.insert(to.clone(), true);
                    self.slots.entry(from.clone()).or_default();
                }
            }
        }
        let declared: String = params.iter().chain(&results).filter(|(space, ..)| *space == StateSpace::Reg).fold(
            String::new(),
            |mut all, (_, ty, name)| {
                let _ = write!(all, ".reg .{ty} {}; ", named(body, name));
                all
            },
        );
        out.insert_str(2, &declared);
        within.push(callee);
        for statement in function.body() {
            work::spend(1);
            self.statement(statement, &inside, &end, within, &mut out)?;
        }
        within.pop();
        // Results are there where the body ends; a call that is not made has none.
        let _ = write!(out, " {}: {after}{end}: }} ", back(&end));
        Some(out).filter(|_| instruction.guard().is_none() || after.is_empty())
    }

    /// A statement of a callee, on the line of its call.
    fn statement(
        &mut self,
        statement: &Statement,
        names: &Names<'a>,
        end: &str,
        within: &mut Vec<&'a str>,
        out: &mut String,
    ) -> Option<()> {
        let text = self.module.text();
        match statement.kind {
            StatementKind::Loc | StatementKind::Pragma => return Some(()),
            StatementKind::ScopeOpen
            | StatementKind::ScopeClose
            | StatementKind::Variable
            | StatementKind::Label
            | StatementKind::BranchTargets
            | StatementKind::Instruction => {}
            _ => return None,
        }
        if let Some(replaced) = self.replaced(statement, names, within)? {
            out.push_str(&replaced);
            return Some(());
        }
        let instruction = statement.instruction(text).filter(|_| statement.kind == StatementKind::Instruction);
        match instruction {
            Some(instruction) if instruction.mnemonic() == "ret" => {
                let uniform = if instruction.has("uni") { ".uni" } else { "" };
                let _ = write!(out, "{}bra{uniform} {}; ", self.guard(&instruction, names), back(end));
            }
            _ => {
                out.push_str(&self.words(statement.text(text), names));
                out.push(' ');
            }
        }
        Some(())
    }

    /// A text with the names of a body as they are called in the text that comes out, on one line.
    fn words(&self, text: &str, names: &Names<'a>) -> String {
        let mut lexer = Lexer::new(text);
        let mut out = String::with_capacity(text.len());
        let mut last = 0;
        loop {
            let token = lexer.next();
            if token.kind == Kind::Eof {
                return out;
            }
            if token.start > last && !out.is_empty() {
                out.push(' ');
            }
            last = token.end;
            let word = lexer.slice(token);
            match names.renamed(word).filter(|_| token.kind == Kind::Ident) {
                Some(name) => out.push_str(&name),
                None => out.push_str(word),
            }
        }
    }
}

/// Where a `ret` of a body goes on: before its results are handed over.
fn back(end: &str) -> String {
    format!("{end}$back")
}

/// The words of a text that may be names.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut lexer = Lexer::new(text);
    std::iter::from_fn(move || {
        loop {
            let token = lexer.next();
            match token.kind {
                Kind::Eof => return None,
                Kind::Ident => return Some(lexer.slice(token)),
                _ => {}
            }
        }
    })
}

/// A load or store of a variable in `.param`.
struct Access<'a> {
    is_store: bool,
    variable: &'a str,
    offset: i64,
    bits: u32,
    registers: Vec<&'a str>,
}

impl<'a> Access<'a> {
    /// None for other instructions, and for widths that have no registers of their own.
    fn of(instruction: &Instruction<'a>, names: &Names<'a>) -> Option<Access<'a>> {
        let is_store = match instruction.mnemonic() {
            "ld" => false,
            "st" => true,
            _ => return None,
        };
        if !instruction.modifiers().any(|word| word.split("::").next() == Some("param")) {
            return None;
        }
        let bits = type_bits(instruction.modifiers().last()?).filter(|bits| [32, 64].contains(bits))?;
        let (address, value) = if is_store { (0, 1) } else { (1, 0) };
        let address = instruction.operand(address)?.address()?;
        let variable = address.base.filter(|name| names.params.contains(name))?;
        let value = instruction.operand(value)?;
        let registers = match value.shape() {
            Shape::Vector(items) => items.map(|item| item.text()).collect(),
            _ => vec![value.text()],
        };
        Some(Access { is_store, variable, offset: address.offset?, bits, registers })
    }
}
