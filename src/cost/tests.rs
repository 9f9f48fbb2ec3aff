//! Loops that ran on an H200: `testdata/cost/h200.jsonl`, which `scripts/cycles --pack` writes, and `chase.jsonl`, the loops of `--chase`.

use std::collections::BTreeMap;

use super::*;
use crate::base::RegFile;
use crate::flow::{Layout, Rule};
use crate::sass::Decoder;

#[derive(serde::Deserialize)]
struct Recorded {
    #[serde(rename = "loop")]
    name: String,
    words: String,
    cycles: BTreeMap<u8, f64>,
}

fn recorded() -> Vec<Recorded> {
    read("h200.jsonl")
}

fn read(name: &str) -> Vec<Recorded> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cost").join(name);
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The words of a loop, high half first in the text, as the code of a section.
pub(super) fn code(words: &str) -> Code {
    let mut bytes = Vec::new();
    for at in (0..words.len()).step_by(32) {
        bytes.extend(u128::from_str_radix(&words[at..at + 32], 16).unwrap().to_le_bytes());
    }
    let decoder = Decoder::new("sm_90a".parse().unwrap()).unwrap();
    let layout = Layout { entries: vec![crate::base::Pc(0)], ..Layout::default() };
    Code::solve(decoder, &bytes, &layout, Rule::Sound)
}

fn turn(code: &Code) -> Turn {
    turns(code, LoopId(0)).expect("a loop").shortest
}

fn machine() -> Machine {
    Machine::of("sm_90a".parse().unwrap(), L1_LATENCY).unwrap()
}

fn model(code: &Code) -> Model<'_> {
    static NONE: std::sync::LazyLock<Wavefronts> = std::sync::LazyLock::new(Wavefronts::default);
    Model { machine: machine(), code, wavefronts: &NONE }
}

/// Blocks of the recorded launches have 1,024 threads at most: eight warps on a scheduler.
fn placed(warps: u8) -> Warps {
    if warps == 0 { Warps::ALONE } else { Warps { of_block: warps.min(8), ..Warps::on_each(warps) } }
}

#[test]
fn the_first_cache_answers_no_load_that_is_ordered_beyond_a_block() {
    // Each a chain of one load or atomic, in a ring that the first cache has room for: `scripts/cycles --chase`, on an H200.
    for recorded in read("chase.jsonl") {
        let code = code(&recorded.words);
        let found = estimate(&model(&code), &turn(&code), Warps::ALONE).expect(&recorded.name);
        let measured = recorded.cycles[&0];
        assert!((found.cycles - measured).abs() < 10.0, "{}: {} for {measured}", recorded.name, found.cycles);
        assert_eq!(found.beyond_l1 > 0, measured > 100.0, "{}", recorded.name);
    }
}

#[test]
fn estimates_are_near_what_was_measured() {
    let mut errors = Vec::new();
    for recorded in recorded() {
        let code = code(&recorded.words);
        let turn = turn(&code);
        for (&warps, &cycles) in recorded.cycles.iter().filter(|(_, cycles)| **cycles >= 1.0) {
            let found = estimate(&model(&code), &turn, placed(warps)).expect(&recorded.name);
            errors.push((found.cycles - cycles).abs() / cycles);
        }
    }
    assert!(errors.len() > 600, "{} points", errors.len());
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let near = errors.iter().filter(|error| **error <= 0.15).count() as f64 / errors.len() as f64;
    assert!(mean <= 0.05, "mean error {mean}");
    assert!(near >= 0.95, "within 15 %: {near}");
}

#[test]
fn more_work_for_the_pipe_that_bounds_a_loop_takes_longer() {
    let mut tried = 0;
    for recorded in recorded() {
        let code = code(&recorded.words);
        let turn = turn(&code);
        let found = estimate(&model(&code), &turn, placed(8)).unwrap();
        let Bound::Part(Part::Pipe(pipe)) = found.bound else { continue };
        if matches!(pipe, Pipe::Memory | Pipe::WarpGroup) {
            continue;
        }
        let steps = step::steps(&model(&code), &turn);
        let Some(at) = steps.iter().position(|step| step.unit.pipe == pipe) else { continue };
        // The same once more, four times.
        let mut more = steps.clone();
        (0..4).for_each(|_| more.insert(at, steps[at].clone()));
        let longer = bound::estimate(&more, placed(8)).unwrap();
        assert!(longer.cycles > found.cycles, "{}: {pipe:?} {} {}", recorded.name, found.cycles, longer.cycles);
        tried += 1;
    }
    assert!(tried > 20, "{tried} loops");
}

#[test]
fn waits_of_a_turn_add_up_to_it() {
    for recorded in recorded() {
        let code = code(&recorded.words);
        let found = estimate(&model(&code), &turn(&code), Warps::ALONE).unwrap();
        let waits: u32 = found.waits.iter().map(|wait| wait.cycles).sum();
        let off = (f64::from(waits) - found.cycles).abs();
        assert!(off <= 0.05 * found.cycles + 2.0, "{}: {waits} of {}", recorded.name, found.cycles);
    }
}

#[test]
fn an_architecture_that_nobody_measured_has_no_machine() {
    for arch in ["sm_80", "sm_89", "sm_100a", "sm_120"] {
        assert!(Machine::of(arch.parse().unwrap(), L1_LATENCY).is_none());
    }
}

