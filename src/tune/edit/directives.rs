//! Directives and pragmas: what ptxas is told of a kernel, not what the kernel does.

use super::{Refused, Splice, offset};
use crate::ptx::{Function, FunctionKind, Linkage, Operation, StateSpace, Statement, StatementKind};
use crate::report::ptx_takes_dynamic_smem;

/// Puts a directive with one number into the header, or another number into the one that is there.
pub(super) fn set(kernel: &Function<'_, '_>, name: &str, count: u32) -> Result<Vec<Splice>, Refused> {
    let module = kernel.module();
    let there = kernel.header().directives().find(|directive| directive.name == name);
    let splice = match there {
        Some(directive) => {
            let arguments = directive.arguments.trim();
            if arguments.parse() == Ok(count) {
                return Err(Refused::NothingToChange);
            }
            let start = offset(module, arguments).filter(|_| !arguments.is_empty()).ok_or(Refused::NotUnderstood)?;
            Splice { range: start..start + arguments.len(), text: count.to_string() }
        }
        None => Splice::insert(header_end(kernel)?, format!("\n{name} {count}")),
    };
    Ok(vec![splice])
}

/// Where a directive can be added: before the brace.
fn header_end(function: &Function<'_, '_>) -> Result<usize, Refused> {
    let open = function.body().first().ok_or(Refused::NotUnderstood)?;
    let text = function.module().text();
    // A comment between the header and its brace must not swallow it.
    let header = function
        .body_range()
        .start
        .checked_sub(1)
        .and_then(|before| function.module().statements().get(before as usize))
        .filter(|statement| statement.kind == StatementKind::Function && statement.span().end <= open.span().start);
    let end = header.ok_or(Refused::NotUnderstood)?.span().end;
    let trimmed = text.get(..end).ok_or(Refused::NotUnderstood)?.trim_end().len();
    Ok(trimmed)
}

/// `.minnctapersm`, which means something beside a size of the block only.
pub(super) fn min_blocks(kernel: &Function<'_, '_>, count: u32) -> Result<Vec<Splice>, Refused> {
    let header = kernel.header();
    if !header.has(".maxntid") && !header.has(".reqntid") {
        return Err(Refused::Needs(".maxntid or .reqntid"));
    }
    set(kernel, ".minnctapersm", count)
}

/// `.maxntid`: a launch of more threads fails then, so that whoever asks must know the launch.
pub(super) fn max_threads(kernel: &Function<'_, '_>, count: u32) -> Result<Vec<Splice>, Refused> {
    let header = kernel.header();
    for name in [".maxntid", ".reqntid"] {
        if header.has(name) {
            return Err(Refused::Has(name));
        }
    }
    set(kernel, ".maxntid", count)
}

/// `.noinline` for a function that the kernel calls.
pub(super) fn no_inline(kernel: &Function<'_, '_>, line: u32) -> Result<Vec<Splice>, Refused> {
    let found = called(kernel).find(|function| function.lines().0.0 == line).ok_or(Refused::NoFunction(line))?;
    Ok(vec![Splice::insert(header_end(&found)?, "\n.noinline")])
}

/// The first lines of the functions that `.noinline` can be said of.
pub fn callees(kernel: &Function<'_, '_>) -> impl Iterator<Item = u32> {
    called(kernel).filter(|function| header_end(function).is_ok()).map(|function| function.lines().0.0)
}

/// The functions with a body that could stay calls: those that the module calls by name.
fn called<'m, 'a>(kernel: &Function<'m, 'a>) -> impl Iterator<Item = Function<'m, 'a>> {
    let module = kernel.module();
    let calls = kernel.instructions().any(|located| matches!(located.instruction.operation(), Operation::Call));
    let may_stay = |function: &Function<'_, '_>| {
        function.kind() == FunctionKind::Func && function.is_definition() && !function.header().has(".noinline")
    };
    module.functions().filter(move |function| calls && may_stay(function))
}

/// The version of PTX that has the pragma (ptxas 13.4 says so).
const SPILLING_SINCE: (u32, u32) = (8, 7);

/// `.pragma "enable_smem_spilling"`: for kernels whose size of a block is known and whose shared memory is all static.
///
/// Where the launch asks for shared memory, and how much is known, that becomes a static array first.
pub(super) fn spill_to_shared(kernel: &Function<'_, '_>, launch_bytes: Option<u32>) -> Result<Vec<Splice>, Refused> {
    let module = kernel.module();
    if module.version().is_none_or(|version| version < SPILLING_SINCE) {
        return Err(Refused::Version(SPILLING_SINCE.0, SPILLING_SINCE.1));
    }
    let header = kernel.header();
    if !header.has(".maxntid") && !header.has(".reqntid") {
        return Err(Refused::Needs(".maxntid or .reqntid"));
    }
    let mut splices = match launch_bytes {
        Some(bytes) => vec![made_static(kernel, bytes)?],
        None => Vec::new(),
    };
    if launch_bytes.is_none() && ptx_takes_dynamic_smem(kernel) {
        return Err(Refused::DynamicShared);
    }
    let text = module.text();
    let pragmas = kernel.body().iter().filter(|statement| statement.kind == StatementKind::Pragma);
    if pragmas.flat_map(|statement| statement.strings(text)).any(|name| name == "enable_smem_spilling") {
        return Err(Refused::NothingToChange);
    }
    let open = kernel.body().first().ok_or(Refused::NotUnderstood)?;
    splices.push(Splice::insert(open.span().end, "\n\t.pragma \"enable_smem_spilling\";"));
    Ok(splices)
}

/// What shared memory that is asked for at launch is aligned to where it is all there is: the window starts there, and swizzled
/// layouts of matrices rest on it.
const LAUNCH_ALIGNMENT: u32 = 1024;
/// The most bytes that are static.
const MOST_STATIC: u32 = 48 << 10;

/// The array of open size that stands for the shared memory of the launch, as a static one of so many bytes.
fn made_static(kernel: &Function<'_, '_>, bytes: u32) -> Result<Splice, Refused> {
    let module = kernel.module();
    let text = module.text();
    let alone = module.functions().filter(|function| function.kind() == FunctionKind::Entry).count() == 1;
    let shared = |found: &&Statement| found.declaration(text).is_some_and(|found| found.space == StateSpace::Shared);
    let mut arrays = module.statements().iter().filter(shared);
    let (Some(array), None) = (arrays.next(), arrays.next()) else { return Err(Refused::SharedNotStatic) };
    let Some(declaration) = array.declaration(text) else { return Err(Refused::SharedNotStatic) };
    let mut names = declaration.names();
    let (Some(name), None) = (names.next(), names.next()) else { return Err(Refused::SharedNotStatic) };
    let is_open = declaration.linkage == Some(Linkage::Extern) && declaration.bytes(&name).is_none();
    if !alone || !is_open || declaration.ty != "b8" || bytes > MOST_STATIC || text.contains("%dynamic_smem_size") {
        return Err(Refused::SharedNotStatic);
    }
    let made = format!(".shared .align {LAUNCH_ALIGNMENT} .b8 {}[{}];", name.name, bytes.max(16));
    Ok(Splice { range: array.span(), text: made })
}
