//! Who touches what: every access of shared or tensor memory, with the places that an execution or constants tell.

use std::collections::HashMap;

use super::model::{Direction, How};
use crate::base::{IndexVec, Line, work};
use crate::ptx::{Bulk, CpAsync, Function, Operand, Operation, Tcgen05, Wgmma};
use crate::roles::Role;
use crate::simt::{Site, SiteId, ThreadSet, Value, Warps};
use crate::sync::execute::footprint::{Announced, MemoryKind, OBJECT, Span, Touched};
use crate::sync::program::{Access, Program, Variable};
use crate::sync::value::Basis;
use crate::sync::{Accessed, Evidence, accessed};

/// Where a descriptor has its address, and in what it counts.
const DESCRIPTOR: (u32, u32, u64) = (0, 14, 16);
/// Bytes, or columns, that are known of what has no known extent.
const START: (u64, u64) = (16, 1);

/// One operand of one instruction.
pub(super) struct Use {
    /// The instruction.
    pub site: SiteId,
    /// Which memory.
    pub memory: MemoryKind,
    /// What happens there.
    pub direction: Direction,
    /// By what.
    pub how: How,
    /// The role that does it.
    pub role: Option<String>,
    /// Where: places of the layout that the executor has.
    pub spans: Vec<Span>,
    /// Whether the spans are all of it, or only where it starts.
    pub is_whole: bool,
    /// Whether a warp came back to the first place that it had touched.
    pub returned: bool,
    /// Whether it is an mbarrier.
    pub is_object: bool,
    /// What announcements tell of a copy.
    pub announced: Option<Announced>,
    /// Whether it touches nothing else in any launch: constants give the place, or no loop and no input has a part in it.
    pub is_settled: bool,
}

impl Use {
    /// The operand that has the address, where it is one.
    pub fn operand<'w>(&self, uses: &Uses<'w>) -> Option<Operand<'w>> {
        let of = |accessed: &Accessed<'w>| {
            accessed.memory == self.memory && !accessed.is_descriptor && (accessed.number == OBJECT.0) == self.is_object
        };
        accessed(uses.site(self.site)?).into_iter().find(of).map(|accessed| accessed.operand)
    }

    /// Just past what a pass is known to touch.
    pub fn end(&self, span: &Span) -> u64 {
        let least = self.announced.filter(|_| !self.is_whole).map_or(0, |announced| announced.least);
        span.end().max(span.start.saturating_add(least))
    }
}

/// All of a kernel.
pub(super) struct Uses<'w> {
    /// Those whose place is known, in the order of the text.
    pub all: Vec<Use>,
    /// Instructions with an operand whose place is not known.
    pub unknown: Vec<(SiteId, MemoryKind, How)>,
    /// Shared variables, and where they lie.
    pub variables: Vec<Variable>,
    /// Where each of them starts, by its name.
    starts: HashMap<String, u64>,
    sites: &'w IndexVec<SiteId, Site<'w>>,
    roles: &'w [Role],
}

