//! Compares live counts with `nvdisasm -c -lrm count`, cubin by cubin.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use ptxinspect::base::{Pc, RegFile, RegSet};
use ptxinspect::cubin::{Function, Image};
use ptxinspect::flow::{Cfg, Layout, Liveness, Program, Rule, SassProgram};
use ptxinspect::registers::code::named_registers;
use ptxinspect::sass::Decoder;
use ptxinspect::toolchain::nvdisasm::{Listing, Row};

/// What `sass-tables live` takes.
#[derive(clap::Args)]
pub struct Args {
    /// nvdisasm 13.2 or later.
    #[arg(long)]
    nvdisasm: PathBuf,
    /// Folder where nvdisasm's counts are kept between runs.
    #[arg(long)]
    cache: Option<PathBuf>,
    /// How many kinds of disagreement to print for each architecture.
    #[arg(long, default_value_t = 10)]
    top: usize,
    /// Print each disagreement of functions whose name contains this.
    #[arg(long)]
    show: Option<String>,
    /// Write nvdisasm's counts beside each cubin, as `NAME.live`: the cases of a test that needs no nvdisasm.
    #[arg(long)]
    record: bool,
    /// Cubins or folders of them.
    #[arg(required = true)]
    cubins: Vec<PathBuf>,
}

/// Figures of one architecture.
#[derive(Default)]
pub struct Tally {
    pub cubins: usize,
    pub functions: usize,
    pub instructions: u64,
    /// Instructions whose four counts are all equal, and by file.
    pub equal: u64,
    pub equal_by_file: [u64; 4],
    /// Instructions where the sound rule counts differently, by file.
    pub sound_differs: [u64; 4],
    /// Opcode → instructions where a count differs and the one after it does not: where the difference begins, going backwards.
    pub origins: BTreeMap<String, (u64, String)>,
    pub without_listing: usize,
    /// Instructions whose effects are not known: opcode → how many, and one of them.
    pub unknown: BTreeMap<String, (u64, String)>,
}

/// Compares all cubins and prints the figures.
pub fn run(args: &Args) -> Result<()> {
    let mut files = args.cubins.clone();
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            let mut entries: Vec<PathBuf> =
                std::fs::read_dir(&path)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
            entries.sort();
            files.extend(entries.into_iter().rev());
            continue;
        }
        let bytes = std::fs::read(&path)?;
        let Ok(image) = Image::parse(&bytes) else { continue };
        let Some(decoder) = Decoder::new(image.arch) else { continue };
        let tally = tallies.entry(format!("sm_{}", image.arch.sm)).or_default();
        let listing = listing(args, &path, &bytes)?;
        if listing.sections().is_empty() {
            tally.without_listing += 1;
            continue;
        }
        tally.cubins += 1;
        if args.record {
            std::fs::write(path.with_extension("live"), recorded(&listing))?;
        }
        let named = named_registers(&image);
        for function in image.functions.iter() {
            let name = image.section(function.section).map(|section| section.name.to_string()).unwrap_or_default();
            if let Some(rows) = listing.sections().get(&name) {
                compare(function, decoder, named, rows, &name, args, tally);
            }
        }
    }
    println!(
        "{:<8} {:>7} {:>9} {:>12} {:>10} {:>9} {:>9} {:>9} {:>9}",
        "arch", "cubins", "functions", "instructions", "all equal", "gpr", "pred", "ugpr", "upred"
    );
    for (arch, tally) in &tallies {
        let percent = |n: u64| format!("{:.4}%", 100.0 * n as f64 / tally.instructions.max(1) as f64);
        let files = tally.equal_by_file.map(percent);
        println!(
            "{arch:<8} {:>7} {:>9} {:>12} {:>10} {:>9} {:>9} {:>9} {:>9}",
            tally.cubins,
            tally.functions,
            tally.instructions,
            percent(tally.equal),
            files[0],
            files[1],
            files[2],
            files[3]
        );
    }
    for (arch, tally) in &tallies {
        let percent = |n: u64| format!("{:.3}%", 100.0 * n as f64 / tally.instructions.max(1) as f64);
        let sound = tally.sound_differs.map(percent);
        println!(
            "{arch}: sound rule differs on gpr {}, pred {}, ugpr {}, upred {} of instructions",
            sound[0], sound[1], sound[2], sound[3]
        );
        if tally.without_listing > 0 {
            println!("{arch}: {} cubins without a listing by nvdisasm", tally.without_listing);
        }
        let unknown: u64 = tally.unknown.values().map(|(count, _)| count).sum();
        println!("{arch}: {unknown} instructions whose effects are not known ({})", percent(unknown));
        let mut names: Vec<_> = tally.unknown.iter().collect();
        names.sort_by_key(|(name, (count, _))| (std::cmp::Reverse(*count), (*name).clone()));
        for (name, (count, example)) in names.into_iter().take(args.top) {
            println!("{arch}: {count:>7} {name}, such as `{example}`");
        }
        let mut origins: Vec<_> = tally.origins.iter().collect();
        origins.sort_by_key(|(name, (count, _))| (std::cmp::Reverse(*count), (*name).clone()));
        for (name, (count, example)) in origins.into_iter().take(args.top) {
            println!("{arch}: {count:>7} differences begin at {name}, such as {example}");
        }
    }
    Ok(())
}

/// What the cubin says about a function's section.
pub fn layout(function: &Function<'_>, named: Option<RegSet>) -> Layout {
    Layout {
        entries: function.parts.iter().map(|part| part.start).collect(),
        indirect: function.branch_targets.iter().map(|branch| (branch.pc, branch.targets.clone())).collect(),
        registers: function.resources.registers.and_then(|n| u16::try_from(n).ok()).unwrap_or(0),
        named,
    }
}

