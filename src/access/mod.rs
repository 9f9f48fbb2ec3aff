//! Accesses of memory, decided from what each thread's address is: bank conflicts of shared memory, coalescing of global memory.
//!
//! In: a kernel evaluated for its operands. Out: [`AccessFacts`]: for each access of a warp the wavefronts or sectors that it takes, the
//! fewest possible, and which threads meet where. A base that all lanes of a warp share need not be known; how lanes differ must be.
//! Where that is not so the access is undecided, with the line that decides.

mod banks;
mod mend;
mod model;

pub use model::*;

use crate::base::{FastMap, Line, work};
use crate::ptx::{CpAsync, Function, FunctionKind, Instruction, Operand, Operation, StateSpace, type_bits};
use crate::simt::{Bits, Held, Pattern, Patterns, Site, SiteId, ThreadSet, Uniformity, ValueId, Warps};

use self::banks::{Manner, SECTOR, lines, sectors, wavefronts};

/// Steps that the accesses of a kernel may take; beyond it nothing is told of them.
const STEPS: u64 = 2 << 20;
/// Sets of threads for which it is told whether all of them come.
const MAX_SETS: usize = 64;
/// Lanes of a warp.
const LANES: u32 = 32;

/// One operand that a warp reads or writes memory by.
#[derive(Clone, Copy)]
struct Access<'a> {
    /// The instruction.
    index: SiteId,
    line: Line,
    operand: Operand<'a>,
    space: AccessSpace,
    kind: AccessKind,
    /// Bytes of a lane; none where they are not known.
    bytes: Option<u32>,
    /// Bytes of an element of a vector.
    element: u32,
    manner: Manner,
    /// Lanes whose addresses count.
    lanes: u32,
}

