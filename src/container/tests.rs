use std::io::Write;
use std::path::{Path, PathBuf};

use super::inflate::Inflated;
use super::*;

fn testdata(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/container").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(super) type Found = Vec<Result<Entry, ContainerError>>;

pub(super) fn look(name: &str, bytes: Vec<u8>) -> Found {
    Container::from_bytes(name, bytes, Options::default()).entries().collect()
}

/// `path kind arch packing bytes`, or `path: problem`.
fn lines(found: &Found) -> Vec<String> {
    let line = |result: &Result<Entry, ContainerError>| match result {
        Ok(e) => {
            let arch = e.arch.map_or_else(|| "?".to_owned(), |arch| arch.to_string());
            format!("{} {} {arch} {} {}", e.path, e.kind.name(), e.compression.name(), e.bytes)
        }
        Err(error) => error.to_string(),
    };
    found.iter().map(line).collect()
}

pub(super) fn errors(found: &Found) -> Vec<String> {
    found.iter().filter_map(|result| result.as_ref().err()).map(ToString::to_string).collect()
}

/// A fatbin around entries.
pub(super) fn fatbin(entries: &[Vec<u8>]) -> Vec<u8> {
    let bytes = entries.concat();
    let mut all = b"\x50\xed\x55\xba\x01\x00\x10\x00".to_vec();
    all.extend((bytes.len() as u64).to_le_bytes());
    all.extend(bytes);
    all
}

/// An entry as `fatbinary` writes it, with a compressed size and a size of choice.
pub(super) fn entry(kind: u16, sm: u32, flags: u64, data: &[u8], compressed: u32, bytes: u64) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[0..2].copy_from_slice(&kind.to_le_bytes());
    header[2..4].copy_from_slice(&[1, 1]);
    header[4] = 64;
    let padded = data.len().next_multiple_of(8);
    header[8..16].copy_from_slice(&(padded as u64).to_le_bytes());
    header[16..20].copy_from_slice(&compressed.to_le_bytes());
    header[28..32].copy_from_slice(&sm.to_le_bytes());
    header[40..48].copy_from_slice(&flags.to_le_bytes());
    header[56..64].copy_from_slice(&bytes.to_le_bytes());
    header.extend(data);
    header.resize(64 + padded, 0);
    header
}

pub(super) fn stored(text: &str) -> Vec<u8> {
    entry(1, 75, 0x11, text.as_bytes(), 0, 0)
}

#[test]
fn containers_cross_threads() {
    fn check<T: Send + Sync>() {}
    check::<Container>();
    check::<Entry>();
    check::<Entries>();
}

/// Files of `fatbinary` against what `cuobjdump -xelf all -xptx all` takes out of them.
#[test]
fn recorded_fatbins() {
    for (name, packing) in [("stored", "stored"), ("lz4", "lz4"), ("zstd", "zstd"), ("concat", "zstd")] {
        let found = look(name, testdata(&format!("{name}.fatbin")));
        let mut seen = Vec::new();
        for result in &found {
            let entry = result.as_ref().unwrap();
            let arch = entry.arch.unwrap().to_string();
            let extension = if entry.kind == EntryKind::Ptx { "ptx" } else { "cubin" };
            assert_eq!(entry.compression.name(), packing, "{}", entry.path);
            assert!(*entry.read().unwrap() == *testdata(&format!("add.{arch}.{extension}")), "{}", entry.path);
            seen.push(format!("{arch}.{extension}"));
        }
        // cuobjdump lists the entries of a block where the block is: after those on their own.
        let expected = if name == "concat" {
            ["sm_100f.cubin", "sm_75.ptx", "sm_75.cubin", "sm_90a.cubin"]
        } else {
            ["sm_75.cubin", "sm_90a.cubin", "sm_100f.cubin", "sm_75.ptx"]
        };
        assert_eq!(seen, expected, "{name}");
    }
}

#[test]
fn a_block_can_be_read_again_and_in_any_order() {
    let found = look("concat", testdata("concat.fatbin"));
    for _ in 0..2 {
        for at in [3, 2, 3, 2] {
            let entry = found[at].as_ref().unwrap();
            let expected = testdata(&format!("add.{}.cubin", entry.arch.unwrap()));
            assert!(*entry.read().unwrap() == *expected);
        }
    }
}

