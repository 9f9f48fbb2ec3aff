//! Live registers: how many along the code, where most, and which values hold them.

use std::io::{self, Write};

use super::Options;
use super::figures::count;
use super::kernel::row;
use super::style::{DIM, RESET, WARN};
use crate::emit::escape::{shorten, terminal};
use crate::report::{Kernel, LiveValue, Unit};

/// Rows of the live set shown unless everything was asked for.
const VALUES: usize = 6;

/// Writes the pressure rows and the table of values alive at the peak.
pub fn write(kernel: &Kernel, unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let Some(pressure) = &kernel.pressure else { return Ok(()) };
    let peak = &pressure.gpr;
    let at = peak.ptx_line.map(|line| format!(" at line {line}")).unwrap_or_default();
    let pc = peak.pc.map(|pc| format!(", pc {pc}")).unwrap_or_default();
    row("live", &format!("{} registers at most{at}{pc}", peak.peak), options, out)?;
    if !pressure.exact {
        let why = "an instruction that is not known, or a branch of unknown target, can be reached";
        row("", &format!("{WARN}not exact{RESET}: {why}"), options, out)?;
    }
    if pressure.profile.len() > 1 {
        row("", &format!("{} {DIM}along the code{RESET}", sparkline(&pressure.profile)), options, out)?;
    }
    if options.verbose {
        let others = format!(
            "{} predicates, {} uniform registers, {} uniform predicates",
            pressure.pred.peak, pressure.ugpr.peak, pressure.upred.peak
        );
        row("", &others, options, out)?;
    }
    let values = kernel.live_at_peak.as_deref().unwrap_or_default();
    let shown = if options.verbose { values.len() } else { VALUES.min(values.len()) };
    if shown == 0 {
        return Ok(());
    }
    writeln!(out, "  {DIM}values alive there: registers, line that makes them{RESET}")?;
    for value in values.iter().take(shown) {
        write_value(value, unit, options, out)?;
    }
    let rest: usize = values.iter().skip(shown).map(|value| value.registers.len()).sum();
    if rest > 0 {
        let values = count((values.len() - shown) as u64, "value");
        writeln!(out, "  {DIM}and {values} more in {}{RESET}", count(rest as u64, "register"))?;
    }
    Ok(())
}

fn write_value(value: &LiveValue, unit: &Unit, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let registers = value.registers.len();
    match value.ptx_line {
        None => {
            writeln!(out, "  {registers:>5}       {DIM}no line: there from the start, or made by the compiler{RESET}")
        }
        Some(line) => {
            let last = match value.last_use_ptx_line {
                Some(last) => format!("  {DIM}used until line {last}{RESET}"),
                None => String::new(),
            };
            let room = options.width.saturating_sub(40).max(20);
            let text = terminal(&unit.ptx.statement(line).unwrap_or_default()).into_owned();
            writeln!(out, "  {registers:>5} {DIM}{line:>5}{RESET} {}{last}", shorten(&text, room))
        }
    }
}

/// Figures as a row of blocks, the largest full.
fn sparkline(figures: &[u32]) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = figures.iter().copied().max().unwrap_or(0).max(1);
    figures.iter().map(|&figure| BLOCKS[(figure as usize * 7).div_ceil(most as usize).min(7)]).collect()
}

#[cfg(test)]
mod tests {
    use super::sparkline;

    #[test]
    fn the_largest_is_full_and_zero_is_flat() {
        assert_eq!(sparkline(&[0, 1, 50, 100]), "▁▂▅█");
        assert_eq!(sparkline(&[0, 0]), "▁▁");
    }
}
