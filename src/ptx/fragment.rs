//! Fragments: which element of which matrix a register of each thread holds.
//!
//! In: the opcode of an instruction that spreads a matrix over the threads of a warp. Out: for each operand in registers its layout, as the
//! tables of the ISA have it. A layout is linear: the place of an element is a sum of what each bit of the thread's number adds, what its
//! warp adds, and what its register and place in the register add.

use std::fmt;

use super::Instruction;
use super::operand::{Operand, Shape};

/// Threads of a warp, as bits of a number.
const LANE_BITS: usize = 5;
/// Registers of an instruction, at most: no list in PTX is longer.
const MOST_REGISTERS: u32 = 512;

/// A place in a matrix, or what is added to one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cell {
    /// Its row: in tensor memory its lane.
    pub row: u32,
    /// Its column.
    pub column: u32,
}

impl Cell {
    const fn new(row: u32, column: u32) -> Cell {
        Cell { row, column }
    }

    fn plus(self, other: Cell) -> Cell {
        Cell::new(self.row + other.row, self.column + other.column)
    }

    fn swapped(self) -> Cell {
        Cell::new(self.column, self.row)
    }
}

/// Which operand a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The product.
    D,
    /// The left factor.
    A,
    /// The right factor.
    B,
    /// What is added.
    C,
    /// A matrix in shared memory, by its rows there; of several, the one with this number.
    Shared(u32),
    /// A piece of tensor memory, from the address on.
    Tensor,
}

impl fmt::Display for Role {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::D => out.write_str("D"),
            Role::A => out.write_str("A"),
            Role::B => out.write_str("B"),
            Role::C => out.write_str("C"),
            Role::Shared(number) => write!(out, "matrix {number}"),
            Role::Tensor => out.write_str("tensor memory"),
        }
    }
}

/// One operand of an instruction, spread over the threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Which.
    pub role: Role,
    /// Where its registers stand among the operands.
    pub operand: usize,
    /// The first of its registers there.
    pub first: usize,
    /// Rows of the matrix.
    pub rows: u32,
    /// Columns of the matrix: of a sparse one, what is stored of them.
    pub columns: u32,
    /// The type of an element: `f16`; `b32` where it is not said.
    pub element: &'static str,
    /// What each bit of the thread's number in its warp adds, lowest first.
    pub lane: [Cell; LANE_BITS],
    /// What each warp adds, where several work together.
    pub warp: Cell,
    /// Warps that work together.
    pub warps: u32,
    /// What each register adds, for each element in it, lowest bits first.
    pub registers: Vec<Vec<Cell>>,
    /// Whether only half of the columns of a sparse matrix are stored.
    pub is_sparse: bool,
}

impl Fragment {
    /// The place of an element: of this thread, in this warp, register, and place in the register.
    pub fn cell(&self, warp: u32, lane: u32, register: usize, place: usize) -> Option<Cell> {
        let own = *self.registers.get(register)?.get(place)?;
        let bits = self.lane.iter().enumerate().filter(|(bit, _)| lane >> bit & 1 == 1);
        let lane = bits.fold(Cell::default(), |all, (_, cell)| all.plus(*cell));
        Some(own.plus(lane).plus(Cell::new(self.warp.row * warp, self.warp.column * warp)))
    }

    /// The row and the column that a thread starts from, as a formula of `t` (the thread in its warp) and `w` (the warp).
    pub fn start(&self) -> (String, String) {
        let of = |axis: fn(&Cell) -> u32| {
            let weights: Vec<u32> = self.lane.iter().map(axis).collect();
            formula(&weights, axis(&self.warp))
        };
        (of(|cell| cell.row), of(|cell| cell.column))
    }

    /// The names of its registers in an instruction.
    pub fn names<'a>(&self, instruction: &Instruction<'a>) -> Option<Vec<&'a str>> {
        let operand = instruction.operand(self.operand)?;
        let names: Vec<&str> = match operand.shape() {
            Shape::Vector(inside) => inside.map(|register: Operand<'a>| register.text()).collect(),
            _ => vec![operand.text()],
        };
        let own = names.get(self.first..self.first + self.registers.len())?;
        Some(own.to_vec())
    }
}

