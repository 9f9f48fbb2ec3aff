//! What loops cost, on a terminal: a table for each loop, and what one warp waits for.

use std::io::{self, Write};

use super::Options;
use crate::base::{Line, Pc};
use crate::emit::escape::terminal;
use crate::emit::text::{BOLD, DIM, RESET, headings, warps_beside, wrap, write_wrapped};
use crate::report::{CostBound, CyclesAt, Kernel, LoopBeside, LoopCost, LoopWait, TurnCost, Unit, WaitCause};

/// Waits that are shown where nobody asks for all.
const WAITS: usize = 5;

/// Writes the costs of all kernels.
pub fn write_text(units: &[Unit], options: &Options, out: &mut dyn Write) -> io::Result<()> {
    for (number, unit) in units.iter().filter(|unit| unit.error.is_none()).enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        let arch = unit.arch.as_deref().unwrap_or("unknown architecture");
        writeln!(out, "{BOLD}{}{RESET}  {arch}", terminal(&unit.input))?;
        if options.accesses {
            let kernels: Vec<&Kernel> = unit.kernels.iter().collect();
            let names = headings(&kernels, options.width, options.verbose);
            let mut all = kernels.into_iter().zip(&names);
            all.try_for_each(|(kernel, name)| super::accesses::write(kernel, name, options, out))?;
            continue;
        }
        let told: Vec<&Kernel> = unit.kernels.iter().filter(|kernel| kernel.costs.is_some()).collect();
        write_hazards(unit, options, out)?;
        if told.is_empty() {
            let why = "Nobody has measured this architecture: what its loops cost is not known. sm_90 and sm_90a are measured.";
            wrap(why, options.width.saturating_sub(2)).iter().try_for_each(|line| writeln!(out, "  {line}"))?;
            continue;
        }
        let names = headings(&told, options.width, options.verbose);
        for (kernel, name) in told.into_iter().zip(&names) {
            write_kernel(kernel, name, options, out)?;
        }
    }
    Ok(())
}

/// Consumers that come too early, where they were asked for.
fn write_hazards(unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let kernels: Vec<&Kernel> = unit.kernels.iter().collect();
    let names = headings(&kernels, options.width, options.verbose);
    for (kernel, name) in kernels.into_iter().zip(&names) {
        let Some(hazards) = &kernel.hazards else { continue };
        let name = terminal(name);
        let told = format!(
            "{name}: {} of {} dependencies come too early by the control bits; {} more are between kinds of instructions that are \
             seen too seldom to say",
            hazards.found.len(),
            hazards.decided,
            hazards.unknown
        );
        wrap(&told, options.width.saturating_sub(2)).iter().try_for_each(|line| writeln!(out, "  {line}"))?;
        for found in &hazards.found {
            let why = match (found.cycles, found.needed) {
                (Some(cycles), Some(needed)) => {
                    format!(
                        "{cycles} cycles after pc {} ({}), {needed} are needed",
                        found.of_pc,
                        at_line(found.of_ptx_line)
                    )
                }
                _ => format!("nobody waits for the scoreboard of pc {} ({})", found.of_pc, at_line(found.of_ptx_line)),
            };
            let told = format!("pc {} ({}): {why}", found.pc, at_line(found.ptx_line));
            wrap(&told, options.width.saturating_sub(4)).iter().try_for_each(|line| writeln!(out, "    {line}"))?;
        }
    }
    Ok(())
}

fn write_kernel(kernel: &Kernel, name: &str, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    write_wrapped(&format!("{BOLD}{}{RESET}", terminal(name)), "", "    ", options.width, out)?;
    let costs = kernel.costs.as_deref().unwrap_or_default();
    if costs.is_empty() {
        return writeln!(out, "  no loop");
    }
    let latency = costs.first().map_or(0, |cost| cost.memory_latency);
    let turns = || costs.iter().flat_map(|cost| std::iter::once(&cost.shortest).chain(&cost.longest));
    let beyond = match costs.first().map_or(0, LoopCost::beyond_l1_latency) {
        beyond if beyond > latency && turns().any(|turn| turn.beyond_l1 > 0) => {
            format!(", but after {beyond} and more where the first cache is not asked (volatile, atomics),")
        }
        _ => String::new(),
    };
    let says = format!(
        "An estimate: the schedule of ptxas, executed on an SM as one was measured. Global memory answers after {latency} cycles \
         (--memory, --latency){beyond}{} bank conflicts count where they are decided, every guard holds, and the code is in the nearest \
         cache.",
        if beyond.is_empty() { "," } else { "" }
    );
    for line in wrap(&says, options.width.saturating_sub(2)) {
        writeln!(out, "  {DIM}{line}{RESET}")?;
    }
    costs.iter().try_for_each(|cost| write_loop(cost, options, out))
}

