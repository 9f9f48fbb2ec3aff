//! Fatbins: a header of 16 bytes, then entries, each a header and its data. A section or a file holds any number of them.
//!
//! ```text
//! fatbin   0 u32 magic 0xba55ed50   4 u16 version 1   6 u16 header bytes   8 u64 bytes of all entries
//! entry    0 u16 kind   2 u16 version   4 u32 header bytes   8 u64 data bytes, padded to 8   16 u32 compressed bytes
//!         20 u32 options' place   24 u16 minor   26 u16 major   28 u32 SM   32 u32 name's place   36 u32 name's bytes
//!         40 u64 flags   48 u64 obfuscation key's mark   56 u64 bytes when decompressed
//! ```
//! The options' place holds two words, offset and size; both offsets count from the entry's header. Kind 0x100 is a block of
//! entries compressed together (`fatbinary -concat`): at the options' place are a count and the size of a table of entry
//! headers, whose second word is the offset in the decompressed block.

use std::sync::{Arc, Mutex};

use super::decompress::{Compression, check_size};
use super::entry::{Cache, Entry, EntryKind, HostFile, Joint, Payload, Place};
use super::error::{ContainerError, Problem};
use super::left::Left;
use super::source::Source;
use crate::base::{Arch, Variant};

/// The first four bytes of a fatbin.
pub(super) const MAGIC: [u8; 4] = [0x50, 0xed, 0x55, 0xba];
const HEADER_BYTES: u64 = 16;
const ENTRY_BYTES: u64 = 64;
/// Entry headers hold a name and options; 64 KiB is far beyond any.
const MAX_ENTRY_HEADER: u64 = 1 << 16;
/// How far to look at once for the next fatbin.
const STEP: u64 = 1 << 16;
/// How much of a file may be passed before its pages are let go.
const STRETCH: u64 = 8 << 20;

const FLAG_DEBUG: u64 = 0x2;
const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
const FLAG_OBFUSCATED: u64 = 0x1_0000;
const FLAG_ACCELERATED: u64 = 0x10_0000;
const FLAG_FAMILY: u64 = 0x20_0000;

const KIND_PTX: u16 = 0x1;
const KIND_ELF: u16 = 0x2;
const KIND_NVVM: u16 = 0x8;
const KIND_BLOCK: u16 = 0x100;

/// One fatbin after the other.
pub(super) struct Walk<'a> {
    /// Where the entries are, for their paths: `libfoo.so/.nv_fatbin`.
    pub base: &'a str,
    /// The innermost file.
    pub file: &'a Arc<HostFile>,
    /// Which part of it.
    pub place: Place,
    /// Fatbins inside fatbins are followed this deep.
    pub depth: u8,
    /// What was found.
    pub found: Vec<Result<Entry, ContainerError>>,
    /// The number of the next entry.
    pub next: usize,
    /// Where the fatbin starts that is read.
    start: u64,
    /// How far pages of a mapped file were let go.
    released: u64,
    left: &'a mut Left,
}

impl<'a> Walk<'a> {
    pub fn new(base: &'a str, file: &'a Arc<HostFile>, place: Place, left: &'a mut Left) -> Self {
        Walk { base, file, place, depth: 0, found: Vec::new(), next: 0, start: 0, released: 0, left }
    }

    /// Reads every fatbin of a section or file. Zeros between them are padding; anything else is reported and skipped.
    pub fn section(&mut self, section: &Source) {
        let mut at = 0;
        while at < section.len() && !self.left.is_over() {
            match next_magic(section, at) {
                Err(problem) => return self.fail(problem),
                Ok((gap, found)) => {
                    if let Some(offset) = gap {
                        let bytes = section.peek(offset, 16).map(|b| super::error::glimpse(&b)).unwrap_or_default();
                        self.fail(Problem::Malformed {
                            what: "fatbin",
                            offset,
                            expected: "50 ed 55 ba or zeros".to_owned(),
                            found: bytes,
                        });
                    }
                    let Some(start) = found else { return };
                    at = match self.fatbin(section, start) {
                        Ok(end) => end.max(start + 4),
                        Err(problem) => {
                            self.fail(problem);
                            start + 4
                        }
                    };
                }
            }
        }
    }