impl<'w> Uses<'w> {
    pub(super) fn of(
        function: &Function<'_, '_>,
        warps: &'w Warps<'_>,
        roles: &'w [Role],
        evidence: &Evidence<'_>,
    ) -> Uses<'w> {
        let graph = &warps.graph;
        let mut executed: HashMap<(SiteId, u8, MemoryKind, Access), &Touched> = HashMap::new();
        if let Some(found) = &evidence.touched {
            for touched in &found.touched {
                let Some(site) = found.program.sites.get(touched.pc) else { continue };
                executed.insert((*site, touched.operand, touched.memory, touched.access), touched);
            }
        }
        let variables = match &evidence.touched {
            Some(found) => found.program.variables.clone(),
            None => Program::variables_of(function, graph),
        };
        let operands = evidence.operands.as_ref().map_or(warps, |(warps, _)| warps);
        let starts = variables.iter().rev().map(|variable| (variable.name.clone(), variable.start)).collect();
        let mut uses = Uses { all: Vec::new(), unknown: Vec::new(), variables, starts, sites: &graph.sites, roles };
        for (index, site) in graph.sites.iter_enumerated() {
            work::spend(1);
            for accessed in accessed(site) {
                let key = (index, accessed.number, accessed.memory, accessed.access);
                uses.add(index, site, &accessed, executed.get(&key).copied(), (operands, evidence));
            }
            // What completes on an mbarrier names it beside its data.
            let object = (index, OBJECT.0, MemoryKind::Shared, Access::Atomic);
            if !matches!(site.operation, Operation::Mbarrier(_))
                && let Some(touched) = executed.get(&object)
            {
                uses.push(index, (MemoryKind::Shared, Direction::Both, How::Mbarrier), touched, (true, false));
            }
        }
        uses
    }

    fn push(
        &mut self,
        site: SiteId,
        (memory, direction, how): (MemoryKind, Direction, How),
        touched: &Touched,
        (is_object, is_settled): (bool, bool),
    ) {
        self.all.push(Use {
            site,
            memory,
            direction,
            how,
            role: self.role(site, Some(touched.warps)),
            spans: touched.spans.clone(),
            is_whole: touched.is_whole,
            returned: touched.returned,
            is_object,
            announced: touched.announced,
            is_settled,
        });
    }

    fn add(
        &mut self,
        index: SiteId,
        site: &Site<'_>,
        accessed: &Accessed<'_>,
        touched: Option<&Touched>,
        (operands, evidence): (&Warps<'_>, &Evidence<'_>),
    ) {
        let direction = match accessed.access {
            Access::Read => Direction::Reads,
            Access::Write => Direction::Writes,
            Access::Atomic => Direction::Both,
        };
        let how = how(site, accessed);
        let is_object = accessed.number == OBJECT.0;
        if let Some(touched) = touched.filter(|touched| !touched.spans.is_empty()) {
            let by_fact = |span: &Span| span.place == Basis::Fact && span.path == Basis::Fact;
            let is_fact = touched.spans.iter().all(by_fact);
            // Where an input decides who comes, another launch may have more threads come than the execution had.
            let constant = match is_fact {
                true => Vec::new(),
                false => self.constant(index, accessed, &operands.at(index), (operands, evidence)),
            };
            let is_settled = touched.unknown == 0 && (is_fact || !constant.is_empty());
            self.push(index, (accessed.memory, direction, how), touched, (is_object, is_settled));
            if let Some(last) = self.all.last_mut() {
                last.spans.extend(constant);
            }
            if touched.unknown > 0 {
                self.unknown.push((index, accessed.memory, how));
            }
            return;
        }
        let here = operands.at(index);
        if here.is_empty() && operands.threads.is_some() {
            return;
        }
        let spans = self.constant(index, accessed, &here, (operands, evidence));
        if !spans.is_empty() {
            let (memory, is_whole) = (accessed.memory, accessed.count.is_some());
            let role = self.role(index, None);
            self.all.push(Use {
                site: index,
                memory,
                direction,
                how,
                role,
                spans,
                is_whole,
                returned: false,
                is_object,
                announced: None,
                is_settled: true,
            });
        } else if !accessed.is_generic {
            self.unknown.push((index, accessed.memory, how));
        }
    }

    /// The places that constants and thread ids tell.
    fn constant(
        &self,
        index: SiteId,
        accessed: &Accessed<'_>,
        here: &ThreadSet,
        (operands, evidence): (&Warps<'_>, &Evidence<'_>),
    ) -> Vec<Span> {
        let count = accessed.count.unwrap_or(match accessed.memory {
            MemoryKind::Shared => START.0,
            MemoryKind::Tensor => START.1,
        });
        let span = |start: u64, count: u64, warp: u32| Span {
            start,
            count,
            warp,
            pass: 0,
            place: Basis::Fact,
            // Who comes there is not looked at.
            path: Basis::Input,
        };
        if accessed.is_descriptor {
            let Some((warps, bits)) = &evidence.operands else { return Vec::new() };
            let known = bits.operand(warps, index, accessed.operand);
            let (from, wide, unit) = DESCRIPTOR;
            // Bits of an address are known below its alignment alone: the place is not.
            let is_number = known.address == 0;
            let place = known.field(from, wide).filter(|_| is_number);
            return place.map(|place| span(place * unit, count, 0)).into_iter().collect();
        }
        let value = operands.values.operand(&operands.graph, index, accessed.operand);
        let Some(variable) = value.variable() else { return Vec::new() };
        let base = match accessed.memory {
            MemoryKind::Tensor => 0,
            MemoryKind::Shared => {
                let name = operands.values.variables.get(variable as usize);
                match name.and_then(|name| self.starts.get(name)) {
                    Some(start) => *start,
                    None => return Vec::new(),
                }
            }
        };
        let place = |offset: i64| match accessed.memory {
            MemoryKind::Shared => base.checked_add_signed(offset),
            MemoryKind::Tensor => u64::try_from(offset & 0xffff).ok(),
        };
        match &value {
            Value::Address { offset: Some(offset), .. } => {
                place(*offset).map(|start| span(start, count, 0)).into_iter().collect()
            }
            Value::Addresses { offsets, .. } => {
                work::spend_on(here.len() as usize);
                // The lowest and the highest place of each warp, whose threads come one after the other.
                let mut of_warps: Vec<(u32, u64, u64)> = Vec::new();
                for thread in here.iter() {
                    let Some(at) = offsets.get(thread as usize).and_then(|offset| place(*offset)) else { continue };
                    match of_warps.last_mut().filter(|(warp, ..)| *warp == thread / 32) {
                        Some((_, low, high)) => (*low, *high) = ((*low).min(at), (*high).max(at)),
                        None => of_warps.push((thread / 32, at, at)),
                    }
                }
                of_warps.into_iter().map(|(warp, low, high)| span(low, high - low + count, warp)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The role that runs an instruction: the one whose code it is, or whose warps did.
    pub(super) fn role(&self, index: SiteId, warps: Option<u32>) -> Option<String> {
        let block = self.sites.get(index)?.block;
        work::spend_on(self.roles.len());
        let own = self.roles.iter().find(|role| role.blocks.contains(&block));
        let by_warps = || {
            let done = warps.filter(|warps| *warps != 0)?;
            self.roles.iter().find(|role| {
                let of_role = role.threads.map_or(0, |threads| {
                    threads.warps().into_iter().fold(0u32, |all, warp| all | 1 << (warp % u32::BITS))
                });
                done & !of_role == 0
            })
        };
        own.or_else(by_warps).map(|role| role.name.clone())
    }

    /// An instruction.
    pub(super) fn site(&self, index: SiteId) -> Option<&Site<'w>> {
        self.sites.get(index)
    }

    /// Its line.
    pub(super) fn line(&self, index: SiteId) -> Option<Line> {
        self.sites.get(index).map(Site::line)
    }

    /// Bytes that all copies of a phase bring, where one of them is this.
    pub(super) fn stage_bytes(&self, index: SiteId) -> Option<u64> {
        self.data_of(index).find_map(|used| used.announced).map(|announced| announced.phase)
    }

    /// What an instruction touches beside mbarriers.
    fn data_of(&self, index: SiteId) -> impl Iterator<Item = &Use> {
        let first = self.all.partition_point(|used| used.site < index);
        let own = self.all.iter().skip(first).take_while(move |used| used.site == index);
        own.filter(|used| !used.is_object)
    }

    /// Bytes that a copy moves, where they are the same each time.
    pub(super) fn copied(&self, index: SiteId) -> Option<u64> {
        let found = self.data_of(index).next()?;
        // The only copy of a phase brings all that is announced.
        let alone = found.announced.filter(|announced| announced.least == announced.phase);
        if let Some(alone) = alone.filter(|_| !found.is_whole) {
            return Some(alone.least);
        }
        if !found.is_whole {
            return None;
        }
        let bytes = found.spans.first()?.count;
        found.spans.iter().all(|span| span.count == bytes).then_some(bytes)
    }
}

/// By what an operand is touched.
fn how(site: &Site<'_>, accessed: &Accessed<'_>) -> How {
    match site.operation {
        _ if accessed.number == OBJECT.0 => How::Mbarrier,
        Operation::CpAsync(CpAsync::Copy) => How::CpAsync,
        Operation::Bulk(Bulk::Copy { tensor } | Bulk::Reduce { tensor }) => {
            if tensor {
                How::TensorCopy
            } else {
                How::BulkCopy
            }
        }
        Operation::Wgmma(Wgmma::MmaAsync) => How::Wgmma,
        Operation::Tcgen05 { action, .. } => match action {
            Tcgen05::Mma => How::Tcgen05Mma,
            Tcgen05::Cp => How::Tcgen05Copy,
            Tcgen05::Ld => How::Tcgen05Load,
            Tcgen05::St => How::Tcgen05Store,
            Tcgen05::Alloc => How::Tcgen05Alloc,
            _ => How::Other,
        },
        _ => match site.located.instruction.mnemonic() {
            "ld" | "ldu" => How::Load,
            "st" => How::Store,
            "atom" | "red" => How::Atomic,
            "ldmatrix" => How::LoadMatrix,
            "stmatrix" => How::StoreMatrix,
            _ => How::Other,
        },
    }
}
