use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::ptx::{FunctionKind, Shape, StateSpace};

/// Files below a folder whose name ends in `.ptx`, sorted.
fn ptx_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "ptx") {
                files.push(path);
            }
        }
    }
    files.sort();
    assert!(!files.is_empty(), "no .ptx below {}", folder.display());
    files
}

/// The samples of this repository: name and text.
fn samples(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(folder);
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    ptx_files(&folder).iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

fn good_samples() -> Vec<(String, String)> {
    let bad = samples("ptx/bad");
    samples("ptx").into_iter().filter(|sample| !bad.contains(sample)).collect()
}

/// White space and comments taken off both ends, by other means than the lexer's.
fn without_trivia(mut text: &str) -> &str {
    loop {
        let before = text;
        text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0' || c == '\x0b' || c == '\u{feff}');
        if let Some(comment) = text.strip_prefix("//") {
            text = comment.split_once('\n').map_or("", |(_, rest)| rest);
        } else if let Some(comment) = text.strip_prefix("/*") {
            text = comment.split_once("*/").map_or("/*", |(_, rest)| rest);
        }
        if text == before || text == "/*" {
            return text;
        }
    }
}

/// Every token is inside exactly one statement, lines agree with the text, functions are ranges of statements.
fn check(module: &Module<'_>) {
    let text = module.text();
    let mut end = 0;
    let (mut counted, mut line) = (0, 1);
    for statement in module.statements() {
        let span = statement.span();
        assert!(end <= span.start && span.start < span.end, "{statement:?} after {end}");
        assert_eq!(without_trivia(&text[end..span.start]), "", "before {statement:?}");
        line += text[counted..span.start].matches('\n').count() as u32;
        assert_eq!(statement.first_line, Line(line), "{statement:?}");
        let last_line = line + text[span.clone()].matches('\n').count() as u32;
        assert_eq!(statement.last_line, Line(last_line), "{statement:?}");
        (counted, end) = (span.start, span.end);
    }
    assert_eq!(without_trivia(&text[end..]), "", "after the last statement");
    let mut after = 0;
    for function in module.functions() {
        let range = function.body_range();
        assert!(range.start <= range.end && range.end as usize <= module.statements().len());
        if function.is_definition() {
            assert!(after <= range.start, "{} begins inside another function", function.name());
            assert_eq!(function.body()[0].kind, StatementKind::ScopeOpen);
            after = range.end;
        }
    }
}

/// Walks over everything that the views offer: nothing of it may panic. Gives the number of things seen.
fn visit(module: &Module<'_>) -> usize {
    let text = module.text();
    let mut seen = module.targets().count() + module.files().count() + module.version().map_or(0, |_| 1);
    seen += module.variables().map(|variable| variable.names().count()).sum::<usize>();
    for function in module.functions() {
        let header = function.header();
        seen += header.params().filter_map(|param| param.name()).count();
        seen += header.returns().count() + header.directives().map(|d| d.numbers().count()).sum::<usize>();
        seen += header.max_threads().map_or(0, |_| 1) + function.name().len();
        seen += function.tables().map(|table| table.targets().take(100).count()).sum::<usize>();
        for (_, declaration) in function.declarations(StateSpace::Shared) {
            seen += declaration.names().filter_map(|name| declaration.bytes(&name)).count();
        }
        let registers = function.registers();
        for located in function.instructions() {
            let instruction = located.instruction;
            seen += instruction.opcode().len() + registers.of(&located).count();
            seen += usize::from(!matches!(instruction.operation(), crate::ptx::Operation::Other));
            for operand in instruction.operands() {
                seen += operand.value().map_or(0, |_| 1) + operand.address().map_or(0, |_| 1);
                match operand.shape() {
                    Shape::Vector(inside) | Shape::Address(inside) | Shape::List(inside) => {
                        seen += inside.filter(|element| !element.text().is_empty()).count();
                    }
                    Shape::Pair(left, right) => seen += left.text().len() + right.text().len(),
                    _ => seen += 1,
                }
            }
        }
    }
    for statement in module.statements() {
        seen += statement.loc(text).map_or(0, |_| 1) + statement.words(text).take(4).count();
        seen += module.statements_at(statement.first_line).len();
        seen += usize::from(module.function_at(statement.first_line).is_some());
    }
    seen
}

#[test]
fn samples_parse_without_errors() {
    for (name, text) in good_samples() {
        let module = parse(&text);
        assert!(module.errors.is_empty(), "{name}: {}", module.errors[0]);
        check(&module);
        assert!(visit(&module) > 0);
        assert!(module.functions().any(|f| f.kind() == FunctionKind::Entry && f.is_definition()), "{name}");
        let kinds = [StatementKind::Invalid, StatementKind::Directive];
        assert!(!module.statements().iter().any(|s| kinds.contains(&s.kind)), "{name}");
    }
}

/// The second line of each says where its first syntax error is, if it has one.
#[test]
fn bad_samples_say_where() {
    for (name, text) in samples("ptx/bad") {
        let module = parse(&text);
        check(&module);
        visit(&module);
        let found =
            module.errors.first().map_or("no syntax error".to_owned(), |e| format!("syntax {}:{}", e.line, e.column));
        let expected = text.lines().nth(1).map_or("no syntax error", |line| line.trim_start_matches("// "));
        assert_eq!(found, expected, "{name}: {:?}", module.errors);
        // Whatever is broken, the kernel and the one behind it are still found, and nothing else is called broken.
        if !["empty", "duplicate_entry", "missing_brace"].contains(&name.as_str()) {
            let names: Vec<_> = module.functions().map(|function| function.name()).collect();
            assert!(names == ["k"] || names == ["k", "after"], "{name}: {names:?}");
            let ends = module.errors.iter().filter(|error| &*error.found == "end of file").count();
            assert!(module.errors.len() <= ends.max(1), "{name}: {:?}", module.errors);
        }
    }
}

#[test]
fn crlf_and_lone_cr_change_nothing_but_the_bytes() {
    for (name, text) in good_samples() {
        let plain = parse(&text);
        for (what, ending) in [("CRLF", "\r\n"), ("lone CR", "\r\r\n\t")] {
            let text = text.replace('\n', ending);
            let module = parse(&text);
            assert!(module.errors.is_empty(), "{name} with {what}: {}", module.errors[0]);
            let lines = |module: &Module<'_>| {
                module.statements().iter().map(|s| (s.kind, s.first_line, s.last_line)).collect::<Vec<_>>()
            };
            assert_eq!(lines(&plain), lines(&module), "{name} with {what}");
        }
        let marked = format!("\u{feff}{text}\0\0");
        assert_eq!(parse(&marked).errors, []);
        assert_eq!(parse(&marked).statements().len(), plain.statements().len());
    }
}

