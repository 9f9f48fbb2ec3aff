use std::io;

use clap::Parser;
use serde_json::Value;

use super::*;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    occupancy: OccupancyArgs,
}

fn parsed(line: &str) -> OccupancyArgs {
    Cli::try_parse_from(std::iter::once("occupancy").chain(line.split_whitespace())).unwrap().occupancy
}

fn answer(line: &str) -> Result<String> {
    let mut out = Vec::new();
    run(&parsed(line), &mut io::empty(), true, &mut out)?;
    Ok(String::from_utf8(out)?)
}

fn batched(input: &str) -> (Vec<Value>, Summary) {
    let mut out = Vec::new();
    let summary = batch(input.as_bytes(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), summary)
}

#[test]
fn one_architecture() {
    let text = answer("--arch sm_90a --registers 168 --threads 384 --smem 16384").unwrap();
    insta::assert_snapshot!(text, @r"
    sm_90a: 168 registers a thread, 384 threads a block, 16,384 bytes of shared
      memory a block
    An SM holds 1 block: 12 of its 64 warps (18.8 % occupancy), limited by registers

      more blocks   2 fit with at most 80 registers a thread (88 fewer); this is
                    arithmetic: `ptxinspect KERNEL.ptx --try-step` asks ptxas
      fewer blocks  none fits with 169 registers a thread (1 more)
                    none fits with 232,449 bytes of shared memory a block (216,065
                    more)

                           a block takes   an SM has  blocks
        registers                 64,512      65,536       1  <- limit
        shared memory bytes       17,408     233,472      13
        warps                         12          64       5
        blocks                         1          32      32
        1,024 bytes of a block's shared memory are the system's own

        registers  blocks  warps  occupancy  limited by
          1 -  32       5     60     93.8 %  threads
         33 -  40       4     48     75.0 %  registers
         41 -  56       3     36     56.2 %  registers
         57 -  80       2     24     37.5 %  registers
      >  81 - 168       1     12     18.8 %  registers
        169 - 255       0      0      0.0 %  registers
    ");
}

#[test]
fn two_limits_clusters_and_a_mode() {
    let text = answer(
        "--arch sm_100a --registers 128 --threads 256 --smem 1024 --smem-dynamic 100000 --cluster 16 --barriers 3",
    )
    .unwrap();
    insta::assert_snapshot!(text, @r"
    sm_100a: 128 registers a thread, 256 threads a block, 1,024 static + 100,000
      dynamic bytes of shared memory a block, 3 barriers, clusters of 16 blocks
    An SM holds 2 blocks: 16 of its 64 warps (25.0 % occupancy), limited by
      registers and shared memory

      more blocks   3 fit with at most 80 registers a thread (48 fewer) and at most
                    76,800 bytes of shared memory a block (24,224 fewer); this is
                    arithmetic: `ptxinspect KERNEL.ptx --try-step` asks ptxas
      fewer blocks  1 fits with 129 registers a thread (1 more)
                    1 fits with 115,713 bytes of shared memory a block (14,689 more)
      note          more than 48 KB of shared memory has to be dynamic, and opted in
                    to
      note          a cluster of 16 runs at once in one GPC, on at least 8 SMs
      note          clusters above 8 blocks have to be opted in to, and not every
                    GPU has them

                           a block takes   an SM has  blocks
        registers                 32,768      65,536       2  <- limit
        shared memory bytes      102,144     233,472       2  <- limit
        warps                          8          64       8
        blocks                         1          32      32
        barriers                       3          64      21
        1,024 bytes of a block's shared memory are the system's own

        registers  blocks  warps  occupancy  limited by
      >   1 - 128       2     16     25.0 %  shared memory
        129 - 255       1      8     12.5 %  registers
    ");
}

#[test]
fn a_launch_that_cannot_run() {
    let text = answer("--arch sm_107a --registers 300 --threads 128 --smem 300000").unwrap();
    insta::assert_snapshot!(text, @r"
    sm_107a: 300 registers a thread, 128 threads a block, 300,000 bytes of shared
      memory a block
    An SM holds no block of it: the launch fails

      because       a thread has at most 255 registers, found 300
      because       a block has at most 232448 bytes of shared memory, found 300000
      more blocks   1 fits with at most 255 registers a thread (45 fewer) and at
                    most 232,448 bytes of shared memory a block (67,552 fewer); this
                    is arithmetic: `ptxinspect KERNEL.ptx --try-step` asks ptxas
      note          the shared memory fits where the kernel opts in to it:
                    --smem-mode oversized

                           a block takes   an SM has  blocks
        registers                 38,912      65,536       0  <- limit
        shared memory bytes      301,056     233,472       0  <- limit
        warps                          4          32       8
        blocks                         1          16      16
        1,024 bytes of a block's shared memory are the system's own

        registers  blocks  warps  occupancy  limited by
          1 - 255       0      0      0.0 %  shared memory
    ");
}

#[test]
fn several_architectures() {
    let text = answer("--arch sm_75,sm_86 --arch sm_90a --registers 96 --threads 256 --smem 30000").unwrap();
    insta::assert_snapshot!(text, @r"
    96 registers a thread, 256 threads a block, 30,000 bytes of shared memory a
      block

      arch    blocks  warps   occup.  limited by       more blocks at  fewer at
      sm_75        2  16/32   50.0 %  regs+smem        regs+smem (3)   129 regs (1)
      sm_86        2  16/48   33.3 %  regs             80 regs (3)     129 regs (1)
      sm_90a       2  16/64   25.0 %  regs             80 regs (3)     129 regs (1)

      blocks by registers   sm_75   sm_86  sm_90a
                 1 -  32       2       3       7
                33 -  40       2       3       6
                41 -  48       2       3       5
                49 -  64       2       3       4
                65 -  80       2       3       3
      >         81 - 128       2       2       2
               129 - 255       1       1       1
    ");
}

#[test]
fn fits_80_columns() {
    let all = "sm_75,sm_80,sm_86,sm_87,sm_88,sm_89,sm_90a,sm_100a,sm_101a,sm_103a,sm_107a,sm_110a,sm_120f,sm_121a";
    for registers in [0, 1, 96, 255, 4_000_000_000u32] {
        for threads in [1, 96, 1024, 4_000_000_000u32] {
            for smem in [0, 49_152, 120_000, 300_000, u64::MAX] {
                for arch in [all, "sm_90a", "sm_120f"] {
                    let flags = format!("--registers {registers} --threads {threads} --smem {smem}");
                    let text = answer(&format!("--arch {arch} {flags}")).unwrap();
                    for line in text.lines() {
                        assert!(line.len() <= 80 && line == line.trim_end(), "{arch} {flags}: {line:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn json_is_a_line_for_each_architecture() {
    let text = answer("--arch sm_90a,sm_120 --registers 168 --threads 384 --smem 16384 --format json").unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["arch"], "sm_90a");
    assert_eq!(lines[0]["limiter"], "registers");
    assert_eq!(lines[0]["next_step"]["registers"], 80);
    assert_eq!(lines[1]["table"][0]["from"], 1);
    // An answer can be asked again, and the answer is the same but for the table.
    let (again, summary) = batched(&text);
    assert_eq!(summary, Summary { lines: 2, refused: 0 });
    let mut first = lines[0].clone();
    first.as_object_mut().unwrap().remove("table");
    assert_eq!(again[0], first);
}

#[test]
fn flags_that_make_no_launch() {
    for (line, expected) in [
        (
            "--registers 32 --threads 64",
            "--arch is missing: expected --arch, --registers and --threads, or --batch FILE",
        ),
        (
            "--arch sm_90 --threads 64",
            "--registers is missing: expected --arch, --registers and --threads, or --batch FILE",
        ),
        ("", "--arch is missing: expected --arch, --registers and --threads, or --batch FILE"),
        (
            "--arch sm_9x --registers 32 --threads 64",
            "'sm_9x' is not an architecture: expected sm_NN with an optional a or f, such as sm_90a or sm_120",
        ),
        ("--arch sm_90 --registers 32 --threads 0", "threads per block: expected 1 to 1024, found 0"),
        (
            "--batch - --format text",
            "--batch answers in JSON lines: expected --format json or none, found --format text",
        ),
    ] {
        assert_eq!(format!("{:#}", answer(line).unwrap_err()), expected);
    }
    assert!(format!("{:#}", answer("--batch no/such/file").unwrap_err()).starts_with("cannot open no/such/file: "));
    assert!(Cli::try_parse_from(["occupancy", "--batch", "-", "--arch", "sm_90"]).is_err());
}

#[test]
fn a_pipe_is_a_batch_when_no_launch_is_given() {
    let line = r#"{"arch":"sm_90","registers":32,"threads":64,"smem":0}"#;
    let ask = |flags: &str, terminal| {
        let mut out = Vec::new();
        let result = run(&parsed(flags), &mut line.as_bytes(), terminal, &mut out);
        (result.ok(), String::from_utf8(out).unwrap())
    };
    for flags in ["", "--format json", "--format jsonl", "--batch -"] {
        let (summary, text) = ask(flags, false);
        assert_eq!(summary, Some(Summary { lines: 1, refused: 0 }), "{flags}");
        assert!(
            text.starts_with(r#"{"arch":"sm_90","registers":32,"threads":64,"smem":0,"blocks_per_sm":32,"#),
            "{text}"
        );
    }
    assert!(run(&parsed(""), &mut io::empty(), false, &mut Vec::new()).is_err());
    assert_eq!(ask("", true).0, None);
    assert_eq!(ask("--format text", false).0, None);
}

#[test]
fn a_bad_line_is_answered_in_its_place() {
    let mut input = String::new();
    let cases = [
        (r#"{"arch":"sm_90","registers":32,"threads":64,"smem":0}"#, None),
        ("", None),
        ("{", Some("expected a JSON object: EOF while parsing an object at column 1")),
        (
            "[1]",
            Some(
                "expected a JSON object: invalid type: sequence, expected an object with arch, registers and threads at column 0",
            ),
        ),
        (r#"{"registers":32,"threads":64}"#, Some("key 'arch' is missing: expected a name such as \"sm_90a\"")),
        (r#"{"arch":90,"registers":32,"threads":64}"#, Some("arch: expected a name such as \"sm_90a\", found 90")),
        (r#"{"arch":"sm_90","threads":64}"#, Some("key 'registers' is missing: expected a whole number")),
        (
            r#"{"arch":"sm_90","registers":-1,"threads":64}"#,
            Some("registers: expected a whole number from 0 to 4294967295, found -1"),
        ),
        (
            r#"{"arch":"sm_90","registers":32.5,"threads":64}"#,
            Some("registers: expected a whole number from 0 to 4294967295, found 32.5"),
        ),
        (r#"{"arch":"sm_90","registers":32,"threads":0}"#, Some("threads per block: expected 1 to 1024, found 0")),
        (
            r#"{"arch":"sm_90","registers":32,"threads":64,"carveout":300}"#,
            Some("carveout: expected a whole number from 0 to 100, found 300"),
        ),
        (
            r#"{"arch":"sm_90","registers":32,"threads":64,"smem_mode":"big"}"#,
            Some("smem_mode: expected portable, non_portable or oversized, found \"big\""),
        ),
        (
            r#"{"arch":"sm_90","regs":32,"registers":32,"threads":64}"#,
            Some(
                "unknown key 'regs': expected one of arch, registers, threads, smem, smem_dynamic, barriers, cluster, \
                 tmem_columns, smem_mode, carveout",
            ),
        ),
        (r#"{"arch":"sm_90","registers":32,"registers":33,"threads":64}"#, Some("key 'registers' is given twice")),
        (
            r#"{"arch":"sm_90","registers":32,"threads":64} x"#,
            Some("expected a JSON object: trailing characters at column 46"),
        ),
        (r#"{"arch":"sm_90","registers":300,"threads":64}"#, None),
    ];
    for (line, _) in &cases {
        input += line;
        input.push('\n');
    }
    let (answers, summary) = batched(&input);
    let asked: Vec<_> = cases.iter().enumerate().filter(|(_, (line, _))| !line.is_empty()).collect();
    assert_eq!(summary.lines, asked.len() as u64);
    assert_eq!(summary.refused, asked.iter().filter(|(_, (_, error))| error.is_some()).count() as u64);
    assert_eq!(answers.len(), asked.len());
    for (answer, (index, (line, error))) in answers.iter().zip(asked) {
        match error {
            None => assert!(answer["blocks_per_sm"].is_u64() && answer["error"].is_null(), "{line}: {answer}"),
            Some(error) => {
                assert_eq!(answer["error"]["message"], *error, "{line}");
                assert_eq!(answer["error"]["line"], index + 1, "{line}");
                assert_eq!((&answer["blocks_per_sm"], &answer["limiter"]), (&Value::Null, &Value::Null));
            }
        }
    }
    assert_eq!(answers.last().unwrap()["blocks_per_sm"], 0);
}

#[test]
fn other_keys_pass_through() {
    let line = r#"{"id":7,"kernel":"a\nb","arch":"90a","registers":168,"threads":384,"smem":null,"tags":{"x":[1]}}"#;
    let mut out = Vec::new();
    batch(line.as_bytes(), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let same = line.strip_suffix('}').unwrap();
    assert!(text.starts_with(&format!(r#"{same},"blocks_per_sm":1,"#)), "{text}");
}

#[test]
fn a_line_without_end_is_not_kept() {
    let mut input = vec![b'x'; 3 << 20];
    input.extend_from_slice(b"\n{\"arch\":\"sm_90\",\"registers\":32,\"threads\":64}");
    let mut out = Vec::new();
    assert_eq!(batch(&input[..], &mut out).unwrap(), Summary { lines: 2, refused: 1 });
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("expected a line of at most 1048576 bytes") && text.contains("\"blocks_per_sm\":32"));
}

#[test]
fn registers_that_no_instruction_names() {
    let said = |registers: u32| answer(&format!("--arch sm_90a --registers {registers} --threads 64")).unwrap();
    assert!(said(256).contains("a kernel has at most 255 registers a thread"), "{}", said(256));
    assert!(said(300).contains("a thread has at most 255 registers, found 300"), "{}", said(300));
    assert!(!said(255).contains("at most 255 registers a thread: an instruction"), "{}", said(255));
}
