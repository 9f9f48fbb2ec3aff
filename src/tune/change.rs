//! One change: a flag of ptxas or an edit of the PTX's text; and a trial, which is some of them together.

use std::fmt;

use super::edit::Edit;

/// How much ptxas may give up to be done sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FastCompile {
    /// A little.
    Min,
    /// Expensive optimisations.
    Mid,
    /// Most of them.
    Max,
}

impl FastCompile {
    fn name(self) -> &'static str {
        match self {
            FastCompile::Min => "min",
            FastCompile::Mid => "mid",
            FastCompile::Max => "max",
        }
    }
}

/// A change that leaves what the kernel computes as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Change {
    /// `--maxrregcount=N`, above the directives of the PTX where this ptxas can.
    MaxRegisters(u32),
    /// `--register-usage-level=N`.
    RegisterUsageLevel(u32),
    /// `--opt-level=N`.
    OptLevel(u32),
    /// `--allow-expensive-optimizations=false`.
    NoExpensiveOptimizations,
    /// `--disable-optimizer-constants`.
    NoOptimizerConstants,
    /// `--Ofast-compile=…`.
    FastCompile(FastCompile),
    /// `--dont-merge-basicblocks`.
    KeepBlocks,
    /// `--apply-controls=FILE`, a file of the user's.
    Controls(String),
    /// An edit of the text.
    Edit(Edit),
}

/// What a change sets: two that set the same exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// How many registers there may be.
    Registers,
    /// How freely they are used.
    UsageLevel,
    /// How much is optimised.
    OptLevel,
    /// Whether expensive optimisations run.
    Expensive,
    /// Where the optimiser's constants lie.
    Constants,
    /// Whether blocks are merged.
    Blocks,
    /// The user's file of controls.
    Controls,
    /// Threads of a block, as directives have them.
    Threads,
    /// The budgets of setmaxnreg.
    Budgets,
    /// Where spilt registers go.
    SpillMemory,
    /// The loop that starts at this line.
    Loop(u32),
    /// The function that starts at this line.
    Function(u32),
    /// The order of instructions.
    Order,
    /// Where cheap values are computed.
    Recomputed,
}

/// The flag of ptxas 12.4 and later that puts flags above the directives of the PTX.
pub const OVERRIDE: &str = "--override-directive-values";

impl Change {
    /// What it sets.
    pub fn axis(&self) -> Axis {
        match self {
            Change::MaxRegisters(_) => Axis::Registers,
            Change::RegisterUsageLevel(_) => Axis::UsageLevel,
            Change::OptLevel(_) => Axis::OptLevel,
            Change::NoExpensiveOptimizations => Axis::Expensive,
            Change::NoOptimizerConstants => Axis::Constants,
            // It sets the level of optimisation, too: ptxas takes one of the two.
            Change::FastCompile(_) => Axis::OptLevel,
            Change::KeepBlocks => Axis::Blocks,
            Change::Controls(_) => Axis::Controls,
            Change::Edit(edit) => edit.axis(),
        }
    }

    /// Whether a build has one of the two at most: both set the same, or ptxas does not do the one with the other.
    pub fn excludes(&self, other: &Change) -> bool {
        let spills_fast =
            |one: &Change, two: &Change| matches!(one, Change::FastCompile(_)) && two.axis() == Axis::SpillMemory;
        self.axis() == other.axis() || spills_fast(self, other) || spills_fast(other, self)
    }

    /// As ptxas takes it; an edit has none. `overrides` says whether the PTX has directives that would rule.
    pub fn flags(&self, overrides: bool) -> Vec<String> {
        match self {
            Change::MaxRegisters(count) if overrides => {
                vec![format!("--maxrregcount={count}"), OVERRIDE.to_owned()]
            }
            Change::MaxRegisters(count) => vec![format!("--maxrregcount={count}")],
            Change::RegisterUsageLevel(level) => vec![format!("--register-usage-level={level}")],
            Change::OptLevel(level) => vec![format!("--opt-level={level}")],
            Change::NoExpensiveOptimizations => vec!["--allow-expensive-optimizations=false".to_owned()],
            Change::NoOptimizerConstants => vec!["--disable-optimizer-constants".to_owned()],
            Change::FastCompile(level) => vec![format!("--Ofast-compile={}", level.name())],
            Change::KeepBlocks => vec!["--dont-merge-basicblocks".to_owned()],
            Change::Controls(file) => vec![format!("--apply-controls={file}")],
            Change::Edit(_) => Vec::new(),
        }
    }

