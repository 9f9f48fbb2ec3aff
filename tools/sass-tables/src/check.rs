//! Agreement of the decoder with nvdisasm on cubins, by architecture and by opcode.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ptxinspect::base::{Arch, Pc};
use ptxinspect::sass::{Decoder, Word};

use crate::corpus;
use crate::model::Literals;
use crate::oracle::{Oracle, WordMap};
use crate::store::{self, Learnt};

#[derive(Default)]
struct Tally {
    words: u64,
    unknown: u64,
    text: u64,
    registers: u64,
    illegal: u64,
}

/// The registers a text names, in order.
fn registers(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.')
        .map(|w| w.split('.').next().unwrap_or(""))
        .filter(|w| {
            let rest = w.trim_start_matches('U');
            matches!(rest.as_bytes().first(), Some(b'R' | b'P' | b'B')) && {
                let tail = &rest[1..];
                tail == "Z" || tail == "T" || (!tail.is_empty() && tail.bytes().all(|b| b.is_ascii_digit()))
            }
        })
        .collect()
}

/// What gives a word its text: the tables of the decoder, or models that are not packed yet.
enum Speaker {
    Tables(Decoder),
    Models(Box<Learnt>),
}

impl Speaker {
    /// The text, targets relative to the next instruction; false when the word is unknown.
    fn speak(&self, lits: &Literals, word: u128, out: &mut String) -> bool {
        out.clear();
        match self {
            Speaker::Tables(decoder) => {
                let inst = decoder.decode(halves(word));
                decoder.text_with(&inst, Pc(0), out, |target, out| {
                    use std::fmt::Write;
                    let distance = target - 16;
                    let sign = if distance < 0 { "-" } else { "" };
                    let _ = write!(out, "@{sign}{:#x}", distance.unsigned_abs());
                    true
                });
                !inst.is_unknown()
            }
            Speaker::Models(learnt) => {
                let urz = if crate::learn::sm_of(&learnt.arch) >= 100 { 255 } else { 63 };
                let class = learnt.trees.get(&(word as u16 & 0xfff)).map_or(u32::MAX, |tree| tree.find(word));
                learnt.models.get(class as usize).is_some_and(|model| model.predict(lits, urz, word, out))
            }
        }
    }

    /// Whether the tables know what a word does to registers.
    fn knows_effects(&self, word: u128) -> bool {
        match self {
            Speaker::Tables(decoder) => decoder.uses(&decoder.decode(halves(word))).is_some(),
            Speaker::Models(_) => false,
        }
    }
}

/// A word as the decoder takes it.
fn halves(word: u128) -> Word {
    Word { lo: word as u64, hi: (word >> 64) as u64 }
}

/// Where to look and what to compare.
pub struct Job<'a> {
    pub nvdisasm: &'a Path,
    pub paths: &'a [PathBuf],
    pub cache: Option<PathBuf>,
    /// Distinct words of each architecture at most.
    pub limit: usize,
    /// Only these architectures, unless empty.
    pub only: &'a [String],
    /// Models to check instead of the tables of the decoder.
    pub models: &'a [PathBuf],
    /// How many kinds of disagreement to show.
    pub top: usize,
    /// Only words whose text or effects the tables do not know.
    pub unknown: bool,
}

pub fn check(job: Job<'_>) -> Result<bool> {
    let Job { nvdisasm, cache, limit, only, .. } = job;
    let mut lits = Literals::default();
    let mut models: BTreeMap<String, Learnt> = BTreeMap::new();
    for path in job.models {
        let learnt = store::read(&std::fs::read_to_string(path)?, &mut lits)?;
        models.insert(learnt.arch.clone(), learnt);
    }
    let mut files = Vec::new();
    for path in job.paths {
        corpus::files(path, &mut files);
    }
    // Distinct words by architecture, with how often each occurs.
    let mut archs: BTreeMap<Arch, WordMap<u64>> = BTreeMap::new();
    for file in files {
        let Some(code) = corpus::read(&file).with_context(|| file.display().to_string())? else { continue };
        let words = archs.entry(Arch::new(code.sm)).or_default();
        for word in code.sections.iter().flatten() {
            *words.entry(corpus::normal(*word)).or_default() += 1;
        }
    }
    println!(
        "{:8} {:>12} {:>10} {:>9} {:>9} {:>9} {:>9}",
        "arch", "instructions", "distinct", "text %", "unknown %", "wrong reg", "illegal"
    );
    let mut good = true;
    let mut worst: BTreeMap<(Arch, String), (u64, String)> = BTreeMap::new();
    for (arch, counts) in archs {
        let name = disassembler_name(arch);
        let speaker = match models.remove(&name) {
            Some(learnt) => Speaker::Models(Box::new(learnt)),
            None if !job.models.is_empty() => continue,
            None => match Decoder::new(arch) {
                Some(decoder) => Speaker::Tables(decoder),
                None => {
                    println!("{:8} no tables", arch.to_string());
                    good &= arch.sm < OLDEST;
                    continue;
                }
            },
        };
        if !only.is_empty() && !only.contains(&name) {
            continue;
        }
        let mut oracle = Oracle::new(nvdisasm.to_owned(), &name, cache.clone())?;
        let mut words: Vec<u128> = counts.keys().copied().collect();
        if job.unknown {
            words.retain(|&word| !speaker.knows_effects(word));
        }
        words.sort_unstable_by_key(|w| w.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        words.truncate(limit);
        while oracle.texts(&words).is_err() {
            oracle.settle()?;
        }
        let mut tally = Tally::default();
        let mut mine = String::new();
        for &word in &words {
            let count = counts[&word];
            let Some(text) = oracle.known(word).flatten() else {
                tally.illegal += count;
                continue;
            };
            tally.words += count;
            let fail = if !speaker.speak(&lits, word, &mut mine) {
                tally.unknown += count;
                Some("unknown".to_owned())
            } else if mine == text {
                tally.text += count;
                job.unknown.then(|| "effects are not known".to_owned())
            } else {
                tally.registers += if registers(&mine) == registers(text) { 0 } else { count };
                Some(mine.clone())
            };
            if let Some(mine) = fail {
                let (_, body) = crate::text::split_guard(text);
                let op = body.split([' ', '.']).next().unwrap_or("").to_owned();
                let entry = worst
                    .entry((arch, op))
                    .or_insert((0, format!("{word:032x}\n      nvdisasm {text}\n      ours     {mine}")));
                entry.0 += count;
            }
        }
        let percent = |n: u64| 100.0 * n as f64 / tally.words.max(1) as f64;
        println!(
            "{:8} {:>12} {:>10} {:>9.4} {:>9.4} {:>9} {:>9}",
            arch.to_string(),
            tally.words,
            words.len(),
            percent(tally.text),
            percent(tally.unknown),
            tally.registers,
            tally.illegal
        );
        good &= job.unknown || percent(tally.text) >= 99.9 && percent(tally.unknown) <= 0.1 && tally.registers == 0;
    }
    let mut worst: Vec<_> = worst.into_iter().collect();
    worst.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    println!("\ntop disagreements");
    for ((arch, op), (count, sample)) in worst.into_iter().take(job.top) {
        println!("  {arch} {op}: {count}, such as {sample}");
    }
    Ok(good)
}

/// The oldest architecture with tables.
const OLDEST: u16 = 75;

/// The richest name nvdisasm's -b has for an SM number.
pub fn disassembler_name(arch: Arch) -> String {
    if arch.sm >= 90 { format!("SM{}a", arch.sm) } else { format!("SM{}", arch.sm) }
}
