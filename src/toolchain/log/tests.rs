//! Against logs that real ptxas versions wrote: `testdata/logs/VERSION/CASE.txt`, made by `testdata/logs/record.sh`.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use super::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/logs")
}

/// The recorded versions, oldest first.
fn versions() -> Vec<String> {
    let mut versions: Vec<crate::toolchain::Version> = fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().ok())
        .collect();
    versions.sort();
    assert!(versions.len() >= 7, "{versions:?}");
    versions.iter().map(|version| version.to_string()).collect()
}

fn recorded(version: &str) -> Vec<(String, String)> {
    let mut logs: Vec<_> = fs::read_dir(folder().join(version))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect();
    logs.sort();
    logs
}

fn log(version: &str, case: &str) -> Log {
    parse(&fs::read_to_string(folder().join(version).join(format!("{case}.txt"))).unwrap())
}

#[test]
fn every_line_of_every_recorded_log_is_understood() {
    let mut lines = 0;
    for version in versions() {
        for (case, text) in recorded(&version) {
            let log = parse(&text);
            assert_eq!(log.unknown, [], "{version} {case}");
            lines += text.lines().count();
        }
    }
    assert!(lines > 3000, "{lines}");
}

/// What was read is written again as ptxas writes it: every statistic of the log must come back, byte for byte.
#[test]
fn statistics_survive_the_round_trip() {
    for version in versions() {
        for (case, text) in recorded(&version) {
            let log = parse(&text);
            let read: Vec<String> = log.functions.iter().flat_map(as_ptxas).collect();
            let written: Vec<&str> = text
                .lines()
                .filter(|line| {
                    let statistic = ["Function properties for", "Used ", "Compile time = "];
                    line.starts_with("    ")
                        || statistic
                            .iter()
                            .any(|s| line.strip_prefix("ptxas info    : ").is_some_and(|l| l.starts_with(s)))
                })
                .collect();
            assert_eq!(read, written, "{version} {case}");
            let gmem = text.lines().find(|line| line.contains(" bytes gmem"));
            assert_eq!(gmem.map(str::to_owned), module_as_ptxas(&log), "{version} {case}");
        }
    }
}

fn banks(banks: &[ConstantBank]) -> String {
    banks.iter().map(|bank| format!(", {} bytes cmem[{}]", bank.bytes, bank.bank)).collect()
}

fn module_as_ptxas(log: &Log) -> Option<String> {
    Some(format!("ptxas info    : {} bytes gmem{}", log.gmem_bytes?, banks(&log.cmem)))
}

fn as_ptxas(function: &FunctionLog) -> Vec<String> {
    let mut lines = vec![format!("ptxas info    : Function properties for {}", function.name)];
    if let (Some(stack), Some(stores), Some(loads)) =
        (function.stack_bytes, function.spill_store_bytes, function.spill_load_bytes)
    {
        lines.push(format!("    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads"));
    }
    if let Some(registers) = function.registers {
        let mut line = format!("ptxas info    : Used {registers} registers");
        let mut item = |amount: Option<u64>, before: &str, unit: &str| {
            if let Some(amount) = amount {
                write!(line, ", {before}{amount} {unit}").unwrap();
            }
        };
        item(function.barriers.map(u64::from), "used ", "barriers");
        item(function.cumulative_stack_bytes, "", "bytes cumulative stack size");
        item(function.smem_bytes, "", "bytes smem");
        line += &banks(&function.cmem);
        let counts =
            [(function.textures, "textures"), (function.surfaces, "surfaces"), (function.samplers, "samplers")];
        for (count, unit) in counts {
            if let Some(count) = count {
                write!(line, ", {count} {unit}").unwrap();
            }
        }
        lines.push(line);
    }
    if let Some(time) = function.compile_ms {
        lines.push(format!("ptxas info    : Compile time = {time:.3} ms"));
    }
    lines
}

