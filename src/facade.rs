//! What others call: one function for each question, plain values out.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::{Arch, Limits, Line, Threads};
use crate::compare::Difference;
use crate::cost::Memory;
use crate::emit;
use crate::emit::clean::{self, Form};
use crate::engine::compile::{Session, environment};
use crate::engine::deny::Deny;
use crate::engine::diff::{Refused, Side};
use crate::engine::given::{self, Given};
use crate::engine::inspect::{View, inspect_all};
use crate::engine::progress::{Silent, install_silently};
use crate::engine::settings::{Settings, Within};
use crate::engine::{self, cache, listing, source};
use crate::flow::Rule;
use crate::gate::Verdict;
use crate::registers;
use crate::report::annotation::{Annotation, By};
use crate::report::listing::ListedFunction;
use crate::report::timeline::{NoTimeline, STEPS, Timeline};
use crate::report::{Costs, Effort, ErrorStage, Issue, LaunchHints, Report, RoleHint, Unit, Wanted};
use crate::tune::Tuning;

/// Columns of text where nobody says how many.
const WIDTH: usize = 100;

/// What is to be inspected.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file or folder: PTX, a cubin, or anything that holds them (fatbins, programs, libraries, archives, wheels).
    Path(PathBuf),
    /// PTX text or a cubin in memory, and what to call it.
    Bytes {
        /// Its name in answers and errors.
        name: String,
        /// PTX text, or a cubin.
        bytes: Vec<u8>,
    },
}

impl Source {
    /// PTX text.
    pub fn ptx(text: impl Into<String>) -> Source {
        Source::Bytes { name: "<ptx>".to_owned(), bytes: text.into().into_bytes() }
    }

    /// A cubin's bytes.
    pub fn cubin(bytes: impl Into<Vec<u8>>) -> Source {
        Source::Bytes { name: "<cubin>".to_owned(), bytes: bytes.into() }
    }

    fn given(&self, options: &Options) -> Result<Vec<Given>, Error> {
        match self {
            Source::Path(path) => Ok(given::expand(std::slice::from_ref(path), &options.settings(Some(path)))?),
            Source::Bytes { name, bytes } => Ok(vec![Given::bytes(name, bytes.clone())]),
        }
    }
}

impl From<&Path> for Source {
    fn from(path: &Path) -> Source {
        Source::Path(path.to_path_buf())
    }
}

impl From<PathBuf> for Source {
    fn from(path: PathBuf) -> Source {
        Source::Path(path)
    }
}

/// How it is to be inspected. The defaults are those of the command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Architectures to compile PTX for, such as `sm_90a`, and to choose from a library; none means the PTX's `.target`, and all.
    pub arch: Vec<String>,
    /// The ptxas to run: a version such as `13.4`, installed on first use, or a path; none means the one at hand.
    pub ptxas: Option<String>,
    /// Flags for ptxas.
    pub flags: Vec<String>,
    /// Only kernels whose mangled or demangled name matches one of these (`*` and `?`); none means all.
    pub kernels: Vec<String>,
    /// Threads of a block, for kernels whose directives do not say.
    pub threads: Option<u32>,
    /// Bytes of shared memory asked for at launch; `None` where that is not known.
    pub smem_dynamic_bytes: Option<u64>,
    /// Whether PTX is compiled again, held to the registers with which one more block fits on an SM: `next_step_tried` of its occupancy.
    pub try_step: bool,
    /// Whether barriers are executed with more inputs, in more orders: for seconds.
    pub thorough: bool,
    /// PTX lines whose live values are wanted, too.
    pub at: Vec<u32>,
    /// Warps of each role, where the code does not tell.
    pub roles: Vec<(String, u32)>,
    /// How long an input may take for each architecture, ptxas included; none means an hour.
    pub timeout: Option<Duration>,
    /// How many compilations at once; none means one a core.
    pub jobs: Option<usize>,
    /// Whether what ptxas makes is kept, and what it made before is taken.
    pub cache: bool,
    /// Whether the PTX inside a library is compiled, too.
    pub compile_inside: bool,
}

impl Options {
    /// For one architecture.
    pub fn arch(arch: &str) -> Options {
        Options { arch: vec![arch.to_owned()], ..Options::default() }
    }