/// A sum of bits of `t` with these weights, and of `w` with its own.
fn formula(weights: &[u32], warp: u32) -> String {
    let mut terms = Vec::new();
    let times = |weight: u32, what: String| if weight == 1 { what } else { format!("{weight}·({what})") };
    if warp > 0 {
        terms.push(if warp == 1 { "w".to_owned() } else { format!("{warp}·w") });
    }
    let mut bit = 0;
    while let Some(weight) = weights.get(bit) {
        let from = bit;
        bit += 1;
        if *weight == 0 {
            continue;
        }
        while weights.get(bit).is_some_and(|next| *next == weight << (bit - from)) {
            bit += 1;
        }
        let shifted = if from == 0 { "t".to_owned() } else { format!("t/{}", 1 << from) };
        let cut = if bit == weights.len() { shifted } else { format!("{shifted} % {}", 1 << (bit - from)) };
        terms.push(times(*weight, cut));
    }
    if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
}

/// An element's type, and the bits that it takes in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Element {
    name: &'static str,
    bits: u32,
}

impl Element {
    fn of(name: &str, packs_four_bits: bool) -> Option<Element> {
        const ALL: [(&str, u32); 18] = [
            ("f64", 64),
            ("f32", 32),
            ("tf32", 32),
            ("s32", 32),
            ("f16", 16),
            ("bf16", 16),
            ("s8", 8),
            ("u8", 8),
            ("e4m3", 8),
            ("e5m2", 8),
            ("e3m2", 8),
            ("e2m3", 8),
            ("e2m1", 8),
            ("s4", 4),
            ("u4", 4),
            ("b1", 1),
            ("b8", 8),
            ("b16", 16),
        ];
        let (name, bits) = *ALL.iter().find(|(known, _)| *known == name)?;
        // In a kind of 8, 6 and 4 bits each element has a byte of its own.
        let bits = if name == "e2m1" && packs_four_bits { 4 } else { bits };
        Some(Element { name, bits })
    }

    /// How many a register holds.
    fn in_register(self) -> u32 {
        (32 / self.bits).max(1)
    }
}

/// The fragments of an instruction, by its opcode; none where it spreads no matrix, or its layout is not specified.
pub fn of_opcode(opcode: &str) -> Option<Vec<Fragment>> {
    let mut words = opcode.split('.');
    let mnemonic = words.next()?;
    let words: Vec<&str> = words.collect();
    let has = |word: &str| words.contains(&word);
    match mnemonic {
        "mma" => multiply(&words),
        "wgmma" if has("mma_async") => warpgroup(&words),
        "ldmatrix" => matrices(&words, 0),
        "stmatrix" => matrices(&words, 1),
        "movmatrix" if has("m8n8") && has("b16") => {
            let moved = |operand, is_transposed| small(Role::Shared(0), operand, 0, is_transposed);
            Some(vec![moved(0, true), moved(1, false)])
        }
        "tcgen05" if has("ld") => tensor(&words, 0, None),
        "tcgen05" if has("st") => tensor(&words, 1, None),
        _ => None,
    }
}

/// The fragments of an instruction; those whose operands are no registers are left out.
pub fn of(instruction: &Instruction<'_>) -> Option<Vec<Fragment>> {
    let mut found = match instruction.mnemonic() {
        // Where the second half lies is an operand.
        "tcgen05" if instruction.has("16x32bx2") => {
            let words: Vec<&str> = instruction.modifiers().collect();
            let (operand, split) = if instruction.has("st") { (2, 1) } else { (0, 2) };
            let split = u32::try_from(instruction.operand(split)?.value()?).ok().filter(|split| *split <= 512)?;
            tensor(&words, operand, Some(split))?
        }
        _ => of_opcode(instruction.opcode())?,
    };
    found.retain(|fragment| fragment.names(instruction).is_some());
    // A single name stands for one register, or for a descriptor.
    found.retain(|fragment| {
        let operand = instruction.operand(fragment.operand);
        let is_vector = operand.is_some_and(|operand| matches!(operand.shape(), Shape::Vector(_)));
        is_vector || fragment.registers.len() == 1
    });
    (!found.is_empty()).then_some(found)
}