/// One line for each function and message, so that a difference is read at a glance.
#[test]
fn everything_that_is_read_from_the_newest_and_the_oldest() {
    for version in ["11.8.89", "12.9.86", "13.4.92"] {
        let mut text = String::new();
        for (case, log_text) in recorded(version) {
            let log = parse(&log_text);
            writeln!(text, "{case}").unwrap();
            for f in &log.functions {
                let within = f.within.as_deref().unwrap_or("-");
                let kind = if f.entry { "entry" } else { "func" };
                let arch = f.arch.map_or("-".to_owned(), |arch| arch.to_string());
                writeln!(text, "  {kind} {} within {within} for {arch}", f.name).unwrap();
            }
            for m in &log.messages {
                let show = |field: &Option<String>| field.clone().unwrap_or("-".to_owned());
                let line = m.ptx_line.map_or("-".to_owned(), |line| line.to_string());
                let source =
                    m.source.as_ref().map(|place| format!(" {}:{}", place.file, place.line)).unwrap_or_default();
                writeln!(
                    text,
                    "  {:?} {} {} line {line}{source} near {:?}: {}",
                    m.severity,
                    show(&m.code),
                    show(&m.function),
                    m.near,
                    m.text
                )
                .unwrap();
            }
        }
        insta::with_settings!({ prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!(format!("log-{version}"), text);
        });
    }
}

#[test]
fn resources_of_every_kind() {
    let log = log("13.4.92", "resources");
    assert_eq!(log.gmem_bytes, Some(64));
    assert_eq!(log.cmem, [ConstantBank { bank: 3, bytes: 24 }, ConstantBank { bank: 4, bytes: 8 }]);
    let function = log.functions.iter().find(|function| function.name == "uses_all").unwrap();
    let expected = FunctionLog {
        name: "uses_all".to_owned(),
        entry: true,
        within: Some("uses_all".to_owned()),
        arch: Some("sm_75".parse().unwrap()),
        registers: Some(8),
        barriers: Some(4),
        stack_bytes: Some(128),
        spill_store_bytes: Some(0),
        spill_load_bytes: Some(0),
        cumulative_stack_bytes: Some(128),
        smem_bytes: Some(2048),
        cmem: vec![ConstantBank { bank: 0, bytes: 364 }],
        compile_ms: function.compile_ms,
        ..FunctionLog::default()
    };
    assert_eq!(*function, expected);
    assert!(function.compile_ms.is_some_and(|ms| ms > 0.0));
}

#[test]
fn the_kernel_of_a_nameless_advisory_is_the_only_one_there_is() {
    let one = "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register \
               count at entry.\nptxas info    : Compiling entry function 'k' for 'sm_90a'\nptxas info    : Function \
               properties for k\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n";
    assert_eq!(parse(one).messages[0].function.as_deref(), Some("k"));
    assert_eq!(log("13.4.92", "setmaxnreg").messages[0].function, None);
}

#[test]
fn what_is_not_understood_is_kept_with_its_line() {
    let text = "ptxas info    : Compiling entry function 'k' for 'sm_999z'\n\
                ptxas info    : Function properties for k\n    \
                8 bytes stack frame, 0 bytes spill stores, 4 bytes of something new\n\
                ptxas info    : Used 10 registers, 3 wonders, 16 bytes smem\n\
                what is this?\n\
                ptxas info    : Compile time = soon\n\
                ptxas hint    : try harder\n";
    let log = parse(text);
    let lines: Vec<u32> = log.unknown.iter().map(|unknown| unknown.log_line.0).collect();
    assert_eq!(lines, [3, 4, 5, 6, 7]);
    let function = &log.functions[0];
    assert_eq!((function.arch, function.registers, function.smem_bytes), (None, Some(10), Some(16)));
    assert_eq!((function.stack_bytes, function.spill_load_bytes), (Some(8), None));
}

#[test]
fn hostile_logs_are_read_in_linear_time_and_bounded_space() {
    let many = "?\n".repeat(100_000);
    let log = parse(&many);
    assert_eq!((log.unknown.len(), log.unknown_lines), (MAX_UNKNOWN, 100_000));
    let long = format!("ptxas {}", ", line 1".repeat(500_000));
    assert_eq!(parse(&long).unknown_lines, 1);
    let numbers = "ptxas info    : Used 99999999999999999999 registers\nptxas x, line 99999999999; error : y\n";
    assert_eq!(parse(numbers).unknown_lines, 2);
}

proptest::proptest! {
    #[test]
    fn no_log_makes_it_panic(text in "(ptxas |info    : |error   : |, line |; |[0-9]{1,12}|'|bytes |Used |\\n|\\PC){0,60}") {
        parse(&text);
    }
}
