//! What the report says of matrices: what multiplications multiply, and which elements registers hold.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::base::Line;
use crate::ptx::descriptor::{self, Field, MatrixFormat, MmaForm, MmaKind};
use crate::ptx::{Function, Instruction, Module, fragment};
use crate::simt::KnownBits;
use crate::sync::{multiply, rules};

/// A `wgmma` or `tcgen05.mma`, with what its descriptors say. What is not known before the kernel runs is null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Multiplication {
    /// Its line.
    pub ptx_line: Line,
    /// `wgmma` or `tcgen05.mma`.
    pub instruction: String,
    /// `.kind` of a `tcgen05.mma`: `f16`; null of a wgmma.
    pub kind: Option<String>,
    /// Rows of D.
    pub m: Option<u32>,
    /// Columns of D.
    pub n: Option<u32>,
    /// What is summed over.
    pub k: Option<u32>,
    /// The type of D.
    pub d_type: Option<String>,
    /// The type of A.
    pub a_type: Option<String>,
    /// The type of B.
    pub b_type: Option<String>,
    /// Whether of each four elements of A two are stored.
    pub sparse: bool,
    /// The left factor.
    pub a: Factor,
    /// The right factor.
    pub b: Factor,
    /// The instruction descriptor; null of a wgmma.
    pub descriptor: Option<Descriptor>,
}

/// Where a factor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactorPlace {
    /// In registers.
    Registers,
    /// In tensor memory.
    TensorMemory,
    /// In shared memory.
    SharedMemory,
}

/// A factor of a multiplication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// Where it is.
    pub place: FactorPlace,
    /// Whether M of A, or N of B, lies side by side instead of K.
    pub transposed: Option<bool>,
    /// Whether it is negated.
    pub negated: Option<bool>,
    /// How it lies in shared memory; null elsewhere.
    pub tile: Option<Tile>,
}

/// A matrix in shared memory, as its descriptor has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tile {
    /// The variable that it is in.
    pub variable: Option<String>,
    /// Where it starts, where that is a number.
    pub start: Option<u64>,
    /// `none`, `32 bytes`, `64 bytes`, `128 bytes`, …
    pub swizzle: Option<String>,
    /// Offset of the leading dimension.
    pub leading_bytes: Option<u64>,
    /// Offset of the stride dimension.
    pub stride_bytes: Option<u64>,
    /// Where in the pattern of its swizzle it starts.
    pub base_offset: Option<u64>,
    /// The descriptor.
    pub descriptor: Descriptor,
}

/// A descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// It, in hexadecimal, where all of its bits are known.
    pub value: Option<String>,
    /// Its fields, from its lowest bits on.
    pub fields: Vec<DescriptorField>,
}

/// A field of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescriptorField {
    /// What it is called.
    pub name: String,
    /// Its lowest and its highest bit.
    pub bits: [u32; 2],
    /// What is in it.
    pub value: Option<u64>,
    /// What that stands for, where it is more than a number.
    pub meaning: Option<String>,
}

/// A descriptor that somebody asks about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescriptorPage {
    /// The instruction that it is for: `tcgen05.mma.kind::f16`, `wgmma`.
    pub instruction: String,
    /// What it multiplies; null of the descriptor of a matrix.
    pub multiplication: Option<Multiplication>,
    /// How its matrix lies in shared memory; null of an instruction descriptor.
    pub tile: Option<Tile>,
    /// It.
    pub descriptor: Descriptor,
    /// What is wrong with it.
    pub wrong: Vec<String>,
}

impl DescriptorPage {
    /// An instruction descriptor, for one kind of `tcgen05.mma`; or else for every kind that takes it, and where none does for `f16`.
    pub fn instruction(value: u32, kind: Option<MmaKind>) -> Vec<DescriptorPage> {
        let known = KnownBits::constant(u64::from(value));
        let page = |kind: MmaKind| {
            let is_sparse = descriptor::SPARSE.of(u64::from(value)) == 1;
            let is_weight_stationary = !kind.is_scaled() && descriptor::MAX_SHIFT.of(u64::from(value)) > 0;
            let form = |cta_group| MmaForm { kind, cta_group, is_weight_stationary, is_sparse };
            let wrong = |cta_group| rules::descriptors::instruction_descriptor(form(cta_group), "it", known);
            // How many blocks work together is not in it: those with which more of it is right.
            let wrong = [wrong(1), wrong(2)].into_iter().min_by_key(Vec::len).unwrap_or_default();
            let mut wrong: Vec<String> =
                wrong.into_iter().map(|broken| format!("{}: {}", broken.message, broken.reasoning)).collect();
            if matches!(kind, MmaKind::Mxf8f6f4 | MmaKind::Mxf4) && descriptor::SCALE_TYPE.of(u64::from(value)) == 0 {
                wrong.push("it has scale factors of ue4m3: those of this kind are ue8m0, bit 23 is 1".to_owned());
            }
            let found = multiply::Multiplication::of_descriptor(form(1), known);
            DescriptorPage {
                instruction: format!("tcgen05.mma.kind::{}", kind.name()),
                multiplication: Some(Multiplication::of(&found, Line(0))),
                tile: None,
                descriptor: Descriptor::instruction(known, kind),
                wrong,
            }
        };
        if let Some(kind) = kind {
            return vec![page(kind)];
        }
        let taken: Vec<_> = MmaKind::ALL.into_iter().map(page).filter(|page| page.wrong.is_empty()).collect();
        if taken.is_empty() { vec![page(MmaKind::F16)] } else { taken }
    }

