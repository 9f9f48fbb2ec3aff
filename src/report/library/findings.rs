//! What is wrong with the kernels of a cubin: what its report says, in few words.

use std::collections::HashMap;

use serde::Serialize;

use super::row::Beside;
use crate::base::work::{self, Deadline};
use crate::cubin::Image;
use crate::cubin::lines::LineTable;
use crate::report::{Costs, Facts, Kernel, Severity, Unit, Wanted, join};

/// Findings of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowFinding {
    /// `PI203`, `C7508`: see `ptxinspect explain`; null for what ptxas says without one.
    pub code: Option<String>,
    /// How bad it is.
    pub severity: Severity,
    /// How many there are.
    pub count: u64,
}

/// What a report needs of a cubin to tell what is wrong with it, and nothing else.
const WANTED: Wanted = Wanted { live_values: false, warps: true, timelines: false, costs: Costs::None };

/// The serious ones of each kernel that was checked, the worst first: what a report would show first. None is there without PTX, or where it
/// would take most of the time that the cubin has.
pub(super) fn findings(image: &Image<'_>, beside: Beside<'_>) -> HashMap<String, Vec<RowFinding>> {
    if beside.module.is_none() {
        return HashMap::new();
    }
    let deadline = work::deadline().left().map_or(Deadline::NEVER, |left| Deadline::after(left / 2));
    let facts = Facts {
        image,
        lines: &LineTable::parse(image),
        codes: None,
        log: beside.log,
        module: beside.module,
        flags: &[],
        launch: beside.launch,
        at: &[],
        roles: &[],
        evaluated: None,
        wanted: WANTED,
    };
    let mut unit = Unit::default();
    if work::until(deadline, || join(&facts, &mut unit)).is_err() {
        return HashMap::new();
    }
    // Null where nobody could execute it.
    let checked = unit.kernels.iter().filter(|kernel| kernel.barriers.is_some());
    checked.map(|kernel| (kernel.name.clone(), of(kernel, &unit))).collect()
}

fn of(kernel: &Kernel, unit: &Unit) -> Vec<RowFinding> {
    let issues = kernel.barriers.iter().flat_map(|found| &found.issues).filter(|issue| issue.is_serious());
    let issues = issues.map(|issue| (Some(issue.code.as_str()), issue.severity));
    let about = |name: Option<&str>| name == Some(kernel.name.as_str());
    let said = unit.advisories.iter().filter(|said| about(said.kernel.as_deref()) && said.is_serious());
    let said = said.map(|said| (said.code.as_deref(), said.severity));
    let mut found: Vec<RowFinding> = Vec::new();
    for (code, severity) in issues.chain(said) {
        match found.iter_mut().find(|known| known.code.as_deref() == code && known.severity == severity) {
            Some(known) => known.count += 1,
            None => found.push(RowFinding { code: code.map(str::to_owned), severity, count: 1 }),
        }
    }
    found.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.code.cmp(&b.code)));
    found
}
