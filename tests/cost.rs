//! `ptxinspect cost` as a user runs it, on recorded cubins and with the real ptxas.

mod support;

use serde_json::Value;
use support::{program, ptxas, root, stderr, stdout};

/// A loop of 32 multiplications, each on the result of the one before: no warp can do it in less than their latencies.
const CHAIN: &str = "testdata/cost/chain.ptx";

fn cost(words: &[&str]) -> Value {
    let Some(ptxas) = ptxas() else { return Value::Null };
    let asked =
        program().args(["cost", "--format", "json", "--arch", "sm_90a", "--ptxas"]).arg(ptxas).args(words).output();
    let asked = asked.unwrap();
    assert!(asked.status.success(), "{}", stderr(&asked));
    serde_json::from_slice(&asked.stdout).unwrap()
}

#[test]
fn a_chain_costs_its_latencies_and_many_warps_share_the_pipe() {
    let path = root(CHAIN);
    let found = cost(&[path.to_str().unwrap(), "--warps", "1..16"]);
    if found.is_null() {
        eprintln!("SKIPPED: no ptxas");
        return;
    }
    let turn = &found["units"][0]["kernels"][0]["loops"][0]["shortest"];
    let alone = turn["alone"]["cycles"].as_f64().unwrap();
    assert!((125.0..150.0).contains(&alone), "{alone}");
    assert_eq!(turn["alone"]["bound"], "latency");
    let all = turn["with_warps"].as_array().unwrap();
    assert_eq!(all.len(), 16);
    assert_eq!(all[15]["bound"], "part");
    // Sixteen warps do sixteen times the work in the time that the pipe takes.
    assert!(all[15]["cycles"].as_f64().unwrap() > 3.0 * alone);
}

#[test]
fn turns_that_are_done_at_once_are_counted_though_two_of_them_share_loads() {
    let path = root("testdata/cost/unrolled.ptx");
    let found = cost(&[path.to_str().unwrap()]);
    if found.is_null() {
        eprintln!("SKIPPED: no ptxas");
        return;
    }
    let turns = &found["units"][0]["kernels"][0]["loops"][0]["ptx_turns"];
    assert_eq!(*turns, 4, "{found}");
}

/// The producer's copies by one thread are loops of ptxas's own, deeper than the consumers' main loop, and so are the waits.
#[test]
fn the_hottest_loop_is_the_one_that_multiplies() {
    let Some(ptxas) = ptxas() else { return eprintln!("SKIPPED: no ptxas") };
    let text = std::fs::read_to_string(root("testdata/ptx/hopper_warp_specialised.ptx")).unwrap();
    let single = text.replace("elect.sync \t_|%p5, -1", "setp.eq.u32 \t%p5, %r2, 0");
    assert_ne!(text, single);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("single.ptx");
    std::fs::write(&path, single).unwrap();
    let asked = program().args(["--arch", "sm_90a", "--format", "json", "--ptxas"]).arg(ptxas).arg(&path).output();
    let asked = asked.unwrap();
    let report: Value = serde_json::from_slice(&asked.stdout).unwrap();
    let costs = report["units"][0]["kernels"][0]["costs"].as_array().unwrap();
    let told = |cost: &Value| (cost["ptx_line"].as_u64().unwrap(), cost["depth"].as_u64().unwrap());
    let hottest: Vec<_> = costs.iter().filter(|cost| cost["hottest"] == true).map(told).collect();
    assert_eq!(hottest, [(184, 1)]);
    assert!(costs.iter().any(|cost| told(cost).1 > 1), "{costs:?}");
    assert!(!costs.iter().any(|cost| [86, 187].contains(&told(cost).0)), "waits: {costs:?}");
}

