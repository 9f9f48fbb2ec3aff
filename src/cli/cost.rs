//! `ptxinspect cost FILE`: what loops cost.

use std::str::FromStr;

use anyhow::Result;
use clap::{Args as ClapArgs, ValueEnum};

use super::args::{CompileArgs, OutputArgs, smem_bytes};
use super::progress::Progress;
use super::{Outcome, output};
use crate::base::{Line, Threads};
use crate::cost::Memory;
use crate::emit;
use crate::emit::clean::Form;
use crate::engine::given;
use crate::engine::inspect::{View, inspect_all};
use crate::report::{Costs, LaunchHints, Unit};

const EXAMPLES: &str = "\
Examples:
  ptxinspect cost kernel.ptx --arch sm_90a              every loop, with the warps that an SM holds
  ptxinspect cost kernel.ptx --loop 84 --warps 1..16    the loop around line 84, by warps on a scheduler
  ptxinspect cost kernel.ptx --memory l2                with data in the second cache, not in the first
  ptxinspect cost kernel.ptx --latency 600              with global memory that answers after 600 cycles
  ptxinspect cost patched.cubin --hazards               whether stall counts and scoreboards cover every dependency
  ptxinspect cost kernel.ptx --accesses                 bank conflicts and sectors of every access of memory
  ptxinspect cost kernel.cubin --format json            for programs

The schedule that ptxas made is executed: stall counts, scoreboards, pipes, banks of registers. It is an estimate and no
measurement: docs/cost.md says what it takes for granted, and how near it came on a GPU.

Exit status: 0 told, 1 with --hazards where there is one, 2 it could not be told.";

/// `ptxinspect cost …`
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct CostArgs {
    /// What to compile.
    #[command(flatten)]
    pub compile: CompileArgs,
    /// Only the innermost loop around this PTX line
    #[arg(long = "loop", value_name = "LINE", help_heading = "Choosing")]
    pub line: Option<u32>,
    /// Warps on each scheduler: 4, 1,2,8 or 1..16 [default: those that an SM holds]
    #[arg(long, value_name = "N", help_heading = "Estimating")]
    pub warps: Option<WarpCounts>,
    /// Where data of global and local memory are: l1 answers after 33 cycles, l2 after 280, dram after 680
    #[arg(long, value_name = "WHERE", default_value = "l1", help_heading = "Estimating")]
    pub memory: MemoryArg,
    /// Cycles until global and local memory answer [default: as --memory says]
    #[arg(long, value_name = "CYCLES", value_parser = clap::value_parser!(u16).range(1..=10_000), help_heading = "Estimating")]
    pub latency: Option<u16>,
    /// Look for consumers that come too early by the control bits, too; exit 1 where there is one
    #[arg(long, help_heading = "Estimating")]
    pub hazards: bool,
    /// Instead of loops, what each access of shared and global memory takes: bank conflicts, sectors, what would mend them
    #[arg(long, conflicts_with_all = ["line", "warps", "latency", "memory", "hazards"], help_heading = "Choosing")]
    pub accesses: bool,
    /// Threads of a block, for kernels whose directives do not say: 256, or by axis 32x8
    #[arg(long, value_name = "N|XxY", help_heading = "Estimating")]
    pub threads: Option<Threads>,
    /// Bytes of shared memory asked for at launch
    #[arg(long, value_name = "BYTES", value_parser = smem_bytes, help_heading = "Estimating")]
    pub smem_dynamic: Option<u64>,
    /// The form of the answer
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: CostFormat,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Forms of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CostFormat {
    /// For people
    Text,
    /// For programs: docs/schema/cost-v1.schema.json
    Json,
}

impl From<CostFormat> for Form {
    fn from(format: CostFormat) -> Self {
        match format {
            CostFormat::Text => Form::Text,
            CostFormat::Json => Form::Json,
        }
    }
}

/// Where data are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemoryArg {
    /// In the first cache
    L1,
    /// In the second cache
    L2,
    /// In neither
    Dram,
}

