//! `ptxinspect diff A B`: two builds side by side.

mod functions;
mod library;

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args as ClapArgs, ValueEnum, ValueHint};

use super::args::{CompileArgs, OutputArgs, RunArgs};
use super::choose::WithinArgs;
use super::{Outcome, output};
use crate::base::Arch;
use crate::base::work::{self, Deadline, TimeOver};
use crate::compare::{DIFF_SCHEMA, Difference, KernelDifference, differences};
use crate::cubin::{Image, lines::LineTable};
use crate::emit;
use crate::emit::clean::Form;
use crate::engine::compile::{Session, out_of_time};
use crate::engine::input::{self, Input};
use crate::engine::inspect::{Inspected, Job, View, inspect};
use crate::engine::threads::Pool;
use crate::report::{Report, SCHEMA, Unit};
use functions::Functions;
use library::{Changes, Library};

const EXAMPLES: &str = "\
Examples:
  ptxinspect diff old.ptx new.ptx --arch sm_90a        two versions of a kernel
  ptxinspect diff old.cubin new.cubin                  two builds
  ptxinspect diff old/libfoo.so new/libfoo.so          two libraries, wheels or folders
  ptxinspect diff old.json new.json                    two reports (--format json)
  ptxinspect diff k.ptx --ptxas 12.9,13.4              one kernel, two releases of ptxas
  ptxinspect diff k.ptx --arch sm_90a,sm_100a          one kernel, two architectures
  ptxinspect diff k.ptx --after-flags=-O1              one kernel, with and without a flag
  ptxinspect diff a.ptx b.ptx --format html -o d.html  as a page

Exit status: 0 compared, 1 something differs (--exit-code), 2 it could not do the job.";

/// Instructions that all hunks hold together; those beyond are counted.
const MOST_LINES: usize = 1 << 20;

/// Forms of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// For people
    Text,
    /// For programs
    Json,
    /// A page in one file
    Html,
}

impl From<DiffFormat> for Form {
    fn from(format: DiffFormat) -> Self {
        match format {
            DiffFormat::Text => Form::Text,
            DiffFormat::Json => Form::Json,
            DiffFormat::Html => Form::Plain,
        }
    }
}

/// `ptxinspect diff …`
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub struct DiffArgs {
    /// PTX, cubin, library or JSON report: one before, one after; or one PTX, built in two ways
    #[arg(required = true, num_args = 1..=2, value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,
    /// The architecture to compile PTX for, or two: before, after [default: the PTX's .target]
    #[arg(long, short, value_delimiter = ',', value_name = "SM", help_heading = "Compiling")]
    pub arch: Vec<String>,
    /// The ptxas to run, or two: before, after
    #[arg(long, value_delimiter = ',', value_name = "PATH|VERSION", help_heading = "Compiling")]
    pub ptxas: Vec<String>,
    /// Flags for ptxas on the first side only, separated by spaces
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, help_heading = "Compiling")]
    pub before_flags: Option<String>,
    /// Flags for ptxas on the second side only, separated by spaces
    #[arg(long, value_name = "FLAGS", allow_hyphen_values = true, help_heading = "Compiling")]
    pub after_flags: Option<String>,
    /// How to run ptxas.
    #[command(flatten)]
    pub run: RunArgs,
    /// Which parts of libraries.
    #[command(flatten)]
    pub within: WithinArgs,
    /// Only kernels whose mangled or demangled name matches (* and ?); repeat for several
    #[arg(long, short, value_name = "GLOB", help_heading = "Choosing")]
    pub kernel: Vec<String>,
    /// Exit 1 when something differs
    #[arg(long, help_heading = "Output")]
    pub exit_code: bool,
    /// How many lines and changes of code to show for a kernel
    #[arg(long, value_name = "N", default_value = "20", help_heading = "Output")]
    pub top: usize,
    /// The form of the comparison
    #[arg(long, short, default_value = "text", help_heading = "Output")]
    pub format: DiffFormat,
    /// How to show it.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Flags handed to ptxas on both sides, after --
    #[arg(last = true, value_name = "PTXAS FLAGS")]
    pub flags: Vec<String>,
}

/// One build: what the report says of it, and its instructions where there is code.
struct Loaded {
    unit: Unit,
    code: Code,
}

/// The instructions of a build.
enum Code {
    /// A report has none.
    Nowhere,
    /// In a cubin.
    Cubin(Vec<u8>),
    /// Where to find them.
    Library(Library),
}

