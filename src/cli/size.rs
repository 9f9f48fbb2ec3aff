//! `ptxinspect size X…`: where the bytes of a library are.

use std::io::Write;

use anyhow::{Result, bail};
use clap::builder::PossibleValue;
use clap::{Args as ClapArgs, ValueEnum};

use super::args::OutputArgs;
use super::choose::ChooseArgs;
use super::progress::Progress;
use super::{Outcome, output};
use crate::emit;
use crate::emit::clean::Form;
use crate::emit::size::Sheet;
use crate::engine::{self, foreign};
use crate::report::size::By;

/// `ptxinspect size X…`
#[derive(Debug, ClapArgs)]
pub struct SizeArgs {
    /// What to look at.
    #[command(flatten)]
    pub choose: ChooseArgs,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// What the bytes are put together by
    #[arg(long, value_name = "WHAT", default_value = "template", help_heading = "Output")]
    pub by: By,
    /// How many rows to show, 0 for all of them [default: 30]
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub top: Option<usize>,
    /// The form of the table
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: SizeFormat,
}

/// Forms of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SizeFormat {
    /// For people
    Text,
    /// For programs: docs/schema/size-v1.schema.json
    Json,
    /// A page with a map of the bytes, in one file that needs no network
    Html,
}

impl From<SizeFormat> for Form {
    fn from(format: SizeFormat) -> Self {
        match format {
            SizeFormat::Text => Form::Text,
            SizeFormat::Json => Form::Json,
            SizeFormat::Html => Form::Plain,
        }
    }
}

impl ValueEnum for By {
    fn value_variants<'a>() -> &'a [Self] {
        &[By::Template, By::Namespace, By::Kernel, By::Arch, By::File, By::Section]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            By::Template => ("template", "Function templates, and functions that are none"),
            By::Namespace => ("namespace", "Namespaces, and classes in them"),
            By::Kernel => ("kernel", "Kernels and device functions"),
            By::Arch => ("arch", "Architectures"),
            By::File => ("file", "Files that hold GPU code"),
            By::Section => ("section", "What the bytes are for: code, debug information, symbols, …"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

/// Rows that are shown when nobody says how many.
const ROWS: usize = 30;

/// Counts and shows.
pub fn run(args: &SizeArgs) -> Result<Outcome> {
    let choose = args.choose.choose()?;
    let size = engine::size::size(&choose, args.by, &Progress::of_bytes(args.output.quiet))?;
    let inputs: Vec<String> = args.choose.inputs.iter().map(|path| path.display().to_string()).collect();
    let mut errors = output::errors();
    for failure in &size.errors {
        emit::text::write_error(&format!("{}: {}", failure.path, failure.message), &mut errors)?;
    }
    errors.flush()?;
    if size.files.is_empty() && !size.errors.is_empty() && args.format == SizeFormat::Text {
        return Ok(Outcome::Failed);
    }
    if size.files.is_empty() && size.errors.is_empty() {
        if choose.kernel.is_empty() && choose.arch.is_empty() && choose.within.entry.is_empty() {
            bail!("{}", foreign::without_gpu_code(&args.choose.inputs));
        }
        bail!("nothing that was asked for is in {}: `ptxinspect list` says what is", inputs.join(", "));
    }
    let sheet = Sheet {
        inputs: &inputs,
        size: &size,
        top: match args.top.unwrap_or(ROWS) {
            0 => usize::MAX,
            top => top,
        },
        width: output::width(&args.output),
        verbose: args.output.verbose,
    };
    output::write(&args.output, args.format, |out| match args.format {
        SizeFormat::Text => emit::size::write_text(&sheet, out),
        SizeFormat::Json => emit::size::write_json(&sheet, out),
        SizeFormat::Html => emit::size::write_html(&sheet, out),
    })?;
    Ok(if size.errors.is_empty() { Outcome::Fine } else { Outcome::Failed })
}
