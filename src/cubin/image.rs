//! The whole cubin: what kind of file it is, and how its sections come together into functions.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;

use goblin::elf::header::{ET_EXEC, ET_REL};
use goblin::elf::section_header::{SHT_NOTE, SHT_REL, SHT_RELA};

use super::attribute::{self, Attribute, Numbering, code};
use super::elf::{self, Elf, Relocation, Section, SectionIndex, Symbol, SymbolIndex, SymbolKind};
use super::frame;
use super::function::{ConstantBank, Function};
use super::note::{self, Note, Toolkit};
use crate::base::{Arch, Pc, Variant, work};

/// Why a file is no cubin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CubinError {
    /// Not an ELF file, or not a little-endian one.
    #[error("not a cubin: expected a little-endian ELF file that starts with 7f 45 4c 46, found {}", hex(found))]
    NotElf {
        /// The first bytes.
        found: Vec<u8>,
    },
    /// An ELF file for something else.
    #[error("not a cubin: expected ELF machine 190 (NVIDIA CUDA), found {machine}")]
    NotCuda {
        /// `e_machine`.
        machine: u16,
    },
    /// Ends before the tables that everything else is found through.
    #[error("damaged cubin: the {what} lies outside the file, which has {bytes} bytes and was most likely cut off")]
    Truncated {
        /// Which table.
        what: &'static str,
        /// Size of the file.
        bytes: usize,
    },
    /// Neither of the layouts that are known.
    #[error("unknown cubin layout: EI_OSABI {osabi:#x}, ABI version {abi}; expected 0x33 with 7 or 0x41 with 8")]
    UnknownAbi {
        /// `EI_OSABI`.
        osabi: u8,
        /// `EI_ABIVERSION`.
        abi: u8,
    },
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "an empty file".to_owned();
    }
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
}

/// Something in the file that could not be read as it stands; the rest was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The section.
    pub section: Cow<'static, str>,
    /// What is wrong, with expected and found.
    pub what: Cow<'static, str>,
}

impl Problem {
    pub(super) fn new(section: impl Into<String>, what: impl Into<Cow<'static, str>>) -> Self {
        Problem { section: Cow::Owned(section.into()), what: what.into() }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.section, self.what)
    }
}

/// The two generations of cubins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Abi {
    /// ptxas up to 12.9 for architectures before sm_100.
    V7,
    /// ptxas 12.8 and later for sm_100 and up, 13.0 and later for all.
    V8,
}

/// `e_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElfKind {
    /// A finished program.
    Executable,
    /// `ptxas -c`: to be linked.
    Relocatable,
    /// Anything else.
    Other(u16),
}

/// How it is known whether the code is for `sm_N`, `sm_Na` or `sm_Nf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VariantSource {
    /// The file's flags or its `.nv.compat` record.
    File,
    /// The architecture option in ptxas's own note: the only thing that tells `sm_100f` from `sm_100`.
    Options,
    /// Nothing says: the file is not for an `a` target, but may be for `f`.
    Unknown,
}

/// A record of `.nv.callgraph`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Who calls; 0 in the records that only separate groups.
    pub caller: SymbolIndex,
    /// Who is called; -1 to -4 (as u32) separate the groups.
    pub callee: SymbolIndex,
}

impl Call {
    /// Whether the record names a caller and a callee.
    pub fn is_call(&self) -> bool {
        self.callee.0 < 0xffff_fff0
    }
}

