//! Files that are neither PTX nor a cubin, named for what they are, with what to do about them.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;

/// How much of a file is looked at.
pub(super) const LOOKED_AT: u64 = 64 << 10;

/// How much of PTX has its first directive, as every compiler writes it.
const START: usize = 2 << 10;

/// Directives of which PTX has one: ptxas says which of the others is missing.
const DIRECTIVES: [&str; 4] = [".version", ".target", ".entry", ".func"];

/// Files that say at their start what they are, and what to do about each.
const MAGIC: [(&[u8], &str, &str); 7] = [
    (b"\x1f\x8b", "compressed by gzip", "unpack it with `gunzip`"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "unpack it with `unzstd`"),
    (b"\xfd7zXZ\0", "compressed by xz", "unpack it with `unxz`"),
    (b"BZh", "compressed by bzip2", "unpack it with `bunzip2`"),
    (b"BC\xc0\xde", "LLVM bitcode", "`llc -march=nvptx64 -mcpu=sm_90` makes PTX of it"),
    (b"\x89PNG", "a picture", "name the PTX or the cubin instead"),
    (b"%PDF", "a document", "name the PTX or the cubin instead"),
];

/// What a file is that does not look like PTX; none where it does, or nothing tells.
pub fn foreign(bytes: &[u8]) -> Option<String> {
    let start = bytes.get(..START).unwrap_or(bytes);
    let is_plain = |byte: &u8| (9..14).contains(byte) || (32..127).contains(byte);
    if start.iter().all(is_plain) && str::from_utf8(start).is_ok_and(|text| has_directive(text, DIRECTIVES[0])) {
        return None;
    }
    let head = bytes.get(..LOOKED_AT as usize).unwrap_or(bytes);
    let not = |what: &str, remedy: &str| Some(format!("it is {what}: expected PTX text or a cubin; {remedy}"));
    if let Some((_, what, remedy)) = MAGIC.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return not(what, remedy);
    }
    if head.get(257..262) == Some(b"ustar") {
        return not("a tar archive", "unpack it, and give the folder");
    }
    if matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) || is_wide(head) {
        return not("UTF-16 text", "save it as UTF-8, such as with `iconv -f UTF-16 -t UTF-8`");
    }
    // A front end may end its PTX with a NUL, and names may have bytes of any encoding.
    let controls = head.iter().filter(|&&byte| byte < 9 || (14..32).contains(&byte)).count();
    if controls * 20 > head.len() && controls > 1 {
        return not("binary data of no kind that is known", "libraries, archives, wheels and folders can be given too");
    }
    let text = String::from_utf8_lossy(head);
    if DIRECTIVES.iter().any(|directive| has_directive(&text, directive)) {
        return None;
    }
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&["tt.func", "ttg.", "ttng.", "triton_gpu."]) {
        return not("Triton's IR", "its PTX lies beside it in Triton's cache, as NAME.ptx");
    }
    if has(&["target triple", "target datalayout"]) || text.lines().any(|line| line.starts_with("define ")) {
        return not("LLVM IR", "`llc -march=nvptx64 -mcpu=sm_90` makes PTX of it");
    }
    if has(&["llvm.func", "gpu.module", "func.func", "nvvm.", "gpu.func"]) {
        return not("MLIR", "translate it to LLVM IR and that to PTX first");
    }
    if has(&["__global__", "__device__", "#include", "cuda_runtime"]) {
        return not("CUDA C++", "`nvcc -ptx -lineinfo` makes PTX of it, `nvcc -cubin` a cubin");
    }
    if text.trim_start().starts_with(['{', '[']) && has(&["\":", "\" :"]) {
        return not("JSON", "`ptxinspect diff` compares reports in JSON");
    }
    if text.lines().any(|line| line.starts_with("import ") || line.starts_with("from ") || line.starts_with("def ")) {
        return not(
            "Python",
            "`ptxinspect ~/.triton/cache` shows what Triton compiled; the Python package compiles kernels",
        );
    }
    not("text without a directive of PTX", "PTX begins with .version and .target")
}

/// EM_AMDGPU.
const MACHINE_AMD: u16 = 224;

/// Says that inputs hold no GPU code, of a single one what it is, and what to do.
pub fn without_gpu_code(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let names = names.join(", ");
    let mut head = [0; 20];
    let is_read = match paths {
        [only] => File::open(only).and_then(|mut file| file.read_exact(&mut head)).is_ok(),
        _ => false,
    };
    let is_elf = is_read && head.starts_with(b"\x7fELF");
    let [.., low, high] = head;
    let looked_for = "a cubin, a fatbin or PTX";
    if is_elf && u16::from_le_bytes([low, high]) == MACHINE_AMD {
        return format!("there is no GPU code of NVIDIA in {names}: it is for AMD's GPUs; expected {looked_for}");
    }
    if is_elf {
        return format!(
            "there is no GPU code in {names}: it is a program or library without {looked_for}; name the one that has the \
             kernels, or give --scan to search all of its bytes"
        );
    }
    format!("there is no GPU code in {names}: nothing in it is {looked_for}; name a file or folder that has some")
}

/// Whether a text has a directive, and not only a name that ends like it: `ttg.target`.
fn has_directive(text: &str, directive: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '"';
    text.match_indices(directive).any(|(at, _)| !text[..at].ends_with(part))
}

/// Whether every other byte is a NUL, as in UTF-16 without a mark at its start.
fn is_wide(head: &[u8]) -> bool {
    let pairs = head.len() / 2;
    let zeros = |from: usize| head.iter().skip(from).step_by(2).filter(|&&byte| byte == 0).count();
    pairs >= 8 && (zeros(0) * 10 > pairs * 9 || zeros(1) * 10 > pairs * 9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ptx_is_named() {
        let wide: Vec<u8> = ".version 8.0\n.target sm_90\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let noise: Vec<u8> = (0..2000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for (bytes, what) in [
            (&b"__global__ void k() {}"[..], "CUDA C++"),
            (b"module attributes {ttg.target = \"cuda:90\"} { tt.func public @k() { tt.return } }", "Triton's IR"),
            (b"module { llvm.func @k() { llvm.return } }", "MLIR"),
            (b"define void @k() {\n ret void\n}", "LLVM IR"),
            (b"target datalayout = \"e\"\ndeclare i32 @llvm.nvvm.read.ptx.sreg.tid.x()", "LLVM IR"),
            (b"\x1f\x8b\x08\0", "compressed by gzip"),
            (b"BC\xc0\xde5\x14", "LLVM bitcode"),
            (b"{\"a\": 1}", "JSON"),
            (b"import triton\n", "Python"),
            (b"hello", "text without a directive of PTX"),
            (&wide, "UTF-16"),
            (&noise, "binary data"),
        ] {
            let said = foreign(bytes).unwrap();
            assert!(said.starts_with(&format!("it is {what}")), "{said}");
            assert!(said.contains("expected PTX text or a cubin; "), "{said}");
        }
        assert_eq!(foreign(b"// made by nvcc\n.version 8.0\n.target sm_90\n\0"), None);
        assert_eq!(foreign(b".version 8.0"), None);
        assert_eq!(foreign(b".visible .entry k() { ret; }"), None);
    }
}
