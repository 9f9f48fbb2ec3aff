//! Records of `.nv.info` and `.nv.compat`: one byte of format, one of attribute, two of value or of payload length.

use super::image::Problem;

/// One record, kept whether its attribute is known or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// The attribute's number.
    pub code: u8,
    /// Its name in `cuobjdump -elf`, such as `EIATTR_REGCOUNT`; `None` for a number that nothing is known about.
    pub name: Option<&'static str>,
    /// Its value.
    pub value: AttributeValue<'a>,
}

/// A record's value, by format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    /// EIFMT_NVAL: the record's presence is its meaning.
    None,
    /// EIFMT_BVAL.
    Byte(u8),
    /// EIFMT_HVAL.
    Half(u16),
    /// EIFMT_SVAL: as many bytes as the record says.
    Bytes(&'a [u8]),
}

impl<'a> Attribute<'a> {
    /// EIFMT number: 1 none, 2 byte, 3 half, 4 sized.
    pub fn format(&self) -> u8 {
        match self.value {
            AttributeValue::None => 1,
            AttributeValue::Byte(_) => 2,
            AttributeValue::Half(_) => 3,
            AttributeValue::Bytes(_) => 4,
        }
    }

    /// The value as a number: a byte, a half, or the first word of a sized value.
    pub fn number(&self) -> Option<u32> {
        match self.value {
            AttributeValue::None => None,
            AttributeValue::Byte(value) => Some(value.into()),
            AttributeValue::Half(value) => Some(value.into()),
            AttributeValue::Bytes(_) => self.words().next(),
        }
    }

    /// A sized value as little-endian words; a trailing part of a word is left out.
    pub fn words(&self) -> impl Iterator<Item = u32> + 'a {
        let bytes = match self.value {
            AttributeValue::Bytes(bytes) => bytes,
            _ => &[],
        };
        bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word))
    }
}

/// Which numbering a section uses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbering {
    /// `.nv.info` and `.nv.info.NAME`.
    Info,
    /// `.nv.compat`.
    Compat,
}

/// Reads the records of a section whose number is `wanted`; stops, with a problem, where a record runs past the end or has an
/// unknown format.
pub(super) fn read<'a>(
    section: &str,
    data: &'a [u8],
    numbering: Numbering,
    wanted: impl Fn(u8) -> bool,
    problems: &mut Vec<Problem>,
) -> Vec<Attribute<'a>> {
    let names: &[Option<&'static str>] = match numbering {
        Numbering::Info => &INFO_NAMES,
        Numbering::Compat => &COMPAT_NAMES,
    };
    let mut records = Vec::new();
    let mut rest = data;
    while let Some((&[format, code, low, high], tail)) = rest.split_first_chunk::<4>() {
        let at = data.len() - rest.len();
        let half = u16::from_le_bytes([low, high]);
        rest = tail;
        let value = match format {
            // EIFMT_ERROR with attribute EIATTR_ERROR: zeros that pad the section.
            0 if code == 0 && half == 0 => continue,
            1 => AttributeValue::None,
            2 => AttributeValue::Byte(low),
            3 => AttributeValue::Half(half),
            4 => match tail.split_at_checked(half.into()) {
                Some((bytes, after)) => {
                    rest = after;
                    AttributeValue::Bytes(bytes)
                }
                None => {
                    let what = format!("attribute {code:#x} at {at:#x} wants {half} bytes, {} are left", tail.len());
                    problems.push(Problem::new(section, what));
                    return records;
                }
            },
            _ => {
                let what = format!("attribute {code:#x} at {at:#x} has format {format}, expected 1 to 4");
                problems.push(Problem::new(section, what));
                return records;
            }
        };
        if !wanted(code) {
            continue;
        }
        records.push(Attribute { code, name: names.get(usize::from(code)).copied().flatten(), value });
    }
    if !rest.is_empty() {
        problems.push(Problem::new(section, format!("{} bytes after the last attribute", rest.len())));
    }
    records
}

/// Whether a record says what a function needs of the machine, where it lies in the code or in its parameters aside.
pub(super) fn is_resource(code: u8) -> bool {
    use code::*;
    matches!(
        code,
        REGCOUNT
            | FRAME_SIZE
            | MIN_STACK_SIZE
            | MAX_STACK_SIZE
            | NUM_BARRIERS
            | NUM_MBARRIERS
            | MAX_THREADS
            | REQNTID
            | MAXREG_COUNT
            | CTA_PER_CLUSTER
            | EXPLICIT_CLUSTER
            | MAX_CLUSTER_RANK
            | BLOCKS_ARE_CLUSTERS
            | REG_RECONFIG
            | ANNOTATIONS
    )
}

