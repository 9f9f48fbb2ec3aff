use proptest::prelude::*;

use super::*;
use crate::base::{IndexVec, Pc, RegFile, RegSet};
use crate::graph::*;
use crate::sass::{Effects, Flow, Guard, Run, Transfer};

/// A program written down by hand.
#[derive(Clone, Debug)]
struct Toy(Vec<(Flow, Effects)>);

impl Program for Toy {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn flow(&self, index: usize) -> Flow {
        self.0[index].0
    }

    fn runs(&self, index: usize) -> impl Iterator<Item = Run> {
        let Effects { reads, writes } = &self.0[index].1;
        let reads = reads.iter_all().map(|register| (register, false));
        let all = reads.chain(writes.iter_all().map(|register| (register, true)));
        all.filter_map(|((file, first), write)| Run::new(file, first as u8, 1, write))
    }
}

fn set(text: &str) -> RegSet {
    let mut set = RegSet::EMPTY;
    for name in text.split_whitespace() {
        let split = name.find(|c: char| c.is_ascii_digit()).unwrap();
        let file = match &name[..split] {
            "R" => RegFile::Gpr,
            "P" => RegFile::Pred,
            "UR" => RegFile::Ugpr,
            _ => RegFile::Upred,
        };
        set.insert(file, name[split..].parse().unwrap());
    }
    set
}

/// `@!P0 bra 5 : P1 > R0`: guard, transfer, reads, writes; instruction numbers for targets.
fn toy(lines: &[&str]) -> Toy {
    let target = |word: Option<&&str>| Pc(16 * word.unwrap().parse::<u32>().unwrap());
    Toy(lines
        .iter()
        .map(|line| {
            let (head, tail) = line.split_once(':').unwrap_or((line, ">"));
            let (reads, writes) = tail.split_once('>').unwrap();
            let mut words: Vec<&str> = head.split_whitespace().collect();
            let mut effects = Effects { reads: set(reads), writes: set(writes) };
            let mut flow = Flow::NEXT;
            if let Some(guard) = words.first().and_then(|word| word.strip_prefix('@')) {
                let negated = guard.starts_with('!');
                let name = guard.trim_start_matches('!');
                let file = if name.starts_with('U') { RegFile::Upred } else { RegFile::Pred };
                let index = name[name.len() - 1..].parse().unwrap();
                flow.guard = Some(Guard { file, index, negated });
                effects.reads.insert(file, u16::from(index));
                words.remove(0);
            }
            flow.transfer = match words.first().copied().unwrap_or("") {
                "bra" => Transfer::Branch(target(words.get(1))),
                "call" => Transfer::Call(target(words.get(1))),
                "push" => Transfer::PushTarget(target(words.get(1))),
                "callout" => Transfer::CallOut,
                "brx" => Transfer::Indirect,
                "ret" => Transfer::Return,
                "exit" => Transfer::Exit,
                _ => Transfer::Next,
            };
            flow.known = words.first() != Some(&"unknown");
            (flow, effects)
        })
        .collect())
}

fn gprs(set: &RegSet) -> Vec<u16> {
    set.iter(RegFile::Gpr).collect()
}

fn before(program: &Toy, rule: Rule) -> Vec<RegSet> {
    before_in(program, &Layout::default(), rule)
}

fn before_in(program: &Toy, layout: &Layout, rule: Rule) -> Vec<RegSet> {
    let cfg = Cfg::build(program, layout);
    let liveness = Liveness::solve(program, &cfg, rule);
    let mut rows = vec![RegSet::EMPTY; program.len()];
    liveness.rows(program, &cfg, |row| rows[(row.pc.0 / 16) as usize] = row.before);
    rows
}

