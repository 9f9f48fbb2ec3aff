//! What one shard of a gate measured, as a file, and how such files become one run again.
//!
//! A part says what it was made from; parts that do not belong together, or are not all there, are an error and never a verdict.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::figures::Measured;
use super::shard::Shard;

/// The name and version of the file's shape.
pub const PART_SCHEMA: &str = "ptxinspect.part/1";

/// What all parts of a run have in common. Whatever is long is a digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stamp {
    /// The version of the ptxinspect.
    pub version: String,
    /// The policy, with what `--deny` adds.
    pub policy: String,
    /// The arguments that decide how is measured.
    pub arguments: String,
}

/// Where a part stands among the shards of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardOf {
    /// Which, from 1.
    pub number: u32,
    /// Of how many.
    pub of: u32,
    /// A digest of which shard measures what.
    pub placement: String,
}

impl ShardOf {
    fn shard(&self) -> Shard {
        Shard { number: self.number, of: self.of }
    }
}

/// What one machine, or one action of a build, measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// [`PART_SCHEMA`].
    pub schema: String,
    /// What it was made from.
    pub stamp: Stamp,
    /// Which shard it is; null where the inputs were named.
    pub shard: Option<ShardOf>,
    /// What it measured.
    pub pieces: Vec<Piece>,
}

/// The smallest thing that is measured by one shard: an input for one architecture and one ptxas, or an entry of a library.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piece {
    /// The input's path, as seen from where it ran.
    pub path: String,
    /// Which build of the input, or which entry of the library, from 0.
    pub at: u64,
    /// What that is: architecture and ptxas as they were asked for, or the entry.
    pub what: String,
    /// The size of the input, or of the entry.
    pub bytes: u64,
    /// Whether the input is a library, whose entries are put together.
    pub is_library: bool,
    /// The version of the ptxas that compiled it; null where none had to.
    pub ptxas: Option<String>,
    /// `sha256:…` of the input; null for a library, or where it cannot be read.
    pub source: Option<String>,
    /// How long it took, or would have taken without the cache.
    pub microseconds: u64,
    /// What was found; nothing where another build of the same input answers for it.
    pub measured: Vec<Measured>,
}

/// A piece that a run must have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// The input's path.
    pub path: String,
    /// The input, as the baseline names it.
    pub input: String,
    /// Which build, or which entry.
    pub at: u64,
    /// What that is.
    pub what: String,
    /// Its size.
    pub bytes: u64,
    /// Which of the ptxas that were asked for.
    pub ptxas: usize,
}

/// Why parts are no run.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// Not JSON, or not of this shape.
    #[error("{file} is not a part of a gate: {why}; `ptxinspect gate --shard I/N --output FILE` writes one")]
    Shape {
        /// The file.
        file: String,
        /// What is wrong.
        why: String,
    },
    /// Another version's.
    #[error(
        "{file} was made by ptxinspect {found}, this is {expected}: use one version for all shards and for --merge"
    )]
    Version {
        /// The file.
        file: String,
        /// What it says.
        found: String,
        /// What this is.
        expected: String,
    },
    /// It was made from something else.
    #[error("{file} was made with {what} than this: {todo}")]
    Foreign {
        /// The file.
        file: String,
        /// What differs.
        what: &'static str,
        /// What to do.
        todo: &'static str,
    },
    /// Parts that disagree.
    #[error("{file} is {found}, {other} is {expected}: merge the parts of one run")]
    Mixed {
        /// The file.
        file: String,
        /// What it is.
        found: String,
        /// One of the others.
        other: String,
        /// What that is.
        expected: String,
    },
    /// Shards that are not there.
    #[error("{missing} missing: `ptxinspect gate --shard {first} --output FILE` with the same arguments measures it")]
    Missing {
        /// In words.
        missing: String,
        /// The first of them.
        first: Shard,
    },
    /// A shard that is there twice.
    #[error("shard {shard} is there twice, in {file} and {other}: leave one of them out")]
    Twice {
        /// Which.
        shard: Shard,
        /// The file.
        file: String,
        /// The other file.
        other: String,
    },
    /// A piece that is not where it belongs.
    #[error("{piece} {how}: run all parts and --merge on the same commit, where the same files are built")]
    Piece {
        /// Which.
        piece: String,
        /// What is wrong with it.
        how: &'static str,
    },
    /// Shards that ran different compilers.
    #[error(
        "{file} compiled for {arch} with ptxas {found}, {other} with {expected}: --ptxas VERSION makes all shards use one"
    )]
    Ptxas {
        /// The file.
        file: String,
        /// The architecture.
        arch: String,
        /// Its ptxas.
        found: String,
        /// The other file.
        other: String,
        /// That one's ptxas.
        expected: String,
    },
}

