//! Measuring, piece by piece: all of them on one machine, or those of a shard.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rayon::prelude::*;

use super::plan::{self, Plan};
use crate::base::Arch;
use crate::cache::Key;
use crate::engine::compile::Session;
use crate::engine::given::{self, Inside};
use crate::engine::input::{self, Input};
use crate::engine::inspect::{self, Inspected, Job, View};
use crate::engine::progress::Progress;
use crate::gate::{self, Measured, Piece, Wanted};

/// A piece before it is measured.
pub struct Listed {
    /// Which input of the plan.
    pub input: usize,
    /// What a run must have.
    pub wanted: Wanted,
}

impl Listed {
    /// What it is called where times are recorded.
    pub fn key(&self) -> String {
        format!("{}\t{}", self.wanted.input, self.wanted.what)
    }
}

/// Every piece of a run, in order.
pub fn list(plan: &Plan) -> Result<Vec<Listed>> {
    let session = first(plan)?;
    let of_input = |(at, planned): (usize, &plan::Input)| -> Vec<Listed> {
        let listed = |piece: usize, ptxas: usize, what: String, bytes: u64| {
            let (path, input) = (planned.path.display().to_string(), planned.name.clone());
            Listed { input: at, wanted: Wanted { path, input, at: piece as u64, what, bytes, ptxas } }
        };
        if is_library(plan, planned) {
            // What is wrong with it is one piece.
            let entries = entries(session, planned).unwrap_or_default();
            let all = entries.iter().enumerate();
            let all: Vec<Listed> = all.map(|(at, entry)| listed(at, 0, below(planned, entry), entry.size())).collect();
            return if all.is_empty() { vec![listed(0, 0, String::new(), 0)] } else { all };
        }
        let bytes = std::fs::metadata(&planned.path).map_or(0, |metadata| metadata.len());
        let builds = (0..plan.ptxas.len()).flat_map(|ptxas| planned.arches.iter().map(move |arch| (ptxas, *arch)));
        let builds = builds.enumerate();
        builds.map(|(at, (ptxas, arch))| listed(at, ptxas, what(arch, plan.ptxas.get(ptxas)), bytes)).collect()
    };
    let inputs: Vec<(usize, &plan::Input)> = plan.inputs.iter().enumerate().collect();
    Ok(session.pool().install(|| inputs.into_par_iter().flat_map_iter(of_input).collect()))
}

/// Where in a library an entry is.
fn below(planned: &plan::Input, entry: &given::Given) -> String {
    entry.path.strip_prefix(&planned.path).unwrap_or(&entry.path).display().to_string()
}

/// What a build is, as it was asked for.
fn what(arch: Option<Arch>, ptxas: Option<&Option<String>>) -> String {
    let arch = arch.map(|arch| arch.to_string()).unwrap_or_default();
    format!("{arch}\t{}", ptxas.and_then(Option::as_deref).unwrap_or_default())
}

fn first(plan: &Plan) -> Result<&Session> {
    plan.sessions.first().context("there is no ptxas to measure with")
}

/// Whether an input is a library, whose entries are pieces.
pub fn is_library(plan: &Plan, planned: &plan::Input) -> bool {
    let limits = plan.sessions.first().map(|session| &session.limits);
    limits.is_some_and(|limits| input::is_container(&planned.path, limits).unwrap_or(false))
}

/// Measures what is `mine` of each input (its number, the piece's number), and hands the pieces of each input on.
pub fn measure<T: Send>(
    plan: &Plan,
    mine: &(dyn Fn(usize, usize) -> bool + Sync),
    progress: &dyn Progress,
    then: &(dyn Fn(&plan::Input, Vec<Piece>) -> Vec<T> + Sync),
) -> Result<Vec<T>> {
    let first = first(plan)?;
    let all_of = |(number, planned): (usize, &plan::Input)| {
        let mine = |at: usize| mine(number, at);
        let pieces = if is_library(plan, planned) {
            measure_library(first, planned, &mine, progress)
        } else {
            measure_file(plan, planned, &mine, progress)
        };
        then(planned, pieces)
    };
    let inputs: Vec<(usize, &plan::Input)> = plan.inputs.iter().enumerate().collect();
    let measured = first.pool().install(|| inputs.into_par_iter().flat_map(all_of).collect());
    if let Some(cache) = &plan.cache {
        cache.tidy();
    }
    Ok(measured)
}

/// How long a piece took.
pub struct Took {
    /// The input's path.
    pub path: String,
    /// Which build of it, or which entry.
    pub at: u64,
    /// So long.
    pub microseconds: u64,
}

/// What the pieces of an input are together, and how long each took.
pub fn together(planned: &plan::Input, pieces: Vec<Piece>) -> (Vec<Measured>, Vec<Took>) {
    let is_library = pieces.iter().any(|piece| piece.is_library);
    let took = |piece: &Piece| Took { path: piece.path.clone(), at: piece.at, microseconds: piece.microseconds };
    let took = pieces.iter().map(took).collect();
    let measured: Vec<Measured> = pieces.into_iter().flat_map(|piece| piece.measured).collect();
    let path = || planned.path.display().to_string();
    (if is_library { gate::merge(measured, &planned.name, &path()) } else { measured }, took)
}

