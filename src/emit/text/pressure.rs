//! Live registers: how many along the code, where most, and which values hold them.

use std::borrow::Cow;
use std::io::{self, Write};

use super::diagnostic::numbered;
use super::figures::{count, thousands};
use super::kernel::{LABEL_COLUMNS, row};
use super::style::{DIM, RESET, WARN};
use super::wrap::wrap;
use super::{Options, write_wrapped};
use crate::base::Line;
use crate::base::hardware::SUB_PARTITIONS as SCHEDULERS;
use crate::emit::cost::accesses;
use crate::emit::escape::terminal;
use crate::emit::links;
use crate::report::access::{AccessFact, AccessSpace};
use crate::report::{
    CostBound, Kernel, LiveValue, LoopBeside, LoopCost, LoopFacts, SourceLine, TurnCost, Unit, shorten,
};

/// Columns from which on the curve has room for words beside it.
const ROOMY: usize = 96;

/// Rows of the live set shown unless everything was asked for.
const VALUES: usize = 6;

/// Writes the pressure rows and the table of values alive at the peak.
pub fn write(kernel: &Kernel, unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let Some(pressure) = &kernel.pressure else { return Ok(()) };
    let peak = &pressure.gpr;
    let at = peak.ptx_line.map(|line| format!(", at line {line}")).unwrap_or_default();
    let pc = peak.pc.map(|pc| format!(" (pc {pc})")).unwrap_or_default();
    let from = peak
        .source_line
        .as_ref()
        .map(|at| format!(" {DIM}({}){RESET}", source_linked(at, options)))
        .unwrap_or_default();
    let holds = if peak.peak == 1 { "holds" } else { "hold" };
    let most = count(u64::from(peak.peak), "register");
    row("live", &format!("at most {most} {holds} a live value{at}{pc}{from}"), options, out)?;

    if !pressure.exact {
        let why = "an instruction that is not known, or a branch of unknown target, can be reached";
        row("", &format!("{WARN}not exact{RESET}: {why}"), options, out)?;
    }
    if pressure.profile.len() > 1 && options.pictures {
        let curve = sparkline(&squeezed(&pressure.profile, options.width.saturating_sub(LABEL_COLUMNS)));
        let words = if options.width < ROOMY { String::new() } else { format!(" {DIM}along the code{RESET}") };
        row("", &format!("{curve}{words}"), options, out)?;
    }
    if options.verbose {
        let others = format!(
            "{} predicates, {} uniform registers, {} uniform predicates",
            pressure.pred.peak, pressure.ugpr.peak, pressure.upred.peak
        );
        row("", &others, options, out)?;
    }
    write_gap(kernel, options, out)?;
    write_loops(kernel, options, out)?;
    write_costs(kernel, options, out)?;
    write_conflicts(kernel, options, out)?;
    let values = kernel.live_at_peak.as_deref().unwrap_or_default();
    write_values(
        "values alive there: how many registers, and the PTX line that makes them",
        values,
        unit,
        options,
        out,
    )?;
    for at in &kernel.live_at {
        let title =
            format!("alive at line {}, pc {}: {}", at.ptx_line, at.pc, count(u64::from(at.live_gpr), "register"));
        write_values(&title, &at.values, unit, options, out)?;
    }
    Ok(())
}

/// Why more registers are allocated than are ever live.
fn write_gap(kernel: &Kernel, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let Some(pressure) = &kernel.pressure else { return Ok(()) };
    let Some(allocated) = kernel.resources.registers else { return Ok(()) };
    if allocated <= pressure.gpr.peak + NARROW_GAP && !options.verbose {
        return Ok(());
    }
    for cause in &pressure.gap {
        row("", &format!("{DIM}{cause}{RESET}"), options, out)?;
    }
    Ok(())
}

/// The loops: the fullest, or all of them.
fn write_loops(kernel: &Kernel, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let loops = kernel.loops.as_deref().unwrap_or_default();
    let told = |found: &LoopFacts| {
        let line = found.ptx_line.map_or_else(|| format!("pc {}", found.pc), |line| format!("line {line}"));
        let peak = found.gpr.ptx_line.map(|line| format!(", at line {line}")).unwrap_or_default();
        let spills = match found.spills {
            Some(spills @ 1..) => format!(", {WARN}{}{RESET}", count(u64::from(spills), "spill instruction")),
            _ => String::new(),
        };
        let size = count(u64::from(found.instructions), "instruction");
        format!("from {line}: {size}, at most {} live{peak}{spills}", count(u64::from(found.gpr.peak), "register"))
    };
    if options.verbose {
        for found in loops {
            row("loop", &format!("depth {}, {}", found.depth, told(found)), options, out)?;
        }
    } else if let Some(fullest) = loops.iter().max_by_key(|found| (found.gpr.peak, std::cmp::Reverse(found.pc))) {
        let others = if loops.len() > 1 {
            format!("{}; most registers are live in the one ", count(loops.len() as u64, "loop"))
        } else {
            String::new()
        };
        row("loops", &format!("{others}{}", told(fullest)), options, out)?;
    }
    Ok(())
}

