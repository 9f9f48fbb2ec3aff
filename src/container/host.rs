//! Files for a CPU that carry GPU code: ELF, PE, COFF, Mach-O, and archives of them.

use std::collections::BTreeMap;

use memchr::memmem::Finder;
use object::read::archive::ArchiveFile;
use object::read::macho::{FatArch, MachOFatFile32, MachOFatFile64};
use object::{File, FileKind, Object, ObjectSection, ReadCache, ReadRef};

use super::entry::Place;
use super::error::Problem;
use super::fatbin::MAGIC;
use super::sniff;
use super::source::Source;
use crate::base::work;

/// Names are shared by all that refer to the same place in a table, and each gets a copy.
const MAX_NAME_BYTES: usize = 1024;

/// A section with fatbins.
pub(super) struct Section {
    pub name: String,
    pub place: Place,
    pub source: Source,
}

/// A file inside another.
pub(super) struct Member {
    pub name: String,
    pub source: Source,
}

/// GPU code found outside the sections that are made for it.
pub(super) enum Stray {
    Fatbin { offset: u64, source: Source },
    Cubin { offset: u64, source: Source },
}

/// The sections of a host file that hold fatbins, `.nv_fatbin` first as `cuobjdump -all` has them. `Ok(None)`: no such file.
pub(super) fn sections(source: &Source) -> (Vec<Section>, Vec<Problem>) {
    let found = match source.direct() {
        Some(bytes) => ranges(bytes),
        None => ranges(&ReadCache::new(source.reader())),
    };
    let mut problems = Vec::new();
    let mut ranges = match found {
        Ok(ranges) => ranges,
        Err(detail) => return (Vec::new(), vec![detail]),
    };
    ranges.sort_by_key(|(place, ..)| *place);
    let mut taken: BTreeMap<u64, (u64, String)> = BTreeMap::new();
    let mut sections = Vec::new();
    for (place, name, offset, bytes) in ranges {
        let end = offset.saturating_add(bytes);
        let before = taken.range(..end).next_back().filter(|(_, (other_end, _))| *other_end > offset);
        if let Some((_, (_, other))) = before {
            problems.push(Problem::Overlap { what: format!("section {name}"), other: format!("section {other}") });
            continue;
        }
        match source.slice(offset, bytes) {
            Some(part) => {
                taken.insert(offset, (end, name.clone()));
                sections.push(Section { name, place, source: part });
            }
            None => problems.push(Problem::Truncated {
                what: "section of fatbins",
                offset,
                needed: bytes,
                left: source.len().saturating_sub(offset),
            }),
        }
    }
    (sections, problems)
}

fn ranges<'data, R: ReadRef<'data>>(data: R) -> Result<Vec<(Place, String, u64, u64)>, Problem> {
    let damaged = |error: object::Error| Problem::Unsupported(format!("damaged object file: {error}"));
    let file = File::parse(data).map_err(damaged)?;
    let mut found = Vec::new();
    for section in file.sections() {
        // A name that cannot be read is not one of ours.
        let Ok(name) = section.name() else { continue };
        // PE cuts names to eight bytes: ".nv_fatb", "__nv_rel".
        let place = match name {
            name if name.starts_with(".nv_fatb") || name.starts_with("__nv_fatb") => Place::Executable,
            name if name.starts_with("__nv_rel") => Place::Relocatable,
            _ => continue,
        };
        if let Some((offset, bytes)) = section.file_range()
            && bytes > 0
        {
            if name.len() > MAX_NAME_BYTES {
                return Err(Problem::Unsupported(format!("a section name of {} bytes", name.len())));
            }
            found.push((place, name.to_owned(), offset, bytes));
        }
    }
    Ok(found)
}

/// The members of an archive, in order.
pub(super) fn archive(source: &Source) -> (Vec<Member>, Vec<Problem>) {
    match source.direct() {
        Some(bytes) => members(source, bytes),
        None => members(source, &ReadCache::new(source.reader())),
    }
}

