//! Objects of arrays, told apart where loops count the index.

use crate::ptx;
use crate::simt::*;
use crate::sync::rules::finding::Confidence;
use crate::sync::rules::mbarriers;

/// A kernel of one warp with a body.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u32 n, .param .u64 from)\n.reqntid 32\n{{\n\
         .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .f32 %f<9>;\n.shared .align 8 .b8 bars[128];\n\
         .shared .align 128 .b8 data[1024];\nld.param.u32 %r1, [n];\nmov.u32 %r2, bars;\nmov.u32 %r3, 0;\nmov.u32 %r4, 0;\n{body}\nret;\n}}\n"
    )
}

fn with<T>(text: &str, of: impl Fn(&Warps<'_>) -> T) -> T {
    let module = ptx::parse(text);
    let function = module.functions().next().unwrap();
    of(&Warps::of(&function, Some(BlockSize { dimensions: [32, 1, 1], exact: true })))
}

fn waits(body: &str) -> Vec<String> {
    with(&kernel(body), |warps| {
        let sites = mbarriers::sites(warps);
        sites.iter().filter(|site| site.act == mbarriers::Act::Wait).filter_map(|site| site.object(warps)).collect()
    })
}

/// A loop that waits at an index of its own, so many times as a parameter says.
fn looping(index: &str, next: &str) -> String {
    format!(
        "LOOP:\n{index}\nmbarrier.try_wait.parity.shared.b64 %p1, [%r6], 0;\n{next}\nadd.s32 %r1, %r1, -1;\n\
         setp.ne.s32 %p3, %r1, 0;\n@%p3 bra LOOP;"
    )
}

#[test]
fn indices_that_wrap_around() {
    let place = "shl.b32 %r5, %r3, 3;\nadd.s32 %r5, %r5, %r2;\nadd.s32 %r6, %r5, 16;";
    let chosen = "add.s32 %r3, %r3, 1;\nsetp.eq.s32 %p2, %r3, 3;\nselp.b32 %r3, 0, %r3, %p2;";
    assert_eq!(waits(&looping(place, chosen)), ["bars+16…32"]);
    let branching = "add.s32 %r3, %r3, 1;\nsetp.ne.s32 %p2, %r3, 4;\n@%p2 bra ON;\nmov.u32 %r3, 0;\nON:";
    assert_eq!(waits(&looping(place, branching)), ["bars+16…40"]);
    let masked = "add.s32 %r3, %r3, 1;\nand.b32 %r3, %r3, 1;";
    assert_eq!(waits(&looping(place, masked)), ["bars+16…24"]);
}

#[test]
fn indices_that_count_on() {
    // Modulo 3 as compilers compute it, of a counter that never starts again, with another one beside it.
    let place = "mul.hi.u32 %r7, %r3, -1431655765;\nshr.u32 %r7, %r7, 1;\nmul.lo.s32 %r8, %r7, 24;\nsub.s32 %r9, %r4, %r8;\n\
                 add.s32 %r6, %r2, %r9;";
    let next = "add.s32 %r3, %r3, 1;\nadd.s32 %r4, %r4, 8;";
    assert_eq!(waits(&looping(place, next)), ["bars+0…16"]);
    // Nothing brings this one back: it is not taken to be anywhere.
    assert_eq!(waits(&looping("add.s32 %r6, %r2, %r4;", "add.s32 %r4, %r4, 8;")), ["bars[?]"]);
    // A parameter decides.
    assert_eq!(waits(&looping("shl.b32 %r5, %r1, 3;\nadd.s32 %r6, %r2, %r5;", "")), ["bars[?]"]);
}

#[test]
fn indices_that_count_on_before() {
    // What an unrolled loop leaves over: its counter never starts again, and is even.
    let rest = |next: &str| {
        let count = format!("LOOP:\n{next}\nadd.s32 %r1, %r1, -1;\nsetp.ne.s32 %p3, %r1, 0;\n@%p3 bra LOOP;");
        let place = "and.b32 %r5, %r4, 1;\nshl.b32 %r5, %r5, 3;\nadd.s32 %r6, %r5, %r2;";
        waits(&format!("{count}\n{place}\nmbarrier.try_wait.parity.shared.b64 %p1, [%r6], 0;"))
    };
    assert_eq!(rest("add.s32 %r4, %r4, 2;"), ["bars"]);
    assert_eq!(rest("add.s32 %r4, %r4, 1;"), ["bars+0…8"]);
    // The outer loop has it odd, after more rounds of the inner one than are tried.
    let inner = "mov.u32 %r7, 0;\nINNER:\nadd.s32 %r7, %r7, 1;\nsetp.ne.s32 %p4, %r7, 1000;\n@%p4 bra INNER;";
    assert_eq!(rest(&format!("{inner}\nadd.s32 %r4, %r4, %r7;\nadd.s32 %r4, %r4, 1;")), ["bars+0…8"]);
}

#[test]
fn an_address_that_another_way_computes_too() {
    let wait = "shl.b32 %r5, %r3, 3;\nadd.s32 %r6, %r5, %r2;\nmbarrier.try_wait.parity.shared.b64 %p1, [%r6], 0;";
    // One or the other, and some ways by both.
    for end in ["ret;", ""] {
        let body = format!(
            "rem.u32 %r3, %r1, 3;\nsetp.gt.s32 %p2, %r1, 77;\n@%p2 bra OTHER;\n{wait}\n{end}\nOTHER:\n{}",
            wait.replace("%r5", "%r7").replace("%r6", "%r8")
        );
        assert_eq!(waits(&body), ["bars+0…16", "bars+0…16"], "{end}");
    }
    // Objects that do not lie side by side.
    let apart = "shl.b32 %r5, %r3, 5;\nadd.s32 %r6, %r5, %r2;\nmbarrier.try_wait.parity.shared.b64 %p1, [%r6], 0;";
    assert_eq!(waits(&format!("rem.u32 %r3, %r1, 3;\n{apart}")), ["bars+0,32,64"]);
}

#[test]
fn variables_of_a_module_with_many() {
    let outside: String = (0..100).map(|at| format!(".shared .align 8 .b64 s{at}[4];\n")).collect();
    let body = "mov.u32 %r5, s70;\nmbarrier.try_wait.parity.shared.b64 %p1, [%r5+8], 0;\n\
                mbarrier.try_wait.parity.shared.b64 %p1, [s99+16], 0;";
    let text = kernel(body).replace(".visible", &format!("{outside}.visible"));
    let objects =
        with(&text, |warps| mbarriers::sites(warps).iter().filter_map(|site| site.object(warps)).collect::<Vec<_>>());
    assert_eq!(objects, ["s70+8", "s99+16"]);
}

#[test]
fn indices_within_bounds() {
    let place = "shl.b32 %r5, %r3, 3;\nadd.s32 %r5, %r5, %r2;\nadd.s32 %r6, %r5, 16;";
    let wraps = "add.s32 %r3, %r3, 1;\nsetp.eq.s32 %p2, %r3, 3;\nselp.b32 %r3, 0, %r3, %p2;";
    // A parameter is added at times, modulo 3 as compilers compute it, in 32 bits and in 64.
    let high =
        "mul.hi.u32 %r7, %r3, -1431655765;\nshr.u32 %r7, %r7, 1;\nmul.lo.s32 %r8, %r7, 3;\nsub.s32 %r3, %r3, %r8;";
    let wide = "mul.wide.u32 %rd1, %r3, -1431655765;\nshr.u64 %rd1, %rd1, 33;\ncvt.u32.u64 %r7, %rd1;\nmad.lo.s32 %r3, %r7, -3, %r3;";
    let divided = "rem.u32 %r3, %r3, 3;";
    let rounded = "shr.u32 %r7, %r3, 31;\nadd.s32 %r7, %r3, %r7;\nand.b32 %r8, %r7, -2;\nsub.s32 %r3, %r3, %r8;";
    let next = format!(
        "{}\nsetp.gt.s32 %p4, %r1, 77;\n@%p4 bra ON;\nadd.s32 %r3, %r3, %r1;\n{rounded}\nON:",
        wraps.replace(", 3;", ", 2;")
    );
    assert_eq!(waits(&looping(place, &next)), ["bars+16…24"]);
    for modulo in [high, wide, divided] {
        let next = format!("{wraps}\nsetp.gt.s32 %p4, %r1, 77;\n@%p4 bra ON;\nadd.s32 %r3, %r3, %r1;\n{modulo}\nON:");
        assert_eq!(waits(&looping(place, &next)), ["bars+16…32"], "{modulo}");
    }
    // What is multiplied by is not what was divided by: no remainder.
    let other = high.replace("%r7, 3", "%r7, 5");
    let next = format!("{wraps}\nsetp.gt.s32 %p4, %r1, 77;\n@%p4 bra ON;\nadd.s32 %r3, %r3, %r1;\n{other}\nON:");
    assert_eq!(waits(&looping(place, &next)), ["bars+16[?]"]);
    assert_eq!(waits(&looping("and.b32 %r5, %r1, 24;\nadd.s32 %r6, %r2, %r5;", "")), ["bars+0…24"]);
    assert_eq!(
        waits(&looping("shr.u32 %r5, %r1, 31;\nshl.b32 %r5, %r5, 3;\nadd.s32 %r6, %r2, %r5;", "")),
        ["bars+0…8"]
    );
    let chosen = "setp.gt.s32 %p4, %r1, 77;\nselp.b32 %r5, 8, 0, %p4;\nadd.s32 %r6, %r2, %r5;";
    assert_eq!(waits(&looping(chosen, "")), ["bars+0…8"]);
}

#[test]
fn counts_of_objects_that_one_instruction_initialises() {
    let one = "mov.u32 %r10, %tid.x;\nsetp.eq.u32 %p4, %r10, 0;\nsetp.lt.u32 %p5, %r10, 3;\n";
    let by_thread = |count: u32| {
        format!(
            "shl.b32 %r11, %r10, 3;\nadd.s32 %r11, %r11, %r2;\n@%p5 mbarrier.init.shared.b64 [%r11], {count};\nbar.sync 0;\n"
        )
    };
    let by_round = |count: u32| {
        format!(
            "mov.u32 %r12, 0;\nINIT:\nshl.b32 %r11, %r12, 3;\nadd.s32 %r11, %r11, %r2;\n\
             @%p4 mbarrier.init.shared.b64 [%r11], {count};\nadd.s32 %r12, %r12, 1;\nsetp.ne.s32 %p6, %r12, 3;\n\
             @%p6 bra INIT;\nbar.sync 0;\n"
        )
    };
    // Whatever the parameter is, it is one of the three.
    let place =
        "rem.u32 %r3, %r1, 3;\nshl.b32 %r5, %r3, 3;\nadd.s32 %r6, %r5, %r2;\nmbarrier.arrive.shared.b64 _, [%r6];";
    for init in [&by_thread as &dyn Fn(u32) -> String, &by_round] {
        let body = |count: u32| format!("{one}{}{}", init(count), looping(place, ""));
        assert_eq!(checks(&body(32)), []);
        assert_eq!(checks(&body(33)), [("PI305", Confidence::Likely)]);
    }
}

#[test]
fn indices_that_start_at_another_place_in_each_warp() {
    let body = "mov.u32 %r10, %tid.x;\nshr.u32 %r3, %r10, 5;\n".to_owned()
        + &looping(
            "shl.b32 %r5, %r3, 3;\nadd.s32 %r6, %r2, %r5;",
            "add.s32 %r3, %r3, 2;\nsetp.lt.s32 %p2, %r3, 4;\n@%p2 bra ON;\nadd.s32 %r3, %r3, -4;\nON:",
        );
    let text = kernel(&body).replace(".reqntid 32", ".reqntid 64");
    let module = ptx::parse(&text);
    let function = module.functions().next().unwrap();
    let warps = Warps::of(&function, Some(BlockSize { dimensions: [64, 1, 1], exact: true }));
    let found: Vec<_> = mbarriers::sites(&warps).into_iter().map(|site| site.places).collect();
    assert_eq!(found, [Some(vec![0, 8, 16, 24])]);
}

fn checks(body: &str) -> Vec<(&'static str, Confidence)> {
    let text = kernel(body).replace(".reqntid 32", ".reqntid 128");
    let module = ptx::parse(&text);
    let function = module.functions().next().unwrap();
    let found = super::checked(&function, Some(BlockSize { dimensions: [128, 1, 1], exact: true }));
    // What the accumulators hold at first is asked elsewhere.
    let asked = found.into_iter().filter(|check| check.rule != crate::sync::rules::rule::Rule::WgmmaFirst);
    asked.map(|check| (check.rule.code(), check.confidence)).collect()
}

#[test]
fn fences_between_multiplications() {
    let accumulators = "%f1,%f2,%f3,%f4";
    let mma =
        format!("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{accumulators}}}, %rd1, %rd2, 1, 1, 1, 0, 0;");
    let commit = "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;";
    let twice = |between: &str| format!("wgmma.fence.sync.aligned;\n{mma}\n{commit}\n{between}\n{mma}\n{commit}");
    assert_eq!(checks(&twice("")), [], "into the same accumulators");
    assert_eq!(checks(&twice("mul.f32 %f1, %f1, 0f40000000;")), [("PI501", Confidence::Likely)]);
    assert_eq!(checks(&twice("mul.f32 %f1, %f1, 0f40000000;\nwgmma.fence.sync.aligned;")), []);
    assert_eq!(checks(&format!("{mma}\n{commit}")), [("PI501", Confidence::Likely)]);
    // One that no group has before the next fence is left out where waits count groups; where several are, a group goes across fences.
    let fence = "wgmma.fence.sync.aligned;";
    let two = format!("{fence}\n{mma}\n{fence}\n{mma}\n");
    assert_eq!(checks(&format!("{two}{commit}")), [], "all is waited for");
    let counted = format!(
        "{}\nwgmma.wait_group.sync.aligned 0;",
        commit.replace("wait_group.sync.aligned 0", "wait_group.sync.aligned 1")
    );
    assert_eq!(checks(&format!("{two}{counted}")), [("PI502", Confidence::Likely)]);
    assert_eq!(checks(&format!("{fence}\n{mma}\n{fence}\n{mma}\n{fence}\n{mma}\n{commit}")), []);
}
