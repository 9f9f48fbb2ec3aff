//! Matrices in words: what multiplications multiply, which elements registers hold, what a descriptor says.

use std::io::{self, Write};

use super::escape::terminal;
use super::text::{BOLD, DIM, RESET, WARN, bytes, count, wrap};
use crate::report::{
    Descriptor, DescriptorField, DescriptorPage, Factor, FactorPlace, Fragment, FragmentsAt, HeldElements,
    Multiplication, Tile,
};

/// Registers of a fragment that are told where not all are asked for.
const SHOWN: usize = 8;

/// A number, or a question mark.
fn known(number: Option<u32>) -> String {
    number.map_or("?".to_owned(), |number| number.to_string())
}

/// `D 64 × 128 f32 += A 64 × 16 f16 × B 16 × 128 f16`
pub fn product(found: &Multiplication) -> String {
    let (m, n, k) = (known(found.m), known(found.n), known(found.k));
    let named = |name: &Option<String>| name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
    let sparse = if found.sparse { " sparse" } else { "" };
    let minus = |factor: &Factor| if factor.negated == Some(true) { "-" } else { "" };
    format!(
        "D {m} × {n}{} += {}A {m} × {k}{}{sparse} × {}B {k} × {n}{}",
        named(&found.d_type),
        minus(&found.a),
        named(&found.a_type),
        minus(&found.b),
        named(&found.b_type)
    )
}

/// Where the factors are and how they lie: a sentence each, or one where both lie alike.
fn factors(found: &Multiplication) -> Vec<String> {
    let (a, b) = (factor('M', &found.a), factor('N', &found.b));
    if a == b { vec![format!("A and B {a}")] } else { vec![format!("A {a}"), format!("B {b}")] }
}

fn factor(other: char, factor: &Factor) -> String {
    let major = match factor.transposed {
        Some(false) => ", K-major".to_owned(),
        Some(true) => format!(", {other}-major"),
        None => String::new(),
    };
    match (&factor.tile, factor.place) {
        (Some(tile), _) => format!("in shared memory{}{major}, {}", variable(tile), layout(tile)),
        (None, FactorPlace::TensorMemory) => format!("in tensor memory{major}"),
        (None, _) => "in registers".to_owned(),
    }
}

fn variable(tile: &Tile) -> String {
    match (&tile.variable, tile.start) {
        (Some(name), _) => format!(" ({})", terminal(name)),
        (None, Some(start)) => format!(" from byte {start}"),
        (None, None) => String::new(),
    }
}

/// How a tile lies, as far as its descriptor is known.
pub fn layout(tile: &Tile) -> String {
    if tile.swizzle.is_none() && tile.leading_bytes.is_none() && tile.stride_bytes.is_none() {
        return "by a descriptor that is not known before it runs".to_owned();
    }
    let offset = |name: &str, size: Option<u64>| match size {
        Some(size) => format!("{name} offset {}", bytes(size)),
        None => format!("{name} offset not known"),
    };
    let swizzle = match tile.swizzle.as_deref() {
        Some("none") => "no swizzle".to_owned(),
        Some(swizzle) => format!("swizzle of {swizzle}"),
        None => "swizzle not known".to_owned(),
    };
    let mut said = vec![swizzle, offset("leading", tile.leading_bytes), offset("stride", tile.stride_bytes)];
    if let Some(base @ 1..) = tile.base_offset {
        said.push(format!("base offset {base}"));
    }
    said.join(", ")
}

/// What one multiplication multiplies, in two or three sentences.
pub fn multiplication(found: &Multiplication) -> Vec<String> {
    std::iter::once(product(found)).chain(factors(found)).collect()
}

/// The fields of a descriptor: bits, name, value.
pub fn fields(descriptor: &Descriptor) -> Vec<String> {
    let row = |field: &DescriptorField| {
        let [from, to] = field.bits;
        let bits = if from == to { format!("bit {from}") } else { format!("bits {from} to {to}") };
        let value = field.value.map_or("?".to_owned(), |value| value.to_string());
        let meaning = field.meaning.as_deref().unwrap_or_default();
        format!("{bits:<13}  {:<21}  {value:>5}  {meaning}", field.name).trim_end().to_owned()
    };
    descriptor.fields.iter().map(row).collect()
}

/// What letters in the formulas of some fragments stand for.
pub fn letters(found: &FragmentsAt) -> String {
    let warps = found.fragments.iter().map(|fragment| fragment.warps).max().unwrap_or(1);
    match warps {
        1 => "t is the thread in its warp, 0 to 31".to_owned(),
        _ => format!("t is the thread in its warp, 0 to 31, w the warp of the {warps} that work together"),
    }
}

