//! Learns SASS encodings and effects by observing nvdisasm, and checks the tables against it.

mod check;
mod class;
mod corpus;
mod edit;
mod effects;
mod learn;
mod live;
mod model;
mod oracle;
mod pack;
mod slot;
mod store;
mod text;
mod tree;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Learns the SASS tables from what nvdisasm prints, and checks them")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Learn which registers each instruction reads and writes.
    Effects(effects::Args),
    /// Learn architectures and write the tables.
    Learn {
        #[arg(long)]
        nvdisasm: PathBuf,
        /// Names nvdisasm's -b takes, such as SM100a; repeatable.
        #[arg(long, required = true)]
        arch: Vec<String>,
        /// Cubins or folders of them: the words to learn from.
        #[arg(long, required = true)]
        corpus: Vec<PathBuf>,
        /// Folder where nvdisasm's answers are kept between runs.
        #[arg(long)]
        cache: Option<PathBuf>,
        /// Also learn the classes that no word of the corpus has: every opcode is tried, and what probes meet is kept.
        #[arg(long)]
        sweep: bool,
        /// Folder for the learnt models.
        #[arg(long)]
        out: PathBuf,
    },
    /// Pack learnt models into the tables of the decoder and say what changed.
    Pack {
        /// Models written by learn.
        #[arg(required = true)]
        models: Vec<PathBuf>,
        /// Folder of the tables.
        #[arg(long, default_value = "src/sass/tables")]
        out: PathBuf,
    },
    /// Compare the decoder with nvdisasm on cubins.
    Check {
        #[arg(long)]
        nvdisasm: PathBuf,
        #[arg(long)]
        cache: Option<PathBuf>,
        /// Distinct words to compare for each architecture at most.
        #[arg(long, default_value_t = 400_000)]
        limit: usize,
        /// Only these names, such as SM100a.
        #[arg(long)]
        arch: Vec<String>,
        /// Cubins or folders of them.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Decode and print every instruction of a cubin and solve its liveness, some times over: how fast each is.
    Speed { cubin: PathBuf },
    /// Compare live counts with nvdisasm's.
    Live(live::Args),
}

fn main() -> Result<()> {
    match Args::parse().command {
        Command::Effects(args) => effects::run(&args),
        Command::Learn { nvdisasm, arch, corpus, cache, sweep, out } => {
            std::fs::create_dir_all(&out)?;
            for name in arch {
                learn::learn(&nvdisasm, &name, &corpus, cache.clone(), sweep, &out)?;
            }
            Ok(())
        }
        Command::Pack { models, out } => {
            let mut lits = model::Literals::default();
            let mut all = Vec::new();
            for path in models {
                let text = std::fs::read_to_string(&path)?;
                let learnt = store::read(&text, &mut lits).with_context(|| path.display().to_string())?;
                let seen = std::fs::read_to_string(path.with_extension("effects")).unwrap_or_default();
                let (decisions, lost) =
                    effects::decide(&learnt, &lits, &seen).with_context(|| path.display().to_string())?;
                println!(
                    "{}: {} observations, {} of them contradictory",
                    learnt.arch,
                    seen.lines().count(),
                    lost.len()
                );
                for text in lost.iter().take(12) {
                    println!("    {text}");
                }
                all.push((learnt, decisions));
            }
            let (blob, text) = pack::pack(&all, &lits)?;
            for (name, bytes) in [("sass.bin", blob.as_slice()), ("sass.txt", text.as_bytes())] {
                let path = out.join(name);
                let same = std::fs::read(&path).is_ok_and(|old| old == bytes);
                println!("{}: {} bytes{}", path.display(), bytes.len(), if same { ", unchanged" } else { "" });
                std::fs::write(path, bytes)?;
            }
            Ok(())
        }
        Command::Check { nvdisasm, cache, limit, arch, paths } => {
            anyhow::ensure!(check::check(&nvdisasm, &paths, cache, limit, &arch)?, "agreement is below what is asked");
            Ok(())
        }
        Command::Speed { cubin } => {
            speed(&cubin)?;
            live::speed(&cubin)
        }
        Command::Live(args) => live::run(&args),
    }
}

fn speed(path: &std::path::Path) -> Result<()> {
    use ptxinspect::base::{Arch, Pc};
    use ptxinspect::sass::{Decoder, Word};
    let code = corpus::read(path)?.context("not a cubin")?;
    let decoder = Decoder::new(Arch::new(code.sm)).context("no tables")?;
    let words: Vec<Word> =
        code.sections.iter().flatten().map(|w| Word { lo: *w as u64, hi: (*w >> 64) as u64 }).collect();
    let megabytes = words.len() as f64 * 16.0 / 1e6;
    for _ in 0..5 {
        let start = std::time::Instant::now();
        let unknown = words.iter().filter(|w| decoder.decode(**w).is_unknown()).count();
        let decode = start.elapsed();
        let start = std::time::Instant::now();
        let mut out = String::with_capacity(words.len() * 64);
        for (i, word) in words.iter().enumerate() {
            decoder.text(&decoder.decode(*word), Pc(i as u32 * 16), &mut out);
            out.push('\n');
        }
        let text = start.elapsed();
        println!(
            "{} instructions, {unknown} unknown: decode {:.0} MB/s, decode and text {:.0} MB/s ({} bytes of text)",
            words.len(),
            megabytes / decode.as_secs_f64(),
            megabytes / text.as_secs_f64(),
            out.len()
        );
    }
    Ok(())
}
