//! Mistakes that people make, each answered by what is wrong and what to do.

mod support;

use std::fs;
use std::path::Path;

use support::{program, ptxas, root, stderr, stdout};

/// What is typed, and what of the answer has to be there.
type Mistake<'a> = (&'a [&'a str], &'a [&'a str]);

/// Files of all kinds but the right one.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).expect("a file");
    let wide: Vec<u8> = ".version 8.0\n.target sm_90\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let noise: Vec<u8> = (0..2000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    write("k.cu", b"__global__ void k(float *p) { *p = 1; }\n");
    write("k.ttgir", b"module attributes {ttg.target = \"cuda:90\"} { tt.func public @k() { tt.return } }\n");
    write("k.ll", b"target triple = \"nvptx64\"\ndefine void @k() { ret void }\n");
    write("k.llir", b"; ModuleID = 'k'\ntarget datalayout = \"e\"\ndeclare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n");
    write("k.bc", b"BC\xc0\xde5\x14\0\0");
    write("spills.ptx.gz", b"\x1f\x8b\x08\0\0\0\0\0\0\x03");
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    write("k.tar", &tar);
    write("k.py", b"import triton\n");
    write("k.json", b"{\"a\": 1}\n");
    write("wide.ptx", &wide);
    write("noise.bin", &noise);
    write("empty.ptx", b"");
    write("no-target.ptx", b".version 8.0\n.address_size 64\n");
    let cubin = fs::read(root("testdata/cubin/culprits-12.4-sm_80.cubin")).expect("a cubin");
    write("cut.cubin", &cubin[..100]);
    write("whole.cubin", &cubin);
    write("cut.whl", b"PK\x03\x04");
    // EM_AMDGPU, and a program of the CPU.
    let elf = |machine: u8| {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(64, 0);
        (bytes[16], bytes[18], bytes[20]) = (3, machine, 1);
        bytes
    };
    write("amd.hsaco", &elf(224));
    write("program", &elf(62));
    fs::create_dir(folder.path().join("nothing")).expect("a folder");
    let ptx = |name: &str| fs::read(root("testdata/ptx").join(name)).expect("PTX");
    write("spills.ptx", &ptx("spills.ptx"));
    write("hopper.ptx", &ptx("hopper_warp_specialised.ptx"));
    folder
}

fn check(at: &Path, (typed, wanted): &Mistake<'_>) {
    let output = program().args(*typed).current_dir(at).output().expect("the program");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{typed:?}: {said}");
    let all = format!("{said}{}", stdout(&output));
    for part in *wanted {
        assert!(all.contains(part), "{typed:?} says\n{all}\nwithout {part:?}");
    }
}

#[test]
fn what_needs_no_ptxas() {
    let folder = folder();
    let mistakes: &[Mistake<'_>] = &[
        (&["k.cu"], &["CUDA C++", "nvcc -ptx"]),
        (&["k.ttgir"], &["Triton's IR", "beside it"]),
        (&["k.ll"], &["LLVM IR", "llc"]),
        (&["k.py"], &["Python", "~/.triton/cache"]),
        (&["k.json"], &["JSON", "diff"]),
        (&["wide.ptx"], &["UTF-16", "UTF-8"]),
        (&["noise.bin"], &["binary data", "expected PTX text or a cubin"]),
        (&["empty.ptx"], &["empty", "expected PTX text or a cubin"]),
        (&["no-target.ptx"], &["no .target", "--arch"]),
        (&["cut.cubin"], &["cut off"]),
        (&["cut.whl"], &["cut off", "get it again"]),
        (&["nothing"], &["no GPU code in nothing", "name a file or folder that has some"]),
        (&["amd.hsaco"], &["no GPU code of NVIDIA in amd.hsaco", "AMD"]),
        (&["program"], &["no GPU code in program", "--scan"]),
        (&["size", "program"], &["no GPU code in program", "--scan"]),
        (&["gone.ptx"], &["cannot open gone.ptx", "there is no such file"]),
        (&["spilss.ptx"], &["did you mean spills.ptx?"]),
        (&["list", "spills.ptc"], &["did you mean spills.ptx?"]),
        (&["away/spills.ptx"], &["there is no folder away"]),
        (&["report", "spills.ptx"], &["the report needs none, as in `ptxinspect spills.ptx`"]),
        (&["timeline", "spills.ptx", "hopper.ptx"], &["one input is all that this command takes"]),
        (&["diff", "spills.ptx", "hopper.ptx", "empty.ptx"], &["it takes two inputs at most"]),
        (&["gate", "--merge", "part-*.json"], &["cannot open part-*.json", "no file matches the pattern"]),
        (&["spills.ptx", "--top", "x"], &["expected a whole number"]),
        (&["man", "dif"], &["did you mean diff?"]),
        (&["anotate", "spills.ptx"], &["did you mean `ptxinspect annotate`?"]),
        (&["size", "spills.ptx", "--by", "templat"], &["template"]),
        (&["occupency", "--arch", "sm_90"], &["did you mean `ptxinspect occupancy`?"]),
        (&["spills.ptx", "--kernal", "x"], &["--kernel"]),
        (&["spills.ptx", "--format", "jsn"], &["json"]),
        (&["spills.ptx", "--no-cache"], &["'--no-cache' is an argument of gate, diff, matrix, tune"]),
        (&["spills.ptx", "--maxrregcount", "64"], &["flags of ptxas come last, after '--': '-- --maxrregcount=64'"]),
        (&["spills.ptx", "--deny", "bogus"], &["'bogus' is not a code", "did you mean"]),
        (&["spills.ptx", "--deny", "PI999"], &["'PI999' is not a code", "did you mean PI"]),
        (&["spills.ptx", "--deny", "spill"], &["did you mean spills?"]),
        (&["gate", "spills.ptx", "--deny", "C75O8"], &["did you mean C7508?"]),
        (&["spills.ptx", "--arch", "hopper"], &["'hopper' is not an architecture", "sm_90a"]),
        (&["spills.ptx", "--ptxas", "./ptxas"], &["there is no file"]),
        (&["explain", "PI299"], &["did you mean PI20"]),
        (&["explain", "C7058"], &["did you mean C7508?"]),
        (&["explain", "C0001"], &["no page for 'C0001': expected a code such as C7508"]),
        (&["occupancy", "--arch", "sm_99", "--registers", "8", "--threads", "32"], &["expected one of sm_75"]),
        (&["diff", "spills.ptx"], &["name a second input"]),
        (&["gate"], &["name PTX files or cubins"]),
        (&["matrix", "spills.ptx", "--sweep", "maxrregcount"], &["maxrregcount=64..255:8"]),
        (&["spills.ptx.gz"], &["compressed by gzip", "gunzip"]),
        (&["k.tar"], &["a tar archive", "unpack it"]),
        (&["k.bc"], &["LLVM bitcode", "llc"]),
        (&["k.llir"], &["LLVM IR", "llc"]),
        (&["spills.ptx", "--at", "here"], &["expected the number of a line", "185"]),
        (&["spills.ptx", "--smem-dynamic", "1GB"], &["expected a number of bytes", "160K"]),
        (&["spills.ptx", "--threads", "2048"], &["a block has 1 to 1024 threads"]),
        (&["spills.ptx", "--deny", "spills,"], &["leave the comma out"]),
        (&["spills.ptx", "--ptxas", "newest"], &["expected a version, such as 13.4, or a path"]),
        (&["matrix", "spills.ptx", "--ptxas", "13.4..12.0"], &["expected the older one first, 12.0..13.4"]),
        (&["gate", "spills.ptx", "--shard", "5/3"], &["there is no shard 5 of 3: expected 1 to 3"]),
        (&["annotate", "spills.ptx", "--lines", "20..10"], &["expected A..B", "A at most B"]),
        (&["cost", "spills.ptx", "--warps", "0"], &["expected 1 to 16"]),
        (&["explain", "idesc", "zz"], &["expected a number, such as 0x8200490"]),
        (&["history", "gone.jsonl"], &["`ptxinspect gate --record gone.jsonl` writes it"]),
        (&["man", "nothing"], &["expected one of annotate"]),
        (&["help"], &["`ptxinspect --help`"]),
        (&["help", "diff"], &["`ptxinspect diff --help`"]),
        (&["extract", "whole.cubin", "-o", "k.py"], &["k.py is a file: name a folder"]),
        (&["list", "k.cu"], &["CUDA C++", "nvcc -ptx"]),
        (&["size", "k.cu"], &["CUDA C++", "nvcc -ptx"]),
        (&["extract", "k.cu"], &["CUDA C++", "nvcc -ptx"]),
        (&["list", "k.py"], &["Python", "~/.triton/cache"]),
        (
            &["whole.cubin", "--", "-O1"],
            &["compiled already", "the flags after -- (-O1) change nothing", "give the PTX"],
        ),
        (&["annotate", "whole.cubin", "--", "-O1"], &["compiled already", "give the PTX"]),
        (&["disasm", "whole.cubin", "--", "-O1"], &["compiled already", "give the PTX"]),
        (&["cost", "whole.cubin", "--", "-O1"], &["compiled already", "give the PTX"]),
        (
            &["matrix", "whole.cubin", "--sweep", "maxrregcount=64,128"],
            &["compiled already: --sweep changes nothing of it", "give the PTX"],
        ),
        (
            &["matrix", "whole.cubin", "--ptxas", "12.9", "--arch", "sm_90", "--", "-O1"],
            &["--arch, --ptxas and flags after -- change nothing of it"],
        ),
        (&["gate", "spills.ptx"], &["nothing to compare with", "the same command with --update"]),
        (
            &["gate", "spills.ptx", "--baseline", "k.json"],
            &["it has no \"schema\"; restore it", "delete it and record it anew"],
        ),
    ];
    mistakes.iter().for_each(|mistake| check(folder.path(), mistake));
}

#[test]
fn what_ptxas_has_a_part_in() {
    if ptxas().is_none() {
        return;
    }
    let folder = folder();
    let mistakes: &[Mistake<'_>] = &[
        (&["spills.ptx", "--arch", "sm_99", "--ptxas", "13.4"], &["this ptxas has sm_75, sm_80"]),
        (&["hopper.ptx", "--arch", "sm_80", "--ptxas", "13.4"], &["its .target is sm_90a", "--arch sm_90a"]),
        (&["hopper.ptx", "--arch", "sm_90", "--ptxas", "13.4"], &["its .target is sm_90a", "--arch sm_90a"]),
        (&["hopper.ptx", "--arch", "sm_100", "--ptxas", "13.4"], &["its .target is sm_90a", "--arch sm_90a"]),
        (
            &["matrix", "spills.ptx", "--ptxas", "13.4", "--sweep", "bogus=1,2"],
            &["error: 2 of 2 builds", "Unknown option"],
        ),
        (&["spills.ptx", "--at", "99999", "--ptxas", "13.4"], &["--at 99999", "expected 1 to"]),
        (&["annotate", "spills.ptx", "--lines", "5000..6000", "--ptxas", "13.4"], &["expected lines from 1 to"]),
        (&["spills.ptx", "--kernel", "spill_strom", "--ptxas", "13.4"], &["it has spill_storm"]),
        (&["spills.ptx", "--ptxas", "13.4", "--", "--bogus"], &["Unknown option"]),
        (&["spills.ptx", "--ptxas", "13.4", "--", "--maxregcount", "64"], &["did you mean --maxrregcount?"]),
        (&["spills.ptx", "--ptxas", "13.4", "-o", "gone/report.txt"], &["cannot write gone/report.txt"]),
        (&["spills.ptx", "--ptxas", "13.4", "-o", "spills.ptx"], &["would overwrite the input spills.ptx"]),
        (&["spills.ptx", "-maxrregcount=32"], &["after '--': '-- -maxrregcount=32'"]),
    ];
    mistakes.iter().for_each(|mistake| check(folder.path(), mistake));
}

/// A folder's cubins are for other architectures than the one asked for: the answer names theirs.
#[test]
fn the_architectures_that_there_are_instead() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["hopper-13.4-sm_90a.cubin", "culprits-12.4-sm_80.cubin"] {
        fs::copy(root("testdata/cubin").join(name), folder.path().join(name)).expect("a copy");
    }
    check(folder.path(), &(&[".", "--arch", "sm_90"], &["is for sm_90: its cubins are for sm_80, sm_90a"]));
}

