//! Consumers that come too early by the control bits of the words.
//!
//! A result of a fixed latency is covered by stall counts: so many cycles must lie between its producer and whoever reads it. One of a varying
//! latency is covered by a scoreboard: whoever reads it must wait for that, or come after somebody who did. [`dependencies`] finds every read of
//! a result with the cycles that ptxas left, across blocks, too; [`Latencies`] are the fewest that it was ever seen to leave, and [`hazards`] are
//! those that fall short. Whether operands are overwritten before they are read is not judged.

use std::sync::OnceLock;

pub use super::dependencies::{Cover, Dependency, Way, dependencies};
use super::machine::Pipe;
use crate::base::{FastMap, Pc, RegFile};
use crate::registers::code::Code;
use crate::sass;

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

/// Behind what it was mined from, one line for each producer, consumer and way: `LOP3 IMAD r 4:75,80 5:90`. `@Alu` stands for all kinds of that pipe: what two kinds leave was
/// seen too seldom where only their pipes have a row.
const MINED: &str = include_str!("latencies.txt");

impl Latencies {
    /// The table, read once.
    pub fn get() -> &'static Latencies {
        static TABLE: OnceLock<Latencies> = OnceLock::new();
        TABLE.get_or_init(|| {
            let rows = MINED.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
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

    /// The fewest cycles between any two kinds of the pipes of these two; none where too few were seen. What falls short of this is too early:
    /// between two kinds alone code that was not mined may have fewer than all that was.
    pub fn least_of_pipes(&self, sm: u16, from: &str, to: &str, way: Way) -> Option<u32> {
        if !is_fixed(from) {
            return None;
        }
        self.row(sm, row(pipe(from)?), row(pipe(to)?), letter(way))
    }

    /// The fewest cycles between two kinds, as far as that was seen: what a stall count is most likely for.
    pub fn least(&self, sm: u16, from: &str, to: &str, way: Way) -> Option<u32> {
        if !is_fixed(from) {
            return None;
        }
        let letter = letter(way);
        let (of, by) = (row(pipe(from)?), row(pipe(to)?));
        [(from, to), (from, by), (of, by)].iter().find_map(|&(from, to)| self.row(sm, from, to, letter))
    }

    fn row(&self, sm: u16, from: &str, to: &str, letter: char) -> Option<u32> {
        // Libraries have little code for sm_121, and ptxas schedules that as it does for sm_120.
        let sm = if sm == 121 { 120 } else { sm };
        let row = self.rows.get(&(from, to, letter))?;
        row.iter().find(|(known, _)| *known == sm).map(|(_, cycles)| u32::from(*cycles))
    }
}

/// How the table names a way.
pub fn letter(way: Way) -> char {
    match way {
        Way::Reads(RegFile::Gpr) => 'r',
        Way::Reads(RegFile::Pred) => 'p',
        Way::Reads(RegFile::Ugpr) => 'u',
        Way::Reads(RegFile::Upred) => 'q',
        Way::Guarded(RegFile::Pred) => 'g',
        Way::Guarded(_) => 'h',
    }
}

/// The pipe of a kind of instruction, on every architecture; none for what goes through two.
pub fn pipe(kind: &str) -> Option<Pipe> {
    let (name, modifiers) = kind.split_once('.').unwrap_or((kind, ""));
    Some(match name {
        "" | "FCHK" | "REDUX" | "R2UR" => return None,
        "FFMA" | "FADD" | "FMUL" | "FSWZADD" | "FFMA32I" => Pipe::Fma,
        "HFMA2" if modifiers.contains("MMA") => Pipe::Half,
        "HFMA2" | "HADD2" | "HMUL2" | "IMAD" | "IDP" | "XMAD" => Pipe::FmaHeavy,
        "DADD" | "DMUL" | "DFMA" | "DSETP" | "DMNMX" => Pipe::Fp64,
        "MUFU" | "POPC" | "FLO" | "BREV" | "F2I" | "FRND" | "F2F" | "I2F" | "I2I" => Pipe::Xu,
        "HMMA" | "IMMA" | "QMMA" | "BMMA" | "DMMA" | "OMMA" => Pipe::Tensor,
        "HGMMA" | "IGMMA" | "QGMMA" | "BGMMA" => Pipe::WarpGroup,
        "LDS" | "LDSM" | "STS" | "STSM" | "SHFL" | "LDG" | "LD" | "LDL" | "STG" | "ST" | "STL" | "ATOMS" | "MATCH"
        | "LDC" | "S2R" | "LDGSTS" | "ATOM" | "ATOMG" | "RED" | "UTMALDG" | "UTMASTG" | "SYNCS" | "TEX" | "TLD"
        | "TLD4" | "TXQ" | "TMML" | "SULD" | "SUST" | "SUATOM" | "SURED" | "LDGDEPBAR" | "AL2P" | "ALD" | "AST"
        | "CCTL" | "ERRBAR" | "MEMBAR" | "LDGMC" | "LDCU" | "CS2R" | "S2UR" | "REDG" | "LDT" | "STT" | "UTCHMMA"
        | "LDTM" | "STTM" => Pipe::Memory,
        "BRA" | "BRX" | "JMP" | "EXIT" | "RET" | "CALL" | "BRXU" | "JMX" | "JMXU" => Pipe::Branch,
        "NOP" | "BAR" | "WARPGROUP" | "WARPSYNC" | "DEPBAR" | "BSSY" | "BSYNC" | "YIELD" | "NANOSLEEP" | "B2R"
        | "BMOV" | "BREAK" | "PREEXIT" | "ACQBULK" | "KILL" | "VOTEU" | "CREDUX" => Pipe::Issue,
        _ if name.starts_with('U') => Pipe::Uniform,
        _ => Pipe::Alu,
    })
}

/// How the table names all kinds of a pipe.
pub fn row(pipe: Pipe) -> &'static str {
    match pipe {
        Pipe::Fma => "@Fma",
        Pipe::FmaHeavy => "@FmaHeavy",
        Pipe::Half => "@Half",
        Pipe::Alu => "@Alu",
        Pipe::Xu => "@Xu",
        Pipe::Fp64 => "@Fp64",
        Pipe::Uniform => "@Uniform",
        Pipe::Tensor => "@Tensor",
        Pipe::Memory => "@Memory",
        Pipe::WarpGroup => "@WarpGroup",
        Pipe::Branch => "@Branch",
        Pipe::Issue => "@Issue",
    }
}

/// Whether results of a kind come after a fixed number of cycles: what stall counts must cover.
pub fn is_fixed(kind: &str) -> bool {
    matches!(pipe(kind), Some(Pipe::Fma | Pipe::FmaHeavy | Pipe::Half | Pipe::Alu | Pipe::Uniform))
}

/// A consumer that comes too early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hazard {
    /// Whose result is read.
    pub from: Pc,
    /// Who reads it too early.
    pub to: Pc,
    /// How.
    pub way: Way,
    /// Cycles that lie between, and that must; none where a scoreboard is not waited for.
    pub cycles: Option<(u32, u32)>,
}