/// How many numbers of missing shards are told.
const TOLD: usize = 20;

impl Part {
    /// Reads a file's text. Strict: what it does not know it does not guess.
    pub fn parse(file: &str, text: &[u8]) -> Result<Part, PartError> {
        let shape = |why: String| PartError::Shape { file: file.to_owned(), why };
        #[derive(Deserialize)]
        struct Head {
            schema: Option<String>,
        }
        let head: Head = serde_json::from_slice(text).map_err(|error| shape(error.to_string()))?;
        match head.schema.as_deref() {
            Some(PART_SCHEMA) => {}
            Some(found) => return Err(shape(format!("its schema is '{found}': expected '{PART_SCHEMA}'"))),
            None => return Err(shape("it has no \"schema\"".to_owned())),
        }
        let part: Part = serde_json::from_slice(text).map_err(|error| shape(error.to_string()))?;
        if let Some(shard) = &part.shard {
            shard.shard().to_string().parse::<Shard>().map_err(shape)?;
        }
        let lame = |measured: &&Measured| measured.places.len() != measured.unit.kernels.len();
        if let Some(measured) = part.pieces.iter().flat_map(|piece| &piece.measured).find(lame) {
            return Err(shape(format!("{} has kernels without their places", measured.unit.input)));
        }
        Ok(part)
    }
}

impl Wanted {
    /// In words.
    fn title(&self) -> String {
        title(&self.path, &self.what)
    }
}

fn title(path: &str, what: &str) -> String {
    let what: Vec<&str> = what.split('\t').filter(|word| !word.is_empty()).collect();
    if what.is_empty() { path.to_owned() } else { format!("{path} ({})", what.join(", ptxas ")) }
}

/// The pieces of all parts, in the order in which they are wanted.
pub fn join(parts: Vec<(String, Part)>, stamp: &Stamp, wanted: &[Wanted]) -> Result<Vec<Piece>, PartError> {
    for (file, part) in &parts {
        belongs(file, &part.stamp, stamp)?;
    }
    complete(&parts)?;
    same_ptxas(&parts, wanted)?;
    let mut pieces: BTreeMap<(String, u64), Piece> = BTreeMap::new();
    for piece in parts.into_iter().flat_map(|(_, part)| part.pieces) {
        let key = (piece.path.clone(), piece.at);
        if let Some(piece) = pieces.insert(key, piece) {
            let piece = title(&piece.path, &piece.what);
            return Err(PartError::Piece { piece, how: "was measured twice" });
        }
    }
    let mut all = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let wrong = |how| PartError::Piece { piece: wanted.title(), how };
        let mut piece = pieces.remove(&(wanted.path.clone(), wanted.at)).ok_or_else(|| wrong("is in no part"))?;
        if (&piece.what, piece.bytes) != (&wanted.what, wanted.bytes) {
            return Err(wrong("is not what was measured"));
        }
        // Where an input lies outside the baseline's folder, its name depends on what else is measured.
        piece.measured.iter_mut().for_each(|measured| measured.unit.input.clone_from(&wanted.input));
        all.push(piece);
    }
    match pieces.into_values().next() {
        Some(piece) => {
            let piece = title(&piece.path, &piece.what);
            Err(PartError::Piece { piece, how: "was measured, and is not to be" })
        }
        None => Ok(all),
    }
}

fn belongs(file: &str, found: &Stamp, expected: &Stamp) -> Result<(), PartError> {
    if found.version != expected.version {
        let (found, expected) = (found.version.clone(), expected.version.clone());
        return Err(PartError::Version { file: file.to_owned(), found, expected });
    }
    let foreign = |what, todo| Err(PartError::Foreign { file: file.to_owned(), what, todo });
    if found.policy != expected.policy {
        return foreign(
            "another policy",
            "run all parts and --merge on the same commit, with the same --policy and --deny",
        );
    }
    if found.arguments != expected.arguments {
        return foreign(
            "other arguments",
            "give --arch, --ptxas, --threads, --smem-dynamic, --thorough, limits and ptxas flags alike to all parts and to --merge",
        );
    }
    Ok(())
}