/// What turns of the hottest loop cost; with `verbose` of all that were told.
fn write_costs(kernel: &Kernel, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let costs = kernel.costs.as_deref().unwrap_or_default();
    let mut shown: Vec<&LoopCost> = costs.iter().filter(|cost| cost.hottest || options.verbose).collect();
    shown.sort_by_key(|cost| (!cost.hottest, cost.pc));
    for (number, cost) in shown.into_iter().enumerate() {
        let line = cost.ptx_line.map_or_else(|| format!("pc {}", cost.pc), |line| format!("line {line}"));
        let turn = &cost.shortest;
        let longest = |of: fn(&TurnCost) -> Option<f64>| cost.longest.as_ref().and_then(of);
        let cycles = |least: f64, most: Option<f64>| match most.filter(|most| most.round() > least.round()) {
            Some(most) => format!("{} to {}", thousands(least.round() as u64), thousands(most.round() as u64)),
            None => thousands(least.round() as u64),
        };
        let alone = cycles(turn.alone.cycles, longest(|turn| Some(turn.alone.cycles)));
        let with = turn.with_warps.first().map(|at| {
            let most = longest(|turn| turn.with_warps.first().map(|at| at.cycles));
            let busy = at.busy.first().map(|busy| format!("{} {} % busy", busy.part, busy.percent)).unwrap_or_default();
            let next =
                at.busy.get(1).map(|next| format!(", then {} {} %", next.part, next.percent)).unwrap_or_default();
            let bound = match at.bound {
                CostBound::Part => format!("bound by {busy}"),
                CostBound::Latency => format!("bound by latency ({busy}"),
                CostBound::Barrier => format!("bound by barriers ({busy}"),
            };
            let close = if at.bound == CostBound::Part { "" } else { ")" };
            let warps = count(u64::from(at.warps_per_scheduler), "warp");
            // Warps of other roles are elsewhere.
            let has_roles = kernel.roles.as_ref().is_some_and(|roles| !roles.is_empty());
            let resident = kernel.occupancy.as_ref().and_then(|found| found.warps_per_sm);
            let is_part = resident.is_some_and(|warps| u32::from(at.warps_per_scheduler) * SCHEDULERS < warps);
            let all = match (has_roles, is_part, at.warps_per_scheduler) {
                (true, true, 1) => " that runs it",
                (true, true, _) => " that run it",
                (true, false, 2..) => " that all run it",
                (true, false, _) | (false, ..) => "",
            };
            // What two builds are compared by.
            let each = cost.loop_cycles().map_or_else(String::new, |each| {
                let turns = cost.ptx_turns.filter(|turns| *turns > 1);
                let turns = turns.map(|turns| format!(" and turn of the PTX's loop, {turns} of which are one here"));
                format!(", {} for each warp{}", thousands(each), turns.unwrap_or_default())
            });
            let took = cycles(at.cycles, most);
            let beside = beside(cost);
            format!("{took} cycles with {warps} on a scheduler{all}{each}, {bound}{next}{close}{beside}; ")
        });
        let of = if cost.hottest { format!("hottest loop, at {line},") } else { format!("loop at {line}") };
        // Where data comes from decides, and only who runs it knows.
        let global = ["LDG", "LDGSTS"].iter().any(|name| cost.shape.split([' ', ',']).any(|word| word == *name));
        let beyond = turn.beyond_l1.max(cost.longest.as_ref().map_or(0, |turn| turn.beyond_l1));
        let memory = match (global, beyond) {
            (false, 0) => String::new(),
            (true, 0) => format!(", with global memory that answers after {} cycles", cost.memory_latency),
            (_, some) => format!(
                ", with global memory that answers after {} cycles, or {} and more where the first cache is not asked: \
                 {some} volatile, ordered or atomic",
                cost.memory_latency,
                cost.beyond_l1_latency()
            ),
        };
        // Where no figure is of a turn of the PTX's loop, the reader has to know how many these are.
        let turns = cost.ptx_turns.filter(|turns| *turns > 1 && cost.loop_cycles().is_none());
        let turns = turns.map(|turns| format!(", for {turns} turns of the PTX's loop at once")).unwrap_or_default();
        let told = format!(
            "a turn of the {of} takes about {} for one warp alone{turns} {DIM}(an estimate{memory}: see \
             `ptxinspect cost`){RESET}",
            with.map_or_else(|| format!("{alone} cycles"), |with| format!("{with}{alone}"))
        );
        row(if number == 0 { "cost" } else { "" }, &told, options, out)?;
    }
    Ok(())
}

