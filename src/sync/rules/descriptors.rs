//! Descriptors: what tells a multiplication its shape and types, and where its matrices lie in shared memory.
//!
//! In: the bits of the operands that are known in every thread. A field is judged where all of its bits are known.

use crate::base::Line;
use crate::ptx::descriptor::{self, MatrixFormat, MmaForm, MmaKind};
use crate::ptx::{Bulk, Operand, Operation, StateSpace};
use crate::simt::{Bits, BlockId, Declared, KnownBits, Site, SiteId, ValueId, Warps};
use crate::sync::multiply;
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::rule::Rule;

/// Bits of an address that a descriptor leaves out.
const UNIT: i32 = 4;
/// Instructions that a descriptor is followed back through.
const MOST_STEPS: usize = 8;
/// Bits of an address in shared memory.
const ADDRESS: u32 = 18;

/// Checks the descriptors of a kernel.
pub fn check(warps: &Warps<'_>, bits: &Bits, text: &str) -> Vec<Finding> {
    let mut checks: Vec<Finding> = Vec::new();
    let linear = is_filled_linearly(warps);
    checks.extend(steps_out_of_rows(warps, bits));
    for (index, site) in warps.graph.sites.iter_enumerated() {
        let instruction = site.located.instruction;
        let Some(format) = multiply::format(&site.operation).filter(|_| !warps.at(index).is_empty()) else { continue };
        let found = checks.len();
        // What is wrong is wrong where it is made.
        let line_of =
            |made: Option<SiteId>| made.and_then(|made| warps.graph.sites.get(made)).map_or(site.line(), Site::line);
        for operand in multiply::matrices(&instruction) {
            let what = format!("the matrix descriptor {}", operand.text());
            let known = bits.operand(warps, index, operand);
            let line = line_of(made_at(warps, index, operand));
            let mut add = |broken: Broken| {
                let declared = broken.declared.and_then(|name| declaration(text, &name));
                checks.push(Broken { declared: None, ..broken }.at(declared.unwrap_or(line)));
            };
            matrix(format, &what, known).into_iter().for_each(&mut add);
            start(warps, format, &what, known, linear).into_iter().for_each(&mut add);
        }
        if let Some((form, operand)) = multiply::form(site) {
            let what = format!("the instruction descriptor {}", operand.text());
            let line = line_of(made_at(warps, index, operand));
            let broken = instruction_descriptor(form, &what, bits.operand(warps, index, operand));
            checks.extend(broken.into_iter().map(|broken| broken.at(line)));
        }
        // One mistake in a descriptor is read by every multiplication that has it.
        let (before, new) = checks.split_at(found);
        let is_same = |known: &Finding, check: &Finding| {
            known.rule == check.rule
                && (known.message == check.message || known.line == check.line && check.line != site.line())
        };
        let is_known = |check: &Finding| before.iter().any(|known| is_same(known, check));
        let new: Vec<Finding> = new.iter().filter(|check| !is_known(check)).cloned().collect();
        checks.truncate(found);
        checks.extend(new);
    }
    checks
}

/// Where a descriptor is made that an instruction reads: what is added to it on the way is a step to another part of the matrix.
fn made_at(warps: &Warps<'_>, index: SiteId, operand: Operand<'_>) -> Option<SiteId> {
    let graph = &warps.graph;
    let (mut at, mut operand) = (index, operand);
    for _ in 0..MOST_STEPS {
        let register = graph.registers.resolve(operand.name()?, graph.sites.get(at)?.located.id)?;
        at = warps.values.maker(at, register)?;
        let instruction = graph.sites.get(at)?.located.instruction;
        let from: Vec<Operand<'_>> = instruction.operands().skip(1).collect();
        let is_step = match instruction.mnemonic() {
            "mov" => from.len() == 1,
            "add" => from.get(1).is_some_and(|added| added.value().is_some()),
            _ => false,
        };
        match from.first().filter(|first| is_step && first.name().is_some()) {
            Some(first) => operand = *first,
            None => return Some(at),
        }
    }
    None
}

/// The line that declares a variable: the first that names it.
fn declaration(text: &str, name: &str) -> Option<Line> {
    let is_part = |letter: Option<char>| {
        letter.is_some_and(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '$')
    };
    let names = |line: &str| {
        line.match_indices(name).any(|(at, _)| {
            let (before, after) = (line.get(..at).unwrap_or(""), line.get(at + name.len()..).unwrap_or(""));
            !is_part(before.chars().next_back()) && !is_part(after.chars().next())
        })
    };
    let at = text.lines().position(names)?;
    Some(Line(u32::try_from(at + 1).ok()?))
}

