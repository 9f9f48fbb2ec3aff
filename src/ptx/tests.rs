//! What the views say, one construct at a time.

use super::*;
use crate::base::Line;

/// A module with one function around these statements.
fn body(statements: &str) -> String {
    format!(".version 8.8\n.target sm_90a\n.address_size 64\n.entry k() {{\n{statements}\n}}\n")
}

/// The instruction that a text is.
fn instruction(text: &str) -> Instruction<'_> {
    Instruction::new(text)
}

#[track_caller]
fn clean(text: &str) -> Module<'_> {
    let module = parse(text);
    assert_eq!(module.errors, [], "{text}");
    module
}

fn names(text: &str) -> String {
    let used = instruction(text).names().map(|n| format!("{}{}", if n.is_def { "=" } else { "" }, n.name));
    used.collect::<Vec<_>>().join(" ")
}

fn operands(text: &str) -> Vec<&str> {
    instruction(text).operands().map(|operand| operand.text()).collect()
}

#[test]
fn module_directives() {
    let module = clean(".version 8.5\n.target sm_90a, debug\n.target texmode_unified\n.address_size 64 // x\n");
    assert_eq!(module.version(), Some((8, 5)));
    assert_eq!(module.targets().collect::<Vec<_>>(), ["sm_90a", "debug", "texmode_unified"]);
    assert_eq!(module.address_size(), Some(64));
    assert_eq!(module.statements().len(), 4);
    let nothing = clean("");
    assert_eq!((nothing.version(), nothing.address_size(), nothing.targets().count()), (None, None, 0));
}

#[test]
fn statements_know_their_lines() {
    let text = body("mov.u32 %r1, 5; L:\n\n@%p1\nadd.s32 %r1,\n  %r2, /* a\nb */ %r3\n;\n.pragma \"a\nb\";");
    let module = clean(&text);
    let lines = |kind| {
        let found = module.statements().iter().filter(move |s| s.kind == kind);
        found.map(|s| (s.first_line.0, s.last_line.0)).collect::<Vec<_>>()
    };
    assert_eq!(lines(StatementKind::Instruction), [(5, 5), (7, 11)]);
    assert_eq!(lines(StatementKind::Label), [(5, 5)]);
    assert_eq!(lines(StatementKind::Pragma), [(12, 13)]);
    assert_eq!(lines(StatementKind::ScopeClose), [(14, 14)]);
    assert_eq!(module.statements_at(Line(9)).len(), 1);
    assert_eq!(module.statements_at(Line(5)).len(), 2);
    assert_eq!(module.statements_at(Line(6)).len(), 0);
    assert_eq!(module.function_at(Line(9)).map(|f| f.name()), Some("k"));
    assert!(module.function_at(Line(3)).is_none());
    assert!(module.function_at(Line(15)).is_none());
}

#[test]
fn functions() {
    let text = "
        .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b)
        .func noparen;
        .weak .func (.reg .b32 %out, .reg .b32 %more) f(.reg .b32 %in) { ret; }
        .func .attribute(.unified(0x1, 0x2)) g() .noreturn .abi_preserve 8 { trap; }
        .visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 64 .b8 q[128], .param .v2 .f32 v)
        .maxntid 128, 2 .minnctapersm 2 .pragma \"a\", \"b\"; .maxnreg 0x40 .reqnctapercluster 2, 1, 1
        .explicitcluster .maxclusterrank 8 .newer 1, x, \"s\" .blocksareclusters
        { .extern .func inside(); { ret; } }
        .func f();
        .entry last { ret; }";
    let module = clean(text);
    let all: Vec<_> = module.functions().map(|f| (f.name(), f.linkage(), f.is_definition())).collect();
    let (external, visible, weak) = (Some(Linkage::Extern), Some(Linkage::Visible), Some(Linkage::Weak));
    assert_eq!(
        all,
        [
            ("vprintf", external, false),
            ("noparen", None, false),
            ("f", weak, true),
            ("g", None, true),
            ("k", visible, true),
            ("inside", external, false),
            ("f", None, false),
            ("last", None, true)
        ]
    );
    let f = module.function("f").unwrap();
    assert_eq!((f.kind(), f.is_definition(), f.instructions().count()), (FunctionKind::Func, true, 1));
    assert_eq!(f.header().returns().filter_map(|r| r.name()).collect::<Vec<_>>(), ["%out", "%more"]);
    let g = module.function("g").unwrap().header();
    assert_eq!(g.attribute(), Some(".unified(0x1, 0x2)"));
    assert_eq!((g.has(".noreturn"), g.value(".abi_preserve"), g.params().count()), (true, Some(8), 0));
    let k = module.function("k").unwrap();
    assert_eq!(k.kind(), FunctionKind::Entry);
    let header = k.header();
    assert_eq!(header.max_threads(), Some([128, 2, 1]));
    assert_eq!(header.required_threads(), None);
    assert_eq!((header.min_blocks_per_sm(), header.max_registers()), (Some(2), Some(64)));
    assert_eq!((header.required_cluster(), header.max_cluster_rank()), (Some([2, 1, 1]), Some(8)));
    let directives: Vec<_> = header.directives().map(|d| (d.name, d.arguments)).collect();
    assert_eq!(directives.len(), 9);
    assert_eq!(directives[2], (".pragma", "\"a\", \"b\""));
    assert_eq!(directives[7], (".newer", "1, x, \"s\""));
    assert!(header.has(".explicitcluster") && header.has(".blocksareclusters"));
    let params: Vec<_> = header.params().collect();
    assert_eq!(params[0].pointer, Some(Pointer { space: Some(StateSpace::Global), align: Some(16) }));
    assert_eq!((params[0].ty, params[0].space, params[0].align), ("u64", StateSpace::Param, None));
    assert_eq!((params[1].align, params[1].bytes(&params[1].names().next().unwrap())), (Some(64), Some(128)));
    assert_eq!((params[2].vector, params[2].element_bytes(), params[2].name()), (2, Some(8), Some("v")));
    assert_eq!(k.body().first().map(|s| s.kind), Some(StatementKind::ScopeOpen));
    assert_eq!(k.body().last().map(|s| s.kind), Some(StatementKind::ScopeClose));
    assert_eq!(module.function_at(k.lines().1).map(|f| f.name()), Some("k"));
    assert_eq!(module.function("noparen").unwrap().header().directives().count(), 0);
}

