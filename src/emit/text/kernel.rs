//! One kernel's paragraph.

use std::io::{self, Write};

use super::diagnostic::numbered;
use super::figures::{bytes, count, thousands};
use super::style::{BOLD, DIM, GOOD, RESET, WARN};
use super::wrap::wrap;
use super::{Options, findings, matrices, memory, pressure, source_lines, summary, warps, write_wrapped};
use crate::base::Line;
use crate::emit::escape::terminal;
use crate::report::{Kernel, KernelKind, LineFacts, Occupancy, SmemRange, Unit, pool_holds, shorten};

/// Columns before the value of a row.
pub(super) const LABEL_COLUMNS: usize = 14;

/// Lines that a name may take.
pub(super) const NAME_LINES: usize = 2;

/// Findings that stand before anything else; the others stand at the end.
const WORST: usize = 3;

/// A labelled row; the label is dim, values align in column 14 and go on there where they are too long.
pub(super) fn row(label: &str, value: &str, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let lines = wrap(&options.spelt(value), options.width.saturating_sub(LABEL_COLUMNS));
    write!(out, "  {DIM}{label:<11}{RESET}")?;
    for (index, line) in lines.iter().enumerate() {
        let indent = if index == 0 { 1 } else { LABEL_COLUMNS };
        writeln!(out, "{:indent$}{line}", "")?;
    }
    if lines.is_empty() { writeln!(out) } else { Ok(()) }
}

/// Writes everything the report says of one kernel, under a name as long as the reader wants it.
pub fn write(kernel: &Kernel, name: &str, unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    write_name(kernel, name, options, out)?;
    let found = findings::of(kernel, unit);
    let (worst, rest) = found.split_at(found.iter().take(WORST).take_while(|finding| finding.is_serious()).count());
    findings::write(worst.iter(), unit, options, out)?;
    let serious = rest.iter().filter(|finding| finding.is_serious()).count();
    if serious > 0 {
        writeln!(out, "  {WARN}and {} below{RESET}", count(serious as u64, "more finding"))?;
    }
    for line in wrap(&summary::summary(kernel, unit), options.width.saturating_sub(2)) {
        writeln!(out, "  {line}")?;
    }
    write_registers(kernel, unit, options, out)?;
    warps::write(kernel, options, out)?;
    pressure::write(kernel, unit, options, out)?;
    matrices::write_fragments(kernel, options, out)?;
    matrices::write(kernel, options, out)?;
    warps::write_barriers(kernel, options, out)?;
    write_memory(kernel, unit, options, out)?;
    memory::write(kernel, unit, options, out)?;
    write_code(kernel, options, out)?;
    source_lines::write(kernel, unit, options.top, options, out)?;
    write_lines(kernel, unit, options, out)?;
    findings::write(rest.iter(), unit, options, out)?;
    if options.verbose {
        write_attributes(kernel, options, out)?;
    }
    Ok(())
}

fn write_name(kernel: &Kernel, name: &str, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let kind = match kernel.kind {
        KernelKind::Entry => "entry",
        KernelKind::Func => "function",
    };
    let at = kernel.ptx_line.map(|line| format!(", line {line}")).unwrap_or_default();
    let title = format!("{BOLD}{}{RESET}  {DIM}{kind}{at}{RESET}", terminal(name));
    for (index, line) in wrap(&title, options.width.saturating_sub(4)).iter().enumerate() {
        writeln!(out, "{:indent$}{line}", "", indent = if index == 0 { 0 } else { 4 })?;
    }
    if options.verbose && kernel.demangled.is_some() {
        row("symbol", &terminal(&kernel.name), options, out)?;
    }
    Ok(())
}

