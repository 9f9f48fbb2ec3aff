//! Many kernels that differ, as a ranking: how many of what, then a row for each of the worst.

use std::io::{self, Write};

use super::{Options, Overall};
use crate::compare::{Figure, FigureChange, KernelDifference, Outcome};
use crate::emit::escape::terminal;
use crate::emit::text::{BAD, DIM, GOOD, RESET, count, thousands, wrap};
use crate::report::distinct;

/// Kernels that differ from which on they are ranked instead of shown one by one.
pub const MANY: usize = 24;
/// Rows of a ranking.
const ROWS: usize = 40;
/// The figures of a row, what they are called, and how wide they are.
const COLUMNS: [(Figure, &str, usize); 5] = [
    (Figure::Registers, "registers", 10),
    (Figure::SpillStoreBytes, "spill stores", 15),
    (Figure::PeakLive, "live", 10),
    (Figure::BlocksPerSm, "blocks/SM", 9),
    (Figure::Instructions, "instructions", 17),
];

fn change(kernel: &KernelDifference, figure: Figure) -> Option<&FigureChange> {
    kernel.figures.iter().find(|change| change.figure == figure)
}

/// How much a figure grew; below 0 where it fell.
fn gained(kernel: &KernelDifference, figure: Figure) -> i64 {
    let both = change(kernel, figure).and_then(|change| Some((change.before?, change.after?)));
    both.map_or(0, |(before, after)| {
        i64::try_from(after).unwrap_or(i64::MAX).saturating_sub(i64::try_from(before).unwrap_or(i64::MAX))
    })
}

/// What comes first: who got worse, by spills, then blocks, registers and instructions.
fn rank(kernel: &KernelDifference) -> (Overall, [i64; 4]) {
    let [spills, registers, instructions] =
        [Figure::SpillStoreBytes, Figure::Registers, Figure::Instructions].map(|figure| -gained(kernel, figure));
    (Overall::of(kernel), [spills, gained(kernel, Figure::BlocksPerSm), registers, instructions])
}

/// `48 → 50`, or the figure alone where it is the same.
fn cell(change: Option<&FigureChange>) -> (String, anstyle::Style) {
    let shown = |value: Option<u64>| value.map_or("?".to_owned(), thousands);
    match change {
        None => ("–".to_owned(), DIM),
        Some(change) if change.before == change.after => (shown(change.after), DIM),
        Some(change) => {
            let style = match change.outcome {
                Outcome::Better => GOOD,
                Outcome::Worse => BAD,
                Outcome::Same | Outcome::Unknown => anstyle::Style::new(),
            };
            (format!("{} → {}", shown(change.before), shown(change.after)), style)
        }
    }
}