fn at_line(line: Option<Line>) -> String {
    line.map_or_else(|| "an instruction without a line".to_owned(), |line| format!("line {line}"))
}

fn write_loop(cost: &LoopCost, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let inner = match cost.inner_loops {
        0 => String::new(),
        1 => ", the loop inside it left out".to_owned(),
        more => format!(", the {more} loops inside it left out"),
    };
    let source = cost.source_line.as_ref().map(|at| format!(", {DIM}{}:{}{RESET}", terminal(&at.file), at.line));
    let told = format!(
        "{BOLD}loop at {}{RESET} (pc {}), depth {}{inner}{}",
        at_line(cost.ptx_line),
        cost.pc,
        cost.depth,
        source.unwrap_or_default()
    );
    writeln!(out)?;
    for (number, line) in wrap(&told, options.width.saturating_sub(4)).iter().enumerate() {
        writeln!(out, "{}{line}", if number == 0 { "  " } else { "    " })?;
    }
    if let Some(told) = beside(cost) {
        write_wrapped(&told, "    ", "      ", options.width, out)?;
    }
    match &cost.longest {
        None => write_turn(&cost.shortest, cost.ptx_turns, options, out),
        Some(longest) => {
            writeln!(out, "  the shortest way through it:")?;
            write_turn(&cost.shortest, None, options, out)?;
            writeln!(out, "  the longest way:")?;
            write_turn(longest, cost.ptx_turns, options, out)
        }
    }
}

/// What other roles are taken to do at the same time.
fn beside(cost: &LoopCost) -> Option<String> {
    let one = |other: &LoopBeside| format!("{} at {}", warps_beside(other), at_line(other.ptx_line));
    let all: Vec<String> = cost.beside.iter().map(one).collect();
    (!all.is_empty()).then(|| {
        format!(
            "counted with it, a turn for each of its own, because they share the SM with it: the loop of {}",
            all.join(", the loop of ")
        )
    })
}

/// What bounds a turn, in words.
fn bound(at: &CyclesAt) -> String {
    match at.bound {
        CostBound::Part => at.part.clone(),
        CostBound::Latency => "latency".to_owned(),
        CostBound::Barrier => "barrier".to_owned(),
    }
}