/// Every shard once, all of one placement.
fn complete(parts: &[(String, Part)]) -> Result<(), PartError> {
    let shards: Vec<(&String, &ShardOf)> =
        parts.iter().filter_map(|(file, part)| Some((file, part.shard.as_ref()?))).collect();
    let Some((first_file, first)) = shards.first() else { return Ok(()) };
    let mut seen: BTreeMap<u32, &str> = BTreeMap::new();
    for (file, part) in &shards {
        let mixed = |found: String, expected: String| {
            let (file, other) = (file.to_string(), first_file.to_string());
            Err(PartError::Mixed { file, found, other, expected })
        };
        if part.of != first.of {
            return mixed(format!("shard {}", part.shard()), format!("shard {}", first.shard()));
        }
        if let Some(other) = seen.insert(part.number, file) {
            let (file, other) = (file.to_string(), other.to_owned());
            return Err(PartError::Twice { shard: part.shard(), file, other });
        }
        if part.placement != first.placement {
            let by = |of: &ShardOf| format!("placed as {}", of.placement.get(..19).unwrap_or(&of.placement));
            return mixed(format!("{} (other inputs, or another --times)", by(part)), by(first));
        }
    }
    let missing: Vec<u32> = (1..=first.of).filter(|number| !seen.contains_key(number)).collect();
    let Some(number) = missing.first() else { return Ok(()) };
    let named: Vec<String> = missing.iter().take(TOLD).map(ToString::to_string).collect();
    let more = missing.len().saturating_sub(TOLD);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (noun, verb) = if missing.len() == 1 { ("shard", "is") } else { ("shards", "are") };
    let missing = format!("{noun} {}{more} of {} {verb}", named.join(", "), first.of);
    Err(PartError::Missing { missing, first: Shard { number: *number, of: first.of } })
}