pub(super) fn write_registers(kernel: &Kernel, unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let resources = &kernel.resources;
    let used = resources.registers.map_or("unknown".to_owned(), |n| n.to_string());
    match &kernel.register_cap {
        Some(cap) => row(
            "registers",
            &format!("{used} a thread{DIM}, at most {}: {}{RESET}", cap.registers, cap.explanation),
            options,
            out,
        )?,
        None if resources.registers.is_none() && kernel.kind == KernelKind::Func => {
            row("registers", "part of those of the kernels that call it", options, out)?
        }
        None => row("registers", &format!("{used} a thread"), options, out)?,
    }
    let spilt = match (resources.spill_store_bytes, resources.spill_load_bytes) {
        (Some(0), Some(0)) => format!("{GOOD}none{RESET}"),
        (Some(stores), Some(loads)) => format!("{WARN}{} stored, {} read back{RESET}", bytes(stores), bytes(loads)),
        _ => match &kernel.spills {
            Some(spills) if spills.is_empty() => "none: the cubin marks no instruction as a spill".to_owned(),
            Some(spills) => format!("{WARN}{}{RESET}", count(spills.len() as u64, "instruction")),
            None => "not known: the cubin marks none, and there is no log of ptxas".to_owned(),
        },
    };
    row("spills", &format!("{spilt}{}", spill_lines(kernel)), options, out)?;
    match summary::called_spills(kernel, unit) {
        Some(called) => row("", &format!("{WARN}{called}{RESET}"), options, out),
        None => Ok(()),
    }
}

/// The PTX lines with the most spill instructions: `, most at lines 84 (28 instructions), 145 (20)`.
pub(super) fn spill_lines(kernel: &Kernel) -> String {
    const SHOWN: usize = 4;
    let mut lines: Vec<_> = kernel.spills.iter().flatten().filter_map(|spill| spill.ptx_line).collect();
    lines.sort_unstable();
    let mut counts: Vec<_> = lines.chunk_by(|a, b| a == b).map(|group| (group.len(), group[0])).collect();
    counts.sort_by_key(|(count, line)| (std::cmp::Reverse(*count), *line));
    let all = counts.len() <= SHOWN;
    let noun = |at: usize, count: usize| match (at, count) {
        (0, 1) => " instruction",
        (0, _) => " instructions",
        _ => "",
    };
    let told = |(at, (count, line)): (usize, &(usize, Line))| format!("{line} ({count}{})", noun(at, *count));
    let shown: Vec<String> = counts.iter().take(SHOWN).enumerate().map(told).collect();
    match shown.is_empty() {
        true => String::new(),
        false => format!(", {}at lines {}", if all { "" } else { "most " }, shown.join(", ")),
    }
}

pub(super) fn write_memory(kernel: &Kernel, unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let resources = &kernel.resources;
    let mut parts = Vec::new();
    if let Some(stack) = resources.stack_bytes.filter(|&n| n > 0) {
        let own =
            summary::unspilt_stack(kernel).filter(|_| kernel.spills.as_ref().is_some_and(|spills| !spills.is_empty()));
        let own = own.map(|own| format!(" ({} of it no spills)", bytes(own))).unwrap_or_default();
        parts.push(format!("{} of stack{own}", bytes(stack)));
    }
    if let Some(local) = resources.local_bytes.filter(|&n| n > 0) {
        parts.push(format!("{} of local memory", bytes(local)));
    }
    if let Some(shared) = resources.smem_bytes.filter(|&n| n > 0) {
        // Where dynamic shared memory asks for an alignment, ptxas fills up to it.
        let declared = kernel.memory.as_ref().and_then(|maps| maps.shared.as_ref()).map(|map| map.static_bytes);
        let own = declared.filter(|own| (1..shared).contains(own));
        let own = own.map(|own| format!(" ({} of it variables)", bytes(own))).unwrap_or_default();
        parts.push(format!("{} of static shared memory{own}", bytes(shared)));
    }
    for bank in &resources.cmem {
        let parameters = if bank.bank == 0 { " (parameters)" } else { "" };
        parts.push(format!("{} of constant bank {}{parameters}", bytes(bank.bytes), bank.bank));
    }
    if let Some(barriers) = resources.barriers.filter(|&n| n > 0) {
        parts.push(count(u64::from(barriers), "named barrier"));
    }
    if !parts.is_empty() {
        row("uses", &parts.join(", "), options, out)?;
    }
    let launch = &kernel.launch;
    let mut bounds = Vec::new();
    let dims = |[x, y, z]: [u32; 3]| format!("{x}×{y}×{z}");
    bounds.extend(launch.reqntid.map(|d| format!("blocks of exactly {} threads", dims(d))));
    bounds.extend(launch.maxntid.map(|d| format!("blocks of at most {} threads", dims(d))));
    bounds.extend(launch.minnctapersm.map(|n| format!("at least {} on an SM", count(u64::from(n), "block"))));
    bounds.extend(launch.maxnreg.map(|n| format!("at most {n} registers a thread")));
    bounds.extend(launch.cluster.map(|d| format!("clusters of {} blocks", dims(d))));
    bounds.extend(launch.max_cluster_rank.map(|n| format!("clusters of at most {n} blocks")));
    if let Some(recorded) = unit.recorded_launch.as_ref().filter(|_| kernel.kind == KernelKind::Entry) {
        let smem = thousands(recorded.smem_dynamic_bytes);
        bounds.push(format!(
            "{} records blocks of {} threads with {smem} B of dynamic shared memory",
            recorded.file, recorded.threads
        ));
    }
    if !bounds.is_empty() {
        row("launch", &bounds.join(", "), options, out)?;
    }
    write_blocks(kernel, unit, options, out)
}