#[test]
fn a_call_of_code_that_never_returns_is_a_jump() {
    let jumps = |lines: &[&str], entries: &[u32]| {
        let layout = Layout { entries: entries.iter().map(|at| Pc(at * 16)).collect(), ..Layout::default() };
        tail_jumps::tail_jumps(&toy(lines), &layout).into_keys().collect::<Vec<u32>>()
    };
    // A loop that is left by a call: 3 ends the thread.
    assert_eq!(jumps(&["next", "@P0 call 3", "bra 0", "exit"], &[0]), [1]);
    // One that returns, one that calls another on its way, one that a symbol names, one that leads nobody knows where.
    assert_eq!(jumps(&["call 2", "exit", "ret"], &[0]), [] as [u32; 0]);
    assert_eq!(jumps(&["call 2", "exit", "call 4", "ret", "exit"], &[0]), [0, 2]);
    assert_eq!(jumps(&["@P0 call 2", "exit", "exit"], &[0, 2]), [] as [u32; 0]);
    assert_eq!(jumps(&["@P0 call 2", "exit", "brx"], &[0]), [] as [u32; 0]);
    // Two that go to one another for ever.
    assert_eq!(jumps(&["@P0 call 2", "exit", "call 3", "call 2"], &[0]), [0, 2, 3]);
}

#[test]
fn a_guarded_write_does_not_kill_and_two_opposite_ones_do() {
    let one = toy(&["@P0 : > R1", "st : R1 >", "exit"]);
    assert_eq!(gprs(&before(&one, Rule::Sound)[0]), [1]);
    let both = toy(&["@P0 : > R1", "@!P0 : > R1", "st : R1 >", "exit"]);
    assert_eq!(gprs(&before(&both, Rule::Sound)[0]), [] as [u16; 0]);
    assert_eq!(gprs(&before(&both, Rule::Sound)[1]), [1]);
    // The predicate changes in between: the two guards are not opposite any more.
    let changed = toy(&["@P0 : > R1", "setp : > P0", "@!P0 : > R1", "st : R1 >", "exit"]);
    assert_eq!(gprs(&before(&changed, Rule::Sound)[0]), [1]);
    // Written and read under the same guard.
    let same = toy(&["@P0 : > R1", "@P0 : R1 >", "exit"]);
    assert_eq!(gprs(&before(&same, Rule::Sound)[0]), [] as [u16; 0]);
}

#[test]
fn at_a_ret_nvdisasm_has_the_kept_uniform_registers_that_its_function_names() {
    // A kernel that names UR36, a function that names UR40 and UR12, one that names none.
    let lines = ["call 3 : > UR36", "call 5", "exit", "mov : UR40 > UR12", "ret", "nop", "ret"];
    let layout = Layout { entries: vec![Pc(0), Pc(48), Pc(80)], ..Layout::default() };
    let uniform = |rule: Rule, at: usize| -> Vec<u16> {
        before_in(&toy(&lines), &layout, rule)[at].iter(RegFile::Ugpr).collect()
    };
    assert_eq!(uniform(Rule::Nvdisasm, 4), [40]);
    assert_eq!(uniform(Rule::Nvdisasm, 6), [] as [u16; 0]);
    assert_eq!(uniform(Rule::Sound, 4), [] as [u16; 0]);
}

#[test]
fn a_side_exit_tells_the_predicate() {
    // Past `@P0 exit` P0 is false, so that the write under @!P0 is certain for what comes after.
    let program = toy(&["@!P0 : > R1", "@P0 exit", "st : R1 >", "exit"]);
    assert_eq!(gprs(&before(&program, Rule::Sound)[0]), [] as [u16; 0]);
}

#[test]
fn nvdisasm_lets_a_guarded_write_kill_at_a_side_exit() {
    // The label at 2 starts a trace; on its side exit to 5 nvdisasm takes the guarded write of R8 for a certain one.
    let program = toy(&["next", "push 2 : > R3", "@P0 : > R8", "@P1 bra 5", "exit", "st : R8 R3 >", "exit"]);
    let (sound, vendor) = (before(&program, Rule::Sound), before(&program, Rule::Nvdisasm));
    assert_eq!(gprs(&sound[1]), [8]);
    // R1 stays to the end.
    assert_eq!(gprs(&vendor[1]), [1]);
    assert_eq!(gprs(&vendor[2]), [1, 3, 8]);
}

