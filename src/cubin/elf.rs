//! The ELF frame of a cubin: sections, symbols, relocations, each checked against the file before anything reads it.
//!
//! goblin reads the records. Its whole-file `Elf::parse` is not used: it stops at the first damaged table and copies
//! what this module only looks at. Names and data are handed out under a budget, because a hostile file can let every
//! section point at the same megabytes, and reading each of them would no longer be linear in the size of the file.

use std::borrow::Cow;

use goblin::container::{Container, Ctx, Endian};
use goblin::elf::Header;
use goblin::elf::reloc::RelocSection;
use goblin::elf::section_header::{
    SHN_UNDEF, SHN_XINDEX, SHT_NOBITS, SHT_RELA, SHT_SYMTAB, SHT_SYMTAB_SHNDX, SectionHeader,
};
use goblin::elf::sym::{STT_FILE, STT_FUNC, STT_NOTYPE, STT_OBJECT, STT_SECTION, Symtab};

use super::image::{CubinError, Problem};

/// Number of an ELF section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SectionIndex(pub u32);

/// Number of an ELF symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolIndex(pub u32);

/// EM_CUDA.
pub(super) const MACHINE_CUDA: u16 = 190;
/// SHT_CUDA_GLOBAL, SHT_CUDA_LOCAL and SHT_CUDA_SHARED: what relocatable files use in place of SHT_NOBITS.
const NOBITS_OF_RELOCATABLE: [u32; 3] = [0x7000_0007, 0x7000_0009, 0x7000_000a];
/// The flag of every `.nv.merc.*` and `.nv.capmerc.*` section: a second copy of the program that is not SASS.
const FLAG_MERCURY: u64 = 0x1000_0000;
/// SHF_EXECINSTR.
const FLAG_CODE: u64 = 4;

/// An ELF section and its bytes.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    /// `.text.kernel`.
    pub name: Cow<'a, str>,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_link`.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// `sh_size`, which for shared, local and uninitialised memory is not in the file.
    pub bytes: u64,
    /// The section's part of the file; empty where it has none or lies outside.
    pub data: &'a [u8],
}

impl Section<'_> {
    /// Whether the section belongs to the second, non-SASS copy that sm_100 and later files carry.
    pub fn is_mercury(&self) -> bool {
        self.flags & FLAG_MERCURY != 0 || self.name.starts_with(".nv.merc.") || self.name.starts_with(".nv.capmerc.")
    }

    /// Whether the section holds SASS.
    pub fn is_code(&self) -> bool {
        self.flags & FLAG_CODE != 0 && self.name.starts_with(".text") && !self.is_mercury()
    }
}

/// What a symbol stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SymbolKind {
    /// Nothing in particular.
    None,
    /// A variable, also STT_CUDA_OBJECT of relocatable files.
    Object,
    /// A function.
    Function,
    /// A section.
    Section,
    /// A source file.
    File,
    /// Textures, surfaces, samplers and whatever comes next: the ELF type.
    Other(u8),
}

/// A symbol.
#[derive(Clone, Debug)]
pub struct Symbol<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// What it stands for.
    pub kind: SymbolKind,
    /// Local, global or weak: `st_info >> 4`.
    pub binding: u8,
    /// `st_other`: bit 0x10 marks a kernel.
    pub other: u8,
    /// Where it is defined; `None` for undefined, absolute and common symbols.
    pub section: Option<SectionIndex>,
    /// Offset in its section.
    pub value: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Symbol<'_> {
    /// STO_CUDA_ENTRY.
    const ENTRY: u8 = 0x10;

    /// Whether the symbol is a kernel.
    pub fn is_entry(&self) -> bool {
        self.kind == SymbolKind::Function && self.other & Self::ENTRY != 0
    }
}

/// A relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Where in the section.
    pub offset: u64,
    /// R_CUDA_ number.
    pub kind: u32,
    /// What it refers to.
    pub symbol: SymbolIndex,
    /// Explicit addend; `None` where it lies in the section's bytes.
    pub addend: Option<i64>,
}

/// The tables of the file.
pub(super) struct Elf<'a> {
    pub header: Header,
    pub sections: Vec<Section<'a>>,
    pub symbols: Vec<Symbol<'a>>,
    pub ctx: Ctx,
}