#[test]
fn identifiers_and_options() {
    let found = look("f", testdata("ident.fatbin"));
    let first = found[0].as_ref().unwrap();
    assert_eq!((first.identifier.as_deref(), first.options.as_deref()), (Some("my ident"), None));
    let ptx = found[3].as_ref().unwrap();
    assert_eq!((ptx.identifier.as_deref(), ptx.options.as_deref()), (Some("my ident"), Some("-v -O1")));
    assert_eq!(ptx.version, Some((9, 4)));
}

#[test]
fn host_objects_and_archives() {
    let expected = [
        "a/.nv_fatbin[0] cubin sm_75 stored",
        "a/.nv_fatbin[1] cubin sm_90a stored",
        "a/.nv_fatbin[2] ptx sm_90a zstd",
    ];
    for (got, expected) in lines(&look("a", testdata("exec.o"))).iter().zip(expected) {
        assert!(got.starts_with(expected), "{got}");
    }
    let found = look("lto.o", testdata("lto.o"));
    assert_eq!(lines(&found), ["lto.o/__nv_relfatbin[0] ltoir sm_90 zstd 2672"]);
    let lto = found[0].as_ref().unwrap();
    assert!(lto.obfuscated && lto.place == Place::Relocatable);
    assert!(lto.read().unwrap_err().to_string().contains("obfuscated"));
    let archive = lines(&look("libk.a", testdata("libk.a")));
    assert!(archive[0].starts_with("libk.a/exec.o/.nv_fatbin[0] cubin sm_75"), "{archive:?}");
    assert!(archive[3].starts_with("libk.a/exec.o#2/.nv_fatbin[0] cubin sm_75"), "{archive:?}");
    assert_eq!(archive.len(), 6);
    let thin = look("t.a", b"!<thin>\nfoo.o/".to_vec());
    assert!(errors(&thin)[0].contains("thin archive"), "{thin:?}");
}

/// A COFF object with one section; PE cuts names to eight bytes as COFF does without its string table.
fn coff(name: &[u8; 8], data: &[u8]) -> Vec<u8> {
    let mut file = vec![0x64, 0x86, 1, 0];
    file.resize(20, 0);
    file.extend(name);
    file.extend([0; 8]);
    file.extend((data.len() as u32).to_le_bytes());
    file.extend(60_u32.to_le_bytes());
    file.extend([0; 12]);
    file.extend(0x4030_0040_u32.to_le_bytes());
    file.extend(data);
    file
}

/// A 64-bit Mach-O object with one section.
fn macho(name: &[u8], data: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xfeed_facf_u32, 0x0100_000c, 0, 1, 1, 152, 0, 0, 0x19, 152] {
        file.extend(word.to_le_bytes());
    }
    file.extend([0; 16]);
    for word in [0, data.len() as u64, 184, data.len() as u64] {
        file.extend(word.to_le_bytes());
    }
    for word in [7_u32, 7, 1, 0] {
        file.extend(word.to_le_bytes());
    }
    let mut names = name.to_vec();
    names.resize(16, 0);
    names.extend(b"__NV_CUDA\0\0\0\0\0\0\0");
    file.extend(names);
    file.extend(0_u64.to_le_bytes());
    file.extend((data.len() as u64).to_le_bytes());
    for word in [184_u32, 3, 0, 0, 0, 0, 0, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(data);
    file
}

#[test]
fn windows_and_mac_objects() {
    let inner = fatbin(&[stored(".version 8.0\n.target sm_75\n")]);
    let found = look("w.obj", coff(b".nv_fatb", &inner));
    assert_eq!(lines(&found), ["w.obj/.nv_fatb[0] ptx sm_75 stored 32"]);
    assert_eq!(*found[0].as_ref().unwrap().read().unwrap(), *b".version 8.0\n.target sm_75\n");
    assert_eq!(lines(&look("w.obj", coff(b"__nv_rel", &inner))), ["w.obj/__nv_rel[0] ptx sm_75 stored 32"]);
    assert_eq!(lines(&look("m.o", macho(b"__nv_fatbin", &inner))), ["m.o/__nv_fatbin[0] ptx sm_75 stored 32"]);
    assert!(look("m.o", macho(b"__text", &inner)).is_empty());
    let scan = Container::from_bytes("m.o", macho(b"__text", &inner), Options { scan: true, ..Options::default() });
    assert_eq!(lines(&scan.entries().collect()), ["m.o/@0xb8[0] ptx sm_75 stored 32"]);
    assert!(matches!(scan.entries().next(), Some(Ok(Entry { place: Place::Embedded, .. }))));
}

