//! Which bytes of a cubin say what its functions need: everything but code, line tables and initial values.

use std::ops::Range;

/// Bytes of a section header.
const HEADER: usize = 64;
const SHT_NOTE: u32 = 7;
const SHT_NOBITS: u32 = 8;

/// Bytes of which parts can be made readable.
pub trait Parts {
    /// A part, as far as it is inside the file; none where it cannot be read.
    fn part(&mut self, range: Range<usize>) -> Option<&[u8]>;
}

/// Asks for the parts of a cubin that [`super::Image::parse_resources`] looks at: header, section table, names, symbols,
/// attributes, notes, call frames. False when the file has not the form of a cubin: then all of it is needed to say why.
pub fn read_resources(file: &mut dyn Parts) -> bool {
    parts(file).is_some()
}

fn parts(file: &mut dyn Parts) -> Option<()> {
    let header = file.part(0..64)?.to_vec();
    let number = |bytes: &[u8], at: usize, width: usize| -> Option<usize> {
        let mut word = [0; 8];
        word.get_mut(..width)?.copy_from_slice(bytes.get(at..at.checked_add(width)?)?);
        usize::try_from(u64::from_le_bytes(word)).ok()
    };
    // ELF, 64 bits, little-endian, with section headers of the usual size.
    if header.get(..6)? != b"\x7fELF\x02\x01" || number(&header, 58, 2)? != HEADER {
        return None;
    }
    let (table, count, names) = (number(&header, 40, 8)?, number(&header, 60, 2)?, number(&header, 62, 2)?);
    // Files with more sections than fit the header have their number elsewhere.
    if table == 0 || count == 0 {
        return None;
    }
    let sections = file.part(table..table.checked_add(count.checked_mul(HEADER)?)?)?.to_vec();
    let section = |index: usize| sections.get(index.checked_mul(HEADER)?..)?.get(..HEADER);
    let range = |section: &[u8]| -> Option<Range<usize>> {
        let start = number(section, 24, 8)?;
        Some(start..start.checked_add(number(section, 32, 8)?)?)
    };
    let names = file.part(range(section(names)?)?)?.to_vec();
    let mut wanted: Vec<Range<usize>> = Vec::new();
    for index in 0..count {
        let section = section(index)?;
        let kind = u32::try_from(number(section, 4, 4)?).ok()?;
        let name = names.get(number(section, 0, 4)?..).unwrap_or(&[]);
        let name = name.split(|&byte| byte == 0).next().unwrap_or(&[]);
        let is_read = kind == SHT_NOTE
            || name.starts_with(b".nv.info")
            || matches!(
                name,
                b".strtab"
                    | b".symtab"
                    | b".symtab_shndx"
                    | b".nv.compat"
                    | b".debug_frame"
                    | b".rela.debug_frame"
                    | b".rel.debug_frame"
            );
        if is_read && kind != SHT_NOBITS {
            wanted.push(range(section)?);
        }
    }
    // Neighbours are read together.
    wanted.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in wanted {
        match joined.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(NEAR) => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined.into_iter().try_for_each(|range| file.part(range).map(drop))
}

/// A gap that is cheaper to read than to leave out.
const NEAR: usize = 256;
