//! Descriptors: what tells a multiplication its shape and types, and where its matrices lie in shared memory.
//!
//! In: the bits of the operands that are known in every thread. A field is judged where all of its bits are known.

use crate::base::Line;
use crate::ptx::StateSpace;
use crate::ptx::descriptor::{self, MatrixFormat, MmaForm, MmaKind};
use crate::simt::{Bits, Declared, KnownBits, Warps};
use crate::sync::multiply;
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// Bits of an address that a descriptor leaves out.
const UNIT: i32 = 4;
/// Bits of an address in shared memory.
const ADDRESS: u32 = 18;

/// Checks the descriptors of a kernel.
pub fn check(warps: &Warps<'_>, bits: &Bits) -> Vec<Finding> {
    let mut checks = Vec::new();
    for (index, site) in warps.graph.sites.iter_enumerated() {
        let instruction = site.located.instruction;
        let Some(format) = multiply::format(&site.operation).filter(|_| !warps.at(index).is_empty()) else { continue };
        let found = checks.len();
        let mut add = |broken: Broken| checks.push(broken.at(site.line()));
        for operand in multiply::matrices(&instruction) {
            let what = format!("the matrix descriptor {}", operand.text());
            let known = bits.operand(warps, index, operand);
            matrix(format, &what, known).into_iter().for_each(&mut add);
            start(warps, format, &what, known).into_iter().for_each(&mut add);
        }
        if let Some((form, operand)) = multiply::form(site) {
            let what = format!("the instruction descriptor {}", operand.text());
            instruction_descriptor(form, &what, bits.operand(warps, index, operand)).into_iter().for_each(&mut add);
        }
        // One mistake in a descriptor is read by every multiplication that has it.
        let (before, new) = checks.split_at(found);
        let is_known =
            |check: &Finding| before.iter().any(|known| (known.rule, &known.message) == (check.rule, &check.message));
        let new: Vec<Finding> = new.iter().filter(|check| !is_known(check)).cloned().collect();
        checks.truncate(found);
        checks.extend(new);
    }
    checks
}

/// What a descriptor breaks.
pub(crate) struct Broken {
    rule: Rule,
    /// What is wrong.
    pub message: String,
    /// What is right.
    pub reasoning: String,
}

impl Broken {
    fn new(rule: Rule, message: String, reasoning: String) -> Broken {
        Broken { rule, message, reasoning }
    }

    fn at(self, line: Line) -> Finding {
        let Broken { rule, message, reasoning } = self;
        Finding { rule, confidence: Confidence::Likely, line, message, reasoning }
    }
}

