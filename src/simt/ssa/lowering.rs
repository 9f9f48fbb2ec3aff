//! Instructions of the slice made ready: their text is read once, however often they are evaluated.

use std::collections::HashMap;

use crate::base::IndexVec;
use crate::ptx::{Operand, Operation, Shape};
use crate::simt::eval::number::{Arithmetic, Comparison, Type};
use crate::simt::eval::value::{Value, Variation};
use crate::simt::graph::{Graph, Site, SiteId};
use crate::simt::ssa::construct::{Ssa, ValueId};
use crate::simt::ssa::slice::Slice;
use crate::simt::{BlockId, BlockSize};

/// Where an operand's value comes from.
pub(in crate::simt) enum Source {
    /// It is known.
    Known(Value),
    /// A value of a register; never set where nothing defines it.
    Value(Option<ValueId>),
    /// `!%p1`
    Not(Box<Source>),
    /// `[%r1+16]`
    Address(Box<Source>, Option<i64>),
    /// The number of this block in its cluster.
    OwnRank,
    /// `{%r1, %r2}`: parts of a number, the lowest first.
    Pack(Box<[Source]>),
    /// `0f3F800000`: not followed.
    Opaque,
}

/// How predicates are combined by `setp`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::simt) enum Combine {
    No,
    And,
    Or,
    Xor,
}

/// What an instruction computes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::simt) enum Compute {
    /// Nothing that is followed.
    Nothing,
    Move,
    Mapa,
    Convert {
        to: Type,
        from: Type,
    },
    Add {
        ty: Type,
        subtract: bool,
    },
    Multiply {
        ty: Type,
        to: Type,
        adds: bool,
    },
    Arithmetic {
        what: Arithmetic,
        ty: Type,
    },
    Compare {
        how: Comparison,
        ty: Type,
        combine: Combine,
    },
    Select,
    Shuffle,
    Load {
        bytes: u32,
    },
    /// Bits that change places: `mov.b64 {%r1, %r2}, %rd1`.
    Unpack,
    /// `bfi`
    Insert {
        ty: Type,
    },
    /// `prmt`, without a mode.
    Permute,
    /// `shf`
    Funnel {
        left: bool,
        wraps: bool,
    },
}

impl Compute {
    /// Whether numbers are computed of it, thread by thread; of the rest only single bits are (`bits.rs`).
    pub fn is_evaluated(self) -> bool {
        use Compute::{Funnel, Insert, Load, Nothing, Permute, Unpack};
        !matches!(self, Nothing | Load { .. } | Unpack | Insert { .. } | Permute | Funnel { .. })
    }
}

/// A destination.
pub(in crate::simt) struct Destination {
    pub id: ValueId,
    /// What it held before.
    pub old: Option<ValueId>,
    pub is_several: bool,
    /// Whether no other instruction writes this value.
    pub alone: bool,
    pub is_predicate: bool,
}

/// What an instruction that is not evaluated gives.
pub(in crate::simt) enum Otherwise {
    /// As varied as this.
    Variation(Variation),
    /// As varied as what it reads.
    Reads(Box<[Source]>),
}

/// An instruction, ready.
pub(in crate::simt) struct Step {
    pub compute: Compute,
    pub arguments: Box<[Source]>,
    pub otherwise: Otherwise,
    pub guard: Option<(Option<ValueId>, bool)>,
    pub destinations: Box<[Destination]>,
    /// Values that it depends on: first those that have a part in what it gives.
    pub reads: Box<[ValueId]>,
    /// How many of them have: not what an unguarded write replaces.
    depends: u32,
    /// Among whom what it gives differs, whatever it reads.
    pub varies: Variation,
    pub elects: bool,
    /// Whether it reads which block of its cluster, or of the grid, this is.
    pub ranked: bool,
    /// Whether a second destination is the first one's complement.
    pub complements: bool,
    pub block: BlockId,
    /// Its place among the instructions.
    pub index: SiteId,
    /// Whether nothing that it depends on comes from memory or from where ways meet: it gives the same whoever goes where.
    pub fixed: bool,
}

