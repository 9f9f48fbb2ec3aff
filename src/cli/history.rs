//! `ptxinspect history FILE`: what kernels came to over commits and ptxas releases.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args as ClapArgs, ValueEnum, ValueHint};

use super::args::OutputArgs;
use super::{Outcome, output};
use crate::emit;
use crate::emit::clean::Form;
use crate::emit::history::Chart;
use crate::engine::glob::Globs;
use crate::engine::history;
use crate::gate::{Metric, Record};
use crate::report::demangle;

/// `ptxinspect history FILE`
#[derive(Debug, ClapArgs)]
pub struct HistoryArgs {
    /// What `ptxinspect gate --record FILE` wrote
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Only kernels whose mangled or demangled name matches (* and ?); repeat for several
    #[arg(long, short, value_name = "GLOB", help_heading = "Choosing")]
    pub kernel: Vec<String>,
    /// Only these architectures: repeat, or separate with commas
    #[arg(long, short, value_delimiter = ',', value_name = "SM", help_heading = "Choosing")]
    pub arch: Vec<String>,
    /// Only what these ptxas releases made: 13.4 is every 13.4.x (repeat, or separate with commas)
    #[arg(long, value_delimiter = ',', value_name = "VERSION", help_heading = "Choosing")]
    pub ptxas: Vec<String>,
    /// Figures to draw, such as registers, spill_store_bytes or code_bytes (repeat, or separate with commas) [default: those that changed]
    #[arg(long, value_delimiter = ',', value_name = "FIGURE", help_heading = "Choosing")]
    pub figure: Vec<Metric>,
    /// Only the last N commits
    #[arg(long, value_name = "N", help_heading = "Choosing")]
    pub last: Option<usize>,
    /// Also kernels whose figures never changed
    #[arg(long, help_heading = "Choosing")]
    pub all: bool,
    /// The form of the history
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: HistoryFormat,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Forms of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HistoryFormat {
    /// For people
    Text,
    /// For programs: docs/schema/history-v1.schema.json
    Json,
    /// Curves as a picture
    Svg,
    /// A page with the curves and every change, in one file that needs no network
    Html,
}

impl From<HistoryFormat> for Form {
    fn from(format: HistoryFormat) -> Self {
        match format {
            HistoryFormat::Text => Form::Text,
            HistoryFormat::Json => Form::Json,
            HistoryFormat::Svg | HistoryFormat::Html => Form::Plain,
        }
    }
}

/// Reads and draws.
pub fn run(args: &HistoryArgs) -> Result<Outcome> {
    let name = args.file.display().to_string();
    let (_, mut history) = history::read(&args.file)?.with_context(|| {
        format!("cannot open {name}: there is no such file; `ptxinspect gate --record {name}` writes it")
    })?;
    if let Some(last) = args.last {
        history.keep_last(last.max(1));
    }
    let arches: Vec<String> =
        args.arch.iter().map(|arch| Ok(arch.parse::<crate::base::Arch>()?.to_string())).collect::<Result<_>>()?;
    let kernels = Globs::new(&args.kernel);
    let is_of = |version: &str, wanted: &String| {
        version.strip_prefix(wanted.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let wanted = |record: &Record| {
        let name = record.kernel.as_str();
        (arches.is_empty() || arches.contains(&record.arch))
            && (args.ptxas.is_empty()
                || record.ptxas.as_ref().is_some_and(|version| args.ptxas.iter().any(|wanted| is_of(version, wanted))))
            && (kernels.is_empty() || kernels.matches([name].into_iter().chain(demangle(name).as_deref())))
    };
    let tracks = history.tracks(wanted);
    if tracks.is_empty() {
        if history.records().is_empty() {
            bail!("{name} holds no records yet: `ptxinspect gate --record {name}` adds some");
        }
        bail!("nothing that was asked for is in {name}, which has {} records", history.records().len());
    }
    let commits = history.commits();
    let chart = Chart {
        file: &name,
        commits: &commits,
        tracks: &tracks,
        figures: &args.figure,
        all: args.all || !args.kernel.is_empty(),
        width: output::width(&args.output),
        verbose: args.output.verbose,
    };
    output::write(&args.output, args.format, |out| match args.format {
        HistoryFormat::Text => emit::history::write_text(&chart, out),
        HistoryFormat::Json => emit::history::write_json(&chart, out),
        HistoryFormat::Svg => emit::history::write_svg(&chart, out),
        HistoryFormat::Html => emit::history::write_html(&chart, out),
    })?;
    Ok(Outcome::Fine)
}