#[test]
fn variables() {
    let text = "
        .visible .global .align 8 .v2 .f32 a[2][3] = {{1.0, 0f3F800000}, {generic(b)+8}}, b, c = 5;
        .const[2] .u32 banked;
        .extern .shared .align 16 .b8 dynamic[];
        .global .attribute(.managed) .texref t;
        .align 4 .global .u32 odd_order;
        .global .samplerref s = { addr_mode_0 = wrap, filter_mode = linear };
        .common .global .b128 wide;
        .tex .u32 legacy;
        .global .u32 many<4>;
        .entry k() { .shared .b64 bar[4]; .local .align 16 .b8 depot[0x40]; .reg .b32 %r<9>, x; ret; }
        .global .f64 after;";
    let module = clean(text);
    let all: Vec<_> = module.variables().flat_map(|d| d.names().map(move |n| (d, n))).collect();
    let listed: Vec<_> = all.iter().map(|(d, n)| (n.name, d.ty, d.bytes(n))).collect();
    assert_eq!(
        listed,
        [
            ("a", "f32", Some(48)),
            ("b", "f32", Some(8)),
            ("c", "f32", Some(8)),
            ("banked", "u32", Some(4)),
            ("dynamic", "b8", None),
            ("t", "texref", Some(8)),
            ("odd_order", "u32", Some(4)),
            ("s", "samplerref", Some(8)),
            ("wide", "b128", Some(16)),
            ("legacy", "u32", Some(4)),
            ("many", "u32", Some(4)),
            ("after", "f64", Some(8)),
        ]
    );
    let (a, name) = all[0];
    assert_eq!((a.linkage, a.space, a.align, a.vector), (Some(Linkage::Visible), StateSpace::Global, Some(8), 2));
    assert_eq!((name.dimensions, name.range), ("[2][3]", None));
    assert_eq!(name.initializer, Some("{{1.0, 0f3F800000}, {generic(b)+8}}"));
    assert_eq!((all[1].1.initializer, all[2].1.initializer), (None, Some("5")));
    assert_eq!((all[3].0.bank, all[3].0.space), (Some(2), StateSpace::Const));
    assert_eq!((all[4].0.linkage, all[4].1.dimensions), (Some(Linkage::Extern), "[]"));
    assert_eq!(all[5].0.attribute, Some(".managed"));
    assert_eq!(all[6].0.align, Some(4));
    assert_eq!(all[7].1.initializer, Some("{ addr_mode_0 = wrap, filter_mode = linear }"));
    assert_eq!(all[10].1.range, Some(4));
    let k = module.function("k").unwrap();
    let shared: Vec<_> = k.declarations(StateSpace::Shared).collect();
    assert_eq!(shared[0].1.bytes(&shared[0].1.names().next().unwrap()), Some(32));
    let (_, local) = k.declarations(StateSpace::Local).next().unwrap();
    assert_eq!(local.bytes(&local.names().next().unwrap()), Some(64));
    assert_eq!(k.declarations(StateSpace::Reg).next().unwrap().1.names().count(), 2);
}

#[test]
fn guard_opcode_and_modifiers() {
    let wgmma =
        instruction("@!p wgmma.mma_async .sync/* x */.aligned.m64n8k16.f32.f16.f16 {%f1}, %rd1, %rd2, 1, 1, 1;");
    assert_eq!(wgmma.guard(), Some(Guard { register: "p", negated: true }));
    assert_eq!(wgmma.mnemonic(), "wgmma");
    assert_eq!(wgmma.modifiers().take(3).collect::<Vec<_>>(), ["mma_async", "sync", "aligned"]);
    assert!(wgmma.has("m64n8k16") && !wgmma.has("m64"));
    assert_eq!(wgmma.operands().count(), 6);
    let bulk = instruction(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [a], [b], 16, [c];",
    );
    assert_eq!(bulk.opcode(), "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint");
    assert_eq!(bulk.guard(), None);
    let split = instruction("mov\n#line 7 \"x\"\n.u32 %r1, 5;");
    assert_eq!((split.modifiers().collect::<Vec<_>>(), operands(split.text())), (vec!["u32"], vec!["%r1", "5"]));
    assert_eq!(instruction("ret;").operands().count(), 0);
}

