//! What leaves is clean: every command in every format over names, paths, texts and messages that were made to do harm.

#![cfg(unix)]

mod support;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use support::{program, root, stderr, stdout};

/// What a folder is called: an escape, a line of its own with a command, a direction override, an end of a script, no UTF-8.
const FOLDER: &[u8] = b"=a\x1b[8m\x1b]0;t\x07\n::error::x\n\xe2\x80\xae##[group]<b>\xff%0A|`*";
/// Text for whatever is text: policies, logs, comments.
const TEXT: &str = "\u{1b}[8mx\u{1b}]8;;http://x\u{7}\r::error::x ##vso[task.x] \u{202e}\u{2066}\u{200b}\u{feff}\u{ad}\u{e0041}\u{9b}31m\u{7f}\u{ffff}</script><!-- */";

/// The codes of our own colours.
const COLOURS: [&str; 7] = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"];

fn is_harmful(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{fff9}'..='\u{fffb}' | '\u{ffff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Fails where a stream holds anything that a terminal, a page or a CI system would act on.
fn check(what: &str, bytes: &[u8], coloured: bool, commands: bool) {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut plain = text.to_owned();
    if coloured {
        COLOURS.iter().for_each(|code| plain = plain.replace(code, ""));
    }
    for (number, line) in plain.split('\n').enumerate() {
        if let Some(c) = line.chars().find(|&c| is_harmful(c)) {
            panic!("{what}: {c:?} in line {}: {line:?}", number + 1);
        }
        let start = line.trim_start();
        let ours = commands && (start.starts_with("::error file=") || start.starts_with("::warning file="));
        assert!(!start.starts_with("::") || ours, "{what}: a command in line {}: {line:?}", number + 1);
        assert!(
            !line.contains("##[") && !line.contains("##vso["),
            "{what}: a command in line {}: {line:?}",
            number + 1
        );
    }
    if plain.starts_with("<") {
        assert!(!plain.contains("</script><!--"), "{what}: a script is ended");
    }
}

struct Place {
    folder: tempfile::TempDir,
    ptxas: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join(OsStr::from_bytes(FOLDER))).unwrap();
        let place = Place { ptxas: folder.path().join("ptxas"), folder };
        fs::write(place.file("k.cubin"), hostile_cubin()).unwrap();
        fs::write(place.file("other.cubin"), fs::read(root("testdata/cubin/culprits-12.4-sm_80.cubin")).unwrap())
            .unwrap();
        let ptx = fs::read_to_string(root("testdata/cubin/src/culprits.ptx")).unwrap();
        fs::write(place.file("k.ptx"), format!("// {TEXT}\n/* {}\n::error::x\n*/{ptx}", TEXT.replace("*/", "")))
            .unwrap();
        place.ptxas(&format!("cp '{}' output.cubin", place.folder.path().join("made.cubin").display()));
        fs::write(place.folder.path().join("made.cubin"), hostile_cubin()).unwrap();
        place
    }

    /// A ptxas that prints harmful messages of all kinds and then does something.
    fn ptxas(&self, then: &str) {
        let log = format!(
            "ptxas info    : (C7508) {TEXT}\nptxas warning : {TEXT}\nptxas /tmp/x{TEXT}.ptx, line 3; error   : {TEXT}\n\
             ::error::y\n{TEXT}\nptxas info    : Function properties for {TEXT}\n"
        );
        fs::write(self.folder.path().join("log"), log).unwrap();
        let log = self.folder.path().join("log");
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *--version*) echo 'Cuda compilation tools, release 13.4, V13.4.92'; exit;; esac\n\
             cat '{}' >&2\n{then}\n",
            log.display()
        );
        fs::write(&self.ptxas, script).unwrap();
        fs::set_permissions(&self.ptxas, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(OsStr::from_bytes(FOLDER)).join(name)
    }

    fn run(&self, args: &[OsString]) -> Output {
        let cache = self.folder.path().join("cache");
        program().env("PTXINSPECT_CACHE", cache).current_dir(self.folder.path()).args(args).output().unwrap()
    }

    /// Runs, and looks at both streams.
    fn clean(&self, args: &[OsString]) -> Output {
        let output = self.run(args);
        let has = |wanted: &str| args.iter().any(|arg| arg == wanted);
        let what = format!("{args:?}");
        check(&format!("{what}: standard output"), &output.stdout, has("always"), has("github"));
        check(&format!("{what}: standard error"), &output.stderr, has("always"), false);
        let code = output.status.code();
        assert!(matches!(code, Some(0..=2)), "{what}: {code:?}\n{}", stderr(&output));
        output
    }
}

