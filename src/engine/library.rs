//! The kernels of everything that holds GPU code, as rows.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rayon::prelude::*;

use super::compile::{self, Session};
use super::contents::{self, Choice, Choose, KindFilter};
use super::given;
use super::input::{self, Input};
use super::inspect::{View, carried_ptx, inspect_all, text_of};
use super::pages::PageRoom;
use super::progress::Progress;
use super::room::Room;
use super::settings::Settings;
use crate::base::Arch;
use crate::base::work::{self, Deadline, TimeOver};
use crate::container::{ContainerError, Entry, EntryKind};
use crate::cubin::Image;
use crate::ptx;
use crate::report::annotation::Annotation;
use crate::report::library::{Beside, Depth, EntryFacts, JitFacts, Row, SortKey, Summary, fold, rows, sort};
use crate::report::{KernelKind, LaunchHints, Unit, demangle};

/// Rows beyond what is shown that may wait before they are sorted away.
const SLACK: usize = 1_000;

/// What an entry came to.
pub enum Found {
    /// A cubin, or what ptxas made of a PTX text.
    Cubin(EntryFacts, Vec<Row>),
    /// PTX that nobody asked to compile.
    Ptx(Box<Entry>),
    /// Something that cannot be analysed.
    Other,
    /// Something that could not be read.
    Failed(String, String),
}

/// What is asked for of a library.
pub struct Request {
    /// How PTX is compiled.
    pub session: Session,
    /// What to look at.
    pub settings: Settings,
    /// What is known of the launch.
    pub launch: LaunchHints,
    /// How much is read of each cubin.
    pub depth: Depth,
    /// Whether names are wanted as their language spells them, too.
    pub names: bool,
}

/// Libraries, archives, wheels and folders, opened.
pub struct Library {
    request: Request,
    choice: Choice,
    room: Room,
}

impl Library {
    /// Opens them; standard input is read whole.
    pub fn new(request: Request) -> Result<Library> {
        let Settings { inputs, arch, kernel, within, jobs, limits, .. } = request.settings.clone();
        let mut choice = Choice::new(&Choose { inputs, kind: KindFilter::All, arch, kernel, within, jobs, limits })?;
        // PTX has no architecture yet: it is compiled for those that were asked for.
        choice.any_ptx = true;
        let room = Room::for_input(choice.bytes_ahead());
        Ok(Library { request, choice, room })
    }

    /// The architectures of cubins that were not asked for.
    pub fn other_arches(&self) -> Vec<Arch> {
        self.choice.other_arches()
    }

    /// Whether nothing was left out.
    pub fn is_everything(&self) -> bool {
        self.choice.is_everything()
    }

    /// The code of the functions that are most worth a look, as far as a page has room for it: what spills first, then what takes the most
    /// registers.
    pub fn pages(&self, rows: &[Row], progress: &dyn Progress) -> Result<Vec<(Unit, Annotation)>> {
        if self.request.depth == Depth::Resources {
            return Ok(Vec::new());
        }
        let mut ranked: Vec<&Row> = rows.iter().filter(|row| row.kind == KernelKind::Entry).collect();
        ranked.sort_by_key(|row| Reverse((row.spills.map(|spills| spills.instructions), row.resources.registers)));
        let mut room = PageRoom::new();
        ranked.retain(|row| room.take(1, row.instructions.total.unwrap_or(0)));
        let chosen = ranked;
        let entries: HashSet<&str> = chosen.iter().map(|row| &*row.entry).collect();
        let names: BTreeSet<&str> = chosen.iter().map(|row| row.name.as_str()).collect();
        let settings =
            Settings { kernel: names.into_iter().map(str::to_owned).collect(), ..self.request.settings.clone() };
        if chosen.is_empty() {
            return Ok(Vec::new());
        }
        let mut session = Session::new(&settings)?;
        session.launch = self.request.launch;
        session.cache.clone_from(&self.request.session.cache);
        let mut inputs = given::expand(&settings.inputs, &settings)?;
        inputs.retain(|given| given.path.to_str().is_some_and(|path| entries.contains(path)));
        Ok(inspect_all(&session, &inputs, View::Annotation { values: true }, progress))
    }

    /// Looks at every entry, in parallel, and hands on what was found, in order.
    pub fn visit(&self, progress: &dyn Progress, mut take: impl FnMut(Found) -> io::Result<()>) -> io::Result<()> {
        let look = |entry: &Entry| {
            let found = look(entry, self);
            (!found.is_empty()).then_some(found)
        };
        let take = |result: Result<Vec<Found>, ContainerError>| {
            match result {
                Ok(found) => found.into_iter().try_for_each(&mut take)?,
                Err(error) => take(Found::Failed(error.path.clone(), error.problem.to_string()))?,
            }
            Ok(())
        };
        self.choice.visit(look, take, progress).map_err(|error| match error.downcast::<io::Error>() {
            Ok(error) => error,
            Err(error) => io::Error::other(error),
        })
    }
}

