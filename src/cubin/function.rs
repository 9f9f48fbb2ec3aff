//! A function of a cubin and everything the file says about it.

use std::borrow::Cow;

use super::attribute::{Attribute, code};
use super::elf::{Relocation, SectionIndex, Symbol, SymbolIndex};
use super::image::Problem;
use crate::base::Pc;

/// What a code section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    /// A kernel: `.entry`.
    Entry,
    /// A device function with a section of its own (relocatable files): `.func`.
    Device,
}

/// One `.text.NAME` section: a kernel, or a device function of a relocatable file.
#[derive(Clone, Debug)]
pub struct Function<'a> {
    /// The symbol's name, mangled as in the file.
    pub name: Cow<'a, str>,
    /// Kernel or device function.
    pub kind: FunctionKind,
    /// The `.text` section; pcs count from its start.
    pub section: SectionIndex,
    /// The function's symbol; `None` when no symbol names the section's start.
    pub symbol: Option<SymbolIndex>,
    /// The whole section, padding included.
    pub code: &'a [u8],
    /// Registers, barriers, memory.
    pub resources: Resources,
    /// What the kernel promises about its launches.
    pub launch: LaunchBounds,
    /// Kernel parameters by ordinal.
    pub params: Vec<Param>,
    /// Bytes of all parameters together.
    pub param_bytes: Option<u32>,
    /// Where in bank 0 the parameters start.
    pub param_offset: Option<u32>,
    /// Functions placed inside this section, by start: `$kernel$callee` of an executable, and the compiler's own
    /// `$__internal_…` routines. The function itself is not listed.
    pub parts: Vec<Part<'a>>,
    /// Where threads leave: EIATTR_EXIT_INSTR_OFFSETS.
    pub exits: Vec<Pc>,
    /// Number of mbarrier objects: EIATTR_NUM_MBARRIERS.
    pub mbarrier_count: Option<u32>,
    /// mbarrier instructions: EIATTR_MBARRIER_INSTR_OFFSETS.
    pub mbarriers: Vec<Mbarrier>,
    /// Every spill store and refill: EIATTR_ANNOTATIONS. `None` when the file has no such record, which with ptxas
    /// before 12.8 says nothing about spills.
    pub spills: Option<Vec<Pc>>,
    /// Whether the file records `setmaxnreg`: EIATTR_REG_RECONFIG.
    pub reg_reconfig: bool,
    /// Targets of indirect branches: EIATTR_INDIRECT_BRANCH_TARGETS.
    pub branch_targets: Vec<BranchTargets>,
    /// Every record of `.nv.info.NAME`, in file order.
    pub attributes: Vec<Attribute<'a>>,
    /// Relocations of the code, in file order.
    pub relocations: Vec<Relocation>,
}

/// What the function needs of the machine; `None` where the file does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Registers of each thread: EIATTR_REGCOUNT.
    pub registers: Option<u32>,
    /// Named barriers: highest id + 1, not how many are used.
    pub barriers: Option<u32>,
    /// "N bytes stack frame" of `ptxas -v`: from the call frame information, else EIATTR_FRAME_SIZE.
    pub frame_bytes: Option<u32>,
    /// EIATTR_MIN_STACK_SIZE: the frame with those of all callees; "cumulative stack size" of `ptxas -v`, STACK of
    /// `cuobjdump -res-usage`. `None` where recursion leaves it open.
    pub min_stack_bytes: Option<u32>,
    /// EIATTR_MAX_STACK_SIZE.
    pub max_stack_bytes: Option<u32>,
    /// "N bytes smem" of `ptxas -v`: static shared memory without what the system reserves.
    pub smem_bytes: u32,
    /// Shared memory the system reserves in each block (1024 from sm_90 on), part of SHARED in `cuobjdump -res-usage`.
    pub smem_reserved_bytes: u32,
    /// Whether the file has a `.nv.shared.NAME` for it: ptxas makes one for static shared memory and, in a module with an
    /// open `.extern .shared` array, for every kernel. With both it looks as with static shared memory alone.
    pub has_smem_section: bool,
    /// Constant banks of this function.
    pub cmem: Vec<ConstantBank>,
    /// Bytes of `.nv.local.NAME`: LOCAL of `cuobjdump -res-usage`.
    pub local_bytes: u32,
    /// Bytes of the code section, padding included.
    pub code_bytes: u32,
}

