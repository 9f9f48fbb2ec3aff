use super::*;
use crate::compare::unified;
use crate::ptx;

const KERNEL: &str = "\
.version 8.8
.target sm_90
.address_size 64

.visible .entry k(
	.param .u64 p,
	.param .u32 n
)
.reqntid 128
{
	.reg .pred %p<3>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x;
	mov.u32 %r3, 0;
	ld.global.u32 %r4, [%rd1];
	add.u32 %r5, %r2, %r2;
	add.u32 %r6, %r5, %r4;
$L1:
	add.u32 %r3, %r3, %r2;
	st.global.u32 [%rd1], %r6;
	setp.lt.u32 %p1, %r3, %r1;
	@%p1 bra $L1;
	ret;
}
";

/// The lines that an edit takes away and adds.
fn edited(text: &str, edit: &str) -> Result<Vec<String>, Refused> {
    let module = ptx::parse(text);
    let kernel = module.functions().last().expect("a kernel");
    let edit: Edit = edit.parse().expect("an edit");
    let after = apply(&kernel, &[&edit])?;
    assert_eq!(ptx::parse(&after).errors, [], "what is edited is PTX still:\n{after}");
    let patch = unified("k.ptx", text, &after);
    let changed = patch.lines().skip(2).filter(|line| line.starts_with(['+', '-']));
    Ok(changed.map(str::to_owned).collect())
}

#[test]
fn directives_are_added_or_changed() {
    assert_eq!(edited(KERNEL, "maxnreg=64").unwrap(), ["+.maxnreg 64"]);
    assert_eq!(edited(KERNEL, "maxnreg=256"), Err(Refused::NoRegisters(256)));
    assert_eq!(edited(KERNEL, "maxnreg=0"), Err(Refused::NoRegisters(0)));
    assert_eq!(edited(KERNEL, "minnctapersm=2").unwrap(), ["+.minnctapersm 2"]);
    let with = KERNEL.replace(".reqntid 128", ".reqntid 128 .minnctapersm 3");
    assert_eq!(
        edited(&with, "minnctapersm=1").unwrap(),
        ["-.reqntid 128 .minnctapersm 3", "+.reqntid 128 .minnctapersm 1"]
    );
    assert_eq!(edited(&with, "minnctapersm=3"), Err(Refused::NothingToChange));
    // A launch of more threads fails then.
    assert_eq!(edited(KERNEL, "maxntid=256"), Err(Refused::Has(".reqntid")));
    let free = KERNEL.replace(".reqntid 128\n", "");
    assert_eq!(edited(&free, "maxntid=256").unwrap(), ["+.maxntid 256"]);
    assert_eq!(edited(&free, "minnctapersm=2"), Err(Refused::Needs(".maxntid or .reqntid")));
}

#[test]
fn a_comment_behind_the_header_swallows_nothing() {
    let text = KERNEL.replace(".reqntid 128\n{", ".reqntid 128 // {\n{");
    let lines = edited(&text, "maxnreg=40").unwrap();
    assert_eq!(lines, ["-.reqntid 128 // {", "+.reqntid 128", "+.maxnreg 40 // {"]);
}

#[test]
fn loops_keep_their_shape() {
    assert_eq!(edited(KERNEL, "nounroll@21").unwrap(), ["+\t.pragma \"nounroll\";"]);
    assert_eq!(edited(KERNEL, "nounroll@13"), Err(Refused::NoLoop(13)));
    let told = KERNEL.replace("$L1:\n", "$L1:\n\t.pragma \"nounroll\";\n");
    assert_eq!(edited(&told, "nounroll@21"), Err(Refused::NoLoop(21)));
}

