//! The code of inputs, listed function by function.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;

use rayon::prelude::*;

use super::compile::{self, Session};
use super::given::Given;
use super::input::Input;
use super::progress::Progress;
use crate::base::work::{self, Deadline, TimeOver};
use crate::cubin::{Image, lines::LineTable};
use crate::flow::Rule;
use crate::registers::code::Counting;
use crate::report::listing::{self, Part};
use crate::report::{ErrorStage, PtxText, PtxasFile, PtxasUsed, Unit, UnitError, demangle, quote};
use crate::sass::{Decoder, Speller};
use crate::toolchain::nvdisasm;

/// What is wanted of a listing.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// How live registers are counted.
    pub rule: Rule,
    /// Whether the sets of live registers are wanted.
    pub sets: bool,
    /// Whether texts and live counts are to be nvdisasm's.
    pub nvdisasm: bool,
}

/// How a listing went.
#[derive(Debug, Default)]
pub struct Listed {
    /// How many functions there were.
    pub functions: u64,
    /// Inputs that could not be listed; why is in them.
    pub failed: Vec<Unit>,
    /// What ran that is not managed: a listing has no place for it.
    pub ran: BTreeSet<String>,
}

/// Compiles or reads every input and hands on its functions, one in memory at a time.
pub fn list(
    session: &Session,
    inputs: &[Given],
    wanted: Wanted,
    progress: &dyn Progress,
    emit: &mut dyn FnMut(&Part<'_>) -> io::Result<()>,
) -> io::Result<Listed> {
    let arches = session.arches();
    progress.expect((inputs.len() * arches.len()) as u64);
    let pool = session.pool();
    let mut done = Listed::default();
    // A few at a time: a library's cubins are not all in memory at once.
    for group in inputs.chunks(session.jobs.saturating_mul(4).max(1)) {
        let read: Vec<_> = group.iter().map(|given| (given, given.read())).collect();
        let built: Vec<_> = pool.install(|| {
            let all = read.par_iter().flat_map(|(given, input)| {
                let arches = &arches;
                arches.par_iter().enumerate().filter_map(move |(index, arch)| {
                    let deadline = Deadline::after(session.timeout);
                    let made = compile::build(session, input, &given.path, *arch, index == 0);
                    progress.advance(1);
                    let (unit, built) = made?;
                    // Others may be listed before: that takes nothing of its time.
                    Some((unit, built, deadline.left()))
                })
            });
            all.collect()
        });
        for (mut unit, built, left) in built {
            let deadline = left.map_or(Deadline::NEVER, Deadline::after);
            let Some(built) = built else {
                done.failed.push(quoted(unit, &read));
                continue;
            };
            if let Some(PtxasFile { path, reason, .. }) = unit.ptxas.as_ref().and_then(PtxasUsed::file) {
                done.ran.insert(format!("ptxas: {path} ({reason})"));
            }
            let mut fail = |stage: ErrorStage, message: String| {
                let message = format!("{}: {message}", unit.input);
                unit.error = Some(UnitError { stage, message, diagnostics: Vec::new() });
                done.failed.push(quoted(unit.clone(), &read));
            };
            let image = match work::until(deadline.clone(), || Image::parse(&built.cubin)) {
                Ok(Ok(image)) => image,
                Ok(Err(error)) => {
                    fail(ErrorStage::Cubin, error.to_string());
                    continue;
                }
                Err(TimeOver) => {
                    fail(ErrorStage::Timeout, compile::out_of_time(session.timeout));
                    continue;
                }
            };
            let theirs = match wanted.nvdisasm {
                false => None,
                true => {
                    let listed = nvdisasm::find(&session.env).and_then(|path| {
                        done.ran.insert(format!("nvdisasm: {}", path.display()));
                        nvdisasm::disassemble(&path, &built.cubin, deadline.left(), &session.env)
                    });
                    match listed {
                        Ok(listing) => Some(listing),
                        Err(error) => {
                            fail(ErrorStage::Nvdisasm, format!("{:#}", anyhow::Error::from(error)));
                            continue;
                        }
                    }
                }
            };
            let shown = listing::Wanted { sets: wanted.sets, nvdisasm: theirs.as_ref() };
            let mut emit_listed = |function: &Part<'_>| {
                done.functions += 1;
                emit(function)
            };
            match work::until(deadline, || list_image(session, &image, wanted.rule, shown, &mut emit_listed)) {
                Ok(done) => done?,
                Err(TimeOver) => fail(ErrorStage::Timeout, compile::out_of_time(session.timeout)),
            }
        }
    }
    Ok(done)
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
fn list_image(
    session: &Session,
    image: &Image<'_>,
    rule: Rule,
    wanted: listing::Wanted<'_>,
    emit: &mut dyn FnMut(&Part<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let lines = LineTable::parse(image);
    let counting = Counting::new(rule, image);
    let speller = Decoder::new(image.arch).map(|decoder| RefCell::new(Speller::new(decoder)));
    for function in &image.functions {
        let chosen = |name: &str| {
            session.kernels.is_empty() || session.kernels.matches([name].into_iter().chain(demangle(name).as_deref()))
        };
        if !chosen(&function.name) {
            continue;
        }
        let section = listing::open(image, &lines, function, &counting, speller.as_ref(), wanted);
        section.parts().iter().try_for_each(&mut *emit)?;
    }
    Ok(())
}