#[test]
fn nested_concatenated_and_damaged_fatbins() {
    let one = fatbin(&[stored("one")]);
    let nested = fatbin(&[entry(2, 80, 0x11, &one, 0, 0), stored("two")]);
    assert_eq!(lines(&look("f", nested)), ["f[0][0] ptx sm_75 stored 8", "f[1] ptx sm_75 stored 8"]);

    let two = [&one[..], &[0; 24], &one].concat();
    assert_eq!(lines(&look("f", two)), ["f[0] ptx sm_75 stored 8", "f[1] ptx sm_75 stored 8"]);

    let stray = [&one[..], b"stray bytes", &one].concat();
    let found = lines(&look("f", stray));
    assert_eq!(found[0], "f[0] ptx sm_75 stored 8");
    assert!(found[1].starts_with("f: fatbin at offset 0x58: expected 50 ed 55 ba or zeros, found 73 74"), "{found:?}");
    assert_eq!(found[2], "f[1] ptx sm_75 stored 8");

    // Cut inside the second entry: the first is there, the second is an error.
    let whole = fatbin(&[stored("first"), stored("second, longer than the first")]);
    let found = lines(&look("f", whole[..whole.len() - 8].to_vec()));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].contains("the fatbin at offset 0x0 needs"), "{found:?}");
    assert_eq!(found[1], "f[0] ptx sm_75 stored 8");
    assert!(found[2].contains("the entry at offset 0x58 needs 96 bytes, but only 88 are left"), "{found:?}");
}

