//! Effects: learns which registers each instruction reads and writes, and writes the table.

mod emit;
mod learn;
mod model;
mod probe;
mod tree;

use std::collections::HashSet;
use std::path::PathBuf;

use anyhow::{Context, Result};
use goblin::elf::Elf;

/// What `sass-tables effects` takes.
#[derive(clap::Args)]
pub struct Args {
    /// nvdisasm 13.2 or later.
    #[arg(long)]
    nvdisasm: PathBuf,
    /// ptxas 13 or later, which makes the cubin that words are patched into.
    #[arg(long)]
    ptxas: PathBuf,
    /// Architecture as ptxas spells it, such as sm_100a; repeatable.
    #[arg(long)]
    arch: Vec<String>,
    /// Cubins or folders of them: words to learn from.
    #[arg(long)]
    corpus: Vec<PathBuf>,
    /// Folder for what was learnt, one file an architecture.
    #[arg(long)]
    models: PathBuf,
    /// The table to write from all models in the folder.
    #[arg(long)]
    table: Option<PathBuf>,
    /// Folder where nvdisasm's answers are kept between runs.
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Rounds of trying the trees on changed words.
    #[arg(long, default_value_t = 4)]
    rounds: usize,
    /// Real words of each opcode to learn from.
    #[arg(long, default_value_t = 150)]
    words: usize,
    /// Try opcodes that no real word has too.
    #[arg(long)]
    all_opcodes: bool,
}

/// Learns each architecture.
pub fn run(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.models)?;
    let mut prior = std::collections::BTreeMap::new();
    for arch in &args.arch {
        let sm: u16 = arch.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse().context("architecture")?;
        let words = words(&args.corpus, sm)?;
        eprintln!("{arch}: {} distinct words", words.len());
        let probe = probe::Probe::new(&args.nvdisasm, &args.ptxas, arch, args.cache.as_deref())?;
        let mut learner = learn::Learner::new(probe, sm);
        learner.seed(&words, args.words, args.all_opcodes)?;
        learner.inherit(&prior)?;
        learner.run(args.rounds, &mut |line| eprintln!("{arch}: {line}"))?;
        let leaves: usize = learner.ops.values().map(|op| op.tree.leaves()).sum();
        eprintln!("{arch}: {} opcodes, {leaves} leaves", learner.ops.len());
        std::fs::write(args.models.join(format!("{arch}.effects")), model::write(&learner.ops))?;
        prior = learner.ops;
    }
    if let Some(table) = &args.table {
        std::fs::write(table, emit::emit(&args.models)?)?;
    }
    Ok(())
}

/// What `sass-tables record-effects` takes.
#[derive(clap::Args)]
pub struct RecordArgs {
    /// nvdisasm 13.2 or later.
    #[arg(long)]
    nvdisasm: PathBuf,
    /// ptxas 13 or later.
    #[arg(long)]
    ptxas: PathBuf,
    /// Architecture as ptxas spells it; repeatable.
    #[arg(long, required = true)]
    arch: Vec<String>,
    /// Cubins or folders of them.
    #[arg(long, required = true)]
    corpus: Vec<PathBuf>,
    /// Folder where nvdisasm's answers are kept between runs.
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Words of each opcode.
    #[arg(long, default_value_t = 3)]
    words: usize,
    /// Where the lines go: architecture, word, what it reads, what it writes, and the text, for the reader.
    #[arg(long)]
    out: PathBuf,
}

/// Writes down what nvdisasm marks beside some real words of each opcode: the cases of a test that needs no nvdisasm.
pub fn record(args: &RecordArgs) -> Result<()> {
    let mut lines = String::new();
    for arch in &args.arch {
        let sm: u16 = arch.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse().context("architecture")?;
        let mut probe = probe::Probe::new(&args.nvdisasm, &args.ptxas, arch, args.cache.as_deref())?;
        let mut by_code: std::collections::BTreeMap<u16, Vec<u128>> = std::collections::BTreeMap::new();
        for word in words(&args.corpus, sm)? {
            by_code.entry((word & 0xfff) as u16).or_default().push(word & !learn::frozen_bits((word & 0xfff) as u16));
        }
        let mut random = learn::Random(u64::from(sm));
        let picked: Vec<u128> =
            by_code.values().flat_map(|words| learn::sample(words, args.words, &mut random)).collect();
        probe.ask(picked.iter().copied())?;
        for word in picked {
            let Some(row) = probe.row(word) else { continue };
            let marks = learn::strip_call(learn::mnemonic(&row.text), row.marks);
            lines.push_str(&format!(
                "{arch}\t{word:032x}\t{}\t{}\t{}\n",
                names(&marks.reads),
                names(&marks.writes),
                row.text
            ));
        }
    }
    std::fs::write(&args.out, lines)?;
    Ok(())
}

/// `R4 R5 P0`, or `-` for none.
fn names(set: &ptxinspect::base::RegSet) -> String {
    let list: Vec<String> = set.iter_all().map(|(file, index)| format!("{}{index}", model::letters(file))).collect();
    if list.is_empty() { "-".to_owned() } else { list.join(" ") }
}

/// Stall 1, no barriers, no reuse: control that every instruction takes.
const CONTROL: u128 = (0x11 << 105) | (0x3f << 110);

/// Distinct words of one architecture, control aside.
fn words(paths: &[PathBuf], sm: u16) -> Result<Vec<u128>> {
    let mut seen = HashSet::new();
    let mut files: Vec<PathBuf> = paths.to_vec();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                files.push(entry?.path());
            }
            continue;
        }
        let bytes = std::fs::read(&path)?;
        let Ok(elf) = Elf::parse(&bytes) else { continue };
        let flags = elf.header.e_flags;
        let found = if elf.header.e_ident[7] == 51 { flags & 0xff } else { flags >> 8 & 0xff };
        if elf.header.e_machine != 190 || found != u32::from(sm) {
            continue;
        }
        for section in &elf.section_headers {
            let name = elf.shdr_strtab.get_at(section.sh_name).unwrap_or("");
            let (start, size) = (section.sh_offset as usize, section.sh_size as usize);
            if section.sh_type != 1 || !name.starts_with(".text") {
                continue;
            }
            let Some(code) = bytes.get(start..start.saturating_add(size)) else { continue };
            for chunk in code.chunks_exact(16) {
                let word = u128::from_le_bytes(chunk.try_into().unwrap_or_default());
                // nvdisasm gives no address for a word of opcode 0, so that one such word spoils a batch.
                if word & 0xfff == 0 {
                    continue;
                }
                seen.insert(word & ((1 << 105) - 1) | CONTROL);
            }
        }
    }
    let mut words: Vec<u128> = seen.into_iter().collect();
    words.sort_unstable();
    Ok(words)
}