#[test]
fn a_line_outside_of_loops_is_an_error_that_says_so() {
    let Some(ptxas) = ptxas() else { return eprintln!("SKIPPED: no ptxas") };
    let asked =
        program().args(["cost", "--arch", "sm_90a", "--loop", "1", "--ptxas"]).arg(ptxas).arg(root(CHAIN)).output();
    let asked = asked.unwrap();
    assert_eq!(asked.status.code(), Some(2));
    assert!(stderr(&asked).contains("--loop 1: no loop has an instruction of that line"), "{}", stderr(&asked));
}

#[test]
fn an_architecture_that_nobody_measured_is_named() {
    let Some(ptxas) = ptxas() else { return eprintln!("SKIPPED: no ptxas") };
    let asked =
        program().args(["cost", "--arch", "sm_80", "--ptxas"]).arg(ptxas).arg(root("testdata/cost/plain.ptx")).output();
    let asked = asked.unwrap();
    assert!(asked.status.success(), "{}", stderr(&asked));
    assert!(stdout(&asked).contains("Nobody has measured this architecture"), "{}", stdout(&asked));
}

#[test]
fn warps_that_no_scheduler_holds_are_refused() {
    let asked = program().args(["cost", "x.ptx", "--warps", "17"]).output().unwrap();
    assert_eq!(asked.status.code(), Some(2));
    assert!(stderr(&asked).contains("expected 1 to 16"), "{}", stderr(&asked));
}

#[test]
fn accesses_are_told_with_what_mends_them() {
    let path = root("testdata/cost/tile.ptx");
    let found = cost(&[path.to_str().unwrap(), "--accesses"]);
    if found.is_null() {
        eprintln!("SKIPPED: no ptxas");
        return;
    }
    let facts = &found["units"][0]["kernels"][0]["accesses"];
    assert_eq!(
        (&facts["shared_total"], &facts["shared_decided"], &facts["shared_conflicts"]),
        (&2.into(), &2.into(), &1.into())
    );
    assert_eq!(facts["clean"], false);
    assert_eq!(facts["accesses"].as_array().unwrap().len(), 5);
    assert_eq!(facts["accesses"][2]["most"], 32);
    assert_eq!(facts["mends"][0]["padding"]["gap_bytes"], 4);
}

#[test]
fn accesses_and_loops_are_asked_for_apart() {
    let asked = program().args(["cost", "x.ptx", "--accesses", "--loop", "3"]).output().unwrap();
    assert_eq!(asked.status.code(), Some(2));
    assert!(stderr(&asked).contains("cannot be used with"), "{}", stderr(&asked));
}

#[test]
fn a_chain_says_whose_result_each_instruction_waits_for() {
    let Some(ptxas) = ptxas() else { return eprintln!("SKIPPED: no ptxas") };
    let asked = program()
        .args(["annotate", "--cycles", "--format", "json", "--arch", "sm_90a", "--ptxas"])
        .arg(ptxas)
        .arg(root(CHAIN))
        .output()
        .unwrap();
    assert!(asked.status.success(), "{}", stderr(&asked));
    let mut waits = 0;
    for record in stdout(&asked).lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        for instruction in record["instructions"].as_array().into_iter().flatten() {
            let (issue, text) = (&instruction["issue"], instruction["text"].as_str().unwrap_or_default());
            assert!(issue.is_object(), "{instruction}");
            // The first comes behind the branch.
            if text.starts_with("FFMA") && issue["waited"].as_u64() >= Some(4) && issue["cause"] != "branch" {
                waits += 1;
                // Each waits for the one right before it.
                assert_eq!(issue["cause"], "stall", "{instruction}");
                assert_eq!(issue["for_pc"].as_u64(), instruction["pc"].as_u64().map(|pc| pc - 16), "{instruction}");
            }
        }
    }
    assert!(waits >= 25, "{waits}");
}

#[test]
fn cycles_of_an_architecture_that_nobody_measured_are_not_known() {
    let cubin = root("testdata/cubin/functions-13.4-sm_75.cubin");
    let asked = program().args(["annotate", "--cycles"]).arg(cubin).output().unwrap();
    assert!(asked.status.success(), "{}", stderr(&asked));
    assert!(stdout(&asked).contains("when instructions issue is not known for sm_75"), "{}", stdout(&asked));
}