#[test]
fn spills_go_to_shared_memory_where_all_of_it_is_known() {
    assert_eq!(edited(KERNEL, "spill-to-shared").unwrap(), ["+\t.pragma \"enable_smem_spilling\";"]);
    let old = KERNEL.replace(".version 8.8", ".version 8.6");
    assert_eq!(edited(&old, "spill-to-shared"), Err(Refused::Version(8, 7)));
    let dynamic = KERNEL.replace(".visible", ".extern .shared .b8 s[];\n.visible");
    // An array of the file that another kernel takes is none of this one's.
    assert!(edited(&dynamic, "spill-to-shared").is_ok());
    let taken = dynamic.replace("mov.u32 %r3, 0", "mov.u32 %r3, s");
    assert_eq!(edited(&taken, "spill-to-shared"), Err(Refused::DynamicShared));
    // Where the launch is known, its shared memory is made static, aligned as it was.
    assert_eq!(
        edited(&dynamic, "spill-to-shared=512").unwrap(),
        ["-.extern .shared .b8 s[];", "+.shared .align 1024 .b8 s[512];", "+\t.pragma \"enable_smem_spilling\";"]
    );
    for refused in [
        edited(&dynamic, "spill-to-shared=50000"),
        edited(&dynamic.replace("mov.u32 %r3, 0", "mov.u32 %r3, %dynamic_smem_size"), "spill-to-shared=512"),
        edited(&dynamic.replace(".b8 s[]", ".b8 s[64]"), "spill-to-shared=512"),
        edited(&dynamic.replace(".extern", ".extern .shared .b8 t[];\n.extern"), "spill-to-shared=512"),
        edited(KERNEL, "spill-to-shared=512"),
    ] {
        assert_eq!(refused, Err(Refused::SharedNotStatic));
    }
}

#[test]
fn a_load_moves_to_its_first_use_and_no_further() {
    let lines = edited(KERNEL, "loads-late").unwrap();
    // Past the addition that does not need it, not past the one that does; parameters to the load that needs them.
    assert!(lines.contains(&"-\tld.global.u32 %r4, [%rd1];".to_owned()), "{lines:?}");
    let module = ptx::parse(KERNEL);
    let kernel = module.functions().last().unwrap();
    let after = apply(&kernel, &[&Edit::LoadsLate]).unwrap();
    let at = |text: &str| after.find(text).unwrap_or_else(|| panic!("{text} in\n{after}"));
    assert!(at("add.u32 %r5") < at("ld.global.u32 %r4") && at("ld.global.u32 %r4") < at("add.u32 %r6"));
    assert!(at("ld.param.u64 %rd1") < at("ld.global.u32 %r4"));
}

#[test]
fn a_load_passes_nothing_that_may_write_what_it_reads() {
    let body = |between: &str| {
        KERNEL.replace("\tadd.u32 %r5, %r2, %r2;\n", &format!("\t{between}\n\tadd.u32 %r5, %r2, %r2;\n"))
    };
    let stays = [
        "st.global.u32 [%rd1], %r3;",
        "bar.sync 0;",
        "add.u64 %rd1, %rd1, 4;",
        "@%p1 mov.u32 %r4, 1;",
        "atom.global.add.u32 %r7, [%rd1], 1;",
        "ld.volatile.global.u32 %r7, [%rd1];",
        "membar.gl;",
        "{ mov.u32 %r7, 1; }",
        "$L0:",
    ];
    for between in stays {
        let text = body(between);
        let module = ptx::parse(&text);
        let kernel = module.functions().last().unwrap();
        let after = apply(&kernel, &[&Edit::LoadsLate]).unwrap_or_else(|_| text.clone());
        let at = |wanted: &str| after.find(wanted).unwrap_or_else(|| panic!("{wanted} in\n{after}"));
        assert!(at("ld.global.u32 %r4") < at(between), "{between}\n{after}");
    }
    for volatile in ["ld.volatile.global.u32 %r4", "ld.acquire.gpu.global.u32 %r4", "@%p1 ld.global.u32 %r4"] {
        let text = KERNEL.replace("ld.global.u32 %r4", volatile);
        let module = ptx::parse(&text);
        let kernel = module.functions().last().unwrap();
        let after = apply(&kernel, &[&Edit::LoadsLate]).unwrap_or_else(|_| text.clone());
        assert!(after.find(volatile) < after.find("add.u32 %r5"), "{volatile}");
    }
}

/// An instruction as one that looks at two at a time sees it.
struct Seen {
    text: String,
    reads: Vec<String>,
    writes: Vec<String>,
    /// Whether it does what others can see.
    acts: bool,
    loads: bool,
}

