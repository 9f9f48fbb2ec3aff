//! One compilation: PTX in, cubin and log out.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use super::find::version_in;
use super::prepare::{Preparation, PrepareError, Prepared, prepare};
use super::process::{self, Ended, Stopped};
use super::{Env, Ptxas, Version};
use crate::base::Arch;
use crate::files::Scratch;

/// What to compile, and how.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The PTX, as read from the file.
    pub ptx: &'a [u8],
    /// What to compile for.
    pub arch: Arch,
    /// What the user wrote after `--`.
    pub flags: &'a [String],
    /// How long ptxas may take; `None` waits for it.
    pub timeout: Option<Duration>,
    /// `-c`: a relocatable object.
    pub relocatable: bool,
}

/// What a compilation gave.
#[derive(Clone, Debug)]
pub struct Output {
    /// The cubin: an ELF file.
    pub cubin: Vec<u8>,
    /// Standard output and standard error, in the order they came.
    pub log: String,
    /// What was left out of the log because ptxas printed more than is kept, in bytes.
    pub log_cut_bytes: u64,
    /// Which ptxas ran; asked of itself where nothing else says so.
    pub version: Option<Version>,
    /// What was changed in the PTX before ptxas saw it.
    pub prepared: Vec<Preparation>,
    /// The arguments ptxas was given, files left out.
    pub arguments: Vec<String>,
    /// How long ptxas ran.
    pub elapsed: Duration,
}

/// What is known about a run that gave no cubin.
#[derive(Clone, Debug, Default)]
pub struct Failure {
    /// What ptxas had said until then.
    pub log: String,
    /// What was left out of the log, in bytes.
    pub log_cut_bytes: u64,
    /// Which ptxas ran.
    pub version: Option<Version>,
    /// What was changed in the PTX before ptxas saw it.
    pub prepared: Vec<Preparation>,
    /// The arguments ptxas was given, files left out.
    pub arguments: Vec<String>,
    /// How long it ran.
    pub elapsed: Duration,
}

/// Why there is no cubin.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The input is nothing ptxas could take.
    #[error(transparent)]
    Input(#[from] PrepareError),
    /// A flag after `--` that this program needs for itself.
    #[error("'{flag}' cannot be passed to ptxas: {advice}")]
    Flag {
        /// The flag.
        flag: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// The process did not start.
    #[error("{} could not be started: {problem}", path.display())]
    Start {
        /// The ptxas that was to run.
        path: PathBuf,
        /// Why, and what to do.
        problem: String,
    },
    /// Making the temporary folder, writing the PTX, reading the cubin.
    #[error("could not {action} {}: {source}{advice}", path.display())]
    Io {
        /// `write`, `read`, `make the folder`.
        action: &'static str,
        /// What was being written or read.
        path: PathBuf,
        /// `; the disk is full …` or nothing.
        advice: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// ptxas said no: its messages are in the log.
    #[error("ptxas rejected the PTX (exit code {code})")]
    Rejected {
        /// Its exit code.
        code: i32,
        /// What it said.
        failure: Box<Failure>,
    },
    /// ptxas died.
    #[error("ptxas was killed by signal {signal} ({name})")]
    Killed {
        /// The number.
        signal: i32,
        /// `SIGSEGV, it crashed`.
        name: &'static str,
        /// What it had said.
        failure: Box<Failure>,
    },
    /// ptxas took too long and was stopped, with everything it had started.
    #[error("ptxas did not finish within {} s and was stopped; --timeout gives it longer", limit.as_secs_f64())]
    TimedOut {
        /// The limit.
        limit: Duration,
        /// What it had said.
        failure: Box<Failure>,
    },
    /// ptxas printed without end and was stopped.
    #[error("{} prints without end and was stopped: is it really ptxas?", path.display())]
    Flooded {
        /// The ptxas that ran.
        path: PathBuf,
        /// The beginning of what it said.
        failure: Box<Failure>,
    },
    /// ptxas succeeded and wrote no cubin.
    #[error("ptxas reported success but wrote no cubin: is {} really ptxas?", path.display())]
    NoCubin {
        /// The ptxas that ran.
        path: PathBuf,
        /// What it had said.
        failure: Box<Failure>,
    },
    /// ptxas succeeded and the cubin is not whole: on a full disk ptxas says nothing and exits with 0.
    #[error(
        "the cubin was cut off at {found_bytes} of at least {expected_bytes} bytes: the disk is most likely full; free some \
         space there or point TMPDIR elsewhere"
    )]
    CutOff {
        /// How large it is.
        found_bytes: u64,
        /// How large its headers say it is.
        expected_bytes: u64,
        /// What ptxas had said.
        failure: Box<Failure>,
    },
    /// ptxas succeeded and what it wrote is not a cubin.
    #[error("what ptxas wrote is not a cubin: expected an ELF file, found {found}; is {} really ptxas?", path.display())]
    NotElf {
        /// The ptxas that ran.
        path: PathBuf,
        /// Its first bytes, in words.
        found: String,
        /// What it had said.
        failure: Box<Failure>,
    },
}

