//! What the recorded cubins of `testdata/cubin` say, and what damaged ones do not do.

use super::lines::LineTable;
use super::*;
use crate::base::{Line, Pc, Variant};

fn recorded(name: &str) -> Vec<u8> {
    let path = format!("{}/testdata/cubin/{name}.cubin", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn names() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/cubin");
    let entries = std::fs::read_dir(folder).expect("testdata/cubin is there").flatten();
    let name = |entry: std::fs::DirEntry| entry.file_name().to_str()?.strip_suffix(".cubin").map(str::to_owned);
    let mut names: Vec<_> = entries.filter_map(name).collect();
    names.sort();
    assert!(names.len() >= 20, "recorded cubins are missing: {names:?}");
    names
}

fn function<'i, 'a>(image: &'i Image<'a>, name: &str) -> &'i Function<'a> {
    let names: Vec<_> = image.functions.iter().map(|f| &f.name).collect();
    image.functions.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("no {name} in {names:?}"))
}

#[test]
fn kind_architecture_and_toolkit() {
    use {Abi::*, ElfKind::*, VariantSource::*};
    for (name, abi, kind, arch, source, version, release) in [
        ("functions-11.8-sm_50", V7, Executable, "sm_50", File, (11, 8), None),
        ("functions-12.9-sm_80-c", V7, Relocatable, "sm_80", File, (12, 9), None),
        ("hopper-12.4-sm_90a", V7, Executable, "sm_90a", File, (12, 4), None),
        ("hopper-13.4-sm_90a", V8, Executable, "sm_90a", File, (13, 4), Some("13.4.92")),
        ("functions-13.4-sm_75", V8, Executable, "sm_75", File, (13, 4), Some("13.4.92")),
        ("blackwell-12.9-sm_100f", V8, Executable, "sm_100f", Options, (12, 9), Some("12.9.86")),
        ("blackwell-13.4-sm_100a", V8, Executable, "sm_100a", File, (13, 4), Some("13.4.92")),
        ("functions-12.9-sm_120", V8, Executable, "sm_120", Options, (12, 9), Some("12.9.86")),
        ("functions-13.4-sm_100-c", V8, Relocatable, "sm_100", Options, (13, 4), Some("13.4.92")),
        ("narrow-11.8-sm_50", V7, Executable, "sm_50", File, (11, 8), None),
    ] {
        let bytes = recorded(name);
        let image = Image::parse(&bytes).unwrap();
        assert_eq!((image.abi, image.kind, image.variant_source), (abi, kind, source), "{name}");
        assert_eq!(image.arch.to_string(), arch, "{name}");
        assert_eq!(image.toolkit.version, Some(version), "{name}");
        assert_eq!(image.toolkit.tools.first().and_then(|tool| tool.release()), release, "{name}");
        assert_eq!(image.address_bits, if name.starts_with("narrow") { 32 } else { 64 });
        assert_eq!(image.problems, [], "{name}");
    }
}

#[test]
fn tools_and_their_options() {
    let bytes = recorded("hopper-13.4-sm_90a");
    let image = Image::parse(&bytes).unwrap();
    let [tool] = &image.toolkit.tools[..] else { panic!("{:?}", image.toolkit) };
    assert_eq!(tool.name, "ptxas");
    assert_eq!(tool.version, "Cuda compilation tools, release 13.4, V13.4.92");
    assert_eq!(tool.option(&["gpu-name", "arch"]), Some("sm_90a"));
    assert_eq!(tool.option(&["maxrregcount"]), None);
    assert_eq!(image.toolkit.virtual_sm, Some(90));
    assert_eq!(image.notes.len(), 2);
    assert_eq!(image.compat.iter().find(|a| a.code == 9).and_then(Attribute::number), Some(1));

    // One note for each object, and nvlink's own.
    let bytes = recorded("linked-13.4-sm_90");
    let image = Image::parse(&bytes).unwrap();
    let tools: Vec<_> = image.toolkit.tools.iter().map(|tool| &*tool.name).collect();
    assert!(tools.contains(&"nvlink") && tools.contains(&"ptxas"), "{tools:?}");
}

