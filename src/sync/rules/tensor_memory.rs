//! Tensor memory: whether its addresses are those that were allocated, and columns and lanes are used by whom they belong to.
//!
//! In: addresses as places in what an instruction allocated, column in the lower half and lane in the upper one.

use std::collections::BTreeSet;

use crate::base::{Line, work};
use crate::ptx::descriptor::{self, MmaKind};
use crate::ptx::{Instruction, Operand, Operation, Shape, Tcgen05};
use crate::simt::{Bits, Paths, Site, SiteId, ThreadSet, Value, ValueId, Warps};
use crate::sync::accumulates;
use crate::sync::rules::agreement::Agreement;
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// Columns of tensor memory: who takes all has them from 0 on.
const ALL: u64 = 512;
/// Lanes of tensor memory.
const LANES: i64 = 128;

/// Checks the tensor memory of a kernel.
pub fn check(agreement: &mut Agreement<'_, '_>, bits: &Bits) -> Vec<Finding> {
    let mut checks: Vec<Finding> = Vec::new();
    let warps = agreement.warps;
    if warps.values.allocations.is_empty() {
        return checks;
    }
    permits(warps, &mut checks);
    let mut accumulators: Vec<(u32, i64, i64)> = Vec::new();
    let mut block = None;
    for (index, site) in warps.graph.sites.iter_enumerated() {
        let Operation::Tcgen05 { action, cta_group } = site.operation else { continue };
        // What was committed may be read and given up before columns are used anew.
        if action == Tcgen05::Commit || block != Some(site.block) {
            accumulators.clear();
            block = Some(site.block);
        }
        let here = warps.at(index);
        let instruction = site.located.instruction;
        if let Some(found) = unfilled(warps, (index, site)).filter(|_| !here.is_empty())
            && !checks.iter().any(|known| known.rule == found.rule)
        {
            checks.push(found);
        }
        let is_address = |operand: &Operand<'_>| matches!(operand.shape(), Shape::Address(_));
        let operand = match action {
            Tcgen05::Ld | Tcgen05::St | Tcgen05::Mma | Tcgen05::Cp | Tcgen05::Shift => {
                instruction.operands().find(is_address)
            }
            Tcgen05::Dealloc => instruction.operand(0),
            _ => None,
        };
        let Some(operand) = operand.filter(|_| !here.is_empty()) else { continue };
        let mut add = |rule, message: String, reasoning: &str| {
            let (confidence, line, reasoning) = (Confidence::Likely, site.line(), reasoning.to_owned());
            if !checks.iter().any(|known| known.rule == rule) {
                checks.push(Finding { rule, confidence, line, message, reasoning });
            }
        };
        let value = warps.values.operand(&warps.graph, index, operand);
        if let Some(number) = value.constant() {
            let is_all = |columns: Option<u64>| columns.is_none_or(|columns| columns >= ALL);
            if !is_compared(warps) && !warps.values.allocations.iter().any(|(_, alloc)| is_all(columns(warps, *alloc)))
            {
                let message =
                    format!("the address {number:#x} of tensor memory is a constant, not what tcgen05.alloc gave");
                add(Rule::TensorAddress, message, "tcgen05.alloc writes the address of the columns that it gives");
            }
            continue;
        }
        let allocated = warps.values.allocations.iter().find(|(variable, _)| value.variable() == Some(*variable));
        let Some((variable, alloc)) = allocated else { continue };
        if action == Tcgen05::Dealloc {
            if let Value::Address { offset: Some(offset), .. } = value
                && offset != 0
            {
                let message = format!("tcgen05.dealloc is given an address {offset} past what tcgen05.alloc gave");
                add(Rule::TensorAddress, message, "columns are freed by the address that they were allocated with");
            }
            continue;
        }
        let room = columns(warps, *alloc);
        let shape = match action {
            Tcgen05::Ld | Tcgen05::St => moved(&instruction),
            Tcgen05::Mma if cta_group == Some(1) => multiplied(warps, bits, index, &instruction),
            _ => None,
        };
        // Where threads differ, all of them must come.
        let differs = matches!(value, Value::Addresses { .. }) || here.warps().len() > 1;
        if differs && !agreement.all_come(index) {
            continue;
        }
        let is_apart = matches!(value, Value::Addresses { .. });
        for (thread, offset) in places(&value, &here) {
            let (column, lane) = (offset & 0xffff, offset >> 16);
            let beyond = shape.zip(room).filter(|(used, room)| column + used > *room as i64);
            if let Some((used, room)) = beyond {
                let message =
                    format!("columns {column} to {} are used of {room} that were allocated", column + used - 1);
                add(Rule::TensorWithin, message, "columns that were not allocated belong to others, or to nobody");
                break;
            }
            let warp = i64::from(thread / 32);
            // Kernels in use leave the lane 0 in every warp; a column for each warp in its place is none of these.
            let is_moved = lane != 0 || column == warp % 4 * 32 && column != 0 && is_apart;
            if matches!(action, Tcgen05::Ld | Tcgen05::St) && is_moved && (lane / 32 != warp % 4 || lane >= LANES) {
                let own = warp % 4 * 32;
                let message =
                    format!("warp {warp} is at lane {lane} of tensor memory, and {own} to {} are its own", own + 31);
                add(
                    Rule::TensorLanes,
                    message,
                    "warp w of a warpgroup reaches lanes 32 (w % 4) to 32 (w % 4) + 31: bits 16 to 31 of an address are the lane",
                );
                break;
            }
            if action == Tcgen05::Shift && lane % 32 != 0 {
                let message = format!("tcgen05.shift starts at lane {lane}, which is no multiple of 32");
                add(Rule::TensorLanes, message, "the lane of tcgen05.shift is a multiple of 32");
                break;
            }
        }
        if let (Tcgen05::Mma, Some(used), Value::Address { offset: Some(offset), .. }) = (action, shape, &value) {
            let column = offset & 0xffff;
            let meets = |(other, at, size): &&(u32, i64, i64)| {
                other == variable && *at != column && *at < column + used && column < at + size
            };
            if let Some((_, at, size)) = accumulators.iter().find(meets) {
                let message = format!(
                    "the accumulator in columns {column} to {} overlaps another in {at} to {}",
                    column + used - 1,
                    at + size - 1
                );
                add(Rule::TensorOverlap, message, "an accumulator has N columns of its own");
                // Where the column is added is what is wrong.
                if let (Some(found), Some(made)) = (checks.last_mut(), added_at(warps, index, operand))
                    && found.rule == Rule::TensorOverlap
                    && found.line == site.line()
                {
                    found.line = made;
                }
                continue;
            }
            let reshaped = |(other, at, size): &&(u32, i64, i64)| other == variable && *at == column && *size != used;
            if let Some((.., size)) = accumulators.iter().find(reshaped) {
                let message =
                    format!("multiplies into {used} columns from {column} on, where a product of {size} is under way");
                add(
                    Rule::TensorOverlap,
                    message,
                    "multiplications follow each other of themselves into one accumulator of one shape: otherwise tcgen05.commit, and a \
                     wait for it, come between",
                );
            }
            accumulators.push((*variable, column, used));
            for operand in instruction.operands().skip(1).filter(is_address) {
                let Value::Address { variable: other, offset: Some(read) } =
                    warps.values.operand(&warps.graph, index, operand)
                else {
                    continue;
                };
                let read = read & 0xffff;
                let under_way = |(written, at, size): &&(u32, i64, i64)| {
                    *written == other && *at != column && (*at..at + size).contains(&read)
                };
                if let Some((_, at, size)) = accumulators.iter().find(under_way) {
                    let message = format!(
                        "{} is column {read} of tensor memory, and a product in columns {at} to {} is under way",
                        operand.text(),
                        at + size - 1
                    );
                    add(
                        Rule::TensorOverlap,
                        message,
                        "a multiplication follows another of itself into the same accumulator alone: what it reads of another's result \
                         needs tcgen05.commit, and a wait for it, between",
                    );
                }
                if other == *variable && (column..column + used).contains(&read) {
                    let message = format!(
                        "{} is column {read} of tensor memory, and the result goes to columns {column} to {}",
                        operand.text(),
                        column + used - 1
                    );
                    add(Rule::TensorOverlap, message, "a multiplication reads nothing of what it writes as it goes on");
                }
            }
        }
        if action == Tcgen05::Mma {
            first(warps, index, &instruction, &mut add);
        }
    }
    checks
}

