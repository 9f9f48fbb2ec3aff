//! One gate on many machines: the part of one, and all parts put together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rayon::prelude::*;

use super::pieces::{self, Listed, Took};
use super::{Plan, Request};
use crate::cache::Key;
use crate::container::stream;
use crate::engine::progress::Progress;
use crate::gate::{self, Load, PART_SCHEMA, Part, Piece, Shard, ShardOf, Stamp, Times, Wanted};

/// Measures what one shard is to measure.
pub fn measure_shard(request: &Request, shard: Shard, times: Option<&Path>, progress: &dyn Progress) -> Result<Part> {
    let plan = Plan::new(request)?;
    no_stream(&plan)?;
    let listed = pieces::list(&plan)?;
    let times = times.map(|path| read_times(path, request)).transpose()?.flatten().unwrap_or_default();
    let keys: Vec<String> = listed.iter().map(Listed::key).collect();
    let costs = times.costs(keys.iter().zip(&listed).map(|(key, piece)| (key.as_str(), piece.wanted.bytes)));
    let loads: Vec<Load> = keys.into_iter().zip(costs).map(|(key, cost)| Load { key, cost }).collect();
    let placed = gate::place(&loads, shard.of);
    let mut mine: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (piece, _) in listed.iter().zip(&placed).filter(|(_, placed)| **placed == shard.number) {
        mine.entry(piece.input).or_default().push(piece.wanted.at as usize);
    }
    // As `pieces::measure` counts: a library as a whole, whatever is measured of it.
    let counted = |(input, pieces): (&usize, &Vec<usize>)| match plan.inputs.get(*input) {
        Some(planned) if pieces::is_library(&plan, planned) => planned.arches.len(),
        _ => pieces.len(),
    };
    progress.expect(mine.iter().map(counted).sum::<usize>() as u64);
    let is_mine = |input: usize, at: usize| mine.get(&input).is_some_and(|pieces| pieces.binary_search(&at).is_ok());
    let pieces = pieces::measure(&plan, &is_mine, progress, &|_, pieces| pieces)?;
    let placement = digest(loads.iter().zip(&placed).map(|(load, shard)| format!("{shard}\t{}", load.key)));
    let shard = Some(ShardOf { number: shard.number, of: shard.of, placement });
    Ok(Part { schema: PART_SCHEMA.to_owned(), stamp: stamp(request, &plan), shard, pieces })
}

/// Measures what is named, as a part of a gate over more.
pub fn measure_named(request: &Request, progress: &dyn Progress) -> Result<Part> {
    let plan = Plan::new(request)?;
    no_stream(&plan)?;
    progress.expect(plan.builds());
    let pieces = pieces::measure(&plan, &|_, _| true, progress, &|_, pieces| pieces)?;
    Ok(Part { schema: PART_SCHEMA.to_owned(), stamp: stamp(request, &plan), shard: None, pieces })
}

fn no_stream(plan: &Plan) -> Result<()> {
    if plan.inputs.iter().any(|input| input.path.as_os_str() == "-") {
        bail!("standard input cannot be measured in parts: name files");
    }
    Ok(())
}

/// Reads parts, and checks that together they are what one machine would have measured here.
pub fn read_parts(request: &Request, plan: &Plan, files: &[PathBuf]) -> Result<Vec<Piece>> {
    no_stream(plan)?;
    let listed = pieces::list(plan)?;
    let parts = files.iter().map(|path| {
        let name = path.display().to_string();
        let bytes = read(path, request)?;
        let part = Part::parse(&name, &bytes)?;
        anyhow::Ok((name, part))
    });
    let parts = parts.collect::<Result<Vec<_>>>()?;
    let wanted: Vec<Wanted> = listed.iter().map(|piece| piece.wanted.clone()).collect();
    let pieces = gate::join(parts, &stamp(request, plan), &wanted)?;
    check_sources(plan, &pieces)?;
    Ok(pieces)
}

/// Whether what the shards measured is what lies here.
fn check_sources(plan: &Plan, pieces: &[Piece]) -> Result<()> {
    let Some(session) = plan.sessions.first() else { return Ok(()) };
    let mut measured: BTreeMap<&str, Vec<&Option<String>>> = BTreeMap::new();
    for piece in pieces.iter().filter(|piece| !piece.is_library) {
        measured.entry(&piece.path).or_default().push(&piece.source);
    }
    let other = |(path, sources): &(&str, Vec<&Option<String>>)| {
        let here = pieces::source(Path::new(path), session);
        sources.iter().any(|source| **source != here)
    };
    let measured: Vec<(&str, Vec<&Option<String>>)> = measured.into_iter().collect();
    match session.pool().install(|| measured.into_par_iter().find_first(other)) {
        None => Ok(()),
        Some((path, _)) => bail!(
            "{path} is not what was measured: run all parts and --merge on the same commit, where the same files are built"
        ),
    }
}

/// How long each piece took, by key.
pub fn times(plan: &Plan, took: &[Took]) -> Result<Times> {
    let took: BTreeMap<(&str, u64), u64> =
        took.iter().map(|took| ((took.path.as_str(), took.at), took.microseconds)).collect();
    let listed = pieces::list(plan)?;
    let timed = |piece: &Listed| {
        let microseconds = took.get(&(piece.wanted.path.as_str(), piece.wanted.at))?;
        Some((piece.key(), *microseconds))
    };
    Ok(Times::new(listed.iter().filter_map(timed).collect()))
}

/// Recorded times; none where there is no such file yet.
fn read_times(path: &Path, request: &Request) -> Result<Option<Times>> {
    if matches!(path.try_exists(), Ok(false)) {
        return Ok(None);
    }
    let bytes = read(path, request)?;
    let cannot = || format!("{} cannot be used as recorded times; --record-times writes such a file", path.display());
    Times::parse(&bytes).map_err(anyhow::Error::msg).with_context(cannot).map(Some)
}

fn read(path: &Path, request: &Request) -> Result<Vec<u8>> {
    let cannot = || format!("cannot read {}", path.display());
    let file = std::fs::File::open(path).with_context(cannot)?;
    stream::read_most(file, request.limits.whole()).with_context(cannot)
}

fn stamp(request: &Request, plan: &Plan) -> Stamp {
    let Request { threads, smem_dynamic, thorough, limits, within, .. } = request;
    let flags = plan.sessions.first().map(|session| &session.flags);
    let arguments = format!("{:?} {flags:?} {threads:?} {smem_dynamic:?} {thorough} {limits:?} {within:?}", plan.ptxas);
    Stamp {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        policy: digest(std::iter::once(format!("{:?}", plan.policy))),
        arguments: digest(std::iter::once(arguments)),
    }
}

/// A digest of lines, none of which can be taken for two.
fn digest(lines: impl Iterator<Item = String>) -> String {
    let mut all = String::new();
    for line in lines {
        all.push_str(&format!("{}:{line}\n", line.len()));
    }
    format!("sha256:{}", Key::digest(all.as_bytes()))
}