/// Numbers that the rest of the module reads.
pub(super) mod code {
    pub const MAX_THREADS: u8 = 0x05;
    pub const PARAM_CBANK: u8 = 0x0a;
    pub const REQNTID: u8 = 0x10;
    pub const FRAME_SIZE: u8 = 0x11;
    pub const MIN_STACK_SIZE: u8 = 0x12;
    pub const KPARAM_INFO: u8 = 0x17;
    pub const CBANK_PARAM_SIZE: u8 = 0x19;
    pub const MAXREG_COUNT: u8 = 0x1b;
    pub const EXIT_INSTR_OFFSETS: u8 = 0x1c;
    pub const MAX_STACK_SIZE: u8 = 0x23;
    pub const REGCOUNT: u8 = 0x2f;
    pub const INDIRECT_BRANCH_TARGETS: u8 = 0x34;
    pub const NUM_MBARRIERS: u8 = 0x38;
    pub const MBARRIER_INSTR_OFFSETS: u8 = 0x39;
    pub const CTA_PER_CLUSTER: u8 = 0x3d;
    pub const EXPLICIT_CLUSTER: u8 = 0x3e;
    pub const MAX_CLUSTER_RANK: u8 = 0x3f;
    pub const KPARAM_INFO_V2: u8 = 0x45;
    pub const NUM_BARRIERS: u8 = 0x4c;
    pub const REG_RECONFIG: u8 = 0x54;
    pub const ANNOTATIONS: u8 = 0x55;
    pub const BLOCKS_ARE_CLUSTERS: u8 = 0x5b;
    pub const COMPAT_ACCELERATOR_TARGET: u8 = 0x09;
}