/// Where a number is added to make an address.
fn added_at(warps: &Warps<'_>, index: SiteId, operand: Operand<'_>) -> Option<Line> {
    let site = warps.graph.sites.get(index)?;
    let register = warps.graph.registers.resolve(operand.address()?.base?, site.located.id)?;
    let made = warps.graph.sites.get(warps.values.maker(index, register)?)?;
    let is_added = made.located.instruction.operand(2).is_some_and(|added| added.value().is_some());
    (made.located.instruction.mnemonic() == "add" && is_added).then(|| made.line())
}

/// What a multiplication does with a buffer: `.collector::a::use` is `a` and `use`.
fn collector<'a>(site: &Site<'a>) -> Option<(&'a str, &'a str)> {
    site.located.instruction.modifiers().find_map(|word| word.strip_prefix("collector::")?.split_once("::"))
}

/// A multiplication that takes a matrix from a buffer that no way here has filled.
fn unfilled(warps: &Warps<'_>, (index, site): (SiteId, &Site<'_>)) -> Option<Finding> {
    let (buffer, action) = collector(site).filter(|(_, action)| matches!(*action, "use" | "lastuse"))?;
    work::spend_on(warps.graph.sites.len() / 8);
    let fills = |other: &Site<'_>| collector(other) == Some((buffer, "fill"));
    let filled: BTreeSet<SiteId> =
        warps.graph.sites.iter_enumerated().filter(|(_, other)| fills(other)).map(|(at, _)| at).collect();
    let last = Paths::new(warps).first(index, true, &[&filled]);
    let finding = |message: String, reasoning: &str| Finding {
        rule: Rule::CollectorFilled,
        confidence: Confidence::Likely,
        line: site.line(),
        message,
        reasoning: reasoning.to_owned(),
    };
    if last.is_empty() {
        return Some(finding(
            format!("takes a matrix from the collector buffer {buffer} (.{action}), which nothing has filled"),
            "a multiplication with .fill comes before those that use what it has left in the buffer",
        ));
    }
    // A is the second operand, and B the third: both have to be the matrix that the buffer was filled with.
    let at = if buffer == "a" { 1 } else { 2 };
    let matrix = |index: SiteId| {
        let operand = warps.graph.sites.get(index)?.located.instruction.operand(at)?;
        warps.values.origin(&warps.graph, index, operand)
    };
    let (id, offset) = matrix(index)?;
    let differs = |(other, from): (ValueId, i64)| other == id && from != offset;
    let fill = last.iter().find(|fill| matrix(**fill).is_some_and(differs)).filter(|_| last.len() == 1)?;
    let line = warps.graph.sites.get(*fill)?.line();
    Some(finding(
        format!(
            "takes a matrix from the collector buffer {buffer} (.{action}), which line {line} filled with another one"
        ),
        "the buffer holds the matrix of the multiplication with .fill: who uses it names the same one",
    ))
}