fn read_error(entry: Vec<u8>) -> String {
    let found = look("f", fatbin(&[entry, stored("fine")]));
    assert_eq!(*found[1].as_ref().unwrap().read().unwrap(), *b"fine", "the rest is still there");
    match &found[0] {
        Ok(entry) => entry.read().unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn sizes_that_lie() {
    let text = "abc".repeat(1000);
    let lz4 = lz4_flex::block::compress(text.as_bytes());
    let packed = lz4.len() as u32;
    let good = look("f", fatbin(&[entry(1, 75, 0x2011, &lz4, packed, 3000)]));
    assert_eq!(*good[0].as_ref().unwrap().read().unwrap(), *text.as_bytes());

    assert_eq!(
        read_error(entry(1, 75, 0x2011, &lz4, packed, 2999)),
        "f[0]: LZ4 data holds more than 2999 bytes where 2999 were declared"
    );
    assert_eq!(
        read_error(entry(1, 75, 0x2011, &lz4, packed, 3001)),
        "f[0]: LZ4 data holds 3000 bytes where 3001 were declared"
    );
    assert!(read_error(entry(1, 75, 0x2011, &lz4, packed, 1 << 26)).contains("holds at most"));
    assert!(
        read_error(entry(1, 75, 0x2011, &lz4, packed + 100, 3000))
            .contains("compressed size at offset 0x10: expected at most")
    );
    assert!(read_error(entry(1, 75, 0x2011, &lz4, packed, u64::MAX)).contains("refused as a decompression bomb"));
    assert!(read_error(entry(1, 75, 0x8011, &lz4, packed, 3000)).contains("damaged zstd data"));

    // A zstd frame of one block that repeats a byte 128 KiB times, five thousand of them in 20 KB.
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38];
    for last in (0..5000).rev() {
        let block = u32::from(last == 0) | 1 << 1 | (128 << 10) << 3;
        bomb.extend(&block.to_le_bytes()[..3]);
        bomb.push(0);
    }
    let packed = bomb.len() as u32;
    let whole = 5000 * (128 << 10);
    assert!(read_error(entry(1, 75, 0x8011, &bomb, packed, whole)).contains("refused as a decompression bomb"));
    assert_eq!(
        read_error(entry(1, 75, 0x8011, &bomb, packed, 1000)),
        "f[0]: zstd data holds more than 1000 bytes where 1000 were declared"
    );
}

#[test]
fn memory_that_is_used_again_shows_nothing_of_the_last_entry() {
    let lz4 = |byte: u8, bytes: usize, declared: u64| {
        let packed = lz4_flex::block::compress(&vec![byte; bytes]);
        entry(2, 75, 0x2011, &packed, packed.len() as u32, declared)
    };
    let zstd = |byte: u8, bytes: usize, declared: u64| {
        let packed = zstd::bulk::compress(&vec![byte; bytes], 1).unwrap();
        entry(2, 75, 0x8011, &packed, packed.len() as u32, declared)
    };
    let entries = [
        lz4(b'a', 100_000, 100_000),
        lz4(b'b', 3000, 3000),
        zstd(b'c', 50_000, 50_000),
        // What is there already is larger than either size.
        lz4(b'd', 3000, 2999),
        zstd(b'e', 3000, 2999),
        zstd(b'f', 3000, 3001),
        entry(2, 75, 0x2011, b"\xff\xff\xff", 3, 700),
        stored("fine"),
        lz4(b'g', 9 << 20, 9 << 20),
        lz4(b'h', 10, 10),
    ];
    let found = look("f", fatbin(&entries));
    assert_eq!(found.len(), entries.len());
    for result in found.iter().chain(&found) {
        let entry = result.as_ref().unwrap();
        let text = |error: ContainerError| error.to_string();
        let whole = entry.read().map(std::borrow::Cow::into_owned).map_err(text);
        assert!(entry.with_bytes(<[u8]>::to_vec).map_err(text) == whole, "{}", entry.path);
        assert_eq!(whole.is_err(), ["f[3]", "f[4]", "f[5]", "f[6]"].contains(&&*entry.path), "{}", entry.path);
    }
}

#[test]
fn no_cut_and_no_flip_panics() {
    for name in ["zstd.fatbin", "concat.fatbin", "lto.o", "libk.a"] {
        let whole = testdata(name);
        for cut in (0..whole.len()).step_by(whole.len() / 199 + 1) {
            for entry in look("f", whole[..cut].to_vec()).into_iter().flatten() {
                let _ = entry.read();
            }
        }
        // Every byte of the first headers, one after the other.
        for at in 0..whole.len().min(400) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            for entry in look("f", damaged).into_iter().flatten() {
                let _ = entry.read();
            }
        }
    }
}

#[test]
fn what_is_not_recognised() {
    assert!(errors(&look("x", b"hello".to_vec()))[0].contains("found text \"hello\""));
    assert!(errors(&look("x", Vec::new()))[0].contains("found an empty file"));
    assert!(
        errors(&Container::open(Path::new("/nonexistent"), Options::default()).entries().collect())[0]
            .starts_with("/nonexistent: ")
    );
    let commented = b"/* a\n */\n//\n.version 8.7\n.target sm_100a, debug\n".to_vec();
    assert_eq!(lines(&look("p", commented)), ["p ptx sm_100a stored 48"]);
    // CuPy's cache: a digest, then the cubin.
    let prefaced = [&[b'd'; 32][..], &testdata("add.sm_75.cubin")].concat();
    let found = look("c", prefaced);
    assert_eq!(*found[0].as_ref().unwrap().read().unwrap(), *testdata("add.sm_75.cubin"));
}