/// What was found, and how much was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hazards {
    /// By place, the first thousand.
    pub found: Vec<Hazard>,
    /// Dependencies that were decided.
    pub decided: u64,
    /// Those of them whose producer is in another block, or in another turn of a loop.
    pub across: u64,
    /// Those that nobody knows enough of to say.
    pub unknown: u64,
}

/// Hazards that are kept of a function.
const MOST_FOUND: usize = 1000;

/// The hazards of a function's code.
pub fn hazards(code: &Code) -> Hazards {
    let sm = code.program().decoder().arch().sm;
    let mut kinds: FastMap<u32, String> = FastMap::default();
    let mut all = Hazards::default();
    dependencies(code, |Dependency { from, to, way, cover, is_across }| {
        for index in [from, to] {
            kinds.entry(index).or_insert_with(|| kind(code, index));
        }
        let (of, by) = (&kinds[&from], &kinds[&to]);
        // Cycles that lie between and that must, where they are too few; none where it is not known.
        let short = match cover {
            Cover::Waited => Some(None),
            Cover::NotWaited => {
                // Matrices of one pipe hand their sums on by themselves; predicates of atomics and barriers come by other ways.
                let in_order = pipe(of) == Some(Pipe::Tensor) && pipe(by) == Some(Pipe::Tensor);
                let is_register = matches!(way, Way::Reads(RegFile::Gpr | RegFile::Ugpr));
                (is_register && !in_order).then_some(Some(None))
            }
            Cover::Cycles(cycles) => {
                let needed = Latencies::get().least_of_pipes(sm, of, by, way);
                needed.map(|needed| (cycles < needed).then_some(Some((cycles, needed))))
            }
        };
        match short {
            None => all.unknown += 1,
            Some(short) => {
                all.decided += 1;
                all.across += u64::from(is_across);
                let hazard = |cycles| Hazard { from: Pc(from * 16), to: Pc(to * 16), way, cycles };
                all.found.extend(short.map(hazard).filter(|_| all.found.len() < MOST_FOUND));
            }
        }
    });
    all
}
