//! From a path or bytes to entries: files are opened, recognised and taken apart one at a time.

use std::collections::{BTreeMap, HashSet};
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Options;
use super::decompress::Compression;
use super::entry::{Entry, EntryKind, HostFile, Payload, Place};
use super::error::{ContainerError, Problem, glimpse};
use super::fatbin::Walk;
use super::host::{self, Stray};
use super::jit;
use super::left::Left;
use super::sniff::{self, Format, HEAD_BYTES};
use super::source::Source;
use super::zipped::Zip;
use crate::base::work;

/// Something still to be taken apart.
#[derive(Clone)]
pub(super) enum Step {
    /// A file or folder of the system.
    Path { path: PathBuf, name: String, depth: u32, top: bool },
    /// Bytes.
    Node(Node),
    /// A member of a zip.
    Member { zip: Arc<Zip>, index: usize, depth: u32 },
    /// Done.
    Ready(Box<Result<Entry, ContainerError>>),
}

/// Bytes with a name.
#[derive(Clone)]
pub(super) struct Node {
    pub path: String,
    pub source: Source,
    /// How the bytes were packed in what holds them, and how many there were.
    pub packed: (Compression, u64),
    pub depth: u32,
    /// Named by the user: that it holds nothing known is an error.
    pub top: bool,
    /// Where it is in the file system.
    pub place: Option<PathBuf>,
}

impl Node {
    fn file(&self) -> Arc<HostFile> {
        Arc::new(HostFile { path: self.path.clone(), bytes: self.source.len(), packed_bytes: self.packed.1 })
    }
}

/// The entries of a container, in order; what cannot be read is an error in its place.
pub struct Entries {
    /// The next step last.
    stack: Vec<Step>,
    options: Options,
    folders: Folders,
    left: Left,
}

/// Where links are followed: what they do not lead to.
#[derive(Default)]
struct Folders {
    /// Folders that were looked into, so that links do not lead in circles.
    seen: HashSet<Identity>,
    /// Folders whose files are all looked at anyway.
    roots: Vec<PathBuf>,
}

impl Entries {
    pub(super) fn new(steps: &[Step], options: Options, share: Option<u64>) -> Self {
        let left = Left::new(options.limits, share.unwrap_or_else(|| options.limits.unpacked(bytes_of(steps))));
        Entries { stack: steps.iter().rev().cloned().collect(), options, folders: Folders::default(), left }
    }

    fn push_all(&mut self, steps: Vec<Step>) {
        self.stack.extend(steps.into_iter().rev());
    }
}

impl Iterator for Entries {
    type Item = Result<Entry, ContainerError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.stack.pop()? {
                Step::Ready(result) => return Some(*result),
                step => {
                    work::spend(1);
                    let steps = expand(step, self.options, &mut self.folders, &mut self.left);
                    // The rest of a file that was too much, or of everything, is not looked at.
                    if self.left.entries_are_over() {
                        self.stack.clear();
                    } else if self.left.bytes_are_over() {
                        self.stack.retain(|step| matches!(step, Step::Path { .. }));
                    }
                    self.push_all(steps);
                }
            }
        }
    }
}

/// Bytes of what is at hand already.
fn bytes_of(steps: &[Step]) -> u64 {
    let of = |step: &Step| if let Step::Node(node) = step { node.source.len() } else { 0 };
    steps.iter().map(of).fold(0, u64::saturating_add)
}

/// Splits steps into parts that can be read independently: the files of a folder, the members of a zip. Each member has its share of
/// what the zip may unpack to.
pub(super) fn split(steps: &[Step], options: Options, share: Option<u64>) -> Vec<(Step, Option<u64>)> {
    let mut folders = Folders::default();
    let mut parts = Vec::new();
    let mut left = Left::new(options.limits, share.unwrap_or_else(|| options.limits.unpacked(bytes_of(steps))));
    let mut stack: Vec<Step> = steps.iter().rev().cloned().collect();
    while let Some(step) = stack.pop() {
        work::spend(1);
        let divisible = match &step {
            Step::Path { path, .. } => path.is_dir() || is_zip(path),
            Step::Node(node) => node.source.peek(0, 4).is_ok_and(|head| sniff::format(&head) == Format::Zip),
            _ => false,
        };
        if divisible {
            let steps = expand(step, options, &mut folders, &mut left);
            if left.entries_are_over() {
                stack.clear();
            }
            stack.extend(steps.into_iter().rev());
        } else {
            let share = match &step {
                Step::Member { zip, index, .. } => Some(zip.share(*index, left.bytes())),
                Step::Node(_) => Some(left.bytes()),
                _ => share,
            };
            parts.push((step, share));
        }
    }
    parts
}