#[test]
fn cut_at_every_byte() {
    for (name, text) in good_samples().into_iter().chain(samples("ptx/bad")) {
        for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
            let module = parse(&text[..end]);
            // Whoever cuts inside of a function must hear of it.
            let open = text[..end].matches('{').count() > text[..end].matches('}').count();
            assert!(!open || !module.errors.is_empty(), "{name} cut at {end}");
            if end % 97 == 0 {
                check(&module);
                visit(&module);
            }
        }
    }
}

/// Anything quadratic in these would not come to an end.
#[test]
fn hostile_texts_take_linear_time() {
    let body = |inside: String| format!(".version 8.0\n.target sm_90\n.entry k() {{\n{inside}\nret;\n}}\n");
    let n = 200_000;
    let texts = [
        "{".repeat(n),
        "}".repeat(n),
        body("{".repeat(n) + &"}".repeat(n)),
        body(format!("mov.u32 %r1, {}5{};", "(".repeat(n), ")".repeat(n))),
        body(format!("mov.u32 %r1, {}5;", "-".repeat(n))),
        body(format!("mov.u32 %r1, {}5;", "[{(".repeat(n))),
        body(format!("add{} %r1;", ".x".repeat(n))),
        body("mov.u32 %r1, %r2".repeat(n)),
        body("1".repeat(n)),
        body("%".repeat(n)),
        body("mov;".repeat(n)),
        body("L:".repeat(n)),
        "\"".repeat(n + 1),
        "/*".repeat(n),
        "/* */".repeat(n),
        "#line 5 \"x\"\n".repeat(n / 8),
        ".func f(".repeat(n / 4),
        ".func f() ".repeat(n / 8),
        ".entry k() { ".repeat(n / 8),
        ".section .x { ".repeat(n / 8),
        ".pragma \"".repeat(n / 4),
        ".global .b8 a[] = {".repeat(n / 8),
        format!(".global .b8 a[{n}] = {{{}}};", "1,".repeat(n)),
        ".foo ".repeat(n),
        ".foo\n".repeat(n),
        "é".repeat(n),
        "; ".repeat(n),
        "@p".repeat(n),
        "$".repeat(n),
        body(format!(".reg .b32 {};", "%r<3>,".repeat(n))),
    ];
    for text in texts {
        let module = parse(&text);
        check(&module);
        assert!(module.errors.len() <= Module::MAX_ERRORS);
        for function in module.functions().take(3) {
            for located in function.instructions().take(1000) {
                located.instruction.operation();
                for operand in located.instruction.operands().take(3) {
                    operand.value();
                    operand.shape();
                }
            }
        }
    }
}

