//! Occupancy against NVIDIA's `cuda_occupancy.h`.
//!
//! `testdata/occupancy/recorded.txt` holds what the header said about a few hundred launches on each architecture.
//! `scripts/check-occupancy` builds the program that recorded it and runs the live test below with many more.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use ptxinspect::base::Arch;
use ptxinspect::base::hardware::ARCHITECTURES;
use ptxinspect::emit::occupancy::batch;
use ptxinspect::registers::occupancy::{Launch, Limiter, SmemMode, occupancy};

/// One line of the oracle: a launch, and what the header says of it.
struct Case<'a> {
    line: &'a str,
    arch: Arch,
    launch: Launch,
    /// `None` where the header refuses the input.
    answer: Option<Answer>,
}

struct Answer {
    blocks: u32,
    factors: u32,
    registers: Option<u32>,
    smem: Option<u32>,
    warps: Option<u32>,
    slots: Option<u32>,
    barriers: Option<u32>,
    allocated_registers: u64,
    allocated_smem: u64,
}

/// `90 non_portable -1 108 161 0 193286 0 | 0 1 4 2 1 10 32 -1 | 21504 194432`
fn parse(line: &str) -> Option<Case<'_>> {
    let mut words = line.split_ascii_whitespace().filter(|word| *word != "|");
    let arch = Arch::new(words.next()?.parse().ok()?);
    let smem_mode = match words.next()? {
        "portable" => SmemMode::Portable,
        "non_portable" => SmemMode::NonPortable,
        "oversized" => SmemMode::Oversized,
        _ => return None,
    };
    let numbers: Vec<i64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let limit = |value: i64| u32::try_from(value).ok();
    let [carveout, registers, threads, smem_static, smem_dynamic, barriers, status, ref rest @ ..] = numbers[..] else {
        return None;
    };
    let launch = Launch {
        threads: threads.try_into().ok()?,
        registers: registers.try_into().ok()?,
        smem_static: smem_static.try_into().ok()?,
        smem_dynamic: smem_dynamic.try_into().ok()?,
        barriers: barriers.try_into().ok()?,
        cluster: 1,
        tmem_columns: 0,
        smem_mode,
        carveout: carveout.try_into().ok(),
    };
    let answer = match (status, rest) {
        (0, &[blocks, factors, registers, smem, warps, slots, barriers, allocated_registers, allocated_smem]) => {
            Some(Answer {
                blocks: blocks.try_into().ok()?,
                factors: factors.try_into().ok()?,
                registers: limit(registers),
                smem: limit(smem),
                warps: limit(warps),
                slots: limit(slots),
                barriers: limit(barriers),
                allocated_registers: allocated_registers.try_into().ok()?,
                allocated_smem: allocated_smem.try_into().ok()?,
            })
        }
        (1.., []) => None,
        _ => return None,
    };
    Some(Case { line, arch, launch, answer })
}

/// `cudaOccLimitingFactor`.
fn factor(limiter: Limiter) -> u32 {
    match limiter {
        Limiter::Threads => 1,
        Limiter::Registers => 2,
        Limiter::SharedMemory => 4,
        Limiter::Blocks => 8,
        Limiter::Barriers => 16,
        // The header knows of none.
        Limiter::TensorMemory => 0,
    }
}

/// Says how our answer differs from the header's.
fn difference(case: &Case) -> Option<String> {
    let (ours, theirs) = match (occupancy(case.arch, &case.launch), &case.answer) {
        (Err(_), None) => return None,
        (Ok(ours), Some(theirs)) => (ours, theirs),
        (ours, theirs) => {
            return Some(format!("{}\n  ours {ours:?}, the header refuses: {}", case.line, theirs.is_none()));
        }
    };
    let limits = ours.limits;
    // When barriers undercut the other limits the header adds them to the factors without taking those back; a factor
    // counts only where its own limit is the answer.
    let of_header =
        [(1, theirs.warps), (2, theirs.registers), (4, theirs.smem), (8, theirs.slots), (16, theirs.barriers)];
    let holds = of_header.iter().filter(|(_, limit)| *limit == Some(theirs.blocks)).map(|(bit, _)| bit).sum::<u32>();
    let factors = ours.limiters.iter().map(|&limiter| factor(limiter)).sum::<u32>();
    let same = ours.blocks_per_sm == theirs.blocks
        && factors == theirs.factors & holds
        && ours.limiters.first() == Some(&ours.limiter)
        && limits.registers == theirs.registers
        && limits.shared_memory == theirs.smem
        && Some(limits.threads) == theirs.warps
        && Some(limits.blocks) == theirs.slots
        && limits.barriers == theirs.barriers
        && ours.allocated_registers == theirs.allocated_registers
        && ours.allocated_smem == theirs.allocated_smem
        && ours.obstacles.is_empty() == (theirs.blocks != 0);
    (!same).then(|| format!("{}\n  ours {ours:?}", case.line))
}

#[test]
fn equals_the_recorded_header() {
    let text = include_str!("../testdata/occupancy/recorded.txt");
    let mut cases = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let case = parse(line).unwrap_or_else(|| panic!("not an oracle line: {line}"));
        assert_eq!(difference(&case), None);
        *cases.entry(case.arch.sm).or_insert(0) += 1;
    }
    let known: Vec<u16> = ARCHITECTURES.iter().map(|limits| limits.sm).collect();
    assert_eq!(cases.keys().copied().collect::<Vec<_>>(), known, "an architecture without recorded cases");
    assert!(cases.values().all(|&count| count >= 250), "{cases:?}");
}

