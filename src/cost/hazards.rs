//! Consumers that come too early by the control bits of the words.
//!
//! An instruction of a fixed latency is covered by stall counts: so many cycles must lie between it and whoever reads its result. One of a
//! varying latency is covered by a scoreboard: whoever reads its result, or overwrites what it still reads, must wait for it, or come after
//! somebody who did. [`dependencies`] finds every dependency along the code with the cycles that ptxas left; [`Latencies`] are the fewest that it
//! was ever seen to leave, and [`hazards`] are those that fall short.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::base::{FastMap, Pc, RegFile, RegSet};
use crate::flow::Program;
use crate::registers::code::Code;
use crate::sass::{self, Control};

/// How a later instruction depends on an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// It reads a register that the earlier one writes.
    Reads(RegFile),
    /// It is guarded by what the earlier one writes.
    Guarded(RegFile),
    /// It writes what the earlier one writes.
    Writes(RegFile),
    /// It writes what the earlier one still reads.
    Overwrites(RegFile),
}

/// What lies between two instructions that depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// Cycles by stall counts, at least.
    Cycles(u32),
    /// Somebody waits for the scoreboard of the earlier one.
    Waited,
    /// The earlier one has a scoreboard, and nobody waits for it.
    NotWaited,
}

/// A dependency of two instructions of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The earlier one.
    pub from: u32,
    /// The later one.
    pub to: u32,
    /// How it depends.
    pub way: Way,
    /// What covers it.
    pub cover: Cover,
}

/// Cycles beyond which no fixed latency reaches.
const FAR: u32 = 64;

/// An earlier instruction that something may still depend on.
#[derive(Clone, Copy)]
struct Pending {
    index: u32,
    issued: u32,
    /// Its scoreboard: of its result or of its operands.
    board: Option<u8>,
    waited: bool,
}

/// What is pending along a walk.
#[derive(Clone)]
struct State {
    now: u32,
    /// By register: who wrote it last.
    writers: BTreeMap<(RegFile, u16), Pending>,
    /// By register: who reads it through a scoreboard.
    readers: BTreeMap<(RegFile, u16), Pending>,
}

/// Visits every dependency of the code within its blocks.
pub fn dependencies(code: &Code, mut visit: impl FnMut(Dependency)) {
    for block in &code.cfg.blocks {
        let mut state = State { now: 0, writers: BTreeMap::new(), readers: BTreeMap::new() };
        for index in block.start..block.end {
            step(code, index, &mut state, &mut visit);
        }
    }
}

fn step(code: &Code, index: u32, state: &mut State, visit: &mut impl FnMut(Dependency)) {
    let program = code.program();
    let Some(inst) = program.instructions().get(index as usize) else { return };
    let control = inst.control();
    wait(state, control);
    let guard = program.guard(index as usize).map(|guard| (guard.file, u16::from(guard.index)));
    let effects = program.effects(index as usize);
    let mut told = RegSet::EMPTY;
    let mut tell = |way: Way, register: (RegFile, u16), pending: &Pending, now: u32| {
        // One dependency for each register is enough.
        if told.contains(register.0, register.1) && !matches!(way, Way::Overwrites(_)) {
            return;
        }
        told.insert(register.0, register.1);
        let cover = match pending.board {
            None => Cover::Cycles(now - pending.issued),
            Some(_) if pending.waited => Cover::Waited,
            Some(_) => Cover::NotWaited,
        };
        visit(Dependency { from: pending.index, to: index, way, cover });
    };
    for (file, register) in effects.reads.iter_all() {
        if let Some(pending) = state.writers.get(&(file, register)) {
            let is_guard = guard == Some((file, register));
            tell(if is_guard { Way::Guarded(file) } else { Way::Reads(file) }, (file, register), pending, state.now);
        }
    }
    for (file, register) in effects.writes.iter_all() {
        if let Some(pending) = state.writers.get(&(file, register)) {
            tell(Way::Writes(file), (file, register), pending, state.now);
        }
        if let Some(pending) = state.readers.get(&(file, register)) {
            tell(Way::Overwrites(file), (file, register), pending, state.now);
        }
    }
    let pending = |board: Option<u8>| Pending { index, issued: state.now, board, waited: false };
    let (result, operands) = (pending(control.write_barrier), pending(control.read_barrier.or(control.write_barrier)));
    for register in effects.writes.iter_all() {
        // What a guard may leave undone leaves the earlier value pending, too: the later one is what counts.
        state.writers.insert(register, result);
        state.readers.remove(&register);
    }
    if operands.board.is_some() {
        for register in effects.reads.iter_all() {
            state.readers.insert(register, operands);
        }
    }
    state.now = state.now.saturating_add(u32::from(control.stall.max(1)));
    let near = state.now.saturating_sub(FAR);
    if index.is_multiple_of(64) {
        state.writers.retain(|_, pending| pending.board.is_some() || pending.issued >= near);
    }
}