/// Names of `.nv.info` attributes as `cuobjdump -elf` 13.4 prints them for a record with each number.
#[rustfmt::skip]
const INFO_NAMES: [Option<&'static str>; 0x6e] = [
    /* 0x00 */ Some("EIATTR_ERROR"),
    /* 0x01 */ Some("EIATTR_PAD"),
    /* 0x02 */ Some("EIATTR_IMAGE_SLOT"),
    /* 0x03 */ Some("EIATTR_JUMPTABLE_RELOCS"),
    /* 0x04 */ Some("EIATTR_CTAIDZ_USED"),
    /* 0x05 */ Some("EIATTR_MAX_THREADS"),
    /* 0x06 */ Some("EIATTR_IMAGE_OFFSET"),
    /* 0x07 */ Some("EIATTR_IMAGE_SIZE"),
    /* 0x08 */ Some("EIATTR_TEXTURE_NORMALIZED"),
    /* 0x09 */ Some("EIATTR_SAMPLER_INIT"),
    /* 0x0a */ Some("EIATTR_PARAM_CBANK"),
    /* 0x0b */ Some("EIATTR_SMEM_PARAM_OFFSETS"),
    /* 0x0c */ Some("EIATTR_CBANK_PARAM_OFFSETS"),
    /* 0x0d */ Some("EIATTR_SYNC_STACK"),
    /* 0x0e */ Some("EIATTR_TEXID_SAMPID_MAP"),
    /* 0x0f */ Some("EIATTR_EXTERNS"),
    /* 0x10 */ Some("EIATTR_REQNTID"),
    /* 0x11 */ Some("EIATTR_FRAME_SIZE"),
    /* 0x12 */ Some("EIATTR_MIN_STACK_SIZE"),
    /* 0x13 */ Some("EIATTR_SAMPLER_FORCE_UNNORMALIZED"),
    /* 0x14 */ Some("EIATTR_BINDLESS_IMAGE_OFFSETS"),
    /* 0x15 */ Some("EIATTR_BINDLESS_TEXTURE_BANK"),
    /* 0x16 */ Some("EIATTR_BINDLESS_SURFACE_BANK"),
    /* 0x17 */ Some("EIATTR_KPARAM_INFO"),
    /* 0x18 */ Some("EIATTR_SMEM_PARAM_SIZE"),
    /* 0x19 */ Some("EIATTR_CBANK_PARAM_SIZE"),
    /* 0x1a */ Some("EIATTR_QUERY_NUMATTRIB"),
    /* 0x1b */ Some("EIATTR_MAXREG_COUNT"),
    /* 0x1c */ Some("EIATTR_EXIT_INSTR_OFFSETS"),
    /* 0x1d */ Some("EIATTR_S2RCTAID_INSTR_OFFSETS"),
    /* 0x1e */ Some("EIATTR_CRS_STACK_SIZE"),
    /* 0x1f */ Some("EIATTR_NEED_CNP_WRAPPER"),
    /* 0x20 */ Some("EIATTR_NEED_CNP_PATCH"),
    /* 0x21 */ Some("EIATTR_EXPLICIT_CACHING"),
    /* 0x22 */ Some("EIATTR_ISTYPEP_USED"),
    /* 0x23 */ Some("EIATTR_MAX_STACK_SIZE"),
    /* 0x24 */ Some("EIATTR_SUQ_USED"),
    /* 0x25 */ Some("EIATTR_LD_CACHEMOD_INSTR_OFFSETS"),
    /* 0x26 */ Some("EIATTR_LOAD_CACHE_REQUEST"),
    /* 0x27 */ Some("EIATTR_ATOM_SYS_INSTR_OFFSETS"),
    /* 0x28 */ Some("EIATTR_COOP_GROUP_INSTR_OFFSETS"),
    /* 0x29 */ Some("EIATTR_COOP_GROUP_MASK_REGIDS"),
    /* 0x2a */ None,
    /* 0x2b */ Some("EIATTR_WMMA_USED"),
    /* 0x2c */ Some("EIATTR_HAS_PRE_V10_OBJECT"),
    /* 0x2d */ Some("EIATTR_ATOMF16_EMUL_INSTR_OFFSETS"),
    /* 0x2e */ Some("EIATTR_ATOM16_EMUL_INSTR_REG_MAP"),
    /* 0x2f */ Some("EIATTR_REGCOUNT"),
    /* 0x30 */ None,
    /* 0x31 */ Some("EIATTR_INT_WARP_WIDE_INSTR_OFFSETS"),
    /* 0x32 */ Some("EIATTR_SHARED_SCRATCH"),
    /* 0x33 */ Some("EIATTR_STATISTICS"),
    /* 0x34 */ Some("EIATTR_INDIRECT_BRANCH_TARGETS"),
    /* 0x35 */ None,
    /* 0x36 */ Some("EIATTR_SW_WAR"),
    /* 0x37 */ Some("EIATTR_CUDA_API_VERSION"),
    /* 0x38 */ Some("EIATTR_NUM_MBARRIERS"),
    /* 0x39 */ Some("EIATTR_MBARRIER_INSTR_OFFSETS"),
    /* 0x3a */ Some("EIATTR_COROUTINE_RESUME_ID_OFFSETS"),
    /* 0x3b */ Some("EIATTR_SAM_REGION_STACK_SIZE"),
    /* 0x3c */ Some("EIATTR_PER_REG_TARGET_PERF_STATS"),
    /* 0x3d */ Some("EIATTR_CTA_PER_CLUSTER"),
    /* 0x3e */ Some("EIATTR_EXPLICIT_CLUSTER"),
    /* 0x3f */ Some("EIATTR_MAX_CLUSTER_RANK"),
    /* 0x40 */ Some("EIATTR_INSTR_REG_MAP"),
    /* 0x41 */ Some("EIATTR_RESERVED_SMEM_USED"),
    /* 0x42 */ Some("EIATTR_RESERVED_SMEM_0_SIZE"),
    /* 0x43 */ Some("EIATTR_UCODE_SECTION_DATA"),
    /* 0x44 */ Some("EIATTR_UNUSED_LOAD_BYTE_OFFSET"),
    /* 0x45 */ Some("EIATTR_KPARAM_INFO_V2"),
    /* 0x46 */ Some("EIATTR_SYSCALL_OFFSETS"),
    /* 0x47 */ None,
    /* 0x48 */ Some("EIATTR_GRAPHICS_GLOBAL_CBANK"),
    /* 0x49 */ Some("EIATTR_SHADER_TYPE"),
    /* 0x4a */ Some("EIATTR_VRC_CTA_INIT_COUNT"),
    /* 0x4b */ Some("EIATTR_TOOLS_PATCH_FUNC"),
    /* 0x4c */ Some("EIATTR_NUM_BARRIERS"),
    /* 0x4d */ Some("EIATTR_TEXMODE_INDEPENDENT"),
    /* 0x4e */ Some("EIATTR_PERF_STATISTICS"),
    /* 0x4f */ Some("EIATTR_AT_ENTRY_FRAGMENTS"),
    /* 0x50 */ Some("EIATTR_SPARSE_MMA_MASK"),
    /* 0x51 */ Some("EIATTR_TCGEN05_1CTA_USED"),
    /* 0x52 */ Some("EIATTR_TCGEN05_2CTA_USED"),
    /* 0x53 */ Some("EIATTR_GEN_ERRBAR_AT_EXIT"),
    /* 0x54 */ Some("EIATTR_REG_RECONFIG"),
    /* 0x55 */ Some("EIATTR_ANNOTATIONS"),
    /* 0x56 */ None,
    /* 0x57 */ Some("EIATTR_STACK_CANARY_TRAP_OFFSETS"),
    /* 0x58 */ Some("EIATTR_STUB_FUNCTION_KIND"),
    /* 0x59 */ Some("EIATTR_LOCAL_CTA_ASYNC_STORE_OFFSETS"),
    /* 0x5a */ None,
    /* 0x5b */ Some("EIATTR_BLOCKS_ARE_CLUSTERS"),
    /* 0x5c */ Some("EIATTR_SANITIZE"),
    /* 0x5d */ Some("EIATTR_SYSCALLS_FALLBACK"),
    /* 0x5e */ Some("EIATTR_CUDA_REQ"),
    /* 0x5f */ None,
    /* 0x60 */ None,
    /* 0x61 */ Some("EIATTR_RTCORE_ENTRY"),
    /* 0x62 */ Some("EIATTR_CLUSTER_LAUNCH_CONTROL_USED"),
    /* 0x63 */ None,
    /* 0x64 */ Some("EIATTR_MIN_PER_CTA_MEMORY_SIZE"),
    /* 0x65 */ Some("EIATTR_IGNOREOOB_CP_ASYNC_BULK_INSTR_OFFSETS"),
    /* 0x66 */ Some("EIATTR_LANGUAGE"),
    /* 0x67 */ None,
    /* 0x68 */ Some("EIATTR_GRID_ATTRIBUTES"),
    /* 0x69 */ Some("EIATTR_STACK_OFFSET"),
    /* 0x6a */ Some("EIATTR_RT_LIVESTATE_SASS_MAP"),
    /* 0x6b */ Some("EIATTR_NVSAL_SW_WAR"),
    /* 0x6c */ Some("EIATTR_INSTR_OFFSETS"),
    /* 0x6d */ Some("EIATTR_PREEXIT_USED"),
];

