//! `ptxinspect gate` as it is spelt.

use crate::base::Threads;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use clap::{Args as ClapArgs, ValueEnum, ValueHint};

use crate::cli::args::{OutputArgs, RunArgs};
use crate::cli::choose::WithinArgs;
use crate::cli::toolchain::INSTALLING;
use crate::emit::clean::Form;
use crate::engine::gate::Request;
use crate::gate::{Date, Moment, Shard};

const EXAMPLES: &str = "\
Examples:
  ptxinspect gate kernels/*.ptx --arch sm_90a,sm_100a --update    record what there is
  ptxinspect gate kernels/*.ptx --arch sm_90a,sm_100a             compare with it
  ptxinspect gate build/libfoo.so                                 a built library: no PTX is needed
  ptxinspect gate                                                 as ptxinspect.toml says
  ptxinspect gate --update --kernel 'gemm_*'                      the change to these is meant
  ptxinspect gate --format github --write sarif=gate.sarif        for CI: docs/ci.md
  ptxinspect gate --record figures.jsonl                          remember the figures of this commit
  ptxinspect gate --shard 3/16 --output part-3.json               a part of it, on one of 16 machines
  ptxinspect gate --merge part-*.json                             the verdict over all parts

Exit status: 0 nothing is worse, 1 something is, 2 it could not be told.";

/// `ptxinspect gate …`
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct GateArgs {
    /// PTX files or cubins, or libraries, archives, wheels and folders with them [default: inputs of the policy]
    #[arg(value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,
    /// The recorded figures [default: ptxinspect.lock.json beside the policy, or here]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Comparing")]
    pub baseline: Option<PathBuf>,
    /// The policy [default: ptxinspect.toml here or in a folder above]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Comparing")]
    pub policy: Option<PathBuf>,
    /// Record what is measured; with --kernel, of those kernels only
    #[arg(long, help_heading = "Comparing")]
    pub update: bool,
    /// Add what is measured to a file of figures over commits and ptxas releases, which `ptxinspect history` draws
    #[arg(long, value_name = "FILE", conflicts_with_all = ["shard", "part"], value_hint = ValueHint::FilePath, help_heading = "History")]
    pub record: Option<PathBuf>,
    /// The commit that is recorded [default: what CI says, or the one that git has checked out]
    #[arg(long, value_name = "ID", requires = "record", help_heading = "History")]
    pub commit: Option<String>,
    /// When that was, in UTC, such as 2027-03-31 or 2027-03-31T18:05:00Z [default: now]
    #[arg(long, value_name = "TIME", requires = "record", help_heading = "History")]
    pub commit_time: Option<Moment>,
    /// Improvements must be recorded, too
    #[arg(long, help_heading = "Comparing")]
    pub ratchet: bool,
    /// Fail on this: a code of ptxas or of our checks (C7508, PI203), "warnings", "advisories", "spills" or "stack" (repeat, or separate with commas)
    #[arg(long, value_delimiter = ',', value_name = "CODE", help_heading = "Comparing")]
    pub deny: Vec<String>,
    /// The day that allowances are held against [default: today, in UTC]
    #[arg(long, value_name = "DATE", hide = true)]
    pub today: Option<Date>,
    /// Architectures to compile PTX for: repeat, or separate with commas [default: the policy's, or the PTX's .target]
    #[arg(long, short, value_delimiter = ',', value_name = "SM", help_heading = "Compiling")]
    pub arch: Vec<String>,
    /// ptxas versions or paths: repeat, or separate with commas [default: the policy's, or the one at hand]
    #[arg(long, value_delimiter = ',', value_name = "PATH|VERSION", help_heading = "Compiling")]
    pub ptxas: Vec<String>,
    /// How to run ptxas.
    #[command(flatten)]
    pub run: RunArgs,
    /// The inputs as they were: a PTX file or cubin, a folder with them, or a JSON report, to say which lines changed
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath, help_heading = "Comparing")]
    pub old: Option<PathBuf>,
    /// Only kernels whose mangled or demangled name matches (* and ?); repeat for several
    #[arg(long, short, value_name = "GLOB", help_heading = "Choosing")]
    pub kernel: Vec<String>,
    /// Threads of a block, for kernels whose directives do not say: 256, or by axis 32x8
    #[arg(long, value_name = "N|XxY", help_heading = "Occupancy")]
    pub threads: Option<Threads>,
    /// Bytes of shared memory asked for at launch, for the occupancy
    #[arg(long, value_name = "BYTES", help_heading = "Occupancy")]
    pub smem_dynamic: Option<u64>,
    /// Execute barriers with more inputs and in more orders: seconds a kernel instead of milliseconds
    #[arg(long, help_heading = "Choosing")]
    pub thorough: bool,
    /// Which parts of libraries.
    #[command(flatten)]
    pub within: WithinArgs,
    /// Measure part I of N and write it as JSON (to --output, or standard output); --merge gives the verdict
    #[arg(long, value_name = "I/N", help_heading = "Sharding", conflicts_with_all = ["update", "merge", "format", "write", "old"])]
    pub shard: Option<Shard>,
    /// Measure the named inputs and write them as JSON, as --shard does: for build systems, which make each kernel an action of its own
    #[arg(long, help_heading = "Sharding", requires = "inputs", conflicts_with_all = ["shard", "update", "merge", "format", "write", "old"])]
    pub part: bool,
    /// The verdict over what all parts measured: as one run with the same arguments gives it
    #[arg(long, value_name = "PART", num_args = 1.., value_hint = ValueHint::FilePath, help_heading = "Sharding")]
    pub merge: Vec<PathBuf>,
    /// How long everything took, to make shards equally long: what --record-times wrote, the same for every shard [default: by size]
    #[arg(long, value_name = "FILE", requires = "shard", value_hint = ValueHint::FilePath, help_heading = "Sharding")]
    pub times: Option<PathBuf>,
    /// Write how long everything took, for --times of later runs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["shard", "part"], value_hint = ValueHint::FilePath, help_heading = "Sharding")]
    pub record_times: Option<PathBuf>,
    /// The form of the verdict
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: GateFormat,
    /// Write the verdict in another form to a file as well, such as sarif=gate.sarif; repeat for several
    #[arg(long, value_name = "FORMAT=FILE", help_heading = "Output")]
    pub write: Vec<ExtraOutput>,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Flags handed to ptxas as they are, after --
    #[arg(last = true, value_name = "PTXAS FLAGS")]
    pub flags: Vec<String>,
}

impl GateArgs {
    /// What a change of which is worth another verdict: where only the policy names inputs, the working folder.
    pub fn watched(&self) -> Vec<PathBuf> {
        if self.inputs.is_empty() { vec![PathBuf::from(".")] } else { self.inputs.clone() }
    }

    /// What the flags decide.
    pub fn request(&self) -> Result<Request> {
        Ok(Request {
            inputs: self.inputs.clone(),
            baseline: self.baseline.clone(),
            policy: self.policy.clone(),
            ratchet: self.ratchet,
            deny: self.deny.clone(),
            arch: self.arch.clone(),
            ptxas: self.ptxas.clone(),
            jobs: self.run.jobs,
            no_cache: self.run.no_cache,
            limits: self.run.limits.limits()?,
            offline: self.run.limits.offline,
            within: self.within.within(&self.run.limits),
            kernel: self.kernel.clone(),
            threads: self.threads,
            smem_dynamic: self.smem_dynamic,
            thorough: self.thorough,
            flags: self.flags.clone(),
            installing: INSTALLING,
            told: crate::cli::cache::warn,
        })
    }
}

/// Forms of the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GateFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// For a comment on a pull request
    Markdown,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// JUnit XML, for test reports
    Junit,
    /// GitHub's annotations
    Github,
    /// A page that needs nothing else
    Html,
    /// The change of the baseline, as git apply takes it, if all of it is meant
    Patch,
}

impl From<GateFormat> for Form {
    fn from(format: GateFormat) -> Self {
        match format {
            GateFormat::Text => Form::Text,
            // A patch is of the baseline, which is JSON.
            GateFormat::Json | GateFormat::Sarif | GateFormat::Patch => Form::Json,
            GateFormat::Markdown | GateFormat::Junit | GateFormat::Html => Form::Plain,
            GateFormat::Github => Form::Commands,
        }
    }
}

/// A form and a file to write it to.
#[derive(Clone, Debug)]
pub struct ExtraOutput {
    /// The form.
    pub format: GateFormat,
    /// The file.
    pub path: PathBuf,
}

impl FromStr for ExtraOutput {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (format, path) = text.split_once('=').ok_or("expected FORMAT=FILE, such as sarif=gate.sarif")?;
        Ok(ExtraOutput { format: GateFormat::from_str(format, true)?, path: PathBuf::from(path) })
    }
}
