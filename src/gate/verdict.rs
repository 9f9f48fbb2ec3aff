//! What the gate says: the model its writers show.

use serde::Serialize;

use super::metric::Metric;
use crate::base::Line;
use crate::compare::{LineChange, LoopChange};
use crate::report::{Mended, PtxasFile, Stands};

/// The name and version of the JSON's shape.
pub const GATE_SCHEMA: &str = "ptxinspect.gate/1";

/// How a gate ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Nothing to complain about.
    Pass,
    /// Something got worse.
    Fail,
    /// Something could not be told.
    Error,
}

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Good to know.
    Note,
    /// Worth a look; it does not fail.
    Warning,
    /// It fails.
    Failure,
    /// It could not be told, which is worse.
    Error,
}

/// What kind of finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A figure got worse than the tolerance allows.
    Regression,
    /// A figure does not keep its budget.
    Budget,
    /// A denied message.
    DeniedCode,
    /// A message of ptxas that is not recorded.
    NewAdvisory,
    /// A complaint of an analysis that is not recorded.
    NewFinding,
    /// setmaxnreg came out otherwise.
    Setmaxnreg,
    /// A kernel that is not recorded.
    NewKernel,
    /// A recorded kernel that is gone.
    RemovedKernel,
    /// A kernel under another name.
    RenamedKernel,
    /// An improvement that is not recorded.
    Improvement,
    /// Let pass by an allowance.
    Allowed,
    /// An allowance whose day has passed.
    ExpiredAllowance,
    /// A recorded unit that this run did not look at.
    NotChecked,
    /// Another ptxas or other flags than recorded.
    OtherToolchain,
    /// A figure that was known and is not, or is needed and is not known.
    NotKnown,
    /// It could not be read or compiled.
    CannotCompile,
    /// The policy speaks of something that is not there.
    NoMatch,
}

impl FindingKind {
    /// All of them.
    pub const ALL: [FindingKind; 17] = [
        FindingKind::Regression,
        FindingKind::Budget,
        FindingKind::DeniedCode,
        FindingKind::NewAdvisory,
        FindingKind::NewFinding,
        FindingKind::Setmaxnreg,
        FindingKind::NewKernel,
        FindingKind::RemovedKernel,
        FindingKind::RenamedKernel,
        FindingKind::Improvement,
        FindingKind::Allowed,
        FindingKind::ExpiredAllowance,
        FindingKind::NotChecked,
        FindingKind::OtherToolchain,
        FindingKind::NotKnown,
        FindingKind::CannotCompile,
        FindingKind::NoMatch,
    ];

    /// Its name in files.
    pub fn id(self) -> &'static str {
        match self {
            FindingKind::Regression => "regression",
            FindingKind::Budget => "budget",
            FindingKind::DeniedCode => "denied-code",
            FindingKind::NewAdvisory => "new-advisory",
            FindingKind::NewFinding => "new-finding",
            FindingKind::Setmaxnreg => "setmaxnreg",
            FindingKind::NewKernel => "new-kernel",
            FindingKind::RemovedKernel => "removed-kernel",
            FindingKind::RenamedKernel => "renamed-kernel",
            FindingKind::Improvement => "improvement",
            FindingKind::Allowed => "allowed",
            FindingKind::ExpiredAllowance => "expired-allowance",
            FindingKind::NotChecked => "not-checked",
            FindingKind::OtherToolchain => "other-toolchain",
            FindingKind::NotKnown => "not-known",
            FindingKind::CannotCompile => "cannot-compile",
            FindingKind::NoMatch => "no-match",
        }
    }

    /// What it means, in a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            FindingKind::Regression => "A figure got worse than the tolerance allows.",
            FindingKind::Budget => "A figure does not keep the budget that the policy sets.",
            FindingKind::DeniedCode => "ptxas said something that the policy denies.",
            FindingKind::NewAdvisory => "ptxas said something that the baseline does not record.",
            FindingKind::NewFinding => "An analysis complains about something that the baseline does not record.",
            FindingKind::Setmaxnreg => "setmaxnreg came out otherwise than recorded.",
            FindingKind::NewKernel => "A kernel is not recorded in the baseline.",
            FindingKind::RemovedKernel => "A recorded kernel is gone.",
            FindingKind::RenamedKernel => "A recorded kernel has another name.",
            FindingKind::Improvement => "A figure is better than recorded; record it with --update.",
            FindingKind::Allowed => "Something that would fail is let pass by an allowance.",
            FindingKind::ExpiredAllowance => "The last day of an allowance has passed.",
            FindingKind::NotChecked => "The baseline records something that this run did not look at.",
            FindingKind::OtherToolchain => "The baseline was recorded with another ptxas or other flags.",
            FindingKind::NotKnown => "A figure that has to be compared is not known.",
            FindingKind::CannotCompile => "An input cannot be read or compiled.",
            FindingKind::NoMatch => "A pattern of the policy or of the command line matches nothing.",
        }
    }
}