impl Step {
    /// Values that have a part in what it gives.
    pub fn depends(&self) -> &[ValueId] {
        self.reads.get(..self.depends as usize).unwrap_or(&self.reads)
    }
}

/// Makes instructions ready.
pub(in crate::simt) struct Lowering<'g, 'a> {
    pub graph: &'g Graph<'a>,
    pub names: &'g HashMap<&'a str, u32>,
    pub size: Option<BlockSize>,
    pub ssa: &'g Ssa,
    specials: Vec<(&'a str, usize, Value)>,
}

impl<'g, 'a> Lowering<'g, 'a> {
    pub fn new(
        graph: &'g Graph<'a>,
        names: &'g HashMap<&'a str, u32>,
        size: Option<BlockSize>,
        ssa: &'g Ssa,
    ) -> Lowering<'g, 'a> {
        Lowering { graph, names, size, ssa, specials: Vec::new() }
    }

    /// All instructions of a slice, in order.
    pub fn steps(mut self, slice: &Slice) -> Vec<Step> {
        let mut fixed = IndexVec::filled(false, self.ssa.count);
        if let Some(never) = fixed.get_mut(ValueId::NEVER) {
            *never = true;
        }
        let mut steps = Vec::with_capacity(slice.instructions.len());
        for &index in &slice.instructions {
            let Some(site) = self.graph.sites.get(index) else { continue };
            let mut step = self.step(slice, index, site);
            let own = |id: ValueId| step.destinations.iter().any(|to| to.id == id);
            let is_fixed = |id: ValueId| own(id) || fixed.get(id).copied().unwrap_or(true);
            let all = step.depends().iter().all(|id| is_fixed(*id));
            step.fixed =
                all && !matches!(step.compute, Compute::Load { .. }) && step.destinations.iter().all(|to| to.alone);
            for to in step.destinations.iter().filter(|_| step.fixed) {
                if let Some(slot) = fixed.get_mut(to.id) {
                    *slot = true;
                }
            }
            steps.push(step);
        }
        steps
    }

    fn step(&mut self, slice: &Slice, index: SiteId, site: &Site<'a>) -> Step {
        let uses = slice.uses(index);
        let read = |number: u32| self.ssa.read_number(index, number);
        let guard = site.guard.map(|(register, negated)| (self.ssa.read(index, register), negated));
        let destinations: Box<[Destination]> = uses
            .iter()
            .filter(|used| used.is_def)
            .filter_map(|used| {
                let register = self.ssa.register(used.number)?;
                let declared = self.graph.registers.declaration(register);
                let is_several = self.ssa.is_several(used.number);
                let written = slice.written.get(used.number as usize).copied().unwrap_or(0);
                Some(Destination {
                    id: self.ssa.write_number(index, used.number)?,
                    old: read(used.number),
                    is_several,
                    alone: is_several || written <= 1,
                    is_predicate: declared.is_some_and(|found| found.ty == "pred"),
                })
            })
            .collect();
        // What an unguarded write replaces has no part in it.
        let has_part = |is_def: bool| !is_def || guard.is_some();
        let given = uses.iter().filter(|used| has_part(used.is_def)).filter_map(|used| read(used.number));
        let replaced = uses.iter().filter(|used| !has_part(used.is_def)).filter_map(|used| read(used.number));
        let mut reads: Vec<ValueId> = given.chain(guard.and_then(|(id, _)| id)).collect();
        let depends = reads.len() as u32;
        reads.extend(replaced);
        let instruction = site.located.instruction;
        let mnemonic = instruction.mnemonic();
        let arguments: Box<[Source]> =
            instruction.operands().skip(1).map(|operand| self.operand(index, site, operand)).collect();
        let compute = self.compute(site, mnemonic, arguments.len()).unwrap_or(Compute::Nothing);
        let otherwise = match mnemonic {
            "atom" | "clock" | "shfl" | "mma" | "wmma" | "wgmma" | "tcgen05" | "ldmatrix" | "tex" | "match"
            | "call" => Otherwise::Variation(Variation::Lane),
            // Every thread has memory of its own there, at the same address.
            "ld" if instruction.has("local") => Otherwise::Variation(Variation::Lane),
            "vote" | "activemask" | "redux" => Otherwise::Variation(Variation::Warp),
            "mbarrier" => Otherwise::Variation(Variation::Block),
            _ if !compute.is_evaluated() => {
                let reads = instruction.names().filter(|used| !used.is_def);
                Otherwise::Reads(reads.map(|used| self.name(index, site, used.name, None)).collect())
            }
            _ => Otherwise::Variation(Variation::Lane),
        };
        let elects = matches!(site.operation, Operation::Elect);
        Step {
            varies: varies(compute, &arguments, &otherwise, elects),
            compute,
            arguments,
            otherwise,
            guard,
            destinations,
            reads: reads.into(),
            depends,
            elects,
            ranked: instruction.names().any(|used| !used.is_def && is_rank(used.name)),
            complements: mnemonic == "setp",
            block: site.block,
            index,
            fixed: false,
        }
    }

