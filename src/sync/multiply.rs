//! What multiplications multiply: the shapes, types and layouts that `wgmma` and `tcgen05.mma` get by descriptor.
//!
//! In: an instruction and the bits of its operands that are known in every thread. Out: a [`Multiplication`] in which what is not known is
//! none.

use crate::base::Line;
use crate::ptx::descriptor::{self, Field, MatrixFormat, MmaForm, MmaKind, Swizzle};
use crate::ptx::{Instruction, Operand, Operation, Shape, Tcgen05, Wgmma, fragment};
use crate::simt::{Bits, KnownBits, Site, SiteId, Warps};

/// Bytes that a unit of an offset in a descriptor stands for.
const UNIT: u64 = 16;

/// A `wgmma.mma_async` or `tcgen05.mma`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multiplication {
    /// Its line.
    pub line: Line,
    /// Which of the two.
    pub format: MatrixFormat,
    /// `.kind` of a `tcgen05.mma`.
    pub kind: Option<MmaKind>,
    /// Rows of D.
    pub m: Option<u32>,
    /// Columns of D.
    pub n: Option<u32>,
    /// What is summed over.
    pub k: Option<u32>,
    /// The types of D, A and B.
    pub types: [Option<&'static str>; 3],
    /// Whether of each four elements of A two are stored.
    pub is_sparse: bool,
    /// A and B.
    pub factors: [Factor; 2],
    /// The instruction descriptor, as far as its bits are known; none of a wgmma.
    pub descriptor: Option<KnownBits>,
}

/// A or B.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    /// Where it is.
    pub place: Place,
    /// Whether its rows (of B: its columns) lie side by side, instead of K.
    pub is_transposed: Option<bool>,
    /// Whether it is negated.
    pub is_negated: Option<bool>,
}

/// Where a factor is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In registers.
    Registers,
    /// In tensor memory.
    TensorMemory,
    /// In shared memory.
    Shared(Tile),
}

/// What a descriptor says of a matrix in shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The descriptor, as far as its bits are known.
    pub descriptor: KnownBits,
    /// Bytes in which its rows are swizzled.
    pub swizzle: Option<Swizzle>,
    /// Bytes of the leading dimension's offset.
    pub leading_bytes: Option<u64>,
    /// Bytes of the stride dimension's offset.
    pub stride_bytes: Option<u64>,
    /// Where in its pattern it starts.
    pub base_offset: Option<u64>,
    /// Where it starts, where that is a number.
    pub start: Option<u64>,
    /// The variable that it is in.
    pub variable: Option<String>,
}

impl Tile {
    /// What a descriptor says.
    pub fn of(format: MatrixFormat, known: KnownBits) -> Tile {
        let read = |field: Field| known.field(field.from, field.bits);
        Tile {
            descriptor: known,
            swizzle: read(format.swizzle_field()).and_then(|code| format.swizzle(code)),
            leading_bytes: read(descriptor::LEADING).map(|units| units * UNIT),
            stride_bytes: read(descriptor::STRIDE).map(|units| units * UNIT),
            base_offset: read(descriptor::BASE_OFFSET),
            start: read(descriptor::START).map(|units| units * UNIT).filter(|_| known.address == 0),
            variable: None,
        }
    }
}

impl Multiplication {
    /// What an instruction descriptor says; factors are where nobody knows.
    pub fn of_descriptor(form: MmaForm, known: KnownBits) -> Multiplication {
        let kind = form.kind;
        let read = |field: Field| known.field(field.from, field.bits);
        let named = |name: &str| kind.fields().iter().copied().find(|field| field.name == name).and_then(read);
        let flag = |name: &str| named(name).map(|bit| bit == 1);
        let typed = |number: Option<u64>, all: &'static [(u64, &'static str)]| {
            all.iter().find(|(known, _)| Some(*known) == number).map(|(_, name)| *name)
        };
        let d = if kind.is_scaled() { Some("f32") } else { typed(read(descriptor::D_TYPE), kind.accumulators()) };
        let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let factor = |transposed: &str, negated: &str| Factor {
            place: Place::Registers,
            // Kinds of 4 bits have no such field.
            is_transposed: if kind.has(transposed) { flag(transposed) } else { Some(false) },
            is_negated: flag(negated),
        };
        let k = kind.k(named(descriptor::K_NAME));
        Multiplication {
            line: Line(0),
            format: MatrixFormat::Tcgen05,
            kind: Some(kind),
            m: read(descriptor::M).map(|field| number(descriptor::rows(field))),
            n: read(descriptor::N).map(|field| number(descriptor::columns(field))),
            k: k.map(|k| if form.is_sparse { 2 * k } else { k }),
            types: [d, typed(read(descriptor::A_TYPE), kind.factors()), typed(read(kind.type_of_b()), kind.factors())],
            is_sparse: form.is_sparse,
            factors: [factor("transpose A", "negate A"), factor("transpose B", "negate B")],
            descriptor: Some(known),
        }
    }
}

