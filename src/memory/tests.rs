use super::*;
use crate::ptx::{Module, parse};
use crate::roles::{roles, setmaxnreg};
use crate::simt::BlockSize;
use crate::sync::rules::{barriers, mbarriers};
use crate::sync::{self, Effort};

/// The maps of the first kernel of a text, for blocks of the size that it says.
fn maps_of(text: &str) -> MemoryMaps {
    let module: Module<'_> = parse(text);
    let function = module.functions().find(|function| function.is_definition()).expect("a kernel");
    let header = function.header();
    let size = header.required_threads().or(header.max_threads());
    let size = size.map(|dimensions| BlockSize { dimensions, exact: true });
    let warps = Warps::of(&function, size);
    let roles = roles(&warps, &setmaxnreg::requested(&warps));
    let (named, objects) = (barriers::named(&warps), mbarriers::sites(&warps));
    let (_, _, evidence) = sync::check(&function, &warps, size, &roles, (&named, &objects), Effort::Usual);
    maps(&function, &warps, &roles, &evidence).unwrap_or_default()
}

fn shared_of(text: &str) -> SharedMap {
    maps_of(text).shared.expect("shared memory")
}

/// `ring tiles+0 4x32768`
fn told(map: &SharedMap) -> Vec<String> {
    let tell = |region: &SharedRegion| {
        let (variable, offset) = (region.variable.as_deref().unwrap_or("?"), region.offset);
        match (region.kind, region.stride_bytes) {
            (RegionKind::Ring, Some(stride)) => format!("ring {variable}+{offset} {}x{stride}", region.count),
            (RegionKind::Mbarriers, _) => format!("mbarriers {variable}+{offset} {}", region.count),
            _ => format!("buffer {variable}+{offset} {:?}", region.bytes),
        }
    };
    map.regions.iter().map(tell).collect()
}

/// A kernel of 128 threads with dynamic shared memory at `%r1`, `%tid.x` in `%r2` and a parameter in `%r3`.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.8\n.target sm_90a\n.address_size 64\n.extern .shared .align 16 .b8 smem[];\n.shared .align 16 .b8 fixed[64];\n\
         .visible .entry k(.param .u32 n, .param .u64 p)\n.reqntid 128\n{{\n.reg .pred %p<9>;\n.reg .b32 %r<20>;\n.reg .b64 %rd<9>;\n\
         mov.u32 %r1, smem;\nmov.u32 %r2, %tid.x;\nld.param.u32 %r3, [n];\nld.param.u64 %rd1, [p];\n{body}ret;\n}}\n"
    )
}

#[test]
fn stages_and_mbarriers_of_a_pipeline() {
    let maps = maps_of(include_str!("../../testdata/ptx/hopper_warp_specialised.ptx"));
    let shared = maps.shared.expect("shared memory");
    assert_eq!(told(&shared), ["mbarriers full+0 4", "mbarriers empty+0 4", "ring tiles+0 4x32768"]);
    assert_eq!((shared.static_bytes, shared.dynamic_least_bytes), (64, Some(131_072)));
    let ring = &shared.regions[2];
    assert!(ring.complete && ring.dynamic && !ring.exact);
    let uses: Vec<(Direction, How, Option<&str>)> =
        ring.uses.iter().map(|used| (used.direction, used.how, used.role.as_deref())).collect();
    let expected =
        [(Direction::Writes, How::TensorCopy, Some("producer")), (Direction::Reads, How::Wgmma, Some("consumer"))];
    assert_eq!(uses, expected);
    assert!(shared.unknown.is_empty());
    assert_eq!(maps.copies.iter().map(|copy| copy.stage_bytes).collect::<Vec<_>>(), [Some(32_768); 2]);
    assert!(maps.fences.iter().any(|fence| fence.kind == FenceKind::MbarrierInit));
}

#[test]
fn columns_allocated_and_used() {
    let maps = maps_of(include_str!("../../testdata/ptx/blackwell_tcgen05.ptx"));
    let tensor = maps.tensor.expect("tensor memory");
    assert_eq!((tensor.allocated, tensor.used), (Some(128), Some(128)));
    let columns: Vec<(u64, Option<u64>)> =
        tensor.regions.iter().map(|region| (region.column, region.columns)).collect();
    assert_eq!(columns, [(0, Some(128))]);
    let hows: Vec<How> = tensor.regions[0].uses.iter().map(|used| used.how).collect();
    assert_eq!(hows, [How::Tcgen05Mma, How::Tcgen05Store, How::Tcgen05Load]);
    assert_eq!(maps.shared.and_then(|shared| shared.dynamic_least_bytes), Some(65_536));
}