#[test]
fn calls_keep_what_the_callee_leaves_alone() {
    // 0 main: R1 and R2 live over the call, R3 is overwritten by the callee, R4 is its argument, R5 its return address.
    let program = toy(&["call 3", "st : R1 R2 R3 >", "exit", "add : R4 > R3", "ret : R5 >"]);
    let rows = before(&program, Rule::Sound);
    assert_eq!(gprs(&rows[0]), [1, 2, 4, 5]);
    assert_eq!(gprs(&rows[3]), [1, 2, 4, 5]);
    assert_eq!(gprs(&rows[4]), [1, 2, 3, 5]);
    let cfg = Cfg::build(&program, &Layout::default());
    assert_eq!(cfg.functions.len(), 2);
    assert_eq!(cfg.calls, [CallSite { pc: Pc(0), callee: Some(FuncId(1)) }]);
    assert!(cfg.exact());
}

#[test]
fn callers_do_not_leak_into_each_other() {
    // R1 is live after the first call only, R2 after the second only.
    let program = toy(&["call 6", "st : R1 >", "mov : > R2", "call 6", "st : R2 >", "exit", "nop", "ret : R5 >"]);
    let rows = before(&program, Rule::Sound);
    assert_eq!(gprs(&rows[0]), [1, 5]);
    assert_eq!(gprs(&rows[3]), [2, 5]);
    assert_eq!(gprs(&rows[6]), [1, 2, 5]);
}

#[test]
fn recursion_ends() {
    let program = toy(&["call 2", "exit", "@P0 ret : R5 >", "call 2", "ret : R5 R6 >"]);
    assert_eq!(gprs(&before(&program, Rule::Sound)[0]), [5, 6]);
}

#[test]
fn unknown_words_and_ways_out_of_sight_make_functions_inexact() {
    let exact = |lines: &[&str]| {
        Cfg::build(&toy(lines), &Layout::default()).functions.iter().map(|f| f.exact).collect::<Vec<_>>()
    };
    assert_eq!(exact(&["exit", "unknown"]), [true]);
    assert_eq!(exact(&["unknown", "exit"]), [false]);
    assert_eq!(exact(&["call 3", "exit", "nop", "unknown", "ret"]), [false, false]);
    assert_eq!(exact(&["call 2", "exit", "ret", "unknown"]), [true, true]);
    assert_eq!(exact(&["brx"]), [false]);
    assert_eq!(exact(&["bra 9"]), [false]);
    assert_eq!(exact(&["nop"]), [false]);
    let program = toy(&["brx", "exit", "exit"]);
    let layout = Layout { indirect: [(Pc(0), vec![Pc(16), Pc(32)])].into(), ..Layout::default() };
    let cfg = Cfg::build(&program, &layout);
    assert!(cfg.exact());
    assert_eq!(cfg.successors(BlockId(0)).collect::<Vec<_>>(), [BlockId(1), BlockId(2)]);
}

#[test]
fn loops_nest() {
    let program = toy(&["nop", "nop", "@P0 bra 2", "@P1 bra 1", "exit"]);
    let cfg = Cfg::build(&program, &Layout::default());
    let loops = cfg.loops();
    let depths: Vec<u32> = (0..5).map(|i| cfg.loop_depth(&loops, Pc(16 * i))).collect();
    assert_eq!(depths, [0, 1, 2, 1, 0]);
    assert!(loops.loops.iter().all(|l| !l.irreducible));
    assert_eq!(loops.loops[LoopId(1)].parent, Some(LoopId(0)));
    // Two entries.
    let program = toy(&["@P0 bra 2", "nop", "nop", "@P1 bra 1", "exit"]);
    let cfg = Cfg::build(&program, &Layout::default());
    let loops = cfg.loops();
    assert_eq!(loops.loops.len(), 1);
    assert!(loops.loops[LoopId(0)].irreducible);
}