/// Sizes of dynamic shared memory that a row has room for.
const SMEM_RANGES: usize = 4;

/// The blocks that fit with other registers, or as dynamic shared memory grows where its size is not known.
fn write_blocks(kernel: &Kernel, unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let Some(occupancy) = &kernel.occupancy else { return Ok(()) };
    let ranges = &occupancy.by_smem_dynamic;
    let [.., last] = &ranges[..] else { return write_steps(kernel, occupancy, unit, options, out) };
    let told =
        |range: &SmemRange| format!("{} with up to {} B", range.blocks_per_sm, thousands(range.smem_dynamic_bytes));
    let mut parts: Vec<String> = ranges.iter().take(SMEM_RANGES).map(told).collect();
    if ranges.len() > SMEM_RANGES {
        parts.pop();
        parts.extend(["…".to_owned(), told(last)]);
    }
    row("blocks/SM", &format!("{} of dynamic shared memory", parts.join(", ")), options, out)
}

/// The registers with which more or fewer blocks fit: arithmetic, unless ptxas was asked.
fn write_steps(
    kernel: &Kernel,
    occupancy: &Occupancy,
    unit: &Unit,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(now) = occupancy.blocks_per_sm.filter(|blocks| *blocks > 0) else { return Ok(()) };
    let blocks = |blocks: u32| match blocks {
        0 => "none".to_owned(),
        blocks => blocks.to_string(),
    };
    // Launched with fewer registers, warps would wait for ever for those that setmaxnreg asks for: ptxas cannot know.
    let is_kept = kernel.setmaxnreg.as_ref().is_some_and(|found| found.honoured != Some(false));
    let roles = kernel.roles.as_deref().unwrap_or_default();
    let holds = |registers| !is_kept || occupancy.next_step_tried.is_some() || pool_holds(roles, registers);
    let next_step = occupancy.next_step.filter(|step| holds(step.registers));
    let mut parts = vec![format!("{now} now")];
    parts.extend(
        next_step.map(|step| format!("{} at {} registers a thread", blocks(step.blocks_per_sm), step.registers)),
    );
    parts.extend(
        occupancy
            .cliff
            .map(|step| format!("{} from {} registers a thread on", blocks(step.blocks_per_sm), step.registers)),
    );
    if parts.len() == 1 {
        return Ok(());
    }
    let note = match (&next_step, &occupancy.next_step_tried) {
        (None, _) => String::new(),
        (Some(_), None) if unit.ptxas.is_some() && options.pictures => {
            " (arithmetic: --try-step asks ptxas whether it can, and what it spills)".to_owned()
        }
        (Some(_), None) => " (arithmetic: ptxas was not asked)".to_owned(),
        (Some(step), Some(tried)) => match (&tried.message, tried.compiles) {
            // The summary has it.
            (None, _) | (_, Some(true)) => String::new(),
            (Some(message), Some(false)) => format!("; ptxas at {}: {}", step.registers, terminal(message)),
            (Some(message), None) => format!(" (arithmetic: ptxas could not be asked: {})", terminal(message)),
        },
    };
    row("blocks/SM", &format!("{}{DIM}{note}{RESET}", parts.join(", ")), options, out)
}