fn members<'data, R: ReadRef<'data>>(source: &Source, data: R) -> (Vec<Member>, Vec<Problem>) {
    let damaged = |error: object::Error| Problem::Unsupported(format!("damaged archive: {error}"));
    let archive = match ArchiveFile::parse(data) {
        Ok(archive) => archive,
        Err(error) => return (Vec::new(), vec![damaged(error)]),
    };
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for member in archive.members() {
        let member = match member {
            Ok(member) => member,
            Err(error) => {
                problems.push(damaged(error));
                break;
            }
        };
        if member.name().len() > MAX_NAME_BYTES {
            problems.push(Problem::Unsupported(format!("an archive member's name of {} bytes", member.name().len())));
            break;
        }
        let mut name = String::from_utf8_lossy(member.name()).into_owned();
        let (offset, bytes) = member.file_range();
        // Archives may hold several members of one name.
        let count = names.entry(name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            name = format!("{name}#{count}");
        }
        match source.slice(offset, bytes) {
            Some(source) => found.push(Member { name, source }),
            None => {
                let left = source.len().saturating_sub(offset);
                problems.push(Problem::Truncated { what: "archive member", offset, needed: bytes, left });
            }
        }
    }
    (found, problems)
}

/// The files in a universal Mach-O file.
pub(super) fn universal(source: &Source, head: &[u8]) -> (Vec<Member>, Vec<Problem>) {
    /// Before the table.
    const HEADER_BYTES: u64 = 8;
    fn arches<A: FatArch>(source: &Source, arches: &[A]) -> (Vec<Member>, Vec<Problem>) {
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        // Files of their own, one after the other, after the table that names them: a file that is its own part has no end.
        let table = std::mem::size_of_val(arches) as u64 + HEADER_BYTES;
        let mut taken: BTreeMap<u64, (u64, String)> = BTreeMap::from([(0, (table, "the table of files".to_owned()))]);
        for arch in arches {
            let (offset, bytes) = arch.file_range();
            let name = format!("{:?}", arch.architecture()).to_ascii_lowercase();
            let end = offset.saturating_add(bytes);
            let before = taken.range(..end.max(1)).next_back().filter(|(_, (other_end, _))| *other_end > offset);
            if let Some((_, (_, other))) = before {
                problems.push(Problem::Overlap { what: format!("the file for {name}"), other: other.clone() });
                continue;
            }
            taken.insert(offset, (end, format!("the file for {name}")));
            match source.slice(offset, bytes) {
                Some(source) => found.push(Member { name, source }),
                None => {
                    let left = source.len().saturating_sub(offset);
                    problems.push(Problem::Truncated { what: "Mach-O file", offset, needed: bytes, left });
                }
            }
        }
        (found, problems)
    }
    let parsed = match FileKind::parse(head) {
        Ok(FileKind::MachOFat64) => MachOFatFile64::parse(head).map(|file| arches(source, file.arches())),
        _ => MachOFatFile32::parse(head).map(|file| arches(source, file.arches())),
    };
    parsed.unwrap_or_else(|error| (Vec::new(), vec![Problem::Unsupported(format!("damaged Mach-O file: {error}"))]))
}

/// Where something starts in bytes that are gone through from front to back, each of them once.
struct Starts {
    start: Finder<'static>,
    /// Whether what follows the start fits.
    fits: fn(&[u8]) -> bool,
    /// The next one, if it was found.
    hit: Option<usize>,
    /// There is none before this.
    passed: usize,
}

impl Starts {
    fn of_fatbins() -> Self {
        Starts { start: Finder::new(b"\x50\xed\x55\xba\x01\x00\x10\x00"), fits: |_| true, hit: None, passed: 0 }
    }

    /// ELF of either size, little-endian, with NVIDIA's two ABIs.
    fn of_cubins() -> Self {
        let fits = |rest: &[u8]| matches!(rest, [1 | 2, 1, 1, 0x33 | 0x41, ..]);
        Starts { start: Finder::new(b"\x7fELF"), fits, hit: None, passed: 0 }
    }

