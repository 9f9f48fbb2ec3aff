//! The virtual registers of a function, looked up by name and place.

use super::module::{Function, Located, StatementId};
use super::statement::StatementKind;
use super::variable::{Declarator, StateSpace};
use crate::base::{FastMap, Line};

/// One `.reg` name of a function: a single register or a range of them.
#[derive(Clone, Copy, Debug)]
pub struct RegisterDeclaration<'a> {
    /// The statement that declares it.
    pub id: StatementId,
    /// Its first line.
    pub line: Line,
    /// Its type without the dot: `b32`, `pred`, …
    pub ty: &'a str,
    /// Elements of a vector type; 1 for a scalar.
    pub vector: u32,
    /// The name, or the prefix of a range, and the size of the range.
    pub declarator: Declarator<'a>,
    /// The statement that closes its scope, one past the end if none does.
    pub scope_end: StatementId,
    /// The declaration of the same name that this one hides.
    outer: Option<usize>,
}

/// A virtual register: which declaration, and which of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register {
    /// Index in [`Registers::declarations`].
    pub declaration: u32,
    /// Number within the range; 0 for a single register.
    pub number: u32,
}

/// A virtual register that an instruction reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterUse<'a> {
    /// Its name.
    pub name: &'a str,
    /// Which register that is.
    pub register: Register,
    /// Whether the instruction writes it.
    pub is_def: bool,
}

/// The virtual registers that a function declares, nested scopes included.
#[derive(Clone, Debug, Default)]
pub struct Registers<'a> {
    declarations: Vec<RegisterDeclaration<'a>>,
    /// Declarations of each name, in order, single ones and ranges apart.
    named: FastMap<(&'a str, bool), Vec<usize>>,
    /// Lengths that names of single registers and prefixes of ranges have, as bits: most names need not be looked up.
    lengths: [u64; 2],
}

impl<'a> Registers<'a> {
    /// Collects the declarations of a function: its `.reg` parameters, then those of its body.
    pub(super) fn new(function: &Function<'_, 'a>) -> Self {
        let mut registers = Registers::default();
        let text = function.module.text();
        let range = function.body_range();
        let header = StatementId(range.start);
        let line = function.lines().0;
        for declaration in function.header().returns().chain(function.header().params()) {
            if declaration.space == StateSpace::Reg {
                for declarator in declaration.names() {
                    let (ty, vector) = (declaration.ty, declaration.vector);
                    registers.add(RegisterDeclaration {
                        id: header,
                        line,
                        ty,
                        vector,
                        declarator,
                        scope_end: StatementId(range.end),
                        outer: None,
                    });
                }
            }
        }
        // The declarations of each open scope.
        let mut scopes: Vec<Vec<usize>> = vec![(0..registers.declarations.len()).collect()];
        for (id, statement) in range.clone().zip(function.body()) {
            match statement.kind {
                StatementKind::ScopeOpen => scopes.push(Vec::new()),
                StatementKind::ScopeClose => {
                    for index in scopes.pop().unwrap_or_default() {
                        if let Some(declaration) = registers.declarations.get_mut(index) {
                            declaration.scope_end = StatementId(id);
                        }
                    }
                }
                StatementKind::Variable => {
                    let Some(declaration) = statement.declaration(text) else { continue };
                    if declaration.space != StateSpace::Reg {
                        continue;
                    }
                    for declarator in declaration.names() {
                        let index = registers.add(RegisterDeclaration {
                            id: StatementId(id),
                            line: statement.first_line,
                            ty: declaration.ty,
                            vector: declaration.vector,
                            declarator,
                            scope_end: StatementId(range.end),
                            outer: None,
                        });
                        if let Some(scope) = scopes.last_mut() {
                            scope.push(index);
                        }
                    }
                }
                _ => {}
            }
        }
        registers
    }

    fn add(&mut self, mut declaration: RegisterDeclaration<'a>) -> usize {
        let index = self.declarations.len();
        let key = (declaration.declarator.name, declaration.declarator.range.is_some());
        self.lengths[usize::from(key.1)] |= length_bit(key.0);
        let same_name = self.named.entry(key).or_default();
        // Scopes that are closed by now cannot be hidden.
        let mut outer = same_name.last().copied();
        while let Some(candidate) = outer.and_then(|outer| self.declarations.get(outer)) {
            if candidate.scope_end > declaration.id {
                break;
            }
            outer = candidate.outer;
        }
        declaration.outer = outer;
        same_name.push(index);
        self.declarations.push(declaration);
        index
    }

    /// All of them, in order.
    pub fn declarations(&self) -> &[RegisterDeclaration<'a>] {
        &self.declarations
    }

    /// The declaration of a register.
    pub fn declaration(&self, register: Register) -> Option<&RegisterDeclaration<'a>> {
        self.declarations.get(register.declaration as usize)
    }

    /// The register that a name means at a statement; none for special registers, variables, labels and functions.
    pub fn resolve(&self, name: &str, at: StatementId) -> Option<Register> {
        let single = self.innermost((name, false), 0, at).map(|index| (index, 0));
        let digits = name.len() - name.trim_end_matches(|byte: char| byte.is_ascii_digit()).len();
        // `%r1<10>` may hide behind `%r12`: every split of the digits is a candidate, the longest number first.
        let ranges = (1..=digits.min(10)).rev().filter_map(|digits| {
            let (prefix, number) = name.split_at_checked(name.len() - digits)?;
            if digits > 1 && number.starts_with('0') {
                return None;
            }
            let number = number.parse::<u32>().ok()?;
            Some((self.innermost((prefix, true), number, at)?, number))
        });
        // The innermost scope wins, and within it the later declaration.
        let (index, number) = single.into_iter().chain(ranges).max_by_key(|&(index, _)| index)?;
        Some(Register { declaration: u32::try_from(index).ok()?, number })
    }

    /// The declaration of this name that a statement sees and that is large enough for the number: a small range hides
    /// only the registers it has.
    fn innermost(&self, key: (&str, bool), number: u32, at: StatementId) -> Option<usize> {
        if self.lengths[usize::from(key.1)] & length_bit(key.0) == 0 {
            return None;
        }
        let indices = self.named.get(&key)?;
        let after = indices.partition_point(|&index| self.declarations.get(index).is_some_and(|d| d.id <= at));
        let mut candidate = indices.get(after.checked_sub(1)?).copied();
        while let Some(declaration) = candidate.and_then(|index| self.declarations.get(index)) {
            if declaration.scope_end > at && number < declaration.declarator.range.unwrap_or(1) {
                return candidate;
            }
            candidate = declaration.outer;
        }
        None
    }

    /// The virtual registers that an instruction writes, in order.
    pub fn written_by<'r>(&'r self, located: &Located<'a>) -> impl Iterator<Item = Register> + 'r {
        let at = located.id;
        located.instruction.definitions().filter_map(move |name| self.resolve(name, at))
    }

    /// The virtual registers that an instruction reads and writes, in order.
    pub fn of<'r>(&'r self, located: &Located<'a>) -> impl Iterator<Item = RegisterUse<'a>> + 'r {
        let at = located.id;
        located.instruction.names().filter_map(move |used| {
            let register = self.resolve(used.name, at)?;
            Some(RegisterUse { name: used.name, register, is_def: used.is_def })
        })
    }
}

fn length_bit(name: &str) -> u64 {
    1 << name.len().min(63)
}
