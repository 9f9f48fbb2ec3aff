//! What of all that is recorded a run is about.

use super::super::figures::{KernelFigures, Measured, UnitFigures};
use super::super::glob::Glob;
use crate::report::demangle;

/// What a run looked at, of all that may be recorded.
pub struct Scope<'a> {
    /// Only these kernels; none means all.
    pub kernels: &'a [Glob],
    /// Whether the inputs were named for this run alone: what is recorded beside them is none of its business.
    pub some_inputs: bool,
    /// Whether the architectures were.
    pub some_arches: bool,
    /// Whether the ptxas was.
    pub some_ptxas: bool,
    /// Whether an input, as the baseline names it, is still there.
    pub exists: &'a dyn Fn(&str) -> bool,
}

impl Scope<'_> {
    pub(in crate::gate) fn has(&self, kernel: &KernelFigures) -> bool {
        self.has_name(&kernel.name)
    }

    /// Whether a kernel of this name is looked at.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.kernels.is_empty() || {
            let demangled = demangle(name);
            let names = || std::iter::once(name).chain(demangled.as_deref());
            self.kernels.iter().any(|glob| names().any(|name| glob.matches(name)))
        }
    }

    /// Why a recorded unit that was not measured is not this run's business; none when it should have been there.
    pub(in crate::gate) fn excuse(&self, unit: &UnitFigures, measured: &[Measured]) -> Option<String> {
        let of_input: Vec<&UnitFigures> =
            measured.iter().map(|measured| &measured.unit).filter(|other| other.input == unit.input).collect();
        if of_input.is_empty() {
            let there = self.some_inputs && (self.exists)(&unit.input);
            return there.then(|| format!("{} was not among the inputs", unit.input));
        }
        if of_input.iter().all(|other| other.arch != unit.arch) {
            return self.some_arches.then(|| format!("{} was not checked for {}", unit.input, unit.arch));
        }
        let ptxas = unit.ptxas.as_deref().unwrap_or("of unknown version");
        self.some_ptxas.then(|| format!("{} was not checked for {} with ptxas {ptxas}", unit.input, unit.arch))
    }
}