impl<'a> Elf<'a> {
    /// Reads header, sections and symbols; damage that leaves the rest readable goes to `problems`.
    pub fn parse(file: &'a [u8], problems: &mut Vec<Problem>) -> Result<Self, CubinError> {
        let header = header(file)?;
        let ctx = context(header.e_ident[4] == 1);
        let sections = sections(file, &header, ctx, problems)?;
        let mut elf = Elf { header, sections, symbols: Vec::new(), ctx };
        elf.symbols = elf.read_symbols(problems);
        Ok(elf)
    }

    fn read_symbols(&self, problems: &mut Vec<Problem>) -> Vec<Symbol<'a>> {
        let Some((at, table)) = self.sections.iter().enumerate().find(|(_, s)| s.kind == SHT_SYMTAB) else {
            problems.push(Problem::new(".symtab", "the file has no symbol table"));
            return Vec::new();
        };
        let names = self.sections.get(table.link as usize).map_or(&[][..], |s| s.data);
        let mut names = Names::new(names);
        let wide = self
            .sections
            .iter()
            .find(|s| s.kind == SHT_SYMTAB_SHNDX && s.link as usize == at)
            .map_or(&[][..], |s| s.data);
        let count = table.data.len() / if self.ctx.is_big() { 24 } else { 16 };
        let Ok(symbols) = Symtab::parse(table.data, 0, count, self.ctx) else {
            return Vec::new();
        };
        let read = symbols
            .iter()
            .enumerate()
            .map(|(index, sym)| {
                let section = match sym.st_shndx as u32 {
                    SHN_XINDEX => {
                        wide.get(index * 4..index * 4 + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes)
                    }
                    // SHN_LORESERVE and up: absolute, common and NVIDIA's own pseudo-sections.
                    SHN_UNDEF | 0xff00.. => None,
                    index => Some(index),
                };
                Symbol {
                    name: names.get(sym.st_name as u64),
                    kind: match sym.st_type() {
                        STT_NOTYPE => SymbolKind::None,
                        // STT_CUDA_OBJECT.
                        STT_OBJECT | 13 => SymbolKind::Object,
                        STT_FUNC => SymbolKind::Function,
                        STT_SECTION => SymbolKind::Section,
                        STT_FILE => SymbolKind::File,
                        other => SymbolKind::Other(other),
                    },
                    binding: sym.st_bind(),
                    other: sym.st_other,
                    section: section.map(SectionIndex),
                    value: sym.st_value,
                    bytes: sym.st_size,
                }
            })
            .collect();
        names.report(".symtab", problems);
        read
    }
}

/// How goblin is to read the records.
pub(super) fn context(is_32_bit: bool) -> Ctx {
    Ctx::new(if is_32_bit { Container::Little } else { Container::Big }, Endian::Little)
}

/// The relocations of one SHT_REL or SHT_RELA section.
pub(super) fn relocations(table: &Section<'_>, ctx: Ctx) -> Vec<Relocation> {
    let Ok(records) = RelocSection::parse(table.data, 0, table.data.len(), table.kind == SHT_RELA, ctx) else {
        return Vec::new();
    };
    let record = |reloc: goblin::elf::Reloc| Relocation {
        offset: reloc.r_offset,
        kind: reloc.r_type,
        symbol: SymbolIndex(u32::try_from(reloc.r_sym).unwrap_or(u32::MAX)),
        addend: reloc.r_addend,
    };
    records.iter().map(record).collect()
}

fn header(file: &[u8]) -> Result<Header, CubinError> {
    if file.len() < 4 || &file[..4] != goblin::elf::header::ELFMAG {
        return Err(CubinError::NotElf { found: file.iter().take(8).copied().collect() });
    }
    let header = goblin::elf::Elf::parse_header(file)
        .map_err(|_| CubinError::Truncated { what: "ELF header", bytes: file.len() })?;
    if header.e_ident[5] != 1 {
        return Err(CubinError::NotElf { found: file.iter().take(8).copied().collect() });
    }
    if header.e_machine != MACHINE_CUDA {
        return Err(CubinError::NotCuda { machine: header.e_machine });
    }
    // ptxas writes them last of all: a file that was cut off may be complete but for them.
    let programs = u64::from(header.e_phentsize) * u64::from(header.e_phnum);
    if programs > 0 && header.e_phoff.checked_add(programs).is_none_or(|end| end > file.len() as u64) {
        return Err(CubinError::Truncated { what: "program header table", bytes: file.len() });
    }
    Ok(header)
}

