//! Anything that holds GPU code: what is inside, and its bytes.
//!
//! *In*: a path (file or folder) or bytes. Recognised by content: PTX, cubins, fatbins, LTO-IR, ELF, PE, COFF and Mach-O
//! files with fatbin sections, archives, zips and wheels, compilers' cache folders; each inside the others. *Out*:
//! [`Entry`] after [`Entry`], in the order `cuobjdump -all` has, described from headers alone; [`Entry::read`] decompresses
//! one on demand.
//!
//! Files are mapped, large deflated zip members are inflated by range, entries are decompressed one by one: memory does not
//! grow with the container. Nothing is written to disk. Sizes that lie, bombs, overlaps and unsafe names become a
//! [`ContainerError`] in the place of what they spoil, and the rest is still read; past [`Options::limits`] one says so. It does not look inside cubins or PTX.

mod decompress;
mod entry;
mod error;
mod fatbin;
mod host;
mod inflate;
mod jit;
mod left;
pub mod missing;
mod sniff;
mod source;
mod spare;
pub mod stream;
mod walk;
mod zipped;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_limits;

use std::path::Path;

pub use decompress::Compression;
pub use entry::{Entry, EntryKind, HostFile, Place};
pub use error::{ContainerError, Limit, Problem};
pub use jit::{JitLaunch, JitMetadata, beside as jit_beside};
pub use walk::Entries;

use self::sniff::Format;
use self::source::Source;
use self::walk::{Node, Step};
use crate::base::Limits;

/// Whether these bytes hold GPU code inside something else: neither PTX nor a cubin, but a form that is known.
pub fn is_container(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(sniff::HEAD_BYTES as usize)];
    !matches!(sniff::format(head), Format::Ptx | Format::Cubin | Format::Prefaced(_) | Format::Unknown)
}

/// The same of a file; a folder is one.
pub fn is_container_at(path: &Path) -> std::io::Result<bool> {
    use std::io::Read;
    // A pipe is not opened: what is read here would be missing later.
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Ok(metadata.is_dir());
    }
    let mut head = Vec::new();
    std::fs::File::open(path)?.take(sniff::HEAD_BYTES).read_to_end(&mut head)?;
    Ok(is_container(&head))
}

/// How to look, and how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The most that may be looked at.
    pub limits: Limits,
    /// Also look where links in folders lead; never in circles.
    pub follow_links: bool,
    /// Also look for fatbins and cubins in host files outside their fatbin sections, where `cuobjdump` does not look.
    pub scan: bool,
}

/// A file, folder or stream that may hold GPU code. Nothing is read until its entries are asked for.
#[derive(Clone)]
pub struct Container {
    steps: Vec<Step>,
    options: Options,
    /// How much a part of a file may unpack to: its share of what the file may. None: a file of its own.
    share: Option<u64>,
}

impl Container {
    /// A file or folder; its entries' paths start with the path as given.
    pub fn open(path: &Path, options: Options) -> Container {
        let step = Step::Path { path: path.to_path_buf(), name: path.display().to_string(), depth: 0, top: true };
        Container { steps: vec![step], options, share: None }
    }

    /// Bytes at hand, such as those of standard input.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>, options: Options) -> Container {
        let source = Source::memory(bytes);
        let packed = (Compression::Stored, source.len());
        let node = Node { path: name.into(), source, packed, depth: 0, top: true, place: None };
        Container { steps: vec![Step::Node(node)], options, share: None }
    }

    /// Its name, as the paths of its entries start.
    pub fn name(&self) -> String {
        self.steps.first().map(Step::name).unwrap_or_default()
    }

    /// What is inside, in order. Lazy: a large container is taken apart file by file.
    pub fn entries(&self) -> Entries {
        Entries::new(&self.steps, self.options, self.share)
    }

    /// About how many bytes there are to go through: for showing progress.
    pub fn bytes_ahead(&self) -> u64 {
        self.steps.iter().map(walk::bytes_ahead).fold(0, u64::saturating_add)
    }

    /// The same entries as parts that can be read in parallel, in order: the files of a folder, the members of a zip.
    pub fn parts(&self) -> Vec<Container> {
        let parts = walk::split(&self.steps, self.options, self.share);
        parts.into_iter().map(|(step, share)| Container { steps: vec![step], options: self.options, share }).collect()
    }
}