fn compare(
    function: &Function<'_>,
    decoder: Decoder,
    named: Option<RegSet>,
    rows: &BTreeMap<u32, Row>,
    name: &str,
    args: &Args,
    tally: &mut Tally,
) {
    let program = SassProgram::decode(decoder, function.code);
    let cfg = Cfg::build(&program, &layout(function, named));
    let counts = Liveness::solve(&program, &cfg, Rule::Nvdisasm).counts(&program, &cfg);
    let sound = Liveness::solve(&program, &cfg, Rule::Sound).counts(&program, &cfg);
    let show = args.show.as_ref().is_some_and(|part| name.contains(part.as_str()));
    tally.functions += 1;
    let mut after_equal = true;
    for (index, count) in counts.iter().enumerate().rev() {
        let Some(Row { text, live: Some(theirs) }) = rows.get(&(16 * index as u32)) else { continue };
        let ours = RegFile::ALL.map(|file| count.get(file));
        tally.instructions += 1;
        if !program.flow(index).known {
            let unknown = tally.unknown.entry(short_name(text)).or_insert_with(|| (0, text.clone()));
            unknown.0 += 1;
        }
        for i in 0..4 {
            tally.equal_by_file[i] += u64::from(ours[i] == theirs[i]);
            tally.sound_differs[i] += u64::from(sound[index].get(RegFile::ALL[i]) != theirs[i]);
        }
        let equal = ours == *theirs;
        tally.equal += u64::from(equal);
        if !equal && after_equal {
            let origin = tally.origins.entry(short_name(text)).or_default();
            origin.0 += 1;
            if origin.1.is_empty() {
                origin.1 =
                    format!("`{text}` at {} of {name}: ours {ours:?}, nvdisasm {theirs:?}", Pc(16 * index as u32));
            }
        }
        if show {
            let mark = if equal { ' ' } else { '!' };
            println!("{mark} {} {text:<60} ours {ours:?} nvdisasm {theirs:?}", Pc(16 * index as u32));
        }
        after_equal = equal;
    }
}

/// `@!P0 LDG.E.64 R2, …` is `LDG.E`.
fn short_name(text: &str) -> String {
    let mnemonic = text.split_whitespace().find(|part| !part.starts_with('@')).unwrap_or("").trim_end_matches(';');
    mnemonic.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// `section` lines, each followed by runs of equal counts: first pc, number of instructions, the four counts.
fn recorded(listing: &Listing) -> String {
    let mut out = String::new();
    for (name, rows) in listing.sections() {
        out.push_str(&format!("section {name}\n"));
        let mut runs: Vec<(u32, u32, [u16; 4])> = Vec::new();
        for (pc, counts) in rows.iter().filter_map(|(pc, row)| Some((pc, row.live.as_ref()?))) {
            match runs.last_mut() {
                Some((first, n, same)) if same == counts && *first + *n * 16 == *pc => *n += 1,
                _ => runs.push((*pc, 1, *counts)),
            }
        }
        for (pc, n, [gpr, pred, ugpr, upred]) in runs {
            out.push_str(&format!("{pc:x} {n} {gpr} {pred} {ugpr} {upred}\n"));
        }
    }
    out
}

/// nvdisasm's counts for a cubin, from the cache if it has them.
fn listing(args: &Args, path: &Path, bytes: &[u8]) -> Result<Listing> {
    let kept = args.cache.as_ref().map(|folder| {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        bytes.iter().for_each(|byte| hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        folder.join(format!("{hash:016x}.count"))
    });
    if let Some(text) = kept.as_ref().and_then(|kept| std::fs::read_to_string(kept).ok()) {
        return Ok(Listing::parse(&text));
    }
    let output = Command::new(&args.nvdisasm).args(["-c", "-lrm", "count"]).arg(path).output().context("nvdisasm")?;
    let text = String::from_utf8_lossy(&output.stdout);
    // Lines are padded to the longest one: keep what matters.
    let short: String = text
        .lines()
        .filter(|line| line.contains(".section") || line.contains("// |"))
        .map(|line| match line.find("// |") {
            Some(at) => format!("{} {}\n", line[..at].trim(), &line[at..]),
            None => format!("{line}\n"),
        })
        .collect();
    if let Some(kept) = kept {
        if let Some(folder) = kept.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&kept, &short)?;
    }
    Ok(Listing::parse(&short))
}

/// Decodes every word of a cubin, finds its control flow and counts live registers, 15 times over, and prints the best speed.
pub fn speed(path: &Path) -> Result<()> {
    let bytes = std::fs::read(path)?;
    let image = Image::parse(&bytes)?;
    let decoder = Decoder::new(image.arch).context("no tables for this architecture")?;
    let code: u64 = image.functions.iter().map(|function| function.code.len() as u64).sum();
    for rule in [Rule::Sound, Rule::Nvdisasm] {
        let mut peak = 0;
        let mut best = f64::INFINITY;
        for _ in 0..15 {
            let start = std::time::Instant::now();
            for function in &image.functions {
                let program = SassProgram::decode(decoder, function.code);
                let cfg = Cfg::build(&program, &layout(function, None));
                let counts = Liveness::solve(&program, &cfg, rule).counts(&program, &cfg);
                peak = counts.iter().map(|count| count.get(RegFile::Gpr)).max().unwrap_or(0).max(peak);
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!("decode, control flow and liveness ({rule:?}): {:.0} MB/s, peak {peak}", code as f64 / 1e6 / best);
    }
    Ok(())
}