/// A cubin whose kernels and source file have names as bad as their length allows.
fn hostile_cubin() -> Vec<u8> {
    let mut bytes = fs::read(root("testdata/cubin/culprits-13.4-sm_90.cubin")).unwrap();
    let names: [(&[u8], &[u8]); 5] = [
        (b"table_of_factors", b"::error::\x1b[8mxyz"),
        (b"loaded_too_early", b"\n::error::\xe2\x80\xaexyz"),
        (b"recomputable_address", b"</script><!--\x1b]0;\x07\xff\xfe"),
        (b"array_in_registers", b"=##[x]|`\"'&\xef\xbb\xbf\xe2\x80\x8bz"),
        (b"culprits.cu", b"\x1b[8m\xe2\x80\xae\n.cu"),
    ];
    for (from, to) in names {
        assert_eq!(from.len(), to.len(), "{to:?}");
        let places: Vec<usize> = (0..bytes.len() - from.len()).filter(|&at| bytes[at..].starts_with(from)).collect();
        assert!(!places.is_empty(), "{from:?}");
        places.into_iter().for_each(|at| bytes[at..at + to.len()].copy_from_slice(to));
    }
    bytes
}

fn args(list: &[&dyn AsRef<OsStr>]) -> Vec<OsString> {
    list.iter().map(|arg| arg.as_ref().to_owned()).collect()
}

/// The formats that a command says it has: a new one is tested without a line here.
fn formats(command: &[&str]) -> Vec<String> {
    let help = stdout(&program().args(command).arg("--help").output().unwrap());
    let values = help.split_once("--format <FORMAT>").unwrap().1;
    let values = values.split_once("Possible values:").unwrap().1;
    let values = values.lines().map(str::trim).skip(1).take_while(|line| line.starts_with("- "));
    let formats: Vec<String> = values.filter_map(|line| Some(line[2..].split_once(':')?.0.to_owned())).collect();
    assert!(formats.len() >= 2, "{formats:?}");
    formats
}

/// Every format of a command, plain, and with every detail in colour.
fn in_every_format(place: &Place, command: &[&str], rest: &[OsString]) {
    let words: Vec<OsString> = command.iter().map(OsString::from).collect();
    for format in formats(command) {
        let format = args(&[&"--format", &format]);
        let with = |extra: &[OsString]| place.clean(&[&words, &format, extra, rest].concat());
        let output = with(&[]);
        if format[1] == "json" || format[1] == "sarif" {
            let text = stdout(&output);
            let lines = text.lines().next().is_some_and(|line| serde_json::from_str::<serde_json::Value>(line).is_ok());
            let values: Vec<&str> = if lines { text.lines().collect() } else { vec![&text] };
            for value in values.into_iter().filter(|value| !value.is_empty()) {
                serde_json::from_str::<serde_json::Value>(value).unwrap_or_else(|error| panic!("{command:?}: {error}"));
            }
        }
        with(&args(&[&"-v", &"--color", &"always"]));
    }
}

#[test]
fn reports_of_hostile_names() {
    let place = Place::new();
    let cubin = place.file("k.cubin");
    in_every_format(&place, &[], &args(&[&cubin]));
    in_every_format(&place, &["annotate"], &args(&[&cubin]));
    in_every_format(&place, &["disasm"], &args(&[&cubin, &"--control", &"--sets", &"--hex"]));
    for by in ["text", "json", "html"] {
        place.clean(&args(&[&"annotate", &cubin, &"--by", &"source", &"--format", &by]));
    }
}