    /// Reads the fatbin at `start`, and says where it ends.
    pub fn fatbin(&mut self, section: &Source, start: u64) -> Result<u64, Problem> {
        self.start = start;
        let header = section.read("fatbin header", start, HEADER_BYTES)?;
        let (version, header_bytes, bytes) = (u16_at(&header, 4), u64::from(u16_at(&header, 6)), u64_at(&header, 8));
        if version != 1 || header_bytes < HEADER_BYTES {
            return Err(Problem::Malformed {
                what: "fatbin header",
                offset: start,
                expected: "version 1 and at least 16 bytes".to_owned(),
                found: format!("version {version} and {header_bytes} bytes"),
            });
        }
        let first = start + header_bytes;
        let left = section.len().saturating_sub(first);
        if bytes > left {
            // What is there is still read; the entry that is cut off is an error of its own.
            self.fail(Problem::Truncated { what: "fatbin", offset: start, needed: bytes, left });
        }
        let end = first.saturating_add(bytes).min(section.len());
        let mut at = first;
        while at < end && !self.left.is_over() {
            match self.entry(section, at, end) {
                Ok(next) => at = next,
                Err(problem) => {
                    self.fail(problem);
                    self.next += 1;
                    break;
                }
            }
            // Headers lie all over the file, and the system maps more around each.
            if at - self.released.min(at) >= STRETCH {
                self.release(section, at);
            }
        }
        Ok(end)
    }

    /// Reads the entry at `at`, and says where it ends.
    fn entry(&mut self, section: &Source, at: u64, end: u64) -> Result<u64, Problem> {
        let left = end - at;
        let cut = |what, needed| Problem::Truncated { what, offset: at, needed, left };
        if left < ENTRY_BYTES {
            return Err(cut("entry header", ENTRY_BYTES));
        }
        let fixed = section.read("entry header", at, ENTRY_BYTES)?;
        let header_bytes = u64::from(u32_at(&fixed, 4));
        if !(ENTRY_BYTES..=MAX_ENTRY_HEADER).contains(&header_bytes) {
            return Err(Problem::Malformed {
                what: "size of the entry header",
                offset: at,
                expected: format!("{ENTRY_BYTES} to {MAX_ENTRY_HEADER}"),
                found: header_bytes.to_string(),
            });
        }
        let bytes = u64_at(&fixed, 8);
        let needed = header_bytes.checked_add(bytes).ok_or_else(|| cut("entry", u64::MAX))?;
        if needed > left {
            return Err(cut("entry", needed));
        }
        let next = at + needed;
        let header = section.read("entry header", at, header_bytes)?;
        let data = section.slice(at + header_bytes, bytes).ok_or_else(|| cut("entry", needed))?;
        if u16_at(&header, 0) == KIND_BLOCK {
            self.block(&header, &data);
        } else {
            self.single(&header, data);
        }
        Ok(next)
    }

    /// An entry with data of its own.
    fn single(&mut self, header: &[u8], data: Source) {
        let fields = Fields::read(header);
        let stored = fields.stored(data.len());
        let Some(packed) = stored.and_then(|stored| data.slice(0, stored)) else {
            let found = fields.compressed.to_string();
            let expected = format!("at most {}", data.len());
            self.next += 1;
            return self.fail_at_entry(Problem::Malformed { what: "compressed size", offset: 16, expected, found });
        };
        // A fatbin inside a fatbin.
        if fields.compression == Compression::Stored
            && self.depth < 4
            && data.peek(0, 4).is_ok_and(|head| *head == MAGIC)
        {
            let base = format!("{}[{}]", self.base, self.next);
            self.next += 1;
            let mut inner = Walk::new(&base, self.file, self.place, self.left);
            inner.depth = self.depth + 1;
            inner.section(&data);
            let mut found = inner.found;
            self.found.append(&mut found);
            return;
        }
        let bytes = if fields.compression == Compression::Stored { data.len() } else { fields.bytes };
        let entry = self.make(header, &fields, packed.len(), bytes, Payload::Own(packed));
        self.push(entry);
    }