#[test]
fn groups_under_way_after_each_line() {
    let maps = maps_of(include_str!("../../testdata/ptx/cp_async_pipeline.ptx"));
    assert_eq!(told(&maps.shared.expect("shared memory")), ["ring stage+0 3x2048"]);
    let [groups] = &maps.groups[..] else { panic!("{:?}", maps.groups) };
    assert_eq!((groups.kind, groups.most), (GroupKind::CpAsync, Some(2)));
    let at: Vec<(u32, Option<u32>)> = groups.lines.iter().map(|at| (at.least, at.most)).collect();
    assert_eq!(
        at,
        [
            (0, Some(0)),
            (1, Some(1)),
            (1, Some(1)),
            (2, Some(2)),
            (1, Some(1)),
            (1, Some(1)),
            (2, Some(2)),
            (0, Some(0))
        ]
    );
}

#[test]
fn groups_that_a_loop_commits_have_no_bound_until_a_wait() {
    let text = kernel(
        "mov.u32 %r4, 0;\nL:\ncp.async.ca.shared.global [%r1], [%rd1], 16;\ncp.async.commit_group;\nadd.u32 %r4, %r4, 1;\n\
         setp.lt.u32 %p1, %r4, %r3;\n@%p1 bra L;\ncp.async.wait_group 3;\n",
    );
    let maps = maps_of(&text);
    let most: Vec<Option<u32>> = maps.groups[0].lines.iter().map(|at| at.most).collect();
    assert_eq!(most, [None, None, Some(3)]);
    assert_eq!(maps.groups[0].most, None);
}

#[test]
fn constant_offsets_bound_dynamic_shared_memory() {
    let touched = "mad.lo.u32 %r4, %r2, 8, %r1;\nst.shared.v2.b32 [%r4+4096], {%r2, %r2};\n";
    assert_eq!(shared_of(&kernel(touched)).dynamic_least_bytes, Some(4096 + 128 * 8));
    // Who comes is the same for all threads: either all come, or the kernel does nothing.
    let uniform = format!("setp.eq.u32 %p1, %r3, 0;\n@%p1 bra E;\n{touched}E:\n");
    assert_eq!(shared_of(&kernel(&uniform)).dynamic_least_bytes, Some(4096 + 128 * 8));
}

#[test]
fn what_an_extent_decides_is_no_bound() {
    // One element for each of n threads: a launch with few of them brings less memory.
    let guarded =
        "setp.ge.u32 %p1, %r2, %r3;\n@%p1 bra E;\nmad.lo.u32 %r4, %r2, 4, %r1;\nst.shared.b32 [%r4], %r2;\nE:\n";
    assert_eq!(shared_of(&kernel(guarded)).dynamic_least_bytes, None);
    // n rows, again for each of n tiles: the first row is touched, how many there are the launch decides.
    let rows = "mov.u32 %r5, 0;\nT:\nmov.u32 %r6, 0;\nmad.lo.u32 %r7, %r2, 4, %r1;\nR:\nst.shared.b32 [%r7], %r2;\n\
        add.u32 %r7, %r7, 512;\nadd.u32 %r6, %r6, 1;\nsetp.lt.u32 %p2, %r6, %r3;\n@%p2 bra R;\nadd.u32 %r5, %r5, 1;\n\
        setp.lt.u32 %p3, %r5, %r3;\n@%p3 bra T;\n";
    assert_eq!(shared_of(&kernel(rows)).dynamic_least_bytes, Some(512));
    // The address is what a parameter says.
    let given = "add.u32 %r4, %r1, %r3;\nst.shared.b32 [%r4], %r2;\n";
    assert_eq!(shared_of(&kernel(given)).dynamic_least_bytes, None);
}

#[test]
fn bytes_that_nothing_touches() {
    let half = "setp.eq.u32 %p1, %r2, 0;\n@%p1 st.shared.v4.b32 [fixed+16], {%r2, %r2, %r2, %r2};\n";
    let left = shared_of(&kernel(half)).untouched.expect("all places are known");
    let left: Vec<(u64, u64)> = left.iter().map(|left| (left.offset, left.bytes)).collect();
    assert_eq!(left, [(0, 16), (32, 32)]);
    // With an access that may be anywhere, nobody can say.
    let anywhere = format!("{half}mov.u32 %r4, fixed;\nadd.u32 %r4, %r4, %r3;\nst.shared.b32 [%r4], %r2;\n");
    assert_eq!(shared_of(&kernel(&anywhere)).untouched, None);
}

#[test]
fn a_kernel_without_any_of_it_has_no_maps() {
    let text = ".version 8.8\n.target sm_90a\n.visible .entry k()\n.reqntid 128\n{\nret;\n}\n";
    assert_eq!(maps_of(text), MemoryMaps::default());
}