#[test]
fn definitions_and_uses() {
    let program = toy(&[
        "mov : > R1",
        "@P0 : > R1",
        "@P1 bra 5",
        "st : R1 >",
        "bra 6",
        "st2 : R1 > R2",
        "st3 : R1 >",
        "mov : > R1",
        "exit : R1 >",
    ]);
    let cfg = Cfg::build(&program, &Layout::default());
    let liveness = Liveness::solve(&program, &cfg, Rule::Sound);
    let r1 = set("R1");
    let defs: Vec<u32> = liveness.definitions(&program, &cfg, Pc(5 * 16), &r1).iter().map(|d| d.pc.0 / 16).collect();
    assert_eq!(defs, [0, 1]);
    let mut uses = liveness.uses(&program, &cfg, Pc(2 * 16), &r1);
    liveness.mark_last(&program, &cfg, &mut uses);
    let uses: Vec<(u32, bool, bool)> = uses.iter().map(|u| (u.pc.0 / 16, u.is_next, u.is_last)).collect();
    assert_eq!(uses, [(3, true, false), (5, true, false), (6, false, true)]);
}

#[test]
fn a_call_stands_for_what_its_callee_defines_and_uses() {
    let program = toy(&["mov : > R1", "mov : > R3", "call 5", "st : R1 R3 >", "exit", "add : R1 > R3", "ret : R5 >"]);
    let cfg = Cfg::build(&program, &Layout::default());
    let liveness = Liveness::solve(&program, &cfg, Rule::Sound);
    let at = |pc: u32, reg: &str| -> Vec<u32> {
        liveness.definitions(&program, &cfg, Pc(pc * 16), &set(reg)).iter().map(|d| d.pc.0 / 16).collect()
    };
    assert_eq!(at(3, "R3"), [2]);
    assert_eq!(at(3, "R1"), [0]);
    assert_eq!(at(6, "R3"), [5]);
    assert!(at(5, "R1").is_empty(), "it comes from the caller");
    let uses: Vec<u32> = liveness.uses(&program, &cfg, Pc(32), &set("R1")).iter().map(|u| u.pc.0 / 16).collect();
    assert_eq!(uses, [2, 3]);
}

/// Whether register `r` is read before it is written from instruction `i` on, for each value of P0 and P1: by running all executions.
fn truth(program: &Toy, r: (RegFile, u16)) -> Vec<[bool; 4]> {
    let n = program.len();
    let mut live = vec![[false; 4]; n + 1];
    loop {
        let mut changed = false;
        for i in (0..n).rev() {
            let (flow, effects) = &program.0[i];
            for state in 0..4 {
                let holds = |guard: Guard| (state >> guard.index & 1 == 1) != guard.negated;
                let runs = flow.guard.is_none_or(holds);
                let tested = flow.guard.is_some_and(|g| (g.file, u16::from(g.index)) == r);
                let mut now = tested;
                if runs {
                    now |= effects.reads.contains(r.0, r.1);
                    let unknown =
                        (0..2).filter(|&p| effects.writes.contains(RegFile::Pred, p)).fold(0, |m, p| m | 1 << p);
                    if !effects.writes.contains(r.0, r.1) {
                        let to = match flow.transfer {
                            Transfer::Branch(target) => Some((target.0 / 16) as usize),
                            Transfer::Exit => None,
                            _ => Some(i + 1),
                        };
                        for next in (0..4).filter(|next| (next ^ state) & !unknown == 0) {
                            now |= to.is_some_and(|to| live[to.min(n)][next]);
                        }
                    }
                } else {
                    now |= live[i + 1][state];
                }
                changed |= now && !live[i][state];
                live[i][state] |= now;
            }
        }
        if !changed {
            return live;
        }
    }
}

