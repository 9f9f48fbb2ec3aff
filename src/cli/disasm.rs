//! `ptxinspect disasm FILE…`: instructions in their order.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Result, bail};
use rayon::prelude::*;

use super::Outcome;
use super::args::{DisasmArgs, Disassembler, TextOrJson};
use super::output;
use crate::base::work::{self, Deadline, TimeOver};
use crate::cubin::{Image, lines::LineTable};
use crate::emit;
use crate::emit::escape::terminal;
use crate::emit::listing::{JsonWriter, Options};
use crate::engine::compile::{self, Session};
use crate::engine::given::{self, Given};
use crate::engine::input::Input;
use crate::flow::Rule;
use crate::registers::code::Counting;
use crate::report::listing::{self, ListedFunction, Wanted};
use crate::report::{PtxText, PtxasFile, PtxasUsed, Unit, UnitError, demangle, quote};
use crate::toolchain::nvdisasm;

/// Compiles or reads every input, lists every function.
pub fn run(args: &DisasmArgs) -> Result<Outcome> {
    let session = args.compile.session()?;
    let arches = session.arches();
    let inputs = given::expand(&session.inputs, &args.compile.settings()?)?;
    let pool = session.pool();
    let mut failed: Vec<Unit> = Vec::new();
    let mut listed = 0_u64;
    // What ran that is not managed: a listing has no place for it.
    let mut ran: BTreeSet<String> = BTreeSet::new();
    output::write(&args.output, args.format, |out| {
        let mut json = None;
        let mut text_out = None;
        match args.format {
            TextOrJson::Json => json = Some(JsonWriter::start(out)?),
            TextOrJson::Text => text_out = Some(out),
        }
        // With live counts nvdisasm leaves out the padding behind a function.
        let no_text = match args.disassembler {
            Disassembler::Native => "",
            Disassembler::Nvdisasm => "  not listed by nvdisasm",
        };
        let options = Options { hex: args.hex, control: args.control, sets: args.sets, no_text };
        // Sets beside nvdisasm's counts are those that it counts.
        let rule = match args.disassembler {
            Disassembler::Native => args.liveness.into(),
            Disassembler::Nvdisasm => Rule::Nvdisasm,
        };
        // A few at a time: a library's cubins are not all in memory at once.
        for group in inputs.chunks(session.jobs.saturating_mul(4).max(1)) {
            let read: Vec<_> = group.iter().map(|given| (given, given.read())).collect();
            let built: Vec<_> = pool.install(|| {
                let all = read.par_iter().flat_map(|(given, input)| {
                    let (session, arches) = (&session, &arches);
                    arches.par_iter().enumerate().filter_map(move |(index, arch)| {
                        let deadline = Deadline::after(session.timeout);
                        let (unit, built) = compile::build(session, input, &given.path, *arch, index == 0)?;
                        // Others may be listed before: that takes nothing of its time.
                        Some((unit, built, deadline.left()))
                    })
                });
                all.collect()
            });
            for (mut unit, built, left) in built {
                let deadline = left.map_or(Deadline::NEVER, Deadline::after);
                let Some(built) = built else {
                    failed.push(quoted(unit, &read));
                    continue;
                };
                if let Some(PtxasFile { path, reason, .. }) = unit.ptxas.as_ref().and_then(PtxasUsed::file) {
                    ran.insert(format!("ptxas: {path} ({reason})"));
                }
                let mut fail = |stage: &str, message: String| {
                    let message = format!("{}: {message}", unit.input);
                    unit.error = Some(UnitError { stage: stage.to_owned(), message, diagnostics: Vec::new() });
                    failed.push(quoted(unit.clone(), &read));
                };
                let image = match work::until(deadline.clone(), || Image::parse(&built.cubin)) {
                    Ok(Ok(image)) => image,
                    Ok(Err(error)) => {
                        fail("cubin", error.to_string());
                        continue;
                    }
                    Err(TimeOver) => {
                        fail("timeout", compile::out_of_time(session.timeout));
                        continue;
                    }
                };
                let theirs = match args.disassembler {
                    Disassembler::Native => None,
                    Disassembler::Nvdisasm => {
                        let listed = nvdisasm::find(&session.env).and_then(|path| {
                            ran.insert(format!("nvdisasm: {}", path.display()));
                            nvdisasm::disassemble(&path, &built.cubin, deadline.left(), &session.env)
                        });
                        match listed {
                            Ok(listing) => Some(listing),
                            Err(error) => {
                                fail("nvdisasm", format!("{:#}", anyhow::Error::from(error)));
                                continue;
                            }
                        }
                    }
                };
                let wanted = Wanted { sets: args.sets, nvdisasm: theirs.as_ref() };
                let mut emit = |function: &ListedFunction| match (&mut json, &mut text_out) {
                    (Some(json), _) => json.function(function),
                    (None, Some(out)) => emit::listing::write_text(function, &options, *out),
                    (None, None) => Ok(()),
                };
                let mut emit_listed = |function: &ListedFunction| {
                    listed += 1;
                    emit(function)
                };
                match work::until(deadline, || list(&session, &image, rule, wanted, &mut emit_listed)) {
                    Ok(done) => done?,
                    Err(TimeOver) => fail("timeout", compile::out_of_time(session.timeout)),
                }
            }
        }
        json.map_or(Ok(()), JsonWriter::finish)
    })?;
    let mut errors = output::errors();
    for program in ran.iter().filter(|_| !args.output.quiet) {
        writeln!(errors, "{program}")?;
    }
    for unit in &failed {
        emit::text::write_unit_error(unit, &mut errors)?;
    }
    if !failed.is_empty() {
        return Ok(Outcome::Failed);
    }
    if listed == 0 && !session.kernels.is_empty() {
        bail!("--kernel {} matches no function of any input", args.compile.kernel.join(", "));
    }
    if listed == 0 && !args.output.quiet {
        let inputs: Vec<String> = session.inputs.iter().map(|path| path.display().to_string()).collect();
        writeln!(errors, "no functions: {}", terminal(&inputs.join(", ")))?;
    }
    Ok(Outcome::Fine)
}

/// A unit that has no code, with the lines that its errors speak of.
fn quoted(mut unit: Unit, read: &[(&Given, Result<Input, String>)]) -> Unit {
    if let Some((_, Ok(input))) = read.iter().find(|(given, _)| given.path.display().to_string() == unit.input) {
        unit.ptx = PtxText::parse(input.text().into_owned());
    }
    quote(&mut unit);
    unit
}

/// Lists the chosen functions of a cubin, one in memory at a time.
fn list(
    session: &Session,
    image: &Image<'_>,
    rule: Rule,
    wanted: Wanted<'_>,
    emit: &mut dyn FnMut(&ListedFunction) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let lines = LineTable::parse(image);
    let counting = Counting::new(rule, image);
    for function in &image.functions {
        let chosen = |name: &str| {
            session.kernels.is_empty() || session.kernels.matches([name].into_iter().chain(demangle(name).as_deref()))
        };
        if !chosen(&function.name) {
            continue;
        }
        for listed in listing::list(image, &lines, function, &counting, wanted) {
            emit(&listed)?;
        }
    }
    Ok(())
}