#[test]
fn functions_and_what_they_declare() {
    let bytes = recorded("functions-13.4-sm_100-c");
    let image = Image::parse(&bytes).unwrap();
    let kinds: Vec<_> = image.functions.iter().map(|f| (&*f.name, f.kind)).collect();
    let (entry, device) = (FunctionKind::Entry, FunctionKind::Device);
    // Not one of .nv.capmerc.text.*, which hold no SASS.
    assert_eq!(kinds, [("exchange", device), ("any_barrier", entry), ("lookup", device), ("caller", entry)]);
    let caller = function(&image, "caller");
    assert_eq!(caller.launch.max_threads, Some([128, 2, 1]));
    assert_eq!(caller.resources.barriers, Some(3));
    assert_eq!(function(&image, "any_barrier").resources.barriers, Some(16));
    assert_eq!(function(&image, "any_barrier").launch.required_threads, Some([64, 1, 1]));
    assert_eq!(function(&image, "exchange").resources.barriers, Some(5));
    assert_eq!(function(&image, "lookup").resources.frame_bytes, Some(128));
    let param = |ordinal, offset, bytes| Param { ordinal, offset, bytes };
    assert_eq!(caller.params, [param(0, 0, 8), param(1, 8, 4)]);
    assert_eq!((caller.param_bytes, caller.param_offset), (Some(12), Some(0x380)));
    let name = |index| image.symbol(index).map(|symbol| &*symbol.name);
    let calls: Vec<_> = image.calls.iter().filter(|c| c.is_call()).map(|c| (name(c.caller), name(c.callee))).collect();
    assert_eq!(calls, [(Some("caller"), Some("exchange")), (Some("caller"), Some("lookup"))]);
    let called: Vec<_> = caller.relocations.iter().filter_map(|r| name(r.symbol)).collect();
    assert!(called.contains(&"exchange") && called.contains(&"lookup"), "{called:?}");
    assert_eq!(image.cmem, [ConstantBank { bank: 3, bytes: 64 }]);
    assert_eq!(image.gmem_bytes, 64);
    assert_eq!(image.code_bytes(), image.functions.iter().map(|f| u64::from(f.resources.code_bytes)).sum::<u64>());
}

#[test]
fn functions_inside_a_kernel() {
    let bytes = recorded("inline-13.4-sm_90");
    let image = Image::parse(&bytes).unwrap();
    let choose = function(&image, "choose");
    let parts: Vec<_> = choose.parts.iter().map(|part| (part.callee(), part.start, part.end)).collect();
    assert_eq!(
        parts,
        [
            ("_Z8weightedfi", Pc(0xbb0), Pc(0xde0)),
            ("__cuda_sm3x_div_rn_noftz_f32_slowpath", Pc(0xde0), Pc(choose.code.len() as u32)),
        ]
    );
    // The record of .nv.info says 0 for both, the kernel's frame.
    let recurse = function(&image, "recurse");
    assert_eq!(recurse.resources.frame_bytes, Some(0));
    assert_eq!(recurse.parts.first().map(|part| (part.callee(), part.frame_bytes)), Some(("_Z9fibonaccii", Some(40))));
    // switch (m): `BRX R4 -0x3c0 (*"BRANCH_TARGETS .L_x_43,.L_x_44,.L_x_45,.L_x_46"*)`.
    let [first, second] = &choose.branch_targets[..] else { panic!("{:?}", choose.branch_targets) };
    assert_eq!((first.pc, first.targets.len()), (Pc(0x3b0), 4));
    assert_eq!((second.pc, second.targets.len()), (Pc(0xad0), 3));
    assert!(first.targets.iter().all(|target| (target.0 as usize) < choose.code.len()));
    assert!(choose.exits.contains(&Pc(0x3f0)), "{:?}", choose.exits);
    let spills = function(&image, "spill").spills.as_ref().unwrap();
    assert!(spills.len() > 300 && spills.is_sorted(), "{spills:?}");
    assert_eq!(choose.spills, None);
}

#[test]
fn barriers_and_registers_of_hopper() {
    use MbarrierKind::*;
    for name in ["hopper-12.4-sm_90a", "hopper-13.4-sm_90a"] {
        let bytes = recorded(name);
        let image = Image::parse(&bytes).unwrap();
        let pipeline = function(&image, "pipeline");
        assert_eq!(pipeline.resources.registers, Some(168), "{name}");
        assert_eq!(pipeline.launch.max_registers, Some(168));
        assert_eq!(pipeline.resources.barriers, Some(8), "bar.sync 7 needs eight");
        assert_eq!((pipeline.launch.cluster, pipeline.launch.explicit_cluster), (Some([2, 1, 1]), true));
        // ptxas 12.4 did not record setmaxnreg yet.
        assert_eq!(pipeline.reg_reconfig, name.contains("13.4"));
        assert_eq!((pipeline.resources.smem_bytes, pipeline.resources.smem_reserved_bytes), (128, 1024));
        let kinds: Vec<_> = pipeline.mbarriers.iter().map(|m| m.kind).collect();
        for kind in [Init, Arrive, ExpectTx, TryWait, TestWaitParity, Inval, CompleteTx] {
            assert!(kinds.contains(&kind), "{name}: {kinds:?} lacks {kind:?}");
        }
        assert!(pipeline.mbarriers.iter().all(|m| (m.pc.0 as usize) < pipeline.code.len() && m.pc.0 % 16 == 0));
        assert_eq!(pipeline.params.last().map(|p| (p.offset, p.bytes)), Some((48, 128)));
    }
}