fn columns(warps: &Warps<'_>, alloc: SiteId) -> Option<u64> {
    let operand = warps.graph.sites.get(alloc)?.located.instruction.operand(1)?;
    warps.values.operand(&warps.graph, alloc, operand).constant()
}

/// Whether a kernel compares what was allocated with a number of its own, as those do that take it to be 0.
fn is_compared(warps: &Warps<'_>) -> bool {
    let is_allocated = |value: Value| {
        let variable = value.variable();
        warps.values.allocations.iter().any(|(allocated, _)| variable == Some(*allocated))
    };
    warps.graph.sites.iter_enumerated().any(|(index, site)| {
        let instruction = site.located.instruction;
        instruction.mnemonic() == "setp"
            && instruction.operands().skip(1).any(|it| is_allocated(warps.values.operand(&warps.graph, index, it)))
    })
}

/// The places that threads of a set have, one of each warp.
fn places(value: &Value, here: &ThreadSet) -> Vec<(u32, i64)> {
    let each = here.one_a_warp();
    let place = |thread: u32| match value {
        Value::Address { offset: Some(offset), .. } => Some((thread, *offset)),
        Value::Addresses { offsets, .. } => offsets.get(thread as usize).map(|offset| (thread, *offset)),
        _ => None,
    };
    each.iter().filter_map(place).collect()
}

