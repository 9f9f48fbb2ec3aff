//! With shell scripts that pretend to be a ptxas in trouble, and with the real one where the machine has it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::*;
use crate::toolchain::{Origin, Preparation, Request, find};

/// Makes the smallest cubin that passes for one.
const CUBIN_MADE: &str = "{ printf '\\177ELF\\002'; head -c 59 /dev/zero; } >output.cubin";

const PTX: &[u8] = b".version 7.8\n.target sm_75\n.address_size 64\n.visible .entry k() { ret; }\n";

/// A folder for scripts and one for temporary files, which must be empty in the end.
struct Place {
    folder: tempfile::TempDir,
    env: Env,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let temporary = folder.path().join("tmp");
        fs::create_dir(&temporary).unwrap();
        let env = Env::new(std::env::vars_os(), folder.path().to_owned(), temporary);
        Place { folder, env }
    }

    fn script(&self, body: &str) -> Ptxas {
        let path = self.folder.path().join("ptxas");
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        set_mode(&path, 0o755);
        Ptxas::new(path, Origin::Argument, Some(Version::new(1, 2, 3)))
    }

    fn run(&self, ptxas: &Ptxas, job: &Job<'_>) -> Result<Output, RunError> {
        let result = run(ptxas, job, &self.env);
        let left: Vec<_> = fs::read_dir(&self.env.temp_dir).unwrap().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        result
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}

fn job() -> Job<'static> {
    Job { ptx: PTX, arch: Arch::new(75), flags: &[], timeout: Some(Duration::from_secs(60)), relocatable: false }
}

#[test]
fn what_a_good_ptxas_gives_comes_back() {
    let place = Place::new();
    let body = r#"echo "ptxas info    : on stdout"; echo "ptxas info    : $*" >&2; pwd >&2; [ -t 0 ] && exit 9
        {cubin}; tail -c 5 input.ptx >>output.cubin"#
        .replace("{cubin}", CUBIN_MADE);
    let output = place.run(&place.script(&body), &Job { ptx: b"a\r\nb\r\n\0", ..job() }).unwrap();
    assert!(output.cubin.starts_with(b"\x7fELF") && output.cubin.ends_with(b"\0a\nb\n"));
    assert_eq!(output.prepared, [Preparation::TrailingNul { count: 1 }, Preparation::CarriageReturns { lines: 2 }]);
    assert_eq!(output.arguments, ["-v", "-lineinfo", "-arch=sm_75"]);
    assert_eq!(output.version, Some(Version::new(1, 2, 3)));
    let mut lines = output.log.lines();
    assert_eq!(lines.next(), Some("ptxas info    : on stdout"));
    assert_eq!(lines.next(), Some("ptxas info    : -v -lineinfo -arch=sm_75 -o output.cubin input.ptx"));
    assert!(lines.next().unwrap().starts_with(place.env.temp_dir.canonicalize().unwrap().to_str().unwrap()));
}

