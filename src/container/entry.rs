//! One piece of GPU code in a container.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use super::decompress::{self, Compression};
use super::error::{ContainerError, Problem};
use super::jit::JitMetadata;
use super::source::Source;
use super::spare;
use crate::base::Arch;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EntryKind {
    /// PTX text.
    Ptx,
    /// An ELF file for a GPU.
    Cubin,
    /// NVVM bitcode for link-time optimisation: listed, never analysed.
    LtoIr,
    /// Tile IR: listed, never analysed.
    TileIr,
    /// A kind that is not known, by its number in the fatbin.
    Other(u16),
}

impl EntryKind {
    /// The name to show.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            EntryKind::Ptx => Cow::Borrowed("ptx"),
            EntryKind::Cubin => Cow::Borrowed("cubin"),
            EntryKind::LtoIr => Cow::Borrowed("ltoir"),
            EntryKind::TileIr => Cow::Borrowed("tileir"),
            EntryKind::Other(number) => Cow::Owned(format!("kind {number:#x}")),
        }
    }
}

/// Which fatbin of a host file an entry is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// Not in a host file.
    Bare,
    /// `.nv_fatbin`: what the program loads.
    Executable,
    /// `__nv_relfatbin`: what the device linker reads. `cuobjdump` shows it only with `-all`.
    Relocatable,
    /// Elsewhere in the host file, found by [`super::Options::scan`]. `cuobjdump` does not show it.
    Embedded,
}

/// A file that holds GPU code, by itself or in others: a library, a member of an archive or of a wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFile {
    /// Where it is: `foo.whl/lib/libfoo.so`.
    pub path: String,
    /// Its bytes.
    pub bytes: u64,
    /// How many it takes in what holds it: fewer for a deflated member of a zip.
    pub packed_bytes: u64,
}

/// A cubin, a PTX text or another piece of GPU code, with what its container says about it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where it is: `libfoo.so/.nv_fatbin[3]`.
    pub path: String,
    /// The innermost file that holds it, `libfoo.so`; the entry itself for a bare cubin or PTX.
    pub file: Arc<HostFile>,
    /// Where in its section or file the fatbin starts that it is in; none outside fatbins. What one compilation made is in one.
    pub fatbin: Option<u64>,
    /// What it is.
    pub kind: EntryKind,
    /// The architecture, as far as the container tells.
    pub arch: Option<Arch>,
    /// Which part of a host file.
    pub place: Place,
    /// How it is stored.
    pub compression: Compression,
    /// Bytes in the container. Entries that were compressed together share them: each has its part of the declared size.
    pub stored_bytes: u64,
    /// Bytes when read, as declared.
    pub bytes: u64,
    /// The identifier its maker gave it: the source file, for some toolkits.
    pub identifier: Option<String>,
    /// Options for ptxas or the LTO compiler that the entry records.
    pub options: Option<String>,
    /// The version of the code: the PTX ISA for PTX.
    pub version: Option<(u16, u16)>,
    /// Compiled for debugging.
    pub debug: bool,
    /// Scrambled with a key that the file does not hold: cannot be read.
    pub obfuscated: bool,
    /// What a compiler's cache says about it.
    pub jit: Option<Arc<JitMetadata>>,
    pub(super) payload: Payload,
}

/// Where the bytes are.
#[derive(Clone, Debug)]
pub(super) enum Payload {
    /// On their own.
    Own(Source),
    /// In a block compressed together with others.
    Joint { block: Arc<Joint>, offset: u64 },
}