prop_compose! {
    fn instruction(n: u32)(kind in 0..10u32, target in 0..n, guard in 0..6u8, reads in 0..16u8, writes in 0..16u8, p in 0..8u8)
        -> (Flow, Effects) {
        let mut flow = Flow::NEXT;
        flow.transfer = match kind {
            0 | 1 => Transfer::Branch(Pc(16 * target)),
            2 => Transfer::Exit,
            3 => Transfer::PushTarget(Pc(16 * target)),
            _ => Transfer::Next,
        };
        let mut effects = Effects::default();
        if guard < 4 {
            flow.guard = Some(Guard { file: RegFile::Pred, index: guard / 2, negated: guard % 2 == 1 });
            effects.reads.insert(RegFile::Pred, u16::from(guard / 2));
        }
        if flow.transfer == Transfer::Next {
            for r in 0..4 {
                if reads & writes >> 1 >> r & 1 == 1 { effects.reads.insert(RegFile::Gpr, r); }
                if writes >> r & 1 == 1 { effects.writes.insert(RegFile::Gpr, r); }
            }
            if p < 2 { effects.writes.insert(RegFile::Pred, u16::from(p)); }
        }
        (flow, effects)
    }
}

fn programs() -> impl Strategy<Value = Toy> {
    (2..14u32).prop_flat_map(|n| prop::collection::vec(instruction(n), n as usize).prop_map(Toy))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn sound_rule_has_every_register_that_an_execution_reads(program in programs()) {
        let rows = before(&program, Rule::Sound);
        for r in (0..4).map(|r| (RegFile::Gpr, r)).chain([(RegFile::Pred, 0), (RegFile::Pred, 1)]) {
            let live = truth(&program, r);
            for i in 0..program.len() {
                let needed = live[i].iter().any(|&l| l);
                prop_assert!(!needed || rows[i].contains(r.0, r.1), "{:?} at {i}", r);
            }
        }
    }

    #[test]
    fn dominators_are_what_removal_says(program in programs()) {
        let cfg = Cfg::build(&program, &Layout::default());
        let dominators = cfg.dominators();
        let reach = |without: Option<BlockId>| {
            let mut seen: IndexVec<BlockId, bool> = IndexVec::filled(false, cfg.blocks.len());
            let mut work = vec![BlockId(0)];
            while let Some(b) = work.pop() {
                if Some(b) != without && !std::mem::replace(&mut seen[b], true) {
                    work.extend(cfg.succ_of(b));
                }
            }
            seen
        };
        let all = reach(None);
        for a in all.ids() {
            let seen = reach(Some(a));
            for b in all.ids() {
                if all[a] && all[b] {
                    prop_assert_eq!(dominators.dominates(a, b), a == b || !seen[b]);
                }
            }
        }
    }

    #[test]
    fn a_block_is_in_a_loop_when_it_reaches_itself(program in programs()) {
        let cfg = Cfg::build(&program, &Layout::default());
        let loops = cfg.loops();
        for &b in cfg.reverse_postorder() {
            let mut seen: IndexVec<BlockId, bool> = IndexVec::filled(false, cfg.blocks.len());
            let mut work = cfg.succ_of(b).to_vec();
            while let Some(x) = work.pop() {
                if !std::mem::replace(&mut seen[x], true) {
                    work.extend(cfg.succ_of(x));
                }
            }
            prop_assert_eq!(loops.of(b).is_some(), seen[b]);
        }
    }

    #[test]
    fn definitions_reach(program in programs(), at in 0..14usize) {
        // A definition that is found has a path to the place: the register is written there at least.
        let at = at % program.len();
        let cfg = Cfg::build(&program, &Layout::default());
        let liveness = Liveness::solve(&program, &cfg, Rule::Sound);
        let wanted = set("R0 R1 R2 R3");
        for found in liveness.definitions(&program, &cfg, Pc(16 * at as u32), &wanted) {
            prop_assert!(program.0[(found.pc.0 / 16) as usize].1.writes.contains(found.file, found.index));
        }
        for found in liveness.uses(&program, &cfg, Pc(16 * at as u32), &wanted) {
            prop_assert!(program.0[(found.pc.0 / 16) as usize].1.reads.contains(found.file, found.index));
        }
    }
}