    /// What an instruction puts into its first destination; none if it is not evaluated.
    fn compute(&self, site: &Site<'a>, mnemonic: &str, arguments: usize) -> Option<Compute> {
        let instruction = site.located.instruction;
        // `mov.b64 {%r1, %r2}, %rd1` and `setp.eq.s32 _|%p1, …` define something else than the value below.
        let destination = instruction.operand(0)?;
        if mnemonic == "mov" && matches!(destination.shape(), Shape::Vector(_)) {
            return Some(Compute::Unpack);
        }
        if matches!(destination.shape(), Shape::Vector(_)) || destination.text().starts_with('_') {
            return None;
        }
        let mut types = instruction.modifiers().filter_map(Type::of);
        let ty = types.next();
        Some(match mnemonic {
            "mov" | "cvta" if arguments > 0 => Compute::Move,
            "mapa" if arguments > 0 => Compute::Mapa,
            "cvt" | "add" | "sub" if instruction.has("sat") => return None,
            "cvt" if arguments > 0 => Compute::Convert { to: ty?, from: types.next()? },
            "add" | "sub" if arguments == 2 => Compute::Add { ty: ty?, subtract: mnemonic == "sub" },
            "mul" | "mad" if arguments >= if mnemonic == "mad" { 3 } else { 2 } => {
                let ty = ty?;
                let wide = instruction.has("wide");
                if mnemonic == "mul" && instruction.has("hi") {
                    return Some(Compute::Arithmetic { what: Arithmetic::High, ty });
                }
                if !wide && !instruction.has("lo") {
                    return None;
                }
                let to = if wide { Type { bits: ty.bits * 2, ..ty } } else { ty };
                Compute::Multiply { ty, to, adds: mnemonic == "mad" }
            }
            "setp" if arguments >= 2 => {
                let mut modifiers = instruction.modifiers();
                let how = Comparison::of(modifiers.next()?);
                let combine = match modifiers.next() {
                    Some("and") if arguments > 2 => Combine::And,
                    Some("or") if arguments > 2 => Combine::Or,
                    Some("xor") if arguments > 2 => Combine::Xor,
                    _ => Combine::No,
                };
                let ty = ty.filter(|ty| ty.bits > 1)?;
                Compute::Compare { how, ty, combine }
            }
            "selp" if arguments >= 3 => Compute::Select,
            "shfl" if instruction.has("idx") && arguments >= 2 => Compute::Shuffle,
            "bfi" if arguments == 4 => Compute::Insert { ty: ty? },
            "prmt" if arguments == 3 && instruction.modifiers().count() == 1 => Compute::Permute,
            "shf" if arguments == 3 => Compute::Funnel { left: instruction.has("l"), wraps: instruction.has("wrap") },
            "ld" => Compute::Load { bytes: ty?.bits / 8 },
            _ => {
                let what =
                    Arithmetic::of(mnemonic, instruction.modifiers()).filter(|what| arguments >= what.arguments())?;
                Compute::Arithmetic { what, ty: ty? }
            }
        })
    }