#[test]
fn attributes_have_names_and_unknown_ones_are_kept() {
    let mut problems = Vec::new();
    let data = [4, 0x2f, 8, 0, 1, 0, 0, 0, 24, 0, 0, 0, 1, 0x54, 0, 0, 2, 0xee, 7, 0, 3, 0x1b, 0xff, 0, 0, 0, 0, 0];
    let read = attribute::read(".nv.info", &data, attribute::Numbering::Info, |_| true, &mut problems);
    let seen: Vec<_> = read.iter().map(|a| (a.format(), a.code, a.name, a.number())).collect();
    assert_eq!(
        seen,
        [
            (4, 0x2f, Some("EIATTR_REGCOUNT"), Some(1)),
            (1, 0x54, Some("EIATTR_REG_RECONFIG"), None),
            (2, 0xee, None, Some(7)),
            (3, 0x1b, Some("EIATTR_MAXREG_COUNT"), Some(255)),
        ]
    );
    assert_eq!(read.first().map(|a| a.words().collect::<Vec<_>>()), Some(vec![1, 24]));
    assert_eq!(problems, []);
    for (data, what) in [
        (&[4, 0x2f, 9, 0, 1, 0, 0, 0][..], "attribute 0x2f at 0x0 wants 9 bytes, 4 are left"),
        (&[9, 1, 0, 0], "attribute 0x1 at 0x0 has format 9, expected 1 to 4"),
        (&[1, 1, 0, 0, 1], "1 bytes after the last attribute"),
    ] {
        let mut problems = Vec::new();
        attribute::read(".nv.info", data, attribute::Numbering::Info, |_| true, &mut problems);
        assert_eq!(problems.iter().map(|p| &*p.what).collect::<Vec<_>>(), [what]);
    }
}

#[test]
fn ptx_text_and_names_of_inlined_functions() {
    let bytes = recorded("locations-13.4-sm_121");
    let image = Image::parse(&bytes).unwrap();
    let table = LineTable::parse(&image);
    let (_, text) = lines::ptx_texts(&image).next().expect("the file carries its PTX");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/cubin/src/locations.ptx");
    let source = std::fs::read_to_string(path).unwrap();
    let lines: Vec<&[u8]> = text.lines().collect();
    for (number, (kept, line)) in lines.iter().zip(source.lines()).enumerate() {
        // Comments and .loc are blank, and what is kept is kept in place.
        let kept = String::from_utf8_lossy(kept);
        assert!(kept.trim().is_empty() || kept.trim() == line.trim(), "line {}: {kept:?}, {line:?}", number + 1);
    }
    let store = source.lines().position(|line| line.contains("[%rd1+8]")).unwrap() as u32 + 1;
    let located = table.function(function(&image, "located")).unwrap();
    let pcs = || (0..function(&image, "located").code.len() as u32).step_by(16).map(Pc);
    assert!(pcs().any(|pc| located.ptx_line(pc) == Some(Line(store))));
    let inner = pcs().filter_map(|pc| located.source_at(pc)).find(|at| at.line == Line(6)).unwrap();
    assert_eq!((inner.file, inner.function), ("/include/three.h", Some("inner")));
    let sites: Vec<_> = inner.inlined_at.iter().map(|site| (site.file, site.line.0, site.function)).collect();
    assert_eq!(sites, [("/include/three.h", 5, Some("outer")), ("two.cuh", 22, None)]);
    let never = table.function(function(&image, "never")).unwrap();
    assert!(never.ptx_line(Pc(0)).is_some());
    assert_eq!(never.source_at(Pc(0)), None);
    assert_eq!(located.ptx_line(Pc(u32::MAX)), None);
}