/// `warps 4-7`, or the role where only that is known.
pub fn warps_beside(other: &LoopBeside) -> Cow<'_, str> {
    match (&other.warp_ids, &other.role) {
        (Some(ids), _) => Cow::Owned(format!("warps {ids}")),
        (None, Some(role)) => terminal(role),
        (None, None) => Cow::Borrowed("other warps"),
    }
}

/// What other roles are taken to do at the same time.
fn beside(cost: &LoopCost) -> String {
    let one = |other: &LoopBeside| {
        let line = other.ptx_line.map_or_else(|| format!("pc {}", other.pc), |line| format!("line {line}"));
        format!("{} at {line}", warps_beside(other))
    };
    let all: Vec<String> = cost.beside.iter().map(one).collect();
    match all.len() {
        0 => String::new(),
        1 => format!(", with the loop of {} counted beside it, turn by turn", all.concat()),
        _ => format!(", with the loops of {} counted beside it, turn by turn", all.join(" and ")),
    }
}

/// Accesses of shared memory whose lanes meet in banks: the worst one, with `verbose` all.
fn write_conflicts(kernel: &Kernel, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let Some(facts) = kernel.accesses.as_ref().filter(|facts| facts.shared_conflicts > 0) else { return Ok(()) };
    let mut worse: Vec<&AccessFact> =
        facts.accesses.iter().filter(|access| access.is_worse() && access.space == AccessSpace::Shared).collect();
    worse.sort_by_key(|access| (std::cmp::Reverse(access.most), access.ptx_line));
    let shown = if options.verbose { worse.len() } else { 1 };
    let all = format!("{} of {} accesses of shared memory have bank conflicts; ", worse.len(), facts.shared_total);
    for (number, access) in worse.into_iter().take(shown).enumerate() {
        let before = if number == 0 { all.as_str() } else { "" };
        let told = format!("{before}line {}: {}", access.ptx_line, accesses::told(access));
        row(if number == 0 { "banks" } else { "" }, &told, options, out)?;
    }
    facts
        .mends
        .iter()
        .filter(|mend| mend.refused.is_none())
        .try_for_each(|mend| row("", &accesses::mended(mend), options, out))
}

/// Allocation this little above the peak needs no explanation.
const NARROW_GAP: u32 = 8;

fn write_values(
    title: &str,
    values: &[LiveValue],
    unit: &Unit,
    options: &Options,
    out: &mut dyn Write,
) -> io::Result<()> {
    let shown = if options.verbose { values.len() } else { VALUES.min(values.len()) };
    if shown == 0 {
        return Ok(());
    }
    for (at, line) in wrap(title, options.width.saturating_sub(4)).iter().enumerate() {
        writeln!(out, "  {}{DIM}{line}{RESET}", if at == 0 { "" } else { "  " })?;
    }
    for value in values.iter().take(shown) {
        write_value(value, unit, options, out)?;
    }
    let rest: usize = values.iter().skip(shown).map(|value| value.registers.len()).sum();
    if rest > 0 {
        let values = count((values.len() - shown) as u64, "more value");
        writeln!(out, "  {DIM}and {values}, in {}{RESET}", count(rest as u64, "register"))?;
    }
    Ok(())
}

fn write_value(value: &LiveValue, unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let registers = value.registers.len();
    let last = match value.last_use_ptx_line {
        Some(last) => format!("  {DIM}last used at line {last}{RESET}"),
        None => String::new(),
    };
    match value.ptx_line {
        None => match (value.pc, &value.sass) {
            (Some(pc), Some(sass)) => {
                writeln!(out, "  {registers:>5}       {DIM}made by{RESET} {sass} {DIM}at pc {pc}{RESET}{last}")?;
            }
            _ => writeln!(out, "  {registers:>5}       {DIM}set before its first instruction{RESET}{last}")?,
        },
        Some(line) => {
            let room = options.width.saturating_sub(40).max(20);
            let statement = unit.ptx.statement(line).unwrap_or_default();
            // R1 by ptxas's convention; the line is only where the function starts.
            let is_start = value.is_operand && statement.starts_with('{');
            let text = match value.registers[..] {
                [1] if is_start => "the stack pointer".into(),
                _ if is_start => "set at the kernel's start".into(),
                // A store or a comparison makes no register: ptxas computed the value for it.
                _ if value.is_operand => format!("an operand of {}", terminal(&statement)).into(),
                _ => terminal(&statement),
            };
            let number = numbered(line, 5, unit, options);
            writeln!(out, "  {registers:>5} {DIM}{number}{RESET} {}{last}", shorten(&text, room))?;
        }
    }
    write_details(value, options, out)
}