fn instructions(text: &str) -> Vec<Seen> {
    let module = ptx::parse(text);
    let kernel = module.functions().find(|function| function.kind() == ptx::FunctionKind::Entry).unwrap();
    let all = kernel.instructions().map(|located| {
        let instruction = located.instruction;
        let names =
            |def: bool| instruction.names().filter(move |used| used.is_def == def).map(|used| used.name.to_owned());
        let mnemonic = instruction.mnemonic();
        let is_constant = mnemonic == "ld" && (instruction.has("param") || instruction.has("const"));
        let loads = (mnemonic == "ld" || mnemonic == "ldmatrix") && !is_constant;
        Seen {
            text: instruction.text().to_owned(),
            reads: names(false).collect(),
            writes: names(true).collect(),
            acts: !(loads || is_constant || loads::computes(&instruction)),
            loads,
        }
    });
    all.collect()
}

/// Every two instructions of which one may change what the other does stand as they stood: looked at pair by pair.
fn stands_as_it_stood(before: &str, after: &str) {
    let (old, new) = (instructions(before), instructions(after));
    assert_eq!(old.len(), new.len());
    // Equal texts keep their order among themselves.
    let mut places: std::collections::HashMap<&str, std::collections::VecDeque<usize>> = Default::default();
    for (at, one) in new.iter().enumerate() {
        places.entry(&one.text).or_default().push_back(at);
    }
    let place: Vec<usize> =
        old.iter().map(|one| places.get_mut(one.text.as_str()).unwrap().pop_front().unwrap()).collect();
    for (at, later) in old.iter().enumerate() {
        for (before, earlier) in old.iter().enumerate().take(at).skip(at.saturating_sub(400)) {
            let meets = |one: &[String], two: &[String]| one.iter().any(|name| two.contains(name));
            let depends = meets(&later.reads, &earlier.writes)
                || meets(&later.writes, &earlier.reads)
                || meets(&later.writes, &earlier.writes);
            // A store of shared memory and a load of global memory are strangers.
            let both = |space: &str| later.text.contains(space) == earlier.text.contains(space);
            let memory = later.acts && (earlier.acts || earlier.loads) || earlier.acts && later.loads;
            let strangers = both(".global") != both(".shared") || !both(".global");
            if depends || memory && !strangers {
                assert!(place[before] < place[at], "{}\n{}", earlier.text, later.text);
            }
        }
    }
}

#[test]
fn blocks_are_ordered_so_that_few_values_live() {
    let text = KERNEL.replace(
        "\tadd.u32 %r5, %r2, %r2;\n",
        "\tld.global.u32 %r7, [%rd1+4];\n\tmov.u32 %r8, %clock;\n\tld.global.u32 %r5, [%rd1+8];\n\tadd.u32 %r7, %r7, %r4;\n\tst.global.u32 [%rd1], %r7;\n",
    );
    let after = {
        let module = ptx::parse(&text);
        apply(&module.functions().last().unwrap(), &[&Edit::FewestLive]).unwrap()
    };
    stands_as_it_stood(&text, &after);
    let at = |wanted: &str| after.find(wanted).unwrap_or_else(|| panic!("{wanted} in\n{after}"));
    // The clock stays where it is; the sum ends two values before the next load begins one.
    assert!(at("ld.global.u32 %r7") < at("%clock") && at("%clock") < at("ld.global.u32 %r5"));
    assert!(at("add.u32 %r7") < at("ld.global.u32 %r5") && at("ld.global.u32 %r5") < at("st.global.u32 [%rd1], %r7"));
    let again = {
        let module = ptx::parse(&after);
        apply(&module.functions().last().unwrap(), &[&Edit::FewestLive]).map(|again| again == after)
    };
    assert!(matches!(again, Err(Refused::NothingToChange) | Ok(true)), "{again:?}");
}

#[test]
fn no_kernel_is_ordered_otherwise_than_it_may() {
    let mut ordered = 0;
    for entry in std::fs::read_dir("testdata/ptx").unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let module = ptx::parse(&text);
        let Some(kernel) = module.functions().find(|function| function.kind() == ptx::FunctionKind::Entry) else {
            continue;
        };
        let Ok(after) = apply(&kernel, &[&Edit::FewestLive]) else { continue };
        stands_as_it_stood(&text, &after);
        ordered += 1;
    }
    assert!(ordered > 5, "{ordered}");
}