/// What is wrong with an instruction descriptor, as far as its bits are known.
pub(crate) fn instruction_descriptor(form: MmaForm, what: &str, known: KnownBits) -> Vec<Broken> {
    let kind = form.kind;
    let mut broken = Vec::new();
    let mut add = |rule, message: String, reasoning: String| broken.push(Broken::new(rule, message, reasoning));
    let read = |field: descriptor::Field| known.field(field.from, field.bits);
    let places = |field: descriptor::Field| match field.bits {
        1 => format!("bit {}", field.from),
        _ => format!("bits {} to {}", field.from, field.to()),
    };
    let m = read(descriptor::M).map(descriptor::rows);
    let n = read(descriptor::N).map(descriptor::columns);
    if let Some(m) = m.filter(|m| !form.rows().contains(m)) {
        let list: Vec<String> = form.rows().iter().map(u64::to_string).collect();
        let list = list.join(" or ");
        add(
            Rule::InstructionShape,
            format!("{what} has M = {m}, which is none of {list}"),
            format!("{} are M / 16: {} has M = {list}", places(descriptor::M), in_words(form)),
        );
    }
    let refused = n.and_then(|n| Some((n, form.columns_refused(n, m)?)));
    if let Some((n, why)) = refused {
        let reasoning = format!("{} are N / 8: {why}", places(descriptor::N));
        add(Rule::InstructionShape, format!("{what} has N = {n}"), reasoning);
    }
    let types = [
        (descriptor::D_TYPE, kind.accumulators()),
        (descriptor::A_TYPE, kind.factors()),
        (kind.type_of_b(), kind.factors()),
    ];
    for (field, allowed) in types.into_iter().filter(|(_, allowed)| !allowed.is_empty()) {
        if let Some(number) = read(field).filter(|number| !allowed.iter().any(|(known, _)| known == number)) {
            let list: Vec<String> = allowed.iter().map(|(number, name)| format!("{number} ({name})")).collect();
            add(
                Rule::InstructionTypes,
                format!("{what} has {number} as {}, which .kind::{} does not take", field.name, kind.name()),
                format!("{} are the {}: {}", places(field), field.name, list.join(", ")),
            );
        }
    }
    if let Some(sparse) = read(descriptor::SPARSE).filter(|sparse| (*sparse == 1) != form.is_sparse) {
        let (has, lacks) = if sparse == 1 { ("is sparse", "has no .sp") } else { ("is dense", "has .sp") };
        add(
            Rule::InstructionFlags,
            format!("{what} {has}, but the instruction {lacks}"),
            "bit 2 says that A is sparse: it is 1 with tcgen05.mma.sp alone".to_owned(),
        );
    }
    let saturates = !kind.is_scaled() && kind != MmaKind::I8 && read(descriptor::SATURATE) == Some(1);
    if saturates {
        add(
            Rule::InstructionFlags,
            format!("{what} saturates, which .kind::{} cannot", kind.name()),
            "bit 3 saturates integers: it is for .kind::i8 alone".to_owned(),
        );
    }
    let shift = read(descriptor::MAX_SHIFT).filter(|_| !kind.is_scaled() && !form.is_weight_stationary);
    if let Some(shift) = shift.filter(|shift| *shift > 0) {
        add(
            Rule::InstructionFlags,
            format!("{what} has a maximum shift of {}, but the instruction has no .ws", 4 << shift),
            "bits 30 to 31 shift a B that is used again, which is for tcgen05.mma.ws alone".to_owned(),
        );
    }
    let reserved = known.ones & u64::from(kind.reserved());
    if reserved != 0 {
        add(
            Rule::InstructionFlags,
            format!("{what} has bit {} set, which is reserved", reserved.trailing_zeros()),
            format!("reserved bits of the descriptor of .kind::{} are 0", kind.name()),
        );
    }
    broken
}

fn in_words(form: MmaForm) -> String {
    let ws = if form.is_weight_stationary { ".ws" } else { "" };
    format!("tcgen05.mma{ws}.cta_group::{}.kind::{}", form.cta_group, form.kind.name())
}

/// What is wrong with a descriptor of a matrix in shared memory, but for where it starts.
pub(crate) fn matrix(format: MatrixFormat, what: &str, known: KnownBits) -> Vec<Broken> {
    let mut broken = Vec::new();
    let mut add = |message: String, reasoning: String| {
        broken.push(Broken::new(Rule::MatrixFields, message, reasoning));
    };
    let fixed = descriptor::VERSION;
    let version =
        known.field(fixed.from, fixed.bits).filter(|version| format == MatrixFormat::Tcgen05 && *version != 1);
    if let Some(version) = version {
        add(
            format!("{what} has {version:#05b} in bits 46 to 48, which must be 0b001"),
            "descriptors of tcgen05 have 0b001 there; those of wgmma do not, and have their swizzle elsewhere"
                .to_owned(),
        );
    }
    let swizzle = format.swizzle_field();
    let code = known.field(swizzle.from, swizzle.bits);
    if let Some(code) = code.filter(|code| format.swizzle(*code).is_none()) {
        add(
            format!("{what} has {code} as its swizzle"),
            "bits 61 to 63 are 0 for none, 1 or 2 for 128 bytes, 4 for 64 and 6 for 32".to_owned(),
        );
    }
    // Where the address spills over is told below.
    let reserved = known.ones & format.reserved() & !known.address;
    if reserved != 0 && version.is_none() {
        add(
            format!("{what} has bit {} set, which is reserved", reserved.trailing_zeros()),
            match format {
                MatrixFormat::Wgmma => {
                    "bits 14, 15, 30, 31, 46 to 48 and 52 to 61 are 0 in a descriptor of wgmma".to_owned()
                }
                MatrixFormat::Tcgen05 => "bits 14, 15, 30, 31 and 53 to 60 are 0 in a descriptor of tcgen05".to_owned(),
            },
        );
    }
    broken
}

