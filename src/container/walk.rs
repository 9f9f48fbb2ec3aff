//! From a path or bytes to entries: files are opened, recognised and taken apart one at a time.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Options;
use super::decompress::Compression;
use super::entry::{Entry, EntryKind, Payload, Place};
use super::error::{ContainerError, Problem, glimpse};
use super::fatbin::Walk;
use super::host::{self, Stray};
use super::jit;
use super::sniff::{self, Format, HEAD_BYTES};
use super::source::Source;
use super::zipped::Zip;

/// Containers inside containers are followed this deep.
const MAX_DEPTH: u8 = 6;

/// Something still to be taken apart.
#[derive(Clone)]
pub(super) enum Step {
    /// A file or folder of the system.
    Path { path: PathBuf, name: String, top: bool },
    /// Bytes.
    Node(Node),
    /// A member of a zip.
    Member { zip: Arc<Zip>, index: usize, depth: u8 },
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
    pub depth: u8,
    /// Named by the user: that it holds nothing known is an error.
    pub top: bool,
    /// Where it is in the file system.
    pub place: Option<PathBuf>,
}

/// The entries of a container, in order; what cannot be read is an error in its place.
pub struct Entries {
    /// The next step last.
    stack: Vec<Step>,
    options: Options,
    /// Folders on the way, so that links do not lead in circles.
    folders: HashSet<PathBuf>,
}

impl Entries {
    pub(super) fn new(steps: &[Step], options: Options) -> Self {
        Entries { stack: steps.iter().rev().cloned().collect(), options, folders: HashSet::new() }
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
                    let steps = expand(step, self.options, &mut self.folders);
                    self.push_all(steps);
                }
            }
        }
    }
}

/// Splits steps into parts that can be read independently: the files of a folder, the members of a zip.
pub(super) fn split(steps: &[Step], options: Options) -> Vec<Step> {
    let mut folders = HashSet::new();
    let mut parts = Vec::new();
    let mut stack: Vec<Step> = steps.iter().rev().cloned().collect();
    while let Some(step) = stack.pop() {
        let divisible = match &step {
            Step::Path { path, .. } => path.is_dir() || is_zip(path),
            Step::Node(node) => node.source.peek(0, 4).is_ok_and(|head| sniff::format(&head) == Format::Zip),
            _ => false,
        };
        if divisible {
            stack.extend(expand(step, options, &mut folders).into_iter().rev());
        } else {
            parts.push(step);
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
fn expand(step: Step, options: Options, folders: &mut HashSet<PathBuf>) -> Vec<Step> {
    match step {
        Step::Ready(_) => vec![step],
        Step::Path { path, name, top } => expand_path(path, name, top, folders),
        Step::Node(node) => expand_node(&node, options),
        Step::Member { zip, index, depth } => match zip.member(index) {
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

fn expand_path(path: PathBuf, name: String, top: bool, folders: &mut HashSet<PathBuf>) -> Vec<Step> {
    let io = |error: std::io::Error| vec![failed(Problem::Io(error.to_string()).at(&*name))];
    let metadata = match std::fs::metadata(&path) {
        Ok(metadata) => metadata,
        // A link to nothing holds nothing; a file that the user named should be there.
        Err(error) if !top && is_dangling(&error) => return Vec::new(),
        Err(error) => return io(error),
    };
    if metadata.is_dir() {
        return match folder(&path, &name, folders) {
            Ok(steps) => steps,
            Err(error) => io(error),
        };
    }
    if !metadata.is_file() && !top {
        return Vec::new();
    }
    match Source::open(&path) {
        Ok(source) => {
            let packed = (Compression::Stored, source.len());
            vec![Step::Node(Node { path: name, source, packed, depth: 0, top, place: Some(path) })]
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

/// The files of a folder by name, each once: a link to something else below a folder that was visited is left out.
fn folder(path: &Path, name: &str, folders: &mut HashSet<PathBuf>) -> std::io::Result<Vec<Step>> {
    if !folders.insert(path.canonicalize()?) {
        return Ok(Vec::new());
    }
    let mut children = BTreeMap::new();
    for child in std::fs::read_dir(path)? {
        let child = child?;
        children.insert(child.file_name(), child);
    }
    let mut steps = Vec::new();
    for (file_name, child) in children {
        if child.file_type().is_ok_and(|kind| kind.is_symlink())
            && child.path().canonicalize().is_ok_and(|target| folders.iter().any(|folder| target.starts_with(folder)))
        {
            continue;
        }
        let separator = if name.ends_with('/') { "" } else { "/" };
        let name = format!("{name}{separator}{}", file_name.to_string_lossy());
        steps.push(Step::Path { path: child.path(), name, top: false });
    }
    Ok(steps)
}

fn expand_node(node: &Node, options: Options) -> Vec<Step> {
    let fail = |problem: Problem| vec![failed(problem.at(&*node.path))];
    let head = match node.source.peek(0, HEAD_BYTES) {
        Ok(head) => head,
        Err(problem) => return fail(problem),
    };
    let format = sniff::format(&head);
    if node.depth >= MAX_DEPTH && matches!(format, Format::Zip | Format::Archive | Format::Universal) {
        return fail(Problem::Unsupported(format!("containers inside containers more than {MAX_DEPTH} deep")));
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
            let file = Arc::from(&*node.path);
            let mut walk = Walk::new(&node.path, &file, Place::Bare);
            walk.section(&node.source);
            walk.found.into_iter().map(|result| Step::Ready(Box::new(result))).collect()
        }
        Format::Host => expand_host(node, options),
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
    let jit = node.place.as_deref().and_then(jit::beside);
    Step::Ready(Box::new(Ok(Entry {
        path: node.path.clone(),
        file: Arc::from(&*node.path),
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
        Step::Node(Node {
            path: format!("{}/{}", node.path, member.name),
            packed: (Compression::Stored, member.source.len()),
            source: member.source,
            depth: node.depth + 1,
            top: false,
            place: None,
        })
    });
    files.chain(problems.into_iter().map(|problem| failed(problem.at(&*node.path)))).collect()
}

fn expand_host(node: &Node, options: Options) -> Vec<Step> {
    let (sections, problems) = host::sections(&node.source);
    let file: Arc<str> = Arc::from(&*node.path);
    let mut steps = Vec::new();
    let (mut executable, mut relocatable) = (0, 0);
    for section in &sections {
        let base = format!("{}/{}", node.path, section.name);
        let mut walk = Walk::new(&base, &file, section.place);
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
        for stray in host::stray(&node.source, &sections) {
            match stray {
                Stray::Fatbin { offset, source } => {
                    let base = format!("{}/@{offset:#x}", node.path);
                    let mut walk = Walk::new(&base, &file, Place::Embedded);
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
