//! Learns SASS encodings and effects by observing nvdisasm, and checks the tables against it.

mod check;
mod class;
mod corpus;
mod describe;
mod edit;
mod effects;
mod explore;
mod learn;
mod live;
mod lot;
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
        /// Learn only the classes that words of the corpus and `--from` have; otherwise every opcode is tried and what probes meet is
        /// learnt too.
        #[arg(long)]
        quick: bool,
        /// The model of a relative or of an older toolkit: classes it has right are taken over.
        #[arg(long)]
        from: Option<PathBuf>,
        /// Folder for the learnt models.
        #[arg(long)]
        out: PathBuf,
    },
    /// Pack learnt models into the tables of the decoder and say what changed.
    Pack {
        /// Models written by learn.
        #[arg(required = true)]
        models: Vec<PathBuf>,
        /// Architectures that share another's model, such as SM87=SM86.
        #[arg(long)]
        same: Vec<String>,
        /// Lines of the difference to the old tables to show for each architecture.
        #[arg(long, default_value_t = 20)]
        show: usize,
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
        /// Check these models, which learn wrote, instead of the tables of the decoder.
        #[arg(long)]
        model: Vec<PathBuf>,
        /// Kinds of disagreement to show, by architecture and opcode.
        #[arg(long, default_value_t = 40)]
        top: usize,
        /// Compare only words whose text or effects the tables do not know: what to learn next.
        #[arg(long, conflicts_with = "model")]
        unknown: bool,
        /// Cubins or folders of them.
        #[arg(required = true)]
        paths: Vec<PathBuf>,
    },
    /// Decode and print every instruction of a cubin and solve its liveness, some times over: how fast each is.
    Speed {
        /// Run this nvdisasm on the cubin, too.
        #[arg(long)]
        nvdisasm: Option<PathBuf>,
        cubin: PathBuf,
    },
    /// Compare live counts with nvdisasm's.
    Live(live::Args),
    /// Decompress all cubins of a library on one thread and do nothing with them: what no table of its kernels can do without.
    Decompress { library: PathBuf },
}