/// Writes how many kernels became what, and the worst of those that both sides have.
pub fn write(kernels: &[&KernelDifference], options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let all = [
        Overall::Worse,
        Overall::Mixed,
        Overall::Better,
        Overall::Changed,
        Overall::New,
        Overall::Gone,
        Overall::Renamed,
        Overall::Same,
    ];
    let of = |wanted: Overall| kernels.iter().filter(|kernel| Overall::of(kernel) == wanted).count();
    let told = all.into_iter().map(|kind| (of(kind), kind)).filter(|(number, _)| *number > 0);
    let told: Vec<String> =
        told.map(|(number, kind)| format!("{} {}", thousands(number as u64), words(kind))).collect();
    writeln!(out)?;
    for line in wrap(&format!("{}: {}", count(kernels.len() as u64, "kernel"), told.join(", ")), options.width) {
        writeln!(out, "{line}")?;
    }
    let differs = |kernel: &&&KernelDifference| {
        !matches!(Overall::of(kernel), Overall::Same | Overall::Renamed | Overall::New | Overall::Gone)
    };
    let mut ranked: Vec<&KernelDifference> = kernels.iter().filter(differs).copied().collect();
    ranked.sort_by_cached_key(|kernel| (rank(kernel), kernel.name.clone()));
    let shown = ranked.get(..ROWS.min(ranked.len())).unwrap_or(&[]);
    let taken: usize = COLUMNS.iter().map(|(_, _, width)| width + 2).sum();
    // Where there is no room beside the figures, the name stands under them.
    let beside = options.width.saturating_sub(taken + 2);
    let names: Vec<&str> = shown.iter().map(|kernel| kernel.demangled.as_deref().unwrap_or(&kernel.name)).collect();
    let is_beside = beside >= 24;
    let names = distinct(&names, if is_beside { beside } else { options.width.saturating_sub(6).max(24) });
    write!(out, "\n{DIM}")?;
    for (_, title, width) in COLUMNS {
        write!(out, "  {title:>width$}")?;
    }
    writeln!(out, "{}{RESET}", if is_beside { "  kernel" } else { "" })?;
    for (kernel, name) in shown.iter().zip(&names) {
        for (figure, _, width) in COLUMNS {
            let (text, style) = cell(change(kernel, figure));
            write!(out, "  {style}{text:>width$}{RESET}")?;
        }
        match is_beside {
            true => writeln!(out, "  {}", terminal(name))?,
            false => writeln!(out, "\n      {}", terminal(name))?,
        }
    }
    let rest = ranked.len() - shown.len();
    let more = if rest > 0 { format!("{} not shown; ", count(rest as u64, "more kernel")) } else { String::new() };
    let hint = format!("{more}--kernel NAME shows a kernel with its lines and code, --format json has all");
    for line in wrap(&hint, options.width) {
        writeln!(out, "{DIM}{line}{RESET}")?;
    }
    Ok(())
}

/// What became of some kernels.
fn words(kind: Overall) -> &'static str {
    match kind {
        Overall::Worse => "got worse",
        Overall::Mixed => "better and worse",
        Overall::Better => "got better",
        Overall::Changed => "with the same figures and other code",
        Overall::New => "new",
        Overall::Gone => "gone",
        Overall::Renamed => "renamed, with the same code",
        Overall::Same => "without a difference",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str, side: &'static str, registers: (u64, u64), spills: (u64, u64)) -> KernelDifference {
        let change = |figure, (before, after): (u64, u64)| FigureChange {
            figure,
            before: Some(before),
            after: Some(after),
            outcome: match after.cmp(&before) {
                std::cmp::Ordering::Less => Outcome::Better,
                std::cmp::Ordering::Equal => Outcome::Same,
                std::cmp::Ordering::Greater => Outcome::Worse,
            },
        };
        KernelDifference {
            name: name.to_owned(),
            demangled: None,
            before_name: None,
            paired_by: None,
            within: None,
            before_within: None,
            side,
            findings_gone: Vec::new(),
            findings_new: Vec::new(),
            figures: vec![change(Figure::Registers, registers), change(Figure::SpillStoreBytes, spills)],
            loops: Vec::new(),
            fields: Vec::new(),
            lines: Vec::new(),
            lines_left_out: false,
            sass: None,
            sass_left_out: false,
        }
    }

    #[test]
    fn who_got_worse_comes_first_and_nobody_is_lost() {
        let mut all = vec![
            kernel("better", "both", (40, 32), (0, 0)),
            kernel("more_registers", "both", (40, 48), (0, 0)),
            kernel("spills", "both", (255, 255), (0, 1_200)),
            kernel("gone", "before", (1, 1), (0, 0)),
            kernel("added", "after", (1, 1), (0, 0)),
        ];
        all.extend((0..60).map(|at| kernel(&format!("k{at:02}"), "both", (40, 41), (0, 0))));
        let all: Vec<&KernelDifference> = all.iter().collect();
        for width in [60, 100] {
            let mut out = Vec::new();
            write(&all, &Options { top: 5, width, more: "" }, &mut out).unwrap();
            let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.starts_with("65 kernels: 62 got worse, 1 got better, 1 new, 1 gone"), "{text}");
            let at = |name: &str| text.find(name).unwrap_or_else(|| panic!("{name} in {text}"));
            assert!(at("spills\n") < at("more_registers\n") && at("more_registers\n") < at("k00\n"), "{text}");
            assert!(words.contains("0 → 1,200") && words.contains("23 more kernels not shown"), "{text}");
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width.max(73)), "{text}");
        }
    }
}
