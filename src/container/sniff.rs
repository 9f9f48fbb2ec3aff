//! What some bytes are, told by the bytes alone.

use object::FileKind;

use super::fatbin::{MAGIC, u32_at};
use crate::base::{Arch, Variant};

/// How much of a file is looked at: enough for the comment that opens a PTX file.
pub(super) const HEAD_BYTES: u64 = 1 << 16;
/// ELF machine number of NVIDIA GPUs.
const EM_CUDA: u16 = 190;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Ptx,
    Cubin,
    Fatbin,
    LtoIr,
    /// An object file, library or program for a CPU.
    Host,
    /// Several Mach-O files in one.
    Universal,
    Archive,
    ThinArchive,
    Zip,
    /// A cubin after a short preface, which some caches write.
    Prefaced(usize),
    Unknown,
}

/// Tells the format from the first [`HEAD_BYTES`].
pub(super) fn format(head: &[u8]) -> Format {
    match head {
        _ if is_cubin(head) => Format::Cubin,
        [0x7f, b'E', b'L', b'F', ..] => Format::Host,
        _ if head.starts_with(&MAGIC) => Format::Fatbin,
        // "\xedCN\x7f": NVVM bitcode of nvcc -ltoir.
        [0xed, 0x43, 0x4e, 0x7f, ..] => Format::LtoIr,
        _ if head.starts_with(b"!<arch>\n") => Format::Archive,
        _ if head.starts_with(b"!<thin>\n") => Format::ThinArchive,
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Format::Zip,
        _ if is_ptx(head) => Format::Ptx,
        _ => match FileKind::parse(head) {
            Ok(FileKind::MachOFat32 | FileKind::MachOFat64) => Format::Universal,
            Ok(
                FileKind::Coff
                | FileKind::CoffBig
                | FileKind::MachO32
                | FileKind::MachO64
                | FileKind::Pe32
                | FileKind::Pe64,
            ) => Format::Host,
            _ => match (1..head.len().min(PREFACE)).find(|&at| head.get(at..).is_some_and(is_cubin)) {
                Some(at) => Format::Prefaced(at),
                None => Format::Unknown,
            },
        },
    }
}

/// A cubin may start this far into a cache's file: CuPy puts a digest before it.
const PREFACE: usize = 256;

/// Whether an ELF file for a GPU starts here.
pub(super) fn is_cubin(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF") && bytes.get(18..20) == Some(&EM_CUDA.to_le_bytes())
}

/// Whether the first thing that is no comment is `.version`.
fn is_ptx(head: &[u8]) -> bool {
    let mut rest = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    loop {
        rest = rest.trim_ascii_start();
        let comment_end = match rest {
            [b'/', b'/', ..] => rest.iter().position(|&b| b == b'\n').map(|at| at + 1),
            [b'/', b'*', ..] => rest.windows(2).skip(2).position(|two| two == b"*/").map(|at| at + 4),
            _ => return rest.starts_with(b".version"),
        };
        match comment_end.and_then(|end| rest.get(end..)) {
            Some(tail) => rest = tail,
            None => return false,
        }
    }
}

/// The architecture in a cubin's header. Newer files do not mark `a` and `f` there, so that they may be missing.
pub(super) fn cubin_arch(head: &[u8]) -> Option<Arch> {
    let (class, osabi) = (*head.get(4)?, *head.get(7)?);
    let flags = u32_at(head, if class == 1 { 36 } else { 48 });
    let (sm, accelerated) = match osabi {
        0x41 => (flags >> 8 & 0xff, flags & 0x8 != 0),
        _ => (flags & 0xff, flags & 0x800 != 0),
    };
    let variant = if accelerated { Variant::Accelerated } else { Variant::Base };
    (sm != 0).then(|| Some(Arch { sm: u16::try_from(sm).ok()?, variant }))?
}

/// The architecture and ISA version in a PTX text's first directives.
pub(super) fn ptx_header(head: &[u8]) -> (Option<Arch>, Option<(u16, u16)>) {
    let word_after = |directive: &str| {
        let at = head.windows(directive.len()).position(|window| window == directive.as_bytes())?;
        let rest = head.get(at + directive.len()..)?.trim_ascii_start();
        let end = rest.iter().position(|b| b.is_ascii_whitespace() || *b == b',').unwrap_or(rest.len());
        std::str::from_utf8(rest.get(..end)?).ok()
    };
    let version = word_after(".version").and_then(|version| {
        let (major, minor) = version.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    (word_after(".target").and_then(|target| target.parse().ok()), version)
}

/// How many sections the ELF file that starts here says it has.
pub(super) fn elf_sections(bytes: &[u8]) -> usize {
    bytes.get(60..62).and_then(|word| word.first_chunk()).map_or(0, |word| usize::from(u16::from_le_bytes(*word)))
}

/// How many bytes the ELF file that starts here has, by its own tables; `None` when they lie outside.
pub(super) fn elf_extent(bytes: &[u8]) -> Option<usize> {
    let number = |at: usize, width: usize| -> Option<u64> {
        let mut word = [0; 8];
        word.get_mut(..width)?.copy_from_slice(bytes.get(at..at.checked_add(width)?)?);
        Some(u64::from_le_bytes(word))
    };
    if *bytes.get(4)? != 2 {
        return None;
    }
    let (segments, sections) = (number(32, 8)?, number(40, 8)?);
    let (segment_bytes, segment_count) = (number(54, 2)?, number(56, 2)?);
    let (section_bytes, section_count) = (number(58, 2)?, number(60, 2)?);
    let mut end = segments.checked_add(segment_bytes * segment_count)?;
    end = end.max(sections.checked_add(section_bytes * section_count)?).max(64);
    for index in 0..section_count {
        let at = usize::try_from(sections.checked_add(index * section_bytes)?).ok()?;
        let (kind, offset, size) =
            (number(at.checked_add(4)?, 4)?, number(at.checked_add(24)?, 8)?, number(at.checked_add(32)?, 8)?);
        const SHT_NOBITS: u64 = 8;
        if kind != SHT_NOBITS {
            end = end.max(offset.checked_add(size)?);
        }
    }
    usize::try_from(end).ok().filter(|&end| end <= bytes.len())
}
