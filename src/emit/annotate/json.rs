//! The annotation as JSON lines: one record a line of output, so that a reader need not wait for the end.
//!
//! `{"record":"unit",…}` first, then for each document `{"record":"document",…}` and for each of its lines `{"record":"line",…}` with
//! the instructions placed there; kernels are `{"record":"kernel",…}` before the first document.

use std::io::{self, Write};

use serde::Serialize;

use super::notes::{LineNotes, Notes};
use super::{Options, shown_lines};
use crate::base::{Line, Pc};
use crate::report::annotation::{
    ANNOTATION_SCHEMA, AnnotatedPart, Document, Group, InstructionRecord, LoopSpan, Missing, View,
};
use crate::report::{OccupancyStep, PtxasUsed, Unit};

#[derive(Serialize)]
#[serde(tag = "record", rename_all = "lowercase")]
enum Record<'a> {
    Unit {
        schema: &'static str,
        input: &'a str,
        arch: Option<&'a str>,
        ptxas: Option<&'a PtxasUsed>,
    },
    Kernel {
        name: &'a str,
        ptx_lines: Option<(Line, Line)>,
        registers: Option<u32>,
        instructions: usize,
        exact: Option<bool>,
        peak_pc: Option<Pc>,
        parts: &'a [AnnotatedPart],
        loops: &'a [LoopSpan],
        occupancy_steps: &'a [OccupancyStep],
    },
    Document {
        name: &'a str,
        lines: Option<u32>,
        /// Why the text of a source file is not here.
        #[serde(skip_serializing_if = "Option::is_none")]
        missing: Option<Missing>,
    },
    Line {
        line: Option<Line>,
        text: Option<&'a str>,
        instructions: Vec<Placed<'a>>,
        /// What is known of the line itself: what it multiplies, fences, groups under way after it.
        notes: Vec<&'a str>,
    },
}

#[derive(Serialize)]
struct Placed<'a> {
    #[serde(flatten)]
    instruction: InstructionRecord<'a>,
    /// Whether the line it stands under is its own, or else a neighbour's.
    own_line: bool,
}

/// Writes one unit.
pub fn write(unit: &Unit, view: &View<'_>, options: &Options, out: &mut dyn Write) -> io::Result<()> {
    let first = Record::Unit {
        schema: ANNOTATION_SCHEMA,
        input: &unit.input,
        arch: unit.arch.as_deref(),
        ptxas: unit.ptxas.as_ref(),
    };
    record(&first, out)?;
    for kernel in &view.annotation.kernels {
        let kernel = Record::Kernel {
            name: &kernel.name,
            ptx_lines: kernel.span,
            registers: kernel.registers,
            instructions: kernel.instructions.len(),
            exact: kernel.exact,
            peak_pc: kernel.peak,
            parts: &kernel.parts,
            loops: &kernel.loops,
            occupancy_steps: &kernel.steps,
        };
        record(&kernel, out)?;
    }
    let notes = Notes::of(unit, view);
    for document in &view.documents {
        write_document(view, document, (options, &notes), out)?;
    }
    Ok(())
}

fn write_document(
    view: &View<'_>,
    document: &Document<'_>,
    (options, notes): (&Options, &Notes),
    out: &mut dyn Write,
) -> io::Result<()> {
    let count = document.text.map(|text| text.line_count());
    record(&Record::Document { name: document.name, lines: count, missing: document.missing }, out)?;
    let mut groups = view.groups(document).peekable();
    if let Some(group) = groups.next_if(|group| group.line.0 == 0)
        && options.lines.is_none()
    {
        record(
            &Record::Line { line: None, text: None, instructions: instructions(view, &group), notes: Vec::new() },
            out,
        )?;
    }
    for (from, to) in shown_lines(view, document, options) {
        while groups.next_if(|group| group.line.0 < from).is_some() {}
        for line in from..=to {
            let group = groups.next_if(|group| group.line.0 == line);
            let raw = document.text.and_then(|text| text.raw_line(Line(line)));
            if raw.is_none() && group.is_none() {
                continue;
            }
            let shown = Record::Line {
                line: Some(Line(line)),
                text: raw.map(|raw| raw.trim_end_matches(['\r', '\n'])),
                instructions: group.map(|group| instructions(view, &group)).unwrap_or_default(),
                notes: notes.get(Line(line)).into_iter().flat_map(LineNotes::iter).collect(),
            };
            record(&shown, out)?;
        }
    }
    if options.lines.is_none() && !options.only_hot {
        for group in groups {
            let instructions = instructions(view, &group);
            let shown = Record::Line { line: Some(group.line), text: None, instructions, notes: Vec::new() };
            record(&shown, out)?;
        }
    }
    Ok(())
}

fn instructions<'a>(view: &View<'a>, group: &Group<'_>) -> Vec<Placed<'a>> {
    let placed = group.members.iter().filter_map(|placed| {
        let (kernel, instruction) = view.get(placed)?;
        Some(Placed { instruction: view.annotation.record(kernel, instruction), own_line: placed.is_own })
    });
    placed.collect()
}

fn record(record: &Record<'_>, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, record).map_err(io::Error::from)?;
    out.write_all(b"\n")
}