/// The shape that a modifier names: `m16n8k16`.
pub fn shape(word: &str) -> Option<(u32, u32, u32)> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
}

/// The type of elements that a modifier names.
pub fn element(word: &str) -> Option<&'static str> {
    Element::of(word, false).map(|element| element.name)
}

fn elements(words: &[&str]) -> Vec<Element> {
    let packs = words.iter().any(|word| word.starts_with("kind::mxf4"));
    words.iter().filter_map(|word| Element::of(word, packs)).collect()
}

fn is_sparse(words: &[&str]) -> bool {
    words.iter().any(|word| *word == "sp" || word.starts_with("sp::"))
}

fn multiply(words: &[&str]) -> Option<Vec<Fragment>> {
    let (m, n, k) = words.iter().copied().find_map(shape)?;
    let types = elements(words);
    let [d, a, b, c] = types.get(..4)?.try_into().ok()?;
    if (m, n, k) == (8, 8, 4) && a.bits == 16 {
        return quad_pairs(words, d, a, b, c);
    }
    if !matches!(m, 8 | 16) || n != 8 || k > 256 {
        return None;
    }
    let sparse = is_sparse(words);
    let stored = if sparse { k / 2 } else { k };
    Some(vec![
        accumulators(Role::D, 0, (m, n), d, 1)?,
        Fragment { is_sparse: sparse, ..left(1, (m, stored), a, 1)? },
        right(2, (k, n), b)?,
        accumulators(Role::C, 3, (m, n), c, 1)?,
    ])
}

fn warpgroup(words: &[&str]) -> Option<Vec<Fragment>> {
    let (m, n, k) = words.iter().copied().find_map(shape)?;
    let types = elements(words);
    let [d, a, _] = types.get(..3)?.try_into().ok()?;
    if m != 64 || n > 256 || k > 512 {
        return None;
    }
    let sparse = is_sparse(words);
    let stored = if sparse { k / 2 } else { k };
    Some(vec![accumulators(Role::D, 0, (m, n), d, 4)?, Fragment { is_sparse: sparse, ..left(1, (m, stored), a, 4)? }])
}

/// Threads in eight rows of four: what a thread further right and further down adds.
fn rows_of_four(across: Cell, down: Cell) -> [Cell; LANE_BITS] {
    let times = |cell: Cell, by: u32| Cell::new(cell.row * by, cell.column * by);
    [across, times(across, 2), down, times(down, 2), times(down, 4)]
}

/// C or D: two columns a thread, rows eight apart.
fn accumulators(role: Role, operand: usize, (m, n): (u32, u32), element: Element, warps: u32) -> Option<Fragment> {
    let (of_warp, per) = (m / warps, element.in_register());
    let (halves, count) = (of_warp / 8, of_warp / 8 * 2 * (n / 8));
    let place = |index: u32| Cell::new(8 * (index / 2 % halves), index % 2 + 8 * (index / (2 * halves)));
    let registers = (0..count / per).map(|register| (0..per).map(|at| place(register * per + at)).collect());
    Some(Fragment {
        role,
        operand,
        first: 0,
        rows: m,
        columns: n,
        element: element.name,
        lane: rows_of_four(Cell::new(0, 2), Cell::new(1, 0)),
        warp: Cell::new(if warps > 1 { of_warp } else { 0 }, 0),
        warps,
        registers: registers.collect(),
        is_sparse: false,
    })
    .filter(|fragment| (1..=MOST_REGISTERS).contains(&(fragment.registers.len() as u32)) && n.is_multiple_of(8))
}