/// Names inside the temporary folder. ptxas runs in that folder, so that no path of this machine gets into the cubin or
/// the log, and the same PTX gives the same bytes.
pub(super) const INPUT: &str = "input.ptx";
const CUBIN: &str = "output.cubin";
/// Flags whose value is a file.
const FILE_FLAGS: [&str; 4] = ["-optf", "--options-file", "-apply-controls", "--apply-controls"];
/// How long `ptxas --version` may take.
const VERSION_TIMEOUT: Duration = Duration::from_secs(2);

/// Compiles with `-v -lineinfo`, in a temporary folder that is gone afterwards whatever happens.
pub fn run(ptxas: &Ptxas, job: &Job<'_>, env: &Env) -> Result<Output, RunError> {
    let Prepared { text, done: prepared } = prepare(job.ptx)?;
    let Arguments { given, shown: arguments } = arguments(job, env)?;
    let folder = Scratch::new_in(&env.temp_dir, "ptxinspect-")
        .map_err(|source| RunError::io("make a temporary folder in", &env.temp_dir, source))?;
    let input = folder.path().join(INPUT);
    std::fs::write(&input, &text).map_err(|source| RunError::io("write", &input, source))?;
    drop(text);

    let mut command = Command::new(&ptxas.path);
    command.args(&given).args(["-o", CUBIN, INPUT]).current_dir(folder.path());
    let start_error =
        |source| RunError::Start { path: ptxas.path.clone(), problem: start_problem(&ptxas.path, &source) };
    let running = process::start(&mut command, process::KEEP_BYTES).map_err(start_error)?;
    // Once it has run for a while, asking it what it is costs nothing that anybody would notice.
    let patience = job.timeout.map_or(VERSION_TIMEOUT, |timeout| timeout.min(VERSION_TIMEOUT));
    let ask = |ptxas: &Ptxas| ptxas.ask_version_in(folder.path(), patience);
    let ended = running
        .finish(job.timeout, &mut |_| {
            ask(ptxas);
        })
        .map_err(start_error)?;

    let failure = |ended: Ended, version| {
        Box::new(Failure {
            log: ended.output,
            log_cut_bytes: ended.cut_bytes,
            version,
            prepared: prepared.clone(),
            arguments: arguments.clone(),
            elapsed: ended.elapsed,
        })
    };
    let known = ptxas.version();
    match (ended.stopped, job.timeout) {
        (Some(Stopped::TimedOut), Some(limit)) => {
            return Err(RunError::TimedOut { limit, failure: failure(ended, known) });
        }
        (Some(_), _) => return Err(RunError::Flooded { path: ptxas.path.clone(), failure: failure(ended, known) }),
        (None, _) => {}
    }
    if let Some(signal) = signal_of(ended.status) {
        return Err(RunError::Killed { signal, name: signal_name(signal), failure: failure(ended, known) });
    }
    match ended.status.code() {
        Some(0) => {}
        code => {
            let failure = failure(ended, ask(ptxas));
            return Err(RunError::Rejected { code: code.unwrap_or(-1), failure });
        }
    }
    let output = folder.path().join(CUBIN);
    let cubin = match std::fs::read(&output) {
        Ok(cubin) => cubin,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(RunError::NoCubin { path: ptxas.path.clone(), failure: failure(ended, known) });
        }
        Err(source) => return Err(RunError::io("read", &output, source)),
    };
    if !cubin.starts_with(b"\x7fELF") {
        let found = describe(&cubin);
        return Err(RunError::NotElf { path: ptxas.path.clone(), found, failure: failure(ended, known) });
    }
    let expected_bytes = elf_bytes(&cubin);
    if expected_bytes > cubin.len() as u64 {
        let found_bytes = cubin.len() as u64;
        return Err(RunError::CutOff { found_bytes, expected_bytes, failure: failure(ended, known) });
    }
    if known.is_none() {
        ptxas.learn_version(version_in_cubin(&cubin));
    }
    let version = ptxas.try_version_in(folder.path(), patience).map_err(start_error)?;
    Ok(Output {
        cubin,
        log: ended.output,
        log_cut_bytes: ended.cut_bytes,
        version,
        prepared,
        arguments,
        elapsed: ended.elapsed,
    })
}