#[test]
fn libraries_of_hostile_names() {
    let place = Place::new();
    let folder = place.file("");
    in_every_format(&place, &[], &args(&[&folder]));
    in_every_format(&place, &["list"], &args(&[&folder]));
    in_every_format(&place, &["size"], &args(&[&folder, &"--by", &"kernel"]));
    place.clean(&args(&[&"extract", &folder, &"-o", &place.folder.path().join("out")]));
    for name in fs::read_dir(place.folder.path().join("out")).unwrap().map(|entry| entry.unwrap().file_name()) {
        assert!(name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_graphic())), "{name:?}");
    }
    place.clean(&args(&[&"extract", &folder, &"-o", &place.folder.path().join("out")]));
}

#[test]
fn a_history_of_hostile_names() {
    let place = Place::new();
    let (cubin, file) = (place.file("k.cubin"), place.file("f.jsonl"));
    for (commit, bytes) in [("a", hostile_cubin()), ("</script>", fs::read(place.file("other.cubin")).unwrap())] {
        fs::write(&cubin, bytes).unwrap();
        place.clean(&args(&[&"gate", &cubin, &"--update", &"--record", &file, &"--commit", &commit]));
    }
    assert!(file.exists());
    in_every_format(&place, &["history"], &args(&[&file, &"--all"]));
    fs::write(&file, TEXT).unwrap();
    place.clean(&args(&[&"history", &file]));
}

#[test]
fn comparisons_of_hostile_names() {
    let place = Place::new();
    in_every_format(&place, &["diff"], &args(&[&place.file("other.cubin"), &place.file("k.cubin")]));
    let ptx = place.file("k.ptx");
    in_every_format(&place, &["matrix"], &args(&[&ptx, &"--arch", &"sm_90", &"--ptxas", &place.ptxas]));
    let tried = [&ptx as &dyn AsRef<OsStr>, &"--arch", &"sm_90", &"--ptxas", &place.ptxas, &"--budget", &"4"];
    in_every_format(&place, &["tune"], &args(&tried));
    // A report that comes back has whatever a file put there.
    let report = place.clean(&args(&[&place.file("k.cubin"), &"--format", &"json"]));
    fs::write(place.file("k.json"), &report.stdout).unwrap();
    place.clean(&args(&[&"diff", &place.file("k.json"), &place.file("other.cubin")]));
    let surrogate = stdout(&report).replacen("z\"", "\\ud800\"", 1);
    fs::write(place.file("k.json"), surrogate).unwrap();
    place.clean(&args(&[&"diff", &place.file("k.json"), &place.file("other.cubin")]));
}

#[test]
fn a_hostile_ptx_and_a_ptxas_that_says_anything() {
    let place = Place::new();
    let ptx = place.file("k.ptx");
    let with = args(&[&ptx, &"--arch", &"sm_90", &"--ptxas", &place.ptxas]);
    in_every_format(&place, &[], &with);
    in_every_format(&place, &["annotate"], &with);
    // Names of variables are the file's, too.
    let waits = fs::read_to_string(root("testdata/ptx/hopper_warp_specialised.ptx")).unwrap();
    let drawn = place.file("drawn.ptx");
    fs::write(&drawn, waits.replace("empty", "e$</title>").replace("gemm_specialised", "k\u{202e}\u{1b}[8m")).unwrap();
    in_every_format(&place, &["timeline"], &args(&[&drawn]));
    in_every_format(&place, &["cost"], &with);
    for failure in ["exit 1", "kill -9 $$", "echo x >output.cubin", "true"] {
        place.ptxas(failure);
        place.clean(&with);
        place.clean(&[args(&[&"disasm"]), with.clone()].concat());
        place.clean(&[args(&[&"matrix"]), with.clone()].concat());
        place.clean(&[args(&[&"gate", &"--update"]), with.clone()].concat());
    }
}