/// A cubin, borrowing from its bytes.
#[derive(Clone, Debug)]
pub struct Image<'a> {
    /// The generation of the format.
    pub abi: Abi,
    /// Executable or relocatable.
    pub kind: ElfKind,
    /// The architecture.
    pub arch: Arch,
    /// How its variant is known.
    pub variant_source: VariantSource,
    /// `e_flags`.
    pub flags: u32,
    /// Size of the file.
    pub file_bytes: usize,
    /// 64, or 32 for `.address_size 32` of old toolkits.
    pub address_bits: u8,
    /// Which tools made it.
    pub toolkit: Toolkit<'a>,
    /// Every note.
    pub notes: Vec<Note<'a>>,
    /// Every record of `.nv.compat`.
    pub compat: Vec<Attribute<'a>>,
    /// Every record of `.nv.info`, which speaks of functions by symbol.
    pub attributes: Vec<Attribute<'a>>,
    /// Kernels and device functions, in section order.
    pub functions: Vec<Function<'a>>,
    /// All sections.
    pub sections: Vec<Section<'a>>,
    /// All symbols.
    pub symbols: Vec<Symbol<'a>>,
    /// `.nv.callgraph`.
    pub calls: Vec<Call>,
    /// Constant banks of the module: `.nv.constant3`.
    pub cmem: Vec<ConstantBank>,
    /// Global memory of the module, initialised and not: "N bytes gmem".
    pub gmem_bytes: u64,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

impl<'a> Image<'a> {
    /// Reads a cubin.
    pub fn parse(file: &'a [u8]) -> Result<Self, CubinError> {
        Image::read(file, false)
    }

    /// Reads what a cubin says of its functions' resources: relocations of code, calls, and attributes that speak of code or of
    /// parameters are left out.
    pub fn parse_resources(file: &'a [u8]) -> Result<Self, CubinError> {
        Image::read(file, true)
    }

    fn read(file: &'a [u8], resources_only: bool) -> Result<Self, CubinError> {
        let mut problems = Vec::new();
        let elf = Elf::parse(file, &mut problems)?;
        let (osabi, version) = (elf.header.e_ident[7], elf.header.e_ident[8]);
        let abi = match (osabi, version) {
            (0x33, 7) => Abi::V7,
            (0x41, 8) => Abi::V8,
            (osabi, abi) => return Err(CubinError::UnknownAbi { osabi, abi }),
        };
        let flags = elf.header.e_flags;
        let kind = match elf.header.e_type {
            ET_EXEC => ElfKind::Executable,
            ET_REL => ElfKind::Relocatable,
            other => ElfKind::Other(other),
        };
        let mut image = Image {
            abi,
            kind,
            arch: Arch::new(0),
            variant_source: VariantSource::Unknown,
            flags,
            file_bytes: file.len(),
            address_bits: if elf.header.e_ident[4] == 1 { 32 } else { 64 },
            toolkit: Toolkit::default(),
            notes: Vec::new(),
            compat: Vec::new(),
            attributes: Vec::new(),
            functions: Vec::new(),
            sections: Vec::new(),
            symbols: Vec::new(),
            calls: Vec::new(),
            cmem: Vec::new(),
            gmem_bytes: 0,
            problems,
        };
        image.read_sections(&elf, file.len(), resources_only);
        if abi == Abi::V7 {
            image.toolkit.version = image.toolkit.version.or(note::version(elf.header.e_version));
        }
        (image.arch, image.variant_source) = image.find_arch();
        image.sections = elf.sections;
        image.symbols = elf.symbols;
        image.attach_attributes();
        image.attach_frames();
        Ok(image)
    }