    /// Entries compressed together.
    fn block(&mut self, header: &[u8], data: &Source) {
        let fields = Fields::read(header);
        let table = fields.options_place as usize;
        let count = header.get(table..).filter(|tail| tail.len() >= 8).map_or(0, |tail| u32_at(tail, 0) as usize);
        let rows = header.get(table.saturating_add(8)..).unwrap_or(&[]);
        let rows: Vec<&[u8]> = rows.chunks_exact(ENTRY_BYTES as usize).take(count).collect();
        let stored = fields.stored(data.len());
        let problem = match stored {
            None => Some(Problem::Malformed {
                what: "compressed size of a block",
                offset: 16,
                expected: format!("at most {}", data.len()),
                found: fields.compressed.to_string(),
            }),
            _ if count == 0 || rows.len() < count => Some(Problem::Truncated {
                what: "table of a block of entries",
                offset: u64::from(fields.options_place),
                needed: (count as u64).saturating_mul(ENTRY_BYTES),
                left: header.len().saturating_sub(table.saturating_add(8)) as u64,
            }),
            Some(stored) => check_size(stored, fields.bytes).err(),
        };
        let packed = stored.and_then(|stored| data.slice(0, stored));
        let (None, Some(packed)) = (&problem, packed) else {
            self.next += count.max(1);
            return self.fail(problem.unwrap_or(Problem::Unsupported("a block of entries without data".to_owned())));
        };
        let whole = if fields.compression == Compression::Stored { packed.len() } else { fields.bytes };
        let stored = packed.len();
        let block = Arc::new(Joint {
            source: packed,
            compression: fields.compression,
            bytes: whole,
            cache: Mutex::new(Cache { bytes: None, unread: rows.len() }),
        });
        for row in rows {
            if self.left.is_over() {
                return;
            }
            let mut inner = Fields::read(row);
            let (offset, bytes) = (u64::from(u32_at(row, 4)), u64_at(row, 8));
            if offset.checked_add(bytes).is_none_or(|end| end > whole) {
                self.next += 1;
                let left = whole.saturating_sub(offset);
                self.fail_at_entry(Problem::Truncated { what: "entry of a block", offset, needed: bytes, left });
                continue;
            }
            inner.compression = fields.compression;
            let share = u128::from(stored) * u128::from(bytes) / u128::from(whole.max(1));
            let payload = Payload::Joint { block: Arc::clone(&block), offset };
            let entry = self.make(row, &inner, u64::try_from(share).unwrap_or(stored), bytes, payload);
            self.push(entry);
        }
    }

    fn make(&self, header: &[u8], fields: &Fields, stored_bytes: u64, bytes: u64, payload: Payload) -> Entry {
        let text = |offset: u32, len: u32| {
            let tail = header.get(offset as usize..)?;
            let bytes = tail.get(..(len as usize).min(tail.len()))?;
            let text = String::from_utf8_lossy(bytes.split(|&b| b == 0).next().unwrap_or(&[]));
            (!text.is_empty()).then(|| text.into_owned())
        };
        let kind = match fields.kind {
            KIND_PTX => EntryKind::Ptx,
            KIND_ELF => EntryKind::Cubin,
            KIND_NVVM => EntryKind::LtoIr,
            other => EntryKind::Other(other),
        };
        // For a cubin this place holds what the driver needs to know about compatibility, not text.
        let options = if kind == EntryKind::Cubin || fields.options_place == 0 {
            None
        } else {
            let place = header.get(fields.options_place as usize..).filter(|tail| tail.len() >= 8);
            place.and_then(|place| text(u32_at(place, 0), u32_at(place, 4)))
        };
        Entry {
            path: format!("{}[{}]", self.base, self.next),
            file: Arc::clone(self.file),
            fatbin: Some(self.start),
            kind,
            arch: fields.arch,
            place: self.place,
            compression: fields.compression,
            stored_bytes,
            bytes,
            identifier: if fields.name_place == 0 { None } else { text(fields.name_place, fields.name_bytes) },
            options: options.map(|options| options.trim().to_owned()).filter(|options| !options.is_empty()),
            version: Some(fields.version),
            debug: fields.flags & FLAG_DEBUG != 0,
            obfuscated: fields.flags & FLAG_OBFUSCATED != 0,
            jit: None,
            payload,
        }
    }