/// Whether shared memory is filled by copies that lay bytes down as they come, and by nothing that swizzles them by address.
fn is_filled_linearly(warps: &Warps<'_>) -> bool {
    let is_copy = |wanted: bool| {
        move |site: &Site<'_>| {
            let loads = site.located.instruction.opcode().contains(".global.");
            matches!(site.operation, Operation::Bulk(Bulk::Copy { tensor }) if tensor == wanted) && loads
        }
    };
    let by_threads = |site: &Site<'_>| {
        let instruction = site.located.instruction;
        matches!(site.operation, Operation::CpAsync(_))
            || instruction.mnemonic() == "stmatrix"
            || instruction.mnemonic() == "st"
                && instruction.modifiers().any(|word| matches!(word, "v2" | "v4" | "b64" | "b128"))
                && instruction.modifiers().any(|word| word.starts_with("shared"))
    };
    let mut sites = warps.graph.sites.iter();
    warps.graph.sites.iter().any(is_copy(false)) && !sites.any(|site| is_copy(true)(site) || by_threads(site))
}

/// A step from one multiplication to the next that takes both matrices on by whole rows of their pattern, and not by whole patterns: along K a
/// step lies within a row, and other rows are other rows of the result.
fn steps_out_of_rows(warps: &Warps<'_>, bits: &Bits) -> Option<Finding> {
    let graph = &warps.graph;
    /// The block of a multiplication, its result, and what its matrices start from.
    type Start<'a> = (BlockId, &'a str, Vec<(ValueId, i64)>);
    let mut before: Option<Start<'_>> = None;
    for (index, site) in graph.sites.iter_enumerated() {
        let instruction = site.located.instruction;
        let Some(format) = multiply::format(&site.operation) else { continue };
        let operands: Vec<Operand<'_>> = multiply::matrices(&instruction).collect();
        let origins: Option<Vec<_>> =
            operands.iter().map(|operand| warps.values.origin(graph, index, *operand)).collect();
        let result = instruction.operand(0).map_or("", |operand| operand.text());
        let Some(origins) = origins.filter(|origins| origins.len() == 2) else {
            before = None;
            continue;
        };
        let last = before.replace((site.block, result, origins.clone()));
        let Some((block, known, from)) = last else { continue };
        if block != site.block || known != result {
            continue;
        }
        let repeat = |operand: &Operand<'_>| {
            let known = bits.operand(warps, index, *operand);
            let field = format.swizzle_field();
            let offset = known.field(descriptor::BASE_OFFSET.from, descriptor::BASE_OFFSET.bits)?;
            let swizzle = format.swizzle(known.field(field.from, field.bits)?)?;
            swizzle.repeat().filter(|_| offset == 0)
        };
        let steps: Vec<i64> = from
            .iter()
            .zip(&origins)
            .filter(|((one, _), (other, _))| one == other)
            .map(|((_, from), (_, to))| (to - from) << UNIT)
            .collect();
        let [of_a, of_b] = steps[..] else { continue };
        let is_of_rows = |operand: &Operand<'_>| {
            repeat(operand).is_some_and(|(row, repeat)| of_a % row as i64 == 0 && of_a % repeat as i64 != 0)
        };
        if of_a == of_b && operands.iter().all(is_of_rows) {
            let made = operands.first().and_then(|operand| {
                let register = graph.registers.resolve(operand.name()?, site.located.id)?;
                graph.sites.get(warps.values.maker(index, register)?)
            });
            return Some(Finding {
                rule: Rule::MatrixAligned,
                confidence: Confidence::Likely,
                line: made.map_or(site.line(), Site::line),
                message: format!(
                    "the multiplication of line {} goes on by {of_a} bytes in both matrices: other rows of the pattern",
                    site.line()
                ),
                reasoning:
                    "along K a step lies within a row of the swizzle's pattern (32 bytes for one multiplication): \
                            whole rows further are other rows of the result"
                        .to_owned(),
            });
        }
    }
    None
}

/// What a descriptor breaks.
pub(crate) struct Broken {
    rule: Rule,
    /// The variable whose declaration is wrong.
    declared: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What is right.
    pub reasoning: String,
}

impl Broken {
    fn new(rule: Rule, message: String, reasoning: String) -> Broken {
        Broken { rule, declared: None, message, reasoning }
    }

    fn at(self, line: Line) -> Finding {
        let Broken { rule, message, reasoning, .. } = self;
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
fn start(
    warps: &Warps<'_>,
    format: MatrixFormat,
    what: &str,
    known: KnownBits,
    is_filled_linearly: bool,
) -> Option<Broken> {
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
    if !warps.graph.uses_cluster() {
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
        let is_placed = declared.is_some_and(|declared| declared.align >= repeat);
        return (!is_dynamic || is_filled_linearly && is_placed).then_some(broken);
    }
    let open = within & known.address & !known.known();
    declared.filter(|declared| declared.align < repeat && open != 0 && (!is_dynamic || follows)).map(|declared| {
        let name = known.variable.and_then(|variable| warps.values.variables.get(variable as usize));
        let called = name.map_or("its variable", String::as_str);
        let broken = Broken::new(
            Rule::MatrixAligned,
            format!("{what} has a swizzle of {swizzle}, but {called} is aligned to {} bytes only", declared.align),
            format!("the pattern repeats every {repeat} bytes: declare it .align {repeat}, or round the address up"),
        );
        Broken { declared: name.cloned(), ..broken }
    })
}