    fn limits(&self) -> Limits {
        Limits { time: self.timeout.unwrap_or(Limits::default().time), ..Limits::default() }
    }

    fn launch(&self) -> LaunchHints {
        LaunchHints {
            threads: self.threads.map(Threads::from),
            smem_dynamic_bytes: self.smem_dynamic_bytes,
            effort: Effort::of(self.thorough),
        }
    }

    fn settings(&self, input: Option<&Path>) -> Settings {
        Settings {
            inputs: input.iter().map(|path| path.to_path_buf()).collect(),
            arch: self.arch.clone(),
            ptxas: self.ptxas.clone(),
            kernel: self.kernels.clone(),
            jobs: self.jobs,
            within: Within { compile: self.compile_inside, ..Within::default() },
            limits: self.limits(),
            flags: self.flags.clone(),
            offline: false,
        }
    }

    fn session(&self) -> Result<Session, Error> {
        let mut session = Session::new(&self.settings(None))?;
        session.is_one_of_many = true;
        session.launch = self.launch();
        session.tries_step = self.try_step;
        session.at = self.at.iter().copied().map(Line).collect();
        session.roles = self.roles.iter().map(|(name, warps)| RoleHint { name: name.clone(), warps: *warps }).collect();
        if self.cache {
            session.cache = cache::of(&session.env, cache::told_nobody)?;
        }
        Ok(session)
    }
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument, a file, or what is in it.
    Input,
    /// There is no ptxas, or it cannot be had.
    Toolchain,
    /// ptxas refuses the PTX.
    Ptxas,
    /// The cubin cannot be read.
    Cubin,
    /// It is not done in time.
    Timeout,
}

impl ErrorKind {
    fn of_stage(stage: ErrorStage) -> ErrorKind {
        match stage {
            ErrorStage::Input => ErrorKind::Input,
            ErrorStage::Toolchain | ErrorStage::Nvdisasm => ErrorKind::Toolchain,
            ErrorStage::Ptxas => ErrorKind::Ptxas,
            ErrorStage::Cubin => ErrorKind::Cubin,
            ErrorStage::Timeout => ErrorKind::Timeout,
        }
    }
}

/// Why there is no answer, in the words of the command line.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    units: Vec<Unit>,
}

impl Error {
    /// What kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The units of the job, those that went well included; ptxas's own diagnostics are in [`Unit::error`].
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    fn of_units(units: Vec<Unit>) -> Error {
        let first = units.iter().find_map(|unit| unit.error.as_ref());
        let kind = first.map_or(ErrorKind::Input, |error| ErrorKind::of_stage(error.stage));
        let write = |out: &mut dyn Write| units.iter().try_for_each(|unit| emit::text::write_unit_error(unit, out));
        let message = plain(write);
        // One line is the message; several are told apart by how bad they are.
        let message = message.trim_end();
        let message = message.strip_prefix("error: ").filter(|line| !line.contains('\n')).unwrap_or(message).to_owned();
        Error { kind, message, units }
    }
}

impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Error {
        match error.downcast::<Refused>() {
            Ok(refused) => Error::of_units(refused.units),
            Err(error) => {
                let message = clean::text(Form::Plain, &format!("{error:#}"));
                Error { kind: ErrorKind::Input, message, units: Vec::new() }
            }
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        anyhow::Error::from(error).into()
    }
}

/// Compiles PTX, or reads a cubin or what holds cubins, and says where the registers went.
///
/// # Errors
/// Where an input cannot be read, there is no ptxas, or it refuses the PTX.
///
/// # Examples
/// ```
/// use ptxinspect::{Options, Source, inspect};
/// use std::path::Path;
///
/// let cubin = Path::new("testdata/cubin/blackwell-13.4-sm_100a.cubin");
/// let report = inspect(&Source::from(cubin), &Options { threads: Some(256), ..Options::default() })?;
/// for kernel in report.kernels() {
///     println!("{}: {:?} registers", kernel.name, kernel.resources.registers);
/// }
/// # Ok::<(), ptxinspect::Error>(())
/// ```
pub fn inspect(source: &Source, options: &Options) -> Result<Report, Error> {
    let units = units(source, options, View::Report)?.into_iter().map(|(unit, _)| unit);
    Ok(Report::new(units.collect()))
}

