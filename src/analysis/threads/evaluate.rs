//! Registers evaluated: constants, thread ids and what is computed from them, addresses of variables.
//!
//! One value a register, whatever the place: what all its definitions have in common. Compilers write a register once, so that
//! this loses little; what a loop counts is unknown.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::BlockSize;
use super::graph::{Graph, Site};
use super::value::{Value, Variation};
use crate::ptx::{Function, Operand, Operation, Register, Shape, StateSpace};

/// Registers that hold a number for each thread are at most this many: memory is bounded whatever the input.
const MAX_VECTORS: usize = 4096;
/// Rounds over the instructions; a register can change twice, a chain of loops may need more.
const MAX_ROUNDS: usize = 64;

/// What registers hold.
pub struct Values {
    registers: HashMap<Register, Value>,
    /// Variables that addresses speak of.
    pub variables: Vec<String>,
}

struct Solver<'g, 'a> {
    graph: &'g Graph<'a>,
    names: HashMap<&'a str, u32>,
    size: Option<BlockSize>,
    values: HashMap<Register, Value>,
    vectors: usize,
}

impl Values {
    /// What a register holds.
    pub fn of(&self, register: Register) -> &Value {
        self.registers.get(&register).unwrap_or(&Value::Unknown(Variation::Lane))
    }

    /// What an operand is: a number, a register, a variable, or an address of these.
    pub fn operand(&self, graph: &Graph<'_>, site: &Site<'_>, operand: Operand<'_>) -> Value {
        if let Some(address) = operand.address() {
            let base = match address.base {
                Some(name) => self.name(graph, site, name),
                None => Value::Constant(0),
            };
            return match (base, address.offset) {
                (Value::Address { variable, offset }, Some(added)) => {
                    Value::Address { variable, offset: offset.and_then(|offset| offset.checked_add(added)) }
                }
                (Value::Address { variable, .. }, None) => Value::Address { variable, offset: None },
                (Value::Constant(base), Some(added)) => Value::Constant(base.wrapping_add_signed(added)),
                (other, _) => Value::Unknown(other.variation()),
            };
        }
        if let Some(value) = operand.value() {
            return Value::Constant(value as u64);
        }
        match operand.name() {
            Some(name) => self.name(graph, site, name),
            None => Value::Unknown(Variation::Lane),
        }
    }

    fn name(&self, graph: &Graph<'_>, site: &Site<'_>, name: &str) -> Value {
        if let Some(register) = graph.registers.resolve(name, site.located.id) {
            return self.of(register).clone();
        }
        match self.variables.iter().position(|variable| variable == name) {
            Some(variable) => Value::Address { variable: variable as u32, offset: Some(0) },
            None => Value::Unknown(Variation::Block),
        }
    }

    /// Evaluates what branches, guards and the instructions that analyses ask about depend on.
    pub fn solve(function: &Function<'_, '_>, graph: &Graph<'_>, size: Option<BlockSize>) -> Values {
        let module = function.module();
        let mut variables: Vec<String> = Vec::new();
        let mut names = HashMap::new();
        let local = function.declarations(StateSpace::Shared).map(|(_, declaration)| declaration);
        let shared = module.variables().filter(|declaration| declaration.space == StateSpace::Shared);
        for name in local.chain(shared).flat_map(|declaration| declaration.names().map(|declarator| declarator.name)) {
            names.entry(name).or_insert_with(|| {
                variables.push(name.to_owned());
                variables.len() as u32 - 1
            });
        }
        let needed = needed(graph);
        let mut solver = Solver { graph, names, size, values: HashMap::new(), vectors: 0 };
        for round in 0..MAX_ROUNDS {
            let mut changed = false;
            for &index in &needed {
                if let Some(site) = graph.sites.get(index) {
                    changed |= solver.step(site, round + 1 == MAX_ROUNDS);
                }
            }
            if !changed {
                break;
            }
        }
        Values { registers: solver.values, variables }
    }
}