#[test]
fn call_sites_are_found_where_rows_were_left_out() {
    let bytes = recorded("nested-12.4-sm_90");
    let image = Image::parse(&bytes).unwrap();
    let table = LineTable::parse(&image);
    assert_eq!(table.problems, []);
    let lines = table.function(function(&image, "nested")).unwrap();
    let chain = |pc| {
        let at = lines.source_at(Pc(pc)).unwrap();
        let sites: Vec<_> = at.inlined_at.iter().map(|site| (site.line.0, site.function)).collect();
        (at.line.0, at.function, sites)
    };
    assert_eq!(chain(0x130), (11, Some("first"), vec![(13, None)]));
    assert_eq!(chain(0x180), (11, Some("secnd"), vec![(11, Some("first")), (13, None)]));
    assert_eq!(chain(0x1a0), (13, None, vec![]));
}

#[test]
fn linked_files_keep_each_functions_own_ptx() {
    let bytes = recorded("linked-13.4-sm_90");
    let image = Image::parse(&bytes).unwrap();
    let table = LineTable::parse(&image);
    for (name, mark) in [("caller", "caller_param_0"), ("own", "own_param_0"), ("_Z7outsidefi", "own_param_0")] {
        let lines = table.function(function(&image, name)).unwrap();
        let text = lines.ptx_text().unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&text).contains(mark), "{name}");
    }
}

#[test]
fn lines_in_order_are_those_of_each_instruction() {
    let mut seen = 0;
    for name in names() {
        let bytes = recorded(&name);
        let image = Image::parse(&bytes).unwrap();
        let table = LineTable::parse(&image);
        for function in &image.functions {
            let Some(lines) = table.function(function) else { continue };
            // Twice over, so that the walk has to go back once.
            let pcs = (0..function.resources.code_bytes + 64).step_by(16).map(Pc);
            let mut along = lines.along();
            for pc in pcs.clone().chain(pcs) {
                let (line, own) = along.at(pc);
                assert_eq!(line, lines.ptx_line(pc), "{name} {pc:?}");
                // The outermost call, or the line itself.
                let source = lines.source_at(pc).map(|at| match at.inlined_at.last() {
                    Some(call) => (call.file, call.line),
                    None => (at.file, at.line),
                });
                assert_eq!(own.map(|own| (lines.file_of(own), own.line)), source, "{name} {pc:?}");
                seen += line.is_some() as usize;
            }
        }
    }
    assert!(seen > 0);
}

/// Reads everything there is to read, as the report does.
fn read_all(bytes: &[u8]) -> Result<usize, CubinError> {
    let image = Image::parse(bytes)?;
    let table = LineTable::parse(&image);
    let mut seen =
        image.problems.len() + table.problems.len() + image.attributes.len() + image.relocations(SectionIndex(5)).len();
    for function in &image.functions {
        seen += function.attributes.iter().flat_map(Attribute::words).count();
        if let Some(lines) = table.function(function) {
            for pc in (0..function.resources.code_bytes).step_by(16).map(Pc) {
                seen += lines.ptx_line(pc).is_some() as usize;
                seen += lines.source_at(pc).map_or(0, |at| at.inlined_at.len());
            }
        }
    }
    Ok(seen + lines::ptx_texts(&image).map(|(_, text)| text.lines().count()).sum::<usize>())
}

#[test]
fn truncated_files_are_errors_or_have_problems() {
    for name in names().iter().filter(|name| !name.starts_with("inline")) {
        let bytes = recorded(name);
        let whole = read_all(&bytes).unwrap();
        for end in (0..bytes.len()).step_by(7) {
            // The section headers are at the end: without all of them there is nothing to go by.
            let _ = read_all(&bytes[..end]);
        }
        assert!(whole > 0);
        assert!(Image::parse(&bytes[..bytes.len() / 2]).is_err(), "{name}");
    }
    for name in names().iter().filter(|name| name.starts_with("inline")) {
        let bytes = recorded(name);
        for end in (0..bytes.len()).step_by(997) {
            let _ = read_all(&bytes[..end]);
        }
    }
}

#[test]
fn flipped_bits_do_not_panic() {
    // Three hundred places of every file; what happens there goes by a fixed sequence.
    let mut random = 0x9e37_79b9_u32;
    let mut flip = || {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        random
    };
    for name in names() {
        let mut bytes = recorded(&name);
        let size = bytes.len();
        for at in (0..300).map(|place| place * size / 300) {
            let old = bytes[at];
            bytes[at] = match flip() % 4 {
                0 => 0,
                1 => 0xff,
                _ => old ^ 1 << (flip() % 8),
            };
            let _ = read_all(&bytes);
            bytes[at] = old;
        }
    }
}