    /// A descriptor of a matrix in shared memory: of the instruction that is named, or else of the one that its fixed bits tell.
    pub fn matrix(value: u64, format: Option<MatrixFormat>) -> DescriptorPage {
        let is_tcgen05 = descriptor::VERSION.of(value) == 1;
        let format = format.unwrap_or(if is_tcgen05 { MatrixFormat::Tcgen05 } else { MatrixFormat::Wgmma });
        let known = KnownBits::constant(value);
        let wrong = rules::descriptors::matrix(format, "it", known);
        DescriptorPage {
            instruction: match format {
                MatrixFormat::Wgmma => "wgmma".to_owned(),
                MatrixFormat::Tcgen05 => "tcgen05.mma".to_owned(),
            },
            multiplication: None,
            tile: Some(Tile::of(&multiply::Tile::of(format, known), format)),
            descriptor: Descriptor::matrix(known, format),
            wrong: wrong.into_iter().map(|broken| format!("{}: {}", broken.message, broken.reasoning)).collect(),
        }
    }
}

/// What the registers of an instruction hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FragmentsAt {
    /// Its line.
    pub ptx_line: Line,
    /// Its opcode.
    pub instruction: String,
    /// Its operands that are spread over the threads.
    pub fragments: Vec<Fragment>,
}

/// An operand that is spread over the threads: the place of an element is the sum of what its register, the bits of its thread's number
/// and its warp add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fragment {
    /// `A`, `B`, `C`, `D`, `matrix 0` of `ldmatrix`, `tensor memory`.
    pub operand: String,
    /// Which operand of the instruction has its registers, from 0 on.
    pub operand_index: u32,
    /// Which of that operand's registers is its first, from 0 on.
    pub first_register: u32,
    /// Rows of the matrix; of tensor memory lanes.
    pub rows: u32,
    /// Columns of the matrix; of a sparse one, what is stored.
    pub columns: u32,
    /// The type of an element.
    pub element: String,
    /// Whether of each four elements two are stored.
    pub sparse: bool,
    /// Warps that hold it together.
    pub warps: u32,
    /// The row of a thread, as a formula of `t`, its number in its warp, and `w`, its warp's among those that work together.
    pub row: String,
    /// Its column, likewise.
    pub column: String,
    /// What each bit of the thread's number adds to row and column, lowest first.
    pub thread_bits: Vec<[u32; 2]>,
    /// What each warp adds to row and column.
    pub warp: [u32; 2],
    /// Its registers, in order.
    pub registers: Vec<HeldElements>,
}

/// What a register adds to the place of its elements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldElements {
    /// Its name.
    pub name: String,
    /// Row and column for each element in it, lowest bits first.
    pub elements: Vec<[u32; 2]>,
}

impl Multiplication {
    /// As the report has it.
    pub fn of(found: &multiply::Multiplication, line: Line) -> Multiplication {
        let [d, a, b] = found.types.map(|name| name.map(str::to_owned));
        let factor = |factor: &multiply::Factor| Factor {
            place: match factor.place {
                multiply::Place::Registers => FactorPlace::Registers,
                multiply::Place::TensorMemory => FactorPlace::TensorMemory,
                multiply::Place::Shared(_) => FactorPlace::SharedMemory,
            },
            transposed: factor.is_transposed,
            negated: factor.is_negated,
            tile: match &factor.place {
                multiply::Place::Shared(tile) => Some(Tile::of(tile, found.format)),
                _ => None,
            },
        };
        let [left, right] = &found.factors;
        let descriptor = found.descriptor.zip(found.kind);
        Multiplication {
            ptx_line: line,
            instruction: match found.format {
                MatrixFormat::Wgmma => "wgmma".to_owned(),
                MatrixFormat::Tcgen05 => "tcgen05.mma".to_owned(),
            },
            kind: found.kind.map(|kind| kind.name().to_owned()),
            m: found.m,
            n: found.n,
            k: found.k,
            d_type: d,
            a_type: a,
            b_type: b,
            sparse: found.is_sparse,
            a: factor(left),
            b: factor(right),
            descriptor: descriptor.map(|(known, kind)| Descriptor::instruction(known, kind)),
        }
    }
}

impl Tile {
    /// As the report has it.
    pub fn of(tile: &multiply::Tile, format: MatrixFormat) -> Tile {
        Tile {
            variable: tile.variable.clone(),
            start: tile.start,
            swizzle: tile.swizzle.map(|swizzle| swizzle.to_string()),
            leading_bytes: tile.leading_bytes,
            stride_bytes: tile.stride_bytes,
            base_offset: tile.base_offset,
            descriptor: Descriptor::matrix(tile.descriptor, format),
        }
    }
}

