//! `ptxinspect occupancy`: the calculator.
//!
//! In: one launch as flags, or many as JSON lines. Out: text, or JSON lines. It says what fits; it does not say what is fast.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{ValueEnum, ValueHint};

use super::output::stdout_width;
use crate::base::Arch;
use crate::emit::clean::Form;
use crate::emit::occupancy::{Answer, Summary, batch, write_json, write_text};
use crate::registers::occupancy::{Launch, SmemMode, occupancy, register_table};

const EXAMPLES: &str = "\
Examples:
  ptxinspect occupancy --arch sm_90a --registers 168 --threads 384 --smem 16384
  ptxinspect occupancy --arch sm_86,sm_90,sm_120 --registers 96 --threads 256
  ptxinspect occupancy --batch launches.jsonl      one answer a line; - is standard input
  ptxinspect occupancy < launches.jsonl            the same

A line of a batch: {\"arch\":\"sm_90a\",\"registers\":168,\"threads\":384,\"smem\":16384}
and, where wanted, smem_dynamic, barriers, cluster, tmem_columns, smem_mode, carveout.
Other keys pass through.
Its answer: the same object with blocks_per_sm, limiter, next_step, cliff and more.
A line without an answer gets an error object instead, and the exit status is 2.";

/// Columns of its sentences at most: as wide as its tables.
const WIDTH: usize = 80;

/// `ptxinspect occupancy`
#[derive(Clone, Debug, Default, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct OccupancyArgs {
    /// Architectures: repeat, or separate with commas
    #[arg(long, short, value_delimiter = ',', value_name = "SM")]
    pub arch: Vec<String>,
    /// Registers of a thread, as ptxas -v counts them
    #[arg(long, short, value_name = "N")]
    pub registers: Option<u32>,
    /// Threads of a block
    #[arg(long, short, value_name = "N")]
    pub threads: Option<u32>,
    /// Bytes of shared memory of a block [default: 0]
    #[arg(long, value_name = "BYTES")]
    pub smem: Option<u64>,
    /// Bytes of shared memory asked for at launch, on top of --smem [default: 0]
    #[arg(long, value_name = "BYTES")]
    pub smem_dynamic: Option<u64>,
    /// Barriers the kernel uses, as ptxas -v counts them [default: not counted]
    #[arg(long, value_name = "N")]
    pub barriers: Option<u32>,
    /// Blocks of a cluster [default: 1]
    #[arg(long, value_name = "N")]
    pub cluster: Option<u32>,
    /// Columns of tensor memory that a block allocates [default: 0]
    #[arg(long, value_name = "N")]
    pub tmem_columns: Option<u32>,
    /// How much shared memory the kernel opts in to [default: non-portable]
    #[arg(long, value_name = "MODE")]
    pub smem_mode: Option<SmemModeArg>,
    /// Preferred share of shared memory, in percent of all the SM has [default: the driver's choice]
    #[arg(long, value_name = "PERCENT")]
    pub carveout: Option<u8>,
    /// Read launches from a file of JSON lines; - is standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with_all = [
        "arch", "registers", "threads", "smem", "smem_dynamic", "barriers", "cluster", "tmem_columns", "smem_mode",
        "carveout",
    ])]
    pub batch: Option<PathBuf>,
    /// The form of the answer; a batch is always answered in JSON lines [default: text]
    #[arg(long, short, value_name = "FORMAT")]
    pub format: Option<OccupancyFormat>,
}

/// Forms of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OccupancyFormat {
    /// For people
    Text,
    /// For programs: one object a line, a line for each architecture
    #[value(alias = "jsonl")]
    Json,
}

/// [`SmemMode`] as it is spelt on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SmemModeArg {
    /// 48 KB a block, no opting in
    Portable,
    /// All the architecture allows
    NonPortable,
    /// More than that, with hardly any L1 cache (sm_107)
    Oversized,
}

impl From<SmemModeArg> for SmemMode {
    fn from(mode: SmemModeArg) -> Self {
        match mode {
            SmemModeArg::Portable => SmemMode::Portable,
            SmemModeArg::NonPortable => SmemMode::NonPortable,
            SmemModeArg::Oversized => SmemMode::Oversized,
        }
    }
}

impl OccupancyArgs {
    /// Whether no launch is described at all.
    fn is_bare(&self) -> bool {
        let OccupancyArgs {
            arch,
            registers,
            threads,
            smem,
            smem_dynamic,
            barriers,
            cluster,
            tmem_columns,
            smem_mode,
            carveout,
            ..
        } = self;
        arch.is_empty()
            && [registers, threads, barriers, cluster, tmem_columns].iter().all(|number| number.is_none())
            && (smem.is_none() && smem_dynamic.is_none() && smem_mode.is_none() && carveout.is_none())
    }

    /// What it is answered in.
    pub fn form(&self) -> Form {
        match self.format {
            Some(OccupancyFormat::Text) => Form::Plain,
            None if self.batch.is_none() && !self.is_bare() => Form::Plain,
            None | Some(OccupancyFormat::Json) => Form::Json,
        }
    }

    fn launch(&self) -> Result<Launch> {
        let missing =
            |flag: &str| format!("{flag} is missing: expected --arch, --registers and --threads, or --batch FILE");
        Ok(Launch {
            registers: self.registers.with_context(|| missing("--registers"))?,
            threads: self.threads.with_context(|| missing("--threads"))?,
            smem_static: self.smem.unwrap_or(0),
            smem_dynamic: self.smem_dynamic.unwrap_or(0),
            barriers: self.barriers.unwrap_or(0),
            cluster: self.cluster.unwrap_or(1),
            tmem_columns: self.tmem_columns.unwrap_or(0),
            smem_mode: self.smem_mode.map_or(SmemMode::default(), SmemMode::from),
            carveout: self.carveout,
        })
    }
}

/// Runs the command. Lines of a batch that have no answer are counted, not an error: exit with 2 when there are any.
pub fn run(
    args: &OccupancyArgs,
    stdin: &mut dyn Read,
    stdin_is_terminal: bool,
    out: &mut dyn Write,
) -> Result<Summary> {
    if let Some(path) = &args.batch {
        if args.format == Some(OccupancyFormat::Text) {
            bail!("--batch answers in JSON lines: expected --format json or none, found --format text");
        }
        if path.as_os_str() == "-" {
            return Ok(batch(stdin, out)?);
        }
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        return batch(file, out).with_context(|| path.display().to_string());
    }
    if args.is_bare() && args.format != Some(OccupancyFormat::Text) && !stdin_is_terminal {
        // A job runner's empty standard input is no question either.
        let summary = batch(stdin, out)?;
        if summary.lines > 0 {
            return Ok(summary);
        }
    }
    if args.arch.is_empty() {
        bail!("--arch is missing: expected --arch, --registers and --threads, or --batch FILE");
    }
    let launch = args.launch()?;
    let mut answers = Vec::new();
    for name in &args.arch {
        let arch: Arch = name.trim().parse()?;
        let occupancy = occupancy(arch, &launch)?;
        answers.push(Answer { arch, occupancy, table: register_table(arch, &launch)? });
    }
    let mut out = BufWriter::new(out);
    match args.format {
        None | Some(OccupancyFormat::Text) => write_text(&launch, &answers, stdout_width().min(WIDTH), &mut out)?,
        Some(OccupancyFormat::Json) => answers.iter().try_for_each(|answer| write_json(&launch, answer, &mut out))?,
    }
    out.flush()?;
    Ok(Summary { lines: answers.len() as u64, refused: 0 })
}
