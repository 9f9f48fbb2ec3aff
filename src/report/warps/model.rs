//! The fields of the JSON that speak of warps.

use serde::{Deserialize, Serialize};

use crate::base::{Line, Pc};
use crate::report::{Severity, SourceLine};
pub use crate::sync::Answer;
pub use crate::sync::stands::Stands;

/// What a user says of a role: `--roles producer=4,consumer=8`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleHint {
    /// Its name.
    pub name: String,
    /// Its warps.
    pub warps: u32,
}

/// Warps of a block that do the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// `producer`, `consumer`, `epilogue`, …: by what its instructions do.
    pub name: String,
    /// Where it sets its budget, or the first line that only it runs.
    pub entry_ptx_line: Option<Line>,
    /// Registers that it has where it does what it is named for; null without setmaxnreg, or where that cannot be told.
    pub budget: Option<u32>,
    /// Every count that its setmaxnreg ask for, ascending.
    pub budgets: Vec<u32>,
    /// The most live registers in code that only it runs.
    pub peak_gpr: Option<u32>,
    /// Where.
    pub peak_ptx_line: Option<Line>,
    /// What the budget (or the register count at entry) leaves above the peak.
    pub headroom: Option<i64>,
    /// Spill instructions in code that only it runs.
    pub spills: Option<u64>,
    /// Instructions that only it runs.
    pub instructions: Option<u64>,
    /// How many warps; null when the block size or a branch does not tell.
    pub warps: Option<u32>,
    /// Which: `0-3`.
    pub warp_ids: Option<String>,
    /// Named barriers that it uses.
    pub barriers: Vec<u32>,
    /// What it does: `tma load`, `wgmma`, …
    pub does: Vec<String>,
    /// What only some of its warps do.
    #[serde(default)]
    pub parts: Vec<RolePart>,
}

/// What some warps of a role do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolePart {
    /// One of `does`.
    pub does: String,
    /// Which warps: `4`.
    pub warp_ids: String,
}

/// A setmaxnreg of the PTX.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedRegisters {
    /// Its line.
    pub ptx_line: Line,
    /// `inc` or `dec`.
    pub action: String,
    /// Registers asked for.
    pub count: Option<u32>,
    /// What the ISA has against the count.
    pub illegal: Option<String>,
}

/// A USETMAXREG of the SASS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmittedRegisters {
    /// Where.
    pub pc: Pc,
    /// Its line.
    pub ptx_line: Option<Line>,
    /// `inc` or `dec`.
    pub action: String,
    /// Registers.
    pub count: Option<u32>,
}

/// setmaxnreg, asked for against done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetMaxNReg {
    /// In the PTX.
    pub requested: Vec<RequestedRegisters>,
    /// In the SASS.
    pub emitted: Vec<EmittedRegisters>,
    /// Whether the cubin records a change of registers.
    pub recorded: bool,
    /// Whether ptxas kept them; null when the SASS is not decoded.
    pub honoured: Option<bool>,
    /// ptxas's code for dropping them.
    pub code: Option<String>,
    /// Why they were dropped.
    pub reason: Option<String>,
    /// What to do about it.
    pub fix: Option<String>,
    /// Whether the budgets can all be had at once; null where they were dropped.
    pub pool: Option<RegisterPool>,
}

/// The registers of a block against what its roles ask for, in registers of a thread times warps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterPool {
    /// What the block is launched with.
    pub available: Option<u32>,
    /// What its roles ask for.
    pub required: Option<u32>,
    /// `exact`, `unused`, `never` or `unknown`. What is asked for is the most that is held at once where budgets change more than
    /// once.
    pub verdict: String,
    /// The verdict in words, with the arithmetic.
    pub explanation: String,
    /// What must hold for the verdict; null when nothing is assumed.
    pub condition: Option<String>,
    /// The setmaxnreg at which a role waits for ever, where the order decides.
    pub stuck_ptx_line: Option<Line>,
    /// Budgets that fit.
    pub rebalance: Vec<RoleBudget>,
}