pub(super) fn zip_of(members: &[(&str, &[u8], zip::CompressionMethod)]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes, method) in members {
        let options = zip::write::SimpleFileOptions::default().compression_method(*method);
        // Folders have records too.
        if name.ends_with('/') {
            writer.add_directory(*name, options).unwrap();
            continue;
        }
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

const STORE: zip::CompressionMethod = zip::CompressionMethod::STORE;
const DEFLATE: zip::CompressionMethod = zip::CompressionMethod::DEFLATE;

#[test]
fn zips_in_zips() {
    let inner = zip_of(&[("k.fatbin", &testdata("zstd.fatbin"), DEFLATE), ("readme", b"none", DEFLATE)]);
    let whole = zip_of(&[
        ("folder/", b"", STORE),
        ("in.zip", &inner, DEFLATE),
        ("a.cubin", &testdata("add.sm_75.cubin"), STORE),
        ("x.py", b"pass", DEFLATE),
    ]);
    let container = Container::from_bytes("w.whl", whole, Options::default());
    let found: Found = container.entries().collect();
    let expected = [
        "w.whl/in.zip/k.fatbin[0] cubin sm_75 zstd 4584",
        "w.whl/in.zip/k.fatbin[1] cubin sm_90a zstd 5728",
        "w.whl/in.zip/k.fatbin[2] cubin sm_100f zstd 8736",
        "w.whl/in.zip/k.fatbin[3] ptx sm_75 zstd 1548",
        "w.whl/a.cubin cubin sm_75 stored 4584",
    ];
    assert_eq!(lines(&found), expected);
    let parts: Found = container.parts().iter().flat_map(Container::entries).collect();
    assert_eq!(lines(&parts), expected);
    assert!(*found[2].as_ref().unwrap().read().unwrap() == *testdata("add.sm_100f.cubin"));
}

#[test]
fn hostile_zips() {
    let cubin = testdata("add.sm_75.cubin");
    let whole = zip_of(&[
        ("/abs.cubin", &cubin, STORE),
        ("a/../../up.cubin", &cubin, STORE),
        ("C:\\w.cubin", &cubin, STORE),
        ("ok.cubin", &cubin, STORE),
    ]);
    let found = look("z", whole);
    let said = errors(&found);
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].contains("unsafe name \"/abs.cubin\""), "{said:?}");
    assert_eq!(lines(&found)[3], "z/ok.cubin cubin sm_75 stored 4584");

    // The central directory claims more, or less, than the data has.
    let text = ".version 8.0\n".repeat(100);
    for claim in [1299_u32, 1301] {
        let mut whole = zip_of(&[("a.ptx", text.as_bytes(), DEFLATE), ("ok.cubin", &cubin, STORE)]);
        let at = whole.windows(4).position(|w| w == b"PK\x01\x02").unwrap();
        whole[at + 24..at + 28].copy_from_slice(&claim.to_le_bytes());
        let found = look("z", whole);
        assert_eq!(found.len(), 2, "{claim}");
        let said = found[0].as_ref().unwrap_err().to_string();
        assert!(said.starts_with("z/a.ptx: "), "{said}");
        assert!(found[1].is_ok());
    }

    // Two members that share their bytes.
    let mut whole = zip_of(&[("a.cubin", &cubin, STORE), ("b.cubin", &cubin, STORE)]);
    let second = whole.windows(4).enumerate().filter(|(_, w)| *w == b"PK\x01\x02").map(|(at, _)| at).nth(1).unwrap();
    whole[second + 42..second + 46].copy_from_slice(&0_u32.to_le_bytes());
    let said = errors(&look("z", whole));
    assert!(said.iter().any(|line| line.contains("b.cubin overlaps a.cubin")), "{said:?}");

    let mut cut = zip_of(&[("a.cubin", &cubin, STORE)]);
    cut.truncate(cut.len() - 10);
    assert!(errors(&look("z", cut))[0].contains("damaged zip"));
}