#[test]
fn operand_shapes() {
    let shape = |text: &'static str| {
        // The first operand of an instruction of its own.
        let leaked: &'static str = Box::leak(format!("x {text};").into_boxed_str());
        let operand = instruction(leaked).operand(0).unwrap();
        assert_eq!(operand.text(), text);
        match operand.shape() {
            Shape::Name { name, component } => format!("name {name} {}", component.unwrap_or("-")),
            Shape::Not(inner) => format!("not {}", inner.text()),
            Shape::Minus(inner) => format!("minus {}", inner.text()),
            Shape::Number(number) => format!("number {number}"),
            Shape::Vector(inside) => format!("vector {}", inside.map(|o| o.text()).collect::<Vec<_>>().join("/")),
            Shape::Address(inside) => format!("address {}", inside.map(|o| o.text()).collect::<Vec<_>>().join("/")),
            Shape::List(inside) => format!("list {}", inside.map(|o| o.text()).collect::<Vec<_>>().join("/")),
            Shape::Pair(left, right) => format!("pair {} {}", left.text(), right.text()),
            Shape::Expression => "expression".to_owned(),
        }
    };
    assert_eq!(shape("%r1"), "name %r1 -");
    assert_eq!(shape("%tid.x"), "name %tid x");
    assert_eq!(shape("$L__BB0_2"), "name $L__BB0_2 -");
    assert_eq!(shape("_"), "name _ -");
    assert_eq!(shape("!%p1"), "not %p1");
    assert_eq!(shape("-%r1"), "minus %r1");
    for number in ["12", "-1", "0x1fU", "0b101", "0f3F800000", "0d3FF0000000000000", "1.5e-3", "2.", "+3"] {
        assert_eq!(shape(number), format!("number {number}"));
    }
    assert_eq!(shape("{%f1, {_, 0}, %v.x}"), "vector %f1/{_, 0}/%v.x");
    assert_eq!(shape("[%rd1+16]"), "address %rd1+16");
    assert_eq!(shape("[map, {%r1, %r2}]"), "address map/{%r1, %r2}");
    assert_eq!(shape("[%rd1].unified"), "address %rd1");
    assert_eq!(shape("()"), "list ");
    assert_eq!(shape("(a, b)"), "list a/b");
    assert_eq!(shape("%r1|%p1"), "pair %r1 %p1");
    assert_eq!(shape("_|%p1"), "pair _ %p1");
    assert_eq!(shape("{%f1, %f2} | %p1"), "pair {%f1, %f2} %p1");
    for expression in ["a+4", "a[2]", "(1<<4)|3", "a:b", "~5", "7 % 3", "-(-4)", "1 ? 2 : 3"] {
        assert_eq!(shape(expression), "expression", "{expression}");
    }
    assert_eq!(operands("call (r), f, (a, b), p;"), ["(r)", "f", "(a, b)", "p"]);
}

#[test]
fn addresses() {
    let address = |text: &'static str| {
        let found = instruction(text).operand(0).unwrap().address();
        found.map(|a| (a.base, a.offset, a.rest.map(|o| o.text()).collect::<Vec<_>>()))
    };
    assert_eq!(address("x [%rd1];"), Some((Some("%rd1"), Some(0), vec![])));
    assert_eq!(address("x [ %rd1 + 16 ];"), Some((Some("%rd1"), Some(16), vec![])));
    assert_eq!(address("x [buffer+-8];"), Some((Some("buffer"), Some(-8), vec![])));
    assert_eq!(address("x [%rd1-8*(2+1)];"), Some((Some("%rd1"), Some(-24), vec![])));
    assert_eq!(address("x [0x10];"), Some((None, Some(16), vec![])));
    assert_eq!(address("x [%rd1+%r1];"), Some((Some("%rd1"), None, vec![])));
    assert_eq!(address("x [map, {%r1, 0}];"), Some((Some("map"), Some(0), vec!["{%r1, 0}"])));
    assert_eq!(address("x %rd1;"), None);
}