/// A: neighbours in a row share a register, rows eight apart come before columns further right.
fn left(operand: usize, (m, k): (u32, u32), element: Element, warps: u32) -> Option<Fragment> {
    let (of_warp, per) = (m / warps, element.in_register());
    let (halves, across) = (of_warp / 8, 4 * per);
    let register = |index: u32| -> Vec<Cell> {
        (0..per).map(|at| Cell::new(8 * (index % halves), index / halves * across + at)).collect()
    };
    Some(Fragment {
        role: Role::A,
        operand,
        first: 0,
        rows: m,
        columns: k,
        element: element.name,
        lane: rows_of_four(Cell::new(0, per), Cell::new(1, 0)),
        warp: Cell::new(if warps > 1 { of_warp } else { 0 }, 0),
        warps,
        registers: (0..halves * (k / across)).map(register).collect(),
        is_sparse: false,
    })
    .filter(|fragment| !fragment.registers.is_empty() && k.is_multiple_of(across))
}

/// B: neighbours in a column share a register.
fn right(operand: usize, (k, n): (u32, u32), element: Element) -> Option<Fragment> {
    let per = element.in_register();
    let down = 4 * per;
    let register = |index: u32| -> Vec<Cell> { (0..per).map(|at| Cell::new(index * down + at, 0)).collect() };
    Some(Fragment {
        role: Role::B,
        operand,
        first: 0,
        rows: k,
        columns: n,
        element: element.name,
        lane: rows_of_four(Cell::new(per, 0), Cell::new(0, 1)),
        warp: Cell::default(),
        warps: 1,
        registers: (0..k / down).map(register).collect(),
        is_sparse: false,
    })
    .filter(|fragment| !fragment.registers.is_empty() && k.is_multiple_of(down))
}

/// `mma.m8n8k4` of f16: four multiplications at once, each by the threads `4·i` to `4·i+3` and those 16 further.
fn quad_pairs(words: &[&str], d: Element, a: Element, b: Element, c: Element) -> Option<Vec<Fragment>> {
    let layouts: Vec<&str> = words.iter().copied().filter(|word| matches!(*word, "row" | "col")).collect();
    let [a_layout, b_layout] = layouts.get(..2)?.try_into().ok()?;
    let zero = Cell::default();
    let pairs = |cells: [Cell; 4]| -> Vec<Vec<Cell>> { cells.chunks(2).map(<[Cell]>::to_vec).collect() };
    let factor = |role, operand, rows: u32, columns: u32, element: Element, lane, cells| Fragment {
        role,
        operand,
        first: 0,
        rows,
        columns,
        element: element.name,
        lane,
        warp: zero,
        warps: 1,
        registers: pairs(cells),
        is_sparse: false,
    };
    let across = [0, 1, 2, 3].map(|at| Cell::new(0, at));
    let down = across.map(Cell::swapped);
    let left = match a_layout {
        "row" => {
            let lane = [Cell::new(1, 0), Cell::new(2, 0), zero, zero, Cell::new(4, 0)];
            factor(Role::A, 1, 8, 4, a, lane, across)
        }
        _ => {
            let lane = [Cell::new(0, 1), Cell::new(0, 2), zero, zero, Cell::new(4, 0)];
            factor(Role::A, 1, 8, 4, a, lane, down)
        }
    };
    let right = match b_layout {
        "row" => {
            let lane = [Cell::new(1, 0), Cell::new(2, 0), zero, zero, Cell::new(0, 4)];
            factor(Role::B, 2, 4, 8, b, lane, across)
        }
        _ => {
            let lane = [Cell::new(0, 1), Cell::new(0, 2), zero, zero, Cell::new(0, 4)];
            factor(Role::B, 2, 4, 8, b, lane, down)
        }
    };
    let sum = |role, operand, element: Element| {
        let (lane, registers): (_, Vec<Vec<Cell>>) = if element.bits == 16 {
            let lane = [Cell::new(1, 0), Cell::new(2, 0), zero, zero, Cell::new(4, 0)];
            (lane, (0..4).map(|pair| vec![Cell::new(0, 2 * pair), Cell::new(0, 2 * pair + 1)]).collect())
        } else {
            let lane = [Cell::new(1, 0), Cell::new(0, 2), zero, zero, Cell::new(4, 0)];
            (lane, (0..8u32).map(|at| vec![Cell::new(at & 2, (at & 4) + (at & 1))]).collect())
        };
        Fragment { registers, ..factor(role, operand, 8, 8, element, lane, [zero; 4]) }
    };
    Some(vec![sum(Role::D, 0, d), left, right, sum(Role::C, 3, c)])
}

