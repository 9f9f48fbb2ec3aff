//! What a tuning says: every field is the JSON's (`docs/schema/tune-v1.schema.json`).

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Aim, Suggestion, Trial, TrialFigures};
use crate::base::Line;

/// The name and version of the JSON's shape.
pub const TUNE_SCHEMA: &str = "ptxinspect.tune/1";

/// Why a trial gave no build that could be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The edit's condition does not hold.
    Condition,
    /// ptxas refuses it.
    Ptxas,
    /// No block of it fits on an SM.
    Unlaunchable,
    /// Its barriers, executed, do not end, or nobody can tell, though they did before.
    Barriers,
    /// ptxas drops its setmaxnreg, which it keeps in the kernel as it is.
    #[serde(rename = "setmaxnreg")]
    SetMaxNReg,
    /// It could not be tried: time, or a tool that failed.
    Failed,
}

impl Reason {
    /// As the middle of a sentence: "12 …".
    pub fn words(self) -> &'static str {
        match self {
            Reason::Condition => "could not be edited so",
            Reason::Ptxas => "are refused by ptxas",
            Reason::Unlaunchable => "could not be launched: no block fits on an SM",
            Reason::Barriers => "might hang: their barriers, executed, do not all end",
            Reason::SetMaxNReg => "lose their setmaxnreg: ptxas drops it",
            Reason::Failed => "could not be tried",
        }
    }
}

/// What became of a trial.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It was built.
    Built {
        /// Its figures.
        figures: Box<TrialFigures>,
        /// `sha256:…` of its code.
        code: String,
    },
    /// It cannot be used.
    Refused {
        /// Why.
        reason: Reason,
        /// In the words of whoever refused it.
        message: String,
    },
}

/// A trial and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tried {
    /// When it was tried: 0 is the kernel as it is.
    pub number: usize,
    /// What it is.
    pub trial: Trial,
    /// What became of it.
    pub outcome: Outcome,
}

impl Tried {
    /// Its figures; none where it was not built.
    pub fn figures(&self) -> Option<&TrialFigures> {
        match &self.outcome {
            Outcome::Built { figures, .. } => Some(figures),
            Outcome::Refused { .. } => None,
        }
    }

    /// The digest of its code.
    pub fn code(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Built { code, .. } => Some(code),
            Outcome::Refused { .. } => None,
        }
    }
}

/// One row of the table: a build that no other beats.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its number in the table; 0 is the kernel as it is.
    pub row: usize,
    /// Its changes, as `--apply` and ptxas take them; empty for the kernel as it is.
    pub changes: Vec<String>,
    /// The version of the ptxas that built it.
    pub ptxas: String,
    /// Flags for ptxas, beside those that were given.
    pub flags: Vec<String>,
    /// Edits of the PTX, as `--apply` takes them.
    pub edits: Vec<String>,
    /// What they do, for people.
    pub edits_in_words: Vec<String>,
    /// What it needs.
    pub figures: TrialFigures,
    /// `sha256:…` of its code: the same commands make the same bytes.
    pub code: String,
    /// The command lines that make it, one after the other.
    pub commands: Vec<String>,
    /// The edits as a unified diff of the PTX; null without edits.
    pub patch: Option<String>,
}

/// The best build for an aim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AimAnswer {
    /// The aim.
    pub aim: Aim,
    /// Whether the kernel has it as it is; null where that is not known.
    pub is_met: Option<bool>,
    /// The row; null where nothing that was tried reaches it.
    pub row: Option<usize>,
    /// The row that comes closest, where none reaches it and one comes closer than the kernel as it is.
    pub closest: Option<usize>,
    /// For least cycles: other rows that the estimate cannot tell from it, the kernel as it is among them.
    pub equal: Vec<usize>,
}

/// How many trials were made of what.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Refusals {
    /// By reason.
    pub count: BTreeMap<Reason, usize>,
    /// The first message of each reason.
    pub first: BTreeMap<Reason, String>,
}

/// A value that is alive where the most registers are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Holder {
    /// How many registers it takes.
    pub registers: usize,
    /// The PTX registers.
    pub virtual_registers: Vec<String>,
    /// Where it is made.
    pub ptx_line: Option<Line>,
    /// Its next use after the peak.
    pub next_use_ptx_line: Option<Line>,
    /// What could shorten it: `reload` or `recompute`.
    pub could: Option<String>,
}

/// Why there are so many registers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Why {
    /// The most that are live at once.
    pub peak_live: Option<u32>,
    /// Where.
    pub peak_ptx_line: Option<Line>,
    /// What bounds them, with the arithmetic.
    pub cap: Option<String>,
    /// Why more are allocated than are ever live.
    pub gap: Vec<String>,
    /// Who holds them at the peak, the most registers first.
    pub holders: Vec<Holder>,
    /// The single edit of the text that lowers the peak most, by building it; null where none does.
    pub frees_most: Option<Frees>,
}

/// An edit and what it frees.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frees {
    /// The change.
    pub change: String,
    /// What it does, for people.
    pub words: String,
    /// The most live registers with it.
    pub peak_live: u32,
}

/// One kernel tuned.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tuned {
    /// The input as the user named it.
    pub input: String,
    /// As the cubin names it.
    pub kernel: String,
    /// The architecture.
    pub arch: String,
    /// Whether its file has other kernels, so that every row builds this one alone, with `--entry` among its flags.
    pub is_alone: bool,
    /// Trials that were made, the kernel as it is included.
    pub runs: usize,
    /// How many different codes they gave.
    pub different: usize,
    /// Whether there were more to try when the budget was spent.
    pub is_cut: bool,
    /// What was tried, by kind: how many trials have it.
    pub tried: BTreeMap<String, usize>,
    /// Trials that gave nothing that could be used.
    pub refused: Refusals,
    /// The kernel as it is, then the builds that no other beats.
    pub rows: Vec<Row>,
    /// Builds that no other beats, for which the table has no room.
    pub rows_left_out: usize,
    /// The best for each aim.
    pub best: Vec<AimAnswer>,
    /// Why there are so many registers.
    pub why: Why,
    /// What was not tried, for its condition cannot be checked.
    pub suggestions: Vec<Suggestion>,
    /// Why there are no estimates of cycles; null where there are.
    pub no_cycles: Option<String>,
    /// What only the launch knows and nobody said: `--threads`, `--smem-dynamic`.
    pub missing: Vec<String>,
}

/// Everything that a tuning says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tuning {
    /// [`TUNE_SCHEMA`].
    pub schema: String,
    /// In the order of the inputs.
    pub kernels: Vec<Tuned>,
}

impl Tuning {
    /// A tuning of these kernels.
    pub fn new(kernels: Vec<Tuned>) -> Self {
        Tuning { schema: TUNE_SCHEMA.to_owned(), kernels }
    }
}
