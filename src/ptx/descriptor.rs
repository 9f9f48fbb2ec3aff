//! Descriptors: the numbers that tell `tcgen05.mma` and `wgmma.mma_async` what to multiply, and where it lies in shared memory.
//!
//! In: a number. Out: its fields, each with its bits. Decoding is total: a number that no instruction takes has fields as well, and
//! what is wrong with them is said apart.

use std::fmt;

/// A field of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// What it is called.
    pub name: &'static str,
    /// Its lowest bit.
    pub from: u32,
    /// How many bits it has.
    pub bits: u32,
}

impl Field {
    const fn new(name: &'static str, from: u32, bits: u32) -> Field {
        Field { name, from, bits }
    }

    /// What a descriptor has in it.
    pub fn of(self, descriptor: u64) -> u64 {
        descriptor >> self.from & ((1 << self.bits) - 1)
    }

    /// Its highest bit.
    pub fn to(self) -> u32 {
        self.from + self.bits - 1
    }
}

/// `.kind` of a `tcgen05.mma`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MmaKind {
    /// `.kind::f16`
    F16,
    /// `.kind::tf32`
    Tf32,
    /// `.kind::f8f6f4`
    F8f6f4,
    /// `.kind::i8`
    I8,
    /// `.kind::mxf8f6f4`
    Mxf8f6f4,
    /// `.kind::mxf4`
    Mxf4,
    /// `.kind::mxf4nvf4`
    Mxf4nvf4,
}

impl MmaKind {
    /// Every kind.
    pub const ALL: [MmaKind; 7] = [
        MmaKind::F16,
        MmaKind::Tf32,
        MmaKind::F8f6f4,
        MmaKind::I8,
        MmaKind::Mxf8f6f4,
        MmaKind::Mxf4,
        MmaKind::Mxf4nvf4,
    ];

