//! Two units: kernel by kernel, every figure, every line.

use std::collections::HashMap;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::figures::{FigureChange, figure_changes};
use super::lines::{LineChange, Room, line_changes};
use super::loops::{LoopChange, loop_changes};
use super::pairing::{How, Matcher, without_hashes};
use super::sass::SassChange;
use crate::report::{Kernel, Unit, loop_figures};

/// The name and version of the JSON's shape.
pub const DIFF_SCHEMA: &str = "ptxinspect.diff/1";

/// What a side is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SideFacts {
    /// The input as the user named it.
    pub input: String,
    /// The architecture.
    pub arch: Option<String>,
    /// The version of the ptxas that made it.
    pub ptxas: Option<String>,
    /// The file of a ptxas that is not managed; null for one that is.
    pub ptxas_path: Option<String>,
    /// The flags ptxas was given.
    pub flags: Vec<String>,
}

impl SideFacts {
    /// Of a unit.
    pub fn of(unit: &Unit) -> Self {
        let made_by = unit.cubin.as_ref().and_then(|cubin| cubin.made_by.clone());
        SideFacts {
            input: unit.input.clone(),
            arch: unit.arch.clone(),
            ptxas: unit.ptxas.as_ref().and_then(|ptxas| ptxas.version.clone()).or(made_by),
            ptxas_path: unit.ptxas.as_ref().and_then(|ptxas| ptxas.path.clone()),
            flags: unit.ptxas.as_ref().map(|ptxas| ptxas.flags.clone()).unwrap_or_default(),
        }
    }
}

/// A figure that is not the same.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldChange {
    /// Its path in the report: `resources.registers`.
    pub field: String,
    /// Before.
    pub before: Value,
    /// After.
    pub after: Value,
}

/// A kernel that both sides have, or only one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelDifference {
    /// Its name; the new one where they differ.
    pub name: String,
    /// As its language spells it.
    pub demangled: Option<String>,
    /// The old name, where it is another.
    pub before_name: Option<String>,
    /// How the two were found to belong together; null where there is one alone.
    pub paired_by: Option<How>,
    /// The function whose section it is in, where that is another.
    #[serde(skip)]
    pub within: Option<String>,
    /// The same of the old one.
    #[serde(skip)]
    pub before_within: Option<String>,
    /// `both`, `before` or `after`: which side has it.
    pub side: &'static str,
    /// Findings that only the old one has, possible ones left out.
    pub findings_gone: Vec<String>,
    /// Findings that only the new one has, possible ones left out.
    pub findings_new: Vec<String>,
    /// The figures that people ask for first, those that stayed the same included.
    pub figures: Vec<FigureChange>,
    /// Cycles of the loops that both have: estimates.
    pub loops: Vec<LoopChange>,
    /// Figures that differ.
    pub fields: Vec<FieldChange>,
    /// Every line with code on either side; the JSON has those where live registers or spills moved, or that are new or gone.
    #[serde(serialize_with = "moved_lines")]
    pub lines: Vec<LineChange>,
    /// Whether its lines were not compared: the kernels' lines are all over the text, and it would have been too much.
    pub lines_left_out: bool,
    /// How the code differs; null where it was not compared.
    pub sass: Option<SassChange>,
    /// Whether the code differs and it would have been too much to work out how: `sass` is null then.
    pub sass_left_out: bool,
}

impl KernelDifference {
    /// Whether the two are alike in everything that was compared.
    pub fn is_empty(&self) -> bool {
        let code = self.sass.as_ref().is_some_and(SassChange::is_change);
        self.side == "both"
            && self.fields.is_empty()
            && !code
            && !self.sass_left_out
            && !self.lines_left_out
            && !self.lines.iter().any(LineChange::moved)
    }
}

/// Two units.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitDifference {
    /// One.
    pub before: SideFacts,
    /// The other.
    pub after: SideFacts,
    /// Messages of ptxas that only the old one has.
    pub advisories_gone: Vec<String>,
    /// Messages of ptxas that only the new one has.
    pub advisories_new: Vec<String>,
    /// Every kernel of either.
    pub kernels: Vec<KernelDifference>,
}

/// Everything a diff says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// [`DIFF_SCHEMA`].
    pub schema: String,
    /// Pairs of units.
    pub units: Vec<UnitDifference>,
    /// What the new one has no counterpart of.
    pub only_before: Vec<SideFacts>,
    /// What the old one has no counterpart of.
    pub only_after: Vec<SideFacts>,
}

fn moved_lines<S: Serializer>(lines: &[LineChange], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(lines.iter().filter(|line| line.moved()))
}

/// What stands for the code of a kernel: equal for equal code alone. None where it is not known.
pub type CodeOf<'a> = &'a dyn Fn(&Kernel) -> Option<[u8; 32]>;

