//! `ptxinspect FILE…`: the report.

use std::path::Path;

use anyhow::{Context, Result};
use rayon::prelude::*;

use super::Outcome;
use super::args::{ReportArgs, ReportFormat};
use super::compile::{self, Session};
use super::input::{self, Kind};
use super::output;
use super::progress::Progress;
use crate::base::Arch;
use crate::cubin::Image;
use crate::emit;
use crate::report::{self, Advisory, PtxText, Report, Severity, Unit, UnitError};

/// Compiles or reads every input for every architecture, joins, writes.
pub fn run(args: &ReportArgs) -> Result<Outcome> {
    let session = Session::new(&args.compile)?;
    let deny = Deny::new(&args.deny, &args.allow);
    let per_input: Vec<Option<Arch>> =
        if session.arches.is_empty() { vec![None] } else { session.arches.iter().copied().map(Some).collect() };
    let pairs: Vec<(&Path, Option<Arch>)> = session
        .inputs
        .iter()
        .flat_map(|path| per_input.iter().map(move |arch| (path.as_path(), *arch)))
        .collect();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(session.jobs).build().context("cannot start threads")?;
    let progress = Progress::new(pairs.len() as u64, "compiling", args.output.quiet);
    let units: Vec<Unit> = pool.install(|| {
        session
            .inputs
            .par_iter()
            .flat_map(|path| {
                // One read serves all architectures of a file.
                let read = input::read(path).map_err(|error| format!("{error:#}"));
                per_input
                    .par_iter()
                    .filter_map(|arch| {
                        let unit = inspect(&session, path, &read, *arch, per_input.first() == Some(arch));
                        progress.step();
                        unit
                    })
                    .collect::<Vec<_>>()
            })
            .collect()
    });
    drop(progress);
    let report = Report::new(units);
    match args.format {
        ReportFormat::Json => output::write(&args.output, |out| emit::json::write(&report, out))?,
        ReportFormat::Text => {
            let options = emit::text::Options {
                verbose: args.output.verbose,
                top: args.top,
                width: output::width(&args.output),
            };
            output::write(&args.output, |out| emit::text::write(&report, &options, out))?;
        }
    }
    let mut errors = anstream::stderr().lock();
    for unit in &report.units {
        emit::text::write_unit_error(unit, &mut errors)?;
    }
    let no_match = !session.kernels.is_empty() && report.units.iter().all(|unit| unit.kernels.is_empty());
    if report.units.iter().any(|unit| unit.error.is_some()) {
        return Ok(Outcome::Failed);
    }
    if no_match {
        anyhow::bail!("--kernel {} matches no kernel of any input", args.compile.kernel.join(", "));
    }
    let denied: Vec<&Advisory> =
        report.units.iter().flat_map(|unit| &unit.advisories).filter(|advisory| deny.denies(advisory)).collect();
    Ok(if denied.is_empty() { Outcome::Fine } else { Outcome::Findings })
}

/// One input for one architecture. A cubin has its own, so it is one unit however many were asked for: `first` says
/// whether this call is the one to answer for it.
fn inspect(
    session: &Session,
    path: &Path,
    read: &Result<input::Input, String>,
    arch: Option<Arch>,
    first: bool,
) -> Option<Unit> {
    let mut unit = Unit { input: path.display().to_string(), ..Unit::default() };
    let stage_error = |stage: &str, message: String| {
        Some(UnitError { stage: stage.to_owned(), message, diagnostics: Vec::new() })
    };
    let input = match read {
        Ok(input) => input,
        Err(message) => {
            unit.error = stage_error("input", message.clone());
            return first.then_some(unit);
        }
    };
    unit.input.clone_from(&input.name);
    match input::classify(&input.bytes) {
        Err(error) => {
            unit.error = stage_error("input", format!("{}: {error:#}", input.name));
            first.then_some(unit)
        }
        Ok(Kind::Cubin) => {
            if !first {
                return None;
            }
            join(session, &mut unit, &input.bytes, None, None);
            Some(unit)
        }
        Ok(Kind::Ptx) => {
            let text = String::from_utf8_lossy(&input.bytes);
            // Parsing costs nothing: it is done while ptxas runs.
            let (module, built) = std::thread::scope(|scope| {
                let parser = scope.spawn(|| crate::ptx::parse(&text));
                let built = compile::compile(session, &input.bytes, arch, &mut unit);
                (parser.join(), built)
            });
            let module = module.ok();
            if let Some(built) = built {
                join(session, &mut unit, &built.cubin, built.log.as_ref(), module.as_ref());
            }
            unit.ptx = PtxText::new(text.into_owned());
            report::quote(&mut unit);
            Some(unit)
        }
    }
}

/// Reads the cubin and joins it with what else is known.
fn join(
    session: &Session,
    unit: &mut Unit,
    cubin: &[u8],
    log: Option<&crate::toolchain::log::Log>,
    module: Option<&crate::ptx::Module<'_>>,
) {
    match Image::parse(cubin) {
        Ok(image) => {
            let facts = report::Facts { image: &image, log, module, flags: &session.flags };
            report::join(&facts, unit);
            unit.kernels.retain(|kernel| {
                session.kernels.matches([kernel.name.as_str()].into_iter().chain(kernel.demangled.as_deref()))
            });
        }
        Err(error) => {
            let message = format!("{}: {error}", unit.input);
            unit.error = Some(UnitError { stage: "cubin".to_owned(), message, diagnostics: Vec::new() });
        }
    }
}

/// What `--deny` and `--allow` say.
struct Deny {
    codes: Vec<String>,
    warnings: bool,
    advisories: bool,
    allowed: Vec<String>,
}

impl Deny {
    fn new(deny: &[String], allow: &[String]) -> Self {
        let upper = |codes: &[String]| codes.iter().map(|code| code.trim().to_ascii_uppercase()).collect::<Vec<_>>();
        let codes = upper(deny);
        let has = |word: &str| codes.iter().any(|code| code == word);
        Deny { warnings: has("WARNINGS"), advisories: has("ADVISORIES"), codes, allowed: upper(allow) }
    }

    fn denies(&self, advisory: &Advisory) -> bool {
        let code = advisory.code.as_deref();
        if code.is_some_and(|code| self.allowed.iter().any(|allowed| allowed == code)) {
            return false;
        }
        code.is_some_and(|code| self.codes.iter().any(|denied| denied == code))
            || self.warnings && advisory.severity >= Severity::Warning
            || self.advisories && (code.is_some() || advisory.severity >= Severity::Warning)
    }
}