/// The functions of the recorded cubins whose code is decoded: their architecture and their bytes.
fn sections() -> Vec<(crate::base::Arch, Vec<u8>)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cubin");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "cubin")) {
        let bytes = std::fs::read(path).unwrap();
        let Ok(image) = crate::cubin::Image::parse(&bytes) else { continue };
        let decoded = image.functions.iter().filter(|_| Decoder::new(image.arch).is_some());
        found.extend(decoded.map(|function| (image.arch, function.code.to_vec())));
    }
    found
}

fn solve(arch: crate::base::Arch, bytes: &[u8]) -> Code {
    let layout = Layout { entries: vec![crate::base::Pc(0)], ..Layout::default() };
    Code::solve(Decoder::new(arch).unwrap(), bytes, &layout, Rule::Sound)
}

/// Changes the upper half of an instruction's word.
fn change(bytes: &mut [u8], index: u32, change: impl FnOnce(u64) -> u64) {
    let at = index as usize * 16 + 8;
    let word = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    bytes[at..at + 8].copy_from_slice(&change(word).to_le_bytes());
}

#[test]
fn code_of_ptxas_has_no_hazard_and_every_planted_one_is_found() {
    use hazards::{Cover, Dependency, Hazard, Latencies, Way, dependencies, hazards, kind};
    /// Planted in each function at most, of either sort.
    const PLANTED: usize = 6;
    let (mut decided, mut shortened, mut dropped) = (0, 0, 0);
    // Those of them whose producer is in another block.
    let (mut shortened_across, mut dropped_across) = (0, 0);
    for (arch, bytes) in sections() {
        let code = solve(arch, &bytes);
        let all = hazards(&code);
        assert_eq!(all.found, Vec::<Hazard>::new(), "{arch}");
        decided += all.decided;
        let is_matrix = |index| hazards::pipe(&kind(&code, index)) == Some(Pipe::Tensor);
        let (mut tight, mut waited) = (Vec::new(), Vec::new());
        dependencies(&code, |found| match found.cover {
            Cover::Cycles(cycles) if cycles < 30 => {
                let (from, to) = (kind(&code, found.from), kind(&code, found.to));
                let least = Latencies::get().least_of_pipes(arch.sm, &from, &to, found.way);
                let stall = code.instructions()[found.from as usize].control().stall;
                if least == Some(cycles) && stall > 1 {
                    tight.push(found);
                }
            }
            // Matrices of one pipe hand their sums on by themselves.
            Cover::Waited if is_matrix(found.from) && is_matrix(found.to) => {}
            Cover::Waited if matches!(found.way, Way::Reads(RegFile::Gpr | RegFile::Ugpr)) => waited.push(found),
            _ => {}
        });
        // Some within blocks and some across, from all over the code.
        let picked = |all: &[Dependency]| -> Vec<Dependency> {
            let (across, within): (Vec<_>, Vec<_>) = all.iter().copied().partition(|found| found.is_across);
            let pick = |some: Vec<Dependency>| {
                let step = (some.len() / PLANTED).max(1);
                some.into_iter().step_by(step).take(PLANTED)
            };
            pick(within).chain(pick(across)).collect()
        };
        for found in picked(&tight) {
            let mut planted = bytes.clone();
            change(&mut planted, found.from, |word| word - (1 << 41));
            let all = hazards(&solve(arch, &planted));
            let is = |hazard: &Hazard| (hazard.from.0, hazard.to.0) == (found.from * 16, found.to * 16);
            assert!(all.found.iter().any(is), "{arch}: {found:?}");
            shortened += 1;
            shortened_across += usize::from(found.is_across);
        }
        for found in picked(&waited) {
            let board = code.instructions()[found.from as usize].control().write_barrier;
            let Some(board) = board else { continue };
            let guards =
                [found.from, found.to].map(|index| crate::flow::Program::guard(code.program(), index as usize));
            if guards.iter().all(Option::is_some) {
                continue;
            }
            let mut planted = bytes.clone();
            // Behind a branch, whoever waits on the way: on every way.
            let waiting = if found.is_across { 0..(bytes.len() / 16) as u32 } else { found.from + 1..found.to + 1 };
            for index in waiting {
                change(&mut planted, index, |word| word & !(1 << (52 + board)));
            }
            let all = hazards(&solve(arch, &planted));
            let is = |hazard: &Hazard| hazard.cycles.is_none() && hazard.to.0 == found.to * 16;
            assert!(all.found.iter().any(is), "{arch}: {found:?}");
            dropped += 1;
            dropped_across += usize::from(found.is_across);
        }
    }
    assert!(decided > 10_000 && shortened > 200 && dropped > 100, "{decided} {shortened} {dropped}");
    assert!(shortened_across > 10 && dropped_across > 10, "{shortened_across} {dropped_across}");
}

#[test]
fn the_table_of_latencies_is_what_the_tool_printed() {
    use sha2::{Digest, Sha256};
    let text = include_str!("latencies.txt");
    let (head, rows): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('#'));
    let rows: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let digest: String = Sha256::digest(rows.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(
        head.contains(&format!("# sha256 of the rows: {digest}").as_str()),
        "mine it again: CONTRIBUTING.md says how"
    );
    // Every architecture that has rows was mined.
    let mined: Vec<&str> = head.iter().filter_map(|line| line.strip_prefix("# sm_")?.split(':').next()).collect();
    let known = rows.split_whitespace().filter_map(|word| word.split_once(':')).flat_map(|(_, all)| all.split(','));
    known.for_each(|sm| assert!(mined.contains(&sm), "sm_{sm}"));
}