#[test]
fn a_hanging_ptxas_is_stopped_with_all_it_started() {
    let place = Place::new();
    let marker = place.folder.path().join("grandchild");
    // The grandchild holds the pipe open and would outlive its parent.
    let body = format!("echo started; (sleep 1; echo late >{}) & sleep 60", marker.display());
    let started = Instant::now();
    let error =
        place.run(&place.script(&body), &Job { timeout: Some(Duration::from_millis(300)), ..job() }).unwrap_err();
    assert!(matches!(&error, RunError::TimedOut { .. }), "{error}");
    assert_eq!(error.failure().unwrap().log, "started\n");
    assert!(error.to_string().contains("0.3 s") && error.to_string().contains("--timeout"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    std::thread::sleep(Duration::from_millis(1200));
    assert!(!marker.exists(), "the grandchild lived on");
}

#[test]
fn a_ptxas_whose_version_cannot_be_asked_costs_no_more_than_the_timeout() {
    let place = Place::new();
    let script = place.script("sleep 60");
    let unknown = Ptxas::new(script.path, Origin::Argument, None);
    let started = Instant::now();
    let error = place.run(&unknown, &Job { timeout: Some(Duration::from_millis(300)), ..job() }).unwrap_err();
    assert!(matches!(&error, RunError::TimedOut { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[test]
fn a_child_left_behind_by_a_ptxas_that_ended_is_stopped() {
    let place = Place::new();
    let started = Instant::now();
    let output = place.run(&place.script(&format!("sleep 60 & {CUBIN_MADE}")), &job()).unwrap();
    assert_eq!(output.cubin.len(), 64);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[test]
fn a_crash_is_named() {
    let place = Place::new();
    let error =
        place.run(&place.script("echo 'ptxas input.ptx, line 2; fatal   : x'; kill -SEGV $$"), &job()).unwrap_err();
    assert!(matches!(&error, RunError::Killed { signal: 11, .. }), "{error}");
    assert!(error.to_string().starts_with("ptxas was killed by signal 11"), "{error}");
    assert!(error.failure().unwrap().log.contains("line 2; fatal"));
}

#[test]
fn a_rejection_keeps_the_log() {
    let place = Place::new();
    let error = place.run(&place.script("echo 'ptxas fatal   : no' >&2; exit 255"), &job()).unwrap_err();
    assert!(matches!(&error, RunError::Rejected { code: 255, .. }), "{error}");
    assert_eq!(error.failure().unwrap().log, "ptxas fatal   : no\n");
}

#[test]
fn success_without_a_cubin_is_no_success() {
    let place = Place::new();
    let error = place.run(&place.script("true"), &job()).unwrap_err();
    assert!(matches!(&error, RunError::NoCubin { .. }), "{error}");
    let error = place.run(&place.script("echo rubbish >output.cubin"), &job()).unwrap_err();
    assert!(matches!(&error, RunError::NotElf { found, .. } if found.contains("rubbish")), "{error}");
    let error = place.run(&place.script(": >output.cubin"), &job()).unwrap_err();
    assert!(matches!(&error, RunError::NotElf { found, .. } if found == "an empty file"), "{error}");
    let error = place.run(&place.script("mkdir output.cubin"), &job()).unwrap_err();
    assert!(matches!(&error, RunError::Io { action: "read", .. }), "{error}");
}

/// Its version is asked for where it may leave what it likes.
#[test]
fn whatever_it_writes_goes_away() {
    let place = Place::new();
    let ptxas = place.script(r#"echo "$PWD" >>"$0.folders"; echo >litter; exit 1"#);
    let ptxas = Ptxas::new(ptxas.path, Origin::Argument, None);
    place.run(&ptxas, &job()).unwrap_err();
    let folders = fs::read_to_string(place.folder.path().join("ptxas.folders")).unwrap();
    assert_eq!(folders.lines().count(), 2, "{folders}");
    assert!(folders.lines().all(|folder| folder.contains("/tmp/ptxinspect-")), "{folders}");
}

#[test]
fn megabytes_of_rubbish_neither_block_nor_grow() {
    let place = Place::new();
    let body = format!("dd if=/dev/zero bs=1048576 count=80 2>/dev/null; printf '\\377\\376'; {CUBIN_MADE}");
    let output = place.run(&place.script(&body), &job()).unwrap();
    assert_eq!(output.log.len() as u64 + output.log_cut_bytes, (80 << 20) + 2);
    assert_eq!(output.log.len(), 64 << 20);
    let error = place.run(&place.script("exec yes"), &Job { timeout: None, ..job() }).unwrap_err();
    assert!(matches!(&error, RunError::Flooded { .. }), "{error}");
}

#[test]
fn what_cannot_be_started_says_why() {
    let place = Place::new();
    let expect = |path: PathBuf, words: &str| {
        let error = place.run(&Ptxas::new(path, Origin::Argument, None), &job()).unwrap_err();
        assert!(matches!(&error, RunError::Start { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error} does not say {words}");
    };
    expect(place.folder.path().to_owned(), "it is a folder");
    expect(place.folder.path().join("nothing"), "no such file");
    let script = place.script("true").path;
    set_mode(&script, 0o644);
    expect(script.clone(), "chmod +x");
    fs::write(&script, b"\x7fELF\x02\x01\x01 cut off").unwrap();
    set_mode(&script, 0o755);
    expect(script.clone(), "built for this kind of machine");
    fs::write(&script, b"#!/no/such/interpreter\n").unwrap();
    expect(script, "loader or interpreter");
}

#[test]
fn a_temporary_folder_that_cannot_be_made_is_named() {
    let place = Place::new();
    let mut env = place.env.clone();
    env.temp_dir = place.folder.path().join("missing");
    let error = run(&place.script("true"), &job(), &env).unwrap_err();
    assert!(error.to_string().contains("missing") && error.to_string().contains("TMPDIR"), "{error}");
}

#[test]
fn inputs_that_are_no_ptx_never_reach_ptxas() {
    let place = Place::new();
    let ptxas = place.script("echo started >&2; exit 1");
    for ptx in [&b""[..], b"\0\0", b"\xff\xfe.\0", b"\x7fELF\0\0\0\x01"] {
        let error = place.run(&ptxas, &Job { ptx, ..job() }).unwrap_err();
        assert!(matches!(error, RunError::Input(_)), "{error}");
    }
}

#[test]
fn the_version_comes_from_the_cubin_or_from_asking() {
    let place = Place::new();
    let unknown = |body: &str| Ptxas::new(place.script(body).path, Origin::Argument, None);
    let signed = "echo called >>../../calls; {cubin}; printf '\\0ptxas\\0Cuda compilation tools, release 13.4, V13.4.92\\0Build' >>output.cubin";
    let signed = signed.replace("{cubin}", CUBIN_MADE);
    assert_eq!(place.run(&unknown(&signed), &job()).unwrap().version, Some(Version::new(13, 4, 92)));
    assert_eq!(fs::read_to_string(place.folder.path().join("calls")).unwrap(), "called\n");
    let said = "echo 'Cuda compilation tools, release 12.4, V12.4.131'";
    let ptxas = unknown(&format!("case $1 in --version) {said} ;; *) {CUBIN_MADE} ;; esac"));
    assert_eq!(place.run(&ptxas, &job()).unwrap().version, Some(Version::new(12, 4, 131)));
    assert_eq!(ptxas.clone().version(), Some(Version::new(12, 4, 131)));
    assert_eq!(place.run(&unknown(CUBIN_MADE), &job()).unwrap().version, None);
}

fn arguments_for(flags: &[&str]) -> Result<Arguments, RunError> {
    let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
    let env = Env::new([], PathBuf::from("/home/me"), PathBuf::from("/tmp"));
    arguments(&Job { flags: &flags, ..job() }, &env)
}

#[test]
fn flags_of_the_user() {
    let ok = |flags: &[&str]| arguments_for(flags).unwrap().given.join(" ");
    assert_eq!(ok(&["-O3", "-maxrregcount", "32"]), "-v -lineinfo -arch=sm_75 -O3 -maxrregcount 32");
    assert_eq!(ok(&["-g"]), "-v -arch=sm_75 -g");
    assert_eq!(ok(&["--device-debug", "-lineinfo"]), "-v -lineinfo -arch=sm_75 --device-debug");
    assert_eq!(ok(&["--generate-line-info", "--verbose", "-v"]), "-v -lineinfo -arch=sm_75");
    assert_eq!(ok(&["--compile-only"]), "-v -lineinfo -arch=sm_75 -c");
    assert_eq!(ok(&["-optf", "a.txt,/b.txt"]), "-v -lineinfo -arch=sm_75 -optf=/home/me/a.txt,/b.txt");
    for refused in
        ["-o", "-o=x", "--output-file=x", "-arch=sm_90", "--gpu-name", "-h", "-V", "--version", "-ias", "b.ptx"]
    {
        let error = arguments_for(&[refused]).unwrap_err();
        assert!(matches!(&error, RunError::Flag { flag, .. } if flag == refused), "{error}");
    }
}

/// A 64-bit file with one section at its end, which `extra` more bytes would fill.
fn elf(extra: u64) -> Vec<u8> {
    let mut file = vec![0; 64 + 64 + 16];
    file[..5].copy_from_slice(b"\x7fELF\x02");
    file[0x28..0x30].copy_from_slice(&64u64.to_le_bytes());
    file[0x3a..0x3e].copy_from_slice(&[64, 0, 1, 0]);
    file[64 + 4] = 1;
    file[64 + 0x18..64 + 0x20].copy_from_slice(&128u64.to_le_bytes());
    file[64 + 0x20..64 + 0x28].copy_from_slice(&(16 + extra).to_le_bytes());
    file
}

#[test]
fn a_cubin_that_was_cut_off_is_noticed() {
    assert_eq!(elf_bytes(&elf(0)), 144);
    assert_eq!(elf_bytes(&elf(1)), 145);
    assert_eq!(elf_bytes(&elf(u64::MAX - 16)), u64::MAX);
    for bytes in 0..144 {
        assert!(elf_bytes(&elf(0)[..bytes]) > bytes as u64, "{bytes}");
    }
    assert_eq!(elf_bytes(&[0xff; 64]), 64);
    let mut wild = vec![0xff; 4096];
    wild[4] = 2;
    assert_eq!(elf_bytes(&wild), u64::MAX);

    let place = Place::new();
    fs::write(place.folder.path().join("cut"), &elf(0)[..100]).unwrap();
    let error = place.run(&place.script("cp ../../cut output.cubin"), &job()).unwrap_err();
    assert!(matches!(&error, RunError::CutOff { found_bytes: 100, expected_bytes: 128, .. }), "{error}");
    assert!(error.to_string().contains("TMPDIR"), "{error}");
}

/// The ptxas of this machine, if it has one.
fn real(place: &Place) -> Option<Ptxas> {
    let found = find(&Request::Auto, &place.env, &|_| {});
    found.map_err(|error| eprintln!("SKIPPED: {error}")).ok()
}

#[test]
fn a_real_ptxas_compiles_and_the_same_input_gives_the_same_bytes() {
    let place = Place::new();
    let Some(ptxas) = real(&place) else { return };
    let first = place.run(&ptxas, &job()).unwrap();
    let log = crate::toolchain::log::parse(&first.log);
    assert_eq!(log.unknown, []);
    assert_eq!(log.functions.len(), 1);
    assert!(log.functions[0].registers.is_some());
    assert!(first.version.is_some_and(|version| version.major >= 11), "{:?}", first.version);
    for bytes in (0..first.cubin.len()).step_by(16) {
        assert!(elf_bytes(&first.cubin[..bytes]) > bytes as u64, "{bytes} of {}", first.cubin.len());
    }
    let second = place.run(&ptxas, &job()).unwrap();
    assert!(first.cubin == second.cubin, "two runs, two cubins");
    let path = place.env.temp_dir.to_str().unwrap();
    assert!(!first.cubin.windows(path.len()).any(|window| window == path.as_bytes()), "a path in the cubin");
}

#[test]
fn a_real_ptxas_takes_what_trips_it_when_prepared() {
    let place = Place::new();
    let Some(ptxas) = real(&place) else { return };
    let plain = place.run(&ptxas, &job()).unwrap();
    let mut tripping = b"\xef\xbb\xbf".to_vec();
    tripping.extend(String::from_utf8(PTX.to_vec()).unwrap().replace('\n', "\r\n").bytes());
    tripping.push(0);
    let output = place.run(&ptxas, &Job { ptx: &tripping, ..job() }).unwrap();
    assert_eq!(output.prepared.len(), 3);
    assert!(output.cubin == plain.cubin, "what was left out made a difference");
    let error = place.run(&ptxas, &Job { ptx: b".version 7.8\n.target sm_75\nbogus\n", ..job() }).unwrap_err();
    let log = crate::toolchain::log::parse(&error.failure().unwrap().log);
    assert!(log.messages.iter().any(|message| message.ptx_line.is_some()), "{log:?}");
}
