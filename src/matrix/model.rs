//! The table: what every cell gave.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use crate::gate::{Figures, Metric};
use crate::report::{Kernel, LaunchFact};

/// The name and version of the JSON's shape.
pub const MATRIX_SCHEMA: &str = "ptxinspect.matrix/1";

/// One input, one architecture, one ptxas, one setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The input as the user named it.
    pub input: String,
    /// The architecture.
    pub arch: String,
    /// The version of the ptxas, or what was asked for where it could not be had.
    pub ptxas: String,
    /// The file of a ptxas that is not managed; null for one that is.
    pub ptxas_path: Option<String>,
    /// The swept flags: `maxrregcount=64`.
    pub setting: String,
    /// Whether ptxas was told to let them rule over the directives of the PTX.
    pub overrides: bool,
    /// Why there are no figures; null when there are.
    pub error: Option<String>,
    /// Whether it is not ptxas that said no: nothing is known of the cell then.
    #[serde(skip)]
    pub failed: bool,
    /// The ptxas as the user asked for it, to make the cell again; none stands for the one at hand.
    #[serde(skip)]
    pub asked: Option<String>,
    /// The flags that make it, beside those that all cells have.
    #[serde(skip)]
    pub flags: Vec<String>,
    /// What it gave, by kernel.
    pub kernels: Vec<CellKernel>,
}

/// A kernel's figures in a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellKernel {
    /// As the cubin names it.
    pub name: String,
    /// By metric; null where not known.
    pub figures: BTreeMap<&'static str, Option<u64>>,
    /// What its occupancy lacks: figures that only the launch knows.
    pub missing: Vec<LaunchFact>,
    /// The directive that ruled over the swept flags, which did nothing then; null where none did.
    pub ruled_by: Option<String>,
    /// What ptxas says of it, each once: `C7508: Potential Performance Loss: …`.
    pub advisories: Vec<String>,
}

impl CellKernel {
    /// From a kernel's figures.
    pub fn new(kernel: &Kernel) -> Self {
        CellKernel {
            name: kernel.name.clone(),
            figures: Figures::of(kernel).iter().map(|(metric, value)| (metric.name(), value)).collect(),
            missing: kernel.occupancy.iter().flat_map(|found| &found.missing).copied().collect(),
            ruled_by: None,
            advisories: Vec::new(),
        }
    }

    /// One of them.
    pub fn get(&self, metric: Metric) -> Option<u64> {
        self.figures.get(metric.name()).copied().flatten()
    }
}

/// Where a kernel's figure changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelBisection {
    /// The input as the user named it.
    pub input: String,
    /// The architecture.
    pub arch: String,
    /// The swept flags.
    pub setting: String,
    /// As the cubin names it.
    pub kernel: String,
    /// What was asked about.
    pub metric: String,
    /// The oldest version that has the figure.
    pub last_old: Option<String>,
    /// The first version in which it is another; null where it did not change.
    pub first_new: Option<String>,
    /// The old figure.
    pub before: Option<u64>,
    /// The new one.
    pub after: Option<u64>,
    /// How many versions were run.
    pub runs: usize,
    /// Of how many.
    pub versions: usize,
}

/// A figure that two releases that follow one another do not agree on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VersionChange {
    /// The kernel.
    pub kernel: String,
    /// The architecture.
    pub arch: String,
    /// The swept flags.
    pub setting: String,
    /// The older version.
    pub from: String,
    /// The newer one.
    pub to: String,
    /// Which.
    pub metric: String,
    /// In the older one.
    pub before: u64,
    /// In the newer one.
    pub after: u64,
}

/// Everything a matrix says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Matrix {
    /// [`MATRIX_SCHEMA`].
    pub schema: String,
    /// In the order they were asked for.
    pub cells: Vec<Cell>,
    /// What changed from one ptxas to the next.
    pub changes: Vec<VersionChange>,
    /// Where figures changed, when that was asked.
    pub bisections: Vec<KernelBisection>,
}

impl Matrix {
    /// A matrix of these cells.
    pub fn new(cells: Vec<Cell>, bisections: Vec<KernelBisection>) -> Self {
        Matrix { schema: MATRIX_SCHEMA.to_owned(), changes: changes(&cells), cells, bisections }
    }

    /// Every kernel with its input, in the order they come.
    pub fn kernels(&self) -> Vec<(&str, &str)> {
        let mut seen = HashSet::new();
        let names = self.cells.iter().flat_map(|cell| cell.kernels.iter().map(|kernel| (&*cell.input, &*kernel.name)));
        names.filter(|name| seen.insert(*name)).collect()
    }
}

/// What changed between cells that differ in their ptxas alone, in the order the versions were given.
fn changes(cells: &[Cell]) -> Vec<VersionChange> {
    let mut rows: Vec<Vec<&Cell>> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.error.is_none()) {
        let same =
            |other: &&&Cell| (&other.input, &other.arch, &other.setting) == (&cell.input, &cell.arch, &cell.setting);
        match rows.iter_mut().find(|row| row.first().as_ref().is_some_and(same)) {
            Some(row) => row.push(cell),
            None => rows.push(vec![cell]),
        }
    }
    let mut changes = Vec::new();
    for two in rows.iter().flat_map(|row| row.windows(2)) {
        let [old, new] = two else { continue };
        for kernel in &new.kernels {
            let Some(was) = old.kernels.iter().find(|other| other.name == kernel.name) else { continue };
            for metric in Metric::ALL {
                if let (Some(before), Some(after)) = (was.get(metric), kernel.get(metric))
                    && before != after
                {
                    changes.push(VersionChange {
                        kernel: kernel.name.clone(),
                        arch: new.arch.clone(),
                        setting: new.setting.clone(),
                        from: old.ptxas.clone(),
                        to: new.ptxas.clone(),
                        metric: metric.name().to_owned(),
                        before,
                        after,
                    });
                }
            }
        }
    }
    changes
}
