//! `ptxinspect annotate FILE…`: PTX with the SASS it became.

use std::io::Write;

use anyhow::{Result, bail};

use super::Outcome;
use super::args::{AnnotateArgs, AnnotateBy, AnnotateFormat};
use super::output;
use super::progress::Progress;
use crate::emit;
use crate::emit::annotate::Options;
use crate::emit::escape::terminal;
use crate::engine::given;
use crate::engine::glob::nearest_of;
use crate::engine::inspect::{View, inspect_all};
use crate::engine::settings::lines;
use crate::engine::source;
use crate::report::annotation::By;
use crate::report::{LaunchHints, Unit};

/// Compiles or reads every input, annotates every function.
pub fn run(args: &AnnotateArgs) -> Result<Outcome> {
    let mut session = args.compile.session()?;
    session.launch =
        LaunchHints { threads: args.threads, smem_dynamic_bytes: args.smem_dynamic, ..LaunchHints::default() };
    let by = match args.by {
        AnnotateBy::Ptx => By::Ptx,
        AnnotateBy::Source => By::Source,
    };
    if by == By::Source && args.format == AnnotateFormat::Ptx {
        bail!("--by source has no PTX to write: leave out --format ptx or --by source");
    }
    let options = Options {
        lines: args.lines.as_deref().map(lines).transpose()?,
        only_hot: args.only_hot,
        control: args.control,
        cycles: args.cycles,
        width: args.width.or_else(|| output::terminal_width(&args.output)),
        only_functions: !session.kernels.is_empty(),
    };
    let mut find = source::Finder::new(args.source_root.as_deref())?;
    let values = args.format == AnnotateFormat::Html;
    let inputs = given::expand(&session.inputs, &args.compile.settings()?)?;
    given::refuse_idle_flags(&inputs, &session.flags)?;
    let mut annotated =
        inspect_all(&session, &inputs, View::Annotation { values }, &Progress::new("compiling", args.output.quiet));
    if by == By::Source || args.format == AnnotateFormat::Html {
        for (unit, annotation) in &mut annotated {
            find.fill(annotation);
            find.quote(unit);
        }
    }
    let write_all = |out: &mut dyn Write| {
        match args.format {
            AnnotateFormat::Html => return emit::html::write(&annotated, emit::html::Opening::Annotation, out),
            AnnotateFormat::Svg => return emit::svg::write(&annotated, out),
            _ => {}
        }
        for (unit, annotation) in annotated.iter().filter(|(unit, _)| unit.error.is_none()) {
            let view = annotation.view(by);
            match args.format {
                AnnotateFormat::Text => emit::annotate::write_text(unit, &view, &options, out)?,
                AnnotateFormat::Ptx => emit::annotate::write_ptx(unit, &view, &options, out)?,
                AnnotateFormat::Json => emit::annotate::write_json(unit, &view, &options, out)?,
                AnnotateFormat::Html | AnnotateFormat::Svg => {}
            }
        }
        Ok(())
    };
    output::write(&args.output, args.format, write_all)?;
    let mut errors = output::errors();
    for (unit, _) in &annotated {
        emit::text::write_unit_error(unit, &mut errors)?;
    }
    errors.flush()?;
    if annotated.iter().any(|(unit, _)| unit.error.is_some()) {
        return Ok(Outcome::Failed);
    }
    if !session.kernels.is_empty() && annotated.iter().all(|(_, annotation)| annotation.kernels.is_empty()) {
        let units: Vec<Unit> = annotated.into_iter().map(|(unit, _)| unit).collect();
        let near = nearest_of(&args.compile.kernel, &units);
        bail!("--kernel {} matches no kernel of any input{near}", args.compile.kernel.join(", "));
    }
    if let (Some((first, _)), By::Ptx) = (options.lines, by) {
        let last = annotated.iter().map(|(unit, _)| unit.ptx.line_count()).max().unwrap_or(0);
        if first.0 > last {
            bail!("--lines from {first} on: there is no such line; expected lines from 1 to {last}");
        }
    }
    if !args.output.quiet {
        for (unit, annotation) in &annotated {
            let input = terminal(&unit.input);
            if annotation.kernels.is_empty() {
                writeln!(errors, "no functions: {input}")?;
            } else if emit::annotate::is_empty(&annotation.view(by), &options) {
                writeln!(errors, "no line that was asked for: {input}")?;
            }
        }
    }
    Ok(Outcome::Fine)
}