/// Whoever waits for a scoreboard has waited for all that hold it.
fn wait(state: &mut State, control: Control) {
    if control.wait_mask == 0 {
        return;
    }
    for pending in state.writers.values_mut().chain(state.readers.values_mut()) {
        pending.waited |= pending.board.is_some_and(|board| control.wait_mask >> board & 1 == 1);
    }
}

/// What kind of producer or consumer an instruction is, as far as latencies go: its name, and what changes its pipe.
pub fn kind(code: &Code, index: u32) -> String {
    let program = code.program();
    let Some(inst) = program.instructions().get(index as usize) else { return String::new() };
    let mut text = String::new();
    program.decoder().text(inst, Pc(index * 16), &mut text);
    let parts = sass::parts(&text);
    let mut kind = parts.mnemonic.to_owned();
    for modifier in &parts.modifiers {
        let counts = matches!(
            *modifier,
            "MMA" | "WIDE" | "HI" | "X" | "64" | "16816" | "1688" | "16832" | "884" | "1684" | "F64" | "TF32"
        );
        if counts {
            kind.push('.');
            kind.push_str(modifier);
        }
    }
    kind
}

/// Producer, consumer and the letter of the way.
type Pair = (&'static str, &'static str, char);

/// The fewest cycles that ptxas was seen to leave between two kinds of instructions of an architecture; `tools/latencies` mines them.
pub struct Latencies {
    rows: FastMap<Pair, Vec<(u16, u8)>>,
}

/// One line for each producer, consumer and way: `LOP3 IMAD r 4:75,80 5:90`. `@Alu` stands for all kinds of that pipe: what two kinds leave was
/// seen too seldom where only their pipes have a row.
const MINED: &str = include_str!("latencies.txt");

impl Latencies {
    /// The table, read once.
    pub fn get() -> &'static Latencies {
        static TABLE: OnceLock<Latencies> = OnceLock::new();
        TABLE.get_or_init(|| {
            let rows = MINED.lines().filter_map(|line| {
                let mut words = line.split(' ');
                let key = (words.next()?, words.next()?, words.next()?.chars().next()?);
                let mut least = Vec::new();
                for (cycles, architectures) in words.filter_map(|word| word.split_once(':')) {
                    let cycles: u8 = cycles.parse().ok()?;
                    least.extend(architectures.split(',').filter_map(|sm| Some((sm.parse().ok()?, cycles))));
                }
                Some((key, least))
            });
            Latencies { rows: rows.collect() }
        })
    }

    /// The fewest cycles between two kinds; none where too few were seen.
    pub fn least(&self, sm: u16, from: &str, to: &str, way: Way) -> Option<u32> {
        if !is_fixed(from) {
            return None;
        }
        let letter = letter(way)?;
        let (of, by) = (pipe(from)?, pipe(to)?);
        [(from, to), (from, by), (of, by)].iter().find_map(|&(from, to)| {
            let row = self.rows.get(&(from, to, letter))?;
            row.iter().find(|(known, _)| *known == sm).map(|(_, cycles)| u32::from(*cycles))
        })
    }
}

/// How the table names a way; none for one that stall counts need not cover.
pub fn letter(way: Way) -> Option<char> {
    Some(match way {
        Way::Reads(RegFile::Gpr) => 'r',
        Way::Reads(RegFile::Pred) => 'p',
        Way::Reads(RegFile::Ugpr) => 'u',
        Way::Reads(RegFile::Upred) => 'q',
        Way::Guarded(RegFile::Pred) => 'g',
        Way::Guarded(RegFile::Upred) => 'h',
        _ => return None,
    })
}