/// The bytes of one constant bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConstantBank {
    /// `c[bank]`.
    pub bank: u8,
    /// Size of its section.
    pub bytes: u32,
}

/// What a kernel promises about its launches. `.minnctapersm` is not recorded; its effect is in `max_registers`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaunchBounds {
    /// `.maxntid`: EIATTR_MAX_THREADS.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`: EIATTR_REQNTID.
    pub required_threads: Option<[u32; 3]>,
    /// EIATTR_MAXREG_COUNT: the cap ptxas worked under, 255 when there was none.
    pub max_registers: Option<u32>,
    /// `.reqnctapercluster`: EIATTR_CTA_PER_CLUSTER.
    pub cluster: Option<[u32; 3]>,
    /// `.explicitcluster`: EIATTR_EXPLICIT_CLUSTER.
    pub explicit_cluster: bool,
    /// `.blocksareclusters`: EIATTR_BLOCKS_ARE_CLUSTERS.
    pub blocks_are_clusters: bool,
    /// `.maxclusterrank`: EIATTR_MAX_CLUSTER_RANK.
    pub max_cluster_rank: Option<u32>,
}

/// A kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Position in the parameter list, from 0.
    pub ordinal: u32,
    /// Bytes from the first parameter.
    pub offset: u32,
    /// Bytes.
    pub bytes: u32,
}

/// A function that shares its section with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The symbol's name: `$kernel$callee`.
    pub name: Cow<'a, str>,
    /// The symbol.
    pub symbol: SymbolIndex,
    /// First byte.
    pub start: Pc,
    /// One past the last byte; `start` itself for a second name (`.alias`) of the code there.
    pub end: Pc,
    /// "N bytes stack frame" of `ptxas -v`: its own, where the file describes it, else the kernel's.
    pub frame_bytes: Option<u32>,
    /// Its registers, where recorded.
    pub registers: Option<u32>,
}

impl Part<'_> {
    /// `callee` of `$kernel$callee`; the whole name of any other symbol.
    pub fn callee(&self) -> &str {
        match self.name.strip_prefix('$').and_then(|rest| rest.split_once('$')) {
            Some((_, callee)) if !callee.is_empty() => callee,
            _ => &self.name,
        }
    }
}

/// An mbarrier instruction as EIATTR_MBARRIER_INSTR_OFFSETS records it: what it does to which address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbarrier {
    /// The instruction. ptxas before 12.4 records places that are off by a few instructions.
    pub pc: Pc,
    /// What it does.
    pub kind: MbarrierKind,
    /// Address register; 255 (RZ) when there is none.
    pub register: u32,
    /// Uniform address register, when there is one.
    pub uniform_register: Option<u8>,
    /// Bytes added to the registers.
    pub offset: u32,
}

/// What an mbarrier instruction does: the names of `cuobjdump -elf`, where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum MbarrierKind {
    Init,
    Arrive,
    ArriveNoComplete,
    ArriveDrop,
    ArriveDropNoComplete,
    TestWait,
    TestWaitParity,
    CpAsyncArrive,
    Inval,
    TryWait,
    TryWaitParity,
    /// `mbarrier.expect_tx`, which cuobjdump calls unknown.
    ExpectTx,
    /// `mbarrier.complete_tx`, which cuobjdump calls unknown.
    CompleteTx,
    /// A number without a name.
    Other(u8),
}

impl MbarrierKind {
    fn from_number(number: u8) -> Self {
        use MbarrierKind::*;
        const KINDS: [MbarrierKind; 13] = [
            Init,
            Arrive,
            ArriveNoComplete,
            ArriveDrop,
            ArriveDropNoComplete,
            TestWait,
            TestWaitParity,
            CpAsyncArrive,
            Inval,
            TryWait,
            TryWaitParity,
            ExpectTx,
            CompleteTx,
        ];
        KINDS.get(usize::from(number)).copied().unwrap_or(Other(number))
    }
}

