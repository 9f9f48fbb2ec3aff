//! What is compared: a unit's figures, as measured and as recorded.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::metric::Figures;
use crate::base::Line;
use crate::report::{
    Advisory, Confidence, Issue, Kernel, LaunchFact, LoopFigures, ProblemStage, PtxasFile, PtxasUsed, SetMaxNReg,
    Severity, Unit, abridge, demangle, hottest, loop_figures,
};

/// The figures of one input for one architecture and one ptxas: what the baseline holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitFigures {
    /// The input, relative to the baseline's folder, with `/`.
    pub input: String,
    /// `sm_90a`.
    pub arch: String,
    /// The version of the ptxas that made the code; none where nothing says.
    pub ptxas: Option<String>,
    /// The user's flags for ptxas.
    pub flags: Vec<String>,
    /// `sha256:…` of the input.
    pub source: Option<String>,
    /// How many lines of the log and parts of the cubin were not understood.
    pub not_understood: u64,
    /// ptxas's messages that name no kernel, counted by code.
    pub advisories: BTreeMap<String, u64>,
    /// By name.
    pub kernels: Vec<KernelFigures>,
}

/// The figures of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelFigures {
    /// As the cubin has it.
    pub name: String,
    /// The kernel in whose section a device function lives.
    pub within: Option<String>,
    /// The numbers.
    pub figures: Figures,
    /// Cycles of its loops, where they were asked for and are known.
    #[serde(default)]
    pub loops: Vec<LoopFigures>,
    /// What became of setmaxnreg, in words (`SETMAXNREG_UNKNOWN` where nothing tells); none for a kernel that has none.
    pub setmaxnreg: Option<String>,
    /// ptxas's messages about it, counted by code.
    pub advisories: BTreeMap<String, u64>,
    /// What the analyses complain about, counted by kind.
    pub findings: BTreeMap<String, u64>,
}

/// What is recorded of setmaxnreg where the code is not decoded.
pub(super) const SETMAXNREG_UNKNOWN: &str = "unknown";

/// What a run found out about one unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The figures.
    pub unit: UnitFigures,
    /// The path of the input, for annotations and for the command that repeats the run.
    pub path: String,
    /// Why there are none.
    pub error: Option<String>,
    /// The PTX line of the error.
    pub error_line: Option<Line>,
    /// ptxas's messages with their lines.
    pub messages: Vec<Advisory>,
    /// Where each kernel is, in the order of the figures.
    pub places: Vec<KernelPlace>,
    /// The ptxas that ran, where it is not a managed one.
    pub ptxas_file: Option<PtxasFile>,
}

/// Where a kernel is, and what in it is to be looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelPlace {
    /// The line of its `.entry`.
    pub ptx_line: Option<Line>,
    /// Where the most registers are alive.
    pub peak_line: Option<Line>,
    /// Where it spills most.
    pub spill_line: Option<Line>,
    /// Its first setmaxnreg.
    pub setmaxnreg_line: Option<Line>,
    /// Its hottest loop, where that is estimated.
    #[serde(default)]
    pub loop_line: Option<Line>,
    /// What the checks found in it, each with its line.
    pub issues: Vec<Issue>,
    /// What its occupancy lacks.
    pub missing: Vec<LaunchFact>,
}

/// The architecture of an input that none is known of.
pub const UNKNOWN_ARCH: &str = "unknown";
/// The longest name that a message has.
const TITLE: usize = 100;

/// A kernel's name for a message, of both its spellings.
pub(super) fn title([_, demangled]: &[String; 2]) -> String {
    abridge(demangled, TITLE).into_owned()
}

impl KernelFigures {
    /// Its name as the front end's language spells it.
    pub fn demangled(&self) -> String {
        demangle(&self.name).unwrap_or_else(|| self.name.clone())
    }

    /// That name, short enough for a message.
    pub fn title(&self) -> String {
        title(&self.names())
    }

    /// Both spellings.
    pub fn names(&self) -> [String; 2] {
        [self.name.clone(), self.demangled()]
    }

    fn of(kernel: &Kernel, unit: &Unit) -> Self {
        let about = |advisory: &&Advisory| advisory.kernel.as_deref() == Some(kernel.name.as_str());
        KernelFigures {
            name: kernel.name.clone(),
            within: kernel.within.clone(),
            figures: Figures::of(kernel),
            loops: loop_figures(kernel),
            setmaxnreg: kernel.setmaxnreg.as_ref().map(setmaxnreg),
            advisories: count(unit.advisories.iter().filter(about)),
            findings: issues(kernel).fold(BTreeMap::new(), |mut counts, issue| {
                *counts.entry(issue_label(issue)).or_default() += 1;
                counts
            }),
        }
    }
}

