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