#[test]
fn a_gate_over_hostile_names_policies_and_baselines() {
    let place = Place::new();
    let cubin = place.file("k.cubin");
    let lock = place.folder.path().join("lock.json");
    let update = place.clean(&args(&[&"gate", &cubin, &"--baseline", &lock, &"--update"]));
    assert_eq!(update.status.code(), Some(0), "{}", stderr(&update));
    let text = fs::read_to_string(&lock).unwrap();
    check("the baseline", text.as_bytes(), false, false);
    // Nothing is to be updated a second time.
    let again = place.clean(&args(&[&"gate", &cubin, &"--baseline", &lock, &"--update"]));
    assert!(stdout(&again).contains("up to date"), "{}", stdout(&again));
    let policy = place.folder.path().join("policy.toml");
    let string = format!("\"{}\"", TEXT.chars().map(|c| format!("\\U{:08X}", u32::from(c))).collect::<String>());
    let rule = "[[rule]]\nkernel = \"*\"\nbudgets = [\"registers <= 1\"]\n";
    let allowance = format!("[[allow]]\nkernel = {string}\nmetric = \"registers\"\nreason = {string}\n");
    let with = args(&[&cubin, &"--baseline", &lock, &"--policy", &policy]);
    fs::write(&policy, format!("{rule}{allowance}")).unwrap();
    in_every_format(&place, &["gate"], &with);
    for wrong in
        [format!("x = {TEXT}"), format!("{string} = 1\n"), format!("arch = [{string}]"), rule.replace('1', &string)]
    {
        fs::write(&policy, wrong).unwrap();
        place.clean(&[args(&[&"gate"]), with.clone()].concat());
    }
    // Figures that are worse than a baseline's, which also names an architecture and units that are not there.
    let worse =
        text.replace("\"registers\": ", "\"registers\": 1").replace("\"instructions\": ", "\"instructions\": 9");
    for baseline in [
        text.clone(),
        worse,
        text.replace("sm_90", "sm_90|<b>\\u202e\\u001b"),
        text.replace("k.cubin", "\\u001b\\n::error::"),
        format!("{{{TEXT}"),
    ] {
        fs::write(&lock, baseline).unwrap();
        in_every_format(&place, &["gate"], &args(&[&cubin, &"--baseline", &lock]));
    }
}

#[test]
fn what_cannot_be_done_is_said_cleanly() {
    let place = Place::new();
    let bad = OsString::from_vec(FOLDER.to_vec());
    let absent = place.file("absent.ptx");
    for list in [
        args(&[&absent]),
        args(&[&"list", &absent]),
        args(&[&"diff", &absent, &absent]),
        args(&[&"gate", &absent]),
        args(&[&"gate", &"--policy", &absent]),
        args(&[&"gate", &"--baseline", &absent, &place.file("k.cubin")]),
        args(&[&"occupancy", &"--batch", &absent]),
        args(&[&"explain", &TEXT]),
        args(&[&"toolchain", &"path", &TEXT]),
        args(&[&place.file("k.cubin"), &"--kernel", &TEXT]),
        args(&[&place.file("k.cubin"), &"--arch", &TEXT]),
        args(&[&place.file("k.ptx"), &"--ptxas", &TEXT]),
        args(&[&place.file("k.ptx"), &"--ptxas", &absent]),
        args(&[&place.file("k.cubin"), &"-o", &absent.join("x")]),
        args(&[&place.file("k.cubin"), &format!("--{TEXT}")]),
        args(&[&place.file("k.cubin"), &"--format", &TEXT]),
        vec![OsString::from("extract"), place.file("k.cubin").into(), "--nothing".into(), bad],
    ] {
        let output = place.clean(&list);
        assert_eq!(output.status.code(), Some(2), "{list:?}: {}", stderr(&output));
    }
    let batch = place.file("launches");
    fs::write(
        &batch,
        format!(
            "{}\n{{\"arch\": \"\u{202e}\u{9b}##[x]\", \"registers\": 1, \"\u{200b}\": 1}}\n",
            TEXT.replace('\r', "")
        ),
    )
    .unwrap();
    place.clean(&args(&[&"occupancy", &"--batch", &batch]));
}