/// Where an indirect branch may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchTargets {
    /// The branch.
    pub pc: Pc,
    /// Its targets, in file order.
    pub targets: Vec<Pc>,
}

impl<'a> Function<'a> {
    pub(super) fn new(section: SectionIndex, code: &'a [u8]) -> Self {
        Function {
            name: Cow::Borrowed(""),
            kind: FunctionKind::Device,
            section,
            symbol: None,
            code,
            resources: Resources { code_bytes: u32::try_from(code.len()).unwrap_or(u32::MAX), ..Resources::default() },
            launch: LaunchBounds::default(),
            params: Vec::new(),
            param_bytes: None,
            param_offset: None,
            parts: Vec::new(),
            exits: Vec::new(),
            mbarrier_count: None,
            mbarriers: Vec::new(),
            spills: None,
            reg_reconfig: false,
            branch_targets: Vec::new(),
            attributes: Vec::new(),
            relocations: Vec::new(),
        }
    }

    /// Takes a function symbol of this section: the function itself, or a part of it.
    pub(super) fn add_symbol(&mut self, index: SymbolIndex, symbol: &Symbol<'a>, problems: &mut Vec<Problem>) {
        let is_main = match self.symbol {
            Some(main) => main == index,
            None => symbol.name == self.name,
        };
        if is_main {
            self.symbol = Some(index);
            self.kind = if symbol.is_entry() { FunctionKind::Entry } else { FunctionKind::Device };
            return;
        }
        let size = self.code.len() as u64;
        let end = symbol.value.saturating_add(symbol.bytes);
        if end > size {
            let what = format!("{} ends at {end:#x}, past the section's {size:#x} bytes", symbol.name);
            problems.push(Problem::new(format!(".text.{}", self.name), what));
        }
        let clip = |at: u64| Pc(u32::try_from(at.min(size)).unwrap_or(u32::MAX));
        self.parts.push(Part {
            name: symbol.name.clone(),
            symbol: index,
            start: clip(symbol.value),
            end: clip(end),
            frame_bytes: None,
            registers: None,
        });
    }

    /// Leaves out parts that lie over others. Two names for one function do; more than a few for every byte are a file's way to have the
    /// same code looked at again and again.
    pub(super) fn leave_out_overlaps(&mut self, problems: &mut Vec<Problem>) {
        const NAMES_FOR_A_BYTE: usize = 4;
        let mut left = self.code.len().saturating_mul(NAMES_FOR_A_BYTE);
        let before = self.parts.len();
        self.parts.retain(|part| {
            let bytes = part.end.0.saturating_sub(part.start.0) as usize;
            let rest = left.checked_sub(bytes);
            left = rest.unwrap_or(left);
            rest.is_some()
        });
        if self.parts.len() < before {
            let what = format!("{} functions in it are not read: they overlap others", before - self.parts.len());
            problems.push(Problem::new(format!(".text.{}", self.name), what));
        }
    }

    /// Takes a record of `.nv.info` about this function, or about one of its parts.
    pub(super) fn set_from_module(&mut self, part: Option<usize>, attribute: u8, value: u32) {
        if let Some(part) = part {
            match (attribute, self.parts.get_mut(part)) {
                (code::REGCOUNT, Some(part)) => part.registers = Some(value),
                (code::FRAME_SIZE, Some(part)) => part.frame_bytes = Some(value),
                _ => {}
            }
            return;
        }
        let resources = &mut self.resources;
        match attribute {
            code::REGCOUNT => resources.registers = Some(value),
            code::FRAME_SIZE => resources.frame_bytes = Some(value),
            // All ones: not known.
            code::MIN_STACK_SIZE => resources.min_stack_bytes = Some(value).filter(|&v| v != u32::MAX),
            code::MAX_STACK_SIZE => resources.max_stack_bytes = Some(value).filter(|&v| v != u32::MAX),
            _ => {}
        }
    }