/// The figures of many kernels, fast: of a folder such as a compiler's cache. Who holds the registers, roles, barriers and findings are left
/// out, and an input that cannot be read is a unit with its [`Unit::error`].
///
/// # Errors
/// Where an argument is wrong, or the source cannot be opened.
pub fn survey(source: &Source, options: &Options) -> Result<Report, Error> {
    let mut session = options.session()?;
    session.wanted = Wanted { live_values: false, warps: false, ..Wanted::ALL };
    let units = inspect_all(&session, &source.given(options)?, View::Report, &Silent);
    Ok(Report::new(units.into_iter().map(|(unit, _)| unit).collect()))
}

fn units(source: &Source, options: &Options, view: View) -> Result<Vec<(Unit, Annotation)>, Error> {
    units_of(&options.session()?, source, options, view)
}

fn units_of(
    session: &Session,
    source: &Source,
    options: &Options,
    view: View,
) -> Result<Vec<(Unit, Annotation)>, Error> {
    let given = source.given(options)?;
    let units = inspect_all(session, &given, view, &Silent);
    if units.iter().any(|(unit, _)| unit.error.is_some()) {
        return Err(Error::of_units(units.into_iter().map(|(unit, _)| unit).collect()));
    }
    if !session.kernels.is_empty() && units.iter().all(|(unit, _)| unit.kernels.is_empty()) {
        let message = format!("--kernel {} matches no kernel of any input", options.kernels.join(", "));
        return Err(Error { kind: ErrorKind::Input, message, units: Vec::new() });
    }
    Ok(units)
}

/// Each PTX line with the code it became.
#[derive(Debug)]
pub struct Annotated {
    /// The report of each input and architecture, and its annotation.
    pub units: Vec<(Unit, Annotation)>,
}

/// Compiles or reads, and puts the code beside the lines it came from. Source files that line tables name are read below
/// `source_root`, or else below the working folder.
///
/// # Errors
/// As [`inspect`]; a `source_root` that is no folder.
pub fn annotate(source: &Source, options: &Options, source_root: Option<&Path>) -> Result<Annotated, Error> {
    let mut finder = source::Finder::new(source_root)?;
    let mut units = units(source, options, View::Annotation { values: true })?;
    units.iter_mut().for_each(|(_, annotation)| finder.fill(annotation));
    Ok(Annotated { units })
}

/// Which part of an annotation.
pub use crate::emit::annotate::Options as AnnotateOptions;

impl Annotated {
    /// For people.
    pub fn to_text(&self, by: By, options: &AnnotateOptions) -> String {
        plain(|out| {
            let mut units = self.units.iter();
            units.try_for_each(|(unit, found)| emit::annotate::write_text(unit, &found.view(by), options, out))
        })
    }

    /// One JSON record a line.
    pub fn to_json(&self, by: By, options: &AnnotateOptions) -> String {
        json(|out| {
            let mut units = self.units.iter();
            units.try_for_each(|(unit, found)| emit::annotate::write_json(unit, &found.view(by), options, out))
        })
    }

    /// A page to explore, in one file.
    pub fn to_html(&self) -> String {
        markup(|out| emit::html::write(&self.units, emit::html::Opening::Annotation, out))
    }

    /// The curve of live registers as a picture.
    pub fn to_svg(&self) -> String {
        markup(|out| emit::svg::write(&self.units, out))
    }
}

/// Code, listed.
#[derive(Debug)]
pub struct Listing {
    /// The functions, in the order of the cubins.
    pub functions: Vec<ListedFunction>,
}

/// Lists SASS with its live registers, PTX lines and source lines.
///
/// # Errors
/// As [`inspect`].
pub fn disassemble(source: &Source, options: &Options) -> Result<Listing, Error> {
    let session = options.session()?;
    let given = source.given(options)?;
    let wanted = listing::Wanted { rule: Rule::Sound, sets: false, nvdisasm: false };
    let mut functions = Vec::new();
    let listed = listing::list(&session, &given, wanted, &engine::progress::Silent, &mut |function| {
        functions.push(function.listed());
        Ok(())
    })?;
    if listed.failed.is_empty() { Ok(Listing { functions }) } else { Err(Error::of_units(listed.failed)) }
}

