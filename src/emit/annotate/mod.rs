//! The annotation in its forms: text for people, PTX with comments for ptxas, JSON lines for editors.
//!
//! All three walk the same [`View`]: every instruction stands once, under the same line.

mod json;
mod notes;
mod ptx;
mod text;

use crate::base::Line;
use crate::report::annotation::{AnnotatedInstruction, AnnotatedKernel, Document, Group, Placed, View};

pub use json::write as write_json;
pub use ptx::write as write_ptx;
pub use text::write as write_text;

/// What the reader asked to see.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only these lines, both ends included.
    pub lines: Option<(Line, Line)>,
    /// Only lines where registers are short: near the peak, or with spills.
    pub only_hot: bool,
    /// Stall counts and scoreboards.
    pub control: bool,
    /// When instructions issue and what they wait for, with one warp alone.
    pub cycles: bool,
    /// Columns; none for as many as it takes.
    pub width: Option<usize>,
    /// Only the functions that were asked for, not the text around them.
    pub only_functions: bool,
}

/// From this share of the peak on a line is hot, in percent.
const HOT_PERCENT: u64 = 90;
/// How many lines are hot by their number of instructions, where live registers are not known.
const HOT_LINES: usize = 10;
/// Lines of source shown around those that became code.
const CONTEXT: u32 = 3;

/// The lines of a document to show: ranges, both ends included, ascending and apart.
fn shown_lines(view: &View<'_>, document: &Document<'_>, options: &Options) -> Vec<(u32, u32)> {
    let last = document.text.map_or(u32::MAX, |text| text.line_count());
    let (from, to) = options.lines.map_or((1, last), |(from, to)| (from.0.max(1), to.0.min(last)));
    let with_code = || view.groups(document).map(|group| group.line.0);
    let mut ranges: Vec<(u32, u32)> = if options.only_hot {
        hot_lines(view, document).into_iter().map(|line| (line, line)).collect()
    } else if document.text.is_none() {
        with_code().map(|line| (line, line)).collect()
    } else if !document.name.is_empty() {
        with_code().map(|line| (line.saturating_sub(CONTEXT), line.saturating_add(CONTEXT))).collect()
    } else if options.only_functions {
        let spans = view.annotation.kernels.iter().filter_map(|kernel| kernel.span);
        with_code().map(|line| (line, line)).chain(spans.map(|(first, last)| (first.0, last.0))).collect()
    } else {
        vec![(from, to)]
    };
    ranges.iter_mut().for_each(|range| *range = (range.0.max(from), range.1.min(to)));
    ranges.retain(|range| range.0 <= range.1);
    ranges.sort_unstable();
    let mut apart: Vec<(u32, u32)> = Vec::new();
    for (from, to) in ranges {
        match apart.last_mut() {
            Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
            _ => apart.push((from, to)),
        }
    }
    apart
}

/// Whether nothing of a view is shown: no line of it was asked for, or there is none.
pub fn is_empty(view: &View<'_>, options: &Options) -> bool {
    view.documents.iter().all(|document| shown_lines(view, document, options).is_empty())
}

/// Lines near the peak or with spills; where live registers are not known, those that became the most instructions.
fn hot_lines(view: &View<'_>, document: &Document<'_>) -> Vec<u32> {
    let peak_of = |kernel: &AnnotatedKernel| {
        kernel.instructions.iter().filter_map(|instruction| instruction.live).map(|live| live.gpr).max()
    };
    let peaks: Vec<Option<u32>> = view.annotation.kernels.iter().map(peak_of).collect();
    let is_hot = |group: &Group<'_>| {
        group.members.iter().any(|placed| {
            let Some((_, instruction)) = view.get(placed) else { return false };
            let peak = peaks.get(placed.kernel as usize).copied().flatten();
            let near = instruction
                .live
                .zip(peak)
                .is_some_and(|(live, peak)| live.gpr > 0 && u64::from(live.gpr) * 100 >= u64::from(peak) * HOT_PERCENT);
            near || instruction.marks.iter().any(|mark| mark.is_spill())
        })
    };
    let mut hot: Vec<u32> = view.groups(document).filter(is_hot).map(|group| group.line.0).collect();
    if peaks.iter().all(Option::is_none) {
        let mut by_size: Vec<(usize, u32)> =
            view.groups(document).map(|group| (view.made_of(&group), group.line.0)).collect();
        by_size.sort_by_key(|&(size, line)| (std::cmp::Reverse(size), line));
        hot.extend(by_size.iter().take(HOT_LINES).map(|(_, line)| line));
    }
    hot.sort_unstable();
    hot.dedup();
    hot
}

/// What is special about an instruction, in words; none for most.
fn remarks(placed: &Placed, instruction: &AnnotatedInstruction) -> Vec<String> {
    let mut remarks: Vec<String> = instruction.marks.iter().map(|mark| mark.words()).collect();
    // Where there is no line at all, the heading says it once.
    if !placed.is_own && placed.line.0 > 0 {
        remarks.push("no line".to_owned());
    }
    remarks
}