/// The instructions that decide branches, guards and the operands of barriers, ascending.
fn needed(graph: &Graph<'_>) -> Vec<usize> {
    let mut definitions: HashMap<Register, Vec<usize>> = HashMap::new();
    for (index, site) in graph.sites.iter().enumerate() {
        for used in graph.registers.of(&site.located).filter(|used| used.is_def) {
            definitions.entry(used.register).or_default().push(index);
        }
    }
    let mut wanted: HashSet<Register> = HashSet::new();
    let mut open: Vec<Register> = Vec::new();
    let mut want = |register: Register, open: &mut Vec<Register>| {
        if wanted.insert(register) {
            open.push(register);
        }
    };
    for site in &graph.sites {
        if let Some((register, _)) = site.guard {
            want(register, &mut open);
        }
        let asked = matches!(
            site.operation,
            Operation::SetMaxNReg { .. }
                | Operation::NamedBarrier(_)
                | Operation::Mbarrier(_)
                | Operation::Bulk(_)
                | Operation::CpAsync(_)
                | Operation::Tcgen05 { .. }
                | Operation::IndexedBranch { .. }
        );
        if asked {
            for used in graph.registers.of(&site.located).filter(|used| !used.is_def) {
                want(used.register, &mut open);
            }
        }
    }
    let mut indices = HashSet::new();
    while let Some(register) = open.pop() {
        for &index in definitions.get(&register).into_iter().flatten() {
            if indices.insert(index)
                && let Some(site) = graph.sites.get(index)
            {
                for used in graph.registers.of(&site.located).filter(|used| !used.is_def) {
                    want(used.register, &mut open);
                }
            }
        }
    }
    let mut indices: Vec<usize> = indices.into_iter().collect();
    indices.sort_unstable();
    indices
}

/// How wide a type is and whether it has a sign.
#[derive(Clone, Copy)]
struct Type {
    bits: u32,
    signed: bool,
}

impl Type {
    fn of(word: &str) -> Option<Type> {
        let bits = word.get(1..)?.parse().ok().filter(|bits| [8, 16, 32, 64].contains(bits));
        match word.as_bytes().first()? {
            b'u' | b'b' => Some(Type { bits: bits?, signed: false }),
            b's' => Some(Type { bits: bits?, signed: true }),
            _ if word == "pred" => Some(Type { bits: 1, signed: false }),
            _ => None,
        }
    }

    fn mask(self, value: u64) -> u64 {
        if self.bits >= 64 { value } else { value & ((1 << self.bits) - 1) }
    }

    /// The number that the bits stand for.
    fn number(self, value: u64) -> i128 {
        let value = self.mask(value);
        if self.signed && self.bits < 64 && value >> (self.bits - 1) & 1 == 1 {
            i128::from(value) - (1 << self.bits)
        } else if self.signed {
            i128::from(value as i64)
        } else {
            i128::from(value)
        }
    }
}

impl Solver<'_, '_> {
    /// Evaluates an instruction; says whether a register changed.
    fn step(&mut self, site: &Site<'_>, give_up: bool) -> bool {
        let computed = self.compute(site);
        let mut changed = false;
        let mut first = true;
        let definitions: Vec<Register> =
            self.graph.registers.of(&site.located).filter(|used| used.is_def).map(|used| used.register).collect();
        let elects = matches!(site.operation, Operation::Elect);
        for register in definitions {
            let is_predicate = self.graph.registers.declaration(register).is_some_and(|found| found.ty == "pred");
            let value = match (&computed, first) {
                _ if elects && is_predicate => self.elected(),
                (Some(value), true) => value.clone(),
                // The second destination of setp is the first one's complement.
                (Some(Value::Constant(value)), false) if site.located.instruction.mnemonic() == "setp" => {
                    Value::Constant(value ^ 1)
                }
                (Some(Value::Undefined), false) => Value::Undefined,
                (Some(value), false) => Value::Unknown(value.variation()),
                (None, _) => self.unknown(site),
            };
            first = false;
            let old = self.values.get(&register).cloned().unwrap_or(Value::Undefined);
            let mut new = old.clone().join(value);
            if new != old {
                if give_up {
                    new = Value::Unknown(Variation::Lane);
                }
                changed = true;
                self.values.insert(register, new);
            }
        }
        changed
    }

    /// What an instruction that is not evaluated gives: unknown, and as varied as what it reads.
    fn unknown(&self, site: &Site<'_>) -> Value {
        match site.located.instruction.mnemonic() {
            "atom" | "clock" | "shfl" | "mma" | "ldmatrix" | "tex" | "match" | "call" => {
                Value::Unknown(Variation::Lane)
            }
            "vote" | "activemask" | "redux" => Value::Unknown(Variation::Warp),
            "mbarrier" => Value::Unknown(Variation::Block),
            _ => {
                let reads = site.located.instruction.names().filter(|used| !used.is_def);
                let variations = reads.map(|used| self.name(site, used.name, None).variation());
                Value::Unknown(variations.max().unwrap_or(Variation::Block))
            }
        }
    }