/// Compares two units, code left out: the caller has the listings. Kernels whose names have changed are found again by their code.
pub fn differences(before: &Unit, after: &Unit, before_code: CodeOf<'_>, after_code: CodeOf<'_>) -> UnitDifference {
    let mut matcher = Matcher::new(before.kernels.len(), after.kernels.len());
    let exact = |kernel: &Kernel| Some((kernel.name.clone(), kernel.within.clone()));
    let keyed = |kernel: &Kernel| Some(without_hashes(kernel.demangled.as_deref().unwrap_or(&kernel.name)));
    matcher.join(How::Name, |at| exact(&before.kernels[at]), |at| exact(&after.kernels[at]));
    matcher.join(How::Hashes, |at| keyed(&before.kernels[at]), |at| keyed(&after.kernels[at]));
    let coded = |kernel: &Kernel, code: CodeOf<'_>| Some((code(kernel)?, kernel.within.is_some()));
    matcher.join(How::Code, |at| coded(&before.kernels[at], before_code), |at| coded(&after.kernels[at], after_code));
    // What is left over on both sides, if it is one each of a kind, is what the user means to compare.
    let kind = |kernel: &Kernel| Some(kernel.within.is_some());
    matcher.join(How::Renamed, |at| kind(&before.kernels[at]), |at| kind(&after.kernels[at]));
    let mut room = Room::of(&before.ptx, &after.ptx);
    let is_same_text = before.ptx == after.ptx;
    let mut pair = |old: Option<&Kernel>, new: Option<&Kernel>, how: How| {
        let shown = new.or(old)?;
        let lines = match old.zip(new) {
            None => Some(Vec::new()),
            Some((old, new)) if is_same_text && old.lines == new.lines && old.spills == new.spills => Some(Vec::new()),
            Some((old, new)) => line_changes((old, &before.ptx), (new, &after.ptx), &mut room),
        };
        Some(KernelDifference {
            name: shown.name.clone(),
            demangled: shown.demangled.clone(),
            before_name: old.filter(|old| old.name != shown.name).map(|old| old.name.clone()),
            paired_by: old.and(new).map(|_| how),
            within: shown.within.clone(),
            before_within: old.unwrap_or(shown).within.clone(),
            side: match (old, new) {
                (Some(_), Some(_)) => "both",
                (Some(_), None) => "before",
                _ => "after",
            },
            findings_gone: old.zip(new).map(|(old, new)| without(&found(old), &found(new))).unwrap_or_default(),
            findings_new: old.zip(new).map(|(old, new)| without(&found(new), &found(old))).unwrap_or_default(),
            figures: old.zip(new).map(|(old, new)| figure_changes(old, new)).unwrap_or_default(),
            loops: old
                .zip(new)
                .map(|(old, new)| loop_changes(&loop_figures(old), &loop_figures(new)))
                .unwrap_or_default(),
            fields: old.zip(new).map(|(old, new)| field_changes(old, new)).unwrap_or_default(),
            lines_left_out: lines.is_none(),
            lines: lines.unwrap_or_default(),
            sass: None,
            sass_left_out: false,
        })
    };
    let pairs = matcher.finish();
    let kernels = pairs.iter().filter_map(|found| {
        let (old, new) =
            (found.before.and_then(|at| before.kernels.get(at)), found.after.and_then(|at| after.kernels.get(at)));
        pair(old, new, found.how)
    });
    let said = |unit: &Unit| -> Vec<String> {
        let code = |code: &Option<String>| code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default();
        unit.advisories.iter().map(|advisory| format!("{}{}", code(&advisory.code), advisory.message)).collect()
    };
    let (old, new) = (said(before), said(after));
    UnitDifference {
        before: SideFacts::of(before),
        after: SideFacts::of(after),
        kernels: kernels.collect(),
        advisories_gone: without(&old, &new),
        advisories_new: without(&new, &old),
    }
}

/// What the checks found in a kernel; possible findings say little.
fn found(kernel: &Kernel) -> Vec<String> {
    let issues = kernel.barriers.iter().flat_map(|barriers| &barriers.issues).filter(|issue| issue.is_serious());
    issues.map(|issue| format!("{}: {}", issue.code, issue.message)).collect()
}

/// What the first has more of than the second.
fn without(these: &[String], those: &[String]) -> Vec<String> {
    let mut left: HashMap<&str, usize> = HashMap::new();
    for text in those {
        *left.entry(text).or_default() += 1;
    }
    let is_new = |text: &&String| match left.get_mut(text.as_str()).filter(|count| **count > 0) {
        Some(count) => {
            *count -= 1;
            false
        }
        None => true,
    };
    these.iter().filter(is_new).cloned().collect()
}

/// Fields that are places or lists of places: they move with every change, and the lines say it better.
const PLACES: [&str; 21] = [
    "name",
    "demangled",
    "lines",
    "source_lines",
    "inlined_lines",
    "unmapped_pcs",
    "spills",
    "live_at_peak",
    "attributes",
    "ptx_line",
    "source_line",
    "gap",
    "pc",
    "pcs",
    "profile",
    "explanation",
    "sites",
    "multiplications",
    "fragments_at",
    "memory",
    "costs",
];

/// Every figure of two kernels that is not the same, in the report's order.
pub fn field_changes(before: &Kernel, after: &Kernel) -> Vec<FieldChange> {
    let (Ok(before), Ok(after)) = (serde_json::to_value(before), serde_json::to_value(after)) else {
        return Vec::new();
    };
    let mut changes = Vec::new();
    compare("", &before, &after, &mut changes);
    changes
}

fn compare(path: &str, before: &Value, after: &Value, changes: &mut Vec<FieldChange>) {
    if before == after {
        return;
    }
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let keys = old.keys().chain(new.keys().filter(|key| !old.contains_key(*key)));
            for key in keys.filter(|key| !PLACES.contains(&key.as_str())) {
                let of = |side: &serde_json::Map<String, Value>| side.get(key).cloned().unwrap_or(Value::Null);
                compare(&below(key), &of(old), &of(new), changes);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.iter().chain(new).any(Value::is_object) => {
            for at in 0..old.len().max(new.len()) {
                let of = |side: &[Value]| side.get(at).cloned().unwrap_or(Value::Null);
                compare(&format!("{path}[{at}]"), &of(old), &of(new), changes);
            }
        }
        _ => changes.push(FieldChange { field: path.to_owned(), before: before.clone(), after: after.clone() }),
    }
}