/// A budget proposed for a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleBudget {
    /// The role.
    pub role: String,
    /// Registers.
    pub registers: u32,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// It may be wrong, if something holds that the code does not show.
    Possible,
    /// It is wrong unless something unusual holds.
    Likely,
    /// It is wrong.
    Certain,
}

impl Confidence {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Confidence::Possible => "possible",
            Confidence::Likely => "likely",
            Confidence::Certain => "certain",
        }
    }
}

/// Something that a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issue {
    /// `PI201`: `ptxinspect explain PI201`.
    pub code: String,
    /// How bad it is, if so.
    pub severity: Severity,
    /// How sure that is.
    pub confidence: Confidence,
    /// Where.
    pub ptx_line: Option<Line>,
    /// The front end's line of it.
    #[serde(default)]
    pub source_line: Option<SourceLine>,
    /// What.
    pub message: String,
    /// Why.
    pub reasoning: String,
    /// Of one that execution made: where everybody stands when nobody can go on, the one that it is about first.
    #[serde(default)]
    pub witness: Vec<Stands>,
    /// Of one that execution made: a change that mends the kernel; null where none was found.
    #[serde(default)]
    pub mend: Option<Mended>,
}

impl Issue {
    /// Whether a reader should know before anything else.
    pub fn is_serious(&self) -> bool {
        self.confidence >= Confidence::Likely
    }
}

/// The verdict of executing a kernel's barriers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The verdict.
    pub verdict: Answer,
    /// The line that decides; null where none does.
    pub ptx_line: Option<Line>,
    /// Why it is undecided, or what was left untried; null otherwise.
    pub reason: Option<String>,
    /// Where everybody stands when nobody can go on; empty where it does not come to that.
    #[serde(default)]
    pub witness: Vec<Stands>,
    /// A change that mends a kernel which goes wrong; null where none was found.
    #[serde(default)]
    pub mend: Option<Mended>,
}

/// A change with which a kernel that goes wrong ends, whatever was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mended {
    /// The change in words.
    pub change: String,
    /// The lines that it changes.
    pub lines: Vec<MendedLine>,
    /// The first step at which the kernel goes otherwise than with the change.
    #[serde(default)]
    pub first_wrong: Option<FirstWrong>,
}

/// The first step at which a kernel goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstWrong {
    /// Where.
    pub ptx_line: Line,
    /// What goes wrong there.
    pub text: String,
}

/// A line that a change is made to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MendedLine {
    /// Which.
    pub ptx_line: Line,
    /// Where in it what is replaced begins, in characters from 1; null with it, and where the text numbers its lines itself.
    pub column: Option<u32>,
    /// What stands there, as written; null where the line alone does not tell what to write.
    pub replaces: Option<String>,
    /// What takes its place, empty where it goes; null with it.
    pub instruction: Option<String>,
}

/// Barriers of all kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Barriers {
    /// Named barriers that the cubin declares: the highest id and one.
    pub declared: Option<u32>,
    /// Named barriers of the PTX, by id.
    pub named: Vec<NamedBarrier>,
    /// Sites whose id the code does not tell.
    pub unresolved: Vec<NamedBarrierSite>,
    /// Ids that are not used; null when some id is not known.
    pub free_ids: Option<Vec<u32>>,
    /// Barrier instructions of the SASS that no named barrier of the PTX stands for: the compiler put them there.
    pub inserted: Vec<InsertedBarrier>,
    /// mbarriers.
    pub mbarriers: Mbarriers,
    /// Halves of cluster barriers, in order.
    pub cluster: Vec<ClusterBarrierSite>,
    /// Groups of copies, wgmma, tensor memory, dependent launches, in order.
    pub asynchronous: Vec<AsynchronousSite>,
    /// What executing them says; null where nothing synchronises, and where the size of a block is not known, but for what is wrong
    /// with every size.
    #[serde(default)]
    pub execution: Option<Execution>,
    /// What checks found.
    pub issues: Vec<Issue>,
}