impl Entry {
    /// The bytes, decompressed: the cubin, or the PTX text without the NULs that end it in a fatbin.
    pub fn read(&self) -> Result<Cow<'_, [u8]>, ContainerError> {
        let mut buffer = Vec::new();
        match self.read_payload(&mut buffer).map_err(|problem| problem.at(&*self.path))? {
            Some(bytes) => {
                let len = self.meant(&bytes).len();
                Ok(match bytes {
                    Cow::Borrowed(bytes) => Cow::Borrowed(bytes.get(..len).unwrap_or_default()),
                    Cow::Owned(mut bytes) => {
                        bytes.truncate(len);
                        Cow::Owned(bytes)
                    }
                })
            }
            None => {
                buffer.truncate(self.decompressed(&buffer).len());
                Ok(Cow::Owned(buffer))
            }
        }
    }

    /// Hands the same bytes to `look`, in memory that is used again for the next entry.
    pub fn with_bytes<T>(&self, look: impl FnOnce(&[u8]) -> T) -> Result<T, ContainerError> {
        let mut buffer = spare::take(self.bytes);
        let result = match self.read_payload(&mut buffer) {
            Ok(Some(bytes)) => Ok(look(self.meant(&bytes))),
            Ok(None) => Ok(look(self.decompressed(&buffer))),
            Err(problem) => Err(problem.at(&*self.path)),
        };
        spare::give_back(buffer);
        result
    }

    /// What of a buffer is this entry's: others before it may have left more.
    fn decompressed<'b>(&self, buffer: &'b [u8]) -> &'b [u8] {
        let whole = usize::try_from(self.bytes).ok().and_then(|len| buffer.get(..len));
        self.meant(whole.unwrap_or_default())
    }

    /// A fatbin's PTX ends at its first NUL.
    fn meant<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let end = if self.kind == EntryKind::Ptx { memchr::memchr(0, bytes) } else { None };
        end.and_then(|end| bytes.get(..end)).unwrap_or(bytes)
    }

    /// What reading it adds to what its file unpacks to: members of a block are copied out of it, each.
    pub(super) fn bytes_unpacked(&self) -> u64 {
        match (self.compression, &self.payload) {
            (Compression::Stored, Payload::Own(_)) => 0,
            // A size that lies is an error of the entry alone, when it is read.
            (method, Payload::Own(packed)) => decompress::most_bytes(method, packed.len(), self.bytes),
            _ => self.bytes,
        }
    }

    /// About how much memory reading it takes.
    pub fn bytes_in_memory(&self) -> u64 {
        match (self.compression, &self.payload) {
            (Compression::Stored, Payload::Own(_)) => 0,
            _ => self.bytes.saturating_add(self.stored_bytes),
        }
    }

    /// Says that the bytes will not be read again soon: the pages of a mapped file are let go.
    pub fn release(&self) {
        match &self.payload {
            Payload::Own(source) => source.release(),
            Payload::Joint { block, .. } => block.source.release(),
        }
    }

    /// The bytes where they are, or none once they were decompressed into `buffer`.
    fn read_payload(&self, buffer: &mut Vec<u8>) -> Result<Option<Cow<'_, [u8]>>, Problem> {
        if self.obfuscated {
            return Err(Problem::Unsupported("it is obfuscated, and the key is not in the file".to_owned()));
        }
        match &self.payload {
            Payload::Joint { block, offset } => block.read(*offset, self.bytes).map(|bytes| Some(Cow::Owned(bytes))),
            Payload::Own(source) => {
                decompress::check_size(source.len(), self.bytes)?;
                let packed = source.read("entry's data", 0, source.len())?;
                match self.compression {
                    Compression::Stored | Compression::Deflate => Ok(Some(packed)),
                    method => {
                        decompress::decompress(method, &packed, self.bytes, buffer)?;
                        Ok(None)
                    }
                }
            }
        }
    }
}

/// Several entries compressed as one block: `fatbinary -concat`.
#[derive(Debug)]
pub(super) struct Joint {
    pub source: Source,
    pub compression: Compression,
    /// Bytes of all together.
    pub bytes: u64,
    /// Kept from the first read until each entry was read once.
    pub cache: Mutex<Cache>,
}

/// The decompressed block.
#[derive(Debug, Default)]
pub(super) struct Cache {
    pub bytes: Option<Arc<Vec<u8>>>,
    /// Entries that were not read yet.
    pub unread: usize,
}

impl Joint {
    fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, Problem> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let all = match &cache.bytes {
            Some(bytes) => Arc::clone(bytes),
            None => {
                let packed = self.source.read("block of entries", 0, self.source.len())?;
                let mut bytes = Vec::new();
                decompress::decompress(self.compression, &packed, self.bytes, &mut bytes)?;
                Arc::new(bytes)
            }
        };
        cache.unread = cache.unread.saturating_sub(1);
        cache.bytes = (cache.unread > 0).then(|| Arc::clone(&all));
        drop(cache);
        let part = usize::try_from(offset).ok().and_then(|start| all.get(start..));
        let part = part.and_then(|tail| tail.get(..usize::try_from(len).ok()?));
        let left = (all.len() as u64).saturating_sub(offset);
        part.map(<[u8]>::to_vec).ok_or(Problem::Truncated { what: "entry of a block", offset, needed: len, left })
    }
}