    /// The section with this index.
    pub fn section(&self, index: SectionIndex) -> Option<&Section<'a>> {
        self.sections.get(index.0 as usize)
    }

    /// The symbol with this index.
    pub fn symbol(&self, index: SymbolIndex) -> Option<&Symbol<'a>> {
        self.symbols.get(index.0 as usize)
    }

    /// The first section with this name that is part of the SASS program.
    pub fn section_named(&self, name: &str) -> Option<(SectionIndex, &Section<'a>)> {
        let found = self.sections.iter().enumerate().find(|(_, s)| s.name == name)?;
        Some((SectionIndex(u32::try_from(found.0).ok()?), found.1))
    }

    /// Relocations of any section, from every table that names it.
    pub fn relocations(&self, section: SectionIndex) -> Vec<Relocation> {
        let ctx = elf::context(self.address_bits == 32);
        let mut left = self.file_bytes;
        let fits = |s: &&Section<'_>| {
            let names = matches!(s.kind, SHT_REL | SHT_RELA) && s.info == section.0 && !s.is_mercury();
            // Tables of a sound file do not overlap.
            names
                && left.checked_sub(s.data.len()).is_some_and(|rest| {
                    left = rest;
                    true
                })
        };
        self.sections.iter().filter(fits).flat_map(|table| elf::relocations(table, ctx)).collect()
    }

    /// Bytes of code of all functions.
    pub fn code_bytes(&self) -> u64 {
        self.functions.iter().map(|f| f.code.len() as u64).sum()
    }

    fn read_sections(&mut self, elf: &Elf<'a>, file_bytes: usize, resources_only: bool) {
        let mut budget = Budget { left: file_bytes };
        let wanted = |code: u8| !resources_only || attribute::is_resource(code);
        let (mut functions, owners) = self.find_functions(elf, &mut budget);
        for section in &elf.sections {
            work::tick();
            if section.is_mercury() {
                continue;
            }
            let name = &*section.name;
            let owner = |prefix: &str| owners.find(section, name.strip_prefix(prefix)?);
            if section.kind == SHT_NOTE {
                if budget.take(section, &mut self.problems) {
                    note::read(section, &mut self.toolkit, &mut self.notes, &mut self.problems);
                }
            } else if name == ".nv.info" {
                if budget.take(section, &mut self.problems) {
                    let read = attribute::read(name, section.data, Numbering::Info, wanted, &mut self.problems);
                    self.attributes.extend(read);
                }
            } else if name == ".nv.compat" {
                if budget.take(section, &mut self.problems) {
                    let read = attribute::read(name, section.data, Numbering::Compat, |_| true, &mut self.problems);
                    self.compat.extend(read);
                }
            } else if name == ".nv.callgraph" {
                if !resources_only && budget.take(section, &mut self.problems) {
                    self.calls.extend(section.data.as_chunks::<8>().0.iter().map(|&[a, b, c, d, e, f, g, h]| Call {
                        caller: SymbolIndex(u32::from_le_bytes([a, b, c, d])),
                        callee: SymbolIndex(u32::from_le_bytes([e, f, g, h])),
                    }));
                }
            } else if name.starts_with(".nv.info.") {
                if let Some(at) = owner(".nv.info.")
                    && budget.take(section, &mut self.problems)
                {
                    let read = attribute::read(name, section.data, Numbering::Info, wanted, &mut self.problems);
                    functions[at].attributes.extend(read);
                    if self.abi == Abi::V8 {
                        // A function without barriers has no record of them.
                        functions[at].resources.barriers.get_or_insert(0);
                    }
                }
            } else if let Some(rest) = name.strip_prefix(".nv.constant") {
                // `.nv.constant3` is the module's, `.nv.constant0.NAME` a function's.
                let (number, tail) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
                let Ok(bank) = number.parse() else { continue };
                let bank = ConstantBank { bank, bytes: saturate(section.bytes) };
                match tail.strip_prefix('.').and_then(|name| owners.find(section, name)) {
                    Some(at) => functions[at].resources.cmem.push(bank),
                    None => self.cmem.push(bank),
                }
            } else if name.starts_with(".nv.shared.") {
                if let Some(at) = owner(".nv.shared.") {
                    functions[at].resources.smem_bytes = saturate(section.bytes);
                    functions[at].resources.has_smem_section = true;
                }
            } else if name.starts_with(".nv.local.") {
                if let Some(at) = owner(".nv.local.") {
                    functions[at].resources.local_bytes = saturate(section.bytes);
                }
            } else if name == ".nv.global" || name == ".nv.global.init" {
                self.gmem_bytes = self.gmem_bytes.saturating_add(section.bytes);
            } else if !resources_only
                && matches!(section.kind, SHT_REL | SHT_RELA)
                && let Some(at) = owners.of_section(section.info)
                && budget.take(section, &mut self.problems)
            {
                functions[at].relocations.extend(elf::relocations(section, elf.ctx));
            }
        }
        self.functions = functions;
    }

    /// One function for each code section, with its symbol and the symbols inside it.
    fn find_functions(&mut self, elf: &Elf<'a>, budget: &mut Budget) -> (Vec<Function<'a>>, Owners<'a>) {
        let mut functions = Vec::new();
        let mut owners =
            Owners { by_section: vec![None; elf.sections.len()], names: Vec::new(), by_name: OnceCell::new() };
        for (index, section) in elf.sections.iter().enumerate() {
            if !section.is_code() || !budget.take(section, &mut self.problems) {
                continue;
            }
            let Ok(number) = u32::try_from(index) else { break };
            let mut function = Function::new(SectionIndex(number), section.data);
            // `.text.NAME` names its symbol in sh_info, with the register count in the high byte: always so in ABI 7, in
            // ABI 8 for architectures before sm_90.
            let (symbol, registers) = (section.info & 0x00ff_ffff, section.info >> 24);
            let defines = |s: &&Symbol<'_>| s.kind == SymbolKind::Function && s.section == Some(function.section);
            let main = elf.symbols.get(symbol as usize).filter(defines);
            function.symbol = main.map(|_| SymbolIndex(symbol));
            function.name = match main {
                Some(symbol) => symbol.name.clone(),
                None => suffix(&section.name, ".text."),
            };
            if self.abi == Abi::V7 {
                function.resources.barriers = Some((section.flags >> 20 & 0x7f) as u32);
            }
            if self.abi == Abi::V7 || registers != 0 {
                function.resources.registers = Some(registers);
            }
            owners.by_section[index] = Some(functions.len());
            owners.names.push(suffix(&section.name, ".text."));
            functions.push(function);
        }
        for (index, symbol) in elf.symbols.iter().enumerate() {
            work::tick();
            let owner = symbol.section.and_then(|s| owners.of_section(s.0));
            let (Some(at), SymbolKind::Function, Ok(index)) = (owner, symbol.kind, u32::try_from(index)) else {
                continue;
            };
            functions[at].add_symbol(SymbolIndex(index), symbol, &mut self.problems);
        }
        for function in &mut functions {
            function.parts.sort_by_key(|part| (part.start, part.symbol));
            function.leave_out_overlaps(&mut self.problems);
        }
        (functions, owners)
    }

    /// Which architecture, and how the variant is known.
    fn find_arch(&self) -> (Arch, VariantSource) {
        let sm = match self.abi {
            Abi::V7 => self.flags & 0xff,
            Abi::V8 => self.flags >> 8 & 0xff,
        };
        let arch = Arch::new(u16::try_from(sm).unwrap_or(0));
        let accelerated = match self.abi {
            Abi::V7 => self.flags & 0x800 != 0,
            Abi::V8 => {
                let compat = self.compat.iter().find(|a| a.code == code::COMPAT_ACCELERATOR_TARGET);
                // 12.8 and 12.9 set the flag, 13.0 and later the attribute.
                self.flags & 0x8 != 0 || compat.and_then(Attribute::number) == Some(1)
            }
        };
        if accelerated {
            return (arch.with_variant(Variant::Accelerated), VariantSource::File);
        }
        if self.abi == Abi::V7 || sm < 100 {
            return (arch, VariantSource::File);
        }
        let option = self.toolkit.tools.iter().find_map(|tool| tool.option(&["arch", "gpu-name"]));
        match option.and_then(|option| option.parse::<Arch>().ok()) {
            Some(said) if said.sm == arch.sm && said.variant != Variant::Accelerated => (said, VariantSource::Options),
            _ => (arch, VariantSource::Unknown),
        }
    }

    /// Puts frames that the call frame information describes in place of those of `.nv.info`, where that is less exact: it
    /// knows only the kernel's where functions share its section, and from 12.8 on counts the callees where calls are
    /// indirect. The call frame information in turn leaves spills out, of which ptxas tells from 12.8 on.
    fn attach_frames(&mut self) {
        let frames = frame::read(self);
        let find = |section, start| {
            let at = frames.binary_search_by_key(&(section, start), |frame| (frame.section, frame.start)).ok()?;
            frames.get(at).map(|frame| frame.bytes)
        };
        let tells_spills = self.toolkit.version >= Some((12, 8));
        for function in &mut self.functions {
            let first_part = function.parts.iter().map(|part| part.start).find(|start| start.0 != 0);
            let spills = function.spills.iter().flatten().any(|pc| first_part.is_none_or(|start| *pc < start));
            if tells_spills && !spills {
                let own = find(function.section, Pc(0));
                function.resources.frame_bytes = own.or(function.resources.frame_bytes);
            }
            for part in &mut function.parts {
                part.frame_bytes = find(function.section, part.start).or(part.frame_bytes);
            }
        }
    }

    /// Hands the records of `.nv.info` to the functions they speak of, and lets each function read its own.
    fn attach_attributes(&mut self) {
        let mut owner_of_symbol = vec![None; self.symbols.len()];
        for (at, function) in self.functions.iter().enumerate() {
            if let Some(slot) = function.symbol.and_then(|s| owner_of_symbol.get_mut(s.0 as usize)) {
                *slot = Some((at, None));
            }
            for (part_at, part) in function.parts.iter().enumerate() {
                if let Some(slot) = owner_of_symbol.get_mut(part.symbol.0 as usize) {
                    *slot = Some((at, Some(part_at)));
                }
            }
        }
        for record in &self.attributes {
            let mut words = record.words();
            let (Some(symbol), Some(value)) = (words.next(), words.next()) else { continue };
            let Some(&Some((at, part))) = owner_of_symbol.get(symbol as usize) else { continue };
            self.functions[at].set_from_module(part, record.code, value);
        }
        let executable = self.kind == ElfKind::Executable;
        for function in &mut self.functions {
            function.read_attributes(&mut self.problems);
            if executable && self.arch.sm >= 90 {
                function.resources.split_reserved_smem();
            }
        }
    }
}