/// The pipe of a kind of instruction, as the table names it, on every architecture; none for what nobody knows.
pub fn pipe(kind: &str) -> Option<&'static str> {
    let (name, modifiers) = kind.split_once('.').unwrap_or((kind, ""));
    Some(match name {
        // What goes through two pipes, one after the other.
        "" | "FCHK" | "REDUX" | "R2UR" => return None,
        "FFMA" | "FADD" | "FMUL" | "FSWZADD" | "FFMA32I" => "@Fma",
        "HFMA2" if modifiers.contains("MMA") => "@Half",
        "HFMA2" | "HADD2" | "HMUL2" | "IMAD" | "IDP" | "XMAD" => "@FmaHeavy",
        "DADD" | "DMUL" | "DFMA" | "DSETP" | "DMNMX" => "@Fp64",
        "MUFU" | "POPC" | "FLO" | "BREV" | "F2I" | "FRND" | "F2F" | "I2F" | "I2I" => "@Xu",
        "HMMA" | "IMMA" | "QMMA" | "BMMA" | "DMMA" | "OMMA" => "@Tensor",
        "HGMMA" | "IGMMA" | "QGMMA" | "BGMMA" => "@WarpGroup",
        "LDS" | "LDSM" | "STS" | "STSM" | "SHFL" | "LDG" | "LD" | "LDL" | "STG" | "ST" | "STL" | "ATOMS" | "MATCH"
        | "LDC" | "S2R" | "LDGSTS" | "ATOM" | "ATOMG" | "RED" | "UTMALDG" | "UTMASTG" | "SYNCS" | "TEX" | "TLD"
        | "TLD4" | "TXQ" | "TMML" | "SULD" | "SUST" | "SUATOM" | "SURED" | "LDGDEPBAR" | "AL2P" | "ALD" | "AST"
        | "CCTL" | "ERRBAR" | "MEMBAR" | "LDGMC" | "LDCU" | "CS2R" | "S2UR" | "REDG" | "LDT" | "STT" | "UTCHMMA"
        | "LDTM" | "STTM" => "@Memory",
        "BRA" | "BRX" | "JMP" | "EXIT" | "RET" | "CALL" | "BRXU" | "JMX" | "JMXU" => "@Branch",
        "NOP" | "BAR" | "WARPGROUP" | "WARPSYNC" | "DEPBAR" | "BSSY" | "BSYNC" | "YIELD" | "NANOSLEEP" | "B2R"
        | "BMOV" | "BREAK" | "PREEXIT" | "ACQBULK" | "KILL" | "VOTEU" | "CREDUX" => "@Issue",
        _ if name.starts_with('U') => "@Uniform",
        _ => "@Alu",
    })
}

/// Whether results of a kind come after a fixed number of cycles: what stall counts must cover.
pub fn is_fixed(kind: &str) -> bool {
    matches!(pipe(kind), Some("@Fma" | "@FmaHeavy" | "@Half" | "@Alu" | "@Uniform"))
}

/// A consumer that comes too early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hazard {
    /// Whose result or operands are at stake.
    pub from: Pc,
    /// Who comes too early.
    pub to: Pc,
    /// How it depends.
    pub way: Way,
    /// Cycles that lie between, and that must; none where a scoreboard is not waited for.
    pub cycles: Option<(u32, u32)>,
}

/// What was found, and how much was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hazards {
    /// By place.
    pub found: Vec<Hazard>,
    /// Dependencies that were decided.
    pub decided: u64,
    /// Those between kinds that were seen too seldom to say.
    pub unknown: u64,
}

/// Hazards that are kept of a function; the rest is counted as decided.
const MOST_FOUND: usize = 1000;

/// The hazards of a function's code.
pub fn hazards(code: &Code) -> Hazards {
    let (program, table) = (code.program(), Latencies::get());
    let sm = program.decoder().arch().sm;
    let mut kinds: FastMap<u32, String> = FastMap::default();
    let mut all = Hazards::default();
    dependencies(code, |dependency| {
        let guard = |index: u32| program.guard(index as usize);
        // One of two that are never both done.
        let excluded = guard(dependency.from).zip(guard(dependency.to)).is_some_and(|(first, second)| {
            (first.file, first.index) == (second.file, second.index) && first.negated != second.negated
        });
        if excluded {
            return;
        }
        let hazard =
            |cycles| Hazard { from: Pc(dependency.from * 16), to: Pc(dependency.to * 16), way: dependency.way, cycles };
        let found = match dependency.cover {
            Cover::Waited => None,
            Cover::NotWaited => {
                let [from, to] = [dependency.from, dependency.to].map(|index| pipe(&kind(code, index)));
                // The matrices of one pipe hand their sums on by themselves. Predicates of atomics and barriers come by
                // other ways.
                let in_order = from == Some("@Tensor") && from == to;
                let is_register = matches!(dependency.way, Way::Reads(RegFile::Gpr | RegFile::Ugpr));
                let counts = is_register && !in_order;
                counts.then(|| hazard(None))
            }
            Cover::Cycles(cycles) => {
                if cycles > u32::from(u8::MAX) || !matches!(dependency.way, Way::Reads(_) | Way::Guarded(_)) {
                    None
                } else {
                    for index in [dependency.from, dependency.to] {
                        kinds.entry(index).or_insert_with(|| kind(code, index));
                    }
                    match table.least(sm, &kinds[&dependency.from], &kinds[&dependency.to], dependency.way) {
                        None => {
                            all.unknown += 1;
                            return;
                        }
                        Some(needed) => (cycles < needed).then(|| hazard(Some((cycles, needed)))),
                    }
                }
            }
        };
        all.decided += 1;
        if let Some(found) = found.filter(|_| all.found.len() < MOST_FOUND) {
            all.found.push(found);
        }
    });
    all
}