    fn name(&self, site: &Site<'_>, name: &str, component: Option<&str>) -> Value {
        if let Some(register) = self.graph.registers.resolve(name, site.located.id) {
            return self.values.get(&register).cloned().unwrap_or(Value::Undefined);
        }
        if let Some(&variable) = self.names.get(name) {
            return Value::Address { variable, offset: Some(0) };
        }
        self.special(name, component)
    }

    /// A special register.
    fn special(&self, name: &str, component: Option<&str>) -> Value {
        let size = self.size.and_then(|size| Some((size.dimensions, size.threads()?)));
        let axis = match component {
            Some("y") => 1,
            Some("z") => 2,
            _ => 0,
        };
        let varied = match name {
            "%tid" | "%laneid" | "%lanemask_eq" | "%lanemask_lt" | "%lanemask_le" | "%lanemask_gt" | "%lanemask_ge"
            | "%clock" | "%clock64" | "%globaltimer" | "%clock_hi" => Variation::Lane,
            "%warpid" => Variation::Warp,
            _ => Variation::Block,
        };
        let Some(([x, y, z], threads)) = size else { return Value::Unknown(varied) };
        let each = |of: &dyn Fn(u32) -> u32| Value::Threads {
            values: (0..threads).map(|thread| u64::from(of(thread))).collect(),
            elected: false,
        };
        match name {
            "%tid" if axis == 0 => each(&|thread| thread % x),
            "%tid" if axis == 1 => each(&|thread| thread / x % y),
            "%tid" => each(&|thread| thread / x / y % z),
            "%laneid" => each(&|thread| thread % 32),
            "%warpid" => each(&|thread| thread / 32),
            "%ntid" => Value::Constant(u64::from([x, y, z][axis])),
            _ => Value::Unknown(varied),
        }
    }

    fn operand(&self, site: &Site<'_>, operand: Option<Operand<'_>>) -> Value {
        let Some(operand) = operand else { return Value::Unknown(Variation::Lane) };
        if let Some(value) = operand.value() {
            return Value::Constant(value as u64);
        }
        match operand.shape() {
            Shape::Name { name, component } => self.name(site, name, component),
            Shape::Not(inner) => match self.operand(site, Some(inner)) {
                Value::Constant(value) => Value::Constant(value ^ 1),
                Value::Threads { values, elected } => {
                    Value::Threads { values: values.iter().map(|value| value ^ 1).collect(), elected }
                }
                other => other,
            },
            // `variable+16`
            Shape::Expression => {
                let (name, rest) = operand.text().split_once('+').unwrap_or((operand.text(), ""));
                match (self.names.get(name.trim()), rest.trim().parse::<i64>()) {
                    (Some(&variable), Ok(offset)) => Value::Address { variable, offset: Some(offset) },
                    _ => Value::Unknown(Variation::Lane),
                }
            }
            _ => Value::Unknown(Variation::Lane),
        }
    }

    /// Applies a function to numbers, thread by thread where they differ.
    fn lift(&mut self, arguments: &[Value], of: impl Fn(&[u64]) -> Option<u64>) -> Value {
        if arguments.contains(&Value::Undefined) {
            return Value::Undefined;
        }
        let variation = arguments.iter().map(Value::variation).max().unwrap_or(Variation::Block);
        let known = |value: &Value| matches!(value, Value::Constant(_) | Value::Threads { .. });
        if !arguments.iter().all(known) {
            return Value::Unknown(variation);
        }
        let threads = arguments.iter().find_map(|value| match value {
            Value::Threads { values, .. } => Some(values.len()),
            _ => None,
        });
        let at = |thread: usize| {
            let numbers: Vec<u64> = arguments
                .iter()
                .map(|value| match value {
                    Value::Constant(value) => *value,
                    Value::Threads { values, .. } => values.get(thread).copied().unwrap_or(0),
                    _ => 0,
                })
                .collect();
            of(&numbers)
        };
        let elected = arguments.iter().any(|value| matches!(value, Value::Threads { elected: true, .. }));
        match threads {
            None => at(0).map_or(Value::Unknown(variation), Value::Constant),
            Some(_) if self.vectors >= MAX_VECTORS => Value::Unknown(variation),
            Some(threads) => {
                self.vectors += 1;
                match (0..threads).map(at).collect::<Option<Rc<[u64]>>>() {
                    Some(values) => Value::Threads { values, elected },
                    None => Value::Unknown(variation),
                }
            }
        }
    }