/// About how many bytes there are to go through, from what file systems and zips say.
pub(super) fn bytes_ahead(step: &Step) -> u64 {
    match step {
        Step::Path { path, .. } => std::fs::metadata(path).map_or(0, |metadata| metadata.len()),
        Step::Node(node) => node.source.len(),
        Step::Member { zip, index, .. } => zip.member_bytes(*index),
        Step::Ready(_) => 0,
    }
}

fn is_zip(path: &Path) -> bool {
    use std::io::Read;
    let mut head = [0; 4];
    path.is_file()
        && std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok()
        && sniff::format(&head) == Format::Zip
}

fn failed(error: ContainerError) -> Step {
    Step::Ready(Box::new(Err(error)))
}

/// Takes one step.
fn expand(step: Step, options: Options, folders: &mut Folders, left: &mut Left) -> Vec<Step> {
    if let Err(problem) = left.take_entry() {
        return vec![failed(problem.at(step.name()))];
    }
    match step {
        Step::Ready(_) => vec![step],
        Step::Path { path, name, depth, top } => expand_path(path, name, depth, top, options, folders, left),
        Step::Node(node) => expand_node(&node, options, left),
        Step::Member { zip, index, depth } => match zip.member(index, left) {
            Ok(None) => Vec::new(),
            Err(error) => vec![failed(error)],
            Ok(Some(opened)) => vec![Step::Node(Node {
                path: opened.path,
                source: opened.source,
                packed: (opened.compression, opened.stored_bytes),
                depth,
                top: false,
                place: None,
            })],
        },
    }
}

impl Step {
    /// What it is about, for an error.
    pub fn name(&self) -> String {
        match self {
            Step::Path { name, .. } => name.clone(),
            Step::Node(node) => node.path.clone(),
            Step::Member { zip, .. } => zip.path().to_owned(),
            Step::Ready(result) => match &**result {
                Ok(entry) => entry.path.clone(),
                Err(error) => error.path.clone(),
            },
        }
    }
}

fn expand_path(
    path: PathBuf,
    name: String,
    depth: u32,
    top: bool,
    options: Options,
    folders: &mut Folders,
    left: &mut Left,
) -> Vec<Step> {
    let io = |error: std::io::Error| {
        let why = if top { super::missing::why(&path, &error) } else { error.to_string() };
        vec![failed(Problem::Io(why).at(&*name))]
    };
    let metadata = match std::fs::metadata(&path) {
        Ok(metadata) => metadata,
        // A link to nothing holds nothing; a file that the user named should be there.
        Err(error) if !top && is_dangling(&error) => return Vec::new(),
        Err(error) => return io(error),
    };
    if metadata.is_dir() {
        if depth >= options.limits.depth {
            return vec![failed(left.too_deep().at(&*name))];
        }
        if options.follow_links {
            if !folders.seen.insert(identity(&path, &metadata)) {
                return Vec::new();
            }
            folders.roots.extend(path.canonicalize().ok().filter(|_| top));
        }
        return match folder(&path, &name, depth, options, folders) {
            Ok(steps) => steps,
            Err(error) => io(error),
        };
    }
    if !metadata.is_file() && !top {
        return Vec::new();
    }
    match Source::open(&path, options.limits.whole()) {
        Ok(source) => {
            let packed = (Compression::Stored, source.len());
            left.start_file(source.len());
            vec![Step::Node(Node { path: name, source, packed, depth, top, place: Some(path) })]
        }
        Err(error) => io(error),
    }
}

/// Whether it is a link that leads nowhere, or in a ring.
fn is_dangling(error: &std::io::Error) -> bool {
    #[cfg(unix)]
    let is_ring = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    #[cfg(not(unix))]
    let is_ring = false;
    error.kind() == std::io::ErrorKind::NotFound || is_ring
}