/// Which descriptors of shared memory an instruction takes, if any.
pub fn format(operation: &Operation<'_>) -> Option<MatrixFormat> {
    match operation {
        Operation::Wgmma(Wgmma::MmaAsync) => Some(MatrixFormat::Wgmma),
        Operation::Tcgen05 { action: Tcgen05::Mma | Tcgen05::Cp, .. } => Some(MatrixFormat::Tcgen05),
        _ => None,
    }
}

fn is_number(operand: &Operand<'_>) -> bool {
    matches!(operand.shape(), Shape::Name { .. } | Shape::Number(_))
}

/// The operands that are descriptors of matrices.
pub fn matrices<'a>(instruction: &Instruction<'a>) -> impl Iterator<Item = Operand<'a>> {
    let count = if instruction.has("cp") { 1 } else { 2 };
    instruction.operands().skip(1).take(count).filter(is_number)
}

/// How a `tcgen05.mma` multiplies, and its instruction descriptor.
pub fn form<'a>(site: &Site<'a>) -> Option<(MmaForm, Operand<'a>)> {
    let Operation::Tcgen05 { cta_group: Some(cta_group), .. } = site.operation else { return None };
    let instruction = site.located.instruction;
    let kind = instruction.modifiers().find_map(|word| word.strip_prefix("kind::").and_then(MmaKind::of))?;
    // The metadata of a sparse matrix comes before it, as an address.
    let is_address = |operand: &Operand<'_>| matches!(operand.shape(), Shape::Address(_));
    let operand = instruction.operands().skip(3).find(|operand| !is_address(operand))?;
    let (is_weight_stationary, is_sparse) = (instruction.has("ws"), instruction.has("sp"));
    Some((MmaForm { kind, cta_group, is_weight_stationary, is_sparse }, operand))
}

/// Every multiplication of a kernel that some thread may run, by line.
pub fn multiplications(warps: &Warps<'_>, bits: &Bits) -> Vec<Multiplication> {
    let sites = warps.graph.sites.iter_enumerated().filter(|(index, _)| !warps.at(*index).is_empty());
    sites.filter_map(|(index, site)| multiplication(warps, bits, index, site)).collect()
}

fn multiplication(warps: &Warps<'_>, bits: &Bits, index: SiteId, site: &Site<'_>) -> Option<Multiplication> {
    let instruction = site.located.instruction;
    let place = |at: usize, format: MatrixFormat| {
        let operand = instruction.operand(at)?;
        Some(match operand.shape() {
            Shape::Vector(_) => Place::Registers,
            Shape::Address(_) => Place::TensorMemory,
            _ => {
                let known = bits.operand(warps, index, operand);
                let variable = known.variable.and_then(|variable| warps.values.variables.get(variable as usize));
                Place::Shared(Tile { variable: variable.cloned(), ..Tile::of(format, known) })
            }
        })
    };
    let found = match site.operation {
        Operation::Wgmma(Wgmma::MmaAsync) => warpgroup(&instruction, |at| place(at, MatrixFormat::Wgmma))?,
        Operation::Tcgen05 { action: Tcgen05::Mma, .. } => {
            let (form, operand) = form(site)?;
            let mut found = Multiplication::of_descriptor(form, bits.operand(warps, index, operand));
            let [a, b] = &mut found.factors;
            (a.place, b.place) = (place(1, MatrixFormat::Tcgen05)?, place(2, MatrixFormat::Tcgen05)?);
            found
        }
        _ => return None,
    };
    Some(Multiplication { line: site.line(), ..found })
}