/// One ptxas for each that was asked for and each architecture, as in a run on one machine.
fn same_ptxas(parts: &[(String, Part)], wanted: &[Wanted]) -> Result<(), PartError> {
    let asked: BTreeMap<(&str, u64), usize> =
        wanted.iter().map(|wanted| ((wanted.path.as_str(), wanted.at), wanted.ptxas)).collect();
    let mut ran: BTreeMap<(usize, &str), (&str, &str)> = BTreeMap::new();
    for (file, part) in parts {
        for piece in &part.pieces {
            let (Some(version), Some(ptxas)) = (&piece.ptxas, asked.get(&(piece.path.as_str(), piece.at))) else {
                continue;
            };
            let arches: BTreeSet<&str> = piece.measured.iter().map(|measured| measured.unit.arch.as_str()).collect();
            for arch in arches {
                let (expected, other) = *ran.entry((*ptxas, arch)).or_insert((version, file));
                if expected != version {
                    let (arch, found, expected) = (arch.to_owned(), version.clone(), expected.to_owned());
                    return Err(PartError::Ptxas {
                        file: file.clone(),
                        arch,
                        found,
                        other: other.to_owned(),
                        expected,
                    });
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::UnitFigures;

    type Parts = Vec<(String, Part)>;

    fn stamp() -> Stamp {
        let text = |text: &str| text.to_owned();
        Stamp { version: text("1"), policy: text("p"), arguments: text("a") }
    }

    fn wanted() -> Vec<Wanted> {
        let wanted = |at: u64| {
            let (path, input) = (format!("k/{}.ptx", at / 2), format!("{}.ptx", at / 2));
            Wanted { path, input, at: at % 2, what: "sm_90a\t13.4".to_owned(), bytes: 7, ptxas: 0 }
        };
        (0..6).map(wanted).collect()
    }

    fn parts() -> Parts {
        let piece = |wanted: &Wanted| {
            let unit = UnitFigures { arch: "sm_90a".to_owned(), ..UnitFigures::default() };
            let measured = vec![Measured { unit, ..Measured::default() }];
            let ptxas = Some("13.4".to_owned());
            let (path, what) = (wanted.path.clone(), wanted.what.clone());
            Piece { path, at: wanted.at, what, bytes: wanted.bytes, ptxas, measured, ..Piece::default() }
        };
        let part = |shard: u32| Part {
            schema: PART_SCHEMA.to_owned(),
            stamp: stamp(),
            shard: Some(ShardOf { number: shard, of: 3, placement: "sha256:0123456789abcdef".to_owned() }),
            pieces: wanted().iter().skip(shard as usize - 1).step_by(3).map(piece).collect(),
        };
        (1..=3).map(|shard| (format!("{shard}.json"), part(shard))).collect()
    }

    fn error(parts: Parts) -> String {
        join(parts, &stamp(), &wanted()).unwrap_err().to_string()
    }

    #[test]
    fn whole_parts_are_a_run_in_any_order() {
        let mut all = parts();
        all.reverse();
        let pieces = join(all, &stamp(), &wanted()).unwrap();
        let order: Vec<(String, u64)> =
            pieces.iter().map(|piece| (piece.measured[0].unit.input.clone(), piece.at)).collect();
        assert_eq!(order, wanted().into_iter().map(|wanted| (wanted.input, wanted.at)).collect::<Vec<_>>());
        // Parts whose inputs were named need not be numbered.
        let mut named = parts();
        named.iter_mut().for_each(|(_, part)| part.shard = None);
        assert_eq!(join(named, &stamp(), &wanted()).unwrap(), pieces);
    }

    #[test]
    fn what_is_missing_doubled_or_foreign_is_said() {
        let changed = |change: &dyn Fn(&mut Parts)| {
            let mut all = parts();
            change(&mut all);
            error(all)
        };
        assert!(changed(&|all| drop(all.remove(1))).contains("shard 2 of 3 is missing: `ptxinspect gate --shard 2/3"));
        assert!(changed(&|all| all.truncate(1)).contains("shards 2, 3 of 3 are missing"));
        let doubled = changed(&|all| all.push(("again.json".to_owned(), all[0].1.clone())));
        assert!(doubled.contains("shard 1/3 is there twice, in again.json and 1.json"), "{doubled}");
        let shard = |of: u32, placement: &str| Some(ShardOf { number: 2, of, placement: placement.to_owned() });
        assert!(changed(&|all| all[1].1.shard = shard(4, "")).contains("2.json is shard 2/4, 1.json is shard 1/3"));
        assert!(changed(&|all| all[1].1.shard = shard(3, "sha256:other")).contains("another --times"));
        assert!(changed(&|all| all[1].1.stamp.version = "2".to_owned()).contains("made by ptxinspect 2, this is 1"));
        assert!(changed(&|all| all[1].1.stamp.policy.clear()).contains("another policy"));
        assert!(changed(&|all| all[1].1.stamp.arguments.clear()).contains("other arguments"));
        assert!(changed(&|all| drop(all[1].1.pieces.pop())).contains("is in no part"));
        let gone = changed(&|all| all[1].1.pieces[0].path = "x".to_owned());
        assert!(gone.contains("k/0.ptx (sm_90a, ptxas 13.4) is in no part"), "{gone}");
        assert!(changed(&|all| all[1].1.pieces[0].bytes = 8).contains("is not what was measured"));
        let extra = Piece { path: "x".to_owned(), ..Piece::default() };
        assert!(changed(&|all| all[1].1.pieces.push(extra.clone())).contains("x was measured, and is not to be"));
        assert!(
            changed(&|all| {
                let twice = all[0].1.pieces[0].clone();
                all[1].1.pieces.push(twice)
            })
            .contains("twice")
        );
        let other = changed(&|all| all[2].1.pieces[0].ptxas = Some("12.9".to_owned()));
        assert!(other.contains("3.json compiled for sm_90a with ptxas 12.9, 1.json with 13.4"), "{other}");
    }

    #[test]
    fn a_part_reads_back_and_what_is_none_is_said() {
        let (file, part) = parts().remove(0);
        let text = serde_json::to_vec(&part).unwrap();
        assert_eq!(Part::parse(&file, &text).unwrap(), part);
        for at in 0..text.len() {
            assert!(Part::parse(&file, &text[..at]).is_err());
        }
        let error = |text: &str| Part::parse("x.json", text.as_bytes()).unwrap_err().to_string();
        assert!(error("{}").contains("no \"schema\""));
        assert!(error("{\"schema\": \"ptxinspect.gate/1\"}").contains("its schema is 'ptxinspect.gate/1'"));
        assert!(error("{\"schema\": \"ptxinspect.part/1\"}").contains("missing field"));
        let shard = Some(ShardOf { number: 4, of: 3, placement: String::new() });
        let none = serde_json::to_string(&Part { shard, ..part }).unwrap();
        assert!(error(&none).contains("there is no shard 4 of 3"));
    }
}