/// How the address of a matrix is put into its descriptor.
fn start(warps: &Warps<'_>, format: MatrixFormat, what: &str, known: KnownBits) -> Option<Broken> {
    let field = (1u64 << descriptor::START.bits) - 1;
    if known.address & field == 0 {
        return None;
    }
    let rule = "bits 0 to 13 are (address & 0x3FFFF) >> 4";
    if known.shift != UNIT {
        let lowest = known.shift + (known.address & field).trailing_zeros() as i32;
        let from = (known.address & field).trailing_zeros();
        let message =
            format!("{what} has bit {lowest} of the address in bit {from}, where bit {} belongs", from as i32 + UNIT);
        return Some(Broken::new(Rule::MatrixStart, message, rule.to_owned()));
    }
    // Two more bits are 0 in every address of a block's shared memory; where nothing knows of clusters, all are that a shared
    // address has, if not a generic one.
    let mut above = known.address & !(field << 2 | field) & !known.zeros;
    if format == MatrixFormat::Wgmma && !warps.graph.uses_cluster() {
        above &= u64::MAX << (32 - UNIT);
    }
    if above != 0 {
        let message = format!("{what} has bits of the address above bit 13: they are not masked out");
        let reasoning = format!("{rule}: bits from {ADDRESS} on tell spaces and blocks apart");
        return Some(Broken::new(Rule::MatrixStart, message, reasoning));
    }
    let base = known.field(descriptor::BASE_OFFSET.from, descriptor::BASE_OFFSET.bits);
    let swizzle =
        known.field(format.swizzle_field().from, format.swizzle_field().bits).and_then(|code| format.swizzle(code))?;
    let (row, repeat) = swizzle.repeat()?;
    if base != Some(0) {
        return None;
    }
    let declared = known.variable.and_then(|variable| warps.values.declared.get(variable as usize));
    // Dynamic shared memory starts where static ends: at 0 where there is none, whatever its alignment. Kernels in use place tiles in it
    // that start within a pattern, and what copies into them swizzles by address: they are right.
    let is_dynamic = declared.is_none_or(|declared| declared.bytes.is_none());
    let is_static = |declared: &Declared| declared.space == Some(StateSpace::Shared) && declared.bytes.is_some();
    let follows = warps.values.declared.iter().any(is_static);
    // A step along K starts within a row.
    let within = (repeat - row) >> UNIT;
    let offset = known.ones & within;
    if offset != 0 {
        let message =
            format!("{what} starts {} bytes past a multiple of {repeat}, with a base offset of 0", offset << UNIT);
        let broken = Broken::new(
            Rule::MatrixAligned,
            message,
            format!(
                "the pattern of a swizzle of {swizzle} repeats every {repeat} bytes: bits 49 to 51 say where in it a matrix starts; \
                 with 0 there, what fills it must swizzle by address, not by rows of the matrix"
            ),
        );
        return (!is_dynamic).then_some(broken);
    }
    let open = within & known.address & !known.known();
    declared.filter(|declared| declared.align < repeat && open != 0 && (!is_dynamic || follows)).map(|declared| {
        let name = known.variable.and_then(|variable| warps.values.variables.get(variable as usize));
        let name = name.map_or("its variable", String::as_str);
        Broken::new(
            Rule::MatrixAligned,
            format!("{what} has a swizzle of {swizzle}, but {name} is aligned to {} bytes only", declared.align),
            format!("the pattern repeats every {repeat} bytes: declare it .align {repeat}, or round the address up"),
        )
    })
}