fn main() -> Result<()> {
    match Args::parse().command {
        Command::Effects(args) => effects::run(&args),
        Command::Learn { nvdisasm, arch, corpus, cache, quick, from, out } => {
            std::fs::create_dir_all(&out)?;
            for name in arch {
                learn::learn(&nvdisasm, &name, &corpus, cache.clone(), !quick, from.as_deref(), &out)?;
            }
            Ok(())
        }
        Command::Pack { models, same, show, out } => {
            let mut lits = model::Literals::default();
            let mut all = Vec::new();
            for path in models {
                let text = std::fs::read_to_string(&path)?;
                let learnt = store::read(&text, &mut lits).with_context(|| path.display().to_string())?;
                let seen = std::fs::read_to_string(path.with_extension("effects")).unwrap_or_default();
                let effects::Decisions { classes: decisions, lost, .. } =
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
            for pair in same {
                let (name, like) = pair.split_once('=').context("--same takes NAME=LIKE")?;
                let at = all.iter().position(|(l, _)| l.arch == like).with_context(|| format!("no model of {like}"))?;
                let (learnt, decisions) = all[at].clone();
                all.push((store::Learnt { arch: name.to_owned(), ..learnt }, decisions));
            }
            let blob = pack::pack(&all, &lits)?;
            std::fs::create_dir_all(&out)?;
            let path = out.join("sass.bin");
            let same = std::fs::read(&path).is_ok_and(|old| old == blob);
            println!("{}: {} bytes{}", path.display(), blob.len(), if same { ", unchanged" } else { "" });
            std::fs::write(path, blob)?;
            let path = out.join("sass.txt");
            let text = describe::describe(&all.iter().map(|(learnt, _)| learnt).collect::<Vec<_>>(), &lits);
            let old = std::fs::read_to_string(&path).unwrap_or_default();
            for (name, lines) in describe::difference(&old, &text) {
                println!("{name}: {} lines differ", lines.len());
                for line in lines.iter().take(show) {
                    println!("  {line}");
                }
            }
            println!("{}: {} bytes{}", path.display(), text.len(), if old == text { ", unchanged" } else { "" });
            std::fs::write(path, text)?;
            Ok(())
        }
        Command::Check { nvdisasm, cache, limit, arch, model, top, unknown, paths } => {
            let (only, models) = (&arch, &model);
            let job = check::Job { nvdisasm: &nvdisasm, paths: &paths, cache, limit, only, models, top, unknown };
            if !check::check(job)? {
                eprintln!("agreement is below what is asked: 99.9 % of texts, 0.1 % unknown, no register wrong");
                std::process::exit(1);
            }
            Ok(())
        }
        Command::Speed { nvdisasm, cubin } => {
            speed(&cubin, nvdisasm.as_deref())?;
            live::speed(&cubin)
        }
        Command::Live(args) => live::run(&args),
        Command::Decompress { library } => {
            use ptxinspect::container::{Container, EntryKind, Options};
            let container = Container::open(&library, Options::default());
            let (mut cubins, mut bytes) = (0, 0);
            for entry in container.entries() {
                let entry = entry.with_context(|| library.display().to_string())?;
                if entry.kind == EntryKind::Cubin {
                    cubins += 1;
                    bytes += entry.with_bytes(|bytes| bytes.len())?;
                    entry.release();
                }
            }
            println!("{cubins} cubins, {bytes} bytes");
            Ok(())
        }
    }
}

/// Seconds for a job on all words: the words go in pieces of a fraction of a millisecond, and of many rounds the best counts for
/// each piece, so that other programs on the machine do not.
fn best(words: &[ptxinspect::sass::Word], mut job: impl FnMut(&[ptxinspect::sass::Word])) -> f64 {
    let mut best = vec![f64::MAX; words.len().div_ceil(2048)];
    for _ in 0..15 {
        for (piece, best) in words.chunks(2048).zip(&mut best) {
            let start = std::time::Instant::now();
            job(piece);
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    best.iter().sum()
}

fn speed(path: &std::path::Path, nvdisasm: Option<&std::path::Path>) -> Result<()> {
    use ptxinspect::base::{Arch, Pc};
    use ptxinspect::sass::{Decoder, Speller, Text, Word};
    let code = corpus::read(path)?.context("not a cubin")?;
    let decoder = Decoder::new(Arch::new(code.sm)).context("no tables")?;
    let words: Vec<Word> =
        code.sections.iter().flatten().map(|w| Word { lo: *w as u64, hi: (*w >> 64) as u64 }).collect();
    let megabytes = words.len() as f64 * 16.0 / 1e6;
    let unknown = words.iter().filter(|w| decoder.decode(**w).is_unknown()).count();
    let mut known = 0;
    let decode = best(&words, |piece| known += piece.iter().filter(|w| !decoder.decode(**w).is_unknown()).count());
    let (mut speller, mut out) = (Speller::new(decoder), Text::default());
    let text = best(&words, |piece| {
        out.clear();
        for (i, word) in piece.iter().enumerate() {
            speller.text(*word, Pc(i as u32 * 16), &mut out);
            out.push(b"\n");
        }
    });
    anyhow::ensure!(known == 15 * (words.len() - unknown), "decoding differs from round to round");
    println!("{:.2} MB of code, {} instructions, {unknown} unknown, one thread", megabytes, words.len());
    println!("ours:     decode {:.0} MB/s, decode and text {:.0} MB/s", megabytes / decode, megabytes / text);
    if let Some(nvdisasm) = nvdisasm {
        let start = std::time::Instant::now();
        let output = std::process::Command::new(nvdisasm).arg("-c").arg(path).output()?;
        let seconds = start.elapsed().as_secs_f64();
        anyhow::ensure!(output.status.success(), "{} fails on {}", nvdisasm.display(), path.display());
        println!("nvdisasm: decode and text {:.2} MB/s ({seconds:.1} s for nvdisasm -c)", megabytes / seconds);
    }
    Ok(())
}
