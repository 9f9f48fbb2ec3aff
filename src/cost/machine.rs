//! Widths and latencies of an SM, as they were measured: `scripts/cycles` has the loops and prints the table.
//!
//! Where the numbers come from: chains of one instruction give its latency, many side by side its interval, pairs of two kinds show which of
//! them share a pipe ([sources](../../docs/sources.md)).

use serde::Deserialize;

use crate::base::Arch;

/// A part of a scheduler's quarter of the SM that takes instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pipe {
    /// Single precision on either half of the FMA pipe.
    Fma,
    /// What only one half of it can do: integer multiplications, dot products, packed halves.
    FmaHeavy,
    /// Packed halves on the way of the tensor core: `HFMA2.MMA`.
    Half,
    /// Integers, logic, comparisons, conversions.
    Alu,
    /// Transcendental functions, conversions, bit counts.
    Xu,
    /// Double precision.
    Fp64,
    /// Uniform registers.
    Uniform,
    /// `HMMA`, `IMMA`, `DMMA`.
    Tensor,
    /// Shared, global and local memory, shuffles: a queue in front of what all schedulers of an SM share.
    Memory,
    /// Multiplications of a warp group, which the tensor cores of all schedulers do together.
    WarpGroup,
    /// Branches.
    Branch,
    /// Nothing but its turn to issue.
    Issue,
}

impl Pipe {
    /// All that have a place of their own in [`Pipe::index`].
    pub const COUNT: usize = 12;

    /// A place in a table.
    pub fn index(self) -> usize {
        self as usize
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Pipe::Fma => "FMA",
            Pipe::FmaHeavy => "FMA heavy",
            Pipe::Half => "FP16",
            Pipe::Alu => "ALU",
            Pipe::Xu => "XU",
            Pipe::Fp64 => "FP64",
            Pipe::Uniform => "uniform",
            Pipe::Tensor => "tensor",
            Pipe::Memory => "load/store",
            Pipe::WarpGroup => "warp-group tensor",
            Pipe::Branch => "branch",
            Pipe::Issue => "issue",
        }
    }
}

/// What an instruction asks of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Where it goes.
    pub pipe: Pipe,
    /// Cycles until the pipe takes the next one of the same scheduler.
    pub interval: u16,
    /// Cycles until its write scoreboard is released.
    pub latency: u16,
    /// Cycles until its read scoreboard is released.
    pub read: u16,
    /// Cycles of what all schedulers share.
    pub shared: u16,
    /// Whether it also takes the banks of shared memory for so long, which a warp group's matrices are read from, too.
    pub banks: bool,
    /// Cycles of the way from the SM to the second cache, which what is stored takes.
    pub outward: u16,
    /// Cycles beyond its stall count until the warp goes on.
    pub extra: u8,
    /// Cycles for which it keeps the scheduler from issuing, beyond its own.
    pub block: u8,
    /// Whether such instructions were measured; otherwise they are taken for what resembles them.
    pub measured: bool,
    /// Whether the first cache is not asked: the second one answers, at best.
    pub beyond_l1: bool,
}

impl Unit {
    const fn new(pipe: Pipe, interval: u16, latency: u16) -> Unit {
        Unit {
            pipe,
            interval,
            latency,
            read: 9,
            shared: 0,
            banks: false,
            outward: 0,
            extra: 0,
            block: 0,
            measured: true,
            beyond_l1: false,
        }
    }

    const fn memory(interval: u16, shared: u16, latency: u16, read: u16) -> Unit {
        Unit { shared, read, ..Unit::new(Pipe::Memory, interval, latency) }
    }

    const fn banks(interval: u16, shared: u16, latency: u16, read: u16) -> Unit {
        Unit { banks: true, ..Unit::memory(interval, shared, latency, read) }
    }

    /// The same with so many wavefronts of shared memory: each takes a scheduler two cycles, the SM one, and the result comes two cycles later.
    pub fn with_wavefronts(self, count: u16) -> Unit {
        let twice = |number: u16| number.saturating_mul(2);
        let more = count.saturating_sub(self.shared);
        Unit {
            shared: count,
            interval: self.interval.max(twice(count)),
            latency: self.latency.saturating_add(twice(more)),
            ..self
        }
    }