/// Units of a side that cannot be compared, and why.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be compared", units.first().map_or("", |unit| unit.input.as_str()))]
struct Refused {
    units: Vec<Unit>,
}

/// Builds or reads both sides, compares, writes.
pub fn run(args: &DiffArgs) -> Result<Outcome> {
    check(args)?;
    let pool = Pool::start(args.run.jobs.unwrap_or(0));
    let (before, after) = pool.install(|| rayon::join(|| load(args, 0), || load(args, 1)));
    // Both sides are at work at once: what they complain of is said in order afterwards.
    for refused in [&before, &after].into_iter().filter_map(|side| side.as_ref().err()?.downcast_ref::<Refused>()) {
        for unit in &refused.units {
            emit::text::write_unit_error(unit, &mut output::errors())?;
        }
    }
    let (before, after) = (before?, after?);
    let mut units = Vec::new();
    let mut room = MOST_LINES;
    let time = args.run.limits.limits()?.time;
    for (old, new) in pairs(&before, &after)? {
        let compared = work::until(Deadline::after(time), || {
            let mut unit = differences(&old.unit, &new.unit);
            compare_code(&mut unit.kernels, old, new, &mut room);
            unit
        });
        match compared {
            Ok(unit) => units.push(unit),
            Err(TimeOver) => bail!("{} and {}: {}", old.unit.input, new.unit.input, out_of_time(time)),
        }
    }
    let difference = Difference { schema: DIFF_SCHEMA.to_owned(), units };
    let options = emit::diff::Options { top: args.top, width: output::width(&args.output) };
    output::write(&args.output, args.format, |out| match args.format {
        DiffFormat::Text => emit::diff::write_text(&difference, &options, out),
        DiffFormat::Json => emit::diff::write_json(&difference, out),
        DiffFormat::Html => emit::diff::write_html(&difference, &options, out),
    })?;
    if difference.units.iter().all(|unit| unit.kernels.is_empty()) {
        let kernels = |side: &[Loaded]| side.iter().map(|loaded| loaded.unit.kernels.len()).sum::<usize>();
        if kernels(&before) + kernels(&after) == 0 {
            if !args.kernel.is_empty() {
                bail!("--kernel {} matches no kernel of either side", args.kernel.join(", "));
            }
            if !args.output.quiet {
                writeln!(output::errors(), "no functions on either side")?;
            }
        }
    }
    let differs = difference.units.iter().flat_map(|unit| &unit.kernels).any(|kernel| !kernel.is_empty());
    Ok(if args.exit_code && differs { Outcome::Findings } else { Outcome::Fine })
}

/// One input has to be built in two ways, and no list may have more than two.
fn check(args: &DiffArgs) -> Result<()> {
    for (name, count) in [("--arch", args.arch.len()), ("--ptxas", args.ptxas.len())] {
        if count > 2 {
            bail!("{name} names {count}: expected one for both sides, or two");
        }
    }
    let ways = args.arch.len() == 2 || args.ptxas.len() == 2 || args.before_flags != args.after_flags;
    if args.inputs.len() == 1 && !ways {
        bail!(
            "there is nothing to compare {} with: name a second input, or two of --arch or --ptxas, or --after-flags",
            args.inputs[0].display()
        );
    }
    Ok(())
}

/// The one of a list that is for a side: its own, or the only one.
fn of_side<T: Clone>(list: &[T], side: usize) -> Option<T> {
    list.get(side).or(list.first()).cloned()
}

fn load(args: &DiffArgs, side: usize) -> Result<Vec<Loaded>> {
    let Some(path) = of_side(&args.inputs, side) else { bail!("there is no input") };
    let own = if side == 0 { &args.before_flags } else { &args.after_flags };
    let own = own.iter().flat_map(|flags| flags.split_whitespace()).map(str::to_owned);
    let asked = CompileArgs {
        inputs: vec![path.clone()],
        arch: of_side(&args.arch, side).into_iter().collect(),
        ptxas: of_side(&args.ptxas, side),
        limits: args.run.limits.clone(),
        kernel: args.kernel.clone(),
        jobs: args.run.jobs,
        within: args.within.clone(),
        flags: args.flags.iter().cloned().chain(own).collect(),
    };
    let mut session = asked.session()?;
    session.cache = args.run.cache()?;
    let limits = args.run.limits.limits()?;
    if input::is_container(&path, &limits)? {
        return library::load(&session, &path, args);
    }
    let read = input::read(&path, &limits)?;
    if read.bytes.trim_ascii_start().starts_with(b"{") {
        return load_report(&session, &read);
    }
    let arch = session.arches().first().copied().flatten();
    let loaded = build(&session, &path, Ok(read), arch)?;
    if let Some(cache) = &session.cache {
        cache.tidy();
    }
    Ok(vec![loaded])
}