/// `D, 16 × 8 f32, in 4 registers`
pub fn title(fragment: &Fragment) -> String {
    let sparse = if fragment.sparse { ", as it is stored: two of each four elements" } else { "" };
    let across = if fragment.operand == "tensor memory" { " from its address on" } else { "" };
    format!(
        "{}, {} × {} {}{across}{sparse}, in {}",
        fragment.operand,
        fragment.rows,
        fragment.columns,
        fragment.element,
        count(fragment.registers.len() as u64, "register")
    )
}

/// What a fragment is, and what its registers hold: the first of them, or all.
pub fn fragment(fragment: &Fragment, all: bool) -> (String, Vec<String>) {
    let told = |held: &HeldElements| format!("{}  {}", terminal(&held.name), elements(fragment, held));
    let shown = if all || fragment.registers.len() <= SHOWN + 1 { fragment.registers.len() } else { SHOWN };
    let mut rows: Vec<String> = fragment.registers.iter().take(shown).map(told).collect();
    if let Some(last) = fragment.registers.last().filter(|_| shown < fragment.registers.len()) {
        rows.push("…".to_owned());
        rows.push(told(last));
    }
    (title(fragment), rows)
}

/// The elements that a register holds: `[t/4 + 8][2·(t % 4) + 0…1]`.
pub fn elements(fragment: &Fragment, held: &HeldElements) -> String {
    let place = |start: &str, from: u32, to: u32| match (start, from, to) {
        ("0", from, to) if from == to => from.to_string(),
        ("0", from, to) => format!("{from}…{to}"),
        (start, 0, 0) => start.to_owned(),
        (start, from, to) if from == to => format!("{start} + {from}"),
        (start, from, to) => format!("{start} + {from}…{to}"),
    };
    let steps = |axis: usize| held.elements.windows(2).all(|pair| matches!(pair, [a, b] if b[axis] == a[axis] + 1));
    let same = |axis: usize| held.elements.windows(2).all(|pair| matches!(pair, [a, b] if b[axis] == a[axis]));
    let (Some(first), Some(last)) = (held.elements.first(), held.elements.last()) else { return String::new() };
    let span = |from: &[u32; 2], to: &[u32; 2]| {
        format!("[{}][{}]", place(&fragment.row, from[0], to[0]), place(&fragment.column, from[1], to[1]))
    };
    if same(0) && steps(1) || same(1) && steps(0) {
        return span(first, last);
    }
    held.elements.iter().map(|cell| span(cell, cell)).collect::<Vec<_>>().join(", ")
}

/// Writes what a descriptor says, for each instruction that it may be of.
pub fn write_descriptors(pages: &[DescriptorPage], width: usize, out: &mut dyn Write) -> io::Result<()> {
    let sentence = |text: &str, out: &mut dyn Write| {
        let lines = wrap(text, width.saturating_sub(4)).into_iter().enumerate();
        lines.into_iter().try_for_each(|(at, line)| writeln!(out, "{:1$}{line}", "", if at == 0 { 2 } else { 4 }))
    };
    for (at, page) in pages.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        let value = page.descriptor.value.as_deref().unwrap_or_default();
        writeln!(out, "{BOLD}{value}{RESET} of {}", page.instruction)?;
        if let Some(found) = &page.multiplication {
            sentence(&product(found), out)?;
        }
        if let Some(tile) = &page.tile {
            sentence(&format!("a matrix in shared memory{}, {}", variable(tile), layout(tile)), out)?;
        }
        for wrong in &page.wrong {
            sentence(&format!("{WARN}wrong:{RESET} {wrong}"), out)?;
        }
        for row in fields(&page.descriptor) {
            writeln!(out, "  {row}")?;
        }
    }
    Ok(())
}

/// Writes what the registers of an instruction hold.
pub fn write_fragments(found: &FragmentsAt, width: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{BOLD}{}{RESET}", terminal(&found.instruction))?;
    for line in wrap(&letters(found), width) {
        writeln!(out, "{DIM}{line}{RESET}")?;
    }
    for one in &found.fragments {
        let (title, rows) = fragment(one, true);
        wrap(&title, width).iter().try_for_each(|line| writeln!(out, "{line}"))?;
        rows.iter().try_for_each(|row| writeln!(out, "  {row}"))?;
    }
    Ok(())
}