impl Descriptor {
    /// An instruction descriptor.
    pub fn instruction(known: KnownBits, kind: MmaKind) -> Descriptor {
        Descriptor::of(known, kind.fields(), 32, |field, value| kind.meaning(field, value))
    }

    /// A descriptor of a matrix in shared memory.
    pub fn matrix(known: KnownBits, format: MatrixFormat) -> Descriptor {
        Descriptor::of(known, format.fields(), 64, |field, value| format.meaning(field, value))
    }

    fn of(known: KnownBits, fields: &[Field], bits: u32, meaning: impl Fn(Field, u64) -> Option<String>) -> Descriptor {
        let field = |field: &Field| {
            let value = known.field(field.from, field.bits);
            DescriptorField {
                name: field.name.to_owned(),
                bits: [field.from, field.to()],
                value,
                meaning: value.and_then(|value| meaning(*field, value)),
            }
        };
        // A place in a variable is no number before the kernel is loaded.
        let is_number = known.address == 0;
        let value = known.field(0, bits).filter(|_| is_number);
        Descriptor {
            value: value.map(|value| format!("{value:#0width$x}", width = bits as usize / 4 + 2)),
            fields: fields.iter().map(field).collect(),
        }
    }
}

impl FragmentsAt {
    /// What the registers of an instruction hold; none where it spreads no matrix.
    pub fn of(instruction: &Instruction<'_>, line: Line) -> Option<FragmentsAt> {
        let found = fragment::of(instruction)?;
        let named = |fragment: &fragment::Fragment| {
            let names = fragment.names(instruction)?;
            Some(Fragment::of(fragment, names.into_iter().map(str::to_owned)))
        };
        Some(FragmentsAt {
            ptx_line: line,
            instruction: instruction.opcode().to_owned(),
            fragments: found.iter().filter_map(named).collect(),
        })
    }

    /// What the registers of an opcode hold, by their place among the operand's; none where it spreads no matrix.
    pub fn of_opcode(opcode: &str) -> Option<FragmentsAt> {
        let found = fragment::of_opcode(opcode)?;
        let named = |fragment: &fragment::Fragment| {
            let name = match fragment.role {
                fragment::Role::D => "d",
                fragment::Role::A => "a",
                fragment::Role::B => "b",
                fragment::Role::C => "c",
                fragment::Role::Shared(_) | fragment::Role::Tensor => "r",
            };
            let numbers = fragment.first..fragment.first + fragment.registers.len();
            Fragment::of(fragment, numbers.map(|number| format!("{name}{number}")))
        };
        let fragments = found.iter().map(named).collect();
        Some(FragmentsAt { ptx_line: Line(0), instruction: opcode.to_owned(), fragments })
    }

    /// Of every instruction of a function on these lines, as ptxas numbers them.
    pub fn at(function: &Function<'_, '_>, module: &Module<'_>, is_asked: impl Fn(Line) -> bool) -> Vec<FragmentsAt> {
        let asked = function.instructions().filter_map(|located| {
            let line = module.number_of(located.line);
            FragmentsAt::of(&located.instruction, line).filter(|_| is_asked(line))
        });
        asked.collect()
    }
}

/// What the registers of all instructions of a kernel hold: instructions alike share a layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layouts {
    /// One for each kind of instruction, with the names of the first of them.
    pub kinds: Vec<FragmentsAt>,
    /// Which of them an instruction has, by its line.
    pub at: Vec<(Line, usize)>,
}

impl Layouts {
    /// Of a function, by line as ptxas numbers it.
    pub fn of(function: &Function<'_, '_>, module: &Module<'_>) -> Layouts {
        let mut found = Layouts::default();
        let mut known: HashMap<(&str, usize), usize> = HashMap::new();
        for located in function.instructions() {
            let Some(fragments) = fragment::of(&located.instruction) else { continue };
            let line = module.number_of(located.line);
            let kind = *known.entry((located.instruction.opcode(), fragments.len())).or_insert_with(|| {
                found.kinds.extend(FragmentsAt::of(&located.instruction, line));
                found.kinds.len() - 1
            });
            found.at.push((line, kind));
        }
        found
    }
}

impl Fragment {
    fn of(fragment: &fragment::Fragment, names: impl Iterator<Item = String>) -> Fragment {
        let both = |cell: &fragment::Cell| [cell.row, cell.column];
        let (row, column) = fragment.start();
        let held = |(name, cells): (String, &Vec<fragment::Cell>)| HeldElements {
            name,
            elements: cells.iter().map(both).collect(),
        };
        Fragment {
            operand: fragment.role.to_string(),
            operand_index: fragment.operand as u32,
            first_register: fragment.first as u32,
            rows: fragment.rows,
            columns: fragment.columns,
            element: fragment.element.to_owned(),
            sparse: fragment.is_sparse,
            warps: fragment.warps,
            row,
            column,
            thread_bits: fragment.lane.iter().map(both).collect(),
            warp: both(&fragment.warp),
            registers: names.zip(&fragment.registers).map(held).collect(),
        }
    }
}