/// Values that ptxas computes the same way ("Integer Constant Expression Evaluation" of the PTX ISA).
#[test]
fn constant_expressions() {
    for (text, value) in [
        ("12", Some(12)),
        ("0x1F", Some(31)),
        ("017", Some(15)),
        ("0b101U", Some(5)),
        ("0", Some(0)),
        ("0xffffffffffffffff", Some(-1)),
        ("-1", Some(-1)),
        ("1 + 2 * 3", Some(7)),
        ("(1 + 2) * 3", Some(9)),
        ("8 - 4 - 2", Some(2)),
        ("1 << 4 | 3", Some(19)),
        ("0x1e-3", Some(27)),
        ("7 % 4", Some(3)),
        ("-8 >> 1", Some(-4)),
        ("-8 / 3", Some(-2)),
        ("-1U >> 63", Some(1)),
        ("1 << 65", Some(2)),
        ("-8 >> 66", Some(-2)),
        ("0-8U >> 64", Some(-8)),
        ("-1 > 0", Some(0)),
        ("-1 > 0U", Some(1)),
        ("!5", Some(0)),
        ("~0", Some(-1)),
        ("1 < 2 ? 10 : 20", Some(10)),
        ("0 ? 1 : 0 ? 2 : 3", Some(3)),
        ("1 && 0 || 1", Some(1)),
        ("(.u64) 5", Some(5)),
        ("(.s64)(-1) < 1", Some(1)),
        ("WARP_SZ*2", Some(64)),
        ("5 / 0", None),
        ("5 % 0", None),
        ("-0x8000000000000000 / -1", Some(0)),
        ("(0-0x7fffffffffffffff-1) / (0-1)", None),
        ("%r1", None),
        ("1.5", None),
        ("0f3F800000", None),
        ("08", None),
        ("0x", None),
        ("0x10000000000000000", None),
        ("1 +", None),
        ("", None),
    ] {
        assert_eq!(constant::evaluate(text), value, "{text}");
    }
    assert_eq!(constant::evaluate(&("(".repeat(10_000) + "1" + &")".repeat(10_000))), None);
    assert_eq!(constant::evaluate(&("-".repeat(100_000) + "1")), None);
    assert_eq!(constant::evaluate(&("1+".repeat(100_000) + "1")), Some(100_001));
}

#[test]
fn definitions_and_uses() {
    assert_eq!(names("@%p1 add.s32 %r1, %r2, -%r3;"), "%p1 =%r1 %r2 %r3");
    assert_eq!(names("st.global.v2.f32 [%rd1+4], {%f1, %f2};"), "%rd1 %f1 %f2");
    assert_eq!(names("ld.global.v4.f32 {%f1, _, %f2, %f3}, [%rd1];"), "=%f1 =%f2 =%f3 %rd1");
    assert_eq!(names("setp.lt.and.s32 p|q, a, b, !r;"), "=p =q a b r");
    assert_eq!(names("mov.b64 {%r1, %r2}, %rd1;"), "=%r1 =%r2 %rd1");
    assert_eq!(names("mov.u32 %r1, %tid.x;"), "=%r1 %tid");
    assert_eq!(names("elect.sync _|%p1, -1;"), "=%p1");
    assert_eq!(names("atom.global.add.u32 %r1, [%rd1], %r2;"), "=%r1 %rd1 %r2");
    assert_eq!(names("red.async.shared::cluster.add.u32 [%r1], %r2, [%r3];"), "%r1 %r2 %r3");
    assert_eq!(names("bar.sync %r1, %r2;"), "%r1 %r2");
    assert_eq!(names("barrier.cta.red.popc.aligned.u32 %r1, %r2, %p1;"), "=%r1 %r2 %p1");
    assert_eq!(names("call (%r1, %r2), f, (%r3, param0);"), "=%r1 =%r2 f %r3 param0");
    assert_eq!(names("call f, (%r3);"), "f %r3");
    assert_eq!(names("brx.idx %r1, $L;"), "%r1 $L");
    assert_eq!(
        names("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2}, %rd1, %rd2, %p1, 1, 1;"),
        "%f1 =%f1 %f2 =%f2 %rd1 %rd2 %p1"
    );
    assert_eq!(names("wgmma.wait_group.sync.aligned 0;"), "");
    assert_eq!(
        names("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1, %d2}, {%a}, {%b}, {%d1, %d2};"),
        "=%d1 =%d2 %a %b %d1 %d2"
    );
    assert_eq!(names("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r1, %r2}, [%r3+4];"), "=%r1 =%r2 %r3");
    assert_eq!(names("tcgen05.ld.red.sync.aligned.32x32b.x2.u32.max {%r1, %r2}, %r4, [%r3];"), "=%r1 =%r2 =%r4 %r3");
    assert_eq!(names("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r1, %r2;"), "%r1 %r2");
    assert_eq!(names("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, %p1;"), "%r1 %rd1 %rd2 %r2 %p1");
    assert_eq!(names("mbarrier.arrive.shared.b64 %rd1, [%r1];"), "=%rd1 %r1");
    assert_eq!(names("mbarrier.arrive.shared::cluster.b64 _, [%r1], %r2;"), "%r1 %r2");
    assert_eq!(names("mbarrier.try_wait.shared.b64 %p1, [%r1], %rd1;"), "=%p1 %r1 %rd1");
    assert_eq!(
        names("tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}|%p1, [t, {%r1, %r2}];"),
        "=%f1 =%f2 =%f3 =%f4 =%p1 t %r1 %r2"
    );
    assert_eq!(names("nanosleep.u32 %r1;"), "%r1");
    assert_eq!(names("frobnicate.b32 %r1, [%rd1], a[%r2];"), "=%r1 %rd1 a %r2");
}

