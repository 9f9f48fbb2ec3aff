//! What there is to inspect: the inputs themselves, and the cubins and PTX inside those that are containers.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::contents::{self, Choice, Choose, KindFilter};
use super::input::{self, Input};
use super::progress::Silent;
use super::settings::{Settings, Within};
use crate::base::Limits;
use crate::container::{Entry, EntryKind, Place};
use crate::cubin::Image;
use crate::report::demangle;

/// What was asked for of a container.
pub struct Inside<'a> {
    /// Architectures; none means all.
    pub arch: &'a [String],
    /// Names of kernels; none means all.
    pub kernel: &'a [String],
    /// The rest.
    pub within: &'a Within,
    /// How many threads.
    pub jobs: Option<usize>,
    /// How much it may cost.
    pub limits: Limits,
}

/// The bytes of an ELF header that tell whose code it is.
const HEAD: usize = 20;

/// A file, or an entry of a container.
pub struct Given {
    /// The file, or the container path of the entry.
    pub path: PathBuf,
    from: From,
    limits: Limits,
}

enum From {
    File,
    Bytes(Vec<u8>),
    Entry(Box<Entry>),
    Nothing(String),
}

impl Given {
    /// A file.
    pub fn file(path: &Path, limits: Limits) -> Given {
        Given { path: path.to_path_buf(), from: From::File, limits }
    }

    /// Bytes that somebody has, and what to call them.
    pub fn bytes(name: &str, bytes: Vec<u8>) -> Given {
        Given { path: PathBuf::from(name), from: From::Bytes(bytes), limits: Limits::default() }
    }

    /// The library it is in, by its path; none of what is a file of its own.
    pub fn library(&self) -> Option<&str> {
        match &self.from {
            From::Entry(entry) if entry.place != Place::Bare => Some(&entry.file.path),
            _ => None,
        }
    }

    /// How many bytes it has, as far as that is known without reading it.
    pub fn size(&self) -> u64 {
        match &self.from {
            From::File => std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len()),
            From::Bytes(bytes) => bytes.len() as u64,
            From::Entry(entry) => entry.bytes,
            From::Nothing(_) => 0,
        }
    }

    /// Whether it is a cubin; not where it cannot be read.
    fn is_cubin(&self) -> bool {
        let is_cubin = |head: &[u8]| matches!(input::classify(head), Ok(input::Kind::Cubin));
        match &self.from {
            From::Entry(entry) => entry.kind == EntryKind::Cubin,
            From::Bytes(bytes) => is_cubin(bytes),
            From::Nothing(_) => false,
            // Standard input is read once, by whoever needs it whole.
            From::File => {
                let mut head = [0; HEAD];
                let read = File::open(&self.path).and_then(|mut file| file.read_exact(&mut head));
                read.is_ok() && is_cubin(&head)
            }
        }
    }

    /// Its bytes.
    pub fn read(&self) -> Result<Input, String> {
        match &self.from {
            From::File => input::read(&self.path, &self.limits).map_err(|error| format!("{error:#}")),
            From::Bytes(bytes) => Ok(Input::alone(&self.path.display().to_string(), bytes.clone())),
            From::Nothing(message) => Err(message.clone()),
            From::Entry(entry) => {
                let bytes = entry.read().map_err(|error| error.to_string())?.into_owned();
                entry.release();
                let path = Path::new(&entry.path);
                Ok(Input {
                    companion: entry.jit.as_ref().and_then(|beside| input::companion(path, beside)),
                    recorded_launch: entry.jit.as_ref().and_then(|beside| input::recorded_launch(path, beside)),
                    ..Input::alone(&entry.path, bytes)
                })
            }
        }
    }
}

/// Every input in order, containers replaced by what was chosen of their entries.
pub fn expand(inputs: &[PathBuf], settings: &Settings) -> Result<Vec<Given>> {
    let Settings { arch, kernel, within, jobs, limits, .. } = settings;
    let (jobs, limits) = (*jobs, *limits);
    let args = Inside { arch, kernel, within, jobs, limits };
    let mut all = Vec::new();
    for path in inputs {
        if input::is_container(path, &limits)? {
            all.extend(inside(path, &args)?);
        } else {
            all.push(Given::file(path, limits));
        }
    }
    Ok(all)
}