#[test]
fn statements_are_small() {
    assert_eq!(size_of::<Statement>(), 20);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Pieces of PTX in no order at all.
    #[test]
    fn any_soup_of_tokens(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..60), glue in "[ \n\t]") {
        let text = pieces.join(&glue);
        let module = parse(&text);
        check(&module);
        visit(&module);
    }

    #[test]
    fn any_characters(text in "\\PC{0,200}") {
        let module = parse(&text);
        check(&module);
        visit(&module);
    }

    /// A sample with a stretch taken out and something else put in.
    #[test]
    fn any_damage(which in 0_usize..1000, from in 0_usize..100_000, length in 0_usize..40, piece in prop::sample::select(PIECES)) {
        let samples = good_samples();
        let mut text = samples[which % samples.len()].1.clone();
        let boundary = |mut at: usize| {
            while !text.is_char_boundary(at) {
                at += 1;
            }
            at
        };
        let start = boundary(from % text.len());
        let end = boundary((start + length).min(text.len()));
        text.replace_range(start..end, piece);
        let module = parse(&text);
        check(&module);
        visit(&module);
    }
}

const PIECES: &[&str] = &[
    ".version",
    "8.5",
    ".target",
    "sm_90a",
    ",",
    ";",
    "debug",
    ".entry",
    ".func",
    ".visible",
    ".extern",
    "k",
    "(",
    ")",
    ".param",
    ".u64",
    "p",
    "{",
    "}",
    ".reg",
    ".b32",
    "%r<100>",
    "%r1",
    "%p1",
    "@",
    "!",
    "@%p1",
    "bra",
    "L:",
    ":",
    "L",
    "mov.u32",
    "ld.global.v4.f32",
    "[",
    "]",
    "[%rd1+16]",
    "{%f1, %f2}",
    "+",
    "-",
    "|",
    "0f3F800000",
    "0x1f",
    "1.5e-3",
    "call",
    "(r), f, (a)",
    ".branchtargets",
    "A<2>",
    ".callprototype",
    "_",
    ".loc",
    "1 2 3",
    "function_name S",
    "inlined_at",
    ".file",
    "\"x.cu\"",
    "\"",
    ".section",
    ".debug_str",
    ".pragma",
    ".alias",
    ".attribute(.managed)",
    ".align",
    ".global",
    ".const[2]",
    "=",
    "generic(x)",
    "0xFF(x)",
    "<",
    ">",
    "<<",
    "?",
    "(.s64)",
    "~",
    "%",
    "*",
    "//",
    "/*",
    "*/",
    "\n",
    "#line 5 \"x\"\n",
    "@@DWARF",
    "#",
    "\\",
    "é",
    "\0",
    "\r",
    ".maxntid",
    ".newdirective",
    ".5",
    "1.",
    "wgmma.mma_async.sync.aligned",
    "tcgen05.mma.cta_group::1",
    "bar.sync",
    "ret;",
    "%tid.x",
    ".",
];

/// Live: ptxas takes every good sample for its architecture and refuses every bad one. `PTXINSPECT_PTXAS` names ptxas.
#[test]
fn samples_are_what_ptxas_says() {
    let Some(ptxas) = std::env::var_os("PTXINSPECT_PTXAS") else {
        println!("SKIPPED: PTXINSPECT_PTXAS names no ptxas");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("sample.ptx");
    for (good, samples) in [(true, good_samples()), (false, samples("ptx/bad"))] {
        for (name, text) in samples {
            std::fs::write(&input, &text).unwrap();
            let arch = text.lines().next().and_then(|line| line.split_once("arch: ")).map_or("sm_80", |(_, arch)| arch);
            let mut command = std::process::Command::new(&ptxas);
            command.args(["-arch", arch, "-o"]).arg(folder.path().join("sample.cubin")).arg(&input);
            let output = command.output().unwrap();
            assert_eq!(output.status.success(), good, "{name}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// Live: every file of a folder of real PTX parses without an error. `PTXINSPECT_PTX_CORPUS` names the folder.
#[test]
fn corpus() {
    let Some(folder) = std::env::var_os("PTXINSPECT_PTX_CORPUS") else {
        println!("SKIPPED: PTXINSPECT_PTX_CORPUS names no folder of PTX files");
        return;
    };
    let (mut files, mut bytes, mut statements, mut wrong) = (0, 0, 0, 0);
    let mut parsing = std::time::Duration::ZERO;
    for path in ptx_files(Path::new(&folder)) {
        let raw = std::fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&raw);
        let start = std::time::Instant::now();
        let module = parse(&text);
        parsing += start.elapsed();
        files += 1;
        bytes += text.len();
        statements += module.statements().len();
        if let Some(error) = module.errors.first() {
            wrong += 1;
            println!("{}: {error} ({} in all)", path.display(), module.errors.len());
        }
        check(&module);
        visit(&module);
    }
    let megabytes = bytes as f64 / 1e6;
    println!(
        "{files} files, {megabytes:.1} MB, {statements} statements ({:.2} bytes of statements a byte), {wrong} with \
         errors, {:.0} MB/s",
        (statements * size_of::<Statement>()) as f64 / bytes as f64,
        megabytes / parsing.as_secs_f64(),
    );
    assert_eq!(wrong, 0);
}
