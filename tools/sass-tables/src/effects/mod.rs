//! Effects: which registers each instruction reads and writes, seen by patching words into a small cubin.
//!
//! In: a learnt model of an architecture's texts, words of real code, nvdisasm and ptxas. Out: observations, one line a word, which
//! `pack` turns into a decision for each class of words. What a text prints decides what the instruction does: so each text that the
//! model can print, numbers aside, is tried once or twice with its registers far apart, and the marks beside the row say which of
//! them are read and written, and how many registers from each on.

mod arrange;
mod decide;
mod decision;
mod evidence;
mod fields;
mod observe;
mod probe;

use std::path::PathBuf;

use anyhow::{Context, Result};

pub use decide::{Decisions, decide};
pub use decision::{Decision, Node, Question, Step};
pub use fields::Number;

use crate::model::Literals;
use crate::store;

/// What `sass-tables effects` takes.
#[derive(clap::Args)]
pub struct Args {
    /// nvdisasm 13.2 or later.
    #[arg(long)]
    nvdisasm: PathBuf,
    /// ptxas 13 or later, which makes the cubin that words are patched into.
    #[arg(long)]
    ptxas: PathBuf,
    /// Cubins or folders of them: words to observe beside those the model itself can make.
    #[arg(long)]
    corpus: Vec<PathBuf>,
    /// Folder where nvdisasm's answers are kept between runs.
    #[arg(long)]
    cache: Option<PathBuf>,
    /// Folder for the cases of the tests: one observation of each class, `sm_100a.effects`.
    #[arg(long)]
    cases: Option<PathBuf>,
    /// Models that `learn` wrote; the observations of `SM100a.model` go beside it, to `SM100a.effects`.
    #[arg(required = true)]
    models: Vec<PathBuf>,
}

/// Observes each architecture.
pub fn run(args: &Args) -> Result<()> {
    for path in &args.models {
        let mut literals = Literals::default();
        let text = std::fs::read_to_string(path)?;
        let learnt = store::read(&text, &mut literals).with_context(|| path.display().to_string())?;
        let arch = learnt.arch.to_lowercase().replace("sm", "sm_");
        let mut probe = probe::Probe::new(&args.nvdisasm, &args.ptxas, &arch, args.cache.as_deref())?;
        let mut log = |line| eprintln!("{arch}: {line}");
        let lines = observe::observe(&learnt, &literals, &args.corpus, &mut probe, &mut log)?;
        if let Some(folder) = &args.cases {
            std::fs::write(folder.join(format!("{arch}.effects")), fields::cases(&learnt, &lines)?)?;
        }
        std::fs::write(path.with_extension("effects"), lines)?;
    }
    Ok(())
}