/// What is asked for and cannot be done is said, and the report is there.
#[test]
fn what_does_nothing_is_said() {
    let file = root("testdata/cubin/culprits-12.4-sm_80.cubin");
    let run = |words: &[&str]| program().args(words).arg(&file).output().expect("the program");
    let asked = run(&["--arch", "sm_90", "--ptxas", "12.9"]);
    assert!(asked.status.success() && stdout(&asked).contains("sm_80"), "{}", stderr(&asked));
    for said in ["it is a cubin for sm_80, which --arch sm_90 does not change", "which --ptxas 12.9 does not change"] {
        assert!(stderr(&asked).contains(said), "{}", stderr(&asked));
    }
    assert_eq!(stderr(&run(&["--arch", "sm_80"])), "");
    let roles = stderr(&run(&["--roles", "producer=4"]));
    assert!(roles.contains("--roles producer does nothing: its warps have no roles of their own"), "{roles}");
    let step = stderr(&run(&["--try-step"]));
    assert!(step.contains("--try-step tried nothing of "), "{step}");
    assert!(step.contains("give --threads"), "{step}");
    if ptxas().is_none() {
        return;
    }
    let folder = folder();
    let asked =
        program().args(["spills.ptx", "--ptxas", "13.4", "--threads", "384"]).current_dir(folder.path()).output();
    let asked = asked.expect("the program");
    let said = "spill_storm: --threads 384 does nothing: its .maxntid allows at most 128 threads a block";
    assert!(stderr(&asked).contains(said), "{}", stderr(&asked));
    assert!(stdout(&asked).contains("blocks of 128 threads"), "{}", stdout(&asked));
}