    /// `f16`
    pub fn name(self) -> &'static str {
        match self {
            MmaKind::F16 => "f16",
            MmaKind::Tf32 => "tf32",
            MmaKind::F8f6f4 => "f8f6f4",
            MmaKind::I8 => "i8",
            MmaKind::Mxf8f6f4 => "mxf8f6f4",
            MmaKind::Mxf4 => "mxf4",
            MmaKind::Mxf4nvf4 => "mxf4nvf4",
        }
    }

    /// The kind of a name, with or without `kind::`.
    pub fn of(name: &str) -> Option<MmaKind> {
        let name = name.strip_prefix("kind::").unwrap_or(name);
        MmaKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether its operands have scale factors.
    pub fn is_scaled(self) -> bool {
        matches!(self, MmaKind::Mxf8f6f4 | MmaKind::Mxf4 | MmaKind::Mxf4nvf4)
    }

    /// The types of accumulators, by number.
    pub fn accumulators(self) -> &'static [(u64, &'static str)] {
        match self {
            MmaKind::F16 | MmaKind::F8f6f4 => &[(0, "f16"), (1, "f32")],
            MmaKind::Tf32 => &[(1, "f32")],
            MmaKind::I8 => &[(2, "s32")],
            // They have f32, and no field for it.
            MmaKind::Mxf8f6f4 | MmaKind::Mxf4 | MmaKind::Mxf4nvf4 => &[],
        }
    }

    /// The types of factors, by number.
    pub fn factors(self) -> &'static [(u64, &'static str)] {
        match self {
            MmaKind::F16 => &[(0, "f16"), (1, "bf16")],
            MmaKind::Tf32 => &[(2, "tf32")],
            MmaKind::F8f6f4 | MmaKind::Mxf8f6f4 => &[(0, "e4m3"), (1, "e5m2"), (3, "e2m3"), (4, "e3m2"), (5, "e2m1")],
            MmaKind::I8 => &[(0, "u8"), (1, "s8")],
            MmaKind::Mxf4 | MmaKind::Mxf4nvf4 => &[(1, "e2m1")],
        }
    }

    /// Bits of an instruction descriptor that must be 0.
    pub fn reserved(self) -> u32 {
        match self {
            MmaKind::F16 | MmaKind::Tf32 | MmaKind::F8f6f4 | MmaKind::I8 => 1 << 6 | 1 << 23 | 1 << 29,
            MmaKind::Mxf8f6f4 => 0b11 | 1 << 3 | 1 << 6 | 1 << 31,
            MmaKind::Mxf4 | MmaKind::Mxf4nvf4 => 0b11 | 1 << 3 | 1 << 6 | 1 << 12 | 0b11 << 15,
        }
    }

    /// The fields of its instruction descriptor, ascending.
    pub fn fields(self) -> &'static [Field] {
        match self {
            MmaKind::F16 | MmaKind::Tf32 | MmaKind::F8f6f4 | MmaKind::I8 => {
                const {
                    &[
                        Field::new("sparsity selector", 0, 2),
                        SPARSE,
                        SATURATE,
                        D_TYPE,
                        A_TYPE,
                        B_TYPE,
                        Field::new("negate A", 13, 1),
                        Field::new("negate B", 14, 1),
                        Field::new("transpose A", 15, 1),
                        Field::new("transpose B", 16, 1),
                        N,
                        M,
                        MAX_SHIFT,
                    ]
                }
            }
            MmaKind::Mxf8f6f4 => {
                const {
                    &[
                        SPARSE,
                        Field::new("scale factors of B", 4, 2),
                        A_TYPE,
                        B_TYPE,
                        Field::new("negate A", 13, 1),
                        Field::new("negate B", 14, 1),
                        Field::new("transpose A", 15, 1),
                        Field::new("transpose B", 16, 1),
                        N,
                        SCALE_TYPE,
                        M,
                        Field::new("scale factors of A", 29, 2),
                    ]
                }
            }
            MmaKind::Mxf4 | MmaKind::Mxf4nvf4 => {
                const {
                    &[
                        SPARSE,
                        Field::new("scale factors of B", 4, 2),
                        A_TYPE,
                        Field::new("type of B", 10, 2),
                        Field::new("negate A", 13, 1),
                        Field::new("negate B", 14, 1),
                        N,
                        SCALE_TYPE,
                        M,
                        Field::new("scale factors of A", 29, 2),
                        Field::new(K_NAME, 31, 1),
                    ]
                }
            }
        }
    }

    /// Whether its instruction descriptor has a field.
    pub fn has(self, field: &str) -> bool {
        self.fields().iter().any(|known| known.name == field)
    }

    /// What a dense multiplication sums over: of 4 bits as the descriptor's bit says.
    pub fn k(self, bit: Option<u64>) -> Option<u32> {
        match self {
            MmaKind::Tf32 => Some(8),
            MmaKind::F16 => Some(16),
            MmaKind::F8f6f4 | MmaKind::I8 | MmaKind::Mxf8f6f4 => Some(32),
            MmaKind::Mxf4 | MmaKind::Mxf4nvf4 => bit.map(|bit| if bit == 1 { 96 } else { 64 }),
        }
    }

    /// What a number in a field of its instruction descriptor stands for, where it is more than a number.
    pub fn meaning(self, field: Field, value: u64) -> Option<String> {
        let typed = |all: &[(u64, &'static str)]| all.iter().find(|(known, _)| *known == value).map(|(_, name)| *name);
        Some(match field {
            N => columns(value).to_string(),
            M => rows(value).to_string(),
            D_TYPE => typed(self.accumulators())?.to_owned(),
            A_TYPE => typed(self.factors())?.to_owned(),
            MAX_SHIFT => {
                if value == 0 {
                    "none".to_owned()
                } else {
                    (4u64 << value).to_string()
                }
            }
            SCALE_TYPE => {
                if value == 1 {
                    "ue8m0".to_owned()
                } else {
                    "ue4m3".to_owned()
                }
            }
            _ if field.name == B_TYPE.name => typed(self.factors())?.to_owned(),
            _ if field.name == K_NAME => self.k(Some(value))?.to_string(),
            _ if field.bits == 1 => {
                if value == 1 {
                    "yes".to_owned()
                } else {
                    "no".to_owned()
                }
            }
            _ => return None,
        })
    }

    /// The type of B in its instruction descriptor.
    pub fn type_of_b(self) -> Field {
        self.fields().iter().copied().find(|field| field.name == B_TYPE.name).unwrap_or(B_TYPE)
    }
}

/// What the bit is called that says how much is summed over.
pub const K_NAME: &str = "K";
/// Whether A is sparse.
pub const SPARSE: Field = Field::new("sparse", 2, 1);
/// Whether sums stay at the end of the range.
pub const SATURATE: Field = Field::new("saturate", 3, 1);
/// The type of the accumulators.
pub const D_TYPE: Field = Field::new("type of D", 4, 2);
/// The type of A.
pub const A_TYPE: Field = Field::new("type of A", 7, 3);
/// The type of B.
pub const B_TYPE: Field = Field::new("type of B", 10, 3);
/// N / 8.
pub const N: Field = Field::new("N", 17, 6);
/// M / 16.
pub const M: Field = Field::new("M", 24, 5);
/// How far B is shifted where it is used again.
pub const MAX_SHIFT: Field = Field::new("max shift", 30, 2);
/// The type of scale factors.
pub const SCALE_TYPE: Field = Field::new("type of scale factors", 23, 1);

/// N of an instruction descriptor, of what its field holds.
pub fn columns(field: u64) -> u64 {
    field * 8
}

/// M of an instruction descriptor, of what its field holds.
pub fn rows(field: u64) -> u64 {
    field * 16
}

/// How an instruction has its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmaForm {
    /// Its kind.
    pub kind: MmaKind,
    /// Blocks that work together: 1 or 2.
    pub cta_group: u32,
    /// `.ws`
    pub is_weight_stationary: bool,
    /// `.sp`
    pub is_sparse: bool,
}