#[test]
fn operations() {
    fn of(text: &str) -> String {
        match instruction(text).operation() {
            Operation::SetMaxNReg { action, count } => format!("{action:?} {count:?}"),
            Operation::NamedBarrier(barrier) => {
                let text = |operand: Option<Operand<'_>>| operand.map_or("-".to_owned(), |o| o.text().to_owned());
                let (id, threads) = (text(barrier.id), text(barrier.threads));
                format!("{:?} {} {id} {threads}", barrier.action, barrier.aligned)
            }
            Operation::ClusterBarrier { action, aligned } => format!("cluster {action:?} {aligned}"),
            Operation::Mbarrier(mbarrier) => {
                let text = |operand: Option<Operand<'_>>| operand.map_or("-".to_owned(), |o| o.text().to_owned());
                let (address, argument) = (text(mbarrier.address), text(mbarrier.argument));
                format!("{:?} {address} {argument} {}", mbarrier.action, mbarrier.parity)
            }
            Operation::Tcgen05 { action, cta_group } => format!("{action:?} {cta_group:?}"),
            Operation::Wgmma(wgmma) => format!("{wgmma:?}"),
            Operation::CpAsync(copy) => format!("{copy:?}"),
            Operation::Bulk(bulk) => format!("{bulk:?}"),
            Operation::Call => {
                let call = instruction(text).call();
                let text = |operand: Option<Operand<'_>>| operand.map_or("-".to_owned(), |o| o.text().to_owned());
                let (returns, arguments) = (text(call.returns), text(call.arguments));
                format!("{:?} {returns} {arguments} {:?} {}", call.callee, call.table, call.uniform)
            }
            Operation::IndexedBranch { index, table } => format!("{} {table:?}", index.map_or("-", |o| o.text())),
            other => format!("{other:?}"),
        }
    }
    for (text, expected) in [
        ("setmaxnreg.inc.sync.aligned.u32 232;", "Inc Some(232)"),
        ("@%p1 setmaxnreg.dec.sync.aligned.u32 0x28;", "Dec Some(40)"),
        ("bar.sync 0;", "Sync true 0 -"),
        ("bar.cta.sync 1, 256;", "Sync true 1 256"),
        ("barrier.sync %r1;", "Sync false %r1 -"),
        ("barrier.cta.arrive.aligned 2, %r2;", "Arrive true 2 %r2"),
        ("bar.red.popc.u32 %r1, 4, 128, !%p1;", "Red true 4 128"),
        ("barrier.cta.red.and.aligned.pred %p2, 3, %p1;", "Red true 3 -"),
        ("barrier.cluster.arrive.release.aligned;", "cluster Arrive true"),
        ("barrier.cluster.wait.acquire;", "cluster Wait false"),
        ("mbarrier.init.shared::cta.b64 [%r1], 256;", "Init [%r1] 256 false"),
        ("mbarrier.inval.shared.b64 [%r1];", "Inval [%r1] - false"),
        ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 64;", "ExpectTx [%r1] 64 false"),
        ("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r1], 64;", "CompleteTx [%r1] 64 false"),
        ("mbarrier.arrive.shared.b64 %rd1, [%r1];", "Arrive [%r1] - false"),
        ("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r1], 4096;", "ArriveExpectTx [%r1] 4096 false"),
        ("mbarrier.arrive_drop.shared.b64 %rd1, [%r1];", "ArriveDrop [%r1] - false"),
        ("mbarrier.test_wait.shared.b64 %p1, [%r1], %rd1;", "TestWait [%r1] %rd1 false"),
        ("mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r1], 0, %r2;", "TryWait [%r1] 0 true"),
        ("mbarrier.pending_count.b64 %r1, %rd1;", "PendingCount - - false"),
        ("mbarrier.brand_new [%r1];", "Other [%r1] - false"),
        ("fence.proxy.async.shared::cta;", "Fence { proxy: true }"),
        ("fence.mbarrier_init.release.cluster;", "Fence { proxy: false }"),
        ("membar.gl;", "Fence { proxy: false }"),
        ("wgmma.fence.sync.aligned;", "Fence"),
        ("wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f1}, %rd1, %rd2, %r1, 0, 1, 1, 1;", "MmaAsync"),
        ("wgmma.commit_group.sync.aligned;", "CommitGroup"),
        ("wgmma.wait_group.sync.aligned 3;", "WaitGroup(Some(3))"),
        ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 512;", "Alloc Some(1)"),
        ("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r1, 32;", "Dealloc Some(2)"),
        ("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;", "Relinquish Some(1)"),
        ("tcgen05.mma.ws.sp.cta_group::1.kind::i8 [%r1], %rd1, %rd2, [%r3], %r2, %p1;", "Mma Some(1)"),
        ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%r1];", "Commit Some(1)"),
        ("tcgen05.wait::ld.sync.aligned;", "Wait None"),
        ("tcgen05.ld.sync.aligned.16x64b.x1.b32 {%r1}, [%r2];", "Ld None"),
        ("tcgen05.st.sync.aligned.16x64b.x1.b32 [%r2], {%r1};", "St None"),
        ("tcgen05.cp.cta_group::1.128x256b [%r1], %rd1;", "Cp Some(1)"),
        ("tcgen05.shift.cta_group::1.down [%r1];", "Shift Some(1)"),
        ("tcgen05.fence::before_thread_sync;", "Fence None"),
        ("cp.async.cg.shared.global [%r1], [%rd1], 16;", "Copy"),
        ("cp.async.commit_group;", "CommitGroup"),
        ("cp.async.wait_group 2;", "WaitGroup(Some(2))"),
        ("cp.async.wait_all;", "WaitAll"),
        ("cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];", "MbarrierArrive"),
        (
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [a], [b], 16, [c];",
            "Copy { tensor: false }",
        ),
        ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [m, {a, b}], [s];", "Copy { tensor: true }"),
        ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [a], [b], 16;", "Reduce { tensor: false }"),
        (
            "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [m, {a}], [s];",
            "Reduce { tensor: true }",
        ),
        ("cp.async.bulk.prefetch.tensor.1d.L2.global [m, {a}];", "Prefetch { tensor: true }"),
        ("cp.async.bulk.commit_group;", "CommitGroup"),
        ("cp.async.bulk.wait_group.read 1;", "WaitGroup { pending: Some(1), read: true }"),
        ("elect.sync _|%p1, -1;", "Elect"),
        ("mapa.shared::cluster.u32 %r1, %r2, 0;", "Mapa"),
        ("getctarank.shared::cluster.u32 %r1, %r2;", "GetCtaRank"),
        ("griddepcontrol.wait;", "GridDepControl { wait: true }"),
        ("griddepcontrol.launch_dependents;", "GridDepControl { wait: false }"),
        ("@%p1 bra.uni $L1;", "Branch { target: Some(\"$L1\"), uniform: true }"),
        ("brx.idx %r1, $T;", "%r1 Some(\"$T\")"),
        ("call.uni (r), f, (a, b);", "Some(\"f\") (r) (a, b) None true"),
        ("call f;", "Some(\"f\") - - None false"),
        ("call (), f, ();", "Some(\"f\") () () None false"),
        ("call %rd1, (a), proto;", "Some(\"%rd1\") - (a) Some(\"proto\") false"),
        ("call (r), %rd1, (a), proto;", "Some(\"%rd1\") (r) (a) Some(\"proto\") false"),
        ("ret.uni;", "Return"),
        ("exit;", "Exit"),
        ("trap;", "Trap"),
        ("add.s32 %r1, %r2, %r3;", "Other"),
    ] {
        assert_eq!(of(text), expected, "{text}");
    }
}