/// `annotate --format ptx` of PTX with harmful comments is PTX that compiles to the same code.
#[test]
fn annotated_ptx_still_compiles() {
    let Some(ptxas) = support::ptxas() else { return };
    let place = Place::new();
    let source = fs::read_to_string(root("testdata/ptx/spills.ptx")).unwrap();
    let comment: String = TEXT.replace("*/", "");
    let ptx = source.replacen(".version", &format!("/* {comment}\n::error::x */ .version"), 1);
    let ptx = ptx
        .replace("ret;", &format!("ret; // {comment} \\x"))
        .replace("\tld.global", "\x0cld.global")
        .replace('\n', "\r\n");
    let path = place.file("odd.ptx");
    fs::write(&path, ptx).unwrap();
    let flags = |path: &Path| args(&[&path, &"--arch", &"sm_80", &"--ptxas", &ptxas]);
    let annotated = place.clean(&[args(&[&"annotate", &"--format", &"ptx"]), flags(&path)].concat());
    assert_eq!(annotated.status.code(), Some(0), "{}", stderr(&annotated));
    let again = place.file("again.ptx");
    fs::write(&again, &annotated.stdout).unwrap();
    let code = |path: &Path| {
        let output = place.run(&[args(&[&"disasm", &"--hex"]), flags(path)].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let words = stdout(&output);
        let words: Vec<String> =
            words.lines().filter_map(|line| Some(line.split("/* 0x").nth(1)?.to_owned())).collect();
        assert!(words.len() > 100, "{words:?}");
        words
    };
    assert_eq!(code(&path), code(&again));
}

/// What a line table names is shown only from under the working folder or `--source-root`.
#[test]
fn a_page_shows_no_file_of_elsewhere() {
    let outer = tempfile::tempdir().unwrap();
    let work = outer.path().join("work");
    fs::create_dir(&work).unwrap();
    let secret = outer.path().join("culprits.cu");
    fs::write(&secret, "SECRET\n".repeat(200)).unwrap();
    let original = fs::read(root("testdata/cubin/culprits-13.4-sm_90.cubin")).unwrap();
    fs::write(work.join("k.cubin"), &original).unwrap();
    let text = |list: &[&str]| {
        let output = program().current_dir(&work).args(list).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let link = work.join("culprits.cu");
    std::os::unix::fs::symlink("../culprits.cu", &link).unwrap();
    for list in [
        &["k.cubin", "--format", "html", "--source-root", "."][..],
        &["annotate", "k.cubin", "--format", "html", "--source-root", "."],
        &["annotate", "k.cubin", "--by", "source", "--source-root", "."],
        &["annotate", "k.cubin", "--by", "source", "--format", "json", "--source-root", "."],
        &["annotate", "k.cubin", "--by", "source"],
    ] {
        let shown = text(list);
        assert!(!shown.contains("SECRET"), "{list:?}");
        let said = shown.contains("outside of the working folder") || shown.contains("\"outside\"");
        assert!(said, "{list:?}");
    }
    // Allowed where it is asked for.
    assert!(text(&["annotate", "k.cubin", "--by", "source", "--source-root", ".."]).contains("SECRET"));
    fs::remove_file(&link).unwrap();
    fs::write(&link, "OWN\n".repeat(200)).unwrap();
    assert!(text(&["annotate", "k.cubin", "--by", "source", "--source-root", "."]).contains("OWN"));
}

/// A compiler's cache has a cubin's PTX and options beside it; a link in their place leads to no other file.
#[test]
fn what_lies_beside_a_cubin_is_no_link() {
    let outer = tempfile::tempdir().unwrap();
    let work = outer.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::write(outer.path().join("secret.ptx"), "// SECRET\n".repeat(2000)).unwrap();
    fs::write(outer.path().join("secret.json"), "{\"name\": \"SECRET\"}").unwrap();
    fs::copy(root("testdata/cubin/culprits-13.4-sm_90.cubin"), work.join("k.cubin")).unwrap();
    let shown = |list: &[&str]| stdout(&program().current_dir(&work).args(list).output().unwrap());
    let all: [&[&str]; 4] = [
        &["annotate", "."],
        &["annotate", ".", "--format", "html"],
        &["list", ".", "--format", "json"],
        &[".", "--format", "json"],
    ];
    fs::copy(outer.path().join("secret.json"), work.join("k.json")).unwrap();
    assert!(shown(all[2]).contains("SECRET"), "a file of its own is shown");
    fs::remove_file(work.join("k.json")).unwrap();
    for kind in ["ptx", "json"] {
        std::os::unix::fs::symlink(format!("../secret.{kind}"), work.join(format!("k.{kind}"))).unwrap();
    }
    for list in all {
        assert!(!shown(list).contains("SECRET"), "{list:?}");
    }
}