    /// Lets go of the pages up to `end`.
    fn release(&mut self, section: &Source, end: u64) {
        if let Some(stretch) = end.checked_sub(self.released).and_then(|len| section.slice(self.released, len)) {
            stretch.release();
        }
        self.released = end;
    }

    fn push(&mut self, entry: Entry) {
        self.next += 1;
        match self.left.take_entry().and_then(|()| self.left.take_bytes(entry.bytes_unpacked())) {
            Ok(()) => self.found.push(Ok(entry)),
            Err(problem) => self.found.push(Err(problem.at(entry.path))),
        }
    }

    fn fail(&mut self, problem: Problem) {
        let problem = self.left.take_entry().err().unwrap_or(problem);
        self.found.push(Err(problem.at(self.base)));
    }

    /// The entry whose number was just given out.
    fn fail_at_entry(&mut self, problem: Problem) {
        self.found.push(Err(problem.at(format!("{}[{}]", self.base, self.next.saturating_sub(1)))));
    }
}

/// The fixed part of an entry header.
struct Fields {
    kind: u16,
    compressed: u32,
    options_place: u32,
    version: (u16, u16),
    arch: Option<Arch>,
    name_place: u32,
    name_bytes: u32,
    flags: u64,
    bytes: u64,
    compression: Compression,
}

impl Fields {
    fn read(header: &[u8]) -> Self {
        let flags = u64_at(header, 40);
        let variant = match flags {
            flags if flags & FLAG_ACCELERATED != 0 => Variant::Accelerated,
            flags if flags & FLAG_FAMILY != 0 => Variant::Family,
            _ => Variant::Base,
        };
        let sm = u16::try_from(u32_at(header, 28)).ok().filter(|sm| (10..1000).contains(sm));
        Fields {
            kind: u16_at(header, 0),
            compressed: u32_at(header, 16),
            options_place: u32_at(header, 20),
            version: (u16_at(header, 26), u16_at(header, 24)),
            arch: sm.map(|sm| Arch { sm, variant }),
            name_place: u32_at(header, 32),
            name_bytes: u32_at(header, 36),
            flags,
            bytes: u64_at(header, 56),
            compression: match flags {
                flags if flags & FLAG_LZ4 != 0 => Compression::Lz4,
                flags if flags & FLAG_ZSTD != 0 => Compression::Zstd,
                _ => Compression::Stored,
            },
        }
    }

    /// How much of the padded data is meant; `None` for more than there is.
    fn stored(&self, padded: u64) -> Option<u64> {
        match self.compression {
            Compression::Stored => Some(padded),
            _ if self.compressed == 0 => Some(padded),
            _ => Some(u64::from(self.compressed)).filter(|&stored| stored <= padded),
        }
    }
}

/// The next fatbin at or after `at`, and where bytes that are neither zeros nor a fatbin start before it.
fn next_magic(section: &Source, at: u64) -> Result<(Option<u64>, Option<u64>), Problem> {
    let mut gap = None;
    let mut window = at;
    while window < section.len() {
        let bytes = section.peek(window, STEP)?;
        let found = bytes.windows(4).position(|four| four == MAGIC);
        let before = found.unwrap_or(bytes.len());
        if gap.is_none()
            && let Some(stray) = bytes[..before].iter().position(|&b| b != 0)
        {
            gap = Some(window + stray as u64);
        }
        if let Some(found) = found {
            let found = window + found as u64;
            return Ok((gap.filter(|&gap| gap < found), Some(found)));
        }
        if (bytes.len() as u64) < STEP {
            break;
        }
        window += STEP - 3;
    }
    Ok((gap, None))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|tail| tail.first_chunk()).map_or(0, |word| u16::from_le_bytes(*word))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|tail| tail.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|tail| tail.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}