impl MmaForm {
    /// The M that there are.
    pub fn rows(self) -> &'static [u64] {
        match (self.is_weight_stationary, self.kind.is_scaled(), self.cta_group) {
            (true, ..) => &[32, 64, 128],
            (_, true, 1) => &[128],
            (_, false, 1) => &[64, 128],
            _ => &[128, 256],
        }
    }

    /// Why an N is none that there is with an M, which may not be known.
    pub fn columns_refused(self, n: u64, m: Option<u64>) -> Option<&'static str> {
        if self.is_weight_stationary {
            return (![64, 128, 256].contains(&n)).then_some("with .ws N is 64, 128 or 256");
        }
        let steps = |step: u64| (step..=256).contains(&n) && n.is_multiple_of(step);
        if self.cta_group == 2 {
            return (!steps(16)).then_some("with .cta_group::2 N is a multiple of 16 from 16 to 256");
        }
        if self.kind == MmaKind::I8 {
            let fits = [8, 24].contains(&n) || steps(16);
            return (!fits).then_some("with .kind::i8 N is 8, 24 or a multiple of 16 up to 256");
        }
        if m == Some(128) && !self.kind.is_scaled() {
            // Compilers multiply by 8 columns as well.
            let fits = n == 8 || steps(16);
            return (!fits).then_some("with M = 128 N is a multiple of 16 from 16 to 256");
        }
        (!steps(8)).then_some("N is a multiple of 8 from 8 to 256")
    }
}

/// Which instructions a descriptor of shared memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatrixFormat {
    /// `wgmma.mma_async`
    Wgmma,
    /// `tcgen05.mma`, `tcgen05.cp`
    Tcgen05,
}

/// How the rows of a tile are swizzled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// Not at all.
    None,
    /// Within 128 bytes, 32 at a time.
    B128In32,
    /// Within 128 bytes.
    B128,
    /// Within 64 bytes.
    B64,
    /// Within 32 bytes.
    B32,
}

impl Swizzle {
    /// Bytes of a row, and bytes after which the pattern repeats; none where there is no pattern.
    pub fn repeat(self) -> Option<(u64, u64)> {
        match self {
            Swizzle::None | Swizzle::B128In32 => None,
            Swizzle::B128 => Some((128, 1024)),
            Swizzle::B64 => Some((64, 512)),
            Swizzle::B32 => Some((32, 256)),
        }
    }
}

impl fmt::Display for Swizzle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Swizzle::None => "none",
            Swizzle::B128In32 => "128 bytes in atoms of 32",
            Swizzle::B128 => "128 bytes",
            Swizzle::B64 => "64 bytes",
            Swizzle::B32 => "32 bytes",
        })
    }
}

/// The start of a tile, in units of 16 bytes.
pub const START: Field = Field::new("start address", 0, 14);
/// Bytes between columns of the tile's core matrices, in units of 16.
pub const LEADING: Field = Field::new("leading offset", 16, 14);
/// Bytes between rows of them, in units of 16.
pub const STRIDE: Field = Field::new("stride offset", 32, 14);
/// `0b001` of `tcgen05`.
pub const VERSION: Field = Field::new("fixed", 46, 3);
/// Where in its pattern a tile starts.
pub const BASE_OFFSET: Field = Field::new("base offset", 49, 3);
/// Whether the leading offset is an address.
pub const LEADING_MODE: Field = Field::new("leading mode", 52, 1);