    /// The same where its lanes touch so many lines of the first cache: a load takes a wavefront for each, a store a cycle of the SM.
    pub fn with_lines(self, mnemonic: &str, count: u16) -> Unit {
        match mnemonic {
            "LDG" if count > self.shared => self.with_wavefronts(count),
            "LDGSTS" => Unit { shared: self.shared.max(count + 1), ..self },
            "STG" => Unit { shared: self.shared.max(count), outward: self.outward.max(count), ..self },
            _ => Unit { shared: self.shared.max(count), ..self },
        }
    }

    const fn unmeasured(self) -> Unit {
        Unit { measured: false, ..self }
    }
}

/// Cycles until memory answers what is in the first cache.
pub const L1_LATENCY: u16 = 33;

/// Cycles that an atomic takes longer than a load of what is in the second cache: `scripts/cycles --chase`.
pub const ATOMIC: u16 = 108;

/// Whether a load never asks the first cache, by its modifiers: what is ordered beyond a block (`ld.volatile`, `ld.relaxed` and `ld.acquire` of
/// the cluster, the GPU, the system, `ld.global.cg`) sees what others write. `STRONG.SM`, the order of a block, is answered by the first cache.
pub fn passes_first_cache(modifiers: &[&str]) -> bool {
    let has = |name: &str| modifiers.contains(&name);
    has("MMIO") || has("STRONG") && (has("GPU") || has("SYS") || has("VC"))
}

/// Where what is in global and local memory is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// In the first cache.
    #[default]
    L1,
    /// In the second.
    L2,
    /// In neither.
    Dram,
}

impl Memory {
    /// Cycles until it answers, with nobody else asking: `scripts/cycles --chase`.
    pub fn latency(self) -> u16 {
        match self {
            Memory::L1 => L1_LATENCY,
            Memory::L2 => 280,
            Memory::Dram => 680,
        }
    }
}

/// An SM whose numbers are known.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Cycles until global memory answers.
    latency: u16,
    local: Local,
}

/// Where what is spilt lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// Cycles until it answers.
    latency: u16,
    /// Of 100 accesses, those that the first cache does not have.
    missed: u16,
}

impl Local {
    /// Cycles until the second cache answers.
    const SECOND_CACHE: u16 = 230;

    /// Of so many bytes of all threads, where the first cache has room for some.
    pub fn of(bytes: u64, room: u64) -> Local {
        let missed = bytes.saturating_sub(room).saturating_mul(100).checked_div(bytes).unwrap_or(0).min(100) as u16;
        Local { latency: L1_LATENCY + (Local::SECOND_CACHE - L1_LATENCY) * missed / 100, missed }
    }

    /// Cycles of what all schedulers share, for so many of the first cache: the second gives a quarter as many bytes a cycle.
    fn shared(self, cycles: u16, times: u16) -> u16 {
        cycles + (cycles * (times - 1) * self.missed).div_ceil(100)
    }
}

/// Cycles from a branch that is taken to the next instruction of the warp, at least.
pub const BRANCH: u64 = 10;
/// Cycles that the barrier unit takes for each warp that arrives.
pub const BARRIER_EACH: u64 = 2;
/// Cycles from the last arrival until the warps go on.
pub const BARRIER: u64 = 13;
/// Cycles from the answer of memory until what is copied is in shared memory.
pub const COPY: u16 = 30;
/// Cycles of stores that may be on their way out of the SM before the next one waits: it passes 32 bytes a cycle.
pub const OUTWARD_SLACK: u64 = 512;
/// Cycles that the part of memory that all share takes to turn from loads to stores.
pub const TURNAROUND: u64 = 1;
/// Memory instructions of a scheduler that wait to be taken.
pub const QUEUE: usize = 8;
/// Reads of a bank of registers that may be outstanding when an instruction issues.
pub const SLACK: u64 = 1;
/// Cycles from the issue of a multiplication of a warp group to its start, and from its end until the group that it closes is done.
pub const GROUP_START: u64 = 12;
/// See [`GROUP_START`].
pub const GROUP_END: u64 = 26;