/// What tells a folder from others, whatever its name.
#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = PathBuf;

#[cfg(unix)]
fn identity(_: &Path, metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(path: &Path, _: &Metadata) -> Identity {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// The files of a folder by name; where links lead only if that was asked for, and not to what is looked at anyway.
fn folder(path: &Path, name: &str, depth: u32, options: Options, folders: &mut Folders) -> std::io::Result<Vec<Step>> {
    let mut children = BTreeMap::new();
    for child in std::fs::read_dir(path)? {
        work::spend(1);
        let child = child?;
        if child.file_type()?.is_symlink() {
            let target = child.path().canonicalize().ok().filter(|_| options.follow_links);
            let is_new = |target: &PathBuf| !folders.roots.iter().any(|root| target.starts_with(root));
            let Some(target) = target.filter(is_new) else { continue };
            if target.is_dir() {
                folders.roots.push(target);
            }
        }
        children.insert(child.file_name(), child.path());
    }
    let separator = if name.ends_with('/') { "" } else { "/" };
    let step = |(file_name, path): (std::ffi::OsString, PathBuf)| {
        let name = format!("{name}{separator}{}", file_name.to_string_lossy());
        Step::Path { path, name, depth: depth + 1, top: false }
    };
    Ok(children.into_iter().map(step).collect())
}

/// A container path may have so many bytes: many entries share a long one, each with its own copy.
const MAX_PATH_BYTES: usize = 4096;

/// The path of something inside.
pub(super) fn inside(path: &str, name: &str) -> Result<String, ContainerError> {
    if path.len() + name.len() >= MAX_PATH_BYTES {
        let what = format!("a name of {} bytes inside it: paths have at most {MAX_PATH_BYTES}", name.len());
        return Err(Problem::Unsupported(what).at(path));
    }
    Ok(format!("{path}/{name}"))
}

fn expand_node(node: &Node, options: Options, left: &mut Left) -> Vec<Step> {
    let fail = |problem: Problem| vec![failed(problem.at(&*node.path))];
    let head = match node.source.peek(0, HEAD_BYTES) {
        Ok(head) => head,
        Err(problem) => return fail(problem),
    };
    let format = sniff::format(&head);
    if node.depth >= options.limits.depth && matches!(format, Format::Zip | Format::Archive | Format::Universal) {
        return fail(left.too_deep());
    }
    match format {
        Format::Unknown if node.top => fail(Problem::NotRecognised { found: glimpse(&head) }),
        Format::Unknown => Vec::new(),
        Format::ThinArchive => fail(Problem::Unsupported(
            "it is a thin archive, which holds only the names of its members: give the object files themselves"
                .to_owned(),
        )),
        Format::Ptx => {
            let (arch, version) = sniff::ptx_header(&head);
            vec![bare(node, EntryKind::Ptx, arch, version, node.source.clone())]
        }
        Format::Cubin => vec![bare(node, EntryKind::Cubin, sniff::cubin_arch(&head), None, node.source.clone())],
        Format::LtoIr => vec![bare(node, EntryKind::LtoIr, None, None, node.source.clone())],
        Format::Prefaced(at) => {
            let at = at as u64;
            let rest = node.source.slice(at, node.source.len() - at);
            let arch = head.get(usize::try_from(at).unwrap_or(0)..).and_then(sniff::cubin_arch);
            rest.map(|rest| bare(node, EntryKind::Cubin, arch, None, rest)).into_iter().collect()
        }
        Format::Fatbin => {
            let file = node.file();
            let mut walk = Walk::new(&node.path, &file, Place::Bare, left);
            walk.section(&node.source);
            walk.found.into_iter().map(|result| Step::Ready(Box::new(result))).collect()
        }
        Format::Host => expand_host(node, options, left),
        Format::Archive => nested(node, host::archive(&node.source)),
        Format::Universal => nested(node, host::universal(&node.source, &head)),
        Format::Zip => match Zip::open(&node.path, &node.source) {
            Err(error) => vec![failed(error)],
            Ok(zip) => {
                let zip = Arc::new(zip);
                let depth = node.depth + 1;
                (0..zip.len()).map(|index| Step::Member { zip: Arc::clone(&zip), index, depth }).collect()
            }
        },
    }
}

/// A cubin, PTX or LTO-IR that is a file of its own.
fn bare(
    node: &Node,
    kind: EntryKind,
    arch: Option<crate::base::Arch>,
    version: Option<(u16, u16)>,
    source: Source,
) -> Step {
    let jit = match node.place.as_deref().map_or(Ok(None), jit::beside) {
        Ok(jit) => jit,
        Err(error) => {
            let problem = Problem::Io(format!("what lies beside it cannot be read: {error}"));
            return Step::Ready(Box::new(Err(ContainerError { path: node.path.clone(), problem })));
        }
    };
    Step::Ready(Box::new(Ok(Entry {
        path: node.path.clone(),
        file: node.file(),
        fatbin: None,
        kind,
        arch,
        place: Place::Bare,
        compression: node.packed.0,
        stored_bytes: node.packed.1,
        bytes: source.len(),
        identifier: None,
        options: None,
        version,
        debug: false,
        obfuscated: false,
        jit: jit.map(Arc::new),
        payload: Payload::Own(source),
    })))
}

fn nested(node: &Node, (members, problems): (Vec<host::Member>, Vec<Problem>)) -> Vec<Step> {
    let files = members.into_iter().map(|member| {
        let path = match inside(&node.path, &member.name) {
            Ok(path) => path,
            Err(error) => return failed(error),
        };
        Step::Node(Node {
            path,
            packed: (Compression::Stored, member.source.len()),
            source: member.source,
            depth: node.depth + 1,
            top: false,
            place: None,
        })
    });
    files.chain(problems.into_iter().map(|problem| failed(problem.at(&*node.path)))).collect()
}

fn expand_host(node: &Node, options: Options, left: &mut Left) -> Vec<Step> {
    let (sections, problems) = host::sections(&node.source);
    let file = node.file();
    let mut steps = Vec::new();
    let (mut executable, mut relocatable) = (0, 0);
    for section in &sections {
        let base = match inside(&node.path, &section.name) {
            Ok(base) => base,
            Err(error) => {
                steps.push(failed(error));
                continue;
            }
        };
        let mut walk = Walk::new(&base, &file, section.place, left);
        // Numbers go on where several sections have one name.
        let next = if section.place == Place::Executable { &mut executable } else { &mut relocatable };
        walk.next = *next;
        walk.section(&section.source);
        // Only headers were looked at, all over the file.
        section.source.release();
        *next = walk.next;
        steps.extend(walk.found.into_iter().map(|result| Step::Ready(Box::new(result))));
    }
    steps.extend(problems.into_iter().map(|problem| failed(problem.at(&*node.path))));
    if options.scan {
        let (found, problem) = host::stray(&node.source, &sections);
        steps.extend(problem.map(|problem| failed(problem.at(&*node.path))));
        for stray in found {
            match stray {
                Stray::Fatbin { offset, source } => {
                    let base = format!("{}/@{offset:#x}", node.path);
                    let mut walk = Walk::new(&base, &file, Place::Embedded, left);
                    if let Err(problem) = walk.fatbin(&source, 0) {
                        walk.found.push(Err(problem.at(&*base)));
                    }
                    steps.extend(walk.found.into_iter().map(|result| Step::Ready(Box::new(result))));
                }
                Stray::Cubin { offset, source } => {
                    let path = format!("{}/@{offset:#x}", node.path);
                    let packed = (Compression::Stored, source.len());
                    let inner = Node { path, source, packed, depth: node.depth + 1, top: false, place: None };
                    let arch = inner.source.peek(0, 64).ok().and_then(|head| sniff::cubin_arch(&head));
                    let step = bare(&inner, EntryKind::Cubin, arch, None, inner.source.clone());
                    steps.push(match step {
                        Step::Ready(mut result) => {
                            if let Ok(entry) = result.as_mut() {
                                (entry.place, entry.file) = (Place::Embedded, Arc::clone(&file));
                            }
                            Step::Ready(result)
                        }
                        step => step,
                    });
                }
            }
        }
    }
    steps
}