/// What is said beside the output is no wider than who reads it, and no word is broken.
#[test]
fn errors_are_wrapped_at_spaces() {
    let folder = folder();
    let typed = ["matrix", "whole.cubin", "--sweep", "maxrregcount=64,128"];
    let whole = stderr(&program().args(typed).current_dir(folder.path()).output().expect("the program"));
    assert_eq!(whole.lines().count(), 1, "{whole}");
    for columns in [50, 80] {
        let asked =
            program().args(typed).env("PTXINSPECT_COLUMNS", columns.to_string()).current_dir(folder.path()).output();
        let narrow = stderr(&asked.expect("the program"));
        assert!(narrow.lines().count() > 1 && narrow.lines().all(|line| line.len() <= columns), "{narrow}");
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&narrow), words(&whole));
    }
}

/// Shared memory that no block can have is said, whether or not the size of a block is known.
#[test]
fn more_shared_memory_than_there_is() {
    if ptxas().is_none() {
        return;
    }
    let folder = folder();
    for name in ["spills.ptx", "saxpy.ptx"] {
        fs::copy(root("testdata/ptx").join(name), folder.path().join(name)).expect("a copy");
        let typed = [name, "--arch", "sm_90a", "--ptxas", "13.4", "--smem-dynamic", "400000"];
        let asked = program().args(typed).env("PTXINSPECT_COLUMNS", "200").current_dir(folder.path()).output();
        let asked = asked.expect("the program");
        assert!(stdout(&asked).contains("It cannot be launched: "), "{}", stdout(&asked));
    }
}

