//! Maps of shared and tensor memory, and groups under way: a row a region.

use std::io::{self, Write};

use super::Options;
use super::figures::{count, thousands};
use super::kernel::row;
use super::{DIM, RESET, WARN};
use crate::base::Line;
use crate::base::hardware::SmLimits;
use crate::emit::escape::terminal;
use crate::report::memory::{
    Direction, GroupsInFlight, MemoryMaps, RegionKind, RegionUse, SharedMap, SharedRegion, TensorMap, TensorRegion,
    UnknownAccess,
};
use crate::report::{Kernel, Occupancy, Unit};

/// Regions that are shown where nobody asks for all.
const REGIONS: usize = 10;
/// Lines that are named.
const LINES: usize = 3;

/// Writes the maps of a kernel that has a pipeline, dynamic shared memory or tensor memory; with `verbose` those of every kernel.
pub fn write(kernel: &Kernel, unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let Some(maps) = &kernel.memory else { return Ok(()) };
    if let Some(shared) = maps.shared.as_ref().filter(|shared| options.verbose || is_worth_it(shared)) {
        let limits = unit.arch.as_deref().and_then(|arch| SmLimits::of(arch.parse().ok()?));
        write_shared(shared, (kernel.occupancy.as_ref(), limits), options, out)?;
    }
    if let Some(tensor) = &maps.tensor {
        write_tensor(tensor, options, out)?;
    }
    write_groups(maps, options, out)
}

/// Whether there is more to see than one array.
fn is_worth_it(shared: &SharedMap) -> bool {
    shared.dynamic_least_bytes.is_some()
        || shared.regions.iter().any(|region| region.kind != RegionKind::Buffer)
        || shared.untouched.iter().flatten().any(|left| left.bytes > 0)
}

fn write_shared(
    shared: &SharedMap,
    (occupancy, limits): (Option<&Occupancy>, Option<&SmLimits>),
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut parts = Vec::new();
    if shared.static_bytes > 0 {
        parts.push(format!("{} of static variables", bytes_of(shared.static_bytes)));
    }
    let asked = occupancy.and_then(|found| found.smem_dynamic_bytes).filter(|bytes| *bytes > 0);
    parts.extend(asked.map(|asked| format!("{} dynamic", bytes_of(asked))));
    if let Some(least) = shared.dynamic_least_bytes {
        let line = shared.dynamic_least_ptx_line.map(|line| format!(", by line {line}")).unwrap_or_default();
        let touched = format!("at least {} are touched{line}", bytes_of(least));
        parts.push(match asked {
            Some(asked) if asked < least => format!("{WARN}too little{RESET}: {touched}"),
            Some(_) => format!("of which {touched}"),
            None => format!("dynamic: {touched}"),
        });
    }
    // What the figures above add up to, of what there is.
    let is_dynamic = asked.is_some() || shared.dynamic_least_bytes.is_some();
    let limits = limits.filter(|_| is_dynamic);
    let room =
        limits.map(|limits| format!("{DIM}; a block can have {}{RESET}", bytes_of(limits.smem_per_block_bytes())));
    row("shared", &format!("{}{}", parts.join(", "), room.unwrap_or_default()), options, out)?;
    let rings = one_ring(&shared.regions);
    let tiles: Vec<&[SharedRegion]> = rings.chunk_by(is_piece_behind).collect();
    let shown = if options.verbose { tiles.len() } else { REGIONS };
    for tile in tiles.iter().take(shown) {
        let Some(first) = tile.first() else { continue };
        row("", &format!("{}: {}{}", place(first), size_of_tile(first, tile), users(&first.uses)), options, out)?;
    }
    if let Some(more) = tiles.len().checked_sub(shown).filter(|more| *more > 0) {
        row("", &format!("{DIM}… and {} (-v shows all){RESET}", count(more as u64, "more region")), options, out)?;
    }
    for left in shared.untouched.iter().flatten() {
        let text = format!(
            "{}+{}: {WARN}{} that nothing touches{RESET}",
            terminal(&left.variable),
            left.offset,
            bytes_of(left.bytes)
        );
        row("", &text, options, out)?;
    }
    write_unknown(&shared.unknown, options, out)
}