/// One thing to say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// Its weight.
    pub level: Level,
    /// The unit's input as the baseline names it.
    pub input: Option<String>,
    /// The path of the file to show it at.
    pub path: Option<String>,
    /// The unit's architecture.
    pub arch: Option<String>,
    /// The kernel as the cubin names it.
    pub kernel: Option<String>,
    /// The figure.
    pub metric: Option<String>,
    /// As recorded.
    pub before: Option<u64>,
    /// As measured.
    pub after: Option<u64>,
    /// The PTX line to look at.
    pub ptx_line: Option<Line>,
    /// What, in a sentence.
    pub message: String,
    /// Of a kernel that hangs: where everybody stands then.
    pub witness: Vec<Stands>,
    /// A change of its PTX that mends it; null where none was found.
    pub mend: Option<Mended>,
}

/// Whether a figure moved, and which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// No.
    Same,
    /// For the better.
    Better,
    /// For the worse, within the tolerance.
    Tolerated,
    /// For the worse.
    Worse,
    /// It cannot be told.
    Unknown,
}

/// One row of a before/after table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The kernel as the cubin names it now.
    pub kernel: String,
    /// As its language spells it.
    pub demangled: String,
    /// Its recorded name, where that is another.
    pub before_name: Option<String>,
    /// Every figure that moved: name, before, after, how.
    pub figures: Vec<FigureChange>,
    /// Loops whose cycles moved, where the policy asks for them.
    pub loops: Vec<LoopChange>,
    /// Lines where the pressure rose or spills came; filled in where both builds are at hand.
    pub lines: Vec<LineChange>,
    /// Where the old build came from, or why there is none.
    pub lines_from: Option<String>,
    /// The lines of the baseline, if the change is meant.
    pub patch: Option<Patch>,
}

/// The kernel's lines in the baseline, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Patch {
    /// As they are; null for a kernel that is not recorded.
    pub before: Option<String>,
    /// As they would be; null for a kernel that is gone.
    pub after: Option<String>,
}

/// One figure, before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureChange {
    /// Which.
    pub metric: String,
    /// For people.
    #[serde(skip)]
    pub title: &'static str,
    /// As recorded.
    pub before: Option<u64>,
    /// As measured.
    pub after: Option<u64>,
    /// How it moved.
    pub change: Change,
}

impl FigureChange {
    /// A row for a metric.
    pub fn new(metric: Metric, before: Option<u64>, after: Option<u64>, change: Change) -> Self {
        FigureChange { metric: metric.name().to_owned(), title: metric.title(), before, after, change }
    }
}

/// One unit's comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitVerdict {
    /// The input as the baseline names it.
    pub input: String,
    /// Its path.
    pub path: String,
    /// The architecture.
    pub arch: String,
    /// The ptxas it was recorded with.
    pub ptxas_before: Option<String>,
    /// The ptxas of this run.
    pub ptxas: Option<String>,
    /// The command that repeats it.
    pub command: Option<String>,
    /// Kernels with a figure that moved, or that are new.
    pub kernels: Vec<Comparison>,
}

/// How many of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Inputs times architectures times ptxas versions.
    pub units: u64,
    /// Kernels and device functions looked at.
    pub kernels: u64,
    /// Device functions among them.
    pub functions: u64,
    /// Kernels compared with their record.
    pub compared: u64,
    /// Kernels that fail.
    pub failed: u64,
    /// Kernels with a better figure and none worse.
    pub improved: u64,
    /// Kernels that are not recorded.
    pub new: u64,
    /// Recorded kernels that are gone.
    pub removed: u64,
    /// Kernels under another name.
    pub renamed: u64,
    /// What could not be told.
    pub errors: u64,
}

/// Everything the gate says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// [`GATE_SCHEMA`].
    pub schema: String,
    /// Pass, fail or error.
    pub outcome: Outcome,
    /// The baseline as the user names it.
    pub baseline: String,
    /// Every ptxas that ran and is not a managed one, by path.
    pub ptxas_files: Vec<PtxasFile>,
    /// Counts.
    pub totals: Totals,
    /// Everything found, the gravest of each unit first.
    pub findings: Vec<Finding>,
    /// Units with something to say.
    pub units: Vec<UnitVerdict>,
    /// The change of the baseline, as `git apply` takes it, if all of this is meant; null where it cannot be told.
    pub patch: Option<String>,
}

impl Verdict {
    /// The findings that make it fail.
    pub fn failures(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.level >= Level::Failure)
    }
}