impl From<MemoryArg> for Memory {
    fn from(arg: MemoryArg) -> Memory {
        match arg {
            MemoryArg::L1 => Memory::L1,
            MemoryArg::L2 => Memory::L2,
            MemoryArg::Dram => Memory::Dram,
        }
    }
}

/// Numbers of warps on a scheduler: bit `n - 1` for `n` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpCounts(u16);

impl FromStr for WarpCounts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let count = |text: &str| {
            let found = text.trim().parse::<u16>().ok().filter(|count| (1..=16).contains(count));
            found.ok_or_else(|| format!("'{text}' is no number of warps on a scheduler: expected 1 to 16"))
        };
        let mut bits = 0;
        for part in text.split(',') {
            let (first, last) = match part.split_once("..") {
                Some((first, last)) => (count(first)?, count(last.trim_start_matches('='))?),
                None => (count(part)?, count(part)?),
            };
            if first > last {
                return Err(format!("'{part}' ends before it begins"));
            }
            (first..=last).for_each(|count| bits |= 1 << (count - 1));
        }
        Ok(WarpCounts(bits))
    }
}

/// Compiles or reads every input, executes the schedules of its loops, writes.
pub fn run(args: &CostArgs) -> Result<Outcome> {
    let mut session = args.compile.session()?;
    session.launch =
        LaunchHints { threads: args.threads, smem_dynamic_bytes: args.smem_dynamic, ..LaunchHints::default() };
    session.wanted.live_values = false;
    session.wanted.warps = args.accesses || session.wanted.warps;
    session.wanted.costs = Costs::Asked {
        line: args.line.map(Line),
        warps: args.warps.map_or(0, |counts| counts.0),
        latency: args.latency.unwrap_or_else(|| Memory::from(args.memory).latency()),
        hazards: args.hazards,
        accesses: args.accesses,
    };
    let inputs = given::expand(&session.inputs, &args.compile.settings()?)?;
    given::refuse_idle_flags(&inputs, &session.flags)?;
    let progress = Progress::new("compiling", args.output.quiet);
    let units: Vec<Unit> =
        inspect_all(&session, &inputs, View::Report, &progress).into_iter().map(|(unit, _)| unit).collect();
    drop(progress);
    match args.format {
        CostFormat::Json => output::write(&args.output, args.format, |out| emit::cost::write_json(&units, out))?,
        CostFormat::Text => {
            let options = emit::cost::Options {
                width: output::width(&args.output),
                verbose: args.output.verbose,
                accesses: args.accesses,
            };
            output::write(&args.output, args.format, |out| emit::cost::write_text(&units, &options, out))?;
        }
    }
    let mut errors = output::errors();
    for unit in &units {
        emit::text::write_unit_error(unit, &mut errors)?;
    }
    if units.iter().any(|unit| unit.error.is_some()) {
        return Ok(Outcome::Failed);
    }
    let mut costs = units.iter().flat_map(|unit| &unit.kernels).flat_map(|kernel| kernel.costs.iter().flatten());
    if let (Some(line), None) = (args.line, costs.next()) {
        anyhow::bail!("--loop {line}: no loop has an instruction of that line; without --loop every loop is shown");
    }
    let is_early = |unit: &Unit| {
        unit.kernels.iter().any(|kernel| kernel.hazards.as_ref().is_some_and(|hazards| !hazards.found.is_empty()))
    };
    Ok(if units.iter().any(is_early) { Outcome::Findings } else { Outcome::Fine })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_warps_are_numbers_lists_and_ranges() {
        let bits = |text: &str| text.parse::<WarpCounts>().map(|counts| counts.0);
        assert_eq!(bits("4"), Ok(0b1000));
        assert_eq!(bits("1,2,8"), Ok(0b1000_0011));
        assert_eq!(bits("1..16"), Ok(u16::MAX));
        assert_eq!(bits("2..=3"), Ok(0b110));
        assert!(bits("0").is_err() && bits("17").is_err() && bits("3..2").is_err() && bits("").is_err());
    }
}
