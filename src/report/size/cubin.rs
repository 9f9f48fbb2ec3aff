//! One cubin: the bytes of its functions and of what stands beside them, and what tells each function's code from all other.

use std::collections::{HashMap, HashSet};

use sha2::{Digest as _, Sha256};

use crate::base::Arch;
use crate::cubin::{AttributeValue, Function, FunctionKind, Image, Section, SectionIndex};

/// What stands for everything that a function does: its code, what it refers to, what it needs and how it is launched.
pub type Digest = [u8; 32];

/// What the bytes of a cubin are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// SASS.
    Code,
    /// The second form of the program that cubins of sm_100 and later carry.
    Mercury,
    /// Line tables and other information for debuggers.
    Debug,
    /// Constants and initial values.
    Constants,
    /// Attributes, relocations, calls, notes.
    Tables,
    /// Symbols and the names of everything.
    Symbols,
    /// Headers, padding, and what no section names.
    Headers,
}

impl Part {
    /// As tables call it.
    pub fn name(self) -> &'static str {
        match self {
            Part::Code => "code",
            Part::Mercury => "mercury",
            Part::Debug => "debug",
            Part::Constants => "constants",
            Part::Tables => "tables",
            Part::Symbols => "symbols",
            Part::Headers => "headers",
        }
    }

    fn of(section: &Section<'_>) -> Part {
        let name = section.name.strip_prefix(".rela").or(section.name.strip_prefix(".rel")).unwrap_or(&section.name);
        match name {
            _ if section.is_mercury() => Part::Mercury,
            _ if [".debug", ".nv_debug", ".nv.debug", ".line"].iter().any(|start| name.starts_with(start)) => {
                Part::Debug
            }
            _ if section.name.starts_with(".nv.constant") || section.name.starts_with(".nv.global") => Part::Constants,
            ".symtab" | ".strtab" | ".shstrtab" | ".symtab_shndx" => Part::Symbols,
            _ => Part::Tables,
        }
    }
}

/// A kernel, or a device function with a section of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSize {
    /// As the cubin has it.
    pub name: String,
    /// Whether it is a kernel.
    pub is_kernel: bool,
    /// Bytes of code.
    pub code_bytes: u64,
    /// What tells it from others. It is the same for two functions only where one can take the other's place.
    pub digest: Digest,
}

/// The bytes of a cubin: functions and parts add up to the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CubinSize {
    /// The functions, in order.
    pub functions: Vec<FunctionSize>,
    /// Everything but the code of functions.
    pub parts: Vec<(Part, u64)>,
    /// Whether it holds variables, which others may refer to by name: it is no copy of another, whatever its functions are.
    pub has_data: bool,
}

/// Takes a cubin apart. `place` names it among all others.
pub fn cubin_size(image: &Image<'_>, arch: Arch, place: &str) -> CubinSize {
    let beside = Beside::new(image);
    let mut left = image.file_bytes as u64;
    let mut take = |bytes: usize| {
        let taken = (bytes as u64).min(left);
        left -= taken;
        taken
    };
    let functions = image
        .functions
        .iter()
        .map(|function| FunctionSize {
            name: function.name.to_string(),
            is_kernel: function.kind == FunctionKind::Entry,
            code_bytes: take(function.code.len()),
            digest: digest(image, function, &beside, arch, place),
        })
        .collect();
    let taken: HashSet<SectionIndex> = image.functions.iter().map(|function| function.section).collect();
    let mut parts: HashMap<Part, u64> = HashMap::new();
    for (index, section) in (0..).zip(&image.sections) {
        if !taken.contains(&SectionIndex(index)) && !section.data.is_empty() {
            *parts.entry(Part::of(section)).or_default() += take(section.data.len());
        }
    }
    parts.insert(Part::Headers, left);
    let mut parts: Vec<(Part, u64)> = parts.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    parts.sort_unstable();
    CubinSize { functions, parts, has_data: beside.has_constants || image.gmem_bytes > 0 }
}

/// What the functions of a cubin have beside their code.
struct Beside<'a> {
    /// Constants and mercury code by the function's name, with their sections.
    own: HashMap<&'a str, Vec<(SectionIndex, &'a Section<'a>)>>,
    /// Sections that are relocated.
    relocated: HashSet<u32>,
    /// Whether the module has constants that every function may read without saying so.
    has_constants: bool,
}

