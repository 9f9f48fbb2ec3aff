//! Words of real code: the `.text` sections of cubins.

use std::path::{Path, PathBuf};

use anyhow::Result;
use goblin::elf::Elf;

use crate::oracle::{CONTROL, CONTROL_MASK, WordMap, WordSet};

/// One cubin's code.
pub struct Code {
    pub sm: u16,
    pub sections: Vec<Vec<u128>>,
}

/// Reads the code sections of a cubin; `None` when the file is not one.
pub fn read(path: &Path) -> Result<Option<Code>> {
    let bytes = std::fs::read(path)?;
    let Ok(elf) = Elf::parse(&bytes) else { return Ok(None) };
    if elf.header.e_machine != 190 {
        return Ok(None);
    }
    // ABI 7 keeps the SM number in the low byte of the flags, ABI 8 in the second byte.
    let flags = elf.header.e_flags;
    let old = elf.header.e_ident[7] == 51;
    let sm = if old { flags & 0xff } else { flags >> 8 & 0xff } as u16;
    let mut sections = Vec::new();
    for section in &elf.section_headers {
        let name = elf.shdr_strtab.get_at(section.sh_name).unwrap_or("");
        if section.sh_type != 1 || !name.starts_with(".text") {
            continue;
        }
        let (start, len) = (section.sh_offset as usize, section.sh_size as usize);
        let Some(data) = bytes.get(start..start.saturating_add(len)) else { continue };
        let words = data.chunks_exact(16).map(|c| u128::from_le_bytes(c.try_into().unwrap_or_default())).collect();
        sections.push(words);
    }
    Ok(Some(Code { sm, sections }))
}

/// All files below a path.
pub fn files(path: &Path, out: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let mut list: Vec<PathBuf> =
            std::fs::read_dir(path).into_iter().flatten().flatten().map(|e| e.path()).collect();
        list.sort();
        for entry in list {
            files(&entry, out);
        }
    } else if path.is_file() {
        out.push(path.to_owned());
    }
}

/// A word with the control every probe has.
pub fn normal(word: u128) -> u128 {
    word & !CONTROL_MASK | CONTROL
}

/// Words kept for each opcode and setting of the modifier bits.
const KEEP: u8 = 8;

/// All distinct words, control aside, of all cubins for these SM numbers.
pub fn every_word(paths: &[PathBuf], sms: &[u16]) -> Result<WordSet> {
    let mut out = WordSet::default();
    let mut list = Vec::new();
    for path in paths {
        files(path, &mut list);
    }
    for path in list {
        if let Some(code) = read(&path)?
            && sms.contains(&code.sm)
        {
            out.extend(code.sections.into_iter().flatten().map(normal));
        }
    }
    Ok(out)
}

/// Distinct words, control aside, of all cubins for these SM numbers: a few for each opcode and setting of bits 72 to 104,
/// so that what is rare weighs as much as what is common.
pub fn words(paths: &[PathBuf], sms: &[u16]) -> Result<WordSet> {
    let mut out = WordSet::default();
    let mut seen: WordMap<u8> = WordMap::default();
    let mut list = Vec::new();
    for path in paths {
        files(path, &mut list);
    }
    for path in list {
        let Some(code) = read(&path)? else { continue };
        if sms.contains(&code.sm) {
            for section in code.sections {
                for word in section.into_iter().map(normal) {
                    let kept = seen.entry(word & (0xfff | 0x1_ffff_ffff << 72)).or_default();
                    if *kept < KEEP && out.insert(word) {
                        *kept += 1;
                    }
                }
            }
        }
    }
    Ok(out)
}