    /// Reads what is known of the function's own records.
    pub(super) fn read_attributes(&mut self, problems: &mut Vec<Problem>) {
        for attribute in &self.attributes {
            let mut words = attribute.words();
            match attribute.code {
                code::NUM_BARRIERS => self.resources.barriers = attribute.number(),
                code::MAX_THREADS => self.launch.max_threads = dimensions(attribute),
                code::REQNTID => self.launch.required_threads = dimensions(attribute),
                code::CTA_PER_CLUSTER => self.launch.cluster = dimensions(attribute),
                code::EXPLICIT_CLUSTER => self.launch.explicit_cluster = true,
                code::BLOCKS_ARE_CLUSTERS => self.launch.blocks_are_clusters = true,
                code::MAX_CLUSTER_RANK => self.launch.max_cluster_rank = attribute.number(),
                code::MAXREG_COUNT => self.launch.max_registers = attribute.number(),
                code::CBANK_PARAM_SIZE => self.param_bytes = attribute.number(),
                // The bank's symbol, then offset and size as halves.
                code::PARAM_CBANK => self.param_offset = words.nth(1).map(|word| word & 0xffff),
                code::KPARAM_INFO | code::KPARAM_INFO_V2 => {
                    if let (Some(place), Some(size)) = (words.nth(1), words.next()) {
                        // The first version counts the size in the upper 14 bits, the second in the lower 16.
                        let bytes = if attribute.code == code::KPARAM_INFO { size >> 18 } else { size & 0xffff };
                        self.params.push(Param { ordinal: place & 0xffff, offset: place >> 16, bytes });
                    }
                }
                code::EXIT_INSTR_OFFSETS => self.exits.extend(words.map(Pc)),
                code::NUM_MBARRIERS => self.mbarrier_count = attribute.number(),
                code::MBARRIER_INSTR_OFFSETS => {
                    while let (Some(pc), Some(register), Some(offset), Some(kind)) =
                        (words.next(), words.next(), words.next(), words.next())
                    {
                        let [kind, has_uniform, uniform, _] = kind.to_le_bytes();
                        self.mbarriers.push(Mbarrier {
                            pc: Pc(pc),
                            kind: MbarrierKind::from_number(kind & 0xf),
                            register,
                            uniform_register: (has_uniform & 1 != 0).then_some(uniform),
                            offset,
                        });
                    }
                }
                code::REG_RECONFIG => self.reg_reconfig = true,
                code::ANNOTATIONS => {
                    let spills = self.spills.get_or_insert_default();
                    while let (Some(kind), Some(pc)) = (words.next(), words.next()) {
                        // Kinds 2 and 3 carry text of a length that is not known.
                        if kind != 1 {
                            let what = format!("annotation of kind {kind} at {pc:#x} and what follows it are not read");
                            problems.push(Problem::new(format!(".nv.info.{}", self.name), what));
                            break;
                        }
                        spills.push(Pc(pc));
                    }
                }
                code::INDIRECT_BRANCH_TARGETS => {
                    while let (Some(pc), Some(_), Some(count)) = (words.next(), words.next(), words.next()) {
                        let targets: Vec<Pc> = words.by_ref().take(count as usize).map(Pc).collect();
                        self.branch_targets.push(BranchTargets { pc: Pc(pc), targets });
                    }
                }
                _ => {}
            }
        }
        self.params.sort_by_key(|param| param.ordinal);
    }
}

impl Resources {
    /// Executables for sm_90 and later count the kilobyte that the system reserves as part of the kernel's shared memory.
    pub(super) fn split_reserved_smem(&mut self) {
        const RESERVED: u32 = 1024;
        if self.smem_bytes >= RESERVED {
            self.smem_bytes -= RESERVED;
            self.smem_reserved_bytes = RESERVED;
        }
    }
}

fn dimensions(attribute: &Attribute<'_>) -> Option<[u32; 3]> {
    let mut words = attribute.words();
    Some([words.next()?, words.next()?, words.next()?])
}