/// Names of `.nv.compat` attributes, from the same tool.
#[rustfmt::skip]
const COMPAT_NAMES: [Option<&'static str>; 0x10] = [
    /* 0x00 */ Some("EICOMPAT_ATTR_ERROR"),
    /* 0x01 */ Some("EICOMPAT_ATTR_PAD"),
    /* 0x02 */ Some("EICOMPAT_ATTR_ISA_CLASS"),
    /* 0x03 */ Some("EICOMPAT_ATTR_INST_TENSORMAP_V1"),
    /* 0x04 */ Some("EICOMPAT_ATTR_INST_TCGEN05_MMA_DEPRECATED"),
    /* 0x05 */ Some("EICOMPAT_ATTR_INST_TCGEN05_MMA"),
    /* 0x06 */ Some("EICOMPAT_ATTR_ENABLE_OPPORTUNISTIC_FINALIZATION"),
    /* 0x07 */ None,
    /* 0x08 */ None,
    /* 0x09 */ Some("EICOMPAT_ATTR_CUDA_ACCELERATOR_TARGET"),
    /* 0x0a */ Some("EICOMPAT_ATTR_CUDA_DRIVER_VERSION"),
    /* 0x0b */ Some("EICOMPAT_ATTR_CAN_FASTPATH_FINALIZE"),
    /* 0x0c */ Some("EICOMPAT_ATTR_CUDA_INTERNAL_TARGET"),
    /* 0x0d */ None,
    /* 0x0e */ Some("EICOMPAT_ATTR_FINALIZER_VERSION"),
    /* 0x0f */ Some("EICOMPAT_ATTR_MIN_FINALIZER_VERSION_FOR_MVC"),
];