/// A program that is no ptxas says something else than ptxas does.
#[cfg(unix)]
#[test]
fn another_program_in_place_of_ptxas() {
    let folder = folder();
    check(folder.path(), &(&["spills.ptx", "--ptxas", "/bin/ls"], &["it names no version of ptxas: is it one?"]));
}

/// An old ptxas crashes over PTX that is newer than it: what it said before is what helps.
#[cfg(unix)]
#[test]
fn a_ptxas_that_crashes_over_what_it_does_not_know() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let script = folder.path().join("ptxas");
    let said = "ptxas input.ptx, line 1; fatal   : Unsupported .version 8.8; current version is '8.0'";
    let version = "ptxas: NVIDIA (R) Ptx optimizing assembler\nCuda compilation tools, release 12.0, V12.0.140";
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && {{ printf '{version}\\n'; exit; }}\necho \"{said}\" >&2\nkill -SEGV $$\n"
    );
    fs::write(&script, text).expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("permissions");
    let wanted: &[&str] = &["Unsupported .version 8.8", "killed by signal 11", "a newer ptxas may: `--ptxas "];
    check(folder.path(), &(&["spills.ptx", "--ptxas", "./ptxas"], wanted));
}

/// Where the sources are is a folder that there is.
#[test]
fn a_source_root_that_is_none() {
    let folder = folder();
    fs::create_dir(folder.path().join("kernels")).expect("a folder");
    let cubin = root("testdata/cubin/culprits-12.4-sm_80.cubin");
    let library = root("testdata/container/zstd.fatbin");
    for words in [&["annotate"][..], &[], &["annotate", "--by", "source"]] {
        for input in [&cubin, &library] {
            let input = input.to_str().expect("a path in UTF-8");
            let typed = |root: &'static str| [words, &[input, "--source-root", root]].concat();
            check(folder.path(), &(&typed("kernel"), &["there is no such folder; did you mean kernels?"]));
            check(folder.path(), &(&typed("k.py"), &["--source-root k.py: it is a file"]));
        }
    }
}

#[test]
fn a_folder_of_ptx_alone_is_compiled() {
    if ptxas().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::copy(root("testdata/ptx/spills.ptx"), folder.path().join("spills.ptx")).expect("a copy");
    let output = program().args([".", "--ptxas", "13.4"]).current_dir(folder.path()).output().expect("the program");
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("spill_storm"), "{}", stdout(&output));
    for (words, exit) in [
        (&["gate", ".", "--update"][..], 0),
        (&["gate", "."][..], 0),
        (&["gate", ".", "--deny", "spills"][..], 1),
        (&["matrix", "."][..], 0),
        (&["annotate", "."][..], 0),
    ] {
        let asked = program().args(words).args(["--ptxas", "13.4"]).current_dir(folder.path()).output();
        let asked = asked.expect("the program");
        assert_eq!(asked.status.code(), Some(exit), "{words:?}: {}", stderr(&asked));
    }
}