/// The arguments that [`run`] would show for a job: what decides about the cubin beside the PTX and the ptxas. None when one
/// of them names a file, whose content decides as well.
pub fn job_arguments(job: &Job<'_>, env: &Env) -> Result<Option<Vec<String>>, RunError> {
    let names_file = |flag: &String| FILE_FLAGS.contains(&flag.split('=').next().unwrap_or_default());
    let shown = arguments(job, env)?.shown;
    Ok((!job.flags.iter().any(names_file)).then_some(shown))
}

impl RunError {
    fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let advice = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "; free some space there or point TMPDIR elsewhere"
            }
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "; point TMPDIR at a folder that can be written"
            }
            _ => "",
        };
        RunError::Io { action, path: path.to_owned(), advice, source }
    }

    /// What is known about the run, where ptxas ran.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            RunError::Rejected { failure, .. }
            | RunError::Killed { failure, .. }
            | RunError::TimedOut { failure, .. }
            | RunError::Flooded { failure, .. }
            | RunError::NoCubin { failure, .. }
            | RunError::CutOff { failure, .. }
            | RunError::NotElf { failure, .. } => Some(failure),
            RunError::Input(_) | RunError::Flag { .. } | RunError::Start { .. } | RunError::Io { .. } => None,
        }
    }
}

/// The command line without the files.
#[derive(Debug, Default)]
struct Arguments {
    /// As ptxas gets it.
    given: Vec<String>,
    /// The same with the user's own spelling of paths: what a report may show.
    shown: Vec<String>,
}

impl Arguments {
    fn push(&mut self, flag: &str) {
        self.given.push(flag.to_owned());
        self.shown.push(flag.to_owned());
    }
}

/// Joins what this program needs with what the user wants. ptxas knows an option by one long name after two dashes and one short name after
/// one, never abbreviated: `--output-file`, `-o`.
fn arguments(job: &Job<'_>, env: &Env) -> Result<Arguments, RunError> {
    let mut user = Arguments::default();
    let (mut debug, mut line_info, mut relocatable) = (false, false, job.relocatable);
    let mut flags = job.flags.iter();
    while let Some(flag) = flags.next() {
        let refuse = |advice| Err(RunError::Flag { flag: flag.clone(), advice });
        let (name, value) = flag.split_once('=').map_or((flag.as_str(), None), |(name, value)| (name, Some(value)));
        match name {
            "-o" | "--output-file" => return refuse("the cubin goes to a temporary folder"),
            "-arch" | "--gpu-name" => return refuse("use --arch"),
            "-ias" | "--input-as-string" => return refuse("the PTX comes from the input file"),
            "-h" | "--help" | "-V" | "--version" | "-arch-ls" | "--list-arch" | "-version-ls" | "--list-version" => {
                return refuse("it makes ptxas print something and stop");
            }
            // `--verbose` is given anyway.
            "-v" | "--verbose" => {}
            "-lineinfo" | "--generate-line-info" => line_info = true,
            "-c" | "--compile-only" => relocatable = true,
            // ptxas runs in another folder.
            name if FILE_FLAGS.contains(&name) => {
                let Some(files) = value.or_else(|| flags.next().map(String::as_str)) else {
                    return refuse("the file is missing");
                };
                let absolute = files.split(',').map(|file| env.absolute(Path::new(file)).display().to_string());
                user.given.push(format!("{name}={}", absolute.collect::<Vec<_>>().join(",")));
                user.shown.push(format!("{name}={files}"));
            }
            _ if !name.starts_with('-') && name.ends_with(".ptx") => return refuse("inputs go before the --"),
            _ => {
                debug |= matches!(name, "-g" | "--device-debug");
                user.push(flag);
            }
        }
    }
    let mut arguments = Arguments::default();
    arguments.push("-v");
    // `ptxas warning : Conflicting options --device-debug and --generate-line-info specified`, unless the user wants it.
    if !debug || line_info {
        arguments.push("-lineinfo");
    }
    arguments.push(&format!("-arch={}", job.arch));
    if relocatable {
        arguments.push("-c");
    }
    arguments.given.append(&mut user.given);
    arguments.shown.append(&mut user.shown);
    Ok(arguments)
}