#[test]
fn equals_an_h200() {
    let text = include_str!("../testdata/occupancy/h200.txt");
    let mut compared = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let numbers: Vec<u32> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let [threads, smem_dynamic, blocks] = numbers[..] else { panic!("not three numbers: {line}") };
        let smem_dynamic = smem_dynamic.into();
        let launch = Launch { threads, registers: 4, smem_dynamic, barriers: 1, ..Launch::default() };
        assert_eq!(occupancy(Arch::new(90), &launch).unwrap().blocks_per_sm, blocks, "{line}");
        compared += 1;
    }
    assert_eq!(compared, 4720);
}

/// The comparison must notice a wrong answer, in every column.
#[test]
fn notices_a_difference() {
    let right = "90 non_portable -1 108 161 0 193286 0 | 0 1 4 2 1 10 32 -1 | 21504 194432";
    assert_eq!(difference(&parse(right).unwrap()), None);
    let words: Vec<&str> = right.split(' ').collect();
    for column in [10, 11, 12, 13, 14, 15, 16, 18, 19] {
        let mut words = words.clone();
        words[column] = "3";
        assert!(difference(&parse(&words.join(" ")).unwrap()).is_some(), "column {column}");
    }
    let refused = "90 non_portable -1 108 161 0 193286 0 | 1";
    assert!(difference(&parse(refused).unwrap()).is_some());
}

fn oracle(program: &str, sm: u16, count: u64, more: &[&str]) -> Vec<String> {
    let seed = std::env::var("PTXINSPECT_OCCUPANCY_SEED").unwrap_or_else(|_| "1".to_owned());
    let mut command = Command::new(program);
    command.arg(sm.to_string()).arg(count.to_string()).arg(seed).args(more).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{program}: {error}"));
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).collect();
    assert!(child.wait().unwrap().success(), "{program} sm_{sm}");
    lines
}

#[test]
fn equals_the_live_header() {
    let Ok(program) = std::env::var("PTXINSPECT_OCCUPANCY_ORACLE") else {
        println!(
            "SKIPPED: PTXINSPECT_OCCUPANCY_ORACLE is not set; scripts/check-occupancy builds the oracle and sets it"
        );
        return;
    };
    let count = std::env::var("PTXINSPECT_OCCUPANCY_COUNT").map_or(10_000, |text| text.parse().unwrap());
    let mut differing = 0;
    for limits in &ARCHITECTURES {
        let (mut blocks, mut refused) = (BTreeMap::<u32, u64>::new(), 0);
        let mut factors = BTreeMap::<Limiter, u64>::new();
        let mut wrong = Vec::new();
        for line in oracle(&program, limits.sm, count, &[]) {
            let case = parse(&line).unwrap_or_else(|| panic!("not an oracle line: {line}"));
            match &case.answer {
                None => refused += 1,
                Some(answer) => *blocks.entry(answer.blocks).or_default() += 1,
            }
            if let Ok(ours) = occupancy(case.arch, &case.launch) {
                *factors.entry(ours.limiter).or_default() += 1;
            }
            wrong.extend(difference(&case));
        }
        let speed = json_lines(&program, limits.sm, count, &mut wrong);
        println!(
            "sm_{}: {count} launches ({} different block counts, {} cannot run, {refused} refused) and {count} JSON \
             lines ({speed:.0} a second): {} differ; limiters {factors:?}",
            limits.sm,
            blocks.len(),
            blocks.get(&0).unwrap_or(&0),
            wrong.len()
        );
        for text in wrong.iter().take(3) {
            println!("{text}");
        }
        differing += wrong.len();
    }
    assert_eq!(differing, 0, "launches with another answer than cuda_occupancy.h");
}

/// The road scripts take: registers, threads and shared memory as JSON lines. Returns how many were answered a second.
fn json_lines(program: &str, sm: u16, count: u64, wrong: &mut Vec<String>) -> f64 {
    let lines = oracle(program, sm, count, &["narrow"]);
    let cases: Vec<Case> = lines.iter().map(|line| parse(line).unwrap()).collect();
    let mut input = String::new();
    for Case { launch, .. } in &cases {
        let Launch { registers, threads, smem_static, .. } = launch;
        input += &format!(r#"{{"arch":"sm_{sm}","registers":{registers},"threads":{threads},"smem":{smem_static}}}"#);
        input.push('\n');
    }
    let mut output = Vec::new();
    let start = Instant::now();
    let summary = batch(input.as_bytes(), &mut output).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!((summary.lines, summary.refused), (count, 0));
    let answers = serde_json::Deserializer::from_slice(&output).into_iter::<serde_json::Value>();
    let mut compared = 0;
    for (case, answer) in cases.iter().zip(answers) {
        let (ours, theirs) = (answer.unwrap(), case.answer.as_ref().unwrap());
        let named: Limiter = serde_json::from_value(ours["limiter"].clone()).unwrap();
        if ours["blocks_per_sm"] != theirs.blocks || factor(named) & theirs.factors == 0 {
            wrong.push(format!("{}\n  JSON {ours}", case.line));
        }
        compared += 1;
    }
    assert_eq!(compared, count);
    count as f64 / seconds
}