fn look(entry: &Entry, with: &Library) -> Vec<Found> {
    let failed = |message: String| vec![Found::Failed(entry.path.clone(), message)];
    match entry.kind {
        EntryKind::Cubin => {
            let looked = match with.request.depth {
                Depth::Full => entry.with_bytes(|bytes| Image::parse(bytes).map(|image| with.image(entry, &image))),
                Depth::Resources => {
                    let _taken = with.room.take(entry.bytes_in_memory());
                    entry.with_bytes(|bytes| Image::parse_resources(bytes).map(|image| with.image(entry, &image)))
                }
            };
            match looked {
                Err(error) => failed(error.problem.to_string()),
                Ok(Err(error)) => failed(error.to_string()),
                Ok(Ok(found)) => found,
            }
        }
        EntryKind::Ptx => {
            // Its cubin lies beside it, and says more.
            if entry.jit.as_ref().is_some_and(|jit| jit.companion.is_some()) && !with.request.settings.within.compile {
                return Vec::new();
            }
            let named = |input: &PathBuf| match input.as_os_str() {
                input if input == "-" => entry.path == input::STDIN_NAME,
                input => input == entry.path.as_str(),
            };
            let named = with.request.settings.inputs.iter().any(named);
            if !with.request.settings.within.compile && !named {
                return vec![Found::Ptx(Box::new(entry.clone()))];
            }
            with.compile(entry)
        }
        EntryKind::LtoIr | EntryKind::TileIr | EntryKind::Other(_) => vec![Found::Other],
    }
}

impl Library {
    /// What is known of the launch: what the user says, or what a compiler's cache records.
    fn launch(&self, entry: &Entry) -> LaunchHints {
        let recorded = entry.jit.as_ref().and_then(|jit| input::recorded_launch(Path::new(&entry.path), jit));
        self.request.launch.or_recorded(recorded.as_ref())
    }

    /// The PTX of a cubin, where it carries it or a compiler's cache keeps it, and something beside the cubin's records is read at all.
    fn ptx_of(&self, entry: &Entry, image: &Image<'_>) -> Option<String> {
        if self.request.depth == Depth::Resources {
            return None;
        }
        let kept = || input::companion(Path::new(&entry.path), entry.jit.as_ref()?);
        carried_ptx(image).or_else(kept)
    }

    fn image(&self, entry: &Entry, image: &Image<'_>) -> Vec<Found> {
        let arch = contents::arch(entry, Some(image));
        if !self.choice.wants_arch(arch) {
            return Vec::new();
        }
        let text = self.ptx_of(entry, image);
        let module = text.as_deref().map(ptx::parse);
        let beside = Beside { module: module.as_ref(), log: None, launch: self.launch(entry) };
        let mut found = self.rows(image, &entry.path, arch, beside);
        if let (Some(jit), [Found::Cubin(facts, _)]) = (&entry.jit, found.as_mut_slice()) {
            facts.jit =
                Some(JitFacts { kernel: jit.kernel.clone(), ptx: jit.companion.clone(), options: jit.options.clone() });
        }
        found
    }