/// Two warpgroups with a copy of one loop each share the tensor cores: neither waits for its own results alone.
#[test]
fn loops_of_other_warps_count_on_what_they_share() {
    let path = root("testdata/cost/twins.ptx");
    let found = cost(&[path.to_str().unwrap()]);
    if found.is_null() {
        eprintln!("SKIPPED: no ptxas");
        return;
    }
    let loops = found["units"][0]["kernels"][0]["loops"].as_array().unwrap();
    let twins: Vec<&Value> = loops.iter().filter(|found| found["beside"][0].is_object()).collect();
    assert_eq!(twins.len(), 2, "{found}");
    let at = |twin: &Value| (twin["ptx_line"].clone(), twin["beside"][0]["ptx_line"].clone());
    let ((one, other), back) = (at(twins[0]), at(twins[1]));
    assert_eq!((other, one), back);
    assert_eq!(twins[0]["beside"][0]["warp_ids"], "4-7");
    for twin in twins {
        let (alone, with) = (&twin["shortest"]["alone"], &twin["shortest"]["with_warps"][0]);
        assert_eq!(
            (&alone["bound"], &with["bound"], &with["part"]),
            (&"latency".into(), &"part".into(), &"tensor".into())
        );
        assert!(with["cycles"].as_f64().unwrap() > alone["cycles"].as_f64().unwrap(), "{twin}");
    }
    // Who asks for a number of warps asks for that many of one loop.
    let asked = cost(&[path.to_str().unwrap(), "--warps", "1"]);
    assert!(!asked.to_string().contains("warp_ids"), "{asked}");
}

#[test]
fn bank_conflicts_count_in_cycles() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(root("testdata/cost/conflict.ptx")).unwrap();
    let turn = |stride: u32| {
        let path = folder.path().join(format!("{stride}.ptx"));
        std::fs::write(&path, text.replace("%r3, 128, %r4", &format!("%r3, {stride}, %r4"))).unwrap();
        cost(&[path.to_str().unwrap(), "--warps", "4"])["units"][0]["kernels"][0]["loops"][0]["shortest"].clone()
    };
    let (apart, together) = (turn(4), turn(128));
    if apart.is_null() {
        eprintln!("SKIPPED: no ptxas");
        return;
    }
    assert_eq!((&apart["bank_conflicts"], &apart["undecided_accesses"]), (&0.into(), &0.into()));
    assert_eq!((&together["bank_conflicts"], &together["undecided_accesses"]), (&1.into(), &0.into()));
    // Sixteen warps, 32 wavefronts each, one a cycle.
    let with = &together["with_warps"][0];
    assert!((512.0..540.0).contains(&with["cycles"].as_f64().unwrap()), "{with}");
    assert_eq!((&with["bound"], &with["part"]), (&"part".into(), &"load/store of the SM".into()));
    assert!(apart["with_warps"][0]["cycles"].as_f64().unwrap() < 100.0, "{apart}");
    // A result comes two cycles later for each further wavefront.
    let alone = |turn: &Value| turn["alone"]["cycles"].as_f64().unwrap();
    assert!((alone(&together) - alone(&apart) - 62.0).abs() < 2.0, "{} {}", alone(&together), alone(&apart));
}

#[test]
fn where_data_are_is_a_parameter() {
    let path = root(CHAIN);
    let latency = |more: &[&str]| {
        let found = cost(&[&[path.to_str().unwrap()], more].concat());
        found["units"][0]["kernels"][0]["loops"][0]["memory_latency"].clone()
    };
    if latency(&[]).is_null() {
        eprintln!("SKIPPED: no ptxas");
        return;
    }
    assert_eq!(latency(&[]), 33);
    assert_eq!(latency(&["--memory", "l2"]), 280);
    assert_eq!(latency(&["--memory", "dram"]), 680);
    assert_eq!(latency(&["--memory", "dram", "--latency", "900"]), 900);
}