#[test]
fn registers_by_scope() {
    let text = body(
        ".reg .b32 %r<10>, x; .reg .pred p;
        mov.u32 %r9, x;
        { .reg .b32 %r<2>; .reg .f32 x; mov.u32 %r1, %r9; { .reg .b64 x; mov.u64 x, 0; } mov.f32 x, 0; }
        { .reg .b16 x; mov.u16 x, 1; }
        mov.u32 %r1, x;
        mov.u32 %r10, %tid.x;
        .reg .b32 %r1<3>; mov.u32 %r12, %r1;",
    );
    let module = clean(&text);
    let function = module.functions().next().unwrap();
    let registers = function.registers();
    let types: Vec<_> = function
        .instructions()
        .map(|located| {
            let used = registers.of(&located);
            used.map(|u| {
                format!("{} {} {}", u.name, registers.declaration(u.register).unwrap().line, u.register.number)
            })
            .collect::<Vec<_>>()
            .join(", ")
        })
        .collect();
    assert_eq!(
        types,
        ["%r9 5 9, x 5 0", "%r1 7 1, %r9 5 9", "x 7 0", "x 7 0", "x 8 0", "%r1 5 1, x 5 0", "", "%r12 11 2, %r1 5 1"]
    );
    let floats: Vec<_> = registers.declarations().iter().map(|d| (d.declarator.name, d.ty, d.vector)).collect();
    assert_eq!(floats.len(), 8);
    assert_eq!(floats[2], ("p", "pred", 1));
    let text = ".func (.reg .b32 %out) f(.reg .b32 %in) { mov.b32 %out, %in; ret; }";
    let module = clean(text);
    let function = module.functions().next().unwrap();
    let first = function.instructions().next().unwrap();
    assert_eq!(
        function.registers().of(&first).map(|u| (u.name, u.is_def)).collect::<Vec<_>>(),
        [("%out", true), ("%in", false)]
    );
}