/// `unrolled`: how many turns of the PTX's loop it does.
fn write_turn(turn: &TurnCost, unrolled: Option<u32>, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let unmeasured = match turn.unmeasured {
        0 => String::new(),
        1 => ", 1 of them of a kind whose latency was not measured".to_owned(),
        more => format!(", {more} of them of kinds whose latency was not measured"),
    };
    let unrolled = match unrolled {
        Some(turns) if turns > 1 => format!(", which does {turns} turns of the PTX's loop"),
        _ => String::new(),
    };
    let accesses = |count: u32| if count == 1 { "access" } else { "accesses" };
    let conflicts = match turn.bank_conflicts {
        0 => String::new(),
        some => format!(", {some} {} of shared memory with bank conflicts", accesses(some)),
    };
    let undecided = match turn.undecided_accesses {
        0 => String::new(),
        some => format!(", {some} {} of shared memory taken to have no bank conflicts", accesses(some)),
    };
    let beyond = match turn.beyond_l1 {
        0 => String::new(),
        some => format!(", {some} {} that the first cache is not asked for", accesses(some)),
    };
    let told = format!("{} instructions a turn{unrolled}{unmeasured}{conflicts}{undecided}{beyond}", turn.instructions);
    for (number, line) in wrap(&told, options.width.saturating_sub(6)).iter().enumerate() {
        writeln!(out, "{}{line}", if number == 0 { "    " } else { "      " })?;
    }
    let head = |a: &str, b: &str, c: &str, d: &str| format!("    {DIM}{a:>9} {b:>8} {c:>8}  {d}{RESET}");
    writeln!(out, "{}", head("warps on", "cycles", "cycles", "bound by;").trim_end())?;
    writeln!(out, "{}", head("scheduler", "a turn", "a warp", "busiest others"))?;
    for at in std::iter::once(&turn.alone).chain(&turn.with_warps) {
        let warps =
            if at.warps_per_scheduler == 0 { "one alone".to_owned() } else { at.warps_per_scheduler.to_string() };
        let each = at.cycles / f64::from(at.warps_per_scheduler.max(1));
        let mut busy = at.busy.iter().map(|busy| format!("{} {} %", busy.part, busy.percent));
        let mut row = format!("    {warps:>9} {:>8.1} {each:>8.1}  ", at.cycles);
        row.push_str(&match at.bound {
            CostBound::Part => busy.next().unwrap_or_default(),
            _ => bound(at),
        });
        // As many of the others as there is room for.
        let mut mark = ';';
        for other in busy.take(2) {
            if row.chars().count() + 2 + other.chars().count() > options.width {
                break;
            }
            row = format!("{row}{mark} {other}");
            mark = ',';
        }
        writeln!(out, "{row}")?;
    }
    write_path(turn, options, out)?;
    let waits: Vec<&LoopWait> = turn.waits.iter().filter(|wait| options.verbose || wait.cycles > 2).collect();
    let shown = if options.verbose { waits.len() } else { WAITS };
    if !waits.is_empty() {
        writeln!(out, "    one warp alone waits longest")?;
    }
    for wait in waits.iter().take(shown) {
        let line = format!("{} cycles before {}: {}", wait.cycles, at_line(wait.ptx_line), cause(wait));
        for (number, part) in wrap(&line, options.width.saturating_sub(8)).iter().enumerate() {
            writeln!(out, "{}{part}", if number == 0 { "      " } else { "        " })?;
        }
    }
    Ok(())
}

/// The chain that a turn is as long as: line by line, what is on one line together.
fn write_path(turn: &TurnCost, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let mut lines: Vec<(Option<Line>, u32)> = Vec::new();
    for step in &turn.critical_path {
        match lines.last_mut() {
            Some((line, cycles)) if *line == step.ptx_line => *cycles += step.cycles,
            _ => lines.push((step.ptx_line, step.cycles)),
        }
    }
    let name = |line: &Option<Line>| line.map_or_else(|| "no line".to_owned(), |line| line.to_string());
    let parts: Vec<String> = lines.iter().map(|(line, cycles)| format!("{} ({cycles})", name(line))).collect();
    if parts.is_empty() {
        return Ok(());
    }
    let told = format!("critical path by line, cycles of each: {}", parts.join(" → "));
    for (number, part) in wrap(&told, options.width.saturating_sub(6)).iter().enumerate() {
        writeln!(out, "{}{part}", if number == 0 { "    " } else { "      " })?;
    }
    Ok(())
}

fn cause(wait: &LoopWait) -> String {
    waited_for(wait.cause, wait.for_pc, wait.for_ptx_line)
}

/// What an instruction waits for.
pub fn waited_for(cause: WaitCause, for_pc: Option<Pc>, for_line: Option<Line>) -> String {
    let line = for_line.map(|line| format!("line {line}"));
    let producer = match (line, for_pc) {
        (Some(line), Some(pc)) => Some(format!("{line} (pc {pc})")),
        (None, Some(pc)) => Some(format!("pc {pc}")),
        (line, None) => line,
    };
    wait_words(cause, producer.as_deref())
}

/// The same, with the producer as somebody else calls it.
pub fn wait_words(cause: WaitCause, producer: Option<&str>) -> String {
    match (cause, producer) {
        (WaitCause::Stall, Some(producer)) => format!("for the result of {producer}, whose latency is known"),
        (WaitCause::Stall, None) => "the stall count of the instruction before it".to_owned(),
        (WaitCause::Scoreboard, Some(producer)) => format!("for the scoreboard of {producer}"),
        (WaitCause::Scoreboard, None) => "for a scoreboard".to_owned(),
        (WaitCause::Branch, _) => "the branch to it".to_owned(),
        (WaitCause::Pipe, _) => "its pipe is busy".to_owned(),
        (WaitCause::Banks, _) => "operands in the same bank of registers".to_owned(),
        (WaitCause::Barrier, _) => "the barrier".to_owned(),
        (WaitCause::Groups, _) => "for multiplications of the warp group".to_owned(),
    }
}