impl MatrixFormat {
    /// Its fields, ascending.
    pub fn fields(self) -> &'static [Field] {
        match self {
            MatrixFormat::Wgmma => const { &[START, LEADING, STRIDE, BASE_OFFSET, Field::new("swizzle", 62, 2)] },
            MatrixFormat::Tcgen05 => {
                const { &[START, LEADING, STRIDE, VERSION, BASE_OFFSET, LEADING_MODE, Field::new("swizzle", 61, 3)] }
            }
        }
    }

    /// What a number in a field stands for, where it is more than a number.
    pub fn meaning(self, field: Field, value: u64) -> Option<String> {
        Some(match field {
            START => format!("byte {}", value << 4),
            LEADING | STRIDE => format!("{} bytes", value << 4),
            LEADING_MODE => {
                if value == 1 {
                    "an address".to_owned()
                } else {
                    "an offset".to_owned()
                }
            }
            _ if field == self.swizzle_field() => self.swizzle(value)?.to_string(),
            _ => return None,
        })
    }

    /// Bits that must be 0.
    pub fn reserved(self) -> u64 {
        let used = self.fields().iter().fold(0, |all, field| all | ((1 << field.bits) - 1) << field.from);
        !used
    }

    /// Its swizzle.
    pub fn swizzle_field(self) -> Field {
        match self {
            MatrixFormat::Wgmma => Field::new("swizzle", 62, 2),
            MatrixFormat::Tcgen05 => Field::new("swizzle", 61, 3),
        }
    }

    /// What a number in the field of the swizzle stands for.
    pub fn swizzle(self, number: u64) -> Option<Swizzle> {
        Some(match (self, number) {
            (_, 0) => Swizzle::None,
            (MatrixFormat::Wgmma, 1) | (MatrixFormat::Tcgen05, 2) => Swizzle::B128,
            (MatrixFormat::Wgmma, 2) | (MatrixFormat::Tcgen05, 4) => Swizzle::B64,
            (MatrixFormat::Wgmma, 3) | (MatrixFormat::Tcgen05, 6) => Swizzle::B32,
            (MatrixFormat::Tcgen05, 1) => Swizzle::B128In32,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No two fields share a bit, and what no field has is reserved.
    #[test]
    fn fields_cover_a_descriptor_once() {
        for kind in MmaKind::ALL {
            let mut used = kind.reserved();
            for field in kind.fields() {
                let mask = (((1u64 << field.bits) - 1) << field.from) as u32;
                assert_eq!(used & mask, 0, "{} {}", kind.name(), field.name);
                used |= mask;
            }
            assert_eq!(used, u32::MAX, "{}", kind.name());
        }
        for format in [MatrixFormat::Wgmma, MatrixFormat::Tcgen05] {
            let fields: u32 = format.fields().iter().map(|field| field.bits).sum();
            assert_eq!(fields + format.reserved().count_ones(), 64);
        }
        assert_eq!(MatrixFormat::Wgmma.reserved(), 0x3ff1_c000_c000_c000);
        assert_eq!(MatrixFormat::Tcgen05.reserved(), 0x1fe0_0000_c000_c000);
    }

    /// The table of shapes, row by row.
    #[test]
    fn shapes_of_the_table() {
        let form = |kind, cta_group, ws| MmaForm { kind, cta_group, is_weight_stationary: ws, is_sparse: false };
        let all = |form: MmaForm, m: u64| (0..=512u64).filter(move |n| form.columns_refused(*n, Some(m)).is_none());
        let dense = form(MmaKind::F16, 1, false);
        assert_eq!(dense.rows(), [64, 128]);
        assert!(all(dense, 64).eq((8..=256).step_by(8)));
        assert!(all(dense, 128).eq([8].into_iter().chain((16..=256).step_by(16))));
        assert!(all(form(MmaKind::Tf32, 2, false), 256).eq((16..=256).step_by(16)));
        let integers: Vec<u64> = all(form(MmaKind::I8, 1, false), 64).collect();
        assert_eq!(integers[..6], [8, 16, 24, 32, 48, 64]);
        assert_eq!(form(MmaKind::Mxf4, 1, false).rows(), [128]);
        assert!(all(form(MmaKind::Mxf4, 1, false), 128).eq((8..=256).step_by(8)));
        assert_eq!(form(MmaKind::F16, 2, false).rows(), [128, 256]);
        assert!(all(form(MmaKind::F16, 1, true), 32).eq([64, 128, 256]));
    }
}