    fn rows<'i>(&self, image: &'i Image<'i>, path: &str, arch: Option<Arch>, beside: Beside<'i>) -> Vec<Found> {
        let kernels = &self.choice.kernels;
        let wanted =
            |name: &str| kernels.is_empty() || kernels.matches([name]) || kernels.matches(demangle(name).as_deref());
        let arch = arch.unwrap_or(image.arch).to_string();
        let (entry, mut rows) = rows(image, path, &arch, self.request.depth, beside, &wanted);
        if rows.is_empty() && !kernels.is_empty() {
            return Vec::new();
        }
        if self.request.names {
            for row in &mut rows {
                row.demangled = demangle(&row.name);
            }
        }
        vec![Found::Cubin(entry, rows)]
    }

    /// Compiles PTX that [`Library::visit`] left, in parallel; what was found, in order.
    pub fn compile_all(&self, left: &[Entry], progress: &dyn Progress) -> Vec<Found> {
        let session = &self.request.session;
        progress.expect(left.len() as u64);
        let one = |entry: &Entry| {
            let late = |TimeOver| vec![Found::Failed(entry.path.clone(), compile::out_of_time(session.timeout))];
            let found = work::until(Deadline::after(session.timeout), || self.compile(entry)).unwrap_or_else(late);
            entry.release();
            progress.advance(1);
            found
        };
        session.pool().install(|| left.par_iter().flat_map_iter(one).collect())
    }

    /// Compiles a PTX text for every architecture that was asked for.
    fn compile(&self, entry: &Entry) -> Vec<Found> {
        let path = entry.path.as_str();
        let bytes = match entry.read() {
            Err(error) => return vec![Found::Failed(path.to_owned(), error.problem.to_string())],
            Ok(bytes) => bytes.into_owned(),
        };
        let input = Ok(Input::alone(path, bytes));
        let place = PathBuf::from(path);
        let text = text_of(&input);
        let module = text.as_deref().map(ptx::parse);
        let launch = self.launch(entry);
        let mut found = Vec::new();
        for (at, arch) in self.request.session.arches().into_iter().enumerate() {
            let Some((unit, built)) = compile::build(&self.request.session, &input, &place, arch, at == 0) else {
                continue;
            };
            let image = built.as_ref().map(|built| Image::parse(&built.cubin));
            match (image, unit.error) {
                (Some(Ok(image)), _) => {
                    let arch = unit.arch.as_deref().and_then(|arch| arch.parse().ok());
                    let log = built.as_ref().and_then(|built| built.log.as_ref());
                    found.extend(self.rows(&image, path, arch, Beside { module: module.as_ref(), log, launch }));
                }
                (Some(Err(error)), _) => found.push(Found::Failed(path.to_owned(), error.to_string())),
                (None, error) => {
                    let first = |error: crate::report::UnitError| {
                        let first = error.diagnostics.first().map(|first| format!(": {}", first.message));
                        format!("{}{}", error.message, first.unwrap_or_default())
                    };
                    let message = error.map_or_else(|| "it cannot be compiled".to_owned(), first);
                    found.push(Found::Failed(path.to_owned(), message));
                }
            }
        }
        found
    }
}

/// Rows that will be shown, and sums of all.
pub struct Collected {
    /// The entries, where they are wanted.
    pub entries: Vec<EntryFacts>,
    /// Rows that will be shown.
    pub rows: Vec<Row>,
    /// How many rows there were.
    pub total: u64,
    /// Sums of all.
    pub summary: Summary,
    /// What the rows are sorted by.
    pub sort: SortKey,
    /// The rows there were: a copy of a kernel is none of its own.
    seen: Option<HashSet<u64>>,
    top: Option<usize>,
    keeps_entries: bool,
}

impl Collected {
    /// Nothing yet; of the rows the first `top` will be kept.
    pub fn new(sort: SortKey, top: Option<usize>, keeps_entries: bool) -> Self {
        Collected {
            entries: Vec::new(),
            rows: Vec::new(),
            total: 0,
            summary: Summary::default(),
            sort,
            seen: None,
            top,
            keeps_entries,
        }
    }

    /// Copies of a kernel that have the same figures share a row.
    #[must_use]
    pub fn folded(mut self, is_folded: bool) -> Self {
        self.seen = (is_folded && self.sort != SortKey::Order).then(HashSet::new);
        self
    }

    /// Adds something to the sums.
    pub fn count(&mut self, found: &Found) {
        match found {
            Found::Cubin(entry, rows) => self.summary.count(entry, rows),
            Found::Ptx(_) => self.summary.ptx_not_compiled += 1,
            Found::Other => self.summary.others += 1,
            Found::Failed(path, message) => self.summary.fail(path, message),
        }
    }

    /// Keeps rows, as far as they will be shown.
    pub fn keep(&mut self, entry: EntryFacts, mut rows: Vec<Row>) {
        rows.iter_mut().for_each(|row| row.is_configured = entry.jit.is_some());
        match &mut self.seen {
            None => self.total += rows.len() as u64,
            Some(seen) => {
                seen.extend(rows.iter().map(|row| row.identity(self.sort)));
                self.total = seen.len() as u64;
            }
        }
        self.rows.extend(rows);
        if self.keeps_entries {
            self.entries.push(entry);
        }
        // Rows that will not be shown do not pile up.
        if let Some(top) = self.top
            && self.rows.len() > top.saturating_add(SLACK)
        {
            self.cut(top);
        }
    }

    fn cut(&mut self, top: usize) {
        match self.seen {
            Some(_) => fold(&mut self.rows, self.sort, top),
            None => sort(&mut self.rows, self.sort, top),
        }
    }

    /// Sorts and cuts what was kept.
    pub fn finish(&mut self) {
        self.cut(self.top.unwrap_or(usize::MAX));
        if self.seen.is_some() {
            // Folding has its own order among equals.
            sort(&mut self.rows, self.sort, usize::MAX);
        }
        self.summary.finish();
    }
}