    /// The first at `from` or behind it. `from` never goes back, and `bytes` only gets longer.
    fn next(&mut self, bytes: &[u8], from: usize) -> Option<usize> {
        if let Some(hit) = self.hit.filter(|hit| *hit >= from) {
            return Some(hit);
        }
        let mut at = from.max(self.passed);
        while let Some(found) = bytes.get(at..).and_then(|rest| self.start.find(rest)) {
            let (offset, behind) = (at + found, at + found + self.start.needle().len());
            if (self.fits)(bytes.get(behind..).unwrap_or_default()) {
                self.hit = Some(offset);
                return self.hit;
            }
            at = offset + 1;
        }
        // One that is cut off at the end is looked at again.
        self.passed = at.max(bytes.len().saturating_sub(LONGEST_START));
        self.hit = None;
        None
    }
}

/// Fatbins and cubins anywhere in a mapped file but in `known`, by their first bytes.
pub(super) fn stray(source: &Source, known: &[Section]) -> (Vec<Stray>, Option<Problem>) {
    let Some(bytes) = source.direct() else { return (Vec::new(), None) };
    let (mut fatbins, mut cubins) = (Starts::of_fatbins(), Starts::of_cubins());
    // Offsets of the sections within the file.
    let base = bytes.as_ptr() as usize;
    let mut known: Vec<(usize, usize)> = known
        .iter()
        .filter_map(|section| section.source.direct())
        .map(|part| (part.as_ptr() as usize - base, part.as_ptr() as usize - base + part.len()))
        .collect();
    known.sort_unstable();
    let mut found = Vec::new();
    let mut at = 0;
    // Tables of real cubins do not lie over each other: all of them together are no larger than the file.
    let mut rows_left = bytes.len() / SECTION_ROW + MOST_SECTIONS;
    while at < bytes.len() {
        // What starts in a piece may end behind it.
        let end = at.saturating_add(PIECE).min(bytes.len());
        let piece = bytes.get(..end.saturating_add(LONGEST_START).min(bytes.len())).unwrap_or(bytes);
        let Some(offset) = fatbins.next(piece, at).into_iter().chain(cubins.next(piece, at)).min() else {
            work::check_time();
            // Nothing of it is needed again.
            if let Some(passed) = source.slice(at as u64, (end - at) as u64) {
                passed.release();
            }
            at = end;
            continue;
        };
        at = offset + 4;
        let before = known.partition_point(|(from, _)| *from <= offset).checked_sub(1).and_then(|at| known.get(at));
        if let Some((_, end)) = before.filter(|(_, end)| offset < *end) {
            at = *end;
            continue;
        }
        let Some(rest) = bytes.get(offset..) else { break };
        let is_fatbin = rest.starts_with(&MAGIC);
        let len = if is_fatbin {
            let bytes =
                rest.get(8..16).and_then(|word| word.first_chunk()).map_or(u64::MAX, |w| u64::from_le_bytes(*w));
            usize::try_from(bytes).ok().and_then(|bytes| bytes.checked_add(16)).filter(|&len| len <= rest.len())
        } else if sniff::is_cubin(rest) {
            work::spend(1);
            let rows = sniff::elf_sections(rest);
            let Some(left) = rows_left.checked_sub(rows) else {
                let what = "what looks like cubins outside its sections overlaps: it is not searched any further";
                return (found, Some(Problem::Unsupported(what.to_owned())));
            };
            rows_left = left;
            sniff::elf_extent(rest)
        } else {
            None
        };
        let Some(part) = len.and_then(|len| source.slice(offset as u64, len as u64)) else { continue };
        at = offset + usize::try_from(part.len()).unwrap_or(4).max(4);
        let offset = offset as u64;
        found.push(if is_fatbin {
            Stray::Fatbin { offset, source: part }
        } else {
            Stray::Cubin { offset, source: part }
        });
    }
    (found, None)
}

/// Bytes that are searched at once: between them the clock is looked at, and what was mapped is let go.
const PIECE: usize = 64 << 20;
/// Bytes that tell the start of a fatbin or a cubin.
const LONGEST_START: usize = 8;
/// Bytes of a row of an ELF file's table of sections.
const SECTION_ROW: usize = 64;
/// The most sections that a header can say.
const MOST_SECTIONS: usize = 1 << 16;