    fn name(&mut self, index: SiteId, site: &Site<'a>, name: &'a str, component: Option<&str>) -> Source {
        if let Some(register) = self.graph.registers.resolve(name, site.located.id) {
            return Source::Value(self.ssa.number(register).and_then(|number| self.ssa.read_number(index, number)));
        }
        if let Some(&variable) = self.names.get(name) {
            return Source::Known(Value::Address { variable, offset: Some(0) });
        }
        if name == "%cluster_ctarank" {
            return Source::OwnRank;
        }
        Source::Known(self.special(name, component))
    }

    /// A special register.
    fn special(&mut self, name: &'a str, component: Option<&str>) -> Value {
        let axis = match component {
            Some("y") => 1,
            Some("z") => 2,
            _ => 0,
        };
        let known = self.specials.iter().find(|(other, at, _)| *other == name && *at == axis);
        if let Some((.., value)) = known {
            return value.clone();
        }
        let value = special(self.size, name, axis);
        self.specials.push((name, axis, value.clone()));
        value
    }

    fn operand(&mut self, index: SiteId, site: &Site<'a>, operand: Operand<'a>) -> Source {
        if let Some(value) = operand.value() {
            return Source::Known(Value::Constant(value as u64));
        }
        match operand.shape() {
            Shape::Name { name, component } => self.name(index, site, name, component),
            Shape::Not(inner) => Source::Not(Box::new(self.operand(index, site, inner))),
            Shape::Address(_) => {
                let Some(address) = operand.address() else { return Source::Known(Value::Unknown(Variation::Lane)) };
                let base = match address.base {
                    Some(name) => self.name(index, site, name, None),
                    None => Source::Known(Value::Constant(0)),
                };
                Source::Address(Box::new(base), address.offset)
            }
            // `variable+16`
            Shape::Expression => {
                let (name, rest) = operand.text().split_once('+').unwrap_or((operand.text(), ""));
                Source::Known(match (self.names.get(name.trim()), rest.trim().parse::<i64>()) {
                    (Some(&variable), Ok(offset)) => Value::Address { variable, offset: Some(offset) },
                    _ => Value::Unknown(Variation::Lane),
                })
            }
            Shape::Vector(parts) => Source::Pack(parts.map(|part| self.operand(index, site, part)).collect()),
            _ => Source::Opaque,
        }
    }
}

/// Among whom what an instruction gives differs, whatever the registers that it reads.
fn varies(compute: Compute, arguments: &[Source], otherwise: &Otherwise, elects: bool) -> Variation {
    let known = |sources: &[Source]| {
        let varies = sources.iter().map(|source| match source {
            Source::Known(value) => value.variation(),
            _ => Variation::Block,
        });
        varies.max().unwrap_or(Variation::Block)
    };
    match otherwise {
        // What one lane is elected for, one lane of every warp is.
        _ if elects => Variation::Block,
        _ if compute.is_evaluated() => known(arguments),
        Otherwise::Variation(varies) => *varies,
        Otherwise::Reads(sources) => known(sources),
    }
}

/// Whether a special register differs from block to block.
fn is_rank(name: &str) -> bool {
    matches!(
        name,
        "%ctaid" | "%cluster_ctaid" | "%cluster_ctarank" | "%clusterid" | "%smid" | "%gridid" | "%is_explicit_cluster"
    )
}

fn special(size: Option<BlockSize>, name: &str, axis: usize) -> Value {
    let varied = match name {
        "%tid" | "%laneid" | "%lanemask_eq" | "%lanemask_lt" | "%lanemask_le" | "%lanemask_gt" | "%lanemask_ge"
        | "%clock" | "%clock64" | "%globaltimer" | "%clock_hi" => Variation::Lane,
        "%warpid" => Variation::Warp,
        _ => Variation::Block,
    };
    let size = size.and_then(|size| Some((size.dimensions, size.threads()?)));
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
        "%ntid" => Value::Constant(u64::from([x, y, z].get(axis).copied().unwrap_or(1))),
        _ => Value::Unknown(varied),
    }
}
