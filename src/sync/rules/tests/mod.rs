mod pairs;
mod places;
mod rounds;

use crate::ptx;
use crate::roles::roles;
use crate::roles::setmaxnreg::requested;
use crate::simt::*;
use crate::sync;
use crate::sync::Effort;
use crate::sync::rules::finding::{Confidence, Finding};
use crate::sync::rules::{barriers, mbarriers};

fn sample(name: &str) -> String {
    std::fs::read_to_string(format!("{}/testdata/ptx/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn summary(text: &str, size: [u32; 3]) -> Vec<(String, Option<u32>, Option<u32>)> {
    let module = ptx::parse(text);
    let function = module.functions().find(|function| function.is_definition()).unwrap();
    let warps = Warps::of(&function, Some(BlockSize { dimensions: size, exact: true }));
    let asked = requested(&warps);
    roles(&warps, &asked).into_iter().map(|role| (role.name.clone(), role.budget, role.warps())).collect()
}

#[test]
fn roles_of_a_hopper_gemm() {
    let found = summary(&sample("hopper_warp_specialised.ptx"), [384, 1, 1]);
    assert_eq!(found, [("producer".to_owned(), Some(40), Some(4)), ("consumer".to_owned(), Some(232), Some(8))]);
}

#[test]
fn roles_of_a_blackwell_gemm() {
    let found = summary(&sample("blackwell_tcgen05.ptx"), [192, 1, 1]);
    let names: Vec<_> = found.iter().map(|(name, _, warps)| (name.as_str(), *warps)).collect();
    assert_eq!(names, [("mma", Some(1)), ("producer", Some(1)), ("epilogue", Some(4))]);
}

/// What the checks that need no ptxas find in a kernel.
fn checked(function: &ptx::Function<'_, '_>, size: Option<BlockSize>) -> Vec<Finding> {
    let warps = Warps::of(function, size);
    let roles = roles(&warps, &requested(&warps));
    let (named, objects) = (barriers::named(&warps), mbarriers::sites(&warps));
    sync::check(function, &warps, size, &roles, (&named, &objects), Effort::Usual).0
}

/// The same in every kernel of a text.
fn findings(text: &str) -> Vec<(String, &'static str, u32, Confidence)> {
    let module = ptx::parse(text);
    let mut found = Vec::new();
    for function in module.functions().filter(|function| function.is_definition()) {
        if function.kind() != ptx::FunctionKind::Entry {
            continue;
        }
        let header = function.header();
        let exact = header.required_threads().is_some();
        let dimensions = header.required_threads().or(header.max_threads());
        let checks = checked(&function, dimensions.map(|dimensions| BlockSize { dimensions, exact }));
        let name = function.name().to_owned();
        found.extend(checks.into_iter().map(|check| (name.clone(), check.rule.code(), check.line.0, check.confidence)));
    }
    found
}

/// One fault planted: the line that holds `before` reads `after` instead. Gives what is found and the line.
fn planted(sample_name: &str, before: &str, after: &str) -> (Vec<(&'static str, u32)>, u32) {
    let text = sample(sample_name);
    let at = text.find(before).unwrap_or_else(|| panic!("{sample_name} has no {before}"));
    let line = text[..at].lines().count() as u32;
    let faulty = text.replacen(before, after, 1);
    (findings(&faulty).into_iter().map(|(_, code, line, _)| (code, line)).collect(), line)
}

#[test]
fn correct_kernels_have_no_finding() {
    for name in
        ["hopper_warp_specialised.ptx", "blackwell_tcgen05.ptx", "cluster_dsmem.ptx", "cluster_work_stealing.ptx"]
    {
        assert_eq!(findings(&sample(name)), [], "{name}");
    }
}

#[test]
fn a_barrier_count_wrong_by_one_warp() {
    let (found, line) = planted("hopper_warp_specialised.ptx", "bar.sync \t1, 256", "bar.sync \t1, 288");
    assert_eq!(found, [("PI203", line)]);
    let (found, line) = planted("hopper_warp_specialised.ptx", "bar.sync \t1, 256", "bar.sync \t1, 224");
    assert_eq!(found, [("PI204", line)]);
}

#[test]
fn a_missing_expect_tx() {
    for (name, before, after) in [
        (
            "hopper_warp_specialised.ptx",
            "arrive.expect_tx.shared::cta.b64 \t_, [%r17], 32768",
            "arrive.shared::cta.b64 _, [%r17]",
        ),
        (
            "blackwell_tcgen05.ptx",
            "arrive.expect_tx.release.cta.shared::cta.b64 \t_, [%r16], 32768",
            "arrive.shared::cta.b64 _, [%r16]",
        ),
    ] {
        let (found, line) = planted(name, before, after);
        assert_eq!(found, [("PI303", line + 1)], "{name}: the copy after it");
    }
}

#[test]
fn an_unmatched_cluster_wait() {
    let (found, line) = planted("cluster_dsmem.ptx", "barrier.cluster.arrive.release.aligned;", "");
    assert_eq!(found, [("PI401", line + 1)]);
    let (found, line) = planted("cluster_dsmem.ptx", "barrier.cluster.wait.acquire.aligned;", "");
    // The mbarrier that it made known is no longer either.
    let codes: Vec<_> = found.iter().map(|(code, _)| *code).collect();
    assert!(codes.contains(&"PI307"), "{found:?}");
    assert!(found.iter().any(|(code, at)| *code == "PI402" && *at > line), "{found:?}");
}

/// The line of the first finding with a code, and its confidence.
fn first(text: &str, code: &str) -> Option<(u32, Confidence)> {
    let found = findings(text).into_iter().find(|(_, found, ..)| *found == code);
    found.map(|(_, _, line, confidence)| (line, confidence))
}

/// The line, from 1, that first has some words.
fn line_of(text: &str, words: &str) -> u32 {
    text.lines().position(|line| line.contains(words)).unwrap() as u32 + 1
}

#[test]
fn mbarriers_that_cannot_complete() {
    let hardware = |name: &str| sample(&format!("../hardware/{name}.ptx"));
    let short = hardware("mbarrier_short");
    assert_eq!(first(&short, "PI305"), Some((line_of(&short, "mbarrier.init"), Confidence::Certain)));
    let over = hardware("mbarrier_bytes_over");
    assert_eq!(first(&over, "PI306"), Some((line_of(&over, "arrive.expect_tx"), Confidence::Certain)));
    let early = hardware("mbarrier_reached").replace("\tbar.sync \t0;\n", "");
    assert_eq!(first(&early, "PI307"), Some((line_of(&early, "mbarrier.try_wait"), Confidence::Likely)));
}

#[test]
fn part_of_a_warp_at_a_barrier() {
    let text = sample("hopper_warp_specialised.ptx");
    let line = line_of(&text, "bar.sync \t1, 256");
    let faulty = text.replace("bar.sync \t1, 256;", "@%p2 bar.sync \t1, 256;");
    // %p2 holds in every thread but the first: all of the consumers, so that nothing is wrong.
    assert_eq!(first(&faulty, "PI206"), None);
    let lanes = "{ .reg .pred %q; .reg .b32 %l; mov.u32 %l, %laneid; setp.lt.u32 %q, %l, 16; @%q bar.sync 1, 256; }";
    let faulty = text.replace("bar.sync \t1, 256;", lanes);
    assert_eq!(first(&faulty, "PI206"), Some((line, Confidence::Likely)));
}

#[test]
fn wgmma_out_of_order() {
    let text = sample("hopper_warp_specialised.ptx");
    let without = |words: &str| text.replacen(words, "", 1);
    let mma = line_of(&text, "wgmma.mma_async");
    assert_eq!(first(&without("wgmma.fence.sync.aligned;"), "PI501").map(|(line, _)| line), Some(mma));
    assert!(first(&without("wgmma.commit_group.sync.aligned;"), "PI502").is_some());
    assert!(first(&text.replace("wgmma.wait_group.sync.aligned", "// "), "PI503").is_some());
}

/// A register that inline assembly writes twice is evaluated place by place; roles that memory hands out are told.
#[test]
fn roles_that_memory_hands_out() {
    let text = "\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k()
.reqntid 384
{
 .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b16 %h<4>;
 .shared .align 4 .b8 state[8];
 mov.u32 %r1, %tid.x;
 shr.u32 %r2, %r1, 5;
 mov.u32 %r3, 0;
 shfl.sync.idx.b32 %r4, %r2, %r3, 31, -1;
 mov.u32 %r3, %clock;
 setp.lt.u32 %p1, %r4, 4;
 @!%p1 bra WORKER;
 st.shared.v2.b32 [state], {0, 16843009};
 setmaxnreg.dec.sync.aligned.u32 40;
 bar.sync 1, 384;
 st.shared.v2.b32 [state], {33686018, 33686018};
 bar.sync 1, 384;
 ret;
WORKER:
 bar.sync 1, 384;
 mov.u32 %r5, state;
 add.s32 %r6, %r5, %r4;
 ld.shared.u8 %h1, [%r6+-4];
 setp.eq.s16 %p2, %h1, 0;
 @%p2 bra ZERO;
 setp.eq.s16 %p3, %h1, 1;
 @%p3 bra ONE;
 ret;
ZERO:
 setmaxnreg.inc.sync.aligned.u32 232;
 bra WORKER;
ONE:
 setmaxnreg.inc.sync.aligned.u32 224;
 bra WORKER;
}
";
    let mut found = summary(text, [384, 1, 1]);
    found.sort_by_key(|(_, budget, _)| *budget);
    let found: Vec<_> = found.into_iter().map(|(_, budget, warps)| (budget, warps)).collect();
    assert_eq!(found, [(Some(40), Some(4)), (Some(224), Some(4)), (Some(232), Some(4))]);
}

#[test]
fn a_mixed_cta_group() {
    let (found, line) = planted("blackwell_tcgen05.ptx", "commit.cta_group::1", "commit.cta_group::2");
    assert_eq!(found, [("PI601", line)]);
}

#[test]
fn tensor_memory_that_leaks() {
    let alloc = |text: &str| text[..text.find("tcgen05.alloc").unwrap()].lines().count() as u32;
    let line = alloc(&sample("blackwell_tcgen05.ptx"));
    let dealloc = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 \t%r10, 128;";
    assert_eq!(planted("blackwell_tcgen05.ptx", dealloc, "").0, [("PI602", line)]);
    let fewer = dealloc.replace("128", "64");
    let (found, at) = planted("blackwell_tcgen05.ptx", dealloc, &fewer);
    assert_eq!(found, [("PI602", at)]);
}

/// `PTXINSPECT_PTX_CORPUS` names a folder of folders of real PTX: no check may be certain of a fault in any.
#[test]
fn nothing_is_certain_on_real_kernels() {
    let Some(corpus) = std::env::var_os("PTXINSPECT_PTX_CORPUS") else {
        eprintln!("SKIPPED: PTXINSPECT_PTX_CORPUS does not name a folder of PTX");
        return;
    };
    let mut files = 0;
    let mut certain = Vec::new();
    for folder in std::fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            let words = ["setmaxnreg", "mbarrier", "barrier", "tcgen05", "wgmma", "bar."];
            if text.len() > 4 << 20 || !words.iter().any(|word| text.contains(word)) {
                continue;
            }
            files += 1;
            let started = std::time::Instant::now();
            let found = findings(&text);
            if started.elapsed().as_secs() >= 2 {
                eprintln!("{}: {} s", path.display(), started.elapsed().as_secs());
            }
            for (kernel, code, line, confidence) in found {
                let kernel: String = kernel.chars().take(40).collect();
                eprintln!("{}:{line}: {code} {confidence:?} {kernel}", path.display());
                if confidence == Confidence::Certain {
                    certain.push((path.clone(), code, line));
                }
            }
        }
    }
    eprintln!("{files} files");
    assert!(files > 0);
    assert_eq!(certain, []);
}

/// A consumer whose main loop leaves one group on its way, as CUTLASS does: the first batch before the loop, operands given back inside.
const MAIN_LOOP: &str = "\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u64 out)
.reqntid 128
{
 .reg .pred %p<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>;
 .shared .align 8 .b8 empty[64];
 ld.param.u32 %r1, [n];
 ld.param.u64 %rd1, [out];
 mov.u32 %r2, %tid.x;
 setp.ne.u32 %p1, %r2, 0;
 @%p1 bra READY;
 mbarrier.init.shared::cta.b64 [empty], 128;
READY:
 bar.sync 0;
 wgmma.fence.sync.aligned;
 wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd2, %rd3, 0, 1, 1, 0, 0;
 wgmma.commit_group.sync.aligned; // first
LOOP:
 wgmma.fence.sync.aligned;
 wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd2, %rd3, 1, 1, 1, 0, 0;
 wgmma.commit_group.sync.aligned; // second
 wgmma.wait_group.sync.aligned 1;
 mbarrier.arrive.shared::cta.b64 _, [empty];
 add.s32 %r1, %r1, -1;
 setp.ne.s32 %p2, %r1, 0;
 @%p2 bra LOOP;
 wgmma.wait_group.sync.aligned 0;
 mov.f32 %f5, %f1;
 st.global.f32 [%rd1], %f5;
 ret;
}
";

#[test]
fn wgmma_on_its_way() {
    let found = |text: &str| -> Vec<(&'static str, u32)> {
        let found = findings(text).into_iter().filter(|(_, code, ..)| code.starts_with("PI50"));
        found.map(|(_, code, line, _)| (code, line)).collect()
    };
    assert_eq!(found(MAIN_LOOP), []);
    let without = |words: &str| found(&MAIN_LOOP.replace(words, ""));
    // Without the last wait the copy of a result is read too early: the copying itself is no read.
    assert!(without("wgmma.wait_group.sync.aligned 0;").contains(&("PI503", line_of(MAIN_LOOP, "st.global"))));
    // Without the wait in the loop the operands are given back while they may still be read.
    assert_eq!(without("wgmma.wait_group.sync.aligned 1;"), [("PI503", line_of(MAIN_LOOP, "mbarrier.arrive"))]);
    // Without a commit in the loop no wait covers the last multiplication.
    let last =
        MAIN_LOOP.lines().collect::<Vec<_>>().iter().rposition(|line| line.contains("mma_async")).unwrap() as u32 + 1;
    assert!(without("wgmma.commit_group.sync.aligned; // second").contains(&("PI502", last)));
}

/// Two producers with stages of their own in one variable: what one announces is for its own copies, not for the other's.
#[test]
fn a_copy_that_its_producer_does_not_announce() {
    let producer = |label: &str, base: u32, arrive: &str| {
        format!(
            "{label}:
 and.b32 %r3, %r9, 3;
 shl.b32 %r4, %r3, 3;
 mov.u32 %r5, bars;
 add.s32 %r6, %r5, %r4;
 add.s32 %r7, %r6, {base};
 and.b32 %r8, %r7, -16777217;
 {arrive}
 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [data], [%rd1], 1024, [%r8]; // {label}
 add.s32 %r9, %r9, 1;
 setp.ne.s32 %p2, %r9, %r1;
 @%p2 bra {label};
 ret;
"
        )
    };
    let text = |first: &str| {
        let second = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 1024;";
        format!(
            "\
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 n, .param .u64 from)
.reqntid 64
{{
 .reg .pred %p<9>; .reg .b32 %r<12>; .reg .b64 %rd<9>;
 .shared .align 8 .b8 bars[64];
 .shared .align 128 .b8 data[1024];
 ld.param.u32 %r1, [n];
 ld.param.u64 %rd1, [from];
 mov.u32 %r2, %tid.x;
 mov.u32 %r9, 0;
 setp.lt.u32 %p1, %r2, 32;
 @%p1 bra FIRST;
{}{}}}
",
            producer("SECOND", 32, second),
            producer("FIRST", 0, first)
        )
    };
    let announced = text("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 1024;");
    assert_eq!(first(&announced, "PI303"), None);
    let bare = text("mbarrier.arrive.shared::cta.b64 _, [%r7];");
    assert_eq!(first(&bare, "PI303"), Some((line_of(&bare, "// FIRST"), Confidence::Likely)));
    // The others' announcements are for the other four objects.
    let silent = text("");
    assert_eq!(first(&silent, "PI303"), Some((line_of(&silent, "// FIRST"), Confidence::Likely)));
}

/// A kernel of so many threads around a body; gives code and line of the body from 1 for each finding that is at least likely.
fn of_body(threads: u32, body: &str) -> Vec<(&'static str, u32)> {
    let text = format!(
        ".version 8.6\n.target sm_100a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n.visible .entry k(.param .u32 n)\n\
         .reqntid {threads}, 1, 1\n{{\n.reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<9>;\n{body}\nret;\n}}\n"
    );
    let found = findings(&text).into_iter().filter(|(.., confidence)| *confidence > Confidence::Possible);
    found.map(|(_, code, line, _)| (code, line - 8)).collect()
}

/// A shared address has bits above those of a descriptor only in a cluster; a generic one always has.
#[test]
fn an_address_that_is_not_masked() {
    let told = |before: &str| {
        let body = format!(
            ".reg .f32 %f<4>; .reg .b32 %r<4>; .reg .b64 %rd<4>; .shared .align 1024 .b8 tile[16384];\nmov.f32 %f0, 0f00000000;\n\
             mov.f32 %f1, %f0;\nmov.f32 %f2, %f0;\nmov.f32 %f3, %f0;\nmov.u32 %r1, tile;\ncvt.u64.u32 %rd1, %r1;\n{before}\n\
             shr.u64 %rd1, %rd1, 4;\nor.b64 %rd1, %rd1, 0x4000004000010000;\nwgmma.fence.sync.aligned;\n\
             wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{%f0,%f1,%f2,%f3}}, %rd1, %rd1, 1, 1, 1, 0, 0;\n\
             wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nret;"
        );
        of_body(128, &body).iter().any(|(code, _)| *code == "PI805")
    };
    assert!(!told(""));
    assert!(told("cvta.shared.u64 %rd1, %rd1;"));
    assert!(told("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"));
}

#[test]
fn tensor_memory_that_one_way_leaves_behind() {
    let body = |first: &str, second: &str| {
        format!(
            "mov.u32 %r1, smem;\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 128;\nld.param.u32 %r2, [n];\n\
             tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\nld.shared.u32 %r4, [%r1];\nsetp.eq.u32 %p1, %r2, 0;\n@%p1 bra EARLY;\n{first}\nret;\nEARLY:\n{second}"
        )
    };
    let free = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 128;";
    assert_eq!(of_body(32, &body(free, free)), []);
    assert_eq!(of_body(32, &body("", free)), [("PI602", 2)]);
    assert_eq!(of_body(32, &body(free, "")), [("PI602", 2)]);
    let half = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 64;";
    assert_eq!(of_body(32, &body(free, half)), [("PI602", 2)]);
    assert_eq!(of_body(32, &body(&format!("{half}\n{half}"), &format!("{half}\n{half}"))), []);
}

#[test]
fn places_that_shuffles_and_masks_keep() {
    let objects = |mask: &str| {
        let text = format!(
            ".version 8.6\n.target sm_100a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n.visible .entry k()\n.reqntid 32\n\
             {{\n.reg .b32 %r<9>;\nmov.b32 %r1, smem;\nshfl.sync.idx.b32 %r2, %r1, 0, 31, -1;\nadd.s32 %r3, %r2, 16;\n\
             and.b32 %r4, %r3, {mask};\nmbarrier.init.shared.b64 [%r4], 1;\nret;\n}}\n"
        );
        let module = ptx::parse(&text);
        let function = module.functions().next().unwrap();
        let warps = Warps::of(&function, Some(BlockSize { dimensions: [32, 1, 1], exact: true }));
        mbarriers::sites(&warps).first().and_then(|site| site.object(&warps))
    };
    // The bit that tells blocks of a pair apart is cleared; of the lower bits only those that the alignment leaves open are kept.
    assert_eq!(objects("-16777224").as_deref(), Some("smem+16"));
    assert_eq!(objects("-16778224").as_deref(), Some("smem+16"));
    assert_eq!(objects("-1024"), None, "this one rounds down");
}