/// One 8 × 8 matrix of 16 bits in one register.
fn small(role: Role, operand: usize, first: usize, is_transposed: bool) -> Fragment {
    let lane = rows_of_four(Cell::new(0, 2), Cell::new(1, 0));
    let cells = vec![Cell::new(0, 0), Cell::new(0, 1)];
    let turned = |cells: &[Cell]| cells.iter().map(|cell| cell.swapped()).collect::<Vec<_>>();
    let lane = if is_transposed { lane.map(Cell::swapped) } else { lane };
    let cells = if is_transposed { turned(&cells) } else { cells };
    Fragment {
        role,
        operand,
        first,
        rows: 8,
        columns: 8,
        element: "b16",
        lane,
        warp: Cell::default(),
        warps: 1,
        registers: vec![cells],
        is_sparse: false,
    }
}

/// `ldmatrix`, `stmatrix`: matrices by their rows in memory.
fn matrices(words: &[&str], operand: usize) -> Option<Vec<Fragment>> {
    let has = |word: &str| words.contains(&word);
    let count = [("x1", 1), ("x2", 2), ("x4", 4)].into_iter().find(|(word, _)| has(word))?.1;
    let is_transposed = has("trans");
    let bytes = |rows, columns, lane, number: u32, registers: Vec<Vec<Cell>>| Fragment {
        role: Role::Shared(number),
        operand,
        first: number as usize * registers.len(),
        rows,
        columns,
        element: "b8",
        lane,
        warp: Cell::default(),
        warps: 1,
        registers,
        is_sparse: false,
    };
    let all = 0..count;
    if has("m8n8") && has("b16") {
        return Some(all.map(|number| small(Role::Shared(number), operand, number as usize, is_transposed)).collect());
    }
    if has("m8n16") && !is_transposed {
        // Each row of 16 bytes: four for each thread.
        let lane = rows_of_four(Cell::new(0, 4), Cell::new(1, 0));
        let cells: Vec<Cell> = (0..4).map(|at| Cell::new(0, at)).collect();
        return Some(all.map(|number| bytes(8, 16, lane, number, vec![cells.clone()])).collect());
    }
    // Rows in memory are columns of the matrix.
    let lane = rows_of_four(Cell::new(2, 0), Cell::new(0, 1));
    if has("m16n16") && is_transposed {
        let register = |half: u32| [0, 1, 8, 9].into_iter().map(|at| Cell::new(at, 8 * half)).collect();
        return Some(all.map(|number| bytes(16, 16, lane, number, vec![register(0), register(1)])).collect());
    }
    if has("m16n8") && is_transposed && operand == 1 {
        let cells: Vec<Cell> = [(0, 0), (1, 0), (0, 8), (1, 8)].map(|(row, column)| Cell::new(row, column)).to_vec();
        return Some(all.map(|number| bytes(8, 16, lane, number, vec![cells.clone()])).collect());
    }
    None
}