#[test]
fn loc_and_file() {
    let text = body(
        "mov.u32 %r1, 1;
        .loc 1 12 3
        mov.u32 %r1, 2;
        .loc 2 0x7 21, function_name $L__info_string1+4, inlined_at 1 12 10
        mov.u32 %r1, 3; mov.u32 %r1, 4;",
    ) + ".file 1 \"a b.cu\"\n.file 2 \"C:\\dir\\\", 1700000000, 412\n.section .debug_str {\n$L__info_string1:\n.b8 1,2\n.b64 k+4\n}";
    let module = clean(&text);
    let function = module.functions().next().unwrap();
    let locs: Vec<_> = function.instructions().map(|located| located.loc.and_then(|id| module.loc(id))).collect();
    let place = |file, line, column| Position { file, line, column };
    assert_eq!(locs[0], None);
    assert_eq!(locs[1].unwrap().position, place(1, 12, 3));
    let inlined = locs[2].unwrap();
    assert_eq!(inlined.position, place(2, 7, 21));
    assert_eq!((inlined.function_name, inlined.inlined_at), (Some("$L__info_string1"), Some(place(1, 12, 10))));
    assert_eq!(locs[3], locs[2]);
    assert_eq!(module.files().map(|f| (f.index, f.name)).collect::<Vec<_>>(), [(1, "a b.cu"), (2, "C:\\dir\\")]);
    assert_eq!(module.statements().last().unwrap().kind, StatementKind::Section);
}

#[test]
fn branch_and_call_tables() {
    let text = body(
        "T: .branchtargets A, L<2>, B; P: .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn;
        C : .calltargets f, g; brx.idx %r1, T;",
    );
    let module = clean(&text);
    let function = module.functions().next().unwrap();
    let tables: Vec<_> =
        function.tables().map(|t| (t.label, t.statement.kind, t.targets().collect::<Vec<_>>().join(" "))).collect();
    assert_eq!(
        tables,
        [
            ("T", StatementKind::BranchTargets, "A L0 L1 B".to_owned()),
            ("P", StatementKind::CallPrototype, String::new()),
            ("C", StatementKind::CallTargets, "f g".to_owned())
        ]
    );
}

/// ptxas 13.4 takes `#line` anywhere and counts from it, in its messages and in its line table.
#[test]
fn line_markers() {
    let text = "#line 7 \"first.cu\"\n.version 8.0\n.target sm_90\n.entry k() {\n# 500 \"x.cu\" 1\nmov.u32\n#line 9 \"y.cu\"\n%r1, 5;\nret; }\n@@DWARF x\n#define A\n";
    let module = clean(text);
    let markers: Vec<_> = module.line_markers().iter().map(|m| (m.line.0, m.number, m.file)).collect();
    assert_eq!(markers, [(1, 7, "first.cu"), (5, 500, "x.cu"), (7, 9, "y.cu")]);
    for (line, number) in [(1, 1), (2, 7), (4, 9), (5, 10), (6, 500), (7, 501), (8, 9), (11, 12)] {
        assert_eq!(module.number_of(Line(line)), Line(number), "line {line}");
        assert!(module.lines_numbered(Line(number)).any(|l| l == Line(line)), "number {number}");
    }
    assert_eq!(module.lines_numbered(Line(9)).collect::<Vec<_>>(), [Line(4), Line(8)]);
    assert_eq!(module.lines_numbered(Line(499)).collect::<Vec<_>>(), [Line(498)]);
    let kinds: Vec<_> = module.statements().iter().filter(|s| s.kind == StatementKind::WholeLine).collect();
    assert_eq!(kinds.iter().map(|s| s.first_line.0).collect::<Vec<_>>(), [1, 5, 10, 11]);
    let plain = clean(".version 8.0\n");
    assert_eq!(plain.lines_numbered(Line(12)).collect::<Vec<_>>(), [Line(12)]);
}

#[test]
fn unknown_directives_are_kept() {
    let text = ".version 9.9\n.futuristic 3, 4\n.other a,\n  b;\n.block x { .b8 1 }\n.entry k() {\n.hint %r1\nret;\n.more\n}\n";
    let module = clean(text);
    let unknown: Vec<_> =
        module.statements().iter().filter(|s| s.kind == StatementKind::Directive).map(|s| s.text(text)).collect();
    assert_eq!(unknown, [".futuristic 3, 4", ".other a,\n  b;", ".block x { .b8 1 }", ".hint %r1", ".more"]);
    assert_eq!(module.functions().next().unwrap().instructions().count(), 1);
}

#[test]
fn errors_say_what_where_expected_and_found() {
    let text = body("add.s32 %r1, %r2 %r3;\nmov.u32 %r1, \"text\nthat goes on\";\nsub.s32 %r1;");
    let errors: Vec<_> = parse(&text).errors.iter().map(|error| error.to_string()).collect();
    assert_eq!(
        errors,
        [
            "line 5, column 18: expected ',' or ';' after an operand, found '%r3'",
            "line 6, column 14: expected an operand, found '\"text that goes on\"'",
        ]
    );
    let long = body(&format!("add 5 {};", "a".repeat(100)));
    assert_eq!(&*parse(&long).errors[0].found, format!("'{}…'", "a".repeat(40)));
    let many = body(&"1;\n".repeat(1500));
    let module = parse(&many);
    assert_eq!((module.errors.len(), module.errors_left_out), (Module::MAX_ERRORS, 500));
}