    /// What an instruction puts into its first destination; none if it is not evaluated.
    fn compute(&mut self, site: &Site<'_>) -> Option<Value> {
        let instruction = site.located.instruction;
        let mnemonic = instruction.mnemonic();
        let mut types = instruction.modifiers().filter_map(Type::of);
        let ty = types.next();
        let arguments: Vec<Value> =
            instruction.operands().skip(1).map(|operand| self.operand(site, Some(operand))).collect();
        let two = |values: &[Value]| values.len() == 2;
        // `mov.b64 {%r1, %r2}, %rd1` and `setp.eq.s32 _|%p1, …` define something else than the value below.
        let destination = instruction.operand(0)?;
        if matches!(destination.shape(), Shape::Vector(_)) || destination.text().starts_with('_') {
            return None;
        }
        let moved = |value: &Value| match value {
            Value::Address { .. } => Some(value.clone()),
            _ => None,
        };
        match mnemonic {
            "mov" | "cvta" | "mapa" if !arguments.is_empty() => {
                let value = arguments.first()?.clone();
                // The address of the same variable in another block stays that variable's.
                if mnemonic == "mapa" {
                    Some(moved(&value).unwrap_or(Value::Unknown(value.variation())))
                } else {
                    Some(value)
                }
            }
            "cvt" => {
                let (to, from) = (ty?, types.next()?);
                let value = arguments.first()?;
                if let Some(address) = moved(value) {
                    return Some(address);
                }
                Some(self.lift(&arguments, |n| Some(to.mask(from.number(*n.first()?) as u64))))
            }
            "add" | "sub" if two(&arguments) => {
                let ty = ty?;
                let subtract = mnemonic == "sub";
                let (a, b) = (arguments.first()?, arguments.get(1)?);
                match (a, b) {
                    (Value::Undefined, _) | (_, Value::Undefined) => Some(Value::Undefined),
                    (Value::Address { variable, offset }, other) => Some(match (other, offset) {
                        (Value::Address { .. }, _) => Value::Unknown(Variation::Block),
                        (Value::Constant(n), Some(offset)) => {
                            let n = Type { bits: ty.bits, signed: true }.number(*n) as i64;
                            let n = if subtract { n.checked_neg() } else { Some(n) };
                            Value::Address { variable: *variable, offset: n.and_then(|n| offset.checked_add(n)) }
                        }
                        _ => Value::Address { variable: *variable, offset: None },
                    }),
                    (other, Value::Address { variable, offset }) if !subtract => {
                        let n = match other {
                            Value::Constant(n) => Some(Type { bits: ty.bits, signed: true }.number(*n) as i64),
                            _ => None,
                        };
                        let offset = n.zip(*offset).and_then(|(n, offset)| offset.checked_add(n));
                        Some(Value::Address { variable: *variable, offset })
                    }
                    _ => Some(self.lift(&arguments, |n| {
                        let (a, b) = (*n.first()?, *n.get(1)?);
                        Some(ty.mask(if subtract { a.wrapping_sub(b) } else { a.wrapping_add(b) }))
                    })),
                }
            }
            "mul" | "mad" => {
                let ty = ty?;
                let wide = instruction.has("wide");
                if !wide && !instruction.has("lo") {
                    return None;
                }
                let to = if wide { Type { bits: ty.bits * 2, ..ty } } else { ty };
                if mnemonic == "mad"
                    && let Some(Value::Address { variable, offset }) = arguments.get(2)
                {
                    let (variable, offset) = (*variable, *offset);
                    let product = self.lift(arguments.get(..2)?, |n| {
                        Some(to.mask((ty.number(*n.first()?) * ty.number(*n.get(1)?)) as u64))
                    });
                    return Some(match product {
                        Value::Undefined => Value::Undefined,
                        Value::Constant(n) => Value::Address {
                            variable,
                            offset: offset.and_then(|o| o.checked_add(i64::try_from(n).ok()?)),
                        },
                        _ => Value::Address { variable, offset: None },
                    });
                }
                Some(self.lift(&arguments, |n| {
                    let product = ty.number(*n.first()?).wrapping_mul(ty.number(*n.get(1)?));
                    Some(to.mask((product as u64).wrapping_add(n.get(2).copied().unwrap_or(0))))
                }))
            }
            "and" | "or" | "xor" | "not" | "neg" | "shl" | "shr" | "min" | "max" | "div" | "rem" | "abs" | "bfe"
            | "lop3" | "popc" => {
                let ty = ty?;
                Some(self.lift(&arguments, |n| arithmetic(mnemonic, ty, n)))
            }
            "setp" => {
                let mut modifiers = instruction.modifiers();
                let comparison = modifiers.next()?;
                let combine = modifiers.next().filter(|word| ["and", "or", "xor"].contains(word));
                let ty = ty?;
                if ty.bits == 1 {
                    return None;
                }
                Some(self.lift(&arguments, |n| {
                    let holds = u64::from(compare(comparison, ty, *n.first()?, *n.get(1)?)?);
                    let other = n.get(2).copied();
                    Some(match (combine, other) {
                        (Some("and"), Some(other)) => holds & other,
                        (Some("or"), Some(other)) => holds | other,
                        (Some("xor"), Some(other)) => holds ^ other,
                        _ => holds,
                    })
                }))
            }
            "selp" => {
                let (a, b) = (arguments.first()?, arguments.get(1)?);
                if let (Value::Address { variable: x, .. }, Value::Address { variable: y, .. }) = (a, b)
                    && x == y
                {
                    return Some(Value::Address { variable: *x, offset: None });
                }
                Some(self.lift(&arguments, |n| Some(if *n.get(2)? & 1 == 1 { *n.first()? } else { *n.get(1)? })))
            }
            "shfl" if instruction.has("idx") => {
                let lane = arguments.get(1)?.constant()? & 31;
                match arguments.first()? {
                    Value::Threads { values, elected: false } => {
                        let values = values.clone();
                        Some(Value::Threads {
                            values: (0..values.len())
                                .map(|thread| {
                                    let from = thread / 32 * 32 + lane as usize;
                                    values.get(from).or(values.get(thread)).copied().unwrap_or(0)
                                })
                                .collect(),
                            elected: false,
                        })
                    }
                    Value::Constant(value) => Some(Value::Constant(*value)),
                    Value::Undefined => Some(Value::Undefined),
                    value => Some(Value::Unknown(value.variation().min(Variation::Warp))),
                }
            }
            _ => None,
        }
    }