/// Refuses flags for ptxas where every input is compiled already: nothing would obey them.
pub fn refuse_idle_flags(inputs: &[Given], flags: &[String]) -> Result<()> {
    let Some(first) = inputs.first().filter(|_| !flags.is_empty() && inputs.iter().all(Given::is_cubin)) else {
        return Ok(());
    };
    let (what, made) = match inputs {
        [_] => ("it is a cubin, which is".to_owned(), "that it was made from"),
        _ => (format!("it and {} more are cubins, which are", inputs.len() - 1), "that they were made from"),
    };
    bail!(
        "{}: {what} compiled already: the flags after -- ({}) change nothing; give the PTX {made}, or leave the flags out",
        first.path.display(),
        flags.join(" ")
    )
}

/// The chosen entries of a container. That there are none is an error, which reading it tells.
pub fn inside(path: &Path, args: &Inside<'_>) -> Result<Vec<Given>> {
    let choice = Choice::inside(path, args)?;
    let (mut all, passed_over) = entries(&choice, args, args.within.compile)?;
    if all.is_empty() && passed_over && path.is_dir() {
        // A folder of PTX alone is there to be compiled.
        (all, _) = entries(&choice, args, true)?;
    }
    if all.is_empty() {
        let name = path.display();
        let compile = if passed_over { "; --compile compiles the PTX inside" } else { "" };
        let message = format!("{name}: no cubin that was asked for is inside: `ptxinspect list` says what is{compile}");
        all.push(Given { path: path.to_path_buf(), from: From::Nothing(message), limits: args.limits });
    }
    Ok(all)
}

/// The entries that are chosen, and whether PTX was passed over.
fn entries(choice: &Choice, args: &Inside<'_>, compile: bool) -> Result<(Vec<Given>, bool)> {
    let limits = args.limits;
    let mut all = Vec::new();
    let mut passed_over = false;
    choice.visit(
        |entry| Some(chosen(entry, choice, compile).map(|()| entry.clone())),
        |result| {
            match result {
                Ok(Ok(entry)) => {
                    let path = PathBuf::from(&entry.path);
                    all.push(Given { path, from: From::Entry(Box::new(entry)), limits });
                }
                Ok(Err(Passed::Ptx)) => passed_over = true,
                Ok(Err(Passed::NotAsked)) => {}
                Err(error) => {
                    let path = PathBuf::from(&error.path);
                    all.push(Given { path, from: From::Nothing(error.to_string()), limits });
                }
            }
            Ok(())
        },
        &Silent,
    )?;
    Ok((all, passed_over))
}

/// Why an entry is left out.
enum Passed {
    Ptx,
    NotAsked,
}

fn chosen(entry: &Entry, choice: &Choice, compile: bool) -> Result<(), Passed> {
    match entry.kind {
        EntryKind::Cubin => {
            // The container tells the architecture; names are only in the cubin, and so is a bare one's variant.
            let tells = entry.version.is_some() || !choice.has_arches();
            if choice.kernels.is_empty() && tells {
                return if choice.wants_arch(entry.arch) { Ok(()) } else { Err(Passed::NotAsked) };
            }
            // What cannot be read is an error later.
            let Ok(bytes) = entry.read() else { return Ok(()) };
            let Ok(image) = Image::parse_resources(&bytes) else { return Ok(()) };
            let wants_kernel =
                |name: &str| choice.kernels.matches([name]) || choice.kernels.matches(demangle(name).as_deref());
            let kernels = choice.kernels.is_empty() || image.functions.iter().any(|found| wants_kernel(&found.name));
            let wanted = kernels && choice.wants_arch(contents::arch(entry, Some(&image)));
            if wanted { Ok(()) } else { Err(Passed::NotAsked) }
        }
        EntryKind::Ptx if !compile => Err(Passed::Ptx),
        EntryKind::Ptx => Ok(()),
        EntryKind::LtoIr | EntryKind::TileIr | EntryKind::Other(_) => Err(Passed::NotAsked),
    }
}

impl Choice {
    /// The entries of one input of a command that compiles or reads.
    pub fn inside(path: &Path, args: &Inside<'_>) -> Result<Choice> {
        let mut choice = Choice::new(&Choose {
            inputs: vec![path.to_path_buf()],
            kind: KindFilter::All,
            arch: args.arch.to_vec(),
            kernel: args.kernel.to_vec(),
            within: args.within.clone(),
            jobs: args.jobs,
            limits: args.limits,
        })?;
        // PTX has no architecture yet: it is compiled for those that were asked for.
        choice.any_ptx = true;
        Ok(choice)
    }
}