/// What the accesses of a kernel cost; none where there are none, or where it would take too long.
pub fn accesses(function: &Function<'_, '_>, operands: Option<&(Warps<'_>, Bits)>) -> Option<AccessFacts> {
    // What a function is called with may differ from lane to lane.
    let (warps, bits) = operands.filter(|_| function.kind() == FunctionKind::Entry)?;
    work::within(STEPS, || decide(function, warps, bits)).ok().flatten()
}

fn decide(function: &Function<'_, '_>, warps: &Warps<'_>, bits: &Bits) -> Option<AccessFacts> {
    let all: Vec<Access<'_>> = warps.graph.sites.iter_enumerated().flat_map(|site| of_site(warps, site)).collect();
    if all.is_empty() {
        return None;
    }
    let number = |line: Line| function.module().number_of(line);
    if warps.threads.is_none() {
        let facts = all.iter().map(|access| {
            let undecided = Undecided { why: Reason::BlockSize, ptx_line: None };
            AccessFact { undecided: Some(undecided), ..blank(access, number(access.line)) }
        });
        return Some(AccessFacts::summed(facts.collect(), Vec::new()));
    }
    let patterns = Patterns::of(warps, bits, all.iter().map(|access| (access.index, access.operand)));
    let mut decider = Decider { warps, patterns, sets: FastMap::default(), known: FastMap::default() };
    let mut facts = Vec::with_capacity(all.len());
    let mut places = Vec::with_capacity(all.len());
    for access in &all {
        let (fact, place) = decider.decide(access, &number);
        facts.push(fact);
        places.push(place);
    }
    let mends = mend::mends(warps, &all, &facts, &places);
    Some(AccessFacts::summed(facts, mends))
}

fn blank(access: &Access<'_>, ptx_line: Line) -> AccessFact {
    AccessFact {
        ptx_line,
        space: access.space,
        kind: access.kind,
        bytes: access.bytes.unwrap_or(0),
        variable: None,
        warps: 0,
        least: None,
        most: None,
        ideal: None,
        ways: None,
        bank: None,
        threads: Vec::new(),
        misaligned: None,
        lines: None,
        undecided: None,
    }
}

/// Where the lanes of an access are, as far as that is known.
struct Place {
    /// How lanes differ.
    pattern: Pattern,
    /// Bytes that the instruction adds.
    added: i64,
    /// Who may come.
    set: ThreadSet,
}

struct Decider<'w, 'a> {
    warps: &'w Warps<'a>,
    patterns: Patterns<'w, 'a>,
    sets: FastMap<ThreadSet, Uniformity>,
    /// Accesses by one address of one form are decided once.
    known: FastMap<Key, Range>,
}

/// What decides an access: the value of its address, what is added within a round of the banks, its form, and who comes.
type Key = (ValueId, u64, u32, Manner, AccessSpace, ThreadSet);

/// What an access takes, over warps and alignments.
#[derive(Clone)]
struct Range {
    least: u32,
    most: u32,
    ideal: u32,
    ways: u32,
    worst: Option<(u32, Vec<u32>)>,
    /// Whether it depends on where in a word it starts.
    by_alignment: bool,
    /// Of global memory: the most where what lanes share is no multiple of a sector.
    misaligned: u32,
    /// Of global memory: lines of the first cache.
    lines: u32,
    /// Whether all lanes have one word.
    is_one: bool,
}

impl<'a> Decider<'_, 'a> {
    fn decide(&mut self, access: &Access<'a>, number: &dyn Fn(Line) -> Line) -> (AccessFact, Option<Place>) {
        work::spend(1);
        let mut fact = blank(access, number(access.line));
        let counted = |thread: &u32| thread % LANES < access.lanes;
        let set = self.warps.at(access.index);
        let set: ThreadSet = if access.lanes < LANES { set.iter().filter(counted).collect() } else { set };
        fact.warps = set.warps().len() as u32;
        let line_of = |index: SiteId| self.warps.graph.sites.get(index).map(|site| number(site.line()));
        let undecided = |why: Reason, at: Option<SiteId>| Some(Undecided { why, ptx_line: at.and_then(line_of) });
        let Some(bytes) = access.bytes.filter(|bytes| bytes.is_power_of_two() && *bytes <= 32) else {
            fact.undecided = undecided(Reason::Form, Some(access.index));
            return (fact, None);
        };
        let (pattern, added, value) = match self.patterns.address(access.index, access.operand) {
            (Held::Pattern(pattern), added, value) => (pattern, added, value),
            (Held::Unknown(cause), ..) => {
                fact.undecided = undecided(Reason::Address, cause);
                if access.space == AccessSpace::Global
                    && let (Held::Pattern(pattern), added, _) = self.patterns.estimated(access.index, access.operand)
                {
                    let form = (bytes, access.manner, access.space);
                    fact.lines = Some(range(&pattern, added, &set, form).lines);
                }
                return (fact, None);
            }
            // Nothing comes here that has a value.
            (Held::Undefined, ..) => {
                fact.undecided = undecided(Reason::Address, Some(access.index));
                return (fact, None);
            }
        };
        let variable = pattern.variable.and_then(|variable| self.warps.values.variables.get(variable as usize));
        fact.variable = variable.cloned();
        let within = added as u64 % (4 * banks::BANKS);
        let key: Option<Key> = value.map(|value| (value, within, bytes, access.manner, access.space, set));
        let range = match key.and_then(|key| self.known.get(&key)) {
            Some(known) => known.clone(),
            None => {
                let range = range(&pattern, added, &set, (bytes, access.manner, access.space));
                self.known.extend(key.map(|key| (key, range.clone())));
                range
            }
        };
        let open = !set.is_empty() && !self.all_come(access.index);
        fact.most = Some(range.most);
        let few = open && (access.space == AccessSpace::Global || range.most > range.ideal);
        fact.least = Some(if few { range.least.min(1) } else { range.least });
        fact.ideal = Some(range.ideal);
        if access.space == AccessSpace::Shared {
            fact.ways = Some(range.ways);
            if let Some((bank, threads)) = range.worst.filter(|_| range.most > range.ideal) {
                (fact.bank, fact.threads) = (Some(bank), threads);
            }
        }
        fact.lines = Some(range.lines).filter(|_| access.space == AccessSpace::Global);
        fact.misaligned = Some(range.misaligned).filter(|most| *most > range.most);
        if access.manner == Manner::Alone && access.space == AccessSpace::Shared && range.is_one {
            // ptxas may have one lane do it for all.
            fact.undecided = undecided(Reason::Form, Some(access.index));
        } else if open && range.most > range.ideal {
            fact.undecided =
                Some(Undecided { why: Reason::Lanes, ptx_line: self.chooser(access.index).and_then(line_of) });
        } else if range.by_alignment && range.most > range.ideal {
            fact.undecided = undecided(Reason::Alignment, Some(access.index));
        }
        (fact, Some(Place { pattern, added, set }))
    }

    /// Whether all lanes come to an instruction that may, or none.
    fn all_come(&mut self, index: SiteId) -> bool {
        let set = self.warps.at(index);
        if !self.sets.contains_key(&set) && self.sets.len() >= MAX_SETS {
            return false;
        }
        let warps = self.warps;
        self.sets.entry(set).or_insert_with(|| Uniformity::of_lanes(warps, set)).equally(warps, index)
    }

    /// The instruction that makes the predicate of another one.
    fn chooser(&self, index: SiteId) -> Option<SiteId> {
        let (register, _) = self.warps.graph.sites.get(index)?.guard?;
        self.warps.values.maker(index, register)
    }
}