impl Machine {
    /// The machine of an architecture; none where nobody measured one.
    pub fn of(arch: Arch, latency: u16) -> Option<Machine> {
        (arch.sm == 90).then_some(Machine { latency, local: Local { latency, missed: 0 } })
    }

    /// The same with what is spilt elsewhere.
    pub fn with_local(self, local: Local) -> Machine {
        Machine { local, ..self }
    }

    /// Cycles until memory answers what the first cache is not asked for.
    pub fn second_cache(&self) -> u16 {
        self.latency.max(Memory::L2.latency())
    }

    /// What an instruction asks for, by its name and modifiers.
    pub fn unit(&self, mnemonic: &str, modifiers: &[&str]) -> Unit {
        let has = |name: &str| modifiers.contains(&name);
        let words: u16 = if has("128") {
            4
        } else if has("64") {
            2
        } else {
            1
        };
        match mnemonic {
            "FFMA" | "FADD" | "FMUL" => Unit::new(Pipe::Fma, 1, 4),
            "HFMA2" if has("MMA") => Unit::new(Pipe::Half, 2, 10),
            "HFMA2" | "HADD2" | "HMUL2" => Unit::new(Pipe::FmaHeavy, 2, 6),
            "IMAD" if has("HI") || has("WIDE") => Unit { extra: 3, block: 2, ..Unit::new(Pipe::FmaHeavy, 4, 5) },
            "IMAD" | "IDP" => Unit::new(Pipe::FmaHeavy, 2, 5),
            "DADD" | "DMUL" | "DFMA" => Unit::new(Pipe::Fp64, 2, 8),
            "DSETP" | "DMNMX" => Unit::new(Pipe::Fp64, 2, 8).unmeasured(),
            "MUFU" => Unit { block: 1, ..Unit::new(Pipe::Xu, 8, 17) },
            "POPC" | "FLO" | "BREV" | "F2I" | "FRND" | "F2F" => Unit::new(Pipe::Xu, 8, 17),
            "I2F" | "I2I" => Unit::new(Pipe::Xu, 8, 17).unmeasured(),
            "HMMA" | "IMMA"
                if modifiers.iter().any(|name| matches!(*name, "16816" | "16832"))
                    && !(mnemonic == "IMMA" && has("16816")) =>
            {
                Unit::new(Pipe::Tensor, 6, 24)
            }
            "HMMA" if has("1688") && has("TF32") => Unit::new(Pipe::Tensor, 6, 24),
            "HMMA" | "IMMA" => Unit::new(Pipe::Tensor, 4, 17),
            "QMMA" | "BMMA" => Unit::new(Pipe::Tensor, 6, 24).unmeasured(),
            "DMMA" => Unit::new(Pipe::Tensor, 16, 26),
            "HGMMA" | "IGMMA" | "QGMMA" | "BGMMA" => {
                Unit { measured: mnemonic == "HGMMA", ..Unit::new(Pipe::WarpGroup, 1, 0) }
            }
            "LDS" => Unit::banks(2 * words, words, 20 + 2 * words, 9),
            "LDSM" => {
                let matrices = if has("4") {
                    4
                } else if has("2") {
                    2
                } else {
                    1
                };
                Unit::banks(2 * matrices, matrices, 20 + 2 * matrices, 9)
            }
            "STS" => Unit::banks(2 + 2 * words, words, 22, 7),
            "STSM" => Unit::banks(2 + 2 * words, words, 22, 7).unmeasured(),
            "SHFL" => Unit::memory(2, 1, 23, 9),
            "LDG" | "LD" => {
                let beyond_l1 = passes_first_cache(modifiers);
                let latency = if beyond_l1 { self.second_cache() } else { self.latency };
                Unit { measured: mnemonic == "LDG", beyond_l1, ..Unit::banks(2 * words, words, latency, 9) }
            }
            // The second cache does them; how many it does in a cycle was not measured.
            "ATOM" | "ATOMG" => {
                Unit { beyond_l1: true, ..Unit::memory(4, 1, self.second_cache() + ATOMIC, 30) }.unmeasured()
            }
            "LDL" => Unit::banks(2 * words, self.local.shared(words, 4), self.local.latency, 9),
            "STG" | "ST" => {
                let (interval, shared) = [(6, 2), (8, 5), (8, 5), (16, 10)][usize::from(words.clamp(1, 4) - 1)];
                let outward = 4 * words;
                Unit { measured: mnemonic == "STG", outward, ..Unit::memory(interval, shared, 34, 12) }
            }
            "STL" => {
                let interval = [4, 6, 6, 14][usize::from(words.clamp(1, 4) - 1)];
                Unit::banks(interval, self.local.shared(4 * words, 2), 33, 12)
            }
            "ATOMS" => Unit::banks(2, 1, 25, 9),
            "REDUX" => Unit::memory(8, 0, 36, 9),
            "MATCH" => Unit::memory(90, 64, 369, 9),
            // A copy that passes the first cache by waits for the second one.
            "LDGSTS" if has("BYPASS") => Unit { beyond_l1: true, ..Unit::memory(4, 3, self.second_cache() + COPY, 9) },
            "LDGSTS" => Unit::memory(2 * words, words + 1, self.latency + COPY, 9),
            "LDGDEPBAR" => Unit::memory(1, 2, 0, 0),
            "MEMBAR" if has("CTA") => Unit::memory(4, 3, 20, 9),
            // The warp goes on when the second cache has seen what it wrote.
            "MEMBAR" => Unit { extra: 135, measured: has("GPU"), ..Unit::memory(4, 6, 20, 9) },
            "FENCE" => Unit { measured: has("S"), ..Unit::memory(4, 1, 20, 9) },
            "LDC" | "S2R" | "RED" | "REDG" | "UTMALDG" | "UTMASTG" | "SYNCS" => Unit::memory(4, 1, 30, 9).unmeasured(),
            "BRA" | "BRX" | "JMP" | "EXIT" | "RET" | "CALL" => Unit::new(Pipe::Branch, 1, 0),
            "NOP" | "BAR" | "WARPGROUP" | "WARPSYNC" | "DEPBAR" | "BSSY" | "BSYNC" | "YIELD" => {
                Unit::new(Pipe::Issue, 1, 0)
            }
            _ if mnemonic.starts_with('U') || mnemonic == "R2UR" || mnemonic == "S2UR" => {
                let measured = matches!(mnemonic, "UIADD3" | "UMOV");
                Unit { measured, ..Unit::new(Pipe::Uniform, 2, 6) }
            }
            "LOP3" | "SHF" | "PRMT" | "IADD3" | "I2FP" | "FMNMX" | "FSETP" | "FSEL" | "ISETP" | "SEL" | "F2FP"
            | "IABS" | "VOTE" | "VIMNMX" | "VIMNMX3" | "VIADD" | "VIADDMNMX" | "VHMNMX" | "HMNMX2" | "MOV"
            | "IMNMX" | "LEA" | "PLOP3" => Unit::new(Pipe::Alu, 2, 4),
            _ => Unit::new(Pipe::Alu, 2, 4).unmeasured(),
        }
    }
}

/// Cycles of the banks of shared memory for a multiplication of a warp group: 128 bytes a cycle of the matrices that lie there.
pub fn group_banks(n: u64, first_in_registers: bool) -> u64 {
    n / 4 + if first_in_registers { 0 } else { 16 }
}

/// Cycles of the tensor cores for a multiplication of a warp group: 64 rows, `n` columns, 16 deep for halves.
pub fn group_cycles(n: u64, first_in_registers: bool) -> u64 {
    (n / 2).max(if first_in_registers { 13 } else { 16 + n / 4 })
}