fn load_report(session: &Session, read: &Input) -> Result<Vec<Loaded>> {
    let name = &read.name;
    let report: Report = serde_json::from_slice(&read.bytes)
        .with_context(|| format!("{name} is not a report of ptxinspect (--format json)"))?;
    if report.schema != SCHEMA {
        bail!("{name} is a report of schema '{}': expected '{SCHEMA}'", report.schema);
    }
    let mut units = report.units;
    for unit in &mut units {
        unit.kernels.retain(|kernel| {
            session.kernels.matches([kernel.name.as_str()].into_iter().chain(kernel.demangled.as_deref()))
        });
    }
    Ok(units.into_iter().map(|unit| Loaded { unit, code: Code::Nowhere }).collect())
}

fn build(session: &Session, path: &Path, read: Result<Input, String>, arch: Option<Arch>) -> Result<Loaded> {
    let job = Job { input: &read, path, arch, first: true, view: View::Report };
    let Some(Inspected { unit, built, .. }) = inspect(session, &job) else {
        bail!("{} cannot be read", path.display());
    };
    if unit.error.is_some() {
        return Err(Refused { units: vec![unit] }.into());
    }
    let cubin = built.map(|built| built.cubin.into_owned());
    Ok(Loaded { unit, code: cubin.map_or(Code::Nowhere, Code::Cubin) })
}

/// Which unit is compared with which: the only ones, or those of one file name and architecture.
fn pairs<'a>(before: &'a [Loaded], after: &'a [Loaded]) -> Result<Vec<(&'a Loaded, &'a Loaded)>> {
    if let ([old], [new]) = (before, after) {
        return Ok(vec![(old, new)]);
    }
    // Where each side is one file, its name may have changed.
    let inputs = |side: &[Loaded]| side.iter().map(|loaded| loaded.unit.input.clone()).collect::<BTreeSet<_>>().len();
    let named = inputs(before) > 1 || inputs(after) > 1;
    let key = |loaded: &Loaded| {
        let name = Path::new(&loaded.unit.input).file_name().filter(|_| named).map(|name| name.to_owned());
        (name, loaded.unit.arch.clone())
    };
    let mut first = HashMap::new();
    for old in before {
        first.entry(key(old)).or_insert(old);
    }
    let found: Vec<_> = after.iter().filter_map(|new| Some((*first.get(&key(new))?, new))).collect();
    if found.is_empty() {
        bail!("the two reports have no input and architecture in common");
    }
    Ok(found)
}

fn compare_code(kernels: &mut [KernelDifference], old: &Loaded, new: &Loaded, room: &mut usize) {
    // A kernel of one side may have the name of the other's.
    let kernels = kernels.iter_mut().filter(|kernel| kernel.side == "both");
    match (&old.code, &new.code) {
        (Code::Cubin(old), Code::Cubin(new)) => {
            let (Ok(old), Ok(new)) = (Image::parse(old), Image::parse(new)) else { return };
            let (old_lines, new_lines) = (LineTable::parse(&old), LineTable::parse(&new));
            let (old, new) = (Functions::new(&old, &old_lines), Functions::new(&new, &new_lines));
            for kernel in kernels {
                let old_name = kernel.before_name.as_ref().unwrap_or(&kernel.name);
                kernel.sass = old.changes(old_name, &new, &kernel.name, room);
            }
        }
        (Code::Library(old), Code::Library(new)) => {
            for kernel in kernels {
                let old_name = kernel.before_name.as_ref().unwrap_or(&kernel.name).clone();
                let (old_key, key) =
                    ((old_name, kernel.before_within.clone()), (kernel.name.clone(), kernel.within.clone()));
                match old.changes(&old_key, new, &key, room) {
                    Some(Changes::Worked(changes)) => kernel.sass = Some(changes),
                    Some(Changes::TooMuch) => kernel.sass_left_out = true,
                    None => {}
                }
            }
        }
        _ => {}
    }
}