/// What an access takes in every warp of a set, whatever its lanes share.
fn range(pattern: &Pattern, added: i64, set: &ThreadSet, form: (u32, Manner, AccessSpace)) -> Range {
    let (bytes, manner, space) = form;
    // What is shared turns banks round as one, but where it is no multiple of a word.
    let (period, natural) = match space {
        AccessSpace::Shared => (4, bytes),
        AccessSpace::Global => (SECTOR, bytes),
    };
    let step = (1u64 << pattern.shared_zeros().min(16)).max(u64::from(natural.min(16)));
    let mut found: Option<Range> = None;
    let mut before: Option<(Vec<(u32, u64)>, u32)> = None;
    let mut lanes: Vec<(u32, u64)> = Vec::with_capacity(LANES as usize);
    for warp in set.warps() {
        lanes.clear();
        let threads = (warp * LANES..(warp + 1) * LANES).filter(|thread| set.has(*thread));
        lanes.extend(threads.map(|thread| (thread % LANES, pattern.lanes.of(thread).wrapping_add_signed(added))));
        // A shared part that no multiple of its alignment makes whole is made so: what lies below is known.
        let Some(&(_, first)) = lanes.first() else { continue };
        let start = first % period.max(1);
        let low = lanes.iter().map(|(_, address)| address.wrapping_sub(first) as i64).min().unwrap_or(0);
        for (_, address) in &mut lanes {
            *address = address.wrapping_sub(first).wrapping_sub(low as u64);
        }
        let offset = (start as i64 + low).rem_euclid(period as i64) as u64;
        if before.as_ref().is_some_and(|(same, at)| *same == lanes && u64::from(*at) == offset) {
            continue;
        }
        work::spend_on(lanes.len());
        before = Some((lanes.clone(), offset as u32));
        let (mut by, mut here) = (0, None::<Range>);
        while by == 0 || by < period {
            // An address that is no multiple of its size faults: such a base is none.
            let base = (offset + by) % period;
            by += step;
            let misfits =
                |(_, address): &(u32, u64)| address.wrapping_add(base) % u64::from(natural.min(16)).min(period) != 0;
            if lanes.iter().any(misfits) && step < period {
                continue;
            }
            let placed: Vec<(u32, u64)> =
                lanes.iter().map(|(lane, address)| (*lane, address.wrapping_add(base))).collect();
            let one = match space {
                AccessSpace::Shared => {
                    let passes = wavefronts(&placed, bytes, manner);
                    let named = |(_, lanes): (u32, Vec<u32>)| {
                        let first = warp * LANES + lanes.first().copied().unwrap_or(0);
                        let at = pattern.lanes.of(first).wrapping_add_signed(added);
                        let bank = (at / 4 % banks::BANKS) as u32;
                        (bank, lanes.iter().map(|lane| warp * LANES + lane).collect())
                    };
                    let mut lanes = placed.iter().map(|(_, address)| address / 4);
                    let first = lanes.next();
                    Range {
                        least: passes.wavefronts,
                        most: passes.wavefronts,
                        ideal: passes.ideal,
                        ways: passes.ways,
                        worst: passes.worst.map(named),
                        by_alignment: false,
                        misaligned: 0,
                        lines: 0,
                        is_one: placed.len() > 1 && lanes.all(|word| Some(word) == first),
                    }
                }
                AccessSpace::Global => {
                    let (asked, ideal) = sectors(&placed, bytes);
                    let lines = lines(&placed, bytes);
                    Range { least: asked, most: asked, ideal, misaligned: asked, lines, ..Range::NONE }
                }
            };
            here = Some(match here {
                None => one,
                Some(all) => all.aligned(one, space),
            });
        }
        found = match (found, here) {
            (Some(all), Some(here)) => Some(all.with(here)),
            (all, here) => all.or(here),
        };
    }
    found.unwrap_or(Range::NONE)
}