impl<'a> Beside<'a> {
    fn new(image: &'a Image<'a>) -> Self {
        const RELA: u32 = 4;
        const REL: u32 = 9;
        let mut beside = Beside { own: HashMap::new(), relocated: HashSet::new(), has_constants: false };
        for (index, section) in (0..).zip(&image.sections) {
            if matches!(section.kind, REL | RELA) {
                beside.relocated.insert(section.info);
            }
            let bank = section.name.strip_prefix(".nv.constant");
            let owner = match bank.map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit())) {
                Some(rest) => {
                    let owner = rest.strip_prefix('.');
                    beside.has_constants |= owner.is_none() && section.bytes > 0;
                    owner
                }
                None => section.name.strip_prefix(".nv.capmerc.text."),
            };
            if let Some(owner) = owner {
                beside.own.entry(owner).or_default().push((SectionIndex(index), section));
            }
        }
        beside
    }
}

/// Attributes whose values are numbers of symbols or slots that the module gives out: textures, surfaces, samplers, tables of jumps.
const OF_THE_MODULE: [&str; 10] = [
    "EIATTR_IMAGE_SLOT",
    "EIATTR_JUMPTABLE_RELOCS",
    "EIATTR_IMAGE_OFFSET",
    "EIATTR_IMAGE_SIZE",
    "EIATTR_SAMPLER_INIT",
    "EIATTR_TEXID_SAMPID_MAP",
    "EIATTR_BINDLESS_IMAGE_OFFSETS",
    "EIATTR_BINDLESS_TEXTURE_BANK",
    "EIATTR_BINDLESS_SURFACE_BANK",
    "EIATTR_SAMPLER_FORCE_UNNORMALIZED",
];

/// The digest of a function. One that refers to anything that its cubin alone has (variables, other functions, textures, constants of the
/// module) can only be equal to another of the same cubin: the name of the cubin is in it.
fn digest(image: &Image<'_>, function: &Function<'_>, beside: &Beside<'_>, arch: Arch, place: &str) -> Digest {
    let mut hash = Hash(Sha256::new());
    let mut is_tied = beside.has_constants;
    hash.text(&format!("{arch} {:?} {:?} {:?} {}", image.abi, image.kind, function.kind, image.address_bits));
    hash.bytes(function.code);
    hash.text(&format!("{:?} {:?} {:?}", function.resources, function.launch, function.param_offset));
    for relocation in &function.relocations {
        let symbol = image.symbol(relocation.symbol);
        let inside = symbol.is_none_or(|symbol| symbol.section.is_some());
        is_tied |= inside;
        let name = symbol.filter(|_| !inside).map(|symbol| &symbol.name);
        let number = inside.then_some(relocation.symbol.0);
        hash.text(&format!("{} {} {:?} {name:?} {number:?}", relocation.offset, relocation.kind, relocation.addend));
    }
    for attribute in &function.attributes {
        hash.text(&format!("{} {:?}", attribute.code, attribute.name));
        // What nobody knows may name symbols, where it has room for their numbers.
        let has_room = matches!(attribute.value, AttributeValue::Bytes(_));
        is_tied |= attribute.name.map_or(has_room, |name| OF_THE_MODULE.contains(&name));
        match (attribute.name, attribute.value) {
            // The first word is the number of the section's symbol.
            (Some("EIATTR_PARAM_CBANK"), AttributeValue::Bytes(bytes)) => {
                hash.bytes(bytes.get(4..).unwrap_or_default());
            }
            (Some("EIATTR_EXTERNS"), AttributeValue::Bytes(_)) => {
                for word in attribute.words() {
                    let symbol = image.symbol(crate::cubin::SymbolIndex(word));
                    is_tied |= symbol.is_none_or(|symbol| symbol.section.is_some());
                    hash.text(&format!("{:?}", symbol.map(|symbol| &symbol.name)));
                }
            }
            (_, value) => hash.text(&format!("{value:?}")),
        }
    }
    for (index, section) in beside.own.get(&*function.name).into_iter().flatten() {
        let bank = section.name.strip_suffix(&*function.name).unwrap_or_default();
        hash.text(&format!("{bank} {} {}", section.kind, section.bytes));
        hash.bytes(section.data);
        is_tied |= beside.relocated.contains(&index.0) && !section.is_mercury();
    }
    if is_tied {
        hash.text(place);
    }
    hash.0.finalize().into()
}

/// Pieces that cannot run into each other.
struct Hash(Sha256);

impl Hash {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }
}