    /// The edit, if it is one.
    pub fn edit(&self) -> Option<&Edit> {
        match self {
            Change::Edit(edit) => Some(edit),
            _ => None,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Edit(edit) => edit.fmt(f),
            flag => f.write_str(flag.flags(false).first().map_or("", |flag| flag)),
        }
    }
}

/// What a trial is built with, in an order of its own, no two of the same axis.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Trial {
    /// Which of the asked ptxas.
    pub ptxas: usize,
    /// The changes.
    pub changes: Vec<Change>,
}

impl Trial {
    /// One change.
    pub fn single(change: Change) -> Self {
        Trial { ptxas: 0, changes: vec![change] }
    }

    /// With another change, in the place of one that sets the same.
    pub fn with(&self, change: Change) -> Self {
        let mut changes: Vec<Change> = self.changes.iter().filter(|other| !change.excludes(other)).cloned().collect();
        changes.push(change);
        changes.sort();
        Trial { ptxas: self.ptxas, changes }
    }

    /// The same without one of its changes.
    pub fn without(&self, at: usize) -> Self {
        let mut changes = self.changes.clone();
        if at < changes.len() {
            changes.remove(at);
        }
        Trial { ptxas: self.ptxas, changes }
    }

    /// Whether both can be made together.
    pub fn is_compatible(&self, other: &Trial) -> bool {
        self.ptxas == other.ptxas && self.changes.iter().all(|one| other.changes.iter().all(|two| !one.excludes(two)))
    }

    /// Both together.
    pub fn and(&self, other: &Trial) -> Self {
        other.changes.iter().fold(self.clone(), |trial, change| trial.with(change.clone()))
    }

    /// The flags for ptxas.
    pub fn flags(&self, overrides: bool) -> Vec<String> {
        self.changes.iter().flat_map(|change| change.flags(overrides)).collect()
    }

    /// The user's file of controls that it has, if any.
    pub fn controls(&self) -> Option<&str> {
        self.changes.iter().find_map(|change| match change {
            Change::Controls(file) => Some(file.as_str()),
            _ => None,
        })
    }

    /// The edits of the text.
    pub fn edits(&self) -> Vec<&Edit> {
        self.changes.iter().filter_map(Change::edit).collect()
    }

    /// Whether ptxas is told to spill to shared memory.
    pub fn spills_to_shared(&self) -> bool {
        self.changes.iter().any(|change| change.axis() == Axis::SpillMemory)
    }

    /// How much there is to explain: of two builds that are equal the simpler one is told.
    pub fn complexity(&self) -> usize {
        // A flag is easier to try than an edit.
        self.changes.iter().map(|change| if change.edit().is_some() { 3 } else { 2 }).sum::<usize>()
            + usize::from(self.ptxas > 0)
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, change) in self.changes.iter().enumerate() {
            write!(f, "{}{change}", if at > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_read_as_they_are_written() {
        for text in [
            "maxnreg=64",
            "minnctapersm=2",
            "maxntid=128",
            "setmaxnreg=40,232",
            "nounroll@12",
            "noinline@7",
            "spill-to-shared",
            "spill-to-shared=4096",
            "loads-late",
            "fewest-live",
            "recompute",
        ] {
            assert_eq!(text.parse::<Edit>().unwrap().to_string(), text);
        }
        for wrong in ["", "maxnreg", "maxnreg=x", "nounroll@", "unroll@3", "setmaxnreg=1,,2"] {
            assert!(wrong.parse::<Edit>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_trial_has_one_change_of_an_axis() {
        let one = Trial::single(Change::MaxRegisters(64));
        let two = one.with(Change::RegisterUsageLevel(0)).with(Change::Edit(Edit::MaxNReg(96)));
        assert_eq!(two.to_string(), "--register-usage-level=0 maxnreg=96");
        assert!(!one.is_compatible(&two));
        assert_eq!(one.and(&Trial::single(Change::OptLevel(1))).flags(true).len(), 3);
        let fast = Change::FastCompile(FastCompile::Max);
        assert_eq!(Trial::single(Change::OptLevel(1)).with(fast.clone()).to_string(), "--Ofast-compile=max");
        let shared = Trial::single(Change::Edit(Edit::SpillToShared));
        assert!(!shared.is_compatible(&Trial::single(fast.clone())));
        assert_eq!(shared.with(fast).to_string(), "--Ofast-compile=max");
    }
}