impl Range {
    const NONE: Range = Range {
        least: 0,
        most: 0,
        ideal: 0,
        ways: 0,
        worst: None,
        by_alignment: false,
        misaligned: 0,
        lines: 0,
        is_one: false,
    };

    /// Both, the other where what lanes share is another multiple of its alignment. Sectors are told as where it is a whole one.
    fn aligned(self, other: Range, space: AccessSpace) -> Range {
        let misaligned = self.misaligned.max(other.misaligned);
        match space {
            AccessSpace::Global if other.most < self.most => Range { misaligned, ..other },
            AccessSpace::Global => Range { misaligned, ..self },
            AccessSpace::Shared => {
                let differs = self.most != other.most;
                Range { by_alignment: self.by_alignment || differs, ..self.with(other) }
            }
        }
    }

    /// Both, the other of another warp.
    fn with(self, other: Range) -> Range {
        // Of two the one that is further from its best is told.
        let is_further = other.most - other.ideal.min(other.most) > self.most - self.ideal.min(self.most);
        let ideal = if is_further { other.ideal } else { self.ideal };
        Range {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
            ideal,
            ways: self.ways.max(other.ways),
            worst: if other.ways > self.ways { other.worst } else { self.worst },
            by_alignment: self.by_alignment || other.by_alignment,
            misaligned: self.misaligned.max(other.misaligned),
            lines: self.lines.max(other.lines),
            is_one: self.is_one || other.is_one,
        }
    }
}

/// The space that a word names.
fn space(word: &str) -> Option<StateSpace> {
    Some(match word {
        "shared" | "shared::cta" | "shared::cluster" => StateSpace::Shared,
        "global" => StateSpace::Global,
        "const" => StateSpace::Const,
        "local" => StateSpace::Local,
        "param" | "param::entry" | "param::func" => StateSpace::Param,
        _ => return None,
    })
}

