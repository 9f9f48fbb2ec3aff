//! Bytes wherever they are: in a mapped file, in memory, or inside a deflated zip member. Read by range, never whole.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use super::error::Problem;
use super::inflate::Inflated;
use super::stream;

/// What a [`Source`] is a part of.
#[derive(Debug)]
enum Backing {
    Mapped(memmap2::Mmap),
    Memory(Vec<u8>),
}

impl Deref for Backing {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Backing::Mapped(map) => map,
            Backing::Memory(bytes) => bytes,
        }
    }
}

#[derive(Clone, Debug)]
enum Whole {
    Direct(Arc<Backing>),
    Inflated(Arc<Inflated>),
}

/// A range of bytes. Cheap to clone, shared between threads.
#[derive(Clone, Debug)]
pub(super) struct Source {
    whole: Whole,
    start: u64,
    len: u64,
}

impl Source {
    /// Maps a regular file; reads a pipe or a device, up to so many bytes.
    pub fn open(path: &Path, most: u64) -> io::Result<Source> {
        if !std::fs::metadata(path)?.is_file() {
            return stream::read(path, most).map(Source::memory);
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.len() > 0 {
            // SAFETY: the map is read-only and private to this process. Should another process change the file meanwhile, the
            // bytes differ from one read to the next, which no reader here relies on; a file cut short is SIGBUS, which the
            // program says and ends with, and another process that uses the library has to expect.
            #[allow(unsafe_code)]
            let map = unsafe { memmap2::Mmap::map(&file)? };
            return Ok(Source::whole(Backing::Mapped(map)));
        }
        // Files of the system may have more to say than their size.
        stream::read_most(file, most).map(Source::memory)
    }

    /// Bytes at hand.
    pub fn memory(bytes: Vec<u8>) -> Source {
        Source::whole(Backing::Memory(bytes))
    }

    fn whole(backing: Backing) -> Source {
        let len = backing.len() as u64;
        Source { whole: Whole::Direct(Arc::new(backing)), start: 0, len }
    }

    /// The content of a deflated range.
    pub fn inflated(inflated: Inflated) -> Source {
        let len = inflated.len();
        Source { whole: Whole::Inflated(Arc::new(inflated)), start: 0, len }
    }

    /// Lets the pages of a mapped file go, which would otherwise count as memory of this process until it ends.
    pub fn release(&self) {
        #[cfg(unix)]
        if let Whole::Direct(backing) = &self.whole
            && let Backing::Mapped(map) = &**backing
            && let (Ok(start), Ok(len)) = (usize::try_from(self.start), usize::try_from(self.len))
        {
            // SAFETY: the map is of a file, shared and never written to: a page that was let go is read from the file again
            // when it is touched, with the same bytes.
            #[allow(unsafe_code)]
            let _ = unsafe { map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, len) };
        }
    }

    /// How many bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// A part; `None` when it reaches past the end.
    pub fn slice(&self, offset: u64, len: u64) -> Option<Source> {
        let end = offset.checked_add(len)?;
        (end <= self.len).then(|| Source { whole: self.whole.clone(), start: self.start + offset, len })
    }

    /// All bytes, where they are in memory or mapped.
    pub fn direct(&self) -> Option<&[u8]> {
        match &self.whole {
            Whole::Direct(backing) => {
                let start = usize::try_from(self.start).ok()?;
                backing.get(start..start.checked_add(usize::try_from(self.len).ok()?)?)
            }
            Whole::Inflated(_) => None,
        }
    }

    /// `len` bytes from `offset`; an error when they are not all there. The caller bounds `len`.
    pub fn read(&self, what: &'static str, offset: u64, len: u64) -> Result<Cow<'_, [u8]>, Problem> {
        let left = self.len.saturating_sub(offset);
        let short = || Problem::Truncated { what, offset, needed: len, left };
        if len > left {
            return Err(short());
        }
        match &self.whole {
            Whole::Direct(_) => {
                let bytes = self.direct().ok_or_else(short)?;
                let start = usize::try_from(offset).map_err(|_| short())?;
                let len = usize::try_from(len).map_err(|_| short())?;
                Ok(Cow::Borrowed(bytes.get(start..).and_then(|tail| tail.get(..len)).ok_or_else(short)?))
            }
            Whole::Inflated(inflated) => inflated.read(self.start + offset, len).map(Cow::Owned),
        }
    }

    /// Up to `len` bytes from `offset`.
    pub fn peek(&self, offset: u64, len: u64) -> Result<Cow<'_, [u8]>, Problem> {
        self.read("header", offset.min(self.len), len.min(self.len.saturating_sub(offset)))
    }

    /// For readers of the `object` and `zip` crates.
    pub fn reader(&self) -> SourceReader {
        SourceReader { source: self.clone(), position: 0 }
    }
}

/// A [`Source`] as a stream.
#[derive(Clone, Debug)]
pub(super) struct SourceReader {
    source: Source,
    position: u64,
}

impl Read for SourceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.source.peek(self.position, buffer.len() as u64).map_err(io::Error::other)?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }
}

impl Seek for SourceReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(delta) => self.source.len.checked_add_signed(delta),
            SeekFrom::Current(delta) => self.position.checked_add_signed(delta),
        };
        self.position = position.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.position)
    }
}
