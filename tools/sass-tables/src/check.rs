//! Agreement of the decoder with nvdisasm on cubins, by architecture and by opcode.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ptxinspect::base::{Arch, Pc};
use ptxinspect::sass::{Decoder, Word};

use crate::corpus;
use crate::oracle::{Oracle, WordMap};

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

pub fn check(
    nvdisasm: &Path,
    paths: &[PathBuf],
    cache: Option<PathBuf>,
    limit: usize,
    only: &[String],
) -> Result<bool> {
    let mut files = Vec::new();
    for path in paths {
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
        let Some(decoder) = Decoder::new(arch) else {
            println!("{arch:8} no tables");
            good = false;
            continue;
        };
        let name = disassembler_name(arch);
        if !only.is_empty() && !only.contains(&name) {
            continue;
        }
        let mut oracle = Oracle::new(nvdisasm.to_owned(), &name, cache.clone())?;
        let mut words: Vec<u128> = counts.keys().copied().collect();
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
            let inst = decoder.decode(Word { lo: word as u64, hi: (word >> 64) as u64 });
            mine.clear();
            let mut fail = None;
            if inst.is_unknown() {
                tally.unknown += count;
                fail = Some("unknown".to_owned());
            } else {
                decoder.text_with(&inst, Pc(0), &mut mine, |target, out| {
                    use std::fmt::Write;
                    let distance = target - 16;
                    let sign = if distance < 0 { "-" } else { "" };
                    let _ = write!(out, "@{sign}{:#x}", distance.unsigned_abs());
                    true
                });
                if mine == text {
                    tally.text += count;
                } else {
                    fail = Some(mine.clone());
                    if registers(&mine) != registers(text) {
                        tally.registers += count;
                    }
                }
            }
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
            "{arch:8} {:>12} {:>10} {:>9.4} {:>9.4} {:>9} {:>9}",
            tally.words,
            words.len(),
            percent(tally.text),
            percent(tally.unknown),
            tally.registers,
            tally.illegal
        );
        good &= percent(tally.text) >= 99.9 && percent(tally.unknown) <= 0.1 && tally.registers == 0;
    }
    let mut worst: Vec<_> = worst.into_iter().collect();
    worst.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    println!("\ntop disagreements");
    for ((arch, op), (count, sample)) in worst.into_iter().take(40) {
        println!("  {arch} {op}: {count}, such as {sample}");
    }
    Ok(good)
}

/// The richest name nvdisasm's -b has for an SM number.
pub fn disassembler_name(arch: Arch) -> String {
    if arch.sm >= 90 { format!("SM{}a", arch.sm) } else { format!("SM{}", arch.sm) }
}