impl Listing {
    /// For people; `control` shows what instructions tell the scheduler, `hex` their words.
    pub fn to_text(&self, control: bool, hex: bool) -> String {
        let options = emit::listing::Options { hex, control, ..emit::listing::Options::default() };
        plain(|out| self.functions.iter().try_for_each(|function| emit::listing::write_text(function, &options, out)))
    }

    /// For programs.
    pub fn to_json(&self) -> String {
        json(|out| {
            let mut writer = emit::listing::JsonWriter::start(out)?;
            self.functions.iter().try_for_each(|function| writer.function(function))?;
            writer.finish()
        })
    }
}

/// Two builds side by side: figures, lines, code. Each side may be PTX, a cubin, a library or a report's JSON file, with options of its own.
///
/// # Errors
/// As [`inspect`]; and where the two have nothing in common.
pub fn diff(before: (&Source, &Options), after: (&Source, &Options)) -> Result<Difference, Error> {
    let load = |(source, options): (&Source, &Options)| -> Result<_, Error> {
        let path = match source {
            Source::Path(path) => path.clone(),
            Source::Bytes { name, .. } => PathBuf::from(name),
        };
        let cache = if options.cache { cache::of(&environment()?, cache::told_nobody)? } else { None };
        let (settings, launch) = (options.settings(Some(&path)), options.launch());
        let side = Side { settings, launch, cache, installing: install_silently };
        Ok(match source {
            Source::Path(_) => side.load()?,
            Source::Bytes { name, bytes } => side.load_bytes(name, bytes.clone())?,
        })
    };
    let (old, new) = (load(before)?, load(after)?);
    Ok(engine::diff::compare(&old, &new, after.1.limits().time)?)
}

impl Difference {
    /// For people.
    pub fn to_text(&self) -> String {
        plain(|out| {
            emit::diff::write_text(self, &emit::diff::Options { top: 20, width: WIDTH, more: emit::diff::MORE }, out)
        })
    }

    /// For programs.
    pub fn to_json(&self) -> String {
        json(|out| emit::diff::write_json(self, out))
    }

    /// A page in one file.
    pub fn to_html(&self) -> String {
        markup(|out| {
            emit::diff::write_html(self, &emit::diff::Options { top: 20, width: WIDTH, more: emit::diff::MORE }, out)
        })
    }
}

/// How many blocks of a launch an SM holds, and how far the next step is.
///
/// # Errors
/// Where the architecture is not known or the launch is impossible.
///
/// # Examples
/// ```
/// use ptxinspect::{LaunchConfig, occupancy};
///
/// let launch = LaunchConfig { registers: 168, threads: 384, ..LaunchConfig::default() };
/// assert_eq!(occupancy("sm_90a", &launch)?.blocks_per_sm, 1);
/// # Ok::<(), ptxinspect::Error>(())
/// ```
pub fn occupancy(arch: &str, launch: &registers::occupancy::Launch) -> Result<registers::occupancy::Occupancy, Error> {
    let arch: Arch = arch.trim().parse().map_err(anyhow::Error::from)?;
    Ok(registers::occupancy::occupancy(arch, launch).map_err(anyhow::Error::from)?)
}

/// Executions of kernels' barriers, drawn.
#[derive(Debug)]
pub struct Timelines {
    /// One for each kernel that has something to draw.
    pub timelines: Vec<Timeline>,
    /// Kernels that have none, and why.
    pub refused: Vec<(String, NoTimeline)>,
}

/// Executes the barriers of a PTX's kernels: who waits for whom. It needs no ptxas. `steps` says how many are drawn.
///
/// # Errors
/// Where the input is no PTX, or no kernel can be drawn.
pub fn timeline(source: &Source, options: &Options, steps: Option<u64>) -> Result<Timelines, Error> {
    let [given] = &source.given(options)?[..] else {
        return Err(anyhow::anyhow!("a timeline is drawn from one PTX file").into());
    };
    let input = given.read().map_err(anyhow::Error::msg)?;
    let drawing = engine::timeline::Drawing {
        kernel: options.kernels.clone(),
        threads: options.threads.map(Threads::from),
        steps: steps.unwrap_or(STEPS),
        limits: options.limits(),
    };
    let (timelines, refused) = engine::timeline::draw(&input, &drawing)?;
    if timelines.is_empty() {
        let why: Vec<String> = refused.iter().map(|(name, why)| format!("{}: {name}: {why}", input.name)).collect();
        return Err(anyhow::anyhow!("{}", why.join("\n")).into());
    }
    Ok(Timelines { timelines, refused })
}

