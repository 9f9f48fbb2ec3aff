//! `ptxinspect annotate FILE…`: PTX with the SASS it became.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use rayon::prelude::*;

use super::Outcome;
use super::args::{AnnotateArgs, AnnotateBy, AnnotateFormat};
use super::compile::{self, Built, Session};
use super::input::{self, Input, Kind};
use super::{output, source};
use crate::base::{Arch, Line};
use crate::cubin::{Image, lines::LineTable};
use crate::emit;
use crate::emit::annotate::Options;
use crate::ptx;
use crate::report::annotation::{self, Annotation, By};
use crate::report::{self, LaunchHints, PtxText, Unit, UnitError, demangle};

/// Compiles or reads every input, annotates every function.
pub fn run(args: &AnnotateArgs) -> Result<Outcome> {
    let mut session = Session::new(&args.compile)?;
    session.launch = LaunchHints { threads: args.threads, smem_dynamic_bytes: args.smem_dynamic };
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
        width: args.width.or_else(|| output::terminal_width(&args.output)),
        only_functions: !session.kernels.is_empty(),
    };
    let arches = session.arches();
    let jobs: Vec<(&PathBuf, usize, Option<Arch>)> = session
        .inputs
        .iter()
        .flat_map(|path| arches.iter().enumerate().map(move |(index, arch)| (path, index, *arch)))
        .collect();
    let find = source::Finder::new(args.source_root.as_deref());
    let annotated: Vec<(Unit, Annotation)> = session.pool()?.install(|| {
        let one = |&(path, index, arch): &(&PathBuf, usize, Option<Arch>)| {
            annotate(&session, path, arch, index == 0, needs_values(args.format))
        };
        jobs.par_iter().filter_map(one).collect()
    });
    let mut annotated = annotated;
    if by == By::Source {
        for (_, annotation) in &mut annotated {
            annotation.sources = annotation.files.iter().map(|file| find.read(file)).collect();
        }
    }
    let found = || annotated.iter().filter(|(unit, _)| unit.error.is_none());
    output::write(&args.output, |out| {
        for (unit, annotation) in found() {
            let view = annotation.view(by);
            match args.format {
                AnnotateFormat::Text => emit::annotate::write_text(unit, &view, &options, out)?,
                AnnotateFormat::Ptx => emit::annotate::write_ptx(unit, &view, &options, out)?,
                AnnotateFormat::Json => emit::annotate::write_json(unit, &view, &options, out)?,
            }
        }
        Ok(())
    })?;
    let mut errors = anstream::stderr().lock();
    for (unit, _) in &annotated {
        emit::text::write_unit_error(unit, &mut errors)?;
    }
    errors.flush()?;
    if annotated.iter().any(|(unit, _)| unit.error.is_some()) {
        return Ok(Outcome::Failed);
    }
    if !session.kernels.is_empty() && annotated.iter().all(|(_, annotation)| annotation.kernels.is_empty()) {
        bail!("--kernel {} matches no kernel of any input", args.compile.kernel.join(", "));
    }
    Ok(Outcome::Fine)
}

/// Whether a form shows who holds which register.
fn needs_values(format: AnnotateFormat) -> bool {
    match format {
        AnnotateFormat::Text | AnnotateFormat::Ptx | AnnotateFormat::Json => false,
    }
}

/// `A..B`, `A..`, `..B` or `A`, both ends included.
fn lines(range: &str) -> Result<(Line, Line)> {
    let number = |text: &str, default: u32| match text {
        "" => Some(default),
        text => text.parse().ok(),
    };
    let (from, to) = range.split_once("..").unwrap_or((range, range));
    match (number(from, 1), number(to, u32::MAX)) {
        (Some(from), Some(to)) if from <= to && !range.is_empty() => Ok((Line(from), Line(to))),
        _ => bail!("--lines {range} is no range of lines: expected A..B, such as 100..140, with A at most B"),
    }
}

/// One input for one architecture: its unit, and what was annotated.
pub fn annotate(
    session: &Session,
    path: &Path,
    arch: Option<Arch>,
    first: bool,
    values: bool,
) -> Option<(Unit, Annotation)> {
    let input = input::read(path).map_err(|error| format!("{error:#}"));
    let text = input.as_ref().ok().filter(|input| matches!(input.kind(), Ok(Kind::Ptx))).map(Input::text);
    let (module, built) = std::thread::scope(|scope| {
        let parser = text.as_ref().map(|text| scope.spawn(|| ptx::parse(text)));
        let built = compile::build(session, &input, path, arch, first);
        (parser.and_then(|parser| parser.join().ok()), built)
    });
    let (mut unit, built) = built?;
    let annotation = built.map(|built| join(session, &mut unit, &built, module.as_ref(), values)).unwrap_or_default();
    if let Some(text) = &text {
        let layout = module.as_ref().map(report::Layout::of).unwrap_or_default();
        unit.ptx = PtxText::new(text.clone().into_owned()).with(layout);
    }
    report::quote(&mut unit);
    Some((unit, annotation))
}

/// Reads the cubin, joins it with what else is known, annotates it.
fn join(
    session: &Session,
    unit: &mut Unit,
    built: &Built<'_>,
    module: Option<&ptx::Module<'_>>,
    values: bool,
) -> Annotation {
    let image = match Image::parse(&built.cubin) {
        Ok(image) => image,
        Err(error) => {
            let message = format!("{}: {error}", unit.input);
            unit.error = Some(UnitError { stage: "cubin".to_owned(), message, diagnostics: Vec::new() });
            return Annotation::default();
        }
    };
    let facts = report::Facts {
        image: &image,
        log: built.log.as_ref(),
        module,
        flags: &session.flags,
        launch: session.launch,
        at: &[],
    };
    report::join(&facts, unit);
    let wanted = |name: &str| session.kernels.matches([name].into_iter().chain(demangle(name).as_deref()));
    let lines = LineTable::parse(&image);
    let annotation = annotation::annotate(&annotation::Inputs {
        image: &image,
        lines: &lines,
        module,
        kernels: &unit.kernels,
        wanted: &wanted,
        smem_dynamic_bytes: session.launch.smem_dynamic_bytes,
        values,
    });
    unit.kernels.retain(|kernel| wanted(kernel.within.as_deref().unwrap_or(&kernel.name)));
    annotation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_lines() {
        assert_eq!(lines("3..7").unwrap(), (Line(3), Line(7)));
        assert_eq!(lines("3..").unwrap(), (Line(3), Line(u32::MAX)));
        assert_eq!(lines("..7").unwrap(), (Line(1), Line(7)));
        assert_eq!(lines("9").unwrap(), (Line(9), Line(9)));
        assert!(lines("7..3").is_err());
        assert!(lines("a..b").is_err());
        assert!(lines("").is_err());
    }
}