/// What a failed start means for somebody who has to mend it.
pub(super) fn start_problem(path: &Path, error: &io::Error) -> String {
    let metadata = std::fs::metadata(path);
    if metadata.as_ref().is_ok_and(|metadata| metadata.is_dir()) {
        return "it is a folder; expected the ptxas executable".to_owned();
    }
    match error.kind() {
        io::ErrorKind::NotFound if metadata.is_ok() => {
            "the file is there but its loader or interpreter is not; ptxas needs the system's glibc".to_owned()
        }
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => format!("{error}; chmod +x makes it executable"),
        // ENOEXEC
        _ if cfg!(unix) && error.raw_os_error() == Some(8) => {
            format!("{error}; is it built for this kind of machine, and complete?")
        }
        _ => error.to_string(),
    }
}

fn signal_of(status: ExitStatus) -> Option<i32> {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    return {
        _ = status;
        None
    };
}

/// The numbers that are the same on every Unix.
fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT, it gave up",
        8 => "SIGFPE",
        9 => "SIGKILL, often the system's way when memory runs out",
        11 => "SIGSEGV, it crashed",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        _ => "`kill -l` names it",
    }
}

/// ptxas 13 (and 12.9 for sm_100) signs what it makes: `ptxas`, NUL, `Cuda compilation tools, release
/// 13.4, V13.4.92`, NUL in `.note.nv.tkinfo`.
fn version_in_cubin(cubin: &[u8]) -> Option<Version> {
    const MARK: &[u8] = b"\0ptxas\0Cuda compilation tools, release ";
    let at = cubin.windows(MARK.len()).position(|window| window == MARK)?;
    let line = cubin[at + 7..].split(|&byte| byte == 0).next()?;
    version_in(std::str::from_utf8(line).ok()?)
}

/// How large an ELF file must be at least for its own headers and sections to be in it.
fn elf_bytes(file: &[u8]) -> u64 {
    const HEADER_BYTES: u64 = 64;
    const NOBITS: u64 = 8;
    // Only 64-bit files: class 2.
    if file.get(4) != Some(&2) || (file.len() as u64) < HEADER_BYTES {
        return HEADER_BYTES;
    }
    let number = |at: u64, bytes: usize| {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let field = at.checked_add(bytes).and_then(|end| file.get(at..end))?;
        Some(field.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte)))
    };
    let field = |at: u64, bytes: usize| number(at, bytes).unwrap_or(0);
    // e_phoff, e_phentsize, e_phnum; e_shoff, e_shentsize, e_shnum.
    let programs = field(0x20, 8).saturating_add(field(0x36, 2) * field(0x38, 2));
    let (sections, size, count) = (field(0x28, 8), field(0x3a, 2), field(0x3c, 2));
    let mut end = programs.max(sections.saturating_add(size * count)).max(HEADER_BYTES);
    for index in 0..count {
        let section = sections.saturating_add(index * size);
        // sh_type, sh_offset, sh_size
        if let (Some(kind), Some(offset), Some(bytes)) = (
            number(section.saturating_add(4), 4),
            number(section.saturating_add(0x18), 8),
            number(section.saturating_add(0x20), 8),
        ) && kind != NOBITS
        {
            end = end.max(offset.saturating_add(bytes));
        }
    }
    end
}

fn describe(bytes: &[u8]) -> String {
    match bytes {
        [] => "an empty file".to_owned(),
        _ => format!("{} bytes that start with \"{}\"", bytes.len(), bytes[..bytes.len().min(8)].escape_ascii()),
    }
}

#[cfg(all(test, unix))]
mod tests;