impl Timelines {
    /// For people.
    pub fn to_text(&self) -> String {
        let options = emit::timeline::Options { width: WIDTH, verbose: false };
        plain(|out| emit::timeline::write_text(&self.timelines, &options, out))
    }

    /// For programs.
    pub fn to_json(&self) -> String {
        json(|out| emit::timeline::write_json(&self.timelines, out))
    }

    /// A picture.
    pub fn to_svg(&self) -> String {
        markup(|out| emit::timeline::write_svg(&self.timelines, out))
    }
}

/// What is asked of [`cost`].
#[derive(Clone, Debug, Default)]
pub struct CostOptions {
    /// Only the innermost loop around this PTX line.
    pub line: Option<u32>,
    /// Warps on each scheduler, 1 to 16; none means those that an SM holds.
    pub warps: Vec<u8>,
    /// Where data of global and local memory are.
    pub memory: Memory,
    /// Cycles until it answers; none means those of where it is.
    pub latency: Option<u16>,
    /// Whether consumers that come too early are looked for.
    pub hazards: bool,
    /// Whether all accesses of memory are told, instead of loops.
    pub accesses: bool,
}

/// What loops cost, as [`cost`] found it: [`Kernel::costs`](crate::report::Kernel::costs) of each kernel.
#[derive(Debug)]
pub struct LoopCosts {
    /// The units.
    pub units: Vec<Unit>,
    accesses: bool,
}

/// What a turn of each loop costs, by the schedule of ptxas: a static estimate, where somebody measured the architecture.
///
/// # Errors
/// As [`inspect`], and where no loop is around the line that was asked for, or no scheduler holds so many warps.
pub fn cost(source: &Source, options: &Options, asked: &CostOptions) -> Result<LoopCosts, Error> {
    let mut session = options.session()?;
    let mut warps = 0;
    for &count in &asked.warps {
        if !(1..=16).contains(&count) {
            return Err(anyhow::anyhow!("{count} is no number of warps on a scheduler: expected 1 to 16").into());
        }
        warps |= 1 << (count - 1);
    }
    session.wanted.live_values = false;
    session.wanted.costs = Costs::Asked {
        line: asked.line.map(Line),
        warps,
        latency: asked.latency.unwrap_or_else(|| asked.memory.latency()),
        hazards: asked.hazards,
        accesses: asked.accesses,
    };
    let units = units_of(&session, source, options, View::Report)?.into_iter().map(|(unit, _)| unit).collect();
    let found = LoopCosts { units, accesses: asked.accesses };
    let has_loop = found
        .units
        .iter()
        .flat_map(|unit| &unit.kernels)
        .any(|kernel| kernel.costs.as_ref().is_some_and(|costs| !costs.is_empty()));
    match asked.line {
        Some(line) if !has_loop => Err(anyhow::anyhow!("line {line}: no loop has an instruction of that line").into()),
        _ => Ok(found),
    }
}

impl LoopCosts {
    /// For people.
    pub fn to_text(&self) -> String {
        let options = emit::cost::Options { width: WIDTH, verbose: false, accesses: self.accesses };
        plain(|out| emit::cost::write_text(&self.units, &options, out))
    }

    /// For programs.
    pub fn to_json(&self) -> String {
        json(|out| emit::cost::write_json(&self.units, out))
    }
}

/// How long a search of [`tune`] goes on, and with what.
#[derive(Clone, Debug)]
pub struct TuneOptions {
    /// The ptxas to try, the first of which is what the others are compared with; none means that of the [`Options`].
    pub ptxas: Vec<String>,
    /// Builds of each kernel, at most.
    pub budget: usize,
    /// The time that a kernel may take; none means as long as its builds take.
    pub time: Option<Duration>,
    /// Rows of the table, at most.
    pub rows: usize,
}

impl Default for TuneOptions {
    fn default() -> Self {
        TuneOptions { ptxas: Vec::new(), budget: engine::tune::RUNS, time: None, rows: engine::tune::ROWS }
    }
}