/// The accesses of an instruction.
fn of_site<'a>(warps: &Warps<'a>, (index, site): (SiteId, &Site<'a>)) -> Vec<Access<'a>> {
    let instruction = site.located.instruction;
    let spaces: Vec<StateSpace> = instruction.modifiers().filter_map(space).collect();
    let access = |at: usize, named: Option<StateSpace>, kind: AccessKind, bytes: Option<u32>| {
        let operand = instruction.operand(at)?;
        let space = match named {
            Some(StateSpace::Shared) => AccessSpace::Shared,
            Some(StateSpace::Global) => AccessSpace::Global,
            Some(_) => return None,
            // A generic address: its variable tells.
            None => {
                let value = warps.values.operand(&warps.graph, index, operand);
                let declared = warps.values.declared.get(value.variable()? as usize)?;
                match declared.space? {
                    StateSpace::Shared => AccessSpace::Shared,
                    StateSpace::Global => AccessSpace::Global,
                    _ => return None,
                }
            }
        };
        let element = element_bits(&instruction).map_or(4, |bits| bits.div_ceil(8));
        let manner = if kind == AccessKind::Load { Manner::Loads } else { Manner::Stores };
        let (line, lanes) = (site.line(), LANES);
        Some(Access { index, line, operand, space, kind, bytes, element, manner, lanes })
    };
    let first = spaces.first().copied();
    let found: Vec<Option<Access<'a>>> = match site.operation {
        Operation::CpAsync(CpAsync::Copy) => {
            let bytes = instruction
                .operand(2)
                .and_then(|operand| u32::try_from(warps.values.operand(&warps.graph, index, operand).constant()?).ok());
            let to = access(0, first, AccessKind::Copy, bytes);
            let from = access(1, spaces.get(1).copied(), AccessKind::Copy, bytes);
            vec![to.map(|to| Access { element: bytes.unwrap_or(4), ..to }), from]
        }
        Operation::Other => {
            let (at, kind) = match instruction.mnemonic() {
                "ld" | "ldu" => (1, AccessKind::Load),
                "st" => (0, AccessKind::Store),
                "atom" => (1, AccessKind::Atomic),
                "red" => (0, AccessKind::Atomic),
                "ldmatrix" => (1, AccessKind::LoadMatrix),
                "stmatrix" => (0, AccessKind::StoreMatrix),
                _ => return Vec::new(),
            };
            let found = match kind {
                AccessKind::LoadMatrix | AccessKind::StoreMatrix => {
                    access(at, first.or(Some(StateSpace::Shared)), kind, Some(16)).map(|found| Access {
                        manner: Manner::Rows,
                        lanes: rows(&instruction),
                        ..found
                    })
                }
                AccessKind::Atomic => access(at, first, kind, width(&instruction)).map(|found| Access {
                    manner: Manner::Alone,
                    // Of others ptxas makes loops.
                    bytes: found.bytes.filter(|_| found.space == AccessSpace::Global || is_native(&instruction)),
                    ..found
                }),
                _ => access(at, first, kind, width(&instruction)),
            };
            vec![found]
        }
        _ => return Vec::new(),
    };
    found.into_iter().flatten().collect()
}

/// Whether shared memory does an atomic by itself: integers of 32 bits.
fn is_native(instruction: &Instruction<'_>) -> bool {
    instruction.modifiers().any(|word| matches!(word, "u32" | "s32" | "b32"))
}

/// Bits of an element by the last type that an instruction names.
fn element_bits(instruction: &Instruction<'_>) -> Option<u32> {
    let bits = |word: &str| if word == "b128" { Some(128) } else { type_bits(word).filter(|bits| *bits >= 8) };
    instruction.modifiers().filter_map(bits).last()
}

/// Bytes of a thread, by type and vector.
fn width(instruction: &Instruction<'_>) -> Option<u32> {
    let vector = instruction.modifiers().find_map(|word| match word {
        "v2" => Some(2),
        "v4" => Some(4),
        "v8" => Some(8),
        _ => None,
    });
    element_bits(instruction)?.div_ceil(8).checked_mul(vector.unwrap_or(1))
}

/// Rows of the matrices that an instruction moves: lanes whose addresses count.
fn rows(instruction: &Instruction<'_>) -> u32 {
    let count = |word: &str| word.strip_prefix('x').and_then(|count| count.parse::<u32>().ok());
    let matrices = instruction.modifiers().find_map(count).unwrap_or(1);
    let rows = if instruction.has("m16n16") { 16 } else { 8 };
    (matrices * rows).min(LANES)
}

#[cfg(test)]
mod tests;
