//! The command line as it is spelt: strings and switches, no decisions yet. One definition feeds help, man page and
//! completions.

use std::path::PathBuf;
use std::sync::Arc;

use super::choose::WithinArgs;
use super::limits::LimitArgs;
use super::occupancy::OccupancyArgs;
use super::toolchain::INSTALLING;
use crate::base::Threads;
use crate::cache::Cache;
use crate::emit::clean::Form;
use crate::engine;
use crate::engine::compile::{Session, environment};
use crate::engine::settings::Settings;
use crate::flow::Rule;
use crate::report::RoleHint;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum, ValueHint};

/// Bytes of shared memory: `163840`, `160K`.
pub fn smem_bytes(text: &str) -> Result<u64, String> {
    super::limits::bytes(text).map_err(|_| "expected a number of bytes, such as 163840 or 160K".to_owned())
}

/// A line of the PTX.
fn line(text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| "expected the number of a line of the PTX, such as 185".to_owned())
}

const EXAMPLES: &str = "\
Examples:
  ptxinspect kernel.ptx --arch sm_100a             the report
  ptxinspect kernel.ptx --arch sm_90a,sm_100a      for two architectures
  ptxinspect kernel.ptx --ptxas 12.9 -- -O1        another ptxas, and flags
  ptxinspect kernel.cubin --format json            of a cubin, for scripts
  ptxinspect libfoo.so --arch sm_90a --sort spills a library, wheel or folder
  ptxinspect size libfoo.so --by template          where its bytes are
  ptxinspect annotate kernel.ptx                   each PTX line with its SASS
  ptxinspect disasm kernel.cubin                   SASS with live registers
  ptxinspect timeline kernel.ptx                   barriers: who waits for whom
  ptxinspect tune kernel.ptx                       flags and small edits, tried
  ptxinspect gate kernels/*.ptx                    compare with what is recorded
  ptxinspect diff old.ptx new.ptx                  what a change did
  ptxinspect toolchain install 13.4                get a ptxas
  ptxinspect explain C7508                         what a message means

Environment:
  PTXINSPECT_PTXAS       the ptxas to run: a path or a version, as --ptxas
  PTXINSPECT_OFFLINE     set to 1: fetch nothing, as --offline
  PTXINSPECT_TOOLCHAINS  the folder of installed ptxas versions
  PTXINSPECT_CACHE       the folder of what ptxas has made before
  PTXINSPECT_CACHE_URL   a cache that machines share, behind it: a folder,
                         redis://, s3://, https://, github:
  PTXINSPECT_NVDISASM    the nvdisasm that disasm --disassembler nvdisasm runs
  PTXINSPECT_PAGER       what shows long text on a terminal; else PAGER,
                         else less; cat shows it at once
  PTXINSPECT_HYPERLINK_FORMAT
                         what --hyperlinks lead to: file://{path},
                         vscode://file{path}:{line}, …
  PTXINSPECT_COLUMNS     how wide text is where standard output is no terminal
  CUDA_HOME, CUDA_PATH   a toolkit whose ptxas is taken;
                         NO_COLOR and CLICOLOR_FORCE are obeyed

Exit status: 0 fine, 1 findings (--deny), 2 it could not do the job.";

/// Where did my registers go? ptxas, cubin, SASS and line tables joined on the PTX line.
#[derive(Debug, Parser)]
#[command(name = "ptxinspect", version, about, after_help = EXAMPLES, max_term_width = 100)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub struct Args {
    /// What to do; without one, the report.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The report's own arguments.
    #[command(flatten)]
    pub report: ReportArgs,
}

/// Everything but the report.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// PTX (or source) with the SASS it became, line by line: live registers, spills, barriers, loops
    Annotate(AnnotateArgs),
    /// SASS in its order, with live registers, PTX lines and source lines
    Disasm(DisasmArgs),
    /// Compare with a recorded baseline; exit 1 where something got worse
    Gate(Box<super::gate::GateArgs>),
    /// What kernels came to over commits and ptxas releases: what gate --record wrote, drawn
    History(super::history::HistoryArgs),
    /// Two builds side by side: figures, lines, code
    Diff(super::diff::DiffArgs),
    /// Kernels × architectures × ptxas versions × flags, as a table
    Matrix(super::matrix::MatrixArgs),
    /// How many blocks an SM holds: a calculator, for one launch or for JSON lines of them
    Occupancy(OccupancyArgs),
    /// Barriers executed and drawn: who waits, arrives, copies and multiplies, and who waits for whom
    Timeline(super::timeline::TimelineArgs),
    /// What a turn of each loop costs: cycles by warps, what bounds it, what is waited for
    Cost(super::cost::CostArgs),
    /// ptxas flags and small edits of the PTX, tried: what removes spills, fits one more block, saves instructions
    Tune(super::tune::TuneArgs),
    /// Managed ptxas versions: list, install, path, remove
    Toolchain(ToolchainArgs),
    /// What ptxas has made before: info, clear, verify
    Cache(super::cache::CacheArgs),
    /// What GPU code is inside: fatbins, programs, libraries, archives, wheels, caches
    List(super::list::ListArgs),
    /// Where the bytes are: by architecture, template, namespace, file, section; code that is there twice
    Size(super::size::SizeArgs),
    /// Take cubins and PTX out of what holds them
    Extract(super::extract::ExtractArgs),
    /// What a code of ptxas or of our checks means and what to do about it
    Explain(ExplainArgs),
    /// Serve an agent: inspect, annotate, diff, occupancy and explain as tools of the Model Context Protocol, over standard streams
    Mcp,
    /// A completion script for your shell, on standard output
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// The manual page of the program or of one command, in roff, on standard output
    Man(super::manual::ManArgs),
    /// The JSON Schema of an output: report, library, diff, gate, …
    Schema(super::schema::SchemaArgs),
}

/// What to compile and how.
#[derive(Clone, Debug, ClapArgs)]
pub struct CompileArgs {
    /// PTX files or cubins, or anything that holds them: fatbins, programs, libraries, archives, wheels, folders; - is standard input
    #[arg(required = true, value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,
    /// Architectures to compile PTX for, and to choose from a library: repeat, or separate with commas [default: the PTX's
    /// .target, all of a library]
    #[arg(long, short, value_delimiter = ',', value_name = "SM", help_heading = "Compiling")]
    pub arch: Vec<String>,
    /// The ptxas to run: a path, or a version such as 13.4 or 12.9.86, installed on first use
    #[arg(long, value_name = "PATH|VERSION", help_heading = "Compiling")]
    pub ptxas: Option<String>,
    /// Only kernels whose mangled or demangled name matches (* and ?); repeat for several
    #[arg(long, short, value_name = "GLOB", help_heading = "Choosing")]
    pub kernel: Vec<String>,
    /// How many compilations to run at once [default: one a core]
    #[arg(long, short, value_name = "N", help_heading = "Compiling")]
    pub jobs: Option<usize>,
    /// Which parts of containers.
    #[command(flatten)]
    pub within: WithinArgs,
    /// How much an input may cost.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Flags handed to ptxas as they are, after --
    #[arg(last = true, value_name = "PTXAS FLAGS")]
    pub flags: Vec<String>,
}

impl CompileArgs {
    /// What the flags decide.
    pub fn settings(&self) -> anyhow::Result<Settings> {
        let CompileArgs { inputs, arch, ptxas, kernel, jobs, within, limits, flags } = self.clone();
        let offline = limits.offline;
        let (within, limits) = (within.within(&limits), limits.limits()?);
        Ok(Settings { inputs, arch, ptxas, kernel, jobs, within, limits, flags, offline })
    }

    /// A run that tells standard error of the ptxas it installs.
    pub fn session(&self) -> anyhow::Result<Session> {
        session(&self.settings()?)
    }
}

/// A run that tells standard error of the ptxas it installs.
pub fn session(settings: &Settings) -> anyhow::Result<Session> {
    let mut session = Session::new(settings)?;
    session.installing = INSTALLING;
    Ok(session)
}

/// How to run ptxas where there is much to compile.
#[derive(Clone, Debug, ClapArgs)]
pub struct RunArgs {
    /// How many compilations to run at once [default: one a core]
    #[arg(long, short, value_name = "N", help_heading = "Compiling")]
    pub jobs: Option<usize>,
    /// Run ptxas even where its result is in the cache, and keep nothing
    #[arg(long, help_heading = "Compiling")]
    pub no_cache: bool,
    /// How much an input may cost.
    #[command(flatten)]
    pub limits: LimitArgs,
}

impl RunArgs {
    /// What ptxas has made before; none where it is to run in any case.
    pub fn cache(&self) -> anyhow::Result<Option<Arc<Cache>>> {
        if self.no_cache { Ok(None) } else { engine::cache::of(&environment()?, super::cache::warn) }
    }
}

/// How to show it.
#[derive(Clone, Debug, ClapArgs)]
pub struct OutputArgs {
    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// When to colour text
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub color: ColorWhen,
    /// When names and line numbers are links to their files; where there are colours
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Output")]
    pub hyperlinks: When,
    /// More: mangled names, attributes, every line
    #[arg(long, short, help_heading = "Output")]
    pub verbose: bool,
    /// No progress and no remarks on standard error
    #[arg(long, short, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,
    /// Do it again whenever an input changes
    #[arg(long, help_heading = "Output")]
    pub watch: bool,
}

/// When something is shown that not every terminal knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// On a terminal that knows it
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// `ptxinspect FILE…`
#[derive(Clone, Debug, ClapArgs)]
pub struct ReportArgs {
    /// What to compile.
    #[command(flatten)]
    pub compile: CompileArgs,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The form of the report
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: ReportFormat,
    /// Threads of a block, for kernels whose directives do not say: 256, or by axis 32x8
    #[arg(long, value_name = "N|XxY", help_heading = "Occupancy")]
    pub threads: Option<Threads>,
    /// Bytes of shared memory asked for at launch, for the occupancy
    #[arg(long, value_name = "BYTES", value_parser = smem_bytes, help_heading = "Occupancy")]
    pub smem_dynamic: Option<u64>,
    /// Compile again, held to the registers with which one more block fits on an SM, and say what that spills
    #[arg(long, help_heading = "Occupancy")]
    pub try_step: bool,
    /// Also show which values are alive at this PTX line (repeat, or separate with commas)
    #[arg(long, value_name = "LINE", value_delimiter = ',', value_parser = line, help_heading = "Output")]
    pub at: Vec<u32>,
    /// Where the front end's source files are, for the page [default: the working folder]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub source_root: Option<PathBuf>,
    /// Warps of each role, where the code does not tell: producer=4,consumer=8
    #[arg(long, value_delimiter = ',', value_name = "NAME=WARPS", value_parser = role_hint, help_heading = "Occupancy")]
    pub roles: Vec<RoleHint>,
    /// How many of the hottest lines to show, or of a library's kernels, 0 for all of them [default: 5 lines, 30 kernels]
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub top: Option<usize>,
    /// Exit 1 on this: a code of ptxas or of our checks (C7508, PI203), "warnings", "advisories", "spills" or "stack" (repeat, or separate with commas)
    #[arg(long, value_delimiter = ',', value_name = "CODE", help_heading = "Choosing")]
    pub deny: Vec<String>,
    /// Codes that --deny lets pass
    #[arg(long, value_delimiter = ',', value_name = "CODE", help_heading = "Choosing")]
    pub allow: Vec<String>,
    /// Execute barriers with more inputs and in more orders: seconds instead of milliseconds
    #[arg(long, help_heading = "Choosing")]
    pub thorough: bool,
    /// What only concerns libraries, archives, wheels and folders.
    #[command(flatten)]
    pub table: super::library::TableArgs,
}

/// `producer=4`
fn role_hint(text: &str) -> Result<RoleHint, String> {
    let expected = || format!("expected NAME=WARPS such as producer=4, found '{text}'");
    let (name, warps) = text.split_once('=').ok_or_else(expected)?;
    let warps = warps.trim().parse().ok().filter(|warps| (1..=32).contains(warps)).ok_or_else(expected)?;
    Ok(RoleHint { name: name.trim().to_owned(), warps })
}

/// `ptxinspect annotate FILE…`
#[derive(Debug, ClapArgs)]
pub struct AnnotateArgs {
    /// What to compile.
    #[command(flatten)]
    pub compile: CompileArgs,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The form of the annotation
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: AnnotateFormat,
    /// Whose lines the SASS stands under
    #[arg(long, value_name = "LINES", default_value = "ptx", help_heading = "Output")]
    pub by: AnnotateBy,
    /// Where the front end's source files are, for --by source and the page [default: the working folder]
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub source_root: Option<PathBuf>,
    /// Only lines A to B
    #[arg(long, value_name = "A..B", help_heading = "Choosing")]
    pub lines: Option<String>,
    /// Only lines near the peak of live registers or with spills
    #[arg(long, help_heading = "Choosing")]
    pub only_hot: bool,
    /// Show stall counts and scoreboards
    #[arg(long, help_heading = "Output")]
    pub control: bool,
    /// Show when each instruction issues with one warp alone, how long it waits and for whom: an estimate, for sm_90
    #[arg(long, help_heading = "Output")]
    pub cycles: bool,
    /// Cut lines after this many columns [default: the terminal's width; no cut in a file or pipe]
    #[arg(long, value_name = "COLUMNS", help_heading = "Output")]
    pub width: Option<usize>,
    /// Threads of a block, for kernels whose directives do not say: 256, or by axis 32x8
    #[arg(long, value_name = "N|XxY", help_heading = "Occupancy")]
    pub threads: Option<Threads>,
    /// Bytes of shared memory asked for at launch, for the occupancy
    #[arg(long, value_name = "BYTES", value_parser = smem_bytes, help_heading = "Occupancy")]
    pub smem_dynamic: Option<u64>,
}

/// Forms of the annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AnnotateFormat {
    /// For people
    Text,
    /// PTX that compiles to the same code, annotated by comments
    Ptx,
    /// For editors: one JSON record a line
    Json,
    /// A page to explore, in one file that needs no network
    Html,
    /// The pressure curve as a picture
    Svg,
}

impl From<AnnotateFormat> for Form {
    fn from(format: AnnotateFormat) -> Self {
        match format {
            AnnotateFormat::Text => Form::Text,
            AnnotateFormat::Json => Form::Json,
            AnnotateFormat::Ptx | AnnotateFormat::Html | AnnotateFormat::Svg => Form::Plain,
        }
    }
}

/// Whose lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AnnotateBy {
    /// The PTX's
    Ptx,
    /// The front end's source files'
    Source,
}

/// `ptxinspect disasm FILE…`
#[derive(Debug, ClapArgs)]
pub struct DisasmArgs {
    /// What to compile.
    #[command(flatten)]
    pub compile: CompileArgs,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The form of the listing
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: TextOrJson,
    /// How live registers are counted
    #[arg(long, value_name = "RULE", default_value = "sound", help_heading = "Output")]
    pub liveness: LivenessRule,
    /// Show each word in hexadecimal
    #[arg(long, help_heading = "Output")]
    pub hex: bool,
    /// Show stall counts and scoreboards
    #[arg(long, help_heading = "Output")]
    pub control: bool,
    /// Say stall counts, scoreboards and operands kept for reuse in words, below each instruction
    #[arg(long, help_heading = "Output")]
    pub explain_control: bool,
    /// Show which registers are live, below each instruction
    #[arg(long, help_heading = "Output")]
    pub sets: bool,
    /// Whose texts and live counts to show: ours, or nvdisasm's for comparison, under whose rule --sets is then
    #[arg(long, value_name = "WHICH", default_value = "native", help_heading = "Output")]
    pub disassembler: Disassembler,
}

/// Whose texts and live counts a listing has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Disassembler {
    /// Our own decoder and liveness
    Native,
    /// The nvdisasm that PTXINSPECT_NVDISASM names, on PATH, beside a ptxas or in a Python wheel
    Nvdisasm,
}

/// `ptxinspect toolchain …`
#[derive(Debug, ClapArgs)]
pub struct ToolchainArgs {
    /// What to do with them
    #[command(subcommand)]
    pub action: ToolchainAction,
}

/// What can be done with managed ptxas versions.
#[derive(Debug, Subcommand)]
pub enum ToolchainAction {
    /// Every ptxas at hand, and the one a plain run would take
    List {
        /// The form of the list
        #[arg(long, short, default_value = "text")]
        format: TextOrJson,
        /// Ask the package index which versions can be installed
        #[arg(long)]
        available: bool,
    },
    /// Install a version: 13.4 is the newest 13.4.x, 12.9.86 just that one
    Install {
        /// The versions
        #[arg(required = true)]
        versions: Vec<String>,
        /// No progress
        #[arg(long, short)]
        quiet: bool,
    },
    /// Print the path of a version's ptxas, or of the one a plain run would take
    Path {
        /// The version
        version: Option<String>,
    },
    /// Remove installed versions
    Remove {
        /// The versions
        #[arg(required = true)]
        versions: Vec<String>,
    },
}

/// `ptxinspect explain`
#[derive(Debug, ClapArgs)]
pub struct ExplainArgs {
    /// A code, such as C7508; a word of an estimate, bound or stall; an instruction, such as
    /// mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32, for the elements that its registers hold; `idesc NUMBER [KIND]` or
    /// `sdesc NUMBER [wgmma|tcgen05]` for a descriptor; without one, every code and word there is a page for
    #[arg(value_name = "CODE", num_args = 0..=3)]
    pub what: Vec<String>,
    /// The form of the page
    #[arg(long, short, default_value = "text")]
    pub format: TextOrJson,
}

/// Forms of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people
    Text,
    /// For programs: docs/schema/report-v1.schema.json; of a library docs/schema/library-v1.schema.json
    Json,
    /// The table of kernels, one JSON record a line, as they come
    Jsonl,
    /// The table of kernels for a spreadsheet
    Csv,
    /// The table of kernels for a pull request
    Markdown,
    /// A page to explore, in one file that needs no network
    Html,
}

impl From<ReportFormat> for Form {
    fn from(format: ReportFormat) -> Self {
        match format {
            ReportFormat::Text => Form::Text,
            ReportFormat::Json | ReportFormat::Jsonl => Form::Json,
            ReportFormat::Csv | ReportFormat::Markdown | ReportFormat::Html => Form::Plain,
        }
    }
}

/// How live registers are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LivenessRule {
    /// A register is live where some path reads it before it is certainly overwritten
    Sound,
    /// As nvdisasm's -lrm count does: docs/liveness.md says where the two differ
    Nvdisasm,
}

impl From<LivenessRule> for Rule {
    fn from(rule: LivenessRule) -> Rule {
        match rule {
            LivenessRule::Sound => Rule::Sound,
            LivenessRule::Nvdisasm => Rule::Nvdisasm,
        }
    }
}

/// Forms of a small list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TextOrJson {
    /// For people
    Text,
    /// For programs
    Json,
}

impl From<TextOrJson> for Form {
    fn from(format: TextOrJson) -> Self {
        match format {
            TextOrJson::Text => Form::Text,
            TextOrJson::Json => Form::Json,
        }
    }
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}