/// What more is known of a value: other lines, where it comes from, what it is added to, whether it must be held.
fn write_details(value: &LiveValue, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let sum = value.accumulator_of_ptx_line.map(|line| format!("accumulators of line {line}"));
    let detail = [more_lines(&value.ptx_lines), sum, value.source_line.as_ref().map(|at| source(at, options))];
    let detail = detail.into_iter().flatten().collect::<Vec<_>>().join("; ");
    if !detail.is_empty() {
        writeln!(out, "              {DIM}{}{RESET}", shorten(&detail, options.width.saturating_sub(14)))?;
    }
    if options.verbose && !value.virtual_registers.is_empty() {
        let names = terminal(&value.virtual_registers.join(" ")).into_owned();
        writeln!(out, "              {DIM}holds {}{RESET}", shorten(&names, options.width.saturating_sub(20)))?;
    }
    let Some(could) = value.could.as_deref() else { return Ok(()) };
    let again = if could == "reload" { "loaded" } else { "computed" };
    let idle = match (value.idle_loop_ptx_line, value.idle_instructions) {
        (Some(line), _) => format!("the loop from line {line} does not use it"),
        (None, Some(idle)) => {
            format!("nothing uses it for {} around here", count(u64::from(idle), "instruction"))
        }
        (None, None) => "nothing uses it here".to_owned(),
    };
    let text = format!("{WARN}{idle}{RESET}: it could be {again} again");
    write_wrapped(&text, "              ", "              ", options.width, out)
}

/// The lines of a row beyond the first.
fn more_lines(lines: &[Line]) -> Option<String> {
    let last = lines.last()?;
    match lines.len() {
        1 => None,
        2 => Some(format!("also line {last}")),
        n => Some(format!("also {} other lines, up to {last}", n - 1)),
    }
}

/// A front end's line and the call that it was inlined for, their folders only where everything is asked for.
pub(super) fn source(at: &SourceLine, options: &Options) -> String {
    fn name<'f>(file: &'f str, options: &Options) -> &'f str {
        file.rsplit(['/', '\\']).next().filter(|_| !options.verbose).unwrap_or(file)
    }
    let mut text = format!("{}:{}", name(&at.file, options), at.line);
    if let Some(call) = &at.called_at {
        text.push_str(&format!(", called at {}:{}", name(&call.file, options), call.line));
    }
    terminal(&text).into_owned()
}

/// The same, leading to the line.
pub(super) fn source_linked(at: &SourceLine, options: &Options) -> String {
    let text = source(at, options);
    match (text.split_once(", "), &at.called_at) {
        (Some((own, call)), Some(called)) => {
            let own = links::to(options.links, &at.file, Some(at.line), own);
            let (words, place) = call.rsplit_once(' ').unwrap_or(("", call));
            format!("{own}, {words} {}", links::to(options.links, &called.file, Some(called.line), place))
        }
        _ => links::to(options.links, &at.file, Some(at.line), &text),
    }
}

/// As many figures as there is room for, of those that share a place the largest.
fn squeezed(figures: &[u32], room: usize) -> Vec<u32> {
    let room = room.clamp(1, figures.len().max(1));
    let place = |at: usize| at * figures.len() / room;
    (0..room)
        .map(|at| figures.get(place(at)..place(at + 1)).into_iter().flatten().copied().max().unwrap_or(0))
        .collect()
}

/// Figures as a row of blocks, the largest full.
fn sparkline(figures: &[u32]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = figures.iter().copied().max().unwrap_or(0).max(1);
    figures.iter().map(|&figure| BLOCKS[(figure as usize * 7).div_ceil(most as usize).min(7)]).collect()
}

#[cfg(test)]
mod tests {
    use super::{sparkline, squeezed};

    #[test]
    fn the_largest_is_full_and_zero_is_flat() {
        assert_eq!(sparkline(&[0, 1, 50, 100]), "▁▂▅█");
        assert_eq!(sparkline(&[0, 0]), "▁▁");
    }

    #[test]
    fn peaks_stay_where_there_is_less_room() {
        let figures = [1, 9, 2, 3, 4, 8, 5, 6];
        assert_eq!(squeezed(&figures, 100), figures);
        assert_eq!(squeezed(&figures, 4), [9, 3, 8, 6]);
        assert_eq!(squeezed(&figures, 3), [9, 4, 8]);
        assert_eq!(squeezed(&[], 3), [0]);
    }
}