pub(super) fn write_code(kernel: &Kernel, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let size = bytes(kernel.resources.code_bytes);
    let instructions = &kernel.instructions;
    let Some(total) = instructions.count() else {
        return row("code", &format!("{size}; instructions of this architecture are not decoded"), options, out);
    };
    if total == 0 && kernel.kind == KernelKind::Func {
        return row("code", "none of its own: ptxas put it into who calls it, or nobody does", options, out);
    }
    let own = instructions.total.unwrap_or(0) * 16;
    let with = match (kernel.resources.code_bytes > own, instructions.padding.is_some_and(|padding| padding > 0)) {
        (true, true) => " with padding and the functions that it calls",
        (true, false) => " with the functions that it calls",
        (false, true) => " with padding",
        (false, false) => "",
    };
    let mut text = format!("{} ({size}{with})", count(total, "instruction"));
    match kernel.without_ptx_line() {
        Some(0) => text.push_str(", each with a PTX line"),
        Some(without) => text.push_str(&format!(", {} of them without a PTX line", thousands(without))),
        None => text.push_str(", no line table"),
    }
    row("code", &text, options, out)?;
    if let Some(unknown) = instructions.unknown.filter(|&n| n > 0) {
        row("", &format!("{WARN}{} not decoded{RESET}", count(unknown, "instruction")), options, out)?;
    }
    if options.verbose {
        for parameter in &kernel.parameters {
            let text = format!("{}: {} at +{}", parameter.ordinal, bytes(u64::from(parameter.bytes)), parameter.offset);
            row("parameter", &text, options, out)?;
        }
    }
    Ok(())
}

pub(super) fn write_lines(kernel: &Kernel, unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut hottest: Vec<&LineFacts> = kernel.lines.iter().collect();
    let weight = |facts: &LineFacts| facts.pcs.len() - facts.padding as usize;
    hottest.sort_by_key(|facts| (std::cmp::Reverse(weight(facts)), facts.ptx_line));
    hottest.truncate(options.top);
    if hottest.is_empty() {
        return Ok(());
    }
    let title = format!("{DIM}PTX lines with the most SASS instructions, padding not counted{RESET}");
    write_wrapped(&title, "  ", "    ", options.width, out)?;
    let most = hottest.first().map_or(0, |facts| weight(facts));
    let digits = hottest.iter().map(|facts| facts.ptx_line.to_string().len()).max().unwrap_or(0);
    let room = options.width.saturating_sub(digits + 20).max(20);
    for facts in hottest {
        let text = terminal(&unit.ptx.statement(facts.ptx_line).unwrap_or_default()).into_owned();
        let bar = if options.pictures { format!("{} ", bar(weight(facts), most)) } else { String::new() };
        let text = shorten(&text, room).into_owned();
        let number = numbered(facts.ptx_line, digits, unit, options);
        writeln!(out, "  {DIM}{number}{RESET} {:>6} {bar}{text}", weight(facts))?;
    }
    Ok(())
}

/// A bar of up to eight columns.
fn bar(value: usize, most: usize) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let units = if most == 0 { 0 } else { (value * 64).div_ceil(most) };
    let mut text = "█".repeat(units / 8);
    if units % 8 > 0 {
        text.push(EIGHTHS[units % 8]);
    }
    format!("{text:<8}")
}

fn write_attributes(kernel: &Kernel, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    for attribute in &kernel.attributes {
        let name = attribute.name.as_deref().unwrap_or("unknown");
        let value = shorten(&attribute.value, 32).into_owned();
        row("attribute", &format!("0x{:02x} {} {value}", attribute.code, terminal(name)), options, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_row_goes_on_under_its_value() {
        let options = Options { verbose: false, top: 5, width: 40, pictures: true, links: None };
        let mut out = Vec::new();
        row("registers", "168 of at most 168: 12 warps must fit", &options, &mut out).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert_eq!(text, "  registers   168 of at most 168: 12\n              warps must fit\n");
    }
}
