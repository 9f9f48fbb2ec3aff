//! What accesses of memory take, on a terminal; and each in a few words, wherever its line is shown.

use std::io::{self, Write};

use super::Options;
use crate::emit::escape::terminal;
use crate::emit::text::{BOLD, DIM, RESET, wrap, write_wrapped};
use crate::report::Kernel;
use crate::report::access::{AccessFact, AccessFacts, AccessSpace, ArrayMend, Reason, Refusal};

/// Threads that are named of those that meet.
const NAMED: usize = 8;
/// Accesses that are shown where nobody asks for all.
const SHOWN: usize = 40;
/// Lines that a mend names.
const LINES: usize = 6;

/// Writes the accesses of a kernel.
pub(super) fn write(kernel: &Kernel, name: &str, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    write_wrapped(&format!("{BOLD}{}{RESET}", terminal(name)), "", "    ", options.width, out)?;
    let mut put = |text: &str, indent: usize| -> io::Result<()> {
        for (number, line) in wrap(text, options.width.saturating_sub(indent + 2)).iter().enumerate() {
            writeln!(out, "{}{line}", " ".repeat(if number == 0 { indent } else { indent + 2 }))?;
        }
        Ok(())
    };
    let Some(facts) = &kernel.accesses else {
        return put("no access of shared or global memory that can be told: it has none, or there is no PTX", 2);
    };
    put(&summary(facts), 2)?;
    let mut shown = 0;
    let mut left = 0;
    for fact in facts.accesses.iter().filter(|fact| options.verbose || fact.is_worse() || !fact.is_decided()) {
        if !options.verbose && shown >= SHOWN {
            left += 1;
            continue;
        }
        shown += 1;
        put(&format!("line {}: {}", fact.ptx_line, told(fact)), 4)?;
    }
    if left > 0 {
        put(&format!("{DIM}{left} more: --verbose{RESET}"), 4)?;
    }
    facts.mends.iter().try_for_each(|mend| put(&mended(mend), 2))
}

/// All accesses in a sentence.
fn summary(facts: &AccessFacts) -> String {
    let counted = |all: u32, decided: u32, worse: u32, what: &str, how: &str| match all {
        0 => None,
        _ => Some(format!("{all} of {what} memory, {decided} decided, {worse} {how}")),
    };
    let parts = [
        counted(facts.shared_total, facts.shared_decided, facts.shared_conflicts, "shared", "with bank conflicts"),
        counted(
            facts.global_total,
            facts.global_decided,
            facts.global_scattered,
            "global",
            "with more sectors than bytes ask for",
        ),
    ];
    let told = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    format!("accesses: {told}{}", if facts.clean { "; clean" } else { "" })
}

/// What an access is and takes, in words.
pub fn told(fact: &AccessFact) -> String {
    let place = match fact.space {
        AccessSpace::Shared => "shared",
        AccessSpace::Global => "global",
    };
    let variable = fact.variable.as_deref().map(|name| format!(" of {}", terminal(name))).unwrap_or_default();
    let unit = match fact.space {
        AccessSpace::Shared => "wavefront",
        AccessSpace::Global => "sector",
    };
    let mut text = format!("{} {}{variable}, {} bytes", place, fact.kind.name(), fact.bytes);
    if let (Some(least), Some(most), Some(ideal)) = (fact.least, fact.most, fact.ideal) {
        let takes = if least == most { most.to_string() } else { format!("{least} to {most}") };
        text.push_str(&format!(": {takes} {unit}{}", if most == 1 { "" } else { "s" }));
        if most > ideal {
            text.push_str(&format!(", {ideal} at best"));
        }
    }
    if let Some(most) = fact.misaligned {
        text.push_str(&format!(", up to {most} where the base is no multiple of 32"));
    }
    if let Some(conflict) = conflict(fact) {
        text.push_str(&format!("; {conflict}"));
    }
    if let Some(why) = &fact.undecided {
        let line = why.ptx_line.map(|line| format!(" (line {line})")).unwrap_or_default();
        let reason = match why.why {
            Reason::BlockSize => "the size of a block is not known: --threads",
            Reason::BlockShape => "the shape of a block is not known: --threads, as 32x8",
            Reason::Address => "lanes have addresses that differ by what is not known",
            Reason::Lanes => "which lanes come is not known",
            Reason::Alignment => "where in a word it starts is not known",
            Reason::Form => "how many bytes it takes at once is not known",
        };
        text.push_str(&format!("; undecided, {reason}{line}"));
    }
    text
}

/// Who meets where.
pub fn conflict(fact: &AccessFact) -> Option<String> {
    let (ways, bank) = (fact.ways.filter(|_| !fact.threads.is_empty())?, fact.bank?);
    let mut names: Vec<String> = fact.threads.iter().take(NAMED).map(u32::to_string).collect();
    if fact.threads.len() > NAMED {
        names.push("…".to_owned());
    }
    Some(format!("{ways}-way: threads {} meet in bank {bank}", names.join(", ")))
}

/// What mends an array, or why nothing was found.
pub fn mended(mend: &ArrayMend) -> String {
    let lines: Vec<String> = mend.lines.iter().take(LINES).map(ToString::to_string).collect();
    let more = if mend.lines.len() > LINES { " and more" } else { "" };
    let word = if mend.lines.len() == 1 { "line" } else { "lines" };
    let which = format!("{}, {word} {}{more}", terminal(&mend.variable), lines.join(", "));
    let mut ways = Vec::new();
    if let Some(padding) = mend.padding {
        let (row, gap) = (padding.row_bytes, padding.gap_bytes);
        ways.push(format!("a row of {} words instead of {} mends it", (row + gap) / 4, row / 4));
    }
    if let Some(by) = mend.swizzle {
        let verb = if ways.is_empty() { "mends it" } else { "does, too" };
        ways.push(format!(
            "Swizzle<{}, {}, {}> on elements of {} byte{} {verb}",
            by.bits,
            by.base,
            by.shift,
            by.element_bytes,
            if by.element_bytes == 1 { "" } else { "s" }
        ));
    }
    match (ways.is_empty(), mend.refused) {
        (false, _) => format!("{which}: {}; proven for all {} accesses of it", ways.join("; "), mend.proven),
        (true, Some(Refusal::Undecided)) => {
            format!("{which}: no mend can be proven, an access that may be its is undecided")
        }
        (true, Some(Refusal::Others)) => format!("{which}: no mend can be proven, not only threads read and write it"),
        (true, _) => format!("{which}: no padding of rows and no swizzle that was tried mends all accesses of it"),
    }
}