/// Tries ptxas flags and small edits of the PTX, and says which builds no other beats: spills in loops, spilt bytes, blocks on an SM,
/// instructions. Every row was built; an edit is tried only where it is checked that it leaves results as they are.
///
/// # Errors
/// Where the input is no PTX, there is no ptxas, or it refuses the PTX as it is.
pub fn tune(source: &Source, options: &Options, search: &TuneOptions) -> Result<Tuning, Error> {
    let session = options.session()?;
    let ptxas = if search.ptxas.is_empty() { options.ptxas.iter().cloned().collect() } else { search.ptxas.clone() };
    let request = engine::tune::Request {
        settings: options.settings(None),
        ptxas,
        runs: search.budget,
        controls: Vec::new(),
        time: search.time,
        rows: search.rows,
        launch: options.launch(),
        cache: session.cache,
        installing: engine::progress::install_silently,
    };
    Ok(engine::tune::tune(&request, &source.given(options)?, &engine::progress::Silent)?)
}

impl Tuning {
    /// For people.
    pub fn to_text(&self) -> String {
        let options = emit::tune::Options { width: WIDTH, verbose: false };
        plain(|out| emit::tune::write_text(self, &options, out))
    }

    /// For programs.
    pub fn to_json(&self) -> String {
        json(|out| emit::tune::write_json(self, out))
    }

    /// A picture.
    pub fn to_svg(&self) -> String {
        markup(|out| emit::tune::write_svg(self, out))
    }

    /// A page.
    pub fn to_html(&self) -> String {
        markup(|out| emit::tune::write_html(self, out))
    }
}

/// Measures and compares with a recorded baseline, as `ptxinspect gate` does. Nothing is written.
///
/// # Errors
/// Where there is no baseline, or nothing to measure. That something got worse is no error: see [`Verdict::outcome`].
pub fn gate(request: &GateRequest) -> Result<Verdict, Error> {
    let mut gated =
        engine::gate::Gated::new(request, engine::gate::today(), false, &engine::gate::From::Here(&Silent))?;
    gated.explain(None);
    Ok(gated.verdict)
}

/// What [`gate()`] is asked for.
pub use crate::engine::gate::Request as GateRequest;

impl Verdict {
    /// For people.
    pub fn to_text(&self) -> String {
        let options = emit::gate::Options { verbose: false, width: WIDTH };
        plain(|out| emit::gate::write_text(self, &options, out))
    }

    /// For programs.
    pub fn to_json(&self) -> String {
        json(|out| emit::gate::write_json(self, out))
    }
}

impl Report {
    /// Every kernel of every unit.
    pub fn kernels(&self) -> impl Iterator<Item = &crate::report::Kernel> {
        self.units.iter().flat_map(|unit| &unit.kernels)
    }

    /// What checks found, of all kernels.
    pub fn findings(&self) -> impl Iterator<Item = &Issue> {
        self.kernels().filter_map(|kernel| kernel.barriers.as_ref()).flat_map(|barriers| &barriers.issues)
    }

    /// Whether something in it is denied: codes of ptxas or of our checks, `warnings`, `advisories`, `spills` or `stack`; and codes that
    /// pass all the same. An error where a word is none of them, or a figure that is denied is not known.
    pub fn denies(&self, deny: &[String], allow: &[String]) -> Result<bool, Error> {
        let verdict = Deny::new(deny, allow).map_err(anyhow::Error::msg)?.verdict(self);
        match verdict.not_known.first() {
            Some(unknown) if verdict.denied.is_empty() => {
                Err(anyhow::anyhow!("{}: {} is denied and not known", unknown.place, unknown.what).into())
            }
            _ => Ok(!verdict.denied.is_empty()),
        }
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let options = emit::text::Options { verbose: false, top: 5, width: WIDTH, pictures: true, links: None };
        plain(|out| emit::text::write(self, &options, out))
    }

    /// For programs: `docs/schema/report-v1.schema.json`.
    pub fn to_json(&self) -> String {
        json(|out| emit::json::write(self, out))
    }
}

fn written(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    let _ = write(&mut bytes);
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

pub(crate) fn plain(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let text = anstream::adapter::strip_str(&written(write)).to_string();
    clean::text(Form::Plain, &text)
}

fn json(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    clean::text(Form::Json, &written(write))
}

fn markup(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    clean::text(Form::Plain, &written(write))
}