/// `65,536 B`: maps are exact.
fn bytes_of(number: u64) -> String {
    format!("{} B", thousands(number))
}

fn place(region: &SharedRegion) -> String {
    let variable = region.variable.as_deref().unwrap_or("?");
    format!("{}+{}", terminal(variable), region.offset)
}

/// The regions, with rings that are the same bytes as one: who fills two stages at a time goes around half as many.
fn one_ring(regions: &[SharedRegion]) -> Vec<SharedRegion> {
    let bytes = |region: &SharedRegion| region.stride_bytes?.checked_mul(u64::from(region.count));
    let is_ring = |region: &SharedRegion| region.kind == RegionKind::Ring && region.complete;
    let mut rings: Vec<SharedRegion> = Vec::with_capacity(regions.len());
    for region in regions {
        let same = rings.last_mut().filter(|known| {
            is_ring(known)
                && is_ring(region)
                && (&known.variable, known.offset) == (&region.variable, region.offset)
                && bytes(known) == bytes(region)
        });
        match same {
            Some(known) => {
                if known.count < region.count {
                    (known.count, known.stride_bytes, known.bytes) = (region.count, region.stride_bytes, region.bytes);
                }
                known.uses.extend(region.uses.iter().cloned());
            }
            None => rings.push(region.clone()),
        }
    }
    rings
}

/// Whether a region goes on where another ends, and the same warps do the same with both: copies of a box each that fill a tile together, whose
/// bytes are all that the map can tell apart.
fn is_piece_behind(before: &SharedRegion, region: &SharedRegion) -> bool {
    let is_piece = |region: &SharedRegion| region.kind == RegionKind::Buffer && region.exact && region.complete;
    let end = before.bytes.and_then(|bytes| before.offset.checked_add(bytes));
    is_piece(before)
        && is_piece(region)
        && before.variable == region.variable
        && end == Some(region.offset)
        && users(&before.uses) == users(&region.uses)
}

/// `65,536 B in 8 pieces of 8,192 B`
fn size_of_tile(first: &SharedRegion, tile: &[SharedRegion]) -> String {
    if tile.len() < 2 {
        return size(first);
    }
    let all = tile.iter().filter_map(|region| region.bytes).sum();
    let each = if tile.iter().all(|region| region.bytes == first.bytes) {
        format!(" of {}", bytes_of(first.bytes.unwrap_or(0)))
    } else {
        String::new()
    };
    format!("{} in {} pieces{each}", bytes_of(all), tile.len())
}

fn size(region: &SharedRegion) -> String {
    let or_more = if region.complete { "" } else { " or more" };
    match (region.kind, region.stride_bytes, region.bytes) {
        (RegionKind::Ring, Some(stride), _) => format!("{}{or_more} stages × {}", region.count, bytes_of(stride)),
        (RegionKind::Mbarriers, ..) => count(u64::from(region.count), "mbarrier"),
        (.., Some(bytes)) if region.exact => bytes_of(bytes),
        (.., Some(bytes)) => format!("up to {}", bytes_of(bytes)),
        (.., None) => "size not known".to_owned(),
    }
}

/// `; producer writes (cp.async.bulk.tensor), consumer reads (wgmma)`; `written by` where it is no single role.
fn users(uses: &[RegionUse]) -> String {
    let mut told: Vec<(Option<&str>, Direction, Vec<&str>)> = Vec::new();
    for used in uses {
        let role = used.role.as_deref();
        match told.iter_mut().find(|(known, direction, _)| (*known, *direction) == (role, used.direction)) {
            Some((.., hows)) => hows.push(used.how.name()),
            None => told.push((role, used.direction, vec![used.how.name()])),
        }
    }
    let part = |(role, direction, hows): (Option<&str>, Direction, Vec<&str>)| {
        let is_plain = direction == Direction::Both && hows == ["mbarrier"];
        let hows = hows.join(", ");
        match (role, direction) {
            (Some(role), _) if is_plain => Some(terminal(role).into_owned()),
            (Some(role), _) => Some(format!("{} {} ({hows})", terminal(role), direction.word())),
            (None, _) if is_plain => None,
            (None, Direction::Writes) => Some(format!("written by {hows}")),
            (None, Direction::Reads) => Some(format!("read by {hows}")),
            (None, Direction::Both) => Some(format!("read and written by {hows}")),
        }
    };
    let parts: Vec<String> = told.into_iter().filter_map(part).collect();
    if parts.is_empty() { String::new() } else { format!("{DIM}; {}{RESET}", parts.join(", ")) }
}