    /// The predicate of `elect.sync`: lane 0 stands for whichever is elected.
    fn elected(&self) -> Value {
        match self.size.and_then(|size| size.threads()) {
            Some(threads) => {
                Value::Threads { values: (0..threads).map(|t| u64::from(t % 32 == 0)).collect(), elected: true }
            }
            None => Value::Unknown(Variation::Lane),
        }
    }
}

fn compare(comparison: &str, ty: Type, a: u64, b: u64) -> Option<bool> {
    let unsigned = Type { signed: false, ..ty };
    let (x, y) = (ty.number(a), ty.number(b));
    let (ux, uy) = (unsigned.number(a), unsigned.number(b));
    Some(match comparison {
        "eq" => ux == uy,
        "ne" => ux != uy,
        "lt" => x < y,
        "le" => x <= y,
        "gt" => x > y,
        "ge" => x >= y,
        "lo" => ux < uy,
        "ls" => ux <= uy,
        "hi" => ux > uy,
        "hs" => ux >= uy,
        _ => return None,
    })
}

fn arithmetic(mnemonic: &str, ty: Type, n: &[u64]) -> Option<u64> {
    let a = *n.first()?;
    let b = n.get(1).copied();
    let (x, y) = (ty.number(a), b.map(|b| ty.number(b)));
    let shift = b.map(|b| u32::try_from(b & 0xffff_ffff).unwrap_or(u32::MAX));
    Some(ty.mask(match mnemonic {
        "and" => a & b?,
        "or" => a | b?,
        "xor" => a ^ b?,
        "not" => !a,
        "neg" => x.wrapping_neg() as u64,
        "abs" => x.unsigned_abs() as u64,
        "popc" => u64::from(ty.mask(a).count_ones()),
        "shl" => a.checked_shl(shift?).unwrap_or(0),
        "shr" => x.checked_shr(shift?.min(127))? as u64,
        "min" => x.min(y?) as u64,
        "max" => x.max(y?) as u64,
        "div" => x.checked_div(y?)? as u64,
        "rem" => x.checked_rem(y?)? as u64,
        "bfe" => {
            let (from, length) = (*n.get(1)? & 0xff, *n.get(2)? & 0xff);
            if ty.signed || length >= 64 {
                return None;
            }
            ty.mask(a).checked_shr(u32::try_from(from).ok()?).unwrap_or(0) & ((1 << length) - 1)
        }
        "lop3" => {
            let (b, c, table) = (b?, *n.get(2)?, *n.get(3)?);
            (0..8).fold(0, |all, row| {
                let pick = |bits: u64, yes: bool| if yes { bits } else { !bits };
                if table >> row & 1 == 0 {
                    return all;
                }
                all | pick(a, row & 4 != 0) & pick(b, row & 2 != 0) & pick(c, row & 1 != 0)
            })
        }
        _ => return None,
    }))
}