/// Columns that a load or a store moves.
fn moved(instruction: &Instruction<'_>) -> Option<i64> {
    let wide = |word: &str| match word {
        "32x32b" => Some(1),
        "16x64b" => Some(2),
        "16x128b" => Some(4),
        "16x256b" => Some(8),
        _ => None,
    };
    let times = |word: &str| word.strip_prefix('x').and_then(|number| number.parse::<i64>().ok());
    let packed = instruction.modifiers().any(|word| word.ends_with("pack::16b"));
    let columns = instruction.modifiers().find_map(wide)? * instruction.modifiers().find_map(times)?;
    Some(columns * if packed { 2 } else { 1 })
}

/// Columns of an accumulator of 32 bits an element.
fn multiplied(warps: &Warps<'_>, bits: &Bits, index: SiteId, instruction: &Instruction<'_>) -> Option<i64> {
    let kind = instruction.modifiers().find_map(|word| word.strip_prefix("kind::").and_then(MmaKind::of))?;
    let is_address = |operand: &Operand<'_>| matches!(operand.shape(), Shape::Address(_));
    let operand = instruction.operands().skip(3).find(|operand| !is_address(operand))?;
    let known = bits.operand(warps, index, operand);
    let ty = descriptor::D_TYPE;
    let is_wide = kind.is_scaled() || known.field(ty.from, ty.bits).is_some_and(|ty| ty > 0);
    let n = known.field(descriptor::N.from, descriptor::N.bits).map(descriptor::columns)?;
    (is_wide && !instruction.has("ws")).then_some(n as i64)
}

/// A first multiplication that adds to what nobody set.
fn first(warps: &Warps<'_>, index: SiteId, instruction: &Instruction<'_>, add: &mut impl FnMut(Rule, String, &str)) {
    let Some(accumulates) = accumulates(*instruction) else { return };
    if warps.values.operand(&warps.graph, index, accumulates).constant().is_none_or(|adds| adds & 1 == 0) {
        return;
    }
    let sets = |(at, other): &(SiteId, &Site<'_>)| {
        *at != index
            && matches!(other.operation, Operation::Tcgen05 { action: Tcgen05::Mma | Tcgen05::St | Tcgen05::Cp, .. })
    };
    let others: BTreeSet<SiteId> = warps.graph.sites.iter_enumerated().filter(sets).map(|(at, _)| at).collect();
    // Another warp may set it.
    let elsewhere = others.iter().any(|at| !warps.at(*at).within(&warps.at(index).whole_warps()));
    if !elsewhere && Paths::new(warps).first(index, true, &[&others]).is_empty() {
        let message = "the first multiplication adds to an accumulator that nothing has set".to_owned();
        add(Rule::TensorFirst, message, "with enable-input-d the product is added to what tensor memory holds");
    }
}

/// Allocations after the permit was given up.
fn permits(warps: &Warps<'_>, checks: &mut Vec<Finding>) {
    let of = |wanted: Tcgen05| {
        let is = move |site: &Site<'_>| matches!(site.operation, Operation::Tcgen05 { action, .. } if action == wanted);
        warps.graph.sites.iter_enumerated().filter(move |(_, site)| is(site)).map(|(index, _)| index)
    };
    let allocs: BTreeSet<SiteId> = of(Tcgen05::Alloc).collect();
    let paths = Paths::new(warps);
    for given_up in of(Tcgen05::Relinquish) {
        let after = paths.first(given_up, false, &[&allocs]);
        let site = |index: SiteId| warps.graph.sites.get(index);
        if let Some((site, from)) = after.first().and_then(|index| site(*index)).zip(site(given_up)) {
            checks.push(Finding {
                rule: Rule::PermitHeld,
                confidence: Confidence::Likely,
                line: site.line(),
                message: format!("tcgen05.alloc after the permit was given up at line {}", from.line()),
                reasoning: "after tcgen05.relinquish_alloc_permit a block allocates no more".to_owned(),
            });
            return;
        }
    }
}