fn write_unknown(unknown: &[UnknownAccess], options: &Options, out: &mut dyn Write) -> io::Result<()> {
    if unknown.is_empty() {
        return Ok(());
    }
    let lines = lines(unknown.iter().map(|access| access.ptx_line));
    let noun = if unknown.len() == 1 { "access" } else { "accesses" };
    let text = format!("{} {noun} at places that the launch or memory decides ({lines})", unknown.len());
    row("", &text, options, out)
}

/// `lines 41, 44, 52, …`
fn lines(lines: impl Iterator<Item = Line>) -> String {
    let all: Vec<String> = lines.map(|line| line.to_string()).collect();
    let more = if all.len() > LINES { ", …" } else { "" };
    let noun = if all.len() == 1 { "line" } else { "lines" };
    let shown: Vec<String> = all.into_iter().take(LINES).collect();
    format!("{noun} {}{more}", shown.join(", "))
}

fn write_tensor(tensor: &TensorMap, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let allocated = match tensor.allocated {
        Some(columns) => {
            let at = lines(tensor.allocations.iter().map(|allocation| allocation.ptx_line));
            format!("{} of 512 columns allocated ({at})", thousands(columns))
        }
        None => "columns that no constant gives".to_owned(),
    };
    let used = match (tensor.used, tensor.allocated) {
        (Some(used), Some(columns)) if used < columns && tensor.complete => {
            format!(", {used} used{WARN}: {} are free{RESET}", columns - used)
        }
        (Some(used), Some(columns)) if used < columns => format!(", {used} known to be used"),
        (Some(used), _) => format!(", {used} used"),
        (None, _) => String::new(),
    };
    row("tensor", &format!("{allocated}{used}"), options, out)?;
    let shown = if options.verbose { tensor.regions.len() } else { REGIONS };
    for region in tensor.regions.iter().take(shown) {
        row("", &format!("{}{}", columns(region), users(&region.uses)), options, out)?;
    }
    if let Some(more) = tensor.regions.len().checked_sub(shown).filter(|more| *more > 0) {
        row("", &format!("{DIM}… and {} (-v shows all){RESET}", count(more as u64, "more region")), options, out)?;
    }
    write_unknown(&tensor.unknown, options, out)
}

fn columns(region: &TensorRegion) -> String {
    match region.columns {
        Some(1) => format!("column {}", region.column),
        Some(columns) => format!("columns {} to {}", region.column, region.column + columns - 1),
        None => format!("from column {}", region.column),
    }
}

/// `cp.async 2 (line 41), wgmma 1 (line 90)`
fn write_groups(maps: &MemoryMaps, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let most = |groups: &GroupsInFlight| {
        // What a wait leaves is what a kernel means to have under way.
        let peak = groups.lines.iter().max_by_key(|at| (at.most, std::cmp::Reverse(at.ptx_line)))?;
        let name = groups.kind.name();
        Some(match groups.most {
            Some(most) => format!("{name}: at most {} (line {})", count(u64::from(most), "group"), peak.ptx_line),
            None => format!("{name}: groups without a bound"),
        })
    };
    let parts: Vec<String> = maps.groups.iter().filter_map(most).collect();
    let copied: u64 = maps.copies.iter().filter(|copy| copy.to_shared && copy.multicast).count() as u64;
    let mut text = parts.join("; ");
    if copied > 0 {
        let joint = if text.is_empty() { "" } else { "; " };
        let noun = if copied == 1 { "copy goes" } else { "copies go" };
        text.push_str(&format!("{joint}{copied} {noun} to several blocks of the cluster"));
    }
    if text.is_empty() { Ok(()) } else { row("in flight", &text, options, out) }
}