/// A named barrier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedBarrier {
    /// 0 to 15.
    pub id: u32,
    /// Where it is used.
    pub sites: Vec<NamedBarrierSite>,
}

/// An instruction on a named barrier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedBarrierSite {
    /// Its line.
    pub ptx_line: Line,
    /// `sync`, `arrive` or `red`.
    pub action: String,
    /// Whether all threads of a warp must run it together.
    pub aligned: bool,
    /// Threads that it counts to.
    pub threads: Option<u32>,
    /// Threads that may run it.
    pub reached_by: Option<u32>,
}

/// A barrier that the compiler put into the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsertedBarrier {
    /// Where.
    pub pc: Pc,
    /// The line of the PTX that it was made for.
    pub ptx_line: Option<Line>,
    /// The instruction.
    pub text: String,
}

/// mbarriers of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mbarriers {
    /// Objects that the cubin declares.
    pub declared: Option<u32>,
    /// Every instruction on one, in order.
    pub sites: Vec<MbarrierSite>,
}

/// An instruction on an mbarrier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MbarrierSite {
    /// Its line.
    pub ptx_line: Line,
    /// `init`, `arrive`, `arrive.expect_tx`, `complete_tx`, `wait`, …
    pub action: String,
    /// `full+8`, `full+0…24` for any of four side by side, `full+0,64` for either of two; null when the address does not tell the object,
    /// `full+64[?]` when it tells where an array starts, `full+?` when it tells only the variable.
    pub object: Option<String>,
    /// Count, bytes or parity, where constant.
    pub argument: Option<u64>,
    /// Threads that may run it.
    pub reached_by: Option<u32>,
    /// Its instructions that the cubin records.
    pub pcs: Vec<Pc>,
}

/// Half of a cluster barrier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterBarrierSite {
    /// Its line.
    pub ptx_line: Line,
    /// `arrive` or `wait`.
    pub action: String,
    /// Whether all threads of a warp must run it together.
    pub aligned: bool,
}

/// An instruction that orders asynchronous work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AsynchronousSite {
    /// Its line.
    pub ptx_line: Line,
    /// `wgmma.commit_group`, `tcgen05.alloc`, …
    pub action: String,
    /// 1 or 2 of `.cta_group::N`.
    pub cta_group: Option<u32>,
    /// Groups that may stay in flight, or columns of tensor memory.
    pub argument: Option<u64>,
    /// Threads that may run it.
    pub reached_by: Option<u32>,
}

/// Whether a block that is launched with so many registers a thread has what its roles ask for by setmaxnreg; not where that cannot be told.
pub fn pool_holds(roles: &[Role], registers: u32) -> bool {
    let asked: Option<u32> = roles
        .iter()
        .filter_map(|role| Some((role.warps, role.budget?)))
        .try_fold(0u32, |sum, (warps, budget)| sum.checked_add(warps?.checked_mul(budget)?));
    let warps: u32 = roles.iter().filter(|role| role.budget.is_some()).filter_map(|role| role.warps).sum();
    asked.is_some_and(|asked| asked <= warps.saturating_mul(registers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_holds_what_roles_ask_for_together() {
        let role = |warps, budget| Role {
            name: "mma".to_owned(),
            entry_ptx_line: None,
            budget,
            budgets: Vec::new(),
            peak_gpr: None,
            peak_ptx_line: None,
            headroom: None,
            spills: None,
            instructions: None,
            warps,
            warp_ids: None,
            barriers: Vec::new(),
            does: Vec::new(),
            parts: Vec::new(),
        };
        let roles = [role(Some(4), Some(256)), role(Some(3), Some(24)), role(Some(1), None)];
        // 4 × 256 + 3 × 24 = 1,096 of 7 warps: 156.6 each.
        assert!(pool_holds(&roles, 160) && !pool_holds(&roles, 152));
        assert!(!pool_holds(&[role(None, Some(40))], 255), "how many warps it has is not known");
        assert!(pool_holds(&[role(None, None)], 8), "nobody asks");
    }
}