/// Measures a file for its architectures with every ptxas.
fn measure_file(
    plan: &Plan,
    planned: &plan::Input,
    mine: &(dyn Fn(usize) -> bool + Sync),
    progress: &dyn Progress,
) -> Vec<Piece> {
    let Some(limits) = plan.sessions.first().map(|session| &session.limits) else { return Vec::new() };
    let builds: Vec<_> = plan
        .sessions
        .iter()
        .zip(&plan.ptxas)
        .flat_map(|(session, ptxas)| planned.arches.iter().map(move |arch| (session, ptxas, *arch)))
        .enumerate()
        .filter(|(at, _)| mine(*at))
        .collect();
    if builds.is_empty() {
        return Vec::new();
    }
    let input = input::read(&planned.path, limits).map_err(|error| format!("{error:#}"));
    let source = input.as_ref().ok().map(digest);
    let bytes = std::fs::metadata(&planned.path).map_or(0, |metadata| metadata.len());
    let text = inspect::text_of(&input);
    let shared = inspect::Shared::new(text.as_deref(), builds.len());
    let pieces = builds.par_iter().map(|(at, (session, ptxas, arch))| {
        let start = Instant::now();
        let job = Job { input: &input, path: &planned.path, arch: *arch, first: *at == 0, view: View::Report };
        let inspected = inspect::inspect_shared(session, &job, &shared);
        progress.advance(1);
        let measured = inspected.iter().map(|found| measured(found, session, planned, source.clone())).collect();
        let what = what(*arch, Some(ptxas));
        let piece = piece(planned, *at, start, inspected.as_ref());
        Piece { what, bytes, source: source.clone(), measured, ..piece }
    });
    pieces.collect()
}

fn measured(found: &Inspected<'_>, session: &Session, planned: &plan::Input, source: Option<String>) -> Measured {
    Measured::new(&found.unit, planned.name.clone(), &session.flags, source)
}

fn piece(planned: &plan::Input, at: usize, start: Instant, found: Option<&Inspected<'_>>) -> Piece {
    let spared = found.and_then(|found| found.built.as_ref()?.spared).unwrap_or(Duration::ZERO);
    let took = start.elapsed().saturating_add(spared);
    Piece {
        path: planned.path.display().to_string(),
        at: at as u64,
        ptxas: found.and_then(|found| found.unit.ptxas.as_ref()?.version.clone()),
        microseconds: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        ..Piece::default()
    }
}

/// Measures the cubins of a library, and its PTX where that is asked for.
fn measure_library(
    session: &Session,
    planned: &plan::Input,
    mine: &(dyn Fn(usize) -> bool + Sync),
    progress: &dyn Progress,
) -> Vec<Piece> {
    let path = planned.path.display().to_string();
    let all = match entries(session, planned) {
        Err(error) if mine(0) => {
            let error = Some(format!("{path}: {error:#}"));
            let measured = vec![Measured { error, path: path.clone(), ..Measured::default() }];
            return vec![Piece { path, is_library: true, measured, ..Piece::default() }];
        }
        Err(_) => return Vec::new(),
        Ok(all) => all,
    };
    let of_entry = |(at, given): (usize, &given::Given)| {
        let start = Instant::now();
        let input = given.read();
        let mut entry = Piece::default();
        for (number, arch) in planned.arches.iter().enumerate() {
            let job = Job { input: &input, path: &given.path, arch: *arch, first: number == 0, view: View::Report };
            let Some(found) = inspect::inspect(session, &job) else { continue };
            entry.ptxas = found.unit.ptxas.as_ref().and_then(|ptxas| ptxas.version.clone()).or(entry.ptxas);
            entry.measured.push(measured(&found, session, planned, None));
        }
        let Piece { path, at, microseconds, .. } = piece(planned, at, start, None);
        let (what, bytes) = (below(planned, given), given.size());
        Piece { path, at, what, bytes, microseconds, is_library: true, ..entry }
    };
    let chosen: Vec<(usize, &given::Given)> = all.iter().enumerate().filter(|(at, _)| mine(*at)).collect();
    if chosen.is_empty() {
        return Vec::new();
    }
    let pieces = chosen.into_par_iter().map(of_entry).collect();
    planned.arches.iter().for_each(|_| progress.advance(1));
    pieces
}

/// What is inside a library.
fn entries(session: &Session, planned: &plan::Input) -> Result<Vec<given::Given>> {
    let arches: Vec<String> = planned.arches.iter().flatten().map(ToString::to_string).collect();
    let inside = Inside {
        arch: &arches,
        kernel: &[],
        within: &session.within,
        jobs: Some(session.jobs),
        limits: session.limits,
    };
    given::inside(&planned.path, &inside)
}

/// What a file is, as pieces of it say; nothing where it cannot be read.
pub fn source(path: &Path, session: &Session) -> Option<String> {
    input::read(path, &session.limits).ok().as_ref().map(digest)
}

/// What the input was, so that its build can be found again in the cache.
fn digest(input: &Input) -> String {
    format!("sha256:{}", Key::digest(&input.bytes))
}