fn sections<'a>(
    file: &'a [u8],
    header: &Header,
    ctx: Ctx,
    problems: &mut Vec<Problem>,
) -> Result<Vec<Section<'a>>, CubinError> {
    let outside = |bytes| CubinError::Truncated { what: "section header table", bytes };
    let offset = usize::try_from(header.e_shoff).map_err(|_| outside(file.len()))?;
    if offset == 0 || offset >= file.len() {
        return Err(outside(file.len()));
    }
    let mut headers =
        SectionHeader::parse_from(file, offset, header.e_shnum as usize, ctx).map_err(|_| outside(file.len()))?;
    // The null section carries the real string table index of a file with more sections than 16 bits count.
    let names_at = match u32::from(header.e_shstrndx) {
        SHN_XINDEX => headers.first().map_or(0, |null| null.sh_link),
        index => index,
    };
    let names = headers.get(names_at as usize).and_then(|s| range(file, s)).unwrap_or(&[]);
    let mut names = Names::new(names);
    let mut read = Vec::with_capacity(headers.len());
    for (index, section) in headers.drain(..).enumerate() {
        let name = names.get(section.sh_name as u64);
        let in_file = section.sh_type != SHT_NOBITS && !NOBITS_OF_RELOCATABLE.contains(&section.sh_type) && index != 0;
        let data = match range(file, &section) {
            Some(data) if in_file => data,
            None if in_file => {
                let what = format!(
                    "{:#x} bytes at {:#x} lie outside the file of {:#x} bytes",
                    section.sh_size,
                    section.sh_offset,
                    file.len()
                );
                problems.push(Problem::new(name.to_string(), what));
                &[]
            }
            _ => &[],
        };
        read.push(Section {
            name,
            kind: section.sh_type,
            flags: section.sh_flags,
            link: section.sh_link,
            info: section.sh_info,
            bytes: section.sh_size,
            data,
        });
    }
    names.report(".shstrtab", problems);
    Ok(read)
}

/// The section's bytes, when all of them are in the file.
fn range<'a>(file: &'a [u8], section: &SectionHeader) -> Option<&'a [u8]> {
    let start = usize::try_from(section.sh_offset).ok()?;
    let bytes = usize::try_from(section.sh_size).ok()?;
    file.get(start..start.checked_add(bytes)?)
}

/// A string table that stops giving out names once far more bytes were named than it holds.
pub(super) struct Names<'a> {
    table: &'a [u8],
    left: usize,
    refused: usize,
}

impl<'a> Names<'a> {
    pub fn new(table: &'a [u8]) -> Self {
        // Linkers let a name be the tail of another, so the sum may exceed the table; never by this much.
        Names { table, left: table.len().saturating_mul(8).saturating_add(4096), refused: 0 }
    }

    /// The name at an offset; empty outside the table.
    pub fn get(&mut self, offset: u64) -> Cow<'a, str> {
        let Some(tail) = usize::try_from(offset).ok().and_then(|offset| self.table.get(offset..)) else {
            self.refused += usize::from(offset != 0);
            return Cow::Borrowed("");
        };
        let tail = &tail[..tail.len().min(self.left)];
        let name = memchr::memchr(0, tail).map_or(tail, |end| &tail[..end]);
        self.left -= name.len();
        self.refused += usize::from(name.is_empty() && self.left == 0);
        // Names are most of what is read for a table of resources, and ASCII: checked whole words at a time.
        str::from_utf8(name).map_or_else(|_| String::from_utf8_lossy(name), Cow::Borrowed)
    }

    pub fn report(&self, table: &'static str, problems: &mut Vec<Problem>) {
        if self.refused != 0 {
            problems.push(Problem::new(table, format!("{} names lie outside the string table", self.refused)));
        }
    }
}