/// `tcgen05.ld`, `tcgen05.st`: lanes and columns from the address on.
fn tensor(words: &[&str], operand: usize, split: Option<u32>) -> Option<Vec<Fragment>> {
    let count = words.iter().find_map(|word| word.strip_prefix('x')?.parse::<u32>().ok())?;
    if !count.is_power_of_two() || count > 128 {
        return None;
    }
    let packs = words.iter().any(|word| matches!(*word, "pack::16b" | "unpack::16b"));
    let zero = Cell::default();
    let column = |by: u32| Cell::new(0, by);
    let lane = |by: u32| Cell::new(by, 0);
    // Rows, columns of one repetition, what threads add, what registers of one repetition add.
    let of = |word: &str| words.contains(&word);
    let (rows, columns, threads, own): (u32, u32, [Cell; LANE_BITS], Vec<Cell>) = if of("32x32b") {
        (32, 1, [lane(1), lane(2), lane(4), lane(8), lane(16)], vec![zero])
    } else if of("16x64b") {
        (16, 2, [lane(8), column(1), lane(1), lane(2), lane(4)], vec![zero])
    } else if of("16x128b") {
        (16, 4, rows_of_four(column(1), lane(1)), vec![zero, lane(8)])
    } else if of("16x256b") {
        (16, 8, rows_of_four(column(2), lane(1)), vec![zero, column(1), lane(8), Cell::new(8, 1)])
    } else if of("16x32bx2") {
        // The columns of the second half start where an operand says.
        (16, 1, [lane(1), lane(2), lane(4), lane(8), column(split?)], vec![zero])
    } else {
        return None;
    };
    let spread = if packs { 2 } else { 1 };
    let registers: Vec<Vec<Cell>> = (0..count)
        .flat_map(|repetition| own.iter().map(move |cell| cell.plus(Cell::new(0, repetition * columns))))
        .map(|cell| (0..spread).map(|at| Cell::new(cell.row, cell.column * spread + at)).collect())
        .collect();
    Some(vec![Fragment {
        role: Role::Tensor,
        operand,
        first: 0,
        rows,
        columns: (columns * count + split.unwrap_or(0)) * spread,
        element: if packs { "b16" } else { "b32" },
        lane: threads.map(|cell| Cell::new(cell.row, cell.column * spread)),
        warp: zero,
        warps: 1,
        registers,
        is_sparse: false,
    }])
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Every element of a matrix is held, by one thread alone but in `m8n8k4`, where four matrices are multiplied.
    #[test]
    fn fragments_cover_their_matrices_once() {
        let opcodes = [
            "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
            "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64",
            "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64",
            "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64",
            "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32",
            "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
            "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16",
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
            "mma.sync.aligned.m8n8k16.row.col.satfinite.s32.s8.u8.s32",
            "mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32",
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32",
            "mma.sync.aligned.m8n8k32.row.col.s32.s4.s4.s32",
            "mma.sync.aligned.m16n8k64.row.col.s32.u4.s4.s32",
            "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.xor.popc",
            "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc",
            "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
            "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
            "wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16",
            "wgmma.mma_async.sync.aligned.m64n256k32.f16.e4m3.e4m3",
            "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32",
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
            "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
            "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8",
            "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32",
            "stmatrix.sync.aligned.m16n8.x4.trans.shared.b8",
            "movmatrix.sync.aligned.m8n8.trans.b16",
            "tcgen05.ld.sync.aligned.32x32b.x128.b32",
            "tcgen05.ld.sync.aligned.16x64b.x8.pack::16b.b32",
            "tcgen05.st.sync.aligned.16x128b.x64.b32",
            "tcgen05.ld.sync.aligned.16x256b.x32.b32",
        ];
        let zipped = ["row.row", "row.col", "col.row", "col.col"];
        let quads: Vec<String> = zipped
            .into_iter()
            .flat_map(|layouts| {
                ["f16", "f32"].map(|sum| format!("mma.sync.aligned.m8n8k4.{layouts}.{sum}.f16.f16.{sum}"))
            })
            .collect();
        for opcode in opcodes.into_iter().chain(quads.iter().map(String::as_str)) {
            let found = of_opcode(opcode).unwrap_or_else(|| panic!("{opcode} has no layout"));
            let times = if opcode.contains("m8n8k4") && opcode.contains("f16.f16") { 4 } else { 1 };
            for fragment in found {
                let mut held: HashMap<Cell, u32> = HashMap::new();
                for (warp, lane) in (0..fragment.warps).flat_map(|warp| (0..32).map(move |lane| (warp, lane))) {
                    for (register, cells) in fragment.registers.iter().enumerate() {
                        for place in 0..cells.len() {
                            *held.entry(fragment.cell(warp, lane, register, place).unwrap()).or_default() += 1;
                        }
                    }
                }
                let (rows, columns) = (fragment.rows, fragment.columns);
                assert_eq!(held.len() as u32, rows * columns, "{opcode}: {}", fragment.role);
                assert!(held.keys().all(|cell| cell.row < rows && cell.column < columns), "{opcode}");
                assert!(held.values().all(|count| *count == times), "{opcode}: {}", fragment.role);
            }
        }
    }

    #[test]
    fn registers_of_an_instruction() {
        let names = |text: &str| -> Vec<(String, Vec<String>)> {
            let text = format!(".version 8.8\n.target sm_100a\n.visible .entry k()\n{{\n{text}\nret;\n}}\n");
            let module = crate::ptx::parse(&text);
            let function = module.functions().next().unwrap();
            let located = function.instructions().next().unwrap();
            let named = |fragment: Fragment| {
                let names = fragment.names(&located.instruction).unwrap();
                (fragment.role.to_string(), names.into_iter().map(str::to_owned).collect())
            };
            of(&located.instruction).unwrap().into_iter().map(named).collect()
        };
        let found = names("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r2}, [%r3];");
        assert_eq!(found, [("matrix 0".into(), vec!["%r1".into()]), ("matrix 1".into(), vec!["%r2".into()])]);
        // A in shared memory is no fragment.
        let found =
            names("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %rd1, %rd2, p, 1, 1, 0, 0;");
        assert_eq!(found, [("D".into(), vec!["%f1".into(), "%f2".into(), "%f3".into(), "%f4".into()])]);
        let found = names("tcgen05.ld.sync.aligned.16x32bx2.x2.b32 {%r1, %r2}, [%r3], 16;");
        assert_eq!(found, [("tensor memory".into(), vec!["%r1".into(), "%r2".into()])]);
    }

    #[test]
    fn formulas_of_a_thread() {
        let start = |opcode: &str, at: usize| of_opcode(opcode).unwrap()[at].start();
        let both = |row: &str, column: &str| (row.to_owned(), column.to_owned());
        let half = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
        assert_eq!(start(half, 0), both("t/4", "2·(t % 4)"));
        assert_eq!(start(half, 2), both("2·(t % 4)", "t/4"));
        assert_eq!(start("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", 0), both("16·w + t/4", "2·(t % 4)"));
        assert_eq!(start("tcgen05.ld.sync.aligned.32x32b.x1.b32", 0), both("t", "0"));
        assert_eq!(start("tcgen05.ld.sync.aligned.16x64b.x1.b32", 0), both("8·(t % 2) + t/4", "t/2 % 2"));
    }

    #[test]
    fn what_spreads_no_matrix_has_none() {
        for opcode in [
            "add.s32",
            "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
            "mma.sync.aligned.m16n8k16.row.col.f32",
            "mma.sync.aligned.m16n8k4294967295.row.col.f32.f16.f16.f32",
            "mma.sync.aligned.m16n8k9.row.col.f32.f16.f16.f32",
            "wgmma.mma_async.sync.aligned.m64n4294967288k16.f32.f16.f16",
            "tcgen05.ld.sync.aligned.32x32b.x4294967295.b32",
            "tcgen05.ld.sync.aligned.16x32bx2.x4.b32",
            "ldmatrix.sync.aligned.m8n8.x3.shared.b16",
            "mma.mmm",
            "",
        ] {
            assert_eq!(of_opcode(opcode), None, "{opcode}");
        }
    }
}