#[test]
fn cheap_values_are_computed_again_where_they_are_used() {
    let lines = edited(KERNEL, "recompute").unwrap();
    let wanted = [
        "+\tld.param.u32 %ptxinspect_b32_1, [n];",
        "+\tsetp.lt.u32 %p1, %r3, %ptxinspect_b32_1;",
        "+\tmov.u32 %ptxinspect_b32_0, %tid.x;",
        "+\tadd.u32 %r3, %r3, %ptxinspect_b32_0;",
    ];
    for line in wanted {
        assert!(lines.contains(&line.to_owned()), "{line} in {lines:#?}");
    }
    // %r3 is 0 at first and counts then: it is no constant.
    assert!(!lines.iter().any(|line| line.contains("mov.u32 %ptxinspect") && line.contains(", 0;")));
    let twice = KERNEL.replace("\tret;", "\t@%p1 mov.u32 %r2, 5;\n\tret;");
    assert!(!edited(&twice, "recompute").unwrap().iter().any(|line| line.contains("%tid")), "it is written twice");
}

#[test]
fn budgets_are_splits_of_the_pool() {
    // One warpgroup gives, two take, as in the kernel that docs/how-it-works.md follows: 12 warps of 168.
    let sets = [RoleSet { at: 0, warps: 4, takes: false }, RoleSet { at: 1, warps: 8, takes: true }];
    let found = splits(&sets, 168, 12);
    assert!(found.contains(&vec![40, 232]) && found.contains(&vec![24, 240]) && found.contains(&vec![168, 168]));
    for counts in &found {
        assert!(4 * counts[0] + 8 * counts[1] <= 12 * 168, "{counts:?}");
        assert!(counts[1] >= 168 && counts.iter().all(|count| count % 8 == 0));
    }
    assert_eq!(splits(&sets[..1], 168, 12), Vec::<Vec<u32>>::new(), "nobody takes");
    let text = include_str!("../../../testdata/ptx/hopper_warp_specialised.ptx");
    assert_eq!(edited(text, "setmaxnreg=32,232").unwrap().len(), 2);
    assert_eq!(edited(text, "setmaxnreg=32,236"), Err(Refused::IllegalCount(236)));
    assert_eq!(edited(text, "setmaxnreg=32"), Err(Refused::Counts(2)));
}

#[test]
fn functions_stay_calls() {
    let text = include_str!("../../../testdata/ptx/device_functions.ptx");
    let module = ptx::parse(text);
    let kernel = module.functions().find(|function| function.kind() == ptx::FunctionKind::Entry).unwrap();
    let lines: Vec<u32> = callees(&kernel).collect();
    for line in lines {
        let after = apply(&kernel, &[&Edit::NoInline(line)]).unwrap();
        assert_eq!(ptx::parse(&after).errors, []);
        assert!(after.contains("\n.noinline"));
    }
    assert_eq!(Edit::NoInline(1).splices(&kernel), Err(Refused::NoFunction(1)));
}

#[test]
fn edits_are_made_together_or_not_at_all() {
    let module = ptx::parse(KERNEL);
    let kernel = module.functions().last().unwrap();
    let all = [Edit::MaxNReg(40), Edit::NoUnroll(21), Edit::SpillToShared, Edit::LoadsLate];
    assert_eq!(apply(&kernel, &[&Edit::LoadsLate, &Edit::FewestLive]), Err(Refused::Overlap));
    // What is computed again and then moved.
    assert!(apply(&kernel, &[&Edit::Recompute, &Edit::FewestLive]).is_ok());
    let after = apply(&kernel, &all.iter().collect::<Vec<_>>()).unwrap();
    for text in [".maxnreg 40", "nounroll", "enable_smem_spilling"] {
        assert_eq!(after.matches(text).count(), 1, "{text}");
    }
    assert_eq!(apply(&kernel, &[]).unwrap(), KERNEL);
}