#[test]
fn inflated_ranges_equal_the_whole() {
    // Text that repeats far apart, so that back references cross steps and checkpoints.
    let mut bytes = Vec::new();
    let mut seed = 1_u32;
    while bytes.len() < 2 << 20 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        bytes.extend(format!("{} {}\n", seed >> 20, bytes.len() / 1000).bytes());
    }
    let packed = miniz_oxide::deflate::compress_to_vec(&bytes, 6);
    let inflated = Source::inflated(Inflated::with_stride(Source::memory(packed.clone()), bytes.len() as u64, 1 << 18));
    for round in 0..40_u64 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let offset = u64::from(seed) % bytes.len() as u64;
        let len = (u64::from(seed >> 7) % 100_000).min(bytes.len() as u64 - offset);
        let got = inflated.read("test", offset, len).unwrap();
        assert!(*got == bytes[offset as usize..(offset + len) as usize], "round {round}: {len} at {offset}");
    }
    // In order, in small steps, as headers are read.
    for offset in (0..bytes.len() - 64).step_by(50_021) {
        assert!(*inflated.read("test", offset as u64, 64).unwrap() == bytes[offset..offset + 64]);
    }
    assert!(inflated.read("test", bytes.len() as u64 - 1, 2).is_err());
    let longer = Source::inflated(Inflated::new(Source::memory(packed.clone()), bytes.len() as u64 + 1));
    assert!(matches!(longer.read("test", bytes.len() as u64, 1), Err(Problem::WrongSize { .. })));
    let cut = Source::inflated(Inflated::new(Source::memory(packed[..1000].to_vec()), bytes.len() as u64));
    assert!(matches!(cut.read("test", 1 << 20, 1), Err(Problem::Damaged { .. })));
    // The same through a host file: nothing but ranges is asked for.
    let object = coff(b".nv_fatb", &fatbin(&[stored("through deflate")]));
    let packed = miniz_oxide::deflate::compress_to_vec(&object, 6);
    let source = Source::inflated(Inflated::new(Source::memory(packed), object.len() as u64));
    let (sections, problems) = host::sections(&source);
    assert!(problems.is_empty() && sections.len() == 1 && sections[0].source.len() == object.len() as u64 - 60);
}

#[test]
fn folders_and_caches() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    write("HASH/attn.cubin", &testdata("add.sm_90a.cubin"));
    write("HASH/attn.ptx", b".version 8.7\n.target sm_90a\n");
    write(
        "HASH/attn.json",
        br#"{"name": "attn_fwd", "target": {"backend": "cuda", "arch": 90, "warp_size": 32}, "num_warps": 4, "arch": "sm90"}"#,
    );
    write("HASH/attn.ttir", b"module {}");
    write("b/two.fatbin", &testdata("lz4.fatbin"));
    write("a.txt", b"nothing");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path(), folder.path().join("b/loop")).unwrap();
        std::os::unix::fs::symlink("two.fatbin", folder.path().join("b/again.fatbin")).unwrap();
        std::os::unix::fs::symlink("missing", folder.path().join("dangling")).unwrap();
    }
    let container = Container::open(folder.path(), Options::default());
    let found: Found = container.entries().collect();
    let local = |line: &String| line.replace(&format!("{}/", folder.path().display()), "");
    let shown: Vec<String> = lines(&found).iter().map(local).collect();
    assert_eq!(shown[0], "HASH/attn.cubin cubin sm_90 stored 5728");
    assert_eq!(shown[1], "HASH/attn.ptx ptx sm_90a stored 28");
    assert_eq!(shown[2], "b/two.fatbin[0] cubin sm_75 lz4 4584");
    assert_eq!(shown.len(), 6, "{shown:?}");
    let jit = found[0].as_ref().unwrap().jit.clone().unwrap();
    assert_eq!((jit.kernel.as_deref(), jit.companion.as_deref()), (Some("attn_fwd"), Some("attn.ptx")));
    assert_eq!(jit.options["num_warps"], 4);
    let parts: Found = container.parts().iter().flat_map(Container::entries).collect();
    assert_eq!(lines(&parts), lines(&found));
    // Links are followed where that is asked for: once, and not to what is there anyway.
    #[cfg(unix)]
    {
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("c.ptx"), b".version 8.7\n.target sm_90a\n").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("c")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), folder.path().join("d")).unwrap();
        std::os::unix::fs::symlink(folder.path(), elsewhere.path().join("back")).unwrap();
        let paths = |follow_links: bool| {
            let container = Container::open(folder.path(), Options { follow_links, ..Options::default() });
            let found: Found = container.entries().collect();
            let parts: Found = container.parts().iter().flat_map(Container::entries).collect();
            assert_eq!(lines(&parts), lines(&found));
            lines(&found).iter().map(local).collect::<Vec<String>>()
        };
        assert_eq!(paths(false), shown);
        let mut more = shown.clone();
        more.push("c/c.ptx ptx sm_90a stored 28".to_owned());
        assert_eq!(paths(true), more);
    }
    let missing: PathBuf = folder.path().join("dangling");
    assert_eq!(Container::open(&missing, Options::default()).entries().filter(Result::is_err).count(), 1);
}