/// A `wgmma.mma_async`: its shape and types are in its name.
fn warpgroup(instruction: &Instruction<'_>, place: impl Fn(usize) -> Option<Place>) -> Option<Multiplication> {
    let words = || instruction.modifiers();
    let (m, n, k) = words().find_map(fragment::shape)?;
    let mut types = words().filter_map(fragment::element);
    let types = [types.next(), types.next(), types.next()];
    let is_sparse = instruction.has("sp");
    let (a, b) = (place(1)?, place(2)?);
    // D, A, B, metadata and its selector where A is sparse, whether D is added to, then numbers.
    let first = if is_sparse { 6 } else { 4 };
    let numbers: Vec<Option<i64>> = instruction.operands().skip(first).map(|operand| operand.value()).collect();
    let number = |at: usize| numbers.get(at).copied().flatten();
    let flag = |number: Option<i64>| number.map(|number| number == 1);
    let scaled = matches!(types.first(), Some(Some("f16" | "f32")));
    let transposes = matches!(types.get(1), Some(Some("f16" | "bf16")));
    let in_shared = matches!(a, Place::Shared(_));
    let transposed = |at: usize| if transposes { flag(number(at)) } else { Some(false) };
    let negated = |at: usize| if scaled { number(at).map(|number| number == -1) } else { Some(false) };
    Some(Multiplication {
        line: Line(0),
        format: MatrixFormat::Wgmma,
        kind: None,
        m: Some(m),
        n: Some(n),
        k: Some(k),
        types,
        is_sparse,
        factors: [
            Factor {
                place: a,
                is_transposed: if in_shared { transposed(2) } else { Some(false) },
                is_negated: negated(0),
            },
            Factor { place: b, is_transposed: transposed(if in_shared { 3 } else { 2 }), is_negated: negated(1) },
        ],
        descriptor: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simt::BlockSize;

    fn of(text: &str) -> Vec<Multiplication> {
        let module = crate::ptx::parse(text);
        let function = module.functions().next().expect("a kernel");
        let size = Some(BlockSize { dimensions: [128, 1, 1], exact: true });
        let warps = Warps::of(&function, size).with_operands(&function, size);
        multiplications(&warps, &Bits::of(&warps))
    }

    #[test]
    fn a_wgmma_with_a_descriptor_put_together_from_an_address() {
        let found = of(
            ".version 8.8\n.target sm_90a\n.visible .entry k() .reqntid 128\n{\n.reg .pred p; .reg .f32 %f<5>;\n.reg .b64 %rd<9>;\n\
             .reg .b32 %r<9>;\n.shared .align 1024 .b8 tile[16384];\nmov.u32 %r1, tile;\nshr.u32 %r2, %r1, 4;\nand.b32 %r3, %r2, 16383;\n\
             cvt.u64.u32 %rd1, %r3;\nor.b64 %rd2, %rd1, 0x4000004000010000;\nsetp.ne.b32 p, 0, 0;\n\
             wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.bf16 {%f1,%f2,%f3,%f4}, %rd2, %rd2, p, 1, -1, 0, 1;\nret;\n}\n",
        );
        let [found] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((found.m, found.n, found.k), (Some(64), Some(8), Some(16)));
        assert_eq!(found.types, [Some("f32"), Some("f16"), Some("bf16")]);
        let [a, b] = &found.factors;
        assert_eq!(
            (a.is_transposed, a.is_negated, b.is_transposed, b.is_negated),
            (Some(false), Some(false), Some(true), Some(true))
        );
        let Place::Shared(tile) = &a.place else { panic!("{a:?}") };
        assert_eq!(tile.swizzle, Some(Swizzle::B128));
        assert_eq!((tile.leading_bytes, tile.stride_bytes, tile.base_offset), (Some(16), Some(1024), Some(0)));
        assert_eq!((tile.variable.as_deref(), tile.start), (Some("tile"), None));
    }

    #[test]
    fn an_instruction_descriptor() {
        let form = MmaForm { kind: MmaKind::F16, cta_group: 1, is_weight_stationary: false, is_sparse: false };
        let found = Multiplication::of_descriptor(form, KnownBits::constant(0x0820_0490));
        assert_eq!((found.m, found.n, found.k), (Some(128), Some(128), Some(16)));
        assert_eq!(found.types, [Some("f32"), Some("bf16"), Some("bf16")]);
    }
}