#[test]
fn wrong_files_say_what_they_are() {
    for (bytes, text) in [
        (&b""[..], "not a cubin: expected a little-endian ELF file that starts with 7f 45 4c 46, found an empty file"),
        (
            b".version 8.0",
            "not a cubin: expected a little-endian ELF file that starts with 7f 45 4c 46, found 2e 76 65 72 73 69 6f 6e",
        ),
        (
            b"\x7fELF\x02\x01\x01",
            "damaged cubin: the ELF header lies outside the file, which has 7 bytes and was most likely cut off",
        ),
    ] {
        assert_eq!(Image::parse(bytes).unwrap_err().to_string(), text);
    }
    let mut bytes = recorded("functions-13.4-sm_75");
    bytes[18] = 62;
    assert_eq!(
        Image::parse(&bytes).unwrap_err().to_string(),
        "not a cubin: expected ELF machine 190 (NVIDIA CUDA), found 62"
    );
    bytes[18] = 190;
    // The program headers are the last thing that ptxas writes.
    let cut = Image::parse(&bytes[..bytes.len() - 1]).unwrap_err().to_string();
    assert!(cut.contains("the program header table lies outside") && cut.contains("cut off"), "{cut}");
    bytes[8] = 9;
    let text = "unknown cubin layout: EI_OSABI 0x41, ABI version 9; expected 0x33 with 7 or 0x41 with 8";
    assert_eq!(Image::parse(&bytes).unwrap_err().to_string(), text);
}

/// Changes one field of every section header of a 64-bit file.
fn patch_sections(bytes: &mut [u8], mut patch: impl FnMut(&mut [u8])) {
    let table = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    let count = usize::from(u16::from_le_bytes(bytes[60..62].try_into().unwrap()));
    bytes[table..table + 64 * count].chunks_mut(64).for_each(&mut patch);
}

#[test]
fn sections_outside_the_file_are_problems() {
    let mut bytes = recorded("inline-13.4-sm_90");
    patch_sections(&mut bytes, |header| {
        let is_info = header[4..8] == 0x7000_0000_u32.to_le_bytes();
        if is_info {
            header[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        }
    });
    let image = Image::parse(&bytes).unwrap();
    assert_eq!(image.functions.len(), 5);
    assert_eq!(image.functions.iter().filter_map(|f| f.resources.registers).count(), 0);
    assert!(image.problems.iter().any(|p| p.section == ".nv.info" && p.what.contains("outside the file")));
}

#[test]
fn overlapping_sections_stay_linear() {
    // Every section, also all code and all relocations, claims the whole file.
    let mut bytes = recorded("inline-13.4-sm_120-c");
    let size = bytes.len() as u64;
    patch_sections(&mut bytes, |header| {
        let is_table = matches!(header[4], 2 | 3) && header[7] == 0;
        if !is_table {
            header[24..32].copy_from_slice(&0u64.to_le_bytes());
            header[32..40].copy_from_slice(&size.to_le_bytes());
        }
    });
    let image = Image::parse(&bytes).unwrap();
    assert!(image.problems.iter().any(|p| p.what == "not read: sections overlap"), "{:?}", image.problems);
    assert!(image.code_bytes() <= size);
    let _ = read_all(&bytes);
}

#[test]
fn section_count_in_the_null_section() {
    // More than 0xff00 sections: e_shnum is 0, the null section has the number, and e_shstrndx is in its sh_link.
    let mut bytes = recorded("functions-13.4-sm_75");
    let table = u64::from_le_bytes(bytes[40..48].try_into().unwrap()) as usize;
    let (count, names) = ([bytes[60], bytes[61]], [bytes[62], bytes[63]]);
    bytes[table + 32..table + 34].copy_from_slice(&count);
    bytes[table + 40..table + 42].copy_from_slice(&names);
    bytes[60..62].copy_from_slice(&[0, 0]);
    bytes[62..64].copy_from_slice(&[0xff, 0xff]);
    let image = Image::parse(&bytes).unwrap();
    assert_eq!(image.functions.iter().map(|f| &*f.name).collect::<Vec<_>>(), ["any_barrier", "caller"]);
    bytes[table + 32..table + 40].copy_from_slice(&[0xff; 8]);
    assert!(matches!(Image::parse(&bytes), Err(CubinError::Truncated { .. })));
}

#[test]
fn variant_is_not_claimed_without_evidence() {
    let mut bytes = recorded("functions-12.9-sm_120");
    patch_sections(&mut bytes, |header| {
        // SHT_NOTE.
        if header[4..8] == 7u32.to_le_bytes() {
            header[4..8].copy_from_slice(&1u32.to_le_bytes());
        }
    });
    let image = Image::parse(&bytes).unwrap();
    assert_eq!((image.arch.sm, image.arch.variant), (120, Variant::Base));
    assert_eq!(image.variant_source, VariantSource::Unknown);
}