#[test]
fn samples_say_what_they_are_for() {
    let sample = |name: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/ptx").join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let text = sample("hopper_warp_specialised.ptx");
    let module = clean(&text);
    let kernel = module.function("gemm_specialised").unwrap();
    assert_eq!((kernel.header().max_threads(), kernel.header().min_blocks_per_sm()), (Some([384, 1, 1]), Some(1)));
    let actions: Vec<_> = kernel
        .instructions()
        .filter_map(|located| match located.instruction.operation() {
            Operation::SetMaxNReg { action, count } => Some((action, count)),
            _ => None,
        })
        .collect();
    assert_eq!(actions, [(RegisterAction::Dec, Some(40)), (RegisterAction::Inc, Some(232))]);
    let barriers: Vec<_> = kernel
        .instructions()
        .filter_map(|located| match located.instruction.operation() {
            Operation::NamedBarrier(barrier) => Some((barrier.id?.value()?, barrier.threads.and_then(|t| t.value()))),
            _ => None,
        })
        .collect();
    assert_eq!(barriers, [(0, None), (1, Some(256))]);

    let text = sample("blackwell_tcgen05.ptx");
    let module = clean(&text);
    let mut actions = Vec::new();
    for located in module.function("gemm_tmem").unwrap().instructions() {
        if let Operation::Tcgen05 { action, .. } = located.instruction.operation()
            && !actions.contains(&action)
        {
            actions.push(action);
        }
    }
    use Tcgen05::{Alloc, Commit, Dealloc, Fence, Ld, Mma, Relinquish, St, Wait};
    assert_eq!(actions, [Alloc, Relinquish, Fence, Mma, Commit, Ld, Wait, St, Dealloc]);
}

#[test]
fn what_is_called_stands_where_it_is_called() {
    let text = ".version 8.6\n.target sm_90\n.address_size 64\n\
        .func (.param .b64 sum) add(.param .b64 a, .param .b64 b) {\n.reg .b64 %rd<4>;\nld.param.b64 %rd1, [a];\n\
        ld.param.b64 %rd2, [b];\nadd.s64 %rd3, %rd1, %rd2; // a sum\nst.param.b64 [sum], %rd3;\nret;\n}\n\
        .func meet(.reg .b32 id) {\n.reg .pred p;\nsetp.eq.s32 p, id, 0;\n@p ret;\nL:\nbar.sync id;\nret;\n}\n\
        .entry other() {\nret;\n}\n\
        .entry k() {\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n.reg .pred %p<2>;\n{\n.param .b64 in0;\nst.param.b64 [in0], %rd1;\n\
        .param .b64 in1;\nst.param.b64 [in1+0], 5;\n.param .b64 out;\ncall.uni (out), add, (in0, in1);\n\
        ld.param.b64 %rd2, [out];\n}\ncall meet, (%r1);\n@%p1 call meet, (3);\nret;\n}\n";
    let module = parse(text);
    let kernel = module.functions().find(|function| function.name() == "k").unwrap();
    let inlined = super::inlined(&kernel, &|_| true).unwrap();
    let after = parse(&inlined);
    assert!(after.errors.is_empty(), "{:?}\n{inlined}", after.errors);
    let again = after.functions().find(|function| function.name() == "k").unwrap();
    assert_eq!(kernel.lines(), again.lines());
    assert!(!again.instructions().any(|located| located.instruction.mnemonic() == "call"), "{inlined}");
    assert!(!after.functions().any(|function| function.name() == "other"), "{inlined}");
    // Every line keeps its number: the two barriers stand where they are called.
    let line = |wanted: &str| text.lines().position(|line| line.contains(wanted)).unwrap() as u32 + 1;
    let barriers: Vec<u32> = again
        .instructions()
        .filter(|located| located.instruction.mnemonic() == "bar")
        .map(|located| located.line.0)
        .collect();
    assert_eq!(barriers, [line("call meet, (%r1)"), line("@%p1 call meet")]);
    // Every name is declared: the sum is made of registers of its own.
    let registers = again.registers();
    for located in again.instructions() {
        let names = located.instruction.names().filter(|name| name.name.starts_with('%'));
        for name in names {
            assert!(registers.resolve(name.name, located.id).is_some(), "{}: {inlined}", name.name);
        }
    }
}

#[test]
fn what_cannot_be_put_in_place_stays_called() {
    let kernel = |functions: &str, call: &str| {
        let text = format!(
            ".version 8.6\n.target sm_90\n.address_size 64\n{functions}\n.entry k() {{\n.reg .b64 %rd<2>;\n{call}\nret;\n}}\n"
        );
        let module = parse(&text);
        let kernel = module.functions().find(|function| function.name() == "k").unwrap();
        super::inlined(&kernel, &|_| true)
    };
    assert!(kernel(".func f() { bar.sync 0; ret; }", "call f;").is_some());
    assert!(kernel(".func f() { call f; ret; }", "call f;").is_none(), "a recursion");
    assert!(kernel(".func f() { .shared .b32 x; ret; }", "call f;").is_none(), "a variable");
    assert!(kernel(".extern .func f();", "call f;").is_none(), "one that is elsewhere");
    assert!(kernel(".func f(.reg .b32 a) { ret; }", "call f;").is_none(), "no argument");
    assert!(kernel(".func f() { ret; }", "call %rd1, p;").is_none(), "by a register");
    assert!(kernel(".func f() { ret; }", "ret;").is_none(), "nothing to do");
}