impl KernelPlace {
    fn of(kernel: &Kernel) -> Self {
        let mut spilling: BTreeMap<Line, usize> = BTreeMap::new();
        for line in kernel.spills.iter().flatten().filter_map(|spill| spill.ptx_line) {
            *spilling.entry(line).or_default() += 1;
        }
        let most = spilling.iter().rev().max_by_key(|(_, count)| **count);
        KernelPlace {
            ptx_line: kernel.ptx_line,
            peak_line: kernel.pressure.as_ref().and_then(|pressure| pressure.gpr.ptx_line),
            spill_line: most.map(|(line, _)| *line),
            setmaxnreg_line: kernel.setmaxnreg.iter().flat_map(|all| &all.requested).map(|one| one.ptx_line).next(),
            loop_line: kernel.costs.as_deref().and_then(hottest).and_then(|cost| cost.ptx_line),
            issues: issues(kernel).cloned().collect(),
            missing: kernel.occupancy.iter().flat_map(|found| &found.missing).copied().collect(),
        }
    }
}

impl Measured {
    /// Takes from a unit what the gate needs.
    pub fn new(unit: &Unit, name: String, flags: &[String], source: Option<String>) -> Self {
        let made_by = unit.cubin.as_ref().and_then(|cubin| cubin.made_by.as_deref());
        let version = match &unit.ptxas {
            Some(ptxas) => ptxas.version.clone(),
            None => made_by.map(|maker| maker.trim_start_matches("ptxas ").trim_start_matches("toolkit ").to_owned()),
        };
        let named = |advisory: &&Advisory| {
            advisory.kernel.as_deref().is_some_and(|name| unit.kernels.iter().any(|kernel| kernel.name == name))
        };
        let mut kernels: Vec<(KernelFigures, KernelPlace)> =
            unit.kernels.iter().map(|kernel| (KernelFigures::of(kernel, unit), KernelPlace::of(kernel))).collect();
        kernels.sort_by(|(a, _), (b, _)| (&a.name, &a.within).cmp(&(&b.name, &b.within)));
        let grave = unit.problems.iter().filter(|problem| problem.stage != ProblemStage::Ptx).count();
        let error = unit.error.as_ref().map(|error| {
            let first = error.diagnostics.first().map(|first| format!(": {}", first.message)).unwrap_or_default();
            format!("{}{first}", error.message)
        });
        let (kernels, places) = kernels.into_iter().unzip();
        Measured {
            path: unit.input.clone(),
            error,
            error_line: unit.error.as_ref().and_then(|error| error.diagnostics.first()?.ptx_line),
            messages: unit.advisories.clone(),
            places,
            ptxas_file: unit.ptxas.as_ref().and_then(PtxasUsed::file),
            unit: UnitFigures {
                input: name,
                arch: unit.arch.clone().unwrap_or_else(|| UNKNOWN_ARCH.to_owned()),
                ptxas: version,
                flags: if unit.ptxas.is_some() { flags.to_vec() } else { Vec::new() },
                source,
                not_understood: (grave + unit.unparsed_log.len()) as u64,
                advisories: count(unit.advisories.iter().filter(|advisory| !named(advisory))),
                kernels,
            },
        }
    }
}

/// What a message is counted under: its code, or `warning`; plain remarks are not counted.
pub fn label_of(advisory: &Advisory) -> Option<&str> {
    match &advisory.code {
        Some(code) => Some(code),
        None => (advisory.severity >= Severity::Warning).then_some("warning"),
    }
}

fn count<'a>(advisories: impl Iterator<Item = &'a Advisory>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for label in advisories.filter_map(label_of) {
        *counts.entry(label.to_owned()).or_default() += 1;
    }
    counts
}

fn issues(kernel: &Kernel) -> impl Iterator<Item = &Issue> {
    kernel.barriers.iter().flat_map(|barriers| &barriers.issues)
}

/// What a finding is counted under: its code, and whether it only may be one, for that one gets surer is news.
pub(super) fn issue_label(issue: &Issue) -> String {
    match issue.confidence {
        Confidence::Possible => format!("{} possible", issue.code),
        Confidence::Likely | Confidence::Certain => issue.code.clone(),
    }
}

/// `honoured`, `dropped` and the pool's verdict.
fn setmaxnreg(of: &SetMaxNReg) -> String {
    let honoured = match of.honoured {
        Some(true) => "honoured",
        Some(false) => "dropped",
        None => return SETMAXNREG_UNKNOWN.to_owned(),
    };
    match &of.pool {
        Some(pool) => format!("{honoured}, pool {}", pool.verdict),
        None => honoured.to_owned(),
    }
}