/// Which function a section belongs to: by the section it names in `sh_info`, else by its own name.
struct Owners<'a> {
    by_section: Vec<Option<usize>>,
    /// Of each function.
    names: Vec<Cow<'a, str>>,
    /// The first function of a name. Seldom asked, and names are long.
    by_name: OnceCell<HashMap<Cow<'a, str>, usize>>,
}

impl Owners<'_> {
    fn of_section(&self, index: u32) -> Option<usize> {
        self.by_section.get(index as usize).copied().flatten()
    }

    fn find(&self, section: &Section<'_>, name: &str) -> Option<usize> {
        let all = || self.names.iter().cloned().enumerate().rev().map(|(at, name)| (name, at)).collect();
        self.of_section(section.info).or_else(|| self.by_name.get_or_init(all).get(name).copied())
    }
}

/// How many more bytes of sections may be read: sections of a sound file do not overlap, so all of them together are
/// never larger than the file.
struct Budget {
    left: usize,
}

impl Budget {
    fn take(&mut self, section: &Section<'_>, problems: &mut Vec<Problem>) -> bool {
        match self.left.checked_sub(section.data.len()) {
            Some(left) => {
                self.left = left;
                true
            }
            None => {
                problems.push(Problem::new(section.name.to_string(), "not read: sections overlap"));
                false
            }
        }
    }
}

fn suffix<'a>(name: &Cow<'a, str>, prefix: &str) -> Cow<'a, str> {
    match name {
        Cow::Borrowed(name) => Cow::Borrowed(name.strip_prefix(prefix).unwrap_or(name)),
        Cow::Owned(name) => Cow::Owned(name.strip_prefix(prefix).unwrap_or(name).to_owned()),
    }
}

fn saturate(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
