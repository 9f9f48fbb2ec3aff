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
use crate::cubin::{Function, Image, lines::LineTable};
use crate::flow::Rule;
use crate::registers::code::{Code, Counting};
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
    // Threads take time to start: one file does without, unless it has much code.
    let pool = (inputs.len() * arches.len() > 1).then(|| session.pool());
    let mut done = Listed::default();
    // A few at a time: a library's cubins are not all in memory at once.
    for group in inputs.chunks(session.jobs.saturating_mul(4).max(1)) {
        let read: Vec<_> = group.iter().map(|given| (given, given.read())).collect();
        let places: Vec<(usize, usize)> =
            (0..read.len()).flat_map(|file| (0..arches.len()).map(move |arch| (file, arch))).collect();
        let build = |&(file, index): &(usize, usize)| {
            let (given, input) = read.get(file)?;
            let deadline = Deadline::after(session.timeout);
            let made = compile::build(session, input, &given.path, *arches.get(index)?, index == 0);
            progress.advance(1);
            let (unit, built) = made?;
            // Others may be listed before: that takes nothing of its time.
            Some((unit, built, deadline.left()))
        };
        let built: Vec<_> = match &pool {
            Some(pool) => pool.install(|| places.par_iter().filter_map(build).collect()),
            None => places.iter().filter_map(build).collect(),
        };
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

/// Bytes of code from which on functions are analysed on all threads.
const MUCH: usize = 8 << 20;
/// Bytes of code that are analysed at once, or one function if that has more: what is known of them is a few times as large.
const AT_ONCE: usize = 2 << 20;

/// Lists the chosen functions of a cubin, a few in memory at a time.
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
    let is_chosen = |name: &str| {
        session.kernels.is_empty() || session.kernels.matches([name].into_iter().chain(demangle(name).as_deref()))
    };
    let functions: Vec<&Function<'_>> = image.functions.iter().filter(|found| is_chosen(&found.name)).collect();
    let analyse = |function: &Function<'_>| Code::analyse(image.arch, function, &counting);
    let mut list = |function: &Function<'_>, code: Option<Code>| {
        let section = listing::open(image, &lines, function, code, speller.as_ref(), wanted);
        section.parts().iter().try_for_each(&mut *emit)
    };
    if functions.iter().map(|function| function.code.len()).sum::<usize>() < MUCH {
        return functions.into_iter().try_for_each(|function| list(function, analyse(function)));
    }
    let (pool, deadline) = (session.pool(), work::deadline());
    let mut rest = &functions[..];
    while !rest.is_empty() {
        let mut bytes = 0;
        let fitting = rest.iter().take_while(|function| {
            bytes += function.code.len();
            bytes <= AT_ONCE
        });
        let (group, after) = rest.split_at(fitting.count().max(1));
        rest = after;
        let in_time = |function: &&Function<'_>| work::until(deadline.clone(), || analyse(function));
        let codes: Vec<Result<_, TimeOver>> = pool.install(|| group.par_iter().map(in_time).collect());
        for (&function, code) in group.iter().zip(codes) {
            // A time that was over there is over here.
            let code = code.unwrap_or_else(|TimeOver| {
                work::check_time();
                None
            });
            list(function, code)?;
        }
    }
    Ok(())
}
